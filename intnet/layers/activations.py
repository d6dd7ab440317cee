"""ReLU, tanh, sigmoid, SiLU."""

from intnet import ops
from intnet.autograd import Tensor
from intnet.layers.base import Layer
from intnet.methods.method import Method


class ReLU(Layer):
    """x4 = QA(relu(x))."""

    derivative = "mask"

    def forward(self, x: Tensor, method: Method) -> Tensor:
        """The quantized activation; e0 and e1 on the way back."""
        y = ops.relu(self.on_path(x, method, None, "e1"), keep=self.keeper(method, "mask"))
        return self.on_path(y, method, "x4", "e0")


class Tanh(Layer):
    """x4 = QA(tanh(x))."""

    derivative = "x4"

    def forward(self, x: Tensor, method: Method) -> Tensor:
        """The quantized activation; its derivative is 1 - x4^2."""
        x = self.on_path(x, method, None, "e1")
        y = ops.tanh(x, quantize=lambda v: method.activation(self, "x4", v))
        return self.on_path(y, method, None, "e0")


class Sigmoid(Layer):
    """x4 = QA(sigmoid(x))."""

    derivative = "x4"

    def forward(self, x: Tensor, method: Method) -> Tensor:
        """The quantized activation; its derivative is x4*(1 - x4)."""
        x = self.on_path(x, method, None, "e1")
        keep = self.keeper(method, "x4")
        y = ops.sigmoid(x, quantize=lambda v: method.activation(self, "x4", v), keep=keep)
        return self.on_path(y, method, None, "e0")


class SiLU(Layer):
    """x4 = QA(x*sigmoid(x))."""

    derivative = "x3"

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
