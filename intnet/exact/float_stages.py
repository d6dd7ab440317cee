"""Stages of the quick lane that read float32 codes alone, or give float32.

    float32 -> code             floats_to_codes, in one stage
    num / den -> float32        floats, of powers of two floats_of_powers
    code -> float32             codes_to_floats, in one stage

As those of `exact/stages.py`, and named beside them in `exact/rows.py`.

Defined by `spec/rounding.py: decision`, `spec/float32.py: to_float32`.
"""

from typing import Any

import numpy as np

from intnet.exact.stages import (
    INEXACT,
    MISFIT,
    NOT_FINITE,
    PEAK,
    SATURATED,
    Int,
    greater,
    lesser,
    top_pattern,
)
from intnet.machine.instructions import get, put, quotient, residual, wide_vectors
from intnet.machine.jit import inlined, rule


@inlined
def _drawn(q: Any, word: Any, span: Any, mask: Any) -> Any:
    """`random` of a float32 by a word of B bits; span = 2**B, mask = 2**B - 1. All is exact.

    q is cut towards 0; `part` is what that cuts off, in steps of 2**-B: floor(f * 2**B) where q >= 0, which
    goes up iff word < part; 2**B - floor(f * 2**B) where q < 0, which goes down iff word >= 2**B - part.
    """
    whole = np.trunc(q)
    part = np.uint32(abs(np.floor((q - whole) * span)))
    away = part > (np.uint32(word ^ mask) if q < np.float32(0) else np.uint32(word))
    return np.float32(whole + np.copysign(np.float32(1) if away else np.float32(0), q))


@rule
def _scaled_floats(
    floats: np.ndarray, at: int, n: int, unit: float, lo: float, hi: float, words: Any, ahead: int, bits: int,
    out: np.ndarray, like: Any,
) -> tuple[Int, Int, Int]:  # fmt: skip
    """Codes of float32 * unit, a power of two that loses no bit, in one stage: (saturated, inexact, peak).

    Ties to even where `words` is None; else element j has word j + ahead. A wider type anywhere, also of a
    count, would halve the lanes.
    """
    wide_vectors()
    saturated, inexact, top, bottom = np.int32(0), np.int32(0), np.int32(0), np.int32(0)
    scale, lower, upper = np.float32(unit), np.float32(lo), np.float32(hi)
    span, mask, spare = np.float32(2.0**bits), np.uint32((1 << bits) - 1), np.uint32(32 - bits)
    for j in range(at, at + n):
        q = get(floats, j, np.float32(0)) * scale
        near = np.rint(q) if words is None else _drawn(q, words[np.uint64(j + ahead)] >> spare, span, mask)
        inexact = np.int32(inexact + np.int32(near != q))
        kept = lesser(greater(near, lower), upper)
        saturated = np.int32(saturated + np.int32(kept != near))
        code = np.int32(kept)
        top, bottom = greater(top, code), lesser(bottom, code)
        put(out, j, type(like)(code))
    return np.int64(saturated), np.int64(inexact), max(np.int64(top), -np.int64(bottom))


@rule
def floats_to_codes(
    floats: np.ndarray, at: int, n: int, unit: float, lo: float, hi: float, words: Any, ahead: int, bits: int,
    out: np.ndarray, size: int, results: np.ndarray,
) -> None:  # fmt: skip
    """`_scaled_floats` where all are finite, into codes of `size` bytes, 4 at most; adds to the results."""
    if top_pattern(floats, at, at + n) >= NOT_FINITE:
        results[MISFIT] += 1
        return
    if size == 1:
        counts = _scaled_floats(floats, at, n, unit, lo, hi, words, ahead, bits, out, np.int8(0))
    elif size == 2:
        counts = _scaled_floats(floats, at, n, unit, lo, hi, words, ahead, bits, out, np.int16(0))
    else:
        counts = _scaled_floats(floats, at, n, unit, lo, hi, words, ahead, bits, out, np.int32(0))
    results[SATURATED] += counts[SATURATED]
    results[INEXACT] += counts[INEXACT]
    results[PEAK] = max(results[PEAK], counts[PEAK])


@rule
def floats(
    num: np.ndarray, n: int, den: np.ndarray, inverse: np.ndarray, least: float, unit: float,
    odd: np.ndarray, out: np.ndarray, at: int,
) -> Int:  # fmt: skip
    """Elements at .. at + n of `out` = num / den * unit in float32, rounded once; the greatest bit pattern.

    The quotient is rounded to odd in float64: where it is inexact its last bit is made 1, away from
    every float32 and every midpoint of two of them, so that the cast decides as the exact value would.
    """
    wide_vectors()
    patterns = num.view(np.int64)
    for j in range(n):
        x = greater(num[j], least)
        q = quotient(x, den[j], inverse[j])
        rest = residual(x, den[j], q)
        outward = np.int64((rest > 0.0) == (q > 0.0))
        odd[j] = np.int64(rest != 0.0) * (2 * outward - 1)
        num[j] = q
    for j in range(n):
        patterns[j] += odd[j] if patterns[j] & 1 == 0 else np.int64(0)
    for j in range(n):
        put(out, at + j, np.float32(num[j] * unit))
    return top_pattern(out, at, at + n)


@rule
def floats_of_powers(
    num: np.ndarray, n: int, inverse: np.ndarray, least: float, unit: float, out: np.ndarray, at: int
) -> Int:
    """`floats` where every den is a power of two: the quotient is exact, and the cast alone rounds."""
    wide_vectors()
    for j in range(n):
        put(out, at + j, np.float32(greater(num[j], least) * inverse[j] * unit))
    return top_pattern(out, at, at + n)


@rule
def _scaled_codes(codes: np.ndarray, at: int, n: int, unit: float, out: np.ndarray, like: Any) -> None:
    wide_vectors()
    scale = np.float32(unit)
    for j in range(at, at + n):
        put(out, j, np.float32(get(codes, j, like)) * scale)


@rule
def codes_to_floats(codes: np.ndarray, size: int, at: int, n: int, unit: float, out: np.ndarray) -> None:
    """`floats` of bare codes of `size` bytes, 4 at most, in one stage; unit = 2**-126 .. 2**96.

    No product is subnormal or infinite, so that the conversion of a code is all that rounds.
    """
    if size == 1:
        _scaled_codes(codes, at, n, unit, out, np.int8(0))
    elif size == 2:
        _scaled_codes(codes, at, n, unit, out, np.int16(0))
    else:
        _scaled_codes(codes, at, n, unit, out, np.int32(0))
