"""Formats and QTensor: what they mean, what they convert to exactly, and what they refuse."""

from fractions import Fraction

import numpy as np
import pytest

from intnet.errors import ContainerError, FormatError, NumberError, ShapeError
from intnet.exact.expressions import Exact, exact
from intnet.numbers.formats import OVERFLOWS, Constant, Direct, FixedPoint, Flag, Shift
from intnet.numbers.qtensor import QTensor, container, max_abs
from intnet.spec import float32 as floats
from intnet.spec import power
from tests.support import cases

F = Fraction
MAKERS = {
    "FixedPoint": lambda k: FixedPoint(k, 0),
    "Direct": Direct,
    "Shift": Shift,
    "Flag": Flag,
    "Constant": lambda k: Constant(k, 1),
}


def qtensor(codes, exponent=0, dtype=np.int64, **kwargs):
    return QTensor(np.array(codes, dtype), exponent, **kwargs)


# -- formats ---------------------------------------------------------------------------------


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_width_is_a_whole_number_from_1_to_32(make):
    for bits in (0, 33, -1, True, False, 8.0, "8", None):
        with pytest.raises(FormatError, match="a bit width is a whole number from 1 to 32"):
            make(bits)
    for bits in range(2, 33):
        make(bits)


def test_a_flag_needs_a_magnitude_bit():
    with pytest.raises(FormatError, match="no magnitude bits"):
        Flag(1)


def test_unknown_overflows_and_exponents_are_refused():
    for name in ("clip", "SAT", "", "nearest"):
        with pytest.raises(FormatError, match="saturate, saturate_symmetric, wrap, error"):
            FixedPoint(8, 4, overflow=name)
    for make in (lambda v: FixedPoint(8, v), lambda v: Direct(8, v), lambda v: Constant(15, v)):
        for value in (3.5, True, "4"):
            with pytest.raises(FormatError, match="whole number"):
                make(value)


def test_the_range_of_a_fixed_point_format_is_its_definition():
    for wl in range(1, 33):
        for fl in (-4, 0, wl, 40):
            assert (FixedPoint(wl, fl).lo, FixedPoint(wl, fl).hi) == (-(2 ** (wl - 1)), 2 ** (wl - 1) - 1)
            symmetric = FixedPoint(wl, fl, overflow="saturate_symmetric")
            assert symmetric.lo == -symmetric.hi == 1 - 2 ** (wl - 1)
            for overflow in OVERFLOWS:
                unsigned = FixedPoint(wl, fl, signed=False, overflow=overflow)
                assert (unsigned.lo, unsigned.hi, unsigned.bits, unsigned.exponent) == (0, 2**wl - 1, wl, -fl)


def test_from_q_leaves_the_sign_out_and_from_ap_fixed_counts_it():
    assert FixedPoint.from_q("Q3.4") == FixedPoint(8, 4) == FixedPoint.from_ap_fixed(8, 4)
    assert FixedPoint.from_q("Q0.15") == FixedPoint(16, 15) == FixedPoint.from_ap_fixed(16, 1)
    assert FixedPoint.from_ap_fixed(4, 6) == FixedPoint(4, -2)  # steps of 4
    assert FixedPoint.from_ap_fixed(4, -2).exponent == -6
    for q in (FixedPoint.from_q(f"Q{m}.{n}") for m in range(4) for n in range(4)):
        assert q.wl == 1 + q.fl + (q.wl - 1 - q.fl)
    for text in ("3.4", "Q3", "Q3.4.5", "q3.4", "Q-1.4", "UQ3.4", "Q3.4 "):
        with pytest.raises(FormatError, match="not Q notation"):
            FixedPoint.from_q(text)
    with pytest.raises(FormatError, match="bit width"):
        FixedPoint.from_q("Q30.4")


def test_the_other_formats_are_their_equations():
    for k in range(2, 33):
        assert Direct(k).exponent == 1 - k and Direct(k, -3).exponent == -3
        assert Shift(k).hi == 2 ** (k - 1) - 1
        assert Flag(k).hi == (2 ** (k - 1) - 1) * 2 ** (k - 1) and Flag(k).bits == k + 1
    for n in range(15):
        assert Constant(15, 2**n).hi == 2**n - 1 and Constant(15, 2**n).exponent == -14
    for dr in (0, -2, 3, 127):
        with pytest.raises(FormatError, match="power of two"):
            Constant(15, dr)
    assert [str(f) for f in (FixedPoint(8, 4), FixedPoint(8, 4, False), Direct(8), Shift(8), Flag(8))] == [
        "<8,4>", "<8,4> unsigned", "Q(.,8)", "SQ(.,8)", "Flag-Q(8+1)"]  # fmt: skip


