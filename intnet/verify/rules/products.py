"""Rules of conv2d, linear and add_bias: a sum of products an element, on stored operands.

    integers   the exact sum                            `convolution`, `exact_dot`
    float32    the contract's order                     `float32.dot32`, over a batch `float32.batch_dot32`
    blocks     the exact sum, rounded once to float32   `block_float.rounded`

Sums over a whole batch are made by `chains`, in the definition's order, and one of each tensor, drawn by its
place, by the definition itself.
"""

from fractions import Fraction
from typing import Any

import numpy as np

from intnet.blocks.block_float import BlockTensor
from intnet.blocks.buckets import Packed
from intnet.numbers.qtensor import QTensor
from intnet.spec import float32 as f32
from intnet.spec import geometry
from intnet.spec.convolution import exact_dot
from intnet.spec.geometry import ConvShape, forward_runs, input_runs, weight_runs
from intnet.spec.tensor import power
from intnet.verify import chains
from intnet.verify.record import Back, Call
from intnet.verify.row import written
from intnet.verify.rules.rule import Rule, shown
from intnet.verify.values import (
    Near,
    Values,
    backward_copy,
    floats_of,
    forward_copy,
    fractions,
    is_float,
    shape_of,
    units,
)

SHORT = 64  # terms up to which every sum over a batch is made by the definition itself, else by `chains`
ROWS = 32  # of them at a time
TERMS = 12  # of a sum that a trail shows
Runs = list[tuple[range | None, range]]
INTEGERS, FLOATS, BLOCKS = "integers", "float32", "blocks"


def kind_of(a: Any, b: Any) -> str:
    """How two operands are multiplied; an integer beside a float32 array is one too."""
    if isinstance(a, QTensor) and isinstance(b, QTensor):
        return INTEGERS
    return BLOCKS if isinstance(a, BlockTensor) and isinstance(b, BlockTensor) else FLOATS


class Operand:
    """A stored tensor as flat numbers: codes, units of 2^-149, or exact values."""

    def __init__(self, value: Any, kind: str) -> None:
        self.exponent = value.exponent if kind == INTEGERS else 0
        self.array = np.ascontiguousarray(value.codes if kind == INTEGERS else floats_of(value))
        self.flat = self.array.reshape(-1)
        self.kind = kind

    def read(self, runs: list[range | None], lengths: list[int]) -> list[Any]:
        """The numbers of runs of places, zeros where a run is None."""
        parts: list[Any] = []
        for run, length in zip(runs, lengths, strict=True):
            if run is None:
                parts += [0] * length
                continue
            stop: int | None = run.stop if run.step > 0 else None
            taken = self.flat[run.start : stop : run.step]
            parts += taken.tolist() if self.kind == INTEGERS else units(taken)
        return parts


def summed(a: list[Any], b: list[Any], kind: str, exponent: int) -> Fraction:
    """One sum of products by the definition; a and b hold codes, or units of 2^-149."""
    if kind == INTEGERS:
        return exact_dot(a, b) * power(exponent)
    if kind == BLOCKS:
        return f32.to_float32(Fraction(exact_dot(a, b), f32.ONE * f32.ONE))
    return Fraction(f32.dot_units(a, b), f32.ONE)


