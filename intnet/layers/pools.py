"""Pools: the maximum or the mean of windows."""

from intnet import ops
from intnet.autograd import Tensor
from intnet.layers.base import Layer, Pair, pair
from intnet.methods.method import Method


class MaxPool2d(Layer):
    """Maximum of windows; exact, so nothing is rounded."""

    stores = False

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

    stores = True

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

    stores = False

    def forward(self, x: Tensor, method: Method) -> Tensor:
        """The means."""
        return ops.global_avg_pool(x)
