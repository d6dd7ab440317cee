"""Blocks of four channels as nodes of ONNX: those of `block_ops.py`, for `onnx_graph.Graph`.

Blocks are held as the numbers that they stand for, in float64, where powers of two and their products with
codes are exact. A block's exponent is found by halves; products are those of `digits.py`, a MatMul of float64
for every pair of digits, exact in any order; to round them is int64, until a float64 that is exact becomes
the float32.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from math import prod

import numpy as np

from intnet.exact.blocks.block_loops import LEAST, SIDE
from intnet.export import digits
from intnet.export.block_ops import Blocks
from intnet.export.digits import DIGIT, ENOUGH
from intnet.export.onnx_block_float import float_power
from intnet.export.onnx_graph import Graph
from intnet.export.values import FLOAT32, Value


def blocks(g: Graph, op: Blocks, value: Value, read: Value, x: str) -> str:
    """float64: what the codes stand for."""
    x = g.cast(x, np.float64)
    if read.form != FLOAT32:
        x = g.node("Mul", [x, g.constant(2.0**read.exponent, np.float64)])
    channels, places = value.shape[-1], prod(value.shape[:-1])
    count, gap = -(-channels // SIDE), -channels % SIDE
    each = g.node("Reshape", [x, g.constant([0, channels, places])])
    if gap:
        each = g.node("Pad", [each, g.constant([0, 0, 0, 0, gap, 0]), g.constant(0, np.float64)])
    each = g.node("Reshape", [each, g.constant([0, count, SIDE, places])])
    top = g.node("ReduceMax", [g.node("Abs", [each])], axes=[2], keepdims=1)
    bits = np.moveaxis(op.widths(value.shape), -1, 0).reshape(count, 1, places).astype(np.int64)
    bits = np.maximum(bits, 1)  # of none the limit is 0
    unit = g.node("Sub", [_exponent(g, read, top), g.constant(bits - 1)])
    limit = ((1 << bits - 1) - 1).astype(np.float64)
    codes = g.node("Round", [g.node("Mul", [each, float_power(g, g.node("Neg", [unit]))])])
    codes = g.node("Min", [codes, g.constant(limit, np.float64)])
    codes = g.node("Max", [codes, g.constant(-limit, np.float64)])
    alive = g.node("GreaterOrEqual", [top, g.constant(2.0 ** (LEAST - 1), np.float64)])
    codes = g.node("Where", [alive, codes, g.constant(0, np.float64)])
    made = g.node("Mul", [codes, float_power(g, unit)])
    made = g.node("Reshape", [made, g.constant([0, count * SIDE, places])])
    if gap:
        made = g.node("Slice", [made, g.constant([0]), g.constant([channels]), g.constant([1])])
    return g.node("Reshape", [made, g.constant([0, channels, *value.shape[:-1]])])


def _exponent(g: Graph, read: Value, top: str) -> str:
    """The least e from what all are multiples of on with top < 2^e: int64, by halves of where it may be."""
    first = max(read.exponent + 1, LEAST)
    most = max(int(read.reach / Fraction(2) ** first).bit_length(), 1)
    powers = g.constant(np.ldexp(1.0, first - 1 + np.arange(1 << most.bit_length())), np.float64)
    e = g.constant([0])
    for step in reversed([1 << k for k in range(most.bit_length())]):
        further = g.node("Add", [e, g.constant([step])])
        reached = g.node("GreaterOrEqual", [top, g.node("Gather", [powers, further])])
        e = g.node("Where", [reached, further, e])
    return g.node("Add", [e, g.constant([first])])


def bands(g: Graph, read: Value, x: str) -> Iterator[tuple[int, str]]:
    """(digit, float64 of integers) of blocks, as `digits.bands`, of all digits that there may be."""
    units = g.node("Mul", [x, g.constant(2.0**-read.exponent, np.float64)])
    count = digits.count(read.reach, read.exponent)
    size, zero = g.node("Abs", [units]), g.constant(0, np.float64)
    for d in range(count):
        part = units if d == 0 else g.node("Mul", [units, g.constant(2.0 ** (-DIGIT * d), np.float64)])
        if d + 1 < count:
            below = g.node("Less", [size, g.constant(digits.least(d + 1), np.float64)])
            part = g.node("Where", [below, part, zero])
        if d:
            there = g.node("GreaterOrEqual", [size, g.constant(digits.least(d), np.float64)])
            part = g.node("Where", [there, part, zero])
        yield d, part


def rounded(g: Graph, sums: Mapping[int, Sequence[str]], exponent: int) -> str:
    """float32, as `digits.rounded`; sums: of each digit what adds up to it, in float64."""
    base, carry, rests = g.constant([1 << DIGIT]), g.constant([0]), []
    for d in range(max(sums) + 1):
        parts = [g.cast(part, np.int64) for part in sums.get(d, [])]
        total = reduce(lambda a, b: g.node("Add", [a, b]), [*parts, carry])
        rests.append(g.node("Mod", [total, base]))
        carry = g.node("Div", [g.node("Sub", [total, rests[-1]]), base])
    v, at, odd = carry, g.constant([len(rests)]), g.constant([0])
    for rest in reversed(rests):
        more = g.node("Less", [g.node("Abs", [v]), g.constant([ENOUGH])])
        left = g.node("Where", [more, g.constant([0]), rest])
        odd = g.node("Max", [odd, g.node("Min", [left, g.constant([1])])])
        v = g.node("Where", [more, g.node("Add", [g.node("Mul", [v, base]), rest]), v])
        at = g.node("Sub", [at, g.cast(more, np.int64)])
    doubled = g.cast(g.node("Add", [g.node("Add", [v, v]), odd]), np.float64)
    power = g.node("Add", [g.node("Mul", [at, g.constant([DIGIT])]), g.constant([exponent - 1])])
    return g.cast(g.node("Mul", [doubled, float_power(g, power)]), np.float32)
