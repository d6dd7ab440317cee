"""One element explained: every rounding mode, format and kind of value, at ties, limits and thresholds."""

from __future__ import annotations

import dataclasses
import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from intnet.errors import FormatError, ShapeError
from intnet.exact.expressions import Exact, exact
from intnet.exact.quantize import quantize
from intnet.exact.sources import FloatExact, Root
from intnet.inspect.explain import Disagreement, Explanation, Rounding, explain
from intnet.methods.trace import Event
from intnet.numbers.formats import Constant, Direct, FixedPoint, Flag, Format, Shift
from intnet.numbers.qtensor import QTensor
from intnet.numbers.rounding import HLS_ALIASES, MODES
from intnet.spec import power, round_fraction
from intnet.spec.formats import exponent_of
from intnet.spec.rounding import overflow, round_sqrt
from tests.support import cases

F = Fraction
DETERMINISTIC = [mode for mode in MODES if mode != "stochastic"]
FORMATS = [FixedPoint(6, 2), FixedPoint(6, 2, False), FixedPoint(6, 2, overflow="saturate_symmetric")]
FORMATS += [FixedPoint(6, 2, overflow="wrap"), Direct(4), Shift(5), Flag(4)]


def event_of(
    source: Any, format: Format, mode: str = "ties_even", words: np.ndarray | None = None, bits: int = 32
) -> Event:
    """What a method emits when it quantizes `source`."""
    value = exact(source)
    result = quantize(value, format, rounding=mode, words=words, word_bits=bits)
    return Event("layer", "path", 0, value, result, format, mode, words, bits)


def rounding(one: Explanation) -> Rounding:
    assert one.rounding is not None
    return one.rounding


def corner_codes() -> np.ndarray:
    """Zero, ties and limits of both signs, and their neighbours."""
    codes = {*cases.ties(3, 6), *cases.ties(5, 4), *cases.limits(8), 0, 1, -1}
    return np.array(sorted(codes), np.int32)


def limited(code: int, format: Format) -> int:
    """What the oracle makes of a rounded code of a format whose grid is fixed."""
    if not isinstance(format, FixedPoint):
        return code
    how = "saturate" if format.overflow.startswith("saturate") else format.overflow
    return overflow(code, format.lo, format.hi, how)


@pytest.mark.slow
@pytest.mark.parametrize("mode", DETERMINISTIC)
@pytest.mark.parametrize("format", FORMATS, ids=str)
@pytest.mark.parametrize("den", [1, 3, 8])
def test_every_deterministic_mode_and_format(mode: str, format: Format, den: int) -> None:
    source = Exact([(QTensor(corner_codes(), 0), 1)], -5, den=den)
    event, values = event_of(source, format, mode), source.fractions()
    saturated = 0
    for i, value in enumerate(values):
        one = explain(event, (i,))
        r = rounding(one)
        assert one.value.value == value
        assert r.scaled == value / power(r.grid) == r.floor + r.remainder
        assert r.rounded == round_fraction(r.scaled, mode) == r.floor + r.up
        if isinstance(format, FixedPoint | Direct):
            assert r.grid == format.exponent and r.kept == limited(r.rounded, format)
        else:
            assert r.log2_r == exponent_of(list(values))
        assert one.code == r.kept << r.lift == event.result.codes[i]
        assert f"{'up' if r.up else 'down'} to {r.rounded}" in r.rule or r.rule.startswith("on the grid")
        saturated += r.saturated
    if not isinstance(format, FixedPoint) or format.overflow != "wrap":
        assert saturated == event.result.status.saturated


@pytest.mark.parametrize("alias", HLS_ALIASES)
def test_hls_names_are_the_modes_they_mean(alias: str) -> None:
    words = np.full(3, 1 << 30, np.uint32)
    event = event_of(QTensor(np.array([3, -5, 6], np.int32), -3), Direct(3), alias, words)
    assert rounding(explain(event, (0,))).mode == HLS_ALIASES[alias]


