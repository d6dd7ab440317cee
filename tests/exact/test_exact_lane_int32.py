"""The int32 lane: numerators over powers of two up to its last, and what has to take another road.

As in `test_exact_lane.py`, every test says which kernel must have run.
"""

from fractions import Fraction

import numpy as np
import pytest

from intnet.exact.expressions import Exact
from intnet.exact.quantize import quantize
from intnet.machine.jit import SMALL
from intnet.numbers import rng
from intnet.numbers.formats import Shift
from intnet.numbers.qtensor import Status
from intnet.numbers.rounding import STOCHASTIC, TIES_EVEN, Rounding
from intnet.spec import round_fraction
from tests.support.lanes import MANY, OPEN, check, general, spread, taking, tensor

F = Fraction


@pytest.mark.parametrize("up", [1, 2, 7, 29, 30, 31])
@pytest.mark.parametrize("over", [0, 1])
@pytest.mark.parametrize("relu", [False, True])
def test_what_loses_no_bit_is_int32_in_halves_of_a_unit(up: int, over: int, relu: bool) -> None:
    """Up to the last code whose 2**up-fold leaves room for half a step, one beyond; two terms and offsets."""
    top = ((1 << 31) - 2 >> up) + over
    codes, few = spread(31, (2, MANY)) % (2 * top + 1) - top if top else np.zeros((2, MANY), np.int64), 5
    codes[0, :2] = top, -top
    kernel = "narrow_all" if up <= 30 and (top << up) + 1 < 1 << 31 else "read_all"
    value = Exact([(tensor(codes[0], np.int32, top), 1)], up - 1, relu=relu)
    num = (np.maximum(codes[0], 0) if relu else codes[0]) << up - 1
    words = rng.words(1, 2, 3, MANY)
    for how in (TIES_EVEN, STOCHASTIC):
        for lo, hi in (OPEN, (-127, 127), (0, 2**31)):
            with taking(kernel):
                got, status = value.round_to(0, Rounding(how, lo, hi, words, 32))
            check(got, status, num, 1, lo, hi)
    rows = codes[0, : 3 * (MANY // 3)].reshape(-1, 3) // 16
    scale, offset = np.array([few, -few, 1]), np.array([-few, 0, 1])
    value = Exact([(tensor(rows), scale), (tensor(rows[::-1]), 3)], up - 1, offset, 2)
    num = rows * scale + 3 * rows[::-1] + offset << up
    check(*value.round_to(-1, Rounding(TIES_EVEN, -900, 900)), num, 2, -900, 900)


def test_a_coefficient_beyond_int32_wraps_to_nothing() -> None:
    """2**62 and more times 2 would be small again in int64."""
    ones = np.resize([1, 0, -1], MANY)
    for coef in (1 << 31, 1 << 62, (1 << 63) - 1):
        codes, _ = Exact([(tensor(ones), coef)], -62).round_to(-62, Rounding(TIES_EVEN, -1, 1))
        assert np.array_equal(codes, ones)


@pytest.mark.parametrize("drop", [1, 2, 15, 29, 30, 31])
@pytest.mark.parametrize("over", [0, 1])
@pytest.mark.parametrize("relu", [False, True])
def test_numerators_of_int32_over_powers_of_two(drop: int, over: int, relu: bool) -> None:
    """Up to the last numerator that leaves room for half a step, and one beyond."""
    top = (1 << 31) - 1 - ((1 << drop) >> 1) + over
    codes = np.clip(spread(31, (MANY,)), -top, top)
    codes[:2] = top, -top
    k = np.arange(MANY // 2)  # multiples and halves of the unit, and their neighbours
    codes[2 : 2 + k.size] = np.clip((k % 64 - 32 << drop >> 1) + k % 3 - 1, -top, top)
    value = Exact([(tensor(codes, np.int64 if top >= 2**31 else np.int32), 1)], -drop, relu=relu)
    num = np.maximum(codes, 0) if relu else codes
    for lo, hi in (OPEN, (-127, 127), (0, 2**31), (-128, 127)):
        with taking("narrow_all" if 1 <= drop <= 30 and not over else "read_all"):
            got, status = value.round_to(0, Rounding(TIES_EVEN, lo, hi))
        check(got, status, num, 1 << drop, lo, hi)


@pytest.mark.parametrize("kinds", [("i1", "i4"), ("i4", "i2"), ("i4", "i4"), ("i2",)])
@pytest.mark.parametrize("channels", [1, 3, 16, 1000])
def test_int32_with_channels_and_two_terms(kinds: tuple[str, ...], channels: int) -> None:
    rows = MANY // channels + 1
    codes = [spread(min(20, 8 * np.dtype(k).itemsize - 2), (rows, channels), i) for i, k in enumerate(kinds)]
    coefs = [np.arange(channels) % 100 - 30, np.arange(channels)[::-1] % 50 + 1][: len(kinds)]
    offset = np.arange(channels) * 7 - 1000
    num = sum((c * k for c, k in zip(codes, coefs, strict=True)), start=offset)
    terms = [(tensor(c, kind), k) for c, kind, k in zip(codes, kinds, coefs, strict=True)]
    value = Exact(terms, -9, offset, 4)
    with taking("narrow_all", "narrow_all", "narrow_all"):
        check(*value.round_to(0, Rounding(TIES_EVEN)), num, 1 << 11, *OPEN)
        assert value.max() == F(int(np.abs(num).max()), 1 << 11)
        assert np.array_equal(value.positive(), num > 0)
    with taking("narrow_all"):
        assert value.rectified().max() == F(int(num.max()), 1 << 11)


def test_a_known_maximum_opens_int32_though_its_parts_would_pass_it() -> None:
    """Both terms near 2**31, their sums below 2**30: products and sums wrap on the way, and back."""
    u = spread(30, (MANY,))
    v = spread(20, (MANY,)) - u
    value = Exact([(tensor(u), 5), (tensor(v), 5)], -12)
    num = 5 * (u + v)
    with taking("read_all"):
        assert value.max() == F(int(np.abs(num).max()), 1 << 12)
    with taking("narrow_all"):
        check(*value.round_to(0, Rounding(TIES_EVEN, -127, 127)), num, 1 << 12, -127, 127)
    with taking("read_all"):
        check(*Exact(value.terms, -12).round_to(0, Rounding(TIES_EVEN)), num, 1 << 12, *OPEN)


def test_what_int32_does_not_do_takes_float64() -> None:
    """Denominators that differ or are no power of two, Flag's two grids, words of few bits."""
    codes, words = spread(20, (MANY,)), rng.words(1, 2, 3, MANY)
    q = tensor(codes)
    pairs = np.resize([4, 8], MANY)
    with taking("read_all"):
        check(*Exact([(q, 1)], -4, den=6).round_to(0, Rounding(TIES_EVEN)), codes, 96, *OPEN)
    with taking("read_all"):
        check(*Exact([(q, 1)], -4, den=pairs).round_to(0, Rounding(TIES_EVEN)), codes, pairs << 4, *OPEN)
    for fine, how, kernel in (
        (3, {"mode": TIES_EVEN}, "read_all"),
        (0, {"words": words, "bits": 3, "mode": STOCHASTIC}, "read_all"),  # fewer bits than are lost
        (0, {"words": words, "bits": 4, "mode": STOCHASTIC}, "narrow_all"),
    ):
        with taking(kernel):
            got = Exact([(q, 1)], -4).round_to(0, Rounding(low=-900, high=900, **how), fine)
        with general():
            want = Exact([(q, 1)], -4).round_to(0, Rounding(low=-900, high=900, **how), fine)
        assert np.array_equal(got[0], want[0]) and got[1] == want[1]


@pytest.mark.parametrize("den", [1, 3])
@pytest.mark.parametrize("elements", [50, MANY])
def test_a_rectified_value_that_was_rounded_knows_its_signs(den: int, elements: int) -> None:
    """Whatever rounds to 0 included; and it is the pass of the rounding that finds them."""
    codes = spread(12, (elements,))
    codes[:4] = 1, -1, 3, -3
    kernel = "round_few" if elements < SMALL else "narrow_all" if den == 1 else "read_all"
    for relu in (True, False):
        value = Exact([(tensor(codes), 5)], -10, 2, den, relu)
        with taking(kernel):
            value.round_to(0, Rounding(TIES_EVEN, -3, 3))
        if relu:
            with taking():
                assert np.array_equal(value.positive(), 5 * codes + 2 > 0)
        assert np.array_equal(Exact(value.terms, -10, 2, den, relu).positive(), 5 * codes + 2 > 0)


@pytest.mark.parametrize("bits", [1, 8, 17, 30, 32])
@pytest.mark.parametrize("drop", [1, 8, 9, 17, 30, 31])
def test_words_beside_the_threshold_of_an_int32(bits: int, drop: int) -> None:
    """Every part of a step against the last word that goes up and the first that does not."""
    top = 1 << (min(drop, bits) - 1)
    magnitudes = 0, 1, 2, 3, top - 1, top, top + 1, 2 * top - 1, 2**29 + 5, 2**30
    nums = [sign * magnitude for magnitude in magnitudes for sign in (1, -1)]
    pairs = [
        (num, word)
        for num in nums
        for rest in [(num % (1 << drop)) << bits >> drop]
        for word in {0, rest - 1, rest, rest + 1, 2**bits - 1}
        if 0 <= word < 2**bits
    ]
    pairs *= MANY // len(pairs) + 1
    noise = rng.words(5, 0, 0, len(pairs)).astype(np.uint64) % (1 << (32 - bits))
    words = ((np.array([w for _, w in pairs], np.uint64) << (32 - bits)) + noise).astype(np.uint32)
    q = tensor([num for num, _ in pairs], np.int32)
    with taking("narrow_all" if drop <= min(bits, 30) else "read_all"):
        got, status = Exact([(q, 1)], -drop).round_to(0, Rounding(STOCHASTIC, -(2**20), 2**20, words, bits))
    oracle = {(n, w): round_fraction(F(n, 1 << drop), "stochastic", w, bits) for n, w in set(pairs)}
    want = np.array([oracle[pair] for pair in pairs])
    assert np.array_equal(got, np.clip(want, -(2**20), 2**20))
    assert status.saturated == np.count_nonzero(abs(want) > 2**20)
    assert status.inexact == sum(num % (1 << drop) != 0 for num, _ in pairs)


def test_the_maximum_of_a_rectified_value_does_not_bound_what_is_below_zero() -> None:
    """Numerators of -2.2e9, beyond int32, and 5500: int32 would wrap the first to positive ones."""
    codes = np.resize([-2_000_000, 5], MANY)
    value = Exact([(tensor(codes), 1100)], 0).rectified()
    assert value.max() == 5500
    with taking("read_all"):
        got, status = value.round_to(4, Rounding(TIES_EVEN))
    assert got.tolist() == np.resize([0, 344], MANY).tolist() and status.saturated == 0
    again = Exact([(tensor(codes), 1100)], 0).rectified()
    again.log2_max()
    assert np.array_equal(again.positive(), codes > 0)
    q = quantize(Exact([(tensor(codes), 1100)], 0).rectified(), Shift(16))
    assert np.array_equal(q.codes, np.where(codes < 0, 0, 32767))  # R = 4096
    assert q.status == Status(np.count_nonzero(codes > 0), 0, MANY)
