"""What quantization did to a path: SQNR by its definition in Fractions, histograms, counts."""

from __future__ import annotations

from fractions import Fraction
from math import log10
from typing import Any

import numpy as np
import pytest

from intnet.errors import NumberError
from intnet.exact.blocks.block_float import quantize_blocks
from intnet.exact.blocks.mx_blocks import Along
from intnet.exact.expressions import Exact, exact
from intnet.exact.quantize import quantize
from intnet.exact.sources import FloatExact, Root
from intnet.inspect import as_spec
from intnet.inspect.histograms import Errors
from intnet.inspect.measure import errors_of, measure
from intnet.inspect.text import unit
from intnet.methods.trace import Event
from intnet.numbers.formats import Constant, Direct, FixedPoint, Flag, Format, Scaled, Shift
from intnet.numbers.microscaling import MXS
from intnet.numbers.qtensor import QTensor
from intnet.spec.mx_blocks import InBlock
from tests.support import cases
from tests.support.mx_events import event_of, numbers

RANDOM = np.array(cases.random_codes(5, 200, -(2**20), 2**20), np.int32).reshape(50, 4)
CHANNELS = np.array([3, 5, 7, 11], np.int64)
WIDE = QTensor(RANDOM.astype(np.int64) << 20, 0)
SOURCES: dict[str, Any] = {
    "codes": QTensor(RANDOM, -20),
    "quotient": Exact([(QTensor(RANDOM, 0), CHANNELS)], -22, CHANNELS, CHANNELS * 13),
    "relu": Exact([(QTensor(RANDOM, 0), 1)], -20, relu=True),
    "two limbs": Exact([(WIDE, 1), (WIDE, 3)], -100, shifts=(0, 40)),
    "floats": FloatExact((RANDOM / 3e5).astype(np.float32), 7),
    "roots": Root([int(v) ** 2 + 1 for v in RANDOM[:, 0]], 9, -18),
}
FORMATS: list[Format] = [Direct(8), Shift(8), Flag(8), FixedPoint(8, 7), Direct(14), Scaled(8)]


def sqnr(scaled: Any, codes: np.ndarray) -> float:
    """The definition."""
    pairs = list(zip(scaled.reshape(-1), codes.reshape(-1), strict=True))
    noise = sum((Fraction(s) - int(c)) ** 2 for s, c in pairs)
    return 10 * log10(sum(Fraction(s) ** 2 for s, _ in pairs) / noise)


def counted(values: list[Fraction], edges: list[float]) -> list[int]:
    """Elements of each bin, an element on an edge with the bin nearer to 0."""
    found = [0] * (len(edges) - 1)
    for value in values:
        inside = [k for k in range(len(found)) if Fraction(edges[k]) <= value <= Fraction(edges[k + 1])]
        found[min(inside, key=lambda k: abs(Fraction(edges[k]) + Fraction(edges[k + 1])))] += 1
    return found


def own_errors(scaled: Any, codes: np.ndarray, format: Format) -> list[Fraction]:
    """c - s in steps of the element's own grid."""
    pairs = zip(scaled.reshape(-1), codes.reshape(-1), strict=True)
    fine = 1 << format.fine if isinstance(format, Flag) else 0
    return [(int(c) - Fraction(s)) / (fine if fine and abs(s) >= fine else 1) for s, c in pairs]


def check_errors(found: Errors, errors: list[Fraction]) -> None:
    """By plain counting: 17 bins of an eighth of a step, what is farther away in the outer ones."""
    edges = [k / 16 for k in range(-17, 19, 2)]
    away = [error for error in errors if abs(error) > Fraction(17, 16)]
    inner = counted([error for error in errors if abs(error) <= Fraction(17, 16)], edges)
    inner[0] += sum(error < 0 for error in away)
    inner[-1] += sum(error > 0 for error in away)
    assert (found.counts, found.beyond, found.elements) == (inner, len(away), len(errors))
    assert found.unchanged == sum(error == 0 for error in errors)
    assert found.mean == pytest.approx(float(sum(errors) / len(errors)), rel=1e-12, abs=1e-15)


