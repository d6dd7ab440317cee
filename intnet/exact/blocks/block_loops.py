"""Loops over tensors in blocks of 4x4: rounding to block float, limbs of integers, sums of squares.

A tensor blocked over two of its axes is read as x[A, M, B, S]: blocks are 4 along A and 4 along B, while
M and S are all that lies between and after. Arrays of blocks are [ceil(A/4), M, ceil(B/4), S]; the
innermost loops run over B*S elements that lie side by side. What the numbers mean: `block_float.py`.
"""

from typing import Any

import numpy as np

from intnet.machine.instructions import shaped, wide_vectors
from intnet.machine.jit import njit, pjit, prange, rule

SIDE = 4  # of a block
LEAST, GREATEST = -128, 127  # exponents of a block: two's complement of 8 bits
_MAGIC = np.float32(
    1.5 * 2.0**23
)  # added and taken away, it rounds a float32 below 2**22 to an integer, ties to even
_TOP = np.int32(0x7FFFFFFF)  # a float32 without its sign: as integers these order as magnitudes do
_BIAS = 300
_POWERS = 2.0 ** np.arange(-_BIAS, _BIAS + 1)
_BIAS32, _MOST32 = 149, np.int32(127)
_POWERS32 = np.float32(2) ** np.arange(-_BIAS32, _MOST32 + 1).astype(np.float32)  # all that float32 has
_ZERO, _ONE = np.float32(0), np.float32(1)


# --- rounding: the greatest magnitudes, what they ask of each block, the codes --------------------


@rule
def _column_tops(bits: np.ndarray, a0: int, a1: int, m: int, tops: np.ndarray) -> None:
    """tops[b*S + s] = the greatest magnitude, as bits, of rows a0 .. a1-1."""
    wide_vectors()
    tops[:] = 0
    for a in range(a0, a1):
        line = bits[a, m]
        for i in range(line.size):
            tops[i] = np.int32(max(tops[i], np.int32(line[i] & _TOP)))


@rule
def _block_tops(tops: np.ndarray, inner: int, out: np.ndarray) -> None:
    """out[b*S + s] = the greatest of the block's four of `tops`, of the last block's what there are."""
    whole = tops.size // SIDE if inner == 1 else 0
    for k in range(whole):  # a loop of vectors
        out[k] = np.int32(max(tops[SIDE * k], tops[SIDE * k + 1], tops[SIDE * k + 2], tops[SIDE * k + 3]))
    for k in range(whole, out.size):
        out[k] = 0
    for at in range(whole * SIDE, tops.size, inner):
        first = at // (SIDE * inner) * inner
        for s in range(inner):
            out[first + s] = np.int32(max(out[first + s], tops[at + s]))


@rule
def _exponent(top: np.int32) -> np.int32:
    """The smallest e with |x| < 2**e, of the bits of |x| as float32; far below LEAST for 0.

    Those of a subnormal are |x| in units of 2**-149, whose length is the exponent of that integer as float32.

    Defined by `spec/block_float.py: exponent`.
    """
    field = np.int32(top >> np.int32(23))
    length = np.int32(np.int32(np.float32(top).view(np.int32) >> np.int32(23)) - np.int32(126))
    below = np.int32(length - np.int32(149)) if top > 0 else np.int32(-1000)
    return np.int32(field - np.int32(126)) if field > 0 else below


@rule
def _scales(
    tops: np.ndarray, widths: np.ndarray, exponents: np.ndarray, filled: np.ndarray, scales: np.ndarray
) -> int:
    """The exponents of a line of blocks, which are not all 0, and their scales; how many are beyond GREATEST.

    scales: float32[3, blocks]: `up` and `more`, factors of 1 / a code's unit, which float32 may not have; the
    greatest code

    Defined by `spec/block_float.py: quantize`.
    """
    wide_vectors()
    up, more, limit = scales[0], scales[1], scales[2]
    beyond = 0
    for k in range(tops.size):
        e, width = _exponent(tops[k]), np.int32(widths[k])
        beyond += e > GREATEST
        kept = LEAST <= e <= GREATEST
        e = e if kept else np.int32(LEAST)
        exponents[k] = e
        filled[k] = kept
        alive = kept and width > 0
        power = np.int32(width - 1 - e)
        first = _MOST32 if power > _MOST32 else power
        up[k] = _POWERS32[_BIAS32 + first] if alive else _ZERO
        more[k] = _POWERS32[_BIAS32 + power - first]
        limit[k] = _POWERS32[_BIAS32 + width - 1] - _ONE if alive else _ZERO
    return beyond


