"""Exact float32: every operation rounded once, and the contract's order of every sum.

IEEE 754 binary32 with subnormals, round to nearest, ties to even. A float32 is a `Fraction` outside and an
integer number of *units* of 2^-149 inside: every finite float32 is one, so that an operation is one exact
integer expression and one rounding. Functions ending in 32 take and give Fractions, those ending in `_units`
integers, for whoever does much with them. Zero has no sign here. What would be infinite is an OverflowError.

The order of sums is intnet's own contract: `ORDER`, whose parts are `_chain`, `_chunks` and `tree_units`. So
whole groups may be summed anywhere, in any number of parts, to the same bits.

>>> add32(Fraction(2**24), 1)              # a tie: 2^24 + 1 is no float32
Fraction(16777216, 1)
>>> fma32(Fraction(2**24 + 2), Fraction(2**24 - 1), -(2**48))      # one rounding: nothing is lost before it
Fraction(16777214, 1)
>>> hex(bits_of(units(Fraction(-3, 2))))
'0xbfc00000'
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import isqrt
from operator import mul
from typing import NamedTuple

from intnet.spec.tensor import Tensor

CHUNK = 1024  # terms of a sum that are added up before their sum joins the total
GROUP = 16  # images of a batch whose terms are one sum; groups' sums meet in a tree
ORDER = (  # as golden packs print it
    "Every operation on binary32 is rounded once: to nearest, ties to even, subnormals kept. A sum of "
    "products is acc = +0, then acc = fma(a, b, acc), a * b not rounded by itself, over its terms in "
    "the order of the indices under the sum, the last one fastest; terms that are 0 keep their places. "
    f"After every {CHUNK} terms acc joins a total, at first +0, by one addition, and begins anew at +0; "
    "a plain sum is the same with acc + t. Sums over the batch (gW, gb, and those of batch norm) are "
    f"made of groups of {GROUP} images, the last one of what is left: each group is such a sum with "
    "chunks of its own, and the groups' sums meet in a tree, 2i with 2i + 1 by one addition, an odd "
    "last one as it is, until one is left. A device that has no fused multiply-add gives other bits."
)
MANTISSA = 24
LEAST = -149  # exponent of the smallest subnormal
ONE = 1 << 149  # 1.0 in units of the smallest subnormal
LIMIT = 2**128
INFINITE = LIMIT * ONE  # in units


# -- rounding --------------------------------------------------------------------------------------


def nearest_integer(num: int, den: int) -> int:
    """round(num/den), den > 0, ties to even."""
    whole, rest = divmod(num, den)
    return whole + (2 * rest > den or (2 * rest == den and whole % 2 == 1))


def nearest_units(num: int, den: int = 1) -> int:
    """The float32 nearest to num/den units (den > 0), in units; OverflowError beyond the last one."""
    size = abs(num)
    drop = size.bit_length() - den.bit_length() - MANTISSA
    if drop < 0:
        drop = 0  # nothing is finer than a unit
    elif size >= den << drop + MANTISSA:
        drop += 1
    size = nearest_integer(size, den << drop) << drop
    if size >= INFINITE:
        raise OverflowError("beyond float32")
    return -size if num < 0 else size


def to_float32(x: Fraction | int) -> Fraction:
    """The nearest float32, ties to even, subnormals kept; OverflowError where it would be infinite."""
    num, den = x.as_integer_ratio()
    return value(nearest_units(num << -LEAST, den))


# -- units and bits --------------------------------------------------------------------------------


def units(x: Fraction | int) -> int:
    """A float32 in units of 2^-149; ValueError where `x` is not a float32."""
    num, den = x.as_integer_ratio()
    places = den.bit_length() - 1
    drop = num.bit_length() - MANTISSA
    if den != 1 << places or places > -LEAST or (drop > 0 and num >> drop << drop != num):
        raise ValueError(f"{x} is not a float32")
    n = num << -LEAST - places
    if abs(n) >= INFINITE:
        raise ValueError(f"{x} is not a float32")
    return n


def value(n: int) -> Fraction:
    """The value of n units."""
    return Fraction(n, ONE)


def bits_of(n: int) -> int:
    """The 32 bits of a float32 in units; of zero, +0."""
    size, sign = abs(n), 1 << 31 if n < 0 else 0
    shift = max(size.bit_length() - MANTISSA, 0)
    if size >> shift << shift != size or size >= INFINITE:
        raise ValueError(f"{n} units are not a float32")
    mantissa = size >> shift
    return sign | (mantissa if mantissa < 1 << 23 else (shift + 1) << 23 | mantissa & 0x7FFFFF)


def units_of(bits: int) -> int:
    """The finite float32 of 32 bits, in units."""
    exponent, mantissa = bits >> 23 & 0xFF, bits & 0x7FFFFF
    if exponent == 0xFF:
        raise ValueError(f"{bits:08x} is not finite")
    size = (mantissa | 1 << 23) << (exponent - 1) if exponent else mantissa
    return -size if bits >> 31 else size


# -- one operation, in units -----------------------------------------------------------------------


class Rounded(NamedTuple):
    """One operation as it is shown: num/den units exactly, and `units`, the float32 nearest to that."""

    num: int
    den: int
    units: int

    @property
    def exact(self) -> Fraction:
        """What it comes to before it is rounded."""
        return Fraction(self.num, self.den * ONE)

    @property
    def value(self) -> Fraction:
        """The float32."""
        return Fraction(self.units, ONE)


def rounded(num: int, den: int = 1) -> Rounded:
    """num/den units (den > 0), rounded once, with what was rounded."""
    return Rounded(num, den, nearest_units(num, den))


def quotient(a: int, b: int) -> Rounded:
    """a / b, rounded once; ZeroDivisionError for b = 0."""
    return rounded(a * ONE if b > 0 else -a * ONE, abs(b))


def add_units(a: int, b: int) -> int:
    """a + b, rounded once."""
    return nearest_units(a + b)


def mul_units(a: int, b: int) -> int:
    """a * b, rounded once."""
    return nearest_units(a * b, ONE)


def div_units(a: int, b: int) -> int:
    """`quotient`, the float32 alone."""
    return nearest_units(a * ONE if b > 0 else -a * ONE, abs(b))


def fma_units(a: int, b: int, c: int) -> int:
    """a * b + c, rounded once."""
    return nearest_units(a * b + c * ONE, ONE)


def sqrt_units(a: int) -> int:
    """sqrt(a) of a >= 0, by comparing squares: of a units, the root is that of the integer a * 2^149."""
    square = a * ONE
    drop = max((square.bit_length() + 1) // 2 - MANTISSA, 0)
    whole = isqrt(square >> 2 * drop)
    middle = (2 * whole + 1) ** 2 << 2 * drop
    return (whole + (4 * square > middle or (4 * square == middle and whole % 2 == 1))) << drop


# -- sums, in units --------------------------------------------------------------------------------


def _chain(terms: Iterable[int], below: int) -> int:
    """acc = round(acc + t): 24 bits are kept, and none of the lowest `below`, which are finer than a unit."""
    acc, most = 0, 128 - LEAST + below
    for term in filter(None, terms):  # a zero changes nothing
        acc += term
        bits = acc.bit_length()
        drop = bits - MANTISSA if bits > MANTISSA + below else below
        if drop:
            acc = (acc + (1 << drop - 1) - 1 + (acc >> drop & 1)) >> drop << drop  # to nearest, ties to even
            if drop >= most - MANTISSA and acc.bit_length() > most:
                raise OverflowError("a float32 sum is beyond float32")
    return acc


def _chunks(terms: Sequence[int], below: int) -> int:
    """Chains of CHUNK terms, and a chain of their sums."""
    firsts = range(0, len(terms), CHUNK)
    return _chain([_chain(terms[k : k + CHUNK], below) for k in firsts], below)


def dot_units(a: Sequence[int], b: Sequence[int]) -> int:
    """The contract's dot product: fused multiply-adds in chunks, ascending; chunk sums ascending.

    Products are exact, in units of 2^-298, of which the sums keep multiples of 2^-149.
    """
    if len(a) != len(b):
        raise ValueError(f"{len(a)} numbers do not meet {len(b)}")
    return _chunks(list(map(mul, a, b)), -LEAST) >> -LEAST


def chain_units(a: Sequence[int]) -> int:
    """Plain additions, ascending, without chunks: of a pool's window, of a loss's classes."""
    return _chain(a, 0)


def sum_units(a: Sequence[int]) -> int:
    """Plain additions in chunks, ascending; chunk sums ascending."""
    return _chunks(a, 0)


def tree_units(sums: Sequence[int]) -> int:
    """The sums of groups 0, 1, 2, ... in a binary tree: 2i meets 2i + 1, an odd last one goes up as it is."""
    row = list(sums)
    while len(row) > 1:
        row = [add_units(*row[i : i + 2]) if i + 1 < len(row) else row[i] for i in range(0, len(row), 2)]
    return row[0] if row else 0


def groups(count: int, per_image: int = 1) -> list[slice]:
    """The places of every group of images in a list of `count` terms, `per_image` of each image."""
    size = GROUP * per_image
    return [slice(k, k + size) for k in range(0, count, size)]


def batch_dot_units(a: Sequence[int], b: Sequence[int], per_image: int = 1) -> int:
    """`dot_units` of each group of images, which have `per_image` terms each; then the tree."""
    return tree_units([dot_units(a[at], b[at]) for at in groups(len(a), per_image)])


def batch_sum_units(a: Sequence[int], per_image: int = 1) -> int:
    """`sum_units` of each group of images; then the tree."""
    return tree_units([sum_units(a[at]) for at in groups(len(a), per_image)])


# -- the same on Fractions -------------------------------------------------------------------------


def add32(a: Fraction | int, b: Fraction | int) -> Fraction:
    """a + b of two float32 values, rounded once."""
    return value(add_units(units(a), units(b)))


def sub32(a: Fraction | int, b: Fraction | int) -> Fraction:
    """a - b, rounded once."""
    return value(add_units(units(a), -units(b)))


def mul32(a: Fraction | int, b: Fraction | int) -> Fraction:
    """a * b, rounded once."""
    return value(mul_units(units(a), units(b)))


def div32(a: Fraction | int, b: Fraction | int) -> Fraction:
    """a / b, rounded once."""
    return value(div_units(units(a), units(b)))


def sqrt32(a: Fraction | int) -> Fraction:
    """The root of a float32 a >= 0, rounded once."""
    return value(sqrt_units(units(a)))


def fma32(a: Fraction | int, b: Fraction | int, c: Fraction | int) -> Fraction:
    """a * b + c of three float32 values, rounded once."""
    return value(fma_units(units(a), units(b), units(c)))


def all_units(xs: Iterable[Fraction | int]) -> list[int]:
    """`units` of every element."""
    return [units(x) for x in xs]


def dot32(a: Sequence[Fraction | int], b: Sequence[Fraction | int]) -> Fraction:
    """The contract's float32 dot product of two equally long lists."""
    return value(dot_units(all_units(a), all_units(b)))


def sum32(a: Sequence[Fraction | int]) -> Fraction:
    """The contract's float32 sum."""
    return value(sum_units(all_units(a)))


def chain32(a: Sequence[Fraction | int]) -> Fraction:
    """Plain additions, ascending, without chunks."""
    return value(chain_units(all_units(a)))


def batch_dot32(a: Sequence[Fraction | int], b: Sequence[Fraction | int], per_image: int = 1) -> Fraction:
    """The dot product over a batch whose images have `per_image` terms each, in order.

    `dot32` of each group of GROUP images, then the tree.
    """
    return value(batch_dot_units(all_units(a), all_units(b), per_image))


def batch_sum32(a: Sequence[Fraction | int], per_image: int = 1) -> Fraction:
    """The sum over a batch: `sum32` of each group, then the tree."""
    return value(batch_sum_units(all_units(a), per_image))


def tensor_units(t: Tensor) -> Tensor:
    """A float32 tensor in units."""
    return Tensor(t.shape, all_units(t.values))


def tensor_values(t: Tensor) -> Tensor:
    """A tensor of units as Fractions."""
    return Tensor(t.shape, [value(n) for n in t.values])
