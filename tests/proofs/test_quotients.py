"""Quotients by a multiplication, at full width: error bounds over the reals, and integers beside them.

`intnet/machine/instructions.py: quotient` (float64) and `intnet/exact/blocks/quotient.py: divided` (float32)
take one Newton step on num * (1/den). Each rounding multiplies by 1 + e, |e| <= u = 2**-53 (2**-24), as
IEEE says of all that does not underflow; e is any real number here. The solver proves the
steps of their docstrings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import z3

from intnet.exact import sources
from tests.proofs.machine import Bit, Whole, ask, assume, counterexample, prove, require
from tests.proofs.reals import newton
from tests.proofs.rules import on_terms, with_fault

U64 = z3.Q(1, 2**53)


def proven(*terms: Any) -> None:
    """The last of the terms follows from the others."""
    assert ask(list(terms[:-1]))[0] == z3.sat, "nothing fulfils what is assumed"
    answer, solver = ask([*terms[:-1], z3.Not(terms[-1])])
    assert answer == z3.unsat, solver.model() if answer == z3.sat else solver.reason_unknown()


def small(*terms: Any, bound: Any = U64) -> Any:
    """All are of a magnitude of at most `bound`."""
    return z3.And(*(z3.And(t <= bound, t >= -bound) for t in terms))


def test_a_newton_step_is_algebra() -> None:
    e1, e2, e3 = z3.Reals("e1 e2 e3")
    left, right = newton(e1, e2, e3)
    first = (1 + e1) * (1 + e2)
    assert z3.is_true(z3.simplify(first + (1 - first) * (1 + e3) * (1 + e1) == 1 - left * right, som=True))


def test_a_newton_step_is_right_to_102_bits() -> None:
    """|Q'/Q - 1| <= 2**-102: each factor is at most 3u, and (3u)**2 < 2**-102."""
    e1, e2, a, b = z3.Reals("e1 e2 a b")
    left = 1 - (1 + e1) * (1 + e2)
    proven(small(e1, e2), small(left, bound=3 * U64))
    proven(small(a, b, bound=3 * U64), small(a * b, bound=z3.Q(1, 2**102)))


@pytest.mark.slow
def test_the_quotient_keeps_away_from_every_half() -> None:
    """num/den that is no multiple h = H/2 is |num/den| * 2**-52 away from it: integers, |num| <= 2**51."""
    num, den, half = z3.Ints("num den H")
    gap = z3.If(2 * num > half * den, 2 * num - half * den, half * den - 2 * num)
    # |num/den - H/2| = gap / (2 den) >= |num| / (den 2**52)  where  gap * 2**51 >= |num|
    bounds = [den > 0, num <= 2**51, num >= -(2**51), 2 * num != half * den]
    proven(*bounds, z3.And(gap * 2**51 >= num, gap * 2**51 >= -num))


@pytest.mark.parametrize("side", [1, -1])
def test_so_rounding_cannot_reach_the_half(side: int) -> None:
    """Q' within 2**-102 of Q, Q at least |Q| 2**-52 from h: |Q' - h| > |h| 2**-53, so out of reach."""
    q, step, h = z3.Reals("Q Q' h")
    near = small(step - q, bound=q * z3.Q(1, 2**102))
    away = h - q >= q * z3.Q(1, 2**52) if side > 0 else q - h >= q * z3.Q(1, 2**52)
    beyond = h - step > h * U64 if side > 0 else step - h > h * U64
    proven(q > 0, h >= 0, near, away, z3.Implies(h <= 2 * q, beyond))


def test_no_middle_of_two_float32_is_a_quotient() -> None:
    """`divided`: X * 2**25 = S * M with M odd would make S even, again and again, 25 times: S has 24 bits."""
    a, b = z3.Ints("a b")  # two odd numbers have an odd product
    assert z3.is_true(z3.simplify((2 * a + 1) * (2 * b + 1) == 2 * (2 * a * b + a + b) + 1, som=True))
    s = z3.Int("S")
    proven(s >= 1, s < 2**24, s % 2**25 != 0)


def test_the_residual_of_a_division_in_float32() -> None:
    """(S + j) * 2**-49 < j / (2S) for 24-bit S and every j >= 1: the step's error is below the gap."""
    s, j = z3.Ints("S j")
    proven(s >= 2**23, s < 2**24, j >= 1, j <= 2**24, (s + j) * 2 * s < j * 2**49)


# --- R(x) ----------------------------------------------------------------------------------------------


class Scaled:
    """A positive integer m * 2**e of any length, 1 <= m < 2: it has e + 1 bits."""

    def __init__(self, mantissa: Any, exponent: Whole) -> None:
        self.mantissa, self.exponent = mantissa, exponent

    def bit_length(self) -> Whole:
        """Of Python's integers."""
        return self.exponent + 1

    def __lshift__(self, by: Whole) -> Scaled:
        require(by >= 0)
        return Scaled(self.mantissa, self.exponent + by)

    def __le__(self, other: Scaled) -> Bit:
        require(self.exponent == other.exponent)
        return Bit(self.mantissa <= other.mantissa)


def power_of_two_nearest(f: Any) -> Callable[[], Any]:
    """2**(2n - 1) <= num/den < 2**(2n + 1): with num/den = x/y * 2**e, of the exponent t = 2n - e."""

    def claim() -> Any:
        x, y, a, b = z3.Real("x"), z3.Real("y"), z3.Int("a"), z3.Int("b")
        assume(z3.And(x >= 1, x < 2, y >= 1, y < 2, a >= 0, b >= 0))
        n = on_terms(f)(Scaled(x, Whole(a)), Scaled(y, Whole(b)))
        t = 2 * n.term - (a - b)
        ends = {-1: (y / 4, y), 0: (y / 2, 2 * y), 1: (y, 4 * y)}
        return z3.Or(*(z3.And(t == k, low <= x, x < high) for k, (low, high) in ends.items()))

    return claim


def test_the_exponent_of_R() -> None:
    """Numerators and denominators of any length."""
    prove(power_of_two_nearest(sources.log2_root))


@pytest.mark.parametrize(
    ("right", "wrong"), [("(e + reached) // 2", "e // 2"), ("den << e <= num", "num <= den << e")]
)
def test_a_fault_has_a_counterexample(right: str, wrong: str) -> None:
    """And 2 or 3 over 1 or 2 tell."""
    faulty = with_fault(sources.log2_root, right, wrong)
    assert counterexample(power_of_two_nearest(faulty)) is not None
    cases = [(num, den) for num in range(1, 9) for den in range(1, 9)]
    assert any(faulty(*case) != sources.log2_root(*case) for case in cases)
