"""Floats of a kernel as real numbers, where the code claims that nothing is rounded; and where it is, how.

`Double` is a multiple of 2**-grid; every sum is required to have 53 bits, so that float64 holds it. A grid
that is None is any: then exactness is another claim's. Beside a number of 2**52 or more (float32: 2**23) such
a sum is rounded to an integer, to nearest with ties to even. `Factor` is a product of powers of two unknowns,
with a factor 1 + e for every rounding.
"""

from __future__ import annotations

from math import frexp
from typing import Any

import numpy as np
import z3

from tests.proofs.machine import Bit, Num, Type, assume, formula, require
from tests.proofs.search import current

LARGE = 2.0**52


def exact(value: float) -> Any:
    """A float as a rational."""
    num, den = float(value).as_integer_ratio()
    return z3.Q(num, den)


def to_even(x: Any) -> Any:
    """The nearest integer of a real, ties to even."""
    floor = z3.ToInt(x)
    rest = x - z3.ToReal(floor)
    up = z3.Or(rest > z3.Q(1, 2), z3.And(rest == z3.Q(1, 2), floor % 2 == 1))
    return z3.ToReal(floor + z3.If(up, z3.IntVal(1), z3.IntVal(0)))


class Double:
    """A float64, or a float32, as a real number."""

    __array_ufunc__ = None  # NumPy's scalars leave their operators to this class
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, term: Any, grid: int | None = 0) -> None:
        self.term, self.grid = term, grid

    @classmethod
    def of(cls, value: Any) -> Double:
        """A Double as it is, or a known number."""
        if isinstance(value, Double):
            return value
        if isinstance(value, Num):
            return cls(z3.RealVal(value.__index__()))
        return cls(exact(value), max(0, value.as_integer_ratio()[1].bit_length() - 1))

    def _sum(self, other: Any, sign: int) -> Double:
        large = 2.0**23 if isinstance(other, np.float32) else LARGE
        other = Double.of(other)
        total = self.term + sign * other.term
        if self.grid is None or other.grid is None:
            big = z3.simplify(other.term)
            if z3.is_rational_value(big) and big.numerator_as_long() >= large * big.denominator_as_long():
                require(z3.And(total >= exact(large), total < exact(2 * large)))  # steps of 1
                return Double(to_even(total))
            return Double(total, None)
        grid = max(self.grid, other.grid)
        limit = z3.Q(2**53, 2**grid)
        require(z3.And(total <= limit, total >= -limit))
        return Double(total, grid)

    def __add__(self, other: Any) -> Double:
        return self._sum(other, 1)

    def __sub__(self, other: Any) -> Double:
        return self._sum(other, -1)

    def __neg__(self) -> Double:
        return Double(-self.term, self.grid)

    def __mul__(self, factor: Any) -> Double:
        if factor == 0:
            return Double(z3.RealVal(0))
        mantissa, exponent = frexp(factor)
        assert mantissa == 0.5, "times a power of two alone"
        grid = None if self.grid is None else max(0, self.grid + 1 - exponent)
        return Double(self.term * exact(factor), grid)

    def __abs__(self) -> Double:
        return Double(z3.If(self.term < 0, -self.term, self.term), self.grid)

    def choose(self, condition: Any, other: Any) -> Double:
        """This one where the condition holds, else the other."""
        other = Double.of(other)
        grid = None if self.grid is None or other.grid is None else max(self.grid, other.grid)
        return Double(z3.If(formula(condition), self.term, other.term), grid)

    def __eq__(self, other: Any) -> Bit:  # type: ignore[override]
        return Bit(self.term == Double.of(other).term)

    def __ne__(self, other: Any) -> Bit:  # type: ignore[override]
        return Bit(self.term != Double.of(other).term)

    def __lt__(self, other: Any) -> Bit:
        return Bit(self.term < Double.of(other).term)

    def __le__(self, other: Any) -> Bit:
        return Bit(self.term <= Double.of(other).term)

    def __gt__(self, other: Any) -> Bit:
        return Bit(self.term > Double.of(other).term)

    def __ge__(self, other: Any) -> Bit:
        return Bit(self.term >= Double.of(other).term)

    def cast(self, type: Type) -> Double:
        """As an integer: cut towards 0, within the type."""
        low, high = (-(2 ** (type.bits - 1)), 2 ** (type.bits - 1)) if type.signed else (0, 2**type.bits)
        size = z3.ToReal(z3.ToInt(abs(self).term))
        cut = z3.If(self.term < 0, -size, size)
        require(z3.And(cut >= low, cut < high))
        return Double(cut)


