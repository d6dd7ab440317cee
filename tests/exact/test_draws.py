"""Words that a kernel draws itself, a row at a time, are those of the definition, from any element on."""

from collections.abc import Callable
from functools import cache
from math import prod
from typing import Any

import numpy as np
import pytest

from intnet.errors import ConfigError
from intnet.exact import rows
from intnet.exact.expressions import Exact
from intnet.exact.quantize import quantize
from intnet.machine.jit import SMALL
from intnet.numbers import rng
from intnet.numbers.formats import FixedPoint
from intnet.numbers.microscaling import MXFP8_E4M3
from intnet.numbers.small_floats import E5M2
from intnet.spec import words as spec
from tests.support.faults import plain
from tests.support.lanes import general, replace_kernels, spread, taking, tensor

SEED, STEP, NAME = 2**63 + 11, 7, "layer/x2"
STARTS = (0, 1, 2, 3, 4, 4099)
LARGE = (SMALL // 7 + 3, 7)  # its rows of a lane are no multiple of the four words of a counter


@cache
def words() -> np.ndarray:
    return np.array(spec.words(SEED, STEP, NAME, max(STARTS) + prod(LARGE)), np.uint32)


def draw(start: int) -> rng.Draw:
    return rng.Draw(SEED, STEP, rng.stream(NAME), start)


def same(x: Any, format: Any, start: int, **options: Any) -> None:
    """As by the definition's words, given."""
    given = words()[start : start + prod(x.shape)]
    there = quantize(x, format, rounding="stochastic", words=given, **options)
    here = quantize(x, format, rounding="stochastic", words=draw(start), **options)
    assert here.status == there.status
    assert np.array_equal(here.raw(), there.raw())


def integers(shape: tuple[int, int], den: int) -> Exact:
    return Exact([(tensor(spread(15, shape, 1), np.int16), 3)], -4, np.arange(shape[1]), den)


def floats(shape: tuple[int, int]) -> np.ndarray:
    return spread(20, shape, 2).astype(np.float32) / np.float32(2**9)


KINDS: dict[str, tuple[Callable[[tuple[int, int]], Any], str]] = {
    "int32": (lambda shape: integers(shape, 1), "narrow_all"),
    "float64": (lambda shape: integers(shape, 2**40), "read_all"),
    "quotients": (lambda shape: integers(shape, 11), "read_all"),
    "float32": (floats, "quantize_floats"),
}


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_lane_draws_the_words_of_its_elements(kind: str, start: int) -> None:
    made, kernel = KINDS[kind]
    for shape, ran in ((LARGE, kernel), ((5, 7), "round_few"), ((1, 3), "round_few")):
        with taking(ran, ran):
            same(made(shape), FixedPoint(12, 3), start)
    same(made(LARGE), FixedPoint(12, 3), start, word_bits=9)


@pytest.mark.parametrize("kind", KINDS)
def test_what_takes_no_lane_draws_them_all_at_once(kind: str) -> None:
    with general():
        same(KINDS[kind][0]((5, 7)), FixedPoint(12, 3), 5)


@pytest.mark.parametrize("format", [E5M2, MXFP8_E4M3], ids=str)
def test_formats_that_take_no_expression(format: Any) -> None:
    same(floats((4, 32)), format, 3)


def test_a_word_far_on() -> None:
    start = 2**62 + 5
    given = np.array(spec.words(SEED, STEP, NAME, 35, start), np.uint32)
    x = floats((5, 7))
    there = quantize(x, FixedPoint(12, 3), rounding="stochastic", words=given)
    assert np.array_equal(
        quantize(x, FixedPoint(12, 3), rounding="stochastic", words=draw(start)).codes, there.codes
    )


def test_what_no_counter_holds_is_refused() -> None:
    for wrong in (rng.Draw(1 << 64, 0, 0), rng.Draw(0, 1 << 32, 0), rng.Draw(0, 0, 0, -1), draw(1 << 63)):
        with pytest.raises(ConfigError, match=r"outside 0|have them"):
            quantize(floats((5, 7)), FixedPoint(12, 3), rounding="stochastic", words=wrong)


@pytest.mark.parametrize("fault", [lambda at, ahead: 0, lambda at, ahead: ahead + 1, lambda at, ahead: at])
def test_a_fault_is_seen(fault: Callable[[int, int], int], monkeypatch: pytest.MonkeyPatch) -> None:
    original = plain(rows._drawn)

    def faulty(given: Any, room: np.ndarray, at: int, n: int) -> tuple[np.ndarray, int]:
        drawn, ahead = original(given, room, at, n)
        return (drawn, fault(at, ahead)) if given[1] else (drawn, ahead)

    for name, one in (("_drawn", faulty), ("_round_row", plain(rows._round_row))):
        monkeypatch.setattr(rows, name, one)
    monkeypatch.setattr(rows, "read_part", plain(rows.read_part))
    replace_kernels(monkeypatch, round_few=plain(rows.round_few))
    with pytest.raises(AssertionError):
        same(floats((5, 7)), FixedPoint(12, 3), 2)
