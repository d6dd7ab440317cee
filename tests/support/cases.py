"""Generated test inputs: corner integers, ties, neighbours of sqrt(2) * 2^n and of floats, seeded numbers.

Corners are computed, never listed by hand. `net_state` makes a net's parameters under WAGEUBN.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from math import inf, isqrt, nextafter

from intnet.spec import Fixed, Tensor
from intnet.spec.float32 import to_float32
from intnet.spec.models import Net, parameters

WIDTHS = (8, 16, 32, 64)


def powers_of_two(bits: int) -> list[int]:
    """+-2^n and its two neighbours on either side, n < bits - 1, inside a signed word of `bits` bits."""
    near = {sign * 2**n + d for n in range(bits - 1) for sign in (1, -1) for d in range(-2, 3)}
    return sorted(v for v in near if -(2 ** (bits - 1)) <= v < 2 ** (bits - 1))


def limits(bits: int) -> list[int]:
    """The least and the greatest codes of a signed word, with two neighbours inside."""
    lo, hi = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return [lo, lo + 1, lo + 2, hi - 2, hi - 1, hi]


def all_limits(bits: int = 64) -> list[int]:
    """The limits of every container up to `bits` bits, and the first values outside the narrower ones."""
    out = set()
    for width in WIDTHS:
        if width <= bits:
            out.update(limits(width))
        if width < bits:
            out.update((-(2 ** (width - 1)) - 1, 2 ** (width - 1)))
    return sorted(out)


def ties(shift: int, count: int = 8) -> list[int]:
    """Integers that are exact ties when `shift` bits are dropped, and both their neighbours."""
    half = 2 ** (shift - 1)
    return sorted({k * 2**shift + half + d for k in range(-count, count) for d in (-1, 0, 1)})


def sqrt2_neighbours(n: int) -> tuple[int, int]:
    """The integers just below and just above sqrt(2) * 2^n: R's exponent changes between them (n >= 0)."""
    below = isqrt(2 ** (2 * n + 1))
    return below, below + 1


def corners(bits: int, shift: int = 4) -> list[int]:
    """All corner integers that fit a signed word of `bits` bits."""
    lo, hi = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    found = {0, *powers_of_two(bits), *limits(bits), *all_limits(bits), *ties(shift)}
    for n in range(bits - 2):
        below, above = sqrt2_neighbours(n)
        found.update((below, above, -below, -above))
    return sorted(v for v in found if lo <= v <= hi)


def random_magnitudes(seed: int, n: int, bits: int) -> list[int]:
    """Signed integers whose bit length is uniform in 0..bits-1, so that small ones are as common as large."""
    source = random.Random(seed)
    out = []
    for _ in range(n):
        length = source.randrange(bits)
        out.append(source.choice((-1, 1)) * source.getrandbits(length) if length else 0)
    return out


def random_fractions(seed: int, n: int, bits: int = 24) -> list[Fraction]:
    """Signed rationals with numerators and denominators of random length."""
    source = random.Random(seed)
    tops = random_magnitudes(source.getrandbits(32), n, bits)
    return [Fraction(top, 1 + source.getrandbits(source.randrange(1, bits))) for top in tops]


def random_codes(seed: int, n: int, lo: int, hi: int) -> list[int]:
    """Uniform integers in [lo, hi]."""
    source = random.Random(seed)
    return [source.randint(lo, hi) for _ in range(n)]


def random_float32(seed: int, n: int, exponent: int = 0) -> list[Fraction]:
    """Float32 values of random sign and mantissa, magnitudes within a few powers of two below 2^exponent."""
    source = random.Random(seed)
    out = []
    for _ in range(n):
        mantissa = source.choice((-1, 1)) * (2**23 + source.getrandbits(23))
        out.append(to_float32(Fraction(mantissa) * Fraction(2) ** (exponent - 24 - source.randrange(6))))
    return out


def _fixed(seed: int, shape: Sequence[int], spread: int, exponent: int, centre: int = 0) -> Fixed:
    size = 1
    for length in shape:
        size *= length
    codes = [centre + v for v in random_codes(seed, size, -spread, spread)]
    return Fixed(tuple(shape), codes, exponent)


def _floats(seed: int, shape: Sequence[int], exponent: int) -> Tensor:
    size = 1
    for length in shape:
        size *= length
    return Tensor(tuple(shape), random_float32(seed, size, exponent))


def net_state(net: Net, shape: tuple[int, ...], seed: int) -> dict[str, Fixed | Tensor]:
    """Random parameters and momenta of a net for images of `shape`, by 'layer/path'.

    The first and the last weight layer are float32 (W, Acc, b, Acc_b), all others codes (W, Accq, ...).
    """
    state: dict[str, Fixed | Tensor] = {}
    found = parameters(net, shape)
    weighted = [p.layer for p in found if p.symbol == "W"]
    for p in found:
        slot = "" if p.symbol == "W" else f"_{p.symbol}"
        at, momentum = seed + len(state), seed + len(state) + 1
        if p.layer in (weighted[0], weighted[-1]):
            state[f"{p.layer}/{p.symbol}"] = _floats(at, p.shape, -2)
            state[f"{p.layer}/Acc{slot}"] = _floats(momentum, p.shape, -4)
            continue
        centre, spread = 2**23 if p.symbol == "gamma" else 0, 2**22 if p.symbol == "W" else 2**20
        state[f"{p.layer}/{p.symbol}"] = _fixed(at, p.shape, spread, -23, centre)
        state[f"{p.layer}/Accq{slot}"] = _fixed(momentum, p.shape, 40, -12)
    return state


def near(x: float, n: int = 4) -> list[float]:
    """x and n float64 on either side."""
    out, down, up = [x], x, x
    for _ in range(n):
        down, up = nextafter(down, -inf), nextafter(up, inf)
        out += [down, up]
    return out
