"""A training step of small models of every family under every method: one digest for one thread and for two.

`python -m bench models` does the same with every model as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from intnet import datasets, methods, models
from intnet.layers import Linear
from intnet.models.model import Model
from intnet.models.resnet import BasicBlock, Bottleneck, ResNet
from intnet.training.train import Run
from tests.support.opcheck import threads

Shape = tuple[int, int, int]
CLASSES = 4


def residual(block: Any, stem: str) -> Callable[[Shape], Model]:
    return lambda shape: ResNet("narrow", block, (8, 16), (1, 1), stem, shape, CLASSES)


MODELS: dict[str, tuple[int, Callable[[Shape], Model]]] = {
    "mlp": (8, lambda shape: models.make("mlp", shape, CLASSES)),
    "lenet5": (9, lambda shape: models.make("lenet5", shape, CLASSES)),
    "lenet5-tanh": (13, lambda shape: models.make("lenet5-tanh", shape, CLASSES)),
    "basic blocks, imagenet": (19, residual(BasicBlock, "imagenet")),
    "bottlenecks, cifar": (9, residual(Bottleneck, "cifar")),
    "bottlenecks, imagenet": (18, residual(Bottleneck, "imagenet")),
    "alexnet-imagenet": (71, lambda shape: models.make("alexnet-imagenet", shape, CLASSES)),
}


@pytest.mark.slow
@pytest.mark.parametrize("method", methods.METHODS)
@pytest.mark.parametrize("model", MODELS)
def test_a_step(model: str, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    side, make = MODELS[model]
    monkeypatch.setattr(
        sys.modules["intnet.models.alexnet"],
        "Linear",
        lambda *sizes: Linear(*(40 if n == 4096 else n for n in sizes)),
    )
    draw = np.random.default_rng(side)
    pixels, labels = draw.integers(0, 256, (4, side, side, 3)).astype(np.uint8), np.array([0, 1, 2, 3])
    data = datasets.from_arrays(pixels, labels, pixels, labels, CLASSES)
    found = []
    for n in (1, 2):
        with threads(n):
            run = Run(make(data.image_shape), methods.make(method), data, 4)
            start = run.digest()
            losses = [run.train_step().loss for _ in range(2)]
            found.append((losses, run.digest(), run.evaluate().accuracy))
    assert found[0] == found[1] and np.isfinite(losses).all() and found[0][1] != start