@rule
def _spread(of_blocks: np.ndarray, inner: int, line: np.ndarray) -> None:
    """line[i] = what its block has."""
    whole = line.size // SIDE if inner == 1 else 0
    for k in range(whole):  # a loop of vectors
        value = of_blocks[k]
        for j in range(SIDE):
            line[SIDE * k + j] = value
    for at in range(whole * SIDE, line.size, inner):
        first = at // (SIDE * inner) * inner
        for s in range(inner):
            line[at + s] = of_blocks[first + s]


@rule
def round_line(source: np.ndarray, scales: np.ndarray, target: np.ndarray) -> np.int32:
    """target = codes of source in the steps of its blocks; how many were limited. scales: of each element.

    float32 has every number on the way: a power of two times x is exact unless it is far below 1/2, where the
    code is 0.

    Defined by `spec/block_float.py: quantize`.
    """
    wide_vectors()
    up, more, limit = scales[0], scales[1], scales[2]
    count = np.int32(0)
    for i in range(source.size):
        code = (source[i] * up[i] * more[i] + _MAGIC) - _MAGIC
        inside = min(max(code, -limit[i]), limit[i])
        count = np.int32(count + np.int32(inside != code))
        target[i] = np.int32(inside)
    return count


@pjit
def quantize(
    team: int, x: np.ndarray, bits: np.ndarray, inner: int, widths: np.ndarray, codes: np.ndarray,
    exponents: np.ndarray, filled: np.ndarray, saturated: np.ndarray, beyond: np.ndarray,
) -> None:  # fmt: skip
    """codes = x in its block's mantissas, with the exponents of the blocks.

    x: float32[A, M, B*S]; codes: int8, likewise; bits: the same x as int32; inner: S; of blocks: widths,
    exponents, filled: 0 where all of a block is below 2**(LEAST-1), so 0. Counts of each (A, M): codes
    limited, and blocks whose exponent is beyond GREATEST, those of NaN and infinity too.

    Defined by `spec/block_float.py: quantize`.
    """
    rows, mids, size = x.shape
    blocks = exponents.shape[2] * inner
    for task in prange(team, exponents.shape[0] * mids):
        block_row, m = task // mids, task % mids
        a0, a1 = block_row * SIDE, min(block_row * SIDE + SIDE, rows)
        tops, of_blocks = np.empty(size, np.int32), np.empty(blocks, np.int32)
        scales, lines = np.empty((3, blocks), np.float32), np.empty((3, size), np.float32)
        _column_tops(bits, a0, a1, m, tops)
        _block_tops(tops, inner, of_blocks)
        beyond[task] = _scales(
            of_blocks, shaped(widths[block_row, m], (blocks,)), shaped(exponents[block_row, m], (blocks,)),
            shaped(filled[block_row, m], (blocks,)), scales,
        )  # fmt: skip
        for k in range(3):
            _spread(scales[k], inner, lines[k])
        for a in range(a0, a1):
            saturated[task] += round_line(x[a, m], lines, codes[a, m])


# --- values, limbs, and sums of squares -----------------------------------------------------------