def greater(a: Any, b: Any) -> Double:
    """a if a > b else b, without a fork."""
    return Double.of(a).choose(Double.of(a) > b, b)


def lesser(a: Any, b: Any) -> Double:
    """a if a < b else b, without a fork."""
    return Double.of(a).choose(Double.of(a) < b, b)


def keep(value: Any) -> Any:
    """A cast to a float that changes nothing."""
    return value


FLOATS: dict[str, Any] = {
    "floor": lambda x: Double(z3.ToReal(z3.ToInt(x.term))), "rint": lambda x: Double(to_even(x.term)),
    "float32": keep, "float64": keep,
}  # fmt: skip
CHOICES: dict[str, Any] = {"greater": greater, "lesser": lesser, "max": greater, "min": lesser}


def real(name: str, grid: int | None = None) -> Double:
    """Any number, or any of 51 bits on a grid."""
    run = current()
    if grid is None:
        run.variables[name] = z3.Real(name), float
        return Double(z3.Real(name), None)
    steps = z3.Int(name)
    run.variables[name] = steps, None
    assume(z3.And(steps <= 2**51, steps >= -(2**51)))
    return Double(z3.ToReal(steps) / z3.Q(2**grid, 1), grid)


def whole(name: str, least: int = -(2**52), most: int = 2**52) -> Double:
    """Any integer from least to most, as a float."""
    term = z3.Int(name)
    current().variables[name] = term, None
    assume(z3.And(term >= least, term <= most))
    return Double(z3.ToReal(term))


class Factor:
    """coefficient * Q**q * den**d; every rounding is a factor 1 + e that `rounding` makes."""

    def __init__(self, coefficient: Any, q: int, d: int, errors: list[Any]) -> None:
        self.coefficient, self.powers, self.errors = coefficient, (q, d), errors

    def _made(self, coefficient: Any, powers: tuple[int, int]) -> Factor:
        self.errors.append((coefficient, z3.Real(f"e{len(self.errors) + 2}")))
        return Factor(coefficient * (1 + self.errors[-1][1]), *powers, self.errors)

    def __neg__(self) -> Factor:
        return Factor(-self.coefficient, *self.powers, self.errors)

    def _product(self, other: Factor) -> tuple[Any, tuple[int, int]]:
        (a, b), (c, d) = self.powers, other.powers
        return self.coefficient * other.coefficient, (a + c, b + d)

    def __mul__(self, other: Factor) -> Factor:
        return self._made(*self._product(other))

    def fused(self, by: Factor, plus: Factor) -> Factor:
        """self * by + plus, rounded once."""
        product, powers = self._product(by)
        assert powers == plus.powers, "a sum of two units"
        return self._made(product + plus.coefficient, powers)


def newton(e1: Any, e2: Any, e3: Any) -> tuple[Any, Any]:
    """(left, right) with Q'/Q = 1 - left * right, of a step before its last rounding.

    inverse = (1 + e1)/den, first = (1 + e1)(1 + e2) Q, residual = (Q - first) den (1 + e3):
    Q'/Q = first/Q + (1 - first/Q)(1 + e3)(1 + e1) = 1 - (1 - first/Q)(1 - (1 + e3)(1 + e1)).
    """
    return 1 - (1 + e1) * (1 + e2), 1 - (1 + e3) * (1 + e1)


__all__ = [
    "CHOICES", "FLOATS", "Double", "Factor", "exact", "greater", "keep", "lesser", "newton", "real",
    "to_even", "whole",
]  # fmt: skip
