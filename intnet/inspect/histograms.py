"""Histograms whose bins are aligned with the codes, so that what is symmetric looks symmetric.

    bins(top, grain, most, signed)   Bins: how wide, how many
    Bins.counts(top, bottom)         elements of top / bottom by bin

Bin k is of (k - 1/2) * width to (k + 1/2) * width; a value on an edge counts with the bin nearer to 0. A
width of codes is an odd number of them (of `grain`, where all are its multiples), so none is on an edge.
All comparisons are exact: of integers, or of floats with a width of few bits.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, frexp, ldexp

import numpy as np

from intnet.numbers.qtensor import INT64_BOUND, max_abs

FEW_BITS = 16  # of a width that is no number of codes: (2k - 1) times it is a float64
EIGHTHS = 8  # bins of an error: eighths of a step
WHOLE_STEP = 8  # bins on each side: up to a step, which no rounding reaches


@dataclass(frozen=True)
class Bins:
    """first: k of the first bin, 0 where no value is negative; last: of the last one."""

    width: float
    first: int
    last: int

    @property
    def edges(self) -> list[float]:
        """Of all bins, from the lowest up; where no value is negative the lowest is 0."""
        inner = [(k + 0.5) * self.width for k in range(self.first, self.last + 1)]
        return [(self.first - 0.5) * self.width if self.first else 0.0, *inner]

    def places(self, top: np.ndarray, bottom: np.ndarray | int = 1) -> np.ndarray:
        """k of top / bottom, bottom above 0; what is beyond the last bin has its k."""
        size, width = self._sizes(top, bottom)
        k = np.zeros(np.shape(top), np.int64)
        for j in range(1, self.last + 1):
            k += size > (2 * j - 1) * width
        return np.where(np.asarray(top < 0, bool), -k, k)

    def beyond(self, top: np.ndarray, bottom: np.ndarray | int = 1) -> int:
        """How many are farther from 0 than the last edge."""
        size, width = self._sizes(top, bottom)
        return int(np.count_nonzero(size > (2 * self.last + 1) * width))

    def _sizes(self, top: np.ndarray, bottom: np.ndarray | int) -> tuple[np.ndarray, np.ndarray]:
        """(2 |top|, width * bottom), of Python integers where int64 does not hold the edges."""
        top, bottom = np.asarray(top), np.asarray(bottom)
        if np.float64 in (top.dtype, bottom.dtype):
            return 2 * np.abs(top.astype(np.float64)), self.width * bottom.astype(np.float64)
        width = int(self.width)
        wide = max(2 * max_abs(top), (2 * self.last + 1) * width * max_abs(bottom)) >= INT64_BOUND
        kind: type = object if wide else np.int64
        return 2 * np.abs(top.astype(kind)), width * bottom.astype(kind)

    def counts(self, top: np.ndarray, bottom: np.ndarray | int = 1) -> list[int]:
        """Elements of top / bottom in each bin, the first bin's first."""
        of = self.places(top, bottom).reshape(-1) - self.first
        return [int(count) for count in np.bincount(of, minlength=self.last - self.first + 1)]


def bins(top: int | float | Fraction, grain: int, most: int, signed: bool) -> Bins:
    """At most `most` bins (an odd number) that reach +-top, or `top` alone; grain 0: of values, not codes."""
    assert most % 2
    reach = most // 2 if signed else most - 1
    if grain:
        wide = max(1, ceil(Fraction(top) / grain / (reach + Fraction(1, 2))))
        width: float = grain * (wide + (wide % 2 == 0))
        last = max(int(signed), ceil(Fraction(top) / int(width) - Fraction(1, 2)))
    else:
        fraction, exponent = frexp(float(top) / (reach + 0.5) or 1.0)
        width, last = ldexp(ceil(ldexp(fraction, FEW_BITS)), exponent - FEW_BITS), reach
    return Bins(width, -last if signed else 0, last)


# -- errors -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Errors:
    """Of c - s, code less value in steps of the element's own grid.

    counts:    in bins of an eighth of a step, the middle one of 0, up to a step either way
    unchanged: elements without any; beyond: those of more than 17/16 of a step: saturated
    mean:      of all elements
    """

    counts: list[int]
    unchanged: int
    beyond: int
    elements: int
    mean: float


ERROR_BINS = Bins(1, -WHOLE_STEP, WHOLE_STEP)  # of eight times the error


def errors(left: np.ndarray, bottom: np.ndarray | int, mean: float) -> Errors:
    """Of values less codes, left / bottom, and their mean."""
    left = np.asarray(left)
    if left.dtype != np.float64:
        left = left.astype(object if EIGHTHS * max_abs(left) >= INT64_BOUND else np.int64)
    eighths = left * -EIGHTHS
    away = ERROR_BINS.beyond(eighths, bottom)
    counts = ERROR_BINS.counts(eighths, bottom)
    return Errors(counts, int(np.count_nonzero(left == 0)), away, left.size, 0 - mean)
