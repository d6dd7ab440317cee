"""Block float: an exponent a block of 4x4, exact values, and results rounded once to float32.

    e        the least integer with max|x| < 2^e, of the block's 16 elements
    code     round(x / 2^(e-b+1)) to nearest, ties to even, within +-(2^(b-1) - 1), for a block of b bits
    value    code * 2^(e-b+1)
    product  the exact sum of the products of values, rounded once to float32

This is the block floating point of DYNASTY (sec. 3.1), whose blocks of 4x4 share an exponent and have a width
each; range and ties are intnet's own contract. e is a signed byte: a block below 2^-129 is zero, one from
2^127 on an error. A block is named by its index among the blocks: along the two `axes` an element's place
divided by 4, along the others the place itself.

>>> q = quantize(Tensor((1, 2), [Fraction(3), Fraction(-1, 2)]), 4, (0, 1))
>>> q.codes, q.exponents, [str(v) for v in q.real().values]       # 3 < 2^2, a step is 2^(2-4+1)
([6, -1], {(0, 0): 2}, ['3', '-1/2'])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from operator import lt
from typing import NamedTuple

from intnet.spec.float32 import to_float32
from intnet.spec.rounding import overflow, round_fraction
from intnet.spec.tensor import Tensor, index_of, log2_floor, places, power

SIDE = 4
LEAST, GREATEST = -128, 127  # of e: a signed byte

# As golden packs print it; what DYNASTY does with blocks is `methods.dynasty`'s.
RULE = (
    "`BFP(b)`: block float. A block is 4 along the first axis and 4 along another, those whose names end in"
    " /4 at `e`; at an edge it is what is left. e is the smallest whole number with max abs(x) < 2^e over the"
    " block, -128 where it is all 0; where the max is below 2^-129 e is -128 and all codes are 0. The grid is"
    " 2^(e - b + 1), the limits +-(2^(b-1) - 1); b, the mantissa's bits with its sign, is told with the"
    " value: a number, or a port of one a block. Where b is 0 all codes are 0. Sums of products (x1, gW, e4)"
    " are exact and rounded once to binary32, ties to even; a bias is added to that in binary32. S of a block"
    " of x0 or Wb grows by s * 2^(2e - 4) in binary64: s is the sum of g * g over the block, row by row from"
    " 0, g its elements of e4 or gW, whatever b is; S stays where all of the block is below 2^-129, and in a"
    " batch of fewer images than the method remembers."
)

Index = tuple[int, ...]
Bits = int | Mapping[Index, int]


def blocks(shape: Sequence[int], axes: Sequence[int]) -> list[Index]:
    """The index of every block of a tensor whose `axes` are cut in fours, the last piece maybe shorter."""
    return places([(size + SIDE - 1) // SIDE if axis in axes else size for axis, size in enumerate(shape)])


def block_of(index: Index, axes: Sequence[int]) -> Index:
    """The block that an element lies in."""
    return tuple(i // SIDE if axis in axes else i for axis, i in enumerate(index))


def members(block: Index, axes: Sequence[int]) -> list[Index]:
    """The 16 indices of a block, row by row along the first of `axes`; some may lie outside the tensor."""
    found = []
    for i in range(SIDE):
        for j in range(SIDE):
            place = list(block)
            place[axes[0]] = SIDE * block[axes[0]] + i
            place[axes[1]] = SIDE * block[axes[1]] + j
            found.append(tuple(place))
    return found


def real(
    shape: Sequence[int], codes: Sequence[int], exponents: Mapping[Index, int], axes: Sequence[int]
) -> Tensor:
    """The exact values: codes in C order times 2^exponent of the element's block."""
    units = [power(exponents[block_of(place, axes)]) for place in places(shape)]
    return Tensor(tuple(shape), [code * unit for code, unit in zip(codes, units, strict=True)])


def rounded(t: Tensor) -> Tensor:
    """Each value in float32, rounded once; OverflowError beyond its range."""
    return Tensor(t.shape, [to_float32(value) for value in t.values])


# -- quantizing ------------------------------------------------------------------------------------


class Blocks(NamedTuple):
    """Codes in C order; e and b of every block, in C order of the blocks; how many codes were limited."""

    shape: tuple[int, ...]
    axes: tuple[int, int]
    codes: list[int]
    exponents: dict[Index, int]
    bits: dict[Index, int]
    saturated: int

    def units(self) -> dict[Index, int]:
        """e - b + 1 of every block."""
        return {block: e - self.bits[block] + 1 for block, e in self.exponents.items()}

    def real(self) -> Tensor:
        """The exact values."""
        return real(self.shape, self.codes, self.units(), self.axes)