# -- QTensor: making -------------------------------------------------------------------------


def test_codes_and_exponents_of_other_types_are_refused():
    for dtype in (np.uint8, np.float32, bool, np.uint64):
        with pytest.raises(FormatError, match="int8, int16, int32 or int64"):
            qtensor([1], dtype=dtype)
    with pytest.raises(FormatError, match="signed integers"):
        QTensor(np.ones(3, np.int8), np.ones(3))
    for exponent in (2.5, [1], "1", None):
        with pytest.raises(FormatError, match="the exponent of a QTensor is an int or an integer array, not"):
            qtensor([1], exponent)
    with pytest.raises(ShapeError, match="do not broadcast"):
        QTensor(np.ones((2, 3), np.int8), np.zeros(2, np.int64))
    with pytest.raises(ShapeError, match="do not broadcast"):
        QTensor(np.ones(3, np.int8), np.zeros((2, 3), np.int64))


def test_codes_are_its_own() -> None:
    """A buffer that is written again moves no tensor beyond its bound, its format or an exponent."""
    for dtype, most in ((np.int8, 127), (np.int64, 2**53 + 1)):
        codes, exponents = np.array([1, 1], dtype), np.array([0, 2])
        one, many, four = QTensor(codes, 0), QTensor(codes, exponents), QTensor(codes, 0, FixedPoint(4, 0))
        codes[:], exponents[:] = most, 60
        assert (one + one).raw().tolist() == [2, 2] and (one @ one).raw() == 2
        assert np.asarray(many).tolist() == [1, 4] and four.hex().tolist() == ["1", "1"]
    assert QTensor(np.asfortranarray(np.ones((2, 3), np.int8)), 0).codes.flags.f_contiguous


def test_exponents_are_within_what_int64_adds() -> None:
    for exponent in (2**60, -(2**60), 2**63, -(2**63), 2**70):
        for made in (
            lambda e: QTensor(np.array([1]), e),
            lambda e: QTensor.from_float([0.5], e),
            lambda e: FixedPoint(8, e),
            lambda e: Direct(8, e),
            lambda e: Exact([(qtensor([1]), 1)], e),
        ):
            with pytest.raises(FormatError, match=rf"= {exponent}: exponents are below 2\^60, either way"):
                made(exponent)
    assert Exact([(qtensor([1]), 1)], np.int64(-3)).exponent == -3
    least, most = QTensor(np.array([1]), 1 - 2**60), QTensor(np.array([1]), 2**60 - 1)
    assert (least < 1).all() and (most > 1).all() and (least < most).all() and (-most < -least).all()
    with pytest.raises(FormatError, match="exponents are below"):
        most * most
    with pytest.raises(NumberError, match="comparison: an exponent array reaches beyond"):
        QTensor(np.array([1]), np.array([-(2**63)])) < 1  # noqa: B015
    for exponent in (2**31 + 1, -(2**31) - 1):
        assert QTensor.from_float([0.0], exponent).codes.tolist() == [0]
        with pytest.raises(NumberError, match="not every value is a multiple"):
            QTensor.from_float([0.5], exponent)


def test_container_and_max_abs_at_every_limit():
    for bits, dtype in ((8, np.int8), (16, np.int16), (32, np.int32), (64, np.int64)):
        assert container(2 ** (bits - 1) - 1) == dtype
        lo = np.iinfo(dtype).min
        assert max_abs(np.array([lo, 0], dtype)) == 2 ** (bits - 1)
        assert qtensor([lo], dtype=dtype).bound == 2 ** (bits - 1)
    assert container(128) == np.int16
    assert max_abs(np.zeros(0, np.int8)) == 0
    with pytest.raises(ContainerError, match="conv1/x1: codes up to 9223372036854775808 need 65 bits"):
        container(2**63, "conv1/x1")


