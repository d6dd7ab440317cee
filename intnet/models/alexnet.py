"""alexnet: five convolutions and three linear layers (Krizhevsky et al., 2012), with torchvision's names.

    imagenet   torchvision's: kernels of 11x11 with stride 4, 5x5 and 3x3, pools of 3x3, means of 6x6 windows
    cifar      for images of 32x32, as is usual: kernels of 3x3, the first with stride 2, and pools of 2x2

Which of them: `stems.py`. No batch norm; dropout of 1/2 stands before the two wide linear layers.
"""

from intnet.autograd import Tensor
from intnet.errors import ShapeError
from intnet.layers import AdaptiveAvgPool2d, Conv2d, Dropout, Flatten, Linear, MaxPool2d, ReLU, Sequential
from intnet.methods.method import Method
from intnet.models.model import Model
from intnet.models.stems import CIFAR, IMAGENET, kind_of, stem_for

LEAST = {CIFAR: 16, IMAGENET: 63}  # pixels a side, of which the convolutions and pools leave one
MEANS = 6  # windows a side in front of the linear layers of ImageNet's


def _features(stem: str, channels: int) -> Sequential:
    """The convolutions: 64, 192, 384, 256, 256 channels; three poolings."""
    if stem == IMAGENET:
        first = Conv2d(channels, 64, 11, stride=4, padding=2, bias=True)
        second, pool = Conv2d(64, 192, 5, padding=2, bias=True), (3, 2)
    else:
        first = Conv2d(channels, 64, 3, stride=2, padding=1, bias=True)
        second, pool = Conv2d(64, 192, 3, padding=1, bias=True), (2, 2)
    return Sequential(
        first, ReLU(), MaxPool2d(*pool),
        second, ReLU(), MaxPool2d(*pool),
        Conv2d(192, 384, 3, padding=1, bias=True), ReLU(),
        Conv2d(384, 256, 3, padding=1, bias=True), ReLU(),
        Conv2d(256, 256, 3, padding=1, bias=True), ReLU(), MaxPool2d(*pool),
    )  # fmt: skip


class AlexNet(Model):
    """From 16x16 pixels, imagenet from 63x63; -cifar, -imagenet: the variant, else by the image size."""

    def __init__(self, image_shape: tuple[int, int, int], classes: int, stem: str | None = None) -> None:
        super().__init__(kind_of("alexnet", stem), image_shape, classes)
        height, width, channels = image_shape
        stem = stem_for(image_shape, stem)
        if min(height, width) < LEAST[stem]:
            least = f"{LEAST[stem]}x{LEAST[stem]}"
            raise ShapeError(f"{self.kind} needs images of at least {least}, not {height}x{width}")
        self.features = _features(stem, channels)
        self.avgpool = AdaptiveAvgPool2d(MEANS) if stem == IMAGENET else None
        self.flatten = Flatten()
        left = (MEANS, MEANS)
        if stem == CIFAR:
            left = (-(-height // 2) // 8, -(-width // 2) // 8)  # stride 2 rounds up, a pool down
        self.classifier = Sequential(
            Dropout(0.5), Linear(256 * left[0] * left[1], 4096), ReLU(),
            Dropout(0.5), Linear(4096, 4096), ReLU(),
            Linear(4096, classes),
        )  # fmt: skip
        self.finish()

    def forward(self, x: Tensor, method: Method) -> Tensor:
        """Logits (N, classes)."""
        x = self.features(x, method)
        if self.avgpool is not None:
            x = self.avgpool(x, method)
        return self.classifier(self.flatten(x, method), method)