@pjit
def values(
    team: int, codes: np.ndarray, inner: int, exponents: np.ndarray, widths: np.ndarray, out: np.ndarray
) -> None:
    """out = codes * 2**(e - b + 1), which float32 has: at most 8 bits, of a step of 2**-135 at least.

    codes: int8[A, M, B*S]; out: float32, likewise; inner: S; exponents, widths: of the blocks

    Defined by `spec/block_float.py: real`.
    """
    rows, mids, size = codes.shape
    blocks = exponents.shape[2] * inner
    for task in prange(team, exponents.shape[0] * mids):
        block_row, m = task // mids, task % mids
        e, b = shaped(exponents[block_row, m], (blocks,)), shaped(widths[block_row, m], (blocks,))
        steps, line = np.empty(blocks, np.float32), np.empty(size, np.float32)
        for k in range(blocks):  # where b is 0 codes are too
            steps[k] = _POWERS32[_BIAS32 + np.int32(e[k]) - max(np.int32(b[k]), np.int32(1)) + 1]
        _spread(steps, inner, line)
        for a in range(block_row * SIDE, min(block_row * SIDE + SIDE, rows)):
            for i in range(size):
                out[a, m, i] = np.float32(codes[a, m, i]) * line[i]


@njit
def extent(exponents: np.ndarray, widths: np.ndarray, filled: np.ndarray) -> tuple[int, int]:
    """(the least e - b + 1, the greatest e) of the blocks that have other codes than 0; flat arrays."""
    wide_vectors()
    low, high = np.int32(_BIAS), np.int32(-_BIAS)
    for k in range(exponents.size):
        e, b = np.int32(exponents[k]), np.int32(widths[k])
        live = filled[k] > 0 and b > 0
        low = min(low, np.int32(e - b + 1) if live else np.int32(_BIAS))
        high = max(high, e if live else np.int32(-_BIAS))
    return int(low), int(high)


@rule
def _places(exponents: np.ndarray, widths: np.ndarray, filled: np.ndarray, low: int, out: np.ndarray) -> None:
    """out = how many places a code's unit lies above 2**low, of each block; 0 where all codes are 0."""
    wide_vectors()
    for k in range(out.size):
        b = np.int32(widths[k])
        out[k] = np.int32(np.int32(exponents[k]) - b + 1 - low) if filled[k] > 0 and b > 0 else np.int32(0)


@rule
def _digit(codes: np.ndarray, places: np.ndarray, shift: Any, mask: Any, out: np.ndarray) -> None:
    """out = bits of the integers codes * 2**places from `shift` on, in the type of `shift`."""
    wide_vectors()
    whole = type(shift)
    for i in range(codes.shape[0]):
        out[i] = np.int16(((whole(codes[i]) << whole(places[i])) >> shift) & mask)


@pjit
def cut_limbs(
    team: int, codes: np.ndarray, inner: int, exponents: np.ndarray, widths: np.ndarray, filled: np.ndarray,
    low: int, size: int, bits: int, out: np.ndarray,
) -> None:  # fmt: skip
    """out[k] = limb k of the values as integers in units of 2**low, which have `bits` bits and a sign.

    All limbs but the last are `size` bits from 0 on; the last has what is left, and the sign.
    codes: int8[A, M, B*S]; inner: S; exponents, widths, filled: of the blocks; out: int16[limbs, A, M, B*S]

    Defined by `spec/block_float.py: real`.
    """
    rows, mids, length = codes.shape
    blocks, limbs = exponents.shape[2] * inner, out.shape[0]
    for task in prange(team, exponents.shape[0] * mids):
        block_row, m = task // mids, task % mids
        places, line = np.empty(blocks, np.int32), np.empty(length, np.int32)
        _places(
            shaped(exponents[block_row, m], (blocks,)), shaped(widths[block_row, m], (blocks,)),
            shaped(filled[block_row, m], (blocks,)), low, places,
        )  # fmt: skip
        _spread(places, inner, line)
        for a in range(block_row * SIDE, min(block_row * SIDE + SIDE, rows)):
            for k in range(limbs):
                mask = (1 << size) - 1 if k < limbs - 1 else -1
                if bits < 31:
                    _digit(codes[a, m], line, np.int32(k * size), np.int32(mask), out[k, a, m])
                else:
                    _digit(codes[a, m], line, np.int64(k * size), np.int64(mask), out[k, a, m])


@rule
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
