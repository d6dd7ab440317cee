"""efficientnetv2: Fused-MBConv and MBConv blocks (Tan and Le, 2021) for images of CIFAR's size.

The configuration is that of a thesis on quantized saved activations (J. Li, Heidelberg, 2025): its table 4.1
counts the outputs of a batch of 128 images of 32x32. *Given* by it are the channels and strides of all
rows (`STAGES`, 24 channels after the stem, 1280 at the head), and, by figure 4.4, 15 blocks in all; its text
says "EfficientNetV2-M", whose stages MB5 and MB6 are others. *Chosen* here, for it does not say:

    repeats     1, 2, 2, 3, 3, 4: 15 in all, growing as in the paper's baseline
    operators   Fused-MBConv up to MB3; MBConv with squeeze and excitation, 1/4 of the block's input
                channels, from MB4 on; expansions 1, 4, 4, 4, 6, 6: the paper's table 4
    left out    stochastic depth and dropout: the thesis regularizes by weight decay

    block       [expand 1x1 or 3x3, bn, silu] -> [depthwise 3x3, bn, silu -> excitation] -> project 1x1, bn
                -> join with the block's input, where the shapes agree

Layers have torchvision's names (features.0 is the stem, features.1 .. 6 are MB1 .. MB6, features.7 the head),
by which pattern options and published code find them; `classifier` is one linear layer. Batch norm is this
library's. Any image from 8x8 on.
"""

from intnet.autograd import Tensor
from intnet.errors import ShapeError
from intnet.layers import BatchNorm2d, Conv2d, GlobalAvgPool, Layer, Linear, Sequential, SiLU
from intnet.layers.joints import Join, SqueezeExcitation
from intnet.methods.method import Method
from intnet.models.model import Model

LEAST = 8  # pixels a side, of which the three halvings leave one
STEM, HEAD = 24, 1280  # channels

# (fused, expansion, channels, repeats, stride of the first block) of MB1 .. MB6
STAGES = (
    (True, 1, 24, 1, 1),
    (True, 4, 48, 2, 2),
    (True, 4, 80, 2, 2),
    (False, 4, 160, 3, 2),
    (False, 6, 272, 3, 1),
    (False, 6, 384, 4, 1),
)


def convolution(
    in_channels: int, out_channels: int, kernel: int, stride: int = 1, groups: int = 1, linear: bool = False
) -> Sequential:
    """Convolution that keeps the size but for its stride, batch norm, and SiLU unless it is linear."""
    made = Conv2d(in_channels, out_channels, kernel, stride, padding=kernel // 2, groups=groups)
    norm = BatchNorm2d(out_channels)
    return Sequential(made, norm) if linear else Sequential(made, norm, SiLU())


class Block(Layer):
    """Fused-MBConv, where the expansion is the 3x3 convolution, or MBConv: see the module."""

    def __init__(self, fused: bool, expansion: int, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        wide = in_channels * expansion
        parts: list[Layer] = []
        if fused and expansion == 1:
            parts = [convolution(in_channels, out_channels, 3, stride)]
        elif fused:
            parts = [
                convolution(in_channels, wide, 3, stride),
                convolution(wide, out_channels, 1, linear=True),
            ]
        else:
            parts = [
                convolution(in_channels, wide, 1),
                convolution(wide, wide, 3, stride, groups=wide),
                SqueezeExcitation(wide, in_channels // 4),
                convolution(wide, out_channels, 1, linear=True),
            ]
        self.block = Sequential(*parts)
        self.join = Join()
        self.residual = stride == 1 and in_channels == out_channels

    def forward(self, x: Tensor, method: Method) -> Tensor:
        """The block's output, joined with x where the shapes agree."""
        y = self.block(x, method)
        return self.join(y, method, x) if self.residual else self.join(y, method)


class EfficientNetV2(Model):
    """24 channels, MB1 .. MB6, 1280 channels, global average pooling, one linear layer."""

    def __init__(self, image_shape: tuple[int, int, int], classes: int) -> None:
        super().__init__("efficientnetv2", image_shape, classes)
        height, width, channels = image_shape
        if min(height, width) < LEAST:
            raise ShapeError(f"efficientnetv2 needs images of at least {LEAST}x{LEAST}, not {height}x{width}")
        parts: list[Layer] = [convolution(channels, STEM, 3)]
        before = STEM
        for fused, expansion, after, repeats, stride in STAGES:
            first = Block(fused, expansion, before, after, stride)
            parts.append(
                Sequential(first, *(Block(fused, expansion, after, after, 1) for _ in range(repeats - 1)))
            )
            before = after
        self.features = Sequential(*parts, convolution(before, HEAD, 1))
        self.avgpool = GlobalAvgPool()
        self.classifier = Linear(HEAD, classes)
        rows = ["Stem", *(f"MB{k + 1}" for k in range(len(STAGES))), "Head"]
        self.blocks = {row: f"features.{k}" for k, row in enumerate(rows)} | {"Classifier": "avgpool"}
        self.finish()

    def forward(self, x: Tensor, method: Method) -> Tensor:
        """Logits (N, classes)."""
        return self.classifier(self.avgpool(self.features(x, method), method), method)
