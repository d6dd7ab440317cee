"""Stages of the quick lane: what `exact/rows.py` does to a row of elements, in a scratch row in the cache.

    num = offset + cu * u + cv * v        exact in float64 (below 2**51) or int32
    num -> code                           nearest, flagged, random, shifted, ..: rounded, clipped, counted
    num -> max |num|, num > 0             peaks, signs
    code -> bytes of the output           store

Position j of a row has its own coefficients: an expression's five vectors, repeated to a row's length, are
a tile. Codes are bytes of any integer type (`instructions.get`, `put`), so each stage is compiled once. What
reads float32 alone, or gives it: `exact/float_stages.py`.

Defined by `spec/rounding.py: decision`, `spec/formats.py: Flag.way`.
"""

from typing import Any

import numpy as np

from intnet.machine.instructions import get, put, quotient, residual, wide_vectors
from intnet.machine.jit import njit, rule

FLOAT32 = 0  # the size that stands for float32 codes; integers have theirs in bytes
Int = Any  # an int64 of a kernel
Counts = tuple[Int, Int]  # (saturated, inexact)

NARROW = (1 << 31) - 1  # numerators up to here are int32
NOT_FINITE = 0x7F800000  # bit patterns of float32 from here on are infinity or NaN

OFFSET, FIRST, SECOND, DEN, INVERSE = range(5)  # rows of a tile
SATURATED, INEXACT, PEAK, MISFIT = range(4)  # counts of a rounding


# -- scalars ---------------------------------------------------------------------------------
# Numba's own `max` and `min` of two int32 are int64, which halves the lanes of a loop.


@rule
def greater(a: Any, b: Any) -> Any:
    """The greater one, of its own type."""
    return a if a > b else b


@rule
def lesser(a: Any, b: Any) -> Any:
    """The lesser one, of its own type."""
    return a if a < b else b


# -- numerators ------------------------------------------------------------------------------


@njit
def fill_tile(
    vectors: np.ndarray, u_top: float, v_top: float, scale: float, limit: float, tile: np.ndarray
) -> tuple[bool, float, bool]:
    """Fill the tile from int64 vectors[4, C] = offset, cu, cv, den; value = num/den * scale.

    Returns whether |num| and den, as integers (num times scale, less what its power of two cancels of den),
    are proven to be within `limit`; a bound on |value|; whether all den are powers of two.
    """
    channels, bound, top, widest, powers = vectors.shape[1], 0.0, 0.0, 0.0, True
    for c in range(channels):
        offset, first = np.float64(vectors[0, c]), np.float64(vectors[1, c])
        second, den = np.float64(vectors[2, c]), np.float64(vectors[3, c])
        num = abs(offset) + abs(first) * u_top + abs(second) * v_top
        even = np.float64(vectors[3, c] & -vectors[3, c])
        bound, top, widest = max(bound, num * max(1.0, scale / even)), max(top, num / den), max(widest, den)
        powers &= even == den
        den = den / scale
        tile[OFFSET, c], tile[FIRST, c], tile[SECOND, c] = offset, first, second
        tile[DEN, c], tile[INVERSE, c] = den, 1.0 / den
    _repeat(tile, channels)
    return bound <= limit and widest <= limit, top * scale, powers


@rule
def _repeat(tile: np.ndarray, channels: int) -> None:
    """Fill the rows with their first `channels` elements."""
    for k in range(tile.shape[0]):
        for j in range(channels, tile.shape[1]):
            tile[k, j] = tile[k, j - channels]


