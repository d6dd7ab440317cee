"""AdaPT's precision switch as pure functions (Kummer et al., "Adaptive Precision Training", sec. 3.3).

    push_down   the smallest <WL_min, FL_min> with KL(P || Q) <= eps            Eq. 3.1, 3.2
    push_up     <WL, FL> for the next lookback, from the gradient diversity     Eq. 3.5, 3.6
    next_lookback, next_resolution, next_strategy                               their bounds and momentum

Q is the histogram of a layer's weights W in r equal bins, P that of their stochastically rounded copy
SR(W; <WL,FL>), both over [min W, max W]. Which bin holds a value is decided exactly
(`ops/kernels/histograms.py`). So is everything else that decides: quotients are fractions, logarithms
have 50 digits where those of `numbers/fp32.py` come near a threshold. The state between two switches, and
when one happens: `adapt.py`.

Defined by `spec/methods/adapt_switch.py: push_down`, `spec/methods/adapt_switch.py: push_up`.
"""

import math
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Literal, NamedTuple

import numpy as np

from intnet.exact.quantize import quantize
from intnet.numbers.formats import MAX_BITS, FixedPoint
from intnet.numbers.fp32 import log64
from intnet.ops.kernels.histograms import count_codes, count_floats, inner_edges

Strategy = Literal["min", "mean", "max"]
Reading = Literal["graded", "program", "printed"]
Buffer = Literal["raised", "printed"]
STRATEGIES: tuple[Strategy, ...] = ("min", "mean", "max")
LEAST_FL = 4  # PushDown looks no further down
LN2 = float.fromhex("0x1.62e42fefa39efp-1")
NEAR = 1e-9  # further from eps than this, the error of a KL in float64, below 1e-11, decides nothing
DIGITS = Context(prec=50)


class Rule(NamedTuple):
    """What the options say of a switch: bounds of lookback and resolution, the lookback's momentum, the
    reading of (3.6), whether the buffer stands after the raised FL, and its bits.
    """

    lookback: tuple[int, int] = (25, 100)
    resolution: tuple[int, int] = (50, 150)
    gamma: Fraction = Fraction(33, 100)
    reading: Reading = "graded"
    buffer: Buffer = "raised"
    buff: int = 4


def divergence(p: np.ndarray, q: np.ndarray) -> float:
    """KL(P || Q) in bits of two histograms of equally many values, counts int64[r] (Eq. 3.2), in float64.

    0.0 where all counts agree and only there; inf where P has values in a bin that is empty in Q.
    """
    if np.array_equal(p, q):
        return 0.0
    held = p > 0
    if np.any(q[held] == 0):
        return math.inf
    total = 0.0
    for mine, other in zip(p[held].tolist(), q[held].tolist(), strict=True):
        total += mine * log64(mine / other)
    return max(total / (LN2 * int(p.sum())), math.ulp(0.0))  # Gibbs: above 0, whatever rounding makes of it


def diverges(p: np.ndarray, q: np.ndarray, eps: float) -> bool:
    """KL(P || Q) > eps, decided by 50 digits where float64 is too close to tell.

    Defined by `spec/methods/adapt_switch.py: divergence`.
    """
    kl = divergence(p, q)
    if kl in (0.0, math.inf) or eps == 0 or abs(kl - eps) > NEAR:
        return kl > eps
    held = p > 0
    total = Decimal(0)
    for mine, other in zip(p[held].tolist(), q[held].tolist(), strict=True):
        total = DIGITS.fma(Decimal(mine), _log(Fraction(mine, other)), total)
    return total > DIGITS.multiply(DIGITS.multiply(Decimal(eps), Decimal(int(p.sum()))), _log(Fraction(2)))


def _log(x: Fraction) -> Decimal:
    """ln x to 50 digits."""
    return DIGITS.ln(DIGITS.divide(Decimal(x.numerator), Decimal(x.denominator)))


class Candidates:
    """Judges every candidate format of one weight tensor, all by the same random words.

    w: float32, any shape; words: uint32, one an element; r: bins
    """

    def __init__(self, w: np.ndarray, words: np.ndarray, r: int) -> None:
        self.w, self.words = w, words
        self._edges = inner_edges(float(w.min()), float(w.max()), r)
        self.q = count_floats(w, self._edges)

    def p(self, wl: int, fl: int) -> np.ndarray:
        """The histogram of SR(W; <wl,fl>)."""
        rounded = quantize(self.w, FixedPoint(wl, fl), rounding="stochastic", words=self.words)
        return count_codes(rounded, self._edges)

    def holds(self, wl: int, fl: int, eps: float) -> bool:
        """KL(P || Q) <= eps, P of SR(W; <wl,fl>). Defined by `spec/methods/adapt_switch.py: loss_of`."""
        return wl > 0 and not diverges(self.p(wl, fl), self.q, eps)


