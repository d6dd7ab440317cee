"""Test the tester: faults put into the library's number path, one at a time, and the sweeps that see them.

Each fault is what a careless edit would do. Every sweep named here passes without it (`test_quantize`
runs the same functions), so what makes it fail is the fault.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from intnet.exact import expressions, loops, quantize, rows
from intnet.exact import lane as exact_lane
from intnet.exact import stages as exact_stages
from intnet.numbers import rounding
from intnet.numbers.formats import Constant, Direct, FixedPoint, Flag, Shift
from intnet.numbers.rounding import STOCHASTIC, TIES_EVEN, Rounding, how
from tests.support import comparing
from tests.support.comparing import assert_codes, assert_pairs, assert_random, assert_sqrt2, assert_words
from tests.support.faults import Patch, caught, plain
from tests.support.lanes import replace_kernels

FIXED = [FixedPoint(8, 4)]


SWEEPS: dict[str, Callable[[], None]] = {
    "codes": lambda: assert_codes(11, -6, FIXED, "ties_even"),
    "codes to_zero": lambda: assert_codes(9, -6, FIXED, "to_zero"),
    "codes to_neg": lambda: assert_codes(9, -6, FIXED, "to_neg"),
    "symmetric": lambda: assert_codes(9, -4, [FixedPoint(8, 4, overflow="saturate_symmetric")], "ties_even"),
    "direct": lambda: assert_codes(9, -9, [Direct(8)], "ties_even"),
    "pairs": lambda: assert_pairs(6, [Shift(4), Constant(15, 8)], "ties_even"),
    "flag": lambda: assert_pairs(6, [Flag(3)], "ties_even"),
    "sqrt2": lambda: assert_sqrt2(24),
    "words": lambda: assert_words(8, FixedPoint(8, 4), 32),
    "words of 8 bits": lambda: assert_words(8, FixedPoint(8, -1), 8),
    "random": lambda: assert_random(1, 100, [FixedPoint(16, fl) for fl in range(0, 40, 8)], "to_neg"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SWEEPS)
def test_without_a_fault_every_sweep_passes(name):
    assert not caught(SWEEPS[name])


Change = Callable[[Callable[..., None], list[Any]], None]


def loop_fault(patch: Patch, change: Change, names: tuple[str, ...]) -> None:
    """Replace loops by `change(original, arguments)`."""
    for name in names:
        original = getattr(loops, name)
        patch.setattr(loops, name, lambda *args, original=original: change(original, list(args)))


def rounding_fault(patch: Patch, change: Callable[[Callable[[], None], dict[str, Any]], None]) -> None:
    """Replace the general loop and the quick lane's kernel by `change(run, operands)`.

    Operands by name: lo, hi (read again by `run`), out (the codes), counts[blocks or none, columns].
    """

    def general(original: Any, args: list[Any]) -> None:
        seen = {"lo": args[-4], "hi": args[-3], "out": args[-2], "counts": args[-1]}
        change(lambda: original(*args[:-4], seen["lo"], seen["hi"], *args[-2:]), seen)

    loop_fault(patch, general, ("round_rows",))
    original = rows.read_part

    def quick(task: int, lane: Any, first: int, last: int, lo: float, hi: float, *rest: Any) -> None:
        *_, out, size, counts, _ = rest
        seen = {"lo": lo, "hi": hi, "out": out.view(f"i{size}"), "counts": counts}
        run = lambda: original(task, lane, first, last, float(seen["lo"]), float(seen["hi"]), *rest)  # noqa: E731
        if task == rows.ROUND:
            change(run, seen)
        else:
            run()

    patch.setattr(rows, "read_part", quick)
    replace_kernels(patch, round_few=plain(rows.round_few))


def no_quick_lane(patch: Patch) -> None:
    patch.setattr(exact_lane, "FAR", -1)


def one_lsb(patch: Patch) -> None:
    """The last bit of the last code of a tensor is wrong; the counts stay right."""

    def change(run: Callable[[], None], seen: dict[str, Any]) -> None:
        run()
        seen["out"][-1] ^= 1

    rounding_fault(patch, change)


def one_lsb_in_limbs(patch: Patch) -> None:
    def change(original: Any, args: list[Any]) -> None:
        original(*args)
        args[-2][0] -= 1

    loop_fault(patch, change, ("round_limbs",))


def one_lsb_of_a_float(patch: Patch) -> None:
    def change(original: Any, args: list[Any]) -> None:
        original(*args)
        args[-2][0] += 1

    no_quick_lane(patch)
    loop_fault(patch, change, ("round_floats",))


def no_saturation(patch: Patch) -> None:
    """Codes pass the format's range."""

    def change(run: Callable[[], None], seen: dict[str, Any]) -> None:
        seen["lo"], seen["hi"] = -(1 << 40), 1 << 40
        run()

    rounding_fault(patch, change)


def uncounted_saturation(patch: Patch) -> None:
    def change(run: Callable[[], None], seen: dict[str, Any]) -> None:
        run()
        seen["counts"][..., loops.SATURATED] = 0

    rounding_fault(patch, change)


