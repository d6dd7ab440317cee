"""Stems: which variant of a network made for ImageNet stands in front of small images.

    cifar      keeps the size of the image, or nearly so: for images of 32x32
    imagenet   the one of the paper, and torchvision's: a large kernel with a stride, and pooling

`resnet50` takes `imagenet` from 64x64 pixels on and `cifar` below; `resnet50-cifar` and `resnet50-imagenet`
ask for one. A model's `kind` is the name that was asked for, so a run on disk is made again from it.
"""

from intnet.errors import ConfigError

CIFAR, IMAGENET = STEMS = ("cifar", "imagenet")
LARGE = 64  # pixels of the shorter side, from which on the stem is ImageNet's where nobody says


def stem_for(image_shape: tuple[int, int, int], stem: str | None = None) -> str:
    """`stem`, or by the size of images (H, W, C); ConfigError for a name that there is not."""
    if stem is None:
        return IMAGENET if min(image_shape[:2]) >= LARGE else CIFAR
    if stem not in STEMS:
        raise ConfigError(
            f"stem {stem!r}: use one of {', '.join(STEMS)}, or none to choose by the image size"
        )
    return stem


def kind_of(name: str, stem: str | None) -> str:
    """'resnet50', or with a stem that was asked for 'resnet50-cifar'."""
    return name if stem is None else f"{name}-{stem}"


def parted(kind: str) -> tuple[str, str | None]:
    """(name, stem) of a kind; the stem is None where it names none."""
    name, _, stem = kind.rpartition("-")
    return (name, stem) if stem in STEMS else (kind, None)
