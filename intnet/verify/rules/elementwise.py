"""Rules of add, relu, dropout, flatten, scale and the loss, and of a user's own operation."""

from fractions import Fraction
from operator import add
from typing import Any

import numpy as np

from intnet.spec import elementwise, loss
from intnet.spec import float32 as f32
from intnet.spec.convolution import exact_dot
from intnet.spec.tensor import Tensor
from intnet.verify.record import Back, Call, What
from intnet.verify.rules.products import Conv
from intnet.verify.rules.rule import Elementwise, Rule, shown
from intnet.verify.values import Near, Values, floats_of, is_float, shape_of, units


class Add(Elementwise):
    """y = a + b, of two branches, or of two gradients of one value."""

    exact, floats = ("elementwise.add",), ("float32.add32",)
    at, at32 = staticmethod(add), staticmethod(f32.add32)

    def operands(self, values: Values, what: What, k: int, at: int) -> list[str]:
        """All of them; gradients that met by their order."""
        if not what.call.joins:
            return super().operands(values, what, k, at)
        named = list(zip(("the first", "the second"), what.call.operands, strict=True))
        return shown(values, named, what.results[k], at)


class Relu(Elementwise):
    """y = max(x, 0); dx = dy where x > 0, else 0."""

    exact = ("elementwise.relu_at", "elementwise.relu_grad_at")
    at = staticmethod(elementwise.relu_at)

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

    def _map(self, values: Values, what: What, x: Any, flat: np.ndarray) -> list[Fraction]:
        keep, words = what.call.attributes["keep"], what.call.attributes["words"].reshape(-1)[flat]
        rule = elementwise.dropout32_at if is_float(what.results[0]) else elementwise.dropout_at
        pairs = zip(values.at(x, flat), words.tolist(), strict=True)
        return [Fraction(rule(v, word, keep)) for v, word in pairs]

    def forward(self, values: Values, call: Call, flat: np.ndarray) -> list[Fraction]:
        """x / keep or 0."""
        return self._map(values, call, call.operands[0], flat)

    def back(self, values: Values, back: Back, k: int, flat: np.ndarray) -> list[Fraction]:
        """e / keep or 0."""
        return self._map(values, back, back.gradient, flat)

    def _near(self, values: Values, call: Call, x: Any) -> Near:
        keep, words = call.attributes["keep"], call.attributes["words"].astype(np.uint64)
        mask = words * np.uint64(keep.denominator) < np.uint64(keep.numerator << 32)
        return values.near(x).map(lambda part: np.where(mask.reshape(part.shape), part / float(keep), 0))

    def near_forward(self, values: Values, call: Call) -> Near:
        """In float64."""
        return self._near(values, call, call.operands[0])

    def near_back(self, values: Values, back: Back, k: int) -> Near:
        """In float64."""
        return self._near(values, back.call, back.gradient)


class Flatten(Rule):
    """The same elements in C order."""

    exact = ("tensor.reshape",)

    def forward(self, values: Values, call: Call, flat: np.ndarray) -> list[Fraction]:
        """x."""
        return values.at(call.operands[0], flat)

    def back(self, values: Values, back: Back, k: int, flat: np.ndarray) -> list[Fraction]:
        """e."""
        return values.at(back.gradient, flat)

    def near_forward(self, values: Values, call: Call) -> Near:
        """In float64."""
        return values.near(call.operands[0]).map(lambda part: part.reshape(shape_of(call.result)))

    def near_back(self, values: Values, back: Back, k: int) -> Near:
        """In float64."""
        return values.near(back.gradient).map(lambda part: part.reshape(shape_of(back.results[k])))


class Scale(Rule):
    """y = x * s, s a factor a channel of each image; dx = e * s; ds = sum over positions of e * x."""

    exact = ("elementwise.scale", "elementwise.scale", "elementwise.scale_grad")
    floats = ("elementwise.scale32", "elementwise.scale32", "elementwise.scale32_grad")

    @staticmethod
    def _times(values: Values, x: Any, s: Any, floats: bool, flat: np.ndarray) -> list[Fraction]:
        shape = shape_of(x)
        factors = values.at(s, np.array([elementwise.factor_of(i, shape) for i in flat.tolist()]))
        if floats:
            factors = [f32.to_float32(factor) for factor in factors]
        pairs = zip(values.at(x, flat), factors, strict=True)
        return [f32.mul32(v, factor) if floats else v * factor for v, factor in pairs]

    def forward(self, values: Values, call: Call, flat: np.ndarray) -> list[Fraction]:
        """x * s."""
        x, s = call.operands
        return self._times(values, x, s, is_float(call.result), flat)

    def back(self, values: Values, back: Back, k: int, flat: np.ndarray) -> list[Fraction]:
        """e * s, or the sum of e * x of an image's channel, in row-major order."""
        floats, e, (x, s) = is_float(back.results[k]), back.gradient, back.call.operands
        if k == 0:
            return self._times(values, e, s, floats, flat)
        _, h, w, c = shape_of(x)
        x = Conv.kept(back, x)
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
