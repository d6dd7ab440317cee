"""Whole AdaPT steps of small nets: every tensor, and all that is stored, equals the oracle's."""

from __future__ import annotations

from typing import Any

import pytest

from intnet.methods.adapt import Adapt
from tests.moving import Case, differences, prepared, run_case
from tests.opcheck import threads

SOON = {"*/window": (25, 50, 23)}  # the second step fills the lookback
NOW = {"*/window": (25, 50, 24)}
MIXED = {
    "fc1/precision": (10, 6), "fc2/precision": (16, 12), "fc3/precision": (32, 28),
    "fc1/window": (25, 50, 23), "fc2/window": (60, 51, 59), "fc3/window": (99, 149, 97),
}  # fmt: skip

CASES = [
    Case("adapt", options={"accs": 2, "l1": 1e-3, "l2": 1e-2}, start=SOON),
    Case("adapt", seed=2, options={"eps": 0.3, "buff": 8, "l1": 0, "l2": 0}, start=MIXED | {"G": 40}),
    Case("adapt", seed=3, batch=2, options={"penalty": "on", "eps": 0.02}, start=NOW | {"G": 30, "strategy": 2}),
    Case("adapt", seed=4, images="black", start=NOW | {"losses": [2.0, 3.0, 2.5]}),
    Case("adapt", seed=5, start={"*/precision": (32, 28), "*/window": (100, 150, 98), "strategy": 1}),
    Case("adapt", seed=6, per_epoch=2, options={"rop": 0, "accs": 3}, start={"plateau": (1, 0.5, 0)}),
    Case("adapt", "lenet", seed=7, options={"eps": 0.1, "momentum": 0.5}, start=SOON | {"G": 20}),
    Case("adapt", "lenet", seed=8, options={"buff": 8, "accs": 2}, start=SOON | {"*/precision": (20, 14)}),
    Case("adapt", "resnet", seed=9, batch=2, options={"l1": 1e-5}, start=SOON),
    Case("adapt", seed=2**63 + 12345, batch=1, first_step=2**31 + 7, start=SOON),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_three_steps_equal_the_oracle(case: Case) -> None:
    """The third step runs in the formats that the switch of the second one chose."""
    results = run_case(case, steps=2 if case.net == "resnet" else 3)
    for result in results:
        assert differences(result) == []


def test_the_cases_do_what_they_are_for() -> None:
    """Formats rise, fall and stay; lookbacks and strategies move; a rate is reduced; a layer has no gradient."""
    moves: set[str] = set()
    for case in CASES[:6]:
        before = prepared(case)
        old = {x.name: x.buffers["precision"].codes.tolist() for x in before.model.all_layers()}
        last = run_case(case, 2)[-1]
        for name, form in old.items():
            new = last.state[f"{name}.precision"]
            moves |= {"up"} if new > form else {"down"} if new < form else {"same"}
        moves |= {f"strategy {last.state['method/strategy'][0]}"}
        moves |= {f"lookback {last.state['fc2.window'][0]}"}
        moves |= {"reduced"} if last.state["method/plateau"][0] < 1 else set()
        gathered = last.expected.state.gathered.get("fc1")
        moves |= {"no gradient"} if case.images == "black" and not any(gathered.values) else set()
        moves |= {"waits"} if any(name.endswith(".sum") for name in last.state) else set()
    assert {"up", "down", "same", "reduced", "no gradient", "waits"} <= moves
    assert len([move for move in moves if move.startswith("lookback")]) > 2
    assert {"strategy 0", "strategy 2"} & moves and len([m for m in moves if m.startswith("strategy")]) > 1


@pytest.mark.parametrize("n", [1, 2])
def test_threads_do_not_change_a_bit(n: int) -> None:
    with threads(n):
        assert differences(run_case(Case("adapt", "lenet", seed=21, start=NOW))[0]) == []


def test_the_mean_loss_of_a_batch_with_its_penalties() -> None:
    """What the strategy sees is the loss and, by their factors, the norms of all weights."""
    seen: dict[str, Any] = {}
    for name, options in {"none": {"l1": 0, "l2": 0}, "l1": {"l1": 0.5, "l2": 0}, "l2": {"l1": 0, "l2": 0.5}}.items():
        seen[name] = run_case(Case("adapt", options=options))[0].state["method/losses"][-1]
    weights = [v for name, w in run_case(Case("adapt"))[0].events.events.items() if name.endswith("/Wq")
               for v in w.source.values.reshape(-1).tolist()]  # fmt: skip
    assert float(seen["l1"] - seen["none"]) == pytest.approx(0.5 * sum(map(abs, weights)), rel=1e-5)
    assert float(seen["l2"] - seen["none"]) == pytest.approx(0.25 * sum(v * v for v in weights), rel=1e-5)


def test_every_layer_takes_the_format_of_the_weight_layer_before_it() -> None:
    run = prepared(Case("adapt", "resnet", start={"layer2.0.conv2/window": (25, 50, 24)}))
    run.train_step()
    assert isinstance(run.method, Adapt)
    moved = {x.name for x in run.model.all_layers() if x.buffers["precision"].codes.tolist() != [8, 4]}
    assert moved == {"layer2.0.conv2", "layer2.0.bn2"}
