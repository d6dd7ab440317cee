"""The quick lane against plain integers, against the general loops, and at the borders of each of its paths.

Every test says which kernel must have run, so that none of them passes by another road.
"""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from intnet.exact import lane as lanes
from intnet.exact.expressions import Exact, FloatExact
from intnet.exact.quantize import quantize
from intnet.machine.jit import SMALL
from intnet.numbers import rng
from intnet.numbers.formats import Direct
from intnet.numbers.qtensor import QTensor, Status
from intnet.numbers.rounding import STOCHASTIC, TIES_EVEN, TO_NEG, Rounding
from intnet.spec import float32 as floats
from intnet.spec import round_fraction
from tests.support import comparing
from tests.support.lanes import MANY, OPEN, check, general, greatest, nearest, spread, taking, tensor
from tests.support.opcheck import threads

F = Fraction


# -- numerators ------------------------------------------------------------------------------


@pytest.mark.parametrize("second", [None, np.int8, np.int16, np.int32, np.int64])
@pytest.mark.parametrize("first", [np.int8, np.int16, np.int32, np.int64])
@pytest.mark.parametrize("rows", [5, SMALL // 7 + 3])
def test_terms_of_every_type(first: Any, second: Any, rows: int) -> None:
    """num/den, its peak, its sign and its float32, of one and of two terms in any types."""
    channels = 7
    kinds = [kind for kind in (first, second) if kind is not None]
    codes = [spread(8 * np.dtype(k).itemsize // 2, (rows, channels), i) for i, k in enumerate(kinds)]
    coefs = [np.arange(-3, 4) * 5 + 1, np.arange(channels) - 2][: len(kinds)]
    offset, den = np.arange(channels) * 17 - 50, np.arange(channels) * 2 + 3
    num = sum((c * k for c, k in zip(codes, coefs, strict=True)), start=offset)
    terms = [(tensor(c, kind), k) for c, kind, k in zip(codes, kinds, coefs, strict=True)]
    value = Exact(terms, 0, offset, den)
    rounds, reads = ("read_all", "read_all") if num.size >= SMALL else ("round_few", "read_part")
    with taking(rounds):
        check(*value.round_to(0, Rounding(TIES_EVEN)), num, den, *OPEN)
    with taking(rounds):
        check(*value.round_to(0, Rounding(TIES_EVEN, -90, 70)), num, den, -90, 70)
    bound = sum(abs(k).max() * np.abs(c).max() for c, k in zip(codes, coefs, strict=True)) + 67
    with taking("narrow_all" if num.size >= SMALL and bound < 2**31 else reads):
        assert value.max() == greatest(num, den)
    assert np.array_equal(value.positive(), num > 0)
    got = value.to_float32().reshape(-1)
    for i in range(0, num.size, max(1, num.size // 60)):
        assert F(float(got[i])) == floats.to_float32(F(int(num.flat[i]), int(den[i % channels])))


@pytest.mark.parametrize("over", [0, 1])
@pytest.mark.parametrize("den", [1, 2, 3, 6, 2**20 + 6])
def test_numerators_up_to_51_bits_and_one_beyond(over: int, den: int) -> None:
    """The greatest numerators that the lane takes, and the first that it does not."""
    top = lanes.LIMIT + over
    codes = np.array([top, -top, top - 1, 1 - top, top - den // 2 - 1, 0, 1, den // 2, -den // 2])
    value = Exact([(tensor(codes, np.int64), 1)], 0, den=den)
    context = taking("round_few") if over == 0 else general()
    with context:
        check(*value.round_to(0, Rounding(TIES_EVEN)), codes, den, *OPEN)
    if over:
        with pytest.raises(pytest.fail.Exception), taking():
            value.round_to(0, Rounding(TIES_EVEN))


@pytest.mark.parametrize("den", [1, 3, 12, 3 << 20, 1 << 30])
@pytest.mark.parametrize("up", [0, 1, 2, 20, 30])
def test_a_power_of_two_is_cancelled_before_numerators_are_counted(den: int, up: int) -> None:
    """num * 2**up / den: what 2**up and den share does not lengthen the numerator."""
    shared = min(up, (den & -den).bit_length() - 1)
    top = lanes.LIMIT >> (up - shared)
    for over in (0, 1):
        codes = np.array([top + over, -top, 5, den // 2, 3 * den // 2, 1])
        value = Exact([(tensor(codes, np.int64), 1)], up, den=den)
        lane = lanes.prepare(value._vectors, [codes], [float(top + over)], up)
        assert (lane is None) == bool(over)
        got, status = value.round_to(0, Rounding(TIES_EVEN))
        want = [F(int(c) << up, den) for c in codes]
        assert got.tolist() == [round_fraction(x, "ties_even") for x in want]
        assert status.inexact == sum(x.denominator != 1 for x in want)


@pytest.mark.parametrize("shift", [-lanes.FAR - 1, -lanes.FAR, -300, -52, 0, 300, lanes.FAR, lanes.FAR + 1])
def test_units_far_from_the_value(shift: int) -> None:
    """2**shift between code and value: nothing underflows within FAR, and beyond it the lane is not taken."""
    codes = np.array([0, 0, 0]) if shift > 0 else np.array([2**51, -(2**51), 1, -1, 3, 0])
    q = tensor(codes, np.int64, 2**51 if shift <= 0 else 0)
    for relu in (False, True):
        value = Exact([(q, 1)], shift, den=3, relu=relu)
        with taking("round_few") if abs(shift) <= lanes.FAR else general():
            got, status = value.round_to(0, Rounding(TIES_EVEN))
        want = [F(max(int(c), 0) if relu else int(c), 3) * F(2) ** shift for c in codes]
        assert got.tolist() == [round(x) for x in want]
        assert status.inexact == sum(x.denominator != 1 for x in want)


def test_proven_bounds_far_above_the_codes_do_not_close_the_lane() -> None:
    codes = spread(30, (40, 3))
    with taking("round_few", "read_part"):
        value = Exact([(tensor(codes, np.int64, 2**60), 3)], 0, den=7)
        check(*value.round_to(0, Rounding(TIES_EVEN)), 3 * codes, 7, *OPEN)


def test_codes_that_are_not_contiguous_scalars_and_empty_ones() -> None:
    codes = spread(20, (6, 4)).astype(np.int32)
    for view in (codes.T, codes[::2, ::-1], codes[:, 1], codes[2, 3], codes[:0]):
        value = Exact([(QTensor(view, 0), 5)], 0, 3, 7)
        got, status = value.round_to(0, Rounding(TIES_EVEN))
        want, inexact = nearest(view.astype(np.int64) * 5 + 3, 7)
        assert got.shape == view.shape and np.array_equal(got, want) and status.inexact == inexact


def drawn(num: np.ndarray, den: np.ndarray, words: np.ndarray, bits: int) -> list[int]:
    """floor(num/den) + [word < floor(f * 2**bits)] of Python's integers."""
    out = []
    for x, over, word in zip(num.ravel().tolist(), den.ravel().tolist(), words.ravel().tolist(), strict=True):
        floor, rest = divmod(x, over)
        out.append(floor + ((word >> (32 - bits)) < (rest << bits) // over))
    return out


@pytest.mark.parametrize("bits", [1, 8, 24, 32])
@pytest.mark.parametrize("rows", [40, SMALL // 5 + 9])
@pytest.mark.parametrize("relu", [False, True])
def test_random_words_over_any_denominator(bits: int, rows: int, relu: bool) -> None:
    """Words at, below and above what decides; numerators up to the last one of the lane, of both signs."""
    den = np.broadcast_to(np.array([3, 49, 98, 3 << 20, 2**20 + 6]), (rows, 5))
    num = spread(50, (rows, 5))
    num[1] = lanes.LIMIT, 1 - lanes.LIMIT, -lanes.LIMIT, lanes.LIMIT - 1, lanes.LIMIT
    num[2], num[3], num[4] = den[2] * 7, -den[3], 0
    num[5:15] = np.arange(-25, 25).reshape(10, 5)
    kept = np.maximum(num, 0) if relu else num
    edge = (kept % den).astype(object) * 2**bits // den  # words below it go up
    words = (np.clip(edge + np.arange(rows)[:, None] % 3 - 1, 0, 2**bits - 1) << (32 - bits)).astype(
        np.uint32
    )
    words[::2] += rng.words(5, 0, 1, rows * 5).reshape(rows, 5)[::2] >> np.uint32(bits) if bits < 32 else 0
    want = np.array(drawn(kept, den, words, bits))
    value = Exact([(tensor(num, np.int64), 1)], 0, den=den[0].copy(), relu=relu)
    for low, high in (OPEN, (-128, 127)):
        with taking("round_few" if num.size < SMALL else "read_all"):
            codes, status = value.round_to(0, Rounding(STOCHASTIC, low, high, words.ravel(), bits))
        limited = np.clip(want, low, high)
        assert codes.ravel().tolist() == limited.tolist()
        assert status.saturated == np.count_nonzero(limited != want)
        assert status.inexact == np.count_nonzero(kept % den)
        assert status.peak == np.abs(limited).max()


@pytest.mark.parametrize("n", [9, MANY])
def test_random_words_of_float32_over_no_power_of_two_take_the_general_loop(n: int) -> None:
    """num - floor * den is not exact where the float32 is tiny beside den: floor -1, and the last word."""
    x = np.resize(np.float32([-(2.0**-100), 2.0**-100, -1.5, 98.0, 0.0]), n)
    words = np.full(n, 0xFFFFFFFF, np.uint32)
    with pytest.raises(pytest.fail.Exception, match="round_floats ran"), taking():
        FloatExact(x, 98).round_to(0, Rounding(STOCHASTIC, -8, 7, words))
    codes, _ = FloatExact(x, 98).round_to(0, Rounding(STOCHASTIC, -8, 7, words))
    assert codes[:5].tolist() == [-1, 0, -1, 1, 0]


# -- modes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("fine", [1, 3, 7])
@pytest.mark.parametrize("den", [1, 3, 10, 2**16 - 1, 2**16])
def test_flags_beside_the_step_from_the_fine_to_the_coarse_grid(fine: int, den: int) -> None:
    """|q| = 2**fine -+ the least that den allows, ties of both grids, and the ends of the range."""
    edge = 1 << fine
    ticks = {k * den * edge // 2 for k in range(1, 12)} | {k * den // 2 for k in range(4 * edge + 3)}
    nums = sorted({s * (t + d) for t in ticks for d in (-2, -1, 0, 1, 2) for s in (1, -1)})
    hi = (edge - 1) << fine
    for repeat in (1, MANY // len(nums) + 1):
        codes = np.resize(nums, len(nums) * repeat)
        value = Exact([(tensor(codes, np.int64), 1)], 0, den=den)
        with taking("round_few" if repeat == 1 else "read_all"):
            got, status = value.round_to(0, Rounding(TIES_EVEN, -hi, hi), fine)
        want, inexact = [], 0
        for num in nums:
            grid = edge if abs(num) >= den * edge else 1
            want.append(grid * round(F(num, den * grid)))
            inexact += num % (den * grid) != 0
        kept = np.clip(want, -hi, hi)
        assert got.tolist() == np.resize(kept, codes.size).tolist()
        clipped = int(np.count_nonzero(kept != want))
        assert (status.saturated, status.inexact) == (clipped * repeat, inexact * repeat)


@pytest.mark.parametrize("bits", [1, 8, 24, 31, 32])
@pytest.mark.parametrize("drop", [0, 1, 20, 32, 51, 90])
def test_words_on_both_sides_of_their_threshold(bits: int, drop: int) -> None:
    """Also for values just below 0, where 1 - tiny is no float64."""
    nums = [s * v for v in (0, 1, 2, 3, 5, 2**31, 2**32 + 1, 2**50 - 1, 2**51) for s in (1, -1)]
    xs, words = comparing.edge_words([F(num, 1 << drop) for num in nums], F(1), bits)
    q = tensor([int(x * (1 << drop)) for x in xs], np.int64)
    drawn = np.array([((w + 1) << (32 - bits)) - 1 for w in words], np.uint32)
    with taking("round_few"):
        got, status = Exact([(q, 1)], -drop).round_to(0, Rounding(STOCHASTIC, -(2**40), 2**40, drawn, bits))
    want = [round_fraction(x, "stochastic", w, bits) for x, w in zip(xs, words, strict=True)]
    kept = [min(max(w, -(2**40)), 2**40) for w in want]
    assert got.tolist() == kept and status.saturated == sum(a != b for a, b in zip(want, kept, strict=True))
    assert status.inexact == sum(x.denominator != 1 for x in xs)


def test_words_of_another_mode_are_not_drawn() -> None:
    codes, words = np.array([1, 3, -1]), np.zeros(3, np.uint32)
    assert Exact([(tensor(codes), 1)], -1).round_to(0, Rounding(TIES_EVEN, words=words))[0].tolist() == [
        0,
        2,
        0,
    ]
    assert Exact([(tensor(codes), 1)], -1).round_to(0, Rounding(TO_NEG, words=words))[0].tolist() == [
        0,
        1,
        -1,
    ]


# -- containers ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("peak", "lo", "hi", "kind"),
    [
        (127, *OPEN, np.int8), (128, *OPEN, np.int16),
        (40000, *OPEN, np.int32), (2**31, *OPEN, np.int64),
        (10**9, -127, 127, np.int8), (10**9, -128, 127, np.int8),
        (10**9, 0, 255, np.int16), (99, 0, 255, np.int8),
        (10**9, -(2**15), 2**15 - 1, np.int16), (10**9, -(2**31), 2**31 - 1, np.int32),
    ],
)  # fmt: skip
@pytest.mark.parametrize("elements", [3, MANY])
def test_codes_come_in_the_smallest_type(peak: int, lo: int, hi: int, kind: Any, elements: int) -> None:
    """That holds them, or the format's whole range; the same from every path."""
    codes = np.resize(np.array([peak, -peak, 1]), elements)
    q = tensor(codes, np.int64, 2**33)
    results = [Exact([(q, 1)], 0).round_to(0, Rounding(TIES_EVEN, lo, hi))]
    results.append(Exact([(tensor(codes * 4, np.int64), 1)], -2).round_to(0, Rounding(TIES_EVEN, lo, hi)))
    with general():
        results.append(Exact([(q, 1)], 0).round_to(0, Rounding(TIES_EVEN, lo, hi)))
    for got, status in results:
        assert got.dtype == kind and np.array_equal(got, np.clip(codes, lo, hi))
        assert status == results[0][1] and status.peak == int(np.abs(np.clip(codes, lo, hi)).max())


def test_the_peak_is_the_bound_of_a_direct_tensor_and_no_part_of_equality() -> None:
    q = quantize(tensor([-300, 299, 5]), Direct(1))
    assert q.bound == 300 and q.status == Status(0, 0, 3)
    assert repr(q.status) == "Status(saturated=0, inexact=0, elements=3)"


@pytest.mark.parametrize("n", [1, 2])
def test_any_number_of_threads_gives_the_same(n: int) -> None:
    codes = [spread(18, (3 * SMALL // 4, 16)), spread(7, (3 * SMALL // 4, 16), 1)]
    ramp, den = np.arange(16), np.arange(16) + 100
    value = Exact([(tensor(codes[0]), 1000), (tensor(codes[1], np.int8), ramp)], -3, 5, den)
    with threads(n):
        got, status = value.round_to(0, Rounding(TIES_EVEN))
        top = value.max()
    num = codes[0] * 1000 + codes[1] * ramp + 5
    check(got, status, num, den << 3, *OPEN)
    assert top == greatest(num, den << 3)


# -- what is not for the quick lane ------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("limit", [2**53 - 1, 2**53, 2**53 + 1, 2**54 - 1, 2**55 - 1, 2**60 - 1])
def test_limits_that_float64_does_not_hold(limit: int) -> None:
    values = np.array([1.4, -1.5, 0.25], np.float32)
    got, status = FloatExact(values).round_to(-60, Rounding(TIES_EVEN, -limit, limit))
    want = [int(F(float(v)) * 2**60) for v in values]
    assert got.tolist() == [min(max(w, -limit), limit) for w in want]
    assert status.saturated == sum(abs(w) > limit for w in want)


@pytest.mark.parametrize(("lo", "hi"), [(1000, 2000), (-2000, -1000), (0, 5), (-5, 0)])
@pytest.mark.parametrize("elements", [50, MANY])
def test_a_range_on_one_side_of_zero(lo: int, hi: int, elements: int) -> None:
    codes = spread(4, (elements,))
    got, _ = Exact([(tensor(codes), 1)], 0).round_to(0, Rounding(TIES_EVEN, lo, hi))
    assert np.array_equal(got, np.clip(codes, lo, hi))
