"""One training step of ResNet-20 under a method of intnet: batch 128, random images of 28x28x1."""

from collections.abc import Callable
from typing import Any

import numpy as np

from intnet import datasets, methods, models
from intnet.methods.method import Method
from intnet.train import Run

BATCH = 128


def run(method: Method) -> Run:
    """A run of one step an epoch; model and data are built here."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (BATCH, 28, 28, 1)).astype(np.uint8)
    labels = rng.integers(0, 10, BATCH)
    data = datasets.from_arrays(images, labels, images[:16], labels[:16], 10)
    return Run(models.make("resnet20", data.image_shape, 10), method, data, BATCH)


def step(method: str) -> Callable[[], Any]:
    """A call that trains one step: forward, loss, backward and update."""
    return run(methods.make(method)).train_step
