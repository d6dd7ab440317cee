"""The float32 passes around the products: row sums against their oracle, the rest against NumPy, bit by bit.

NumPy rounds each of its operations once, so a formula written in it one operation at a time is the
order that the kernels keep, with infinities, NaN and the sign of zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from intnet.errors import FormatError, ShapeError
from intnet.ops.kernels import float32_rows as rows
from tests.support.float_oracle import (
    F32,
    UNIT,
    add_oracle,
    batched,
    chunked,
    draw,
    floats,
    ints,
    round32,
    same,
    scaled,
)
from tests.support.machines import float32_passes, vectors
from tests.support.opcheck import threads

SHAPES = [(1, 1), (5, 3), (2, 3, 5, 7), (1023, 2), (1024, 2), (1025, 17), (2, 625, 2, 3), (0, 4)]
ONE = scaled(np.float32(1))
SPECIAL = np.array(
    [0.0, -0.0, 1.5, -1.5, 2.0**-149, -(2.0**-149), 3e38, -3e38, np.inf, -np.inf, np.nan], np.float32
)


# -- sums over rows -----------------------------------------------------------------------------


def flat_ints(x: F32) -> Any:
    return ints(x.reshape(-1, x.shape[-1]))


def centred(x: F32, mean: F32) -> Any:
    """x - mean as the oracle's integers, each rounded once."""
    means = ints(mean)
    out = flat_ints(x)
    for m, c in np.ndindex(out.shape):
        out[m, c] = add_oracle(out[m, c], -means[c])
    return out


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sums_over_rows(shape: tuple[int, ...]) -> None:
    x, e, (mean, r) = draw(1, *shape), draw(2, *shape), vectors(3, shape[-1], 2)
    xi, ei, di, ri = flat_ints(x), flat_ints(e), centred(x, mean), ints(r)
    over = range(len(xi))

    def total(terms: Callable[[int, int], tuple[int, int]]) -> F32:
        per_image = int(np.prod(shape[1:-1]))
        return floats((shape[-1],), lambda c: batched([terms(m, c) for m in over], per_image))

    same(rows.sum_rows(x), total(lambda m, c: (xi[m, c], ONE)))
    same(rows.centred_squares(x, mean), total(lambda m, c: (di[m, c], di[m, c])))
    sums, dots = rows.error_sums(e, x, mean, r)
    same(sums, total(lambda m, c: (ei[m, c], ONE)))
    same(dots, total(lambda m, c: (ei[m, c], round32(di[m, c] * ri[c], UNIT))))


@pytest.mark.slow
def test_the_data_tells_other_orders_apart() -> None:
    """Descending rows and other chunks must change some sum."""
    x = draw(5, 2500, 8)
    right = rows.sum_rows(x).tolist()
    assert right != rows.sum_rows(x[::-1]).tolist()
    columns = ints(x).T
    for size in (1023, 1025, 4096):
        other = [chunked([(v, ONE) for v in column], size) for column in columns]
        assert right != floats((8,), lambda c, sums=other: sums[c]).tolist()


def test_a_zero_sum_is_positive() -> None:
    zero, one = np.full((3, 1), -0.0, np.float32), np.ones(1, np.float32)
    same(rows.sum_rows(zero), np.zeros(1, np.float32))
    for total in rows.error_sums(zero, zero, one, one):
        same(total, np.zeros(1, np.float32))


# -- one element at a time ----------------------------------------------------------------------


def specials(count: int) -> list[F32]:
    """`count` arrays [n, 11] and the channel vectors that meet every special value with every other."""
    n = len(SPECIAL)
    return [np.stack([np.roll(SPECIAL, (k + 1) * i) for i in range(n)]) for k in range(count)]


def operands(shape: tuple[int, ...], count: int) -> tuple[list[F32], list[F32]]:
    """(arrays of a shape, six channel vectors)."""
    return [draw(11 + k, *shape) for k in range(count)], vectors(20, shape[-1], 6)


CASES = [operands(shape, 2) for shape in SHAPES] + [(specials(2), [v[0] for v in specials(6)])]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case[0][0].shape))
def test_batch_norm_one_operation_at_a_time(case: tuple[list[F32], list[F32]]) -> None:
    (x, e), (mean, r, a, b, c, _) = case
    with np.errstate(all="ignore"):
        x2 = (x - mean) * r
        same(rows.normalize(x, mean, r, a, b), x2 * a + b)
        same(rows.input_error(e, x, mean, r, a, b, c), (e - a - x2 * b) * c)


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case[0][0].shape))
def test_relu_and_joins(case: tuple[list[F32], list[F32]]) -> None:
    x, e = case[0]
    with np.errstate(all="ignore"):
        y = rows.rectify(x)
        same(y, np.maximum(x, np.float32(0)) + np.float32(0))
        same(rows.rectify_error(e, y), e * (x > 0))
        same(rows.add(x, e), x + e)


# -- all together -------------------------------------------------------------------------------


def test_threads_and_strides_do_not_change_a_bit() -> None:
    x, e = draw(41, 3, 1111, 5), draw(42, 3, 1111, 5)
    spread = np.zeros((3, 1111, 10), np.float32)
    spread[:, :, ::2] = x
    results = []
    for n in (1, 2, 3):
        with threads(n):
            results += [float32_passes(x, e), float32_passes(spread[:, :, ::2], e)]
    for result in results[1:]:
        for got, expected in zip(result, results[0], strict=True):
            same(got, expected)


def test_wrong_shapes_and_types_are_refused() -> None:
    x, v = np.zeros((4, 3), np.float32), np.zeros(3, np.float32)
    for call in (
        lambda: rows.add(x, x[:2]),
        lambda: rows.rectify_error(x, v),
        lambda: rows.error_sums(x[:2], x, v, v),
        lambda: rows.input_error(x[:2], x, v, v, v, v, v),
        lambda: rows.normalize(x, v[:2], v, v, v),
        lambda: rows.centred_squares(x, v[:2]),
    ):
        with pytest.raises(ShapeError):
            call()
    for call in (lambda: rows.sum_rows(x.astype(np.float64)), lambda: rows.add(x, x.astype(np.float64))):
        with pytest.raises(FormatError):
            call()
