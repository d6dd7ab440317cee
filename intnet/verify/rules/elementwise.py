"""Rules of add, relu, dropout, flatten and scale, and of a user's own operation."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from intnet.qtensor import QTensor
from intnet.spec import float32 as f32
from intnet.spec.operations import dot
from intnet.spec.tensor import Tensor, power
from intnet.verify.record import Back, Call
from intnet.verify.rules.products import Conv
from intnet.verify.rules.rule import Rule
from intnet.verify.values import Near, Values, floats_of, is_float, shape_of, units


class Add(Rule):
    """y = a + b."""

    def specs(self, what: Any, k: int) -> tuple[str, ...]:
        """By what is added."""
        return ("float32.add32",) if is_float(what.result if k == 0 else None) else ("operations.add",)

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


class Relu(Rule):
    """y = max(x, 0); dx = dy where x > 0, else 0."""

    forward_spec, back_specs = "operations.relu", ("operations.relu_grad",)

    def forward(self, values: Values, call: Call, flat: np.ndarray) -> list[Fraction]:
        """max(x, 0)."""
        return [max(x, Fraction(0)) for x in values.at(call.operands[0], flat)]

    def near_forward(self, values: Values, call: Call) -> Near:
        """In float64."""
        x, size = values.near(call.operands[0])
        return np.maximum(x, 0), size

    def back(self, values: Values, back: Back, k: int, flat: np.ndarray) -> list[Fraction]:
        """e where the input is above 0."""
        pairs = zip(values.at(back.gradient, flat), values.at(back.call.operands[0], flat), strict=True)
        return [e if x > 0 else Fraction(0) for e, x in pairs]


class Dropout(Rule):
    """y = x / keep where word * q < p * 2^32, keep = p/q, else 0; its gradient is the same map of e."""

    forward_spec, back_specs = "operations.dropout", ("operations.dropout",)

    def specs(self, what: Call | Back, k: int) -> tuple[str, ...]:
        """In float32 1/keep is a float32."""
        result = what.result if isinstance(what, Call) else what.results[k]
        return ("operations.dropout", "float32.mul32") if is_float(result) else ("operations.dropout",)

    def _map(self, values: Values, call: Call, x: Any, floats: bool, flat: np.ndarray) -> list[Fraction]:
        keep, words = call.attributes["keep"], call.attributes["words"]
        drawn = words.reshape(-1)[flat].tolist()
        out = []
        for v, word in zip(values.at(x, flat), drawn, strict=True):
            stays = word * keep.denominator < keep.numerator << 32
            scaled = f32.mul32(v, f32.to_float32(1 / keep)) if floats else v / keep
            out.append(scaled if stays else Fraction(0))
        return out

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

    forward_spec, back_specs = "methods.saved._scaled", ("methods.saved._scaled", "float32.dot32")

    def specs(self, what: Call | Back, k: int) -> tuple[str, ...]:
        """By what is multiplied."""
        floats = is_float(what.result if isinstance(what, Call) else what.results[k])
        if isinstance(what, Back) and k == 1:
            return ("float32.fma32",) if floats else ("operations.dot",)
        return ("float32.mul32",) if floats else ("exact product",)

    @staticmethod
    def _times(values: Values, x: Any, s: Any, floats: bool, flat: np.ndarray) -> list[Fraction]:
        shape = shape_of(x)
        size, c = int(np.prod(shape[1:])), shape[-1]
        factors = values.at(s, flat // size * c + flat % c)
        if floats:
            factors = [f32.to_float32(factor) for factor in factors]
        pairs = zip(values.at(x, flat), factors, strict=True)
        return [f32.mul32(v, factor) if floats else v * factor for v, factor in pairs]

    def forward(self, values: Values, call: Call, flat: np.ndarray) -> list[Fraction]:
        """x * s."""
        return self._times(values, *call.operands, is_float(call.result), flat)

    def back(self, values: Values, back: Back, k: int, flat: np.ndarray) -> list[Fraction]:
        """e * s, or the sum of e * x of an image's channel, in row-major order."""
        floats, e, (x, s) = is_float(back.results[k]), back.gradient, back.call.operands
        if k == 0:
            return self._times(values, e, s, floats, flat)
        n, h, w, c = shape_of(x)
        x = Conv.kept(back, x)
        out = []
        for image, channel in zip((flat // c).tolist(), (flat % c).tolist(), strict=True):
            at = image * h * w * c + channel + c * np.arange(h * w)
            if not floats:
                out.append(Fraction(dot(values.at(e, at), values.at(x, at))))
                continue
            total = 0
            pairs = zip(units(floats_of(e).reshape(-1)[at]), units(floats_of(x).reshape(-1)[at]), strict=True)
            for p, q in pairs:
                total = f32._fma_units(p, q, total)
            out.append(Fraction(total, f32.ONE))
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


