"""Rounding and overflow of exact rationals, one element at a time; read `quantizers` next.

Written from the rule table alone, with the floor and the fraction of a `Fraction`.
"""
from fractions import Fraction

MODES = ("ties_even", "ties_away", "ties_pos", "to_neg", "to_pos", "to_zero", "stochastic")
OVERFLOWS = ("saturate", "saturate_symmetric", "wrap", "error")
HALF = Fraction(1, 2)


def round_fraction(
    x: Fraction | int, mode: str = "ties_even", word: int | None = None, bits: int = 32
) -> int:
    """The integer that `mode` picks for the exact value `x`.

    `word` is the random word of `stochastic`, already cut to `bits` bits (0 <= word < 2^bits).
    Raises ValueError on an unknown mode, on a missing word or on one that is out of range.
    """
    x = Fraction(x)
    floor = x.numerator // x.denominator
    fraction = x - floor
    if fraction == 0 and mode in MODES and mode != "stochastic":
        return floor
    if mode == "ties_even":
        up = fraction > HALF or (fraction == HALF and floor % 2 == 1)
    elif mode == "ties_away":
        up = fraction > HALF or (fraction == HALF and x > 0)
    elif mode == "ties_pos":
        up = fraction >= HALF
    elif mode == "to_neg":
        up = False
    elif mode == "to_pos":
        up = True
    elif mode == "to_zero":
        up = x < 0
    elif mode == "stochastic":
        up = _stochastic_up(fraction, word, bits)
    else:
        raise ValueError(f"unknown rounding mode {mode!r}; choose one of {', '.join(MODES)}")
    return floor + 1 if up else floor


def _stochastic_up(fraction: Fraction, word: int | None, bits: int) -> bool:
    """True iff the word is below the fraction cut to `bits` bits; never true for an exact integer."""
    if not 1 <= bits <= 32:
        raise ValueError(f"stochastic rounding takes 1..32 random bits, got {bits}")
    if word is None or not 0 <= word < 2**bits:
        raise ValueError(f"stochastic rounding needs a word of {bits} bits, got {word!r}")
    scaled = fraction * (1 << bits)
    return word < scaled.numerator // scaled.denominator


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


def round_sqrt(v: Fraction | int, mode: str = "ties_even") -> int:
    """The integer that `mode` (not stochastic) picks for the exact root of v >= 0, by comparing squares."""
    v = Fraction(v)
    if v < 0:
        raise ValueError(f"root of the negative number {v}")
    floor = 0
    step = 1 << (max(v.numerator // v.denominator, 1).bit_length() // 2 + 1)
    while step:
        if (floor + step) ** 2 <= v:
            floor += step
        step //= 2
    if mode == "stochastic":
        raise ValueError("a root is rounded by comparing squares, stochastic rounding needs its digits")
    if floor * floor == v:
        return floor
    doubled = (2 * floor + 1) ** 2
    # Every deterministic mode only asks on which side of the half the fraction lies.
    stand_in = Fraction(1, 4) if 4 * v < doubled else Fraction(3, 4) if 4 * v > doubled else HALF
    return round_fraction(floor + stand_in, mode)
