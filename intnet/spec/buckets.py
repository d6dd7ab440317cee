"""Bucketed codecs of saved activations (Li, 2025): codes, scales, packed bytes, and the values again.

Written from the equations: 4.2.2 (affine), 5.3.1 (affine, stochastic), listing 5.1 (levels), 5.7 (mixing).
A float32 is an integer number of units of 2^-149, so a sum is exact before its one rounding, and a quotient
or a root is decided by integers. Zero has no sign. `bits_of` and `units_of` are the IEEE encoding.
"""
from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from intnet.spec.float32 import (
    ONE,
    div_units,
    dot_units,
    mul_units,
    nearest_integer,
    nearest_units,
    sqrt_units,
)
from intnet.spec.rounding import Decision, decision, drawn, overflow


class Bucket(NamedTuple):
    """codes (of levels from 0, as packed), scale and zero point in units, codes that were limited."""

    codes: list[int]
    scale: int
    zero: int
    clipped: int


class Saved(NamedTuple):
    """A whole tensor: its buckets, the packed bytes of all codes, and a~ in units."""

    buckets: list[Bucket]
    packed: bytes
    values: list[int]


# -- one bucket --------------------------------------------------------------------------------------


def step_and_zero(values: Sequence[int], b: int) -> tuple[int, int]:
    """s = (max - min)/(2^b - 1) and z = round(-min/s); of a constant bucket 0 and its value."""
    low, high = min(values), max(values)
    s = div_units(nearest_units(high - low), nearest_units((2**b - 1) * ONE))
    if s == 0:
        return 0, low
    return s, nearest_integer(div_units(-low, s), ONE) * ONE


class Way(NamedTuple):
    """How an element became its code; numbers in units.

    ratio:    a/s, or |a|/scale; u: what is rounded
    decision: floor of u, and u - floor(u) in float32, which may come to 1
    kept:     the rounded integer within 0 .. 2^b - 1; of levels it is within 0 .. 2^b by itself
    """

    ratio: int
    u: int
    decision: Decision
    kept: int


def drawn_of(u: int, word: int) -> Decision:
    """floor(u) + [word < floor(fraction * 2^32)], the fraction u - floor(u) a float32."""
    floor = u // ONE
    return drawn(floor, Fraction(nearest_units(u - floor * ONE), ONE), word)


def affine_way(a: int, s: int, z: int, b: int, word: int | None = None) -> Way:
    """u = a/s + z, to nearest (ties to even) or by a random word; s is not 0."""
    ratio = div_units(a, s)
    u = nearest_units(ratio + z)
    made = decision(Fraction(u, ONE)) if word is None else drawn_of(u, word)
    return Way(ratio, u, made, overflow(made.rounded, 0, 2**b - 1, "saturate"))


def affine_value(q: int, s: int, z: int) -> int:
    """a~ = s * (q - z)."""
    return mul_units(s, nearest_units(nearest_units(q * ONE) - z))


def affine(values: Sequence[int], b: int, words: Sequence[int] | None = None) -> Bucket:
    """To nearest (ties to even), or by random words."""
    s, z = step_and_zero(values, b)
    if s == 0:
        return Bucket([0] * len(values), s, z, 0)
    drawn_words = [None] * len(values) if words is None else words
    ways = [affine_way(a, s, z, b, word) for a, word in zip(values, drawn_words, strict=True)]
    return Bucket([way.kept for way in ways], s, z, sum(way.kept != way.decision.rounded for way in ways))


def affine_values(bucket: Bucket) -> list[int]:
    """a~ of every element; of a constant bucket its value."""
    if bucket.scale == 0:
        return [bucket.zero] * len(bucket.codes)
    return [affine_value(q, bucket.scale, bucket.zero) for q in bucket.codes]


def level_scale(values: Sequence[int], norm: str = "max") -> int:
    """The greatest magnitude, or the l2 norm, at least 1e-8."""
    largest = max(abs(v) for v in values) if norm == "max" else sqrt_units(dot_units(values, values))
    return max(largest, nearest_units(ONE, 10**8))


def level_way(a: int, scale: int, b: int, word: int) -> Way:
    """u = min(|a|/scale, 1 - 1e-8) * 2^b, by a random word."""
    ratio = div_units(abs(a), scale)
    ceiling = nearest_units((10**8 - 1) * ONE, 10**8)  # 1 - 1e-8 as a float32, which is 1
    u = nearest_units(min(ratio, ceiling) << b)
    made = drawn_of(u, word)
    return Way(ratio, u, made, made.rounded)


def level_value(m: int, scale: int, b: int) -> int:
    """|a~| = m/2^b * scale."""
    return mul_units(nearest_units(m * ONE, 2**b), scale)


def levels(values: Sequence[int], b: int, words: Sequence[int], norm: str = "max") -> Bucket:
    """Sign and magnitude of 2^b + 1 levels; codes count from the lowest one."""
    scale = level_scale(values, norm)
    codes = []
    for a, word in zip(values, words, strict=True):
        m = level_way(a, scale, b, word).kept
        codes.append(2**b + (m if a > 0 else -m))
    return Bucket(codes, scale, 0, 0)


def level_values(bucket: Bucket, b: int) -> list[int]:
    """a~ of every element."""
    sizes = [level_value(abs(code - 2**b), bucket.scale, b) for code in bucket.codes]
    return [-size if code < 2**b else size for code, size in zip(bucket.codes, sizes, strict=True)]


# -- a tensor ----------------------------------------------------------------------------------------


def pack(codes: Sequence[int], width: int, unit: int = 1) -> bytes:
    """One code above the other in one long integer, little-endian, filled to a multiple of `unit` bytes."""
    total = sum((code % 2**width) << (width * i) for i, code in enumerate(codes))
    size = -(-len(codes) * width // 8)
    return total.to_bytes(-(-size // unit) * unit, "little")


def width_of(kind: str, b: int) -> int:
    """Bits of a packed code: 2^b codes, or the 2^(b+1) + 1 of levels."""
    return b + 2 if kind == "levels" else b


def save(
    values: Sequence[int], kind: str, widths: Sequence[int], size: int, words: Sequence[int] | None = None,
    norm: str = "max",
) -> Saved:  # fmt: skip
    """Buckets of `size` elements, `widths` nominal bits of each; element i has word i of the tensor.

    Every bucket begins with a 64-bit word; the last one has room for a multiple of eight codes.
    """
    buckets, packed, again = [], b"", []
    for k, b in enumerate(widths):
        there = slice(k * size, (k + 1) * size)
        part, drawn = values[there], None if words is None else words[there]
        if kind == "levels":
            bucket = levels(part, b, drawn or [], norm)
            again += level_values(bucket, b)
        else:
            bucket = affine(part, b, None if kind == "affine" else drawn)
            again += affine_values(bucket)
        buckets.append(bucket)
        packed += pack([*bucket.codes, *[0] * (-len(part) % 8)], width_of(kind, b), 8)
    return Saved(buckets, packed, again)
