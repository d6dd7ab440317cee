"""Models: structure only, one family a file. Every model is listed here, once; `register` adds one's own."""

from collections.abc import Callable
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


def make(name: str, image_shape: tuple[int, int, int], classes: int) -> Model:
    """A model by name for images (H, W, C) and a number of classes; 'resnet50-cifar' names the stem too."""
    base, stem = parted(name)
    if stem is not None and base in STEMMED:
        return MODELS[base](image_shape, classes, stem=stem)
    model = MODELS.find(name)(image_shape, classes)
    if name in MODELS.origins and model.kind != name:
        raise ConfigError(f"model {name!r} calls itself {model.kind!r}: give Model's __init__ its own name")
    return model
