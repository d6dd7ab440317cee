"""float32 passes over whole tensors, channels last: sums over rows, batch norm, ReLU, joins.

A row is what stands behind one index of all axes but the last. Sums over rows have one order: rows
ascending from +0 in chunks of CHUNK, then the chunk sums ascending; plain additions, or `fma32` where
a product is summed. Everything else is one IEEE operation after another in the order written, an
element at a time. So no result depends on the threads, and each function is one or two passes over
memory: a value such as (x - mean) * r is computed again where it is needed, never stored.
Infinities and NaN are the caller's to refuse. The products stand in `float32.py`.
"""

import numpy as np
from numpy.typing import NDArray

from intnet._jit import njit, pjit, prange
from intnet.buffers import empty
from intnet.errors import FormatError, ShapeError
from intnet.fp32 import CHUNK
from intnet.instructions import fma32

__all__ = [
    "add",
    "centred_squares",
    "error_sums",
    "input_error",
    "normalize",
    "rectify",
    "rectify_error",
    "sum_rows",
]

F32 = NDArray[np.float32]

ZERO, ONE = np.float32(0), np.float32(1)


# --- loops --------------------------------------------------------------------------------------


@pjit
def _sums(x: F32, out: F32) -> None:
    """Chunk sums [chunks, C] of x[rows, C]; zero-filled `out`."""
    for chunk in prange(out.shape[0]):
        total = out[chunk]
        for r in range(chunk * CHUNK, min((chunk + 1) * CHUNK, x.shape[0])):
            row = x[r]
            for c in range(row.shape[0]):
                total[c] += row[c]


@pjit
def _squares(x: F32, mean: F32, out: F32) -> None:
    """Chunk sums of (x - mean) * (x - mean); zero-filled `out`."""
    for chunk in prange(out.shape[0]):
        total = out[chunk]
        for r in range(chunk * CHUNK, min((chunk + 1) * CHUNK, x.shape[0])):
            row = x[r]
            for c in range(row.shape[0]):
                centred = row[c] - mean[c]
                total[c] = fma32(centred, centred, total[c])


@pjit
def _error_sums(e: F32, x: F32, mean: F32, r: F32, sums: F32, dots: F32) -> None:
    """Chunk sums of e, and of e * ((x - mean) * r); zero-filled `sums` and `dots`."""
    for chunk in prange(sums.shape[0]):
        total, dot = sums[chunk], dots[chunk]
        for k in range(chunk * CHUNK, min((chunk + 1) * CHUNK, x.shape[0])):
            error, row = e[k], x[k]
            for c in range(row.shape[0]):
                total[c] += error[c]
                dot[c] = fma32(error[c], (row[c] - mean[c]) * r[c], dot[c])


@njit
def _added_up(parts: F32, total: F32) -> None:
    """total += every line of parts, ascending."""
    for chunk in range(parts.shape[0]):
        for c in range(total.shape[0]):
            total[c] += parts[chunk, c]


@pjit
def _normalize(x: F32, mean: F32, r: F32, gamma: F32, beta: F32, out: F32) -> None:
    for k in prange(x.shape[0]):
        row, line = x[k], out[k]
        for c in range(row.shape[0]):
            line[c] = ((row[c] - mean[c]) * r[c]) * gamma[c] + beta[c]


@pjit
def _input_error(e: F32, x: F32, mean: F32, r: F32, m1: F32, m2: F32, slope: F32, out: F32) -> None:
    for k in prange(x.shape[0]):
        error, row, line = e[k], x[k], out[k]
        for c in range(row.shape[0]):
            line[c] = ((error[c] - m1[c]) - ((row[c] - mean[c]) * r[c]) * m2[c]) * slope[c]


@pjit
def _rectify(x: F32, out: F32) -> None:
    for i in prange(x.size):
        out[i] = ZERO if x[i] <= ZERO else x[i]  # a NaN stays


@pjit
def _rectify_error(e: F32, y: np.ndarray, out: F32) -> None:
    for i in prange(e.size):
        out[i] = e[i] * (ONE if y[i] > 0 else ZERO)


@pjit
def _add(a: F32, b: F32, out: F32) -> None:
    for i in prange(a.size):
        out[i] = a[i] + b[i]


# --- checks -------------------------------------------------------------------------------------


