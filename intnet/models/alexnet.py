"""alexnet: the variant for images of CIFAR's size: five 3x3 convolutions, three linear layers.

After Krizhevsky et al. (2012), its kernels and strides made smaller as is usual for 32x32 images; no batch
norm. Dropout of 1/2 stands before the two wide linear layers, as in the original.
"""

from intnet.autograd import Tensor
from intnet.errors import ShapeError
from intnet.layers import Conv2d, Dropout, Flatten, Linear, MaxPool2d, ReLU, Sequential
from intnet.methods.method import Method
from intnet.models.model import Model

LEAST = 16  # pixels a side, of which the four halvings leave one


class AlexNet(Model):
    """64, 192, 384, 256, 256 channels, then 4096, 4096 and the classes."""

    def __init__(self, image_shape: tuple[int, int, int], classes: int) -> None:
        super().__init__("alexnet", image_shape, classes)
        height, width, channels = image_shape
        if min(height, width) < LEAST:
            raise ShapeError(f"alexnet needs images of at least {LEAST}x{LEAST}, not {height}x{width}")
        self.features = Sequential(
            Conv2d(channels, 64, 3, stride=2, padding=1, bias=True), ReLU(), MaxPool2d(2),
            Conv2d(64, 192, 3, padding=1, bias=True), ReLU(), MaxPool2d(2),
            Conv2d(192, 384, 3, padding=1, bias=True), ReLU(),
            Conv2d(384, 256, 3, padding=1, bias=True), ReLU(),
            Conv2d(256, 256, 3, padding=1, bias=True), ReLU(), MaxPool2d(2),
        )  # fmt: skip
        self.flatten = Flatten()
        left = [-(-side // 2) // 8 for side in (height, width)]  # stride 2 rounds up, a pool down
        self.classifier = Sequential(
            Dropout(0.5), Linear(256 * left[0] * left[1], 4096), ReLU(),
            Dropout(0.5), Linear(4096, 4096), ReLU(),
            Linear(4096, classes),
        )  # fmt: skip
        self.finish()

    def forward(self, x: Tensor, method: Method) -> Tensor:
        """Logits (N, classes)."""
        return self.classifier(self.flatten(self.features(x, method), method), method)
