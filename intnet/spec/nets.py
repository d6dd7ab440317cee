"""The one walk through a net, forward and back, on which a method's rules store every value.

    x0, x1    a weight layer's input and output      e3, e4   the errors at its output and input
    mu, sigma, x2, x3   batch norm's                 e1, e2, m1, m2   the errors inside it
    x4, dx4   what an activation gives, its slope    e0, e1   the errors at its output and input
    gW, gb, ggamma, gbeta   gradients

These are WAGEUBN's names (Algorithms 1 and 2). Between two stored values everything is exact, or float32 by
`float32`'s order; what is stored, and how, `Rules` says. Values: `values`; products: `products`.
"""

from __future__ import annotations

from fractions import Fraction
from math import prod
from typing import Any

from intnet.spec import batch_norm as integer_norm
from intnet.spec import float32 as floats
from intnet.spec import float_batch_norm as float_norm
from intnet.spec import pooling, products, range_norm
from intnet.spec.elementary import silu_error32
from intnet.spec.elementwise import dropout32_at, dropout_at, relu_at, relu_grad_at, scale_grad_at
from intnet.spec.models import Layer, Net, Residual, squeezed
from intnet.spec.tensor import Fixed, Tensor, places
from intnet.spec.values import (
    Bifurcated,
    Copies,
    Curve,
    Expression,
    Quotient,
    Roots,
    Value,
    channels,
    elements,
    exact,
    joined,
    reshaped,
    times,
    to_float,
    with_elements,
)


class Rules:
    """How a method stores each value. Here: as it is; every method says otherwise where it does otherwise.

    ranged: float32 batch norm by the batch's range, `range_norm`
    """

    ranged = False

    def weight(self, layer: Layer, symbol: str) -> Any:
        """The copy of a parameter (W, b, gamma, beta) that the forward pass reads, or two `Copies`."""
        raise NotImplementedError(f"{type(self).__name__} defines no weight")

    def activation(self, layer: Layer, path: str, value: Expression) -> Any:
        """A value on the way forward; of x0 two `Copies` may be made."""
        return value

    def save(self, layer: Layer, path: str, value: Any) -> Any:
        """What the way back reads in place of x0, and of float32 x1 of batch norm, x3 of silu, x4 of sigmoid,
        mask of ReLU."""
        return value

    def error(self, layer: Layer, path: str, value: Value) -> Value:
        """A value on the way back; of e3 two copies, `Bifurcated`, may be made."""
        return value

    def gradient(self, layer: Layer, symbol: str, value: Value) -> None:
        """A parameter's gradient."""

    def statistics(self, layer: Layer, mean: list[Fraction], variance: list[Fraction]) -> None:
        """Batch norm's, for the running ones."""

    def words(self, name: str, n: int) -> list[int]:
        """n words of the stream `name` in this step."""
        raise NotImplementedError(f"{type(self).__name__} defines no words")


