"""Loops over float32 tensors in MX blocks: a block's scale from its greatest magnitude, then its elements.

A tensor is read as x[A, n, B]: blocks of SIZE lie along n, what is left at its end is a smaller one. Where B
is 1 a block is a piece of memory; else columns that lie side by side are read together, TILE at a time. What
the numbers mean: `mx_blocks.py`.

To nearest, in float32: y = x * 2^-k is exact wherever it is not far below half a least step, and y + c - c is
y to nearest in steps of 2^s, ties to even, for c = 1.5 * 2^(23 + s) and |y| < 2^(22 + s). Its s is the binade
of y, from L on, less m; the binade is read off x. All other ways to round, and blocks whose k is below FROM,
in which x may be subnormal where that counts, or beyond UP_TO, take float64, in which every step is exact.
"""

from typing import Any

import numpy as np

from intnet.machine.jit import inlined, pjit, prange, rule
from intnet.numbers.rounding import STOCHASTIC, TIES_AWAY, TIES_EVEN, TIES_POS, TO_NEG, TO_POS

SIZE = 32  # elements of a block
TILE = 1024  # columns that are read together
LEAST, GREATEST = -127, 127  # of k
FROM, UP_TO = -100, 126  # of k, where float32 holds all that rounding to nearest needs
_TOP = np.int32(0x7FFFFFFF)  # a float32 without its sign: as integers these order as magnitudes do
_FIELD, _FRACTION = np.int32(23), 0x7FFFFF
_INFINITE = 0xFF << 23
_UP = np.float32(2.0**24)
_POWERS = (2.0 ** np.arange(LEAST, GREATEST + 1)).astype(np.float32)


@rule
def _scale(top: Any, edge: int, limit: int) -> Any:
    """k of a block whose greatest magnitude has the bits `top`; limit: fractions of it above this lift k.

    Beyond GREATEST where it is infinite or NaN. Defined by `spec/microscaling.py: scale_of`.
    """
    if top >= _INFINITE:
        return 2 * GREATEST
    lead = (top >> 23) - 127
    if lead == LEAST:
        if top == 0:
            return LEAST
        top = np.float32(np.int32(top).view(np.float32) * _UP).view(np.int32)
        lead = (top >> 23) - 151
    return max(lead - edge + ((top & _FRACTION) > limit), LEAST)


