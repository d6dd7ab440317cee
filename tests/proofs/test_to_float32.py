"""Exact values to float32 (`intnet/exact/loops.py`, `blocks/long_sums.py`): no lost bit decides wrong.

float32 rounds x to a multiple of 2**k, k = its bit length - 24, or more where it is subnormal: claims are of
every k that |x| < 2**(k + 24) allows. float64 holds an integer below 2**53 as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log2
from typing import Any

import pytest
import z3

from intnet.exact import loops
from intnet.exact.blocks import long_sums
from tests.proofs.machine import (
    I64,
    U64,
    Bit,
    Num,
    all_of,
    assume,
    counterexample,
    prove,
    require,
    variable,
)
from tests.proofs.memory import Cells
from tests.proofs.rules import named, on_numbers, on_terms, with_fault

Claim = Callable[[], Any]
DIGITS, WIDTH = 4, 192  # of a long sum


@dataclass
class Dyadic:
    """A float64 that is term * 2**power times a scale that is a power of two: exact."""

    term: Any
    power: int = 0

    def __mul__(self, other: Any) -> Dyadic:
        if isinstance(other, Dyadic):
            return Dyadic(other.term if self.term is None else self.term, self.power + other.power)
        return Dyadic(self.term, self.power + int(log2(other)))


def float64(value: Num) -> Dyadic:
    """np.float64 of an integer, which is required to have 53 bits, or to be -2**63."""
    require(z3.Or(all_of(value >= -(1 << 53), value <= 1 << 53).term, (value == -(1 << 63)).term))
    return Dyadic(value.bv())


SCALE = Dyadic(None)  # the factor that callers give
FLOATS = {"float64": float64, "float32": lambda value: value}


def nearest(x: Any, k: Any) -> Any:
    """x as a number of steps of 2**k, to nearest, ties to even; k >= 1."""
    floor = x >> k
    rest, half = x - (floor << k), z3.BitVecVal(1, x.size()) << (k - 1)
    up = z3.Or(rest > half, z3.And(rest == half, floor & 1 == 1))
    return floor + z3.If(up, z3.BitVecVal(1, x.size()), 0)


def rounds_alike(kept: Any, exact: Any, k: Any) -> Bit:
    """Two numbers have as many bits, as far as steps of float32 go, and round alike."""
    size = exact.size()
    top = z3.BitVecVal(1, size) << (k + 23)
    normal = [z3.Or(x >= top, -x >= top) for x in (kept, exact)]  # else k is that of subnormals
    return Bit(z3.And(normal[0] == normal[1], nearest(kept, k) == nearest(exact, k)))


def step(exact: Any, cut: int) -> Any:
    """Any k from `cut` on that float32 may round `exact` at."""
    k = z3.BitVec("k", exact.size())
    limit = z3.BitVecVal(1, exact.size()) << (k + 24)
    assume(z3.And(z3.ULE(k, exact.size() - 26), z3.UGE(k, cut), exact < limit, -exact < limit))
    return k


def odd(exact: Any, cut: int) -> Any:
    """exact / 2**cut rounded to odd: its floor, whose last bit is 1 where a bit was lost."""
    lost = (exact & ((1 << cut) - 1)) != 0
    return exact >> cut | z3.If(lost, z3.BitVecVal(1, exact.size()), 0)


def from_odd(size: int, cut: int) -> Claim:
    """A number rounded to odd rounds like the number itself, where k >= cut + 2."""

    def claim() -> Any:
        exact = z3.BitVec("exact", size)
        assume(z3.And(exact < 1 << (size - 3), -exact < 1 << (size - 3)))
        return rounds_alike(odd(exact, cut) << cut, exact, step(exact, cut + 2))

    return claim


def corrected(size: int, cut: int) -> Claim:
    """A nearest number, moved by one towards an error where it is even, is the number rounded to odd.

    So do `fma32` and `float_stages.floats` with a float64, by the sign of its error.
    """

    def claim() -> Any:
        exact = z3.BitVec("exact", size)
        assume(z3.And(exact < 1 << (size - 3), -exact < 1 << (size - 3)))
        near = nearest(exact, z3.BitVecVal(cut, size))
        error = exact - (near << cut)
        outward = z3.If(error > 0, z3.BitVecVal(1, size), z3.BitVecVal(-1, size))
        moved = near + z3.If(z3.And(error != 0, near & 1 == 0), outward, 0)
        return Bit(moved == odd(exact, cut))

    return claim


def from_int64(f: Any) -> Claim:
    """|num| <= 2**62, or -2**63, whose abs is itself: float64 holds num, or num rounded to odd."""

    def claim() -> Any:
        num = variable("num", I64)
        assume(z3.Or(all_of(num >= -(1 << 62), num <= 1 << 62).term, (num == -(1 << 63)).term))
        got = on_terms(f, FLOATS)(num, SCALE)
        return Bit(got.term == odd(num.bv(), got.power))

    return claim


def dropped(f: Any) -> Claim:
    """num / 2**drop lies to every even integer as what is kept does."""

    def claim() -> Any:
        num, drop, c = variable("num", I64), variable("drop", I64), variable("c", I64)
        assume(all_of(drop >= 0, drop < 63, (c & 1) == 0))
        kept = on_terms(f)(num, drop).wide()
        limit = c.wide() << drop.wide()
        return all_of((kept < c.wide()) == (num.wide() < limit), (kept > c.wide()) == (num.wide() > limit))

    return claim


def from_limbs(f: Any) -> Claim:
    """Two limbs below 2**126: `nearest_float32` is given what rounds as the value does, with its scale."""

    def claim() -> Any:
        hi, lo = variable("hi", I64), variable("lo", U64)
        exact = z3.SignExt(32, z3.Concat(hi.bv(), lo.bv()))
        assume(all_of(hi >= -(1 << 62), hi < 1 << 62))
        out = Cells([None])

        def cast(num: Num, scale: Dyadic) -> Dyadic:
            require(z3.Or(all_of(num >= -(1 << 62), num <= 1 << 62).term, (num == -(1 << 63)).term))
            return Dyadic(num.bv(), scale.power)

        on_terms(f, nearest_float32=cast)(Cells([hi]), Cells([lo]), SCALE, out)
        got = out[0]
        large = 1 << (got.power + 29)
        enough = True if got.power == 0 else z3.Or(exact >= large, exact < -large)
        return all_of(z3.SignExt(96, got.term) == odd(exact, got.power), enough)

    return claim


class Rows:
    """digits[i] of one row."""

    def __init__(self, line: Cells) -> None:
        self.line, self.shape = line, (1, line.size)

    def __getitem__(self, index: Any) -> Cells:
        return self.line


def total(line: list[Num]) -> Any:
    """What the digits are, in WIDTH bits."""
    return sum((digit.wide(WIDTH) << (30 * k) for k, digit in enumerate(line)), z3.BitVecVal(0, WIDTH))


def from_digits(f: Any) -> Claim:
    """`nearest_float32` gets the sum rounded to odd, 31 bits or more; digits below 2**30, the last signed."""

    def claim() -> Any:
        line = [variable(f"d{k}", I64) for k in range(DIGITS)]
        assume(all_of(*(all_of(d >= 0, d < 1 << 30) for d in line[:-1])))
        assume(all_of(line[-1] > -(1 << 29), line[-1] < 1 << 29))
        exact, out = total(line), Cells([None])
        on_terms(f, nearest_float32=lambda num, unit: Dyadic(num.bv(), unit))(
            Rows(Cells(list(line))), range(0, 30 * DIGITS, 30), out
        )
        got = out[0]
        large = 1 << (got.power + 30)
        enough = True if got.power == 0 else z3.Or(exact >= large, exact <= -large)
        return all_of(z3.SignExt(WIDTH - 64, got.term) == odd(exact, got.power), enough)

    return claim


def carried(f: Any) -> Claim:
    """Two digits of up to 60 bits and either sign, and two that take the carries: the same."""

    def claim() -> Any:
        line = [variable("d0", I64), variable("d1", I64), Num(0, I64), Num(0, I64)]
        assume(all_of(*(all_of(d > -(1 << 60), d < 1 << 60) for d in line[:2])))
        exact, out = total(line), Cells([None])
        on_terms(f, nearest_float32=lambda num, unit: Dyadic(num.bv(), unit))(
            Rows(Cells(list(line))), range(0, 30 * DIGITS, 30), out
        )
        return Bit(z3.SignExt(WIDTH - 64, out[0].term) == odd(exact, out[0].power))

    return claim


def added(shift: int) -> Callable[[Any], Claim]:
    """The digits grow by code * 2**shift, each by less than 2**31: 2**28 codes leave them below 2**60."""

    def of(f: Any) -> Claim:
        def claim() -> Any:
            code = variable("code", I64)
            assume(all_of(code > -(1 << 62), code < 1 << 62))
            cells = Cells([Num(0, I64)] * DIGITS)
            on_terms(f)(Cells([code]), shift, Rows(cells))
            small = all_of(*(all_of(d > -(1 << 31), d < 1 << 31) for d in cells.values))
            return all_of(small, total(cells.values) == code.wide(WIDTH) << shift)

        return claim

    return of


CLAIMS = [
    (loops.drop_bits, dropped), (loops.nearest_float32, from_int64), (loops.float_limbs, from_limbs),
    (long_sums._add, added(0)), (long_sums._add, added(29)), (long_sums._round, from_digits),
    (long_sums._round, carried),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("function", "claim"), CLAIMS, ids=lambda f: getattr(f, "__name__", ""))
def test_to_float32(function: Any, claim: Callable[[Any], Claim]) -> None:
    prove(claim(function))


@pytest.mark.slow
@pytest.mark.parametrize(("size", "cut"), [(72, 1), (72, 10), (96, 32)])
def test_odd_numbers(size: int, cut: int) -> None:
    prove(from_odd(size, cut))
    prove(corrected(size, cut))


FAULTS = [
    (loops.drop_bits, "kept << drop != num", "kept << drop > num", from_int64),
    (loops.drop_bits, "kept << drop != num", "num & 1", from_int64),
    (loops.nearest_float32, "drop_bits(num, 10)", "(num >> 10)", from_int64),
    (loops.nearest_float32, "drop_bits(num, 10)", "drop_bits(num, 9)", from_int64),
    (loops.nearest_float32, "1 << 53", "1 << 55", from_int64),
]


@pytest.mark.slow
@pytest.mark.parametrize(("function", "right", "wrong", "claim"), FAULTS, ids=named)
def test_a_fault_has_a_counterexample(function: Any, right: str, wrong: str, claim: Any) -> None:
    """And it makes another float64, or one that float64 does not hold."""
    faulty = with_fault(function, right, wrong)
    if function is loops.drop_bits:
        found = counterexample(lambda: Bit(of_drop_bits(faulty)))
        assert found is not None
        assert on_numbers(faulty)(found["num"], 10) != on_numbers(function)(found["num"], 10)
        return
    assert counterexample(claim(faulty)) is not None


def of_drop_bits(f: Any) -> Any:
    """drop_bits(num, 10) is num / 2**10 rounded to odd."""
    num = variable("num", I64)
    return on_terms(f)(num, 10).bv() == odd(num.bv(), 10)
