"""The proofs' own machine: its arithmetic is that of compiled code, and it does not prove what is not so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import z3

from intnet.machine.jit import njit
from tests.proofs.machine import (
    I32,
    I64,
    NUMPY,
    U8,
    U32,
    U64,
    Num,
    Type,
    assume,
    counterexample,
    prove,
    variable,
)

PAIRS = [(I64, I64), (U64, U64), (I32, I32), (I32, I64), (U32, U32), (U32, I64), (U8, U64)]


def sums(a: Any, b: Any) -> Any:
    return a + b, a - b, a * b, a & b, a | b, a ^ b


def orders(a: Any, b: Any) -> Any:
    return a < b, a <= b, a > b, a >= b, a == b, a != b


def shifts(a: Any, b: Any) -> Any:
    return a << b, a >> b, ~a


def corners(type: Type) -> list[int]:
    top = (1 << (type.bits - type.signed)) - 1
    return [0, 1, 2, 5, top, top - 1, top // 3, *([-1, -2, -7, -top - 1, -top] if type.signed else [])]


@pytest.mark.slow
@pytest.mark.parametrize(("left", "right"), PAIRS)
@pytest.mark.parametrize("rule", [sums, orders, shifts])
def test_as_compiled(rule: Any, left: Type, right: Type) -> None:
    """Known numbers, and terms that are told what they are."""
    compiled = njit(rule)
    for x in corners(left):
        for y in corners(right) if rule is not shifts else (0, 1, 5, 31, 63):
            expected = [int(v) for v in compiled(NUMPY[left](x), NUMPY[right](y))]
            assert [number(v) for v in rule(Num(x, left), Num(y, right))] == expected, (x, y)
            terms = rule(Num(z3.BitVecVal(x, left.bits), left), Num(z3.BitVecVal(y, right.bits), right))
            assert [number(v) for v in terms] == expected, (x, y)


def number(value: Any) -> int:
    """Of a known number, or a term of known ones."""
    if isinstance(value, bool):
        return int(value)
    term = value.term if isinstance(value.term, int) else z3.simplify(value.term)
    if isinstance(term, int):
        return term
    if z3.is_bool(term):
        return int(z3.is_true(term))
    return int(term.as_signed_long() if value.type.signed else term.as_long())


def test_what_would_be_a_float_is_refused() -> None:
    with pytest.raises(TypeError, match="float64"):
        Num(1, U64) + Num(1, I64)


def test_a_false_claim_has_a_counterexample() -> None:
    def claim() -> Any:
        x = variable("x", I64)
        return abs(x) >= 0

    found = counterexample(claim)
    assert found is not None and found["x"] == np.iinfo(np.int64).min
    with pytest.raises(AssertionError, match="x"):
        prove(claim)


def test_nothing_is_proven_of_nothing() -> None:
    def claim() -> Any:
        x = variable("x", I64)
        assume(x < 0)
        assume(x > 0)
        return x == 1

    with pytest.raises(AssertionError, match="no value"):
        prove(claim)


def test_both_ways_of_a_condition_are_followed() -> None:
    def claim(bound: int) -> Any:
        x = variable("x", I64)
        y = 1 if x > 10 else 2
        return x <= bound if y == 2 else x > bound

    prove(lambda: claim(10))
    found = counterexample(lambda: claim(11))
    assert found == {"x": 11}


def test_a_shift_by_64_is_refused() -> None:
    def claim() -> Any:
        x, by = variable("x", I64), variable("by", I64)
        assume((by >= 0) & (by <= 64))
        return (x << by) == (x << by)

    found = counterexample(claim)
    assert found is not None and found["by"] == 64
