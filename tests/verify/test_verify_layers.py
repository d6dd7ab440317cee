"""`intnet verify` on a net that has one of every layer, under every method: no difference, all specified."""

from __future__ import annotations

import pytest

from intnet import datasets, methods
from intnet.methods import METHODS
from intnet.training.train import Run
from intnet.verify import taken
from intnet.verify.row import EQUAL, Options
from intnet.verify.tasks import Step
from tests.support.everything import Everything


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_every_layer_under_every_method_is_the_definition_s(method: str) -> None:
    data = datasets.load("digits").first(16)
    run = Run(Everything(), methods.make(method), data, 4, seed=5)
    step = Step(taken.take(run, 2, lambda run, steps: run.train(steps)), Options(25))
    rows = [row for layer in step.layers() for row in step.rows(layer)]
    wrong = [f"{row.name}: {row.why} {row.difference}" for row in rows if row.state != EQUAL]
    assert not wrong
    names = {row.layer for row in rows}
    assert names >= {layer.name for layer in run.model.all_layers()} - {"flatten", "pool"}
