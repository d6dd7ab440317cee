"""max_pool2d, avg_pool2d, global_avg_pool over (N, H, W, C).

    max     y = max of the window; the first position in row-major order wins a tie; padding never wins
    avg     y = sum of the window / (kh*kw), padding counts as 0
    global  y = sum over positions / (H*W), (N, C)

Integer averages are exact quotients: they are rounded where they are stored, by a quantizer. float32
sums run in row-major order with plain additions, then one division. A float32 gradient that meets
an integer forward pass (the unquantized last layer) goes on as the exact quotient error / size.

Defined by `spec/pooling.py: max_pool`, `spec/pooling.py: max_pool_grad`, `spec/pooling.py: max_pool32_grad`,
`spec/pooling.py: windows_of`, `spec/pooling.py: adaptive_windows`, `spec/pooling.py: pooled`,
`spec/pooling.py: pooled_grad`, `spec/pooling.py: pooled32`, `spec/pooling.py: pooled32_grad`.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from intnet.autograd import Op, Saved
from intnet.errors import ContainerError, FormatError, ShapeError
from intnet.exact.expressions import Exact, exact
from intnet.exact.sources import FloatExact
from intnet.machine.buffers import empty
from intnet.machine.instructions import shaped
from intnet.machine.jit import pjit, prange
from intnet.numbers.qtensor import INT64_BOUND, QTensor, container, max_abs
from intnet.ops.elementwise import codes_of, moved
from intnet.ops.kernels.windows import output_size

Pair = tuple[int, int]
Scatter = Callable[[np.ndarray, np.dtype], np.ndarray]  # codes and the type of their sums


@pjit
def _max_forward(
    team: int, x: np.ndarray, kernel: Pair, stride: Pair, padding: Pair, out: np.ndarray, at: np.ndarray
) -> None:
    height, width = x.shape[1], x.shape[2]
    for n in prange(team, x.shape[0]):
        for oy in range(out.shape[1]):
            for ox in range(out.shape[2]):
                for c in range(x.shape[3]):
                    found = -1
                    best = x[n, 0, 0, c]
                    for ky in range(kernel[0]):
                        for kx in range(kernel[1]):
                            y, z = oy * stride[0] + ky - padding[0], ox * stride[1] + kx - padding[1]
                            if 0 <= y < height and 0 <= z < width and (found < 0 or x[n, y, z, c] > best):
                                best = x[n, y, z, c]
                                found = y * width + z
                    out[n, oy, ox, c] = best
                    at[n, oy, ox, c] = found


@pjit
def _max_backward(team: int, e: np.ndarray, at: np.ndarray, out: np.ndarray) -> None:
    for n in prange(team, e.shape[0]):
        flat = shaped(out[n], (out.shape[1] * out.shape[2], out.shape[3]))
        for oy in range(e.shape[1]):
            for ox in range(e.shape[2]):
                for c in range(e.shape[3]):
                    flat[at[n, oy, ox, c], c] += e[n, oy, ox, c]


@pjit
def sum_windows(team: int, x: np.ndarray, rows: np.ndarray, columns: np.ndarray, out: np.ndarray) -> None:
    """Adds up x (N, H, W, C) over windows; rows, columns: first and one past the last of each window."""
    for n in prange(team, x.shape[0]):
        for i in range(len(rows)):
            for j in range(len(columns)):
                line = out[n, i, j]
                for y in range(rows[i, 0], rows[i, 1]):
                    for z in range(columns[j, 0], columns[j, 1]):
                        for c in range(x.shape[3]):
                            line[c] += x[n, y, z, c]


@pjit
def spread_windows(team: int, e: np.ndarray, rows: np.ndarray, columns: np.ndarray, out: np.ndarray) -> None:
    """Adds every element of e to all positions of its window."""
    for n in prange(team, e.shape[0]):
        for i in range(len(rows)):
            for j in range(len(columns)):
                for y in range(rows[i, 0], rows[i, 1]):
                    for z in range(columns[j, 0], columns[j, 1]):
                        for c in range(e.shape[3]):
                            out[n, y, z, c] += e[n, i, j, c]


@lru_cache(maxsize=512)
def _inside(size: int, kernel: int, stride: int, padding: int) -> np.ndarray:
    """int64[windows, 2]: first and one past the last position of each window that lie in the image."""
    first = np.arange(output_size(size, kernel, stride, padding), dtype=np.int64) * stride - padding
    return np.stack([np.maximum(first, 0), np.minimum(first + kernel, size)], 1)


def _sizes(x: Any, kernel: Pair, stride: Pair, padding: Pair, what: str) -> tuple[int, int, int, int]:
    if len(x.shape) != 4:
        raise ShapeError(f"{what}: input {x.shape} is not (N, H, W, C)")
    if any(2 * padding[a] > kernel[a] for a in (0, 1)):
        raise ShapeError(f"{what}: padding {padding} is more than half the window {kernel}")
    sides = [output_size(x.shape[1 + a], kernel[a], stride[a], padding[a]) for a in (0, 1)]
    if min(sides) < 1:
        raise ShapeError(f"{what}: the window {kernel} does not fit the input {x.shape[1:3]}")
    return x.shape[0], sides[0], sides[1], x.shape[3]


def _raw(x: Any) -> np.ndarray:
    return np.ascontiguousarray(x.codes if isinstance(x, QTensor) else x)


def _container(q: QTensor, terms: int, what: str) -> np.dtype:
    """A code type for sums of `terms` codes: the codes' own where it is proven to hold them, else int64."""
    bound = q.bound * terms
    if bound >= INT64_BOUND:
        raise ContainerError(f"{what}: sums of {terms} codes up to {q.bound} do not fit int64")
    return q.codes.dtype if container(bound).itemsize <= q.codes.dtype.itemsize else np.dtype(np.int64)


