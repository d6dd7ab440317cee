"""What `quantize` takes: numbers, lists, arrays of every type, rounded once from exact values; seeds."""

import struct
from fractions import Fraction as F
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intnet import Constant, Direct, FixedPoint, Flag, QTensor, Scaled, Shift, quantize
from intnet.errors import ConfigError, ContainerError, FormatError, NumberError, ShapeError
from intnet.exact import expressions
from intnet.exact.sources import FloatExact
from intnet.numbers import rng
from intnet.numbers.rounding import Rounding
from intnet.spec import power, round_fraction
from intnet.spec import words as random_words
from intnet.spec.rounding import MODES
from tests.support.comparing import DETERMINISTIC, compare

EIGHT = FixedPoint(8, 6)
FORMATS = [EIGHT, FixedPoint(32, 31), FixedPoint(5, -40, signed=False), FixedPoint(8, 1060, overflow="wrap")]
BY_TENSOR = [Shift(8), Shift(32), Flag(8), Flag(32), Constant(15, 128), Scaled(8), Scaled(32)]


def half_even(x: F, fl: int, lo: int, hi: int) -> int:
    return max(lo, min(hi, round(x * F(2) ** fl)))  # Python's rule for Fractions


# -- what may be given ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floats_of_every_width_are_rounded_once(dtype: Any) -> None:
    x = np.array([0.3, -1.5, 2.0, 0.0078125, 1 / 3, -(2.0**-30)]).astype(dtype)
    want = [half_even(F(float(v)), 6, -128, 127) for v in x]
    for given_ in (x, x.reshape(2, 3), list(x), x.tolist()):
        q = quantize(given_, EIGHT)
        assert q.codes.reshape(-1).tolist() == want and q.exponent == -6


ALONE = [*(t(0.3) for t in (float, np.float16, np.float32, np.float64, np.array)), 1, True, np.int8(-1)]


@pytest.mark.parametrize("one", [*ALONE, np.uint64(1), np.array(1)])
def test_a_number_is_a_scalar(one: Any) -> None:
    q = quantize(one, EIGHT)
    assert q.shape == () and q.codes == half_even(F(float(one)), 6, -128, 127)


def test_a_tie_that_float32_would_make() -> None:
    """Just above a half, where float32 would be at it; and a decimal that is no tie in float64."""
    assert quantize(0.5 + 2.0**-40, FixedPoint(8, 0)).codes == 1
    assert (
        np.float32(0.5 + 2.0**-40) == np.float32(0.5)
        and quantize(np.float32(0.5), FixedPoint(8, 0)).codes == 0
    )
    assert quantize([0.1, 0.2, 0.7], FixedPoint(32, 31)).codes.tolist() == [
        round(F(v) * 2**31) for v in (0.1, 0.2, 0.7)
    ]


@pytest.mark.parametrize("dtype", [np.bool_, *(f"{s}int{b}" for s in ("", "u") for b in (8, 16, 32, 64))])
def test_integers_of_every_type(dtype: Any) -> None:
    kind = np.dtype(dtype)
    ends = [0, 1] if kind == np.bool_ else [np.iinfo(kind).min, 0, 1, min(np.iinfo(kind).max, 2**63 - 1)]
    x = np.array(ends, kind)
    for fmt in (FixedPoint(32, 0), FixedPoint(8, -3), Shift(8)):
        for mode in ("ties_even", "to_neg"):
            compare(x, [F(int(v)) for v in ends], fmt, mode)


def test_lists_and_their_integers_are_kept_whole() -> None:
    assert quantize([[1, 2], [3, 4]], FixedPoint(8, 0)).codes.tolist() == [[1, 2], [3, 4]]
    assert quantize((0.5, 2), EIGHT).codes.tolist() == [32, 127]
    assert quantize([], EIGHT).shape == (0,)
    assert quantize([2**53 + 1, -(2**63)], FixedPoint(8, -53), rounding="to_pos").codes.tolist() == [2, -128]
    with pytest.raises(
        FormatError, match="fc/x: 9007199254740993 is no float64, which the other numbers make"
    ):
        quantize([0.5, 2**53 + 1], EIGHT, where="fc/x")


