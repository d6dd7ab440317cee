"""Layers: structure and parameters, with PyTorch's names. How numbers are stored is the method's.

    layer(x, method) -> Tensor

A layer asks the method's hooks (`methods/method.py`) for the forward copy of its parameters and puts
the method's quantizers on its data paths with `ops.cast`. Paths of a layer, in WAGEUBN's symbols:

    Conv2d, Linear   x0 input, Wq, x1 output; e3 error at the output, e4 at the input; gW
    BatchNorm2d      gammaq betaq mu sigma x2 x3; e1 error at x3, e2 m1 m2; ggamma gbeta
    ReLU, Tanh       x4 output; e0 error at the output, e1 behind the activation
    Sigmoid, SiLU    the same; of SiLU dx4, the derivative of an integer input, and e1q for e1
    pools, Dropout   x4, e0 where they round
    Join, Scale      x4, e0, in `joints.py`: layers that read two tensors
"""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from intnet import ops
from intnet.autograd import Keep, Node, Tensor, leaf
from intnet.errors import ContainerError, ShapeError
from intnet.exact import Exact
from intnet.methods.method import Method, Parameter
from intnet.ops import norm
from intnet.qtensor import INT64_BOUND, QTensor
from intnet.rounding import TIES_EVEN

Pair = tuple[int, int]


def pair(value: int | Pair, what: str = "size", least: int = 1) -> Pair:
    """(v, v) for one number; ShapeError unless both are whole numbers of at least `least`."""
    both = tuple(value) if isinstance(value, tuple | list) else (value, value)
    if len(both) != 2 or not all(isinstance(v, int) and v >= least for v in both):
        raise ShapeError(f"{what} = {value!r}: give a whole number of at least {least}, or two")
    return both[0], both[1]


class Layer:
    """Base: named children in the order of their definition, parameters, buffers.

    `name` is the dotted path from the model (set by `Model`); `edge` is 'first' or 'last' for the outer
    weight layers, else ''; `buffers` are tensors that are state but not trained.
    """

    takes_weight = False  # a matrix product with its parameters
    normalizes = False  # by statistics of the batch

    def __init__(self) -> None:
        self.name = ""
        self.edge = ""
        self.parameters: list[Parameter] = []
        self.buffers: dict[str, Any] = {}
        self.leaves: dict[str, Node] = {}
        self.passes = 0  # reads of its parameters in one pass of the model
        self.output_shape: tuple[int, ...] = ()  # of the last pass

    def children(self) -> Iterator[tuple[str, "Layer"]]:
        """(attribute, layer) in order of definition; a list of layers counts its items."""
        for attribute, value in vars(self).items():
            if isinstance(value, Layer):
                yield attribute, value
            elif isinstance(value, list) and value and all(isinstance(item, Layer) for item in value):
                yield from ((f"{attribute}.{i}", item) for i, item in enumerate(value))

    def walk(self, name: str = "") -> Iterator[tuple[str, "Layer"]]:
        """(dotted name, layer) of this layer and all below it, depth first."""
        yield name, self
        for attribute, child in self.children():
            yield from child.walk(f"{name}.{attribute}" if name else attribute)

    def __call__(self, x: Tensor, method: Method, *others: Tensor) -> Tensor:
        """`forward`; others: what a layer reads beside x (`joints.py`)."""
        y = self.forward(x, method, *others)
        self.output_shape = y.value.shape
        return y

    def forward(self, x: Tensor, method: Method) -> Tensor:
        """The layer's output under a method."""
        raise NotImplementedError(f"{type(self).__name__} defines no forward")

    def read(self, parameter: Parameter, method: Method) -> Tensor:
        """The forward copy of a parameter; its gradient goes through the method on the way back."""
        self.passes += parameter is self.parameters[0]
        source = leaf(parameter.value) if method.training else Tensor(parameter.value)
        if source.node is not None:
            self.leaves[parameter.name] = source.node
        return ops.cast(
            source,
            forward=lambda _: method.weight(self, parameter),
            backward=lambda g: method.gradient(self, parameter, g),
        )

    def keeper(self, method: Method, path: str) -> Keep:
        """What the tape holds of this layer's value on `path`, by the method."""
        return lambda value: method.save(self, path, value)

    def on_path(self, x: Tensor, method: Method, path: str | None, back: str | None) -> Tensor:
        """x with the method's activation hook on `path` and its error hook on `back`."""
        return ops.cast(
            x,
            forward=lambda v: method.activation(self, path, v) if path else v,
            backward=lambda g: method.error(self, back, g) if back else g,
        )


