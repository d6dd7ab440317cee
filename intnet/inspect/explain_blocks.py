"""The block of an element: where it rounds, by `spec.block_float`, and by `spec.mx_blocks` along an axis.

    in_block(event, index) -> Block          e from the values given, b from the exponent that was stored
    in_mx_block(event, index) -> Shared, ..  k from the values given, held to the exponent that was stored

`mantissa_bits` is the other way round, a whole tensor's widths by the library's own exponents, for choosing
what to explain.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from intnet.exact.blocks.block_float import WIDTHS, blocks_of, expand
from intnet.exact.blocks.mx_blocks import Along
from intnet.inspect import as_spec
from intnet.inspect.explain_rules import Disagreement, Index, comma
from intnet.methods.trace import Event
from intnet.numbers.formats import BlockFloat
from intnet.spec.block_float import LEAST, block_of, exponent, inside
from intnet.spec.microscaling import GREATEST, scale_of
from intnet.spec.mx_blocks import InBlock, block_at
from intnet.spec.tensor import place_of


@dataclass(frozen=True)
class Block:
    """The block of an element in block float.

    index:    of the block, as in an array of exponents; elements: that it has
    greatest: their largest magnitude, that of element `at`
    exponent: e, the smallest with greatest < 2**e; -128 where that is less, and all are 0 then
    bits:     b of the mantissas
    Of MX the exponent is k, log2 of the block's scale, and bits are those of an element.
    """

    index: Index
    elements: int
    greatest: Fraction
    at: Index
    exponent: int
    bits: int

    @property
    def emptied(self) -> str:
        """Why all of the block becomes 0, else ''."""
        if self.greatest and exponent([self.greatest]) is None:
            return f"the whole block is below 2^{LEAST - 1}: a block of zeros"
        return "" if self.bits else "b = 0: a block of zeros"


@dataclass(frozen=True)
class Shared:
    """The block of an element in MX, along an axis.

    elements: that it has, along `axis`; greatest: their largest magnitude, that of element `at`
    k:        of the scale 2^k; rule: how it comes from the greatest
    """

    elements: int
    axis: int
    greatest: Fraction
    at: Index
    k: int
    rule: str


def _magnitudes(event: Event, members: Iterable[int]) -> tuple[dict[Index, Fraction], Index]:
    """Of elements at flat places, and which of them is the greatest."""
    places = (place_of(flat, tuple(event.result.shape)) for flat in members)
    values = {at: abs(Fraction(float(event.source[at]))) for at in places}
    return values, max(values, key=lambda one: values[one])


def in_block(event: Event, index: Index) -> Block:
    """The block of element `index`; Disagreement where no b makes the stored exponent of its e."""
    format, result = event.format, event.result
    assert isinstance(format, BlockFloat)
    axes = (0, format.axis)
    of = block_of(index, axes)
    values, at = _magnitudes(event, inside(of, result.shape, axes))
    e, stored = exponent(list(values.values())), int(result.exponent[index])
    e = LEAST if e is None else e
    bits = e - stored + 1
    bits = 0 if bits == 1 else bits  # a block without bits has the exponent of one bit
    if bits not in WIDTHS or bits > format.b or {int(result.exponent[one]) for one in values} != {stored}:
        raise Disagreement(
            f"{event.name} {comma(index)}: its block has e = {e}, which no mantissa of up to "
            f"{format.b} bits brings to the stored exponent {stored}"
        )
    return Block(of, len(values), values[at], at, e, bits)


def in_mx_block(event: Event, index: Index) -> tuple[Shared, InBlock]:
    """The block of element `index` and what rounds in it; Disagreement where another k is stored."""
    format, result = event.format, event.result
    assert isinstance(format, Along)
    form, shape = as_spec.along_of(format), tuple(result.shape)
    values, at = _magnitudes(event, block_at(shape, form, index))
    k, rounds = scale_of(values[at], form.element, form.scale) - GREATEST, InBlock(form.element)
    stored = {int(result.exponent[one]) for one in values}
    if stored != {rounds.exponent(k)}:
        raise Disagreement(
            f"{event.name} {comma(index)}: its block has the scale 2^{k}, steps of "
            f"2^{rounds.exponent(k)}, stored are steps of 2^{sorted(stored)}"
        )
    return Shared(len(values), format.axis % len(shape), values[at], at, k, format.mx.scale), rounds


def mantissa_bits(event: Event) -> np.ndarray:
    """b of the block that each element of a block float event is in: int16 of its shape."""
    assert isinstance(event.format, BlockFloat)
    blocks = blocks_of(event.result, event.source)
    return expand(blocks.bits, blocks.shape, blocks.axes)
