"""tanh, correctly rounded to a grid: a rational enclosure is tightened until the rounding is decided.

Bounds are integers at scale 2^-precision, every step rounded outwards. tanh of a nonzero rational is
irrational, so no tie and no grid point is ever met and the loop ends.
"""
from __future__ import annotations

from fractions import Fraction

from tests.oracle.rounding import round_fraction
from tests.oracle.tensor import power


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def exp_minus_bounds(y: Fraction, precision: int) -> tuple[int, int]:
    """Integers lo <= exp(-y) * 2^precision <= hi, for y >= 0."""
    halvings = 0
    while y > Fraction(1, 2):
        y /= 2
        halvings += 1
    one = 1 << precision
    p, q = y.numerator, y.denominator
    low, high = one, one  # the partial sum
    term_low, term_high = one, one  # y^n / n!
    n = 0
    # Alternating with falling terms: the rest after a term is smaller than that term.
    while term_high > 1:
        n += 1
        term_low, term_high = term_low * p // (q * n), _ceil_div(term_high * p, q * n)
        if n % 2:
            low, high = low - term_high, high - term_low
        else:
            low, high = low + term_low, high + term_high
    low, high = low - term_high, min(high + term_high, one)
    low = max(low, 0)
    for _ in range(halvings):
        low, high = low * low // one, _ceil_div(high * high, one)
    return low, high


def tanh_bounds(x: Fraction, precision: int) -> tuple[Fraction, Fraction]:
    """A rational enclosure of tanh(x) for x >= 0, from t = exp(-2x): tanh(x) = (1 - t) / (1 + t)."""
    low, high = exp_minus_bounds(2 * x, precision)
    one = 1 << precision
    return Fraction(one - high, one + high), Fraction(one - low, one + low)


def tanh_round(x: Fraction | int, exponent: int, mode: str = "ties_even") -> int:
    """The code of tanh(x) on the grid 2^exponent (exponent negative), correctly rounded by `mode`."""
    x = Fraction(x)
    if x == 0:
        return 0
    precision = max(8, 16 - exponent)
    while True:
        small, large = tanh_bounds(abs(x), precision)
        if x < 0:
            small, large = -large, -small
        a, b = round_fraction(small / power(exponent), mode), round_fraction(large / power(exponent), mode)
        if a == b:
            return a
        precision *= 2
