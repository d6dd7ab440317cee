"""Linear and Conv2d: a matrix product with the layer's own weight, and a bias."""

from intnet import ops
from intnet.autograd import Tensor
from intnet.errors import ShapeError
from intnet.layers.base import Layer, Pair, pair
from intnet.methods.method import Method, Parameter


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
        if len(x.value.shape) != 2:
            raise ShapeError(
                f"{self.name or 'Linear'}: reads rows (N, F), not {x.value.shape}: put a Flatten() ahead"
            )
        x = self.on_path(x, method, "x0", "e4")
        w = self.read(self.weight, method)
        y = ops.linear(x, w, keep=self.keeper(method, "x0"), where=self.name)
        if self.bias is not None:
            y = ops.add_bias(y, self.read(self.bias, method), where=self.name)
        return self.on_path(y, method, "x1", "e3")
