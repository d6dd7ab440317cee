"""lenet5: two 5x5 convolutions with max pooling, three linear layers (LeCun et al., 1998).

Batch norm and ReLU follow every hidden weight layer, so that each is a whole layer of WAGEUBN; both
convolutions are padded, so that any image of at least 4x4 fits.
"""

import math

from intnet.autograd import Tensor
from intnet.errors import ShapeError
from intnet.layers import BatchNorm2d, Conv2d, Flatten, Linear, MaxPool2d, ReLU
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
        self.flattened = {"fc1": left}
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
