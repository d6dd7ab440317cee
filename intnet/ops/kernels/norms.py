"""Norms of a tensor, in a defined order or exact, and codes divided by one.

Weight decay, clipping (`methods/float_master.py`), MuPPET's diversity and AdaPT's unit length, (3.4), read
them.

Defined by `spec/float64.py: sum64`, `spec/methods/adapt.py: unit_length`.
"""

import numpy as np

from intnet.machine.buffers import empty
from intnet.machine.jit import pjit, prange, rule
from intnet.numbers.fp32 import CHUNK

_BLOCK = 1 << 14  # codes that a thread sums at a time


@rule
def _term(x: np.float32, squares: bool) -> np.float64:
    """x^2, exact, or |x|."""
    value = np.float64(x)
    return value * value if squares else abs(value)


@pjit
def _chunks(team: int, x: np.ndarray, squares: bool, sums: np.ndarray) -> None:
    """sums[k] of chunk k, in its order; of four chunks at a time, as each waits for its last addition."""
    whole = x.shape[0] // CHUNK
    for task in prange(team, (sums.shape[0] + 3) // 4):
        first = 4 * task
        if first + 4 <= whole:
            a, b, c, d = 0.0, 0.0, 0.0, 0.0
            for i in range(first * CHUNK, (first + 1) * CHUNK):
                a += _term(x[i], squares)
                b += _term(x[i + CHUNK], squares)
                c += _term(x[i + 2 * CHUNK], squares)
                d += _term(x[i + 3 * CHUNK], squares)
            sums[first], sums[first + 1], sums[first + 2], sums[first + 3] = a, b, c, d
        else:
            for k in range(first, min(first + 4, sums.shape[0])):
                total = 0.0
                for i in range(k * CHUNK, min((k + 1) * CHUNK, x.shape[0])):
                    total += _term(x[i], squares)
                sums[k] = total


def _in_order(x: np.ndarray, squares: bool) -> float:
    """The total of the chunks' sums, in ascending order."""
    flat = np.ascontiguousarray(x).reshape(-1)
    sums = np.empty(-(-flat.size // CHUNK))
    _chunks(flat, squares, sums)
    total = 0.0
    for part in sums.tolist():
        total += part
    return total


def sum_of_squares(x: np.ndarray) -> float:
    """Sum of x^2 of a float32 array in float64: in chunks of 1024, whose sums are added in order.

    The square of a float32 is exact in float64; each addition rounds once.

    Defined by `spec/float64.py: sum64`.
    """
    return _in_order(x, True)


def sum_of_magnitudes(x: np.ndarray) -> float:
    """Sum of |x| of a float32 array in float64, in the order of `sum_of_squares`.

    Defined by `spec/float64.py: sum64`.
    """
    return _in_order(x, False)


@pjit
def _code_squares(team: int, codes: np.ndarray, sums: np.ndarray) -> None:
    """sums[k] = sums of high^2, high low, low^2 of a block of codes = high * 2**16 + low."""
    for k in prange(team, sums.shape[0]):
        top, middle, rest = np.int64(0), np.int64(0), np.int64(0)
        for i in range(k * _BLOCK, min((k + 1) * _BLOCK, codes.shape[0])):
            high, low = np.int64(codes[i]) >> 16, np.int64(codes[i]) & 0xFFFF
            top += high * high
            middle += high * low
            rest += low * low
        sums[k, 0], sums[k, 1], sums[k, 2] = top, middle, rest


def code_squares(codes: np.ndarray) -> int:
    """The exact sum of the squares of codes of up to 32 bits.

    Defined by `spec/methods/adapt.py: unit_length`.
    """
    flat = np.ascontiguousarray(codes).reshape(-1)
    sums = np.zeros((-(-flat.size // _BLOCK), 3), np.int64)
    _code_squares(flat, sums)
    high, middle, low = (sum(column) for column in sums.T.tolist())
    return (high << 32) + (middle << 17) + low


@pjit
def _divided(team: int, codes: np.ndarray, by: float, out: np.ndarray) -> None:
    for i in prange(team, codes.shape[0]):
        out[i] = np.float32(np.float64(codes[i]) / by)


def divided(codes: np.ndarray, by: float) -> np.ndarray:
    """float32 of codes / by: in float64, then in float32, each rounded once.

    Defined by `spec/methods/adapt.py: unit_length`.
    """
    flat = np.ascontiguousarray(codes).reshape(-1)
    out = empty(flat.shape, np.float32)
    _divided(flat, by, out)
    return out.reshape(codes.shape)
