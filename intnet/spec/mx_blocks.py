"""Tensors in MX blocks along one axis, as float32: what the products of training with MX formats read.

A product sums over an axis, and both of its operands have their blocks along it: SIZE elements each, what is
left at its end is a smaller block. An axis of channels that falls into groups, of which a sum reads one, is
cut into them first, so that no block reaches into two.

    shape (.., n, ..) -> (.., groups, n/groups, ..), blocks of SIZE along n/groups
    value = element * 2^k            k and the elements by `microscaling.quantize_block`

Every such value is a float32, and a product of two is the product that hardware makes of both elements, times
a power of two; sums of them are `float32`'s. The least step, 2^(k + L - m), is at least 2^-143; a block with
k + E > 127, E = floor(log2 g), whose greatest elements float32 would not hold, is refused, as is one of a NaN
or an infinity.

>>> form = Along(Float(2, 1, "none"), "floor", "ties_even", 1)
>>> q = quantize_along(Tensor((1, 2), [Fraction(5), Fraction(-1, 5)]), form)
>>> [str(v) for v in q.values], q.scales
(['4', '0'], [127])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import NamedTuple

from intnet.spec.formats import Exact, Format, Way
from intnet.spec.microscaling import (
    GREATEST,
    Element,
    decoded,
    digits,
    greatest,
    greatest_binade,
    quantize_block,
)
from intnet.spec.rounding import Mode, decision
from intnet.spec.small_floats import Float
from intnet.spec.tensor import Place, Tensor, index_of, log2_floor, places, power

SIZE = 32  # elements of a block

# As golden packs print it, beside a table of the formats.
RULES = (
    "L is the exponent of the least normal element, m how many bits it has behind its leading one, g the"
    " greatest element, E = floor(log2 g).",
    f"A block is {SIZE} elements that follow one another along the axis that the table names, at one place of"
    " all other axes; what is left at its end is a smaller block. An axis of several groups is cut into as"
    " many equal parts first, and blocks begin anew in each. Along that axis `.scale` has a word a block (its"
    f" name ends in /{SIZE} there), in the order of the blocks, those of the first group first.",
    "A scale is a word w of 8 bits, E8M0: 2^k, k = w - 127. t is the greatest magnitude in the block. Rule"
    " `floor`: k = floor(log2 t) - E; `ceil`: k = ceil(log2 t) - E; `round`: k = floor(log2 t') - E, where t'"
    " is t rounded to m bits behind its leading one, to nearest, ties to even; `fit`: the least k with"
    " t <= g * 2^k. Where that is below -127, and of a block of zeros, k is -127. No word is 255, which would"
    " be NaN: a block with a NaN, an infinity or k + E > 127, where binary32 ends, is an error.",
    "An element is y = x / 2^k, exact, rounded once: its step is 2^(lead - m), where lead is floor(log2 |y|),"
    " but at least L and at most E; of y = 0 it is L. y in these steps is rounded by the port's mode; what is"
    " then beyond +-g becomes +-g.",
    "The word of a small float is a sign, a field f of exponent bits and a fraction c of m bits. Its size is"
    " (2^m + c) * 2^(f - 1 + L - m), of f = 0 c * 2^(L - m). No element is a NaN or an infinity, as f = 15"
    " with c = 7 of E4M3 and f = 31 of E5M2 are; the others have none. A zero has the sign of x: what was -0,"
    " and a negative number that becomes zero, is -0, and +0 as a value. An element <8,6> is a code in two's"
    " complement, code * 2^-6.",
    "The value, element * 2^k, is a binary32. Products are of these values: x1, e4, gW and gb add up by the"
    " rules of binary32, term by term, whatever the blocks.",
)


class Along(NamedTuple):
    """MX blocks along `axis`, which falls into `groups`; scale: a rule of `microscaling.SCALES`."""

    element: Element
    scale: str
    mode: Mode
    axis: int
    groups: int = 1


class Quantized(NamedTuple):
    """float32 values of the tensor's shape; a scale's word a block, in the order of `blocks`; how many were
    limited."""

    values: list[Fraction]
    scales: list[int]
    saturated: int


def block_at(shape: Sequence[int], form: Along, place: Place) -> list[int]:
    """Flat indices of the elements of the block that the element at `place` lies in."""
    axis = form.axis % len(shape)
    part = shape[axis] // form.groups
    group, inside = divmod(place[axis], part)
    first = inside - inside % SIZE
    run = range(group * part + first, group * part + min(first + SIZE, part))
    return [index_of((*place[:axis], i, *place[axis + 1 :]), shape) for i in run]


def blocks(shape: Sequence[int], form: Along) -> list[list[int]]:
    """Those of every block, by its first element in C order."""
    axis = form.axis % len(shape)
    part = shape[axis] // form.groups
    firsts = [place for place in places(shape) if place[axis] % part % SIZE == 0]
    return [block_at(shape, form, place) for place in firsts]


def quantize_along(x: Tensor, form: Along, words: Sequence[int] | None = None) -> Quantized:
    """x in blocks; `words`: a random word an element of x, in C order. OverflowError for a refused block."""
    values, scales, saturated = [Fraction(0)] * len(x.values), [], 0
    for block in blocks(x.shape, form):
        drawn = None if words is None else [words[i] for i in block]
        made = quantize_block([x.values[i] for i in block], form.element, form.scale, form.mode, drawn)
        if made.scale - GREATEST + greatest_binade(form.element) > 127:
            raise OverflowError("a block's values are beyond float32")
        for i, word in zip(block, made.elements, strict=True):
            value = decoded(word, made.scale, form.element)
            assert not isinstance(value, str) or value == "-0"
            values[i] = Fraction(value)
        scales.append(made.scale)
        saturated += made.saturated
    return Quantized(values, scales, saturated)


@dataclass(frozen=True)
class InBlock(Format):
    """An element of a block as a code, its value in the block's least steps, 2^(k + L - m). Grid: k.

    The same as `microscaling.quantize_block` makes, in the words of `formats`: steps double with each binade
    of x / 2^k above the least one, up to that of the greatest element, g, beyond which codes are limited.
    """

    element: Element

    @property
    def least(self) -> int:
        """L: the exponent of the least normal element; of fixed point that of its leading bit."""
        if isinstance(self.element, Float):
            return self.element.least
        return self.element.wl - 2 - self.element.fl

    def grid_of(self, least: Exact, greatest: Exact) -> int:
        """Blocks have scales, not tensors."""
        raise ValueError("a block's scale is its grid")

    def exponent(self, grid: int) -> int:
        """k + L - m."""
        return grid + self.least - digits(self.element)

    def limits(self) -> tuple[int, int, str]:
        """g on both sides, in least steps."""
        edge = _edge(self.element)
        return -edge, edge, "saturate"

    def way(
        self, x: Exact, grid: int, mode: Mode = "ties_even", word: int | None = None, bits: int = 32
    ) -> Way:
        """On the grid of the binade that x / 2^k lies in."""
        lead = log2_floor(abs(Fraction(x)) / power(grid)) if x else self.least
        lead = min(max(lead, self.least), greatest_binade(self.element))
        step, lift = power(grid + lead - digits(self.element)), 2 ** (lead - self.least)
        edge = self.limits()[1] // lift
        return Way(step, decision(Fraction(x) / step, mode, word, bits), (-edge, edge, "saturate"), lift)


@cache
def _edge(element: Element) -> int:
    """g, in least steps."""
    return int(greatest(element) / InBlock(element).step(0))
