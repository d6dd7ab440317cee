"""Norms: sums of squares in a defined order, and of codes exact, against plain Python."""

from __future__ import annotations

from fractions import Fraction
from math import sqrt, ulp

import numpy as np
import pytest

from intnet.ops.kernels import norms as lib
from intnet.spec.float32 import to_float32
from intnet.spec.float64 import sum64
from tests.support import cases
from tests.support.opcheck import threads

F32 = np.float32


@pytest.mark.slow
@pytest.mark.parametrize("n", [0, 1, 2, 1023, 1024, 1025, 3000, 4095, 4096, 4097, 9000])
def test_sums_of_squares_and_of_magnitudes(n: int) -> None:
    """float64, in chunks of 1024: a sum in another order has other bits."""
    x = np.array([float(v) for v in cases.random_float32(n, n, 3)], F32)
    xs = [Fraction(float(v)) for v in x]
    for threads_ in (1, 2):
        with threads(threads_):
            assert lib.sum_of_squares(x) == sum64([v * v for v in xs])
            assert lib.sum_of_magnitudes(x) == sum64([abs(v) for v in xs])
    exact = sum(v * v for v in xs)
    assert abs(Fraction(lib.sum_of_squares(x)) - exact) <= n * Fraction(ulp(float(exact)))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_sums_of_squares_of_codes_are_exact(dtype: type) -> None:
    bits = min(np.iinfo(dtype).bits, 32)
    lo = -(2 ** (bits - 1))
    for codes in ([], [0], [lo], cases.corners(bits), cases.random_codes(1, 999, lo, -lo - 1)):
        assert lib.code_squares(np.array(codes, dtype)) == sum(c * c for c in codes)


def test_a_sum_of_squares_beyond_int64() -> None:
    codes = np.full((3, 20000), -(2**31), np.int32)
    assert lib.code_squares(codes) == 60000 * 2**62


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32])
def test_codes_over_a_norm_are_rounded_twice(dtype: type) -> None:
    """In float64, then in float32, as `unit_length` says."""
    info = np.iinfo(dtype)
    codes = [*cases.corners(info.bits), *cases.random_codes(2, 999, info.min, info.max)]
    for norm in (1.0, sqrt(sum(c * c for c in codes)), sqrt(3.0), 2.0**40):
        got = lib.divided(np.array(codes, dtype).reshape(1, -1), norm)
        assert got.dtype == np.float32 and got.shape == (1, len(codes))
        assert [Fraction(float(v)) for v in got[0]] == [to_float32(Fraction(code / norm)) for code in codes]