def test_from_float_is_exact_or_an_error():
    q = QTensor.from_float([[0.5, -0.75], [3.0, -0.0]], -2)
    assert q.codes.tolist() == [[2, -3], [12, 0]] and q.codes.dtype == np.int8
    assert QTensor.from_float([2.0**61 - 2**8], 0).codes.tolist() == [2**61 - 2**8]
    assert QTensor.from_float([5e-324, -1e-323], -1074).codes.tolist() == [1, -2]
    assert QTensor.from_float([2.0**1000], 999).codes.tolist() == [2]
    assert QTensor.from_float(np.zeros((0, 3)), 4).codes.shape == (0, 3)
    assert QTensor.from_float([3, -4], 0).codes.tolist() == [3, -4]
    refused = [
        ([0.3], -4),
        ([2.0**61], -1),
        ([0.5], 0),
        ([2.0**62], 0),
        ([5e-324], 1),
        ([1e300], -1000),
        ([2.0**-1074], 60),
    ]
    for values, exponent in [*refused, ([2**53 + 1], 0), ([F(1, 3)], 0), ([2**70], 0)]:
        with pytest.raises(NumberError):
            QTensor.from_float(values, exponent)
    for value in (np.nan, np.inf, -np.inf):
        with pytest.raises(NumberError, match="NaN or infinity"):
            QTensor.from_float([1.0, value], 0)


# -- bit patterns ----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("wl", range(1, 17))
def test_every_pattern_goes_round_in_hex_in_binary_and_as_an_integer(wl, signed):
    fmt = FixedPoint(wl, 3, signed)
    words = range(2**wl)
    codes = [w - 2**wl if signed and w >= 2 ** (wl - 1) else w for w in words]
    q = QTensor(np.array(codes, np.int32), -3, fmt)
    digits = -(-wl // 4)
    assert q.hex().tolist() == [f"{w:0{digits}x}" for w in words]
    assert q.bin().tolist() == [f"{w:0{wl}b}" for w in words]
    for back in (
        QTensor.from_bits(q.hex(), fmt),
        QTensor.from_bits(q.bin(), fmt, base=2),
        QTensor.from_bits(np.arange(2**wl), fmt),
    ):
        assert back.codes.tolist() == codes and back.exponent == -3 and back.format == fmt


def test_patterns_may_carry_a_prefix_and_keep_their_shape():
    fmt = FixedPoint(12, 0)
    assert QTensor.from_bits([["0x7ff", "800"], ["FFF", 0x0B1]], fmt).codes.tolist() == [
        [2047, -2048],
        [-1, 177],
    ]
    assert QTensor.from_bits(["0b11", "101"], fmt, base=2).codes.tolist() == [3, 5]
    assert QTensor.from_bits("0b1", fmt).codes.tolist() == 0x0B1  # base 16: what hex() writes for 177
    assert QTensor.from_bits(np.array([255, 1], np.uint8), FixedPoint(8, 0)).codes.tolist() == [-1, 1]
    with pytest.raises(FormatError, match=r"words of a FixedPoint, as FixedPoint.*not of 8"):
        QTensor.from_bits([1], 8)
    assert qtensor([-1, 5], dtype=np.int8).hex().tolist() == ["f", "5"]  # no format: the width really used


@pytest.mark.parametrize("pattern", ["100", "1ff", 256, -1, "-1", "xyz", "", 1.5, None])
def test_patterns_that_do_not_fit_are_refused(pattern):
    fmt = FixedPoint(8, 0)
    with pytest.raises(FormatError, match="pattern"):
        QTensor.from_bits([pattern], fmt)
    with pytest.raises(FormatError, match="base 16 or 2"):
        QTensor.from_bits(["1"], fmt, base=10)


# -- reading ---------------------------------------------------------------------------------


def needed(lo: int, hi: int) -> int:
    """The smallest two's complement width that holds lo..hi, found by trying."""
    return next(w for w in range(1, 66) if -(2 ** (w - 1)) <= lo and hi < 2 ** (w - 1))


@pytest.mark.slow
def test_width_of_every_pair_of_int8_codes():
    for lo in range(-128, 128):
        assert qtensor([lo], dtype=np.int8).width == needed(lo, lo)
        for hi in range(lo, 128, 3):
            assert qtensor([hi, lo], dtype=np.int8).width == needed(lo, hi), (lo, hi)


def test_width_of_corner_codes_and_of_nothing():
    for code in cases.corners(64):
        assert qtensor([code]).width == needed(code, code)
    assert qtensor([]).width == 1


def test_fractions_raw_and_shape():
    q = qtensor([[3, -4], [0, 2**62]], -70)
    assert q.fractions().tolist() == [[F(3, 2**70), F(-4, 2**70)], [F(0), F(1, 256)]]
    assert q.raw().tolist() == q.codes.tolist() and (q.shape, q.size) == ((2, 2), 4)
    assert qtensor([5], 100).fractions()[0] == 5 * 2**100


def is_float64(value: F) -> bool:
    """Whether a dyadic rational is a float64."""
    if value == 0:
        return True
    odd = abs(value.numerator)
    odd >>= (odd & -odd).bit_length() - 1
    return odd.bit_length() <= 53 and abs(value) < 2**1024 and (value * 2**1074).denominator == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "exponent", [0, -5, 30, -1022, -1074, -1075, -1127, -1200, 960, 961, 1010, 1023, 1024, 5000]
)
def test_to_float64_is_exact_or_refuses(exponent):
    for code in (
        *cases.corners(64)[::3],
        2**53 - 1,
        2**53,
        2**53 + 1,
        2**54 + 2,
        2**63 - 512,
        2**63 - 1,
        -(2**63),
    ):
        q, value = qtensor([code], exponent), code * power(exponent)
        if is_float64(value):
            assert F(float(q.to_float64()[0])) == value, code
        else:
            with pytest.raises(NumberError, match="not every value is exactly a float64"):
                q.to_float64()


