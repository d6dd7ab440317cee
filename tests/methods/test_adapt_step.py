"""Whole AdaPT steps of small nets: every tensor, and all that is stored, equals the oracle's."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from intnet import datasets, models
from intnet.errors import NumberError
from intnet.methods.adapt import Adapt
from intnet.training.train import Run
from tests.support.moving import Case, kept, prepared, run_case
from tests.support.opcheck import threads
from tests.support.two_worlds import Result, differences

SOON = {"*/window": (25, 60, 23), "*/precision": (16, 12)}  # the second step fills the lookback
NOW = {"*/window": (25, 50, 24)}
MIXED = {
    "fc1/precision": (10, 6), "fc2/precision": (16, 12), "fc3/precision": (32, 28),
    "fc1/window": (25, 50, 23), "fc2/window": (60, 51, 59), "fc3/window": (99, 149, 97),
}  # fmt: skip

CASES = [
    Case("adapt", options={"accs": 2, "l1": 1e-3, "l2": 1e-2}, start=SOON | {"G": 15}),
    Case("adapt", seed=2, options={"eps": 0.3, "buff": 8, "l1": 0, "l2": 0}, start=MIXED | {"G": 40}),
    Case("adapt", seed=3, options={"penalty": "on", "eps": 0.02}, start=NOW | {"G": 30, "strategy": 2}),
    Case("adapt", seed=4, images="black", start=NOW | {"losses": [2.0, 3.0, 2.5]}),
    Case("adapt", seed=5, start={"*/precision": (32, 28), "*/window": (100, 150, 98), "strategy": 1}),
    Case("adapt", seed=6, per_epoch=2, options={"rop": 0, "accs": 3}, start={"plateau": (1, 0.5, 0)}),
    Case("adapt", "lenet", seed=7, options={"eps": 0.1, "momentum": 0.5}, start=SOON | {"G": 20}),
    Case("adapt", "lenet", seed=8, options={"buff": 8, "accs": 2}, start=SOON | {"*/precision": (20, 14)}),
    Case("adapt", "resnet", seed=9, batch=2, options={"l1": 1e-5}, start=SOON),
    Case("adapt", seed=10, options={"reading": "printed", "start": "12,6"}, start=SOON | {"G": 15}),
    Case("adapt", seed=14, options={"reading": "program", "buff": 3}, start=SOON | {"G": 25}),
    Case("adapt", seed=11, options={"buffer": "printed", "buff": 6, "gamma": 0.5}, start=SOON | {"G": 9}),
    Case("adapt", seed=12, options={"normalize": "off"}, start=SOON | {"G": 20, "norms": 25.5}),
    Case(
        "adapt",
        seed=13,
        start={"*/window": (3, 9, 2), "G": 4},
        options={"lookback": "3-5", "resolution": "9-10", "init": "uniform", "normalize": "off"},
    ),
    Case("adapt", seed=2**63 + 12345, batch=1, first_step=2**31 + 7, start=SOON),
]


@cache
def stepped(i: int) -> list[Result]:
    """The steps of a case, taken once."""
    return run_case(CASES[i], steps=2 if CASES[i].net == "resnet" else 3)


@pytest.mark.slow
@pytest.mark.parametrize("i", range(len(CASES)), ids=map(str, CASES))
def test_three_steps_equal_the_oracle(i: int) -> None:
    """The third step runs in the formats that the switch of the second one chose."""
    for result in stepped(i):
        assert differences(result) == []


@pytest.mark.slow
def test_the_cases_do_what_they_are_for() -> None:
    """Formats and lookbacks move both ways, strategies move, a rate is reduced, a layer has no gradient."""
    moves: set[str] = set()
    for i, case in enumerate(CASES[:6]):
        before = prepared(case)
        old = {x.name: x.buffers["precision"].codes.tolist() for x in before.model.all_layers()}
        last = kept(stepped(i)[1])
        for name, form in old.items():
            new = last[f"{name}.precision"]
            moves |= {"up"} if new > form else {"down"} if new < form else {"same"}
        moves |= {f"strategy {last['method/strategy'][0]}"}
        moves |= {f"lookback {last['fc2.window'][0]}"}
        moves |= {"reduced"} if last.get("method/plateau", [1])[0] < 1 else set()
        gathered = last.get("fc1.weight.G", [])
        moves |= {"no gradient"} if case.images == "black" and not any(gathered) else set()
        moves |= {"waits"} if any(name.endswith(".waiting") for name in last) else set()
    assert {"up", "down", "same", "reduced", "no gradient", "waits"} <= moves
    assert len([move for move in moves if move.startswith("lookback")]) > 2
    assert {"strategy 0", "strategy 2"} & moves and len([m for m in moves if m.startswith("strategy")]) > 1


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2])
def test_threads_do_not_change_a_bit(n: int) -> None:
    with threads(n):
        assert differences(run_case(Case("adapt", "lenet", seed=21, start=NOW))[0]) == []


@pytest.mark.slow
def test_the_mean_loss_of_a_batch_with_its_penalties() -> None:
    """What the strategy sees is the loss and, by their factors, the norms of all weights."""
    seen: dict[str, Any] = {}
    for name, l1, l2 in (("none", 0, 0), ("l1", 0.5, 0), ("l2", 0, 0.5)):
        (result,) = run_case(Case("adapt", options={"l1": l1, "l2": l2}))
        seen[name] = kept(result)["method/losses"][-1]
    stored = [event.source for name, event in result.events.items() if name.endswith("/Wq")]
    weights = [v for source in stored for v in source.values.reshape(-1).tolist()]
    assert float(seen["l1"] - seen["none"]) == pytest.approx(0.5 * sum(map(abs, weights)), rel=1e-5)
    assert float(seen["l2"] - seen["none"]) == pytest.approx(0.25 * sum(v * v for v in weights), rel=1e-5)


@pytest.mark.parametrize("options", [{"l2": 1e39}, {"l1": 1e300}])
def test_a_loss_beyond_float32_is_named(options: dict[str, float]) -> None:
    """It would be an infinite entry of the history: no mean, and a checkpoint that cannot be read."""
    run = prepared(Case("adapt", options=options))
    with pytest.raises(NumberError, match=r"adapt: the loss with its penalties is .*, beyond float32"):
        run.train_step()


def test_a_start_beyond_float32_is_named() -> None:
    run = Run(models.make("mlp", (8, 8, 1), 10), Adapt(init_scale=1e300), datasets.load("digits"))
    with pytest.raises(NumberError, match=r"fc1/W: NaN or infinity"):
        run.train_step()


def test_every_layer_takes_the_format_of_the_weight_layer_before_it() -> None:
    run = prepared(Case("adapt", "resnet", start={"layer2.0.conv2/window": (25, 50, 24)}))
    run.train_step()
    assert isinstance(run.method, Adapt)
    moved = {x.name for x in run.model.all_layers() if x.buffers["precision"].codes.tolist() != [8, 4]}
    assert moved == {"layer2.0.conv2", "layer2.0.bn2"}
