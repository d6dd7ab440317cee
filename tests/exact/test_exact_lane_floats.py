"""The quick lane from float32 and to it: units, ranges and midpoints where one more rounding would show."""

from fractions import Fraction

import numpy as np
import pytest

from intnet.errors import NumberError
from intnet.exact import lane as lanes
from intnet.exact.expressions import Exact, FloatExact
from intnet.exact.quantize import quantize
from intnet.machine.jit import SMALL
from intnet.numbers import rng
from intnet.numbers.formats import Direct, FixedPoint, Flag, Shift
from intnet.numbers.rounding import STOCHASTIC, TIES_EVEN, Rounding
from intnet.spec import float32 as floats
from intnet.spec import round_fraction
from tests.support.lanes import MANY, general, taking, tensor

F = Fraction


# -- from float32 ----------------------------------------------------------------------------


def float_corners() -> np.ndarray:
    tiny, huge = 2.0**-149, float(np.finfo(np.float32).max)
    values = [0.0, tiny, 2.0**-126, 2.0**-126 - tiny, 0.5, 1.5, 2.5, 0.49999997, 127.49999, 127.5, 128.0]
    values += [255.5, 2.0**23 + 0.5, 2.0**23 + 1, 2.0**24 - 1, 2.0**24, 2.0**31, huge / 3, huge, 1e-20, 3.14]
    return np.array([s * v for v in values for s in (1, -1)] + [-0.0], np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("unit", [0, 1, -1, 4, -4, 24, -24, 126, -126, 127, -127, 140, -149])
@pytest.mark.parametrize("elements", [1, MANY])
def test_float32_sources_with_a_range(unit: int, elements: int) -> None:
    """Units of 2**unit on both sides of where float32 itself loses no bit; limits on both sides of 2**24."""
    corners = float_corners()
    values = np.resize(corners, max(elements, corners.size))
    last = 2**24  # float32 holds every integer up to here
    ranges = [(-128, 127), (0, 255), (-last, last), (-last - 1, last + 1), (-(2**31), 2**31 - 1)]
    for lo, hi in ranges:
        lossless = -126 <= unit <= 0 and hi <= last
        with taking("round_few" if values.size < SMALL else "quantize_floats" if lossless else "read_all"):
            got, status = FloatExact(values).round_to(unit, Rounding(TIES_EVEN, lo, hi))
        want = [round_fraction(F(float(v)) / F(2) ** unit, "ties_even") for v in corners]
        kept = [min(max(w, lo), hi) for w in want]
        assert got.tolist() == np.resize(kept, values.size).tolist()
        repeat = np.resize(np.arange(corners.size), values.size)
        clipped = np.array([a != b for a, b in zip(want, kept, strict=True)])[repeat]
        inexact = np.array([(F(float(v)) / F(2) ** unit).denominator != 1 for v in corners])[repeat]
        assert (status.saturated, status.inexact) == (int(clipped.sum()), int(inexact.sum()))


@pytest.mark.slow
@pytest.mark.parametrize("unit", [0, -4, -24, -126])
@pytest.mark.parametrize("bits", [1, 2, 8, 23, 24, 25, 31, 32])
def test_words_beside_the_threshold_of_a_float32(bits: int, unit: int) -> None:
    """Every corner against the last word that goes up and the first that does not."""
    corners = [*float_corners().tolist(), *np.float32([0.9999999, 0.99999994, 1.9999999, 5.3, 1e-9]).tolist()]
    step, last = F(2) ** unit, 2**bits - 1
    pairs = []
    for x in (sign * F(v) for v in corners for sign in (1, -1)):
        rest = x / step % 1 * 2**bits
        ends = {0, last, *(int(rest) + k for k in (-2, -1, 0, 1))}
        pairs += [(float(x), word) for word in ends if 0 <= word <= last]
    pairs *= MANY // len(pairs) + 1
    values = np.array([x for x, _ in pairs], np.float32)
    noise = rng.words(5, 0, 0, len(pairs)).astype(np.uint64) % (1 << (32 - bits))
    words = ((np.array([word for _, word in pairs], np.uint64) << (32 - bits)) + noise).astype(np.uint32)
    for hi in (127, 2**24):
        with taking("quantize_floats"):
            got, status = FloatExact(values).round_to(unit, Rounding(STOCHASTIC, -hi, hi, words, bits))
        oracle = {(x, w): round_fraction(F(x) / step, "stochastic", w, bits) for x, w in set(pairs)}
        want = [oracle[pair] for pair in pairs]
        kept = [min(max(code, -hi), hi) for code in want]
        assert got.tolist() == kept and status.peak == max(map(abs, kept))
        assert status.saturated == sum(a != b for a, b in zip(want, kept, strict=True))
        assert status.inexact == sum((F(x) / step).denominator != 1 for x, _ in pairs)


@pytest.mark.parametrize("den", [1, 2, 3, 49, 1024])
@pytest.mark.parametrize("fine", [0, 7])
def test_float32_sources_over_a_denominator_and_on_two_grids(den: int, fine: int) -> None:
    values = np.resize(float_corners()[:20], MANY)
    for unit in (-9, 0, 5):
        value = FloatExact(values, den)
        lossless = (
            fine == 0 and den & (den - 1) == 0 and 2.0**-unit >= den
        )  # float32 times a power of two, up
        with taking("quantize_floats" if lossless else "read_all"):
            got = value.round_to(unit, Rounding(TIES_EVEN, -127 << fine, 127 << fine), fine)
        with general():
            want = value.round_to(unit, Rounding(TIES_EVEN, -127 << fine, 127 << fine), fine)
        assert np.array_equal(got[0], want[0]) and got[1] == want[1] and got[0].dtype == want[0].dtype


def test_float32_sources_without_a_range() -> None:
    values = np.resize(np.array([0.5, -1.5, 300.25, -(2.0**30), 2.0**-30], np.float32), MANY)
    for unit, kind in ((0, np.int32), (-5, np.int64), (-24, np.int64), (16, np.int16), (26, np.int8)):
        with taking("read_all" if unit else "quantize_floats"):
            got, status = FloatExact(values).round_to(unit, Rounding(TIES_EVEN))
        want = [round(F(float(v)) / F(2) ** unit) for v in values[:5]]
        assert got.dtype == kind and got.tolist() == np.resize(want, MANY).tolist()
        assert status.saturated == 0 and status.peak == max(map(abs, want))


@pytest.mark.parametrize("elements", [5, MANY])
@pytest.mark.parametrize("mode", ["ties_even", "stochastic", "to_neg"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_not_a_number_anywhere_is_named(elements: int, mode: str, value: float) -> None:
    """Whoever reads the tensor first finds it: the rounding itself, the maximum, or the general loop."""
    words = rng.words(1, 2, 3, elements)
    for at in (0, elements // 2, elements - 1):
        x = np.ones(elements, np.float32)
        x[at] = value
        for fmt in (FixedPoint(8, 4), FixedPoint(8, -4), Direct(8), Shift(8), Flag(8)):
            if mode == "stochastic" and isinstance(fmt, Flag):
                continue
            with pytest.raises(NumberError, match=rf"conv1/x1: NaN or infinity at index \({at},\)"):
                quantize(x, fmt, rounding=mode, words=words, where="conv1/x1")
        with pytest.raises(NumberError, match="NaN or infinity"):
            FloatExact(x, 3).round_to(0, Rounding(TIES_EVEN, -9, 9))
        with pytest.raises(NumberError, match="NaN or infinity"):
            FloatExact(x).fractions()


# -- to float32 ------------------------------------------------------------------------------


@pytest.mark.parametrize("exponent", [-lanes.FAR - 1, -lanes.FAR, -150, -140, -126, 0, 80, 102])
@pytest.mark.parametrize("den", [1, 3, 7, 2**26 + 1])
def test_to_float32_at_midpoints_of_every_size(exponent: int, den: int) -> None:
    """Midpoints of two float32, normal or subnormal, and their neighbours: where two roundings err."""
    mids = [2**24 + 1, 2**24 + 3, 2**25 - 1, 1, 3, 5, 2**22 + 1, 2**10 + 1]
    mids = [m for m in mids if (m + 1) * den <= 2**51]
    nums = sorted({s * (m * den + d) for m in mids for d in (-1, 0, 1) for s in (1, -1)} | {0})
    value = Exact([(tensor(nums, np.int64), 1)], exponent, den=den)
    want = [floats.to_float32(F(num, den) * F(2) ** exponent) for num in nums]
    got = value.to_float32()
    assert [F(float(v)) for v in got] == want
    assert not np.any(np.signbit(got) & (np.array(nums) >= 0))


def test_to_float32_beyond_its_range_is_an_error_for_large_tensors_too() -> None:
    codes = np.zeros(MANY, np.int64)
    codes[-1] = 2**24
    assert Exact([(tensor(codes), 1)], 103).to_float32()[-1] == np.float32(2.0**127)
    for relu in (False, True):
        with pytest.raises(NumberError, match="beyond float32's range"):
            Exact([(tensor(codes), 1)], 104, relu=relu).to_float32()
    assert not Exact([(tensor(-codes, np.int32), 1)], 104, relu=True).to_float32().any()


@pytest.mark.slow
@pytest.mark.parametrize("exponent", [-149, -140, -127, -126, -20, 0, 96])
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32])
def test_to_float32_of_bare_codes(dtype: type, exponent: int) -> None:
    """The shortest way and, below 2^-126, the one of powers of two: extremes, ties of 24 bits, subnormals."""
    info = np.iinfo(dtype)
    nums = {0, 1, -1, 2, 3, -3, info.min, info.min + 1, info.max, info.max - 1}
    for low in range(24, 31):  # midpoints of neighbours in float32, and beside them
        nums |= {sign * ((1 << low) + k) for k in range(1 << 6) for sign in (-1, 1)}
    kept = sorted(n for n in nums if info.min <= n <= info.max)
    codes = np.resize(np.array(kept, dtype), 40_000)  # large enough for all threads, and more than a row
    want = [floats.to_float32(F(n) * F(2) ** exponent) for n in kept]
    for size in (len(kept), codes.size):
        got = Exact([(tensor(codes[:size], dtype), 1)], exponent).to_float32()
        assert [F(float(value)) for value in got[: len(kept)]] == want
        assert np.array_equal(got, np.resize(got[: len(kept)], size))
        assert not np.any(np.signbit(got[codes[:size] == 0]))
