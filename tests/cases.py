"""Generated test inputs: corner integers, ties, the neighbours of sqrt(2) * 2^n, seeded random numbers.

Corners are computed, never listed by hand. `net_state` makes a small net's parameters for `oracle.wageubn`.
"""
from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from math import isqrt

from intnet.spec import Fixed, Tensor
from intnet.spec.float32 import to_float32
from intnet.spec.methods.wageubn import Net

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


def net_state(
    net: Net, seed: int, in_channels: int = 1, widths: Sequence[int] = (4,), classes: int = 3
) -> dict[str, Fixed | Tensor]:
    """Random parameters and momenta of `net`; block i has widths[min(i, last)] channels, conv1 widths[0]."""
    width = widths[0]
    state: dict[str, Fixed | Tensor] = {
        "conv1/W": _floats(seed, (width, in_channels, 3, 3), -1),
        "conv1/Acc": _floats(seed + 1, (width, in_channels, 3, 3), -4),
    }

    def conv(layer: str, shape: Sequence[int]) -> None:
        state[f"{layer}/W"] = _fixed(seed + len(state), shape, 2**22, -23)
        state[f"{layer}/Accq"] = _fixed(seed + len(state), shape, 40, -12)

    def norm(layer: str, channels: int) -> None:
        for name, centre in (("gamma", 2**23), ("beta", 0)):
            state[f"{layer}/{name}"] = _fixed(seed + len(state), (channels,), 2**20, -23, centre)
            state[f"{layer}/Accq_{name}"] = _fixed(seed + len(state), (channels,), 40, -12)

    norm("bn1", width)
    for i, block in enumerate(net.blocks):
        before, width = width, widths[min(i, len(widths) - 1)]
        conv(f"{block.name}.conv1", (width, before, 3, 3))
        norm(f"{block.name}.bn1", width)
        conv(f"{block.name}.conv2", (width, width, 3, 3))
        norm(f"{block.name}.bn2", width)
        if block.downsample:
            conv(f"{block.name}.downsample.0", (width, before, 1, 1))
            norm(f"{block.name}.downsample.1", width)
    for path in ("W", "Acc"):
        state[f"fc/{path}"] = _floats(seed + len(state), (classes, width), -2)
    for path in ("b", "Acc_b"):
        state[f"fc/{path}"] = _floats(seed + len(state), (classes,), -2)
    return state
