"""Explanations of a whole WAGEUBN step, element by element, against the oracle's fractions.

`Oracle` makes every path's exact value again from the oracle's own tensors; grid, rounding and saturation
are the oracle's too. 1,000 random elements of every path over all layers, or all where there are fewer.
"""

from __future__ import annotations

import random
from collections import defaultdict
from fractions import Fraction
from math import prod

import numpy as np
import pytest

from intnet.inspect.explain import Explanation, explain
from intnet.inspect.operands import Operands
from intnet.methods import Wageubn
from intnet.methods.trace import Event
from intnet.numbers.qtensor import QTensor
from intnet.spec import batch_norm as norm
from intnet.spec import formats as quantizers
from intnet.spec import pooling as ops
from intnet.spec import power, round_fraction
from intnet.spec.rounding import round_sqrt
from intnet.spec.tensor import Fixed, Tensor, place_of
from intnet.spec.words import words
from tests.support.stepping import JOINS, Case, run_case
from tests.support.two_worlds import Result

SAMPLES = 1000
CASES = [
    Case(seed=31, e2="flag8", batch=4),
    Case(seed=32, e2="16", batch=4, weights="ties", dr=(64, 64)),
    Case(seed=33, e2="flag8", batch=2, weights="extreme", lr=(511, 511)),
]
BN = {"conv1": "bn1", "conv2": "bn2", "downsample.0": "downsample.1"}
# log2 of the step of every direct path; R(x) adds to the others
GRIDS = {"Wq": -7, "gammaq": -7, "betaq": -7, "mu": -15, "sigma": -15, "x2": -15, "x4": -7}
GRIDS |= {"ggammaq": -14, "gbetaq": -14, "W": -23, "gamma": -23, "beta": -23}
GRIDS |= {"Accq": -12, "Accq_gamma": -12, "Accq_beta": -12}