@pytest.mark.parametrize(
    ("mode", "rules"),
    [
        ("ties_even", ["odd: up to 2", "even: down to 2", "even: down to -2", "odd: up to -2"]),
        ("ties_away", ["positive: up to 2", "up to 3", "negative: down to -2", "down to -3"]),
        ("ties_pos", ["+infinity: up to 2", "up to 3", "up to -1", "up to -2"]),
        ("to_neg", ["down to 1", "down to 2", "down to -2", "down to -3"]),
        ("to_pos", ["up to 2", "up to 3", "up to -1", "up to -2"]),
        ("to_zero", ["positive: down to 1", "down to 2", "negative: up to -1", "up to -2"]),
    ],
)
def test_the_rule_says_why(mode: str, rules: list[str]) -> None:
    event = event_of(QTensor(np.array([3, 5, -3, -5], np.int32), -1), FixedPoint(8, 0), mode)
    for i, rule in enumerate(rules):
        r = rounding(explain(event, (i,)))
        assert r.tie and rule in r.rule, r.rule


@pytest.mark.parametrize("bits", [1, 5, 31, 32])
def test_stochastic_words_around_the_threshold(bits: int) -> None:
    codes = np.array([5, -5, 1, -1, 7, 0, 8, 1000], np.int32)
    source = Exact([(QTensor(codes, 0), 1)], 0, den=7)
    thresholds = [int((v - v.__floor__()) * 2**bits) for v in source.fractions()]
    for shift in (-1, 0, 1):
        drawn = [min(max(t + shift, 0), 2**bits - 1) for t in thresholds]
        words = np.array([word << (32 - bits) for word in drawn], np.uint32)
        event = event_of(source, FixedPoint(8, 0), "stochastic", words, bits)
        for i, value in enumerate(source.fractions()):
            r = rounding(explain(event, (i,)))
            assert (r.word, r.word_bits, r.threshold) == (drawn[i], bits, thresholds[i])
            assert r.up == (drawn[i] < thresholds[i])
            assert r.rounded == round_fraction(value, "stochastic", drawn[i], bits)
    assert rounding(explain(event, (7,))).saturated


def test_the_constant_quantizer_gives_the_magnitude_up() -> None:
    codes, words = np.array([100, -64, 3, 0], np.int32), np.array([0, 1, 2, 3], np.uint32)
    one = explain(event_of(QTensor(codes, -20), Constant(15, 128), "stochastic", words), (0,))
    r = rounding(one)
    assert (r.log2_r, r.grid, r.scaled) == (-13, -20, 100)
    assert (one.code, one.exponent, one.stored) == (100, -14, F(100, 2**14))


def test_the_flag_format_shows_its_grid_and_its_stored_word() -> None:
    codes = np.array([1000, 130, 127, 128, -1, 0, -1000, 7], np.int32)
    event = event_of(QTensor(codes, 0), Flag(8), "ties_even")
    coarse, fine = explain(event, (0,)), explain(event, (7,))
    assert rounding(coarse).lift == 7 and rounding(fine).lift == 0
    assert rounding(coarse).grid == rounding(fine).grid + 7
    assert coarse.flag == "1" + "0" + f"{rounding(coarse).kept:07b}"
    assert explain(event, (4,)).flag[:2] == "01"
    step = event_of(QTensor(np.array([1000, 8, -8, 7], np.int32), 0), Flag(8))  # R = 2^10, Sc = 8
    assert [rounding(explain(step, (i,))).lift for i in range(4)] == [7, 7, 7, 0]


def test_a_fine_flag_value_may_round_to_the_first_coarse_step() -> None:
    source = Exact([(QTensor(np.array([2**21, 2**14 - 1], np.int32), 0), 1)], 0)
    one = explain(event_of(source, Flag(8)), (1,))  # 127.99 fine steps
    assert (rounding(one).lift, rounding(one).kept, one.code) == (0, 128, 128)
    assert one.flag == "100000001" and not rounding(one).saturated


def test_a_root_is_decided_by_squares() -> None:
    numerators = [0, 1, 2, 9, 10, 12, 13, 25, 10**30]
    source = Root(numerators, 4, -3)
    for mode in DETERMINISTIC:
        event = event_of(source, FixedPoint(32, 3), mode)
        for i, numerator in enumerate(numerators):
            one = explain(event, (i,))
            r = rounding(one)
            assert one.value.value is None and one.value.square == F(numerator, 4) / 64
            assert r.scaled is None and r.scaled_square == F(numerator, 4)
            assert r.rounded == round_sqrt(F(numerator, 4), mode)
    assert rounding(explain(event, (3,))).remainder == F(1, 2)  # sqrt(9/4) = 3/2
    assert rounding(explain(event, (2,))).remainder is None  # irrational
    assert rounding(explain(event, (8,))).saturated


