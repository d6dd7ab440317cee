"""Narrow twins of mlp, lenet5 and resnet8, registered: every layer, name and branch, few channels.

The definition in plain Python takes as long as there are words, and finds in few what it finds in many.
Blocks of 32 need more than 32 of what they run along: a whole one and a part of one.
"""

from intnet import models
from intnet.layers import BatchNorm2d, Conv2d, Flatten, Linear, MaxPool2d, ReLU
from intnet.models.lenet import LeNet5
from intnet.models.mlp import MLP
from intnet.models.resnet import BasicBlock, ResNet
from intnet.models.stems import CIFAR

MLP36, LENET5, RESNET8, RESNET8_BLOCKS = "mlp-36", "lenet5-narrow", "resnet8-narrow", "resnet8-blocks"
RESNET8_MOVED = "resnet8-moved"


@models.register(MLP36)
class Mlp(MLP):
    """Of 36 in place of 64."""

    def __init__(self, image_shape: tuple[int, int, int], classes: int) -> None:
        super().__init__(image_shape, classes, 36)
        self.kind = MLP36


@models.register(LENET5)
class LeNet(LeNet5):
    """3 and 10 channels, then 36, 34 and the classes: in place of 6, 16, 120 and 84."""

    def __init__(self, image_shape: tuple[int, int, int], classes: int) -> None:
        models.Model.__init__(self, LENET5, image_shape, classes)
        height, width, channels = image_shape
        self.conv1, self.bn1, self.relu1 = Conv2d(channels, 3, 5, padding=2), BatchNorm2d(3), ReLU()
        self.pool1 = MaxPool2d(2)
        self.conv2, self.bn2, self.relu2 = Conv2d(3, 10, 5, padding=2), BatchNorm2d(10), ReLU()
        self.pool2 = MaxPool2d(2)
        self.flatten = Flatten()
        left = (height // 4) * (width // 4) * 10
        self.fc1, self.bn3, self.relu3 = Linear(left, 36, bias=False), BatchNorm2d(36), ReLU()
        self.fc2, self.bn4, self.relu4 = Linear(36, 34, bias=False), BatchNorm2d(34), ReLU()
        self.fc3 = Linear(34, classes)
        self.finish()


@models.register(RESNET8)
def resnet8(image_shape: tuple[int, int, int], classes: int) -> ResNet:
    """8, 14 and 10 channels in place of 16, 32 and 64."""
    return ResNet(RESNET8, BasicBlock, (8, 14, 10), (1, 1, 1), CIFAR, image_shape, classes)


@models.register(RESNET8_MOVED)
def resnet8_moved(image_shape: tuple[int, int, int], classes: int) -> ResNet:
    """8, 12 and 10 channels: a branch negated moves R(e2) of the other one."""
    return ResNet(RESNET8_MOVED, BasicBlock, (8, 12, 10), (1, 1, 1), CIFAR, image_shape, classes)


@models.register(RESNET8_BLOCKS)
def resnet8_blocks(image_shape: tuple[int, int, int], classes: int) -> ResNet:
    """4, 34 and 6 channels: those of `layer2` are a block of 32 and a part of one."""
    return ResNet(RESNET8_BLOCKS, BasicBlock, (4, 34, 6), (1, 1, 1), CIFAR, image_shape, classes)
