"""Small nets of all kinds of layers: the library's model, and the definition's net beside it."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from intnet.autograd import Tensor
from intnet.layers import (
    AvgPool2d,
    BatchNorm2d,
    Conv2d,
    Dropout,
    Flatten,
    GlobalAvgPool,
    Linear,
    MaxPool2d,
    ReLU,
    Sequential,
    SiLU,
    Tanh,
)
from intnet.layers.joints import SqueezeExcitation
from intnet.methods.method import Method
from intnet.models.mlp import MLP
from intnet.models.model import Model
from intnet.models.resnet import BasicBlock
from intnet.spec import models as spec_models
from intnet.spec.models import Layer, Net, Residual
from tests.support.weighed import Weighed

WIDTHS, CLASSES = (4, 6), 3
SHAPE = 6, 6, 2


class TinyResNet(Model):
    """A stem, an identity block, a block with stride 2 and a downsample, a classifier."""

    def __init__(self, shape: tuple[int, int, int] = SHAPE, classes: int = CLASSES) -> None:
        super().__init__("tiny", shape, classes)
        first, last = WIDTHS
        self.conv1 = Conv2d(shape[2], first, 3, padding=1)
        self.bn1, self.relu1 = BatchNorm2d(first), ReLU()
        self.layer1 = Sequential(BasicBlock(first, first, 1))
        self.layer2 = Sequential(BasicBlock(first, last, 2))
        self.avgpool = GlobalAvgPool()
        self.fc = Linear(last, classes)
        self.finish()

    def forward(self, x: Tensor, method: Method) -> Tensor:
        x = self.relu1(self.bn1(self.conv1(x, method), method), method)
        return self.fc(self.avgpool(self.layer2(self.layer1(x, method), method), method), method)


RESNET = spec_models.resnet(SHAPE, CLASSES, WIDTHS, (1, 1))


class TinyLeNet(Model):
    """A convolution with bias and no batch norm, one with batch norm, pools, a classifier."""

    def __init__(self) -> None:
        super().__init__("tiny lenet", (8, 8, 1), 10)
        self.conv1, self.relu1 = Conv2d(1, 2, 3, padding=1, bias=True), ReLU()
        self.pool1 = MaxPool2d(2)
        self.conv2, self.bn2, self.relu2 = Conv2d(2, 3, 5, padding=2), BatchNorm2d(3), ReLU()
        self.pool2 = MaxPool2d(2)
        self.flatten = Flatten()
        self.fc = Linear(12, 10)
        self.finish()

    def forward(self, x: Tensor, method: Method) -> Tensor:
        x = self.pool1(self.relu1(self.conv1(x, method), method), method)
        x = self.pool2(self.relu2(self.bn2(self.conv2(x, method), method), method), method)
        return self.fc(self.flatten(x, method), method)


LENET: Net = (
    Layer("conv", "conv1", 2, 3, bias=True, padding=1),
    Layer("relu", "relu1"),
    Layer("max_pool", "pool1", kernel=2, stride=2),
    Layer("conv", "conv2", 3, 5, padding=2),
    Layer("norm", "bn2"),
    Layer("relu", "relu2"),
    Layer("max_pool", "pool2", kernel=2, stride=2),
    Layer("flatten", "flatten"),
    Layer("linear", "fc", 10, bias=True),
)


class Excited(Model):
    """A convolution with batch norm and SiLU, squeeze and excitation, a classifier."""

    def __init__(self) -> None:
        super().__init__("excited", SHAPE, CLASSES)
        self.conv1, self.bn1, self.act1 = Conv2d(SHAPE[2], 5, 3, padding=1), BatchNorm2d(5), SiLU()
        self.se = SqueezeExcitation(5, 3)
        self.avgpool, self.fc = GlobalAvgPool(), Linear(5, CLASSES)
        self.finish()

    def forward(self, x: Tensor, method: Method) -> Tensor:
        x = self.act1(self.bn1(self.conv1(x, method), method), method)
        return self.fc(self.avgpool(self.se(x, method), method), method)


EXCITED: Net = (
    Layer("conv", "conv1", 5, 3, padding=1),
    Layer("norm", "bn1"),
    Layer("silu", "act1"),
    Layer("excite", "se", 3),
    Layer("mean", "avgpool"),
    Layer("linear", "fc", CLASSES, bias=True),
)


class Grouped(Model):
    """Convolutions in groups, of which a block of channels never has two; 36 outputs: a block and a tail."""

    def __init__(self) -> None:
        super().__init__("grouped", (8, 8, 1), CLASSES)
        self.conv1, self.bn1, self.relu1 = Conv2d(1, 6, 3, stride=2), BatchNorm2d(6), ReLU()
        self.conv2 = Conv2d(6, 36, 3, padding=1, groups=3)
        self.conv3 = Conv2d(36, 36, 2, groups=36)
        self.avgpool, self.fc = GlobalAvgPool(), Linear(36, CLASSES)
        self.finish()

    def forward(self, x: Tensor, method: Method) -> Tensor:
        x = self.relu1(self.bn1(self.conv1(x, method), method), method)
        return self.fc(self.avgpool(self.conv3(self.conv2(x, method), method), method), method)


GROUPED: Net = (
    Layer("conv", "conv1", 6, 3, stride=2),
    Layer("norm", "bn1"),
    Layer("relu", "relu1"),
    Layer("conv", "conv2", 36, 3, padding=1, groups=3),
    Layer("conv", "conv3", 36, 2, groups=36),
    Layer("mean", "avgpool"),
    Layer("linear", "fc", CLASSES, bias=True),
)


class Zoo(Model):
    """8x8x2 images; pool1 makes 4x4, conv2 4x2, pool2 5x3."""

    def __init__(self) -> None:
        super().__init__("zoo", (8, 8, 2), 3)
        self.conv1, self.bn1, self.tanh1 = Conv2d(2, 4, 3, padding=1), BatchNorm2d(4), Tanh()
        self.pool1 = MaxPool2d(3, 2, 1)
        self.conv2 = Conv2d(4, 6, (3, 1), (1, 2), (1, 0), groups=2, bias=True)
        self.bn2, self.relu2 = BatchNorm2d(6), ReLU()
        self.pool2, self.drop, self.flatten = AvgPool2d(2, 1, 1), Dropout(0.3), Flatten()
        self.fc1, self.bn3, self.relu3 = Linear(90, 5), BatchNorm2d(5), ReLU()
        self.fc2 = Linear(5, 3)
        self.finish()

    def forward(self, x: Tensor, method: Method) -> Tensor:
        for layer in self.all_layers():
            x = layer(x, method)
        return x


ZOO: Net = (
    Layer("conv", "conv1", 4, 3, padding=1),
    Layer("norm", "bn1"),
    Layer("tanh", "tanh1"),
    Layer("max_pool", "pool1", kernel=3, stride=2, padding=1),
    Layer("conv", "conv2", 6, (3, 1), bias=True, stride=(1, 2), padding=(1, 0), groups=2),
    Layer("norm", "bn2"),
    Layer("relu", "relu2"),
    Layer("avg_pool", "pool2", kernel=2, stride=1, padding=1),
    Layer("dropout", "drop", keep=Fraction(7, 10)),
    Layer("flatten", "flatten"),
    Layer("linear", "fc1", 5, bias=True),
    Layer("norm", "bn3"),
    Layer("relu", "relu3"),
    Layer("linear", "fc2", 3, bias=True),
)


class Apart(Zoo):
    """Windows that do not overlap: after AdaPT's float32 error only those are exact."""

    def __init__(self) -> None:
        super().__init__()
        self.pool2, self.fc1 = AvgPool2d(2), Linear(12, 5)
        self.finish()


