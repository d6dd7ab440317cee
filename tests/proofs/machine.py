"""Integers of a kernel as terms of an SMT solver, conditions that fork a run, integers of any size.

`Num` has the arithmetic of Numba: a width and a sign, wrap-around, results of 64 bits whatever the
operands, no uint64 beside an int64 (which would become a float64). `Whole` is an integer without a width,
for definitions, or one that is required to stay within int64. `search.py` runs claims on all their paths.
"""

# ruff: noqa: I001 - one name a line would be twenty
from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import z3

from tests.proofs import search
from tests.proofs.search import (
    I8, I16, I32, I64, NUMPY, U8, U16, U32, U64, Type, Undecided, ask, assume, counterexample, decide,
    formula, fresh, prove, require,
)  # fmt: skip

__all__ = [
    "I8", "I16", "I32", "I64", "NUMPY", "U8", "U16", "U32", "U64", "Bit", "Num", "Type",
    "Undecided", "Whole", "all_of", "ask", "assume", "counterexample", "floor_facts", "formula", "fresh",
    "if_", "integer", "num", "power_of_two", "prove", "quotients", "require", "unknown_products", "variable",
    "whole",
]  # fmt: skip


# --- truth -------------------------------------------------------------------------------------------


class Bit:
    """A condition. Where Python asks whether it holds, the run is forked."""

    def __init__(self, term: Any) -> None:
        self.term = z3.BoolVal(term) if isinstance(term, bool) else term

    def __bool__(self) -> bool:
        return decide(self.term)

    def number(self) -> Num:
        """1 or 0, an int64."""
        return Num(z3.If(self.term, z3.BitVecVal(1, 64), z3.BitVecVal(0, 64)), I64)

    def __and__(self, other: Any) -> Bit:
        return Bit(z3.And(self.term, formula(other)))

    def __or__(self, other: Any) -> Bit:
        return Bit(z3.Or(self.term, formula(other)))

    def __invert__(self) -> Bit:
        return Bit(z3.Not(self.term))

    def __eq__(self, other: Any) -> Bit:  # type: ignore[override]
        return Bit(self.term == formula(other))

    def __ne__(self, other: Any) -> Bit:  # type: ignore[override]
        return ~(self == other)

    __hash__ = None  # type: ignore[assignment]

    def __radd__(self, other: Any) -> Any:
        if isinstance(other, Whole):
            return other + Whole(z3.If(self.term, z3.IntVal(1), z3.IntVal(0)), other.limited)
        return other + self.number()

    __add__ = __radd__

    def __mul__(self, other: Any) -> Num:
        return self.number() * other

    def cast(self, type: Type) -> Num:
        """As an integer of a type."""
        return self.number().cast(type)


def all_of(*conditions: Any) -> Bit:
    """Whether all hold."""
    return Bit(z3.And(*(formula(c) for c in conditions)))


def if_(condition: Any, yes: Any, no: Any) -> Any:
    """`yes if condition else no` without a fork."""
    if isinstance(condition, bool):
        return yes if condition else no
    if isinstance(yes, Whole) or isinstance(no, Whole):
        limited = yes.limited if isinstance(yes, Whole) else no.limited
        return Whole(z3.If(formula(condition), whole(yes), whole(no)), limited)
    if hasattr(yes, "choose"):
        return yes.choose(condition, no)
    left, right = num(yes), num(no)
    kind = left.type if left.type == right.type else _common(left, right)
    return Num(z3.If(formula(condition), left.cast(kind).bv(), right.cast(kind).bv()), kind)


# --- integers of any size ----------------------------------------------------------------------------


def whole(value: Any) -> Any:
    """A Whole, a known integer or a Bit as a term of an integer."""
    if isinstance(value, Whole):
        return value.term
    if isinstance(value, (Bit, z3.BoolRef)):
        return z3.If(formula(value), z3.IntVal(1), z3.IntVal(0))
    return z3.IntVal(int(value)) if isinstance(value, (int, Num)) else value


power_of_two = z3.Function("2**", z3.IntSort(), z3.IntSort())


