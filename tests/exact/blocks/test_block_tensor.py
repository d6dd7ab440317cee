"""Block tensors: e, codes, bits, saturation and bytes of every block equal the oracle's."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intnet.errors import FormatError, NumberError, ShapeError
from intnet.exact.blocks.block_float import quantize_blocks, unpack
from intnet.spec import block_float
from tests.support.blocks import (
    IMAGE,
    MATRIX,
    WEIGHT,
    WIDTHS,
    Axes,
    Bits,
    counts,
    differences,
    expected,
    numbers,
    table,
    uniform,
    widths,
)
from tests.support.opcheck import threads, values

SHAPES: list[tuple[tuple[int, ...], Axes]] = [
    *((shape, MATRIX) for shape in product((1, 3, 4, 5, 8, 9), repeat=2)),
    *(((n, 2, 3, c), IMAGE) for n, c in ((1, 1), (4, 4), (5, 3), (3, 17), (12, 5), (13, 2))),
    *(((o, c, 2, 3), WEIGHT) for o, c in ((1, 1), (4, 4), (5, 3), (3, 17), (12, 5))),
    ((16, 3, 3, 3), WEIGHT),
    ((20, 16, 1, 1), WEIGHT),
]


def check(x: np.ndarray, bits: Bits, axes: Axes) -> Any:
    """Both worlds agree on every part, and on what the bytes are read back as."""
    want = expected(x, bits, axes)
    got = quantize_blocks(x, bits, axes)
    assert differences(got, want) == []
    back = unpack(got.pack(), got.shape, axes, got.bits)
    read = block_float.unpack(block_float.pack(want), want.shape, axes, want.bits)
    assert differences(back, read) == []
    assert read.real() == want.real()
    return got


def rows(xs: list[float], top: float) -> np.ndarray:
    """All of `xs` in blocks of a matrix whose greatest number is `top`, one in each block."""
    out = np.full((4, -(-len(xs) // 15) * 4), top, np.float32)
    free = [p for p in np.ndindex(*out.shape) if p[0] or p[1] % 4]
    for place, x in zip(free, xs, strict=False):
        out[place] = x
    return out


def near(x: float) -> list[float]:
    """A float32 and its two neighbours."""
    v = np.float32(x)
    return [float(np.nextafter(v, np.float32(-np.inf))), float(v), float(np.nextafter(v, np.float32(np.inf)))]


# -- codes -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("e", [-128, -127, -126, -119, -100, -1, 0, 1, 3, 100, 127])
@pytest.mark.parametrize("b", WIDTHS)
def test_every_tie_and_its_neighbours(b: int, e: int) -> None:
    """(k + 1/2) units for all k, k units, and the float32 numbers beside them, of both signs."""
    unit = 2.0 ** (e - b + 1)
    halves = np.arange(-(2**b) + 1, 2**b) / 2 * unit
    xs = [v for half in halves for v in near(half) if abs(v) < 2.0**e]
    got = check(rows(xs, 2.0 ** (e - 1)), b, MATRIX)
    assert (got.exponents == e).all()
    assert (got.saturated > 0) == (b > 0)


@pytest.mark.slow
@pytest.mark.parametrize("p", [*range(-149, -120), -64, -1, 0, 1, 63, 125, 126, 127])
def test_a_greatest_number_at_and_beside_a_power_of_two(p: int) -> None:
    """2^p has e = p + 1, the number below it p; what would be below -128 is zero; 128 is too much."""
    for x, b, sign in product(near(2.0**p), WIDTHS, (1, -1)):
        array = np.array([[0, sign * x], [x / 4, 0]], np.float32)
        if abs(x) >= 2.0**127:
            with pytest.raises(NumberError, match=r"conv1/x0.*\(0, 1\)"):
                quantize_blocks(array, b, MATRIX, where="conv1/x0")
            continue
        got = check(array, b, MATRIX)
        least = next(k for k in range(-149, 129) if abs(Fraction(float(np.float32(x)))) < Fraction(2) ** k)
        assert got.exponents.item() == max(least, -128)
        assert not got.values.any() or least >= -128


def test_below_the_least_exponent_a_block_is_zero_whatever_its_bits() -> None:
    for x, e in ((2.0**-129, -128), (2.0**-129 - 2.0**-149, None), (2.0**-130, None), (2.0**-149, None)):
        for b in WIDTHS:
            got = check(np.full((4, 4), x, np.float32), b, MATRIX)
            assert got.exponents.item() == -128
            assert bool(got.values.any()) == (e is not None and b > 0)
            assert got.saturated == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 2.0**127, -(2.0**127), 3e38])
@pytest.mark.parametrize("b", WIDTHS)
def test_what_has_no_block_exponent_is_named(b: int, bad: float) -> None:
    x = np.ones((5, 2, 2, 6), np.float32)
    x[4, 1, 0, 5] = bad
    with pytest.raises(NumberError, match=r"fc2/e3.*\(4, 1, 0, 5\)"):
        quantize_blocks(x, b, IMAGE, where="fc2/e3")


def test_zeros_of_both_signs() -> None:
    for b, shape in product(WIDTHS, ((4, 4), (1, 1), (5, 9))):
        for zero in (0.0, -0.0):
            got = check(np.full(shape, zero, np.float32), b, MATRIX)
            assert (got.exponents == -128).all() and not np.signbit(got.values).any()
    mixed = check(np.array([[-1e-30, 1.0], [-0.0, -0.6]], np.float32), 2, MATRIX)
    assert mixed.values.tolist() == [[0, 1], [0, -1]]
    assert not np.signbit(mixed.values[mixed.values == 0]).any()


def test_saturation_is_counted_code_by_code() -> None:
    """The greatest code stands for all from (2^b - 1)/2 units on; 0 bits count nothing."""
    x = np.array([[0.999, -0.999, 0.9921875, -0.9921875], [0.99, 0.5, 0, 0]], np.float32)
    for b, n in ((8, 2), (6, 5), (4, 5), (2, 5), (0, 0)):
        assert check(x, b, MATRIX).saturated == n
    assert check(np.full((9, 9), 0.999, np.float32), 8, MATRIX).saturated == 81


# -- shapes and maps -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "axes"), SHAPES, ids=str)
def test_shapes(shape: tuple[int, ...], axes: Axes) -> None:
    """Whole and partial blocks on both axes, one width and a map of all widths."""
    x = numbers(1, shape, axes, uniform(2, -140, 126))
    for bits in (4, 8, widths(3, shape, axes), np.zeros(counts(shape, axes), np.uint8)):
        check(x, bits, axes)


@pytest.mark.slow
@given(
    rank=st.sampled_from([2, 4]), data=st.data(), seed=st.integers(0, 2**32), low=st.integers(-149, 126),
    spread=st.integers(0, 250),
)  # fmt: skip
@settings(max_examples=60)
def test_any_blocks(rank: int, data: st.DataObject, seed: int, low: int, spread: int) -> None:
    sizes = st.integers(1, 9) if rank == 2 else st.integers(1, 5)
    shape = tuple(data.draw(st.lists(sizes, min_size=rank, max_size=rank)))
    axes = MATRIX if rank == 2 else data.draw(st.sampled_from([IMAGE, WEIGHT]))
    x = numbers(seed, shape, axes, uniform(seed, low, min(low + spread, 126)))
    check(x, widths(seed + 1, shape, axes), axes)


@pytest.mark.slow
def test_views_of_other_arrays() -> None:
    x = numbers(1, (10, 3, 3, 12), IMAGE, uniform(2, -3, 3))
    for view in (x[::2], x[:, :, ::-1], x[..., 1:8], x.transpose(0, 2, 1, 3), np.asfortranarray(x)):
        check(view, widths(4, view.shape, IMAGE), IMAGE)


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2])
def test_threads_do_not_change_a_bit(n: int) -> None:
    x = numbers(5, (33, 3, 3, 21), IMAGE, uniform(6, -10, 10))
    with threads(n):
        check(x, widths(7, x.shape, IMAGE), IMAGE)


def test_a_map_of_another_shape_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"\(2, 2\)"):
        quantize_blocks(np.ones((8, 9), np.float32), np.full((2, 2), 4, np.uint8), MATRIX)


# -- bytes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [-1, 1, 9, 256])
def test_a_width_that_no_mantissa_has_is_refused(bits: int) -> None:
    with pytest.raises(FormatError, match=f"mantissas of {bits} bits; use one of 0, 2, 4, 6, 8"):
        quantize_blocks(np.ones((4, 4), np.float32), bits, MATRIX)


def test_bytes_by_hand() -> None:
    """1 and -1/2 in 4 bits: e = 1, codes 4 and -2 at 2^-2; in 6 bits 16 and -16; nothing between."""
    x = np.zeros((2, 12), np.float32)
    x[0, 0], x[1, 1], x[0, 4], x[0, 8], x[0, 9] = 1, -0.5, 7, 2.0**-128, -(2.0**-128)
    got = quantize_blocks(x, np.array([[4, 0, 6]], np.uint8), MATRIX)
    first = bytes([1, 0x04, 0x00, 0xE0, 0, 0, 0, 0, 0])
    word = 16 + ((-16) % 64) * 64
    last = bytes([-127 % 256, word % 256, word // 256, *([0] * 10)])
    assert got.pack().tobytes() == first + last and got.packed_bytes == 9 + 13
    back = unpack(got.pack(), (2, 12), MATRIX, got.bits)
    assert back.values.tolist() == got.values.tolist() and not back.values[:, 4:8].any()


def test_rows_of_a_block_run_along_its_second_axis() -> None:
    """Codes 1 .. 16 of 6 bits, by their places."""
    for shape, axes in (((4, 4), MATRIX), ((4, 1, 1, 4), IMAGE), ((4, 4, 1, 1), WEIGHT)):
        x = (np.arange(1, 17, dtype=np.float32) * 2 - 1).reshape(shape)
        word = int.from_bytes(quantize_blocks(x, 6, axes).pack()[1:].tobytes(), "little")
        assert [word >> 6 * k & 63 for k in range(16)] == list(range(1, 32, 2))


def test_bytes_of_blocks_follow_their_index() -> None:
    """(Cout, Cin, kh, kw): kernel positions run fastest."""
    x = np.zeros((5, 5, 1, 2), np.float32)
    for i, (o, c, k) in enumerate(product((0, 4), (0, 4), (0, 1))):
        x[o, c, 0, k] = 2.0**i
    assert quantize_blocks(x, 2, WEIGHT).pack()[::5].tolist() == list(range(1, 9))


def test_damaged_bytes_are_refused() -> None:
    got = quantize_blocks(np.ones((5, 5), np.float32), 4, MATRIX)
    data = got.pack()
    for damaged in (data[:-1], np.append(data, np.uint8(0)), data[:0], data.view(np.int8)):
        with pytest.raises(ShapeError, match="36 bytes"):
            unpack(damaged, (5, 5), MATRIX, got.bits)


def test_the_oracles_blocks_by_hand() -> None:
    """0.8 and -0.3 have e = 0: codes 6 and -2 at 2^-3, 1 and -1 at 2^-1; 0.97 is limited in 4 bits."""
    q = block_float.quantize(
        block_float.Tensor((1, 3), [Fraction(8, 10), Fraction(-3, 10), Fraction(0)]), 4, MATRIX
    )
    assert (q.codes, q.exponents, q.saturated) == ([6, -2, 0], {(0, 0): 0}, 0)
    q = block_float.quantize(block_float.Tensor((1, 2), [Fraction(97, 100), Fraction(1, 16)]), 4, MATRIX)
    assert (q.codes, q.saturated) == ([7, 0], 1)
    assert values(np.array([0.875], np.float32)) == [q.real().values[0]]
    assert table(np.array([[1, 2]])) == {(0, 0): 1, (0, 1): 2}
