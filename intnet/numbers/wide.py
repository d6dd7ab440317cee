"""Two-limb integers: the container beyond int64, used where a proven bound exceeds 62 bits.

A value is (hi, lo), hi int64 and lo uint64: value = hi * 2**64 + lo (two's complement, 128 bits).
These are scalar rules for kernels; products are built from 32-bit halves so that no step wraps.
`exact/expressions.py` decides from the bound when they are needed; nothing here is on a fast path.
"""

from typing import Any

import numpy as np

from intnet.machine.jit import rule

Int = Any  # an int64 or uint64 scalar of a kernel
Limbs = tuple[Int, Int]

LIMBS_MAX = 1 << 126  # a proven bound must stay below this, so that sums and doublings still fit

_MASK = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_SIGN = np.uint64(1 << 63)


@rule
def umul(a: Int, b: Int) -> Limbs:
    """The 128-bit product of two non-negative integers below 2**64, as (hi, lo) of uint64."""
    a, b = np.uint64(a), np.uint64(b)
    a0, a1, b0, b1 = a & _MASK, a >> _32, b & _MASK, b >> _32
    low = a0 * b0
    mid = (low >> _32) + a0 * b1
    mid2 = (mid & _MASK) + a1 * b0
    return a1 * b1 + (mid >> _32) + (mid2 >> _32), (mid2 << _32) | (low & _MASK)


@rule
def umul_le(a: Int, b: Int, c: Int, d: Int) -> bool:
    """a * b <= c * d for non-negative integers below 2**63, exactly."""
    left_hi, left_lo = umul(a, b)
    right_hi, right_lo = umul(c, d)
    return left_hi < right_hi or (left_hi == right_hi and left_lo <= right_lo)


@rule
def magnitude(a: Int) -> Int:
    """|a| of an int64 as uint64, also for -2**63."""
    if a < 0:
        return np.uint64(-(a + 1)) + _ONE
    return np.uint64(a)


@rule
def negate(hi: Int, lo: Int) -> Limbs:
    """-(hi, lo)."""
    if lo == _ZERO:
        return np.int64(-hi), lo
    return np.int64(~np.int64(hi)), ~lo + _ONE


@rule
def smul(a: Int, b: Int) -> Limbs:
    """The 128-bit product of two int64."""
    hi, lo = umul(magnitude(a), magnitude(b))
    if (a < 0) != (b < 0):
        return negate(np.int64(hi), lo)
    return np.int64(hi), lo


@rule
def add(a_hi: Int, a_lo: Int, b_hi: Int, b_lo: Int) -> Limbs:
    """(a_hi, a_lo) + (b_hi, b_lo); the caller's bound excludes overflow."""
    room = ~a_lo  # the largest b_lo that does not carry
    if b_lo > room:
        return np.int64(a_hi + b_hi + 1), b_lo - room - _ONE
    return np.int64(a_hi + b_hi), a_lo + b_lo


@rule
def widen(a: Int) -> Limbs:
    """An int64 as two limbs."""
    if a < 0:
        return negate(np.int64(0), magnitude(a))
    return np.int64(0), np.uint64(a)


@rule
def udivmod(hi: Int, lo: Int, den: Int) -> tuple[Int, Int, Int]:
    """(q_hi, q_lo, rem) of a non-negative two-limb value by den < 2**63: schoolbook, a bit a step."""
    divisor = np.uint64(den)
    rem, q_hi, q_lo = _ZERO, _ZERO, _ZERO
    high, low = np.uint64(hi), np.uint64(lo)
    for _ in range(128):
        rem = (rem << _ONE) | (high >> np.uint64(63))
        high = (high << _ONE) | (low >> np.uint64(63))
        low = low << _ONE
        q_hi = (q_hi << _ONE) | (q_lo >> np.uint64(63))
        q_lo = q_lo << _ONE
        if rem >= divisor:
            rem = rem - divisor
            q_lo = q_lo | _ONE
    return np.int64(q_hi), q_lo, np.int64(rem)


@rule
def floor_divmod(hi: Int, lo: Int, den: Int) -> tuple[Int, Int, Int]:
    """(q_hi, q_lo, rem) with value = q * den + rem and 0 <= rem < den, for any sign."""
    if hi >= 0:
        return udivmod(hi, lo, den)
    hi, lo = negate(hi, lo)
    q_hi, q_lo, rem = udivmod(hi, lo, den)
    if rem != 0:
        q_hi, q_lo = add(q_hi, q_lo, np.int64(0), _ONE)
        rem = np.int64(den) - rem
    q_hi, q_lo = negate(q_hi, q_lo)
    return q_hi, q_lo, rem


@rule
def shift_left(hi: Int, lo: Int, bits: Int) -> Limbs:
    """(hi, lo) * 2**bits; the caller's bound excludes overflow."""
    for _ in range(bits):
        hi = np.int64(hi + hi) + np.int64(lo >> np.uint64(63))
        lo = lo << _ONE
    return np.int64(hi), lo


@rule
def fits_int64(hi: Int, lo: Int) -> bool:
    """Whether the value is an int64."""
    return bool((hi == 0 and lo < _SIGN) or (hi == -1 and lo >= _SIGN))


@rule
def to_int64(lo: Int) -> Int:
    """The int64 that a two-limb value is, once `fits_int64` holds."""
    if lo >= _SIGN:
        return -np.int64(~lo) - 1
    return np.int64(lo)
