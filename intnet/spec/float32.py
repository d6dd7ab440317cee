"""Exact float32: correct rounding, fused multiply-add, the contract's sums; `geometry` has the orders.

A float32 is a Fraction outside and an integer number of units of 2^-149 inside: every finite float32 is
one, so a fused multiply-add is one integer product, one sum and one rounding. Zero has no sign here.
"""
from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial

from intnet.spec.geometry import (
    Dot,
    Pair,
    Terms,
    contract,
    conv_shape,
    forward_terms,
    input_terms,
    weight_terms,
)
from intnet.spec.rounding import round_fraction
from intnet.spec.tensor import Tensor, power

CHUNK = 1024  # terms of a sum that are added up before their sum joins the total
GROUP = 16  # images of a batch whose terms are one sum; groups' sums meet in a tree
MANTISSA = 24
LEAST = -149  # exponent of the smallest subnormal
ONE = 1 << 149  # 1.0 in units of the smallest subnormal
LIMIT = 2**128


def to_float32(x: Fraction | int) -> Fraction:
    """The nearest float32, ties to even, subnormals kept; OverflowError where it would be infinite."""
    x = Fraction(x)
    if x == 0:
        return Fraction(0)
    top = abs(x.numerator).bit_length() - x.denominator.bit_length()
    while abs(x) < power(top):
        top -= 1
    while abs(x) >= power(top + 1):
        top += 1
    lsb = power(max(top - MANTISSA + 1, LEAST))
    rounded = round_fraction(x / lsb, "ties_even") * lsb
    if abs(rounded) >= LIMIT:
        raise OverflowError(f"{float(x)!r} is beyond float32")
    return rounded


def _units(x: Fraction | int) -> int:
    """A float32 in units of 2^-149; ValueError where `x` is not a float32."""
    scaled = Fraction(x) * ONE
    if scaled.denominator != 1 or _round_units(scaled.numerator, 0) != scaled.numerator:
        raise ValueError(f"{x} is not a float32")
    return scaled.numerator


def _value(units: int) -> Fraction:
    return Fraction(units, ONE)


def _round_units(n: int, extra: int) -> int:
    """The float32 nearest to n * 2^-extra units (ties to even), in units."""
    size = abs(n)
    drop = max(size.bit_length() - MANTISSA, extra)
    if drop == 0:
        return n
    kept, lost, half = size >> drop, size & ((1 << drop) - 1), 1 << (drop - 1)
    if lost > half or (lost == half and kept & 1):
        kept += 1
    size = kept << (drop - extra)
    if size >= LIMIT * ONE:
        raise OverflowError("a float32 sum overflows")
    return -size if n < 0 else size


def _fma_units(a: int, b: int, c: int) -> int:
    return _round_units(a * b + c * ONE, -LEAST)


def _dot_units(a: Sequence[int], b: Sequence[int]) -> int:
    """The contract's dot product: k ascending in chunks of 1024, chunk sums added in ascending order."""
    total = 0
    for start in range(0, len(a), CHUNK):
        acc = 0
        for p, q in zip(a[start : start + CHUNK], b[start : start + CHUNK], strict=True):
            acc = _fma_units(p, q, acc)
        total = _round_units(total + acc, 0)
    return total


def tree(sums: list[int]) -> int:
    """The sums of groups 0, 1, 2, ... in a binary tree: 2i meets 2i + 1, an odd last one goes up as it is."""
    while len(sums) > 1:
        pairs = [sums[i : i + 2] for i in range(0, len(sums), 2)]
        sums = [_round_units(sum(pair), 0) for pair in pairs]
    return sums[0] if sums else 0


def _batch_dot_units(a: Sequence[int], b: Sequence[int], per_image: int) -> int:
    """`_dot_units` of each group of images, which have `per_image` terms each; then the tree."""
    size = GROUP * per_image
    starts = range(0, len(a), size)
    return tree([_dot_units(a[start : start + size], b[start : start + size]) for start in starts])


def fma32(a: Fraction | int, b: Fraction | int, c: Fraction | int) -> Fraction:
    """a * b + c of three float32 values, rounded once."""
    return _value(_fma_units(_units(a), _units(b), _units(c)))


def add32(a: Fraction | int, b: Fraction | int) -> Fraction:
    """a + b of two float32 values, rounded once."""
    return _value(_round_units(_units(a) + _units(b), 0))


def mul32(a: Fraction | int, b: Fraction | int) -> Fraction:
    """a * b of two float32 values, rounded once."""
    return fma32(a, b, 0)


def dot32(a: Sequence[Fraction | int], b: Sequence[Fraction | int]) -> Fraction:
    """The contract's float32 dot product of two equally long lists."""
    return _value(_dot_units([_units(v) for v in a], [_units(v) for v in b]))


