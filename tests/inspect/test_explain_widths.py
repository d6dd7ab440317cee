"""Explanations of AdaPT's and MuPPET's steps, element by element, against exact values made here.

Each value is made again from what entered it, in Python integers and Fractions: masters and float32
tensors as they are, sums of products from the factors' codes. Grid, random word, rounding and limits are
the oracle's.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np
import pytest

from intnet.exact.quantize import quantize
from intnet.inspect.explain import Explanation, Rounding, explain
from intnet.inspect.operands import Input, Operands
from intnet.methods.trace import Event, Recorder
from intnet.numbers.formats import Scaled
from intnet.numbers.qtensor import QTensor
from intnet.runs import run_folder
from intnet.spec import power, round_fraction
from intnet.spec.tensor import place_of
from intnet.spec.words import words

SAMPLES, SEED, BATCH = 1000, 3, 8
BEFORE = {"fc2/x0": "relu1/x4", "fc3/x0": "relu2/x4", "relu1/x4": "bn1/x3", "relu2/x4": "bn2/x3"}
BEHIND = {"relu1/e0": "fc2/e4", "relu2/e0": "fc3/e4"}
STREAMS = {"Wq": "W", "bq": "b", "gammaq": "gamma", "betaq": "beta"}  # a gradient's is its path without q
CASES = [("adapt", 2), ("adapt", 26), ("muppet", 2), ("muppet level 1", 2), ("muppet level 3", 3)]

Values = list[Fraction]


class Step:
    """One step of an mlp: its events, the masters and widths before it, exact values before rounding."""

    def __init__(self, name: str, step: int) -> None:
        self.method = name.partition(" ")[0]
        run = run_folder.build(self.method, {}, "mlp", "digits", BATCH, SEED, limit=64)
        self.number, seen = step - 1, Recorder()
        if name[-1].isdigit():
            run.method.state["level"] = QTensor(np.array([int(name[-1])], np.int32), 0)
        run.train(self.number)
        self.old = {f"{layer.name}/{p.symbol}": p.value for _, layer, p in run.model.all_parameters()}
        self.fl = {
            layer.name: int(layer.buffers["precision"].codes[1])
            for layer in run.model.all_layers()
            if "precision" in layer.buffers
        }
        self.wl = (8, 12, 14, 16)[int(run.method.state["level"].codes[0])] if self.method == "muppet" else 0
        self.images = run.batch(self.number)[0]
        run.train(step, observe_last=[seen])
        self.events, self.symbols = seen.events, run.method.SYMBOLS

    def real(self, name: str) -> Values:
        """The exact values of a path."""
        result = self.events[name].result
        if isinstance(result, QTensor):
            return [int(code) * power(int(result.exponent)) for code in result.codes.reshape(-1)]
        return [Fraction(float(value)) for value in result.reshape(-1)]

    def exact(self, name: str) -> Values | None:
        """The exact values that were rounded; None where floats entered that no path holds."""
        layer, path = name.split("/")
        if path in STREAMS:
            return [Fraction(float(v)) for v in self.old[f"{layer}/{STREAMS[path]}"].reshape(-1)]
        if path == "gWq" and self.method == "muppet":
            errors, inputs = (list(zip(*self._rows(f"{layer}/{p}"), strict=True)) for p in ("e3", "x0"))
            return dots(errors, inputs)
        if path.startswith("g") and path.endswith("q"):
            return self.real(name.removesuffix("q"))
        if path == "x1" and layer.startswith("fc"):
            bias = self.real(f"{layer}/bq") if f"{layer}/bq" in self.events else [Fraction(0)]
            sums = dots(self._rows(f"{layer}/x0"), self._rows(f"{layer}/Wq"))
            return [dot + bias[i % len(bias)] for i, dot in enumerate(sums)]
        if name in BEHIND and self.method == "muppet":
            errors, weights = (self._rows(BEHIND[name].replace("e4", p)) for p in ("e3", "Wq"))
            return dots(errors, list(zip(*weights, strict=True)))
        return self._handed_on(name)

    def _handed_on(self, name: str) -> Values | None:
        if name == "fc1/x0":
            return [int(v) * power(int(self.images.exponent)) for v in self.images.codes.reshape(-1)]
        if name not in BEFORE:
            return None
        return [max(v, Fraction(0)) if name.endswith("x4") else v for v in self.real(BEFORE[name])]

    def _rows(self, name: str) -> list[Values]:
        values, width = self.real(name), self.events[name].result.shape[-1]
        return [values[i : i + width] for i in range(0, len(values), width)]

    def entering(self, name: str, values: Values | None) -> Values:
        """`values`, or the floats that were rounded."""
        return values or [Fraction(float(v)) for v in self.events[name].source.values.reshape(-1)]

    def grid(self, name: str, values: Values) -> tuple[int, int, int]:
        """(log2 of the step, least code, greatest code)."""
        if self.method == "adapt":
            half = 1 << int(self.events[name].format.bits) - 1
            return -self.fl[name.partition("/")[0]], -half, half - 1
        low, high = -(1 << self.wl - 1), (1 << self.wl - 1) - 1
        return -scale(values, low, high), low, high


def dots(rows: Any, columns: Any) -> Values:
    """The sum of products of every row with every column."""
    return [sum(a * b for a, b in zip(row, column, strict=True)) for row in rows for column in columns]


def scale(values: Values, low: int, high: int) -> int:
    """The greatest s at which every value, times 2^s, is within half a step of the limits; by trying."""
    s, half = 40, Fraction(1, 2)
    top, bottom = max(values), min(values)
    if top == bottom == 0:
        top = Fraction(1)
    while top * power(s) > high + half or bottom * power(s) < low - half:
        s -= 1
    return s


def rounded_in(step: Step) -> list[str]:
    return [name for name, event in step.events.items() if event.format]


def rounding(one: Explanation) -> Rounding:
    assert one.rounding is not None
    return one.rounding


def check(
    step: Step, name: str, one: Explanation, flat: int, values: Values | None, on: tuple[int, int, int]
) -> None:
    """The value that entered, and where it is rounded grid, word, decision, limits and code."""
    event, layer, path = step.events[name], *name.split("/")
    if values is not None:
        assert one.value.value == values[flat], name
    if event.format is None:
        assert one.rounding is None and (values is None or one.stored == values[flat])
        return
    r, value = rounding(one), one.value.value
    assert value is not None
    grid, low, high = on
    scaled = value / power(grid)
    assert (r.grid, r.low, r.high, r.overflow) == (grid, low, high, "saturate")
    assert (r.scaled, r.floor, r.remainder) == (scaled, scaled.__floor__(), scaled - scaled.__floor__())
    word = None
    if r.mode == "stochastic":
        stream = STREAMS.get(path, path.removesuffix("q"))
        (word,) = words(SEED, step.number, f"{layer}/{stream}", 1, start=flat)
    assert r.word == word and (word is not None or scaled.denominator == 1)
    assert r.rounded == round_fraction(scaled, r.mode, word) == r.floor + r.up
    assert one.code == r.kept == min(max(r.rounded, low), high)
    assert one.stored == one.code * power(grid) and int(one.binary, 2) == one.code % 2 ** (one.width or 0)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "number"), CASES)
def test_a_thousand_elements_of_every_path_are_exact(name: str, number: int) -> None:
    step = Step(name, number)
    operands, by_path = Operands(step.events, step.symbols), defaultdict(list)
    for path, event in step.events.items():
        by_path[event.path] += [(path, i) for i in range(prod(event.result.shape))]
        assert event.path in step.symbols
    if number == 26:  # the first switch was in step 25
        assert set(step.fl.values()) != {4}
    chosen, known = random.Random(number), {path: step.exact(path) for path in step.events}
    rounded = {e.path for e in step.events.values() if e.format}
    assert rounded >= {"Wq", "bq", "x1", "x3", "gWq", "gbq"} | ({"e0", "e3"} if step.wl else {"x4", "gammaq"})
    real = {path: step.real(path) for path in step.events}
    grids = {path: step.grid(path, step.entering(path, known[path])) for path in rounded_in(step)}
    for places in by_path.values():
        for path, flat in chosen.sample(places, min(SAMPLES, len(places))):
            event = step.events[path]
            one = explain(event, place_of(flat, event.result.shape), operands)
            assert one.stored == real[path][flat]
            check(step, path, one, flat, known[path], grids.get(path, (0, 0, 0)))


@pytest.mark.parametrize("method", ["adapt", "muppet"])
def test_what_entered_has_the_papers_names(method: str) -> None:
    step = Step(method, 2)
    operands = Operands(step.events, step.symbols)

    def first(name: str) -> Explanation:
        event: Event = step.events[name]
        return explain(event, (0,) * len(event.result.shape), operands)

    x1 = first("fc3/x1")
    assert [term.name for term in x1.value.terms] == ["Wq * x0"] and x1.value.offset_name == "bq"
    assert first("fc2/x1").value.offset_name == ""  # it has no bias
    assert x1.product is not None and x1.product.factors == ("fc3/Wq", "fc3/x0")
    assert (x1.product.terms, x1.product.bound) == (64, step.events["fc3/x1"].source.bound())
    assert [term.name for term in first("relu2/x4").value.terms] == ["bn2/x3"]
    assert first("fc2/Wq").value.number == float(step.old["fc2/W"][0, 0])
    assert operands.inputs(step.events["bn2/x1"]) == [Input("fc2", "x1")]
    assert operands.inputs(step.events["fc3/x1"]) == [Input("fc3", path) for path in ("Wq", "x0", "bq")]


# -- the scale of block float --------------------------------------------------------------------


def tensors(low: int, high: int) -> list[list[int]]:
    """Pairs in quarters of a step: every sign, and around both limits and their halves."""
    near = {4 * edge // 2**k + d for edge in (low, high) for k in (0, 1) for d in range(-4, 5)}
    ones = sorted(near | {0, 1, -1, 3, -3})
    pairs = [[a, b] for a in ones for b in ones]
    return random.Random(high).sample(pairs, min(200, len(pairs)))


@pytest.mark.slow
@pytest.mark.parametrize("wl", [1, 2, 3, 8])
@pytest.mark.parametrize(
    "make", [lambda c: QTensor(c, -2), lambda c: c.astype(np.float32) / 4], ids=["codes", "floats"]
)
def test_the_scale_is_the_greatest_that_fits(wl: int, make: Callable[[np.ndarray], Any]) -> None:
    low, high = -(1 << wl - 1), (1 << wl - 1) - 1
    for codes in tensors(low, high):
        source = make(np.array(codes, np.int32))
        event = Event("l", "p", 0, source, quantize(source, Scaled(wl)), Scaled(wl), "ties_even")
        values = [Fraction(code, 4) for code in codes]
        for i, value in enumerate(values):
            one = explain(event, (i,))
            r = rounding(one)
            assert r.grid == -scale(values, low, high), codes
            assert r.rounded == round_fraction(value / power(r.grid), "ties_even")
            assert one.code == min(max(r.rounded, low), high)
