"""A net that has one of every layer, for tests of what must know all of them."""

from __future__ import annotations

from typing import Any

from intnet import layers as kinds
from intnet.autograd import Tensor
from intnet.layers.joints import Join, SqueezeExcitation
from intnet.methods.method import Method
from intnet.models.model import Model


class Everything(Model):
    """Images 8x8x1: convolutions plain, in groups, with stride and bias, every activation, pool and joint."""

    def __init__(self) -> None:
        super().__init__("everything", (8, 8, 1), 10)
        self.conv1, self.bn1, self.silu = kinds.Conv2d(1, 4, 3, padding=1), kinds.BatchNorm2d(4), kinds.SiLU()
        self.pool = kinds.MaxPool2d(3, 2, 1)
        self.conv2, self.bn2 = kinds.Conv2d(4, 4, 3, padding=1, groups=4), kinds.BatchNorm2d(4)
        self.excite, self.join = SqueezeExcitation(4, 2), Join()
        self.conv3, self.tanh = kinds.Conv2d(4, 6, 2, stride=2, bias=True), kinds.Tanh()
        self.mean, self.flatten = kinds.AdaptiveAvgPool2d((2, 1)), kinds.Flatten()
        self.fc1, self.bn3, self.relu = kinds.Linear(12, 8, bias=False), kinds.BatchNorm2d(8), kinds.ReLU()
        self.dropout, self.fc2 = kinds.Dropout(0.25), kinds.Linear(8, 10)
        self.finish()

    def forward(self, x: Tensor, method: Method) -> Tensor:
        for layer in (self.conv1, self.bn1, self.silu, self.pool):
            x = layer(x, method)
        y = self.excite(self.bn2(self.conv2(x, method), method), method)
        x = self.join(y, method, x)
        inner: tuple[Any, ...] = (self.conv3, self.tanh, self.mean, self.flatten, self.fc1, self.bn3)
        for layer in (*inner, self.relu, self.dropout, self.fc2):
            x = layer(x, method)
        return x
