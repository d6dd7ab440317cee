"""Quotients, residuals and typed bytes: compiled, and their plain twins, against Fractions."""

from collections.abc import Callable
from fractions import Fraction
from math import floor, ldexp
from typing import Any

import numpy as np
import pytest

from intnet.machine import instructions
from intnet.machine.jit import njit
from tests.support import cases

F = Fraction


@njit
def compiled_quotients(nums: np.ndarray, den: float, inverse: float, out: np.ndarray) -> None:
    instructions.wide_vectors()
    for i in range(nums.shape[0]):
        out[i] = instructions.quotient(nums[i], den, inverse)


@njit
def compiled_residuals(nums: np.ndarray, den: float, q: np.ndarray, out: np.ndarray) -> None:
    for i in range(nums.shape[0]):
        out[i] = instructions.residual(nums[i], den, q[i])


def plain_quotients(nums: np.ndarray, den: float, inverse: float, out: np.ndarray) -> None:
    instructions.wide_vectors()
    out[:] = [instructions.quotient(num, den, inverse) for num in nums]


def plain_residuals(nums: np.ndarray, den: float, q: np.ndarray, out: np.ndarray) -> None:
    out[:] = [instructions.residual(num, den, x) for num, x in zip(nums, q, strict=True)]


DENS = [1, 2, 3, 7, 10, 49, 98, 641, 103 << 20, 2**13 - 1, 2**15, 3**20, 2**20 + 6, 2**26 + 1]
DENS += [2**51 - 1, 2**51, 3 * 2**49]