def _least(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """By bisection: a number of low..high at which `holds`, while it does not one below; or `high`.

    Defined by `spec/methods/adapt_switch.py: bisect`.
    """
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return high


def push_down(w: np.ndarray, wl: int, fl: int, r: int, eps: float, words: np.ndarray) -> tuple[int, int]:
    """(WL_min, FL_min): bisection on FL over [4, FL] at WL, then on WL over [FL_min, WL].

    Where not even <WL, FL> has KL <= eps, that is the result. A tensor of equal weights has no
    histogram to lose: it takes the least.

    Defined by `spec/methods/adapt_switch.py: push_down`.
    """
    if w.min() == w.max():
        return min(LEAST_FL, wl), min(LEAST_FL, fl)
    candidates = Candidates(w, words, r)
    fl_min = _least(min(LEAST_FL, fl), fl, lambda bits: candidates.holds(wl, bits, eps))
    wl_min = _least(min(fl_min, wl), wl, lambda bits: candidates.holds(bits, fl_min, eps))
    return wl_min, fl_min


def loss_of(w: np.ndarray, wl: int, fl: int, r: int, words: np.ndarray) -> float:
    """KL(P || Q) in bits of SR(W; <wl,fl>), in float64: what a switch lost, for the log."""
    if w.min() == w.max():
        return 0.0
    candidates = Candidates(w, words, r)
    return divergence(candidates.p(wl, fl), candidates.q)


def _ceil(x: Decimal) -> int:
    return int(x.to_integral_value(ROUND_CEILING))


def suggestions(diversity: float, fl_min: int, reading: Reading = "graded") -> tuple[int, int]:
    """(s1, s2) of Eq. 3.6: by how many bits FL might grow; (1, 1) where the diversity tells nothing.

    With a = (ln D - 1)^2, which is above 0 as e is no float, s1 = ceil(1/a) and s2 = ceil(32 a) - FL_min,
    32 a at most 32. The authors' program has that for D above e only, and an s2 of 0 as its least. Printed:
    a = (ln D)^2 - 1, which must be above 0 here, and 32 (ln D)^2 - 1 in s2.

    Defined by `spec/methods/adapt_switch.py: suggestions`.
    """
    if not 0 < diversity < math.inf:
        return 1, 1
    log = _log(Fraction(diversity))
    if reading == "printed":
        square = DIGITS.power(log, 2)
        a = DIGITS.subtract(square, Decimal(1))
        most = _ceil(DIGITS.multiply(Decimal(32), square)) - 1
    else:
        a = DIGITS.power(DIGITS.subtract(log, Decimal(1)), 2)
        most = _ceil(DIGITS.multiply(Decimal(32), a))
    if not a > 0 or (reading == "program" and not log > 1):
        return 1, 1
    least = 0 if reading == "program" else 1
    return max(_ceil(DIGITS.divide(Decimal(1), a)), 1), max(min(most, MAX_BITS) - fl_min, least)


def chosen(s: tuple[int, int], strategy: Strategy) -> int:
    """s of Eq. 3.6: the least, the mean rounded up or the greatest of (s1, s2)."""
    return {"min": min(s), "mean": (sum(s) + 1) // 2, "max": max(s)}[strategy]


def push_up(wl_min: int, fl_min: int, s: int, rule: Rule) -> tuple[int, int]:
    """(WL, FL) for the next lookback: s more bits to learn with, and `buff` bits in front of the point.

    The paper's WL = min(max(WL_min, FL_min) + 1, 32) ahead of the buffer is not computed: the buffer sets WL
    anew.

    Defined by `spec/methods/adapt_switch.py: push_up`.
    """
    fl = min(fl_min + s if rule.buffer == "raised" else fl_min, MAX_BITS - rule.buff)
    return max(min(fl + rule.buff, MAX_BITS), wl_min), fl


def next_lookback(lookback: int, diversity: float, rule: Rule) -> int:
    """lb <- ceil(gamma lb_new + (1 - gamma) lb); lb_new = ceil(lb_upr / D) within its bounds.

    gamma is a fraction, and lb_upr / D one of the float D, so that both ceilings are exact.

    Defined by `spec/methods/adapt_switch.py: next_lookback`.
    """
    lower, upper = rule.lookback
    new = upper
    if 0 < diversity < math.inf:
        new = min(max(math.ceil(upper / Fraction(diversity)), lower), upper)
    return math.ceil(rule.gamma * new + (1 - rule.gamma) * lookback)


def next_resolution(r: int, lookback: int, rule: Rule) -> int:
    """r + 1 where lb is at its upper bound, r - 1 where it is at its lower one, within its bounds.

    Defined by `spec/methods/adapt_switch.py: next_resolution`.
    """
    step = (lookback == rule.lookback[1]) - (lookback == rule.lookback[0])
    return min(max(r + step, rule.resolution[0]), rule.resolution[1])


def next_strategy(strategy: Strategy, losses: Sequence[float]) -> Strategy:
    """One step up of min, mean, max where the last |loss| is not below the mean of all, else min.

    The sign of a sum by `fsum` is that of the exact sum.

    Defined by `spec/methods/adapt_switch.py: next_strategy`.
    """
    sizes = [abs(loss) for loss in losses]
    if math.fsum([*sizes, -len(sizes) * sizes[-1]]) > 0:
        return "min"
    return STRATEGIES[min(STRATEGIES.index(strategy) + 1, 2)]
