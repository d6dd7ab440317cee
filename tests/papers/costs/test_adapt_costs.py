"""AdaPT's performance model against its equations in fractions, hand-computed cases and published figures."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intnet import models
from intnet.errors import ConfigError
from intnet.papers.costs import adapt_costs
from intnet.papers.costs.adapt_costs import History, LayerSize
from intnet.papers.costs.report import spaced
from tests.oracle import costs as oracle

PUBLISHED = [(16, 8), (10, 12), (14, 14), (14, 16), (45, 32)]  # MuPPET, AlexNet on CIFAR-10: epochs, WL
ONE = LayerSize("a", (2, 3), 12)
TWO = (ONE, LayerSize("b", (10,), 10))
Steps = list[list[dict[str, Any]]]


def history(steps: Steps, batch: int = 1, accs: int = 1) -> History:
    """The oracle's run as arrays."""
    sizes = tuple(LayerSize(str(k), tuple(e["dims"]), e["ops"]) for k, e in enumerate(steps[0]))

    def array(key: str) -> np.ndarray | None:
        return np.array([[e[key] for e in step] for step in steps]) if key in steps[0][0] else None

    arrays = (array("WL"), array("nonzero"), None, array("lb"), array("r"))
    return History(sizes, *arrays, batch_size=batch, accs=accs)  # type: ignore[arg-type]


@st.composite
def runs(draw: st.DrawFn) -> Steps:
    """1 to 3 layers, 1 to 4 steps, with lookback and resolution or without."""
    dims = st.lists(st.integers(1, 9), min_size=1, max_size=4)
    sizes = draw(st.lists(st.tuples(dims, st.integers(1, 10**6)), min_size=1, max_size=3))
    learned = draw(st.booleans())
    steps: Steps = []
    for _ in range(draw(st.integers(1, 4))):
        step = []
        for shape, ops in sizes:
            nonzero = draw(st.integers(0, math.prod(shape)))
            entry = {"dims": shape, "ops": ops, "WL": draw(st.integers(1, 32)), "nonzero": nonzero}
            if learned:
                entry |= {"lb": draw(st.integers(1, 150)), "r": draw(st.integers(1, 150))}
            step.append(entry)
        steps.append(step)
    return steps


def same(got: float | None, want: Fraction | int | None) -> bool:
    """Equal but for the last digits of doubles."""
    return (
        got is want if want is None or got is None else math.isclose(got, want, rel_tol=1e-12, abs_tol=1e-12)
    )


# -- the equations -----------------------------------------------------------------------------


@pytest.mark.slow
@given(runs(), st.integers(1, 512), st.integers(1, 8), st.integers(1, 9), st.integers(1, 512))
def test_every_figure_is_that_of_the_equations(
    steps: Steps, batch: int, accs: int, base_steps: int, base_batch: int
) -> None:
    own = history(steps, batch, accs)
    baseline = adapt_costs.float32(own.layers, base_steps, base_batch, accs)
    got = adapt_costs.summary(own, baseline, iso=1)
    base = (batch, accs, base_steps, base_batch)
    once = Fraction(1, batch)
    assert same(got["speedup_per_image"], oracle.speedup(steps, *base))
    assert same(got["speedup"], oracle.speedup(steps, *base, once))
    assert same(got["speedup_without_overhead"], oracle.speedup(steps, *base, 0))
    assert same(got["iso_speedup_per_image"], oracle.speedup(steps[:1], *base))
    assert same(got["iso_speedup"], oracle.speedup(steps[:1], *base, once))
    assert same(got["size"], oracle.size(steps)) and same(got["memory"], oracle.memory(steps))
    assert same(got["inference_speedup"], oracle.inference(steps))
    assert same(got["sparsity_final"], oracle.sparsity(steps[-1]))
    assert same(got["sparsity_mean"], sum(map(oracle.sparsity, steps)) / len(steps))
    extra = sum(oracle.overhead(step, accs) for step in steps)
    whole = sum(oracle.training(step, accs) for step in steps)
    assert same(got["overhead_share_per_image"], extra / (whole + extra))
    assert same(got["overhead_share"], once * extra / (whole + once * extra))
    assert got["bits"] == sum(e["WL"] * math.prod(e["dims"]) for e in steps[-1])
    assert got["nonzero_bits"] == sum(e["WL"] * e["nonzero"] for e in steps[-1])
    assert got["float32_bits"] == 32 * sum(math.prod(e["dims"]) for e in steps[-1])


@pytest.mark.slow
@given(runs(), st.integers(1, 512), st.integers(1, 8))
def test_relative_costs_are_those_of_each_step(steps: Steps, batch: int, accs: int) -> None:
    got = adapt_costs.relative(history(steps, batch, accs))
    for i, step in enumerate(steps):
        base, own = oracle.training(oracle.float32(step), accs), oracle.training(step, accs)
        extra = oracle.overhead(step, accs)
        want = (own / base, (own + extra / batch) / base, (own + extra) / base)
        assert all(same(values[i], expected) for values, expected in zip(got, want, strict=True))