@njit
def fill_narrow(
    vectors: np.ndarray, u_top: float, v_top: float, known: float, tile: np.ndarray
) -> tuple[float, bool]:
    """Fill an int32 tile from int64 vectors[4, C]. A bound on |num|, and whether all den are alike.

    A `known` bound may hold where the sum of its parts passes int32: sums wrap on the way, and back.
    """
    channels, bound, widest, alike = vectors.shape[1], 0.0, 0.0, True
    for c in range(channels):
        offset, first, second = vectors[0, c], vectors[1, c], vectors[2, c]
        num = abs(np.float64(offset)) + abs(np.float64(first)) * u_top
        bound = max(bound, num + abs(np.float64(second)) * v_top)
        widest = max(widest, abs(np.float64(offset)), abs(np.float64(first)), abs(np.float64(second)))
        alike &= vectors[3, c] == vectors[3, 0]
    bound = max(min(bound, known), widest)
    if bound <= NARROW:
        for k in range(3):
            for c in range(channels):
                tile[k, c] = vectors[k, c]
        _repeat(tile, channels)
    return bound, alike


@njit
def maximum_between(vectors: np.ndarray, tops: np.ndarray, v_top: float) -> tuple[float, float]:
    """Bounds from below and above on max |num / den| of two terms; tops[c] is max |u| of channel c.

    An element with the greatest |u| of channel c has |num| >= |cu| tops[c] - |cv| v_top - |offset|, and no
    element has more than their sum. float64 errs by less than 2**-50 of that sum.
    """
    least, most = 0.0, 0.0
    for c in range(vectors.shape[1]):
        first = abs(np.float64(vectors[1, c])) * tops[c]
        rest = abs(np.float64(vectors[2, c])) * v_top + abs(np.float64(vectors[0, c]))
        den = np.float64(vectors[3, c])
        least = max(least, (first - rest - (first + rest) * 2.0**-40) / den)
        most = max(most, (first + rest) / den)
    return least, most * (1.0 + 2.0**-40)


@rule
def _add_term(
    codes: np.ndarray, like: Any, at: int, n: int, coef: np.ndarray, start: np.ndarray, num: np.ndarray
) -> None:
    """num = start + coef * (elements at .. at + n of codes of the type of `like`), in float64 or in int32."""
    wide_vectors()
    number = num.dtype.type
    for j in range(n):
        num[j] = number(start[j] + coef[j] * get(codes, at + j, like))


@rule
def top_pattern(floats: np.ndarray, first: int, last: int) -> Int:
    """max |x| of float32 elements first .. last, as a bit pattern."""
    wide_vectors()
    top = np.int32(0)
    for j in range(first, last):
        top = greater(top, np.int32(get(floats, j, np.int32(0)) & np.int32(0x7FFFFFFF)))
    return np.int64(top)


@rule
def term(
    codes: np.ndarray, size: int, at: int, n: int, coef: np.ndarray, start: np.ndarray, num: np.ndarray
) -> Int:
    """num = start + coef * (elements at .. at + n of codes). The greatest bit pattern of float32, or 0."""
    top = np.int64(0)
    if size == 1:
        _add_term(codes, np.int8(0), at, n, coef, start, num)
    elif size == 2:
        _add_term(codes, np.int16(0), at, n, coef, start, num)
    elif size == 4:
        _add_term(codes, np.int32(0), at, n, coef, start, num)
    elif size == 8:
        _add_term(codes, np.int64(0), at, n, coef, start, num)
    else:
        top = top_pattern(codes, at, at + n)
        if top < NOT_FINITE:
            _add_term(codes, np.float32(0), at, n, coef, start, num)
    return top


# -- rounding --------------------------------------------------------------------------------


@rule
def nearest(
    num: np.ndarray, n: int, den: np.ndarray, inverse: np.ndarray, least: float, lo: float, hi: float
) -> Counts:
    """num becomes its code, ties to even; (saturated, inexact)."""
    wide_vectors()
    saturated, inexact = np.int64(0), np.int64(0)
    for j in range(n):
        q = quotient(greater(num[j], least), den[j], inverse[j])
        code = np.rint(q)
        inexact += np.int64(code != q)
        kept = lesser(greater(code, lo), hi)
        saturated += np.int64(kept != code)
        num[j] = kept
    return saturated, inexact


