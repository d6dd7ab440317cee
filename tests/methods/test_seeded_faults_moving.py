"""Test the tester: faults put into AdaPT's switch and MuPPET's policy, one at a time, are each seen.

Every fault is what a careless edit would do. The sweeps pass without one, so what makes them fail is it.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from intnet.exact import quantize as quantizers
from intnet.methods import Adapt, Muppet, adapt, adapt_switch, muppet, schedules
from intnet.numbers import rng
from intnet.numbers.formats import Scaled
from intnet.numbers.qtensor import QTensor
from intnet.numbers.rounding import Rounding
from intnet.ops.kernels import histograms, norms
from tests.exact import test_scaled
from tests.methods import test_adapt_switch, test_muppet
from tests.ops import test_histograms, test_norms
from tests.support.faults import Fault, Patch, caught, pairs, replace
from tests.support.moving import Case, run_case
from tests.support.two_worlds import differences

pytestmark = pytest.mark.slow

START = {"*/window": (25, 60, 23), "*/precision": (16, 12), "losses": [9.0, 9.0]}
MIXED = START | {"fc2/window": (30, 60, 28), "fc3/precision": (12, 9), "G": 15}
SOON = {"*/window": (25, 60, 23), "G": 15, "norms": 20}
PLATEAU = START | {"plateau": (1, 0.5, 0), "strategy": 1}
MOVES = {"diversities": [100.0, 0.01]}
EVERY = {"resolution": 1, "patience": 1}

STEPS = {
    "adapt": Case("adapt", batch=2, options={"eps": 0.05, "accs": 2}, start=MIXED, lr=(1, 1)),
    "strict": Case("adapt", seed=3, batch=2, options={"l1": 1e-3, "rop": 1}, start=PLATEAU, lr=(1, 1)),
    "unnormalized": Case("adapt", batch=2, options={"normalize": "off"}, start=SOON, lr=(1, 1)),
    "muppet": Case("muppet", batch=2, options=EVERY, start=MOVES),
    "kept": Case("muppet", batch=2, options={"resolution": 2}, start=MOVES),
    "float": Case("muppet", batch=2, options={"float_epochs": 2}, start={"level": 4, "switched": 3}),
}


def stepping(case: Case) -> Callable[[], None]:
    def sweep() -> None:
        for result in run_case(case, steps=3 if "float_epochs" in case.options else 2):
            assert differences(result) == []

    return sweep


def edges() -> None:
    test_histograms.test_a_value_on_an_edge_belongs_to_the_bin_above()
    test_histograms.test_outside_counts_in_the_end_bins()


def push_down() -> None:
    """Known weights, and some at random with eps of two kinds."""
    test_adapt_switch.test_push_down_of_known_weights()
    for seed in range(12):
        w, values, words = test_adapt_switch.weights(seed, 25, seed % 4 - 2)
        for eps in (0.0, 0.2):
            got = adapt_switch.push_down(w, 12, 8, 8, eps, words)
            assert got == test_adapt_switch.oracle.push_down(values, (12, 8), 8, eps, words.tolist())


SWEEPS: dict[str, Callable[[], None]] = {
    **{name: stepping(case) for name, case in STEPS.items()},
    "edges": edges,
    "push_down": push_down,
    "KL": lambda: test_adapt_switch.agree([2, 1, 5], [1, 3, 4]),
    "lookback": test_adapt_switch.test_next_lookback_at_every_threshold,
    "resolution": test_adapt_switch.test_next_resolution,
    "strategy": test_adapt_switch.test_next_strategy_where_float64_cannot_tell,
    "suggestion": lambda: test_adapt_switch.test_suggestions_at_every_threshold("graded"),
    "scale": lambda: test_scaled.test_at_the_edges_of_the_scale(8),
    "clip": test_scaled.test_the_released_codes_plus_128_is_127_here,
    "zeros": lambda: test_scaled.test_zeros_and_one_side(8),
    "sums": lambda: test_norms.test_sums_of_squares_and_of_magnitudes(3000),
    "violations": test_muppet.test_violations_beside_the_threshold,
    "rates": test_muppet.test_learning_rates_after_the_switch,
    "levels": test_muppet.test_the_levels_and_their_end,
}


@pytest.mark.parametrize("name", SWEEPS)
def test_without_a_fault_every_sweep_passes(name: str) -> None:
    assert not caught(SWEEPS[name])


# -- histograms and PushDown -----------------------------------------------------------------------


def edge_below(_: Any, values: np.ndarray, starts: np.ndarray, counts: np.ndarray) -> None:
    """`>` in place of `>=`: an edge belongs to the bin below it."""
    np.add.at(counts[0], np.searchsorted(starts, values, side="left"), 1)


def outside_dropped(_: Any, values: np.ndarray, starts: np.ndarray, counts: np.ndarray) -> None:
    """What is above the last inner edge by more than a bin is not counted."""
    inside = values <= starts[-1] + (starts[-1] - starts[0]) / max(len(starts) - 1, 1)
    np.add.at(counts[0], np.searchsorted(starts, values[inside], side="right"), 1)


def one_fl_more(original: Any, low: int, high: int, holds: Any) -> int:
    return min(int(original(low, high, holds)) + 1, high)


def never_the_upper_bound(original: Any, low: int, high: int, holds: Any) -> int:
    """The bisection ends one too early."""
    return max(int(original(low, high, holds)) - 1, low)


def other_words(patch: Patch) -> None:
    """Each candidate draws words of its own."""
    original, count = quantizers.quantize, [0]

    def faulty(*args: Any, words: Any, **more: Any) -> Any:
        count[0] += 1
        return original(*args, words=np.roll(words, count[0]), **more)

    patch.setattr(adapt_switch, "quantize", faulty)


def range_of_codes(patch: Patch) -> None:
    """P over its own range, not that of W."""
    original = adapt_switch.count_codes

    def faulty(q: QTensor, edges: list[Fraction]) -> Any:
        values = q.fractions()
        return original(q, histograms.inner_edges(values.min(), values.max(), len(edges) + 1))

    patch.setattr(adapt_switch, "count_codes", faulty)


# -- AdaPT's state ---------------------------------------------------------------------------------


def never_reset(original: Any, self: Adapt, layer: Any, parameter: Any) -> None:
    """G goes on after a switch."""
    kept = parameter.slots["G"]
    original(self, layer, parameter)
    parameter.slots["G"] = kept


def count_goes_on(original: Any, self: Adapt, layer: Any, parameter: Any) -> None:
    """n goes on after a switch."""
    n = int(layer.buffers["window"].codes[2])
    original(self, layer, parameter)
    layer.buffers["window"].codes[2] = n


def switch_behind_the_update(patch: Patch) -> None:
    """PushDown sees the weights after their update."""
    gather, later = Adapt._gather, Adapt.update_all

    def faulty(self: Adapt, updates: Any) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(Adapt, "_gather", lambda *_: None)
            later(self, updates)
        for layer, parameter, gradient in updates:
            if parameter.symbol == "W":
                gather(self, layer, parameter, gradient)

    patch.setattr(Adapt, "update_all", faulty)


def format_of_the_next(patch: Patch) -> None:
    """Batch norm and activation take the format of the weight layer after them."""

    def follow(self: Adapt, layers: Any) -> None:
        self._weighted = [layer for layer in layers if layer.takes_weight]
        self._behind = {layer.name: [] for layer in self._weighted}
        current = self._weighted[-1]
        for layer in reversed(layers):
            current = layer if layer.takes_weight else current
            self._behind[current.name].append(layer)

    patch.setattr(Adapt, "follow", follow)


def sum_of_batches(patch: Patch) -> None:
    """An update takes the sum of the gathered gradients, not their mean."""
    original = Adapt.update

    def faulty(self: Adapt, layer: Any, parameter: Any, gradient: Any) -> None:
        waiting = int(self.state["waiting"].codes[0]) + 1 < self.options.accs
        if not waiting and "waiting" in parameter.slots:
            parameter.slots["waiting"] = parameter.slots["waiting"] * np.float32(2)
            gradient = gradient * np.float32(2)
        original(self, layer, parameter, gradient)

    patch.setattr(Adapt, "update", faulty)


def plateau_too_early(original: Any, state: Any, loss: float, *rule: Any) -> Any:
    return original([state[0], state[1], state[2] + 1], loss, *rule)


def unit(g: np.ndarray) -> np.ndarray:
    """Of length 1."""
    return g / np.float32(np.linalg.norm(g) or 1)


def norms_go_on(original: Any, self: Adapt, layer: Any, parameter: Any) -> None:
    """The norms of (3.3) are not emptied with G."""
    kept = parameter.slots["norms"]
    original(self, layer, parameter)
    parameter.slots["norms"] = kept


# -- MuPPET ----------------------------------------------------------------------------------------


def swapped_limits(original: Any, x: Any, format: Scaled, *more: Any) -> Any:
    """UB + 1/2 for the minimum, LB - 1/2 for the maximum."""
    return original(x, SimpleNamespace(hi=-format.lo, lo=-format.hi), *more)


def limits_without_a_half(original: Any, x: Any, format: Scaled, *more: Any) -> int:
    """UB/max and LB/min."""
    s, top = int(original(x, format, *more)), x.max()
    return s if not top or top * Fraction(2) ** s <= format.hi else s - 1


def maximum_alone(original: Any, x: Any, format: Scaled, *more: Any) -> Any:
    """The greatest magnitude decides by UB alone."""
    top = x.max()
    return quantizers.floor_log2(Fraction(2 * format.hi + 1, 2) / (top or 1))


def no_saturation(patch: Patch) -> None:
    def faulty(x: Any, format: Scaled, rounding: Rounding) -> QTensor:
        s = quantizers.scale(x, format, rounding.where)
        codes, status = x.round_to(-s, rounding.within(-(1 << 40), 1 << 40))
        return QTensor(codes, -s, format, 1 << 40, status)

    patch.setitem(quantizers._QUANTIZERS, Scaled, faulty)


def never_emptied(original: Any, self: Muppet) -> None:
    """S goes on after a switch."""
    seen = self.state["diversities"]
    original(self)
    if not self.state["diversities"].size:
        self.state["diversities"] = seen


def violations_go_on(original: Any, self: Muppet) -> None:
    original(self)
    if self.number("switched") == self.epoch + 1:
        self.state["violations"].codes[0] = 1


def sum_over_layers(original: Any, layers: Any) -> float:
    return float(original(layers)) * len(layers)


def first_gradient(original: Any, slots: dict[str, Any], gradient: np.ndarray, where: str) -> None:
    """Only one gradient a diversity is kept."""
    if "sum" not in slots:
        original(slots, gradient, where)


def tenth_too_late(original: Any, self: Muppet) -> float:
    """A learning rate stays for an epoch more."""
    late = int(self.wl is None)
    with self.within(epoch=self.epoch - late):
        return float(original(self))


def other_stream(patch: Patch) -> None:
    """W is rounded by the words of 'Wq'."""
    original = rng.stream
    patch.setattr(rng, "stream", lambda name: original(name + "q" if name.endswith("/W") else name))


def to_nearest(patch: Patch) -> None:
    """Activations are rounded to nearest in training too."""
    for kind in (Adapt, Muppet):
        patch.setattr(kind, "rounded", _nearest(kind.rounded))


def _nearest(original: Any) -> Any:
    def faulty(self: Any, layer: Any, path: str, value: Any, stream: str = "") -> Any:
        with self.within(training=bool(stream)):
            return original(self, layer, path, value, stream)

    return faulty


SWITCH = adapt_switch
FAULTS: dict[str, tuple[Fault, list[str]]] = {
    "edge below": (replace(histograms, "_count", edge_below), ["edges"]),
    "outside dropped": (replace(histograms, "_count", outside_dropped), ["edges"]),
    "sum in another order": (
        lambda patch: patch.setattr(norms, "sum_of_squares", lambda x: float(np.dot(x, x))), ["sums"]),
    "P and Q swapped": (
        replace(SWITCH, "diverges", lambda f, p, q, eps: f(q, p, eps)), ["KL", "push_down", "adapt"]),
    "KL with natural logarithm": (
        lambda patch: patch.setattr(SWITCH, "LN2", 1.0), ["KL"]),
    "one bit more": (replace(SWITCH, "_least", one_fl_more), ["push_down", "adapt", "strict"]),
    "one bit less": (replace(SWITCH, "_least", never_the_upper_bound), ["push_down", "adapt", "strict"]),
    "eps below": (replace(SWITCH, "diverges", lambda f, p, q, eps: f(p, q, eps / 2)), ["push_down"]),
    "words of its own": (other_words, ["push_down"]),
    "range of P": (range_of_codes, ["push_down", "adapt"]),
    "not normalised": (lambda patch: patch.setattr(adapt, "code_squares", lambda codes: 1), ["adapt"]),
    "G not reset": (replace(Adapt, "_switch", never_reset), ["adapt", "strict"]),
    "n not reset": (replace(Adapt, "_switch", count_goes_on), ["adapt"]),
    "switch behind the update": (switch_behind_the_update, ["strict"]),
    "format of the next": (format_of_the_next, ["adapt"]),
    "sum of batches": (sum_of_batches, ["adapt"]),
    "strategy not stepping": (
        replace(SWITCH, "next_strategy", lambda f, st, seen: st), ["strict", "strategy"]),
    "strategy by the other side": (
        replace(SWITCH, "next_strategy", lambda f, st, seen: f(st, [-seen[-1], *seen[:-1]])), ["strict"]),
    "no penalties": (replace(Adapt, "penalized", lambda f, self, loss: loss), ["strict"]),
    "norms not emptied": (replace(Adapt, "_switch", norms_go_on), ["unnormalized"]),
    "D of normalized": (
        replace(Adapt, "gradient", lambda f, *given: unit(f(*given))), ["unnormalized"]),
    "reading as printed": (
        replace(SWITCH, "suggestions", lambda f, d, fl, *_: f(d, fl, "printed")), ["suggestion", "adapt"]),
    "lookback by the floor": (
        replace(SWITCH, "next_lookback", lambda f, *a: max(int(f(*a)) - 1, 25)), ["lookback", "adapt"]),
    "gamma of the old": (
        replace(SWITCH, "next_lookback", lambda f, lb, d, o: f(lb, d, o._replace(gamma=1 - o.gamma))),
        ["lookback", "adapt"]),
    "resolution stays": (replace(SWITCH, "next_resolution", lambda f, r, *_: r), ["resolution", "strict"]),
    "s rounded down": (
        replace(SWITCH, "_ceil", lambda f, x: int(x)), ["suggestion", "adapt"]),
    "buffer of 4": (
        replace(SWITCH, "push_up", lambda f, *a: f(*a[:-1], a[-1]._replace(buff=a[-1].buff + 1))),
        ["adapt", "strict"]),
    "plateau too early": (replace(schedules, "reduce_on_plateau", plateau_too_early), ["strict"]),
    "LB and UB swapped": (replace(quantizers, "scale", swapped_limits), ["scale", "clip"]),
    "limits without a half": (replace(quantizers, "scale", limits_without_a_half), ["scale", "clip"]),
    "maximum alone": (replace(quantizers, "scale", maximum_alone), ["scale"]),
    "scale one too small": (
        replace(quantizers, "scale", lambda f, *a: f(*a) - 1), ["scale", "zeros", "muppet"]),
    "no saturation": (no_saturation, ["scale", "clip"]),
    "S not emptied": (replace(Muppet, "_police", never_emptied), ["muppet"]),
    "violations go on": (replace(Muppet, "_police", violations_go_on), ["muppet"]),
    "sum over layers": (replace(muppet, "diversity", sum_over_layers), ["muppet"]),
    "one gradient a diversity": (replace(muppet, "_keep", first_gradient), ["kept"]),
    "violates by the least": (
        replace(muppet, "violates", lambda f, seen, d, e: f([min(seen)] if seen else [], d, e)), ["muppet"]),
    "threshold of the next epoch": (
        replace(muppet, "violates", lambda f, seen, d, e: f(seen, d, e + 1)), ["violations"]),
    "tenth too late": (replace(Muppet, "rate", tenth_too_late), ["float", "rates"]),
    "other stream": (other_stream, ["adapt", "muppet"]),
    "to nearest": (to_nearest, ["adapt", "muppet"]),
}  # fmt: skip


@pairs(FAULTS)
def test_a_fault_is_caught(fault: str, sweep: str, monkeypatch: Patch) -> None:
    FAULTS[fault][0](monkeypatch)
    assert caught(SWEEPS[sweep])
