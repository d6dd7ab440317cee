"""Models: structure only, one family a file. Every model is listed here, once; `register` adds one's own."""

from collections.abc import Callable, Sequence
from typing import Any

from intnet.errors import ConfigError
from intnet.models.alexnet import AlexNet
from intnet.models.efficientnetv2 import EfficientNetV2
from intnet.models.lenet import LeNet5, LeNet5Tanh
from intnet.models.mlp import MLP
from intnet.models.model import Model
from intnet.models.resnet import resnet8, resnet18, resnet20, resnet34, resnet50
from intnet.models.stems import parted
from intnet.plugins import Registry


def _check(name: str, make: Any) -> None:
    """ConfigError for a name that says a stem."""
    if parted(name)[1] is not None:
        raise ConfigError(f"model {name!r}: what follows the last '-' names a stem: give it another name")


_KNOWN: dict[str, Callable[..., Model]] = {  # takes (image_shape, classes)
    "mlp": MLP,
    "lenet5": LeNet5,
    "lenet5-tanh": LeNet5Tanh,
    "alexnet": AlexNet,
    "resnet8": resnet8,
    "resnet20": resnet20,
    "resnet18": resnet18,
    "resnet34": resnet34,
    "resnet50": resnet50,
    "efficientnetv2": EfficientNetV2,
}
MODELS = Registry("model", _KNOWN, _check)
register = MODELS.register
mlp, lenet5, alexnet, efficientnetv2 = MLP, LeNet5, AlexNet, EfficientNetV2  # by their names, as resnet8 is
STEMMED = ("alexnet", "resnet18", "resnet34", "resnet50")  # and a stem: names go on with one of `stems.py`

__all__ = [
    "MLP",
    "MODELS",
    "STEMMED",
    "AlexNet",
    "EfficientNetV2",
    "LeNet5",
    "LeNet5Tanh",
    "Model",
    "make",
    "register",
    "resnet8",
    "resnet18",
    "resnet20",
    "resnet34",
    "resnet50",
]


def make(name: str, image_shape: Sequence[int], classes: int) -> Model:
    """A model by name for images (H, W, C) and a number of classes; 'resnet50-cifar' names the stem too.

    image_shape: (H, W) is of one channel, (F,) of a table of F columns: (1, 1, F)
    """
    image_shape = image_shape_of(image_shape)
    base, stem = parted(name)
    if stem is not None and base in STEMMED:
        return MODELS[base](image_shape, classes, stem=stem)
    model = MODELS.find(name)(image_shape, classes)
    if name in MODELS.origins and model.kind != name:
        raise ConfigError(f"model {name!r} calls itself {model.kind!r}: give Model's __init__ its own name")
    return model


def image_shape_of(shape: Sequence[int]) -> tuple[int, int, int]:
    """(H, W, C) of (H, W, C), (H, W) or (F,), as `datasets.from_arrays` takes arrays."""
    if len(shape) == 1:
        return (1, 1, shape[0])
    if len(shape) not in (2, 3):
        raise ConfigError(f"image shape {tuple(shape)}: give (H, W, C), (H, W), or (F,) of a table")
    h, w, c = *shape, *(1,) * (3 - len(shape))
    return h, w, c
