"""Two limbs (`intnet/numbers/wide.py`), all 128 bits: products, carries, borrows, signs, division, shifts."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
import pytest
import z3

from intnet.numbers import wide
from tests.proofs.machine import (
    I64,
    U64,
    Bit,
    Num,
    all_of,
    assume,
    counterexample,
    formula,
    prove,
    unknown_products,
    variable,
)
from tests.proofs.rules import named, on_numbers, on_terms, plain, source_of, with_fault

LIMIT = 1 << 126  # `wide.LIMBS_MAX`
Claim = Callable[[], Any]
Function = Any


def value(limbs: tuple[Num, Num]) -> Any:
    """hi * 2**64 + lo, two's complement in 128 bits."""
    hi, lo = limbs
    assert (hi.type.bits, lo.type) == (64, U64)
    return z3.Concat(hi.bv(), lo.bv())


def limbs(name: str, bound: int = 1 << 127) -> tuple[Num, Num]:
    """Any two limbs below a bound."""
    both = variable(f"{name}_hi", I64), variable(f"{name}_lo", U64)
    assume(z3.And(value(both) >= -bound, value(both) <= bound - 1))
    return both


def last_half(bits: Any) -> Any:
    """As `umul` cuts it."""
    return bits & 0xFFFFFFFF


def first_half(bits: Any) -> Any:
    """As `umul` cuts it."""
    return z3.LShR(bits, 32)


def sum_of_products(f: Function) -> Claim:
    """a * b = a1*b1 * 2^64 + (a0*b1 + a1*b0) * 2^32 + a0*b0 of the 32-bit halves, without a carry lost."""

    def claim() -> Any:
        a, b = variable("a", U64), variable("b", U64)
        with unknown_products() as products:
            got = on_terms(f)(a, b)
        low, high = ([z3.simplify(rule(x.bv())) for x in (a, b)] for rule in (last_half, first_half))
        halves = {"0": low, "1": high}
        part = {i + j: z3.ZeroExt(64, products[halves[i][0], halves[j][1]]) for i in "01" for j in "01"}
        assert len(products) == 4
        whole = part["00"] + (part["01"] << 32) + (part["10"] << 32) + (part["11"] << 64)
        return Bit(value(got) == whole)

    return claim


def product(f: Function) -> Claim:
    """The same with true products: too hard to prove by multipliers of bits, easy to refute."""

    def claim() -> Any:
        a, b = variable("a", U64), variable("b", U64)
        assume(b == (1 << 64) - 1)  # a factor of ones is quick, and carries
        return Bit(value(on_terms(f)(a, b)) == a.wide() * b.wide())

    return claim


def order_of_products(f: Function) -> Claim:
    """a * b <= c * d, of `umul`'s limbs, which may be any."""

    def claim() -> Any:
        first, second = (variable("hi", U64), variable("lo", U64)), (variable("HI", U64), variable("LO", U64))
        answers = iter([first, second])
        got = on_terms(f, umul=lambda a, b: next(answers))(*(variable(n, I64) for n in "abcd"))
        return formula(got) == z3.ULE(value(first), value(second))

    return claim


def magnitudes(f: Function) -> Claim:
    def claim() -> Any:
        a = variable("a", I64)
        wide_a = a.wide(66)
        return Bit(on_terms(f)(a).wide(66) == z3.If(wide_a < 0, -wide_a, wide_a))

    return claim


def negation(f: Function) -> Claim:
    def claim() -> Any:
        a = limbs("a")
        return Bit(value(on_terms(f)(*a)) == -value(a))

    return claim


def signed_products(f: Function) -> Claim:
    """The sign of a * b, of `umul`'s product of the magnitudes p: any that is below 2^126 + 1."""

    def claim() -> Any:
        a, b, p = variable("a", I64), variable("b", I64), (variable("hi", U64), variable("lo", U64))
        assume(z3.ULE(value(p), LIMIT))
        assume((value(p) == 0) == z3.Or(a.bv() == 0, b.bv() == 0))
        got = value(on_terms(f, umul=lambda a, b: p)(a, b))
        negative = z3.Xor(a.bv() < 0, b.bv() < 0)
        return Bit(got == z3.If(negative, -value(p), value(p)))

    return claim


def sums(f: Function) -> Claim:
    def claim() -> Any:
        a, b = limbs("a"), limbs("b")
        return Bit(value(on_terms(f)(*a, *b)) == value(a) + value(b))

    return claim


def widened(f: Function) -> Claim:
    def claim() -> Any:
        a = variable("a", I64)
        return Bit(value(on_terms(f)(a)) == a.wide(128))

    return claim