@pytest.mark.parametrize(
    ("given_", "says"),
    [
        ([1, 2**70], "not object"),
        ([F(1, 3)], "not object"),
        (None, "not object"),
        ("0.3", "not <U3"),
        ([1j], "not complex"),
        (np.array([2**63], np.uint64), "not uint64"),
        (np.array([1], np.longdouble), "not float128|not longdouble"),
    ],
)
def test_other_types_are_refused(given_: Any, says: str) -> None:
    with pytest.raises(
        FormatError, match=f"fc/x: numbers are int64's integers, float16, float32, float64, {says}"
    ):
        quantize(given_, EIGHT, where="fc/x")


def test_ragged_lists_and_what_is_not_finite() -> None:
    with pytest.raises(ShapeError, match="one length at each depth"):
        quantize([[1], [2, 3]], EIGHT)
    for value in (np.nan, np.inf, -np.inf):
        for given_ in (value, [0.1, value], np.array([0.1, value]), np.array([0.25, value], np.float16)):
            for fmt in (EIGHT, Direct(8), Shift(8)):
                with pytest.raises(NumberError, match=r"fc/x: NaN or infinity at index \((1,)?\)"):
                    quantize(given_, fmt, where="fc/x")


# -- float64 against the definition --------------------------------------------------------------


def doubles(patterns: list[int]) -> tuple[np.ndarray, list[F]]:
    """Finite float64 of bit patterns, and their values."""
    finite = [p for p in patterns if p >> 52 & 0x7FF != 0x7FF] or [1]
    array = np.array(finite, np.uint64).view(np.float64)
    return array, [F(struct.unpack("<d", struct.pack("<Q", p))[0]) for p in finite]


EDGES = [
    sign << 63 | exponent << 52 | mantissa
    for sign in (0, 1)
    for exponent in (0, 1, 2, 962, 1016, 1022, 1023, 1024, 1053, 1054, 1055, 1085, 2046)
    for mantissa in (0, 1, 1 << 29, (1 << 29) - 1, 1 << 51, (1 << 51) + 1, (1 << 52) - 1)
]
PATTERNS = st.lists(
    st.one_of(
        st.integers(0, 2**64 - 1),
        st.sampled_from(EDGES),
        st.builds(lambda e, m: e << 52 | m, st.integers(1000, 1060), st.integers(-(2**51), 2**51)),
    ),
    min_size=1,
    max_size=8,
)


@given(PATTERNS, st.sampled_from(FORMATS), st.sampled_from(MODES), st.integers(1, 32), st.data())
def test_any_float64_in_fixed_point(
    patterns: list[int], fmt: FixedPoint, mode: str, bits: int, data: Any
) -> None:
    values, xs = doubles(patterns)
    if fmt.overflow == "wrap":  # which needs every code
        near = [abs(x) < power(60 - fmt.fl) for x in xs]
        values, xs = values[near], [x for x, kept in zip(xs, near, strict=True) if kept]
    words = data.draw(st.lists(st.integers(0, 2**bits - 1), min_size=len(xs), max_size=len(xs)))
    compare(values, xs, fmt, mode, words if mode == "stochastic" else None, bits)


@pytest.mark.parametrize("mode", DETERMINISTIC)
def test_the_edges_of_float64(mode: str) -> None:
    values, xs = doubles(EDGES)
    for fmt in (*FORMATS[:3], FixedPoint(16, 1074), FixedPoint(16, -1000), FixedPoint(32, 40)):
        compare(values, xs, fmt, mode)
        compare(values[None, ::3], xs[::3], fmt, mode)


@given(PATTERNS, st.sampled_from(BY_TENSOR), st.sampled_from(DETERMINISTIC))
def test_any_float64_in_a_format_that_the_tensor_sets(patterns: list[int], fmt: Any, mode: str) -> None:
    compare(*doubles(patterns), fmt, mode)


DENS = st.one_of(st.integers(1, 2**20), st.integers(0, 20).map(lambda k: 2**k))


