"""Blocks with scales: the library against the definition, gfloat, and microxcaling's published rule."""

from collections.abc import Callable
from fractions import Fraction
from math import frexp
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from intnet import FixedPoint, QTensor, quantize
from intnet.errors import FormatError, NumberError, ShapeError
from intnet.exact import microscaling
from intnet.numbers.microscaling import MXFP4, MXFP8_E4M3, MXFP8_E5M2, MXINT8, MXS, BlockScaled, Microscaling
from intnet.numbers.small_floats import E2M1, E4M3, E5M2, FP16, Float
from intnet.spec import microscaling as spec
from intnet.spec.tensor import places
from tests.support.faults import Patch, caught, run_from_source
from tests.support.small_floats import MODES, element, exactly, grid

ELEMENTS = [one.element for one in MXS.values()] + [FixedPoint(4, 2), FixedPoint(2, 0), Float(3, 1, "none")]


def sweep(
    x: np.ndarray, format: Microscaling, mode: str, words: np.ndarray | None = None, bits: int = 32
) -> None:
    """AssertionError where a scale, an element, a value or a count is not the definition's."""
    made = quantize(x, format, rounding=mode, words=words, word_bits=bits)
    counts, of = np.zeros(2, int), element(format)
    flat, raw, held = (one.reshape(-1).tolist() for one in (x, made.raw(), made.to_float64()))
    for block, inside in spec.members(x.shape, format.sizes).items():
        drawn = None if words is None else [int(words.reshape(-1)[i]) >> (32 - bits) for i in inside]
        told = spec.quantize_block([exactly(flat[i]) for i in inside], of, format.scale, mode, drawn, bits)
        assert made.scales[block] == told.scale, (block, made.scales[block], told)
        assert [raw[i] for i in inside] == told.elements
        assert [exactly(held[i]) for i in inside] == [
            spec.decoded(word, told.scale, of) for word in told.elements
        ]
        counts += told.saturated, told.inexact
    assert made.status is not None and (made.status.saturated, made.status.inexact) == tuple(counts)