def sum32(a: Sequence[Fraction | int]) -> Fraction:
    """Plain float32 additions, ascending in chunks of 1024; chunk sums added in ascending order."""
    return _value(_sum_units([_units(v) for v in a]))


def _sum_units(values: Sequence[int]) -> int:
    total = 0
    for start in range(0, len(values), CHUNK):
        acc = 0
        for v in values[start : start + CHUNK]:
            acc = _round_units(acc + v, 0)
        total = _round_units(total + acc, 0)
    return total


def batch_dot32(a: Sequence[Fraction | int], b: Sequence[Fraction | int], per_image: int = 1) -> Fraction:
    """The dot product over a batch whose images have `per_image` terms each, in order.

    `dot32` of each group of GROUP images; then the groups' sums in a binary tree by group number, in
    which 2i meets 2i + 1 and an odd last one goes up as it is. So whole groups can be summed anywhere.
    """
    return _value(_batch_dot_units([_units(v) for v in a], [_units(v) for v in b], per_image))


def batch_sum32(a: Sequence[Fraction | int], per_image: int = 1) -> Fraction:
    """The sum over a batch: `sum32` of each group, then the tree; see `batch_dot32`."""
    values, size = [_units(v) for v in a], GROUP * per_image
    return _value(tree([_sum_units(values[k : k + size]) for k in range(0, len(values), size)]))


def _contract32(terms: Sequence[Terms], a: Tensor, b: Tensor, dot: Dot = _dot_units) -> list[Fraction]:
    left, right = [_units(v) for v in a.values], [_units(v) for v in b.values]
    return [_value(v) for v in contract(terms, left, right, dot)]


def conv32(x: Tensor, w: Tensor, stride: Pair = 1, padding: Pair = 0, groups: int = 1) -> Tensor:
    """Forward: x (N, H, W, C), w (O, C/groups, kh, kw) to (N, OH, OW, O); k is (row, column, channel)."""
    g = conv_shape(x.shape, w.shape, stride, padding, groups)
    return Tensor((g.n, g.oh, g.ow, g.o), _contract32(list(forward_terms(g)), x, w))


def conv32_input_grad(
    e: Tensor, w: Tensor, x_shape: Sequence[int], stride: Pair = 1, padding: Pair = 0, groups: int = 1
) -> Tensor:
    """Input gradient of shape `x_shape`; k is (kernel row, kernel column, output channel), ascending."""
    g = conv_shape(x_shape, w.shape, stride, padding, groups)
    return Tensor(tuple(x_shape), _contract32(list(input_terms(g)), e, w))


def conv32_weight_grad(
    e: Tensor, x: Tensor, w_shape: Sequence[int], stride: Pair = 1, padding: Pair = 0, groups: int = 1
) -> Tensor:
    """Weight gradient of shape `w_shape`; k is (batch, output row, output column); sums over the batch."""
    g = conv_shape(x.shape, w_shape, stride, padding, groups)
    dot = partial(_batch_dot_units, per_image=g.oh * g.ow)
    return Tensor(tuple(w_shape), _contract32(list(weight_terms(g)), x, e, dot))


def linear32(x: Tensor, w: Tensor, bias: Sequence[Fraction] | None = None) -> Tensor:
    """x (N, C), w (O, C) to (N, O); the bias is added last with one float32 addition."""
    (n, c), o = x.shape, w.shape[0]
    rows = [x.values[i * c : (i + 1) * c] for i in range(n)]
    out = [dot32(row, w.values[j * c : (j + 1) * c]) for row in rows for j in range(o)]
    if bias is not None:
        out = [add32(v, bias[i % o]) for i, v in enumerate(out)]
    return Tensor((n, o), out)


def linear32_input_grad(e: Tensor, w: Tensor) -> Tensor:
    """e (N, O), w (O, C) to (N, C); k runs over the outputs."""
    (n, o), c = e.shape, w.shape[1]
    rows = [e.values[i * o : (i + 1) * o] for i in range(n)]
    return Tensor((n, c), [dot32(row, w.values[j::c]) for row in rows for j in range(c)])


def linear32_weight_grad(e: Tensor, x: Tensor) -> Tensor:
    """e (N, O), x (N, C) to (O, C); k runs over the batch."""
    o, c = e.shape[1], x.shape[1]
    return Tensor((o, c), [batch_dot32(e.values[i::o], x.values[j::c]) for i in range(o) for j in range(c)])


def linear32_bias_grad(e: Tensor) -> list[Fraction]:
    """The float32 sum over the batch of e (N, O), one number an output."""
    o = e.shape[1]
    return [batch_sum32(e.values[i::o]) for i in range(o)]