def test_numbers_beyond_64_bits_and_shifted_terms() -> None:
    near, far = QTensor(np.array([3, -1], np.int64), 0), QTensor(np.array([2**40, -(2**40) + 1], np.int64), 0)
    source = Exact([(near, 5), (far, np.array([3, 7], np.int64))], -60, np.array([1, -2]), 1, shifts=(0, 60))
    event = event_of(source, Direct(31, lsb=43))
    for i, value in enumerate(source.fractions()):
        one = explain(event, (i,))
        assert one.value.value == value
        assert rounding(one).rounded == round_fraction(value / power(43), "ties_even")


def test_float32_values_pooled_or_not() -> None:
    values = np.array([0.1, -2.5, 0, 1e-30, 3e4], np.float32)
    for den in (1, 49):
        event = event_of(FloatExact(values, den), Shift(8))
        for i, value in enumerate(values):
            one = explain(event, (i,))
            assert one.value.value == F(float(value)) / den and one.value.number == float(value)
    plain = Event("layer", "path", 0, values, values)
    one = explain(plain, (1,))
    assert (one.code, one.rounding, one.stored, one.hex) == (None, None, F(-5, 2), "c0200000")


def test_paths_that_are_passed_on() -> None:
    x = QTensor(np.array([[4, -3]], np.int8), -2)
    one = explain(Event("layer", "x0", 0, x, x), (0, 1))
    assert (one.code, one.exponent, one.stored, one.rounding) == (-3, -2, F(-3, 4), None)
    third = Exact([(x, 1)], -2, den=3)
    one = explain(Event("layer", "x0", 0, third, third), (0, 0))
    assert (one.code, one.value.value, one.stored) == (None, F(1, 3), F(1, 3))
    blocks = QTensor(np.array([[4, -3]], np.int8), np.array([-2, 5]))
    one = explain(Event("layer", "x0", 0, blocks, blocks), (0, 1))
    assert (one.code, one.exponent, one.value.value, one.stored) == (-3, 5, -96, -96)
    joined = Exact([(x, 2), (x, 3)], -2, offset=1, relu=True)
    assert explain(Event("layer", "x0", 0, joined, joined), (0, 1)).code == 0


def test_codes_that_are_not_what_exact_arithmetic_reaches_are_a_loud_error() -> None:
    event = event_of(QTensor(np.array([5, 6, 7], np.int32), -3), FixedPoint(8, 1))
    wrong = QTensor(event.result.codes + np.int8(1), event.result.exponent, event.result.format)
    with pytest.raises(Disagreement, match=r"layer/path 1: exact arithmetic reaches code 2, stored is 3"):
        explain(dataclasses.replace(event, result=wrong), (1,))
    other = Exact([(QTensor(np.array([5, 6, 8], np.int32), 0), 1)], -3)
    assert explain(dataclasses.replace(event, operands=other), (0,)).code == event.result.codes[0]
    with pytest.raises(Disagreement, match="its operands give 1, the value that was handed on is 7/8"):
        explain(dataclasses.replace(event, operands=other), (2,))


def test_errors_say_what_there_is() -> None:
    event = event_of(QTensor(np.zeros((2, 3), np.int32), 0), FixedPoint(8, 0))
    for index in ((2, 0), (0, 3), (0,), (0, 0, 0), (-1, 0), ()):
        with pytest.raises(ShapeError, match="its shape is 2,3"):
            explain(event, index)
    with pytest.raises(FormatError, match="names no rounding mode"):
        explain(dataclasses.replace(event, rounding=None), (0, 0))
    with pytest.raises(FormatError, match="no random words"):
        explain(dataclasses.replace(event, rounding="stochastic"), (0, 0))
    nan = np.array([np.nan], np.float32)
    with pytest.raises(FormatError, match="layer/path 0 is nan: it has no exact value"):
        explain(Event("layer", "path", 0, nan, nan), (0,))


def test_an_explanation_is_json() -> None:
    x = QTensor(np.array([7, -9], np.int32), -4)
    one = explain(event_of(Exact([(x, 1)], -4, den=3), FixedPoint(8, 4)), (0,))
    plain = json.loads(json.dumps(one.to_dict()))
    assert plain["value"]["value"] == "7/48" and plain["rounding"]["remainder"] == "1/3"
    assert plain["value"]["terms"] == [
        {"name": "", "code": 7, "coefficient": 1, "coefficient_name": "", "shift": 0}
    ]
    assert plain["index"] == [0] and plain["rounding"]["scaled_square"] is None
    assert set(plain) == {field.name for field in dataclasses.fields(Explanation)}