class Conv2d(Layer):
    """2-D convolution: x (N, H, W, Cin) -> (N, Ho, Wo, Cout); weight (Cout, Cin/groups, kh, kw)."""

    takes_weight = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Pair,
        stride: int | Pair = 1,
        padding: int | Pair = 0,
        groups: int = 1,
        bias: bool = False,
    ) -> None:
        super().__init__()
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise ShapeError(
                f"Conv2d: {in_channels} -> {out_channels} channels do not divide into {groups} groups"
            )
        kernel = pair(kernel_size, "kernel_size")
        self.stride, self.padding, self.groups = pair(stride, "stride"), pair(padding, "padding", 0), groups
        shape = (out_channels, in_channels // groups, *kernel)
        self.weight = Parameter("weight", "W", shape, "normal", shape[1] * kernel[0] * kernel[1])
        self.bias = Parameter("bias", "b", (out_channels,), "zeros") if bias else None
        self.parameters = [p for p in (self.weight, self.bias) if p is not None]

    def forward(self, x: Tensor, method: Method) -> Tensor:
        """x1 = Wq * x0 (+ bq)."""
        x = self.on_path(x, method, "x0", "e4")
        w = self.read(self.weight, method)
        window = {"stride": self.stride, "padding": self.padding, "groups": self.groups}
        y = ops.conv2d(x, w, keep=self.keeper(method, "x0"), where=self.name, **window)
        if self.bias is not None:
            y = ops.add_bias(y, self.read(self.bias, method), where=self.name)
        return self.on_path(y, method, "x1", "e3")


class Linear(Layer):
    """x (N, Cin) -> (N, Cout); weight (Cout, Cin): a convolution of images of one pixel."""

    takes_weight = True
    stride, padding = (1, 1), (0, 0)

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__()
        self.weight = Parameter("weight", "W", (out_features, in_features), "normal", in_features)
        self.bias = Parameter("bias", "b", (out_features,), "zeros") if bias else None
        self.parameters = [p for p in (self.weight, self.bias) if p is not None]

    def forward(self, x: Tensor, method: Method) -> Tensor:
        """x1 = x0 Wq^T (+ bq)."""
        x = self.on_path(x, method, "x0", "e4")
        w = self.read(self.weight, method)
        y = ops.linear(x, w, keep=self.keeper(method, "x0"), where=self.name)
        if self.bias is not None:
            y = ops.add_bias(y, self.read(self.bias, method), where=self.name)
        return self.on_path(y, method, "x1", "e3")


class BatchNorm2d(Layer):
    """Batch norm over all axes but the last (so it serves linear layers too); weight gamma, bias beta.

    Running statistics, integer: r <- r + (x - r) * 2^-3, rounded ties_even at exponent -31, of mu_q
    and sigma_q^2; float32: the same rule in float32.
    """

    normalizes = True
    SHIFT = 3
    EXPONENT = -31

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.weight = Parameter("weight", "gamma", (num_features,), "ones")
        self.bias = Parameter("bias", "beta", (num_features,), "zeros")
        self.parameters = [self.weight, self.bias]
        self.num_features = num_features

    def forward(self, x: Tensor, method: Method) -> Tensor:
        """x3 = gammaq * x2 + betaq."""
        gamma, beta = self.read(self.weight, method), self.read(self.bias, method)
        inference = not method.training and method.running_statistics
        folded = method.fold(self) if inference else None
        if folded is not None:
            return self.on_path(norm.scale_shift(x, *folded, where=self.name), method, "x3", None)
        if isinstance(x.value, np.ndarray) != isinstance(gamma.value, np.ndarray):
            x = self.on_path(x, method, "x1", None)  # the layer before is of the other kind
        seen: dict[str, Any] = {}

        def act(path: str, value: Any) -> Any:
            seen[path] = method.activation(self, path, value)
            return seen[path]

        def err(path: str, value: Any) -> Any:
            return method.error(self, path, value)

        if inference:
            y = norm.normalize(x, gamma, beta, *self.running_statistics(), act=act, where=self.name)
            return self.on_path(y, method, "x3", None)
        keep = self.keeper(method, "x1")
        y = ops.batch_norm(x, gamma, beta, act=act, err=err, keep=keep, where=self.name)
        if method.training:
            self._follow(seen["mu"], seen["sigma"])
        return self.on_path(y, method, "x3", "e1")

    def _follow(self, mu: Any, sigma: Any) -> None:
        """Move the running statistics one step. Defined by `spec/float_batch_norm.py: running_update`."""
        if isinstance(mu, np.ndarray):
            rate = np.float32(2.0**-self.SHIFT)
            for key, start, x in (("running_mean", 0, mu), ("running_var", 1, sigma)):
                r = self.buffers.get(key, np.full(self.num_features, start, np.float32))
                self.buffers[key] = r + (x - r) * rate
            return
        if sigma.bound**2 >= INT64_BOUND:
            raise ContainerError(f"{self.name}/running_var: sigma_q has codes up to {sigma.bound}")
        variance = QTensor(sigma.codes.astype(np.int64) ** 2, 2 * int(sigma.exponent), bound=sigma.bound**2)
        for key, start, x in (("running_mean", 0, mu), ("running_var", 1, variance)):
            r = self.buffers.get(
                key, QTensor(np.full(self.num_features, start << 31, np.int64), self.EXPONENT)
            )
            self.buffers[key] = self._moved(r, x)

    def _moved(self, r: QTensor, x: QTensor) -> QTensor:
        """r + (x - r) * 2^-SHIFT = ((2^SHIFT - 1) * r + x) / 2^SHIFT, rounded once.

        Defined by `spec/batch_norm.py: running_update`.
        """
        wide = QTensor(x.codes.astype(np.int64), int(x.exponent), bound=x.bound)
        exponent = min(self.EXPONENT, int(x.exponent))
        mixed = Exact(
            [
                (r, ((1 << self.SHIFT) - 1) << (self.EXPONENT - exponent)),
                (wide, 1 << (int(x.exponent) - exponent)),
            ],
            exponent,
            den=1 << self.SHIFT,
        )
        codes, status = mixed.round_to(self.EXPONENT, TIES_EVEN, where=f"{self.name}/running")
        return QTensor(codes.astype(np.int64), self.EXPONENT, bound=status.peak)

    def running_statistics(self) -> tuple[Any, Any]:
        """(mean, variance) that inference reads; ShapeError before the first step."""
        if "running_mean" not in self.buffers:
            raise ShapeError(f"{self.name}: no running statistics yet; train a step first")
        return self.buffers["running_mean"], self.buffers["running_var"]


class ReLU(Layer):
    """x4 = QA(relu(x))."""

    def forward(self, x: Tensor, method: Method) -> Tensor:
        """The quantized activation; e0 and e1 on the way back."""
        y = ops.relu(self.on_path(x, method, None, "e1"), keep=self.keeper(method, "mask"))
        return self.on_path(y, method, "x4", "e0")


class Tanh(Layer):
    """x4 = QA(tanh(x))."""

    def forward(self, x: Tensor, method: Method) -> Tensor:
        """The quantized activation; its derivative is 1 - x4^2."""
        x = self.on_path(x, method, None, "e1")
        y = ops.tanh(x, quantize=lambda v: method.activation(self, "x4", v))
        return self.on_path(y, method, None, "e0")


class Sigmoid(Layer):
    """x4 = QA(sigmoid(x))."""

    def forward(self, x: Tensor, method: Method) -> Tensor:
        """The quantized activation; its derivative is x4*(1 - x4)."""
        x = self.on_path(x, method, None, "e1")
        keep = self.keeper(method, "x4")
        y = ops.sigmoid(x, quantize=lambda v: method.activation(self, "x4", v), keep=keep)
        return self.on_path(y, method, None, "e0")


class SiLU(Layer):
    """x4 = QA(x*sigmoid(x))."""

    def forward(self, x: Tensor, method: Method) -> Tensor:
        """The quantized activation; of an integer x its derivative is stored too."""
        x = self.on_path(x, method, None, "e1q")
        y = ops.silu(
            x,
            quantize=lambda v: method.activation(self, "x4", v),
            derivative=lambda v: method.activation(self, "dx4", v),
            keep=self.keeper(method, "x3"),
        )
        return self.on_path(y, method, None, "e0")


class MaxPool2d(Layer):
    """Maximum of windows; exact, so nothing is rounded."""

    def __init__(
        self, kernel_size: int | Pair, stride: int | Pair | None = None, padding: int | Pair = 0
    ) -> None:
        super().__init__()
        self.kernel, self.padding = pair(kernel_size, "kernel_size"), pair(padding, "padding", 0)
        self.stride = self.kernel if stride is None else pair(stride, "stride")

    def forward(self, x: Tensor, method: Method) -> Tensor:
        """The maxima, in the format of x."""
        return ops.max_pool2d(x, kernel=self.kernel, stride=self.stride, padding=self.padding)


class AvgPool2d(MaxPool2d):
    """Mean of windows, padding counted as 0; rounded to the activation format."""

    def forward(self, x: Tensor, method: Method) -> Tensor:
        """x4 = QA(mean)."""
        y = ops.avg_pool2d(x, kernel=self.kernel, stride=self.stride, padding=self.padding)
        return self.on_path(y, method, "x4", "e0")


class AdaptiveAvgPool2d(Layer):
    """Means of as many windows as are asked for, whatever the image's size; rounded as AvgPool2d's."""

    def __init__(self, output_size: int | Pair) -> None:
        super().__init__()
        self.output = pair(output_size, "output_size")

    def forward(self, x: Tensor, method: Method) -> Tensor:
        """x4 = QA(mean)."""
        return self.on_path(ops.adaptive_avg_pool2d(x, output=self.output), method, "x4", "e0")


class GlobalAvgPool(Layer):
    """Mean over all positions, (N, C): exact; the next layer rounds it."""

    def forward(self, x: Tensor, method: Method) -> Tensor:
        """The means."""
        return ops.global_avg_pool(x)


class Flatten(Layer):
    """(N, H, W, C) -> (N, H*W*C) in C order."""

    def forward(self, x: Tensor, method: Method) -> Tensor:
        """The same elements."""
        return ops.flatten(x)


class Dropout(Layer):
    """Drops elements with probability p while training; the rest grows by 1/(1-p), then QA."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.keep = 1 - Fraction(str(p))
        if not 0 < self.keep <= 1:
            raise ShapeError(f"Dropout: p = {p} is not in [0, 1)")

    def forward(self, x: Tensor, method: Method) -> Tensor:
        """x4, with this step's mask."""
        if not method.training:
            return x
        words = method.words(f"{self.name}/mask", int(np.prod(x.value.shape)))
        return self.on_path(ops.dropout(x, words=words, keep=self.keep), method, "x4", "e0")


class Sequential(Layer):
    """Layers one after another, named 0, 1, 2, ... as in PyTorch."""

    def __init__(self, *layers: Layer) -> None:
        super().__init__()
        self.layers = list(layers)

    def children(self) -> Iterator[tuple[str, Layer]]:
        """(index, layer)."""
        yield from ((str(i), layer) for i, layer in enumerate(self.layers))

    def forward(self, x: Tensor, method: Method) -> Tensor:
        """The last layer's output."""
        for layer in self.layers:
            x = layer(x, method)
        return x
