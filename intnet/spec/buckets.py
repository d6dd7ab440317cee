"""Bucketed codecs of saved activations (Li, 2025): codes, scales, packed bytes, and the values again.

Written from the equations: 4.2.2 (affine), 5.3.1 (affine, stochastic), listing 5.1 (levels), 5.7 (mixing).
A float32 is an integer number of units of 2^-149, so a sum is exact before its one rounding, and a quotient
or a root is decided by integers. Zero has no sign. `bits_of` and `units_of` are the IEEE encoding.
"""
from __future__ import annotations

from collections.abc import Sequence
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

WORDS = 1 << 32  # random words there are


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


def up(fraction: int, word: int) -> bool:
    """word < floor(fraction * 2^32); the fraction is a float32 in units."""
    return word < fraction * WORDS // ONE


def affine(values: Sequence[int], b: int, words: Sequence[int] | None = None) -> Bucket:
    """To nearest (ties to even), or by random words."""
    s, z = step_and_zero(values, b)
    if s == 0:
        return Bucket([0] * len(values), s, z, 0)
    codes, clipped = [], 0
    for i, a in enumerate(values):
        u = nearest_units(div_units(a, s) + z)
        if words is None:
            rounded = nearest_integer(u, ONE)
        else:
            floor = u // ONE
            rounded = floor + up(nearest_units(u - floor * ONE), words[i])
        q = min(max(rounded, 0), 2**b - 1)
        clipped += q != rounded
        codes.append(q)
    return Bucket(codes, s, z, clipped)


def affine_values(bucket: Bucket) -> list[int]:
    """s * (q - z)."""
    if bucket.scale == 0:
        return [bucket.zero] * len(bucket.codes)
    steps = [nearest_units(nearest_units(q * ONE) - bucket.zero) for q in bucket.codes]
    return [mul_units(bucket.scale, n) for n in steps]


def levels(values: Sequence[int], b: int, words: Sequence[int], norm: str = "max") -> Bucket:
    """Sign and magnitude of 2^b + 1 levels of the greatest magnitude, or of the l2 norm."""
    largest = max(abs(v) for v in values) if norm == "max" else sqrt_units(dot_units(values, values))
    scale = max(largest, nearest_units(ONE, 10**8))
    ceiling = nearest_units((10**8 - 1) * ONE, 10**8)  # 1 - 1e-8 as a float32
    codes = []
    for v, word in zip(values, words, strict=True):
        u = nearest_units(min(div_units(abs(v), scale), ceiling) << b)
        index = u // ONE
        index += up(u - index * ONE, word)
        codes.append(2**b + (index if v > 0 else -index))
    return Bucket(codes, scale, 0, 0)


def level_values(bucket: Bucket, b: int) -> list[int]:
    """(idx + up)/L * scale * sign."""
    out = []
    for code in bucket.codes:
        signed = code - 2**b
        size = mul_units(nearest_units(abs(signed) * ONE, 2**b), bucket.scale)
        out.append(-size if signed < 0 else size)
    return out


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
