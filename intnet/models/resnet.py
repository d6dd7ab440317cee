"""Residual networks (He et al., 2016), with torchvision's names and shapes.

A stem, stages of blocks, global average pooling, one linear layer. Every stage but the first halves the
image. Where a block changes shape, its shortcut is a 1x1 convolution with batch norm.

    resnet8, resnet20              16, 32, 64 channels, 1 and 3 basic blocks a stage (sec. 4.2)
    resnet18, resnet34, resnet50   64, 128, 256, 512 channels (table 1); resnet50 has bottleneck blocks, with
                                   four times as many at their output and the stride on their 3x3 convolution

    stem cifar      3x3 convolution: the only one of resnet8 and resnet20
    stem imagenet   7x7 convolution and 3x3 max pooling, both of stride 2

Which stem: `stems.py`. Any image size and channel count.
"""

from intnet import ops
from intnet.autograd import Tensor
from intnet.layers import BatchNorm2d, Conv2d, GlobalAvgPool, Layer, Linear, MaxPool2d, ReLU, Sequential
from intnet.methods.method import Method
from intnet.models.model import Model
from intnet.models.stems import CIFAR, IMAGENET, kind_of, stem_for

WIDE = (64, 128, 256, 512)


def shortcut(in_channels: int, out_channels: int, stride: int) -> Sequential | None:
    """1x1 convolution and batch norm where a block changes shape, else None."""
    if stride == 1 and in_channels == out_channels:
        return None
    return Sequential(Conv2d(in_channels, out_channels, 1, stride=stride), BatchNorm2d(out_channels))


class BasicBlock(Layer):
    """conv-bn-relu-conv-bn, joined with the shortcut, relu."""

    EXPANSION = 1  # channels at its output, times `channels`

    def __init__(self, in_channels: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = Conv2d(in_channels, channels, 3, stride=stride, padding=1)
        self.bn1, self.relu1 = BatchNorm2d(channels), ReLU()
        self.conv2 = Conv2d(channels, channels, 3, padding=1)
        self.bn2 = BatchNorm2d(channels)
        self.downsample = shortcut(in_channels, channels, stride)
        self.relu2 = ReLU()

    def forward(self, x: Tensor, method: Method) -> Tensor:
        """relu(x3 of the branch + shortcut); the sum is exact."""
        branch = self.relu1(self.bn1(self.conv1(x, method), method), method)
        branch = self.bn2(self.conv2(branch, method), method)
        joined = x if self.downsample is None else self.downsample(x, method)
        return self.relu2(ops.add(branch, joined), method)


class Bottleneck(Layer):
    """1x1, 3x3 and 1x1 convolutions with bn, relu between them, joined with the shortcut, relu."""

    EXPANSION = 4

    def __init__(self, in_channels: int, channels: int, stride: int) -> None:
        super().__init__()
        wide = channels * self.EXPANSION
        self.conv1, self.bn1, self.relu1 = Conv2d(in_channels, channels, 1), BatchNorm2d(channels), ReLU()
        self.conv2 = Conv2d(channels, channels, 3, stride=stride, padding=1)
        self.bn2, self.relu2 = BatchNorm2d(channels), ReLU()
        self.conv3, self.bn3 = Conv2d(channels, wide, 1), BatchNorm2d(wide)
        self.downsample = shortcut(in_channels, wide, stride)
        self.relu3 = ReLU()

    def forward(self, x: Tensor, method: Method) -> Tensor:
        """relu(x3 of the branch + shortcut); the sum is exact."""
        branch = self.relu1(self.bn1(self.conv1(x, method), method), method)
        branch = self.relu2(self.bn2(self.conv2(branch, method), method), method)
        branch = self.bn3(self.conv3(branch, method), method)
        joined = x if self.downsample is None else self.downsample(x, method)
        return self.relu3(ops.add(branch, joined), method)


class ResNet(Model):
    """Stem, stages, mean, `fc`.

    channels, blocks: of each stage; the stages are the attributes `layer1`, `layer2`, ...
    stem: a name of `stems.py`
    """

    def __init__(
        self,
        kind: str,
        block: type[BasicBlock] | type[Bottleneck],
        channels: tuple[int, ...],
        blocks: tuple[int, ...],
        stem: str,
        image_shape: tuple[int, int, int],
        classes: int,
    ) -> None:
        super().__init__(kind, image_shape, classes)
        kernel, stride = (7, 2) if stem == IMAGENET else (3, 1)
        self.conv1 = Conv2d(image_shape[2], channels[0], kernel, stride=stride, padding=kernel // 2)
        self.bn1, self.relu1 = BatchNorm2d(channels[0]), ReLU()
        self.maxpool = MaxPool2d(3, stride=2, padding=1) if stem == IMAGENET else None
        self.stages = tuple(f"layer{k + 1}" for k in range(len(channels)))
        before = channels[0]
        for k, name in enumerate(self.stages):
            made = []
            for i in range(blocks[k]):
                made.append(block(before, channels[k], stride=2 if k and i == 0 else 1))
                before = channels[k] * block.EXPANSION
            setattr(self, name, Sequential(*made))
        self.avgpool = GlobalAvgPool()
        self.fc = Linear(before, classes)
        self.finish()

    def forward(self, x: Tensor, method: Method) -> Tensor:
        """Logits (N, classes)."""
        x = self.relu1(self.bn1(self.conv1(x, method), method), method)
        if self.maxpool is not None:
            x = self.maxpool(x, method)
        for name in self.stages:
            x = getattr(self, name)(x, method)
        return self.fc(self.avgpool(x, method), method)


def resnet8(image_shape: tuple[int, int, int], classes: int) -> ResNet:
    """1 basic block a stage: 8 weight layers, shortcuts apart."""
    return ResNet("resnet8", BasicBlock, (16, 32, 64), (1, 1, 1), CIFAR, image_shape, classes)


def resnet20(image_shape: tuple[int, int, int], classes: int) -> ResNet:
    """3 basic blocks a stage: 20 weight layers, shortcuts apart."""
    return ResNet("resnet20", BasicBlock, (16, 32, 64), (3, 3, 3), CIFAR, image_shape, classes)


def resnet18(image_shape: tuple[int, int, int], classes: int, stem: str | None = None) -> ResNet:
    """2 basic blocks a stage; -cifar, -imagenet: the stem, else by the image size."""
    kind, stem = kind_of("resnet18", stem), stem_for(image_shape, stem)
    return ResNet(kind, BasicBlock, WIDE, (2, 2, 2, 2), stem, image_shape, classes)


def resnet34(image_shape: tuple[int, int, int], classes: int, stem: str | None = None) -> ResNet:
    """3, 4, 6, 3 basic blocks; -cifar, -imagenet: the stem, else by the image size."""
    kind, stem = kind_of("resnet34", stem), stem_for(image_shape, stem)
    return ResNet(kind, BasicBlock, WIDE, (3, 4, 6, 3), stem, image_shape, classes)


def resnet50(image_shape: tuple[int, int, int], classes: int, stem: str | None = None) -> ResNet:
    """3, 4, 6, 3 bottleneck blocks; -cifar, -imagenet: the stem, else by the image size."""
    kind, stem = kind_of("resnet50", stem), stem_for(image_shape, stem)
    return ResNet(kind, Bottleneck, WIDE, (3, 4, 6, 3), stem, image_shape, classes)
