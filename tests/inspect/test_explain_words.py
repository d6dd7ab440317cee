"""Small floats and MX blocks, looked into: every word's way by the definition, and what rounding cost."""

from fractions import Fraction as F
from math import log10
from typing import Any

import numpy as np
import pytest

from intnet import BF16, E2M1, E3M2, E4M3, E5M2, ApFixed, FixedPoint, Microscaling, quantize
from intnet.errors import NumberError
from intnet.inspect import text
from intnet.inspect.explain import explain
from intnet.inspect.explain_rules import Disagreement
from intnet.inspect.measure import errors_of, measure
from intnet.methods.trace import Event
from intnet.numbers.microscaling import MXFP4, MXFP8_E5M2, MXINT8
from intnet.numbers.small_floats import Float
from tests.support.user_formats import registered

__all__ = ["registered"]
MODES = ("ties_even", "ties_away", "ties_pos", "to_neg", "to_pos", "to_zero", "stochastic", "thirds")
FORMATS: list[Any] = [
    E2M1, E3M2, E4M3, E5M2, BF16, Float(3, 4, "none"),
    Microscaling(E2M1, 4, "ceil"), Microscaling(E4M3, (2, 4)), Microscaling(FixedPoint(4, 2), 4),
    Microscaling(FixedPoint(8, 6, overflow="saturate_symmetric"), (4, 1), "fit"),
]  # fmt: skip
RNG = np.random.default_rng(3)
X = (RNG.normal(0, 1, (4, 8)) * 2.0 ** RNG.integers(-9, 9, (4, 8))).astype(np.float32)
X[0, :6] = 0.0, -1e-9, 1.25, -0.0, 1e6, -2.5


def event(format: Any, mode: str = "ties_even", x: np.ndarray = X) -> Event:
    words = RNG.integers(0, 2**32, x.size, np.uint32) if mode == "stochastic" else None
    q = quantize(x, format, rounding=mode, words=words, word_bits=9)
    return Event("fc1", "x1", 0, x, q, format, mode, words, 9)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("format", FORMATS, ids=str)
def test_every_element_is_explained_to_its_word(format: Any, mode: str) -> None:
    if mode == "thirds" and isinstance(getattr(format, "element", None), FixedPoint):
        pytest.skip("blocks take no rule of a user's own where elements are fixed point")
    one = event(format, mode)
    values, words = one.result.fractions(), one.result.hex()
    for index in np.ndindex(X.shape):
        told = explain(one, index)
        assert told.stored == values[index] == told.code * F(2) ** (told.exponent or 0)
        assert told.hex == words[index] and told.width == format.bits and told.format == str(format)
        r = told.rounding
        assert r is not None and r.grid is not None and told.value.value == F(float(X[index]))
        assert r.scaled == told.value.value / F(2) ** r.grid
        if not r.saturated:  # between two neighbours of this step
            assert abs(told.stored - told.value.value) < F(2) ** r.grid
        assert (r.block is None) == isinstance(format, Float)
    saturated = sum(explain(one, index).rounding.saturated for index in np.ndindex(X.shape))  # type: ignore[union-attr]
    assert saturated == one.result.status.saturated


def test_by_hand() -> None:
    """0.3 is 9.6 steps of 2^-5 in E4M3; its binade begins with word 5 * 8 = 40, so 9.6 is number 41.6."""
    told = explain(event(E4M3, x=np.array([0.3])), (0,))
    r = told.rounding
    assert r is not None and (r.floor, r.kept, r.level, r.grid) == (41, 42, 10, -5)
    assert r.remainder == F(0.3) * 32 - 9 and told.binary == "00101010" and told.stored == F(5, 16)
    assert ("level", "number 42 is code 10") in text._rounded(told, r)
    block = explain(event(MXFP4, x=np.array([0.3, 5.0, 1.0])), (0,))
    assert block.rounding is not None and block.rounding.block is not None
    assert block.rounding.block.exponent == 0 and block.rounding.block.at == (1,)
    rows = dict(text._rounded(block, block.rounding))
    assert (rows["scale"], rows["max of block"], rows["block"]) == ("2^0", "5 at [1]", "[0], 3 values")


@pytest.mark.parametrize("format", [E4M3, Microscaling(E4M3, 4), Microscaling(FixedPoint(4, 2), 4)], ids=str)
def test_another_word_or_scale_is_found(format: Any) -> None:
    one = event(format)
    elements = getattr(one.result, "elements", one.result)
    held = elements.words if hasattr(elements, "words") else elements.codes
    for bit in range(3):
        held[2, 1] ^= 1 << bit
        with pytest.raises(Disagreement, match=r"fc1/x1 2,1: "):
            explain(one, (2, 1))
        held[2, 1] ^= 1 << bit
    explain(one, (2, 1))
    if isinstance(format, Microscaling):
        one.result.scales[2, 0] += 1
        with pytest.raises(Disagreement, match=r"fc1/x1 2,1: the definition has scale 0x\w+, stored is 0x"):
            explain(one, (2, 1))


def test_what_is_not_finite_has_no_way() -> None:
    one = event(E4M3.to("nan"), x=np.array([1.0, 1e9]))
    assert explain(one, (0,)).stored == 1
    with pytest.raises(NumberError, match=r"nan at \(\) has no code"):
        explain(one, (1,))
    with pytest.raises(NumberError, match=r"nan at \(1,\) has no code"):
        measure(one)


@pytest.mark.parametrize("format", [E4M3, E2M1, BF16, MXFP4, MXFP8_E5M2, MXINT8, FixedPoint(8, 5)], ids=str)
def test_measures_are_those_of_the_values(format: Any) -> None:
    x = RNG.normal(0, 2, (3, 64)).astype(np.float32)
    one = event(format, x=x)
    row = measure(one)
    given = [F(float(v)) for v in x.reshape(-1)]
    kept = one.result.fractions().reshape(-1).tolist()
    noise = sum((a - b) ** 2 for a, b in zip(given, kept, strict=True))
    assert row.sqnr_db == round(10 * log10(sum(a * a for a in given) / noise), 2)
    assert (row.saturated, row.inexact) == (one.result.status.saturated, one.result.status.inexact)
    assert row.zeros == kept.count(0) and row.elements == x.size and row.nominal_bits == format.bits
    assert row.mean_bits == format.bits and sum(row.after) == x.size and row.format == str(format)
    found = errors_of(one)
    assert found is not None and found.elements == x.size


def test_ap_fixed_is_measured_as_fixed_point_is() -> None:
    x = RNG.normal(0, 2, 500).astype(np.float32)
    one, other = ApFixed(8, 3, "AP_RND_CONV", "AP_SAT"), FixedPoint(8, 5)
    rows = [
        measure(Event("l", "x", 0, x, quantize(x, format), format, "ties_even"))  # type: ignore[call-overload]
        for format in (one, other)
    ]
    assert (rows[0].sqnr_db, rows[0].saturated, rows[0].after) == (
        rows[1].sqnr_db,
        rows[1].saturated,
        rows[1].after,
    )
