"""Shares of right answers: the places of labels among logits, ties and numbers that are none included."""

import numpy as np
import pytest

from intnet import datasets, methods, models
from intnet.errors import ConfigError
from intnet.training.inference import logits_of, ranks
from intnet.training.train import Run


def test_ranks_by_hand() -> None:
    """Equal logits go by number; one that is no number stands ahead of all, as for `argmax`."""
    logits = np.array([[0, 2, 2, 1], [5, 1, 0, 7], [1, np.nan, 3, 2]], np.float32)
    for labels, want in (([2, 1, 2], [1, 2, 1]), ([1, 3, 0], [0, 0, 3]), ([0, 0, 3], [3, 1, 2])):
        assert ranks(logits, np.array(labels)).tolist() == want
    first = ranks(logits[:2], logits[:2].argmax(axis=1))
    assert first.tolist() == [0, 0]


def test_shares_of_the_greatest_logits() -> None:
    """top-1 as ever, top-k by hand, top-classes all."""
    run = Run(models.make("mlp", (8, 8, 1), 10), methods.make("float32"), datasets.load("digits"), 64)
    run.train(5)
    data, found = run.data, run.evaluate()
    logits = logits_of(run.model, run.method, data.test_images, data.exponent)
    order = np.argsort(-logits, axis=1, kind="stable")
    for k in (1, 2, 5, 10):
        hits = (order[:, :k] == data.test_labels[:, None]).any(axis=1)
        assert found.top(k) == hits.mean()
    assert found.accuracy == found.top(1) and found.top5 == found.top(5) and found.top(10) == 1
    for k in (0, -1, 1.5, "a", True):
        with pytest.raises(ConfigError, match=r"top\(.*\): the number of greatest logits, a whole number"):
            found.top(k)  # type: ignore[arg-type]
