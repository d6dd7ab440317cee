"""Small nets forward and back, where a method's rules say how each value is stored; read `adapt`, `muppet`.

A net is a tuple of `Layer` and `Residual`. Values are `Fixed` (integers), `Tensor` (float32) or
`Quotient` (exact, neither). Operations on `Fixed` are exact, on float32 they follow `floats`; a
float32 error takes integer operands rounded to float32.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import prod
from typing import Any, NamedTuple, Protocol

from intnet.spec import float32 as floats
from intnet.spec import float_batch_norm as float_norm
from intnet.spec import operations as ops
from intnet.spec.tensor import Fixed, Tensor, add_fixed

KINDS = ("linear", "conv", "norm", "relu", "max_pool", "mean", "flatten")


class Layer(NamedTuple):
    """One layer; `bias` of linear and conv, `stride` and `padding` of conv, pools have a window of 2."""

    kind: str
    name: str
    bias: bool = False
    stride: int = 1
    padding: int = 0


class Residual(NamedTuple):
    """Two branches that are added; no layers in the shortcut: the identity."""

    main: tuple[Layer, ...]
    shortcut: tuple[Layer, ...] = ()


class Quotient(NamedTuple):
    """Exact rationals that are neither codes nor float32: a mean of codes, an error over a window."""

    shape: tuple[int, ...]
    values: list[Fraction]


Value = Fixed | Tensor | Quotient
Net = tuple[Layer | Residual, ...]


class Rules(Protocol):
    """How a method stores each value."""

    def weight(self, layer: str, symbol: str) -> Value:
        """The forward copy of a parameter."""
        ...

    def activation(self, layer: Layer, path: str, value: Value) -> Value:
        """A value on the way forward."""
        ...

    def error(self, layer: Layer, path: str, value: Value) -> Value:
        """A value on the way back."""
        ...

    def gradient(self, layer: str, symbol: str, value: Value) -> None:
        """A parameter's gradient."""
        ...

    def statistics(self, layer: str, mean: list[Fraction], variance: list[Fraction]) -> None:
        """Batch norm's mean and variance."""
        ...



def exact(value: Value) -> list[Fraction]:
    """The exact values."""
    return value.real().values if isinstance(value, Fixed) else value.values


def to_float(value: Value) -> Tensor:
    """float32: as it is, or every element rounded once."""
    if isinstance(value, Tensor):
        return value
    return Tensor(value.shape, [floats.to_float32(v) for v in exact(value)])


def reshaped(value: Value, shape: tuple[int, ...]) -> Value:
    """The same elements in another shape."""
    return value._replace(shape=shape)


def with_elements(value: Value, shape: tuple[int, ...], elements: list[Any]) -> Value:
    """Other codes, or other values, of the same kind."""
    if isinstance(value, Fixed):
        return Fixed(shape, elements, value.exponent)
    return type(value)(shape, elements)


def elements(value: Value) -> list[Any]:
    """Codes, or values."""
    return value.codes if isinstance(value, Fixed) else value.values


