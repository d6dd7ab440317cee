"""Small floats: the library against the definition, and both against packages that know nothing of them."""

from collections.abc import Callable, Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intnet import QTensor, quantize, rounding
from intnet.errors import FormatError, NumberError, ShapeError
from intnet.exact import parts, small_floats
from intnet.exact.expressions import Exact
from intnet.numbers.small_floats import BF16, E2M1, E4M3, E5M2, FLOATS, FP16, FP32, Float, FloatTensor
from intnet.spec import small_floats as spec
from tests.support.command import forgotten
from tests.support.faults import Patch, caught, run_from_source
from tests.support.small_floats import MODES, NARROW, defined, exactly, grid, sweep

WHOLE = QTensor(np.array([1, 2]), 0)
SMALL = {name: format for name, format in FLOATS.items() if format.bits <= 16}
OTHERS = [Float(4, 3), Float(5, 2, "none"), Float(2, 5, "nan"), Float(8, 1), Float(3, 4, overflow="infinity")]


def narrow_first(formats: Iterable[Any]) -> list[Any]:
    """The same; those of 16 bits, of which every word is taken, are slow."""
    return [pytest.param(f, marks=pytest.mark.slow) if str(f) in ("FP16", "BF16") else f for f in formats]


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal bit for bit, all NaNs alike."""
    return np.array_equal(a, b, equal_nan=True) and np.array_equal(np.signbit(a), np.signbit(b))


# -- every word --------------------------------------------------------------------------------------


def every(format: Float) -> FloatTensor:
    return FloatTensor.from_words(np.arange(1 << format.bits), format)


@pytest.mark.parametrize("format", narrow_first([*SMALL.values(), *OTHERS]), ids=str)
def test_every_word_is_what_the_definition_says_and_comes_back(format: Float) -> None:
    q, told = every(format), [spec.decode(word, defined(format)) for word in range(1 << format.bits)]
    values = q.to_float64()
    found = [exactly(value) for value in values.tolist()]
    assert found == told
    assert q.finite().tolist() == [value not in ("inf", "-inf", "nan") for value in told]
    numbers = q[q.finite()]
    assert numbers.fractions().tolist() == [
        Fraction(one) for one in told if one not in ("inf", "-inf", "nan")
    ]
    again = quantize(values, format if format.specials != "ieee" else format.to("infinity"))
    kept = ~np.isnan(values)
    assert np.array_equal(again.words[kept], q.words[kept])
    assert np.all(again.words[~kept] == (format.nan if format.specials != "none" else 0))
    assert again.status is not None and again.status.inexact == 0


ML = {
    "BF16": "bfloat16",
    "FP16": "float16",
    "E4M3": "float8_e4m3fn",
    "E5M2": "float8_e5m2",
    "E3M2": "float6_e3m2fn",
    "E2M3": "float6_e2m3fn",
    "E2M1": "float4_e2m1fn",
}


def ml_dtype(name: str) -> Any:
    if name == "FP16":
        return np.float16
    return getattr(pytest.importorskip("ml_dtypes", reason="pip install -e '.[test]'"), ML[name])


@pytest.mark.parametrize("name", ML)
def test_every_word_is_that_of_ml_dtypes(name: str) -> None:
    q, dtype = every(SMALL[name]), ml_dtype(name)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        theirs = q.words.view(dtype).astype(np.float64)
    assert same(q.to_float64()[~np.isnan(theirs)], theirs[~np.isnan(theirs)])
    assert np.array_equal(np.isnan(q.to_float64()), np.isnan(theirs))


@pytest.mark.parametrize("name", narrow_first(ML))
def test_rounding_to_nearest_is_that_of_ml_dtypes(name: str) -> None:
    """Of float32 at every tie and beside it: there E4M3 overflows to NaN, floats of 6 and 4 bits saturate."""
    dtype, format = ml_dtype(name), SMALL[name]
    policy = {"ieee": "infinity", "nan": "nan", "none": "saturate"}[format.specials]
    x = grid(format, np.float32)
    x = x[np.isfinite(x)] if format.specials == "none" else x
    with np.errstate(over="ignore"):
        theirs = x.astype(dtype).astype(np.float64)
    ours = quantize(x, format.to(policy)).to_float64()
    assert same(np.abs(ours), np.abs(theirs))
    assert same(ours[~np.isnan(ours)], theirs[~np.isnan(ours)])


@pytest.mark.parametrize("name", ML)
def test_arrays_of_ml_dtypes_come_and_go_without_loss(name: str) -> None:
    """Every word, payloads and signs of NaNs among them; what is quantized from one is what it was."""
    theirs = every(SMALL[name]).words.view(ml_dtype(name)).reshape(4, -1)
    q = FloatTensor.from_array(theirs)
    assert q.format == SMALL[name] and q.shape == theirs.shape
    assert np.array_equal(q.words, theirs.view(q.words.dtype))
    back = q.to_array()
    assert back.dtype == theirs.dtype and np.array_equal(back.view(q.words.dtype), q.words)
    numbers = q.finite()
    assert np.array_equal(quantize(theirs, q.format).words[numbers], q.words[numbers])
    assert np.array_equal(np.from_dlpack(q.words), q.words)  # as torch and others read it


GFLOAT = {
    "BF16": "bfloat16",
    "FP16": "binary16",
    "E4M3": "ocp_e4m3",
    "E5M2": "ocp_e5m2",
    "E3M2": "ocp_e3m2",
    "E2M3": "ocp_e2m3",
    "E2M1": "ocp_e2m1",
}
THEIR_MODES = {
    "ties_even": "TiesToEven",
    "ties_away": "TiesToAway",
    "to_neg": "TowardNegative",
    "to_pos": "TowardPositive",
    "to_zero": "TowardZero",
}


def gfloat(name: str) -> tuple[Any, Any]:
    package = pytest.importorskip("gfloat", reason="pip install -e '.[test]'")
    from gfloat import formats

    return package, getattr(formats, f"format_info_{GFLOAT[name]}")


@pytest.mark.slow
@pytest.mark.parametrize("name", GFLOAT)
def test_every_word_is_that_of_gfloat(name: str) -> None:
    package, info = gfloat(name)
    q = every(SMALL[name])
    theirs = np.array([package.decode_float(info, word).fval for word in range(q.size)])
    assert np.array_equal(np.isnan(theirs), np.isnan(q.to_float64()))
    assert same(q.to_float64()[~np.isnan(theirs)], theirs[~np.isnan(theirs)])


@pytest.mark.parametrize("mode", THEIR_MODES)
@pytest.mark.parametrize("name", narrow_first(GFLOAT))
def test_rounding_and_overflow_are_those_of_gfloat(name: str, mode: str) -> None:
    """Saturating, and as IEEE 754 has it, where a finite value that is rounded towards zero stays finite."""
    package, info = gfloat(name)
    rnd, format = getattr(package.RoundMode, THEIR_MODES[mode]), SMALL[name]
    x = grid(format)
    assert same(
        quantize(x, format.to("saturate"), rounding=mode).to_float64(),
        package.round_ndarray(info, x, rnd, True),
    )
    if format.specials != "none":
        policy = "infinity" if format.specials == "ieee" else "nan"
        ours = quantize(x, format.to(policy), rounding=mode).to_float64()
        theirs = package.round_ndarray(info, x, rnd, False)
        assert np.array_equal(np.isnan(ours), np.isnan(theirs))
        assert same(ours[~np.isnan(ours)], theirs[~np.isnan(ours)])


@pytest.mark.parametrize("bits", [1, 3, 8])
@pytest.mark.parametrize("name", ["E4M3", "E2M1", "BF16"])
def test_stochastic_rounding_is_that_of_gfloat(name: str, bits: int) -> None:
    """Of positive values whose fraction has no more bits than the word; gfloat adds 2^B - 1 - word."""
    package, info = gfloat(name)
    rng = np.random.default_rng(1)
    format = SMALL[name]
    numbers = rng.integers(1 << format.m, format.greatest, 3000)
    low = np.array([float(spec.value(n, defined(format))) for n in numbers.tolist()])
    high = np.array([float(spec.value(n + 1, defined(format))) for n in numbers.tolist()])
    x = low + (high - low) * rng.integers(0, 1 << bits, low.size) / (1 << bits)
    words = rng.integers(0, 1 << bits, low.size)
    ours = quantize(
        x, format, rounding="stochastic", words=(words << (32 - bits)).astype(np.uint32), word_bits=bits
    )
    theirs = package.round_ndarray(info, x, package.RoundMode.Stochastic, True, (1 << bits) - 1 - words, bits)
    assert np.array_equal(ours.to_float64(), theirs)


# -- every rounding, against the definition ------------------------------------------------------------


def policies(format: Float) -> list[str]:
    return {"ieee": ["saturate", "infinity", "nan"], "nan": ["saturate", "nan"], "none": ["saturate"]}[
        format.specials
    ]


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("format", [*NARROW.values(), *OTHERS], ids=str)
def test_every_tie_and_neighbour_is_rounded_as_defined(format: Float, mode: str) -> None:
    for policy in policies(format):
        sweep(format.to(policy), mode, grid(format))
    sweep(format, mode, grid(format, np.float32))


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("format", [BF16, FP16, FP32, Float(8, 10)], ids=str)
def test_wider_ones_are_rounded_as_defined(format: Float, mode: str) -> None:
    for policy in policies(format):
        sweep(format.to(policy), mode, grid(format, step=1 + format.greatest // 211))


@pytest.mark.slow
@pytest.mark.parametrize("bits", [1, 5, 8, 32])
@pytest.mark.parametrize("format", [E4M3, E2M1, E5M2.to("infinity"), BF16, OTHERS[3]], ids=str)
def test_every_word_decides_as_defined(format: Float, bits: int) -> None:
    """Words at and beside each threshold, all where they are few, of both signs."""
    x = grid(format, step=1 + format.greatest // 40)
    rng = np.random.default_rng(3)
    x = np.concatenate([x, x * rng.uniform(0.5, 1, x.size)])
    fractions = [0.0, 0.25, 0.5, 0.75, 1.0]
    for part in fractions:
        word = min(int(part * 2**bits), 2**bits - 1)
        sweep(format, "stochastic", x, np.full(x.size, word << (32 - bits), np.uint32), bits)
    sweep(format, "stochastic", x, rng.integers(0, 1 << 32, x.size).astype(np.uint32), bits)


def table(format: Float) -> list[Fraction]:
    """Every finite magnitude, from the words of a package or of NumPy, ascending."""
    with np.errstate(invalid="ignore"):
        values = np.arange(1 << (format.bits - 1)).astype(format.dtype).view(ml_dtype(str(format)))
        return sorted(Fraction(value) for value in values.astype(np.float64).tolist() if np.isfinite(value))


@pytest.mark.slow
@pytest.mark.parametrize("format", NARROW.values(), ids=str)
def test_the_definition_picks_the_nearest_of_all_words(format: Float) -> None:
    """By looking at every word: none is nearer; of two that are as near, the even one."""
    values = table(format)
    for x in np.unique(np.abs(grid(format, step=3)))[:-1].tolist():
        best = min(range(len(values)), key=lambda n: (abs(values[n] - Fraction(x)), n % 2))
        if Fraction(x) <= values[-1]:
            assert spec.encode(Fraction(x), defined(format)).word == best
        above = next((n for n, value in enumerate(values) if value >= x), len(values) - 1)
        assert spec.encode(Fraction(x), defined(format), "to_pos").word == above


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(MODES), st.sampled_from(list(SMALL)))
def test_any_float64_is_rounded_as_defined(x: float, mode: str, name: str) -> None:
    sweep(SMALL[name], mode, np.array([x]))


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-1200, 1200), st.sampled_from(MODES))
def test_any_code_is_rounded_as_defined(code: int, exponent: int, mode: str) -> None:
    """Of 64 bits, at exponents beyond float64's too."""
    for format in (E4M3, BF16, FP32):
        made = quantize(QTensor(np.array([code]), exponent), format, rounding=mode)
        told = spec.encode(Fraction(code) * Fraction(2) ** exponent, defined(format), mode)
        assert made.words.tolist() == [told.word]


