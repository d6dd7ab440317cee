"""tanh, sigmoid, silu and silu's derivative of exact numbers, correctly rounded.

    sigmoid(x) = 1/(1 + e^-x)       silu(x) = x sigmoid(x)       slope(x) = s + x s (1 - s), s = sigmoid(x)
    tanh(x) = (1 - t)/(1 + t), t = e^-2x

Each is enclosed between two rationals, and the enclosure is tightened until both ends round alike: Ziv's
strategy (1991), with bounds for proofs. They are integers at scale 2^-precision, every step rounded outwards.
At a rational other than 0 all of these are irrational (Lindemann), so that no tie and no grid point is ever
met and the loop ends. That a stored curve is the correctly rounded one is intnet's own contract; curves of
float32 follow `elementary` instead.

>>> curve_round("tanh", 1, -7), curve_round("sigmoid", 1, -7)      # 0.7616 and 0.7311 in 128ths
(97, 94)
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from intnet.spec.rounding import round_fraction
from intnet.spec.tensor import Number, power


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


def _sigmoid_bounds(x: Fraction, precision: int) -> tuple[Fraction, Fraction]:
    """A rational enclosure of 1/(1 + e^-x)."""
    low, high = exp_minus_bounds(abs(x), precision)
    one = 1 << precision
    if x >= 0:
        return Fraction(one, one + high), Fraction(one, one + low)
    return Fraction(low, one + low), Fraction(high, one + high)


def _times(a: tuple[Fraction, Fraction], b: tuple[Fraction, Fraction]) -> tuple[Fraction, Fraction]:
    ends = [p * q for p in a for q in b]
    return min(ends), max(ends)


def curve_bounds(curve: str, x: Fraction, precision: int) -> tuple[Fraction, Fraction]:
    """A rational enclosure of tanh(x), sigmoid(x), silu(x) = x sigmoid(x), or silu's derivative ('slope')."""
    if curve == "tanh":
        small, large = tanh_bounds(abs(x), precision)
        return (small, large) if x > 0 else (-large, -small)
    s = _sigmoid_bounds(x, precision)
    if curve == "sigmoid":
        return s
    if curve == "silu":
        return _times(s, (x, x))
    rest = _times((x, x), (1 - s[1], 1 - s[0]))
    return _times(s, (1 + rest[0], 1 + rest[1]))


def decided(bounds: Callable[[int], tuple[Fraction, Fraction]], to: Callable[[Fraction], Number]) -> Number:
    """to(v) of the v that bounds(precision) encloses, `to` monotone: tightened until both ends agree."""
    precision = 64
    while True:
        a, b = map(to, bounds(precision))
        if a == b:
            return a
        precision *= 2


def curve_round(curve: str, x: Fraction | int, exponent: int, mode: str = "ties_even") -> int:
    """The code of a curve at x on the grid 2^exponent, correctly rounded by `mode`."""
    given = Fraction(x)
    if given == 0:
        at_zero = Fraction(curve in ("sigmoid", "slope"), 2)
        return round_fraction(at_zero / power(exponent), mode)
    code = decided(
        lambda precision: curve_bounds(curve, given, precision),
        lambda v: round_fraction(v / power(exponent), mode),
    )
    return int(code)
