"""ResNet-20 and LeNet-5 in PyTorch under AdaPT and MuPPET, simulated in float32 with qtorch's quantizers.

What a researcher writes to try the methods: float32 convolutions, and a qtorch quantizer on every data path,
with straight-through estimators. Imported only where torch is. `formats` says which paths are rounded and to
what, 'layer/path' -> FixedPoint or Scaled (one exponent a tensor); layers have the names of intnet's.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench import torch_nets
from intnet.numbers.formats import FixedPoint, Format, Scaled

SYMBOLS = {"weight": "W", "bias": "b"}
NORM_SYMBOLS = {"weight": "gamma", "bias": "beta"}
L1 = 1e-8  # of AdaPT, by default


def quantizers(qtorch: Any, formats: Mapping[str, Format]) -> dict[str, Callable[[Tensor], Tensor]]:
    """'layer/path' -> qtorch's quantizer for that format, stochastic."""
    calls: dict[str, Callable[[Tensor], Tensor]] = {}
    for name, format in formats.items():
        if isinstance(format, FixedPoint):
            how = {"wl": format.wl, "fl": format.fl, "clamp": True, "rounding": "stochastic"}
            calls[name] = partial(qtorch.fixed_point_quantize, **how)
        elif isinstance(format, Scaled):
            calls[name] = partial(qtorch.block_quantize, wl=format.wl, dim=-1, rounding="stochastic")
        else:
            raise TypeError(f"{name}: qtorch has no quantizer for {format}")
    return calls


class Simulated(nn.Module):
    """A layer whose paths pass the quantizers that `place` gives it."""

    symbols = SYMBOLS
    stored: dict[str, Callable[[Tensor], Tensor]]

    def place(self, name: str, calls: Mapping[str, Callable[[Tensor], Tensor]]) -> None:
        """Take the quantizers of layer `name`."""
        self.stored = {
            key.rpartition("/")[2]: call for key, call in calls.items() if key.startswith(f"{name}/")
        }

    def on(self, path: str, x: Tensor) -> Tensor:
        """x on its grid; the error passes."""
        call = self.stored.get(path)
        return x if call is None else torch_nets.quantized(x, 0, lambda x, _: call(x))

    def back(self, path: str, x: Tensor) -> Tensor:
        """x as it is, its error on its grid."""
        call = self.stored.get(path)
        return x if call is None else torch_nets.with_error(x, call)

    def parameter(self, name: str) -> Tensor | None:
        """The forward copy of a parameter."""
        value = getattr(self, name)
        return None if value is None else self.on(f"{self.symbols[name]}q", value)


class Conv(Simulated, nn.Conv2d):
    """x1 = Wq * x0."""

    def forward(self, x: Tensor) -> Tensor:
        y = F.conv2d(self.on("x0", x), self.parameter("weight"), None, self.stride, self.padding)
        return self.back("e3", self.on("x1", y))


class Linear(Simulated, nn.Linear):
    """x1 = Wq x0 + bq."""

    def forward(self, x: Tensor) -> Tensor:
        y = F.linear(self.on("x0", x), self.parameter("weight"), self.parameter("bias"))
        return self.back("e3", self.on("x1", y))


class Norm(Simulated, nn.BatchNorm2d):
    """float32 between x1 and x3, of images and of rows."""

    symbols = NORM_SYMBOLS

    def forward(self, x: Tensor) -> Tensor:
        affine = self.parameter("weight"), self.parameter("bias")
        return self.on("x3", F.batch_norm(x, self.running_mean, self.running_var, *affine, training=True))


class Act(Simulated):
    """x4 = relu(x3)."""

    def forward(self, x: Tensor) -> Tensor:
        return self.back("e0", self.on("x4", F.relu(x)))


class LeNet5(nn.Module):
    """As `intnet.models.lenet5`, for one-channel images of 28x28."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1, self.relu1 = Conv(1, 6, 5, padding=2, bias=False), Norm(6), Act()
        self.conv2, self.bn2, self.relu2 = Conv(6, 16, 5, padding=2, bias=False), Norm(16), Act()
        self.fc1, self.bn3, self.relu3 = Linear(784, 120, bias=False), Norm(120), Act()
        self.fc2, self.bn4, self.relu4 = Linear(120, 84, bias=False), Norm(84), Act()
        self.fc3 = Linear(84, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(self.relu1(self.bn1(self.conv1(x))), 2)
        x = F.max_pool2d(self.relu2(self.bn2(self.conv2(x))), 2).flatten(1)
        return self.fc3(self.relu4(self.bn4(self.fc2(self.relu3(self.bn3(self.fc1(x)))))))


def _net(model: str) -> nn.Module:
    if model == "lenet5":
        return LeNet5()
    net = torch_nets.ResNet20(Conv, Conv, Norm, Act)
    net.fc = Linear(64, 10)
    return net


class _Gradients:
    """Gradients on their grids; AdaPT's of weights then of length 1, with the l1 penalty."""

    def __init__(self, net: nn.Module, adapt: bool) -> None:
        self.adapt = adapt
        self.rules = [
            (p, layer.symbols[name] == "W", layer.stored.get(f"g{layer.symbols[name]}q"))
            for layer in net.modules()
            if isinstance(layer, Simulated)
            for name, p in layer.named_parameters(recurse=False)
        ]

    @torch.no_grad()
    def __call__(self) -> None:
        for p, weights, call in self.rules:
            if call is not None:
                p.grad = call(p.grad)
            if self.adapt and weights:
                length = p.grad.norm()
                p.grad.div_(torch.where(length > 0, length, 1.0))
            if self.adapt:
                p.grad.add_(p.sign(), alpha=L1)


def step(
    qtorch: Any, model: str, method: str, formats: Mapping[str, Format], images: Any, labels: Any
) -> Callable[[], Any]:
    """A call that trains one step on images[N, 1, H, W] (float32) and labels, both of NumPy."""
    net, calls = _net(model), quantizers(qtorch, formats)
    for name, layer in net.named_modules():
        if isinstance(layer, Simulated):
            layer.place(name, calls)
    adapt = method == "adapt"
    gradients = _Gradients(net, adapt)
    decay = 0.01 if adapt else 1e-4
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, weight_decay=decay)
    x, y = torch.from_numpy(images), torch.from_numpy(labels)

    def train() -> None:
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        gradients()
        optimizer.step()

    return train