class Walk:
    """One pass forward and back. `kept` has what each layer saw; `first` is the weight layer that reads the
    images: no error is asked for at its input."""

    def __init__(self, rules: Rules, first: str) -> None:
        self.rules, self.first = rules, first
        self.kept: dict[str, Any] = {}
        self.arrived = False  # at `first`, on the way back

    def forward(self, net: Net, x: Value) -> Value:
        """The output of the layers in order."""
        for item in net:
            if isinstance(item, Residual):
                x = joined(self.forward(item.main, x), self.forward(item.shortcut, x))
            else:
                x = getattr(self, f"_{item.kind}")(item, x)
        return x

    def backward(self, net: Net, e: Value) -> Value:
        """The error at the input, from that at the output, as far as the first weight layer."""
        for item in reversed(net):
            if self.arrived:
                break
            if isinstance(item, Residual):
                e = joined(self.backward(item.main, e), self.backward(item.shortcut, e))
            else:
                e = getattr(self, f"_{item.kind}_back")(item, e)
        return e

    def _save(self, layer: Layer, path: str, value: Value) -> Value:
        saved: Value = self.rules.save(layer, path, value)
        return saved

    # -- weight layers -----------------------------------------------------------------------------

    def _linear(self, layer: Layer, x: Value) -> Value:
        """x1 = Wq * x0 (+ bq)."""
        x0 = _copies(self.rules.activation(layer, "x0", x))
        w = _copies(self.rules.weight(layer, "W"))
        self.kept[layer.name] = self._save(layer, "x0", x0.back), w.back
        y = products.forward(layer, x0.forward, w.forward)
        if layer.bias:
            y = products.with_bias(y, self.rules.weight(layer, "b"))
        return self.rules.activation(layer, "x1", y)

    def _linear_back(self, layer: Layer, e: Value) -> Value:
        """gb = sum(e3), gW = e3 x0^T, e4 = Wq^T e3."""
        down, weight = _bifurcated(self.rules.error(layer, "e3", e))
        x0, w = self.kept[layer.name]
        if layer.bias:
            self.rules.gradient(layer, "b", products.bias_gradient(weight))
        self.rules.gradient(layer, "W", products.weight_gradient(layer, weight, x0, w.shape))
        if layer.name == self.first:
            self.arrived = True
            return down
        return self.rules.error(layer, "e4", products.input_error(layer, down, w, x0.shape))

    _conv, _conv_back = _linear, _linear_back

    # -- batch norm --------------------------------------------------------------------------------

    def _norm(self, layer: Layer, x: Value) -> Value:
        """Of integers where gamma is one, else of float32; x1 is stored where it is of the other kind."""
        gamma, beta = self.rules.weight(layer, "gamma"), self.rules.weight(layer, "beta")
        if isinstance(x, Fixed) != isinstance(gamma, Fixed):
            x = self.rules.activation(layer, "x1", x)
        if isinstance(x, Fixed):
            return self._integer_norm(layer, x, gamma, beta)
        assert isinstance(x, Tensor)
        by = range_norm if self.rules.ranged else float_norm
        shape, pairs = (x.shape[-1],), zip(("mu", "var"), by.statistics(x), strict=True)
        mean, variance = (exact(self.rules.activation(layer, path, Tensor(shape, v))) for path, v in pairs)
        normed = float_norm.normed(x, mean, variance, gamma.values, beta.values)
        self.rules.statistics(layer, normed.mean, normed.variance)
        self.kept[layer.name] = self._save(layer, "x1", x), normed, gamma.values
        return self.rules.activation(layer, "x3", normed.x3)

    def _integer_norm(self, layer: Layer, x1: Fixed, gamma: Fixed, beta: Fixed) -> Value:
        """mu, sigma, x2 = (x1 - mu)/(sigma + eps), x3 = gamma x2 + beta: WAGEUBN, Algorithm 1."""
        act, shape = self.rules.activation, (x1.shape[-1],)
        stats = integer_norm.mean_and_variance(x1.real())
        mu = act(layer, "mu", Quotient(shape, [mean for mean, _ in stats]))
        sigma = act(layer, "sigma", Roots(shape, [variance for _, variance in stats]))
        self.rules.statistics(layer, exact(mu), [v**2 for v in exact(sigma)])
        x2 = act(layer, "x2", Quotient(x1.shape, integer_norm.normalized(x1, mu, sigma)))
        self.kept[layer.name] = x2, sigma, gamma
        return act(layer, "x3", integer_norm.scale_shift(x2, gamma, beta))

    def _norm_back(self, layer: Layer, e: Value) -> Value:
        """ggamma = sum(e1 x2), gbeta = sum(e1), and the full derivative of batch norm."""
        e1 = self.rules.error(layer, "e1", e)
        kept = self.kept[layer.name]
        if isinstance(kept[0], Fixed):
            assert isinstance(e1, Fixed)
            return self._integer_norm_back(layer, e1, *kept)
        by = range_norm if self.rules.ranged else float_norm
        dx, gamma, beta = by.backward(to_float(e1), *kept)
        for symbol, gradient in (("gamma", gamma), ("beta", beta)):
            self.rules.gradient(layer, symbol, Tensor((len(gradient),), gradient))
        return dx

    def _integer_norm_back(self, layer: Layer, e1: Fixed, x2: Fixed, sigma: Fixed, gamma: Fixed) -> Value:
        """e2 = e1 gamma, m1 = mean(e2), m2 = mean(e2 x2); (e2 - m1 - x2 m2)/(sigma + eps), exact."""
        err, shape = self.rules.error, (e1.shape[-1],)
        self.rules.gradient(layer, "gamma", integer_norm.gamma_grad(e1, x2))
        self.rules.gradient(layer, "beta", integer_norm.beta_grad(e1))
        e2 = err(layer, "e2", integer_norm.scale_error(e1, gamma))
        assert isinstance(e2, Fixed)
        means = integer_norm.error_means(e2, x2)
        m1, m2 = (err(layer, path, Quotient(shape, m)) for path, m in zip(("m1", "m2"), means, strict=True))
        assert isinstance(m1, Fixed) and isinstance(m2, Fixed)
        return Quotient(e1.shape, integer_norm.input_error(e2, x2, m1, m2, sigma))

    # -- activations -------------------------------------------------------------------------------

    def _relu(self, layer: Layer, x: Value) -> Value:
        """x4 = max(x, 0)."""
        y = with_elements(x, x.shape, list(map(relu_at, elements(x))))
        self.kept[layer.name] = elements(self._save(layer, "mask", y))
        return self.rules.activation(layer, "x4", y)

    def _relu_back(self, layer: Layer, e: Value) -> Value:
        """e1 = e0 where x > 0, else 0."""
        e0 = self.rules.error(layer, "e0", e)
        masked = list(map(relu_grad_at, elements(e0), self.kept[layer.name]))
        return self.rules.error(layer, "e1", with_elements(e0, e0.shape, masked))

    def _curve(self, layer: Layer, x: Value) -> Value:
        """x4 = tanh(x) or sigmoid(x); the derivative reads x4."""
        y = self.rules.activation(layer, "x4", Curve(x.shape, layer.kind, exact(x)))
        self.kept[layer.name] = self._save(layer, "x4", y) if layer.kind == "sigmoid" else y
        return y

    _tanh = _sigmoid = _curve

    def _tanh_back(self, layer: Layer, e: Value) -> Value:
        """e1 = e0 (1 - x4^2)."""
        e0, y = _alike(self.rules.error(layer, "e0", e), self.kept[layer.name])
        return self.rules.error(layer, "e1", times(e0, _one_minus(times(y, y))))

    def _sigmoid_back(self, layer: Layer, e: Value) -> Value:
        """e1 = e0 (x4 (1 - x4))."""
        e0, y = _alike(self.rules.error(layer, "e0", e), self.kept[layer.name])
        return self.rules.error(layer, "e1", times(e0, times(y, _one_minus(y))))

    def _silu(self, layer: Layer, x: Value) -> Value:
        """x4 = silu(x); of integers dx4, the derivative, is stored, of float32 x3 itself."""
        if isinstance(x, Tensor):
            self.kept[layer.name] = self._save(layer, "x3", x), True
        else:
            slope = self.rules.activation(layer, "dx4", Curve(x.shape, "slope", exact(x)))
            self.kept[layer.name] = slope, False
        return self.rules.activation(layer, "x4", Curve(x.shape, "silu", exact(x)))

    def _silu_back(self, layer: Layer, e: Value) -> Value:
        """e1q = e0 dx4, of float32 e0 times the derivative at x3, rounded once."""
        e0 = self.rules.error(layer, "e0", e)
        kept, floating = self.kept[layer.name]
        if floating:
            pairs = zip(to_float(e0).values, kept.values, strict=True)
            return self.rules.error(layer, "e1q", Tensor(e0.shape, [silu_error32(a, x) for a, x in pairs]))
        return self.rules.error(layer, "e1q", times(*_alike(e0, kept)))

    # -- pools, and what rearranges ----------------------------------------------------------------

    def _max_pool(self, layer: Layer, x: Value) -> Value:
        """The maximum of each window: exact, so nothing is stored anew."""
        y, winners = pooling.max_pool(Tensor(x.shape, elements(x)), layer.kernel, layer.stride, layer.padding)
        self.kept[layer.name] = winners, x.shape
        return with_elements(x, y.shape, y.values)

    def _max_pool_back(self, layer: Layer, e: Value) -> Value:
        """Every error to the element that won; those of several windows add, window by window."""
        by = pooling.max_pool32_grad if isinstance(e, Tensor) else pooling.max_pool_grad
        back = by(Tensor(e.shape, elements(e)), *self.kept[layer.name])
        return with_elements(e, back.shape, back.values)

    def _avg_pool(self, layer: Layer, x: Value) -> Value:
        """x4 = the mean of each window: with padding as 0, or adaptive; of float32 a sum and one division."""
        if layer.kind == "avg_pool":
            windows = pooling.windows_of(x.shape, layer.kernel, layer.stride, layer.padding)
        else:
            windows = pooling.adaptive_windows(x.shape, layer.kernel)
        self.kept[layer.name] = windows, isinstance(x, Tensor)
        if isinstance(x, Tensor):
            return self.rules.activation(layer, "x4", pooling.pooled32(x, windows))
        y = Quotient(*pooling.pooled(Tensor(x.shape, exact(x)), windows))
        return self.rules.activation(layer, "x4", y)

    def _avg_pool_back(self, layer: Layer, e: Value) -> Value:
        """e0 over a window's size, at every element that the window read."""
        e0 = self.rules.error(layer, "e0", e)
        windows, floating = self.kept[layer.name]
        if isinstance(e0, Tensor) if layer.kind == "adaptive_pool" else floating:
            return pooling.pooled32_grad(to_float(e0), windows)
        return Quotient(*pooling.pooled_grad(Tensor(e0.shape, exact(e0)), windows))

    _adaptive_pool, _adaptive_pool_back = _avg_pool, _avg_pool_back

    def _mean(self, layer: Layer, x: Value) -> Value:
        """The mean over all positions, exact of integers: the layer after stores it."""
        windows = pooling.adaptive_windows(x.shape, 1)
        self.kept[layer.name] = windows, isinstance(x, Tensor)
        if isinstance(x, Tensor):
            y: Value = pooling.pooled32(x, windows)
        else:
            y = Quotient(*pooling.pooled(Tensor(x.shape, exact(x)), windows))
        return reshaped(y, (x.shape[0], x.shape[3]))

    def _mean_back(self, layer: Layer, e: Value) -> Value:
        """The error over the number of positions, at each of them; exact after integers."""
        windows, floating = self.kept[layer.name]
        if floating:
            return pooling.pooled32_grad(to_float(e), windows)
        return Quotient(*pooling.pooled_grad(Tensor(e.shape, exact(e)), windows))

    def _flatten(self, layer: Layer, x: Value) -> Value:
        self.kept[layer.name] = x.shape
        return reshaped(x, (x.shape[0], prod(x.shape[1:])))

    def _flatten_back(self, layer: Layer, e: Value) -> Value:
        return reshaped(e, self.kept[layer.name])

    def _dropout(self, layer: Layer, x: Value) -> Value:
        """x4 = x / keep where word < keep 2^32, else 0."""
        self.kept[layer.name] = self.rules.words(f"{layer.name}/mask", len(elements(x)))
        return self.rules.activation(layer, "x4", self._dropped(layer, x))

    def _dropout_back(self, layer: Layer, e: Value) -> Value:
        return self._dropped(layer, self.rules.error(layer, "e0", e))

    def _dropped(self, layer: Layer, x: Value) -> Value:
        make, by = (Tensor, dropout32_at) if isinstance(x, Tensor) else (Quotient, dropout_at)
        pairs = zip(exact(x), self.kept[layer.name], strict=True)
        return make(x.shape, [by(v, word, layer.keep) for v, word in pairs])

    def _join(self, layer: Layer, x: Value) -> Value:
        """x4 of what was added ahead of it."""
        return self.rules.activation(layer, "x4", x)

    def _join_back(self, layer: Layer, e: Value) -> Value:
        return self.rules.error(layer, "e0", e)

    # -- squeeze and excitation --------------------------------------------------------------------

    def scaled(self, layer: Layer, x: Value, s: Value) -> Value:
        """x4 = x (N, H, W, C) times the factors s (N, C)."""
        self.kept[layer.name] = self._save(layer, "x0", x), s
        return self.rules.activation(layer, "x4", times(*_alike(x, _spread(s, x.shape))))

    def scaled_back(self, layer: Layer, e: Value) -> tuple[Value, Value]:
        """(e0 s, the error at the factors: e0 x summed over the positions)."""
        e0, (x, s) = self.rules.error(layer, "e0", e), self.kept[layer.name]
        return times(*_alike(e0, _spread(s, e0.shape))), _over_positions(*_alike(e0, x))

    def _excite(self, layer: Layer, x: Value) -> Value:
        """x times the factors that its means make."""
        return self.scaled(Layer("scale", f"{layer.name}.scale"), x, self.forward(squeezed(layer), x))

    def _excite_back(self, layer: Layer, e: Value) -> Value:
        """What comes back by the product, and by the factors."""
        dx, ds = self.scaled_back(Layer("scale", f"{layer.name}.scale"), e)
        inner = squeezed(layer)
        return joined(dx, self.rules.error(inner[0], "e0", self.backward(inner, ds)))


