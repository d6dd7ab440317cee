"""DYNASTY's cost model: judged by fractions over blocks, and by the figures that the paper prints."""

from __future__ import annotations

from fractions import Fraction

import pytest

from intnet.errors import ConfigError
from intnet.papers.costs import dynasty_costs
from intnet.papers.costs.dynasty_costs import STAGES, Curve, History, LayerMaps, Width
from tests.support import map_lines
from tests.support.map_lines import Blocks

NAMES = ["conv1", "conv2", "fc1", "fc2"]
EPOCHS = [map_lines.at(map_lines.made_up(NAMES, 1), 4), *(map_lines.made_up(NAMES, k) for k in range(1, 5))]
SHARES = [Fraction(1)] * 4 + [Fraction(3, 8)]
RUN = list(zip(EPOCHS, SHARES, strict=True))


def width(pairs: list[map_lines.Block]) -> Width:
    macs = sum(t for t, _ in pairs)
    bits, idle = map_lines.mac_mean(pairs), map_lines.idle(pairs)
    return Width(macs, float(bits), float(idle), len(pairs), float(map_lines.mean(pairs)))


def layers(blocks: Blocks) -> tuple[LayerMaps, ...]:
    return tuple(
        LayerMaps(
            name, width(parts["weights"]), width(parts["activations"]) if "activations" in parts else None
        )
        for name, parts in blocks.items()
    )


def history(forward: str = "activation") -> History:
    return History(tuple(layers(blocks) for blocks in EPOCHS), tuple(map(float, SHARES)), forward)


def close(value: Fraction | float) -> object:
    return pytest.approx(float(value), rel=1e-12)


# -- the equations -----------------------------------------------------------------------------


@pytest.mark.parametrize("forward", ["activation", "weight"])
def test_time_by_stage_and_epoch(forward: str) -> None:
    own = history(forward)
    got = dynasty_costs.summary(own)
    assert got["time"] == close(map_lines.time(RUN, forward))
    assert got["skipped"] == close(map_lines.skipped(RUN, forward)) and got["skipped"] > 0
    for stage in STAGES:
        assert got["by_stage"][stage] == close(map_lines.time(RUN, forward, stage))
    one = Fraction(1)
    assert dynasty_costs.times(own) == [close(map_lines.time([(e, one)], forward)) for e in EPOCHS]


def test_what_the_first_layer_does() -> None:
    """Its input is of 8 bits whatever its weights are, unless those are dynamic; no product back."""
    for bits in (0, 2, 8):
        only = (LayerMaps("conv1", Width(1000, bits, float(bits == 0), 5, bits), None),)
        got = dynasty_costs.stages(only)
        assert [(got[name].time, got[name].full) for name in STAGES] == [(1000, 1000), (0, 0), (1000, 1000)]
        assert dynasty_costs.stages(only, "weight")["forward"].time == 125 * bits
    own = dynasty_costs.summary(History((only,), (1.0,)))
    assert (own["activations"], own["activations_mac_bits"], own["by_stage"]["backward"]) == (None, None, 1.0)


def test_mean_widths_over_training() -> None:
    got = dynasty_costs.summary(history())
    for operand, plain, weighted in (
        ("weights", got["weights"], got["weights_mac_bits"]),
        ("activations", got["activations"], got["activations_mac_bits"]),
    ):
        epochs = [[p for parts in blocks.values() for p in parts.get(operand, [])] for blocks in EPOCHS]
        for value, rule in ((plain, map_lines.mean), (weighted, map_lines.mac_mean)):
            parts = [rule(pairs) * share for pairs, share in zip(epochs, SHARES, strict=True)]
            assert value == close(sum(parts, Fraction(0)) / sum(SHARES))


def test_skipped_blocks_take_no_time() -> None:
    none = tuple(layer.at(0) for layer in layers(EPOCHS[1])[1:])
    got = dynasty_costs.summary(History((none,), (1.0,)))
    keys = ("time", "skipped", "weights", "energy", "energy_array")
    assert [got[key] for key in keys] == [0, 1, 0, 0, 0]
    assert got["energy_by_step"] == close(Fraction(103, 2970) / 2)


# -- the paper's figures -----------------------------------------------------------------------

PAPER = {6: (58.3, 40.0), 4: (38.9, 59.5), 3: (29.2, 69.2), 2: (19.6, 78.8)}  # % of time; % of energy saved


@pytest.mark.parametrize(("bits", "percent"), [(6, 75), (4, 50), (3, Fraction(75, 2)), (2, 25)])
def test_time_at_equal_epochs(bits: int, percent: Fraction | int) -> None:
    """A network of blocks that are all of one width, the input's too."""
    assert dynasty_costs.uniform_time(bits) == percent / 100
    inner = tuple(layer.at(bits) for layer in layers(EPOCHS[1])[1:])
    for forward in dynasty_costs.FORWARDS:
        alike = History((inner,) * 3, (1.0,) * 3, forward)
        assert dynasty_costs.summary(alike)["time"] == close(percent / 100)
    whole = tuple(layer.at(bits) for layer in layers(EPOCHS[1]))
    assert dynasty_costs.summary(History((whole,), (1.0,)))["time"] > percent / 100  # the input's 8 bits


