"""Residual networks for small images (He et al., 2016, sec. 4.2): resnet8 and resnet20.

A 3x3 stem, three stages of n basic blocks with 16, 32, 64 channels, global average pooling, one
linear layer: 6n + 2 weight layers. Where a block changes shape, its shortcut is a 1x1 convolution
with batch norm. Any image size and channel count.
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
    """The CIFAR-style residual network of depth 6n + 2."""

    def __init__(self, kind: str, n: int, image_shape: tuple[int, int, int], classes: int) -> None:
        super().__init__(kind, image_shape, classes)
        self.conv1 = Conv2d(image_shape[2], 16, 3, padding=1)
        self.bn1, self.relu1 = BatchNorm2d(16), ReLU()
        self.layer1 = self._stage(16, 16, n, stride=1)
        self.layer2 = self._stage(16, 32, n, stride=2)
        self.layer3 = self._stage(32, 64, n, stride=2)
        self.avgpool = GlobalAvgPool()
        self.fc = Linear(64, classes)
        self.finish()

    @staticmethod
    def _stage(in_channels: int, out_channels: int, n: int, stride: int) -> Sequential:
        first = BasicBlock(in_channels, out_channels, stride)
        return Sequential(first, *(BasicBlock(out_channels, out_channels, 1) for _ in range(n - 1)))

    def forward(self, x: Tensor, method: Method) -> Tensor:
        """Logits (N, classes)."""
        x = self.relu1(self.bn1(self.conv1(x, method), method), method)
        x = self.layer3(self.layer2(self.layer1(x, method), method), method)
        return self.fc(self.avgpool(x, method), method)


def resnet8(image_shape: tuple[int, int, int], classes: int) -> ResNet:
    """n = 1: 8 weight layers."""
    return ResNet("resnet8", 1, image_shape, classes)


def resnet20(image_shape: tuple[int, int, int], classes: int) -> ResNet:
    """n = 3: 20 weight layers."""
    return ResNet("resnet20", 3, image_shape, classes)
