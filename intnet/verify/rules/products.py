"""Rules of conv2d, linear and add_bias: a sum of products an element, on stored operands.

    integers   the exact sum                            `convolution`, `exact_dot`
    float32    the contract's order                     `float32.dot32`, over a batch `float32.batch_dot32`
    blocks     the exact sum, rounded once to float32   `block_float.rounded`
    affine     the exact sum as a float32, times both scales, `products.forward`

Sums over a whole batch are made by `chains`, in the definition's order, and one of each tensor, drawn by its
place, by the definition itself.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from operator import add
from typing import Any

import numpy as np

from intnet.exact.blocks.affine import AffineTensor
from intnet.exact.blocks.block_float import BlockTensor
from intnet.exact.blocks.buckets import Packed
from intnet.numbers.formats import Scaled
from intnet.numbers.qtensor import QTensor
from intnet.ops.products import bifurcated
from intnet.spec import block_float, formats, geometry
from intnet.spec import float32 as f32
from intnet.spec.convolution import exact_dot
from intnet.spec.geometry import ConvShape, forward_runs, input_runs, weight_runs
from intnet.spec.tensor import Tensor, place_of, power
from intnet.verify import chains
from intnet.verify.floats import fractions, units
from intnet.verify.record import Back, Call, What
from intnet.verify.row import written
from intnet.verify.rules.rule import Elementwise, Rule, shown
from intnet.verify.values import ALIKE, Values, backward_copy, decoded, floats_of, forward_copy, shape_of

SHORT = 64  # terms up to which every sum over a batch is made by the definition itself, else by `chains`
ROWS = 32  # of them at a time
TERMS = 12  # of a sum that a trail shows
WINDOW: dict[str, Any] = {"stride": 1, "padding": 0, "groups": 1}  # and what an operation without it has
Runs = list[tuple[range | None, range]]
INTEGERS, FLOATS, BLOCKS, AFFINE = "integers", "float32", "blocks", "affine"
CODES = (INTEGERS, AFFINE)  # sums of whole numbers


def kind_of(a: Any, b: Any) -> str:
    """How two operands are multiplied; an integer beside a float32 array is one too."""
    if isinstance(a, QTensor) and isinstance(b, QTensor):
        return INTEGERS
    if isinstance(a, AffineTensor) and isinstance(b, AffineTensor):
        return AFFINE
    return BLOCKS if isinstance(a, BlockTensor) and isinstance(b, BlockTensor) else FLOATS


def alike(packed: Packed, x: Any, e: Any) -> Any:
    """What came back of a packed operand x beside the error e, by `spec.methods.packing.alike`."""
    exact = isinstance(x, QTensor) and isinstance(e, QTensor)
    if not exact and not isinstance(x, BlockTensor):
        return packed
    if id(packed) not in ALIKE:
        a = decoded(packed)
        ALIKE[id(packed)] = packed, _in_words(a, x) if exact else _in_blocks(a, x)
    return ALIKE[id(packed)][1]


def _in_words(a: np.ndarray, x: QTensor) -> QTensor:
    if isinstance(x.format, Scaled):
        q = formats.quantize(fractions(a.reshape(-1)), formats.Scaled(x.format.wl))
        return QTensor(np.array(q.codes, np.int64).reshape(a.shape), q.exponent)
    codes = np.rint(np.ldexp(a.astype(np.float64), -int(x.exponent)))  # exact: a float32 has 24 bits
    return QTensor(codes.astype(np.int64), int(x.exponent))


def _in_blocks(a: np.ndarray, x: BlockTensor) -> BlockTensor:
    bits = {index: int(b) for index, b in np.ndenumerate(x.bits)}
    q = block_float.quantize(Tensor(a.shape, fractions(a.reshape(-1))), bits, x.axes)
    codes = np.array(q.codes, np.int8).reshape(a.shape)
    exponents = np.array([q.exponents[block] for block in bits], np.int8).reshape(x.bits.shape)
    return BlockTensor(codes, exponents, x.bits, np.ones_like(x.bits), x.axes)


class Operand:
    """A stored tensor as flat numbers: codes, units of 2^-149, or exact values."""

    def __init__(self, value: Any, kind: str) -> None:
        value = value.codes if kind == AFFINE else value
        self.exponent = value.exponent if kind in CODES else 0
        self.array = np.ascontiguousarray(value.codes if kind in CODES else floats_of(value))
        self.flat = self.array.reshape(-1)
        self.kind = kind

    def __getitem__(self, part: slice) -> list[Any]:
        """The numbers of a run of places."""
        taken = self.flat[part]
        return taken.tolist() if self.kind in CODES else units(taken)


@dataclass(frozen=True)
class Product:
    """The sums of products of one result of an operation.

    a, b:  what is multiplied, by their names in the equation
    shape: of the result; runs: of an element's terms in a and in b, by its place
    batch: positions of an image, where sums run over a whole batch
    """

    g: ConvShape
    a: Any
    b: Any
    names: tuple[str, str]
    shape: tuple[int, ...]
    runs: Callable[..., Runs]
    batch: int = 0

    @property
    def kind(self) -> str:
        """How the two are multiplied."""
        return kind_of(self.a, self.b)

    @property
    def is_long(self) -> bool:
        """Whether `chains` makes the sums."""
        return self.g.n * self.batch > SHORT

    def sums(self, flat: np.ndarray) -> list[Fraction]:
        """Elements by the definition's own numbers: codes, or units of 2^-149."""
        left: Any = Operand(self.a, self.kind)
        right: Any = Operand(self.b, self.kind)
        out = []
        for i in flat.tolist():
            terms = geometry.gathered(left, right, self.runs(self.g, *place_of(i, self.shape)))
            out.append(self._sum(*terms, left.exponent + right.exponent))
        return out

    def _sum(self, a: list[Any], b: list[Any], exponent: int) -> Fraction:
        if self.kind == INTEGERS:
            return exact_dot(a, b) * power(exponent)
        if self.kind == AFFINE:
            return self._scaled(exact_dot(a, b))
        if self.kind == BLOCKS:
            return f32.to_float32(Fraction(exact_dot(a, b), f32.ONE * f32.ONE))
        if self.batch:
            return f32.value(f32.batch_dot_units(a, b, self.batch))
        return f32.value(f32.dot_units(a, b))

    def _scaled(self, total: int) -> Fraction:
        """A sum of codes times both scales."""
        step = f32.mul32(*(Fraction(float(one.scale)) for one in (self.a, self.b)))
        return f32.mul32(f32.to_float32(Fraction(total)), step)

    def long_sums(self, flat: np.ndarray) -> list[Fraction]:
        """Gradients of weights by `chains`, a weight a row."""
        g, inputs, errors = self.g, Operand(self.a, self.kind), Operand(self.b, self.kind)
        exponent, out = inputs.exponent + errors.exponent, list[Fraction]()
        rows, cols = (g.oh - 1) * g.sh + g.kh, (g.ow - 1) * g.sw + g.kw
        x = np.zeros((g.n, max(rows, g.h + g.top), max(cols, g.w + g.left), g.c), inputs.array.dtype)
        x[:, g.top : g.top + g.h, g.left : g.left + g.w] = inputs.array.reshape(g.n, g.h, g.w, g.c)
        e = errors.array.reshape(-1, g.o)
        for start in range(0, len(flat), ROWS):
            places = [place_of(k, self.shape) for k in flat[start : start + ROWS].tolist()]
            a, b = np.empty((len(places), len(e)), x.dtype), np.empty((len(places), len(e)), e.dtype)
            for row, (o, c, i, j) in enumerate(places):
                down, across = (
                    slice(k, k + (n - 1) * s + 1, s) for k, n, s in ((i, g.oh, g.sh), (j, g.ow, g.sw))
                )
                a[row] = x[:, down, across, o // (g.o // g.groups) * g.cg + c].reshape(-1)
                b[row] = e[:, o]
            out += self._of_rows(a, b, exponent)
        return out

    def _of_rows(self, a: np.ndarray, b: np.ndarray, exponent: int) -> list[Fraction]:
        if self.kind == INTEGERS:
            return [total * power(exponent) for total in chains.whole_dots(a, b)]
        if self.kind == AFFINE:
            return [self._scaled(total) for total in chains.whole_dots(a, b)]
        if self.kind == BLOCKS:
            return [f32.to_float32(total * power(up)) for total, up in chains.float_dots(a, b)]
        return fractions(chains.batch_dots(a, b, self.batch))


class Conv(Rule):
    """conv2d, and linear as a convolution of images of one pixel."""

    exact = ("convolution.conv2d", "convolution.conv2d_input_grad", "convolution.conv2d_weight_grad")
    floats = ("convolution.conv32", "convolution.conv32_input_grad", "convolution.conv32_weight_grad")

    def specs(self, what: What, k: int) -> tuple[str, ...]:
        """By how it is multiplied; blocks are rounded once besides."""
        kind, place = self.product(what, k).kind, 0 if isinstance(what, Call) else 1 + k
        if kind == FLOATS:
            return (self.floats[place],)
        return (
            self.exact[place],
            *["block_float.rounded"] * (kind == BLOCKS),
            *["products.forward"] * (kind == AFFINE),
        )

    @staticmethod
    def kept(back: Back, x: Any) -> Any:
        """What the tape held of an operand: its packed form where a method packed it, else the operand."""
        for event in (*back.events, *back.call.events):
            if isinstance(event.result, Packed):
                return alike(event.result, backward_copy(x), bifurcated(back.gradient).weight)
        return backward_copy(x)

    def product(self, what: What, k: int) -> Product:
        """Of the result x0 W, of the input's gradient e3 W, of the weight's x0 e3."""
        call = what.call
        x, w = map(forward_copy, call.operands[:2])
        given = (call.attributes.get(name, start) for name, start in WINDOW.items())
        g = geometry.conv_shape(x.shape, w.shape, *given)
        if isinstance(what, Call):
            return Product(g, x, w, ("x0", "W"), (g.n, g.oh, g.ow, g.o), forward_runs)
        e, e_weight = bifurcated(what.gradient)
        if k == 0:
            w = backward_copy(call.operands[1])
            return Product(g, e, w, ("e3", "W"), (g.n, g.h, g.w, g.c), input_runs)
        x, shape = self.kept(what, call.operands[0]), (g.o, g.cg, g.kh, g.kw)
        return Product(g, x, e_weight, ("x0", "e3"), shape, weight_runs, g.oh * g.ow)

    def forward(self, values: Values, call: Call, flat: np.ndarray) -> list[Fraction]:
        """x1 = W * x0."""
        return self.product(call, 0).sums(flat)

    def back(self, values: Values, back: Back, k: int, flat: np.ndarray) -> list[Fraction]:
        """e4 = W^T e3, gW = e3 x0^T."""
        product = self.product(back, k)
        return product.long_sums(flat) if product.is_long else product.sums(flat)

    def by_definition(self, values: Values, back: Back, k: int, flat: int) -> Fraction | None:
        """One weight's gradient by the definition itself."""
        product = self.product(back, k)
        return product.sums(np.array([flat]))[0] if product.is_long else None

    def operands(self, values: Values, what: What, k: int, at: int) -> list[str]:
        """The factors of the first products, by their places."""
        p = self.product(what, k)
        runs = p.runs(p.g, *place_of(at, p.shape))
        pairs = [(i, j) for one, two in runs if one is not None for i, j in zip(one, two, strict=True)]
        lines = [f"a sum of {len(pairs):,} products, in this order:"]
        for i, j in pairs[:TERMS]:
            places = [place_of(i, shape_of(p.a)), place_of(j, shape_of(p.b))]
            named = [f"{name}[{','.join(map(str, at))}]" for name, at in zip(p.names, places, strict=True)]
            factors = [written(values.at(v, np.array([at]))[0]) for v, at in ((p.a, i), (p.b, j))]
            lines.append(f"  {' * '.join(named)}: {'; '.join(factors)}")
        return [*lines, "  ..."] if len(pairs) > TERMS else lines


class AddBias(Elementwise):
    """z = y + b: exact, or one float32 addition; db = sum of e."""

    exact = ("values.joined", "values.joined", "products.bias_gradient")
    floats = ("float32.add32", "values.joined", "products.bias_gradient")
    equation, equation32 = staticmethod(add), staticmethod(f32.add32)

    def operands(self, values: Values, what: What, k: int, at: int) -> list[str]:
        """y and b on the way forward."""
        if isinstance(what, Back):
            return []
        return shown(values, [("y", what.operands[0]), ("b", what.operands[1])], what.result, at)

    def back(self, values: Values, back: Back, k: int, flat: np.ndarray) -> list[Fraction]:
        """e as it is; the sum of its columns."""
        e = back.gradient
        if k == 0:
            return values.at(e, flat)
        e = bifurcated(e).weight
        rows = (e.codes if isinstance(e, QTensor) else floats_of(e)).reshape(-1, e.shape[-1])[:, flat].T
        if isinstance(e, QTensor):
            return [sum(row) * power(int(e.exponent)) for row in rows.tolist()]
        if rows.shape[1] <= SHORT:
            return [self._column(e, channel) for channel in flat.tolist()]
        return fractions(chains.batch_sums(np.ascontiguousarray(rows), per_image(e)))

    def by_definition(self, values: Values, back: Back, k: int, flat: int) -> Fraction | None:
        """One channel's float32 sum by the definition itself."""
        e = bifurcated(back.gradient).weight
        return None if k == 0 or isinstance(e, QTensor) else self._column(e, flat)

    @staticmethod
    def _column(e: Any, channel: int) -> Fraction:
        column = units(floats_of(e).reshape(-1, e.shape[-1])[:, channel])
        return f32.value(f32.batch_sum_units(column, per_image(e)))


def per_image(e: Any) -> int:
    """Positions of an image."""
    return int(np.prod(e.shape[1:-1]))