def shifted(bits: int) -> Callable[[Function], Claim]:
    def of(f: Function) -> Claim:
        def claim() -> Any:
            a = limbs("a", LIMIT >> bits)
            return Bit(value(on_terms(f)(*a, bits)) == value(a) << bits)

        return claim

    return of


def doubled(f: Function) -> Claim:
    """A turn of `shift_left` doubles any two limbs, modulo 2**128: n turns multiply by 2**n, by induction.

    The turns do not look at how many they are. What a caller bounds below 2**126 loses nothing on the way.
    """

    def claim() -> Any:
        a = limbs("a")
        return Bit(value(on_terms(f)(*a)) == value(a) << 1)

    return claim


def fitting(f: Function) -> Claim:
    def claim() -> Any:
        a = limbs("a")
        inside = z3.And(value(a) >= -(2**63), value(a) < 2**63)
        return formula(on_terms(f, bool=lambda x: x)(*a)) == inside

    return claim


def narrowed(f: Function) -> Claim:
    def claim() -> Any:
        a = limbs("a", 1 << 63)
        return Bit(on_terms(f)(a[1]).wide(128) == value(a))

    return claim


def divided(f: Function) -> Claim:
    """value = Q * den + R from N = q * den + r of `udivmod`, whatever q is: Q = q or -q or -q - 1."""

    def claim() -> Any:
        a, q, den, rem = limbs("a", LIMIT), limbs("q", LIMIT), variable("den", I64), variable("left", I64)
        assume(all_of(den > 0, rem >= 0, rem < den, q[0] >= 0))
        asked = []

        def udivmod(hi: Num, lo: Num, by: Num) -> tuple[Num, Num, Num]:
            asked.append((hi, lo))
            return (*q, rem)

        hi, lo, left = on_terms(f, udivmod=udivmod)(*a, den)
        size = z3.If(value(a) < 0, -value(a), value(a))
        negative, exact = value(a) < 0, rem.bv() == 0
        quotient = z3.If(negative, z3.If(exact, -value(q), -value(q) - 1), value(q))
        rest = z3.If(z3.And(negative, z3.Not(exact)), (den - rem).bv(), rem.bv())
        return all_of(value(asked[0]) == size, value((hi, lo)) == quotient, left.bv() == rest)

    return claim


TURNS = {
    "udivmod": ("for _ in range(128)", "divisor, rem, q_hi, q_lo, high, low"),
    "shift_left": ("for _ in range(bits)", "hi, lo"),
}


def body_of_the_loop(f: Function) -> Callable[..., Any]:
    """One turn of the loop of a function: its own lines, as a function of all that it changes."""
    head, names = TURNS[plain(f).__name__]
    tree = ast.parse(source_of(f))
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.For)]
    assert len(loops) == 1 and ast.unparse(loops[0]).startswith(f"{head}:\n")
    lines = textwrap.indent("\n".join(ast.unparse(node) for node in loops[0].body), "    ")
    space = dict(plain(f).__globals__)
    exec(f"def turn({names}):\n{lines}\n    return {names}", space)
    found = space["turn"]
    assert isinstance(found, FunctionType)
    return found


def turn(f: Function) -> Claim:
    """A turn takes the top bit t of the number: q' = 2q + s, rem' = 2rem + t - s*den, 0 <= rem' < den.

    Then q'*den + rem' = 2(q*den + rem) + t: after 128 turns, from 0, it is the number.
    """

    def claim() -> Any:
        den, rem = variable("den", U64), variable("rem", U64)
        q, number = ((variable(a, U64), variable(b, U64)) for a, b in (("q_hi", "q_lo"), ("high", "low")))
        assume(all_of(den > 0, den < 1 << 63, rem < den))
        _, rest, q_hi, q_lo, high, low = on_terms(f)(den, rem, *q, *number)
        top = z3.ZeroExt(127, z3.Extract(127, 127, value(number)))
        one = value((q_hi, q_lo)) - 2 * value(q)
        return all_of(
            value((high, low)) == value(number) << 1,
            z3.Or(one == 0, one == 1),
            rest.wide() == 2 * rem.wide() + top - z3.If(one == 1, den.wide(), 0),
            rest < den,
        )

    return claim


CLAIMS: list[tuple[Function, Callable[[Function], Claim]]] = [
    (wide.umul, sum_of_products), (wide.umul_le, order_of_products), (wide.magnitude, magnitudes),
    (wide.negate, negation), (wide.smul, signed_products), (wide.add, sums), (wide.widen, widened),
    (wide.fits_int64, fitting), (wide.to_int64, narrowed), (wide.floor_divmod, divided),
    (wide.shift_left, shifted(62)), (body_of_the_loop(wide.shift_left), doubled),
    (body_of_the_loop(wide.udivmod), turn),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("function", "claim"), CLAIMS, ids=lambda f: getattr(f, "__name__", ""))
