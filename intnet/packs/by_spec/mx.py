"""Paths in MX blocks by the definition: from words to numbers, from numbers to words.

    form = form_of(port["rounding"])             `mx_blocks.Along`, as PACK.json says it
    values(codes, scales, shape, form)           what elements and scales stand for
    words(values, scales, shape, form)           the elements that stand for these numbers

A zero has no sign here, as everywhere in the definition of layers.
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Any

from intnet.packs.ports import Json
from intnet.spec.formats import FixedPoint, Way
from intnet.spec.microscaling import GREATEST, Element, decoded, scale_of
from intnet.spec.mx_blocks import Along, InBlock, blocks
from intnet.spec.small_floats import Float, decode
from intnet.spec.tensor import power

SCALE = ".scale"  # after a port's name: that of its scales
KINDS = {"Float": Float, "FixedPoint": FixedPoint}


def form_of(how: Json) -> Along:
    """The format of a port's `rounding`."""
    told = how["mx"]
    element = KINDS[told["element"]["kind"]](**told["element"]["fields"])
    return Along(element, told["scale"], how["mode"], told["axis"], told["groups"])


def same(a: Along, b: Along, dimensions: int) -> bool:
    """Whether two are one format, of a tensor of so many axes."""
    return a._replace(axis=a.axis % dimensions) == b._replace(axis=b.axis % dimensions)


def values(codes: Sequence[int], scales: Sequence[int], shape: Sequence[int], form: Along) -> list[Fraction]:
    """Of every element; ValueError for a NaN or an infinity."""
    found = [Fraction(0)] * len(codes)
    for block, scale in zip(blocks(shape, form), scales, strict=True):
        for i in block:
            value = decoded(codes[i], scale, form.element)
            found[i] = Fraction(0) if value == "-0" else Fraction(value)
    return found


def tops(given: Sequence[Fraction], shape: Sequence[int], form: Along) -> list[Fraction]:
    """The greatest magnitude in every block."""
    return [max(abs(given[i]) for i in block) for block in blocks(shape, form)]


def scales(given: Sequence[Fraction], shape: Sequence[int], form: Along) -> list[int]:
    """The word of the scale of every block."""
    return [scale_of(top, form.element, form.scale) for top in tops(given, shape, form)]


def ways(
    given: Sequence[Fraction], scales: Sequence[int], shape: Sequence[int], form: Along, drawn: Any
) -> list[Way]:
    """How each element is rounded in blocks of these scales; drawn: a random word an element, or None."""
    rounds, found = InBlock(form.element), dict[int, Way]()
    for block, scale in zip(blocks(shape, form), scales, strict=True):
        for i in block:
            word = None if drawn is None else drawn[i]
            found[i] = rounds.way(given[i], scale - GREATEST, form.mode, word)
    return [found[i] for i in range(len(given))]


def words(
    numbers: Sequence[Fraction], scales: Sequence[int], shape: Sequence[int], form: Along
) -> list[int | None]:
    """Of every element; None where there is none that stands for the number."""
    found: list[int | None] = [None] * len(numbers)
    for block, scale in zip(blocks(shape, form), scales, strict=True):
        step = power(scale - GREATEST)
        for i in block:
            found[i] = word_of(numbers[i] / step, form.element)
    return found


def word_of(x: Fraction, element: Element) -> int | None:
    """The word of an element that is x."""
    if isinstance(element, Float):
        return _numbers(element).get(x)
    code = x * power(element.fl)
    low, high, _ = element.limits()
    return code.numerator if code.denominator == 1 and low <= code <= high else None


@cache
def _numbers(element: Float) -> dict[Fraction, int]:
    """Every finite number -> its word."""
    decoded_ = ((decode(word, element), word) for word in range(2**element.bits))
    return {Fraction(value): word for value, word in decoded_ if not isinstance(value, str)}
