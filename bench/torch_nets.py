"""ResNet-20 in PyTorch: plain float32, and a float32 simulation of WAGEUBN-8. Imported only where torch is.

The simulation is what a researcher writes to try the method: the same formulas as
`intnet/methods/wageubn.py`, each value a float32 number on the grid of its quantizer. A quantizer is
an autograd Function with the identity as derivative (straight through); the rest is autograd's. All
of it is whole-tensor operations, in place where a Function owns the tensor. As in intnet, the first
and last layer are float32, and W lives on the grid 2^-23, which a float32 holds exactly.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

MOMENTUM, LR, DR = 0.75, 26 * 2.0**-9, 128  # the defaults of intnet's method
EPS = 2.0**-15

# -- quantizers: equation numbers are the paper's --------------------------------------------


def direct(x: Tensor, k: int) -> Tensor:
    """(6): steps of 2^-(k-1)."""
    return (x * 2.0 ** (k - 1)).round_().mul_(2.0 ** -(k - 1))


def limited(x: Tensor, k: int) -> Tensor:
    """(9), (10): `direct` within +-(1 - 2^-(k-1))."""
    top = 1 - 2.0 ** -(k - 1)
    return direct(x, k).clamp_(-top, top)


def power(x: Tensor) -> Tensor:
    """R(x): the power of two nearest to max |x|."""
    return x.abs().max().log2().round().exp2()


def shift(x: Tensor, k: int = 8) -> Tensor:
    """(8)."""
    step, top = power(x) * 2.0 ** -(k - 1), 2 ** (k - 1) - 1
    return (x / step).round_().clamp_(-top, top).mul_(step)


def flag(x: Tensor, k: int = 8) -> Tensor:
    """(17): on the grid Sc where |x| >= Sc, on the grid Sc/2^(k-1) below."""
    sc, top = power(x) * 2.0 ** -(k - 1), 2 ** (k - 1) - 1
    y = x / sc
    return torch.where(y.abs() >= 1, y.round().clamp_(-top, top), direct(y, k)).mul_(sc)


def constant(x: Tensor, k: int = 15) -> Tensor:
    """(7), rounded stochastically."""
    y = (x * (DR / power(x))).add_(torch.rand_like(x)).floor_()
    return y.clamp_(1 - DR, DR - 1).mul_(2.0 ** -(k - 1))


class _Forward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, quantizer: Callable[..., Tensor], k: int) -> Tensor:
        return quantizer(x, k)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return gradient, None, None


class _Backward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, quantizer: Callable[..., Tensor]) -> Tensor:
        ctx.quantizer = quantizer
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.quantizer(gradient), None


def quantized(x: Tensor, k: int, quantizer: Callable[..., Tensor] = direct) -> Tensor:
    """x on its grid; the error passes."""
    return _Forward.apply(x, quantizer, k)


def with_error(x: Tensor, quantizer: Callable[..., Tensor]) -> Tensor:
    """x as it is; its error goes through the quantizer."""
    return _Backward.apply(x, quantizer)


# -- layers of the simulation ----------------------------------------------------------------


class Conv(nn.Conv2d):
    """x1 = Wq * x0; e3 in flag format."""

    def forward(self, x: Tensor) -> Tensor:
        y = F.conv2d(x, quantized(self.weight, 8, limited), None, self.stride, self.padding)
        return with_error(y, flag)


class FirstConv(nn.Conv2d):
    """float32; its output on the grid of a product of codes."""

    def forward(self, x: Tensor) -> Tensor:
        return quantized(super().forward(x), 15)


class Norm(nn.BatchNorm2d):
    """(12)."""

    def forward(self, x: Tensor) -> Tensor:
        variance, mean = torch.var_mean(x, (0, 2, 3), unbiased=False, keepdim=True)
        mu, sigma = quantized(mean, 16), quantized(variance.sqrt(), 16)
        x2 = quantized((x - mu) * (1 / (sigma + EPS)), 16)
        gamma, beta = (quantized(p, 8).view(1, -1, 1, 1) for p in (self.weight, self.bias))
        return torch.addcmul(beta, x2, gamma)


class Act(nn.Module):
    """x4 = Q(relu(x3)), e0 = SQ(.)."""

    def forward(self, x: Tensor) -> Tensor:
        return with_error(quantized(F.relu(x), 8), shift)


# -- the network ------------------------------------------------------------------------------


class Block(nn.Module):
    """conv-bn-relu-conv-bn, joined with the shortcut, relu."""

    def __init__(self, conv: type, norm: type, act: type, cin: int, cout: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv(cin, cout, 3, stride, 1, bias=False), norm(cout)
        self.conv2, self.bn2 = conv(cout, cout, 3, 1, 1, bias=False), norm(cout)
        self.relu1, self.relu2 = act(), act()
        self.downsample = nn.Sequential()
        if cin != cout:
            self.downsample = nn.Sequential(conv(cin, cout, 1, stride, bias=False), norm(cout))

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu1(self.bn1(self.conv1(x)))
        return self.relu2(self.bn2(self.conv2(y)) + self.downsample(x))


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions, joined with the shortcut, relu; four times `width` channels leave it."""

    def __init__(self, cin: int, width: int, stride: int) -> None:
        super().__init__()
        sizes = ((cin, width, 1, 1), (width, width, 3, stride), (width, 4 * width, 1, 1))
        parts = [
            nn.Sequential(nn.Conv2d(a, b, k, s, k // 2, bias=False), nn.BatchNorm2d(b))
            for a, b, k, s in sizes
        ]
        self.branch = nn.Sequential(parts[0], nn.ReLU(), parts[1], nn.ReLU(), parts[2])
        self.downsample = nn.Sequential()
        if cin != 4 * width:
            shortcut = nn.Conv2d(cin, 4 * width, 1, stride, bias=False)
            self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(4 * width))

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.branch(x) + self.downsample(x))


