"""A run that benchmarks train, on random images; unless told, ResNet-20 at 28x28x1, batch 128."""

from collections.abc import Callable
from typing import Any

import numpy as np

from intnet import datasets, methods, models
from intnet.methods.method import Method
from intnet.training.train import Run

BATCH = 128
STEPS = 16  # an epoch: what a method does at its end is no part of a step


def run(
    method: Method,
    model: str = "resnet20",
    image: tuple[int, int, int] = (28, 28, 1),
    batch: int = BATCH,
    steps: int = 1,
) -> Run:
    """A run of so many steps an epoch; model and data are built here."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (batch * steps, *image)).astype(np.uint8)
    labels = rng.integers(0, 10, batch * steps)
    data = datasets.from_arrays(images, labels, images[:16], labels[:16], 10)
    return Run(models.make(model, data.image_shape, 10), method, data, batch)


def step(method: str) -> Callable[[], Any]:
    """A call that trains one step: forward, loss, backward and update.

    A first epoch is behind it, so that a method that chooses its widths at an epoch's end has chosen.
    """
    made = run(methods.make(method), steps=STEPS)
    made.train(STEPS)
    return made.train_step
