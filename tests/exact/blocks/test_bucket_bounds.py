"""Bucketed codecs: unbiasedness by enumeration of the random words, and how far a~ may be from a.

Words go into the scalar rules and loops of a piece (`bucket_loops`); that `encode` runs these with the
words of `numbers/rng.py` is `test_bucket_codec`.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intnet.exact.blocks import bucket_loops as loops
from intnet.exact.blocks.buckets import Codec, encode
from intnet.machine.jit import njit
from tests.support.bucket_cases import DRAWN, VALUES, units

ALL = 1 << 32  # random words
LOW = (0, 0xFFFFFF)  # the low 24 bits of a word, least and greatest


@cache
def compiled(rule: Any) -> Any:
    """A rule as kernels have it; as it is where a fault was put into its source."""
    return njit(rule) if rule.__globals__ is vars(loops) else rule


def affine_codes(x: np.ndarray, s: Any, z: Any, bits: int, words: np.ndarray) -> tuple[np.ndarray, int]:
    """(codes, clipped) as the codec's loops make them."""
    s, z = np.float32(s), np.float32(z)
    if bits <= 8:
        small = np.empty(x.size, np.uint8)
        return small, int(compiled(loops._affine_codes)(x, s, z, bits, words, small))
    wide = np.empty(x.size, np.uint64)
    return wide, int(compiled(loops._wide_codes)(x, s, z, bits, words, wide))


def affine_values(codes: np.ndarray, s: Any, z: Any) -> np.ndarray:
    out = np.empty(codes.size, np.float32)
    compiled(loops._affine_values)(codes, s, z, out)
    return out


def level_codes(x: np.ndarray, scale: Any, bits: int, words: np.ndarray) -> np.ndarray:
    codes = np.empty(x.size, np.uint8 if bits <= 6 else np.uint64)
    compiled(loops._level_codes)(x, scale, 1 << bits, words, codes)
    return codes


def level_values(codes: np.ndarray, scale: Any, bits: int) -> np.ndarray:
    out = np.empty(codes.size, np.float32)
    compiled(loops._level_values)(codes, scale, 1 << bits, out)
    return out


def in_units(x: np.ndarray, unit: float) -> np.ndarray:
    """x / unit as int64; unit is a power of two, and every x a multiple."""
    exact = x.astype(np.float64) / unit
    assert np.all(exact == np.rint(exact)) and np.all(np.abs(exact) < 2**52)
    return exact.astype(np.int64)


# -- no bias -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("low", LOW)
@pytest.mark.parametrize("exponent", [-130, -7, 0, 90])
@pytest.mark.parametrize("bits", range(1, 17))
def test_affine_has_no_bias(bits: int, exponent: int, low: int) -> None:
    """s = 2^exponent, fractions of 8 bits: over all top bytes of the word the mean of a~ is a, exactly.

    In units of s/256 a fraction k goes up k times of 256, by 256 - k, and down 256 - k times, by k: the
    mean of the squares is k(256 - k) <= 128^2 = s^2/4.
    """
    source = np.random.default_rng(bits)
    top, z = 2**bits - 1, int(source.integers(0, 2**bits))
    u = source.integers(0, 256 * top + 1, 60)
    u[0], u[-1] = 0, 256 * top
    x = np.ldexp(u - 256.0 * z, exponent - 8).astype(np.float32)
    s, zero = compiled(loops.affine_step)(x.min(), x.max(), bits)
    assert float(s) == 2.0**exponent and float(zero) == z
    total, squares = np.zeros(60, np.int64), np.zeros(60, np.int64)
    for byte in range(256):
        codes, clipped = affine_codes(x, s, zero, bits, np.full(60, byte << 24 | low, np.uint32))
        error = in_units(affine_values(codes, s, zero), 2.0 ** (exponent - 8)) - (u - 256 * z)
        assert np.abs(error).max() < 256 and clipped == 0
        total += error
        squares += error**2
    assert not total.any()
    assert squares.tolist() == (256 * (u % 256) * (256 - u % 256)).tolist()
    assert squares.max() <= 256 * 128**2