class Conv(Rule):
    """conv2d, and linear as a convolution of images of one pixel."""

    forward_spec = "convolution.conv2d"
    back_specs = ("convolution.conv2d_input_grad", "convolution.conv2d_weight_grad")
    float_specs = ("convolution.conv32", "convolution.conv32_input_grad", "convolution.conv32_weight_grad")

    def specs(self, what: Call | Back, k: int) -> tuple[str, ...]:
        """The spec functions of the result or of gradient k."""
        call = what if isinstance(what, Call) else what.call
        a, b = self.operands_of(call)
        place = 0 if isinstance(what, Call) else 1 + k
        kind = kind_of(a, b) if isinstance(what, Call) else kind_of(what.gradient, self.other(what, k))
        exact = (self.forward_spec, *self.back_specs)[place]
        if kind == INTEGERS:
            return (exact,)
        return (self.float_specs[place],) if kind == FLOATS else (exact, "block_float.rounded")

    def operands_of(self, call: Call) -> tuple[Any, Any]:
        """What the forward product reads."""
        return forward_copy(call.operands[0]), forward_copy(call.operands[1])

    def other(self, back: Back, k: int) -> Any:
        """What the error is multiplied by: W for the input's gradient; for W's what the tape held of x0."""
        call = back.call
        return backward_copy(call.operands[1]) if k == 0 else self.kept(back, call.operands[0])

    @staticmethod
    def kept(back: Back, x: Any) -> Any:
        """What the tape held of an operand: its packed form where a method packed it, else the operand."""
        for event in (*back.events, *back.call.events):
            if isinstance(event.result, Packed):
                return event.result
        return backward_copy(x)

    def shape(self, call: Call) -> ConvShape:
        """All sizes."""
        x, w = self.operands_of(call)
        window = {key: call.attributes.get(key, start) for key, start in (("stride", 1), ("padding", 0))}
        shapes = [(*s.shape, 1, 1)[:4] if len(s.shape) == 2 else s.shape for s in (w,)]
        x_shape = x.shape if len(x.shape) == 4 else (x.shape[0], 1, 1, x.shape[1])
        groups = call.attributes.get("groups", 1)
        return geometry.conv_shape(x_shape, shapes[0], window["stride"], window["padding"], groups)

    def forward(self, values: Values, call: Call, flat: np.ndarray) -> list[Fraction]:
        """x1 = W * x0."""
        g, (x, w) = self.shape(call), self.operands_of(call)
        places = np.stack(np.unravel_index(flat, (g.n, g.oh, g.ow, g.o)), axis=1).tolist()
        return self._short(kind_of(x, w), x, w, [forward_runs(g, *place) for place in places])

    def operands(self, values: Values, what: Call | Back, k: int, at: int) -> list[str]:
        """The factors of the first products, by their places."""
        if isinstance(what, Call):
            g, (a, b), names = self.shape(what), self.operands_of(what), ("x0", "W")
            runs = forward_runs(g, *_place(at, (g.n, g.oh, g.ow, g.o)))
        elif k == 0:
            g, a, b, names = self.shape(what.call), what.gradient, self.other(what, 0), ("e3", "W")
            runs = input_runs(g, *_place(at, (g.n, g.h, g.w, g.c)))
        else:
            g, a, b, names = self.shape(what.call), self.other(what, 1), what.gradient, ("x0", "e3")
            runs = weight_runs(g, *_place(at, (g.o, g.cg, g.kh, g.kw)))
        pairs = [(i, j) for one, two in runs if one is not None for i, j in zip(one, two, strict=True)]
        lines = [f"a sum of {len(pairs):,} products, in this order:"]
        for i, j in pairs[:TERMS]:
            places = [_place(i, shape_of(a)), _place(j, shape_of(b))]
            named = [f"{name}[{','.join(map(str, at))}]" for name, at in zip(names, places, strict=True)]
            factors = [written(values.at(v, np.array([at]))[0]) for v, at in ((a, i), (b, j))]
            lines.append(f"  {' * '.join(named)}: {'; '.join(factors)}")
        return [*lines, "  ..."] if len(pairs) > TERMS else lines

    @staticmethod
    def _short(kind: str, a: Any, b: Any, sums: list[Runs]) -> list[Fraction]:
        left, right = Operand(a, kind), Operand(b, kind)
        exponent = left.exponent + right.exponent
        out = []
        for runs in sums:
            lengths = [len(second) for _, second in runs]
            one, two = (
                left.read([first for first, _ in runs], lengths),
                right.read([s for _, s in runs], lengths),
            )
            out.append(summed(one, two, kind, exponent))
        return out

    def back(self, values: Values, back: Back, k: int, flat: np.ndarray) -> list[Fraction]:
        """e4 = W^T e3, gW = e3 x0^T."""
        g, e, other = self.shape(back.call), back.gradient, self.other(back, k)
        kind = kind_of(e, other)
        if k == 0:
            places = np.stack(np.unravel_index(flat, (g.n, g.h, g.w, g.c)), axis=1).tolist()
            return self._short(kind, e, other, [input_runs(g, *place) for place in places])
        return self._weights(g, kind, e, other, flat)

    def _weights(self, g: ConvShape, kind: str, e: Any, x: Any, flat: np.ndarray) -> list[Fraction]:
        """The gradients of drawn weights; the first one of each call by the definition's own integers too."""
        places = np.stack(np.unravel_index(flat, (g.o, g.cg, g.kh, g.kw)), axis=1).tolist()
        errors, inputs = Operand(e, kind), Operand(x, kind)
        exponent = errors.exponent + inputs.exponent
        if g.n * g.oh * g.ow <= SHORT:
            runs = [weight_runs(g, *place) for place in places]
            return [self._one_weight(g, kind, errors, inputs, exponent, one) for one in runs]
        long = _Long(g, errors.array, inputs.array)
        out: list[Fraction] = []
        for start in range(0, len(places), ROWS):
            out += long.sums(places[start : start + ROWS], kind, exponent)
        return out

    def by_definition(self, values: Values, what: Call | Back, path: str, flat: int) -> Fraction | None:
        """One weight's gradient by the definition itself."""
        if isinstance(what, Call) or path != "1":
            return None
        g, e, other = self.shape(what.call), what.gradient, self.other(what, 1)
        if g.n * g.oh * g.ow <= SHORT:
            return None
        kind = kind_of(e, other)
        errors, inputs = Operand(e, kind), Operand(other, kind)
        place = [int(i) for i in np.unravel_index(flat, (g.o, g.cg, g.kh, g.kw))]
        exponent = errors.exponent + inputs.exponent
        return self._one_weight(g, kind, errors, inputs, exponent, weight_runs(g, *place))

    @staticmethod
    def _one_weight(
        g: ConvShape, kind: str, errors: Operand, inputs: Operand, exponent: int, runs: Runs
    ) -> Fraction:
        lengths = [len(second) for _, second in runs]
        a = inputs.read([first for first, _ in runs], lengths)
        b = errors.read([second for _, second in runs], lengths)
        if kind == FLOATS:
            return Fraction(f32.batch_dot_units(a, b, g.oh * g.ow), f32.ONE)
        return summed(a, b, kind, exponent)