def tops(format: Microscaling) -> np.ndarray:
    """Blocks of 2, whose greatest magnitudes are where a scale is decided: float64's neighbours too."""
    g = microscaling.greatest(format.element)
    digits = format.element.m if isinstance(format.element, Float) else format.element.wl - 2
    points = np.array([g, 1.0, 2 - 2.0**-digits, 2 - 2.0 ** -(digits + 1), 1 + 2.0**-digits, g / 4, g * 1.5])
    scales = 2.0 ** np.array(
        [-150, -131, -129, -128, -127, -126, -120, -3, 0, 1, 100, 126, 127, 128, 129, 300]
    )
    with np.errstate(over="ignore"):
        t = np.outer(scales, points).reshape(-1)
        t = np.concatenate(
            [t, np.nextafter(t, 0), np.nextafter(t, np.inf), [0.0, 5e-324, 1e308, np.inf, np.nan]]
        )
    return np.stack([t, t * -0.3], axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("scale", spec.SCALES)
@pytest.mark.parametrize("of", ELEMENTS, ids=str)
def test_every_rule_of_scales_is_as_defined(of: Any, scale: str) -> None:
    format = Microscaling(of, 2, scale)
    sweep(tops(format), format, "ties_even")


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("of", ELEMENTS, ids=str)
def test_every_rounding_of_elements_is_as_defined(of: Any, mode: str) -> None:
    """All words, ties and neighbours of the element, at three scales."""
    if isinstance(of, FixedPoint):
        at = np.arange(-(2 << of.wl), (2 << of.wl) + 1) / 4 * 2.0**of.exponent
        x = np.concatenate([at, np.nextafter(at, 9), np.nextafter(at, -9)])
    else:
        x = grid(of, step=5)
        x = x[np.abs(x) < 1e30]
    for top in (2.0, 2.0**20, 2.0**-125):
        block = np.stack([x * top, np.full(x.size, microscaling.greatest(of) * top)], axis=1)
        sweep(block, Microscaling(of, 2), mode)


SHAPES = arrays.array_shapes(min_dims=2, max_dims=3, max_side=9)


@given(
    arrays.arrays(np.float32, SHAPES, elements=st.floats(width=32)),
    st.sampled_from([(2,), (32,), (3, 2), (4, 4), (2, 1)]),
    st.sampled_from(spec.SCALES),
    st.sampled_from(ELEMENTS),
    st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_any_tensor_in_any_blocks_is_as_defined(
    x: np.ndarray, block: tuple[int, ...], scale: str, of: Any, seed: int
) -> None:
    format = Microscaling(of, block, scale)
    sweep(x, format, "ties_even")
    words = np.random.default_rng(seed).integers(0, 1 << 32, x.size).astype(np.uint32)
    sweep(x, format, "stochastic", words, 1 + seed % 32)


def test_the_rules_by_hand() -> None:
    """g of E2M1 is 6 = 1.5 * 4. Of t = 7: floor(log2 7) = 2, ceil 3; in two digits 7 is 8; and 7 > 6."""
    k = {scale: int(quantize([7.0], Microscaling(E2M1, 1, scale)).scales[0]) - 127 for scale in spec.SCALES}
    assert k == {"floor": 0, "ceil": 1, "round": 1, "fit": 1}
    k = {scale: int(quantize([5.0], Microscaling(E2M1, 1, scale)).scales[0]) - 127 for scale in spec.SCALES}
    assert k == {"floor": 0, "ceil": 1, "round": 0, "fit": 0}
    k = {scale: int(quantize([4.0], Microscaling(E2M1, 1, scale)).scales[0]) - 127 for scale in spec.SCALES}
    assert k == {"floor": 0, "ceil": 0, "round": 0, "fit": 0}
    assert quantize([7.0, 7.0], MXFP4).to_float64().tolist() == [6, 6]
    assert quantize([-2.0, 1.0], MXINT8).raw().tolist() == [-64, 32]
    assert quantize([-1.9999], MXINT8).raw().tolist() == [-127]


GFLOAT = {
    "MXFP8_E4M3": "mxfp8_e4m3",
    "MXFP8_E5M2": "mxfp8_e5m2",
    "MXFP6_E3M2": "mxfp6_e3m2",
    "MXFP6_E2M3": "mxfp6_e2m3",
    "MXFP4": "mxfp4_e2m1",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*GFLOAT, "MXINT8"])
def test_blocks_of_32_are_those_of_gfloat(name: str) -> None:
    """Of float32; its integers take -128 too, as a `FixedPoint` that saturates does."""
    gfloat = pytest.importorskip("gfloat", reason="pip install -e '.[test]'")
    from gfloat import formats

    info = getattr(formats, f"format_info_{GFLOAT.get(name, 'mxint8')}")
    format = MXS[name] if name in GFLOAT else Microscaling(FixedPoint(8, 6))
    rng = np.random.default_rng(5)
    x = rng.normal(size=(200, 32)) * 2.0 ** rng.integers(-140, 120, (200, 1))
    x = x.astype(np.float32).astype(np.float64)
    x[0], x[1, 1:] = 0, 0
    made = quantize(x, format)
    for row, block in enumerate(x):
        scale = gfloat.compute_scale_amax(info.etype.emax, block)
        words = list(gfloat.encode_block(info, scale, block / scale))
        assert words[0] == made.scales[row, 0]
        assert [word & 255 for word in words[1:]] == [int(w) & 255 for w in made.raw()[row]]
        theirs = list(gfloat.decode_block(info, words))
        assert made.to_float64()[row].tolist() == theirs


def published(x: np.ndarray, of: Float | FixedPoint) -> np.ndarray:
    """microxcaling's rule of a block (`mx/mx_ops.py`, `_quantize_mx`; `mx/elemwise_ops.py`), exactly.

    max, floor(log2), minus emax, limited to +-127; divided, rounded to nearest away from zero in the private
    exponent's step, limited to +-max_norm; multiplied back.
    """
    g = microscaling.greatest(of)
    top = np.abs(x).max()
    shared = (frexp(top)[1] - 1 if top else -126) - (frexp(g)[1] - 1)
    shared = max(shared, -127)
    made = []
    for value in (Fraction(one) / Fraction(2) ** shared for one in x.tolist()):
        if isinstance(of, Float):
            power = max(frexp(abs(float(value)))[1] - 1 if value else 0, of.least) - of.m
        else:
            power = of.exponent
        steps = abs(value) / Fraction(2) ** power
        away = int(steps + Fraction(1, 2)) * Fraction(2) ** power
        made.append(float(min(away, Fraction(g)) * Fraction(2) ** shared) * (-1 if value < 0 else 1))
    return np.array(made)


@pytest.mark.parametrize("name", MXS)
def test_blocks_are_those_that_microxcaling_publishes(name: str) -> None:
    format = MXS[name]
    rng = np.random.default_rng(6)
    x = rng.normal(size=(60, 32)) * 2.0 ** rng.integers(-120, 100, (60, 1))
    x[:20] = np.round(x[:20] * 2.0**4 / np.abs(x[:20]).max(1, keepdims=True)) / 4  # ties
    x = x.astype(np.float32).astype(np.float64)
    made = quantize(x, format, rounding="ties_away").to_float64()
    for row, block in enumerate(x):
        assert np.array_equal(made[row], published(block, format.element)), row


def test_a_scale_just_below_a_power_of_two_is_not_rounded_up() -> None:
    """log2 in float32, as microxcaling takes it, is 20 just below 2^20: its scale is twice OCP's."""
    x = np.nextafter(np.float32(2**20), np.float32(0))
    assert np.log2(x) == 20
    assert quantize([float(x)], MXFP4).scales.tolist() == [127 + 19 - 2]


@pytest.mark.parametrize("name", MXS)
def test_every_word_beside_every_scale_is_what_the_definition_says(name: str) -> None:
    format = Microscaling(MXS[name].element, 1)
    of = element(format)
    if isinstance(format.element, FixedPoint):
        codes = np.arange(-127, 128, 3)
        elements: Any = QTensor(codes.astype(np.int8), -6, format.element, 127)
    else:
        from intnet.numbers.small_floats import FloatTensor

        codes = np.arange(1 << format.element.bits)
        elements = FloatTensor.from_words(codes, format.element)
    for scale in (0, 1, 126, 127, 128, 254, 255):
        q = BlockScaled(elements, np.full(codes.size, scale, np.uint8), format)
        told = [spec.decoded(int(word), scale, of) for word in codes]
        assert [exactly(v) for v in q.to_float64().tolist()] == told
        assert q.finite().tolist() == [v not in ("nan", "inf", "-inf") for v in told]


def test_tensors_of_other_kinds_and_shapes() -> None:
    q = QTensor(np.array([[3, -1], [100, 7]]), -3)
    assert np.array_equal(quantize(q, MXFP4).to_float64(), quantize(q.to_float64(), MXFP4).to_float64())
    again = quantize(quantize(q, MXFP4), MXFP4)
    assert np.array_equal(again.to_float64(), quantize(q, MXFP4).to_float64())
    assert quantize(np.zeros((0, 64)), MXFP8_E4M3).scales.shape == (0, 2)
    assert quantize(np.ones((3, 70)), MXFP8_E4M3).scales.shape == (3, 3)
    tiles = quantize(np.arange(30.0).reshape(5, 6), Microscaling(FixedPoint(4, 2), (4, 4)))
    assert tiles.scales.tolist() == [[131, 131], [131, 131]]
    assert tiles.packed_bits() == 30 * 4 + 4 * 8
    assert spec.members((5, 6), (4, 4))[(1, 1)] == [28, 29]
    assert len(places((5, 6))) == 30


def test_a_tensor_of_blocks_shows_itself() -> None:
    q = quantize(np.array([[0.3, -1.5, 7.0]]), MXFP4)
    assert repr(q) == "BlockScaled(MX(E2M1, 32) 1x3, 1 scales, values [0.5 -1.5 6])"
    assert "1 of 3" in str(q.summary()) and "6.67 an element" in str(q.summary())
    assert q.hex().tolist() == [["1", "b", "7"]]
    assert [str(v) for v in q.fractions()[0]] == ["1/2", "-3/2", "6"]
    assert q.to_float32().dtype == np.float32
    assert (q == [[0.5, 1, 6]]).tolist() == [[True, False, True]] and np.size(q) == 3
    with pytest.raises(NumberError, match=r"np\.sum of small floats has no exact answer"):
        np.sum(q)
    assert str(Microscaling(E4M3, (4, 4), "fit")) == "MX(E4M3, 4x4, fit)"


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: Microscaling(FP16), FormatError, "a Float that saturates"),
        (lambda: Microscaling(FixedPoint(8, 6, signed=False)), FormatError, "a signed FixedPoint"),
        (lambda: Microscaling(FixedPoint(8, 6, overflow="wrap")), FormatError, "that does, not"),
        (lambda: Microscaling(E4M3, 0), FormatError, "block = 0"),
        (lambda: Microscaling(E4M3, ()), FormatError, r"block = \(\)"),
        (lambda: Microscaling(E4M3, 32, "nearest"), FormatError, "use one of floor, ceil, round, fit"),
        (lambda: quantize(np.ones(4), Microscaling(E4M3, (2, 2))), ShapeError, "too few axes"),
        (lambda: quantize([2**53 + 1], MXFP4), NumberError, r"the value at \(0,\) is no float64"),
        (lambda: quantize([np.nan], MXFP4).fractions(), NumberError, r"nan at \(0,\) has no code"),
        (
            lambda: BlockScaled(quantize([1.0], E5M2), np.zeros(1, np.uint8), MXFP8_E4M3),
            FormatError,
            "elements in E5M2, and",
        ),
        (
            lambda: BlockScaled(quantize([1.0], E5M2), np.zeros(2, np.uint8), MXFP8_E5M2),
            ShapeError,
            r"scales uint8 \(2,\)",
        ),
    ],
)
def test_what_cannot_be_is_refused_by_name(make: Callable[[], Any], error: type, said: str) -> None:
    with pytest.raises(error, match=said):
        make()


FAULTS = {
    "the scale forgets g": ("power.astype(np.int64) - _edge(format.element)", "power.astype(np.int64)"),
    "ceil of a power of two": ("part > 0.5", "part >= 0.5"),
    "round by a digit less": ("(digits + 2)", "(digits + 1)"),
    "fit is strict": ("return part > frexp", "return part >= frexp"),
    "no least scale": ("np.clip(k, -BIAS, BIAS)", "np.clip(k, -BIAS + 1, BIAS)"),
    "an infinity is a number": ("(x.special == 0, values, np.inf)", "(x.special == 0, values, 1.0)"),
    "zeros of a NaN block have signs": ("x.negative & ~lost", "x.negative"),
}  # fmt: skip


def sweeps() -> None:
    for scale in spec.SCALES:
        format = Microscaling(E2M1, 2, scale)
        sweep(tops(format), format, "ties_even")


def test_without_a_fault_the_sweeps_pass() -> None:
    assert not caught(sweeps)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_seen(fault: str, monkeypatch: Patch) -> None:
    from intnet.exact import quantize as entry

    run_from_source(monkeypatch, microscaling, *FAULTS[fault])
    monkeypatch.setitem(entry._SCALED, Microscaling, microscaling.quantize)
    assert caught(sweeps)
