"""Ordinary stacks of layers run under every method, and what cannot run says so by name."""

from collections.abc import Callable

import numpy as np
import pytest

from intnet import datasets, methods
from intnet.autograd import Tensor
from intnet.errors import ConfigError, ContainerError, IntnetError, ShapeError
from intnet.layers import (
    AvgPool2d,
    BatchNorm2d,
    Conv2d,
    Dropout,
    Flatten,
    GlobalAvgPool,
    Layer,
    Linear,
    MaxPool2d,
    ReLU,
    Sequential,
    Tanh,
)
from intnet.methods import Method
from intnet.models import make
from intnet.models.model import Model
from intnet.numbers.qtensor import QTensor
from intnet.training.train import Run

DATA = datasets.load("digits").first(32)


class Stack(Model):
    """Layers one after another."""

    def __init__(self, *layers: Layer) -> None:
        super().__init__("stack", (8, 8, 1), 10)
        self.body = Sequential(*layers)
        self.finish()

    def forward(self, x: Tensor, method: Method) -> Tensor:
        return self.body(x, method)


def block(i: int, o: int, **how: int) -> list[Layer]:
    return [Conv2d(i, o, 3, padding=1, **how), BatchNorm2d(o), ReLU()]


STACKS: dict[str, Callable[[], list[Layer]]] = {
    "bias first": lambda: [Conv2d(1, 2, 3, bias=True), BatchNorm2d(2), ReLU(), Flatten(), Linear(72, 10)],
    "bias inside": lambda: [*block(1, 2), Conv2d(2, 2, 3, bias=True), ReLU(), Flatten(), Linear(72, 10)],
    "dropout behind flatten": lambda: [*block(1, 2), Flatten(), Dropout(0.3), Linear(128, 10)],
    "dropout behind max pool": lambda: [*block(1, 2), MaxPool2d(2), Dropout(0.3), Flatten(), Linear(32, 10)],
    "average behind max pool": lambda: [*block(1, 2), MaxPool2d(2), AvgPool2d(2), Flatten(), Linear(8, 10)],
    "dropout behind global": lambda: [*block(1, 4), GlobalAvgPool(), Dropout(0.3), Linear(4, 10)],
    "flatten behind global": lambda: [*block(1, 4), GlobalAvgPool(), Flatten(), Linear(4, 10)],
    "hidden linear behind global": lambda: [
        *block(1, 4),
        *(GlobalAvgPool(), Linear(4, 6), BatchNorm2d(6), ReLU(), Linear(6, 10)),
    ],
    "average pools in a row": lambda: [*block(1, 2), AvgPool2d(2), GlobalAvgPool(), Linear(2, 10)],
    "batch norm first": lambda: [BatchNorm2d(1), Flatten(), Linear(64, 10)],
    "batch norm last": lambda: [Flatten(), Linear(64, 10), BatchNorm2d(10)],
    "tanh": lambda: [Conv2d(1, 2, 3), BatchNorm2d(2), Tanh(), Flatten(), Linear(72, 10)],
    "one layer": lambda: [Flatten(), Linear(64, 10)],
}

METHODS: dict[str, Callable[[], Method]] = {
    **methods.METHODS,
    "fixed16": lambda: methods.Wageubn(edges="fixed16"),
}


@pytest.mark.slow
@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("method", METHODS)
def test_every_stack_trains_and_evaluates(stack: str, method: str) -> None:
    run = Run(Stack(*STACKS[stack]()), METHODS[method](), DATA, batch_size=16)
    before = run.digest()
    run.train(2)
    assert run.digest() != before
    assert 0 <= run.evaluate().accuracy <= 1


class Twice(Stack):
    def forward(self, x: Tensor, method: Method) -> Tensor:
        flatten, first, second = self.body.layers
        x = first(flatten(x, method), method)
        return second(second(x, method), method)


def test_a_layer_used_twice_is_refused_by_name() -> None:
    run = Run(Twice(Flatten(), Linear(64, 10), Linear(10, 10)), methods.Float32(), DATA, 16)
    with pytest.raises(ShapeError, match=r"body.2 ran 2 times in one pass"):
        run.train(1)


def test_a_layer_never_used_is_refused_by_name() -> None:
    class Unused(Stack):
        def forward(self, x: Tensor, method: Method) -> Tensor:
            flatten, first, _ = self.body.layers
            return first(flatten(x, method), method)

    run = Run(Unused(Flatten(), Linear(64, 10), Linear(10, 10)), methods.Float32(), DATA, 16)
    with pytest.raises(ShapeError, match=r"body.2 ran 0 times"):
        run.train(1)


@pytest.mark.parametrize(
    "bad",
    [
        lambda: Conv2d(1, 2, 3, stride=0),
        lambda: Conv2d(1, 2, 0),
        lambda: Conv2d(1, 2, 3, padding=-1),
        lambda: Conv2d(1, 2, 3.0),
        lambda: MaxPool2d(0),
        lambda: MaxPool2d(2, stride=0),
        lambda: Conv2d(3, 4, 3, groups=2),
        lambda: Dropout(1.0),
    ],
)
def test_impossible_sizes_are_refused_at_once(bad: Callable[[], Layer]) -> None:
    with pytest.raises(IntnetError):
        bad()


def test_a_parameter_of_two_layers_is_refused_by_both_names() -> None:
    tied = Stack(Flatten(), Linear(64, 64), Linear(64, 64), Linear(64, 10))
    first, second = tied.body.layers[1:3]
    second.weight = first.weight
    second.parameters[0] = first.weight
    with pytest.raises(ConfigError, match=r"body\.1\.weight and body\.2\.weight are one parameter"):
        Run(tied, methods.Float32(), DATA, 16)


def test_what_an_operation_refuses_names_its_layer() -> None:
    """Once, and the layer itself, not the stack that it stands in."""
    deep = [Conv2d(1, 2, 3), MaxPool2d(2), MaxPool2d(5), Flatten(), Linear(2, 10)]
    with pytest.raises(ShapeError, match=r"^body\.2: max_pool2d: the window \(5, 5\) does not fit"):
        Run(Stack(*deep), methods.Float32(), DATA, 16).train(1)
    wrong = [Conv2d(1, 2, 3), Conv2d(3, 2, 3), Flatten(), Linear(32, 10)]
    with pytest.raises(ShapeError, match=r"^body\.1: the input has 2 channels"):
        Run(Stack(*wrong), methods.Float32(), DATA, 16).train(1)


def test_a_variance_too_wide_for_its_memory_is_an_error() -> None:
    norm = BatchNorm2d(1)
    norm.name = "bn1"
    wide = QTensor(np.array([1 << 33], np.int64), -15)
    with pytest.raises(ContainerError, match=r"bn1/running_var"):
        norm._follow(QTensor(np.array([0], np.int64), -15), wide)


@pytest.mark.slow
def test_training_goes_on_when_errors_vanish_and_branches_drift_apart() -> None:
    """A batch learned by heart: errors shrink without end, all-zero branches meet tiny ones."""
    images = np.zeros((32, 4, 4, 1), np.uint8)
    labels = np.arange(32) % 2
    images[labels == 1, :2], images[labels == 0, 2:] = 255, 255
    data = datasets.from_arrays(images, labels, images[:4], labels[:4], classes=2)
    run = Run(make("resnet8", data.image_shape, 2), methods.Wageubn(), data, 32)
    losses: list[float] = []
    run.train(60, lambda report: losses.append(report.loss))
    assert losses[-1] < 1e-5
