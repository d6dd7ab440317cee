"""What DYNASTY remembers: nothing of another run of the same model, the map where no batch is a full one."""

from __future__ import annotations

import numpy as np

from intnet import models
from intnet.datasets import Dataset
from intnet.methods import make
from intnet.training.train import Run

STATE = ("b", "b_new", "S")


def data(images: int) -> Dataset:
    """Noise."""
    rng = np.random.default_rng(4)
    train, test = (rng.integers(0, 256, (n, 4, 4, 1)).astype(np.uint8) for n in (images, 4))
    labels = (np.arange(n) % 3 for n in (images, 4))
    return Dataset("noise", train, next(labels), test, next(labels), -8, 3)


def test_an_epoch_without_a_full_batch_keeps_the_map() -> None:
    """A state of batches of 4 goes on in batches of 3."""
    before = Run(models.make("mlp", (4, 4, 1), 3), make("dynasty"), data(12), batch_size=4)
    before.train(3)
    after = Run(models.make("mlp", (4, 4, 1), 3), make("dynasty"), data(12), batch_size=3)
    after.restore(before.state(), 4)
    reports = []
    after.train(8, reports.append)
    assert [bool(report.map) for report in reports] == [False] * 4
    kept = {name: value for name, value in before.state().items() if name.rpartition(".")[2] in STATE}
    assert len(kept) == 3 * 3 + 2 * 3
    assert all(np.array_equal(after.state()[name], value) for name, value in kept.items())
