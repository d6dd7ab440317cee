"""sigmoid, silu and tanh: correctly rounded codes and slopes of integers, float32 results, both gradients."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intnet import spec as oracle
from intnet.autograd import Kept, Tensor
from intnet.errors import ContainerError, FormatError
from intnet.exact.expressions import Exact
from intnet.exact.quantize import quantize
from intnet.machine.jit import njit
from intnet.numbers import fp32
from intnet.numbers.formats import Direct, FixedPoint, Shift
from intnet.numbers.qtensor import QTensor
from intnet.ops import sigmoid, silu
from intnet.ops.curves import Curve, Sigmoid, Silu, Slope, Tanh, far
from intnet.spec.curves import curve_bounds, curve_round, decided
from intnet.spec.float32 import add32, mul32, to_float32
from tests.support.opcheck import fixed, floating, integer, run, values

DETERMINISTIC = [mode for mode in oracle.rounding.MODES if mode != "stochastic"]
FLOATS: dict[str, type[Curve]] = {"sigmoid": Sigmoid, "silu": Silu, "slope": Slope}
CURVES: dict[str, type[Curve]] = FLOATS | {"tanh": Tanh}


def store(v: Any) -> Any:
    return quantize(v, Direct(8))


def wanted(curve: str, x: Fraction, exponent: int, mode: str = "ties_even") -> int:
    """The oracle's code; beyond 80 a curve is nearer to its asymptote than e^-79."""
    if abs(x) <= 80:
        return curve_round(curve, x, exponent, mode)
    if x > 0 and curve == "silu":
        return int(oracle.round_fraction((x - Fraction(1, 2**90)) / oracle.power(exponent), mode))
    return curve_round(curve, Fraction(80 if x > 0 else -80), exponent, mode)


# -- integers ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("mode", DETERMINISTIC)
@pytest.mark.parametrize("curve", CURVES)
def test_codes_equal_the_oracle(curve: str, mode: str) -> None:
    """Every code of 8 bits at three exponents; and codes that lie on ties and grid points of silu's line."""
    for exponent in (-4, -7, -1):
        x = QTensor(np.arange(-128, 128).astype(np.int16), exponent)
        got = quantize(CURVES[curve](x), Direct(8), rounding=mode)
        assert got.codes.tolist() == [wanted(curve, v, -7, mode) for v in values(x)]
    near = [sign * (at + d) for at in (1 << 22, 5 << 21, 40 << 22) for d in (-1, 0, 1) for sign in (1, -1)]
    x = QTensor(np.array([0, *near]), -22)
    for out in (-7, -15, 0, 2):
        got = quantize(CURVES[curve](x), Direct(8, lsb=out), rounding=mode)
        assert got.codes.tolist() == [wanted(curve, v, out, mode) for v in values(x)]


@pytest.mark.slow
@given(
    curve=st.sampled_from(sorted(CURVES)), exponent=st.sampled_from([-60, -40, -31, -22, -14, -7, 0, 4]),
    out=st.sampled_from([0, 7, 15, 31]), mode=st.sampled_from(DETERMINISTIC),
    bits=st.sampled_from([8, 16, 32, 54]), seed=st.integers(0, 2**32),
)  # fmt: skip
def test_any_exponent(curve: str, exponent: int, out: int, mode: str, bits: int, seed: int) -> None:
    x = integer(seed, (15,), bits, exponent)
    if curve == "silu" and bits + exponent + out > 60:
        out = 0
    got = quantize(CURVES[curve](x), Direct(8, lsb=-out), rounding=mode)
    assert fixed(got) == oracle.Fixed((15,), [wanted(curve, v, -out, mode) for v in values(x)], -out)


@pytest.mark.parametrize("curve", CURVES)
def test_all_three_stages_agree(curve: str) -> None:
    """What float64 decides, decimals decide alike; after `far` so does the point beside the asymptote."""
    x = integer(3, (200,), 26, -22)
    made = CURVES[curve](x)
    quick = quantize(made, Direct(8)).codes.tolist()
    assert quick == [made._ziv(int(code), -7, 0) for code in x.codes]  # mode 0: ties_even
    border = far(-22)
    near = np.array([d + (border << 22) for d in (0, 1, 2, 3 << 13, 1 << 14, 1 << 24)])
    for asymptote, codes in ((made.above, near), (made.below, -near)):
        for mode in range(6):
            beside = made._beside(codes, asymptote, -22, -7, mode, "")
            assert beside.tolist() == [made._ziv(int(code), -7, mode) for code in codes], mode


