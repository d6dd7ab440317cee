"""fp32 against an oracle of plain integers, bit by bit.

The oracle is `float_oracle.py`; exp, log and tanh are judged by `decimal` with 60 digits. Products and
convolutions are tested in `test_float32_kernels.py`.
"""

from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest

from intnet.errors import FormatError, ShapeError
from intnet.machine.instructions import fma32
from intnet.machine.words import add_product
from intnet.numbers import fp32
from tests.support.float_oracle import (
    CORNERS,
    F32,
    UNIT,
    draw,
    float32_patterns,
    fma_cases,
    fma_oracle,
    from_hex,
    normal_words,
    round32,
    same,
    scaled,
    to_float,
)
from tests.support.machines import fma_in_kernel

# --- fma32 --------------------------------------------------------------------------------------


def twins(a: F32, b: F32, c: F32) -> F32:
    """fma32 of every three, by the plain twin."""
    flat = [fma32(*three) for three in zip(a.ravel(), b.ravel(), c.ravel(), strict=True)]
    return np.array(flat, np.float32).reshape(a.shape)


def test_round32_of_the_oracle_is_the_hardware_rounding() -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal(3000) * 2.0 ** rng.integers(-151, 128, 3000)
    x = np.concatenate([x, [2.0**-150, 3 * 2.0**-150, 1 + 2.0**-24, 1 + 3 * 2.0**-24, 2.0**128 - 2.0**103]])
    for value in x:
        exact = Fraction(float(value)) * 2 ** (UNIT + 1074)
        with np.errstate(over="ignore", under="ignore"):
            assert to_float(round32(exact.numerator, 1074)) == float(np.float32(value))


@pytest.mark.slow
def test_fma32_of_kernels_and_plain_twins_round_once() -> None:
    a, b, c = fma_cases()
    exact = [fma_oracle(*map(scaled, triple)) for triple in zip(a, b, c, strict=True)]
    kernel = fma_in_kernel(a, b, c)
    assert np.array_equal(kernel, np.array([to_float(x) for x in exact], np.float32))
    same(kernel, twins(a, b, c))
    same(kernel, add_product(a, b, c))


def test_fma32_cases_tell_one_rounding_from_two() -> None:
    a, b, c = fma_cases()
    with np.errstate(all="ignore"):
        in_float32 = a * b + c
        in_float64 = (a.astype(np.float64) * b + c).astype(np.float32)
    fused = twins(a, b, c)
    assert np.sum(in_float32 != fused) > 1000
    assert np.sum(in_float64 != fused) > 10


def test_fma32_of_infinities_and_nan() -> None:
    inf, one = np.float32(np.inf), np.float32(1)
    for a, b, c in [(inf, one, one), (one, one, -inf), (inf, one, -inf), (inf, np.float32(0), one)]:
        got = fma_in_kernel(*(np.array([x]) for x in (a, b, c)))[0]
        twin = fma32(a, b, c)
        assert type(twin) is np.float32
        np.testing.assert_equal(got, twin)
        with np.errstate(invalid="ignore"):
            np.testing.assert_equal(got, a * b + c)


@pytest.mark.slow
def test_fma_of_a_scalar_and_arrays() -> None:
    _, b, c = (x[:6000:5].reshape(2, 3, -1) for x in fma_cases())
    for a in CORNERS[::3]:
        for scalar in (a, -a):
            same(fp32.fma(scalar, b, c), twins(np.full_like(b, scalar), b, c))
            same(fp32.fma(scalar, b.T, c.T), twins(np.full_like(b.T, scalar), b.T, c.T))
    with pytest.raises(ShapeError):
        fp32.fma(np.float32(1), b, c[0])
    with pytest.raises(FormatError):
        fp32.fma(np.float32(1), b, c.astype(np.float64))


# --- exp, log, tanh, sqrt, normal ---------------------------------------------------------------


def exact_tanh(x: Decimal) -> Decimal:
    if abs(x) < Decimal("1e-8"):
        return x - x**3 / 3 + 2 * x**5 / 15
    e = (2 * x).exp()
    return (e - 1) / (e + 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "exact", "low", "high"),
    [
        (fp32.exp, Decimal.exp, -103.9, 88.7228),
        (fp32.log, Decimal.ln, 1e-45, 3.4e38),
        (fp32.tanh, exact_tanh, -40.0, 40.0),
    ],
)
def test_transcendentals_are_within_one_unit_in_the_last_place(
    rule: Callable[[F32], F32], exact: Callable[[Decimal], Decimal], low: float, high: float
) -> None:
    x = float32_patterns(7, low, high)
    got = rule(x)
    worst = Decimal(0)
    with localcontext(prec=60):
        for value, result in zip(x, got, strict=True):
            truth = exact(Decimal(float(value)))
            _, exponent = np.frexp(float(truth))
            unit = Decimal(2) ** max(int(exponent) - 24, -149)
            worst = max(worst, abs(Decimal(float(result)) - truth) / unit)
    assert worst <= Decimal("0.50001")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "exact", "points"),
    [
        (fp32.exp64, Decimal.exp, [*np.linspace(-700.0, 709.7, 997), 1e-300, -1e-20]),
        (fp32.log64, Decimal.ln, [*np.geomspace(5e-324, 1.7e308, 997), *np.linspace(0.6, 1.6, 302)]),
        (fp32.tanh64, exact_tanh, [*np.linspace(-21.0, 21.0, 998), *np.geomspace(1e-300, 1.0, 300)]),
    ],
)
def test_float64_rules_are_accurate_far_beyond_float32(
    rule: Callable[[float], float], exact: Callable[[Decimal], Decimal], points: list[float]
) -> None:
    with localcontext(prec=60):
        for point in map(float, points):
            truth = exact(Decimal(point))
            assert abs(Decimal(float(rule(point))) - truth) <= abs(truth) * Decimal("1.5e-15")