class Whole:
    """An integer as a term. limited: of a kernel, where nothing may pass int64; else of a definition."""

    def __init__(self, term: Any, limited: bool = False) -> None:
        self.term = z3.simplify(z3.IntVal(term) if isinstance(term, int) else term)
        self.limited = limited
        if limited:
            require(z3.And(self.term >= -(2**63), self.term < 2**63))

    def _with(self, other: Any, rule: Callable[[Any, Any], Any]) -> Whole:
        limited = self.limited or (isinstance(other, Whole) and other.limited)
        return Whole(rule(self.term, whole(other)), limited)

    def __add__(self, other: Any) -> Whole:
        return self._with(other, lambda a, b: a + b)

    def __sub__(self, other: Any) -> Whole:
        return self._with(other, lambda a, b: a - b)

    def __rsub__(self, other: Any) -> Whole:
        return self._with(other, lambda a, b: b - a)

    def __mul__(self, other: Any) -> Whole:
        known = search.current().products.get((self.term, z3.simplify(whole(other))))
        return self._with(other, lambda a, b: a * b if known is None else known)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Whole:
        return Whole(-self.term, self.limited)

    def __floordiv__(self, other: Any) -> Whole:
        """The floor, by what it is: q with q * other <= self < (q + 1) * other. other > 0 is required.

        q * other is a number of its own of which no more than that is known, and how q lies to self and 0
        (`test_round_up.py` proves that of true products): so claims stay linear.
        """
        den, run = z3.simplify(whole(other)), search.current()
        require(den > 0)
        if (self.term, den) not in run.quotients:  # one number has one floor
            q, num = fresh(z3.IntSort()), self.term
            product = q * den if z3.is_int_value(den) else fresh(z3.IntSort())
            run.quotients[self.term, den] = q
            run.products[q, den] = run.products[den, q] = product
            assume(z3.Implies(den > 0, floor_facts(num, den, q, product)))
        return Whole(run.quotients[self.term, den], self.limited)

    def __divmod__(self, other: Any) -> tuple[Whole, Whole]:
        """The floor, and the rest by it: as linear as the floor."""
        floor = self // other
        return floor, self - floor * other

    def __mod__(self, other: Any) -> Whole:
        return Whole(self.term % whole(other), self.limited)

    def __and__(self, other: Any) -> Whole:
        assert other == 1, "only the last bit"
        return Whole(self.term % 2, self.limited)

    def __lshift__(self, other: Any) -> Whole:
        return self * Whole(_power(other))

    def __rlshift__(self, other: Any) -> Whole:
        return Whole(whole(other) * _power(self), self.limited)

    def __rpow__(self, other: Any) -> Whole:
        assert other == 2, "only powers of two"
        return Whole(_power(self), self.limited)

    def __eq__(self, other: Any) -> Bit:  # type: ignore[override]
        return Bit(self.term == whole(other))

    def __ne__(self, other: Any) -> Bit:  # type: ignore[override]
        return Bit(self.term != whole(other))

    def __lt__(self, other: Any) -> Bit:
        return Bit(self.term < whole(other))

    def __le__(self, other: Any) -> Bit:
        return Bit(self.term <= whole(other))

    def __gt__(self, other: Any) -> Bit:
        return Bit(self.term > whole(other))

    def __ge__(self, other: Any) -> Bit:
        return Bit(self.term >= whole(other))

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __abs__(self) -> Whole:
        return if_(self < 0, -self, self)

    def cast(self, type: Type) -> Whole:
        """As an int64, which it must be."""
        assert type == I64
        return Whole(self.term, True)


def quotients() -> dict[Any, Any]:
    """(num, den): q of all floors that this run took."""
    return search.current().quotients


def floor_facts(num: Any, den: Any, q: Any, product: Any) -> Any:
    """What is used of q = floor(num / den) and product = q * den, den > 0."""
    near = z3.If(num >= 0, z3.And(q >= 0, q <= num, product >= 0), z3.And(q < 0, q >= num))
    return z3.And(num - product >= 0, num - product < den, near)


