"""Exact arithmetic of fixed point: which codes a result can have, and the format that holds them all.

Nothing is rounded. A result stands at the exponent at which each of its values is a code, and is as wide as
the ranges of the operands make it, whatever their codes are:

    a + b    the lower exponent; the range of the one that is shifted there, plus the other's
    a - b    a + (-b)
    -a       the range turned round
    a * b    the sum of the exponents; the extremes of the products
    a @ b    the same, `terms` times: a sum of that many products

>>> q = span(FixedPoint(8, 6))
>>> plus(q, q), times(q, q)
(Span(low=-256, high=254, exponent=-6), Span(low=-16256, high=16384, exponent=-12))
>>> [format_of(s).wl for s in (plus(q, q), times(q, q), negative(q))]           # bits
[9, 16, 9]
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from intnet.spec.formats import FixedPoint

WIDEST = 32  # bits of a format; a wider range has none


class Span(NamedTuple):
    """All codes from low to high, at one exponent."""

    low: int
    high: int
    exponent: int


def span(format: FixedPoint) -> Span:
    """The codes of a format."""
    low, high, _ = format.limits()
    return Span(low, high, -format.fl)


def number(value: Fraction) -> Span:
    """A number alone: an odd one times a power of two, or 0; ValueError where it is none."""
    den = value.denominator
    if den & (den - 1):
        raise ValueError(f"{value} is no whole number times a power of two")
    odd, power = value.numerator, 1 - den.bit_length()
    while odd and odd % 2 == 0:
        odd, power = odd // 2, power + 1
    return Span(odd, odd, power)


def plus(a: Span, b: Span) -> Span:
    """The sums. Where one side is 0 alone, its exponent does not count."""
    exponent = min([s.exponent for s in (a, b) if (s.low, s.high) != (0, 0)] or [a.exponent, b.exponent])
    (low, high), (lower, higher) = (
        [edge * 2 ** max(s.exponent - exponent, 0) for edge in (s.low, s.high)] for s in (a, b)
    )
    return Span(low + lower, high + higher, exponent)


def negative(a: Span) -> Span:
    """The negatives."""
    return Span(-a.high, -a.low, a.exponent)


def times(a: Span, b: Span, terms: int = 1) -> Span:
    """The sums of `terms` products."""
    edges = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    return Span(terms * min(edges), terms * max(edges), a.exponent + b.exponent)


def format_of(span: Span) -> FixedPoint | None:
    """The narrowest format with all these codes, signed where one is negative; None beyond 32 bits."""
    signed = span.low < 0
    width = 1
    while not -(2 ** (width - 1)) * signed <= span.low <= span.high < 2 ** (width - signed):
        width += 1
    return FixedPoint(width, -span.exponent, signed) if width <= WIDEST else None