def test_exp_log_tanh_sqrt_known_bits() -> None:
    """Correctly rounded values, computed once with 60 digits."""
    same(fp32.exp(from_hex(EXP_KNOWN[0])), from_hex(EXP_KNOWN[1]))
    same(fp32.log(from_hex(LOG_KNOWN[0])), from_hex(LOG_KNOWN[1]))
    same(fp32.tanh(from_hex(TANH_KNOWN[0])), from_hex(TANH_KNOWN[1]))
    same(fp32.sqrt(np.array([0.0, -0.0, 2.0, 0.25, 1e-45, 3.0], np.float32)), from_hex(SQRT_KNOWN))


# x = 0, 1, -1, 0.5, 10, -20, 88, -87, -100, 1e-10
EXP_KNOWN = (
    "00000000 3F800000 BF800000 3F000000 41200000 C1A00000 42B00000 C2AE0000 C2C80000 2EDBE6FF",
    "3F800000 402DF854 3EBC5AB2 3FD3094C 46AC14EE 310DA433 7EF882B7 00B33687 0000001B 3F800000",
)
# x = 1, 2, 10, 0.5, 0.1, 1e-45, 3.4e38, 1 - 2**-24, 1 + 2**-23
LOG_KNOWN = (
    "3F800000 40000000 41200000 3F000000 3DCCCCCD 00000001 7F7FC99E 3F7FFFFF 3F800001",
    "00000000 3F317218 40135D8E BF317218 C0135D8E C2CE8ED0 42B171AB B3800000 33FFFFFF",
)
# x = 0, -0.0, 0.5, -0.5, 1, 0.1, 3, 9, -10, 1e-30
TANH_KNOWN = (
    "00000000 80000000 3F000000 BF000000 3F800000 3DCCCCCD 40400000 41100000 C1200000 0DA24260",
    "00000000 80000000 3EEC9A9F BEEC9A9F 3F42F7D6 3DCC1EBC 3F7EBBE9 3F7FFFFF BF800000 0DA24260",
)
SQRT_KNOWN = "00000000 80000000 3FB504F3 3F000000 1A3504F3 3FDDB3D7"


def test_transcendentals_at_the_ends_of_the_range() -> None:
    inf, nan = np.inf, np.nan
    ends = np.array([inf, -inf, nan, 3e38, -3e38, 88.72284, 88.72283], np.float32)
    got = fp32.exp(ends)
    np.testing.assert_array_equal(got[:6], np.array([inf, 0, nan, inf, 0, inf], np.float32))
    assert np.isfinite(got[6])
    logs = fp32.log(np.array([0.0, -0.0, -1.0, inf, nan], np.float32))
    np.testing.assert_array_equal(logs, np.array([-inf, -inf, nan, inf, nan], np.float32))
    tanhs = fp32.tanh(np.array([inf, -inf, nan, 30], np.float32))
    np.testing.assert_array_equal(tanhs, np.array([1, -1, nan, 1], np.float32))
    assert np.isnan(fp32.sqrt(np.array([-1.0], np.float32))[0])
    assert fp32.exp64(710.0) == inf and fp32.exp64(-746.0) == 0.0 and fp32.exp64(-745.0) == 5e-324


def test_array_functions_keep_shapes_and_refuse_other_types() -> None:
    x = draw(3, 3, 4, 5)
    for rule in (fp32.exp, fp32.tanh, fp32.sqrt, fp32.log):
        got = rule(np.abs(x).transpose(2, 0, 1))
        assert got.shape == (5, 3, 4)
        same(got, rule(np.ascontiguousarray(np.abs(x).transpose(2, 0, 1))))
        assert rule(np.zeros((0, 2), np.float32)).shape == (0, 2)
        with pytest.raises(FormatError, match="float64"):
            rule(x.astype(np.float64))
    with pytest.raises(FormatError, match="uint32"):
        fp32.normal(np.zeros(3, np.int64))


def test_normal_is_the_inverse_distribution() -> None:
    words = normal_words()
    exact = NormalDist()
    expected = np.array([exact.inv_cdf((int(w) + 0.5) / 2**32) for w in words])
    np.testing.assert_allclose(fp32.normal(words), expected, rtol=1e-9, atol=0)


def test_normal_is_exactly_antisymmetric() -> None:
    words = normal_words()
    assert np.array_equal(fp32.normal(words), -fp32.normal(~words))


def test_normal_has_the_moments_of_a_normal() -> None:
    z = fp32.normal((np.arange(2**16, dtype=np.uint32) << np.uint32(16)) + np.uint32(2**15))
    assert abs(z.mean()) < 1e-8 and abs(z.var() - 1) < 1e-3 and z.dtype == np.float64
