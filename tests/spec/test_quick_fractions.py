"""The fractions that the definition has in tests are the standard library's, number for number."""

import copy
import math
import operator
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intnet.spec import formats, nets

quicktions = pytest.importorskip("quicktions")
Quick = quicktions.Fraction

WHOLE = st.integers(-(2**80), 2**80)
SMALL = st.integers(-9, 9)
PARTS = st.one_of(st.tuples(SMALL, SMALL.filter(bool)), st.tuples(WHOLE, WHOLE.filter(bool)))
OPERATIONS = (
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, divmod,
    operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge, max, min,
)  # fmt: skip
OF_ONE = (
    str, repr, hash, float, int, abs, bool, round, math.floor, math.ceil, math.trunc, operator.neg,
    operator.pos, copy.deepcopy, lambda x: x.as_integer_ratio(), lambda x: (x.numerator, x.denominator),
    lambda x: x.limit_denominator(1000), lambda x: round(x, 3), lambda x: x**3, lambda x: 1 / (x**-2),
    lambda x: f"{x}",
)  # fmt: skip


def outcome(function: Any, *values: Any) -> Any:
    """What comes out, with its kind: a fraction as its two integers."""
    try:
        made = function(*values)
    except (ArithmeticError, ValueError, TypeError) as error:
        return type(error)
    parts = made if isinstance(made, tuple) else (made,)
    return [
        ("fraction", x.numerator, x.denominator) if isinstance(x, Quick | Fraction) else (type(x), x)
        for x in parts
    ]


def both(parts: tuple[int, int]) -> tuple[Any, Any]:
    return Quick(*parts), Fraction(*parts)


def test_the_definition_has_it() -> None:
    assert formats.Fraction is nets.Fraction is Quick is not Fraction


@given(PARTS, PARTS, st.sampled_from(OPERATIONS))
def test_of_two(a: tuple[int, int], b: tuple[int, int], operation: Any) -> None:
    (x, p), (y, q) = both(a), both(b)
    assert outcome(operation, x, y) == outcome(operation, p, q)
    assert outcome(operation, x, b[0]) == outcome(operation, p, b[0])
    assert outcome(operation, a[0], y) == outcome(operation, a[0], q)
    assert outcome(operation, x, q) == outcome(operation, p, y) == outcome(operation, p, q)


@given(PARTS, st.sampled_from(OF_ONE))
def test_of_one(a: tuple[int, int], operation: Any) -> None:
    x, p = both(a)
    assert outcome(operation, x) == outcome(operation, p)


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_from_floats(x: float) -> None:
    assert outcome(Quick, x) == outcome(Fraction, x)


@pytest.mark.parametrize("text", ["3/4", " -7 ", "1.25e-3", "0x10", "1/0", "", "inf"])
def test_from_text(text: str) -> None:
    assert outcome(Quick, text) == outcome(Fraction, text)
