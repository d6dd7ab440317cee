"""Whole DYNASTY steps of small nets, from the first epoch's map into the next ones, equal the oracle's."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from intnet import datasets, methods
from intnet.autograd import Tensor
from intnet.methods.trace import Recorder
from intnet.models import MLP
from intnet.spec.methods import dynasty, dynasty_map
from intnet.spec.methods.step import Now
from intnet.spec.models import Layer
from intnet.training.inference import as_codes
from intnet.training.train import Run
from tests.support import blocks
from tests.support.dynasty_world import Case, differences, prepared, recorded, run_case
from tests.support.opcheck import tensor, threads
from tests.support.states import state_of
from tests.support.two_worlds import Result
from tests.support.zoo import KINDS

SWAPPED = {"forward_dynamic": "weight"}

CASES = [
    Case(),
    Case(seed=2, short=3, epochs=3, options={"bits": 2.0, "weight_bits": 5.0, "gamma": 0.0}),
    Case(seed=3, full=1, epochs=4, options=SWAPPED | {"bits": 3.0, "weight_decay": 0.01, "momentum": 0.5}),
    Case(seed=4, short=1, images="black"),
    Case(seed=5, full=1, epochs=3, zero="fc2", options={"gamma": 0.0}),
    Case(seed=6, batch=1, epochs=3, options={"bits": 1.0, "gamma": 0.25, "weight_decay": 0}),
    Case(seed=7, batch=13, full=1, short=6, options={"bits": 0.0, "weight_bits": 8.0, "gamma": 0.0}),
    Case("lenet", seed=8, batch=5, full=1, short=2, options={"gamma": 0.0}),
    Case("lenet", seed=9, batch=3, full=1, options=SWAPPED | {"gamma": 0.0, "bits": 2.0}),
    Case(seed=12, full=1, short=1, options={"map": "uniform", "bits": 6.0, "weight_bits": 2.0}),
    Case("resnet", seed=10, batch=3, full=1, short=1, options={"bits": 3.0, "gamma": 0.0}),
    Case("resnet", seed=11, batch=2, full=1, options=SWAPPED),
]


@cache
def stepped(i: int) -> list[Result]:
    """The steps of a case, taken once."""
    return run_case(CASES[i])


@pytest.mark.slow
@pytest.mark.parametrize("i", range(len(CASES)), ids=map(str, CASES))
def test_every_step_equals_the_oracle(i: int) -> None:
    """Codes, exponents and widths of all blocks, float32 tensors, sensitivities, maps, optimizer words."""
    for result in stepped(i):
        assert differences(result) == []


def used(i: int, symbol: str) -> set[int]:
    """The widths that the oracle's last maps give the weights (W) or the activations (A)."""
    step = stepped(i)[-1].expected
    names = [step.kept(layer.name, symbol, "b") for layer in step.weighted]
    kept = [step.state[name].values for name in names if name in step.state]
    return {dynasty_map.in_use(Fraction(b)) for each in kept for b in each}


@pytest.mark.slow  # whose steps the slow tests take too
def test_the_cases_use_every_width() -> None:
    for symbol in ("W", "A"):
        assert set.union(*(used(i, symbol) for i in range(len(CASES)))) == {0, 2, 4, 6, 8}


@pytest.mark.slow  # whose steps the slow tests take too
def test_the_cases_have_dead_blocks_saturation_and_maps_that_change() -> None:
    steps = [result.expected for i in range(len(CASES)) for result in stepped(i)]
    assert any(0.0 in found.values() for step in steps for found in step.found.values())
    assert any(step.saturated for step in steps)
    states = [result.expected.state for result in stepped(2)]
    maps = [{name: each.values for name, each in state.items() if name.endswith(".b")} for state in states]
    assert maps[0] and all(a != b for a, b in pairwise(maps))


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2])
def test_threads_do_not_change_a_bit(n: int) -> None:
    with threads(n):
        for result in run_case(Case("lenet", seed=21, full=1, options={"gamma": 0.0})):
            assert differences(result) == []


# -- more images than a map has blocks -------------------------------------------------------------


def test_inference_begins_the_map_again_where_the_batch_is_larger() -> None:
    """A map of two blocks of images, four blocks of images."""
    case = Case(seed=31, full=1, epochs=1, options={"gamma": 0.0})
    run = prepared(case)
    run.train_step()
    state = state_of(run)
    recorder = Recorder("*")
    run.method.set(observers=[recorder], training=False)
    images = np.concatenate([run.data.train_images] * 3)[:14]
    with recorded() as made:
        run.model(Tensor(as_codes(images, run.data.exponent)), run.method)
    for name, before in (("fc2", "relu1"), ("fc3", "relu2")):
        layer: Any = next(layer for layer in run.model.all_layers() if layer.name == name)
        kept = {place: float(layer.buffers["b"][place]) for place in np.ndindex(*layer.buffers["b"].shape)}
        assert {place[0] for place in kept} == {0, 1}
        settings = dynasty.Settings.from_options(case.given())
        step = dynasty.Step(KINDS["mlp"][0], settings, state, Now(case.seed, 1))
        want = step.blocks(step.layers[name], "x0", tensor(recorder[f"{before}/x4"]))
        assert blocks.differences(made[f"{name}/x0"], want) == []
        assert len({want.bits[place] for place in want.bits}) > 1


@pytest.mark.parametrize("mean", ["blocks", "work"])
@pytest.mark.parametrize("lambdas", ["two", "one"])
def test_what_is_not_tuned_is_told_as_that(mean: str, lambdas: str) -> None:
    """Where lambda is its estimate, the map made by it is the one that is made, however it is estimated."""
    method = methods.make("dynasty", tuning="off", mean=mean, lambdas=lambdas)
    run = Run(MLP((8, 8, 1), 10), method, datasets.load("digits").first(64), 32, 1)
    run.train(4)
    told = [run.method.map[kind] for kind in ("weights", "activations")]  # type: ignore[attr-defined]
    assert all(one["untuned"] == one["exact"] and 0 < one["exact"] < 8 for one in told)
    assert (told[0]["lambda"] == told[1]["lambda"]) == (lambdas == "one")


def test_work_by_hand() -> None:
    """3x3 with stride 2 on 4x4 pixels: a corner is read once, a middle pixel up to four times."""
    weights, inputs = dynasty_map.work(Layer("conv", "c", stride=2, padding=1), (5, 4, 4, 3), (6, 3, 3, 3))
    assert (weights[0, 0, 1, 1], weights[1, 0, 1, 1]) == (4 * 3 * 5 * 4, 2 * 3 * 5 * 4)
    assert (weights[0, 0, 0, 0], weights[0, 0, 0, 1]) == (4 * 3 * 5, 4 * 3 * 5 * 2)
    assert (inputs[0, 0, 0, 0], inputs[1, 0, 0, 0]) == (4 * 3 * 6, 1 * 3 * 6)
    assert (inputs[0, 1, 1, 0], inputs[0, 0, 1, 0]) == (4 * 3 * 6 * 4, 4 * 3 * 6 * 2)
    assert dynasty_map.work(Layer("linear", "fc"), (5, 6), (3, 6)) == (
        {(0, 0): 60, (0, 1): 30},
        {(0, 0): 48, (0, 1): 24, (1, 0): 12, (1, 1): 6},
    )
