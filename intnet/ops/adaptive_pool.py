"""adaptive_avg_pool2d over (N, H, W, C): as many means as are asked for, whatever the image's size.

    rows of window i of n   floor(i*H/n) .. ceil((i + 1)*H/n) - 1, columns alike; windows may overlap
    y[i, j]                 sum of the window / s[i, j], s its number of positions
    dx                      at every position the sum of e[i, j] / s[i, j] over the windows that read it

Integers: exact quotients over the least common multiple of all s; where they are stored, a quantizer rounds
them. float32: sums in row-major order and one division; back one division, then additions, windows in
row-major order. A float32 error takes that road over an integer input too: its sums have no exact form.

Defined by `spec/pooling.py: adaptive_windows`, `spec/pooling.py: pooled`, `spec/pooling.py: pooled_grad`,
`spec/pooling.py: pooled32`, `spec/pooling.py: pooled32_grad`.
"""

from math import lcm
from typing import Any

import numpy as np

from intnet.autograd import Op, Saved
from intnet.errors import ContainerError, ShapeError
from intnet.exact.expressions import Exact
from intnet.numbers.qtensor import INT64_BOUND, QTensor
from intnet.ops.elementwise import codes_of
from intnet.ops.pool import spread_windows, sum_windows

Pair = tuple[int, int]


def edges(size: int, windows: int) -> np.ndarray:
    """int64[windows, 2]: first and one past the last position of each window.

    Defined by `spec/pooling.py: adaptive_windows`.
    """
    return np.array([(i * size // windows, -(-(i + 1) * size // windows)) for i in range(windows)], np.int64)


def _places(shape: tuple[int, ...], output: Pair) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(rows, columns, int64[n, m, 1] of positions) of the windows."""
    rows, columns = (edges(shape[1 + axis], output[axis]) for axis in (0, 1))
    sizes = np.outer(rows[:, 1] - rows[:, 0], columns[:, 1] - columns[:, 0])
    return rows, columns, sizes[:, :, None]


def _shares(sizes: np.ndarray) -> tuple[int, np.ndarray]:
    """(den, den / sizes): over den every window's quotient has a whole numerator."""
    den = lcm(*np.unique(sizes).tolist())
    return den, den // sizes


def _check(bound: int, what: str) -> int:
    if bound >= INT64_BOUND:
        raise ContainerError(f"adaptive_avg_pool2d: {what} of up to {bound} do not fit int64")
    return bound


def _adaptive_avg_pool2d(saved: Saved, x: Any, *, output: Pair) -> Any:
    if len(x.shape) != 4 or min(x.shape[1:3]) < 1:
        raise ShapeError(f"adaptive_avg_pool2d: input {x.shape} is not (N, H, W, C)")
    x = codes_of(x)
    rows, columns, sizes = _places(x.shape, output)
    saved.shape, saved.output = x.shape, output
    shape = (x.shape[0], *output, x.shape[3])
    if isinstance(x, np.ndarray):
        sums = np.zeros(shape, x.dtype)
        sum_windows(np.ascontiguousarray(x), rows, columns, sums)
        return sums / sizes.astype(x.dtype)
    den, shares = _shares(sizes)
    bound = _check(x.bound * den, "sums")  # a sum of s codes, times den / s
    wide = np.zeros(shape, np.int64)
    sum_windows(np.ascontiguousarray(x.codes), rows, columns, wide)
    return Exact([(QTensor(wide * shares, 0, bound=bound), 1)], int(x.exponent), den=den)


def _adaptive_avg_pool2d_vjp(saved: Saved, e: Any) -> tuple[Any]:
    e = codes_of(e)
    rows, columns, sizes = _places(saved.shape, saved.output)
    if isinstance(e, np.ndarray):
        dx = np.zeros(saved.shape, e.dtype)
        spread_windows(e / sizes.astype(e.dtype), rows, columns, dx)
        return (dx,)
    den, shares = _shares(sizes)
    readers = [int(np.max(np.bincount(_covered(part)))) for part in (rows, columns)]
    bound = _check(e.bound * int(shares.max()) * readers[0] * readers[1], "sums of errors")
    wide = np.zeros(saved.shape, np.int64)
    spread_windows(e.codes * shares, rows, columns, wide)
    return (Exact([(QTensor(wide, 0, bound=bound), 1)], int(e.exponent), den=den),)


def _covered(windows: np.ndarray) -> np.ndarray:
    """Every position once for each window that reads it."""
    return np.concatenate([np.arange(first, last) for first, last in windows])


adaptive_avg_pool2d = Op("adaptive_avg_pool2d", _adaptive_avg_pool2d, _adaptive_avg_pool2d_vjp)
