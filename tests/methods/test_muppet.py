"""Whole MuPPET steps of small nets, and its policy, equal the oracle's."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intnet import datasets, methods, models
from intnet import spec as oracle
from intnet.errors import ContainerError, NumberError
from intnet.methods import muppet as lib
from intnet.methods.method import Parameter
from intnet.spec.float32 import to_float32
from intnet.spec.formats import Scaled, quantize
from intnet.spec.methods import muppet
from intnet.training.train import Run
from tests.support.cases import near
from tests.support.moving import Case, kept, run_case
from tests.support.opcheck import threads
from tests.support.two_worlds import Result, differences

AT_ONCE = {"resolution": 1, "patience": 1}
MOVES = {"diversities": [100.0, 3.0]}  # beside which any diversity violates

CASES = [
    Case("muppet", options=AT_ONCE, start=MOVES),
    Case("muppet", seed=2, options={"weight_decay": 0.01, "momentum": 0.5}, start={"level": 1}),
    Case("muppet", seed=3, images="black", options=AT_ONCE),
    Case("muppet", seed=4, options=AT_ONCE, start=MOVES | {"level": 3}),
    Case("muppet", seed=5, options={"float_epochs": 1}, start={"level": 4, "switched": 3}, lr=(0.005, 0.5)),
    Case("muppet", seed=6, per_epoch=2, options={"resolution": 2}, start={"epochs": 1}),
    Case("muppet", "lenet", seed=7, options={"patience": 1, "resolution": 2, "weight_decay": 0}, start=MOVES),
    Case("muppet", "lenet", seed=8, start={"level": 2}),
    Case("muppet", "lenet", seed=9, start={"level": 4}),
    Case("muppet", "resnet", seed=10, batch=2, options=AT_ONCE, start=MOVES),
    Case("muppet", "resnet", seed=11, batch=2, start={"level": 4}),
    Case("muppet", seed=2**63 + 12345, batch=1, first_step=2**31 + 7),
]


@cache
def stepped(i: int) -> list[Result]:
    """The steps of a case, taken once."""
    return run_case(CASES[i], steps=2 if CASES[i].net == "resnet" else 3)


@pytest.mark.slow
@pytest.mark.parametrize("i", range(len(CASES)), ids=map(str, CASES))
def test_three_steps_equal_the_oracle(i: int) -> None:
    for result in stepped(i):
        assert differences(result) == []


@pytest.mark.slow  # whose steps the slow tests take too
def test_the_cases_reach_every_level() -> None:
    """0 and 3 move on by themselves."""
    ends = [int(kept(stepped(i)[-1])["method/level"][0]) for i in range(len(CASES))]
    assert set(ends) == {0, 1, 2, 4}


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2])
def test_threads_do_not_change_a_bit(n: int) -> None:
    with threads(n):
        assert differences(run_case(Case("muppet", "lenet", seed=21))[0]) == []


# -- the policy ----------------------------------------------------------------------------------


class Epochs:
    """A method that is told the last gradients of epoch after epoch."""

    def __init__(self, shapes: Sequence[tuple[int, ...]], **options: Any) -> None:
        self.method = methods.Muppet(lr="1e-9", **options)
        self.method.start([], 1)
        self.layers = [SimpleNamespace(name=f"fc{i}") for i in range(len(shapes))]
        self.parameters = [Parameter("weight", "W", shape, "zeros") for shape in shapes]
        for parameter in self.parameters:
            parameter.value = np.zeros(parameter.shape, np.float32)

    def end(self, gradients: Sequence[np.ndarray]) -> None:
        """One epoch."""
        triples: Any = zip(self.layers, self.parameters, gradients, strict=True)
        self.method.update_all(list(triples))
        self.method.end_of_epoch()

    def number(self, name: str) -> int:
        return int(self.method.state[name].codes[0])


def vectors(seed: int, n: int) -> list[Fraction]:
    """-3/4 .. 3/4, three bits of the seed an element."""
    return [Fraction((seed >> (3 * i)) % 7 - 3, 4) for i in range(n)]


EPOCHS = st.lists(st.tuples(st.integers(0, 2**30), st.integers(0, 2**30)), min_size=1, max_size=25)


@pytest.mark.slow
@given(EPOCHS, st.integers(1, 3), st.integers(1, 3))
@settings(max_examples=80)
def test_the_policy_over_any_gradients(epochs: list[tuple[int, int]], resolution: int, patience: int) -> None:
    """Against the rule in exact fractions; the width never falls."""
    world = Epochs([(4,), (2, 3)], resolution=resolution, patience=patience, weight_decay=0)
    level = violations = switched = 0
    kept: list[list[list[Fraction]]] = [[], []]
    seen: list[Fraction] = []
    widths = []
    for epoch, seeds in enumerate(epochs):
        drawn = [vectors(seeds[0] | 1, 4), vectors(seeds[1] | 1, 6)]
        arrays = [np.array([float(v) for v in g], np.float32) for g in drawn]
        world.end([a.reshape(p.shape) for a, p in zip(arrays, world.parameters, strict=True)])
        for layer, g in zip(kept, drawn, strict=True):
            layer.append(g)
        if level < 4 and len(kept[0]) == resolution:
            cancels = any(not any(map(sum, zip(*layer, strict=True))) for layer in kept)
            d = Fraction(lib.GREATEST) if cancels and _any(kept) else muppet.diversity(kept)
            violations += bool(seen) and muppet.violates([float(v) for v in seen], float(d), epoch)
            seen.append(d)
            kept = [[], []]
            if violations == patience:
                level, violations, seen, switched = level + 1, 0, [], epoch + 1
        widths.append(world.number("level"))
        assert (world.number("level"), world.number("violations")) == (level, violations)
        assert world.number("switched") == switched
        assert world.method.state["diversities"].tolist() == [float(to_float32(v)) for v in seen]
    assert widths == sorted(widths) and widths[-1] <= 4


def _any(kept: list[list[list[Fraction]]]) -> bool:
    """Whether some layer's gradients cancel without being zero."""
    return any(
        any(v for g in layer for v in g) and not any(map(sum, zip(*layer, strict=True))) for layer in kept
    )


