"""How long does one training step of ResNet-20 take, batch 128, 28x28 images, under each method?"""

from typing import Any

import numpy as np

from bench.timing import median_seconds
from intnet import datasets, methods, models
from intnet.train import Run

QUESTION = "training step of resnet20, batch 128, 28x28x1"
BATCH = 128


def rows() -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (BATCH, 28, 28, 1)).astype(np.uint8)
    labels = rng.integers(0, 10, BATCH)
    data = datasets.from_arrays(images, labels, images[:16], labels[:16], 10)
    out = []
    for name in methods.METHODS:
        run = Run(models.make("resnet20", data.image_shape, 10), methods.make(name), data, BATCH)
        seconds = median_seconds(run.train_step)
        out.append({"method": name, "seconds": seconds, "images/s": BATCH / seconds})
    return out
