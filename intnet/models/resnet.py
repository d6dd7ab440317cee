"""Residual networks for small images (He et al., 2016, sec. 4.2).

A 3x3 stem, stages of n basic blocks each, global average pooling, one linear layer. Every stage but the
first halves the image. Where a block changes shape, its shortcut is a 1x1 convolution with batch norm.
Any image size and channel count.

    resnet8, resnet20   16, 32, 64 channels, n = 1 and 3
    resnet18            64, 128, 256, 512 channels, n = 2; the stem is that for small images
"""

from intnet import ops
from intnet.autograd import Tensor
from intnet.layers import BatchNorm2d, Conv2d, GlobalAvgPool, Layer, Linear, ReLU, Sequential
from intnet.methods.method import Method
from intnet.models.model import Model


class BasicBlock(Layer):
    """conv-bn-relu-conv-bn, joined with the shortcut, relu."""

    def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = Conv2d(in_channels, out_channels, 3, stride=stride, padding=1)
        self.bn1, self.relu1 = BatchNorm2d(out_channels), ReLU()
        self.conv2 = Conv2d(out_channels, out_channels, 3, padding=1)
        self.bn2 = BatchNorm2d(out_channels)
        self.downsample: Sequential | None = None
        if stride != 1 or in_channels != out_channels:
            self.downsample = Sequential(
                Conv2d(in_channels, out_channels, 1, stride=stride), BatchNorm2d(out_channels)
            )
        self.relu2 = ReLU()

    def forward(self, x: Tensor, method: Method) -> Tensor:
        """relu(x3 of the branch + shortcut); the sum is exact."""
        branch = self.relu1(self.bn1(self.conv1(x, method), method), method)
        branch = self.bn2(self.conv2(branch, method), method)
        shortcut = x if self.downsample is None else self.downsample(x, method)
        return self.relu2(ops.add(branch, shortcut), method)


class ResNet(Model):
    """Stages of n basic blocks: 2n weight layers each, and stem, `fc` and the shortcuts'.

    stages: channels of each; they are the attributes `layer1`, `layer2`, ...
    """

    def __init__(
        self, kind: str, stages: tuple[int, ...], n: int, image_shape: tuple[int, int, int], classes: int
    ) -> None:
        super().__init__(kind, image_shape, classes)
        self.conv1 = Conv2d(image_shape[2], stages[0], 3, padding=1)
        self.bn1, self.relu1 = BatchNorm2d(stages[0]), ReLU()
        self.stages = tuple(f"layer{k + 1}" for k in range(len(stages)))
        before = (stages[0], *stages)
        for k, name in enumerate(self.stages):
            setattr(self, name, self._stage(before[k], stages[k], n, stride=1 if k == 0 else 2))
        self.avgpool = GlobalAvgPool()
        self.fc = Linear(stages[-1], classes)
        self.finish()

    @staticmethod
    def _stage(in_channels: int, out_channels: int, n: int, stride: int) -> Sequential:
        first = BasicBlock(in_channels, out_channels, stride)
        return Sequential(first, *(BasicBlock(out_channels, out_channels, 1) for _ in range(n - 1)))

    def forward(self, x: Tensor, method: Method) -> Tensor:
        """Logits (N, classes)."""
        x = self.relu1(self.bn1(self.conv1(x, method), method), method)
        for name in self.stages:
            x = getattr(self, name)(x, method)
        return self.fc(self.avgpool(x, method), method)


def resnet8(image_shape: tuple[int, int, int], classes: int) -> ResNet:
    """n = 1: 8 weight layers, shortcuts apart."""
    return ResNet("resnet8", (16, 32, 64), 1, image_shape, classes)


def resnet20(image_shape: tuple[int, int, int], classes: int) -> ResNet:
    """n = 3: 20 weight layers, shortcuts apart."""
    return ResNet("resnet20", (16, 32, 64), 3, image_shape, classes)


def resnet18(image_shape: tuple[int, int, int], classes: int) -> ResNet:
    """Four stages, n = 2: 18 weight layers, shortcuts apart."""
    return ResNet("resnet18", (64, 128, 256, 512), 2, image_shape, classes)
