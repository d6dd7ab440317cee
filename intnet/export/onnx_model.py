"""A program as an ONNX model of integer operators, which ONNX Runtime computes to the same bits.

    images (N, H, W, C) uint8, or the data's own integers    ->    logits (N, classes) int64, codes

    product   ConvInteger or MatMulInteger where both operands' intervals fit 8 bits and the sum 32; else
              MatMul of int32 or int64, of a convolution over its windows, which Gather makes
    round     Mod and Div of int64: Mod takes the divisor's sign, so the quotient is a floor
    curve     Gather of a table, or of counted steps
    the rest  Mul, Add, Clip, ReduceMax, ReduceSum of int64
    scaled, norm   `onnx_block_float.py`; blocks and their products: `onnx_blocks.py`; nodes: `onnx_graph.py`

Both 8-bit operands are stored unsigned with a zero point: kernels for uint8 times int8 saturate sums of two
products to 16 bits on processors without the dot product instructions, those for uint8 times uint8 nowhere.
The logits' exponent is in the model's metadata; where each image has its own they are a second output,
`exponents`, int64 (N,); where logits are float32 they are given as such. Needs the package onnx: `pip install
'intnet[onnx]'`.
"""

from __future__ import annotations

from functools import reduce
from math import prod
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike

from intnet.export import onnx_block_float, onnx_blocks
from intnet.export import program as p
from intnet.export.block_ops import BlockProduct, Blocks, Plus
from intnet.export.onnx_graph import (
    CHANNELS_FIRST,
    CHANNELS_LAST,
    EXPONENTS,
    IMAGES,
    LOGITS,
    Graph,
    installed,
    modelled,
)
from intnet.export.program import Program
from intnet.export.values import CODES, FLOAT32, Op, Value

if TYPE_CHECKING:
    import onnx

TABLE = 1 << 16  # codes of a function that stand in a table


def model(program: Program) -> onnx.ModelProto:
    """The model; ConfigError where onnx is not installed."""
    onnx = installed("onnx")
    made = modelled(onnx, Network(onnx, program).finished(), program)
    if program.logits.scale is None and program.logits.form == CODES:
        onnx.helper.set_model_props(made, {"logits_exponent": str(program.logits.exponent)})
    onnx.checker.check_model(made, full_check=True)
    return made


