"""Bucketed codecs of saved activations (Li, 2025): codes, scales, packed bytes, and the values again.

Written from the equations: 4.2.2 (affine), 5.3.1 (affine, stochastic), listing 5.1 (levels), 5.7 (mixing).
A float32 is an integer number of units of 2^-149, so a sum is exact before its one rounding, and a quotient
or a root is decided by integers. Zero has no sign. `bits_of` and `units_of` are the IEEE encoding.
"""
from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from typing import NamedTuple

from intnet.spec.float32 import CHUNK, GROUP, ONE, tree

DIGITS = 24
INFINITE = 1 << 277  # 2^128 in units
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


# -- float32 -----------------------------------------------------------------------------------------


def units_of(bits: int) -> int:
    """The finite float32 of 32 bits, in units."""
    exponent, mantissa = bits >> 23 & 0xFF, bits & 0x7FFFFF
    if exponent == 0xFF:
        raise ValueError(f"{bits:08x} is not finite")
    size = (mantissa | 1 << 23) << (exponent - 1) if exponent else mantissa
    return -size if bits >> 31 else size


def bits_of(units: int) -> int:
    """The encoding of a float32 in units; of zero, +0."""
    size, sign = abs(units), 1 << 31 if units < 0 else 0
    shift = max(size.bit_length() - DIGITS, 0)
    if size >> shift << shift != size or size >= INFINITE:
        raise ValueError(f"{units} units are not a float32")
    mantissa = size >> shift
    return sign | (mantissa if mantissa < 1 << 23 else (shift + 1) << 23 | mantissa & 0x7FFFFF)


def nearest(num: int, den: int = 1) -> int:
    """The float32 nearest to num/den units (den > 0), ties to even; OverflowError beyond the last one."""
    size = abs(num)
    shift = max(size.bit_length() - den.bit_length() - DIGITS, 0)
    if size >= den << (shift + DIGITS):
        shift += 1
    whole = nearest_integer(size, den << shift) << shift
    if whole >= INFINITE:
        raise OverflowError("beyond float32")
    return -whole if num < 0 else whole


def nearest_integer(num: int, den: int) -> int:
    """round(num/den), den > 0, ties to even."""
    whole, rest = divmod(num, den)
    return whole + (2 * rest > den or (2 * rest == den and whole % 2 == 1))


def divide(a: int, b: int) -> int:
    """a/b of two float32."""
    return nearest(a * ONE if b > 0 else -a * ONE, abs(b))


def times(a: int, b: int) -> int:
    """a*b."""
    return nearest(a * b, ONE)


def root(a: int) -> int:
    """sqrt(a): of a whole number of units a * 2^149, rounded by comparing squares."""
    square = a * ONE
    shift = max((square.bit_length() + 1) // 2 - DIGITS, 0)
    whole = isqrt(square >> 2 * shift)
    middle = (2 * whole + 1) ** 2 << 2 * shift
    return (whole + (4 * square > middle or (4 * square == middle and whole % 2 == 1))) << shift


def sum_of_squares(values: Sequence[int], first: int = 0, image: int | None = None) -> int:
    """Fused multiply-adds of elements first .. of a tensor whose images have `image` elements.

    What of the bucket lies in one group of images is a sum of its own, ascending in chunks, chunk sums
    ascending; such sums meet in the tree by group number (`float32.tree`).
    """
    size, sums = GROUP * (image or first + len(values)), []
    for start in range(-first, len(values), size):
        total, inside = 0, values[max(start, 0) : max(start + size, 0)]
        for at in range(0, len(inside), CHUNK):
            part = 0
            for v in inside[at : at + CHUNK]:
                part = nearest(v * v + part * ONE, ONE)
            total = nearest(total + part)
        sums.append(total)
    return tree(sums)


# -- one bucket --------------------------------------------------------------------------------------


def step_and_zero(values: Sequence[int], b: int) -> tuple[int, int]:
    """s = (max - min)/(2^b - 1) and z = round(-min/s); of a constant bucket 0 and its value."""
    low, high = min(values), max(values)
    s = divide(nearest(high - low), nearest((2**b - 1) * ONE))
    if s == 0:
        return 0, low
    return s, nearest_integer(divide(-low, s), ONE) * ONE


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
        u = nearest(divide(a, s) + z)
        if words is None:
            rounded = nearest_integer(u, ONE)
        else:
            floor = u // ONE
            rounded = floor + up(nearest(u - floor * ONE), words[i])
        q = min(max(rounded, 0), 2**b - 1)
        clipped += q != rounded
        codes.append(q)
    return Bucket(codes, s, z, clipped)


def affine_values(bucket: Bucket) -> list[int]:
    """s * (q - z)."""
    if bucket.scale == 0:
        return [bucket.zero] * len(bucket.codes)
    return [times(bucket.scale, nearest(nearest(q * ONE) - bucket.zero)) for q in bucket.codes]


def levels(
    values: Sequence[int], b: int, words: Sequence[int], norm: str = "max", first: int = 0,
    image: int | None = None,
) -> Bucket:  # fmt: skip
    """Sign and magnitude of 2^b + 1 levels of the greatest magnitude, or of the l2 norm.

    first, image: of `sum_of_squares`
    """
    largest = max(abs(v) for v in values) if norm == "max" else root(sum_of_squares(values, first, image))
    scale = max(largest, nearest(ONE, 10**8))
    ceiling = nearest((10**8 - 1) * ONE, 10**8)  # 1 - 1e-8 as a float32
    codes = []
    for v, word in zip(values, words, strict=True):
        u = nearest(min(divide(abs(v), scale), ceiling) << b)
        index = u // ONE
        index += up(u - index * ONE, word)
        codes.append(2**b + (index if v > 0 else -index))
    return Bucket(codes, scale, 0, 0)


def level_values(bucket: Bucket, b: int) -> list[int]:
    """(idx + up)/L * scale * sign."""
    out = []
    for code in bucket.codes:
        signed = code - 2**b
        size = times(nearest(abs(signed) * ONE, 2**b), bucket.scale)
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
    norm: str = "max", image: int | None = None,
) -> Saved:  # fmt: skip
    """Buckets of `size` elements, `widths` nominal bits of each; element i has word i of the tensor.

    image: elements of an image; None where one image is all.

    Every bucket begins with a 64-bit word; the last one has room for a multiple of eight codes.
    """
    buckets, packed, again = [], b"", []
    for k, b in enumerate(widths):
        there = slice(k * size, (k + 1) * size)
        part, drawn = values[there], None if words is None else words[there]
        if kind == "levels":
            bucket = levels(part, b, drawn or [], norm, k * size, image)
            again += level_values(bucket, b)
        else:
            bucket = affine(part, b, None if kind == "affine" else drawn)
            again += affine_values(bucket)
        buckets.append(bucket)
        packed += pack([*bucket.codes, *[0] * (-len(part) % 8)], width_of(kind, b), 8)
    return Saved(buckets, packed, again)
