"""Microscaling: a scale 2^k a block, in the word k + 127 of E8M0, and elements of a narrow format.

    value = 2^k * element        element: a small float, or a code of wl bits times 2^-fl (MXINT8: <8,6>)

A block's k comes from the greatest magnitude t in it, exactly; E is floor(log2 g) of g, the greatest element:

    floor   floor(log2 t) - E             OCP's rule; elements beyond g are limited to it
    ceil    ceil(log2 t) - E
    round   floor(log2 t') - E            t' is t to nearest in the digits of an element, ties to even
    fit     the least with t <= g * 2^k   nothing is limited

k below -127 becomes -127, as of a block of zeros. Of one beyond 127 the scale is NaN (word 255), as it is of
a block that holds a NaN or an infinity; all elements of such a block are 0, and count as NaN. Each other
element is x / 2^k, rounded once.

Sources: OCP microscaling formats (MX), version 1.0, 5.3, 5.4, 6.3: what a block means, and rule 'floor'. It
leaves open what becomes of zeros, of a NaN, and beyond the scales: that, and the other rules, is intnet's.

>>> q = quantize_block([Fraction(3), Fraction(-1, 10)], Float(2, 1, "none"))
>>> q.scale, q.elements, [decoded(w, q.scale, Float(2, 1, "none")) for w in q.elements]
(126, [7, 8], [Fraction(3, 1), '-0'])
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import NamedTuple

from intnet.spec.formats import FixedPoint
from intnet.spec.rounding import Mode, round_fraction
from intnet.spec.small_floats import Float, Made, Value, decode, encode, value
from intnet.spec.tensor import Place, log2_floor, places, power

SCALES = ("floor", "ceil", "round", "fit")
LEAST, GREATEST, NAN = -127, 127, 255  # of k; the word of a scale that is NaN
Element = Float | FixedPoint
ELEMENTS: dict[str, Element] = {  # of INT8 words are signed codes
    "E4M3": Float(4, 3, "nan"),
    "E5M2": Float(5, 2),
    "E3M2": Float(3, 2, "none"),
    "E2M3": Float(2, 3, "none"),
    "E2M1": Float(2, 1, "none"),
    "INT8": FixedPoint(8, 6),
}


class Block(NamedTuple):
    """The word of the scale, the words (codes, of `FixedPoint`) of the elements; limited, and rounded
    ones."""

    scale: int
    elements: list[int]
    saturated: int
    inexact: int


@cache
def greatest(element: Element) -> Fraction:
    """g, the greatest element."""
    if isinstance(element, Float):
        return value(element.greatest, element)
    return element.limits()[1] * power(-element.fl)


@cache
def greatest_binade(element: Element) -> int:
    """floor(log2 g)."""
    return log2_floor(greatest(element))


def digits(element: Element) -> int:
    """Bits after the leading one of its greatest elements."""
    return element.m if isinstance(element, Float) else element.wl - 2


def scale_of(t: Fraction, element: Element, rule: str) -> int:
    """The word of the scale of a block whose greatest magnitude is t."""
    if t == 0:
        return 0
    edge = greatest_binade(element)
    if rule == "floor":
        k = log2_floor(t) - edge
    elif rule == "ceil":
        k = -log2_floor(1 / t) - edge
    elif rule == "round":
        unit = power(log2_floor(t) - digits(element))
        k = log2_floor(round_fraction(t / unit) * unit) - edge
    elif rule == "fit":
        k = -log2_floor(greatest(element) / t)
    else:
        raise ValueError(f"unknown scale {rule!r}; choose one of {', '.join(SCALES)}")
    return NAN if k > GREATEST else max(k, LEAST) + GREATEST


def element_of(x: Value, element: Element, mode: Mode, word: int | None, bits: int) -> Made:
    """The word, or of `FixedPoint` the code, of one scaled element."""
    if isinstance(element, Float):
        return encode(x, element, mode, word, bits)
    way = element.way(0 if isinstance(x, str) else x, 0, mode, word, bits)  # of '-0'
    return Made(way.code, way.saturated, way.decision.fraction != 0)


def quantize_block(
    xs: Sequence[Value],
    element: Element,
    rule: str = "floor",
    mode: Mode = "ties_even",
    words: Sequence[int] | None = None,
    bits: int = 32,
) -> Block:
    """A block: its scale, then every element."""
    if any(isinstance(x, str) and x != "-0" for x in xs):
        return Block(NAN, [0] * len(xs), 0, 0)
    scale = scale_of(max(abs(Fraction(x)) for x in xs), element, rule)  # Fraction('-0') is 0
    if scale == NAN:
        return Block(NAN, [0] * len(xs), 0, 0)
    drawn = [None] * len(xs) if words is None else words
    step = power(scale - GREATEST)
    made = [
        element_of(x if isinstance(x, str) else x / step, element, mode, word, bits)
        for x, word in zip(xs, drawn, strict=True)
    ]
    return Block(scale, [m.word for m in made], sum(m.saturated for m in made), sum(m.inexact for m in made))


def decoded(word: int, scale: int, element: Element) -> Value:
    """What an element of a block stands for."""
    if scale == NAN:
        return "nan"
    found = decode(word, element) if isinstance(element, Float) else word * power(-element.fl)
    return found if isinstance(found, str) else found * power(scale - GREATEST)


def block_of(place: Place, block: Sequence[int]) -> Place:
    """The block that an element lies in: `block` has the sizes along the last axes, 1 along those before."""
    sizes = (1,) * (len(place) - len(block)) + tuple(block)
    return tuple(i // size for i, size in zip(place, sizes, strict=True))


def members(shape: Sequence[int], block: Sequence[int]) -> dict[Place, list[int]]:
    """Flat indices of every block's elements, in C order; at an edge a block is what is left."""
    found: dict[Place, list[int]] = {}
    for index, place in enumerate(places(shape)):
        found.setdefault(block_of(place, block), []).append(index)
    return found
