"""Bucketed codecs of saved activations (Li 2025): codes, scales, packed bytes, and the values again.

    affine (sec. 4.2.2)    s = (max - min) / (2^b - 1)      z = round(-min / s)
                           q = clip(round(a / s + z), 0, 2^b - 1)           a~ = s (q - z)
    stochastic (5.3.1)     the same, u = a / s + z rounded by a word: floor(u) + [word < floor(frac(u) 2^32)]
    levels (listing 5.1)   u = min(|a| / scale, 1 - 1e-8) 2^b, by a word to m; a~ = sign(a) (m / 2^b) scale;
                           scale = the greatest magnitude or the l2 norm of the bucket, at least 1e-8
    counted                levels, where b stands for the number of levels L in place of 2^b
    symmetric (4.1-4.4)    T = the 99.999th percentile of |a|, at least 1e-10, s = T / 2^(b-1)
                           q = clip(round(a / s), -2^(b-1), 2^(b-1) - 1)       a~ = s q; one bucket
    mixing (sec. 5.7)      a width a bucket, each bucket packed by itself

A bucket is so many elements one after another in C order; it shares s and z, or the scale. Quotients, sums
and products are float32, each rounded once in the order written, which is intnet's own contract, as are what
a constant bucket does (s = 0, z its value), the sums of squares by groups of images (`sum_of_squares`), and
the order of the packed bits. Numbers are float32 in units of 2^-149 (`float32`), so that everything is
decided by integers; zero has no sign.

>>> bucket = affine([0, ONE, 2 * ONE, 3 * ONE], 2)                   # s = 1, z = 0
>>> bucket.codes, bucket.scale == ONE, affine_values(bucket) == [0, ONE, 2 * ONE, 3 * ONE]
([0, 1, 2, 3], True, True)
>>> pack(bucket.codes, 2).hex()                                     # 11 10 01 00, the first code lowest
'e4'
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import floor
from typing import NamedTuple

from intnet.spec.float32 import (
    GROUP,
    ONE,
    Rounded,
    dot_units,
    nearest_integer,
    nearest_units,
    quotient,
    rounded,
    sqrt_units,
    tree_units,
)
from intnet.spec.rounding import Decision, decision, drawn, overflow

# The rules in words, as golden packs print them.
LAYOUT = """\
A bucket is elements k*n .. (k+1)*n - 1 in C order, the last one short. All is binary32, one rounding an
operation, in the order written. An affine bucket whose s is 0 has codes 0, and its value in `zero`. Each
bucket begins with a 64-bit word; its code i takes bits i*width .. of its words, lowest bit first. `remainder`
is that of u - floor(u); one that binary32 rounds to 1 counts as the next floor.
"""
RULES = {  # of a code and back, by kind
    "affine": (
        "s = (max - min)/(2^b - 1) of the bucket, z = round(-min/s), u = a/s + z, q = round(u) within 0..2^b"
        " - 1, a~ = s*(q - z); round: ties to even"
    ),
    "affine-stochastic": (
        "s = (max - min)/(2^b - 1) of the bucket, z = round(-min/s), ties to even, u = a/s + z, q = floor(u)"
        " + [word < floor((u - floor(u)) * 2^32)] within 0..2^b - 1, a~ = s*(q - z); a u - floor(u) that"
        " binary32 rounds to 1 goes up"
    ),
    "levels": (
        "L = 2^b, u = min(abs(a)/scale, 1) * L, m = floor(u) + [word < floor((u - floor(u)) * 2^32)], a~ ="
        " (m/L)*scale with a's sign; the stored code is L + m, of a < 0 L - m, in b + 2 bits"
    ),
    "counted": (
        "L = b, u = min(abs(a)/scale, 1) * L, m = floor(u) + [word < floor((u - floor(u)) * 2^32)], a~ ="
        " (m/L)*scale with a's sign; the stored code is L + m, of a < 0 L - m, in the bits that 2L needs"
    ),
    "symmetric": (
        "T = max(the k-th smallest abs(a), 1e-10), k = floor(0.01 * 99.999 * n + 0.5) in binary64, s ="
        " T/2^(b-1), q = round(a/s), ties to even, within -2^(b-1)..2^(b-1) - 1, a~ = s*q; the stored code is"
        " 2^(b-1) + q"
    ),
}
LEVELS = ("levels", "counted")
BY_WORDS = ("affine-stochastic", *LEVELS)  # round by random words
SCALES = {  # of levels, by norm
    "max": "scale = max(max abs(a), 1e-8)",
    "l2": (
        "scale = max(sqrt(sum a^2), 1e-8), the sum by fused multiply-add in ascending order over chunks of"
        " 1024, whose sums are added in their order; chunks begin anew where a group of 16 images (axis 0)"
        " does, and the sums of groups 2i and 2i + 1 are added, then of such pairs, an odd last one going up"
        " as it is"
    ),
}


class Bucket(NamedTuple):
    """codes (from 0, as packed), scale and zero point in units, codes that were limited."""

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


class Scaling(NamedTuple):
    """Scale and zero point of an affine bucket, with the operations that made them.

    span:  max - min; steps: 2^b - 1 as a float32; s: span/steps
    start: -min/s, and z, in units, the integer nearest to it; of a constant bucket (s = 0) None and its value
    """

    span: Rounded
    steps: Rounded
    s: Rounded
    start: Rounded | None
    z: int


def scaling(least: int, greatest: int, b: int) -> Scaling:
    """s = (max - min)/(2^b - 1) and z = round(-min/s), ties to even."""
    span, steps = rounded(greatest - least), rounded((2**b - 1) * ONE)
    s = quotient(span.units, steps.units)
    if s.units == 0:
        return Scaling(span, steps, s, None, least)
    start = quotient(-least, s.units)
    return Scaling(span, steps, s, start, nearest_integer(start.units, ONE) * ONE)


class Way(NamedTuple):
    """How an element became its code.

    ratio:    a/s, or |a|/scale; u: what is rounded; part: u - floor(u), which may come to 1
    decision: of u, its fraction that float32; kept: the rounded integer within 0 .. 2^b - 1; of levels it is
              within 0 .. 2^b by itself
    """

    ratio: Rounded
    u: Rounded
    part: Rounded
    decision: Decision
    kept: int


def _decided(u: Rounded, word: int | None) -> tuple[Rounded, Decision]:
    """To nearest (ties to even), or floor(u) + [word < floor(part * 2^32)]; the part is a float32."""
    whole = u.units // ONE
    part = rounded(u.units - whole * ONE)
    return part, decision(u.value) if word is None else drawn(whole, part.value, word)


def affine_way(a: int, s: int, z: int, b: int, word: int | None = None) -> Way:
    """u = a/s + z, to nearest or by a random word; s is not 0."""
    ratio = quotient(a, s)
    u = rounded(ratio.units + z)
    part, made = _decided(u, word)
    return Way(ratio, u, part, made, overflow(made.rounded, 0, 2**b - 1, "saturate"))


class Back(NamedTuple):
    """How a code became a value again: its number, then q - z or m/2^b, then a~ (of levels |a~|)."""

    number: Rounded
    share: Rounded
    value: Rounded


def affine_back(q: int, s: int, z: int) -> Back:
    """a~ = s * (q - z)."""
    number = rounded(q * ONE)
    share = rounded(number.units - z)
    return Back(number, share, rounded(s * share.units, ONE))


def level_back(m: int, scale: int, count: int) -> Back:
    """|a~| = m/L * scale, L = count."""
    number = rounded(m * ONE)
    share = rounded(number.units, count)
    return Back(number, share, rounded(share.units * scale, ONE))


def affine(values: Sequence[int], b: int, words: Sequence[int] | None = None) -> Bucket:
    """To nearest (ties to even), or by random words."""
    made = scaling(min(values), max(values), b)
    s, z = made.s.units, made.z
    if s == 0:
        return Bucket([0] * len(values), s, z, 0)
    drawn_words = [None] * len(values) if words is None else words
    ways = [affine_way(a, s, z, b, word) for a, word in zip(values, drawn_words, strict=True)]
    return Bucket([way.kept for way in ways], s, z, sum(way.kept != way.decision.rounded for way in ways))


def affine_values(bucket: Bucket) -> list[int]:
    """a~ of every element; of a constant bucket its value."""
    if bucket.scale == 0:
        return [bucket.zero] * len(bucket.codes)
    return [affine_back(q, bucket.scale, bucket.zero).value.units for q in bucket.codes]


def sum_of_squares(values: Sequence[int], first: int = 0, image: int | None = None) -> int:
    """The sum of squares of a bucket.

    first: its first element, of a tensor of `image` elements an image; None where one image is all. What of
    the bucket lies in one group of images is a `float32.dot_units`; these meet in the tree by group number.
    """
    size = GROUP * (image or first + len(values))
    starts = range(-first, len(values), size)  # of groups 0, 1, ..., which may lie ahead of the bucket
    parts = [values[max(start, 0) : max(start + size, 0)] for start in starts]
    return tree_units([dot_units(part, part) for part in parts])


def level_scale(values: Sequence[int], norm: str = "max", first: int = 0, image: int | None = None) -> int:
    """The greatest magnitude, or the l2 norm (by `sum_of_squares`), at least 1e-8."""
    least = nearest_units(ONE, 10**8)
    if norm == "max":
        return max(least, *map(abs, values))
    return max(least, sqrt_units(sum_of_squares(values, first, image)))


def level_way(a: int, scale: int, count: int, word: int) -> Way:
    """u = min(|a|/scale, 1 - 1e-8) * L, L = count, by a random word."""
    ratio = quotient(abs(a), scale)
    ceiling = nearest_units((10**8 - 1) * ONE, 10**8)  # 1 - 1e-8 as a float32, which is 1
    u = rounded(min(ratio.units, ceiling) * count)
    part, made = _decided(u, word)
    return Way(ratio, u, part, made, made.rounded)


def levels(
    values: Sequence[int], count: int, words: Sequence[int], norm: str = "max", first: int = 0,
    image: int | None = None,
) -> Bucket:  # fmt: skip
    """Sign and magnitude in steps of scale/L, L = count; codes count from the lowest one.

    first, image: of `sum_of_squares`
    """
    scale = level_scale(values, norm, first, image)
    codes = []
    for a, word in zip(values, words, strict=True):
        m = level_way(a, scale, count, word).kept
        codes.append(count + (m if a > 0 else -m))
    return Bucket(codes, scale, 0, 0)


def level_values(bucket: Bucket, count: int) -> list[int]:
    """a~ of every element."""
    sizes = [level_back(abs(code - count), bucket.scale, count).value.units for code in bucket.codes]
    return [-size if code < count else size for code, size in zip(bucket.codes, sizes, strict=True)]


def reach_of(values: Sequence[int]) -> int:
    """T: the k-th smallest magnitude, k = floor(0.01 * 99.999 * n + 0.5) as in Brevitas, at least 1e-10."""
    k = floor(0.01 * 99.999 * len(values) + 0.5)
    return max(sorted(map(abs, values))[k - 1], nearest_units(ONE, 10**10))


def symmetric_way(a: int, s: int, b: int) -> Way:
    """q = round(a/s), ties to even, within -2^(b-1) .. 2^(b-1) - 1.

    Beyond 2T = 2^b s only the end counts: the quotient, which float32 may not hold, is taken at 2T.
    """
    ratio = quotient(max(min(a, s << b), -(s << b)), s)
    part, made = _decided(ratio, None)
    return Way(
        ratio, ratio, part, made, overflow(made.rounded, -(2 ** (b - 1)), 2 ** (b - 1) - 1, "saturate")
    )


def symmetric_back(q: int, s: int) -> Back:
    """a~ = s * q."""
    number = rounded(q * ONE)
    return Back(number, number, rounded(s * number.units, ONE))


def symmetric(values: Sequence[int], b: int) -> Bucket:
    """A whole tensor: one scale, zero at code 2^(b-1)."""
    s = quotient(reach_of(values), 2 ** (b - 1) * ONE).units
    found = {a: symmetric_way(a, s, b) for a in set(values)}  # of a ReLU most are 0
    ways = [found[a] for a in values]
    codes = [2 ** (b - 1) + way.kept for way in ways]
    return Bucket(codes, s, 0, sum(way.kept != way.decision.rounded for way in ways))


def symmetric_values(bucket: Bucket, b: int) -> list[int]:
    """a~ of every element."""
    made = {code: symmetric_back(code - 2 ** (b - 1), bucket.scale) for code in set(bucket.codes)}
    return [made[code].value.units for code in bucket.codes]


# -- a tensor ----------------------------------------------------------------------------------------


def pack(codes: Sequence[int], width: int, unit: int = 1) -> bytes:
    """One code above the other in one long integer, little-endian, filled to a multiple of `unit` bytes."""
    digits = "".join(f"{code % 2**width:0{width}b}" for code in reversed(codes))
    size = -(-len(codes) * width // 8)
    return int(digits or "0", 2).to_bytes(-(-size // unit) * unit, "little")


def width_of(kind: str, b: int) -> int:
    """Bits of a packed code: 2^b codes, of L levels 2L + 1."""
    return (2 * levels_of(kind, b)).bit_length() if kind in LEVELS else b


def levels_of(kind: str, b: int) -> int:
    """L."""
    return 2**b if kind == "levels" else b


def offset_of(kind: str, b: int) -> int:
    """The packed code of 0, where codes have a sign."""
    if kind in LEVELS:
        return levels_of(kind, b)
    return 2 ** (b - 1) if kind == "symmetric" else 0


def promoted(word: int, share: float) -> tuple[int, bool]:
    """Of a mix: (floor(share * 2^32), whether the bucket's word is below it: then it has the wider bits)."""
    threshold = floor(Fraction(share) * 2**32)
    return threshold, word < threshold


def words_of(kind: str, n: int, b: int) -> int:
    """64-bit words that a bucket of n codes takes: it begins with a word, and has room for whole eights."""
    return -(-(n + -n % 8) * width_of(kind, b) // 64)


def saved_bucket(
    values: Sequence[int], kind: str, b: int, words: Sequence[int] | None = None, norm: str = "max",
    first: int = 0, image: int | None = None,
) -> Saved:  # fmt: skip
    """One bucket, which begins at element `first`: its codes, its bytes (`words_of`) and a~.

    kind: of RULES; words: one an element, where it is of BY_WORDS
    """
    if kind in LEVELS:
        bucket = levels(values, levels_of(kind, b), words or [], norm, first, image)
        again = level_values(bucket, levels_of(kind, b))
    elif kind == "symmetric":
        bucket = symmetric(values, b)
        again = symmetric_values(bucket, b)
    else:
        bucket = affine(values, b, None if kind == "affine" else words)
        again = affine_values(bucket)
    codes = [*bucket.codes, *[0] * (-len(values) % 8)]
    return Saved([bucket], pack(codes, width_of(kind, b), 8), again)


def save(
    values: Sequence[int], kind: str, widths: Sequence[int], size: int, words: Sequence[int] | None = None,
    norm: str = "max", image: int | None = None,
) -> Saved:  # fmt: skip
    """Buckets of `size` elements, `widths` nominal bits of each; element i has word i of the tensor.

    image: elements of an image; None where one image is all
    """
    made = []
    for k, b in enumerate(widths):
        there = slice(k * size, (k + 1) * size)
        drawn = None if words is None else words[there]
        made.append(saved_bucket(values[there], kind, b, drawn, norm, k * size, image))
    return Saved(
        [bucket for part in made for bucket in part.buckets],
        b"".join(part.packed for part in made),
        [v for part in made for v in part.values],
    )
