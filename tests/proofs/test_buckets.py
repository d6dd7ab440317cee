"""Decisions of the buckets (`intnet/exact/blocks/bucket_loops.py`), and the Newton steps as code has them.

`goes_up` of any float32 fraction: less than 1 is at most 1 - 2**-24, and times 2**32 is exact. The
steps of `divided` and of `quotient` run on factors 1 + e, one a rounding; `test_quotients.py` goes on there.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
import pytest
import z3

from intnet.exact.blocks import bucket_loops as loops
from intnet.exact.blocks.quotient import divided, near_one
from intnet.machine import instructions
from tests.proofs.machine import I32, Bit, Num, all_of, assume, counterexample, prove, variable
from tests.proofs.reals import CHOICES, Factor, newton, real, whole
from tests.proofs.rules import Kind, greatest, named, on_terms, plain, with_fault

Claim = Callable[[], Any]


def stochastic(f: Any) -> Claim:
    """word < floor(fraction * 2**32), every fraction of 0 .. 1 - 2**-24 and 1."""

    def claim() -> Any:
        fraction, word = real("fraction"), whole("word", 0, 2**32 - 1)
        last = z3.Q(2**24 - 1, 2**24)
        assume(z3.Or(z3.And(fraction.term >= 0, fraction.term <= last), fraction.term == 1))
        got = on_terms(f, **CHOICES)(fraction, word)
        return Bit(word.term < z3.ToReal(z3.ToInt(fraction.term * 2**32))) == got

    return claim


# --- near_one ----------------------------------------------------------------------------------------


class Single:
    """A float32 by its bits."""

    __array_ufunc__ = None

    def __init__(self, bits: Num) -> None:
        self.bits = bits

    def view(self, kind: Kind) -> Num:
        """The bits."""
        return self.bits.cast(kind.type)

    def field(self) -> Any:
        """Of the exponent."""
        return z3.LShR(self.bits.bv(), 23) & 255

    def significand(self) -> Any:
        """An integer; the value is that times 2**(max(field, 1) - 150)."""
        return (self.bits.bv() & 0x7FFFFF) + z3.If(self.field() == 0, z3.BitVecVal(0, 32), 1 << 23)

    def __mul__(self, other: Single) -> tuple[Single, Single]:
        return self, other

    def __rtruediv__(self, one: Any) -> Any:
        return one, self


class Int32(Kind):
    """np.int32, whose numbers are looked at as float32."""

    def __call__(self, value: Any) -> Any:
        made = super().__call__(value)
        made.view = lambda kind: Single(made)
        return made


class One:
    """1 over what it is divided by."""

    def __truediv__(self, other: Any) -> Any:
        return self, other


def power(f: Any) -> Claim:
    """k is 2**(field - 127); s*k keeps all bits of s and lies in 2**-22 .. 4; the inverse is 1/(s*k)."""

    def claim() -> Any:
        bits = variable("bits", I32)
        assume(all_of(bits > 0, bits < 0x7F800000))
        s, one = Single(bits), One()
        names = {"int32": Int32(I32), "float32": lambda x: x}
        k, t, inverse = on_terms(f, names, _ONE=one, max=greatest)(s)
        exponent = z3.If(s.field() == 0, z3.BitVecVal(1, 32), s.field()) - 150 + k.field() - 127
        m = s.significand()
        known = t[0] is s and t[1] is k and inverse[0] is one and inverse[1] is t
        small = z3.And(exponent == -22, m >= 1, m < 1 << 24)  # 2**-22 <= s*k < 4
        return all_of(
            known,
            z3.And(k.bits.bv() & 0x7FFFFF == 0, k.bits.bv() > 0, k.field() <= 254),
            z3.Or(small, z3.And(exponent == -23, m >= 1 << 23, m < 1 << 24)),
        )

    return claim


# --- Newton steps, as the code has them --------------------------------------------------------------


def before_the_last_rounding(run: Callable[..., Factor]) -> tuple[Any, list[Any]]:
    """Q'/Q of run(num, den, inverse), and the roundings, after the first, of 1/den."""
    errors: list[Any] = []
    num, den = Factor(z3.RealVal(1), 1, 1, errors), Factor(z3.RealVal(1), 0, 1, errors)
    got = run(num, den, Factor(1 + z3.Real("e1"), 0, -1, errors))
    assert got.powers == (1, 0), "a quotient"
    return errors[-1][0], [e for _, e in errors]


def fused(a: Factor, b: Factor, c: Factor) -> Factor:
    """a * b + c, rounded once."""
    return a.fused(b, c)


def step_of(f: Any) -> Callable[..., Factor]:
    """`divided`, or the body that kernels have for `quotient`."""
    inner = plain(f)(None, None, None) if plain(f).__name__ == "_quotient_in_kernels" else plain(f)
    return FunctionType(inner.__code__, {"fma32": fused, "_fma64": fused})


def newton_step(f: Any) -> bool:
    """Whether it is Q(1 - left * right) with three roundings, as `reals.newton` has it."""
    got, errors = before_the_last_rounding(step_of(f))
    assert len(errors) == 3, "first, residual, and the last"
    left, right = newton(z3.Real("e1"), errors[0], errors[1])
    return z3.is_true(z3.simplify(got == 1 - left * right, som=True))


def exact_residual(f: Any) -> bool:
    """Where the residual is not rounded it is Q + (Q - q) * e, e of the inverse: `divided`'s docstring."""
    got, errors = before_the_last_rounding(step_of(f))
    e = z3.Real("e1")
    q = (1 + e) * (1 + errors[0])
    got = z3.substitute(got, (errors[1], z3.RealVal(0)))
    return z3.is_true(z3.simplify(got == 1 + (1 - q) * e, som=True))


@pytest.mark.parametrize(("function", "claim"), [(loops.goes_up, stochastic), (near_one, power)])
def test_decisions(function: Any, claim: Callable[[Any], Claim]) -> None:
    prove(claim(function))


STEPS = [divided, instructions._quotient_in_kernels]


@pytest.mark.parametrize("function", STEPS)
def test_the_code_is_the_newton_step(function: Any) -> None:
    assert newton_step(function) and exact_residual(function)


FAULTS = [
    (loops.goes_up, "> word", ">= word", stochastic),
    (loops.goes_up, "min(fraction * _WORDS, _MOST)", "min(fraction * _WORDS, _WORDS)", stochastic),
    (loops.goes_up, " or fraction >= _ONE", "", stochastic),
    (near_one, "np.int32(1)) <<", "np.int32(0)) <<", power),
    (near_one, "np.int32(254)", "np.int32(250)", power),
]


@pytest.mark.parametrize(("function", "right", "wrong", "claim"), FAULTS, ids=named)
def test_a_fault_has_a_counterexample(function: Any, right: str, wrong: str, claim: Any) -> None:
    assert counterexample(claim(with_fault(function, right, wrong))) is not None


@pytest.mark.parametrize(
    ("right", "wrong"), [("fma32(-t, q, x)", "fma32(t, q, x)"), ("inverse, q)", "inverse, -q)")]
)
def test_another_step_is_found(right: str, wrong: str) -> None:
    assert not newton_step(with_fault(divided, right, wrong))


@pytest.mark.parametrize("field", [0, 1, 2, 127, 253, 254])
def test_near_one_of_numbers(field: int) -> None:
    """As Python runs it: the same s*k."""
    s = np.array([field << 23 | 5], np.int32).view(np.float32)[0]
    k, t, inverse = plain(near_one)(s)
    assert float(t) == float(s) * float(k) and 2.0**-22 <= float(t) < 4 and inverse == np.float32(1) / t
