"""Rules of add, relu, dropout, flatten and scale, and of a user's own operation."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from intnet.spec import elementwise
from intnet.spec import float32 as f32
from intnet.spec.convolution import exact_dot
from intnet.spec.tensor import Tensor
from intnet.verify.record import Back, Call
from intnet.verify.rules.products import Conv
from intnet.verify.rules.rule import Elementwise, Rule
from intnet.verify.values import Near, Values, floats_of, is_float, shape_of, units


class Add(Elementwise):
    """y = a + b."""

    def specs(self, what: Any, k: int) -> tuple[str, ...]:
        """By what is added."""
        return ("float32.add32",) if is_float(what.result if k == 0 else None) else ("elementwise.add",)

    def forward_of(self, values: Values, pair: Sequence[Any], flat: np.ndarray) -> list[Fraction]:
        """The sum of two values: exact, of two float32 arrays one addition."""
        both = zip(values.at(pair[0], flat), values.at(pair[1], flat), strict=True)
        return [f32.add32(a, b) if all(map(is_float, pair)) else a + b for a, b in both]

    def forward(self, values: Values, call: Call, flat: np.ndarray) -> list[Fraction]:
        """a + b."""
        return self.forward_of(values, call.operands, flat)

    def near_forward(self, values: Values, call: Call) -> Near:
        """In float64."""
        (a, up), (b, more) = map(values.near, call.operands)
        return a + b, up + more

    def back(self, values: Values, back: Back, k: int, flat: np.ndarray) -> list[Fraction]:
        """e."""
        return values.at(back.gradient, flat)


class Relu(Elementwise):
    """y = max(x, 0); dx = dy where x > 0, else 0."""

    forward_spec, back_specs = "elementwise.relu_at", ("elementwise.relu_grad_at",)

    def forward(self, values: Values, call: Call, flat: np.ndarray) -> list[Fraction]:
        """max(x, 0)."""
        return [elementwise.relu_at(x) for x in values.at(call.operands[0], flat)]

    def near_forward(self, values: Values, call: Call) -> Near:
        """In float64."""
        x, size = values.near(call.operands[0])
        return np.maximum(x, 0), size

    def back(self, values: Values, back: Back, k: int, flat: np.ndarray) -> list[Fraction]:
        """e where the input is above 0."""
        pairs = zip(values.at(back.gradient, flat), values.at(back.call.operands[0], flat), strict=True)
        return [elementwise.relu_grad_at(e, x) for e, x in pairs]


class Dropout(Elementwise):
    """y = x / keep where word * q < p * 2^32, keep = p/q, else 0; its gradient is the same map of e."""

    def specs(self, what: Call | Back, k: int) -> tuple[str, ...]:
        """By what is dropped."""
        floats = is_float(what.result if isinstance(what, Call) else what.results[k])
        return ("elementwise.dropout32_at" if floats else "elementwise.dropout_at",)

    def _map(self, values: Values, call: Call, x: Any, floats: bool, flat: np.ndarray) -> list[Fraction]:
        keep, drawn = call.attributes["keep"], call.attributes["words"].reshape(-1)[flat].tolist()
        rule = elementwise.dropout32_at if floats else elementwise.dropout_at
        return [Fraction(rule(v, word, keep)) for v, word in zip(values.at(x, flat), drawn, strict=True)]

    def forward(self, values: Values, call: Call, flat: np.ndarray) -> list[Fraction]:
        """x / keep or 0."""
        return self._map(values, call, call.operands[0], is_float(call.result), flat)

    def back(self, values: Values, back: Back, k: int, flat: np.ndarray) -> list[Fraction]:
        """e / keep or 0."""
        return self._map(values, back.call, back.gradient, is_float(back.results[k]), flat)

    def _near(self, values: Values, call: Call, x: Any) -> Near:
        keep, words = call.attributes["keep"], call.attributes["words"].astype(np.uint64)
        mask = words * np.uint64(keep.denominator) < np.uint64(keep.numerator << 32)
        found, size = values.near(x)
        return np.where(mask.reshape(found.shape), found / float(keep), 0), size / float(keep)

    def near_forward(self, values: Values, call: Call) -> Near:
        """In float64."""
        return self._near(values, call, call.operands[0])

    def near_back(self, values: Values, back: Back, k: int) -> Near:
        """In float64."""
        return self._near(values, back.call, back.gradient)


class Flatten(Rule):
    """The same elements in C order."""

    forward_spec, back_specs = "tensor.reshape", ("tensor.reshape",)

    def forward(self, values: Values, call: Call, flat: np.ndarray) -> list[Fraction]:
        """x."""
        return values.at(call.operands[0], flat)

    def back(self, values: Values, back: Back, k: int, flat: np.ndarray) -> list[Fraction]:
        """e."""
        return values.at(back.gradient, flat)

    def near_forward(self, values: Values, call: Call) -> Near:
        """In float64."""
        found, size = values.near(call.operands[0])
        return found.reshape(shape_of(call.result)), size.reshape(shape_of(call.result))

    def near_back(self, values: Values, back: Back, k: int) -> Near:
        """In float64."""
        found, size = values.near(back.gradient)
        return found.reshape(shape_of(back.results[k])), size.reshape(shape_of(back.results[k]))


class Scale(Rule):
    """y = x * s, s a factor a channel of each image; dx = e * s; ds = sum over positions of e * x."""

    def specs(self, what: Call | Back, k: int) -> tuple[str, ...]:
        """By what is multiplied."""
        floats = is_float(what.result if isinstance(what, Call) else what.results[k])
        if isinstance(what, Back) and k == 1:
            return ("elementwise.scale32_grad" if floats else "elementwise.scale_grad",)
        return ("elementwise.scale32" if floats else "elementwise.scale",)

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


class Own(Rule):
    """A user's own operation, by what its `spec` says: plain functions on whole tensors of exact numbers.

    spec.forward(*tensors, **attributes) -> Tensor; spec.back(error, *tensors, **attributes) -> a Tensor or
    None an operand. Tensors are `spec.tensor.Tensor`, numbers Fractions.
    """

    def __init__(self, spec: Any) -> None:
        self.spec = spec
        name = f"{getattr(spec, '__module__', '')}.{getattr(spec, '__qualname__', type(spec).__name__)}"
        self.forward_spec, self.name = name, name

    def specs(self, what: Call | Back, k: int) -> tuple[str, ...]:
        """Its name."""
        return (self.name,)

    @staticmethod
    def _tensors(values: Values, operands: Sequence[Any]) -> list[Any]:
        out = []
        for value in operands:
            shape = shape_of(value)
            size = int(np.prod(shape))
            out.append(Tensor(shape, values.at(value, np.arange(size))))
        return out

    def forward(self, values: Values, call: Call, flat: np.ndarray) -> list[Fraction]:
        """The whole tensor, then the elements asked for."""
        made = self.spec.forward(*self._tensors(values, call.operands), **call.attributes)
        return [Fraction(made.values[i]) for i in flat.tolist()]

    def back(self, values: Values, back: Back, k: int, flat: np.ndarray) -> list[Fraction]:
        """The same of a gradient."""
        given = self._tensors(values, [back.gradient, *back.call.operands])
        made = self.spec.back(*given, **back.call.attributes)[k]
        return [Fraction(made.values[i]) for i in flat.tolist()]
