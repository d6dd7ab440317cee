"""Test the tester: faults put into DYNASTY's sensitivities, maps and steps, one at a time, are each seen.

Every fault is what a careless edit would do. The sweeps pass without one, so what makes them fail is it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from intnet.exact.blocks import block_loops
from intnet.methods import Dynasty, dynasty, dynasty_map
from intnet.ops.products import Copies
from tests.methods import test_dynasty_map
from tests.support.dynasty_world import Case, differences, steps_of
from tests.support.faults import Fault, Patch, caught, pairs, replace

pytestmark = pytest.mark.slow

STEPS = {
    "mlp": Case(short=3, options={"bits": 3.0, "weight_bits": 5.0, "gamma": 0.25}),
    "swapped": Case(seed=2, full=1, options={"forward_dynamic": "weight", "gamma": 0.0}),
    "wide": Case(seed=7, batch=9, full=1, short=5, options={"gamma": 0.0}),
    "lenet": Case("lenet", seed=9, batch=3, full=1, epochs=1),
    "resnet": Case("resnet", seed=10, batch=2, full=1, epochs=1),
}


def stepping(case: Case) -> Callable[[], None]:
    def sweep() -> None:
        for result in steps_of(case):
            assert differences(result) == []

    return sweep


SWEEPS: dict[str, Callable[[], None]] = {
    **{name: stepping(case) for name, case in STEPS.items()},
    "by hand": test_dynasty_map.test_algorithm_1_by_hand,
    "guards": lambda: test_dynasty_map.test_guards(4.0),
    "alive": test_dynasty_map.test_dead_blocks_that_come_alive_find_their_widths_again,
    "optimum": lambda: test_dynasty_map.test_a_map_of_equal_work_is_the_optimum(6, 4, 4.0),
    "long": test_dynasty_map.test_long_maps_are_summed_whole,
    "S": lambda: test_dynasty_map.test_sensitivities((5, 2, 3, 7), (0, 3)),
    "rounding": test_dynasty_map.test_rounding_of_every_tie_and_what_lies_beside,
    "counts": lambda: test_dynasty_map.test_multiply_adds_counted_one_by_one(3, 2),
}


# -- sensitivities ---------------------------------------------------------------------------------


def plain_sensitivities(
    *, exponent: int = 2, sixteenth: int = 4, dead: bool = False, square: bool = True, flat: bool = False
) -> Fault:
    """A plain twin of the loop that adds up S, with room for a fault."""

    def add(g: np.ndarray, inner: int, exponents: np.ndarray, filled: np.ndarray, sums: np.ndarray) -> None:
        for a, m, b, s in np.ndindex(*exponents.shape):
            part = g[4 * a : 4 * a + 4, m, 4 * b * inner + s : 4 * (b + 1) * inner : inner]
            total = 0.0
            for x in (part.T if flat else part).astype(np.float64).reshape(-1).tolist():
                total += x * x if square else abs(x)
            if filled[a, m, b, s] or dead:
                sums[a, m, b, s] += total * 2.0 ** (exponent * int(exponents[a, m, b, s]) - sixteenth)

    return lambda patch: patch.setattr(block_loops, "add_sensitivities", add)


def of_the_last_step(patch: Patch) -> None:
    """g of this step, e of the one before."""
    original, kept = Dynasty._add, {}

    def faulty(self: Dynasty, layer: Any, blocks: Any, g: np.ndarray, store: Any, kind: str) -> None:
        before = kept.get(id(store), blocks)
        kept[id(store)] = blocks
        original(self, layer, before if before.shape == blocks.shape else blocks, g, store, kind)

    patch.setattr(Dynasty, "_add", faulty)


def short_batch_added(
    original: Any, self: Dynasty, layer: Any, blocks: Any, g: np.ndarray, store: dict[str, Any], kind: str
) -> None:
    """As far as its blocks go."""
    batch, self._batch = self._batch, self.number("images")
    if "S" not in store or store["S"].shape == blocks.bits.shape:
        original(self, layer, blocks, g, store, kind)
    self._batch = batch


def short_batch_counted(original: Any, self: Dynasty) -> None:
    self._batch = self.number("images")
    original(self)


def sums_go_on(original: Any, self: Dynasty, kind: str, part: Any, *made: Any) -> None:
    """S is not emptied."""
    kept = {name: store["S"] for name, store in part.stores.items()}
    original(self, kind, part, *made)
    for name, store in part.stores.items():
        store["S"] = kept[name]


# -- maps ------------------------------------------------------------------------------------------


def one_after_another(_: Any, lam: float, r: np.ndarray, alpha: float, __: Any = None) -> float:
    """lambda is set before lambda_0 or lambda_1 takes its old value."""
    lam0, lam1 = float(r[np.isfinite(r)].min()) - alpha, float(r.max()) - alpha
    for _ in range(3):
        mean = dynasty_map.mean_width(r, lam)
        end = lam1 if mean > alpha else lam0
        other = dynasty_map.mean_width(r, end)
        if mean == other:
            break
        t = (mean - alpha) / (mean - other)
        lam = (1 - t) * lam + t * end
        lam0, lam1 = (lam, lam1) if mean > alpha else (lam0, lam)
    return lam


def without_an_end(_: Any, lam: float, r: np.ndarray, alpha: float, __: Any = None) -> float:
    """A step may lead beyond the interval."""
    finite = r[np.isfinite(r)]
    lam0, lam1 = float(finite.min()) - alpha, float(finite.max()) - alpha
    for _ in range(3):
        mean = dynasty_map.mean_width(r, lam)
        other = dynasty_map.mean_width(r, lam1 if mean > alpha else lam0)
        if mean == other:
            break
        t = (mean - alpha) / (mean - other)
        if mean > alpha:
            lam0, lam = lam, (1 - t) * lam + t * lam1
        else:
            lam1, lam = lam, (1 - t) * lam + t * lam0
    return lam


def smoothed_after_rounding(original: Any, last: np.ndarray, new: np.ndarray, gamma: float) -> np.ndarray:
    rounded = [dynasty_map.rounded(b).astype(np.float32) for b in (last, new)]
    return np.asarray(original(*rounded, gamma))


def every_window(original: Any, size: int, kernel: int, stride: int, padding: int) -> tuple[Any, Any]:
    """Places of the kernel that lie in the padding count too."""
    return original(size, kernel, stride, padding)[0], np.full(
        kernel, (size + 2 * padding - kernel) // stride + 1
    )


def stale_maps(patch: Patch) -> None:
    """The first map stays in use."""
    original, kept = Dynasty.bits, {}

    def faulty(self: Dynasty, layer: Any, kind: str, store: dict[str, Any], blocks: Any) -> np.ndarray:
        bits = original(self, layer, kind, store, blocks)
        return kept.setdefault((id(self), layer.name, kind, blocks), bits)

    patch.setattr(Dynasty, "bits", faulty)


def last_rows(original: Any, self: Dynasty, layer: Any, kind: str, store: Any, blocks: Any) -> np.ndarray:
    """A short batch reads the end of the map."""
    rows = store["b"].shape[0] if "b" in store else 0
    if kind == "weights" or rows <= blocks[0]:
        return np.asarray(original(self, layer, kind, store, blocks))
    whole = original(self, layer, kind, store, (rows, *blocks[1:]))
    return np.ascontiguousarray(whole[rows - blocks[0] :])


# -- products --------------------------------------------------------------------------------------


def errors_by_rows(original: Any, self: Dynasty, layer: Any, path: str, *rest: Any) -> Any:
    """E in blocks of (batch, row of the image)."""
    value, bits, axes = rest
    if path == "e3" and value.ndim == 4:
        turned = np.ascontiguousarray(value.swapaxes(1, 3))
        value = np.ascontiguousarray(original(self, layer, path, turned, bits, axes).values.swapaxes(1, 3))
    return original(self, layer, path, value, bits, axes)


def narrow_errors(original: Any, self: Dynasty, layer: Any, path: str, *rest: Any) -> Any:
    value, bits, axes = rest
    return original(self, layer, path, value, 6 if path == "e3" else bits, axes)


def images_by_the_map(original: Any, self: Dynasty, layer: Any, path: str, value: Any) -> Any:
    """The first layer's input is dynamic too."""
    edge, layer.edge = layer.edge, ""
    try:
        return original(self, layer, path, value)
    finally:
        layer.edge = edge