@pytest.mark.slow
def test_many_far_codes_take_no_decimals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Silu, "decimal", None)
    x = QTensor(np.arange(40 << 22, 60 << 22, 10133), -22)
    assert quantize(Silu(x), Direct(8)).codes.tolist() == [wanted("silu", v, -7) for v in values(x)]


@pytest.mark.parametrize("unit", [0, -1, -8, -22, -57])
def test_far_is_where_no_grid_tells(unit: int) -> None:
    def reached(f: int) -> bool:
        low, high = oracle.curves.exp_minus_bounds(Fraction(f), 200)
        gaps = [(f + 1) * Fraction(end, 2**200) < oracle.power(unit - 1) for end in (low, high)]
        assert gaps[0] == gaps[1]
        return gaps[0]

    found = far(unit)
    assert reached(found) and (found < 3 or not reached(found - 2))  # 271/100 is a little below e


def test_status_and_range() -> None:
    x = QTensor(np.array([0, 1, 1 << 22, 1 << 25, -(1 << 25)]), -22)
    got = quantize(Silu(x), FixedPoint(8, 7))
    assert got.codes.tolist() == [0, 0, 94, 127, 0] and got.status is not None
    assert (got.status.saturated, got.status.inexact, got.status.elements) == (1, 4, 5)
    got = quantize(Sigmoid(x), Direct(8))
    assert got.codes.tolist() == [64, 64, 94, 128, 0] and got.status is not None and got.status.inexact == 4
    got = quantize(Sigmoid(x), Direct(1))  # 1/2 is no whole number
    assert got.codes.tolist() == [0, 1, 1, 1, 0] and got.status is not None and got.status.inexact == 5


@pytest.mark.parametrize("curve", CURVES)
def test_fractions_are_close(curve: str) -> None:
    x = QTensor(np.array([1, -3, 0, 900]), -2)
    for got, v in zip(CURVES[curve](x).fractions(), values(x), strict=True):
        lower, upper = curve_bounds(curve, v, 600)
        assert lower - Fraction(1, 10**50) <= got <= upper + Fraction(1, 10**50)


@pytest.mark.slow
@given(seed=st.integers(0, 2**32), e_bits=st.sampled_from([8, 16, 40]))
def test_gradients_of_integers_read_what_is_stored(seed: int, e_bits: int) -> None:
    x, e = integer(seed, (3, 5), 24, -20), integer(seed + 1, (3, 5), e_bits, -33)
    got, (dx,) = run(sigmoid, x, error=e, quantize=store)
    assert values(dx) == [a * y * (1 - y) for a, y in zip(values(e), values(got), strict=True)]
    got, (dx,) = run(silu, x, error=e, quantize=store, derivative=store)
    slopes = [wanted("slope", v, -7) * oracle.power(-7) for v in values(x)]
    assert values(got) == [wanted("silu", v, -7) * oracle.power(-7) for v in values(x)]
    assert values(dx) == [a * d for a, d in zip(values(e), slopes, strict=True)]


def test_of_an_exact_value_and_with_a_float_slope() -> None:
    x = Exact([(integer(1, (4, 3), 16), np.array([3, -7, 1]))], -22, np.array([5, -(2**20), 2**21]))
    got, _ = run(silu, x, quantize=store, derivative=store)
    assert got.codes.reshape(-1).tolist() == [wanted("silu", v, -7) for v in values(x)]
    e = integer(2, (4, 3), 8, -9)
    _, (dx,) = run(silu, x, error=e, quantize=store, derivative=lambda v: v.to_float32())
    assert dx.tobytes() == (e.to_float32() * Slope(x.to_qtensor()).to_float32()).tobytes()
    for op, more in ((sigmoid, {}), (silu, {"derivative": store})):
        _, (dx,) = run(op, x, error=e.to_float32(), quantize=store, **more)
        assert dx.dtype == np.float32