class Network(Graph):
    """A program's operations, each as nodes."""

    def __init__(self, package: ModuleType, program: Program) -> None:
        super().__init__(package)
        self.program = program

    def finished(self) -> onnx.GraphProto:
        """The graph of all operations."""
        types, helper, images = self.onnx.TensorProto, self.onnx.helper, self.program.values[0]
        narrow = types.INT16 if images.bits <= 16 else types.INT32  # codes beyond what is proven are refused
        kind = types.UINT8 if images.lo == 0 and images.hi <= 255 else narrow
        made: list[str] = []
        for place, (op, value) in enumerate(zip(self.program.ops, self.program.values, strict=True)):
            names, read = [made[k] for k in op.reads], [self.program.values[k] for k in op.reads]
            if isinstance(op, p.Scaled | p.Norm) and value.scale == place:
                exponents = [self.exponent(one) for one in read]
                if isinstance(op, p.Scaled):
                    codes, chosen = onnx_block_float.scaled(self, op, read, names, exponents)
                else:
                    codes, chosen = onnx_block_float.norm(self, op, read[0], names[0], exponents[0])
                made.append(codes)
                self.exponents[place] = chosen
            else:
                made.append(self._op(op, value, names, read))
        self.node("Identity", [made[-1]], out=LOGITS)
        given = helper.make_tensor_value_info(IMAGES, kind, ["N", *images.shape])
        last = self.program.logits
        made_of = types.FLOAT if last.form == FLOAT32 else types.INT64
        gives = [helper.make_tensor_value_info(LOGITS, made_of, ["N", *last.shape])]
        if last.scale is not None:
            self.node("Identity", [self.exponent(last)], out=EXPONENTS)
            gives.append(helper.make_tensor_value_info(EXPONENTS, types.INT64, ["N"]))
        return helper.make_graph(self.nodes, "intnet", [given], gives, self.initializers)

    # -- operations ------------------------------------------------------------------------------

    def _op(self, op: Op, value: Value, names: list[str], read: list[Value]) -> str:
        if isinstance(op, p.Images):
            made = self.node("Transpose", [self.cast(IMAGES, np.int64)], perm=CHANNELS_FIRST)
        elif isinstance(op, p.Product):
            made = self._product(op, value, names[0], read[0])
        elif isinstance(op, p.Affine):
            scaled = (
                names[0] if np.all(op.a == 1) else self.node("Mul", [names[0], self.channel(op.a, value)])
            )
            made = self.node("Add", [scaled, self.channel(op.b, value)])
        elif isinstance(op, p.Add):
            pairs = zip(names, op.shifts, strict=True)
            lifted = [self.node("Mul", [x, self.constant([1 << s])]) if s else x for x, s in pairs]
            made = self.node("Add", lifted)
        elif isinstance(op, p.Round):
            made = self._round(op, value, names[0])
        elif isinstance(op, p.Curve):
            made = self._curve(op, value, names[0], read[0])
        elif isinstance(op, p.Relu):
            made = self.node("Max", [names[0], self.constant([0], _kind(value))])
        elif isinstance(op, Plus | p.Norm | Blocks | BlockProduct):
            made = self._floats(op, value, names, read[0])
        elif isinstance(op, p.Pool):
            made = self._pool(op, value, names[0], read[0])
        else:
            assert isinstance(op, p.Flatten)
            last = self.node("Transpose", names, perm=CHANNELS_LAST)
            made = self.node("Reshape", [last, self.constant([0, -1])])
        return made

    def _floats(
        self, op: Plus | p.Norm | Blocks | BlockProduct, value: Value, names: list[str], read: Value
    ) -> str:
        if isinstance(op, p.Norm):
            return onnx_block_float.normed(self, op, read, names[0])
        if isinstance(op, Blocks):
            return onnx_blocks.blocks(self, op, value, read, names[0])
        if isinstance(op, BlockProduct):
            return self._block_product(op, value, names[0], read)
        b = [] if op.b is None else [self.channel(op.b, value, np.float32)]
        return self.node("Add", [*names, *b])

    def _block_product(self, op: BlockProduct, value: Value, x: str, read: Value) -> str:
        """A product of float64 for every pair of digits, and their sums rounded."""
        sums: dict[int, list[str]] = {}
        for low, part in onnx_blocks.bands(self, read, x):
            seen = part if op.weight.ndim == 2 else self._seen(op, value, part, read, np.float64)
            for high, weight in op.digits.items():
                w = self.constant(weight.T if op.weight.ndim == 2 else _dense(weight, op.groups), np.float64)
                both = [seen, w] if op.weight.ndim == 2 else [w, seen]
                sums.setdefault(low + high, []).append(self.node("MatMul", both))
        made = onnx_blocks.rounded(self, sums, read.exponent + op.exponent)
        return made if op.weight.ndim == 2 else self._image(made, value)

    def _round(self, op: p.Round, value: Value, x: str) -> str:
        """To nearest, ties to even, then limited."""
        if op.num > 1:
            x = self.node("Mul", [x, self.constant([op.num])])
        if np.any(op.den != 1):
            x = self.divided(x, self.channel(op.den, value))
        if op.lo is None or op.hi is None:
            return x
        return self.node("Clip", [x, self.constant(op.lo), self.constant(op.hi)])

    def _curve(self, op: p.Curve, value: Value, x: str, read: Value) -> str:
        """By a table of all codes where it is small enough, else by counting steps."""
        if read.hi - read.lo < TABLE:
            places = np.searchsorted(op.steps, np.arange(read.lo, read.hi + 1), side="right")
            place = self.node("Sub", [x, self.constant([read.lo])])
            return self.node("Gather", [self.constant(op.codes[places]), place])
        halves = [1 << k for k in reversed(range(max(op.steps.size.bit_length(), 1)))]
        never = np.full(2 * halves[0] - 1 - op.steps.size, np.iinfo(np.int64).max)
        ends, count = self.constant(np.concatenate([[0], op.steps, never])), self.constant([0])
        for half in halves:
            further = self.node("Add", [count, self.constant([half])])
            reached = self.node("GreaterOrEqual", [x, self.node("Gather", [ends, further])])
            count = self.node("Where", [reached, further, count])
        return self.node("Gather", [self.constant(op.codes), count])

    def _product(self, op: p.Product, value: Value, x: str, read: Value) -> str:
        lo, hi = int(op.weight.min()), int(op.weight.max())
        points = _zero_point(read.lo, read.hi), _zero_point(lo, hi)
        if value.peak < 1 << 31 and points[0] is not None and points[1] is not None:
            return self._bytes(op, x, points[0], points[1])
        narrow = max(value.peak, read.peak, abs(lo), hi) < 1 << 31
        kind = np.int32 if narrow else np.int64
        if op.weight.ndim == 2:
            made = self.node("MatMul", [self.cast(x, kind), self.constant(op.weight.T, kind)])
            return self.cast(made, np.int64)
        seen = self.cast(self._seen(op, value, x, read, np.int64), kind)
        made = self.node("MatMul", [self.constant(_dense(op.weight, op.groups), kind), seen])
        return self._image(self.cast(made, np.int64), value)

    def _seen(self, op: p.Product | BlockProduct, value: Value, x: str, read: Value, kind: DTypeLike) -> str:
        """(N, Cin kh kw, Ho Wo): what the windows of a convolution read."""
        seen = self._windows(op, value, x, read, self.constant(0, kind))
        return self.node("Reshape", [seen, self.constant([0, read.shape[2] * prod(op.kernel), -1])])

    def _bytes(self, op: p.Product, x: str, x_point: int, w_point: int) -> str:
        """Of 8-bit operands, both unsigned."""
        if x_point:
            x = self.node("Add", [x, self.constant([x_point])])
        weight = op.weight + w_point if op.weight.ndim == 4 else op.weight.T + w_point
        points = [self.constant(point, np.uint8) for point in (x_point, w_point)]
        reads = [self.cast(x, np.uint8), self.constant(weight, np.uint8), *points]
        if op.weight.ndim == 2:
            return self.cast(self.node("MatMulInteger", reads), np.int64)
        (top, side), strides = op.padding, list(op.stride)
        made = self.node("ConvInteger", reads, pads=[top, side] * 2, strides=strides, group=op.groups)
        return self.cast(made, np.int64)

    def _pool(self, op: p.Pool, value: Value, x: str, read: Value) -> str:
        kind = _kind(read)
        if isinstance(op, p.MaxPool):
            below = -np.inf if read.form == FLOAT32 else read.lo
            seen = self._windows(op, value, x, read, self.constant(below, kind))
            return self._image(self.node("ReduceMax", [seen], axes=[2], keepdims=0), value)
        seen = self._windows(op, value, x, read, self.constant(0, kind))
        if isinstance(op, p.MeanPool):
            size = prod(op.kernel)
            parts = [self.node("Gather", [seen, self.constant(k)], axis=2) for k in range(size)]
            total = reduce(lambda a, b: self.node("Add", [a, b]), parts)
            return self._image(self.node("Div", [total, self.constant([size], np.float32)]), value)
        return self._image(self.node("ReduceSum", [seen, self.constant([2])], keepdims=0), value)

    def _windows(self, op: p.Windowed, value: Value, x: str, read: Value, fill: str) -> str:
        """(N, C, kh kw, Ho Wo): what every window reads."""
        (rows, cols, _), (top, side) = read.shape, op.padding
        if top or side:
            pads = self.constant([0, 0, top, side, 0, 0, top, side])
            x = self.node("Pad", [x, pads, fill])
        width = cols + 2 * side
        down = np.arange(value.shape[0])[:, None] * op.stride[0]
        across = np.arange(value.shape[1])[None, :] * op.stride[1]
        places = [((down + ky) * width + across + kx).reshape(-1) for ky, kx in np.ndindex(*op.kernel)]
        flat = self.node("Reshape", [x, self.constant([0, read.shape[2], (rows + 2 * top) * width])])
        return self.node("Gather", [flat, self.constant(np.stack(places))], axis=2)

    def _image(self, x: str, value: Value) -> str:
        """(N, C, Ho Wo) as (N, C, Ho, Wo)."""
        rows, cols, channels = value.shape
        return self.node("Reshape", [x, self.constant([0, channels, rows, cols])])


def _zero_point(lo: int, hi: int) -> int | None:
    """What codes lo..hi are lifted by to be bytes; None where they are more."""
    if lo >= 0 and hi <= 255:
        return 0
    return 128 if lo >= -128 and hi <= 127 else None


def _kind(value: Value) -> DTypeLike:
    return np.float32 if value.form == FLOAT32 else np.int64


def _dense(weight: np.ndarray, groups: int) -> np.ndarray:
    """Weights (Cout, Cin kh kw), zeros where a group does not read."""
    outs, ins = weight.shape[:2]
    each = outs // groups
    full = np.zeros((outs, ins * groups, *weight.shape[2:]), np.int64)
    for g in range(groups):
        full[g * each : (g + 1) * each, g * ins : (g + 1) * ins] = weight[g * each : (g + 1) * each]
    return full.reshape(outs, -1)