def _operand(x: F32, name: str) -> F32:
    if x.dtype != np.float32:
        raise FormatError(f"{name} must be float32, got {x.dtype}; convert with .astype(np.float32)")
    return np.ascontiguousarray(x)


def _rows(x: F32, name: str) -> F32:
    """x as [rows, C]."""
    return _operand(x, name).reshape(x.size // max(x.shape[-1], 1), x.shape[-1])


def _vectors(x: F32, *vectors: F32) -> list[F32]:
    """Vectors of one float32 a channel of x."""
    for vector in vectors:
        if vector.shape != x.shape[-1:]:
            raise ShapeError(f"a vector of shape {vector.shape} does not belong to channels of {x.shape}")
    return [_operand(vector, "a vector") for vector in vectors]


def _alike(a: F32, b: F32) -> None:
    if a.shape != b.shape:
        raise ShapeError(f"operands of shapes {a.shape} and {b.shape} do not meet element by element")


def _parts(x: F32) -> F32:
    """A zero a chunk and channel of x[rows, C]."""
    return np.zeros((-(-x.shape[0] // CHUNK), x.shape[1]), np.float32)


def _total(parts: F32) -> F32:
    total = np.zeros(parts.shape[1], np.float32)
    _added_up(parts, total)
    return total


# --- functions ----------------------------------------------------------------------------------


def sum_rows(x: F32) -> F32:
    """Sum over all axes but the last of x[..., C] -> [C]: plain additions."""
    rows = _rows(x, "x")
    parts = _parts(rows)
    _sums(rows, parts)
    return _total(parts)


def centred_squares(x: F32, mean: F32) -> F32:
    """Sum over all axes but the last of d * d with d = x - mean, by `fma32` -> [C]."""
    rows = _rows(x, "x")
    parts = _parts(rows)
    _squares(rows, *_vectors(x, mean), parts)
    return _total(parts)


def error_sums(e: F32, x: F32, mean: F32, r: F32) -> tuple[F32, F32]:
    """(sum of e, sum of e * x2 by `fma32`) over all axes but the last, x2 = (x - mean) * r."""
    _alike(e, x)
    errors, rows = _rows(e, "e"), _rows(x, "x")
    sums, dots = _parts(rows), _parts(rows)
    _error_sums(errors, rows, *_vectors(x, mean, r), sums, dots)
    return _total(sums), _total(dots)


def normalize(x: F32, mean: F32, r: F32, gamma: F32, beta: F32) -> F32:
    """x2 * gamma + beta with x2 = (x - mean) * r; vectors are [C]."""
    rows = _rows(x, "x")
    out = empty(rows.shape, np.float32)
    _normalize(rows, *_vectors(x, mean, r, gamma, beta), out)
    return out.reshape(x.shape)


def input_error(e: F32, x: F32, mean: F32, r: F32, m1: F32, m2: F32, slope: F32) -> F32:
    """(e - m1 - x2 * m2) * slope with x2 = (x - mean) * r; vectors are [C]."""
    _alike(e, x)
    errors, rows = _rows(e, "e"), _rows(x, "x")
    out = empty(rows.shape, np.float32)
    _input_error(errors, rows, *_vectors(x, mean, r, m1, m2, slope), out)
    return out.reshape(x.shape)


def rectify(x: F32) -> F32:
    """max(x, 0); every zero is +0."""
    flat = _operand(x, "x").reshape(-1)
    out = empty(flat.shape, np.float32)
    _rectify(flat, out)
    return out.reshape(x.shape)


def rectify_error(e: F32, y: np.ndarray) -> F32:
    """e * 1 where y > 0, else e * 0; y float32, or uint8 that says where y is above 0."""
    _alike(e, y)
    error = _operand(e, "e").reshape(-1)
    flat = (y if y.dtype == np.uint8 else _operand(y, "y")).reshape(-1)
    out = empty(flat.shape, np.float32)
    _rectify_error(error, flat, out)
    return out.reshape(e.shape)


def add(a: F32, b: F32) -> F32:
    """a + b, of one shape."""
    _alike(a, b)
    left, right = _operand(a, "a").reshape(-1), _operand(b, "b").reshape(-1)
    out = empty(left.shape, np.float32)
    _add(left, right, out)
    return out.reshape(a.shape)
