"""The quick lane of `exact/expressions.py` over whole tensors: rows through stages.

A tensor is walked flat in rows of some hundred elements, a multiple of the channels C, so that
position j of a row belongs to channel j % C, through the stages of `exact/stages.py` and
`exact/float_stages.py`. What an expression must be for this, and the functions that `exact/expressions.py`
calls: `exact/lane.py`.
"""

from typing import Any

import numpy as np

from intnet.exact import float_stages, stages
from intnet.exact.stages import (  # fmt: skip
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
)
from intnet.machine.instructions import borrowed, shaped
from intnet.machine.jit import njit, pjit, prange, rule
from intnet.machine.tile import line_zeros
from intnet.numbers.rng import draw_part

UNLIMITED = 2.0**62  # a range to +-this clips nothing
ROUND, PEAKS, SIGNS, FLOATS, POWERS, QUOTIENTS = range(6)  # tasks
PIECE = 1 << 12  # elements that go through one stage alone
WIDTH = 384  # elements a row: with its tile and scratch half of a first cache of 48 KB


# The words of a kernel are the tuple (those that are given, whether it draws them itself, number of the
# first element, above, seed): see `rng.draw_part`. Drawn a row at a time they never leave the first cache.


@rule
def is_random(words: Any) -> bool:
    """Whether there are words, given or to be drawn."""
    return words[1] or words[0].shape[0] > 0


@rule
def _room(words: Any, n: int) -> np.ndarray:
    """Memory for the words of n elements, where they are drawn."""
    return np.empty(n + 6 if words[1] else 0, np.uint32)


@rule
def _drawn(words: Any, room: np.ndarray, at: int, n: int) -> tuple[np.ndarray, int]:
    """(words, index in these) of elements at .. at + n - 1."""
    given, own, start, above, seed = words
    if own:
        return room, draw_part(room, start + at, n, above, seed)
    return given, at


# A lane of a kernel is the tuple (u, its size, v, its size, elements, least, tile): the codes of both
# terms as bytes (v is empty where there is one), how many there are, and what num is raised to.


@rule
def _round_row(
    task: int, num: np.ndarray, n: int, den: np.ndarray, inverse: np.ndarray, least: float, lo: float,
    hi: float, fine: int, words: Any, room: np.ndarray, at: int, bits: int,
) -> stages.Counts:  # fmt: skip
    """num becomes its code by the stage that the arguments of ROUND ask for; (saturated, inexact)."""
    if is_random(words):
        drawn, first = _drawn(words, room, at, n)
        if task == QUOTIENTS:
            return stages.random_quotient(num, n, den, inverse, least, lo, hi, drawn, first, bits)
        return stages.random(num, n, inverse, least, lo, hi, drawn, first, bits)
    if fine > 0:
        return stages.flagged(num, n, den, inverse, least, lo, hi, np.float64(1 << fine))
    if min(-lo, hi) < UNLIMITED:
        return stages.nearest(num, n, den, inverse, least, lo, hi)
    return np.int64(0), stages.unclipped(num, n, den, inverse, least)


@njit
def read_part(
    task: int, lane: Any, first: int, last: int, lo: float, hi: float, fine: int, unit: float,
    words: Any, bits: int, signs: np.ndarray, out: np.ndarray, size: int, results: np.ndarray,
    scratch: np.ndarray,
) -> None:  # fmt: skip
    """One task on elements first .. last of a float64 lane, and num > 0 into `signs` if it is not empty.

    ROUND:  codes of `size` bytes into `out`, stochastic where there are words, on two grids where
            fine > 0; results are SATURATED, INEXACT, PEAK and MISFIT: rows with a float32 not finite.
    QUOTIENTS: the same, stochastic by words where some den is no power of two, of integers
    PEAKS:  results[c] = max |num| of channel c, one of as many as there are results
    SIGNS:  that alone
    FLOATS: num / den * unit as float32 into `out`; results[0] is the greatest bit pattern
    POWERS: the same where every den is a power of two
    """
    tile, u, v, u_size, v_size = borrowed(lane[6]), borrowed(lane[0]), borrowed(lane[2]), lane[1], lane[3]
    out, signs, results = borrowed(out), borrowed(signs), borrowed(results)
    words = (borrowed(words[0]), *words[1:])
    scratch, least, width, two = borrowed(scratch), lane[5], tile.shape[1], v.shape[0] > 0
    offset, first_coef, second_coef, room = tile[OFFSET], tile[FIRST], tile[SECOND], _room(words, width)
    den, inverse = tile[DEN], tile[INVERSE]
    num, other, tops = scratch[0], scratch[1], scratch[2]
    tops[:] = 0
    for at in range(first, last, width):
        n = min(width, last - at)
        pattern = stages.term(u, u_size, at, n, first_coef, offset, other if two else num)
        if two:
            stages.term(v, v_size, at, n, second_coef, other, num)
        if signs.shape[0] > 0:
            stages.signs(num, n, signs, at)
        if task == PEAKS:
            stages.peaks(num, n, least, tops)
        elif task == POWERS:
            top = float_stages.floats_of_powers(num, n, inverse, least, unit, out, at)
            results[0] = max(results[0], top)
        elif task == FLOATS:
            top = float_stages.floats(num, n, den, inverse, least, unit, other.view(np.int64), out, at)
            results[0] = max(results[0], top)
        elif pattern >= NOT_FINITE:
            results[MISFIT] += 1
        elif task in (ROUND, QUOTIENTS):
            saturated, inexact = _round_row(
                task, num, n, den, inverse, least, lo, hi, fine, words, room, at, bits
            )  # fmt: skip
            results[SATURATED] += saturated
            results[INEXACT] += inexact
            results[PEAK] = max(results[PEAK], stages.store(num, n, out, size, at))
    if task == PEAKS:
        _fold_tops(tops, results)