def _copies(value: Any) -> Copies:
    return value if isinstance(value, Copies) else Copies(value, value)


def _bifurcated(value: Any) -> Bifurcated:
    return value if isinstance(value, Bifurcated) else Bifurcated(value, value)


def _alike(a: Value, b: Value) -> tuple[Value, Value]:
    """Both as they are where they are integers, else both as float32."""
    if isinstance(a, Fixed) and isinstance(b, Fixed):
        return a, b
    return to_float(a), to_float(b)


def _one_minus(y: Value) -> Value:
    if isinstance(y, Fixed):
        return y._replace(codes=[2**-y.exponent - code for code in y.codes])
    return Tensor(y.shape, [floats.add32(1, -v) for v in to_float(y).values])


def _spread(s: Value, shape: tuple[int, ...]) -> Value:
    """A factor a channel (N, C) as one an element (N, H, W, C)."""
    size, c, each = prod(shape[1:]), shape[-1], elements(s)
    spread = [v for i in range(shape[0]) for v in channels(each[i * c : (i + 1) * c], size)]
    return with_elements(s, shape, spread)


def _over_positions(e: Value, x: Value) -> Value:
    """sum(e x) over the positions of each image and channel: (N, C)."""
    shape, a, b = (x.shape[0], x.shape[-1]), elements(e), elements(x)
    if isinstance(e, Fixed) and isinstance(x, Fixed):
        sums = [scale_grad_at(a, b, x.shape, place) for place in places(shape)]
        return Fixed(shape, sums, e.exponent + x.exponent)
    return Tensor(shape, [scale_grad_at(a, b, x.shape, place, floats.dot32) for place in places(shape)])