def test_numpy_reads_a_qtensor_as_float64():
    q = qtensor([[3, -4]], -2)
    assert np.asarray(q).tolist() == [[0.75, -1.0]] and np.asarray(q).dtype == np.float64
    assert np.asarray(q, np.float32).dtype == np.float32
    with pytest.raises(NumberError):
        np.asarray(qtensor([2**53 + 1]))


def float32_codes(exponent: int) -> list[int]:
    """Corner codes and codes that are ties of float32, near its least value too."""
    near = {
        m * 2**s + d
        for m in (2**24 - 1, 2**24, 2**24 + 1, 2**24 + 3, 2**25 - 1)
        for s in (0, 1, 8)
        for d in (-1, 0, 1)
    }
    ties = {k * 2**s + 2 ** (s - 1) + d for k in range(4) for s in range(1, 30) for d in (-1, 0, 1)}
    found = near | ties | set(cases.corners(54)[::5])
    return sorted(c for c in found if abs(c) <= 2**53 and abs(c) * power(exponent) < 2**127)


@pytest.mark.parametrize(
    "exponent", [0, 3, -20, -126, -149, -150, -151, -165, -175, -178, -202, -203, -1100, 73, 103]
)
def test_to_float32_is_correctly_rounded(exponent):
    codes = float32_codes(exponent)
    got = qtensor(codes, exponent).to_float32()
    assert got.dtype == np.float32
    assert [F(float(v)) for v in got] == [floats.to_float32(c * power(exponent)) for c in codes]


@pytest.mark.parametrize("exponent", [0, -126, -60, 40])
def test_to_float32_of_codes_beyond_53_bits(exponent):
    codes = [*cases.corners(64), *cases.ties(40), 2**62 + 2**38, 2**62 + 2**38 + 1, 2**62 + 3 * 2**38]
    assert [F(float(v)) for v in qtensor(codes, exponent).to_float32()] == [
        floats.to_float32(c * power(exponent)) for c in codes
    ]


def test_to_float32_overflow_and_the_floor_it_refuses():
    assert float(qtensor([2**24 - 1], 104).to_float32()[0]) == float(np.finfo(np.float32).max)
    for codes, exponent in (([2**25 - 1], 103), ([1], 128), ([2**60], 68), ([2**60, 0], 5000), ([-1], 2000)):
        with pytest.raises(NumberError, match="beyond float32's range"):
            qtensor(codes, exponent).to_float32()
        with pytest.raises(OverflowError):
            floats.to_float32(codes[0] * power(exponent))
    with pytest.raises(NumberError, match="float32's floor"):
        qtensor([2**60 + 1], -150).to_float32()