def joined(a: Value, b: Value) -> Value:
    """a + b: exact for integers, one rounding for float32."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return Tensor(a.shape, [floats.add32(x, y) for x, y in zip(a.values, b.values, strict=True)])
    assert isinstance(a, Fixed) and isinstance(b, Fixed)
    return add_fixed(a, b)


@dataclass
class Walk:
    """One pass forward and back; `kept` has what each layer saw."""

    rules: Rules
    first: str  # the weight layer that reads the images: its input's error is not asked for
    kept: dict[str, Any] = field(default_factory=dict)

    def forward(self, net: Net, x: Value) -> Value:
        """The output of the layers in order."""
        for item in net:
            if isinstance(item, Residual):
                x = joined(self.forward(item.main, x), self.forward(item.shortcut, x))
            else:
                x = getattr(self, f"_{item.kind}")(item, x)
        return x

    def backward(self, net: Net, e: Value) -> Value:
        """The error at the input, from that at the output, down to the first weight layer."""
        for item in reversed(net):
            if "images" in self.kept:
                break
            if isinstance(item, Residual):
                e = joined(self.backward(item.main, e), self.backward(item.shortcut, e))
            else:
                e = getattr(self, f"_{item.kind}_back")(item, e)
        return e

    # -- weight layers ------------------------------------------------------------------------

    def _product(self, layer: Layer, x: Value, w: Value) -> Value:
        linear = layer.kind == "linear"
        if isinstance(x, Fixed) and isinstance(w, Fixed):
            y = (
                ops.linear(x.ints(), w.ints())
                if linear
                else ops.conv2d(x.ints(), w.ints(), layer.stride, layer.padding)
            )
            return Fixed(y.shape, y.values, x.exponent + w.exponent)
        assert isinstance(x, Tensor) and isinstance(w, Tensor)
        return floats.linear32(x, w) if linear else floats.conv32(x, w, layer.stride, layer.padding)

    def _linear(self, layer: Layer, x: Value) -> Value:
        x0 = self.rules.activation(layer, "x0", x)
        w = self.rules.weight(layer.name, "W")
        y = self._product(layer, x0, w)
        if layer.bias:
            b = self.rules.weight(layer.name, "b")
            rows = len(elements(y)) // y.shape[-1]
            y = joined(y, with_elements(b, y.shape, elements(b) * rows))
        self.kept[layer.name] = x0, w
        return self.rules.activation(layer, "x1", y)

    _conv = _linear

    def _linear_back(self, layer: Layer, e: Value) -> Value:
        e3 = self.rules.error(layer, "e3", e)
        x0, w = self.kept[layer.name]
        if layer.bias:
            self.rules.gradient(layer.name, "b", _rows_sum(e3))
        if isinstance(e3, Tensor):
            x0, w = to_float(x0), to_float(w)
        self.rules.gradient(layer.name, "W", _weight_gradient(layer, e3, x0, w.shape))
        if layer.name == self.first:
            self.kept["images"] = True
            return e3
        return self.rules.error(layer, "e4", _input_error(layer, e3, w, x0.shape))

    _conv_back = _linear_back

    # -- the others ---------------------------------------------------------------------------

    def _norm(self, layer: Layer, x: Value) -> Value:
        gamma, beta = (elements(self.rules.weight(layer.name, s)) for s in ("gamma", "beta"))
        if not isinstance(x, Tensor):
            x = self.rules.activation(layer, "x1", x)
        assert isinstance(x, Tensor)
        normed = float_norm.forward(x, gamma, beta)
        self.rules.statistics(layer.name, normed.mean, normed.variance)
        self.kept[layer.name] = x, normed, gamma
        return self.rules.activation(layer, "x3", normed.x3)

    def _norm_back(self, layer: Layer, e: Value) -> Value:
        e1 = self.rules.error(layer, "e1", e)
        assert isinstance(e1, Tensor)
        dx, gamma, beta = float_norm.backward(e1, *self.kept[layer.name])
        for symbol, gradient in (("gamma", gamma), ("beta", beta)):
            self.rules.gradient(layer.name, symbol, Tensor((len(gradient),), gradient))
        return dx

    def _relu(self, layer: Layer, x: Value) -> Value:
        self.kept[layer.name] = [v > 0 for v in elements(x)]
        return self.rules.activation(layer, "x4", with_elements(x, x.shape, [max(v, 0) for v in elements(x)]))

    def _relu_back(self, layer: Layer, e: Value) -> Value:
        e0 = self.rules.error(layer, "e0", e)
        mask = self.kept[layer.name]
        masked = [v if up else 0 * v for v, up in zip(elements(e0), mask, strict=True)]
        return self.rules.error(layer, "e1", with_elements(e0, e0.shape, masked))

    def _max_pool(self, layer: Layer, x: Value) -> Value:
        y, winners = ops.max_pool(Tensor(x.shape, elements(x)), 2, 2)
        self.kept[layer.name] = winners, x.shape
        return with_elements(x, y.shape, y.values)

    def _max_pool_back(self, layer: Layer, e: Value) -> Value:
        back = ops.max_pool_grad(Tensor(e.shape, elements(e)), *self.kept[layer.name])
        return with_elements(e, back.shape, back.values)

    def _mean(self, layer: Layer, x: Value) -> Value:
        self.kept[layer.name] = x.shape, isinstance(x, Fixed)
        if isinstance(x, Fixed):
            return Quotient(*ops.global_avg_pool(x.real()))
        n, h, w, c = x.shape
        size = h * w * c
        means = [
            floats.to_float32(floats.sum32(elements(x)[i * size + k : (i + 1) * size : c]) / (h * w))
            for i in range(n)
            for k in range(c)
        ]
        return Tensor((n, c), means)

    def _mean_back(self, layer: Layer, e: Value) -> Value:
        shape, integer = self.kept[layer.name]
        back = ops.global_avg_pool_grad(Tensor(e.shape, exact(e)), shape)
        if not integer:
            return to_float(Quotient(*back))
        return Quotient(*back)

    def _flatten(self, layer: Layer, x: Value) -> Value:
        self.kept[layer.name] = x.shape
        return reshaped(x, (x.shape[0], len(elements(x)) // x.shape[0]))

    def _flatten_back(self, layer: Layer, e: Value) -> Value:
        return reshaped(e, self.kept[layer.name])


def _rows_sum(e: Value) -> Value:
    c = e.shape[-1]
    if isinstance(e, Fixed):
        return Fixed((c,), [sum(e.codes[k::c]) for k in range(c)], e.exponent)
    per_image = prod(e.shape[1:-1])
    return Tensor((c,), [floats.batch_sum32(elements(e)[k::c], per_image) for k in range(c)])


def _weight_gradient(layer: Layer, e: Value, x: Value, shape: tuple[int, ...]) -> Value:
    window = (layer.stride, layer.padding)
    if isinstance(e, Fixed) and isinstance(x, Fixed):
        a, b = e.ints(), x.ints()
        linear = layer.kind == "linear"
        out = ops.linear_weight_grad(a, b) if linear else ops.conv2d_weight_grad(a, b, shape, *window)
        return Fixed(out.shape, out.values, e.exponent + x.exponent)
    assert isinstance(e, Tensor) and isinstance(x, Tensor)
    if layer.kind == "linear":
        return floats.linear32_weight_grad(e, x)
    return floats.conv32_weight_grad(e, x, shape, *window)


def _input_error(layer: Layer, e: Value, w: Value, shape: tuple[int, ...]) -> Value:
    window = (layer.stride, layer.padding)
    if isinstance(e, Fixed) and isinstance(w, Fixed):
        a, b = e.ints(), w.ints()
        linear = layer.kind == "linear"
        out = ops.linear_input_grad(a, b) if linear else ops.conv2d_input_grad(a, b, shape, *window)
        return Fixed(out.shape, out.values, e.exponent + w.exponent)
    assert isinstance(e, Tensor) and isinstance(w, Tensor)
    if layer.kind == "linear":
        return floats.linear32_input_grad(e, w)
    return floats.conv32_input_grad(e, w, shape, *window)
