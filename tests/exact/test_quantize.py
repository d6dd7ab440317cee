"""Every format and rounding mode against the definition: small inputs exhaustively, corners beyond.

Scaled has `test_scaled.py`, block float `tests/exact/blocks`.
"""

import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from intnet.errors import ContainerError, FormatError, NumberError, ShapeError
from intnet.exact.expressions import Exact, FloatExact, Root
from intnet.exact.quantize import flag_words, quantize
from intnet.numbers.formats import BlockFloat, Constant, Direct, FixedPoint, Flag, Shift
from intnet.numbers.qtensor import QTensor, Status
from intnet.spec import formats as quantizers
from intnet.spec import power
from intnet.spec.rounding import MODES
from tests.support import cases, comparing
from tests.support.comparing import DETERMINISTIC, compare, floats, tensor

F = Fraction
FIXED = [
    FixedPoint(8, 4),
    FixedPoint(8, 4, overflow="saturate_symmetric"),
    FixedPoint(8, 4, overflow="wrap"),
    FixedPoint(8, 4, signed=False),
    FixedPoint(7, 3, signed=False, overflow="wrap"),
]
ALL = [
    *FIXED,
    FixedPoint(32, 20),
    Direct(8),
    Direct(8, -3),
    Shift(8),
    Shift(16),
    Constant(15, 128),
    Flag(8),
    Flag(16),
]


# -- exhaustive ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("mode", DETERMINISTIC)
def test_every_16_bit_code_into_fixed_and_direct(mode):
    comparing.assert_codes(16, -9, [FIXED[0], Direct(8)], mode)


@pytest.mark.slow
@pytest.mark.parametrize("mode", DETERMINISTIC)
def test_every_11_bit_code_into_every_fixed_format(mode):
    every = [FixedPoint(wl, fl, s, o) for wl in (1, 2, 5, 8) for fl in (-1, 0, 3, 9) for s in (True, False)
             for o in ("saturate", "saturate_symmetric", "wrap")]  # fmt: skip
    comparing.assert_codes(11, -5, every[:: 1 if mode == "ties_even" else 5], mode)


@pytest.mark.slow
@pytest.mark.parametrize("mode", DETERMINISTIC)
def test_every_pair_of_8_bits_and_a_maximum_into_shift_and_constant(mode):
    formats = [Shift(8), Shift(4), Shift(1), Constant(15, 128), Constant(15, 8), Constant(8, 1)]
    comparing.assert_pairs(8 if mode == "ties_even" else 6, formats, mode)


@pytest.mark.slow
@pytest.mark.parametrize("mode", DETERMINISTIC)
@pytest.mark.parametrize("k", [2, 3, 4])
def test_every_pair_of_7_bits_and_a_maximum_into_flag(mode, k):
    """Flag(k) has 2(k-1) bits below R, so these widths see both grids rounded."""
    comparing.assert_pairs(7, [Flag(k)], mode)


@pytest.mark.slow
@pytest.mark.parametrize("below", [0, 5, 7, 9, 13, 16])
def test_every_8_bit_code_below_every_7_bit_maximum_into_the_flag_of_9_bits(below):
    for top in range(64, 128):
        small = [c if below else min(c, top) for c in comparing.signed_codes(8)]
        compare(*tensor([top << below, *(c for c in small if abs(c) <= top << below)], -20), Flag(8))


@pytest.mark.slow
@pytest.mark.parametrize("word_bits", [1, 2, 3, 8, 16, 31, 32])
def test_stochastic_rounding_on_both_sides_of_every_threshold(word_bits):
    for fmt in (
        FIXED[0],
        FIXED[2],
        FixedPoint(8, -2),
        Direct(5),
        Shift(6),
        Constant(15, 8),
        Constant(15, 128),
    ):
        comparing.assert_words(9, fmt, word_bits)


@pytest.mark.slow
def test_stochastic_rounding_with_every_8_bit_word_of_every_7_bit_code():
    codes = [c for c in comparing.signed_codes(7) for _ in range(256)]
    compare(
        *tensor(codes, -10), FixedPoint(8, 3), "stochastic", [w for _ in range(128) for w in range(256)], 8
    )