def test_a_rule_of_one_s_own_rounds_small_floats(tmp_path: Path) -> None:
    def odd(floor: int, fraction: Fraction) -> bool:
        """floor is even"""
        return floor % 2 == 0

    x = np.array([1.05, -1.05, 0.0, -0.0, 1e9, -np.inf, 1.0])
    with forgotten(tmp_path):  # other tests compare the modes with those of the definition
        rounding.register("odd")(odd)
        assert quantize(x, E4M3, rounding="odd").hex().tolist() == ["39", "b9", "00", "80", "7e", "fe", "38"]
        with pytest.raises(NumberError, match="element 4 in C order is beyond E4M3"):
            quantize(x[:5], E4M3.to("error"), rounding="odd")


# -- what is said and refused --------------------------------------------------------------------------


def test_inputs_of_every_kind_are_what_they_are() -> None:
    assert quantize(0.3, E4M3).hex().item() == "2a"
    assert quantize([1, 2.5], E4M3).to_float64().tolist() == [1, 2.5]
    assert quantize(np.array([3, -7]), E2M1).hex().tolist() == ["5", "f"]
    assert quantize(np.float16(0.1), BF16).words.item() == quantize(float(np.float16(0.1)), BF16).words.item()
    assert quantize(quantize([0.3, -0.0], E4M3), E5M2).hex().tolist() == [
        "35",
        "80",
    ]  # 0.3125 is a word of both
    assert quantize(QTensor(np.array([1, 3]), np.array([-1, 4])), FP16).to_float64().tolist() == [0.5, 48]
    assert quantize(np.zeros((0, 3)), E4M3).shape == (0, 3)


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: quantize([1.0, np.nan], E2M1), NumberError, r"a NaN at \(1,\): E2M1 has no word for it"),
        (lambda: quantize([1e9], E4M3.to("error")), NumberError, "element 0 in C order is beyond E4M3 error"),
        (lambda: quantize([np.inf], E5M2.to("error")), NumberError, r"an infinity at \(0,\)"),
        (lambda: E4M3.to("infinity"), FormatError, "E4M3 infinity has saturate, nan, error"),
        (lambda: E2M1.to("nan"), FormatError, "has saturate, error"),
        (lambda: Float(9, 3), FormatError, "Float e = 9: a whole number from 2 to 8"),
        (lambda: Float(4, 0), FormatError, "Float m = 0"),
        (lambda: Float(4, 3, "fn"), FormatError, "use one of ieee, nan, none"),
        (lambda: quantize([1.0], E4M3, rounding="stochastic"), ShapeError, "needs one uint32 word"),
        (lambda: FloatTensor.from_words([256], E4M3), FormatError, "word 0x100 has more than the 8 bits"),
        (lambda: FloatTensor.from_words([16], E2M1), FormatError, "word 0x10 has more than the 4 bits"),
        (lambda: FloatTensor.from_words([-1], E2M1), FormatError, "whole numbers of 4 bits"),
        (lambda: FloatTensor(np.array([16], np.uint8), E2M1), FormatError, r"word 0x10 at \(0,\)"),
        (lambda: FloatTensor(np.array([1]), E2M1), FormatError, "words of E2M1 are uint8, not int64"),
        (lambda: quantize([np.inf], BF16).fractions(), NumberError, r"inf at \(0,\) has no code"),
        (lambda: FloatTensor.from_array(np.zeros(1)), FormatError, "no format has the words of float64"),
        (lambda: quantize([0.1], Float(3, 3)).to_array(), FormatError, "ml_dtypes has no type of the words"),
        (lambda: np.dot(quantize([0.1], BF16), [1.0]), NumberError, r"np\.dot of small floats has no exact"),
        (lambda: quantize(Exact([(WHOLE, 1)], 0, den=3), BF16), FormatError, "a quotient or a root is no"),
        (lambda: np.asarray(quantize([0.1], BF16), np.int8), NumberError, "not every value is exactly"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_by_name(make: Callable[[], Any], error: type, said: str) -> None:
    with pytest.raises(error, match=said):
        make()


def test_a_tensor_shows_itself() -> None:
    q = quantize(np.array([[0.3, -1.5, 1000.0]]), E4M3)
    assert repr(q) == "FloatTensor(E4M3 1x3, words [2a bc 7e], values [0.3125 -1.5 448])"
    assert "1 of 3, which saturate" in str(q.summary())
    assert q.bin().tolist() == [["00101010", "10111100", "01111110"]]
    assert (q == quantize(np.array([[0.3, -1.5, 448.0]]), BF16)).tolist() == [[False, True, True]]
    assert np.asarray(q, np.float32).tolist() == [[0.3125, -1.5, 448.0]]
    assert (q == [0.3125, 0, 448]).tolist() == [[True, False, True]] and (q != 448).tolist() == [
        [True, True, False]
    ]
    assert not (quantize([2.0**53], FP32) == [2**53 + 1]).any() and np.shape(q) == (1, 3)
    assert [str(f) for f in (BF16, E4M3.to("nan"), BF16.to("saturate"), Float(4, 3))] == [
        "BF16", "E4M3 nan", "BF16 saturate", "E4M3 ieee",
    ]  # fmt: skip


# -- faults that the sweeps must see -------------------------------------------------------------------

FAULTS = {
    "a tie goes away": (parts, "tie & (q & ONE != 0)", "tie"),
    "ties_pos by magnitude": (parts, "TIES_POS: ~negative", "TIES_POS: np.True_"),
    "half is missed": (parts, "away = rest > half", "away = rest >= half"),
    "directed modes forget the sign": (parts, "TO_POS: ~negative", "TO_POS: np.True_"),
    "negative words as positive ones": (parts, "words >= np.uint64(1 << bits) - ceil", "words < ceil"),
    "subnormals flushed": (small_floats, "(x.size == 0) & finite", "(number >> format.m == 0) & finite"),
    "no carry of an exponent": (small_floats, "kept.astype(np.int64) +", "np.int64(kept) - (kept > 7) +"),
    "one number too many": (small_floats, "(number > format.greatest)", "(number > format.greatest + 1)"),
    "overflow towards zero": (small_floats, "TO_NEG: ~x.negative", "TO_NEG: x.negative"),
    "infinity forgets its sign": (small_floats, "return sign + format.gr", "return format.gr"),
}  # fmt: skip


def sweeps() -> None:
    x = grid(E5M2, step=3)
    for mode in MODES:
        sweep(E5M2.to("infinity"), mode, x)
    sweep(E5M2, "stochastic", x, np.random.default_rng(1).integers(0, 1 << 32, x.size).astype(np.uint32), 4)


def test_without_a_fault_the_sweeps_pass() -> None:
    assert not caught(sweeps)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_seen(fault: str, monkeypatch: Patch) -> None:
    module, old, new = FAULTS[fault]
    from intnet.exact import quantize as entry

    run_from_source(monkeypatch, module, old, new, users=[small_floats])
    monkeypatch.setitem(entry._SCALED, Float, small_floats.quantize)
    assert caught(sweeps)