class Oracle:
    """The exact values before rounding, by 'layer/path', of the hidden layers."""

    def __init__(self, case: Case, result: Result) -> None:
        self.case, self.step, self.old = case, result.expected, case.state()
        self.values: dict[str, list[Fraction]] = {}
        for block, shortcut in JOINS.items():
            for conv in ("conv1", "conv2") + ("downsample.0",) * ("downsample" in shortcut):
                self._conv(f"{block}.{conv}", f"{block}.{BN[conv]}")
            self._relu(f"{block}.relu1", self._real(f"{block}.bn1/x3"), self._real(f"{block}.conv2/e4"))
            self._relu(f"{block}.relu2", self._real(f"{block}.relu2/x3"), self._joined(block))
        self._bn("bn1")
        self._relu("relu1", self._real("bn1/x3"), self._joined(""))

    def _real(self, name: str) -> list[Fraction]:
        return self.step.tensors[name].real().values

    def _old(self, name: str) -> list[Fraction]:
        return self.old[name].real().values

    def _joined(self, name: str) -> list[Fraction]:
        """The error that reaches the ReLU at the end of block `name` ('' for the stem's)."""
        following = ["", *JOINS]
        place = following.index(name) + 1
        if place == len(following):
            shape = self.step.tensors[f"{name}.relu2/x4"].shape
            e4 = self.step.tensors["fc/e4"]
            return ops.pooled_grad(e4, ops.adaptive_windows(shape, 1)).values
        after = following[place]
        joined = "downsample.0/e4" if "downsample" in JOINS[after] else "relu2/e1"
        shortcut = f"{after}.{joined}"
        pairs = zip(self._real(f"{after}.conv1/e4"), self._real(shortcut), strict=True)
        return [a + b for a, b in pairs]

    def _relu(self, layer: str, x3: list[Fraction], incoming: list[Fraction]) -> None:
        self.values[f"{layer}/x4"] = [max(v, Fraction(0)) for v in x3]
        self.values[f"{layer}/e0"] = incoming

    def _conv(self, layer: str, bn: str) -> None:
        self._bn(bn)
        grad = norm.batch_norm_grad(*(self.step.tensors[f"{bn}/{path}"] for path in ("e2", "x2", "sigma")))
        self.values |= {
            f"{layer}/Wq": self._old(f"{layer}/W"),
            f"{layer}/e3": grad.dx1.values,
            f"{layer}/gWq": self._real(f"{layer}/gW"),
        }
        self._update(layer, "W", "")

    def _bn(self, layer: str) -> None:
        source = (
            "conv1"
            if layer == "bn1"
            else next(
                f"{layer.removesuffix(bn)}{conv}" for conv, bn in BN.items() if layer.endswith(f".{bn}")
            )
        )
        x1: Tensor = self.step.tensors[f"{source}/x1"].real()
        statistics = norm.mean_and_variance(x1)
        width = [v + norm.EPS for v in self._real(f"{layer}/sigma")]
        centre, c = self._real(f"{layer}/mu"), len(statistics)
        e2, x2 = self._real(f"{layer}/e2"), self._real(f"{layer}/x2")
        n = len(e2) // c
        self.values |= {
            f"{layer}/mu": [mean for mean, _ in statistics],
            f"{layer}/sigma": [variance for _, variance in statistics],
            f"{layer}/x2": [(v - centre[i % c]) / width[i % c] for i, v in enumerate(x1.values)],
            f"{layer}/m1": [sum(e2[k::c]) / Fraction(n) for k in range(c)],
            f"{layer}/m2": [
                sum(e * x for e, x in zip(e2[k::c], x2[k::c], strict=True)) / Fraction(n) for k in range(c)
            ],
        }
        for name in ("gamma", "beta"):
            self.values[f"{layer}/{name}q"] = self._old(f"{layer}/{name}")
            self.values[f"{layer}/g{name}q"] = self._real(f"{layer}/g{name}")
            self._update(layer, name, f"_{name}")

    def _update(self, layer: str, name: str, slot: str) -> None:
        acc = self._real(f"{layer}/Acc{slot}")
        lr = self.case.lr[0] * power(-9)
        old = self._old(f"{layer}/{name}")
        self.values[f"{layer}/Accq{slot}"] = acc
        self.values[f"{layer}/{name}"] = [w - lr * a for w, a in zip(old, acc, strict=True)]

    def grid(self, name: str, value: Fraction, log2_r: int) -> int:
        """log2 of the step that the element's value is rounded to."""
        layer, path = name.split("/")
        if path in GRIDS:
            return GRIDS[path]
        if path in ("m1", "m2"):
            return self.step.tensors[f"{layer}/e2"].exponent - 16
        if path == "gWq":
            return log2_r - (self.case.dr[0].bit_length() - 1)
        if path == "e3" and self.case.e2 == "flag8":
            return log2_r - 7 if abs(value) >= power(log2_r - 7) else log2_r - 14
        return log2_r - (15 if path == "e3" else 7)


