"""Exact sums over rows, and weighted sums of two tensors: Python integers judge, containers are full."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intnet.errors import ContainerError
from intnet.numbers.qtensor import QTensor
from intnet.ops.kernels import reduce
from intnet.ops.kernels.combine import combine
from intnet.ops.kernels.reduce import column_products, column_sums
from tests.support.opcheck import integer, threads

SEEDS = st.integers(0, 2**32)
SHAPES = st.sampled_from(
    [(1, 1), (7, 3), (1, 5), (2, 3, 3, 2), (33, 1), (64, 1), (6, 16), (5, 17), (96, 2), (3, 70)]
)
BITS = st.sampled_from([2, 8, 9, 16, 17, 27, 31, 32])


def columns(q: QTensor) -> list[list[int]]:
    """The codes of each channel as Python integers."""
    flat = [int(code) for code in q.codes.reshape(-1)]
    return [flat[c :: q.shape[-1]] for c in range(q.shape[-1])]


def check(a: QTensor, b: QTensor) -> None:
    sums, dots, tops = column_products(a, b)
    left, right = columns(a), columns(b)
    assert sums.codes.tolist() == [sum(x) for x in left] == column_sums(a).codes.tolist()
    assert dots == [sum(u * v for u, v in zip(x, y, strict=True)) for x, y in zip(left, right, strict=True)]
    assert tops.tolist() == [max(map(abs, x)) for x in left]
    assert sums.exponent == a.exponent
    assert all(abs(sum(x)) <= sums.bound for x in left)


@pytest.mark.slow
@given(shape=SHAPES, bits=st.tuples(BITS, BITS), limits=st.booleans(), seed=SEEDS)
def test_sums_and_products(shape: tuple[int, ...], bits: tuple[int, int], limits: bool, seed: int) -> None:
    a, b = (integer(seed + k, shape, bits[k], -7, limits) for k in (0, 1))
    check(a, b)
    check(a, a)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(3000, 16), (1025, 33), (40001, 1), (250, 11, 7, 5)], ids=str)
def test_many_blocks_on_several_threads(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    a = QTensor(rng.integers(-127, 128, shape).astype(np.int8), -7)
    b = QTensor(rng.integers(-(2**31), 2**31, shape).astype(np.int32), -15)
    for n in (1, 2):
        with threads(n):
            check(a, b)
            check(b, b)


@pytest.mark.slow
@pytest.mark.parametrize("bits", [31, 62])
@pytest.mark.parametrize("share", [1, 2, 3, 4, 5, 64])
def test_a_sum_holds_as_many_rows_as_the_bound_says(share: int, bits: int) -> None:
    """The largest codes whose products fit `share` times below 2^bits, all of one sign, then of both."""
    top = math.isqrt(((1 << bits) - 1) // share)
    assert top**2 * share < 1 << bits <= (top + 1) ** 2 * share
    codes = np.full((2 * share + 1, 3), top)
    codes[:, 1] = -top
    codes[::2, 2] = -top
    a = QTensor(codes, 0)
    check(a, a)
    check(a, QTensor(codes[::-1].copy(), 0))
    check(QTensor(codes // 2, 0, bound=a.bound), QTensor(np.full_like(codes, -top), 0))


@pytest.mark.slow
@pytest.mark.parametrize(("wide", "narrow"), [(45, 20), (32, 32), (38, 38), (62, 7)])
def test_products_beyond_int64_are_split(wide: int, narrow: int) -> None:
    a, b = integer(1, (3, 4), wide, limits=True), integer(2, (3, 4), narrow, limits=True)
    if a.bound * 3 < 1 << 62:
        check(a, b)
    check(b, a)


def test_what_no_container_holds_is_refused() -> None:
    big = QTensor(np.full((2, 1), 1 << 61), 0)
    with pytest.raises(ContainerError, match="bn/mu: 2 codes up to 2305843009213693952 do not fit int64"):
        column_sums(big, "bn/mu")
    with pytest.raises(ContainerError, match="bn/mu: 2 codes"):
        column_products(big, big, "bn/mu", "bn/sigma")
    half = QTensor(big.codes >> 2, 0)
    with pytest.raises(ContainerError, match=r"bn/sigma: products of codes up to \d+ and \d+ pass two limbs"):
        column_products(half, half, "bn/mu", "bn/sigma")


def test_no_rows_sum_to_zero() -> None:
    empty = QTensor(np.zeros((0, 3), np.int32), -5)
    sums, dots, tops = column_products(empty, empty)
    assert (sums.codes.tolist(), dots, tops.tolist()) == ([0, 0, 0], [0, 0, 0], [0, 0, 0])


@pytest.mark.parametrize(("limit", "bits"), [("INT64_BOUND", 31), ("INT32_BOUND", 14)])
def test_a_longer_sum_than_the_bound_allows_would_be_seen(
    limit: str, bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test of the limits above can fail."""
    codes = np.full((17, 1), (1 << bits) - 1)
    check(QTensor(codes, 0), QTensor(codes, 0))
    monkeypatch.setattr(reduce, limit, getattr(reduce, limit) << 4)
    with pytest.raises(AssertionError):
        check(QTensor(codes, 0), QTensor(codes, 0))


# -- weighted sums ------------------------------------------------------------------------------


@pytest.mark.slow
@given(
    bits=st.tuples(BITS, BITS), a=st.integers(-(2**20), 2**20), b=st.sampled_from([1, 3, -26]),
    limits=st.booleans(), seed=SEEDS,
)  # fmt: skip
def test_combine(bits: tuple[int, int], a: int, b: int, limits: bool, seed: int) -> None:
    u, v = (integer(seed + k, (3, 5), bits[k], 0, limits) for k in (0, 1))
    got = combine(a, u, b, v, -23)
    want = [a * int(x) + b * int(y) for x, y in zip(u.codes.reshape(-1), v.codes.reshape(-1), strict=True)]
    assert got.codes.reshape(-1).tolist() == want
    assert (got.shape, got.exponent, got.bound) == ((3, 5), -23, max(map(abs, want)))


def test_combine_beyond_int64_is_refused() -> None:
    u = QTensor(np.array([1 << 61]), 0)
    one = QTensor(np.array([1]), 0)
    assert combine(1, u, -1, QTensor(np.array([(1 << 61) - 1]), 0), 0).codes.tolist() == [1]
    assert combine(-1, u, 3, one, 0).bound == (1 << 61) - 3
    top = QTensor(np.array([1 << 29, -(1 << 29)], np.int32), 0)
    for a, dtype in ((2, np.int32), (3, np.int64)):  # 3 * 2^29 - 2^29 would fit int32; that product alone not
        got = combine(a, top, -1, top, 0)
        assert got.codes.dtype == dtype and got.codes.tolist() == [(a - 1) << 29, -(a - 1) << 29]
    with pytest.raises(ContainerError, match="fc/W: the update needs 64 bits"):
        combine(1, u, -1, u, 0, "fc/W: the update")