@njit
def round_few(
    vectors: np.ndarray, codes: Any, u_top: float, v_top: float, scale: float, limit: float, lo: float,
    hi: float, fine: int, words: Any, bits: int, signs: np.ndarray, out: np.ndarray, size: int,
) -> tuple[bool, stages.Int, stages.Int, stages.Int]:  # fmt: skip
    """ROUND of `read_part` and the tile that it reads: (done, saturated, inexact, peak).

    codes: a lane without its tile; vectors, tops, scale and limit as of `stages.fill_tile`. Not done where
    it does not prove them exact, or where a float32 is not finite.
    """
    elements, channels = codes[4], vectors.shape[1]
    width = channels * max(1, min(WIDTH, elements) // channels)
    tile, scratch, results = np.empty((5, width)), np.empty((3, width)), np.zeros(4)
    exact, _, powers = stages.fill_tile(vectors, u_top, v_top, scale, limit, tile)
    if not exact and not (codes[1] == stages.FLOAT32 and powers):
        return False, 0, 0, 0
    drawn = is_random(words) and not powers
    if drawn and codes[1] == stages.FLOAT32:
        return False, 0, 0, 0
    task, lane, first = QUOTIENTS if drawn else ROUND, (*codes, tile), np.int64(0)
    read_part(task, lane, first, elements, lo, hi, fine, 1.0, words, bits, signs, out, size, results, scratch)
    counts = results.astype(np.int64)
    return counts[MISFIT] == 0, counts[SATURATED], counts[INEXACT], counts[PEAK]


@rule
def _round_narrow_row(
    num: np.ndarray, n: int, drop: np.int32, least: int, lo: int, hi: int, words: Any, room: np.ndarray,
    at: int,
) -> stages.Counts:  # fmt: skip
    """`_round_row` in int32."""
    if is_random(words):
        drawn, first = _drawn(words, room, at, n)
        return stages.shifted_random(num, n, drop, least, lo, hi, drawn, first)
    return stages.shifted(num, n, drop, least, lo, hi)


@rule
def narrow_part(
    task: int, lane: Any, first: int, last: int, lo: int, hi: int, drop: np.int32, words: Any,
    signs: np.ndarray, out: np.ndarray, size: int, results: np.ndarray, scratch: np.ndarray,
) -> None:  # fmt: skip
    """`read_part` of an int32 lane: ROUND of num / 2**drop, PEAKS or SIGNS."""
    tile, u, v, u_size, v_size = borrowed(lane[6]), borrowed(lane[0]), borrowed(lane[2]), lane[1], lane[3]
    out, signs, results = borrowed(out), borrowed(signs), borrowed(results)
    words = (borrowed(words[0]), *words[1:])
    scratch, least, width, two = borrowed(scratch), lane[5], tile.shape[1], v.shape[0] > 0
    offset, first_coef, second_coef, room = tile[OFFSET], tile[FIRST], tile[SECOND], _room(words, width)
    num, other, tops = scratch[0], scratch[1], scratch[2]
    tops[:] = 0
    for at in range(first, last, width):
        n = min(width, last - at)
        stages.term(u, u_size, at, n, first_coef, offset, other if two else num)
        if two:
            stages.term(v, v_size, at, n, second_coef, other, num)
        if signs.shape[0] > 0:
            stages.signs(num, n, signs, at)
        if task == PEAKS:
            stages.peaks(num, n, least, tops)
        elif task == ROUND:
            saturated, inexact = _round_narrow_row(num, n, drop, least, lo, hi, words, room, at)
            results[SATURATED] += saturated
            results[INEXACT] += inexact
            results[PEAK] = max(results[PEAK], stages.store(num, n, out, size, at))
    if task == PEAKS:
        _fold_tops(tops, results)


@rule
def _fold_tops(tops: np.ndarray, results: np.ndarray) -> None:
    """The maxima of the positions of a row, a multiple of the channels, into those of the channels."""
    channels = results.shape[0]
    for j in range(tops.shape[0]):
        results[j % channels] = max(results[j % channels], tops[j])


@rule
def _join(task: int, results: np.ndarray) -> None:
    """Add up the lines of results in the first one: counts are summed, maxima compared."""
    first = results[0]
    for b in range(1, results.shape[0]):
        for k in range(first.shape[0]):
            if task in (ROUND, QUOTIENTS) and k != PEAK:
                first[k] += results[b, k]
            else:
                first[k] = max(first[k], results[b, k])


@rule
def _cut(elements: int, width: int, b: int, blocks: int) -> tuple[int, int]:
    """First and last element of one of `blocks` parts: whole rows of `width`."""
    rows = -(-elements // width)
    return rows * b // blocks * width, min(rows * (b + 1) // blocks * width, elements)


@rule
def _in_lines(tile: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The tile, and a scratch of three rows: from a cache line on, so that no vector lies across two."""
    rows, width = tile.shape
    memory = shaped(line_zeros((rows + 3) * width, tile), (rows + 3, width))
    for k in range(rows):  # a copy of a slice would compile the text of its error too
        for j in range(width):
            memory[3 + k, j] = tile[k, j]
    return memory[3:], memory[:3]


@pjit
def read_all(
    team: int, task: int, lane: Any, lo: float, hi: float, fine: int, unit: float, words: Any,
    bits: int, signs: np.ndarray, out: np.ndarray, size: int, results: np.ndarray,
) -> None:  # fmt: skip
    """`read_part` of all elements on all threads: as many blocks as `results` has lines; see the first."""
    blocks = results.shape[0]
    tile, scratch = _in_lines(lane[6])
    own = (*lane[:6], tile)
    for b in prange(team, blocks):
        first, last = _cut(lane[4], tile.shape[1], b, blocks)
        read_part(
            task, own, first, last, lo, hi, fine, unit, words, bits, signs, out, size, results[b], scratch
        )  # fmt: skip
    if team > 0:
        _join(task, results)


@pjit
def narrow_all(
    team: int, task: int, lane: Any, lo: int, hi: int, drop: np.int32, words: Any, signs: np.ndarray,
    out: np.ndarray, size: int, results: np.ndarray,
) -> None:  # fmt: skip
    """`narrow_part` of all elements on all threads: as many blocks as `results` has lines; see the first."""
    blocks = results.shape[0]
    tile, scratch = _in_lines(lane[6])
    own = (*lane[:6], tile)
    for b in prange(team, blocks):
        first, last = _cut(lane[4], tile.shape[1], b, blocks)
        narrow_part(task, own, first, last, lo, hi, drop, words, signs, out, size, results[b], scratch)
    if team > 0:
        _join(task, results)


@pjit
def quantize_floats(
    team: int, floats: np.ndarray, unit: float, lo: float, hi: float, words: Any, bits: int,
    out: np.ndarray, size: int, results: np.ndarray,
) -> None:  # fmt: skip
    """ROUND of `read_part` for float32 alone, given as bytes: value = float32 * unit, on one grid."""
    blocks, elements = results.shape[0], floats.shape[0] // 4
    for b in prange(team, blocks):
        first, last = _cut(elements, PIECE, b, blocks)
        room, target, counts = _room(words, PIECE), borrowed(out), borrowed(results[b])
        for at in range(first, last, PIECE):
            n = min(PIECE, last - at)
            if is_random(words):
                drawn, ahead = _drawn(words, room, at, n)
                ahead -= at
                float_stages.floats_to_codes(
                    floats, at, n, unit, lo, hi, drawn, ahead, bits, target, size, counts
                )  # fmt: skip
            else:
                float_stages.floats_to_codes(
                    floats, at, n, unit, lo, hi, None, 0, bits, target, size, counts
                )  # fmt: skip
    if team > 0:
        _join(ROUND, results)


@pjit
def scale_codes(team: int, codes: np.ndarray, size: int, unit: float, out: np.ndarray) -> None:
    """FLOATS of `read_part` for codes of `size` bytes, 4 at most, as they are: code * unit as float32."""
    elements = codes.shape[0] // size
    for piece in prange(team, (elements + PIECE - 1) // PIECE):
        at = piece * PIECE
        float_stages.codes_to_floats(codes, size, at, min(PIECE, elements - at), unit, out)


@pjit
def top_patterns(team: int, floats: np.ndarray, tops: np.ndarray) -> None:
    """The greatest bit pattern of each block of float32 values, given as bytes."""
    n, blocks = floats.shape[0] // 4, tops.shape[0]
    for b in prange(team, blocks):
        tops[b] = stages.top_pattern(floats, n * b // blocks, n * (b + 1) // blocks)
