"""float32 passes over whole tensors, channels last: sums over rows, batch norm, ReLU, joins.

A row is what stands under one index of all axes but the last; axis 0 is the batch. Sums over rows have
the order of `numbers/batch_sums.py`, by plain additions, or `fma32` where a product is summed. Everything
else is one IEEE operation after another in the order written, an element at a time. So no result depends on
the threads, and each function is one or two passes over memory: a value such as (x - mean) * r is computed
again where it is needed, never stored. Infinities and NaN are the caller's to refuse. The products
stand in `float_products.py`.
"""

from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from intnet.errors import FormatError, ShapeError
from intnet.machine.buffers import empty
from intnet.machine.instructions import fma32, shaped
from intnet.machine.jit import inlined, njit, pjit, prange
from intnet.numbers.batch_sums import add_chunks, chunk_rows, chunks_in, chunks_of_group, stack_lines

__all__ = [
    "add",
    "centred_squares",
    "ends",
    "error_sums",
    "input_error",
    "normalize",
    "rectify",
    "rectify_error",
    "sum_rows",
]

F32 = NDArray[np.float32]
I32 = NDArray[np.int32]

ZERO, ONE = np.float32(0), np.float32(1)
ENDS = 32  # parts in which greatest and least values are looked for, at most
TOGETHER = 8  # rows that a sum takes before it is stored: next to a store and a load an addition is short


# --- loops --------------------------------------------------------------------------------------


@inlined
def _add_rows(x: F32, first: int, count: int, mean: F32 | None, total: F32) -> None:
    """total[c] += x[r, c], or = fma32(d, d, total[c]) with d = x[r, c] - mean[c], for `count` rows."""
    for c in range(total.shape[0]):
        acc = total[c]
        for k in range(count):
            if mean is None:  # which Numba sees as it compiles
                acc += x[first + k, c]
            else:
                centred = x[first + k, c] - mean[c]
                acc = fma32(centred, centred, acc)
        total[c] = acc


@pjit
def _sums(team: int, x: F32, mean: F32 | None, per_image: int, out: F32) -> None:
    """Chunk sums [chunks, C] of x[rows, C], or of (x - mean)^2; zero-filled `out`."""
    for chunk in prange(team, out.shape[0]):
        total = out[chunk]
        begin, end = chunk_rows(chunk, per_image, x.shape[0])
        last = end - (end - begin) % TOGETHER
        for r in range(begin, last, TOGETHER):
            _add_rows(x, r, TOGETHER, mean, total)
        for r in range(last, end):
            _add_rows(x, r, 1, mean, total)


@pjit
def _error_sums(team: int, e: F32, x: F32, mean: F32, r: F32, per_image: int, sums: F32, dots: F32) -> None:
    """Chunk sums of e, and of e * ((x - mean) * r); zero-filled `sums` and `dots`."""
    for chunk in prange(team, sums.shape[0]):
        total, dot = sums[chunk], dots[chunk]
        begin, end = chunk_rows(chunk, per_image, x.shape[0])
        errors, rows = e[begin:end], x[begin:end]
        for k in range(rows.shape[0]):
            error, row = errors[k], rows[k]
            for c in range(row.shape[0]):
                total[c] += error[c]
                dot[c] = fma32(error[c], (row[c] - mean[c]) * r[c], dot[c])