@given(PATTERNS, DENS, st.integers(-60, 60), st.sampled_from(MODES), st.integers(1, 32))
def test_any_float64_over_a_denominator(
    patterns: list[int], den: int, above: int, mode: str, bits: int
) -> None:
    values, xs = doubles(patterns)
    xs = [x / den for x in xs]
    value = FloatExact(values, den)
    assert value.fractions().tolist() == xs and value.extremes() == (max(xs), min(xs))
    exponent = value.log2_max() + above
    words = [p * 2654435761 % 2**bits for p in range(len(xs))]
    want = [round_fraction(x / power(exponent), mode, w, bits) for x, w in zip(xs, words, strict=True)]
    rounding = Rounding(
        MODES.index(mode), words=np.array([w << (32 - bits) for w in words], np.uint32), bits=bits
    )
    if max(map(abs, xs)) * den >= power(61 + exponent):
        with pytest.raises(ContainerError, match="62 bits"):
            value.round_to(exponent, rounding)
    else:
        codes, status = value.round_to(exponent, rounding)
        assert codes.tolist() == want and status.inexact == sum(
            (x / power(exponent)).denominator != 1 for x in xs
        )
    codes, status = value.round_to(exponent, rounding.within(-7, 8))
    assert codes.tolist() == [max(-7, min(8, c)) for c in want]
    assert status.saturated == sum(not -7 <= c <= 8 for c in want)
    assert status.inexact == sum((x / power(exponent)).denominator != 1 for x in xs)


def test_float64_in_float32() -> None:
    values = np.array([0.1, 1 + 2.0**-24 + 2.0**-50, -1e-300, 2.0**-150 * (1 + 2.0**-40)])
    made = FloatExact(values).to_float32()
    assert made.dtype == np.float32 and made.tolist() == [np.float32(0.1), 1 + 2.0**-23, 0, 2.0**-149]
    with pytest.raises(NumberError, match="beyond float32"):
        FloatExact(np.array([1e39])).to_float32()
    with pytest.raises(ContainerError, match="62 bits"):
        quantize(1e300, Direct(8))
    assert quantize(2.0**61 - 2.0**8, Direct(1)).codes == 2**61 - 2**8


def test_float64_that_is_float32_takes_its_quick_loops() -> None:
    for values, kind in (([0.5, 0.25], np.float32), ([0.5, 0.1], np.float64)):
        made = expressions.exact(np.array(values))
        assert isinstance(made, FloatExact) and made.values.dtype == kind


# -- seeds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [1, 8, 32])
@pytest.mark.parametrize("seed", [0, 7, 2**64 - 1])
def test_a_seed_is_words_of_one_stream(seed: int, bits: int) -> None:
    x = np.linspace(-1, 1, 21)
    q = quantize(x.reshape(3, 7), EIGHT, rounding="stochastic", seed=seed, word_bits=bits)
    words = random_words.seeded(seed, 21, bits)
    assert words == [random_words.word(seed, 0, "quantize", i, bits) for i in range(21)]
    want = [round_fraction(F(float(v)) * 64, "stochastic", w, bits) for v, w in zip(x, words, strict=True)]
    assert q.codes.reshape(-1).tolist() == want
    given_ = rng.words(seed, 0, rng.stream("quantize"), 21)
    again = quantize(x, EIGHT, rounding="stochastic", words=given_, word_bits=bits)
    assert again.codes.tolist() == want


def test_a_seed_elsewhere_is_refused() -> None:
    one = np.zeros(1, np.uint32)
    for options in (
        {"seed": 1},
        {"seed": 1, "words": one, "rounding": "stochastic"},
        {"seed": 0, "rounding": "to_pos"},
    ):
        with pytest.raises(ConfigError, match="seed= is for rounding='stochastic', in the place of words="):
            quantize(0.3, EIGHT, **options)
    for seed in (-1, 2**64):
        with pytest.raises(ConfigError, match=r"seed .* is outside"):
            quantize(0.3, EIGHT, rounding="stochastic", seed=seed)
    for seed in (0.5, True, "1"):
        with pytest.raises(ConfigError, match=f"seed={seed!r}: a whole number"):
            quantize(0.3, EIGHT, rounding="stochastic", seed=seed)  # type: ignore[call-overload]
    assert quantize(0.3, EIGHT, rounding="stochastic", seed=np.int64(3)).shape == ()
    with pytest.raises(ShapeError, match="got none: give seed=N, or words="):
        quantize(0.3, EIGHT, rounding="stochastic")


def test_a_qtensor_goes_in_again() -> None:
    q = quantize([0.3, -1.5], EIGHT)
    assert quantize(q, FixedPoint(4, 2)).codes.tolist() == [1, -6]
    assert isinstance(quantize(q + 0.25, FixedPoint(4, 2)), QTensor)
