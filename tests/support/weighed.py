"""A small model with squeeze and excitation, a join, and adaptive means, registered as `weighed`."""

from intnet import models
from intnet.autograd import Tensor
from intnet.layers import AdaptiveAvgPool2d, BatchNorm2d, Conv2d, Flatten, Linear, SiLU
from intnet.layers.joints import Join, SqueezeExcitation
from intnet.methods.method import Method

NAME = "weighed"


@models.register(NAME)
class Weighed(models.Model):
    """conv-bn-silu; conv-bn-silu, excitation, join; adaptive means of windows that overlap; linear."""

    def __init__(self, image_shape: tuple[int, int, int], classes: int) -> None:
        super().__init__(NAME, image_shape, classes)
        self.conv1, self.bn1, self.silu1 = Conv2d(image_shape[2], 4, 3, 2, 1), BatchNorm2d(4), SiLU()
        self.conv2, self.bn2, self.silu2 = Conv2d(4, 4, 3, padding=1), BatchNorm2d(4), SiLU()
        self.excite, self.join = SqueezeExcitation(4, 2), Join()
        self.avgpool, self.flatten = AdaptiveAvgPool2d(3), Flatten()
        self.fc = Linear(36, classes)
        self.finish()

    def forward(self, x: Tensor, method: Method) -> Tensor:
        """Logits (N, classes)."""
        x = self.silu1(self.bn1(self.conv1(x, method), method), method)
        y = self.silu2(self.bn2(self.conv2(x, method), method), method)
        x = self.join(self.excite(y, method), method, x)
        return self.fc(self.flatten(self.avgpool(x, method), method), method)