@pytest.mark.slow
def test_what_is_refused() -> None:
    x = integer(1, (3,), 8, -20)
    for call in (
        lambda: quantize(Silu(x), Direct(8), rounding="stochastic", words=np.zeros(3, np.uint32)),
        lambda: quantize(Silu(x), Direct(8, lsb=-33)),
    ):
        with pytest.raises(
            FormatError, match="integer silu rounds deterministically, to at most 32 fraction"
        ):
            call()
    with pytest.raises(FormatError, match="not by its maximum"):
        quantize(Sigmoid(x), Shift(8))
    with pytest.raises(ContainerError, match="sigmoid of codes at exponent -501"):
        sigmoid(Tensor(integer(1, (3,), 8, -501)), quantize=store)
    with pytest.raises(ContainerError, match="a rounded code is beyond 62 bits"):
        quantize(Silu(QTensor(np.array([1 << 60]), 0)), Direct(8))
    for op, more in ((sigmoid, {}), (silu, {"derivative": store})):
        with pytest.raises(ContainerError, match="product with the derivative is beyond int64"):
            run(op, x, error=QTensor(np.full((3,), 2**56), 0), quantize=store, **more)
    with pytest.raises(ContainerError, match=r"leaves no exact derivative"):
        run(sigmoid, x, error=x, quantize=lambda v: quantize(v, Direct(8, lsb=-31)))


# -- float32 -------------------------------------------------------------------------------------


def nearest(curve: str, x: Fraction, factor: Fraction = Fraction(1)) -> Fraction:
    """float32 of factor * curve(x), correctly rounded."""

    def bounds(precision: int) -> tuple[Fraction, Fraction]:
        low, high = sorted(factor * end for end in curve_bounds(curve, x, precision))
        return low, high

    return Fraction(decided(bounds, to_float32))


@pytest.mark.parametrize("curve", FLOATS)
def test_float_curves(curve: str) -> None:
    for exponent in (-20, 0, 2, 4, 6):
        x = floating(exponent + 50, (60,), exponent)
        assert values(CURVES[curve].of_floats(x)) == [nearest(curve, v) for v in values(x)]


def test_float_curves_at_their_ends() -> None:
    x = np.array([0, -1e4, 1e4, -3e38, 3e38, -104], np.float32)
    assert Silu.of_floats(x).tolist()[:5] == [0, 0, 1e4, 0, float(x[4])] and Silu.of_floats(x)[5] < 0
    assert Sigmoid.of_floats(x).tolist()[:5] == [0.5, 0, 1, 0, 1]
    assert Slope.of_floats(x).tolist()[:5] == [0.5, 0, 1, 0, 1]
    assert np.isnan(Silu.of_floats(np.array([np.nan], np.float32))).all()


class Doubled(Kept):
    """Twice the value that was given."""

    def __init__(self, value: np.ndarray) -> None:
        self.value, self.shape = value, value.shape

    def load(self) -> np.ndarray:
        return self.value * np.float32(2)


def test_float_gradients_and_what_the_tape_holds() -> None:
    x, e = floating(1, (4, 25), 2), floating(2, (4, 25))
    got, (dx,) = run(silu, x, error=e, quantize=lambda v: v, derivative=store)
    assert values(got) == [nearest("silu", v) for v in values(x)]
    assert values(dx) == [nearest("slope", v, a) for v, a in zip(values(x), values(e), strict=True)]
    _, (dx,) = run(silu, x, error=e, quantize=lambda v: v, derivative=store, keep=Doubled)
    assert values(dx) == [nearest("slope", 2 * v, a) for v, a in zip(values(x), values(e), strict=True)]
    got, (dx,) = run(sigmoid, x, error=e, quantize=lambda v: v)
    pairs = list(zip(values(got), values(e), strict=True))
    assert values(dx) == [mul32(a, mul32(y, add32(1, -y))) for y, a in pairs]
    _, (dx,) = run(sigmoid, x, error=e, quantize=lambda v: v, keep=Doubled)
    assert values(dx) == [mul32(a, mul32(2 * y, add32(1, -2 * y))) for y, a in pairs]


@njit
def _both(x: np.ndarray, quick: np.ndarray, plain: np.ndarray) -> None:
    for i in range(x.size):
        quick[i], plain[i] = fp32.decay64(x[i]), fp32.exp64(-abs(x[i]))


@pytest.mark.slow
def test_decay64_has_the_bits_of_exp64() -> None:
    draw = np.random.default_rng(5)
    x = np.concatenate([draw.random(4000) * 708, draw.normal(size=4000), [0.0, 708.0, 1e-310]])
    quick, plain = np.empty(x.size), np.empty(x.size)
    _both(x, quick, plain)
    assert quick.tobytes() == plain.tobytes()
    ends: Callable[[float], float] = njit(fp32.decay64)
    assert ends(1e6) == ends(708.0) == fp32.exp64(-708.0)