def numerators(den: int) -> list[int]:
    """Beside multiples and halves of `den`, up to +-2**51, and any others."""
    last = 2 * 2**51 // den
    ks = {k for k in (*range(9), *(last - d for d in range(9)), last // 3, last // 2 + 1) if 0 <= k <= last}
    near = {k * den // 2 + d for k in ks for d in (-1, 0, 1)}
    near |= set(cases.random_magnitudes(den % 1000, 50, 52)) | {2**51, 2**51 - 1}
    return sorted({s * v for v in near for s in (1, -1) if abs(v) <= 2**51})


@pytest.mark.slow
@pytest.mark.parametrize("den", DENS)
@pytest.mark.parametrize("scale", [0, -60, 60, 650])
@pytest.mark.parametrize("divide", [compiled_quotients, plain_quotients])
def test_quotients_are_on_the_side_of_every_half_that_the_exact_ones_are(
    den: int, scale: int, divide: Callable[..., None]
) -> None:
    """num/den times a power of two, as the power is put into den."""
    whole, scaled = numerators(den), ldexp(den, scale)
    got = np.empty(len(whole))
    divide(np.array(whole, np.float64), scaled, 1 / scaled, got)
    for num, q in zip(whole, got, strict=True):
        exact, mine = F(num, den), F(float(q)) * F(2) ** scale
        for half in (floor(2 * exact) + d for d in (-1, 0, 1, 2)):
            h = F(half, 2)
            assert (mine > h) == (exact > h) and (mine < h) == (exact < h), (num, den, half)


def test_a_reciprocal_alone_would_not_do() -> None:
    """49 * (1/49) is below 1: so the test above can fail."""

    def divide(nums: np.ndarray, _: float, inverse: float, out: np.ndarray) -> None:
        np.multiply(nums, inverse, out=out)

    for den in (49, 98, 103 << 20):
        with pytest.raises(AssertionError):
            test_quotients_are_on_the_side_of_every_half_that_the_exact_ones_are(den, 0, divide)


@pytest.mark.slow
@pytest.mark.parametrize("subtract", [compiled_residuals, plain_residuals])
def test_residuals_have_the_sign_of_the_exact_ones(subtract: Callable[..., None]) -> None:
    for den in DENS:
        nums = np.array(numerators(den), np.float64)
        for q in (nums / den, np.nextafter(nums / den, np.inf)):
            got = np.empty(len(nums))
            subtract(nums, float(den), q, got)
            want = [F(float(num)) - F(float(x)) * den for num, x in zip(nums, q, strict=True)]
            assert got.tolist() == [float(v) for v in want]
            assert [float(v) for v in np.sign(got)] == [(v > 0) - (v < 0) for v in want]


@njit
def compiled_copy(source: np.ndarray, target: np.ndarray, like: Any, n: int) -> None:
    for i in range(n):
        instructions.put(target, i, instructions.get(source, i, like))


def plain_copy(source: np.ndarray, target: np.ndarray, like: Any, n: int) -> None:
    for i in range(n):
        instructions.put(target, i, instructions.get(source, i, like))


@pytest.mark.slow
@pytest.mark.parametrize("copy", [compiled_copy, plain_copy])
@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int32, np.int64, np.float32])
def test_bytes_are_read_and_written_as_the_type_asked_for(copy: Callable[..., None], kind: Any) -> None:
    values = np.array([1, -2, 77, -128, 127, 0, 5, 6, 7], kind)
    target = np.zeros(9, kind)
    copy(values.view(np.uint8), target.view(np.uint8), kind(0), 8)
    assert target.tolist() == [*values[:8].tolist(), 0]


@njit
def compiled_sixteens(x: np.ndarray, bits: np.ndarray, products: np.ndarray) -> None:
    for i in range(bits.size):
        bits[i] = instructions.above_zero(x, 16 * i)
        instructions.times_bits(x, 16 * i, bits[i] ^ np.uint16(0x5A5A), products)


def plain_sixteens(x: np.ndarray, bits: np.ndarray, products: np.ndarray) -> None:
    for i in range(bits.size):
        bits[i] = instructions.above_zero(x, 16 * i)
        with np.errstate(invalid="ignore"):
            instructions.times_bits(x, 16 * i, bits[i] ^ np.uint16(0x5A5A), products)


@pytest.mark.slow
@pytest.mark.parametrize("sixteens", [compiled_sixteens, plain_sixteens])
def test_sixteen_float32_and_a_bit_of_each(sixteens: Callable[..., None]) -> None:
    """Of every kind of float32: which are above 0, and each times 1 or 0, with its sign."""
    few = np.float32([0.0, -0.0, 1e-45, -1e-45, 1.5, -3.0, np.inf, -np.inf, np.nan, 3e38, -(2.0**-126)])
    x = np.resize(few, 11 * 16)  # each kind in each of the sixteen places
    bits, products = np.zeros(11, np.uint16), np.zeros(11 * 16, np.float32)
    sixteens(x, bits, products)
    above = [v > 0 for v in x.tolist()]
    assert [bits[i // 16] >> i % 16 & 1 for i in range(x.size)] == above
    for i, v in enumerate(x.tolist()):
        one = above[i] != bool(0x5A5A >> i % 16 & 1)
        if np.isnan(v) or (np.isinf(v) and not one):
            assert np.isnan(products[i])
        else:
            assert products[i] == (v if one else 0.0) and np.signbit(products[i]) == np.signbit(x[i])


def plain_shaped(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All of it in a line, its second image in a line, and rows over all but the last axis; of a copy."""
    own = x + np.int16(1)
    line = instructions.shaped(own, (own.size,))
    rows = instructions.shaped(line, (own.shape[0] * own.shape[1], own.shape[2]))
    return line, instructions.shaped(own[1], (own.shape[1] * own.shape[2],)), rows


@pytest.mark.parametrize("shape", [(2, 3, 4), (5, 1, 1), (3, 0, 2), (2, 1, 7)])
@pytest.mark.parametrize("split", [njit(plain_shaped), plain_shaped])
def test_the_same_elements_under_another_shape(shape: tuple[int, ...], split: Callable[..., Any]) -> None:
    """They are shared, and kept while the result is."""
    x = np.arange(np.prod(shape), dtype=np.int16).reshape(shape)
    line, image, rows = split(x)
    assert line.tolist() == (x + 1).ravel().tolist() and image.tolist() == (x[1] + 1).ravel().tolist()
    assert rows.tolist() == (x + 1).reshape(-1, shape[2]).tolist()
    line[:] = -1
    assert (image == -1).all() and (rows == -1).all()


def test_only_what_is_contiguous_is_shaped() -> None:
    with pytest.raises(AssertionError, match="contiguous"):
        njit(lambda x: instructions.shaped(x, (x.size,)))(np.zeros((4, 4))[:, :2])
