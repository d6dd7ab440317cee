"""Exact sums of numbers at any exponents: as digits of 2^10, carried and rounded once to float32.

A number of a block is a code of 8 bits at some exponent. In units of which all are multiples it is cut by its
magnitude: digit d has those of 2^(10 d + 7) and above, up to the next one's, over 2^(10 d); an integer then,
below 2^17 (`bands`). Weights are cut by their exponents, below 2^16 (`block_ops.BlockProduct.digits`).
Products of digits l and m add up in digit l + m, which float64 holds in any order. To round, digits are
carried up from the lowest, so that all but what is left on top are 0..1023; then read from the top: until
28 bits are there a digit is taken, after them it only tells whether anything is left, as a last bit that is
odd: what comes out has a rounding to float32 of its own, and is rounded to that once (`rounded`).
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

DIGIT, CODE = 10, 7  # bits of a digit, and of a code's magnitude
ENOUGH = 1 << 28  # beyond it digits only tell whether there are any


def count(reach: Fraction, exponent: int) -> int:
    """How many digits numbers up to `reach` have, in units of 2^exponent."""
    most = int(reach / Fraction(2) ** exponent).bit_length()
    return max(-(-(most - CODE) // DIGIT), 1)


def least(d: int) -> float:
    """The magnitude at which digit d begins."""
    return 2.0 ** (DIGIT * d + CODE) if d else 0.0


def bands(x: np.ndarray, exponent: int, digits: int) -> Iterator[tuple[int, np.ndarray]]:
    """(digit, float64 of integers) of numbers of at most 8 bits, of the digits that any of them has."""
    units = np.ldexp(x.astype(np.float64), -exponent)
    place = np.searchsorted([least(d) for d in range(1, digits)], np.abs(units), side="right")
    for d in np.unique(place[units != 0]).tolist():
        yield d, np.where(place == d, np.ldexp(units, -DIGIT * d), 0.0)


def rounded(sums: list[np.ndarray], exponent: int) -> np.ndarray:
    """float32 of the sum of digits (float64 of integers), the lowest in units of 2^exponent."""
    carry, digits = np.zeros_like(sums[0], np.int64), []
    for part in sums:
        carry, rest = np.divmod(part.astype(np.int64) + carry, 1 << DIGIT)
        digits.append(rest)
    v, at = carry, np.full(carry.shape, len(sums))
    odd = np.zeros(v.shape, bool)
    for rest in reversed(digits):
        more = np.abs(v) < ENOUGH
        odd |= ~more & (rest != 0)
        v, at = np.where(more, (v << DIGIT) + rest, v), at - more
    doubled = (2 * v + odd).astype(np.float64)
    return np.ldexp(doubled, exponent - 1 + DIGIT * at).astype(np.float32)
