"""A program as a QONNX model: float32 tensors, whose every number is a code at its exponent.

    images float32 (1, C, H, W), value = code * 2^exponent    ->    logits float32 (1, classes)

    weights, rounding by a shift    Quant: a scale of 2^exponent, zero point 0, half to even
    rounding by anything else       MultiThreshold, with all that is read by channel ahead of it: for each
                                    channel the least codes from which on the result is one more
    the rest                        Conv, MatMul, Mul, Add, Relu, MaxPool; a sum of a window is a Conv

float32 has all integers up to 2^24. Of every value that lies between two nodes, all partial sums of a product
included, it is proven (`Value.peak`) that it needs no more; a program that may is refused, with the layer.
Batch norm, which multiplies to more bits than that, and the rounding after it are one function of a code of
few bits, which rises or falls: so it is a MultiThreshold, computed here in integers. Needs the package onnx:
`pip install 'intnet[onnx]'`; nothing of qonnx.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from intnet.errors import ConfigError
from intnet.export import batch
from intnet.export import program as p
from intnet.export.block_ops import MANTISSA
from intnet.export.onnx_graph import CHANNELS_LAST, IMAGES, LOGITS, installed, modelled
from intnet.export.program import Program
from intnet.export.values import CODES, Op, Value, word_bits

if TYPE_CHECKING:
    import onnx

DOMAIN = "qonnx.custom_op.general"
MOST = (1 << 12) - 1  # thresholds of a channel
ELEMENTWISE = p.Affine, p.Round, p.Relu
KNOWN = (p.Images, p.Product, p.Add, p.MaxPool, p.SumPool, p.Flatten, *ELEMENTWISE)


def model(program: Program) -> onnx.ModelProto:
    """The model; ConfigError where QONNX has no such numbers or float32 no room, and without onnx."""
    onnx = installed("qonnx")
    for op, value in zip(program.ops, program.values, strict=True):
        if type(op) not in KNOWN or value.scale is not None or value.form != CODES:
            raise ConfigError(
                f"{op.name}: QONNX has numbers of one scale and no table: export to onnx or c, "
                "or train with adapt and ReLU"
            )
    made = modelled(onnx, Graph(onnx, program).finished(), program, DOMAIN)
    onnx.checker.check_model(made)
    return made


class Graph:
    """The nodes so far; images are (1, C, H, W)."""

    def __init__(self, package: ModuleType, program: Program) -> None:
        self.onnx, self.program = package, program
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.shapes: list[onnx.ValueInfoProto] = []

    def finished(self) -> onnx.GraphProto:
        """The graph of all operations."""
        program, kind = self.program, self.onnx.TensorProto.FLOAT
        made, place = {0: self._images()}, 1
        while place < len(program.ops):
            chain = self._chain(place)
            op, value = program.ops[place], program.values[chain[-1]]
            names, read = [made[k] for k in op.reads], [program.values[k] for k in op.reads]
            if len(chain) > 1 or not _plain(op, read, value):
                out = self._thresholds([program.ops[k] for k in chain], read[0], value, names[0])
            else:
                out = self._op(op, value, names, read)
            made[chain[-1]], place = out, chain[-1] + 1
        self.nodes[-1].output[0] = LOGITS
        ends = ((IMAGES, program.values[0]), (LOGITS, program.logits))
        given, gives = (
            self.onnx.helper.make_tensor_value_info(name, kind, _shape(value)) for name, value in ends
        )
        return self.onnx.helper.make_graph(
            self.nodes, "intnet", [given], [gives], self.initializers, value_info=self.shapes[:-1]
        )

    def _chain(self, place: int) -> list[int]:
        """The places of what becomes one node, or a few; those after `place` where float32 is too narrow."""
        program, readers = self.program, self.program.readers()
        op, value = program.ops[place], program.values[place]
        read, chain = [program.values[k] for k in op.reads], [place]
        if _plain(op, read, value):
            return chain
        while not (isinstance(program.ops[place], ELEMENTWISE) and value.hi - value.lo <= MOST):
            follows = place + 1 < len(program.ops) and program.ops[place + 1].reads == (place,)
            if not (isinstance(op, ELEMENTWISE) and follows and readers[place] == 1):
                break
            place, op, value = place + 1, program.ops[place + 1], program.values[place + 1]
            chain.append(place)
        if not isinstance(op, ELEMENTWISE) or value.hi - value.lo > MOST:
            raise _refused(program.ops[chain[0]], program.values[chain[0]])
        return chain

    # -- pieces ----------------------------------------------------------------------------------

    def node(self, kind: str, reads: Sequence[str], shape: Sequence[int], **attributes: Any) -> str:
        """A node more; the name of what it gives. Those of QONNX are of its domain."""
        name, domain = f"v{len(self.nodes)}", DOMAIN if kind in ("Quant", "MultiThreshold") else ""
        self.shapes.append(
            self.onnx.helper.make_tensor_value_info(name, self.onnx.TensorProto.FLOAT, list(shape))
        )
        self.nodes.append(
            self.onnx.helper.make_node(kind, reads, [name], f"{kind}_{name}", domain=domain, **attributes)
        )
        return name

    def constant(self, codes: ArrayLike, exponent: int = 0) -> str:
        """The name of codes * 2^exponent as float32."""
        name = f"c{len(self.initializers)}"
        array = np.ldexp(np.asarray(codes, np.float64), exponent).astype(np.float32)
        self.initializers.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def channel(self, codes: np.ndarray, exponent: int, value: Value) -> str:
        """Constants by channel, which broadcast over an image or a row."""
        return self.constant(codes.reshape(-1, 1, 1) if len(value.shape) == 3 else codes, exponent)

    def quant(self, x: str, shape: Sequence[int], exponent: int, word: Word) -> str:
        """x in steps of 2^exponent, to nearest, ties to even, limited to a word."""
        reads = [x, self.constant(1, exponent), self.constant(0), self.constant(word.bits)]
        signed, narrow = int(word.signed), int(word.narrow)
        return self.node("Quant", reads, shape, signed=signed, narrow=narrow, rounding_mode="ROUND")

    # -- operations ------------------------------------------------------------------------------

    def _images(self) -> str:
        value = self.program.values[0]
        return self.quant(IMAGES, _shape(value), value.exponent, _word(value.lo, value.hi))

    def _op(self, op: Op, value: Value, names: list[str], read: list[Value]) -> str:
        shape, made = _shape(value), names[0]
        if isinstance(op, p.Product):
            made = self._product(op, made, shape)
        elif isinstance(op, p.Affine):
            by = op.exponent - read[0].exponent
            if by or np.any(op.a != 1):
                made = self.node("Mul", [made, self.channel(op.a, by, value)], shape)
            if np.any(op.b):
                made = self.node("Add", [made, self.channel(op.b, op.exponent, value)], shape)
        elif isinstance(op, p.Add):
            made = self.node("Add", names, shape)
        elif isinstance(op, p.Round):
            word = _limits(op, read[0], value)
            assert word is not None
            made = self.quant(made, shape, value.exponent, word)
        elif isinstance(op, p.Relu):
            made = self.node("Relu", names, shape)
        elif isinstance(op, p.Pool):
            made = self._pool(op, made, shape)
        else:
            made = self._flat(made, _shape(read[0]), shape)
        return made

    def _product(self, op: p.Product, x: str, shape: Sequence[int]) -> str:
        word = _word(int(op.weight.min()), int(op.weight.max()))
        weight = op.weight.T if op.weight.ndim == 2 else op.weight
        w = self.quant(self.constant(weight, op.exponent), weight.shape, op.exponent, word)
        if op.weight.ndim == 2:
            return self.node("MatMul", [x, w], shape)
        return self.node("Conv", [x, w], shape, group=op.groups, **_window(op))

    def _pool(self, op: p.Pool, x: str, shape: Sequence[int]) -> str:
        if isinstance(op, p.MaxPool):
            return self.node("MaxPool", [x], shape, **_window(op))
        ones = self.constant(np.ones((shape[1], 1, *op.kernel)))  # a mean would round
        return self.node("Conv", [x, ones], shape, group=shape[1], **_window(op))

    def _flat(self, x: str, shape: list[int], flat: list[int]) -> str:
        name = f"s{len(self.initializers)}"
        self.initializers.append(self.onnx.numpy_helper.from_array(np.array([0, -1]), name))
        if len(shape) == 4:
            x = self.node("Transpose", [x], [shape[k] for k in CHANNELS_LAST], perm=CHANNELS_LAST)
        return self.node("Reshape", [x, name], flat)

    def _thresholds(self, chain: Sequence[Op], read: Value, value: Value, x: str) -> str:
        """The operations of a chain as one node, and where a channel falls, x of it with its sign changed."""
        steps, shape = staircases(chain, read, value), _shape(value)
        if np.any(steps.signs < 0):
            x = self.node("Mul", [x, self.channel(steps.signs, 0, value)], shape)
        reads = [x, self.constant(steps.thresholds, read.exponent)]
        word, unit = _word(value.lo, value.hi), 2.0**value.exponent
        told = {"out_scale": unit, "out_bias": value.lo * unit, "out_dtype": word.kind}
        return self.node("MultiThreshold", reads, shape, data_layout="NCHW"[: len(shape)], **told)


class Word(NamedTuple):
    """What a Quant limits to: bits, with a sign or none, narrow without the least code."""

    bits: int
    signed: bool
    narrow: bool

    @property
    def kind(self) -> str:
        """Its name as a data type."""
        return f"{'' if self.signed else 'U'}INT{self.bits}"


class Staircases(NamedTuple):
    """Of each channel: +1, or -1 where it falls; the least codes, times that, at which it is one more."""

    signs: np.ndarray
    thresholds: np.ndarray


def staircases(chain: Sequence[Op], read: Value, value: Value) -> Staircases:
    """Of operations by channel, each of which rises or falls: by halves, for each result above the least."""
    constants = [len(v) for op in chain for v in vars(op).values() if isinstance(v, np.ndarray)]
    channels = max(constants, default=1)

    def at(codes: np.ndarray) -> np.ndarray:  # (n, channels) of what the chain reads
        for op in chain:
            codes = batch.RULES[type(op)](op, value, codes)
        return np.broadcast_to(codes, (len(codes), channels))

    ends = np.tile([[read.lo], [read.hi]], channels)
    signs = np.where(np.subtract(*at(ends)) > 0, -1, 1)
    first, last = np.where(signs > 0, read.lo, -read.hi), np.where(signs > 0, read.hi, -read.lo)
    wanted = np.arange(value.lo + 1, value.hi + 1)[:, None]
    below, above = (np.tile(end, (len(wanted), 1)) for end in (first - 1, last + 1))
    while np.any(above - below > 1):  # the least that reaches it is in below + 1 .. above
        middle = below + (above - below) // 2
        inside = np.clip(middle, first, last)
        there = (at(signs * inside) >= wanted) & (middle <= last)
        below, above = np.where(there, below, middle), np.where(there, middle, above)
    return Staircases(signs, above.T)


# -- what float32 holds ------------------------------------------------------------------------------


def _plain(op: Op, read: Sequence[Value], value: Value) -> bool:
    """Whether the operation is nodes of its own: all that they compute is exact in float32."""
    if isinstance(op, p.Round):
        return value.greatest <= MANTISSA and _limits(op, read[0], value) is not None
    return value.peak <= MANTISSA and not (isinstance(op, p.Affine) and int(np.abs(op.a).max()) > MANTISSA)


def _refused(op: Op, value: Value) -> ConfigError:
    return ConfigError(
        f"{op.name}: it may need {value.peak.bit_length() + 1} bits, and QONNX's float32 has 25 with "
        "a sign: export to onnx or c, or train with fewer bits, of adapt --set switch=off --set start=8,6"
    )


def _limits(op: p.Round, read: Value, value: Value) -> Word | None:
    """The word of a rounding that a Quant can do: by a shift, within limits that a word has; else None."""
    ratio = Fraction(op.num) / Fraction(int(op.den[0]))
    if np.any(op.den != op.den[0]) or ratio != Fraction(2) ** (read.exponent - value.exponent):
        return None
    if op.lo is None or op.hi is None:
        return _word(value.lo, value.hi)
    word = _word(op.lo, op.hi)
    if _ends(word) == (op.lo, op.hi):
        return word
    ends = (round(Fraction(end) * ratio) for end in (read.lo, read.hi))
    return _word(value.lo, value.hi) if all(op.lo <= end <= op.hi for end in ends) else None


def _word(lo: int, hi: int) -> Word:
    """The least word that has lo..hi."""
    if lo >= 0:
        return Word(max(hi.bit_length(), 1), False, False)
    bits = max(word_bits(lo, max(hi, 0)), 2)  # QONNX takes a signed bit for -1 and +1
    return Word(bits, True, -lo < 1 << bits - 1)


def _ends(word: Word) -> tuple[int, int]:
    """Its least and its greatest code."""
    if not word.signed:
        return 0, (1 << word.bits) - 1
    most = (1 << word.bits - 1) - 1
    return -most if word.narrow else -most - 1, most


def _shape(value: Value) -> list[int]:
    """Of one image, channels first."""
    return [1, value.shape[-1], *value.shape[:-1]]


def _window(op: p.Windowed) -> dict[str, list[int]]:
    """The attributes of a window."""
    return {"kernel_shape": list(op.kernel), "strides": list(op.stride), "pads": [*op.padding] * 2}