def test_two_limbs(function: Function, claim: Callable[[Function], Claim]) -> None:
    prove(claim(function))


def test_the_algebra_that_the_claims_leave() -> None:
    """Products of halves are the product; a turn keeps q * den + rem; floor's quotient and rest of -N."""
    a0, a1, b0, b1, q, den, rem, t, s = z3.Ints("a0 a1 b0 b1 q den rem t s")
    half = 2**32
    for left, right in [
        ((a1 * half + a0) * (b1 * half + b0), a1 * b1 * half**2 + (a0 * b1 + a1 * b0) * half + a0 * b0),
        ((2 * q + s) * den + (2 * rem + t - s * den), 2 * (q * den + rem) + t),
        ((-q - 1) * den + (den - rem), -(q * den + rem)),
    ]:
        assert z3.is_true(z3.simplify(left == right, som=True, arith_lhs=True))


# --- faults ------------------------------------------------------------------------------------------

FAULTS: list[tuple[Function, str, str, Callable[[Function], Claim], str]] = [
    (wide.umul, "mid = (low >> _32) + a0 * b1", "mid = a0 * b1", product, "a b"),
    (wide.umul, "(mid & _MASK) + a1 * b0", "mid + a1 * b0", product, "a b"),
    (wide.umul_le, "left_lo <= right_lo", "left_lo < right_lo", order_of_products, "a b c d"),
    (wide.umul_le, "left_hi < right_hi", "left_hi <= right_hi", order_of_products, "a b c d"),
    (wide.magnitude, "-(a + 1)", "-a", magnitudes, "a"),
    (wide.negate, "lo == _ZERO", "hi == 0", negation, "a_hi a_lo"),
    (wide.smul, "!=", "or", signed_products, "a b"),
    (wide.add, "b_lo > room", "b_lo >= room", sums, "a_hi a_lo b_hi b_lo"),
    (wide.add, "a_hi + b_hi + 1", "a_hi + b_hi", sums, "a_hi a_lo b_hi b_lo"),
    (wide.widen, "a < 0", "a < -1", widened, "a"),
    (wide.shift_left, "np.uint64(63)", "np.uint64(62)", shifted(3), "a_hi a_lo 3"),
    (wide.shift_left, "np.int64(lo >> np.uint64(63))", "np.int64(lo & _ONE)", doubled, "a_hi a_lo"),
    (wide.shift_left, "lo = lo << _ONE", "lo = lo + _ONE", doubled, "a_hi a_lo"),
    (wide.fits_int64, "lo >= _SIGN", "lo > _SIGN", fitting, "a_hi a_lo"),
    (wide.to_int64, "np.int64(~lo) - 1", "np.int64(~lo)", narrowed, "a_lo"),
    (wide.floor_divmod, "rem != 0", "rem > 1", divided, "a_hi a_lo den"),
    (wide.floor_divmod, "np.int64(den) - rem", "rem", divided, "a_hi a_lo den"),
    (wide.udivmod, "rem >= divisor", "rem > divisor", turn, "den rem q_hi q_lo high low"),
    (wide.udivmod, "(q_lo >> np.uint64(63))", "(q_lo & np.uint64(1))", turn, "den rem q_hi q_lo high low"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("function", "right", "wrong", "claim", "names"), FAULTS, ids=named)
def test_a_fault_has_a_counterexample(
    function: Function, right: str, wrong: str, claim: Callable[[Function], Claim], names: str
) -> None:
    """And there the function and the one with the fault differ, as Python runs them."""
    faulty: Function = with_fault(function, right, wrong)
    if claim in (turn, doubled):
        function, faulty = body_of_the_loop(function), body_of_the_loop(faulty)
    found = counterexample(claim(faulty))
    assert found is not None
    arguments = [found[name] if name in found else int(name) for name in names.split()]
    with np.errstate(over="ignore"):
        right_result, wrong_result = (
            on_numbers(f, **contracts(found))(*arguments) for f in (function, faulty)
        )
    assert right_result != wrong_result


def contracts(found: dict[str, Any]) -> dict[str, Any]:
    """What the counterexample says that `umul` and `udivmod` answer, where the claim leaves that open."""
    answers = iter([(found.get("hi"), found.get("lo")), (found.get("HI"), found.get("LO"))])
    stands: dict[str, Any] = {"umul": lambda a, b: next(answers)} if "hi" in found else {}
    if "left" in found:
        stands["udivmod"] = lambda hi, lo, den: (found["q_hi"], found["q_lo"], found["left"])
    return stands