def test_a_case_by_hand() -> None:
    """6 weights, 12 multiply-adds; 8 bits half of them zero, then 16 bits dense; accs 2, batches of 4."""
    own = History(
        (ONE,),
        np.array([[8], [16]]),
        np.array([[3], [6]]),
        None,
        np.array([[25], [32]]),
        np.array([[50], [51]]),
        4,
        2,
    )
    assert adapt_costs.training(own).tolist() == [12 * (4 + 16), 12 * (16 + 16)]
    log = math.log2(24)
    first = 32 * (0.5 * (2 * log * 50 * 3 * 6) + (26 * 6 + 1)) / (2 * 25)
    second = 32 * ((2 * log * 51 * 3 * 6) + (33 * 6 + 1)) / (2 * 32)
    assert adapt_costs.overhead(own).tolist() == pytest.approx([first, second], rel=1e-12)
    got = adapt_costs.summary(
        own, adapt_costs.float32((ONE,), 3, 8, 2)
    )  # 3 steps of 12 * (32 + 16) in batches of 8
    assert got["speedup_without_overhead"] == pytest.approx(8 * 3 * 576 / (4 * 624), rel=1e-12)
    assert got["speedup_per_image"] == pytest.approx(8 * 3 * 576 / (4 * (624 + first + second)), rel=1e-12)
    assert (got["size"], got["memory"], got["inference_speedup"]) == (0.5, 42 / 32, 2.0)
    assert (got["sparsity_final"], got["sparsity_mean"]) == (0.0, 0.25)
    assert (got["bits"], got["nonzero_bits"], got["float32_bits"], got["iso_speedup_per_image"]) == (
        96,
        96,
        192,
        None,
    )


@pytest.mark.parametrize("sizes", [(ONE,), TWO])
def test_muppets_published_schedule(sizes: tuple[LayerSize, ...]) -> None:
    """Tables of the paper: SU 1.20, MEM 1.66; with one width for all layers no model matters."""
    own = adapt_costs.dense(sizes, PUBLISHED)
    got = adapt_costs.summary(own, adapt_costs.float32(sizes, 99))
    assert got["speedup_per_image"] == pytest.approx(Fraction(64 * 99, 2108 + 32 * 99), rel=1e-12)
    assert got["memory"] == pytest.approx(Fraction(2108 + 32 * 99, 32 * 99), rel=1e-12)
    assert f"{got['speedup_per_image']:.2f} {got['memory']:.2f}" == "1.20 1.67"
    assert (got["size"], got["inference_speedup"], got["overhead_share_per_image"]) == (1, 1, 0)


def test_float32_against_itself_gains_nothing() -> None:
    own = adapt_costs.float32(TWO, 7, 32, 2)
    got = adapt_costs.summary(own, own, iso=7)
    assert (
        got["speedup_per_image"],
        got["iso_speedup_per_image"],
        got["size"],
        got["memory"],
        got["inference_speedup"],
    ) == (1, 1, 1, 2, 1)


def test_a_model_of_zeros_only_has_no_inference_to_speed_up() -> None:
    got = adapt_costs.summary(
        History((ONE,), np.array([[8]]), np.array([[0]])), adapt_costs.float32((ONE,), 1)
    )
    assert (got["inference_speedup"], got["sparsity_final"], got["nonzero_bits"], got["bits"]) == (
        None,
        1.0,
        0,
        48,
    )


def test_iso_accuracy_ends_with_the_first_test_that_reaches_it() -> None:
    tested = [(10, 0.5), (20, 0.9), (30, 0.8), (40, 0.95)]
    assert adapt_costs.iso_step(tested, 0.9) == 20
    assert adapt_costs.iso_step(tested, 0.91) == 40
    assert adapt_costs.iso_step(tested, 0.96) is None
    assert adapt_costs.iso_step(tested, None) is None


# -- layers ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_multiply_adds_of_lenet5() -> None:
    """Padded 5x5 convolutions over 28x28 and 14x14 positions."""
    got = adapt_costs.layer_sizes(models.make("lenet5", (28, 28, 1), 10))
    assert [(size.name, size.weights, size.madds) for size in got] == [
        ("conv1", 6 * 25, 28 * 28 * 6 * 25),
        ("conv2", 16 * 6 * 25, 14 * 14 * 16 * 6 * 25),
        ("fc1", 784 * 120, 784 * 120),
        ("fc2", 120 * 84, 120 * 84),
        ("fc3", 840, 840),
    ]


def test_multiply_adds_of_resnet20() -> None:
    got = {size.name: size for size in adapt_costs.layer_sizes(models.make("resnet20", (32, 32, 3), 10))}
    assert len(got) == 22
    assert got["layer2.0.conv1"] == LayerSize("layer2.0.conv1", (32, 16, 3, 3), 16 * 16 * 32 * 16 * 9)
    assert got["layer3.0.downsample.0"] == LayerSize("layer3.0.downsample.0", (64, 32, 1, 1), 8 * 8 * 64 * 32)
    assert got["fc"].madds == 640


