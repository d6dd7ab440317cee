"""Loops of `exact/expressions.py` for any numerator and any rounding: exact, not quick.

Most tensors take the quick lane (`exact/lane.py`) instead: numerators of 51 bits at most, in the modes
that the methods use. Here are the others: every mode on int64, then two limbs where a bound passes 62
bits, and float sources.

A tensor is walked flat, C elements a row, so that element i belongs to channel i % C:

    num_i = cu[c]*u_i + cv[c]*v_i + offset[c]          value_i = num_i / den[c]

The caller, `Exact._scale`, has put the power of two of the target unit into the coefficients and `den`.
Work is split in blocks; counts are kept a block, so no result depends on the number of threads.

Defined by `spec/rounding.py: decision`, `spec/float32.py: to_float32`.
"""

from typing import Any

import numpy as np

from intnet.machine.jit import njit, pjit, prange, rule
from intnet.numbers import wide
from intnet.numbers.rounding import round_quotient, round_up

BLOCK = 1 << 14  # elements a block: large against the cost of handing out a block

SATURATED, INEXACT, PEAK, MISFIT = range(4)  # columns of the counts


def blocks_for(elements: int) -> int:
    """How many blocks to cut a tensor into."""
    return max(1, min(256, elements // BLOCK))


@rule
def drop_bits(num: Any, drop: int) -> Any:
    """num / 2**drop with every lost bit gathered in the lowest one, so comparisons stay right."""
    if drop == 0:
        return num
    kept = num >> drop
    return kept | np.int64(kept << drop != num)


@rule
def clip(code: int, lo: int, hi: int) -> int:
    """code limited to [lo, hi]."""
    return min(max(code, lo), hi)


@rule
def round_flag(num: int, den: int, fine: int, mode: int) -> int:
    """Eq. 17: coarse grid (den * 2**fine) from one coarse step on, the fine grid below it.

    Defined by `spec/formats.py: Flag.way`.
    """
    coarse = den << fine
    if num >= coarse or num <= -coarse:
        return round_quotient(num, coarse, mode, 0, 0) << fine
    return round_quotient(num, den, mode, 0, 0)


@pjit
def round_rows(
    team: int, u: np.ndarray, cu: np.ndarray, v: np.ndarray, cv: np.ndarray, offset: np.ndarray,
    den: np.ndarray, drop: int, relu: bool, fine: int, mode: int, words: np.ndarray, bits: int, lo: int,
    hi: int, out: np.ndarray, counts: np.ndarray,
) -> None:  # fmt: skip
    """Codes of every element into `out`; per-block counts (saturated, inexact, peak, -)."""
    channels, n, blocks = cu.shape[0], u.shape[0], counts.shape[0]
    rows = (n + channels - 1) // channels
    random = words.shape[0] == n
    for b in prange(team, blocks):
        saturated, inexact, top, bottom = 0, 0, np.int64(0), np.int64(0)
        for r in range(rows * b // blocks, rows * (b + 1) // blocks):
            base = r * channels
            for c in range(min(channels, n - base)):
                i = base + c
                num = cu[c] * np.int64(u[i]) + cv[c] * np.int64(v[i]) + offset[c]
                if relu and num < 0:
                    num = np.int64(0)
                num = drop_bits(num, drop)
                if fine > 0:
                    code = round_flag(num, den[c], fine, mode)
                else:
                    word = np.int64(words[i]) >> (32 - bits) if random else np.int64(0)
                    code = round_quotient(num, den[c], mode, word, bits)
                inexact += code * den[c] != num
                kept = clip(code, lo, hi)
                saturated += kept != code
                top, bottom = max(top, kept), min(bottom, kept)
                out[i] = kept
        counts[b, SATURATED], counts[b, INEXACT], counts[b, PEAK] = saturated, inexact, max(top, -bottom)


# -- float32 results -------------------------------------------------------------------------


@rule
def nearest_float32(num: Any, scale: float) -> Any:
    """num * scale, rounded once (ties to even): |num| < 2**62, scale a power of two within 2**+-700.

    Of more than 53 bits the last ten become one that says whether any of them was set: float64 then
    holds the number, on the right side of every float32 and of every midpoint of two.

    Defined by `spec/float32.py: to_float32`.
    """
    if abs(num) >= 1 << 53:
        return np.float32(np.float64(drop_bits(num, 10)) * (scale * 1024.0))
    return np.float32(np.float64(num) * scale)


@pjit
def float_rows(
    team: int, u: np.ndarray, cu: np.ndarray, v: np.ndarray, cv: np.ndarray, offset: np.ndarray, relu: bool,
    scale: float, blocks: int, out: np.ndarray,
) -> None:  # fmt: skip
    """num * scale of every element in float32, rounded once, into `out`."""
    channels, n = cu.shape[0], u.shape[0]
    rows = (n + channels - 1) // channels
    for b in prange(team, blocks):
        for r in range(rows * b // blocks, rows * (b + 1) // blocks):
            base = r * channels
            for c in range(min(channels, n - base)):
                i = base + c
                num = cu[c] * np.int64(u[i]) + cv[c] * np.int64(v[i]) + offset[c]
                out[i] = nearest_float32(np.int64(0) if relu and num < 0 else num, scale)


@njit
def float_limbs(hi: np.ndarray, lo: np.ndarray, scale: float, out: np.ndarray) -> None:
    """As `float_rows`, from two-limb numerators: their top 62 bits, the last of which stands for the rest."""
    for i in range(hi.shape[0]):
        top, rest, unit = hi[i], lo[i], scale
        if -(1 << 29) <= top < 1 << 29:
            if wide.fits_int64(top, rest) and abs(wide.to_int64(rest)) < 1 << 62:
                out[i] = nearest_float32(wide.to_int64(rest), unit)
                continue
            top = (top << 32) | np.int64(rest >> np.uint64(32))
            rest, unit = rest & np.uint64(0xFFFFFFFF), unit * 2.0**32
        else:
            unit = unit * 2.0**64
        out[i] = nearest_float32(top | np.int64(rest != np.uint64(0)), unit)


# -- two limbs -------------------------------------------------------------------------------


@njit
def limb_rows(
    u: np.ndarray, cu: np.ndarray, su: int, v: np.ndarray, cv: np.ndarray, sv: int, offset: np.ndarray,
    relu: bool, hi: np.ndarray, lo: np.ndarray,
) -> None:  # fmt: skip
    """The numerators cu*u * 2**su + cv*v * 2**sv + offset in two limbs."""
    channels = cu.shape[0]
    for i in range(u.shape[0]):
        c = i % channels
        a_hi, a_lo = wide.smul(cu[c], np.int64(u[i]))
        a_hi, a_lo = wide.shift_left(a_hi, a_lo, su)
        b_hi, b_lo = wide.smul(cv[c], np.int64(v[i]))
        b_hi, b_lo = wide.shift_left(b_hi, b_lo, sv)
        a_hi, a_lo = wide.add(a_hi, a_lo, b_hi, b_lo)
        b_hi, b_lo = wide.widen(offset[c])
        a_hi, a_lo = wide.add(a_hi, a_lo, b_hi, b_lo)
        if relu and a_hi < 0:
            a_hi, a_lo = wide.widen(np.int64(0))
        hi[i], lo[i] = a_hi, a_lo


@njit
def limb_peaks(hi: np.ndarray, lo: np.ndarray, top_hi: np.ndarray, top_lo: np.ndarray) -> None:
    """max |numerator| of each channel, in two limbs."""
    channels = top_hi.shape[0]
    for i in range(hi.shape[0]):
        a_hi, a_lo = hi[i], lo[i]
        if a_hi < 0:
            a_hi, a_lo = wide.negate(a_hi, a_lo)
        c = i % channels
        if a_hi > top_hi[c] or (a_hi == top_hi[c] and a_lo > top_lo[c]):
            top_hi[c], top_lo[c] = a_hi, a_lo


@njit
def round_limbs(
    hi: np.ndarray, lo: np.ndarray, den: np.ndarray, up: int, drop: int, fine: int, mode: int,
    words: np.ndarray, bits: int, low: int, high: int, out: np.ndarray, counts: np.ndarray,
) -> None:  # fmt: skip
    """As `round_rows`, from two-limb numerators times 2**up; MISFIT counts unclipped codes beyond 62 bits."""
    channels, n = den.shape[0], hi.shape[0]
    random = words.shape[0] == n
    top, bottom = np.int64(0), np.int64(0)
    for i in range(n):
        num_hi, num_lo = wide.shift_left(hi[i], lo[i], up)
        for done in range(0, drop, 62):
            part = np.int64(1) << min(drop - done, 62)
            num_hi, num_lo, lost = wide.floor_divmod(num_hi, num_lo, part)
            num_lo = num_lo | np.uint64(lost != 0)
        step = den[i % channels]
        shift = 0
        if fine > 0:
            m_hi, m_lo = num_hi, num_lo
            if num_hi < 0:
                m_hi, m_lo = wide.negate(num_hi, num_lo)
            q_hi, q_lo, rem = wide.udivmod(m_hi, m_lo, step << fine)
            if q_hi != 0 or q_lo != np.uint64(0):
                step, shift = step << fine, fine
        q_hi, q_lo, rem = wide.floor_divmod(num_hi, num_lo, step)
        word = np.int64(words[i]) >> (32 - bits) if random else np.int64(0)
        # floor's parity and sign are all that round_up reads of it
        parity = np.int64(q_lo & np.uint64(1)) - (2 if q_hi < 0 else 0)
        if round_up(mode, parity, rem, step, word, bits):
            q_hi, q_lo = wide.add(q_hi, q_lo, np.int64(0), np.uint64(1))
        code = np.int64(-(1 << 62)) if q_hi < 0 else np.int64(1 << 62)  # stands for all beyond 62 bits
        if wide.fits_int64(q_hi, q_lo):
            code = clip(wide.to_int64(q_lo), -(1 << 62), 1 << 62)
        if shift > 0:
            code = clip(code, -(1 << (62 - shift)), 1 << (62 - shift)) << shift
        if abs(code) == 1 << 62 and high >= code >= low:
            counts[0, MISFIT] += 1
        counts[0, INEXACT] += rem != 0
        kept = clip(code, low, high)
        counts[0, SATURATED] += kept != code
        top, bottom = max(top, kept), min(bottom, kept)
        out[i] = kept
    counts[0, PEAK] = max(top, -bottom)


# -- float sources ---------------------------------------------------------------------------


@rule
def split_float64(bits: int) -> tuple[Any, int]:
    """(m, e) with value = m * 2**e of a finite float64 given as its int64 bit pattern.

    |m| has 53 bits, of a subnormal too (or is 0), so a shift by 10 takes any value to 2**62.
    """
    exponent = (bits >> 52) & 0x7FF
    m = np.int64(bits & 0xFFFFFFFFFFFFF)
    if exponent > 0:
        m += 1 << 52
    else:
        exponent = 1
        while 0 < m < 1 << 52:
            m <<= 1
            exponent -= 1
    if bits < 0:
        m = -m
    return m, exponent - 1075


@pjit
def round_floats(
    team: int, patterns: np.ndarray, den: int, room: int, unit: int, fine: int, mode: int, words: np.ndarray,
    bits: int, lo: int, hi: int, out: np.ndarray, counts: np.ndarray,
) -> None:  # fmt: skip
    """Codes of float64 values / den in units of 2**unit; `room` = 61 - bit length of den - fine.

    Of a denominator of more than `room` bits the numerator's last bits are gathered in one: `room` leaves
    more bits after the point than any rounding asks for.
    """
    n, blocks = patterns.shape[0], counts.shape[0]
    random, twos = words.shape[0] == n, 0
    while den >> twos & 1 == 0:
        twos += 1
    for b in prange(team, blocks):
        saturated, inexact, top, bottom = 0, 0, np.int64(0), np.int64(0)
        for i in range(n * b // blocks, n * (b + 1) // blocks):
            m, e = split_float64(patterns[i])
            shift = e - unit
            step = np.int64(den)
            if shift >= 0:  # where the caller's bound lets more than ten pass, the range clips
                m = m << min(shift, 10)
                step = step >> min(max(shift - 10, 0), twos)
            else:
                step = step << min(-shift, room)
                m = drop_bits(m, min(max(-shift - room, 0), 62))
            if fine > 0:
                code = round_flag(m, step, fine, mode)
            else:
                word = np.int64(words[i]) >> (32 - bits) if random else np.int64(0)
                code = round_quotient(m, step, mode, word, bits)
            inexact += code * step != m
            kept = clip(code, lo, hi)
            saturated += kept != code
            top, bottom = max(top, kept), min(bottom, kept)
            out[i] = kept
        counts[b, SATURATED], counts[b, INEXACT], counts[b, PEAK] = saturated, inexact, max(top, -bottom)