@pjit
def _ends(team: int, x: F32, greatest: F32, least: F32, at_greatest: I32, at_least: I32) -> None:
    """Of each part of x[rows, C] the ends of every channel and the first rows that have them: [parts, C]."""
    parts, rows = greatest.shape[0], x.shape[0]
    for part in prange(team, parts):
        first = part * rows // parts
        high, low, at_high, at_low = greatest[part], least[part], at_greatest[part], at_least[part]
        high[:], low[:] = x[first], x[first]
        at_high[:], at_low[:] = first, first
        for k in range(first + 1, (part + 1) * rows // parts):
            row = x[k]
            for c in range(row.shape[0]):
                above, below = row[c] > high[c], row[c] < low[c]
                high[c], low[c] = row[c] if above else high[c], row[c] if below else low[c]
                at_high[c] = np.int32(k) if above else at_high[c]
                at_low[c] = np.int32(k) if below else at_low[c]


@njit
def _added_up(parts: F32, per_group: int, levels: int, total: F32) -> None:
    """total += all lines of parts, `per_group` of them a group of images."""
    chunks, channels = parts.shape
    stack = np.empty((levels, channels), np.float32)
    add_chunks(shaped(parts, (parts.size,)), np.int64(0), channels, chunks, per_group, stack, total)


@pjit
def _normalize(team: int, x: F32, mean: F32, r: F32, gamma: F32, beta: F32, out: F32) -> None:
    for k in prange(team, x.shape[0]):
        row, line = x[k], out[k]
        for c in range(row.shape[0]):
            line[c] = ((row[c] - mean[c]) * r[c]) * gamma[c] + beta[c]


@pjit
def _input_error(
    team: int, e: F32, x: F32, mean: F32, r: F32, m1: F32, m2: F32, slope: F32, out: F32
) -> None:
    for k in prange(team, x.shape[0]):
        error, row, line = e[k], x[k], out[k]
        for c in range(row.shape[0]):
            line[c] = ((error[c] - m1[c]) - ((row[c] - mean[c]) * r[c]) * m2[c]) * slope[c]


@pjit
def _rectify(team: int, x: F32, out: F32) -> None:
    for i in prange(team, x.size):
        out[i] = ZERO if x[i] <= ZERO else x[i]  # a NaN stays


@pjit
def _rectify_error(team: int, e: F32, y: F32, out: F32) -> None:
    for i in prange(team, e.size):
        out[i] = e[i] * (ONE if y[i] > 0 else ZERO)


@pjit
def _add(team: int, a: F32, b: F32, out: F32) -> None:
    for i in prange(team, a.size):
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


def _per_image(x: F32) -> int:
    """Rows of an image."""
    return max(1, prod(x.shape[1:-1]))


def _parts(x: F32, per_image: int) -> F32:
    """A zero a chunk and channel of x[rows, C]."""
    return np.zeros((chunks_in(x.shape[0], per_image), x.shape[1]), np.float32)


def _total(parts: F32, per_image: int) -> F32:
    total, per_group = np.zeros(parts.shape[1], np.float32), chunks_of_group(per_image)
    _added_up(parts, per_group, stack_lines(-(-parts.shape[0] // per_group)), total)
    return total


# --- functions ----------------------------------------------------------------------------------


def sum_rows(x: F32) -> F32:
    """Sum over all axes but the last of x[..., C] -> [C]: plain additions.

    Defined by `spec/float32.py: batch_sum32`.
    """
    rows, per_image = _rows(x, "x"), _per_image(x)
    parts = _parts(rows, per_image)
    _sums(rows, None, per_image, parts)
    return _total(parts, per_image)


class Ends(NamedTuple):
    """The greatest and the least of every channel, [C], and the first rows that have them."""

    greatest: F32
    least: F32
    at_greatest: I32
    at_least: I32


def ends(x: F32) -> Ends:
    """Of x[..., C], without NaN, over all axes but the last.

    Defined by `spec/range_norm.py: width_of`, `spec/range_norm.py: backward`.
    """
    rows = _rows(x, "x")
    parts = max(1, min(ENDS, rows.shape[0] // ENDS))
    found = [np.empty((parts, rows.shape[1]), kind) for kind in (np.float32, np.float32, np.int32, np.int32)]
    _ends(rows, *found)
    greatest, least, at_greatest, at_least = found
    channels = np.arange(rows.shape[1])  # of parts that are alike argmax names the first
    top, bottom = (greatest.argmax(axis=0), channels), (least.argmin(axis=0), channels)
    return Ends(greatest[top], least[bottom], at_greatest[top], at_least[bottom])


def centred_squares(x: F32, mean: F32) -> F32:
    """Sum over all axes but the last of d * d with d = x - mean, by `fma32` -> [C].

    Defined by `spec/float_batch_norm.py: statistics_of`.
    """
    rows, per_image = _rows(x, "x"), _per_image(x)
    parts = _parts(rows, per_image)
    _sums(rows, *_vectors(x, mean), per_image, parts)
    return _total(parts, per_image)


def error_sums(e: F32, x: F32, mean: F32, r: F32) -> tuple[F32, F32]:
    """(sum of e, sum of e * x2 by `fma32`) over all axes but the last, x2 = (x - mean) * r.

    Defined by `spec/float_batch_norm.py: error_sums_of`.
    """
    _alike(e, x)
    errors, rows, per_image = _rows(e, "e"), _rows(x, "x"), _per_image(x)
    sums, dots = _parts(rows, per_image), _parts(rows, per_image)
    _error_sums(errors, rows, *_vectors(x, mean, r), per_image, sums, dots)
    return _total(sums, per_image), _total(dots, per_image)


def normalize(x: F32, mean: F32, r: F32, gamma: F32, beta: F32) -> F32:
    """x2 * gamma + beta with x2 = (x - mean) * r; vectors are [C].

    Defined by `spec/float_batch_norm.py: x2_at`, `spec/float_batch_norm.py: x3_at`.
    """
    rows = _rows(x, "x")
    out = empty(rows.shape, np.float32)
    _normalize(rows, *_vectors(x, mean, r, gamma, beta), out)
    return out.reshape(x.shape)


def input_error(e: F32, x: F32, mean: F32, r: F32, m1: F32, m2: F32, slope: F32) -> F32:
    """(e - m1 - x2 * m2) * slope with x2 = (x - mean) * r; vectors are [C].

    Defined by `spec/float_batch_norm.py: dx_at`.
    """
    _alike(e, x)
    errors, rows = _rows(e, "e"), _rows(x, "x")
    out = empty(rows.shape, np.float32)
    _input_error(errors, rows, *_vectors(x, mean, r, m1, m2, slope), out)
    return out.reshape(x.shape)


def rectify(x: F32) -> F32:
    """max(x, 0); every zero is +0. Defined by `spec/elementwise.py: relu_at`."""
    flat = _operand(x, "x").reshape(-1)
    out = empty(flat.shape, np.float32)
    _rectify(flat, out)
    return out.reshape(x.shape)


def rectify_error(e: F32, y: F32) -> F32:
    """e * 1 where y > 0, else e * 0.

    Defined by `spec/elementwise.py: relu_grad_at`.
    """
    _alike(e, y)
    error, flat = _operand(e, "e").reshape(-1), _operand(y, "y").reshape(-1)
    out = empty(flat.shape, np.float32)
    _rectify_error(error, flat, out)
    return out.reshape(e.shape)


def add(a: F32, b: F32) -> F32:
    """a + b, of one shape. Defined by `spec/values.py: joined`."""
    _alike(a, b)
    left, right = _operand(a, "a").reshape(-1), _operand(b, "b").reshape(-1)
    out = empty(left.shape, np.float32)
    _add(left, right, out)
    return out.reshape(a.shape)
