"""Affine buckets of more elements than `packed.WHOLE` are followed by drawn ones: what that sees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from intnet import methods, models
from intnet.datasets import Dataset, load
from intnet.training.train import Run
from intnet.verify import packed, taken
from intnet.verify.row import DIFFERS, Options
from intnet.verify.tasks import Step
from intnet.verify.values import forget

PATH = "fc1/x1"  # 300 images of 64 numbers
pytestmark = pytest.mark.slow


def run_of(method: str, **options: Any) -> Run:
    data: Dataset = load("digits").first(300)
    return Run(models.MLP(data.image_shape, data.classes), methods.make(method, **options), data, 300, 3)


def wrong(found: taken.Taken, elements: int | None = 40) -> set[str]:
    """'layer/path' of what differs."""
    forget()
    made = Step(found, Options(elements))
    rows = [row for layer in made.layers() for row in made.rows(layer)]
    return {row.name for row in rows if row.state == DIFFERS}


def codes(result: Any) -> None:
    result.words.view(np.uint8)[: result.elements] ^= 1


def scale(result: Any) -> None:
    result.scales[0] = np.nextafter(result.scales[0], np.float32(1))


def zero_point(result: Any) -> None:
    result.zeros[0] += 1


@pytest.mark.parametrize("fault", [codes, scale, zero_point])
def test_what_is_wrong_is_seen(fault: Callable[[Any], None]) -> None:
    found = taken.take(run_of("banner"), 1, lambda run, steps: run.train(steps))
    event = next(e for e in found.record.events if e.name == PATH)
    assert event.result.elements > packed.WHOLE and wrong(found) == set()
    fault(event.result)
    assert PATH in wrong(found)


@pytest.mark.parametrize("kind", ["affine", "affine-stochastic"])
def test_drawn_elements_and_all_agree(kind: str) -> None:
    """Of 7 bits, whose codes lie across words."""
    run = run_of("saved", bits=7, bucket="tensor", codec=kind)
    found = taken.take(run, 1, lambda run, steps: run.train(steps))
    assert wrong(found) == set()