APART = tuple(
    x._replace(stride=2, padding=0) if isinstance(x, Layer) and x.name == "pool2" else x for x in ZOO
)
WEIGHED: Net = (
    Layer("conv", "conv1", 4, 3, stride=2, padding=1),
    Layer("norm", "bn1"),
    Layer("silu", "silu1"),
    Residual((
        Layer("conv", "conv2", 4, 3, padding=1),
        Layer("norm", "bn2"),
        Layer("silu", "silu2"),
        Layer("excite", "excite", 2),
    )),
    Layer("join", "join"),
    Layer("adaptive_pool", "avgpool", kernel=3),
    Layer("flatten", "flatten"),
    Layer("linear", "fc", 3, bias=True),
)  # fmt: skip
KINDS: dict[str, tuple[Net, Callable[[], Model]]] = {
    "mlp": (spec_models.mlp((8, 8, 1), 10, hidden=5), lambda: MLP((8, 8, 1), 10, hidden=5)),
    "lenet": (LENET, TinyLeNet),
    "resnet": (RESNET, TinyResNet),
    "excited": (EXCITED, Excited),
    "grouped": (GROUPED, Grouped),
    "zoo": (ZOO, Zoo),
    "apart": (APART, Apart),
    "weighed": (WEIGHED, lambda: Weighed((8, 8, 1), 3)),
}
