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
from typing import Literal

import numpy as np

from intnet.exact.quantize import quantize
from intnet.numbers.formats import MAX_BITS, FixedPoint
from intnet.numbers.fp32 import log64
from intnet.ops.kernels.histograms import count_codes, count_floats, inner_edges

Strategy = Literal["min", "mean", "max"]
STRATEGIES: tuple[Strategy, ...] = ("min", "mean", "max")
LEAST_FL = 4  # PushDown looks no further down
LN2 = float.fromhex("0x1.62e42fefa39efp-1")
NEAR = 1e-9  # further from eps than this, the error of a KL in float64, below 1e-11, decides nothing
DIGITS = Context(prec=50)


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
        self._q = count_floats(w, self._edges)

    def holds(self, wl: int, fl: int, eps: float) -> bool:
        """KL(P || Q) <= eps, P of SR(W; <wl,fl>). Defined by `spec/methods/adapt_switch.py: loss_of`."""
        rounded = quantize(self.w, FixedPoint(wl, fl), rounding="stochastic", words=self.words)
        return not diverges(count_codes(rounded, self._edges), self._q, eps)


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


def _ceil(x: Decimal) -> int:
    return int(x.to_integral_value(ROUND_CEILING))


def suggestion(diversity: float, fl_min: int, strategy: Strategy) -> int:
    """s of Eq. 3.6: by how many bits FL grows; 1 where the diversity tells nothing.

    Defined by `spec/methods/adapt_switch.py: suggestion`.
    """
    if not 0 < diversity < math.inf:
        return 1
    square = DIGITS.power(_log(Fraction(diversity)), 2)
    a = DIGITS.subtract(square, Decimal(1))
    if not a > 0:
        return 1
    s1 = max(_ceil(DIGITS.divide(Decimal(1), a)), 1)
    s2 = max(min(_ceil(DIGITS.multiply(Decimal(32), square)) - 1, MAX_BITS) - fl_min, 1)
    if strategy == "mean":
        return (s1 + s2 + 1) // 2
    return min(s1, s2) if strategy == "min" else max(s1, s2)


def push_up(wl_min: int, fl_min: int, diversity: float, strategy: Strategy, buff: int) -> tuple[int, int]:
    """(WL, FL) for the next lookback: s more bits to learn with, and `buff` bits in front of the point.

    The paper's WL = max(WL_min, FL) + 1 ahead of the buffer is not computed: the buffer sets WL anew.

    Defined by `spec/methods/adapt_switch.py: push_up`.
    """
    fl = min(fl_min + suggestion(diversity, fl_min, strategy), MAX_BITS - buff)
    return max(min(fl + buff, MAX_BITS), wl_min), fl


def next_lookback(
    lookback: int, diversity: float, lower: int, upper: int, gamma: tuple[int, int] = (33, 100)
) -> int:
    """lb <- ceil(gamma lb_new + (1 - gamma) lb); lb_new = ceil(lb_upr / D) within its bounds.

    gamma is a fraction, and lb_upr / D one of the float D, so that both ceilings are exact.

    Defined by `spec/methods/adapt_switch.py: next_lookback`.
    """
    new = upper
    if 0 < diversity < math.inf:
        new = min(max(math.ceil(upper / Fraction(diversity)), lower), upper)
    num, den = gamma
    return -((-num * new - (den - num) * lookback) // den)


def next_resolution(r: int, lookback: int, lookbacks: tuple[int, int], bounds: tuple[int, int]) -> int:
    """r + 1 where lb is at its upper bound, r - 1 where it is at its lower one, within its bounds.

    Defined by `spec/methods/adapt_switch.py: next_resolution`.
    """
    step = (lookback == lookbacks[1]) - (lookback == lookbacks[0])
    return min(max(r + step, bounds[0]), bounds[1])


def next_strategy(strategy: Strategy, losses: Sequence[float]) -> Strategy:
    """One step up of min, mean, max where the last |loss| is not below the mean of all, else min.

    The sign of a sum by `fsum` is that of the exact sum.

    Defined by `spec/methods/adapt_switch.py: next_strategy`.
    """
    sizes = [abs(loss) for loss in losses]
    if math.fsum([*sizes, -len(sizes) * sizes[-1]]) > 0:
        return "min"
    return STRATEGIES[min(STRATEGIES.index(strategy) + 1, 2)]
