"""Rules of add, relu, dropout, flatten, the curves, scale and the loss, and of a user's own operation.

Tanh, sigmoid and silu of integers are correctly rounded where they are stored, others are float32's.
"""

from collections.abc import Callable
from fractions import Fraction
from operator import add
from typing import Any

import numpy as np

from intnet.ops.curves import Curve
from intnet.spec import elementary, elementwise, loss
from intnet.spec import float32 as f32
from intnet.spec.convolution import exact_dot
from intnet.spec.tensor import Tensor
from intnet.verify.floats import units
from intnet.verify.record import Back, Call, What
from intnet.verify.rules.products import Conv
from intnet.verify.rules.rule import Elementwise, Rule, Source, shown
from intnet.verify.values import Near, Values, floats_of, is_float, shape_of

ROUNDED = 2.0**14  # times MARGIN is more than float32's half unit, twice
FLOATS: dict[str, Callable[[Fraction], Fraction]] = {
    "tanh": elementary.tanh32,
    "sigmoid": elementary.sigmoid32,
    "silu": elementary.silu32,
    "slope": elementary.slope32,
}


class Add(Elementwise):
    """y = a + b, of two branches, or of two gradients of one value."""

    exact, floats = ("values.joined",), ("float32.add32",)
    equation, equation32 = staticmethod(add), staticmethod(f32.add32)

    def operands(self, values: Values, what: What, k: int, at: int) -> list[str]:
        """All of them; gradients that met by their order."""
        if not what.call.joins:
            return super().operands(values, what, k, at)
        named = list(zip(("the first", "the second"), what.call.operands, strict=True))
        return shown(values, named, what.results[k], at)


class Relu(Elementwise):
    """y = max(x, 0); dx = dy where x > 0, else 0."""

    exact = ("elementwise.relu_at", "elementwise.relu_grad_at")
    equation = staticmethod(elementwise.relu_at)

    def near_forward(self, values: Values, call: Call) -> Near:
        """In float64."""
        x = values.near(call.operands[0])
        return Near(np.maximum(x.value, 0), x.size)

    def back(self, values: Values, back: Back, k: int, flat: np.ndarray) -> list[Fraction]:
        """e where the input is above 0."""
        given = values.at(back.gradient, flat), values.at(back.call.operands[0], flat)
        return list(map(elementwise.relu_grad_at, *given))


class Dropout(Elementwise):
    """y = x / keep where word * q < p * 2^32, keep = p/q, else 0; its gradient is the same map of e."""

    exact, floats = ("elementwise.dropout_at",), ("elementwise.dropout32_at",)

    def at(self, values: Values, what: What, k: int, flat: np.ndarray) -> list[Fraction]:
        """x / keep or 0; of the gradient e / keep or 0."""
        keep, words = what.call.attributes["keep"], what.call.attributes["words"].reshape(-1)[flat]
        rule = elementwise.dropout32_at if is_float(what.results[k]) else elementwise.dropout_at
        pairs = zip(values.at(what.given, flat), words.tolist(), strict=True)
        return [Fraction(rule(v, word, keep)) for v, word in pairs]

    def near(self, values: Values, what: What, k: int) -> Near:
        """In float64."""
        keep, words = what.call.attributes["keep"], what.call.attributes["words"].astype(np.uint64)
        mask = words * np.uint64(keep.denominator) < np.uint64(keep.numerator << 32)
        return values.near(what.given).map(
            lambda part: np.where(mask.reshape(part.shape), part / float(keep), 0)
        )


class Flatten(Rule):
    """The same elements in C order."""

    exact = ("tensor.reshape",)

    def at(self, values: Values, what: What, k: int, flat: np.ndarray) -> list[Fraction]:
        """x, or e."""
        return values.at(what.given, flat)

    def near(self, values: Values, what: What, k: int) -> Near:
        """In float64."""
        return values.near(what.given).map(lambda part: part.reshape(shape_of(what.results[k])))