def check_rounded(oracle: Oracle, name: str, one: Explanation, flat: int, log2_r: int) -> None:
    """Exact value, scaled value, floor, remainder, decision and the code before saturation."""
    got, value = one.rounding, oracle.values[name][flat]
    assert got is not None
    unit = power(oracle.grid(name, value, log2_r))
    assert power(got.grid) == unit
    if name.endswith("/sigma"):
        assert one.value.square == value
        assert got.rounded == round_sqrt(value / unit**2)
        assert got.floor <= got.rounded <= got.floor + 1
        return
    assert one.value.value == value
    scaled = value / unit
    assert (got.scaled, got.floor) == (scaled, scaled.numerator // scaled.denominator)
    assert got.remainder == scaled - got.floor and got.tie == (got.remainder == Fraction(1, 2))
    if name.endswith("/gWq"):
        stream = name.removesuffix("q")
        drawn = words(oracle.case.seed, oracle.case.first_step, stream, 1, start=flat)[0]
        assert got.word == drawn
        expected = round_fraction(scaled, "stochastic", drawn, 32)
    else:
        expected = round_fraction(scaled, "ties_even")
    assert got.rounded == expected == got.floor + got.up
    assert got.saturated == (got.kept != got.rounded)


def check(oracle: Oracle, result: Result, name: str, one: Explanation, flat: int, log2_r: int) -> None:
    """The whole explanation of one element against the oracle's tensors."""
    expected = result.expected.tensors[name]
    if isinstance(expected, Fixed):
        code = expected.codes[flat]
        assert (one.code, one.exponent) == (code, expected.exponent), name
        assert one.width is not None
        assert int(one.binary, 2) == int(one.hex, 16) == code % 2**one.width
        assert one.stored == code * power(expected.exponent)
    else:
        assert one.stored == expected.values[flat]
    if name in oracle.values:
        check_rounded(oracle, name, one, flat, log2_r)
    elif one.value.value is not None and one.rounding is None:
        assert one.stored == one.value.value


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_thousand_elements_of_every_path_equal_the_oracle(case: Case) -> None:
    result = run_case(case)[0]
    oracle, operands = Oracle(case, result), Operands(result.events, Wageubn.SYMBOLS)
    by_path: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for name, event in result.events.items():
        by_path[event.path] += [(name, i) for i in range(prod(event.result.shape))]
    # the oracle holds the rounding of all quantized values of hidden layers
    assert {path for path, e in ((e.path, e) for e in result.events.values()) if e.format} >= set(GRIDS)
    rounded = {n for n, e in result.events.items() if e.format and n not in ("conv1/x1",)}
    assert rounded == set(oracle.values)
    log2_r = {n: quantizers.exponent_of(values) for n, values in oracle.values.items()}
    chosen = random.Random(case.seed)
    for path, places in by_path.items():
        for name, flat in chosen.sample(places, min(SAMPLES, len(places))):
            event = result.events[name]
            one = explain(event, place_of(flat, event.result.shape), operands)
            check(oracle, result, name, one, flat, log2_r.get(name, 0))
        assert places, path


@pytest.mark.slow
def test_operands_carry_the_papers_names() -> None:
    result = run_case(CASES[0])[0]
    operands = Operands(result.events, Wageubn.SYMBOLS)

    def named(name: str) -> list[str]:
        event = result.events[name]
        return [term.name for term in explain(event, (0,) * len(event.result.shape), operands).value.terms]

    layer = "layer1.0"
    assert named(f"{layer}.bn1/x2") == ["x1"]
    assert named(f"{layer}.conv1/e3") == ["e1", "x2"]
    assert named(f"{layer}.relu2/x4") == [f"{layer}.bn2/x2", "relu1/x4"]
    assert named(f"{layer}.conv1/W") == ["W", "Acc"]
    assert named(f"{layer}.bn1/Acc_gamma") == ["Accq_gamma", "ggammaq"]
    for path, terms in (("x1", 4 * 9), ("e4", 4 * 9), ("gW", 4 * 36)):
        product = operands.product(result.events[f"{layer}.conv1/{path}"])
        assert product is not None and product.terms == terms and product.bound > 0


def test_a_grouped_convolution_sums_within_its_group() -> None:
    def event(path: str, *shape: int) -> Event:
        value = QTensor(np.zeros(shape, np.int8), 0)
        return Event("conv", path, 0, value, value)

    shapes = {"Wq": (6, 2, 3, 3), "x0": (5, 8, 8, 4), "x1": (5, 8, 8, 6), "e3": (5, 8, 8, 6)}
    shapes |= {"e4": shapes["x0"], "gW": shapes["Wq"]}  # two groups: 2 -> 3 channels each
    events = {f"conv/{path}": event(path, *shape) for path, shape in shapes.items()}
    operands = Operands(events, Wageubn.SYMBOLS)
    products = {path: operands.product(events[f"conv/{path}"]) for path in ("x1", "e4", "gW")}
    assert {path: one.terms for path, one in products.items() if one} == {"x1": 18, "e4": 27, "gW": 320}


@pytest.mark.slow
def test_every_path_of_the_step_has_a_symbol() -> None:
    for event in run_case(CASES[0])[0].events.values():
        assert event.path in Wageubn.SYMBOLS, event.path
