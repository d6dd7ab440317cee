"""Circuits: what operators and choices mean, the ranges that follow, what promises and cuts do."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intnet.spec.wires import Circuit, Wire, cut, run, span, width

OPERATORS: dict[str, tuple[Callable[..., Any], Callable[[int, int], int]]] = {
    "+": (operator.add, operator.add),
    "-": (operator.sub, operator.sub),
    "*": (operator.mul, operator.mul),
    "&": (operator.and_, operator.and_),
    "|": (operator.or_, operator.or_),
    "^": (operator.xor, operator.xor),
    "<": (operator.lt, operator.lt),
    "<=": (operator.le, operator.le),
    ">": (operator.gt, operator.gt),
    ">=": (operator.ge, operator.ge),
    "==": (Wire.equals, operator.eq),
    "!=": (Wire.differs, operator.ne),
}
SHIFTS = {"<<": operator.lshift, ">>": operator.rshift}
PORTS = [(bits, signed) for bits in (1, 2, 3) for signed in (False, True)]


def values(circuit: Circuit, **beat: int) -> dict[str, int]:
    return run(circuit, [beat])[0]


def reached(make: Callable[[Wire, Wire], Wire], mean: Callable[[int, int], int], a: Any, b: Any) -> None:
    """Every pair of words: the meaning, within the range, which no operation but | and ^ says too wide."""
    c = Circuit()
    c.give("q", make(c.read("a", *a), c.read("b", *b)))
    low, high = c.gives["q"].range
    found = []
    for x, y in itertools.product(range(span(*a)[0], span(*a)[1] + 1), range(span(*b)[0], span(*b)[1] + 1)):
        found.append(values(c, a=x, b=y)["q"])
        assert found[-1] == mean(x, y)
    assert low <= min(found) and max(found) <= high
    assert c.gives["q"].bits == width(low, high)


@pytest.mark.parametrize("op", OPERATORS)
def test_operators_mean_what_whole_numbers_do(op: str) -> None:
    make, mean = OPERATORS[op]
    for a, b in itertools.product(PORTS, PORTS):
        reached(make, mean, a, b)


@pytest.mark.parametrize("op", SHIFTS)
def test_shifts_floor(op: str) -> None:
    for a, bits in itertools.product(PORTS, (1, 2, 3)):
        reached(SHIFTS[op], SHIFTS[op], a, (bits, False))


def test_a_choice_and_a_length() -> None:
    c = Circuit()
    a, b = c.read("a", 3), c.read("b", 1, False)
    c.give("chosen", c.select(b, a, -a))
    c.give("length", c.length(a))
    assert c.gives["chosen"].range == (-4, 4) and c.gives["length"].range == (0, 3)
    for x, y in itertools.product(range(-4, 4), (0, 1)):
        assert values(c, a=x, b=y) == {"chosen": x if y else -x, "length": len(f"{abs(x):b}") if x else 0}


@given(st.integers(-(10**9), 10**9), st.integers(1, 20), st.booleans())
def test_a_cut_keeps_the_low_bits(value: int, bits: int, signed: bool) -> None:
    low, high = span(bits, signed)
    kept = cut(value, bits, signed)
    assert low <= kept <= high and (kept - value) % 2**bits == 0


def test_a_promise_that_is_not_kept_stops() -> None:
    c = Circuit()
    c.give("q", c.wire("sum", c.read("a", 4) + c.read("b", 4), 4))
    assert c.gives["q"].range == (-8, 7)
    assert values(c, a=3, b=4)["q"] == 7
    with pytest.raises(OverflowError, match=r"sum = 8 is not within -8\.\.7"):
        values(c, a=4, b=4)


def test_a_wrap_is_only_where_it_is_said() -> None:
    c = Circuit()
    c.give("q", c.cut("sum", c.read("a", 4) + c.read("b", 4), 4))
    assert values(c, a=4, b=4)["q"] == -8


def test_registers_hold_what_the_beat_before_kept() -> None:
    c = Circuit()
    first, x, total = c.read("first", 1, False), c.read("x", 4), c.register("sum", 8)
    after = c.wire("after", c.select(first, 0, total) + x, 8)
    c.keep(total, after)
    c.give("q", after)
    beats = [{"first": f, "x": x} for f, x in ((0, 3), (0, 4), (1, -5), (0, 7))]
    assert [row["q"] for row in run(c, beats)] == [3, 7, -5, 2]


def test_a_circuit_is_built_of_wires_alone() -> None:
    c = Circuit()
    x = c.read("x", 4)
    with pytest.raises(TypeError, match="choose with `select`"):
        _ = bool(x > 2)
    with pytest.raises(ValueError, match="which can be negative"):
        _ = x << x
    c.wire("a", x)
    with pytest.raises(ValueError, match="two wires are called a"):
        c.wire("a", x + 1)
