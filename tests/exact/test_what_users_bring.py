"""Arrays, lists, exponents and rules of users' own: exact, or refused by name; held to Fractions."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from intnet.errors import ConfigError, ContainerError, FormatError, NumberError, ShapeError
from intnet.exact.dots import Once, matmul
from intnet.exact.expressions import Exact
from intnet.exact.quantize import quantize
from intnet.numbers import rng, rounding
from intnet.numbers.formats import FixedPoint, Shift
from intnet.numbers.microscaling import MXFP4, MXINT8
from intnet.numbers.own_formats import Levels
from intnet.numbers.qtensor import QTensor
from intnet.numbers.small_floats import BF16, E4M3, FP16, FP32, Float, FloatTensor
from intnet.spec.rounding import round_fraction
from tests.support.command import forgotten


def codes(*numbers: int) -> QTensor:
    return QTensor(np.array(numbers, np.int64), 0)


# -- lists that NumPy would round ----------------------------------------------------------------------


def test_lists_are_compared_as_what_they_are() -> None:
    """Of [2**53 + 1, 0.5] NumPy makes float64, which has not the first."""
    big = 2**53 + 1
    for mine in (big, big - 1):
        assert (codes(mine, 0) == [big, 0.5]).tolist() == [mine == big, False]
        assert (codes(mine, 0) < [big, 0.5]).tolist() == [mine < big, True]
    assert not np.array_equal(codes(big - 1, 0), [big, 0.0])
    with pytest.raises(FormatError, match="9007199254740993 is no float64"):
        QTensor.from_float([big, 2.0], 0)


def test_words_are_compared_with_fractions_and_great_integers() -> None:
    for format in (E4M3, MXFP4):
        assert (quantize([0.5], format) == Fraction(1, 2)).tolist() == [True]
        assert (quantize([0.5], format) != [Fraction(1, 3)]).tolist() == [True]
        assert np.array_equal(quantize([0.5], format), [Fraction(1, 2)])
        assert (quantize([0.5], format) == None) is False  # noqa: E711
    assert (quantize([2.0**70, np.inf], FP32) == [2**70, 2**70]).tolist() == [True, False]


# -- arrays of other classes and byte orders ------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_a_matrix_is_its_array() -> None:
    matrix = np.matrix([[3, 4], [100, 2]])
    plain = np.asarray(matrix)
    for dtype in (np.float32, np.float64, np.int64):
        for rule in ("ties_even", "to_zero"):
            found = quantize(matrix.astype(dtype), Shift(8), rounding=rule)
            assert np.array_equal(found, quantize(plain.astype(dtype), Shift(8), rounding=rule))
    assert (QTensor(matrix, 0) * QTensor(matrix, 0)).raw().tolist() == (plain * plain).tolist()
    with pytest.raises(NumberError, match="NaN or infinity"):
        quantize(np.matrix([[np.nan, 4]], dtype=np.float32), FixedPoint(8, 0))


@pytest.mark.parametrize(
    "bring",
    [
        lambda x: quantize(x, FixedPoint(8, 2)),
        lambda x: quantize(x, E4M3),
        lambda x: quantize(x, MXINT8),
        lambda x: QTensor.from_float(x, -2),
        lambda x: codes(1, 2) == x,
        lambda x: QTensor(x.astype(np.int64), 0),
        lambda x: FloatTensor.from_array(x.astype(np.float32)),
    ],
)
def test_a_mask_is_refused(bring: Callable[[Any], Any]) -> None:
    with pytest.raises(FormatError, match="masked array"):
        bring(np.ma.array([1.5, 2.25], mask=[0, 1]))


def test_any_byte_order_is_the_same_numbers() -> None:
    for order in "<>":
        assert FloatTensor.from_array(np.array([1.0], f"{order}f4")).hex().tolist() == ["3f800000"]
        assert FloatTensor.from_array(np.array([1.0], f"{order}f2")).hex().tolist() == ["3c00"]
        assert quantize(np.array([1.5], f"{order}f8"), FixedPoint(8, 2)).raw().tolist() == [6]
        top = np.array([2**63], f"{order}u8")
        assert not (QTensor(np.array([-(2**63)]), 0) == top).any() and (codes(1) < top).all()


def test_tensors_without_axes_are_arrays_too() -> None:
    for q in (quantize(0.5, FixedPoint(8, 6)), quantize(0.5, E4M3), quantize([0.5], FP16)[0]):
        array = np.asarray(q)
        assert (array.shape, float(array)) == ((), 0.5) and q.to_float32().shape == ()
        assert bool(q) and not bool(q != 0.5)
        assert QTensor.from_float(q, -6).raw().tolist() == 32


# -- exponents at and beyond the ends of their types ------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_exponent_arrays_of_any_type_add_up(dtype: Any) -> None:
    ends = np.array([-100, 100, 127], dtype)
    q = QTensor(np.array([1, 2, 3]), ends)
    values = [Fraction(code) * Fraction(2) ** e for code, e in ((1, -100), (2, 100), (3, 127))]
    assert (q * q).fractions().tolist() == [value * value for value in values]
    assert (q * 2.0**-300).fractions().tolist() == [value * Fraction(2) ** -300 for value in values]
    assert QTensor(np.array([1]), np.array([-128], dtype)).to_float64().tolist() == [2.0**-128]
    with pytest.raises(ContainerError):
        QTensor(np.array([1]), np.array([100], dtype)) + QTensor(np.array([1]), np.array([-100], dtype))


def test_exponents_beyond_int64_are_refused_where_they_are_added() -> None:
    far = QTensor(np.array([1]), np.array([2**62]))
    with pytest.raises(NumberError, match=r"beyond 2\^60"):
        far * far


@pytest.mark.parametrize("exponent", [200, 2**31, 2**41, 2**60 - 1])
def test_far_exponents_overflow_and_vanish(exponent: int) -> None:
    both = [(exponent, "7f800000", 448.0), (-exponent, "00000000", 0.0)]
    for e, word, limited in both:
        assert quantize(QTensor(np.array([1]), e), FP32).hex().tolist() == [word]
        assert quantize(QTensor(np.array([1]), e), E4M3).to_float64().tolist() == [limited]
        assert quantize(QTensor(np.array([1]), np.array([e])), FP32).hex().tolist() == [word]
    up = quantize(QTensor(np.array([1]), -exponent), E4M3, rounding="to_pos")
    assert up.fractions().tolist() == [Fraction(2) ** -9]  # the least above zero


# -- values at the ends of theirs ---------------------------------------------------------------------------


@pytest.mark.parametrize("number", [2**61, 2**62, 2**63 - 1, -(2**63), 2**63, 2**64 - 1])
def test_integers_of_64_bits_are_rounded_once(number: int) -> None:
    for format in (FP32, BF16, E4M3):
        for mode in ("ties_even", "to_zero", "to_neg"):
            unit = Fraction(2) ** (abs(number).bit_length() - 1 - format.m)
            want = round_fraction(number / unit, mode) * unit  # type: ignore[arg-type]
            found = quantize(number, format, rounding=mode).fractions().item()
            assert found == want if format is not E4M3 else abs(found) == 448


def test_the_greatest_code_has_a_fraction() -> None:
    assert codes(2**63 - 1, -(2**63)).fractions().tolist() == [2**63 - 1, -(2**63)]
    assert codes(2**63 - 1).fractions().tolist() == [2**63 - 1]


def test_a_format_wider_than_float32_is_not_infinite() -> None:
    for specials in ("none", "nan"):
        format = Float(8, 7, specials)
        greatest = FloatTensor.from_words([format.greatest], format)
        assert greatest.fractions().item() > 2**128 - 1
        with pytest.raises(NumberError, match="beyond float32"):
            greatest.to_float32()
    assert np.isinf(FloatTensor.from_words([0x7F80], BF16).to_float32()).all()


def test_a_product_with_zeros_is_zero() -> None:
    wide = quantize([[1e30, 1e-30]], FP32)
    for a, b in ((wide, np.zeros((2, 1))), (np.zeros((1, 2)), quantize([[1e30], [1e-30]], FP32))):
        left, right = (x if isinstance(x, FloatTensor) else quantize(x, FP32) for x in (a, b))
        assert matmul(left, right, Once(FP32)).hex().tolist() == [["00000000"]]


DENS = (3, 1000003, 2**31 - 1)


@pytest.mark.parametrize("many", [1, 20_000])
@pytest.mark.parametrize("den", DENS)
def test_random_rounding_of_what_is_far_below_the_grid(den: int, many: int) -> None:
    """-code/den in units of 2**-shift: the fraction is all but 1, and the last words decide."""
    for shift in (0, 20, 23, 34, 51, 52, 60):
        for code in (-1, -2, -den, -den - 1, 1):
            for word in (0, 2**31, 2**32 - 2, 2**32 - 1):
                x = Exact([(QTensor(np.full(many, code), 0), 1)], 0, den=den)
                words = np.full(many, word, np.uint32)
                made = quantize(x, FixedPoint(8, -shift), rounding="stochastic", words=words)
                value = Fraction(code, den) / 2**shift
                want = round_fraction(value, "stochastic", word)
                assert set(made.raw().tolist()) == {want}, (code, shift, word)
                assert made.status is not None and made.status.inexact == many * (value.denominator > 1)


# -- arguments that would have been left out ----------------------------------------------------------------


def test_what_begins_or_ends_elsewhere_is_refused_by_position_too() -> None:
    q, out = quantize([1.0, 3.0], FixedPoint(8, 2, False)), np.full((), 7.0)
    for call, what in (
        (lambda: np.sum(q, None, None, None, False, 5), "initial"),  # type: ignore[call-overload]
        (lambda: np.min(q, None, None, False, -7), "initial"),  # type: ignore[call-overload]
        (lambda: np.sum(q, 0, None, out), "out"),  # type: ignore[call-overload]
    ):
        with pytest.raises(NumberError, match=f"with {what} has no exact answer"):
            call()
    assert out == 7 and np.sum(q, 0).fractions() == 4


def test_an_expression_says_what_it_does_not_take() -> None:
    x = codes(7)
    for make, what in (
        (lambda: Exact([(x, 1), (x, 1), (x, 1)], 0), "one or two terms"),
        (lambda: Exact([], 0), "one or two terms"),
        (lambda: Exact([(x, 1.5)], 0), "1.5"),  # type: ignore[list-item]
        (lambda: Exact([(x, Fraction(1, 2))], 0), "1, 2"),  # type: ignore[list-item]
        (lambda: Exact([(x, 1)], 0, offset=0.5), "0.5"),  # type: ignore[arg-type]
        (lambda: Exact([(x, 1)], 0, den=2.5), "2.5"),  # type: ignore[arg-type]
        (lambda: Exact([(x, 1)], 0, den=0), "positive"),
        (lambda: Exact([(x, 1)], 0, den=np.array([1, -1])), "positive"),
    ):
        with pytest.raises(FormatError, match=what):
            make()


def test_patterns_outside_of_a_symmetric_range_are_refused() -> None:
    format = FixedPoint(8, 0, overflow="saturate_symmetric")
    assert QTensor.from_bits(["81"], format).raw().tolist() == [-127]
    with pytest.raises(FormatError, match="below -127"):
        QTensor.from_bits(["80"], format)


def test_what_is_no_sign_no_seed_no_level_and_no_truth_is_refused() -> None:
    for signed in (2, "wrap", None):
        with pytest.raises(FormatError, match="signed = "):
            FixedPoint(8, 0, signed)  # type: ignore[arg-type]
    for seed in (1.5, "1", None, True):
        with pytest.raises(ConfigError, match="no whole number"):
            rng.words(seed, 0, 0, 2)  # type: ignore[arg-type]

    class Halves(Levels):
        def levels(self) -> tuple[int, ...]:
            return (-1, -0.5, 0, 0.5, 1)  # type: ignore[return-value]

    with pytest.raises(FormatError, match="whole numbers"):
        _ = Halves().table
    with pytest.raises(ShapeError, match="no single truth"):
        bool(codes(0, 0))
    assert not codes(0) and codes(3) and not quantize([0.0], E4M3) and quantize([0.5], MXFP4)


@pytest.mark.parametrize("format", [FixedPoint(8, 4), E4M3, MXFP4, MXINT8], ids=str)
def test_a_rule_that_does_not_say_is_named(format: Any, tmp_path: Path) -> None:
    answer: list[Any] = []

    def odd(floor: int, fraction: Fraction) -> Any:
        """Says what stands last in a list."""
        return answer[-1]

    with forgotten(tmp_path):
        rounding.register("says_nothing")(odd)
        for said in (2, None, "up"):
            answer.append(said)
            with pytest.raises(FormatError, match="rounding rule odd of "):
                quantize([0.3], format, rounding="says_nothing")
        for said in (True, np.True_):
            answer.append(said)
            found = quantize([0.3, -0.3], format, rounding="says_nothing")
            assert np.array_equal(found, quantize([0.3, -0.3], format, rounding="to_pos"))
