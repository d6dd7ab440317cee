"""The inner product under every integer GEMM and convolution, exact for int16 to int64 operands.

    out[i, j] += sum over k of a[i, k] * b[j, k]

Both operands have k contiguous. With int16 operands the sum runs in int32 over `chunk` terms (the
caller's bound proves that they fit) and then moves to the type of `out`; a compiler turns that loop
into multiply-add instructions on pairs. Wider operands are summed in int64 at once. Integer sums do
not depend on order, so tiles and chunks never change a bit (rule R3).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.extending import overload

from intnet._jit import njit


def dot_tile(a: np.ndarray, b: np.ndarray, chunk: int, out: np.ndarray) -> None:
    """out[M, N] += a[M, K] . b[N, K]; the plain twin of the compiled variants below."""
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            total = 0
            for k in range(a.shape[1]):
                total += int(a[i, k]) * int(b[j, k])
            out[i, j] += total


@njit
def _dot1(x: np.ndarray, y: np.ndarray) -> np.int32:
    total = np.int32(0)
    for k in range(x.shape[0]):
        total = np.int32(total + np.int32(np.int32(x[k]) * np.int32(y[k])))
    return total


@njit
def _dot8(
    x: np.ndarray, y: np.ndarray, b0: np.ndarray, b1: np.ndarray, b2: np.ndarray, b3: np.ndarray
) -> tuple[np.int32, ...]:
    """Two rows times four columns: eight sums from six loads."""
    s0, s1, s2, s3 = np.int32(0), np.int32(0), np.int32(0), np.int32(0)
    t0, t1, t2, t3 = np.int32(0), np.int32(0), np.int32(0), np.int32(0)
    for k in range(x.shape[0]):
        v, w = np.int32(x[k]), np.int32(y[k])
        c0, c1, c2, c3 = np.int32(b0[k]), np.int32(b1[k]), np.int32(b2[k]), np.int32(b3[k])
        s0, t0 = np.int32(s0 + np.int32(v * c0)), np.int32(t0 + np.int32(w * c0))
        s1, t1 = np.int32(s1 + np.int32(v * c1)), np.int32(t1 + np.int32(w * c1))
        s2, t2 = np.int32(s2 + np.int32(v * c2)), np.int32(t2 + np.int32(w * c2))
        s3, t3 = np.int32(s3 + np.int32(v * c3)), np.int32(t3 + np.int32(w * c3))
    return s0, s1, s2, s3, t0, t1, t2, t3


@njit
def _tile16(a: np.ndarray, b: np.ndarray, chunk: int, out: np.ndarray) -> None:
    rows, columns, depth = a.shape[0], b.shape[0], a.shape[1]
    even, quads = rows - rows % 2, columns - columns % 4
    for start in range(0, depth, chunk):
        stop = min(start + chunk, depth)
        for j in range(0, quads, 4):
            b0, b1 = b[j, start:stop], b[j + 1, start:stop]
            b2, b3 = b[j + 2, start:stop], b[j + 3, start:stop]
            for i in range(0, even, 2):
                s0, s1, s2, s3, t0, t1, t2, t3 = _dot8(a[i, start:stop], a[i + 1, start:stop], b0, b1, b2, b3)
                out[i, j] += s0
                out[i, j + 1] += s1
                out[i, j + 2] += s2
                out[i, j + 3] += s3
                out[i + 1, j] += t0
                out[i + 1, j + 1] += t1
                out[i + 1, j + 2] += t2
                out[i + 1, j + 3] += t3
        for i in range(rows):
            for j in range(quads if i < even else 0, columns):
                out[i, j] += _dot1(a[i, start:stop], b[j, start:stop])


@njit
def _tile64(a: np.ndarray, b: np.ndarray, chunk: int, out: np.ndarray) -> None:
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            x, y = a[i], b[j]
            total = np.int64(0)
            for k in range(x.shape[0]):
                total += np.int64(x[k]) * np.int64(y[k])
            out[i, j] += total


@overload(dot_tile)
def _dot_tile(a: Any, b: Any, chunk: Any, out: Any) -> Callable[..., None]:
    tile = _tile16 if a.dtype.bitwidth == 16 else _tile64

    def compiled(a: Any, b: Any, chunk: Any, out: Any) -> None:
        tile(a, b, chunk, out)

    return compiled
