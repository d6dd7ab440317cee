"""Histograms whose every count is exact.

    edges e_i = lo + i (hi - lo) / r,  i = 0 .. r     bin i holds e_i <= x < e_(i+1), the last one its end too

A value is compared with an edge in exact arithmetic: an edge is replaced by the first number of the values'
own grid that reaches it (a float32, or a code), which decides every comparison the same. What lies outside
of lo..hi counts in the end bins. AdaPT's precision switch (`methods/adapt_switch.py`) reads them.

Defined by `spec/methods/adapt_switch.py: histogram`.
"""

import math
from fractions import Fraction

import numpy as np

from intnet.machine.jit import pjit, prange
from intnet.numbers.qtensor import INT64_BOUND, QTensor

_BLOCK = 1 << 14  # values that a thread counts at a time


@pjit
def _count(team: int, values: np.ndarray, starts: np.ndarray, counts: np.ndarray) -> None:
    """counts[block, bin] of values by the ascending starts of bins 1 .. r-1."""
    for block in prange(team, counts.shape[0]):
        line = counts[block]
        for i in range(block * _BLOCK, min((block + 1) * _BLOCK, values.shape[0])):
            low, high = 0, starts.shape[0]  # the number of starts that the value has reached
            while low < high:
                middle = (low + high) >> 1
                if values[i] >= starts[middle]:
                    low = middle + 1
                else:
                    high = middle
            line[low] += 1


def _counted(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    flat = np.ascontiguousarray(values).reshape(-1)
    counts = np.zeros((-(-flat.size // _BLOCK), len(starts) + 1), np.int64)
    _count(flat, starts, counts)
    return counts.sum(axis=0)


def inner_edges(lo: float, hi: float, r: int) -> list[Fraction]:
    """e_1 .. e_(r-1), exact."""
    start, width = Fraction(lo), (Fraction(hi) - Fraction(lo)) / r
    return [start + i * width for i in range(1, r)]


def _first_float32(edge: Fraction) -> np.float32:
    """The least float32 that is not below `edge`."""
    near = np.float32(edge.numerator / edge.denominator)
    while Fraction(float(near)) < edge:
        near = np.nextafter(near, np.float32(np.inf))
    while Fraction(float(below := np.nextafter(near, np.float32(-np.inf)))) >= edge:
        near = below
    return near


def count_floats(values: np.ndarray, edges: list[Fraction]) -> np.ndarray:
    """int64[r] of finite float32 values. Defined by `spec/methods/adapt_switch.py: histogram`."""
    return _counted(values, np.array([_first_float32(edge) for edge in edges], np.float32))


def count_codes(q: QTensor, edges: list[Fraction]) -> np.ndarray:
    """int64[r] of a tensor of one exponent, its codes below INT64_BOUND.

    Defined by `spec/methods/adapt_switch.py: histogram`.
    """
    scale = Fraction(2) ** -int(q.exponent)
    # an edge beyond all codes, which great weights under a fine format have, need not fit int64
    firsts = [min(max(math.ceil(edge * scale), -INT64_BOUND), INT64_BOUND) for edge in edges]
    return _counted(q.codes, np.array(firsts, np.int64))
