"""x/s of many elements without a division each: a multiplication and a Newton step, correctly rounded."""

import numpy as np

from intnet.machine.instructions import fma32
from intnet.machine.jit import rule

_ONE = np.float32(1)


@rule
def near_one(s: np.float32) -> tuple[np.float32, np.float32, np.float32]:
    """(k, s*k, the float32 nearest 1/(s*k)): k a power of two that brings s > 0 to 2^-22 .. 4, exactly."""
    field = (np.float32(s).view(np.int32) >> np.int32(23)) & np.int32(255)
    k = np.int32(max(np.int32(254) - field, np.int32(1)) << np.int32(23)).view(np.float32)
    t = s * k
    return k, t, _ONE / t


@rule
def divided(x: np.float32, t: np.float32, inverse: np.float32) -> np.float32:
    """x/t correctly rounded, of `near_one`; below 2^-33 it may be one off, which no code hangs on.

    One Newton step on x * inverse, in three instructions that work on many elements at a time. Let X, S be
    the significands, integers of 24 bits, and count in last places of Q = x/t. inverse errs by at most
    e = S * 2^-48, relatively; q by less than 3/2; the step gives Q + (Q - q) * e, rounded once. That goes
    wrong only where the middle M of two float32 lies within |(Q - q) * e| of Q. But Q = M would need 25
    bits, so |Q - M| = j/(2S) with an integer j >= 1. Where q is a neighbour of M, |Q - q| <= 1/2 + j/(2S),
    and (S + j) * 2^-49 < j/(2S). It always is, where that matters: x * inverse errs by less than X * 2^-24,
    which reaches beyond the neighbours only for X > 2^24 - 8 and S > X; for these few the tests look. The
    residual x - q*t is a float32 then: from 2^-33 on it has no bits below 2^-101.

    Defined by `spec/float32.py: div_units`.
    """
    q = x * inverse
    return fma32(fma32(-t, q, x), inverse, q)
