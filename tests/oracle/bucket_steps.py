"""A bucketed codec's way in Fractions, u too: sec. 4.2.2, sec. 5.3.1 and listing 5.1 of the thesis.

Every float32 operation is an exact rational that `to_float32` rounds. A random word goes up iff it is below
floor(fraction * 2^32). `packed` lays the codes of buckets into one long integer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor

from intnet.spec.float32 import add32, dot32, sqrt32, to_float32
from intnet.spec.rounding import round_fraction

WORD = 64
LEAST_SCALE = to_float32(Fraction(1, 10**8))  # 1e-8, near enough to the binary64 number to give its float32


@dataclass(frozen=True)
class Coded:
    """A bucket: scale, zero point (None of levels), and of each element u, code and a~."""

    scale: Fraction
    zero: Fraction | None
    u: list[Fraction]
    codes: list[int]
    values: list[Fraction]


def up(fraction: Fraction, word: int) -> bool:
    return word < floor(fraction * 2**32)


def affine(values: Sequence[Fraction], bits: int, words: Sequence[int] | None) -> Coded:
    """s, z, u, q and a~; `words`: stochastic."""
    low, high, top = min(values), max(values), 2**bits - 1
    s = to_float32(to_float32(high - low) / to_float32(top))
    if s == 0:
        return Coded(s, low, [Fraction(0)] * len(values), [0] * len(values), [low] * len(values))
    z = Fraction(round_fraction(to_float32(-low / s), "ties_even"))
    scaled, codes, out = [], [], []
    for k, a in enumerate(values):
        u = to_float32(to_float32(a / s) + z)
        if words is None:
            r = round_fraction(u, "ties_even")
        else:
            r = floor(u) + up(to_float32(u - floor(u)), words[k])
        q = max(0, min(top, r))
        scaled.append(u)
        codes.append(q)
        out.append(to_float32(s * to_float32(to_float32(q) - z)))
    return Coded(s, z, scaled, codes, out)


def norm(values: Sequence[Fraction], first: int, image: int) -> Fraction:
    """sqrt of the sum of squares of elements first .. of a tensor with `image` elements an image.

    Fused multiply-adds in chunks, anew in every group of 16 images; groups meet as pairs of pairs.
    """
    groups: dict[int, list[Fraction]] = {}
    for k, value in enumerate(values, start=first):
        groups.setdefault(k // (16 * image), []).append(value)
    sums = {group: dot32(inside, inside) for group, inside in groups.items()}
    while len(sums) > 1:
        parents: dict[int, Fraction] = {}
        for group, v in sums.items():
            parents[group // 2] = add32(parents[group // 2], v) if group // 2 in parents else v
        sums = parents
    (total,) = sums.values()
    return sqrt32(total) if total else total


def levels(
    values: Sequence[Fraction], bits: int, words: Sequence[int], l2: bool, first: int, image: int
) -> Coded:
    """Codes with their sign, within -2^bits .. 2^bits; first, image: of `norm`."""
    count = 2**bits
    scale = max(norm(values, first, image) if l2 else max(abs(a) for a in values), LEAST_SCALE)
    scaled, codes, out = [], [], []
    for a, word in zip(values, words, strict=True):
        u = min(to_float32(abs(a) / scale), Fraction(1)) * count
        m = floor(u) + up(to_float32(u - floor(u)), word)
        sign = -1 if a < 0 else 1
        scaled.append(u)
        codes.append(sign * m)
        out.append(sign * to_float32(to_float32(to_float32(m) / count) * scale))
    return Coded(scale, None, scaled, codes, out)


def packed(buckets: Sequence[tuple[Sequence[int], int]]) -> tuple[int, list[int]]:
    """(all words as one integer, the first word of each bucket) of (unsigned codes, width of a code)."""
    total, start, starts = 0, 0, []
    for codes, width in buckets:
        starts.append(start)
        for i, code in enumerate(codes):
            total |= code << WORD * start + i * width
        start += -(-len(codes) * width // WORD)
    return total, starts