class Curved(Elementwise):
    """A curve by its name; the paths inside are x4 and, of silu, dx4.

    grad, grad32: dx of the error and of y as it is stored, exact and of float32
    """

    def __init__(self, name: str, grad: Callable[..., Any], grad32: Callable[..., Fraction]) -> None:
        self.name, self.grad, self.grad32 = name, grad, grad32

    def inner_specs(self, what: What, path: str) -> tuple[str, ...]:
        """Of codes the correctly rounded curve, else float32's."""
        name = "slope" if path == "dx4" else self.name
        return (f"curves.curve_round, elementary.{name}32",)

    def inner(self, values: Values, what: What, path: str, flat: np.ndarray) -> Source:
        """The curve at the input, exact where the format takes it so."""
        name, x = "slope" if path == "dx4" else self.name, values.at(what.call.operands[0], flat)
        event = next(event for event in what.events if event.path == path)
        if isinstance(event.source, Curve):
            return Source(x, curve=name)
        return Source([FLOATS[name](f32.to_float32(v)) for v in x])

    def inner_near(self, values: Values, what: What, path: str) -> Near:
        """In float64, as far off as float32's rounding; no curve is steeper than 1.1."""
        near = values.near(what.call.operands[0])
        x = near.value
        with np.errstate(over="ignore"):
            sigmoid = 1 / (1 + np.exp(-x))
        curves = {"tanh": np.tanh(x), "sigmoid": sigmoid, "silu": x * sigmoid}
        curves["slope"] = sigmoid + curves["silu"] * (1 - sigmoid)
        found = curves["slope" if path == "dx4" else self.name]
        return Near(found, 1.1 * near.size + ROUNDED * (np.abs(found) + 2.0**-126))

    def specs(self, what: What, k: int) -> tuple[str, ...]:
        """The gradient's products."""
        if isinstance(what, Call):
            return self.inner_specs(what, "x4")
        return ("float32.mul32",) if is_float(what.results[k]) else ("elementwise",)

    def forward(self, values: Values, call: Call, flat: np.ndarray) -> list[Fraction]:
        """What the quantizer that was handed in stored."""
        return values.at(call.inside("x4"), flat)

    def near_back(self, values: Values, back: Back, k: int) -> Near:
        """Gradients of curves are stored."""
        return values.near(back.results[k])

    def back(self, values: Values, back: Back, k: int, flat: np.ndarray) -> list[Fraction]:
        """By the error and y."""
        return self._of(values, back, back.call.result, flat)

    def _of(self, values: Values, back: Back, kept: Any, flat: np.ndarray) -> list[Fraction]:
        pairs = zip(values.at(back.gradient, flat), values.at(kept, flat), strict=True)
        if is_float(back.results[0]):
            return [self.grad32(f32.to_float32(e), f32.to_float32(v)) for e, v in pairs]
        return [self.grad(e, v) for e, v in pairs]


class Silu(Curved):
    """dx = e d: d the stored slope of an integer input; of a float32 one made again from the tape's."""

    def specs(self, what: What, k: int) -> tuple[str, ...]:
        """Of a float32 input the slope is not stored."""
        if isinstance(what, Back) and is_float(what.call.operands[0]):
            return ("elementary.silu_error32",)
        return super().specs(what, k)

    def back(self, values: Values, back: Back, k: int, flat: np.ndarray) -> list[Fraction]:
        """e d."""
        x = back.call.operands[0]
        if not is_float(x):
            return self._of(values, back, back.call.inside("dx4"), flat)
        pairs = zip(values.at(back.gradient, flat), values.at(Conv.kept(back, x), flat), strict=True)
        return [elementary.silu_error32(f32.to_float32(e), v) for e, v in pairs]


CURVES: dict[str, Curved] = {
    "tanh": Curved("tanh", elementwise.tanh_grad_at, elementary.tanh_error32),
    "sigmoid": Curved("sigmoid", elementwise.sigmoid_grad_at, elementary.sigmoid_error32),
    "silu": Silu("silu", lambda e, slope: e * slope, f32.mul32),
}