@pytest.mark.parametrize("bits", PAPER)
def test_time_to_74_percent_on_cifar_100(bits: int) -> None:
    """7/9 of the baseline's epochs; 2 bits are printed as 1/5.1 and not as 7/36."""
    published = PAPER[bits][0]
    assert dynasty_costs.uniform_time(bits, 7 / 9) == close(Fraction(7 * bits, 72))
    assert 100 * dynasty_costs.uniform_time(bits, 7 / 9) == pytest.approx(
        published, abs=0.16 if bits == 2 else 0.05
    )
    assert round(100 / 5.1, 1) == PAPER[2][0]
    inner = tuple(layer.at(bits) for layer in layers(EPOCHS[1])[1:])
    tested = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.74, 0.75, 0.76]
    baseline = Curve(9, [0.1] * 8 + [0.745])
    got = dynasty_costs.iso(History((inner,) * 9, (1.0,) * 9), tested, 0.74, baseline)
    assert (got["epochs"], got["baseline_epochs"]) == (7, 9)
    assert got["time"] == got["reached"] == close(Fraction(7 * bits, 72))
    assert got["equal"] == close(Fraction(bits, 8))
    assert got["energy_by_step"] == close(Fraction(7 * bits, 72) + Fraction(7, 9) * Fraction(103, 5940))


@pytest.mark.parametrize("bits", PAPER)
def test_energy_to_74_percent_on_cifar_100(bits: int) -> None:
    """Within 0.41 points with the module's energy the same in every step; within 1.09 with its power."""
    time, saved = Fraction(7 * bits, 72), PAPER[bits][1]
    assert dynasty_costs.energy(float(time)) == close(time * Fraction(3073, 2970))
    assert 100 * (1 - dynasty_costs.energy(float(time))) == pytest.approx(saved, abs=1.09)
    assert 100 * (1 - dynasty_costs.energy_by_step(float(time), 7 / 9)) == pytest.approx(saved, abs=0.41)
    share = 100 - saved - PAPER[bits][0]  # what the printed figures leave for the module
    assert share == pytest.approx(1.6, abs=0.101)
    assert share / (700 / 9) == pytest.approx(0.021, abs=0.001)


@pytest.mark.parametrize(("bits", "time", "saved"), [(6, 0.75, 23.2), (4, 0.525, 45.7)])
def test_energy_to_67_percent_on_imagenet(bits: int, time: float, saved: float) -> None:
    """75.0 and 52.5 % of the time: as many epochs, and 1.05 times as many."""
    epochs = time / dynasty_costs.uniform_time(bits)
    assert 100 * (1 - dynasty_costs.energy_by_step(time, epochs)) == pytest.approx(saved, abs=0.07)


def test_area() -> None:
    got = dynasty_costs.summary(history())
    assert got["area_mm2"] == close(Fraction(16219, 1000)) and round(100 * got["area_overhead"], 1) == 1.4


# -- an accuracy -------------------------------------------------------------------------------


def test_iso_accuracy() -> None:
    tested, baseline = [0.5, 0.8, 0.7, 0.9], Curve(6.5, [0.6, 0.7, 0.8, 0.85, 0.85, 0.9])
    got = dynasty_costs.iso(history(), tested, 0.8, baseline)
    spent = sum((map_lines.time([(blocks, Fraction(1))]) for blocks in EPOCHS[:2]), Fraction(0))
    assert (got["epochs"], got["baseline_epochs"]) == (2, 3)
    assert got["time"] == close(spent / Fraction(13, 2))
    assert (got["equal"], got["reached"]) == (close(spent / 2), close(spent / 3))
    assert got["energy"] == close(spent / Fraction(13, 2) * Fraction(3073, 2970))
    none = dynasty_costs.iso(history(), tested, 0.95, baseline)
    assert (none["epochs"], none["time"], none["reached"], none["baseline_epochs"]) == (None,) * 4
    assert dynasty_costs.iso(history(), tested, 0.85, Curve(2, [0.1, 0.2]))["reached"] is None
    assert dynasty_costs.iso(history(), tested, None, baseline)["epochs"] is None


# -- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((0, 4, 0, 1, 4), "0 multiply-adds"),
        ((1, 4, 0, 0, 4), "0 blocks"),
        ((1, 8.5, 0, 1, 4), "mac_bits = 8.5: not within 0..8"),
        ((1, 4, 0, 1, -1), "mean = -1"),
        ((1, 4, 1.5, 1, 4), "skipped = 1.5: not within 0..1"),
    ],
)
def test_a_width_that_cannot_be(values: tuple[int, float, float, int, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Width(*values)


def test_a_history_that_cannot_be() -> None:
    one = layers(EPOCHS[0])
    for epochs, shares in (((), ()), ((one,), ()), (((),), (1.0,))):
        with pytest.raises(ConfigError, match="at least one epoch"):
            History(epochs, shares)
    for share in (0.0, 1.5):
        with pytest.raises(ConfigError, match="done in part"):
            History((one,), (share,))
    with pytest.raises(ConfigError, match="use one of activation, weight"):
        History((one,), (1.0,), "both")