def _power(exponent: Any) -> Any:
    """2**exponent as a term; of an exponent that is not known all that is said is that it is at least 1."""
    term = z3.simplify(whole(exponent))
    if z3.is_int_value(term):
        return z3.IntVal(2 ** term.as_long())
    assume(power_of_two(term) >= 1)
    return power_of_two(term)


def integer(name: str, least: int = -(2**63), most: int = 2**63 - 1) -> Whole:
    """Any integer from least to most; of a kernel, where nothing may pass int64."""
    term = z3.Int(name)
    search.current().variables[name] = term, None
    assume(z3.And(term >= least, term <= most))
    return Whole(term, True)


# --- integers of a machine ---------------------------------------------------------------------------


def _common(a: Num, b: Num) -> Type:
    """The type of a sum: Numba's."""
    if a.type.signed == b.type.signed:
        return Type(64, a.type.signed)
    unsigned = a if not a.type.signed else b
    if unsigned.type.bits == 64:
        raise TypeError("uint64 beside a signed integer would be float64")
    return I64


def num(value: Any) -> Num:
    """A Num as it is; a Bit or a Python integer as int64."""
    if isinstance(value, Num):
        return value
    if isinstance(value, Bit):
        return value.number()
    assert -(1 << 63) <= int(value) < 1 << 64, "no literal of a kernel"
    return Num(int(value), I64 if int(value) < 1 << 63 else U64)


