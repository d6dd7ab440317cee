"""Loops that stay within a channel: products element by element, by a factor a channel, and their sums.

Channels are last, so they are what vectors hold. Integers: the type of `out` is proven to hold every result;
operands are those of `alike`. float32: one rounding a product; sums are `fma32` from +0 over
ascending positions in chunks of CHUNK, the chunk sums added in ascending order.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from intnet.machine.instructions import fma32
from intnet.machine.jit import pjit, prange
from intnet.numbers.fp32 import CHUNK


def multiply_add(a: Any, b: Any, total: Any) -> Any:
    """total + a*b in the type of `total`, rounded once."""
    return fma32(a, b, total) if isinstance(total, np.float32) else type(total)(total + type(total)(a) * b)


@overload(multiply_add, inline="always")
def _multiply_add(a: Any, b: Any, total: Any) -> Callable[..., Any]:
    def floats(a: Any, b: Any, total: Any) -> Any:
        return fma32(a, b, total)

    def singles(a: Any, b: Any, total: Any) -> Any:
        return np.int32(total + np.int32(a) * np.int32(b))

    def doubles(a: Any, b: Any, total: Any) -> Any:
        return total + np.int64(a) * np.int64(b)

    return floats if total == types.float32 else singles if total == types.int32 else doubles


def alike(kind: np.dtype, *operands: np.ndarray) -> list[np.ndarray]:
    """Contiguous operands, as they are where all are int8, else of type `kind`: few compilations."""
    small = all(x.dtype == np.int8 for x in operands)
    return [np.ascontiguousarray(x, None if small else kind) for x in operands]


@pjit
def multiply(team: int, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """out = a * b, flat. Defined by `spec/values.py: times`."""
    kind = out.dtype.type
    for i in prange(team, a.size):
        out[i] = kind(kind(a[i]) * kind(b[i]))


@pjit
def scale(team: int, x: np.ndarray, s: np.ndarray, out: np.ndarray) -> None:
    """out[n, p, c] = x[n, p, c] * s[n, c].

    Defined by `spec/values.py: times`.
    """
    kind = out.dtype.type
    for n in prange(team, x.shape[0]):
        factors = s[n]
        for p in range(x.shape[1]):
            line, target = x[n, p], out[n, p]
            for c in range(factors.size):
                target[c] = kind(kind(line[c]) * kind(factors[c]))


@pjit
def dots(team: int, e: np.ndarray, x: np.ndarray, out: np.ndarray) -> None:
    """out[n, c] += sum over p of e[n, p, c] * x[n, p, c]; zero-filled `out`.

    Defined by `spec/elementwise.py: scale_grad_at`.
    """
    for n in prange(team, e.shape[0]):
        total = np.empty(out.shape[1], out.dtype)
        for begin in range(0, e.shape[1], CHUNK):
            total[:] = 0
            for p in range(begin, min(begin + CHUNK, e.shape[1])):
                left, right = e[n, p], x[n, p]
                for c in range(total.size):
                    total[c] = multiply_add(left[c], right[c], total[c])
            line = out[n]
            for c in range(total.size):
                line[c] += total[c]