@pytest.mark.parametrize("low", LOW)
@pytest.mark.parametrize("bits", range(1, 15))
def test_levels_have_no_bias(bits: int, low: int) -> None:
    """scale = 2^3: of both signs, and from 0 to the scale itself; units are scale/L/256."""
    source = np.random.default_rng(bits)
    u = source.integers(-(256 << bits), (256 << bits) + 1, 60)
    u[0], u[1] = 256 << bits, 0
    x = np.ldexp(u.astype(np.float64), 3 - bits - 8).astype(np.float32)
    scale = np.float32(8)
    total, squares = np.zeros(60, np.int64), np.zeros(60, np.int64)
    for byte in range(256):
        codes = level_codes(x, scale, bits, np.full(60, byte << 24 | low, np.uint32))
        error = in_units(level_values(codes, scale, bits), 2.0 ** (3 - bits - 8)) - u
        assert np.abs(error).max() < 256
        total += error
        squares += error**2
    assert not total.any()
    assert squares.tolist() == (256 * (np.abs(u) % 256) * (256 - np.abs(u) % 256)).tolist()


def going_up(goes: Any, n: int) -> np.ndarray:
    """How many of all 2^32 words let each of n elements go up: they are the least ones; by bisection."""
    low, high = np.zeros(n, np.int64), np.full(n, ALL)
    while np.any(low < high):
        middle = (low + high) // 2
        up = goes(np.minimum(middle, ALL - 1).astype(np.uint32)) & (low < high)
        low, high = np.where(up, middle + 1, low), np.where(up, high, np.minimum(high, middle))
    source = np.random.default_rng(1)
    for _ in range(8):  # on both sides of the border, and anywhere
        for drawn in (low - 1, low, low + 1, source.integers(0, ALL, n), source.integers(0, low + 1)):
            words = np.clip(drawn, 0, ALL - 1)
            assert goes(words.astype(np.uint32)).tolist() == (words < low).tolist()
    return low