class Num:
    """An integer of a type: a Python integer where it is known, else a bit vector."""

    def __init__(self, term: Any, type: Type) -> None:
        self.type = type
        if isinstance(term, int):
            term &= (1 << type.bits) - 1
            term -= (term >> (type.bits - 1) << type.bits) if type.signed else 0
        self.term = term

    def bv(self) -> Any:
        """The bits as a term."""
        return z3.BitVecVal(self.term, self.type.bits) if isinstance(self.term, int) else self.term

    def wide(self, bits: int = 128) -> Any:
        """The value as a bit vector of so many bits, for definitions."""
        more = bits - self.type.bits
        return z3.SignExt(more, self.bv()) if self.type.signed else z3.ZeroExt(more, self.bv())

    def cast(self, type: Type) -> Num:
        """The low bits, or more of them: np.int64(x) and the like."""
        if type == self.type or isinstance(self.term, int):
            return self if type == self.type else Num(self.term, type)
        more = type.bits - self.type.bits
        if more <= 0:
            return Num(z3.Extract(type.bits - 1, 0, self.term), type)
        return Num(z3.SignExt(more, self.term) if self.type.signed else z3.ZeroExt(more, self.term), type)

    def _pair(self, other: Any) -> tuple[Num, Num, Type]:
        other = num(other)
        kind = _common(self, other)
        return self.cast(kind), other.cast(kind), kind

    def _apply(self, other: Any, rule: Callable[[Any, Any], Any]) -> Any:
        if isinstance(other, Whole):
            return NotImplemented
        a, b, kind = self._pair(other)
        if isinstance(a.term, int) and isinstance(b.term, int):
            return Num(rule(a.term, b.term), kind)
        return Num(z3.simplify(rule(a.bv(), b.bv())), kind)

    def __add__(self, other: Any) -> Num:
        return self._apply(other, lambda a, b: a + b)

    def __sub__(self, other: Any) -> Num:
        return self._apply(other, lambda a, b: a - b)

    def __mul__(self, other: Any) -> Num:
        if products and not isinstance(other, Whole):
            a, b, kind = self._pair(other)
            if kind == U64 and not (isinstance(a.term, int) and isinstance(b.term, int)):
                return _unknown_product(a, b)
        return self._apply(other, lambda a, b: a * b)

    def __and__(self, other: Any) -> Num:
        return self._apply(other, lambda a, b: a & b)

    def __or__(self, other: Any) -> Num:
        return self._apply(other, lambda a, b: a | b)

    def __xor__(self, other: Any) -> Num:
        return self._apply(other, lambda a, b: a ^ b)

    def __radd__(self, other: Any) -> Num:
        return num(other) + self

    def __rsub__(self, other: Any) -> Num:
        return num(other) - self

    __rmul__, __rand__, __ror__ = __mul__, __and__, __or__

    def __neg__(self) -> Num:
        return Num(0, Type(64, self.type.signed)) - self

    def __invert__(self) -> Num:
        kind = Type(64, True) if self.type.signed else self.type
        same = self.cast(kind)
        return Num(~same.term if isinstance(same.term, int) else ~same.bv(), kind)

    def _shift(self, other: Any, left: bool) -> Num:
        by = num(other)
        kind = Type(64, self.type.signed)
        value = self.cast(kind)
        if isinstance(by.term, int):
            if not 0 <= by.term < 64:
                raise AssertionError(f"a shift by {by.term} is undefined")
            if isinstance(value.term, int):
                return Num(value.term << by.term if left else value.term >> by.term, kind)
        require((by >= 0) & (by < 64))
        amount, bits = by.cast(kind).bv(), value.bv()
        shifted = bits << amount if left else bits >> amount if kind.signed else z3.LShR(bits, amount)
        return Num(z3.simplify(shifted), kind)

    def __lshift__(self, other: Any) -> Num:
        return self._shift(other, True)

    def __rshift__(self, other: Any) -> Num:
        return self._shift(other, False)

    def __rlshift__(self, other: Any) -> Num:
        return num(other) << self

    def _compare(self, other: Any, rule: Callable[[Any, Any], Any]) -> Any:
        """Numba compares values, of whatever signs."""
        if isinstance(other, Whole):
            return NotImplemented
        other = num(other)
        if isinstance(self.term, int) and isinstance(other.term, int):
            return bool(rule(self.term, other.term))
        bits = max(self.type.bits, other.type.bits) + (self.type.signed != other.type.signed)
        return Bit(z3.simplify(rule(self.wide(bits), other.wide(bits))))

    def __eq__(self, other: Any) -> Any:
        return self._compare(other, lambda a, b: a == b)

    def __ne__(self, other: Any) -> Any:
        return self._compare(other, lambda a, b: a != b)

    def _less(self, other: Any, equal: bool) -> Any:
        signed = self.type.signed or num(other).type.signed
        if signed:
            return self._compare(other, lambda a, b: a <= b if equal else a < b)
        less = z3.ULE if equal else z3.ULT
        known = isinstance(self.term, int) and isinstance(num(other).term, int)
        return self._compare(other, less) if not known else (
            self.term <= num(other).term if equal else self.term < num(other).term
        )  # fmt: skip

    def __lt__(self, other: Any) -> Any:
        return self._less(other, False)

    def __le__(self, other: Any) -> Any:
        return self._less(other, True)

    def __gt__(self, other: Any) -> Any:
        return num(other) < self

    def __ge__(self, other: Any) -> Any:
        return num(other) <= self

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __abs__(self) -> Num:
        return if_(self < 0, -self, self)

    def __index__(self) -> int:
        if not isinstance(self.term, int):
            raise TypeError("an index must be known")
        return self.term


products: list[dict[Any, Any]] = []


@contextmanager
def unknown_products() -> Iterator[dict[Any, Any]]:
    """In here a product of uint64 is any number up to (2**32 - 1)**2, and both factors must have 32 bits.

    What is proven then needs no multiplier: it holds for all numbers that could be products. Yields them.
    """
    products.append({})
    try:
        yield products[-1]
    finally:
        products.pop()


def _unknown_product(a: Num, b: Num) -> Num:
    require(all_of(a < 1 << 32, b < 1 << 32))
    key = a.bv(), b.bv()
    if key not in products[-1]:
        products[-1][key] = fresh(z3.BitVecSort(64))
        assume(z3.ULE(products[-1][key], (2**32 - 1) ** 2))
    return Num(products[-1][key], U64)


def variable(name: str, type: Type) -> Num:
    """Any integer of a type."""
    term = z3.BitVec(name, type.bits)
    search.current().variables[name] = term, NUMPY[type]
    return Num(term, type)
