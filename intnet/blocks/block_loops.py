"""Loops over tensors in blocks of 4x4: rounding to block float, picking a band, sums of squares.

A tensor blocked over two of its axes is read as x[A, M, B, S]: blocks are 4 along A and 4 along B, while
M and S are all that lies between and behind. Arrays of blocks are [ceil(A/4), M, ceil(B/4), S]; the
innermost loops run over B*S elements that lie side by side. What the numbers mean: `blocks/block_float.py`.
"""

import numpy as np

from intnet.machine.jit import njit, pjit, prange

SIDE = 4  # of a block
LEAST, GREATEST = -128, 127  # exponents of a block: two's complement of 8 bits
_MAGIC = 1.5 * 2.0**52  # added and taken away, it rounds a float64 below 2**51 to an integer, ties to even
_TOP = 0x7FFFFFFF  # a float32 without its sign: as integers these order as magnitudes do
_BIAS = 300
_POWERS = 2.0 ** np.arange(-_BIAS, _BIAS + 1)


@njit
def _exponent(top: int) -> int:
    """The smallest e with |x| < 2**e, of the bits of |x| as float32; far below LEAST for 0.

    Defined by `spec/block_float.py: exponent`.
    """
    field = top >> 23
    if field:
        return field - 126
    length = 0
    while top >> length:
        length += 1
    return length - 149 if length else -1000


@njit
def _column_tops(bits: np.ndarray, a0: int, a1: int, m: int, tops: np.ndarray) -> None:
    """tops[b*S + s] = the greatest magnitude, as bits, of rows a0 .. a1-1."""
    tops[:] = 0
    for a in range(a0, a1):
        line = bits[a, m]
        for i in range(line.size):
            tops[i] = max(tops[i], line[i] & _TOP)


@pjit
def quantize(
    team: int, x: np.ndarray, bits: np.ndarray, inner: int, widths: np.ndarray, values: np.ndarray,
    exponents: np.ndarray, filled: np.ndarray, saturated: np.ndarray, beyond: np.ndarray,
) -> None:  # fmt: skip
    """values = x in its block's mantissas, as float32, with the exponents of the blocks.

    x, values: float32[A, M, B*S]; bits: the same x as int32; inner: S; of blocks: widths, exponents, filled
    filled: 0 where all of a block is below 2**(LEAST-1), so 0. Counts of each (A, M): values limited, and
    blocks whose exponent is beyond GREATEST, those of NaN and infinity too.

    Defined by `spec/block_float.py: quantize`.
    """
    rows, mids, size = x.shape
    for task in prange(team, exponents.shape[0] * mids):
        block_row, m = task // mids, task % mids
        a0, a1 = block_row * SIDE, min(block_row * SIDE + SIDE, rows)
        tops = np.empty(size, np.int32)
        up, down, limit = np.empty(size), np.empty(size), np.empty(size)
        _column_tops(bits, a0, a1, m, tops)
        for b in range(exponents.shape[2]):
            first, last = b * SIDE * inner, min((b + 1) * SIDE * inner, size)
            for s in range(inner):
                top = np.int32(0)
                for i in range(first + s, last, inner):
                    top = max(top, tops[i])
                e, width = _exponent(top), np.int64(widths[block_row, m, b, s])
                beyond[task] += e > GREATEST
                kept = LEAST <= e <= GREATEST
                e = e if kept else LEAST
                exponents[block_row, m, b, s] = e
                filled[block_row, m, b, s] = kept
                alive = kept and width > 0
                lsb, most = _POWERS[_BIAS + e - width + 1], _POWERS[_BIAS + width - 1] - 1.0
                for i in range(first + s, last, inner):
                    up[i] = 1.0 / lsb if alive else 0.0
                    down[i] = lsb
                    limit[i] = most if alive else 0.0
        count = 0
        for a in range(a0, a1):
            source, target = x[a, m], values[a, m]
            for i in range(size):
                code = (np.float64(source[i]) * up[i] + _MAGIC) - _MAGIC
                inside = min(max(code, -limit[i]), limit[i])
                count += inside != code
                target[i] = np.float32(inside * down[i] + 0.0)  # -0 becomes +0
        saturated[task] = count


@pjit
def select(
    team: int, values: np.ndarray, inner: int, exponents: np.ndarray, low: int, high: int, out: np.ndarray
) -> None:
    """out = the values of the blocks whose exponent is one of low .. high, else 0. [A, M, B*S]."""
    rows, mids, size = values.shape
    for task in prange(team, exponents.shape[0] * mids):
        block_row, m = task // mids, task % mids
        for a in range(block_row * SIDE, min(block_row * SIDE + SIDE, rows)):
            for i in range(size):
                e = exponents[block_row, m, i // (SIDE * inner), i % inner]
                out[a, m, i] = values[a, m, i] if low <= e <= high else np.float32(0)


@njit
def _add_squares(line: np.ndarray, inner: int, totals: np.ndarray) -> None:
    """totals[b*S + s] += the squares of the block's values in this row, one after another."""
    whole = line.size // SIDE if inner == 1 else 0
    for b in range(whole):  # a loop of vectors
        total = totals[b]
        for k in range(SIDE):
            g = np.float64(line[b * SIDE + k])
            total += g * g
        totals[b] = total
    for i in range(whole * SIDE, line.size):
        g = np.float64(line[i])
        totals[i // (SIDE * inner) * inner + i % inner] += g * g


@pjit
def add_sensitivities(
    team: int, g: np.ndarray, inner: int, exponents: np.ndarray, filled: np.ndarray, sums: np.ndarray
) -> None:
    """sums += 2**(2e) / 16 times the sum of g*g over each filled block, row by row from 0, in float64.

    g: float32[A, M, B*S]; sums: float64[.., M, .., S]

    Defined by `spec/methods/dynasty_map.py: sensitivity`.
    """
    rows, mids = g.shape[0], g.shape[1]
    for task in prange(team, exponents.shape[0] * mids):
        block_row, m = task // mids, task % mids
        totals = np.zeros(exponents.shape[2] * inner)
        for a in range(block_row * SIDE, min(block_row * SIDE + SIDE, rows)):
            _add_squares(g[a, m], inner, totals)
        e, full, target = exponents[block_row, m], filled[block_row, m], sums[block_row, m]
        for b in range(e.shape[0]):
            for s in range(inner):
                if full[b, s]:
                    target[b, s] += totals[b * inner + s] * _POWERS[_BIAS + 2 * np.int64(e[b, s]) - 4]