def any_u(top: int) -> np.ndarray:
    """float32 from 0 to below `top`, of every exponent, with integers and their neighbours."""
    source = np.random.default_rng(top)
    greatest = int(np.float32(top).view(np.uint32))
    bits = source.integers(0, greatest, 1500, dtype=np.uint32)
    bits[:500] = source.uniform(0.1, top * (1 - 2**-20), 500).astype(np.float32).view(np.uint32)
    whole = np.arange(1, top, max(top // 64, 1)).astype(np.float32)
    near = [np.nextafter(whole, np.float32(0)), whole, np.nextafter(whole, np.float32(2**30))]
    return np.concatenate([bits.view(np.float32), *near])


def counts(u: np.ndarray) -> list[int]:
    """floor(frac(u) * 2^32), in exact numbers."""
    fractions = [Fraction(v) % 1 for v in u.tolist()]
    expected = [int(f * ALL) for f in fractions]
    assert all(0 <= f - Fraction(n, ALL) < Fraction(1, ALL) for f, n in zip(fractions, expected, strict=True))
    return expected


@pytest.mark.parametrize("bits", [3, 8, 9, 24])
def test_words_that_let_affine_codes_go_up(bits: int) -> None:
    """For any u where nothing clips: exactly floor(frac(u) * 2^32), so 0 <= a - mean(a~) < 2^-32 s."""
    u = any_u(2**bits - 1)
    floor = np.floor(u).astype(np.int64)
    one, none = np.float32(1), np.float32(0)

    def goes(words: np.ndarray) -> np.ndarray:
        codes, clipped = affine_codes(u, one, none, bits, words)
        up = codes.astype(np.int64) - floor
        assert clipped == 0 and set(up.tolist()) <= {0, 1}
        return up == 1

    assert going_up(goes, u.size).tolist() == counts(u)


@pytest.mark.slow
@pytest.mark.parametrize("bits", [1, 6, 7, 23])
def test_words_that_let_levels_go_up(bits: int) -> None:
    u = any_u(2**bits)
    x = np.ldexp(u, -bits).astype(np.float32)
    u = np.ldexp(x.astype(np.float64), bits)  # a subnormal x has lost digits of u
    floor = np.floor(u).astype(np.int64)

    def goes(words: np.ndarray) -> np.ndarray:
        up = level_codes(x, np.float32(1), bits, words).astype(np.int64) - 2**bits - floor
        assert set(up.tolist()) <= {0, 1}
        return up == 1

    assert going_up(goes, x.size).tolist() == counts(u)


def test_a_fraction_rounded_up_to_1_always_goes_up() -> None:
    """u - floor(u) of -2^-25 <= u < 0 is 1 in float32 (a tie, to even); these codes clip to 0 anyway."""
    goes_up = compiled(loops.goes_up)
    for u in (-(2.0**-25), -(2.0**-60), -(2.0**-149)):
        x = np.full(3, u, np.float32)
        fraction = x[0] - np.floor(x[0])
        assert fraction == 1
        codes, clipped = affine_codes(
            x, np.float32(1), np.float32(0), 4, np.array([0, 7, ALL - 1], np.uint32)
        )
        assert codes.tolist() == [0, 0, 0] and clipped == 0
        assert goes_up(fraction, np.uint32(ALL - 1))
    below = np.float32(1 - 2.0**-24)
    assert goes_up(below, np.uint32(ALL - 257)) and not goes_up(below, np.uint32(ALL - 256))


@pytest.mark.slow
@pytest.mark.parametrize("bits", [1, 2, 8, 9])
def test_clipping_moves_the_ends_inward(bits: int) -> None:
    """The mean of a~ is s*(clip(u) - z): z is a rounded number, so min or max lie up to s/2 outside.

    Only elements out there are biased, by what they are outside. `clipped` counts the draws that left
    0 .. 2^b - 1: above, each that goes up; below, each that does not (-1 + 1 is 0, and not clipped).
    """
    top = 2**bits - 1
    for m in range(256):  # min = -m/256, s = 1
        x = np.array([-m, 256 * top - m, 128 - m], np.float32) / np.float32(256)
        s, z = compiled(loops.affine_step)(x.min(), x.max(), bits)
        assert float(s) == 1 and float(z) == (m > 128)
        u = in_units(x, 1 / 256) + 256 * int(z)
        total, clipped = np.zeros(3, np.int64), 0
        for byte in range(256):
            codes, count = affine_codes(x, s, z, bits, np.full(3, byte << 24, np.uint32))
            total += 256 * codes.astype(np.int64)
            clipped += count
        inside = np.clip(u, 0, 256 * top)
        assert total.tolist() == (256 * inside).tolist()
        assert clipped == np.abs(u - inside).sum() and np.abs(u - inside).max() <= 128


def test_a_short_negative_side_is_lost() -> None:
    """z is a rounded number: after SiLU (least value -0.278) it is 0 once s is above 2 * 0.278.

    So at 1 and 2 bits every negative value of an ordinary bucket loads as 0, whatever its word: there the
    stochastic codec is biased too. After ReLU min is 0 and so is -min/s: nothing clips.
    """
    x = np.concatenate([np.linspace(-0.278, -0.001, 60), [0.5, 1, 2, 3.5]]).astype(np.float32)
    for kind in ("affine", "affine-stochastic"):
        for bits in (1, 2):
            packed = encode(x, Codec(kind, bits, bucket=64), DRAWN)
            assert packed.zeros.tolist() == [0] and not packed.load()[:60].any()
        assert np.any(encode(x, Codec(kind, 4, bucket=64), DRAWN).load()[:60])
    after_relu = np.maximum(x, np.float32(0))
    for bits in (1, 2, 4, 8):
        assert encode(after_relu, Codec("affine-stochastic", bits, bucket=64), DRAWN).clipped == 0


# -- bounds ------------------------------------------------------------------------------------------


def errors(x: np.ndarray, codec: Codec) -> tuple[list[int], list[int], list[int]]:
    """Of every element, in units of 2^-149: |a~ - a|, twice what the codec allows, and the rounding's share.

    With e = 2^-24, M = max|a|, R = max - min, and every operation off by at most e (below the normal
    numbers by 2^-150): s is R/(2^b - 1) within 3e of it and 2^-150; s(2^b - 1) is R within 3eR + 2^(b-150).
    u is a/s + z within e|a|/s + e|u|, and |q - u| <= 1/2 (stochastic: < 1); s(q - z), with q, q - z and
    the product rounded, is off by e(sq + 2|s(q - z)|) more. Where q is limited, |a| is beyond the code by
    s/2 + e(3R + M) + 2^(b-150) at most: there -min/s was rounded to z. All of it is at most
        s/2 (stochastic: s)  +  5e(M + R)  +  2^(b-149),
    also where s is 0. Levels: scale/L + 3e(M + scale) + 2^-149, for 1/L is exact.
    """
    packed = encode(x, codec, DRAWN)
    a, again, size = units(x), units(packed.load()), codec.size(x.size)
    error = [abs(p - q) for p, q in zip(a, again, strict=True)]
    allowed, rounding = [], []
    for k, s in enumerate(units(packed.scales)):
        part = a[k * size : (k + 1) * size]
        most, spread = max(map(abs, part)), max(part) - min(part)
        if codec.kind == "levels":
            bucket = Fraction(2 * s, 2**codec.bits), Fraction(3 * (most + s), 2**24) + 1
        else:
            bucket = Fraction(s * (1 if codec.kind == "affine" else 2)), Fraction(5 * (most + spread), 2**24)
            bucket = bucket[0], bucket[1] + 2**codec.bits
        allowed += [bucket[0]] * len(part)
        rounding += [bucket[1]] * len(part)
    return error, allowed, rounding


def hold(x: np.ndarray, codec: Codec) -> int:
    """How many elements are beyond s/2 (stochastic: s) alone; AssertionError for one beyond the bound."""
    error, allowed, rounding = errors(x, codec)
    for e, s, r in zip(error, allowed, rounding, strict=True):
        assert 2 * e <= s + 2 * r
        assert codec.kind == "affine" or 2 * e < s + 2 * r
    return sum(2 * e > s for e, s in zip(error, allowed, strict=True))


def near_ties(source: np.random.Generator, n: int, bits: int) -> np.ndarray:
    """Buckets of 64 whose values are s*(q + 1/2 - z) as float32, or a neighbour."""
    scale, base = source.choice([1, 1e-3, 1e4, 1e-40, 1e30]), source.choice([0, 0.3, 10, 1000])
    x = ((source.standard_normal(n) + base) * scale).astype(np.float32)
    for first in range(0, n, 64):
        part = x[first : first + 64]
        low, high = part.min(), part.max()
        s, z = compiled(loops.affine_step)(low, high, bits)
        ties = (source.integers(0, 2**bits, part.size) + 0.5 - float(z)) * float(s)
        ties = np.nextafter(
            ties.astype(np.float32), source.choice(np.array([-3e38, 3e38], np.float32), part.size)
        )
        part[:] = np.clip(ties, low, high)
        part[:2] = low, high
    return x


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["affine", "affine-stochastic", "levels"])
@pytest.mark.parametrize("values", [*VALUES, "near_ties"])
def test_bounds(values: str, kind: str) -> None:
    source = np.random.default_rng(7)
    for bits in range(1, 31 if kind == "levels" else 33):
        x = near_ties(source, 130, bits) if values == "near_ties" else VALUES[values](source, 130)
        hold(x, Codec(kind, bits, bucket=64))
        if kind == "levels":
            hold(np.clip(x, np.float32(-1e18), np.float32(1e18)), Codec(kind, bits, bucket=64, norm="l2"))


@pytest.mark.slow
@given(
    st.lists(st.floats(-(2.0**120), 2.0**120, width=32), min_size=1, max_size=70),
    st.sampled_from(["affine", "affine-stochastic", "levels"]), st.integers(1, 30),
)  # fmt: skip
def test_bounds_of_any_values(values: list[float], kind: str, bits: int) -> None:
    hold(np.array(values, np.float32), Codec(kind, bits, bucket=64))


@pytest.mark.slow
def test_how_often_half_a_step_is_exceeded() -> None:
    """|a~ - a| <= s/2 alone does not hold in float32: beside a tie one rounding decides.

    Of 2^14 normal numbers in buckets of 512 none is beyond at 2, 4 or 8 bits, at 24 bits a tenth or more
    is (s/2 is a rounding there); of values made to lie beside ties, 2 % or more at any width.
    """
    source = np.random.default_rng(3)
    x = source.standard_normal(1 << 14).astype(np.float32)
    assert [hold(x, Codec("affine", bits)) for bits in (2, 4, 8)] == [0, 0, 0]
    assert hold(x, Codec("affine", 24)) > x.size // 10
    for bits in (2, 4, 8, 16):
        beside = np.concatenate([near_ties(source, 512, bits) for _ in range(8)])
        assert hold(beside, Codec("affine", bits, bucket=64)) > beside.size // 50


@pytest.mark.slow
def test_the_bound_is_not_far_off() -> None:
    """5 has to be 1.4 at least: beside ties, where max|a| is large against the range."""
    source, most = np.random.default_rng(11), Fraction(0)
    for _ in range(60):
        error, allowed, rounding = errors(near_ties(source, 512, 4), Codec("affine", 4, bucket=64))
        parts = zip(error, allowed, rounding, strict=True)
        most = max(most, *(5 * (e - s / 2 - 2**4) / (r - 2**4) for e, s, r in parts if r > 2**4))
    assert Fraction(7, 5) < most < 5
