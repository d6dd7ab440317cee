"""AdaPT's precision switch, one scalar function a rule: exact Fractions, logarithms of 50 digits.

Q is the histogram of the weights W in r equal bins over [min W, max W], P that of SR(W; <WL,FL>).
`adapt` has the whole step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import cache

from intnet.spec import formats as qz
from intnet.spec.tensor import power

DIGITS = Context(prec=50)
INFINITE = Decimal("Infinity")
STRATEGIES = ("min", "mean", "max")
LEAST_FL, MOST = 4, 32
Formats = tuple[int, int]  # WL, FL


def decimal(x: Fraction | float | int) -> Decimal:
    """To 50 digits."""
    x = Fraction(x)
    return DIGITS.divide(Decimal(x.numerator), Decimal(x.denominator))


def ceiling(x: Decimal) -> int:
    """The least whole number that is not below x."""
    return int(x.to_integral_value(ROUND_CEILING))


def histogram(values: Sequence[Fraction], lo: Fraction, hi: Fraction, r: int) -> list[int]:
    """Counts in r bins over lo < hi: bin i holds [lo + i w, lo + (i+1) w), end bins what is outside too."""
    counts = [0] * r
    for x in values:
        counts[min(max((x - lo) * r // (hi - lo), 0), r - 1)] += 1
    return counts


@cache
def _log(ratio: Fraction) -> Decimal:
    return DIGITS.ln(decimal(ratio))


def divergence(p: Sequence[int], q: Sequence[int]) -> Decimal:
    """KL(P || Q) = sum of P_i log2(P_i / Q_i) of two histograms of equally many values."""
    if list(p) == list(q):
        return Decimal(0)
    if any(a and not b for a, b in zip(p, q, strict=True)):
        return INFINITE
    total = Decimal(0)
    for a, b in zip(p, q, strict=True):
        if a:
            total = DIGITS.add(total, DIGITS.multiply(Decimal(a), _log(Fraction(a, b))))
    return DIGITS.divide(total, DIGITS.multiply(Decimal(sum(p)), _log(Fraction(2))))


def rounded(w: Sequence[Fraction], form: Formats, words: Sequence[int]) -> list[Fraction]:
    """SR(W; <WL,FL>)."""
    q = qz.quantize(w, qz.FixedPoint(*form), "stochastic", words)
    return [code * power(q.exponent) for code in q.codes]


def loss_of(w: Sequence[Fraction], form: Formats, r: int, words: Sequence[int]) -> Decimal:
    """KL of one candidate."""
    lo, hi = min(w), max(w)
    return divergence(histogram(rounded(w, form, words), lo, hi, r), histogram(w, lo, hi, r))


def bisect(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """Halve low..high until one number is left, downwards where `holds`, the middle rounded down."""
    while low != high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def push_down(w: Sequence[Fraction], form: Formats, r: int, eps: float, words: Sequence[int]) -> Formats:
    """<WL_min, FL_min>: FL over [4, FL], then WL over [FL_min, WL]; all equal weights take the least.

    A word of 0 bits holds nothing.
    """
    wl, fl = form
    if min(w) == max(w):
        return min(LEAST_FL, wl), min(LEAST_FL, fl)
    limit = decimal(eps)

    def holds(wl: int, fl: int) -> bool:
        return wl > 0 and loss_of(w, (wl, fl), r, words) <= limit

    fl_min = bisect(min(LEAST_FL, fl), fl, lambda bits: holds(wl, bits))
    wl_min = bisect(min(fl_min, wl), wl, lambda bits: holds(bits, fl_min))
    return wl_min, fl_min


def suggestions(diversity: float, fl_min: int, reading: str = "graded") -> tuple[int, int]:
    """s1 and s2 of PushUp; an infinite diversity (no gradient) suggests 1 and 1.

    'log^2 D - 1' of (3.6) is a = (ln D - 1)^2, in both; in the authors' program where ln D is above 1, s2
    from 0 on; as printed (ln D)^2 - 1, where it is above 0.
    """
    if diversity == float("inf"):
        return 1, 1
    log = _log(Fraction(diversity))
    if reading == "printed":
        a = DIGITS.subtract(DIGITS.power(log, 2), Decimal(1))
        bits = ceiling(DIGITS.multiply(Decimal(32), DIGITS.power(log, 2))) - 1
    else:
        a = DIGITS.power(DIGITS.subtract(log, Decimal(1)), 2)
        bits = ceiling(DIGITS.multiply(Decimal(32), a))
    if a <= 0 or (reading == "program" and log <= 1):
        return 1, 1
    s2 = min(bits, MOST) - fl_min
    return max(ceiling(DIGITS.divide(Decimal(1), a)), 1), max(s2, 0 if reading == "program" else 1)


def chosen(s1: int, s2: int, strategy: str) -> int:
    """s of (3.6)."""
    return {"min": min(s1, s2), "max": max(s1, s2), "mean": -(-(s1 + s2) // 2)}[strategy]


def push_up(least: Formats, s: int, buff: int, buffer: str = "raised") -> Formats:
    """<WL, FL>, in the order of the paper: s more bits, then the buffer.

    The paper's min(max(WL_min, FL_min) + 1, 32) in between is not computed: what sets WL after it does not
    read it. The buffer stands after the raised FL, or as printed after FL_min.
    """
    wl_min, fl_min = least
    fl = min(fl_min + s, MOST) if buffer == "raised" else fl_min
    fl = min(fl, MOST - buff)
    return max(min(fl + buff, MOST), wl_min), fl


def next_lookback(
    lb: int, diversity: float, bounds: tuple[int, int] = (25, 100), gamma: Fraction = Fraction(33, 100)
) -> int:
    """ceil(gamma lb_new + (1 - gamma) lb), lb_new = ceil(upr / D) within its bounds; upr for D = inf."""
    lwr, upr = bounds
    new = upr
    if diversity != float("inf"):
        new = min(max(-(-upr // Fraction(diversity)), lwr), upr)
    return -((-gamma * new - (1 - gamma) * lb) // 1)


def next_resolution(
    r: int, lb: int, lookbacks: tuple[int, int] = (25, 100), bounds: tuple[int, int] = (50, 150)
) -> int:
    """One more at the upper lookback, one less at the lower one, within its bounds."""
    if lb == lookbacks[1]:
        r += 1
    if lb == lookbacks[0]:
        r -= 1
    return min(max(r, bounds[0]), bounds[1])


def next_strategy(strategy: str, losses: Sequence[Fraction], lookbacks: Sequence[int]) -> str:
    """Up by one where the mean |loss| of the last (mean lookback, rounded down) steps is at most |L|."""
    seen = [abs(v) for v in losses[-(sum(lookbacks) // len(lookbacks)) :]]
    if sum(seen) <= abs(losses[-1]) * len(seen):
        return STRATEGIES[min(STRATEGIES.index(strategy) + 1, 2)]
    return "min"