class Scale(Rule):
    """y = x * s, s a factor a channel of each image; dx = e * s; ds = sum over positions of e * x."""

    exact = ("values.times", "values.times", "elementwise.scale_grad_at")

    def at(self, values: Values, what: What, k: int, flat: np.ndarray) -> list[Fraction]:
        """x * s, e * s; or the sum of e * x of an image's channel, in row-major order."""
        floats, (x, s) = is_float(what.results[k]), what.call.operands
        if isinstance(what, Back) and k == 1:
            return self._sums(values, what.gradient, Conv.kept(what, x), floats, flat)
        places = [elementwise.factor_of(i, shape_of(x)) for i in flat.tolist()]
        factors, numbers = values.at(s, np.array(places)), values.at(what.given, flat)
        if floats:
            return [f32.mul32(v, f32.to_float32(q)) for v, q in zip(numbers, factors, strict=True)]
        return [v * q for v, q in zip(numbers, factors, strict=True)]

    @staticmethod
    def _sums(values: Values, e: Any, x: Any, floats: bool, flat: np.ndarray) -> list[Fraction]:
        _, h, w, c = shape_of(e)
        out = []
        for image, channel in zip((flat // c).tolist(), (flat % c).tolist(), strict=True):
            at = image * h * w * c + channel + c * np.arange(h * w)
            if not floats:
                out.append(Fraction(exact_dot(values.at(e, at), values.at(x, at))))
                continue
            pair = (units(floats_of(v).reshape(-1)[at]) for v in (e, x))
            out.append(f32.value(f32.dot_units(*pair)))
        return out


class Loss(Rule):
    """loss = mean of -log p of the targets; dl = (p - t)/N."""

    exact = ("loss.cross_entropy",)

    @staticmethod
    def _made(values: Values, call: Call) -> Any:
        def make() -> Any:
            shape, exact = values.tensor(call.operands[0])
            labels = [int(label) for label in call.attributes["labels"]]
            given = Tensor(shape, [f32.to_float32(v) for v in exact])
            return loss.cross_entropy(given, labels, call.attributes.get("smoothing", 0.0))

        return values.once(("loss", id(call)), make)

    def forward(self, values: Values, call: Call, flat: np.ndarray) -> list[Fraction]:
        """The mean loss."""
        return [self._made(values, call).loss]

    def back(self, values: Values, back: Back, k: int, flat: np.ndarray) -> list[Fraction]:
        """(p - t)/N."""
        error = self._made(values, back.call).error.values
        return [Fraction(error[i]) for i in flat.tolist()]


class Own(Rule):
    """A user's own operation, by what its `spec` says: plain functions on whole tensors of exact numbers.

    spec.forward(*tensors, **attributes) -> Tensor; spec.back(error, *tensors, **attributes) -> a Tensor or
    None an operand. Tensors are `spec.tensor.Tensor`, numbers Fractions.
    """

    def __init__(self, spec: Any) -> None:
        self.spec = spec
        name = f"{getattr(spec, '__module__', '')}.{getattr(spec, '__qualname__', type(spec).__name__)}"
        self.exact = (name,)

    def forward(self, values: Values, call: Call, flat: np.ndarray) -> list[Fraction]:
        """The whole tensor, then the elements asked for."""
        made = self.spec.forward(*map(values.tensor, call.operands), **call.attributes)
        return [Fraction(made.values[i]) for i in flat.tolist()]

    def back(self, values: Values, back: Back, k: int, flat: np.ndarray) -> list[Fraction]:
        """The same of a gradient."""
        given = map(values.tensor, (back.gradient, *back.call.operands))
        made = self.spec.back(*given, **back.call.attributes)[k]
        return [Fraction(made.values[i]) for i in flat.tolist()]
