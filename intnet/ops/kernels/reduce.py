"""Exact integer sums over rows, one a channel: for batch norm, biases and their gradients.

A matrix is (rows, C). Each block of rows sums into its own line, so threads never change a bit.
Sums of squares and products are kept as two int64 sums (products >> 32 and their low 32 bits): with
products below 2**62 and fewer than 2**31 rows neither can wrap.
"""

import numpy as np

from intnet._jit import pjit, prange
from intnet.errors import ContainerError
from intnet.exact_loops import blocks_for
from intnet.ops.kernels.gemm import split
from intnet.qtensor import INT64_BOUND, QTensor


@pjit
def _sums(u: np.ndarray, out: np.ndarray) -> None:
    rows, blocks = u.shape[0], out.shape[0]
    for b in prange(blocks):
        line = out[b]
        for r in range(rows * b // blocks, rows * (b + 1) // blocks):
            row = u[r]
            for c in range(row.shape[0]):
                line[c] += np.int64(row[c])


@pjit
def _dots(u: np.ndarray, v: np.ndarray, high: np.ndarray, low: np.ndarray) -> None:
    rows, blocks = u.shape[0], high.shape[0]
    for b in prange(blocks):
        hi, lo = high[b], low[b]
        for r in range(rows * b // blocks, rows * (b + 1) // blocks):
            x, y = u[r], v[r]
            for c in range(x.shape[0]):
                product = np.int64(x[c]) * np.int64(y[c])
                hi[c] += product >> 32
                lo[c] += product & 0xFFFFFFFF


def _matrix(q: QTensor) -> np.ndarray:
    codes = np.ascontiguousarray(q.codes).reshape(-1, q.shape[-1])
    return codes if codes.dtype == np.int64 else codes.astype(np.int32, copy=False)


def column_sums(q: QTensor, where: str = "") -> QTensor:
    """Sum over all axes but the last, as QTensor[C] at the same exponent."""
    u = _matrix(q)
    bound = q.bound * u.shape[0]
    if bound >= INT64_BOUND:
        raise ContainerError(f"{where or 'sum'}: {u.shape[0]} codes up to {q.bound} do not fit int64")
    out = np.zeros((blocks_for(u.size), u.shape[1]), np.int64)
    _sums(u, out)
    return QTensor(out.sum(axis=0), int(q.exponent), bound=bound)


def column_dots(a: QTensor, b: QTensor, where: str = "") -> list[int]:
    """Sum of products of codes over all axes but the last: exact Python ints, one a channel."""
    if a.bound * b.bound >= INT64_BOUND:
        if a.bound < b.bound:
            a, b = b, a
        high, low = split(a)
        if max(high.bound, low.bound) * b.bound >= INT64_BOUND:
            raise ContainerError(
                f"{where or 'sum'}: products of codes up to {a.bound} and {b.bound} pass two limbs"
            )
        pairs = zip(column_dots(high, b, where), column_dots(low, b, where), strict=True)
        return [(top << 16) + rest for top, rest in pairs]
    u, v = _matrix(a), _matrix(b)
    if u.dtype != v.dtype:
        u, v = u.astype(np.int64), v.astype(np.int64)
    tops = np.zeros((blocks_for(u.size), u.shape[1]), np.int64)
    rests = np.zeros_like(tops)
    _dots(u, v, tops, rests)
    return [
        (int(top) << 32) + int(rest) for top, rest in zip(tops.sum(axis=0), rests.sum(axis=0), strict=True)
    ]
