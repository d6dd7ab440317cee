"""The int32 lane (`intnet/exact/stages.py`, `intnet/exact/lane.py`): all numerators, all words.

Numerators that `prepare_narrow` lets pass have |num| + 2**(drop - 1) <= 2**31 - 1, drop = 1..30.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import z3

from intnet.exact import stages
from tests.proofs.machine import I32, I64, U32, Bit, Num, all_of, assume, counterexample, prove, variable
from tests.proofs.memory import Cells
from tests.proofs.rules import Kind, greatest, least, named, on_numbers, on_terms, with_fault

Claim = Callable[[], Any]
NARROW = stages.NARROW
CHOICES: dict[str, Any] = {"greater": greatest, "lesser": least}  # `a if a > b else b` without a fork


def lane(by: int) -> tuple[Num, Num, Num, Num, Num, Any]:
    """(num, drop, least, lo, hi) of a lane, and what is rounded, max(num, least), in 64 bits."""
    num, least_num, lo, hi = (variable(name, I32) for name in ("num", "least", "lo", "hi"))
    x, drop, half = num.wide(64), Num(by, I32), 1 << (by - 1)
    assume(z3.And(x + half <= NARROW, half - x <= NARROW))
    assume(z3.Or((least_num == 0).term, (least_num == -NARROW).term))
    assume(all_of(lo <= 0, lo >= -NARROW, hi >= 0, hi <= NARROW))
    return num, drop, least_num, lo, hi, z3.If(x > least_num.wide(64), x, least_num.wide(64))


def clipped(code: Any, lo: Num, hi: Num) -> Any:
    low = z3.If(code < lo.wide(64), lo.wide(64), code)
    return z3.If(low > hi.wide(64), hi.wide(64), low)


def counted(got: tuple[Num, Num], cells: Cells, code: Any, rest: Any, lo: Num, hi: Num) -> Bit:
    """The code is clipped; (saturated, inexact) say whether that, and the rounding, changed it."""
    kept = clipped(code, lo, hi)
    one, none = z3.BitVecVal(1, 64), z3.BitVecVal(0, 64)
    return all_of(
        cells[0].wide(64) == kept,
        got[0].wide(64) == z3.If(kept != code, one, none),
        got[1].wide(64) == z3.If(rest != 0, one, none),
    )


def nearest_even(f: Any, by: int) -> Claim:
    """floor, and one more where the rest is above a half, or a half and floor is odd."""

    def claim() -> Any:
        num, drop, floor_at, lo, hi, x = lane(by)
        cells = Cells([num], Kind(I32))
        got = on_terms(f, **CHOICES)(cells, 1, drop, floor_at, lo, hi)
        floor, one = x >> by, z3.BitVecVal(1, 64)
        rest, half = x - (floor << by), 1 << (by - 1)
        up = z3.Or(rest > half, z3.And(rest == half, floor & 1 == 1))
        return counted(got, cells, floor + z3.If(up, one, 0), rest, lo, hi)

    return claim


def stochastic(f: Any, by: int) -> Claim:
    """floor, and one more where the top B bits of the word are below floor(f * 2**B), f = rest/2**drop."""

    def claim() -> Any:
        num, drop, floor_at, lo, hi, x = lane(by)
        word, bits = variable("word", U32), variable("bits", I32)
        assume(all_of(bits >= drop, bits <= 32))
        cells = Cells([num], Kind(I32))
        got = on_terms(f, **CHOICES)(cells, 1, drop, floor_at, lo, hi, Cells([word]), 0)
        floor = x >> by
        rest = x - (floor << by)
        threshold = rest << (bits.wide(64) - by)
        drawn = z3.LShR(word.wide(64), 32 - bits.wide(64))
        code = floor + z3.If(drawn < threshold, z3.BitVecVal(1, 64), 0)
        return counted(got, cells, code, rest, lo, hi)

    return claim


def wrapped_sums(f: Any) -> Claim:
    """start + c*u + d*v in int32 is the sum wherever int32 holds that, whatever its parts do on the way."""

    def claim() -> Any:
        start = variable("start", I32)
        one = Num(1, I64)  # c*u and d*v are any numbers that products of two int32 can be
        c, u, d, v = variable("cu", I64), one, variable("dv", I64), one
        assume(all_of(c >= -(1 << 62), c <= 1 << 62, d >= -(1 << 62), d <= 1 << 62))
        add = on_terms(f, get=lambda codes, at, like: codes[at])
        first, second = Cells([None], Kind(I32)), Cells([None], Kind(I32))
        add(Cells([u]), None, 0, 1, Cells([c]), Cells([start]), first)
        add(Cells([v]), None, 0, 1, Cells([d]), first, second)
        total = start.wide(68) + c.wide(68) + d.wide(68)
        assume(z3.And(total >= -NARROW, total <= NARROW))
        return Bit(z3.Extract(31, 0, total) == second[0].bv())

    return claim


def greatest_magnitude(f: Any) -> Claim:
    """max |num| in int32: -num is one too."""

    def claim() -> Any:
        num, before = variable("num", I32), variable("before", I32)
        assume(all_of(num >= -NARROW, before >= 0))
        tops = Cells([before], Kind(I32))
        on_terms(f)(Cells([num], Kind(I32)), 1, -NARROW, tops)
        size = z3.If(num.wide(64) < 0, -num.wide(64), num.wide(64))
        return Bit(tops[0].wide(64) == z3.If(size > before.wide(64), size, before.wide(64)))

    return claim


@pytest.mark.slow
@pytest.mark.parametrize("drop", range(1, 31))
@pytest.mark.parametrize("claim", [nearest_even, stochastic])
def test_rounded(claim: Callable[[Any, int], Claim], drop: int) -> None:
    prove(claim(stages.shifted if claim is nearest_even else stages.shifted_random, drop))


def test_numerators() -> None:
    prove(wrapped_sums(stages._add_term))


def test_peaks() -> None:
    prove(greatest_magnitude(stages.peaks))


FAULTS = [
    (stages.shifted, "(1 << (drop - 1)) - 1", "1 << (drop - 1)", nearest_even),
    (stages.shifted, "x + below + odd", "x + below", nearest_even),
    (stages.shifted, "x + below + odd", "x + below + one", nearest_even),
    (stages.shifted, "kept != code", "kept == code", nearest_even),
    (stages.shifted_random, "rest > np.int32(words", "rest >= np.int32(words", stochastic),
    (stages.shifted_random, "np.uint32(32 - drop)", "np.uint32(31 - drop)", stochastic),
    (stages.shifted_random, "(1 << drop) - 1", "(1 << drop) - 2", stochastic),
]


@pytest.mark.slow
@pytest.mark.parametrize(("function", "right", "wrong", "claim"), FAULTS, ids=named)
def test_a_fault_has_a_counterexample(function: Any, right: str, wrong: str, claim: Any) -> None:
    """And there the two make other codes or counts, as Python runs them."""
    faulty = with_fault(function, right, wrong)
    found = counterexample(claim(faulty, 5))
    assert found is not None
    results = []
    for f in (function, faulty):
        num = np.array([found["num"]])
        more = [np.array([found["word"]]), 0] if "word" in found else []
        with np.errstate(over="ignore"):
            limits = [int(found[name]) for name in ("least", "lo", "hi")]
            counts = on_numbers(f)(num, 1, np.int64(5), *limits, *more)
        results.append([int(v) for v in (*counts, num[0])])
    assert results[0] != results[1]
