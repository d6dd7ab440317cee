"""The MX block of an element, along an axis: what sets its scale, by `spec.mx_blocks`.

in_mx_block(event, index) -> Shared      k from the values given, held to the exponent that was stored
"""

from dataclasses import dataclass
from fractions import Fraction

from intnet.blocks.mx_blocks import Along
from intnet.inspect import as_spec
from intnet.inspect.explain_rules import Disagreement, Index, comma
from intnet.spec.microscaling import GREATEST, scale_of
from intnet.spec.mx_blocks import InBlock, block_at
from intnet.spec.tensor import place_of
from intnet.trace import Event


@dataclass(frozen=True)
class Shared:
    """The block of an element in MX.

    elements: that it has, along `axis`; greatest: their largest magnitude, that of element `at`
    k:        of the scale 2^k; rule: how it comes from the greatest
    """

    elements: int
    axis: int
    greatest: Fraction
    at: Index
    k: int
    rule: str


def in_mx_block(event: Event, index: Index) -> tuple[Shared, InBlock]:
    """The block of element `index` and what rounds in it; Disagreement where another k is stored."""
    format, result = event.format, event.result
    assert isinstance(format, Along)
    form = as_spec.along_of(format)
    shape = tuple(result.shape)
    members = [place_of(flat, shape) for flat in block_at(shape, form, index)]
    values = {at: abs(Fraction(float(event.source[at]))) for at in members}
    at = max(values, key=lambda one: values[one])
    k, rounds = scale_of(values[at], form.element, form.scale) - GREATEST, InBlock(form.element)
    stored = {int(result.exponent[one]) for one in members}
    if stored != {rounds.exponent(k)}:
        raise Disagreement(
            f"{event.layer}/{event.path} {comma(index)}: its block has the scale 2^{k}, steps of "
            f"2^{rounds.exponent(k)}, stored are steps of 2^{sorted(stored)}"
        )
    return Shared(len(members), format.axis % len(shape), values[at], at, k, format.mx.scale), rounds
