"""Inference by the definition: the logits and classes of the fast code, every method and kind of layer."""

from __future__ import annotations

from typing import Any

import pytest

from intnet import datasets, methods, models
from intnet.spec import data, inference
from intnet.spec import models as spec_models
from intnet.spec.methods import METHODS
from intnet.spec.methods.step import Now
from intnet.training.inference import EVALUATION_BATCH, evaluation_batch
from intnet.training.reestimate import reestimated
from intnet.training.train import Run
from tests.support.inferring import agree
from tests.support.states import state_differences, state_of
from tests.support.two_worlds import random_images
from tests.support.zoo import KINDS

OPTIONS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in METHODS),
    ("wageubn", {"statistics": "batch"}),
    ("float32", {"statistics": "batch"}),
    ("adapt", {"statistics": "batch"}),
    ("wageubn", {"edges": "fixed16"}),
    ("wageubn", {"first": "block"}),
    ("wageubn", {"first": "block", "statistics": "batch"}),
    ("dynasty", {"forward_dynamic": "weight"}),
    ("saved", {"bits": 2}),
    ("mx", {"format": "MXFP4/ceil/stochastic"}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "options"), OPTIONS, ids=str)
def test_the_mlp(method: str, options: dict[str, Any]) -> None:
    found = datasets.load("digits").first(24)
    run = Run(models.MLP((8, 8, 1), 10, hidden=12), methods.make(method, **options), found, 12, 5)
    run.train(3)
    agree(run, spec_models.mlp((8, 8, 1), 10, hidden=12), found.test_images[:30])


@pytest.mark.slow
@pytest.mark.parametrize("batches", [1, 3])
@pytest.mark.parametrize(
    ("method", "options"),
    [*OPTIONS[: len(METHODS)], ("wageubn", {"edges": "fixed16"}), ("wageubn", {"first": "block"})],
    ids=str,
)
def test_statistics_estimated_anew(method: str, options: dict[str, Any], batches: int) -> None:
    """Every tensor of the state, and the logits by it; the last of three batches begins a new epoch."""
    found = datasets.load("digits").first(20)
    net, plain = spec_models.mlp((8, 8, 1), 10, hidden=12), data.digits().first(20)
    run = Run(models.MLP((8, 8, 1), 10, hidden=12), methods.make(method, **options), found, 8, 5)
    run.train(4)
    module, now = METHODS[method], Now(run.seed, run.step, run.steps_per_epoch)
    settings, before = module.Settings.from_options(run.method.settings()), state_of(run)
    steps = range(run.step, run.step + batches)
    given = [data.batch(plain, run.seed, step, 8)[0] for step in steps]
    want = inference.reestimated(net, module, settings, before, given, now)
    with reestimated(run.model, run.method, [run.batch(step)[0] for step in steps]):
        assert not state_differences(state_of(run), want)
        agree(run, net, found.test_images[:20])
    assert not state_differences(state_of(run), before)
    moved = [f"state {name}.running_{key}" for name in ("bn1", "bn2") for key in ("mean", "var")]
    assert state_differences(want, before) == moved


@pytest.mark.slow
@pytest.mark.parametrize("net", ["zoo", "excited"])
@pytest.mark.parametrize("method", METHODS)
def test_every_kind_of_layer(method: str, net: str) -> None:
    """More images than a step had: maps begin again."""
    layers, make = KINDS["apart" if (method, net) == ("adapt", "zoo") else net]
    model = make()
    run = Run(model, methods.make(method), random_images(model, 6)[0], 4, 2)
    run.train(2)
    agree(run, layers, run.data.test_images)


def test_batches_are_the_fast_code_s() -> None:
    assert inference.BATCH == EVALUATION_BATCH
    found, fast = data.digits(), datasets.load("digits")
    images, labels = inference.batch(found, 1)
    assert images.codes == fast.test_images[256:].reshape(-1).tolist()
    assert labels == fast.test_labels[256:].tolist()
    for size in (16, 200):  # of 359
        images, labels = inference.batch(found, 1, size)
        theirs, own = evaluation_batch(fast, 1, size)
        assert (images.codes, labels) == (theirs.reshape(-1).tolist(), own.tolist())


def test_no_statistics_no_inference() -> None:
    net, found = spec_models.mlp((8, 8, 1), 10, hidden=4), data.digits()
    module = METHODS["wageubn"]
    run = Run(models.MLP((8, 8, 1), 10, hidden=4), methods.make("wageubn"), datasets.load("digits"), 4, 1)
    images = data.Fixed((1, 8, 8, 1), list(found.test_images[0]), -4)
    with pytest.raises(ValueError, match="bn1 has no running statistics before the first step"):
        inference.logits(net, module, module.Settings(), state_of(run), images, Now(1, 0))
