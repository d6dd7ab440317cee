"""Layers that read two tensors, and what is made of them: residual joins, squeeze and excitation.

    Join                x4 = QA(x + shortcut), e0 = QE(error) for both branches
    Scale               x4 = QA(x * s), s a factor a channel; e0
    SqueezeExcitation   Scale by s = sigmoid(fc2(silu(fc1(mean of x)))) (Hu et al., 2018), torchvision's names

Read `layers/` first. Where a join ends a branch without an activation (a linear bottleneck), its x4 and e0
are what the layers around it store.
"""

from intnet import ops
from intnet.autograd import Tensor
from intnet.errors import ShapeError
from intnet.layers.activations import Sigmoid, SiLU
from intnet.layers.base import Layer
from intnet.layers.pools import GlobalAvgPool
from intnet.layers.products import Linear
from intnet.methods.method import Method


class Join(Layer):
    """x4 = QA(x + shortcut), or QA(x) where a branch has none."""

    def forward(self, x: Tensor, method: Method, shortcut: Tensor | None = None) -> Tensor:
        """The stored sum, which is exact before."""
        y = x if shortcut is None else ops.add(x, shortcut)
        return self.on_path(y, method, "x4", "e0")


class Scale(Layer):
    """x4 = QA(x * s): images (N, H, W, C) by factors (N, C)."""

    def forward(self, x: Tensor, method: Method, s: Tensor | None = None) -> Tensor:
        """The stored product; ShapeError without factors."""
        if s is None:
            raise ShapeError(f"{self.name or 'Scale'}: needs factors (N, C) beside its images")
        y = ops.scale(x, s, keep=self.keeper(method, "x0"), where=self.name)
        return self.on_path(y, method, "x4", "e0")


class Squeeze(GlobalAvgPool):
    """GlobalAvgPool of an image that another layer reads too: its error is stored, so that both join."""

    stores = True

    def forward(self, x: Tensor, method: Method) -> Tensor:
        """The means."""
        return super().forward(self.on_path(x, method, None, "e0"), method)


class SqueezeExcitation(Layer):
    """Weighs the channels of an image by what the means of all channels say.

    squeezed: channels between the two linear layers, which are torchvision's 1x1 convolutions of one pixel
    """

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.avgpool = Squeeze()
        self.fc1, self.activation = Linear(channels, squeezed), SiLU()
        self.fc2, self.scale_activation = Linear(squeezed, channels), Sigmoid()
        self.scale = Scale()

    def forward(self, x: Tensor, method: Method) -> Tensor:
        """x * s."""
        s = self.activation(self.fc1(self.avgpool(x, method), method), method)
        s = self.scale_activation(self.fc2(s, method), method)
        return self.scale(x, method, s)