@rule
def unclipped(num: np.ndarray, n: int, den: np.ndarray, inverse: np.ndarray, least: float) -> Int:
    """`nearest` without a range, in two thirds of the time; inexact."""
    wide_vectors()
    inexact = np.int64(0)
    for j in range(n):
        q = quotient(greater(num[j], least), den[j], inverse[j])
        num[j] = np.rint(q)
        inexact += np.int64(num[j] != q)
    return inexact


@rule
def flagged(
    num: np.ndarray, n: int, den: np.ndarray, inverse: np.ndarray, least: float, lo: float, hi: float,
    edge: float,
) -> Counts:  # fmt: skip
    """`nearest` on the two grids of Eq. 17: in steps of `edge` from `edge` on, in steps of 1 below it."""
    wide_vectors()
    saturated, inexact = np.int64(0), np.int64(0)
    finer = 1.0 / edge
    for j in range(n):
        q = quotient(greater(num[j], least), den[j], inverse[j])
        coarse = abs(q) >= edge
        q = q * (finer if coarse else 1.0)
        near = np.rint(q)
        inexact += np.int64(near != q)
        code = near * (edge if coarse else 1.0)
        kept = lesser(greater(code, lo), hi)
        saturated += np.int64(kept != code)
        num[j] = kept
    return saturated, inexact


@rule
def random(
    num: np.ndarray, n: int, inverse: np.ndarray, least: float, lo: float, hi: float, words: np.ndarray,
    at: int, bits: int,
) -> Counts:  # fmt: skip
    """Stochastic rounding by the words from `at` on, where every den is a power of two, so that q is exact.

    Up iff word + 1 <= f * 2**bits, f = q - floor(q). That difference is exact but for floor(q) = -1,
    where both sides are taken 2**bits lower.
    """
    wide_vectors()
    saturated, inexact = np.int64(0), np.int64(0)
    span, drop = 2.0**bits, np.uint32(32 - bits)
    for j in range(n):
        q = greater(num[j], least) * inverse[j]  # exact, as all are powers of two
        floor = np.floor(q)
        lower = -1.0 if floor == -1.0 else 0.0
        word = np.float64(words[np.uint64(at + j)] >> drop)
        up = word + 1.0 + lower * span <= (q - (floor - lower)) * span
        code = floor + (1.0 if up else 0.0)
        inexact += np.int64(floor != q)
        kept = lesser(greater(code, lo), hi)
        saturated += np.int64(kept != code)
        num[j] = kept
    return saturated, inexact


@rule
def random_quotient(
    num: np.ndarray, n: int, den: np.ndarray, inverse: np.ndarray, least: float, lo: float, hi: float,
    words: np.ndarray, at: int, bits: int,
) -> Counts:  # fmt: skip
    """`random` of integers, or integers times a power of two, over any den.

    The floor is that of num/den, so num - floor * den = f * den is exact, and less than den, but for
    floor = -1, where num may be far finer than den: there num itself is what is left, f - 1. Up iff
    word + 1 <= f * 2**bits, which is the sign of f * den * 2**bits - (word + 1) * den; for floor = -1 both
    sides are taken den * 2**bits lower.
    """
    wide_vectors()
    saturated, inexact = np.int64(0), np.int64(0)
    span, drop = 2.0**bits, np.uint32(32 - bits)
    for j in range(n):
        x = greater(num[j], least)
        floor = np.floor(quotient(x, den[j], inverse[j]))
        lower = -1.0 if floor == -1.0 else 0.0
        rest = residual(x, den[j], floor - lower)
        word = np.float64(words[np.uint64(at + j)] >> drop)
        up = residual(rest * span, den[j], word + 1.0 + lower * span) >= 0.0
        code = floor + (1.0 if up else 0.0)
        inexact += np.int64(rest != lower * den[j])
        kept = lesser(greater(code, lo), hi)
        saturated += np.int64(kept != code)
        num[j] = kept
    return saturated, inexact