@rule
def _tops(bits: np.ndarray, n: int, of: np.ndarray) -> None:
    """The greatest magnitude of each block of rows of n, as bits; usual lengths are loops of vectors."""
    if n == SIZE // 2:
        for b in range(of.size):
            top = np.int32(0)
            for i in range(SIZE // 2):
                top = max(top, np.int32(bits[b * (SIZE // 2) + i] & _TOP))
            of[b] = top
    elif n % SIZE == 0:
        for b in range(of.size):
            top = np.int32(0)
            for i in range(SIZE):
                top = max(top, np.int32(bits[b * SIZE + i] & _TOP))
            of[b] = top
    else:
        count = -(-n // SIZE)
        for b in range(of.size):
            top, first = np.int32(0), b // count * n + b % count * SIZE
            for i in range(first, min(first + SIZE, b // count * n + n)):
                top = max(top, np.int32(bits[i] & _TOP))
            of[b] = top


@rule
def _spread(of: np.ndarray, n: int, each: np.ndarray) -> None:
    """A number an element from one a block, of rows of n."""
    if n == SIZE // 2:
        for b in range(of.size):
            each[b * (SIZE // 2) : b * (SIZE // 2) + SIZE // 2] = of[b]
    elif n % SIZE == 0:
        for b in range(of.size):
            each[b * SIZE : b * SIZE + SIZE] = of[b]
    else:
        count = -(-n // SIZE)
        for b in range(of.size):
            first = b // count * n + b % count * SIZE
            each[first : min(first + SIZE, b // count * n + n)] = of[b]


@rule
def _scales(each: np.ndarray, edge: int, limit: int, words: np.ndarray) -> tuple[bool, Any]:
    """Of each block the bits of its greatest magnitude become its k, of zeros 0; words: those of the scales.

    (whether a block is refused, whether all may take float32). In a loop of vectors, unless a block has an
    infinity or a NaN, or is below float32's normal numbers, but for zeros.
    """
    greatest, few, low, high = np.int32(0), np.int32(0), np.int32(0), np.int32(0)
    for i in range(each.size):
        greatest = max(greatest, each[i])
        few = np.int32(few | np.int32((each[i] != 0) & (each[i] < np.int32(1 << 23))))
    usual = few == 0 and greatest < _INFINITE
    for i in range(each.size):
        top = each[i]
        if usual:
            lead = np.int32((top >> _FIELD) - np.int32(127) - edge)
            found = np.int32(max(np.int32(lead + np.int32((top & _FRACTION) > limit)), np.int32(LEAST)))
        else:
            found = np.int32(_scale(top, edge, limit))
        words[i] = found + np.int32(127)
        k = found if top != 0 else np.int32(0)
        each[i], low, high = k, min(low, k), max(high, k)
    if high + edge > GREATEST:
        each[:] = 0
        return True, False
    return False, low >= FROM and high <= UP_TO


@inlined
def _nearest(x: Any, bits: Any, k: Any, least: Any, m: Any) -> Any:
    """An element to nearest, ties to even, ahead of its limit, in units of 2^k; bits: of x.

    Defined by `spec/mx_blocks.py: InBlock.way`.
    """
    down = np.int32((np.int32(127) - k) << _FIELD).view(np.float32)
    field = np.int32(((bits >> _FIELD) & np.int32(255)) - k)
    binade = np.int32(max(field, least))
    c = np.int32(((binade + _FIELD - m) << _FIELD) | np.int32(1 << 22)).view(np.float32)
    return (x * down + c) - c


@inlined
def _anyhow(x: float, down: float, least: int, m: int, mode: int, word: int) -> float:
    """The same by any mode, in float64. Defined by `spec/rounding.py: decision`."""
    y = np.float64(x) * np.float64(down)
    size = np.float64(abs(y))
    binade = max(size.view(np.int64) >> 52, np.int64(least) + 896)  # 1023 - 127: least is a float32's
    unit = np.int64((binade - m) << 52).view(np.float64)
    steps = size / unit
    floor = np.floor(steps)
    rest = steps - floor
    if mode == STOCHASTIC:
        share, drawn = rest * 4294967296.0, np.float64(word)
        outward = drawn < np.floor(share) if y > 0 else drawn + np.ceil(share) >= 4294967296.0
    elif mode == TIES_EVEN:
        outward = rest > 0.5 or (rest == 0.5 and floor != 2.0 * np.floor(floor * 0.5))
    elif mode == TIES_AWAY:
        outward = rest >= 0.5
    elif mode == TIES_POS:
        outward = rest > 0.5 or (rest == 0.5 and y > 0)
    elif mode == TO_POS:
        outward = rest > 0 and y > 0
    else:
        outward = mode == TO_NEG and rest > 0 and y < 0
    made = (floor + outward) * unit
    return -made if y < 0 else made


@rule
def _row(
    x: np.ndarray, bits: np.ndarray, words: np.ndarray, k: np.ndarray, element: tuple[int, ...], most: float,
    mode: int, fast: bool, out: np.ndarray,
) -> Any:  # fmt: skip
    """Elements side by side, of blocks with these k; how many were limited. fast: in float32."""
    least, m, count = np.int32(element[0]), np.int32(element[1]), np.int32(0)
    if fast:
        for i in range(x.size):
            up = np.int32((k[i] + np.int32(127)) << _FIELD).view(np.float32)
            made = _nearest(x[i], bits[i], k[i], least, m)
            inside = min(max(made, -most), most)
            count = np.int32(count + np.int32(inside != made))
            out[i] = inside * up
        return count
    for i in range(x.size):
        down, up = _POWERS[-k[i] - LEAST], _POWERS[k[i] - LEAST]
        made = np.float32(_anyhow(x[i], down, least, m, mode, words[i] if words.size else 0))
        inside = min(max(made, -most), most)
        count = np.int32(count + np.int32(inside != made))
        out[i] = inside * up + np.float32(0)  # -0 becomes +0
    return count


@pjit
def along_memory(
    team: int, x: np.ndarray, bits: np.ndarray, words: np.ndarray, element: tuple[int, ...], most: float,
    mode: int, rows: int, out: np.ndarray, scales: np.ndarray, limited: np.ndarray, beyond: np.ndarray,
) -> None:  # fmt: skip
    """out = x in blocks along its rows, as float32, with the words of their scales.

    x, out: float32[A * n]; bits: the same x as int32; words: uint32[A * n], or of no elements; scales:
    uint8[A * blocks]; element: (L as a float32's field, m, E, fractions above this lift k, n); most: g. Of
    tasks, of so many rows: how many values were limited, whether a block is refused.

    Defined by `spec/mx_blocks.py: quantize_along`.
    """
    edge, limit, n = np.int32(element[2]), np.int32(element[3]), element[4]
    count = -(-n // SIZE)
    for task in prange(team, limited.size):
        a0, a1 = task * rows, min(task * rows + rows, scales.size // count)
        start, stop = a0 * n, a1 * n
        of, each = np.empty((a1 - a0) * count, np.int32), np.empty(stop - start, np.int32)
        _tops(bits[start:stop], n, of)
        beyond[task], fast = _scales(of, edge, limit, scales[a0 * count : a1 * count])
        _spread(of, n, each)
        drawn = words[start:stop] if words.size else words
        fast = fast and mode == TIES_EVEN
        limited[task] = _row(
            x[start:stop], bits[start:stop], drawn, each, element, most, mode, fast, out[start:stop]
        )


@pjit
def along_columns(
    team: int, x: np.ndarray, bits: np.ndarray, words: np.ndarray, element: tuple[int, ...], most: float,
    mode: int, out: np.ndarray, scales: np.ndarray, limited: np.ndarray, beyond: np.ndarray,
) -> None:  # fmt: skip
    """The same of x[A, n, B] in blocks along n: scales[A, blocks, B], limited[A, tiles of columns, n].

    Defined by `spec/mx_blocks.py: quantize_along`.
    """
    edge, limit, n = np.int32(element[2]), np.int32(element[3]), element[4]
    tiles, count = limited.shape[1], scales.shape[1]
    for task in prange(team, x.shape[0] * tiles * count):
        a, b, tile = task // (tiles * count), task // tiles % count, task % tiles
        columns = slice(tile * TILE, min(tile * TILE + TILE, x.shape[2]))
        each, last = np.zeros(columns.stop - columns.start, np.int32), min(b * SIZE + SIZE, n)
        for j in range(b * SIZE, last):
            line = bits[a, j, columns]
            for i in range(each.size):
                each[i] = max(each[i], np.int32(line[i] & _TOP))
        beyond[task], fast = _scales(each, edge, limit, scales[a, b, columns])
        fast = fast and mode == TIES_EVEN
        for j in range(b * SIZE, last):
            drawn = words[a, j, columns] if words.size else words[0, 0]
            limited[a, tile, j] = _row(
                x[a, j, columns], bits[a, j, columns], drawn, each, element, most, mode, fast,
                out[a, j, columns],
            )  # fmt: skip