def uncounted_rounding(patch: Patch) -> None:
    def change(run: Callable[[], None], seen: dict[str, Any]) -> None:
        run()
        first = seen["counts"].reshape(-1, seen["counts"].shape[-1])[0]
        first[loops.INEXACT] -= first[loops.INEXACT] > 0

    rounding_fault(patch, change)


def most_negative_code(patch: Patch) -> None:
    """saturate_symmetric keeps -128."""
    original = FixedPoint.lo.fget
    assert original is not None
    patch.setattr(FixedPoint, "lo", property(lambda f: original(f) - (f.overflow == "saturate_symmetric")))


def other_mode(**swap: str) -> Callable[[Patch], None]:
    """One rounding mode does what another should."""

    def fault(patch: Patch) -> None:
        patch.setattr(quantize, "how", lambda name, *more: how(swap.get(name, name), *more))

    return fault


def float32_log2(patch: Patch) -> None:
    """R by float32 log2."""
    patch.setattr(expressions, "log2_round", lambda value: round(float(np.log2(np.float32(float(value))))))


def float64_log2(patch: Patch) -> None:
    """R by float64 log2: right up to n = 46."""
    patch.setattr(expressions, "log2_round", lambda value: round(math.log2(value)))


def floor_log2(patch: Patch) -> None:
    """The exponent of the leading bit in place of the nearest power."""
    patch.setattr(expressions, "log2_round", lambda value: math.floor(math.log2(value)))


def rule_fault(patch: Patch, rule: Callable[..., int]) -> None:
    """Another `round_quotient`, with the loop that calls it uncompiled, and no short cut round it."""
    patch.setattr(loops, "round_quotient", rule)
    patch.setattr(loops, "round_rows", plain(loops.round_rows))
    no_quick_lane(patch)