@pytest.mark.slow
def test_multiply_adds_of_resnet18() -> None:
    """0.56 billion for an image of 32x32."""
    got = {size.name: size for size in adapt_costs.layer_sizes(models.make("resnet18", (32, 32, 3), 100))}
    assert list(got)[:2] + list(got)[-2:] == [
        "conv1", "layer1.0.conv1", "layer4.1.conv2", "fc",
    ]  # fmt: skip
    assert len(got) == 21 and sum(name.endswith("downsample.0") for name in got) == 3
    assert got["conv1"] == LayerSize("conv1", (64, 3, 3, 3), 32 * 32 * 64 * 3 * 9)
    assert got["layer2.0.downsample.0"] == LayerSize(
        "layer2.0.downsample.0", (128, 64, 1, 1), 16 * 16 * 128 * 64
    )
    assert got["layer4.0.conv1"] == LayerSize("layer4.0.conv1", (512, 256, 3, 3), 4 * 4 * 512 * 256 * 9)
    block = 32 * 32 * 64 * 64 * 9  # a 3x3 convolution that keeps its shape; in every stage as much
    first = block // 2  # the first of a stage reads half the channels
    shortcuts = 3 * (block // 18)
    total = sum(size.madds for size in got.values())
    assert total == 32 * 32 * 64 * 27 + 4 * block + 3 * (first + 3 * block) + shortcuts + 51200
    assert round(total / 1e9, 2) == 0.56


def test_rows_and_changes() -> None:
    widths = np.array([[8, 8], [10, 8], [10, 8], [9, 8], [12, 8]])
    fractions = np.array([[4, -3], [4, -3], [5, -3], [5, -3], [5, -3]])
    nonzero = np.array([[6, 10], [6, 5], [3, 5], [3, 5], [3, 0]])
    lookback, resolution = np.full((5, 2), 25), np.arange(50, 60).reshape(5, 2)
    own = History(TWO, widths, nonzero, fractions, lookback, resolution)
    first, second = adapt_costs.rows(own)
    assert (first["first"], first["least"], first["mean"], first["most"], first["last"]) == (
        8,
        8,
        9.8,
        12,
        12,
    )
    assert (first["fraction"], first["rises"], first["falls"], first["lookback"], first["resolution"]) == (
        5,
        2,
        1,
        25,
        58,
    )
    assert first["sparsity_mean"] == pytest.approx(0.3) and first["sparsity_final"] == 0.5
    assert (second["fraction"], second["rises"], second["falls"], second["sparsity_final"]) == (-3, 0, 0, 1.0)
    assert adapt_costs.changes(own) == [
        [(1, 8, 4), (2, 10, 4), (3, 10, 5), (4, 9, 5), (5, 12, 5)],
        [(1, 8, -3)],
    ]
    assert adapt_costs.changes(adapt_costs.float32(TWO, 3)) == [[(1, 32, None)], [(1, 32, None)]]
    assert adapt_costs.rows(adapt_costs.float32(TWO, 3))[0]["lookback"] is None


@given(st.integers(1, 10**6))
def test_spaced_steps_hold_the_first_and_the_last(steps: int) -> None:
    at = spaced(steps)
    assert at == sorted(set(at)) and (at[0], at[-1]) == (0, steps - 1)
    assert len(at) == min(steps, 12)
    if steps > 12:
        gaps = np.diff(at)
        assert gaps.max() - gaps.min() <= 1


# -- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"widths": [[33]]}, r"WL = 33 in step 1, layer 1: not within 1\.\.32"),
        ({"widths": [[0]]}, r"WL = 0"),
        ({"nonzero": [[7]]}, r"nonzero = 7 in step 1, layer 1: not within 0\.\.6"),
        ({"nonzero": [[-1]]}, r"nonzero = -1"),
        ({"nonzero": [[1], [1]]}, r"\(steps, layers\) = \(1, 1\)"),
        ({"lookback": [[25]]}, "come together"),
        ({"lookback": [[0]], "resolution": [[50]]}, "lb = 0"),
        ({"lookback": [[25]], "resolution": [[0]]}, "r = 0"),
        ({"accs": 0}, "accs 0"),
        ({"batch_size": 0}, "batch size 0"),
        ({"widths": np.empty((0, 1)), "nonzero": np.empty((0, 1))}, "at least one step"),
    ],
)
def test_what_no_run_can_be_is_refused(changes: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"layers": (ONE,), "widths": [[8]], "nonzero": [[6]], "batch_size": 1, "accs": 1}
    given = {k: np.array(v) if isinstance(v, list) else v for k, v in (good | changes).items()}
    with pytest.raises(ConfigError, match=message):
        History(**given)
