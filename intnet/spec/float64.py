"""float64: what methods compute in IEEE 754 binary64, on Python's floats.

Python's floats are binary64, and its + - * / and `math.sqrt` are each rounded once, to nearest, ties to even,
as IEEE 754 asks; so an expression of them is a fixed sequence of roundings, the same on every machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import islice
from math import sqrt

from intnet.spec.float32 import CHUNK


def root64(x: Fraction) -> Fraction:
    """The float64 root of a float64 x >= 0."""
    return Fraction(sqrt(float(x)))


def sum64(values: Iterable[Fraction | float | int]) -> float:
    """Sum in float64, ascending in chunks of 1024; chunk sums added in order. Each term is a float64.

    The order is intnet's own contract, that of `float32.sum_units`.

    >>> sum64([2.0**53, 1.0, 1.0])      # each 1 is a tie, and lost
    9007199254740992.0
    """
    total, terms = 0.0, iter(values)
    while chunk := list(islice(terms, CHUNK)):
        part = 0.0
        for v in chunk:
            part += float(v)
        total += part
    return total