def exponent(xs: Sequence[Fraction]) -> int | None:
    """e of a block, None where that is below -128: such a block is zero. OverflowError above 127."""
    top = max((abs(x) for x in xs), default=Fraction(0))
    if top >= power(GREATEST):
        raise OverflowError("a block's exponent is beyond 127")
    if top < power(LEAST - 1):
        return None
    return max(log2_floor(top) + 1, LEAST)


def code_at(x: Fraction, e: int | None, b: int) -> tuple[int, bool]:
    """(code, saturated) of one element of a block with e and b bits; 0 in a zero block and without bits."""
    if e is None or b == 0:
        return 0, False
    limit = 2 ** (b - 1) - 1
    free = round_fraction(Fraction(x) / power(e - b + 1))
    kept = overflow(free, -limit, limit, "saturate")
    return kept, kept != free


def inside(block: Index, shape: Sequence[int], axes: Sequence[int]) -> list[int]:
    """The flat indices of a block's elements, without the places outside the tensor."""
    found = [place for place in members(block, axes) if all(map(lt, place, shape))]
    return [index_of(place, shape) for place in found]


def quantize(x: Tensor, bits: Bits, axes: tuple[int, int]) -> Blocks:
    """Codes of every block; a block without bits keeps e, and one that is zero has e = -128."""
    out = Blocks(x.shape, axes, [0] * len(x.values), {}, {}, 0)
    saturated = 0
    for block in blocks(x.shape, axes):
        b = out.bits[block] = bits if isinstance(bits, int) else bits[block]
        there = inside(block, x.shape, axes)
        e = exponent([x.values[i] for i in there])
        out.exponents[block] = LEAST if e is None else e
        for i in there:
            out.codes[i], limited = code_at(x.values[i], e, b)
            saturated += limited
    return out._replace(saturated=saturated)


def packed_block(codes: Sequence[int], e: int, b: int) -> bytes:
    """The byte of e, then 16 mantissas of b bits, the first one lowest; no bits, no bytes."""
    if b == 0:
        return b""
    word = sum((code % 2**b) << (b * k) for k, code in enumerate(codes))
    return bytes([e % 256]) + word.to_bytes(2 * b, "little")


def pack(q: Blocks) -> bytes:
    """Block after block; places outside the tensor hold 0."""
    codes = dict(zip(places(q.shape), q.codes, strict=True))
    return b"".join(
        packed_block([codes.get(place, 0) for place in members(block, q.axes)], q.exponents[block], b)
        for block, b in q.bits.items()
    )


def unpack(data: bytes, shape: tuple[int, ...], axes: tuple[int, int], bits: Mapping[Index, int]) -> Blocks:
    """What `pack` wrote; blocks without bits have e = -128."""
    codes, exponents, start = {}, {}, 0
    for block in blocks(shape, axes):
        b = bits[block]
        exponents[block] = LEAST
        if b:
            e = data[start]
            exponents[block] = e - 256 if e >= 128 else e
            word = int.from_bytes(data[start + 1 : start + 1 + 2 * b], "little")
            start += 1 + 2 * b
            for k, place in enumerate(members(block, axes)):
                code = word // 2 ** (b * k) % 2**b
                codes[place] = code - 2**b if code >= 2 ** (b - 1) else code
    assert start == len(data)
    return Blocks(shape, axes, [codes.get(place, 0) for place in places(shape)], exponents, dict(bits), 0)


# -- products --------------------------------------------------------------------------------------


def whole(values: Sequence[Fraction]) -> tuple[list[int], int]:
    """(integers, unit) of numbers over powers of two: value = integer / unit."""
    unit = max((v.denominator for v in values), default=1)
    return [v.numerator * (unit // v.denominator) for v in values], unit


def exact(op: Callable[..., Tensor], a: Tensor, b: Tensor, *more: object) -> Tensor:
    """op(a, b, *more) of `convolution`: exact sums of products, which are taken in integers."""
    (left, p), (right, q) = whole(a.values), whole(b.values)
    out = op(Tensor(a.shape, left), Tensor(b.shape, right), *more)
    return Tensor(out.shape, [Fraction(v, p * q) if v else Fraction(0) for v in out.values])
