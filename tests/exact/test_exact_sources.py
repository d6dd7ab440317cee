"""Square roots, float32 tensors and sums of values as exact expressions, against Fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intnet.errors import ContainerError, FormatError, ShapeError
from intnet.exact.expressions import Exact, FloatExact, Root, add, exact
from intnet.numbers.qtensor import QTensor
from intnet.numbers.rounding import MODES, UNLIMITED, Rounding
from intnet.spec import overflow, power, round_fraction, round_sqrt
from tests.support import cases
from tests.support.comparing import DETERMINISTIC

F = Fraction


# -- roots -----------------------------------------------------------------------------------


@given(
    st.lists(st.integers(0, 2**80), min_size=1, max_size=4),
    st.integers(1, 2**30),
    st.integers(-20, 5),
    st.integers(-25, 8),
)
def test_roots_of_rationals(numerators, den, exponent, unit):
    root = Root(numerators, den, exponent)
    squares = [F(n, den) * power(2 * (exponent - unit)) for n in numerators]
    check_roots(root, squares, unit)


def check_roots(root: Root, squares: list[F], unit: int) -> None:
    for mode in DETERMINISTIC:
        want = [round_sqrt(v, mode) for v in squares]
        if max(want) >= 2**62:
            with pytest.raises(ContainerError, match="62 bits"):
                root.round_to(unit, Rounding(MODES[mode]))
            continue
        codes, status = root.round_to(unit, Rounding(MODES[mode]))
        assert codes.tolist() == want
        assert status.inexact == sum(round_sqrt(v, "to_neg") ** 2 != v for v in squares)
        codes, status = root.round_to(unit, Rounding(MODES[mode], -5, 5))
        assert codes.tolist() == [min(v, 5) for v in want] and status.saturated == sum(v > 5 for v in want)


def test_roots_at_squares_halves_and_at_the_end_of_the_range():
    for k in (0, 1, 2, 7, 2**20, 2**31 - 1, 2**52 + 1, 2**61 - 1, 2**61, 2**62 - 1, 2**62):
        squares = [(2 * k + d) ** 2 + e for d in (0, 1) for e in (-1, 0, 1) if (2 * k + d) ** 2 + e >= 0]
        check_roots(Root(squares, 4, 0), [F(s, 4) for s in squares], 0)
    assert Root([2], 1, 0).shape == (1,) and Root([9, 16], 4, 1).fractions().tolist() == [3, 4]


def test_R_of_a_root_is_decided_by_its_square():
    for n in range(-30, 60):
        edge = power(2 * n + 1)  # sqrt(edge) = sqrt(2) * 2^n
        scaled = edge * 2**70
        for top, want in ((scaled.numerator, n + 1), (scaled.numerator - 1, n)):
            assert Root([0, top], 2**70, 0).log2_max() == want
            assert Root([top, 1], 2**70, 5).log2_max() == want + 5
    assert Root([0, 0], 3, 9).log2_max() == 0


# -- floats ----------------------------------------------------------------------------------


@pytest.mark.slow
@given(
    st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=8), st.integers(1, 2**20),
    st.integers(-60, 60), st.sampled_from([*MODES]), st.integers(1, 32),
)  # fmt: skip
def test_any_float32_over_a_denominator(patterns, den, above, mode, bits):
    finite = [p for p in patterns if p >> 23 & 0xFF != 0xFF] or [1]
    values = np.array(finite, np.uint32).view(np.float32)
    xs = [F(float(v)) / den for v in values]
    value = FloatExact(values, den)
    assert value.fractions().tolist() == xs and value.max() == max(map(abs, xs))
    exponent = value.log2_max() + above
    units = [x / power(exponent) for x in xs]
    words = [p * 2654435761 % 2**bits for p in finite]
    want = [round_fraction(u, mode, w, bits) for u, w in zip(units, words, strict=True)]
    array = np.array([w << (32 - bits) for w in words], np.uint32)
    for lo, hi in ((-UNLIMITED, UNLIMITED), (-(2**31), 2**31 - 1), (-7, 8)):
        if hi == UNLIMITED and max(map(abs, xs)) * den >= power(61 + exponent):
            with pytest.raises(ContainerError, match="62 bits"):
                value.round_to(exponent, Rounding(MODES[mode], words=array, bits=bits))
            continue
        codes, status = value.round_to(exponent, Rounding(MODES[mode], lo, hi, array, bits))
        assert codes.tolist() == [overflow(c, lo, hi, "saturate") for c in want]
        assert status.inexact == sum(u.denominator != 1 for u in units)
        assert status.saturated == sum(not lo <= c <= hi for c in want)


def test_floats_over_too_great_a_denominator_are_refused():
    with pytest.raises(ContainerError, match="no room"):
        FloatExact(np.ones(1, np.float32), 2**22).round_to(0, Rounding(0))


# -- sums of values --------------------------------------------------------------------------


@given(st.randoms(use_true_random=False), st.integers(1, 4))
def test_add_is_the_exact_sum(source, parts):
    """Any number of parts, aligned; a third term makes the library merge the first two."""
    total, want = None, [F(0)] * 6
    for _ in range(parts):
        codes, exponent = cases.random_magnitudes(source.getrandbits(32), 6, 12), source.randrange(-6, 5)
        coef, offset = source.randrange(-9, 9), source.randrange(-9, 9)
        q = QTensor(np.array(codes, np.int16).reshape(2, 3), exponent)
        part = q if source.random() < 0.5 else Exact([(q, coef)], exponent, np.full(3, offset))
        scale, shift = (1, 0) if part is q else (coef, offset)
        want = [w + (scale * c + shift) * power(exponent) for w, c in zip(want, codes, strict=True)]
        total = part if total is None else add(total, part)
    assert exact(total).fractions().reshape(-1).tolist() == want


def test_add_of_floats_and_what_add_refuses():
    a, b = np.array([1.5, 2.0**-24], np.float32), np.array([0.1, 1.0], np.float32)
    assert np.array_equal(add(a, b), a + b)
    q = QTensor(np.array([1, 2], np.int8), 0)
    with pytest.raises(FormatError, match="cannot be joined exactly"):
        add(a, q)
    with pytest.raises(FormatError, match="without ReLU"):
        add(q, exact(q).rectified())
    with pytest.raises(FormatError, match="one denominator"):
        add(q, Exact([(q, 1)], 0, den=2))
    with pytest.raises(ShapeError):
        add(q, QTensor(np.ones(3, np.int8), 0))
    with pytest.raises(ContainerError, match="beyond every container"):
        add(QTensor(np.ones(2, np.int8), 126), QTensor(np.ones(2, np.int8), 0)).max()
    same = add(Exact([(q, np.array([1, 5], np.int32))], 0, den=3), Exact([(q, 1)], -31, den=3))
    assert same.fractions().tolist() == [(1 + power(-31)) / 3, (10 + 2 * power(-31)) / 3]
