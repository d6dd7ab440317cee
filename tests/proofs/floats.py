"""Floats as terms: IEEE arithmetic of any two precisions, one in place of float32 and one of float64.

The code of a rule does not know how many bits its floats have. At full width an exact float64 sum or
product is more than a solver can search; with few bits, 2p + 2 in the wider one, it is not.
"""

from __future__ import annotations

from typing import Any

import z3

from tests.proofs.machine import I64, Bit, Num, assume, formula, fresh, if_

EVEN = z3.RNE()


class Float:
    """A float; every operation rounds to nearest, ties to even."""

    def __init__(self, term: Any) -> None:
        self.term = term

    def _number(self, other: Any) -> Any:
        return other.term if isinstance(other, Float) else z3.FPVal(other, self.term.sort())

    def __add__(self, other: Any) -> Float:
        return Float(z3.fpAdd(EVEN, self.term, self._number(other)))

    def __sub__(self, other: Any) -> Float:
        return Float(z3.fpSub(EVEN, self.term, self._number(other)))

    def __mul__(self, other: Any) -> Float:
        return Float(z3.fpMul(EVEN, self.term, self._number(other)))

    def __truediv__(self, other: Any) -> Float:
        return Float(z3.fpDiv(EVEN, self.term, self._number(other)))

    def __rtruediv__(self, other: Any) -> Float:
        return Float(z3.fpDiv(EVEN, self._number(other), self.term))

    def __neg__(self) -> Float:
        return Float(z3.fpNeg(self.term))

    def __eq__(self, other: Any) -> Bit:  # type: ignore[override]
        return Bit(z3.fpEQ(self.term, self._number(other)))

    def __ne__(self, other: Any) -> Bit:  # type: ignore[override]
        return Bit(z3.Not(z3.fpEQ(self.term, self._number(other))))

    def __lt__(self, other: Any) -> Bit:
        return Bit(z3.fpLT(self.term, self._number(other)))

    def __le__(self, other: Any) -> Bit:
        return Bit(z3.fpLEQ(self.term, self._number(other)))

    def __gt__(self, other: Any) -> Bit:
        return Bit(z3.fpGT(self.term, self._number(other)))

    def __ge__(self, other: Any) -> Bit:
        return Bit(z3.fpGEQ(self.term, self._number(other)))

    __hash__ = None  # type: ignore[assignment]

    def choose(self, condition: Any, other: Float) -> Float:
        """This where the condition holds, else the other."""
        return Float(z3.If(formula(condition), self.term, other.term))

    def to(self, sort: Any) -> Float:
        """As a float of another precision, rounded."""
        return Float(z3.fpFPToFP(EVEN, self.term, sort))

    def bits(self) -> Any:
        """A bit pattern of which the float is the value."""
        pattern = fresh(z3.BitVecSort(self.term.sort().ebits() + self.term.sort().sbits()))
        assume(z3.fpBVToFP(pattern, self.term.sort()) == self.term)
        return pattern


class Pattern:
    """The bits of a float as an integer of their own width: sums and tests of the last bit."""

    def __init__(self, term: Any, sort: Any) -> None:
        self.term, self.sort = term, sort

    def __add__(self, other: Any) -> Pattern:
        more = other.bv() if isinstance(other, Num) else z3.BitVecVal(other, 64)
        return Pattern(self.term + z3.Extract(self.term.size() - 1, 0, more), self.sort)

    def __and__(self, other: Any) -> Num:
        return Num(z3.ZeroExt(64 - self.term.size(), self.term & other), I64)

    def choose(self, condition: Any, other: Pattern) -> Pattern:
        """This where the condition holds, else the other."""
        return Pattern(z3.If(formula(condition), self.term, other.term), self.sort)


class Scalar(Float):
    """A Float with what rules ask of NumPy's: views, casts, elements."""

    def view(self, kind: Any) -> Any:
        """The bit pattern."""
        return Pattern(self.bits(), self.term.sort())


def names(narrow: Any, wide: Any) -> dict[str, Any]:
    """`np` of floats: float32 is `narrow`, float64 `wide`."""

    class Wide(Scalar):
        def astype(self, kind: Any) -> Any:
            return _Result(self.to(narrow))

    class _Result:
        def __init__(self, value: Float) -> None:
            self.value = value

        def __getitem__(self, index: Any) -> Float:
            assert index == ()
            return self.value

    def view(self: Pattern, kind: Any) -> Wide:
        return Wide(z3.fpBVToFP(self.term, wide))

    Pattern.view = view  # type: ignore[attr-defined]
    return {
        "float64": wide, "float32": narrow, "int64": "int64",
        "multiply": lambda a, b, dtype: a.to(wide) * b.to(wide),
        "asarray": lambda x, dtype=None: Wide(x.to(wide).term if dtype is not None else x.term),
        "isfinite": lambda x: Bit(z3.Not(z3.Or(z3.fpIsInf(x.term), z3.fpIsNaN(x.term)))),
        "where": if_,
    }
