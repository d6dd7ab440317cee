"""MuPPET's block float: the scale from both extremes, rounding and saturation, against the oracle."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intnet import errors
from intnet.exact.expressions import Exact, FloatExact, Root
from intnet.exact.quantize import quantize
from intnet.numbers.formats import FixedPoint, Scaled
from intnet.numbers.qtensor import QTensor
from intnet.ops.curves import Tanh
from intnet.spec import formats, power
from tests.support import cases
from tests.support.comparing import compare, floats, tensor

LAST_WORD = 2**32 - 1


@pytest.mark.slow
@pytest.mark.parametrize("wl", [1, 2, 3, 4, 8])
def test_every_tensor_of_two_codes(wl: int) -> None:
    """Codes -17..17 at 2^-2; a word that never rounds up, one that always does, and ties to even."""
    for pair in product(range(-17, 18), repeat=2):
        x, xs = tensor(pair, -2, np.int8)
        compare(x, xs, Scaled(wl), "stochastic", [0, LAST_WORD])
        if sum(pair) % 3 == 0:
            compare(x, xs, Scaled(wl), "ties_even")


def limits(wl: int, exponent: int) -> list[list[Fraction]]:
    """Tensors whose maximum is at (UB + 1/2) 2^k, whose minimum at (LB - 1/2) 2^k, or beside them."""
    unit = power(exponent)
    top, bottom = (2**wl - 1) * unit, -(2**wl + 1) * unit
    step = unit / 16
    tops, bottoms = ([edge + d * step for d in (-1, 0, 1)] for edge in (top, bottom))
    far = [-top * 4, -top, -unit, Fraction(0), unit, -bottom, -bottom * 4]
    out = [[edge, other] for edge in (*tops, *bottoms) for other in (*far, *tops, *bottoms)]
    return out + [[edge] for edge in (*tops, *bottoms)]


@pytest.mark.slow
@pytest.mark.parametrize("wl", [2, 8, 12, 16, 32])
def test_at_the_edges_of_the_scale(wl: int) -> None:
    """Both limits and their neighbours, where the maximum or the minimum decides; some codes are clipped."""
    seen = set()
    for exponent in (-9, 3):
        for xs in limits(wl, exponent):
            codes = [int(v / power(exponent - 5)) for v in xs]
            x, same = tensor(codes, exponent - 5)
            assert same == xs
            q = compare(x, xs, Scaled(wl), "stochastic", [LAST_WORD] * len(xs))
            seen |= {"high"} if q.codes.max() == 2 ** (wl - 1) - 1 else set()
            seen |= {"low"} if q.codes.min() == -(2 ** (wl - 1)) else set()
            seen |= {"clipped"} if q.status is not None and q.status.saturated else set()
    assert seen == {"high", "low", "clipped"}


def test_the_released_codes_plus_128_is_127_here() -> None:
    """127.5 takes the scale 1, and rounds up to 128, which 8 bits have not."""
    x, xs = tensor([255, -257, 1], -1)
    q = compare(x, xs, Scaled(8), "stochastic", [0, 0, LAST_WORD])
    assert (q.codes.tolist(), q.exponent) == ([127, -128, 0], 0)
    assert q.status is not None and q.status.saturated == 1


@pytest.mark.parametrize("wl", [2, 8, 12])
def test_zeros_and_one_side(wl: int) -> None:
    for values in ([0], [0, 0, 0], [0, 5], [-5, 0], [3, 4], [-3, -4], [-4, 4]):
        x, xs = tensor(values, 2)
        compare(x, xs, Scaled(wl))
        compare(*floats([float(v) for v in xs]), Scaled(wl))
    assert quantize(np.zeros(3, np.float32), Scaled(wl)).exponent == -(wl - 2)


@pytest.mark.slow
@given(
    values=st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=5),
    wl=st.integers(1, 32),
    word=st.integers(0, LAST_WORD),
)
def test_any_float32(values: list[float], wl: int, word: int) -> None:
    x, xs = floats(values)
    compare(x, xs, Scaled(wl), "stochastic", [word] * len(xs))


@given(st.integers(0, 2**32), st.integers(1, 16), st.integers(1, 7), st.booleans())
def test_any_expression(seed: int, wl: int, den: int, relu: bool) -> None:
    """Sums of two tensors with a coefficient and a denominator a channel, rectified or not; pooled floats."""
    a, b = (cases.random_magnitudes(seed + i, 6, 9) for i in (0, 1))
    c, offset = cases.random_codes(seed, 2, -9, 9), cases.random_codes(seed + 2, 2, -50, 50)
    dens = [den, 1 + seed % 5]
    terms = [(QTensor(np.array(v, np.int16).reshape(3, 2), -3), m) for v, m in ((a, np.array(c)), (b, 1))]
    x = Exact(terms, -3, np.array(offset), np.array(dens), relu=relu)
    sums = [Fraction(c[i % 2] * a[i] + b[i] + offset[i % 2], dens[i % 2]) / 8 for i in range(6)]
    xs = [max(v, Fraction(0)) for v in sums] if relu else sums
    words = cases.random_codes(seed + 3, 6, 0, LAST_WORD)
    compare(x, xs, Scaled(wl), "stochastic", words)
    raw, exact = floats([float(v) for v in a])
    compare(FloatExact(raw, den), [v / den for v in exact], Scaled(wl), "stochastic", words)


@given(st.lists(st.integers(-(2**15), 2**15 - 1), min_size=1, max_size=6), st.integers(-20, 20))
def test_codes_of_its_width_lose_nothing(codes: list[int], exponent: int) -> None:
    """So a method may leave as they are codes that have the width already."""
    x, xs = tensor(codes, exponent)
    q = quantize(x, Scaled(16), rounding="stochastic", words=np.full(len(codes), LAST_WORD, np.uint32))
    assert [Fraction(v) for v in q.fractions()] == xs and q.exponent <= exponent


@pytest.mark.slow
@given(st.lists(st.fractions(-100, 100, max_denominator=64), min_size=1, max_size=4), st.integers(1, 16))
def test_the_oracles_scale_is_the_largest_that_fits(xs: list[Fraction], wl: int) -> None:
    s, ub, lb = formats.Scaled(wl).grid(xs), 2 ** (wl - 1) - 1, -(2 ** (wl - 1))

    def fits(s: int) -> bool:
        return all(lb - Fraction(1, 2) <= x * power(s) <= ub + Fraction(1, 2) for x in xs)

    assert fits(s) and (not any(xs) or not fits(s + 1))


def test_what_has_no_scale() -> None:
    curve = Tanh(QTensor(np.array([1, 2], np.int8), -3))
    for x in (np.zeros((0, 2), np.float32), Root([4, 9], 1, -3), curve):
        with pytest.raises(errors.NumberError, match="a root or a tanh has no exact extremes"):
            quantize(x, Scaled(8))
    for bad in (np.nan, np.inf, -np.inf):
        with pytest.raises(errors.NumberError, match="NaN or infinity"):
            quantize(np.array([1, bad], np.float32), Scaled(8))
    assert (Scaled(8).lo, Scaled(8).hi, Scaled(8).bits, str(Scaled(8))) == (-128, 127, 8, "BF(8)")
    assert Scaled(8) != FixedPoint(8, 0)
    with pytest.raises(errors.FormatError, match="Scaled wl = 33"):
        Scaled(33)
