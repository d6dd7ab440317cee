"""x/s by `quotient.divided`: correctly rounded, of hard cases by number theory and of many others.

Below 2^-33 the quotient may be one last place off; there the test says that nothing made of it differs.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from intnet.exact.blocks import bucket_loops as loops
from intnet.exact.blocks import quotient
from intnet.machine.jit import njit

F32 = np.float32


def quotients(x: np.ndarray, s: np.ndarray, out: np.ndarray) -> None:
    for i in range(x.size):
        k, t, inverse = quotient.near_one(s[i])
        out[i] = quotient.divided(x[i] * k, t, inverse)


compiled = njit(quotients)
affine_codes, inner_codes = njit(loops._affine_codes), njit(loops._inner_codes)


def computed(x: np.ndarray, s: np.ndarray, loop: Callable[..., None] = compiled) -> np.ndarray:
    out = np.empty_like(x)
    loop(x, s, out)
    return out


def nearest(value: Fraction) -> F32:
    """The float32 nearest a fraction of at least 1/4, of which none lies in the middle of two."""
    e = 0
    while value >= Fraction(2) ** (e + 1):
        e += 1
    while value < Fraction(2) ** e:
        e -= 1
    steps = value / Fraction(2) ** (e - 23)
    down = steps.numerator // steps.denominator
    assert steps - down != Fraction(1, 2)
    return F32(np.ldexp(down + (steps - down > Fraction(1, 2)), e - 23))


def hard(seed: int, n: int) -> tuple[list[int], list[int]]:
    """Integers X, odd S with X * 2^25 = S * M +- 1: X/S lies next to M, the middle of two float32."""
    source = np.random.default_rng(seed)
    above, below = [], []
    for s in (source.integers(2**22, 2**23, n) * 2 + 1).tolist():
        inverse = pow(s, -1, 2**25)
        for sign in (1, -1):
            m = -sign * inverse % 2**25
            if m >= 2**24:
                above.append((s * m + sign) >> 25)
                below.append(s)
    return above, below


@pytest.mark.slow
@pytest.mark.parametrize("exponent", [-149, -126, -60, 0, 60, 103])
def test_next_to_the_middle_of_two(exponent: int) -> None:
    """S up to the largest exponent; subnormal where S has the bits for it."""
    next_to_the_middle(exponent, 300)


def next_to_the_middle(exponent: int, n: int, loop: Callable[..., None] = compiled) -> None:
    numerators, denominators = hard(exponent & 0xFF, n)
    assert len(numerators) > n // 2
    expected = np.array([nearest(Fraction(x, s)) for x, s in zip(numerators, denominators, strict=True)])
    x, s = (np.ldexp(np.array(v, np.float64), exponent).astype(F32) for v in (numerators, denominators))
    assert np.array_equal(computed(x, s, loop), expected)
    assert np.array_equal(computed(-x, s, loop), -expected)
    assert np.array_equal(x / s, expected)  # the machine's division agrees


def test_the_last_significands() -> None:
    """X and S from 2^24 - 64: where the first guess of a quotient is off by about one last place."""
    last = np.arange(2**24 - 64, 2**24)
    x, s = (v.ravel().astype(F32) for v in np.meshgrid(last, last))
    expected = [nearest(Fraction(int(a), int(b))) for a, b in zip(x, s, strict=True)]
    assert np.array_equal(computed(x, s), np.array(expected))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_as_the_division(seed: int) -> None:
    """Significands and exponents of every kind: x up to 2^60 from s, quotients from 2^-33 on."""
    source, n = np.random.default_rng(seed), 1 << 19
    s = np.ldexp(source.integers(2**23, 2**24, n), source.integers(-149, 104, n))
    s[::7] = np.ldexp(source.integers(1, 2**23, s[::7].size), -149)  # subnormal
    s[1::7] = np.ldexp(2.0**24 - source.integers(1, 4, s[1::7].size), -30)  # just below a power of two
    x = s * np.ldexp(source.integers(2**23, 2**24, n), source.integers(-56, 37, n))
    s, x = s.astype(F32), np.clip(x, -(2.0**127), 2.0**127).astype(F32)
    x *= np.where(source.integers(0, 2, n) == 0, F32(1), F32(-1))
    expected = x / s
    seen = np.abs(expected) >= F32(2.0**-33)
    assert seen.mean() > 0.9
    assert np.array_equal(computed(x, s)[seen], expected[seen])


@pytest.mark.parametrize("s", [2.0**-149, 3e-40, 1e-3, 1.0, 1e30, 3.4e38])
@pytest.mark.parametrize("z", [0, 1, -1, 3, 255])
def test_tiny_quotients_make_the_same_codes(s: float, z: int) -> None:
    """What is made of a quotient below 2^-33, or 0, of either sign: u rounded, its floor, its fraction."""
    x = np.ldexp(np.random.default_rng(1).integers(1, 2**24, 4000).astype(np.float64), -34 - 24).astype(F32)
    x = np.concatenate([x, x * F32(2.0**-60), x * F32(2.0**-91), np.zeros(2, F32)]) * F32(s)
    x = np.concatenate([x, -x])
    u, expected = computed(x, np.full_like(x, s)) + F32(z), x / F32(s) + F32(z)
    assert np.array_equal(np.rint(u), np.rint(expected))
    assert np.array_equal(np.floor(u), np.floor(expected))
    parts = [np.floor((v - np.floor(v)).astype(F32) * F32(2.0**32)) for v in (u, expected)]
    assert np.array_equal(*parts)


@pytest.mark.parametrize("bits", range(1, 9))
def test_inner_codes_are_those_that_would_not_be_clipped(bits: int) -> None:
    """Of buckets whose extremes round inside: the loop that looks at every code finds none to clip."""
    source, inside = np.random.default_rng(bits), 0
    for _ in range(300):
        x = (source.standard_normal(64) * 10.0 ** source.integers(-3, 3) + source.integers(-2, 3)).astype(F32)
        scales, zeros = np.zeros(1, F32), np.zeros(1, F32)
        state, inner = loops.measure(x, loops.AFFINE, bits, 0, 0, scales, zeros, 0)
        codes, others = np.empty(64, np.uint8), np.empty(64, np.uint8)
        clipped = affine_codes(x, scales[0], zeros[0], bits, np.empty(0, np.uint32), codes)
        assert state == loops.FINITE and inner == (clipped == 0)
        if inner:
            inside += 1
            inner_codes(x, scales[0], zeros[0], others)
            assert np.array_equal(codes, others)
    assert inside > 100