# -- corners and random ----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("fmt", ALL, ids=str)
def test_corners_of_every_container(fmt):
    """int8, int32, and int64 codes whose numerators need two limbs."""
    for bits in (8, 32, 62, 64):
        codes = [
            c for c in cases.corners(bits)[:: 1 + bits // 20] if not isinstance(fmt, Direct) or abs(c) < 2**54
        ]
        for exponent in (-(bits - 2), -12):
            mode = DETERMINISTIC[(bits + exponent) % len(DETERMINISTIC)]
            if isinstance(fmt, FixedPoint) and fmt.overflow == "wrap" and exponent + bits + fmt.fl > 62:
                continue
            compare(*tensor(codes, exponent), fmt)
            compare(*tensor(codes, exponent), fmt, mode)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_random_codes_into_every_format(mode):
    formats = [f for f in ALL if mode != "stochastic" or not isinstance(f, Flag)]
    comparing.assert_random(11, 250, formats, mode)
    comparing.assert_random(12, 60, [f for f in formats if not isinstance(f, Direct)], mode, bits=40)


def test_R_at_both_neighbours_of_sqrt2_times_every_power():
    comparing.assert_sqrt2(60)


def test_R_of_rationals_beside_sqrt2():
    """Convergents p/q of sqrt(2) lie on alternating sides of it, ever closer."""
    p, q = 1, 1
    for n in range(40):
        x = Exact([(QTensor(np.array([p, -p // 2]), 0), 1)], n - 20, den=q)
        xs = [F(c, q) * power(n - 20) for c in (p, -p // 2)]
        got = compare(x, xs, Shift(8))
        assert got.exponent == n - 20 + (1 if p * p > 2 * q * q else 0) - 7
        p, q = p + 2 * q, p + q


@pytest.mark.slow
@pytest.mark.parametrize(
    "fmt", [Shift(8), Shift(32), Flag(8), Flag(12), Constant(15, 128), FixedPoint(16, 8)], ids=str
)
@pytest.mark.parametrize("mode", ["ties_even", "to_neg", "to_zero"])
def test_float32_sources_over_the_whole_range(fmt, mode):
    """Subnormals, the limits of float32, and gaps of 277 powers of two."""
    tiny, huge = 2.0**-149, float(np.finfo(np.float32).max)
    corners = [0.0, tiny, -tiny, 3 * tiny, 2.0**-126, -(2.0**-126) + tiny, 1.0, -1.0, 1.5, 0.1, -0.3]
    for group in (
        corners,
        [*corners, huge, -huge],
        [tiny, 0.0],
        [2.0**-140, tiny, -5 * tiny],
        [2.0**127, tiny],
    ):
        compare(*floats(group), fmt, mode)
    random = [float(v) for v in cases.random_float32(3, 200, -3)]
    compare(*floats(random), fmt, mode)


def test_float32_sources_stochastic_and_unlimited():
    values = [float(v) for v in cases.random_float32(4, 100, 2)]
    _, xs = floats(values)
    for fmt, unit in ((Direct(8), F(1, 128)), (FixedPoint(8, 4, overflow="wrap"), F(1, 16))):
        points, words = comparing.edge_words([*xs, F(2.0**-149), -F(2.0**-149)], unit, 32)
        compare(*floats([float(p) for p in points]), fmt, "stochastic", words)


def test_a_value_beyond_62_bits_without_a_limit_is_an_error_and_never_wraps():
    for x in (
        np.array([2.0**60], np.float32),
        QTensor(np.array([3 * 2**61]), 0),
        QTensor(np.array([-(2**62)]), 1),
    ):
        for fmt in (Direct(8), FixedPoint(8, 7, overflow="wrap")):
            with pytest.raises(ContainerError, match=r"conv1/x1.*62 bits"):
                quantize(x, fmt, where="conv1/x1")
        assert quantize(x, FixedPoint(8, 7)).codes[0] in (127, -128)


# -- counts, ranges, named rules -------------------------------------------------------------


def test_counts_of_clipped_and_rounded_elements():
    q = quantize(np.array([0.5, 0.3, 200.0, -200.0, 127.0, -128.0], np.float32), FixedPoint(8, 0))
    assert q.codes.tolist() == [0, 0, 127, -128, 127, -128] and q.status == Status(2, 2, 6)
    q = quantize(q, FixedPoint(8, 0, overflow="saturate_symmetric"))
    assert q.codes.tolist() == [0, 0, 127, -127, 127, -127] and q.status == Status(2, 0, 6)


@pytest.mark.slow
def test_8_bit_shift_never_reaches_128_and_constant_never_reaches_dr():
    for top in (*range(1, 2**9), *(v for n in range(9, 40) for v in cases.sqrt2_neighbours(n))):
        x = QTensor(np.array([top, -top, top - 1]), -30)
        assert np.abs(quantize(x, Shift(8)).codes).max() <= 127
        for dr in (128, 16, 2, 1):
            words = np.full(3, 0, np.uint32)  # the word that goes up wherever it can
            q = quantize(x, Constant(15, dr), rounding="stochastic", words=words)
            assert np.abs(q.codes).max() <= dr - 1 and q.exponent == -14


@pytest.mark.parametrize("fmt", [Shift(8), Flag(8), Constant(15, 128), FixedPoint(8, 4), Direct(8)], ids=str)
def test_an_all_zero_tensor_is_legal_with_R_one(fmt):
    for x in (
        np.zeros((2, 3), np.float32),
        QTensor(np.zeros((2, 3), np.int8), -40),
        QTensor(np.zeros(4, np.int64), 90),
    ):
        q = quantize(x, fmt)
        assert not q.codes.any() and q.shape == x.shape and q.status == Status(0, 0, x.size)
    exponents = {"SQ(.,8)": -7, "Flag-Q(8+1)": -14}
    assert str(fmt) not in exponents or q.exponent == exponents[str(fmt)]


@pytest.mark.parametrize("fmt", [Shift(8), Flag(8), Constant(15, 128)], ids=str)
def test_an_empty_tensor_has_no_maximum(fmt):
    for x in (np.zeros((0, 3), np.float32), QTensor(np.zeros(0, np.int8), 0), Root([], 1, 0)):
        with pytest.raises(NumberError, match=r"layer1\.0\.conv1/e3: an empty tensor"):
            quantize(x, fmt, where="layer1.0.conv1/e3")
        for other in (FixedPoint(8, 4), Direct(8)):
            assert quantize(x, other).codes.shape == x.shape


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_are_named_with_their_place(value):
    x = np.ones((2, 3), np.float32)
    x[1, 2] = value
    for fmt in ALL:
        with pytest.raises(NumberError, match=r"conv1/x1: NaN or infinity at index \(1, 2\)"):
            quantize(x, fmt, where="conv1/x1")


def test_overflow_error_names_the_first_code_outside():
    fmt = FixedPoint(8, 0, overflow="error")
    x = QTensor(np.array([[127, -128], [5, 128]]), 0)
    with pytest.raises(NumberError, match=r"conv1/W: code 128 at \(1, 1\) is outside <8,0> \(-128..127\)"):
        quantize(x, fmt, where="conv1/W")
    compare(*tensor([127, -128, 0], 0), fmt)
    with pytest.raises(NumberError, match="-1 at"):
        quantize(QTensor(np.array([-1]), 0), FixedPoint(8, 0, signed=False, overflow="error"))
    # 127.5 rounds to 128: the range is checked after the rounding
    with pytest.raises(NumberError, match="code 128"):
        quantize(np.array([127.5], np.float32), fmt)


def test_stochastic_needs_one_word_an_element():
    x = QTensor(np.ones((2, 3), np.int8), -3)
    for words in (None, np.zeros(5, np.uint32), np.zeros((2, 3), np.int64), np.zeros(0, np.uint32)):
        with pytest.raises(ShapeError, match=r"conv1/gW: needs one uint32 word an element \(6\)"):
            quantize(x, Direct(2), rounding="stochastic", words=words, where="conv1/gW")
    for bits in (0, 33, True):
        with pytest.raises(FormatError, match="word_bits"):
            quantize(x, Direct(2), rounding="stochastic", words=np.zeros(6, np.uint32), word_bits=bits)
    assert quantize(x, Direct(2), rounding="STOCH", words=np.zeros((2, 3), np.uint32)).codes.shape == (2, 3)


def test_what_cannot_be_quantized_is_refused():
    with pytest.raises(FormatError, match="fc/e3: the flag format rounds to nearest"):
        quantize(
            np.ones(2, np.float32),
            Flag(8),
            rounding="stochastic",
            words=np.zeros(2, np.uint32),
            where="fc/e3",
        )
    with pytest.raises(FormatError, match="nearest"):
        quantize(np.ones(2, np.float32), Direct(8), rounding="nearest")
    with pytest.raises(FormatError, match="deterministic"):
        quantize(Root([2], 1, 0), Direct(8), rounding="stochastic", words=np.zeros(1, np.uint32))


def test_block_float_is_no_format_of_a_whole_tensor():
    """It is refused by name, with what to call: not by a KeyError."""
    with pytest.raises(FormatError, match=r"conv1/x0: BFP\(8\) is no format of a whole.*quantize_blocks"):
        quantize(np.zeros((4, 4), np.float32), BlockFloat(8), where="conv1/x0")


def test_a_scalar_stays_a_scalar():
    assert quantize(np.array(1.25, np.float32), Direct(3)).codes.shape == ()
    assert quantize(QTensor(np.array(5, np.int8), -2), Shift(4)).fractions()[()] == F(7, 8)


# -- stored words of Flag --------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3, 8, 15, 16])
def test_flag_words_of_every_code(k):
    top = 2 ** (k - 1)
    magnitudes = range(top) if k <= 8 else [*range(0, top, 97), top - 1]
    codes = sorted({s * m * step for m in magnitudes for step in (1, top) for s in (1, -1)} | {top, -top})
    words = flag_words(QTensor(np.array(codes), -14, Flag(k)))
    assert words.dtype == (np.uint16 if k + 1 <= 16 else np.uint32)
    for code, word in zip(codes, words.tolist(), strict=True):
        flag, sign, size = quantizers.flag_encode(code, k)
        assert word == flag << k | sign << (k - 1) | size < 2 ** (k + 1)
        assert quantizers.flag_decode((flag, sign, size), k) == code
    if k <= 8:
        assert len(set(words.tolist())) == len(codes)


def test_flag_words_of_the_widest_format_and_of_no_flag():
    q = quantize(QTensor(np.array([2**62, -(2**62), 3]), 0), Flag(32))
    words = flag_words(q)
    assert words.dtype == np.uint64 and int(words.max()) < 2**33
    with pytest.raises(FormatError, match="needs a tensor in Flag format"):
        flag_words(quantize(q, Shift(8)))


@pytest.mark.parametrize("k", [24, 31, 32])
def test_wide_flags_from_two_limb_numerators(k):
    for codes in ([2**62, -(2**62) - 1, 2**31, 12345], [2**63 - 1, -(2**63), 2**40 + 1, 1]):
        compare(*tensor(codes, 7), Flag(k))
    compare(*tensor([2**40 + 1, -3, 5], 0), Flag(k))


@pytest.mark.parametrize(
    "fmt", [Shift(32), Flag(12), FixedPoint(32, 300), FixedPoint(32, 160), Constant(32, 2**31)], ids=str
)
def test_least_subnormals_over_a_denominator(fmt):
    """One bit of mantissa, shifted up by more than the 38 bits that a normal float32 leaves free."""
    values, xs = floats([2.0**-149, -3 * 2.0**-149, 0.0])
    for den in (1, 3, 2**10):
        if not isinstance(fmt, Flag) or den < 2**9:
            compare(FloatExact(values, den), [x / den for x in xs], fmt)


# -- without compilation ---------------------------------------------------------------------


@pytest.mark.slow
def test_the_same_bits_without_compilation():
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    command = [
        sys.executable,
        "-W",
        "error",
        "-c",
        "from tests.support.comparing import sample_digest; print(sample_digest())",
    ]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == comparing.sample_digest()