class ResNet20(nn.Module):
    """As `intnet.models.resnet20`, with the same parameter names, for one-channel images."""

    def __init__(
        self,
        first: type = nn.Conv2d,
        conv: type = nn.Conv2d,
        norm: type = nn.BatchNorm2d,
        act: type = nn.ReLU,
    ) -> None:
        super().__init__()
        self.conv1, self.bn1, self.relu1 = first(1, 16, 3, 1, 1, bias=False), norm(16), act()
        widths = (16, 16, 32, 64)
        for i in (1, 2, 3):
            sizes = [(widths[i - 1], widths[i], 1 + (i > 1)), *[(widths[i], widths[i], 1)] * 2]
            setattr(self, f"layer{i}", nn.Sequential(*(Block(conv, norm, act, *size) for size in sizes)))
        self.fc = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer3(self.layer2(self.layer1(self.relu1(self.bn1(self.conv1(x))))))
        return self.fc(x.mean((2, 3)))


def wide(name: str) -> nn.Sequential:
    """resnet18-cifar, resnet50-imagenet and their like as in `intnet.models.resnet`, for colour images."""
    kind, stem = name.split("-")
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    if stem == "imagenet":
        layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), *layers[1:], nn.MaxPool2d(3, 2, 1)]
    cin, counts = 64, {"resnet18": (2, 2, 2, 2), "resnet50": (3, 4, 6, 3)}[kind]
    for width, count in zip((64, 128, 256, 512), counts, strict=True):
        for i in range(count):
            stride = 2 if i == 0 and width > 64 else 1
            if kind == "resnet50":
                layers.append(Bottleneck(cin, width, stride))
            else:
                layers.append(Block(nn.Conv2d, nn.BatchNorm2d, nn.ReLU, cin, width, stride))
            cin = 4 * width if kind == "resnet50" else width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(cin, 10))


class Update:
    """(18)-(24): Acc = Mom*Accq + g_q, W <- W - lr*Acc, W limited to its 24 bits; edges as in float32."""

    def __init__(self, net: nn.Module) -> None:
        self.edges = nn.ModuleList([net.conv1, net.fc])
        kernels = {m.weight for m in net.modules() if isinstance(m, Conv)}
        edges = set(self.edges.parameters())
        self.rules = []
        for p in net.parameters():
            rule = _edge if p in edges else _kernel if p in kernels else _affine
            self.rules.append((p, torch.zeros_like(p), rule))

    @torch.no_grad()
    def __call__(self) -> None:
        for p, acc, rule in self.rules:
            rule(p, acc)
            p.grad = None


def _edge(w: Tensor, acc: Tensor) -> None:
    w.sub_(acc.mul_(MOMENTUM).add_(w.grad), alpha=LR)


def _kernel(w: Tensor, acc: Tensor) -> None:
    acc.mul_(MOMENTUM).add_(constant(w.grad))
    w.copy_(limited(w.sub_(acc, alpha=LR), 24))
    acc.copy_(direct(acc, 13))


def _affine(w: Tensor, acc: Tensor) -> None:
    acc.mul_(MOMENTUM).add_(direct(w.grad, 15))
    w.copy_(direct(w.sub_(acc, alpha=LR), 24))
    acc.copy_(direct(acc, 13))


# -- what is timed ---------------------------------------------------------------------------


def _batch(size: int, layout: torch.memory_format, image: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    height, width, channels = image
    images = torch.rand(size, channels, height, width).contiguous(memory_format=layout)
    return images, torch.randint(0, 10, (size,))


def float_step(
    batch: int,
    layout: torch.memory_format = torch.contiguous_format,
    model: str = "resnet20",
    image: tuple[int, int, int] = (28, 28, 1),
) -> Callable[[], Any]:
    """A call that trains one float32 step: forward, cross-entropy, backward, SGD with momentum."""
    net = (ResNet20() if model == "resnet20" else wide(model)).to(memory_format=layout)
    images, labels = _batch(batch, layout, image)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(net(images), labels).backward()
        optimizer.step()

    return step


def simulated_step(batch: int, layout: torch.memory_format = torch.contiguous_format) -> Callable[[], Any]:
    """A call that trains one step of the simulation."""
    net = ResNet20(FirstConv, Conv, Norm, Act).to(memory_format=layout)
    images, labels = _batch(batch, layout, (28, 28, 1))
    update = Update(net)

    def step() -> None:
        F.cross_entropy(net(images), labels).backward()
        update()

    return step