# a root is not rounded to the flag format, and has no least value
PAIRS = [(k, f) for k in SOURCES for f in FORMATS if not (k == "roots" and isinstance(f, Flag | Scaled))]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "format"), PAIRS, ids=str)
def test_sqnr_is_its_definition(kind: str, format: Format) -> None:
    source = exact(SOURCES[kind])
    result = quantize(source, format)
    got = measure(Event("layer", "path", 0, source, result, format, "ties_even"))
    scaled = source.fractions() / Fraction(2) ** int(result.exponent)
    assert got.sqnr_db == pytest.approx(sqnr(scaled, result.codes), abs=0.0051)
    assert sum(got.after) == sum(got.before or []) == got.elements == result.size
    assert got.inexact == result.status.inexact and got.saturated == result.status.saturated
    assert got.range == [int(result.codes.min()), int(result.codes.max())]
    assert got.after == counted([Fraction(int(c)) for c in result.codes.reshape(-1)], got.edges)
    assert got.before == counted(list(scaled.reshape(-1)), got.edges)
    found = errors_of(Event("layer", "path", 0, source, result, format, "ties_even"))
    assert found is not None
    check_errors(found, own_errors(scaled, result.codes, format))


def test_block_float_is_measured_in_units_of_value() -> None:
    """Blocks of 0, 4 and 8 bits and one of zeros: signal, noise, histograms and exponents by definition."""
    x = (RANDOM[:16] / 3e5).astype(np.float32) * np.repeat(np.float32([1, 64, 0.25, 0]), 4)[:, None]
    bits = np.array([[4], [8], [0], [8]], np.uint8)
    result = quantize_blocks(x, bits, (0, 1)).to_qtensor(x)
    got = measure(Event("layer", "path", 0, x, result, result.format, "ties_even"))
    values, pairs, own_steps = [Fraction(float(v)) for v in x.reshape(-1)], [], []
    for k, v in enumerate(values):
        b, top = int(bits[k // 16, 0]), max(abs(other) for other in values[k // 16 * 16 : k // 16 * 16 + 16])
        e = next(e for e in range(-128, 128) if top < Fraction(2) ** e)
        step, high = Fraction(2) ** (e - b + 1), 2 ** max(b - 1, 0) - 1
        own_steps.append(Fraction(2) ** (e - max(b, 1) + 1))
        pairs.append((v, max(-high, min(high, round(v / step))) * step, e - b + 1))
    noise = sum((v - kept) ** 2 for v, kept, _ in pairs)
    assert got.sqnr_db == pytest.approx(10 * log10(sum(v * v for v in values) / noise), abs=0.0051)
    steps = [step for _, kept, step in pairs if kept]
    assert got.exponent == [min(steps), max(steps)] and min(steps) > -128
    assert got.inexact == sum(v != kept for v, kept, _ in pairs) > 16
    assert got.zeros == sum(not kept for _, kept, _ in pairs) >= 32
    assert got.before == counted(values, got.edges)
    assert got.after == counted([Fraction(kept) for _, kept, _ in pairs], got.edges)
    found = errors_of(Event("layer", "path", 0, x, result, result.format, "ties_even"))
    assert found is not None
    check_errors(found, [(kept - v) / step for (v, kept, _), step in zip(pairs, own_steps, strict=True)])
    assert (got.format, got.nominal_bits, got.used_bits) == ("BFP(8)", 8, 8)


def test_codes_without_a_sign_need_no_bit_for_it() -> None:
    x = np.array([255.0, 3.0, 0.0])
    format = FixedPoint(8, 0, signed=False)
    got = measure(Event("layer", "path", 0, x, quantize(x, format), format, "ties_even"))
    assert (got.used_bits, got.nominal_bits, got.range_bits, got.range) == (8, 8, 8.0, [0, 255])


def test_block_float_that_keeps_nothing() -> None:
    for x, bits in ((np.ones((4, 4), np.float32), 0), (np.zeros((4, 4), np.float32), 8)):
        result = quantize_blocks(x, bits, (0, 1)).to_qtensor(x)
        got = measure(Event("layer", "path", 0, x, result, result.format, "ties_even"))
        assert (got.exponent, got.zeros, got.range, got.inexact) == (None, 16, [0, 0], 16 * (bits == 0))
        assert got.used_bits == (1 if bits else 0) and got.saturated == 0
        assert got.sqnr_db == (0 if bits == 0 else None)


@pytest.mark.parametrize("name", MXS)
def test_mx_is_measured_in_values_its_errors_in_steps_of_each_binade(name: str) -> None:
    along = Along(MXS[name], 1)
    event, _ = event_of(numbers(3), along, "to_zero")
    rounds, q = InBlock(as_spec.along_of(along).element), event.result
    values = [Fraction(float(v)) for v in event.source.reshape(-1)]
    grids = (q.exponent - rounds.exponent(0)).reshape(-1).tolist()
    each = [rounds.way(v, k, "to_zero") for v, k in zip(values, grids, strict=True)]
    found, got = errors_of(event), measure(event)
    assert found is not None
    check_errors(found, [way.kept - v / way.step for v, way in zip(values, each, strict=True)])
    assert got.before == counted(values, got.edges) and unit(got) == "value"
    assert got.after == counted([way.kept * way.step for way in each], got.edges)


def test_the_constant_quantizer_is_measured_after_its_scaling() -> None:
    source, format = exact(SOURCES["codes"]), Constant(15, 128)
    words = np.array(cases.random_codes(6, RANDOM.size, 0, 2**32 - 1), np.uint32)
    result = quantize(source, format, rounding="stochastic", words=words)
    got = measure(Event("layer", "gWq", 0, source, result, format, "stochastic", words))
    scaled = source.fractions() * 128 / Fraction(2) ** source.log2_max()
    assert got.sqnr_db == pytest.approx(sqnr(scaled, result.codes), abs=0.0051)


def test_where_nothing_changes_there_is_no_ratio() -> None:
    for codes in (np.array([4, -8, 0], np.int32), np.zeros(3, np.int32)):
        source = QTensor(codes, -4)
        result = quantize(source, FixedPoint(8, 4))
        got = measure(Event("layer", "path", 0, source, result, FixedPoint(8, 4), "ties_even"))
        assert got.sqnr_db is None and got.inexact == 0 and got.zeros == np.count_nonzero(codes == 0)


def test_paths_that_are_passed_on_and_floats() -> None:
    floats = np.array([1.5, 0, -2], np.float32)
    got = measure(Event("layer", "x0", 0, floats, floats))
    assert (got.format, got.range, got.zeros) == ("float32", [-2, 1.5], 1)
    assert got.used_bits is got.saturated is got.exponent is None
    x = QTensor(np.array([3, -4], np.int8), -2)
    got = measure(Event("layer", "x0", 0, x, x))
    assert (got.range, got.exponent, got.before, got.sqnr_db) == ([-4, 3], [-2, -2], None, None)
    third = Exact([(x, 1)], 0, den=3)
    got = measure(Event("layer", "x0", 0, third, third))
    assert got.range == pytest.approx([-4 / 3, 1]) and got.exponent is None
    empty = QTensor(np.zeros((0, 3), np.int8), 0)
    assert measure(Event("layer", "x0", 0, empty, empty)).after == [0]


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_a_value_that_is_not_finite_is_named(value: float) -> None:
    """A training that diverges meets it here ahead of the logits."""
    floats = np.array([1.0, value], np.float32)
    with pytest.raises(NumberError, match=r"conv1, x1: holds a NaN or infinity: training diverged"):
        measure(Event("conv1", "x1", 0, floats, floats))