def _place(flat: int, shape: tuple[int, ...]) -> list[int]:
    return [int(i) for i in np.unravel_index(flat, shape)]


class _Long:
    """Sums over a batch, a weight a row."""

    def __init__(self, g: ConvShape, errors: np.ndarray, inputs: np.ndarray) -> None:
        self.g = g
        self.errors = errors.reshape(-1, g.o)
        x = inputs.reshape(g.n, g.h, g.w, g.c)
        rows, cols = (g.oh - 1) * g.sh + g.kh, (g.ow - 1) * g.sw + g.kw
        self.inputs = np.zeros((g.n, max(rows, g.h + g.top), max(cols, g.w + g.left), g.c), x.dtype)
        self.inputs[:, g.top : g.top + g.h, g.left : g.left + g.w] = x

    def sums(self, places: list[list[int]], kind: str, exponent: int) -> list[Fraction]:
        """Of each place (o, c, i, j)."""
        g = self.g
        a = np.empty((len(places), len(self.errors)), self.inputs.dtype)
        b = np.empty(a.shape, self.errors.dtype)
        for row, (o, c, i, j) in enumerate(places):
            channel = o // (g.o // g.groups) * g.cg + c
            rows, cols = slice(i, i + (g.oh - 1) * g.sh + 1, g.sh), slice(j, j + (g.ow - 1) * g.sw + 1, g.sw)
            a[row] = self.inputs[:, rows, cols, channel].reshape(-1)
            b[row] = self.errors[:, o]
        if kind == INTEGERS:
            return [total * power(exponent) for total in chains.whole_dots(a, b)]
        if kind == BLOCKS:
            return [f32.to_float32(total * power(up)) for total, up in chains.float_dots(a, b)]
        return fractions(chains.batch_dots(a, b, g.oh * g.ow))


class Linear(Conv):
    """linear."""

    forward_spec = "convolution.linear"
    back_specs = ("convolution.linear_input_grad", "convolution.linear_weight_grad")
    float_specs = (
        "convolution.linear32",
        "convolution.linear32_input_grad",
        "convolution.linear32_weight_grad",
    )


class AddBias(Rule):
    """z = y + b: exact, or one float32 addition; db = sum of e."""

    forward_spec = "convolution.linear32"
    back_specs = ("", "convolution.bias_grad")

    def specs(self, what: Call | Back, k: int) -> tuple[str, ...]:
        """By what is added."""
        result = what.result if isinstance(what, Call) else what.results[k]
        if isinstance(what, Call):
            return ("float32.add32",) if is_float(result) else ("elementwise.add",)
        if k == 0:
            return ("elementwise.add",)
        return ("convolution.bias32_grad",) if is_float(result) else ("convolution.bias_grad",)

    def forward(self, values: Values, call: Call, flat: np.ndarray) -> list[Fraction]:
        """y + b."""
        y, b = call.operands
        pairs = zip(values.at(y, flat), values.at(b, flat % b.shape[0]), strict=True)
        return [f32.add32(p, q) if is_float(call.result) else p + q for p, q in pairs]

    def operands(self, values: Values, what: Call | Back, k: int, at: int) -> list[str]:
        """y and b on the way forward."""
        if not isinstance(what, Call):
            return []
        return shown(values, [("y", what.operands[0]), ("b", what.operands[1])], what.result, at)

    def near_forward(self, values: Values, call: Call) -> Near:
        """In float64."""
        (y, up), (b, more) = values.near(call.operands[0]), values.near(call.operands[1])
        return y + b, up + more

    def back(self, values: Values, back: Back, k: int, flat: np.ndarray) -> list[Fraction]:
        """e as it is; the sum of its columns."""
        e = back.gradient
        if k == 0:
            return values.at(e, flat)
        c = e.shape[-1]
        if isinstance(e, QTensor):
            rows = e.codes.reshape(-1, c)
            return [sum(rows[:, channel].tolist()) * power(int(e.exponent)) for channel in flat.tolist()]
        rows = floats_of(e).reshape(-1, c)[:, flat].T
        if rows.shape[1] <= SHORT:
            return [self.by_definition(values, back, "", channel) for channel in flat.tolist()]  # type: ignore[misc]
        return fractions(chains.batch_sums(np.ascontiguousarray(rows), int(np.prod(e.shape[1:-1]))))

    def by_definition(self, values: Values, what: Call | Back, path: str, flat: int) -> Fraction | None:
        """One channel's float32 sum by the definition itself."""
        if isinstance(what, Call) or path == "0" or isinstance(what.gradient, QTensor):
            return None
        e = floats_of(what.gradient)
        column = units(e.reshape(-1, e.shape[-1])[:, flat])
        return f32.value(f32.batch_sum_units(column, int(np.prod(e.shape[1:-1]))))
