"""Rounding in float64 and float32 (`intnet/exact/stages.py`, `intnet/exact/blocks/block_loops.py`).

Quotients come from `instructions.quotient`; what is used of it is what `test_quotients.py` proves: it lies to
every multiple of 1/2 as num/den does, and is it where num/den is one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import z3

from intnet.exact import float_stages, stages
from intnet.exact.blocks import block_loops
from tests.proofs.machine import I32, I64, Bit, Num, all_of, assume, counterexample, prove, variable
from tests.proofs.memory import Cells
from tests.proofs.reals import CHOICES, FLOATS, Double, real, to_even, whole
from tests.proofs.rules import Kind, named, on_terms, with_fault

Claim = Callable[[], Any]
GRIDS = (0, 1, 31, 32, 51, 52, 53, 128)  # beyond 52 floor(q) is 0 or -1, and nothing is taken from q
DENS = (3, 98, 2**20 + 6)
UNIT = 0.25  # of `floats`, where it only passes through


def limits(grid: int | None = None) -> tuple[Double, Double, Double]:
    """(least, lo, hi): 0 with relu, else below all numerators; integers with 0 between them."""
    least = real("least") if grid is None else whole("least")
    assume(z3.Or((least == 0).term, (least < -(2**51)).term))
    return least, whole("lo", most=0), whole("hi", least=0)


def one_if(count: Any, condition: Any) -> Bit:
    """The count is 1 where the condition holds, else 0."""
    return all_of((count == 1) == Bit(condition), (count == 0) == ~Bit(condition))


def clipped(saturated: Any, kept: Double, code: Any, lo: Double, hi: Double) -> Bit:
    """The code is limited, and counted where that changed it."""
    low = z3.If(code < lo.term, lo.term, code)
    right = z3.If(low > hi.term, hi.term, low)
    return all_of(kept.term == right, one_if(saturated, right != code))


def by_word(q: Any, word: Double, bits: int) -> tuple[Any, Any]:
    """floor(q), and floor(q) + [word < floor(f * 2**bits)], f = q - floor(q)."""
    floor = z3.ToReal(z3.ToInt(q))
    up = word.term < z3.ToReal(z3.ToInt((q - floor) * 2**bits))
    return floor, floor + z3.If(up, z3.RealVal(1), z3.RealVal(0))


def stochastic(bits: int, grid: int | None = None) -> Callable[[Any], Claim]:
    """floor(q) + [word < floor(f * 2**bits)], f = q - floor(q). On a grid: no sum is rounded, no more."""

    def of(f: Any) -> Claim:
        def claim() -> Any:
            num, word = real("q", grid), whole("word", 0, 2**bits - 1)
            assume(z3.And(num.term <= 2**51, num.term >= -(2**51)))
            least, lo, hi = limits(grid)
            cells, drawn = Cells([num]), Cells([Cut(word, bits)])
            got = on_terms(f, FLOATS, **CHOICES)(cells, 1, Cells([1.0]), least, lo, hi, drawn, 0, bits)
            if grid is not None:
                return True
            q = z3.If(num.term > least.term, num.term, least.term)
            floor, code = by_word(q, word, bits)
            return all_of(clipped(got[0], cells[0], code, lo, hi), one_if(got[1], floor != q))

        return claim

    return of


def stochastic_quotient(bits: int, den: int) -> Callable[[Any], Claim]:
    """The same of Q = num/den for any real num: the floor is that of Q, a residual has its exact sign."""

    def of(f: Any) -> Claim:
        def claim() -> Any:
            num, word = real("num"), whole("word", 0, 2**bits - 1)
            assume(z3.And(num.term <= 2**51, num.term >= -(2**51)))
            least, lo, hi = limits()
            cells, drawn, by = Cells([num]), Cells([Cut(word, bits)]), Cells([float(den)])

            def quotient(x: Double, over: Any, inverse: Any) -> Double:
                return Double(x.term / den)

            def residual(x: Double, over: Any, q: Double) -> Double:
                return Double(x.term - q.term * den)

            run = on_terms(f, FLOATS, quotient=quotient, residual=residual, **CHOICES)
            got = run(cells, 1, by, by, least, lo, hi, drawn, 0, bits)
            q = z3.If(num.term > least.term, num.term, least.term) / den
            floor, code = by_word(q, word, bits)
            return all_of(clipped(got[0], cells[0], code, lo, hi), one_if(got[1], floor != q))

        return claim

    return of


class Cut:
    """A random word, of which only the first `bits` bits are looked at: any number of so many."""

    def __init__(self, word: Double, bits: int) -> None:
        self.word, self.bits = word, bits

    def __rshift__(self, drop: Any) -> Double:
        assert drop.__index__() == 32 - self.bits
        return self.word


class Quotient:
    """The contract of `quotient`: some q that lies to every half as Q does; what it was asked.

    x = edge * (2m + p + b/2 + r) with integers m, p = 0..1, b = 0..1 and 0 <= r < 1/2, as every x is in one
    way: q and Q have the same m, p, b, and r is 0 for both or none. Half of `edge`, 2 or more, is an integer.
    """

    def __init__(self, *edges: int) -> None:
        self.q, self.exact, self.asked = real("q"), real("Q"), list[Double]()
        self.near: dict[tuple[str, int], Any] = {}
        for edge in (1, *edges):
            m, p, b = z3.Ints(f"m{edge} p{edge} b{edge}")
            assume(z3.And(p >= 0, p <= 1, b >= 0, b <= 1))
            rests = []
            for x in (self.q, self.exact):
                rest = z3.Real(f"r{edge}{x.term}")
                rests.append(rest)
                assume(x.term == edge * (z3.ToReal(2 * m + p) + z3.ToReal(b) / 2 + rest))
                assume(z3.And(rest >= 0, rest < z3.Q(1, 2)))
                up = z3.And(b == 1, z3.Or(rest > 0, p == 1))  # above a half, or a tie and an odd floor
                self.near[str(x.term), edge] = z3.ToReal(2 * m + p + z3.If(up, 1, 0))
            assume((rests[0] == 0) == (rests[1] == 0))

    def __call__(self, num: Double, den: Any, inverse: Any) -> Double:
        self.asked.append(num)
        return self.q

    def rint(self, x: Double) -> Double:
        """Of q, or of q / edge."""
        for (name, edge), near in self.near.items():
            if name == "q" and z3.is_true(z3.simplify(x.term == self.q.term / edge)):
                return Double(near)
        raise AssertionError(f"rint of {x.term}")


def to_nearest(edge: int | None = None) -> Callable[[Any], Claim]:
    """Q to nearest, ties to even; from `edge` on in steps of `edge` (Eq. 17)."""

    def of(f: Any) -> Claim:
        def claim() -> Any:
            num, quotient = real("num"), Quotient(*([] if edge is None else [edge]))
            least, lo, hi = limits()
            assume(z3.And(num.term <= 2**51, num.term >= -(2**51)))
            cells, one, last = Cells([num]), Cells([1.0]), () if edge is None else (float(edge),)
            names = FLOATS | {"rint": quotient.rint}
            run = on_terms(f, names, quotient=quotient, **CHOICES)
            got = run(cells, 1, one, one, least, lo, hi, *last)
            value = quotient.exact.term
            code = quotient.near["Q", 1]
            if edge is not None:
                coarse = z3.Or(value >= edge, value <= -edge)
                code = z3.If(coarse, edge * quotient.near["Q", edge], code)
            asked = quotient.asked[0].term == z3.If(num.term > least.term, num.term, least.term)
            return all_of(asked, clipped(got[0], cells[0], code, lo, hi), one_if(got[1], code != value))

        return claim

    return of


def unclipped(f: Any) -> Claim:
    """The same without limits; it counts what is inexact."""

    def claim() -> Any:
        num, quotient, one = real("num"), Quotient(), Cells([1.0])
        least, cells = limits()[0], Cells([num])
        names = FLOATS | {"rint": quotient.rint}
        got = on_terms(f, names, quotient=quotient, **CHOICES)(cells, 1, one, one, least)
        value, code = quotient.exact.term, cells[0].term
        return all_of(code == quotient.near["Q", 1], one_if(got, code != value))

    return claim


def stored_in(cells: Cells) -> Callable[[Any, Any, Any], None]:
    """`instructions.put` into cells."""

    def put(out: Any, at: Any, value: Any) -> None:
        cells[at] = value

    return put


# --- rounding to odd ---------------------------------------------------------------------------------


class Sign:
    """A float of which only the sign is known."""

    def __init__(self, name: str) -> None:
        self.term = real(name).term

    def __gt__(self, zero: float) -> Bit:
        return Bit(self.term > 0)

    def __ne__(self, zero: object) -> Bit:  # type: ignore[override]
        return Bit(self.term != 0)

    __hash__ = None  # type: ignore[assignment]


class Bits:
    """A float64 by its bits, an int64: sign and magnitude."""

    def __init__(self, bits: Num) -> None:
        self.bits = bits

    def __gt__(self, zero: float) -> Bit:
        return Bit(self.bits.bv() > 0)

    def __mul__(self, unit: float) -> Bits:
        assert unit == UNIT
        return self


class Line(Cells):
    """An array of float64 that is also looked at as int64."""

    def view(self, kind: Any) -> Line:
        """The bits in the same place."""
        line = self

        class View(Line):
            def __getitem__(self, index: Any) -> Any:
                return line[index].bits

            def __setitem__(self, index: Any, value: Any) -> None:
                line[index] = Bits(value)

        return View([])


def quotient_to_odd(f: Any) -> Claim:
    """The bits of q, or where the rest is not 0 of the odd one of the two floats beside num/den.

    One of them is q. The other is a step outward where the rest has q's sign, else inward; of two floats one
    after another, one is even.
    """

    def claim() -> Any:
        num, q, rest, least = real("num"), variable("bits", I64), Sign("rest"), limits()[0]
        assume(z3.And(q.bv() << 1 != 0))  # q is not 0, as nothing underflows
        line, out, asked = Line([num]), Cells([None]), list[Any]()

        def quotient(x: Any, den: Any, inverse: Any) -> Bits:
            asked.append(x)
            return Bits(q)

        def residual(x: Any, den: Any, of: Bits) -> Sign:
            asked.append(x)
            assert of.bits is q
            return rest

        names = {"put": stored_in(out), "top_pattern": lambda *_: 0}
        on_terms(f, FLOATS, quotient=quotient, residual=residual, **names, **CHOICES)(
            line, 1, Cells([1.0]), Cells([1.0]), least, UNIT, Cells([None]), None, 0
        )
        outward = (rest.term > 0) == (q.bv() > 0)
        other = z3.If(outward, q.bv() + 1, q.bv() - 1)
        right = z3.If(z3.Or(rest.term == 0, q.bv() & 1 == 1), q.bv(), other)
        x = z3.If(num.term > least.term, num.term, least.term)
        return all_of(out[0].bits.bv() == right, asked[0].term == x, asked[1].term == x)

    return claim


# --- blocks ------------------------------------------------------------------------------------------


def block_line(f: Any) -> Claim:
    """x in steps of 1/8 to nearest, ties to even, by adding 1.5 * 2**23 in float32; limited, counted.

    The code is an integer before it is an int32, as the claim says: of such a float the cast changes nothing.
    """

    def claim() -> Any:
        x, limit = real("x"), whole("limit", 0, 2**20)
        assume(z3.And(8 * x.term < 2**22, 8 * x.term > -(2**22)))
        target = Cells([None])
        scales = [Cells([value]) for value in (4.0, 2.0, limit)]
        names = FLOATS | {"int32": lambda value: value if isinstance(value, Double) else Kind(I32)(value)}
        count = on_terms(f, names, **CHOICES)(Cells([x]), scales, target)
        return clipped(count, target[0], to_even(8 * x.term), -limit, limit)

    return claim


CLAIMS = [
    *((stages.random, stochastic(bits)) for bits in (1, 8, 32)),
    *((stages.random, stochastic(32, grid)) for grid in GRIDS),
    *((stages.random_quotient, stochastic_quotient(bits, den)) for bits in (1, 8, 32) for den in DENS),
    (stages.nearest, to_nearest()), (stages.unclipped, unclipped),
    *((stages.flagged, to_nearest(1 << fine)) for fine in (1, 7, 15)),
    (float_stages.floats, quotient_to_odd),
    (block_loops.round_line, block_line),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("function", "claim"), CLAIMS, ids=lambda f: getattr(f, "__name__", ""))
def test_stages(function: Any, claim: Callable[[Any], Claim]) -> None:
    prove(claim(function))


FAULTS = [
    (stages.random, "floor == -1.0", "floor == -2.0", stochastic(32, 128)),
    (stages.random, "lower * span <= (q", "lower * span < (q", stochastic(8)),
    (stages.random, "word + 1.0 + lower", "word + lower", stochastic(8)),
    (stages.random, "kept != code", "kept == code", stochastic(8)),
    (stages.random_quotient, ">= 0.0", "> 0.0", stochastic_quotient(8, 3)),
    (stages.random_quotient, "word + 1.0", "word", stochastic_quotient(8, 98)),
    (stages.random_quotient, "rest != lower * den[j]", "rest > 1.0", stochastic_quotient(8, 3)),
    (stages.nearest, "code != q", "code == q", to_nearest()),
    (stages.flagged, "abs(q) >= edge", "abs(q) >= 2.0 * edge", to_nearest(128)),
    (stages.flagged, "abs(q) >= edge", "q >= edge", to_nearest(128)),
    (stages.flagged, "near * (edge if coarse else 1.0)", "near * edge", to_nearest(128)),
    (float_stages.floats, "(rest > 0.0) == (q > 0.0)", "rest > 0.0", quotient_to_odd),
    (float_stages.floats, "np.int64(rest != 0.0) * ", "", quotient_to_odd),
    (float_stages.floats, "& 1 == 0", "& 1 == 1", quotient_to_odd),
    (block_loops.round_line, "more[i] + _MAGIC", "more[i] + 0.5 + _MAGIC", block_line),
    (block_loops.round_line, "inside != code", "inside == code", block_line),
    (block_loops.round_line, "max(code, -limit[i])", "max(code, limit[i])", block_line),
]


@pytest.mark.slow
@pytest.mark.parametrize(("function", "right", "wrong", "claim"), FAULTS, ids=named)
def test_a_fault_has_a_counterexample(function: Any, right: str, wrong: str, claim: Any) -> None:
    assert counterexample(claim(with_fault(function, right, wrong))) is not None
