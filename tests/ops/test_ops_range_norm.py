"""range_norm: forward and gradients equal the definition, and the derivative of its own formula."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intnet.errors import FormatError, ShapeError
from intnet.ops import range_norm as op
from intnet.ops.kernels.float32_rows import ends
from intnet.ops.range_norm import constant, width
from intnet.spec import float_batch_norm as float_norm
from intnet.spec import range_norm as spec
from intnet.spec.float32 import to_float32
from tests.support.opcheck import floating, integer, run, tensor, threads, values

SEEDS = st.integers(0, 2**32)
SHAPES = st.sampled_from([(2, 3, 3, 2), (1, 5, 2, 3), (7, 4), (1, 1), (2, 1, 1, 5), (33, 1)])


def told(path: str, value: Any) -> Any:
    return value


def test_the_constant() -> None:
    """C(n) from float64 logarithms within an ulp, equal to the definition's, monotone, 0 of one value."""
    assert constant(1) == 0
    for n in (*range(2, 300), 2**15, 10**6, 2**31 + 1):
        assert Fraction(float(constant(n))) == spec.constant(n)
        assert abs(float(constant(n)) * (2 * np.log(n)) ** 0.5 - 1) < 2.0**-24
    with localcontext(prec=60):  # another precision, the same float32
        for n in range(2, 300):
            assert to_float32(Fraction(1 / (2 * Decimal(n).ln()).sqrt())) == spec.constant(n)


@pytest.mark.slow
@given(shape=SHAPES, exponent=st.integers(-20, 20), ties=st.booleans(), seed=SEEDS)
def test_range_norm(shape: tuple[int, ...], exponent: int, ties: bool, seed: int) -> None:
    """x3, mu, v and all gradients; with ties extremes that stand at several places."""
    c = shape[-1]
    x = floating(seed, shape, exponent)
    if ties:
        x = np.round(np.ldexp(x, 1 - exponent)) * np.float32(1)
    gamma, beta, e = floating(seed + 1, (c,)), floating(seed + 2, (c,)), floating(seed + 3, shape, -3)
    seen: dict[str, Any] = {}
    x3, (dx, dgamma, dbeta) = run(op, x, gamma, beta, error=e, act=seen.__setitem__)
    mean, v = spec.statistics(tensor(x))
    assert values(seen["mu"]) == mean and values(seen["var"]) == v
    want = float_norm.normed(tensor(x), mean, v, values(gamma), values(beta))
    assert values(x3) == want.x3.values
    back = spec.backward(tensor(e), tensor(x), want, values(gamma))
    assert (values(dx), values(dgamma), values(dbeta)) == (back[0].values, *back[1:])


def test_width_by_hand() -> None:
    """A range of 4 and one of 0; C(2) = 1/sqrt(2 ln 2)."""
    got = width(ends(np.array([[-1, 7], [3, 7]], np.float32)), 2)
    assert got.tolist() == [np.float32(4) * np.float32(0.8493218002880191), 0]


def test_the_gradient_is_that_of_the_formula() -> None:
    """Against central differences in float64 of sum(e x3), extremes included."""
    draw = np.random.default_rng(5)
    x, gamma, e = draw.normal(size=(6, 3)), draw.normal(size=3), draw.normal(size=(6, 3))
    beta, c = np.zeros(3), 1 / np.sqrt(2 * np.log(6))

    def loss(x: np.ndarray) -> float:
        w = c * (x.max(axis=0) - x.min(axis=0))
        return float((e * (gamma * (x - x.mean(axis=0)) / np.sqrt(w * w + 1e-5) + beta)).sum())

    given = (a.astype(np.float32) for a in (x, gamma, beta))
    _, (dx, _, _) = run(op, *given, error=e.astype(np.float32), act=told)
    for place in np.ndindex(6, 3):
        step = np.zeros((6, 3))
        step[place] = 1e-6
        assert (loss(x + step) - loss(x - step)) / 2e-6 == pytest.approx(dx[place], abs=2e-4)


def test_threads_do_not_change_a_bit() -> None:
    x, gamma, beta = floating(1, (40, 5, 5, 7)), floating(2, (7,)), floating(3, (7,))
    found = []
    for n in (1, 2):
        with threads(n):
            x3, back = run(op, x, gamma, beta, error=x, act=told)
            found.append([a.tobytes() for a in (x3, *back)])
    assert found[0] == found[1]


def test_what_it_does_not_take() -> None:
    x, gamma = floating(1, (3, 2)), floating(2, (3,))
    with pytest.raises(ShapeError, match=r"bn1: input \(3, 2\) has 2 channels, gamma 3"):
        op(x, gamma, gamma, act=told, where="bn1")
    with pytest.raises(FormatError, match="bn1 takes float32, not a QTensor"):
        op(integer(1, (3, 2)), gamma, gamma, act=told, where="bn1")


@pytest.mark.parametrize("rows", [1, 31, 33, 64, 1023, 1024, 5000])
@pytest.mark.parametrize("n", [1, 2])
def test_ends_are_the_first_of_their_value(rows: int, n: int) -> None:
    """Few values, so that every part of the rows has the greatest and the least, against NumPy's."""
    x = np.random.default_rng(rows).integers(-3, 4, (rows, 5)).astype(np.float32)
    with threads(n):
        got = ends(x)
    assert np.array_equal(got.greatest, x.max(axis=0)) and np.array_equal(got.least, x.min(axis=0))
    assert np.array_equal(got.at_greatest, x.argmax(axis=0))
    assert np.array_equal(got.at_least, x.argmin(axis=0))