FAULTS: dict[str, tuple[Fault, list[str]]] = {
    "2^e not squared": (plain_sensitivities(exponent=1), ["S"]),
    "not over 16": (plain_sensitivities(sixteenth=0), ["mlp", "S"]),
    "g not squared": (plain_sensitivities(square=False), ["S"]),
    "zero blocks count": (plain_sensitivities(dead=True), ["wide"]),
    "summed by columns": (plain_sensitivities(flat=True), ["S"]),
    "e of the last step": (of_the_last_step, ["mlp"]),
    "short batch added": (replace(Dynasty, "_add", short_batch_added), ["mlp", "wide"]),
    "short batch counted": (replace(Dynasty, "end_of_step", short_batch_counted), ["mlp", "wide"]),
    "S goes on": (replace(Dynasty, "_use", sums_go_on), ["mlp"]),
    "no half of log2": (
        replace(dynasty_map, "relative_sensitivity", lambda f, *a: 2 * f(*a)), ["mlp", "optimum"]),
    "T without stride": (
        replace(dynasty_map, "multiply_adds", lambda f, x, w, stride, padding: f(x, w, (1, 1), padding)),
        ["counts", "resnet"]),
    "T with padding": (replace(dynasty_map, "cover", every_window), ["counts", "lenet"]),
    "T of whole blocks": (
        replace(dynasty_map, "_in_blocks", lambda f, size: np.full(-(-size // 4), 4)), ["counts", "mlp"]),
    "T of an image": (
        replace(dynasty_map, "multiply_adds", lambda f, x, *a: f((1, *x[1:]), *a)), ["lenet"]),
    "unread blocks count": (
        replace(dynasty_map, "multiply_adds", lambda f, *a: tuple(np.maximum(t, 1) for t in f(*a))),
        ["counts", "resnet"]),
    "one after another": (replace(dynasty_map, "tune", one_after_another), ["mlp"]),
    "no end": (replace(dynasty_map, "tune", without_an_end), ["alive"]),
    "two rounds": (lambda patch: patch.setattr(dynasty_map, "ITERATIONS", 2), ["mlp"]),
    "lambda starts anew": (
        replace(Dynasty, "_lambda", lambda f, self, r, t, _, alpha: f(self, r, t, None, alpha)), ["mlp"]),
    "alpha of the others": (
        replace(Dynasty, "_lambda", lambda f, *given: f(*given[:-1], 8 - given[-1])), ["mlp"]),
    "mean of live blocks": (
        replace(dynasty_map, "mean_width", lambda f, r, lam: f(r[np.isfinite(r)], lam)), ["long"]),
    "beta of 7": (lambda patch: patch.setattr(dynasty_map, "BETA", 7.0), ["wide"]),
    "smoothed after rounding": (replace(dynasty_map, "smooth", smoothed_after_rounding), ["mlp"]),
    "smoothed the other way": (
        replace(dynasty_map, "smooth", lambda f, last, new, gamma: f(new, last, gamma)), ["mlp"]),
    "tie downward": (
        replace(dynasty_map, "rounded", lambda f, b: f(np.nextafter(b, np.float32(0)))), ["rounding"]),
    "loss noise as a sum": (
        replace(dynasty_map, "loss_noise", lambda f, s, n, b: f(s, n, b) * s.size), ["mlp"]),
    "stale maps": (stale_maps, ["mlp"]),
    "last rows": (replace(Dynasty, "bits", last_rows), ["wide"]),
    "first epoch of 6 bits": (lambda patch: patch.setattr(dynasty, "FIRST", 6.0), ["mlp"]),
    "static bits on the way back": (
        lambda patch: patch.setattr(dynasty, "Copies", lambda a, b: Copies(a, a)), ["mlp", "swapped"]),
    "dynamic bits in both": (
        lambda patch: patch.setattr(dynasty, "Copies", lambda a, b: Copies(b, b)), ["mlp", "swapped"]),
    "E by rows": (replace(Dynasty, "_block_float", errors_by_rows), ["lenet"]),
    "E in 6 bits": (replace(Dynasty, "_block_float", narrow_errors), ["mlp"]),
    "images by the map": (replace(Dynasty, "activation", images_by_the_map), ["mlp"]),
}  # fmt: skip


@pytest.mark.parametrize("name", SWEEPS)
def test_without_a_fault_every_sweep_passes(name: str, monkeypatch: Patch) -> None:
    plain_sensitivities()(monkeypatch)
    assert not caught(SWEEPS[name])


@pairs(FAULTS)
def test_a_fault_is_caught(fault: str, sweep: str, monkeypatch: Patch) -> None:
    FAULTS[fault][0](monkeypatch)
    assert caught(SWEEPS[sweep])
