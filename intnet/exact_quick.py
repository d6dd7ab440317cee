"""The quick lane of `exact.py` over whole tensors: rows through the stages of `exact_stages.py`.

A tensor is walked flat in rows of some hundred elements, a multiple of the channels C, so that
position j of a row belongs to channel j % C. What an expression must be for this, and the functions
that `exact.py` calls: `exact_lane.py`.
"""

from typing import Any

import numpy as np

from intnet import exact_stages as stages
from intnet._jit import njit, pjit, prange
from intnet.exact_stages import (
    DEN,
    FIRST,
    INEXACT,
    INVERSE,
    MISFIT,
    NOT_FINITE,
    OFFSET,
    PEAK,
    SATURATED,
    SECOND,
)  # fmt: skip

UNLIMITED = 2.0**62  # a range to +-this clips nothing
ROUND, PEAKS, SIGNS, FLOATS = range(4)  # tasks


# A lane of a kernel is the tuple (u, its size, v, its size, elements, least, tile): the codes of both
# terms as bytes (v is empty where there is one), how many there are, and what num is raised to.


@njit
def read_part(
    task: int, lane: Any, first: int, last: int, lo: float, hi: float, edge: float, unit: float,
    words: np.ndarray, bits: int, signs: np.ndarray, out: np.ndarray, size: int, results: np.ndarray,
) -> None:  # fmt: skip
    """One task on elements first .. last of a float64 lane, and num > 0 into `signs` if it is not empty.

    ROUND:  codes of `size` bytes into `out`, stochastic where there are words, on two grids where
            edge > 0; results are SATURATED, INEXACT, PEAK and MISFIT: rows with a float32 not finite.
            Of float32 where unit > 0: value = float32 * unit
    PEAKS:  results[j] = max |num| at position j of a row
    SIGNS:  that alone
    FLOATS: num / den * unit as float32 into `out`; results[0] is the greatest bit pattern
    """
    u, u_size, v, v_size, _, least, tile = lane
    width, scratch, two = tile.shape[1], np.empty((2, tile.shape[1]), np.float64), v.shape[0] > 0
    offset, first_coef, second_coef = tile[OFFSET], tile[FIRST], tile[SECOND]
    den, inverse = tile[DEN], tile[INVERSE]
    num, other = scratch[0], scratch[1]
    for at in range(first, last, width):
        n = min(width, last - at)
        if task == ROUND and unit > 0.0:
            stages.floats_to_codes(u, at, n, unit, lo, hi, out, size, results)
            continue
        pattern = stages.term(u, u_size, at, n, first_coef, offset, other if two else num)
        if two:
            stages.term(v, v_size, at, n, second_coef, other, num)
        if signs.shape[0] > 0:
            stages.signs(num, n, signs, at)
        if task == PEAKS:
            stages.peaks(num, n, least, results)
        elif task == FLOATS:
            top = stages.floats(num, n, den, inverse, least, unit, other.view(np.int64), out, at)
            results[0] = max(results[0], top)
        elif pattern >= NOT_FINITE:
            results[MISFIT] += 1
        elif task == ROUND:
            saturated = np.int64(0)
            if words.shape[0] > 0:
                saturated, inexact = stages.random(num, n, den, inverse, least, lo, hi, words, at, bits)
            elif edge > 0:
                saturated, inexact = stages.flagged(num, n, den, inverse, least, lo, hi, edge)
            elif min(-lo, hi) < UNLIMITED:
                saturated, inexact = stages.nearest(num, n, den, inverse, least, lo, hi)
            else:
                inexact = stages.unclipped(num, n, den, inverse, least)
            results[SATURATED] += saturated
            results[INEXACT] += inexact
            results[PEAK] = max(results[PEAK], stages.store(num, n, out, size, at))


@njit
def narrow_part(
    task: int, lane: Any, first: int, last: int, lo: int, hi: int, drop: np.int32, signs: np.ndarray,
    out: np.ndarray, size: int, results: np.ndarray,
) -> None:  # fmt: skip
    """`read_part` of an int32 lane: ROUND to nearest of num / 2**drop, PEAKS or SIGNS."""
    u, u_size, v, v_size, _, least, tile = lane
    width, scratch, two = tile.shape[1], np.empty((2, tile.shape[1]), np.int32), v.shape[0] > 0
    offset, first_coef, second_coef = tile[OFFSET], tile[FIRST], tile[SECOND]
    num, other = scratch[0], scratch[1]
    for at in range(first, last, width):
        n = min(width, last - at)
        stages.term(u, u_size, at, n, first_coef, offset, other if two else num)
        if two:
            stages.term(v, v_size, at, n, second_coef, other, num)
        if signs.shape[0] > 0:
            stages.signs(num, n, signs, at)
        if task == PEAKS:
            stages.peaks(num, n, least, results)
        elif task == ROUND:
            saturated, inexact = stages.shifted(num, n, drop, least, lo, hi)
            results[SATURATED] += saturated
            results[INEXACT] += inexact
            results[PEAK] = max(results[PEAK], stages.store(num, n, out, size, at))


@njit
def _cut(lane: Any, b: int, blocks: int) -> tuple[int, int]:
    """First and last element of one of `blocks` parts: whole rows."""
    elements, width = lane[4], lane[6].shape[1]
    rows = -(-elements // width)
    return rows * b // blocks * width, min(rows * (b + 1) // blocks * width, elements)


@pjit
def read_all(
    task: int, lane: Any, lo: float, hi: float, edge: float, unit: float, words: np.ndarray, bits: int,
    signs: np.ndarray, out: np.ndarray, size: int, results: np.ndarray,
) -> None:  # fmt: skip
    """`read_part` of all elements on all threads; a line of results a block."""
    blocks = results.shape[0]
    for b in prange(blocks):
        first, last = _cut(lane, b, blocks)
        read_part(task, lane, first, last, lo, hi, edge, unit, words, bits, signs, out, size, results[b])


@pjit
def narrow_all(
    task: int, lane: Any, lo: int, hi: int, drop: np.int32, signs: np.ndarray, out: np.ndarray, size: int,
    results: np.ndarray,
) -> None:  # fmt: skip
    """`narrow_part` of all elements on all threads; a line of results a block."""
    blocks = results.shape[0]
    for b in prange(blocks):
        first, last = _cut(lane, b, blocks)
        narrow_part(task, lane, first, last, lo, hi, drop, signs, out, size, results[b])


@pjit
def top_patterns(floats: np.ndarray, tops: np.ndarray) -> None:
    """The greatest bit pattern of each block of float32 values, given as bytes."""
    n, blocks = floats.shape[0] // 4, tops.shape[0]
    for b in prange(blocks):
        tops[b] = stages.top_pattern(floats, n * b // blocks, n * (b + 1) // blocks)
