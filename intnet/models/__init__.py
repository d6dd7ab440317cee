"""Models: structure only, one family a file. Every model is listed here, once."""

from collections.abc import Callable

from intnet.methods.options import unknown
from intnet.models.alexnet import AlexNet
from intnet.models.efficientnetv2 import EfficientNetV2
from intnet.models.lenet import LeNet5
from intnet.models.mlp import MLP
from intnet.models.model import Model
from intnet.models.resnet import resnet8, resnet18, resnet20

MODELS: dict[str, Callable[[tuple[int, int, int], int], Model]] = {
    "mlp": MLP,
    "lenet5": LeNet5,
    "alexnet": AlexNet,
    "resnet8": resnet8,
    "resnet20": resnet20,
    "resnet18": resnet18,
    "efficientnetv2": EfficientNetV2,
}

__all__ = [
    "MLP",
    "MODELS",
    "AlexNet",
    "EfficientNetV2",
    "LeNet5",
    "Model",
    "make",
    "resnet8",
    "resnet18",
    "resnet20",
]


def make(name: str, image_shape: tuple[int, int, int], classes: int) -> Model:
    """A model by name for images (H, W, C) and a number of classes."""
    if name not in MODELS:
        raise unknown("model", name, list(MODELS))
    return MODELS[name](image_shape, classes)