def word_may_equal(patch: Patch) -> None:
    """`<=` in place of `<`: an exact integer moves when the word is 0."""

    def rule(num: int, den: int, mode: int, word: int, bits: int) -> int:
        if mode != STOCHASTIC:
            return int(rounding.round_quotient(num, den, mode, word, bits))
        floor, rem = divmod(int(num), int(den))
        return floor + (int(word) <= (rem << bits) // int(den))

    rule_fault(patch, rule)


def half_goes_up(patch: Patch) -> None:
    """floor(x + 1/2) in place of ties to even."""

    def rule(num: int, den: int, mode: int, word: int, bits: int) -> int:
        if mode == TIES_EVEN:
            return (2 * int(num) + int(den)) // (2 * int(den))
        return int(rounding.round_quotient(num, den, mode, word, bits))

    rule_fault(patch, rule)


def stage_fault(patch: Patch, stages: dict[str, Callable[..., Any]]) -> None:
    """Other stages of the quick lane, with the functions that call them uncompiled."""
    patch.setattr(rows, "_round_row", plain(rows._round_row))
    patch.setattr(rows, "read_part", plain(rows.read_part))
    replace_kernels(patch, round_few=plain(rows.round_few))
    for name, stage in stages.items():
        patch.setattr(exact_stages, name, stage)


def quick_half_goes_up(patch: Patch) -> None:
    """floor(x + 1/2) in place of ties to even, in the quick lane."""

    def unclipped(num: np.ndarray, n: int, den: np.ndarray, inverse: np.ndarray, least: float) -> int:
        q = np.maximum(num[:n], least) / den[:n]
        num[:n] = np.floor(q + 0.5)
        return int(np.count_nonzero(num[:n] != q))

    def nearest(
        num: np.ndarray, n: int, den: np.ndarray, inverse: np.ndarray, least: float, lo: float, hi: float
    ) -> tuple[int, int]:
        inexact = unclipped(num, n, den, inverse, least)
        code = num[:n].copy()
        num[:n] = np.clip(code, lo, hi)
        return int(np.count_nonzero(num[:n] != code)), inexact

    stage_fault(patch, {"nearest": nearest, "unclipped": unclipped})


def quick_edge_is_fine(patch: Patch) -> None:
    """Sc itself on the fine grid, where the quotient is a little above it: `>` in place of `>=`."""
    original = plain(exact_stages.flagged)

    def flagged(num: np.ndarray, n: int, den: np.ndarray, *rest: Any) -> tuple[int, int]:
        edge = rest[-1]
        near = np.abs(num[:n]) / den[:n]
        coarse = (near > edge) & (near < edge + 1)
        result = original(num, n, den, *rest)
        num[:n][coarse] += 1  # what the fine grid would keep
        return result

    stage_fault(patch, {"flagged": flagged})


def quick_word_may_equal(patch: Patch) -> None:
    """`<=` in place of `<` in the quick lane: one word too many goes up."""
    original = plain(exact_stages.random)

    def random(*args: Any) -> tuple[int, int]:
        *head, words, at, bits = args
        step = np.uint32(1 << (32 - bits))
        return original(*head, words - np.where(words >= step, step, 0).astype(np.uint32), at, bits)

    stage_fault(patch, {"random": random})


def fewer_bits(by: int) -> Callable[[Patch], None]:
    """One random bit fewer than asked for."""

    def fault(patch: Patch) -> None:
        original = expressions.Exact.round_to

        def round_to(self: Any, exponent: int, rounding: Rounding, *rest: Any) -> Any:
            return original(self, exponent, rounding._replace(bits=rounding.bits - by), *rest)

        patch.setattr(expressions.Exact, "round_to", round_to)

    return fault


def low_bits_of_words(patch: Patch) -> None:
    """A B-bit word from the low bits of the 32, not the top ones."""
    original = expressions.Exact.round_to

    def round_to(self: Any, exponent: int, rounding: Rounding, *rest: Any) -> Any:
        words = rounding.words << np.uint32(32 - rounding.bits)
        return original(self, exponent, rounding._replace(words=words), *rest)

    patch.setattr(expressions.Exact, "round_to", round_to)


def one_grid(patch: Patch) -> None:
    """Flag without its fine grid below Sc."""
    original = expressions.Exact.round_to

    def round_to(self: Any, exponent: int, rounding: Rounding, fine: int = 0) -> Any:
        limited = rounding.within(rounding.low >> fine, rounding.high >> fine)
        coarse, status = original(self, exponent + fine, limited)
        return coarse.astype(np.int64) << fine, status

    patch.setattr(expressions.Exact, "round_to", round_to)


FAULTS: list[tuple[Callable[[Patch], None], list[str]]] = [
    (one_lsb, ["codes", "codes to_zero", "direct", "pairs", "flag", "sqrt2", "words", "random"]),
    (no_saturation, ["codes", "pairs", "sqrt2", "random"]),
    (uncounted_saturation, ["codes", "pairs"]),
    (uncounted_rounding, ["codes", "pairs", "words"]),
    (most_negative_code, ["symmetric"]),
    (other_mode(ties_even="ties_pos"), ["codes", "direct", "pairs", "flag"]),
    (other_mode(ties_even="ties_away"), ["codes", "direct", "pairs", "flag"]),
    (other_mode(to_zero="to_neg"), ["codes to_zero"]),
    (other_mode(to_neg="to_zero"), ["codes to_neg", "random"]),
    (float32_log2, ["sqrt2"]),
    (floor_log2, ["pairs", "flag", "sqrt2"]),
    (word_may_equal, ["words", "words of 8 bits"]),
    (half_goes_up, ["codes", "direct", "pairs"]),
    (quick_half_goes_up, ["codes", "direct", "pairs"]),
    (quick_edge_is_fine, ["flag"]),
    (quick_word_may_equal, ["words", "words of 8 bits"]),
    (fewer_bits(1), ["words", "words of 8 bits"]),
    (low_bits_of_words, ["words of 8 bits"]),
    (one_grid, ["flag"]),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "sweep"), [(f, s) for f, sweeps in FAULTS for s in sweeps],
    ids=[f"{f.__qualname__.split('.')[0]}-{s}" for f, sweeps in FAULTS for s in sweeps],
)  # fmt: skip
def test_a_fault_is_caught(fault, sweep, monkeypatch):
    fault(monkeypatch)
    assert caught(SWEEPS[sweep])


def test_float64_log2_is_caught_where_float64_errs(monkeypatch):
    float64_log2(monkeypatch)
    assert not caught(lambda: assert_sqrt2(30))
    assert caught(lambda: assert_sqrt2(60))


def test_a_fault_in_two_limbs_or_in_floats_is_caught(monkeypatch):
    wide, narrow = comparing.tensor([2**62 + 1, -5, 77], -60), comparing.floats([0.75, -0.3])
    with monkeypatch.context() as patch:
        one_lsb_in_limbs(patch)
        assert caught(lambda: comparing.compare(*wide, FIXED[0])) and not caught(SWEEPS["codes"])
    with monkeypatch.context() as patch:
        one_lsb_of_a_float(patch)
        assert caught(lambda: comparing.compare(*narrow, FIXED[0])) and not caught(SWEEPS["codes"])
    assert not caught(lambda: comparing.compare(*wide, FIXED[0]))
    assert not caught(lambda: comparing.compare(*narrow, FIXED[0]))


def test_the_comparison_itself_sees_a_wrong_exponent_and_a_wrong_bound(monkeypatch):
    x, xs = comparing.tensor([5, -9], -4)
    right = quantize.quantize(x, Direct(8))
    for field, value in (("exponent", -6), ("bound", 3)):
        wrong = quantize.quantize(x, Direct(8))
        setattr(wrong, field, value)
        monkeypatch.setattr(quantize, "quantize", lambda *_, wrong=wrong, **__: wrong)
        assert caught(lambda: comparing.compare(x, xs, Direct(8)))
    monkeypatch.setattr(quantize, "quantize", lambda *_, **__: right)
    assert not caught(lambda: comparing.compare(x, xs, Direct(8)))
    assert Fraction(9, 16) in [-v for v in xs]