def _readers(kernel: Pair, stride: Pair) -> int:
    """How many windows may read one position."""
    return -(-kernel[0] // stride[0]) * -(-kernel[1] // stride[1])


def _scattered(e: Any, scatter: Scatter, readers: int, what: str) -> Any:
    """`scatter` adds up to `readers` elements of e; float32 sums in its order, integers exactly."""
    if isinstance(e, np.ndarray | FloatExact):
        return moved(e, lambda raw: scatter(raw, raw.dtype))
    if isinstance(e, Exact) and np.any(np.asarray(e.den) != 1):
        for term, _ in e.terms:
            _container(term, readers, what)
        return e.moved(lambda raw: scatter(raw, raw.dtype))
    q = codes_of(e)
    codes = scatter(_raw(q), _container(q, readers, what))
    return QTensor(codes, q.exponent, bound=max_abs(codes))


def _max_pool2d(saved: Saved, x: Any, *, kernel: Pair, stride: Pair, padding: Pair = (0, 0)) -> Any:
    x = codes_of(x)
    shape = _sizes(x, kernel, stride, padding, "max_pool2d")
    raw = _raw(x)
    out, at = empty(shape, raw.dtype), empty(shape, np.int32)
    _max_forward(raw, kernel, stride, padding, out, at)
    saved.at, saved.shape, saved.readers = at, x.shape, _readers(kernel, stride)
    return QTensor(out, x.exponent, x.format, x.bound) if isinstance(x, QTensor) else out


def _max_pool2d_vjp(saved: Saved, e: Any) -> tuple[Any]:
    def scatter(raw: np.ndarray, dtype: np.dtype) -> np.ndarray:
        out = np.zeros(saved.shape, dtype)
        _max_backward(np.ascontiguousarray(raw), saved.at, out)
        return out

    return (_scattered(e, scatter, saved.readers, "max_pool2d"),)


def _windows(shape: tuple[int, ...], kernel: Pair, stride: Pair, padding: Pair) -> list[np.ndarray]:
    return [_inside(shape[1 + a], kernel[a], stride[a], padding[a]) for a in (0, 1)]


def _avg_pool2d(saved: Saved, x: Any, *, kernel: Pair, stride: Pair, padding: Pair = (0, 0)) -> Any:
    x = codes_of(x)
    saved.window, saved.shape, saved.integer = (kernel, stride, padding), x.shape, isinstance(x, QTensor)
    shape, size = _sizes(x, kernel, stride, padding, "avg_pool2d"), kernel[0] * kernel[1]
    sums = np.zeros(shape, _container(x, size, "avg_pool2d") if isinstance(x, QTensor) else x.dtype)
    sum_windows(_raw(x), *_windows(x.shape, kernel, stride, padding), sums)
    if not isinstance(x, QTensor):
        return sums / np.float32(size)
    exponent = int(x.exponent)
    return Exact([(QTensor(sums, exponent, bound=x.bound * size), 1)], exponent, den=size)


def _spread(saved: Saved, e: Any) -> Any:
    """The gradient of every input over one window size: `e` copied to the positions it came from."""
    kernel, stride, padding = saved.window
    size = kernel[0] * kernel[1]
    floats = isinstance(e, np.ndarray | FloatExact)
    if saved.integer and floats and any(stride[a] < kernel[a] for a in (0, 1)):
        raise FormatError(
            "avg_pool2d: a float error over overlapping windows is not exact: quantize it (a layer after the "
            "pool does), or take a stride that is the window"
        )

    def spread(raw: np.ndarray, dtype: np.dtype) -> np.ndarray:
        out = np.zeros(saved.shape, dtype)
        spread_windows(np.ascontiguousarray(raw), *_windows(saved.shape, kernel, stride, padding), out)
        return out

    if not saved.integer:
        return spread(e / np.float32(size), e.dtype)
    value = _scattered(e, spread, _readers(kernel, stride), "avg_pool2d")
    if isinstance(value, np.ndarray):
        return FloatExact(value, size)
    if isinstance(value, FloatExact):
        return FloatExact(value.values, value.den * size)
    quotient = exact(value)
    assert isinstance(quotient, Exact)
    den = quotient.den * size
    return Exact(quotient.terms, quotient.exponent, den=den, relu=quotient.relu, shifts=quotient.shifts)


def _avg_pool2d_vjp(saved: Saved, e: Any) -> tuple[Any]:
    return (_spread(saved, e),)


def _global_avg_pool(saved: Saved, x: Any) -> Any:
    if len(x.shape) != 4:
        raise ShapeError(f"global_avg_pool: input {x.shape} is not (N, H, W, C)")
    size = (x.shape[1], x.shape[2])
    y = _avg_pool2d(saved, x, kernel=size, stride=size)
    if isinstance(y, np.ndarray):
        return y.reshape(y.shape[0], y.shape[3])
    sums = y.terms[0][0]
    return Exact([(sums.reshape(sums.shape[0], sums.shape[3]), 1)], y.exponent, den=y.den)


def _global_avg_pool_vjp(saved: Saved, e: Any) -> tuple[Any]:
    return (_spread(saved, moved(e, lambda raw: raw.reshape(raw.shape[0], 1, 1, raw.shape[1]))),)


max_pool2d = Op("max_pool2d", _max_pool2d, _max_pool2d_vjp)
avg_pool2d = Op("avg_pool2d", _avg_pool2d, _avg_pool2d_vjp)
global_avg_pool = Op("global_avg_pool", _global_avg_pool, _global_avg_pool_vjp)
