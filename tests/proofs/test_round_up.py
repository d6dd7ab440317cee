"""`intnet/numbers/rounding.py` against the definition, run on terms: all of int64, words of 1 to 32 bits.

`umul_le` stands for a * b <= c * d, which `test_wide.py` proves, with what it asks of its operands required.
Integers are mathematical ones here, and every sum, difference and product of the kernel must fit int64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import z3

from intnet.exact import loops
from intnet.numbers import rounding
from intnet.numbers.rounding import MODES, round_quotient, round_up
from tests.proofs.definitions import rounded
from tests.proofs.machine import (
    Bit,
    Whole,
    all_of,
    ask,
    assume,
    counterexample,
    floor_facts,
    formula,
    if_,
    integer,
    power_of_two,
    prove,
    quotients,
    require,
    whole,
)
from tests.proofs.rules import on_numbers, on_terms, with_fault

Claim = Callable[[], Any]
Values = dict[str, Any]
DETERMINISTIC = [mode for mode in MODES if mode != "stochastic"]


def products_in_order(a: Any, b: Any, c: Any, d: Any) -> Bit:
    """The contract of `wide.umul_le`."""
    for factor in (a, b, c, d):
        require(all_of(factor >= 0, factor < 2**63))
    return Whole(whole(a)) * Whole(whole(b)) <= Whole(whole(c)) * Whole(whole(d))


def word_of(mode: str) -> tuple[Any, Any]:
    """(word, bits) of the stochastic mode: 2**bits is any number from 2 to 2**32, word any below it."""
    if mode != "stochastic":
        return 0, 32
    bits, word = integer("bits", 1, 32), integer("word", 0, 2**32 - 1)
    power = power_of_two(bits.term)
    assume(all_of(power >= 2, power <= 2**32, word < Whole(power)))
    return word, bits


def keep_order(factor: Whole) -> None:
    """factor lies to q as factor * den to q * den, of all floors q that were taken."""
    for (_, den), q in quotients().items():
        left, right = (Whole(factor.term) * Whole(den)).term, (Whole(q) * Whole(den)).term
        assume(z3.And((factor.term <= q) == (left <= right), (factor.term >= q) == (left >= right)))


def keep_within(step: int) -> None:
    """step * q lies between num - step and num, of all floors q of num / den where den >= step."""
    for (num, den), q in quotients().items():
        assume(z3.Implies(den >= step, within(num, q, z3.IntVal(step))))


def within(num: Any, q: Any, step: Any) -> Any:
    """For numerators of either sign."""
    return z3.If(num >= 0, z3.And(q * step <= num, q >= 0), z3.And(q * step >= num - step, q < 0))


def quotient(mode: str, up: Any = round_up, den: int = 0) -> Callable[[Any], Claim]:
    """num/den within 62 bits, rounded, is what the definition makes of it."""

    def of(f: Any) -> Claim:
        def claim() -> Any:
            num, by = integer("num", -(2**62), 2**62), integer("den", 1, 2**62)
            by = Whole(den, True) if den else by
            word, bits = word_of(mode)
            decide = on_terms(up, umul_le=products_in_order)
            got = on_terms(f, round_up=decide)(num, by, MODES[mode], word, bits)
            expected = rounded(num, by, mode, word, bits)
            if mode == "stochastic":
                keep_order(word)
                keep_order(Whole(word.term + 1))
            return got == expected

        return claim

    return of


def test_what_is_used_of_a_floor() -> None:
    """`machine.floor_facts` of a true product."""
    num, den, q = z3.Ints("num den q")
    wrong = z3.Not(floor_facts(num, den, q, q * den))
    assert ask([den > 0, num - q * den >= 0, num - q * den < den, wrong])[0] == z3.unsat


def test_products_keep_the_order() -> None:
    """`keep_order` and `within` of true products."""
    a, b, den, step = z3.Ints("a b den step")
    for wrong in (
        (a <= b) != (a * den <= b * den),
        z3.And(step > 0, step <= den, b - a * den >= 0, b - a * den < den, z3.Not(within(b, a, step))),
    ):
        assert ask([den > 0, wrong])[0] == z3.unsat


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_quotients(mode: str) -> None:
    prove(quotient(mode)(round_quotient))


# --- what callers give in place of a floor or a remainder ----------------------------------------------


def of_parity_and_sign(f: Any) -> Claim:
    """floor reads as (floor & 1) - 2 * (floor < 0): so two limbs and roots need no more of it."""

    def claim() -> Any:
        floor, rem, den = integer("floor"), integer("rem", 0), integer("den", 1)
        mode, word, bits = integer("mode", 0, 6), integer("word", 0, 2**32 - 1), integer("bits", 1, 32)
        assume(all_of(rem < den, power_of_two(bits.term) <= 2**32))
        run = on_terms(f, umul_le=lambda a, b, c, d: Bit(products_of(a, b, c, d)))
        like = (floor & 1) - if_(floor < 0, Whole(2), Whole(0))
        return same(run(mode, floor, rem, den, word, bits), run(mode, like, rem, den, word, bits))

    return claim


def products_of(*factors: Whole) -> Any:
    """Any answer, the same where the factors are."""
    asked = z3.Function("umul_le", *[z3.IntSort()] * 4, z3.BoolSort())
    return asked(*(whole(factor) for factor in factors))


def same(a: Any, b: Any) -> Any:
    """Whether two answers agree."""
    return formula(a) == formula(b)


def of_quarters(f: Any) -> Claim:
    """rem/den reads as 0, 1, 2 or 3 quarters: whether it is 0, below, at or above 1/2."""

    def claim() -> Any:
        floor, rem, den = integer("floor"), integer("rem", 0), integer("den", 1)
        mode = integer("mode", 0, 6)
        assume(all_of(rem < den, mode != rounding.STOCHASTIC))
        twice = Whole(2 * rem.term)
        above = if_(twice < Whole(den.term), Whole(1), if_(twice == Whole(den.term), Whole(2), Whole(3)))
        quarters = if_(rem == 0, Whole(0), above)
        run = on_terms(f)
        return same(run(mode, floor, rem, den, 0, 0), run(mode, floor, quarters, 4, 0, 0))

    return claim


@pytest.mark.slow
@pytest.mark.parametrize("claim", [of_parity_and_sign, of_quarters])
def test_stand_ins(claim: Callable[[Any], Claim]) -> None:
    prove(claim(round_up))


def flag(fine: int, mode: str) -> Callable[[Any], Claim]:
    """|num/den| >= 2^fine: rounded in steps of 2^fine, else in steps of 1."""

    def of(f: Any) -> Claim:
        def claim() -> Any:
            num, den = integer("num", 1 - 2**62, 2**62 - 1), integer("den", 1, 2 ** (61 - fine))
            got = on_terms(f)(num, den, fine, MODES[mode])
            keep_within(2**fine)
            exact, step = Whole(num.term), 2**fine * Whole(den.term)
            if abs(exact) >= step:
                return got == 2**fine * rounded(exact, step, mode)
            return got == rounded(exact, den, mode)

        return claim

    return of


@pytest.mark.slow
@pytest.mark.parametrize("mode", DETERMINISTIC)
@pytest.mark.parametrize("fine", [1, 31])
def test_two_grids(fine: int, mode: str) -> None:
    """Eq. 17: the numerators and denominators that `exact/expressions.py` lets pass, 61 bits with `fine`."""
    prove(flag(fine, mode)(loops.round_flag))


# --- faults --------------------------------------------------------------------------------------------

FAULTS: list[tuple[str, str, str]] = [
    ("ties_even", "rem > rest or (rem == rest and (floor & 1) == 1)", "rem > rest"),
    ("ties_even", "(rem == rest and (floor & 1) == 1)", "rem == rest"),
    ("ties_even", "(floor & 1) == 1", "(floor & 1) == 0"),
    ("ties_even", "rest = den - rem", "rest = den - rem - 1"),
    ("ties_away", "floor >= 0", "floor > 0"),
    ("ties_pos", "rem >= rest", "rem > rest"),
    ("to_zero", "up = floor < 0", "up = floor <= 0"),
    ("to_pos", "mode == TO_POS", "mode == TO_NEG"),
    ("to_neg", "mode == TO_POS", "mode != TO_POS"),
    ("stochastic", "umul_le(word + 1, den", "umul_le(word, den"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "right", "wrong"), FAULTS)
def test_a_fault_has_a_counterexample(mode: str, right: str, wrong: str) -> None:
    """And there the two differ, as Python runs them."""
    faulty = with_fault(round_up, right, wrong)
    found = counterexample(quotient(mode, faulty, den=6)(round_quotient))
    assert found is not None
    results = []
    for f in (round_up, faulty):
        word, bits = found.get("word", 0), found.get("bits", 32)
        run = on_numbers(round_quotient, round_up=f)
        results.append(run(found["num"], 6, MODES[mode], word, bits))
    assert results[0] != results[1]
