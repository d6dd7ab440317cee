"""lenet5: two 5x5 convolutions with pooling, three linear layers (LeCun et al., 1998).

lenet5        batch norm and ReLU follow every hidden weight layer, so that each is a whole layer of WAGEUBN;
              max pooling; both convolutions are padded, so that any image of at least 4x4 fits
lenet5-tanh   as LeCun's, and as AdaPT's authors train it: tanh, average pooling, biases, no batch norm; the
              second convolution is not padded: images of at least 12x12
"""

import math

from intnet.autograd import Tensor
from intnet.errors import ShapeError
from intnet.layers import AvgPool2d, BatchNorm2d, Conv2d, Flatten, Linear, MaxPool2d, ReLU, Tanh
from intnet.methods.method import Method
from intnet.models.model import Model


class LeNet5(Model):
    """6 and 16 channels, then 120, 84 and the classes."""

    def __init__(self, image_shape: tuple[int, int, int], classes: int) -> None:
        super().__init__("lenet5", image_shape, classes)
        height, width, channels = image_shape
        if min(height, width) < 4:
            raise ShapeError(f"lenet5 needs images of at least 4x4, not {height}x{width}")
        self.conv1, self.bn1, self.relu1 = Conv2d(channels, 6, 5, padding=2), BatchNorm2d(6), ReLU()
        self.pool1 = MaxPool2d(2)
        self.conv2, self.bn2, self.relu2 = Conv2d(6, 16, 5, padding=2), BatchNorm2d(16), ReLU()
        self.pool2 = MaxPool2d(2)
        self.flatten = Flatten()
        left = (height // 4, width // 4, 16)
        self.fc1, self.bn3, self.relu3 = Linear(math.prod(left), 120, bias=False), BatchNorm2d(120), ReLU()
        self.fc2, self.bn4, self.relu4 = Linear(120, 84, bias=False), BatchNorm2d(84), ReLU()
        self.fc3 = Linear(84, classes)
        self.finish()

    def forward(self, x: Tensor, method: Method) -> Tensor:
        """Logits (N, classes)."""
        x = self.pool1(self.relu1(self.bn1(self.conv1(x, method), method), method), method)
        x = self.pool2(self.relu2(self.bn2(self.conv2(x, method), method), method), method)
        x = self.flatten(x, method)
        x = self.relu3(self.bn3(self.fc1(x, method), method), method)
        x = self.relu4(self.bn4(self.fc2(x, method), method), method)
        return self.fc3(x, method)


class LeNet5Tanh(Model):
    """6 and 16 channels, then 120, 84 and the classes; tanh after each but the last."""

    def __init__(self, image_shape: tuple[int, int, int], classes: int) -> None:
        super().__init__("lenet5-tanh", image_shape, classes)
        height, width, channels = image_shape
        if min(height, width) < 12:
            raise ShapeError(f"lenet5-tanh needs images of at least 12x12, not {height}x{width}")
        self.conv1, self.tanh1, self.pool1 = (
            Conv2d(channels, 6, 5, padding=2, bias=True),
            Tanh(),
            AvgPool2d(2),
        )
        self.conv2, self.tanh2, self.pool2 = Conv2d(6, 16, 5, bias=True), Tanh(), AvgPool2d(2)
        self.flatten = Flatten()
        left = ((height // 2 - 4) // 2, (width // 2 - 4) // 2, 16)
        self.fc1, self.tanh3 = Linear(math.prod(left), 120), Tanh()
        self.fc2, self.tanh4 = Linear(120, 84), Tanh()
        self.fc3 = Linear(84, classes)
        self.finish()

    def forward(self, x: Tensor, method: Method) -> Tensor:
        """Logits (N, classes)."""
        x = self.pool1(self.tanh1(self.conv1(x, method), method), method)
        x = self.pool2(self.tanh2(self.conv2(x, method), method), method)
        x = self.tanh3(self.fc1(self.flatten(x, method), method), method)
        return self.fc3(self.tanh4(self.fc2(x, method), method), method)