@pytest.mark.parametrize(("which", "expected"), [("weights", 0.5), ("all", 0.75)])
def test_whose_gradients_the_diversity_is_of(which: str, expected: float) -> None:
    """A weight's two gradients agree, (1 + 1)/4; a bias's stand at right angles, (1 + 1)/2."""
    world = Epochs([(2,), (2,)], resolution=2, patience=9, weight_decay=0, diversity=which)
    world.parameters[1].symbol = "b"
    for gradients in ([[1, 0], [1, 0]], [[1, 0], [0, 1]]):
        world.end([np.array(g, np.float32) for g in gradients])
    assert world.method.state["diversities"].tolist() == [expected]
    assert not any(parameter.slots.keys() & {"sum", "squares"} for parameter in world.parameters)


def test_the_levels_and_their_end() -> None:
    """8, 12, 14, 16, float32, and no further: every other epoch is a violation."""
    world = Epochs([(2,)], resolution=1, patience=1, weight_decay=0)
    levels = []
    for epoch in range(14):
        world.method.state["diversities"] = np.array([1e6] if epoch % 2 else [], np.float32)
        world.end([np.array([1, 1], np.float32)])
        levels.append(world.method.wl)
    assert levels == [8, 12, 12, 14, 14, 16, 16, None, None, None, None, None, None, None]


def test_gradients_beyond_float32_are_named() -> None:
    """Their squared norm would be an infinity in a checkpoint, which no resume reads."""
    world = Epochs([(4,)])
    with pytest.raises(NumberError, match=r"fc0/gW: the squared norm of the gradients kept is beyond"):
        for _ in range(2):
            world.end([np.full(4, 7e18, np.float32)])
    run = Run(models.make("mlp", (8, 8, 1), 10), methods.Muppet(), datasets.load("digits"), 8)
    run.train_step()
    layers = {layer.name: layer for layer in run.model.all_layers()}
    layers["fc3"].parameters[1].value *= np.float32(1e30)
    with pytest.raises(ContainerError, match=r"fc3: product and bias: a term shifted by \d+ bits"):
        run.train_step()
    layers["fc1"].parameters[0].value[:] = 3e38
    with pytest.raises(NumberError, match=r"bn1/x1: a value is beyond float32's range"):
        run.train_step()


def test_diversity_of_layers() -> None:
    assert lib.diversity([(2.0, 4.0), (3.0, 1.0)]) == 1.75
    assert lib.diversity([(0.0, 0.0), (3.0, 1.0)]) == 2.0
    assert lib.diversity([(1.0, 0.0)]) == float("inf")
    kept = [[[Fraction(1), Fraction(2)], [Fraction(1), Fraction(0)]], [[Fraction(0)], [Fraction(0)]]]
    assert muppet.diversity(kept) == (Fraction(6, 8) + 1) / 2


def test_squares_below_float32_everywhere_are_those_of_no_gradient() -> None:
    assert lib.diversity([(0.0, 1e-50), (0.0, 1e-60)]) == 1
    assert lib.diversity([(0.0, 1e-50), (1.0, 1.0)]) == 0.5
    world = Epochs([(4,)], resolution=1, patience=9, weight_decay=0)
    for _ in range(3):
        world.end([np.full(4, 1e-30, np.float32)])
    assert world.method.state["diversities"].tolist() == [1, 1, 1] and world.number("violations") == 0


def test_violations_beside_the_threshold() -> None:
    for epoch in (0, 1, 7, 50, 300, 1000):
        for d in (0.3, 1.0, 1.7, 1e30):
            for p in near(float(muppet.threshold(epoch)) * d, 3):
                assert lib.violates([d / 2, p], d, epoch) == muppet.violates([d / 2, p], d, epoch)
    assert not lib.violates([], 1.0, 0)


def test_learning_rates_after_the_switch() -> None:
    """15 epochs each at a tenth of the last, down to the floor; a rate below the floor stays."""
    for lr, floor in (("0.1", 0.001), ("0.3,0.05@7", 1e-5), ("0.0005", 0.001), ("0.7", 1e-300)):
        method = methods.Muppet(lr=lr, lr_floor=floor)
        method.start([], 1)
        pairs = [part.partition("@") for part in lr.split(",")]
        schedule = [(int(epoch or 0), float(value)) for value, _, epoch in pairs]
        for level, epoch in [(0, e) for e in range(12)] + [(4, e) for e in (*range(9, 90), 10**4)]:
            for name, value in (("level", level), ("switched", 9)):
                method.state[name].codes[0] = value
            method.set(epoch=epoch)
            want = muppet.learning_rate(tuple(schedule), epoch, 9 if level == 4 else None, 15, floor)
            assert method.rate() == want


def test_the_oracles_block_float_by_hand() -> None:
    """100 and -129 in 8 bits: -128.5/-129 < 1, so the scale is 1/2."""
    halves = quantize([Fraction(100), Fraction(-129), Fraction(1)], Scaled(8))
    assert halves == oracle.formats.Quantized([50, -64, 0], 1, 0)
    assert quantize([Fraction(255, 2)], Scaled(8)) == ([127], 0, 1)
    assert quantize([Fraction(0)] * 2, Scaled(8)) == ([0, 0], -6, 0)