def test_exponent_arrays():
    codes, exponents = np.arange(-6, 6, dtype=np.int8).reshape(2, 2, 3), np.array([-1, 0, 5])
    q = QTensor(codes, exponents)
    want = [
        [[int(c) * power(e) for c, e in zip(row, (-1, 0, 5), strict=True)] for row in plane]
        for plane in codes
    ]
    assert q.fractions().tolist() == want
    for values in (q.to_float64(), q.to_float32()):
        assert [[[F(float(v)) for v in row] for row in plane] for plane in values] == want
    assert q[1, :, 2].fractions().tolist() == [want[1][0][2], want[1][1][2]]
    assert q[0].exponent.shape == (2, 3)
    per_block = QTensor(codes, np.array([[[-3]], [[7]]]))
    assert per_block.fractions()[1, 0, 0] == 0 and per_block.fractions()[1, 1, 2] == 5 * 2**7
    with pytest.raises(ShapeError, match="cannot be reshaped"):
        q.reshape(12)
    with pytest.raises(FormatError, match="bn1/x2: an exponent array"):
        exact(q, "bn1/x2")
    with pytest.raises(NumberError):
        QTensor(np.array([1, 1], np.int8), np.array([0, 2000])).to_float64()


def test_indexing_and_reshaping_keep_the_values():
    q = QTensor(np.arange(6, dtype=np.int16).reshape(2, 3), -2, FixedPoint(16, 2))
    assert q[1].fractions().tolist() == [F(3, 4), F(1), F(5, 4)] and q[1].format == q.format
    assert q[1, 2].shape == () and q[1, 2].bound == 5
    assert q.reshape(3, 2).fractions().tolist() == q.fractions().reshape(3, 2).tolist()
    assert q.reshape(3, 2).bound == q.bound


def test_repr_is_one_short_line():
    assert repr(qtensor([1, -2], -3, np.int8)) == "QTensor(2, int8 * 2^-3, 2 bits used, codes [1 -2])"
    assert (
        repr(qtensor(7, 0, np.int8, format=Shift(8)))
        == "QTensor(SQ(.,8) scalar, int8 * 2^0, 4 bits used, codes [7])"
    )
    shapes = [(), (0,), (7,), (2, 3), (64, 32, 3, 3), (1, 1, 1000, 1)]
    for shape in shapes:
        for exponent in (-7, np.zeros(shape, np.int64)):
            text = repr(QTensor(np.full(shape, -(2**63)), exponent, FixedPoint(8, 4), 2**63))
            assert "\n" not in text and len(text) < 250
    assert "codes [0 1 2 3 4 5 ...]" in repr(qtensor(np.arange(100).reshape(10, 10)))
    assert "codes [0 1 2 3 4 5]" in repr(qtensor(np.arange(6)))


def test_codes_read_by_a_user_cannot_be_changed_under_their_bound() -> None:
    with pytest.raises(ValueError, match="read-only"):
        QTensor(np.array([1, 2], np.int8), 0).raw()[0] = 100


def test_a_cast_that_loses_bits_is_refused() -> None:
    q = QTensor(np.array([3, 301], np.int16), -1)
    assert np.asarray(q, dtype=np.float32).tolist() == [1.5, 150.5]
    for dtype in (np.int8, np.int64):
        with pytest.raises(NumberError, match="not every value is exactly"):
            np.asarray(q, dtype=dtype)


def test_codes_outside_their_own_format_are_refused() -> None:
    with pytest.raises(FormatError, match="<4,2> has the exponent -2, not 0; quantize the values"):
        QTensor.from_float([100.0], 0, FixedPoint(4, 2))
    with pytest.raises(FormatError, match=r"codes 8\.\.8 are not within -8\.\.7 of <4,2>; quantize"):
        QTensor.from_float([2.0], -2, FixedPoint(4, 2))
    with pytest.raises(FormatError, match=r"codes -9\.\.7 are not within -8\.\.7 of <4,2>"):
        QTensor(np.array([7, -9], np.int8), -2, FixedPoint(4, 2))
    with pytest.raises(FormatError, match="<4,2> has the exponent -2, not "):
        QTensor(np.array([7, -8], np.int8), np.array([-2, -3]), FixedPoint(4, 2))
    assert QTensor(np.array([7, -8], np.int8), np.array([-2, -2]), FixedPoint(4, 2)).bound == 8
