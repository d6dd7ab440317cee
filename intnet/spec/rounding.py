"""Rounding and overflow of exact rationals, one element at a time; read `formats` next.

Written from the rule table alone, with the floor and the fraction of a `Fraction`.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import isqrt
from typing import NamedTuple

GOES_UP = {  # when floor + f becomes floor + 1
    "ties_even": "f > 1/2, or f = 1/2 and floor is odd",
    "ties_away": "f > 1/2, or f = 1/2 and floor >= 0",
    "ties_pos": "f >= 1/2",
    "to_neg": "never",
    "to_pos": "f > 0",
    "to_zero": "f > 0 and floor < 0",
    "stochastic": "word < floor(f * 2^bits)",
}
MODES = tuple(GOES_UP)
OVERFLOWS = ("saturate", "saturate_symmetric", "wrap", "error")
HALF = Fraction(1, 2)
Mode = str | Callable[[int, Fraction], bool]  # of `MODES`, or a rule: whether floor + f, f > 0, goes up


class Decision(NamedTuple):
    """How one exact value became an integer: x = floor + fraction, 0 <= fraction < 1; then up or not.

    tie:       fraction = 1/2
    threshold: of stochastic rounding, floor(fraction * 2^bits): up iff the word is below it
    """

    floor: int
    fraction: Fraction
    tie: bool
    threshold: int | None
    up: bool

    @property
    def rounded(self) -> int:
        """floor, or floor + 1 where it goes up."""
        return self.floor + self.up


def decision(
    x: Fraction | int, mode: Mode = "ties_even", word: int | None = None, bits: int = 32
) -> Decision:
    """Which way `mode` goes from the exact value `x`: the one place where that is decided.

    `word` is the random word of `stochastic`, already cut to `bits` bits (0 <= word < 2^bits).
    Raises ValueError on an unknown mode, on a missing word or on one that is out of range.

    >>> decision(Fraction(7, 2))
    Decision(floor=3, fraction=Fraction(1, 2), tie=True, threshold=None, up=True)
    """
    num, den = x.as_integer_ratio()
    floor, rest = divmod(num, den)
    fraction, tie = Fraction(rest, den), 2 * rest == den
    if mode == "stochastic":
        return drawn(floor, fraction, word, bits)
    if callable(mode):
        up = rest > 0 and mode(floor, fraction)
    elif mode == "ties_even":
        up = 2 * rest > den or (tie and floor % 2 == 1)
    elif mode == "ties_away":
        up = 2 * rest > den or (tie and num > 0)
    elif mode == "ties_pos":
        up = 2 * rest >= den
    elif mode == "to_neg":
        up = False
    elif mode == "to_pos":
        up = rest > 0
    elif mode == "to_zero":
        up = rest > 0 and num < 0
    else:
        raise ValueError(f"unknown rounding mode {mode!r}; choose one of {', '.join(MODES)}")
    return Decision(floor, fraction, tie, None, up)


def drawn(floor: int, fraction: Fraction, word: int | None, bits: int = 32) -> Decision:
    """Stochastic rounding: up iff the word is below the fraction cut to `bits` bits.

    So an exact integer never goes up. A fraction that float32 rounded to 1 (`buckets`) always does.
    """
    if not 1 <= bits <= 32:
        raise ValueError(f"stochastic rounding takes 1..32 random bits, got {bits}")
    if word is None or not 0 <= word < 2**bits:
        raise ValueError(f"stochastic rounding needs a word of {bits} bits, got {word!r}")
    num, den = fraction.as_integer_ratio()
    threshold = (num << bits) // den
    return Decision(floor, fraction, 2 * num == den, threshold, word < threshold)


def round_fraction(
    x: Fraction | int, mode: Mode = "ties_even", word: int | None = None, bits: int = 32
) -> int:
    """The integer that `mode` picks for the exact value `x`; see `decision`."""
    return decision(x, mode, word, bits).rounded


def overflow(code: int, lo: int, hi: int, mode: str) -> int:
    """Bring a rounded code into [lo, hi]: the second step after rounding, and never part of it.

    `saturate_symmetric` clips to [-hi, hi]; `wrap` is modulo hi - lo + 1; `error` raises OverflowError.
    """
    if mode == "saturate":
        return max(lo, min(hi, code))
    if mode == "saturate_symmetric":
        return max(-hi, min(hi, code))
    if mode == "wrap":
        return (code - lo) % (hi - lo + 1) + lo
    if mode == "error":
        if lo <= code <= hi:
            return code
        raise OverflowError(f"code {code} is outside [{lo}, {hi}]")
    raise ValueError(f"unknown overflow mode {mode!r}; choose one of {', '.join(OVERFLOWS)}")


def root_decision(v: Fraction | int, mode: Mode = "ties_even") -> Decision:
    """`decision` of the exact root of v >= 0, by comparing squares; every mode of `MODES` but stochastic.

    A root is irrational as a rule. Deterministic modes only ask on which side of the half its fraction lies,
    so `fraction` is a stand-in: 1/4 below the half, 3/4 above it; exact are 0 and 1/2.
    """
    v = Fraction(v)
    if v < 0:
        raise ValueError(f"root of the negative number {v}")
    if callable(mode):
        raise ValueError("a root is rounded by comparing squares, a rule of one's own needs its fraction")
    if mode == "stochastic":
        raise ValueError("a root is rounded by comparing squares, stochastic rounding needs its digits")
    floor = isqrt(v.numerator // v.denominator)
    if floor * floor == v:
        return decision(floor, mode)
    doubled = (2 * floor + 1) ** 2
    stand_in = Fraction(1, 4) if 4 * v < doubled else Fraction(3, 4) if 4 * v > doubled else HALF
    return decision(floor + stand_in, mode)


def round_sqrt(v: Fraction | int, mode: Mode = "ties_even") -> int:
    """The integer that `mode` (not stochastic) picks for the exact root of v >= 0."""
    return root_decision(v, mode).rounded