@rule
def shifted(num: np.ndarray, n: int, drop: np.int32, least: int, lo: int, hi: int) -> Counts:
    """`nearest` of int32 numerators over 2**drop, drop = 1..30: plus half a step, less 1 to an even floor.

    All is int32, also `drop` and the counts: a wider type anywhere would halve the lanes of the loop.
    """
    wide_vectors()
    saturated, inexact, one, by = np.int32(0), np.int32(0), np.int32(1), np.uint32(drop) & np.uint32(31)
    floor, lower, upper = np.int32(least), np.int32(lo), np.int32(hi)
    below, mask = np.int32((1 << (drop - 1)) - 1), np.int32((1 << drop) - 1)
    for j in range(n):
        x = greater(num[j], floor)
        inexact = np.int32(inexact + np.int32(np.int32(x & mask) != 0))
        odd = np.int32(np.int32(x >> by) & one)
        code = np.int32(np.int32(x + below + odd) >> by)
        kept = lesser(greater(code, lower), upper)
        saturated = np.int32(saturated + np.int32(kept != code))
        num[j] = kept
    return np.int64(saturated), np.int64(inexact)


@rule
def shifted_random(
    num: np.ndarray, n: int, drop: np.int32, least: int, lo: int, hi: int, words: np.ndarray, at: int
) -> Counts:
    """`random` of int32 numerators over 2**drop, drop = 1..30 and at most the bits of a word.

    f has no more bits than a word has: word + 1 <= f * 2**bits says that what is dropped, an integer,
    is greater than as many of the word's bits.
    """
    wide_vectors()
    saturated, inexact, by = np.int32(0), np.int32(0), np.uint32(drop) & np.uint32(31)
    floor, lower, upper = np.int32(least), np.int32(lo), np.int32(hi)
    mask, spare = np.int32((1 << drop) - 1), np.uint32(32 - drop) & np.uint32(31)
    for j in range(n):
        x = greater(num[j], floor)
        rest = np.int32(x & mask)
        up = np.int32(rest > np.int32(words[np.uint64(at + j)] >> spare))
        code = np.int32(np.int32(x >> by) + up)
        inexact = np.int32(inexact + np.int32(rest != 0))
        kept = lesser(greater(code, lower), upper)
        saturated = np.int32(saturated + np.int32(kept != code))
        num[j] = kept
    return np.int64(saturated), np.int64(inexact)


@rule
def _put_codes(num: np.ndarray, n: int, out: np.ndarray, like: Any, at: int) -> Int:
    """Codes into elements at .. at + n of `out`, of the type of `like`; max |code|."""
    wide_vectors()
    top, bottom = like, like
    for j in range(n):
        code = type(like)(num[j])
        top, bottom = greater(top, code), lesser(bottom, code)
        put(out, at + j, code)
    return max(np.int64(top), -np.int64(bottom))


@rule
def store(num: np.ndarray, n: int, out: np.ndarray, size: int, at: int) -> Int:
    """Codes into elements at .. at + n of `out`, of `size` bytes; max |code|."""
    if size == 1:
        return _put_codes(num, n, out, np.int8(0), at)
    if size == 2:
        return _put_codes(num, n, out, np.int16(0), at)
    if size == 4:
        return _put_codes(num, n, out, np.int32(0), at)
    return _put_codes(num, n, out, np.int64(0), at)


# -- other tasks -----------------------------------------------------------------------------


@rule
def peaks(num: np.ndarray, n: int, least: Any, peaks: np.ndarray) -> None:
    """peaks[j] = max(peaks[j], |num[j]|)."""
    wide_vectors()
    number = num.dtype.type
    for j in range(n):
        x = greater(num[j], number(least))
        peaks[j] = greater(peaks[j], greater(x, number(-x)))


@rule
def signs(num: np.ndarray, n: int, out: np.ndarray, at: int) -> None:
    """Elements at .. at + n of `out` = num > 0 (the denominators are positive)."""
    wide_vectors()
    for j in range(n):
        put(out, at + j, np.int8(num[j] > 0))
