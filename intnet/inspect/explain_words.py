"""Small floats and MX blocks for `explain.py`: how a value became a word, by `spec.small_floats`.

Words without their sign number the values of a small float from 0 up, and a value goes to the number below it
or to the next one, as in `spec.small_floats.encode`: `floor`, `rounded`, `kept` and the limits are such
numbers, negative ones of negative values. `level` is the code that `FloatTensor.to_qtensor` gives the word,
its significand. Elements of a block are rounded so once the block's scale has divided them.
"""

from dataclasses import replace
from fractions import Fraction
from math import copysign

import numpy as np

from intnet.errors import FormatError
from intnet.inspect import as_spec
from intnet.inspect.explain_blocks import Block
from intnet.inspect.explain_buckets import Rounding
from intnet.inspect.explain_rules import Disagreement, Index, comma
from intnet.methods.trace import Event
from intnet.numbers.formats import FixedPoint
from intnet.numbers.microscaling import Microscaling
from intnet.numbers.small_floats import Float
from intnet.spec import microscaling as spec_blocks
from intnet.spec import small_floats as spec
from intnet.spec.rounding import Mode, decision
from intnet.spec.tensor import power

Drawn = tuple[int | None, int | None]  # the random word, and its bits


def in_word(
    event: Event,
    format: Float | Microscaling,
    x: Fraction,
    number: float | None,
    mode: str,
    drawn: Drawn,
    index: Index,
) -> Rounding:
    """How `x` became the word at `index`; Disagreement where the definition has another word, or scale.

    number: the float that it was given as, which may be -0
    """
    block = None if isinstance(format, Float) else _block(event, format, index)
    k = 0 if block is None else block.exponent
    element = format if isinstance(format, Float) else format.element
    elements = event.result if block is None else event.result.elements
    rule: Mode = as_spec.mode_of(mode)
    if isinstance(element, FixedPoint):
        made = _in_code(x / power(k), element, mode, rule, drawn)
    else:
        word, made = _in_float(x / power(k), element, mode, rule, drawn)
        if x == 0 and number is not None and copysign(1, number) < 0:
            word = spec.encode("-0", spec.Float(element.e, element.m)).word
        _same(event, index, "word", word, int(elements.words[index]))
    assert made.grid is not None
    return replace(made, grid=made.grid + k, word_bits=drawn[1], block=block)


def _in_code(x: Fraction, format: FixedPoint, mode: str, rule: Mode, drawn: Drawn) -> Rounding:
    """Of an element of MXINT8 and its like."""
    way = as_spec.format_of(format).way(x, 0, rule, drawn[0], drawn[1] or 32)
    low, high, overflow = way.limits or (None, None, "")
    made = Rounding.of(mode, way.decision, drawn[0])
    return replace(
        made, grid=format.exponent, scaled=x / way.step, low=low, high=high, overflow=overflow, kept=way.kept,
        saturated=way.saturated,
    )  # fmt: skip


def _in_float(x: Fraction, format: Float, mode: str, rule: Mode, drawn: Drawn) -> tuple[int, Rounding]:
    """(the definition's word, its way)."""
    defined = as_spec.element_of(format)
    assert isinstance(defined, spec.Float)
    way = decision(spec.number_of(x, defined), rule, drawn[0], drawn[1] or 32)
    gap = spec.value(way.floor + 1, defined) - spec.value(way.floor, defined)
    made = Rounding.of(mode, way, drawn[0])
    told = spec.encode(x, defined, rule, drawn[0], drawn[1] or 32)
    sign, n = divmod(told.word, 1 << (format.bits - 1))
    binade, place = divmod(n, 1 << format.m)
    code = place + (1 << format.m if binade else 0)
    return told.word, replace(
        made, grid=as_spec.log2(gap), scaled=x / gap, low=-format.greatest, high=format.greatest,
        overflow=format.overflow, kept=-n if sign else n, saturated=told.saturated,
        level=-code if sign else code,
    )  # fmt: skip


def _same(event: Event, index: Index, what: str, told: int, stored: int) -> None:
    if told != stored:
        raise Disagreement(
            f"{event.name} {comma(index)}: the definition has {what} {told:#x}, stored is {stored:#x}"
        )


def _block(event: Event, format: Microscaling, index: Index) -> Block:
    """The element's block; its scale by the definition, of the values that were given."""
    source = np.asarray(getattr(event.source, "values", event.source))
    if source.dtype.kind != "f":
        raise FormatError(f"{event.name}: blocks are told of float arrays")
    whole = (1,) * (len(index) - len(format.sizes)) + format.sizes
    of = tuple(i // size for i, size in zip(index, whole, strict=True))
    part = tuple(slice(i * size, (i + 1) * size) for i, size in zip(of, whole, strict=True))
    values = np.abs(source[part])
    inside = np.unravel_index(int(np.argmax(values)), values.shape)
    at = tuple(int(i) + each.start for i, each in zip(inside, part, strict=True))
    greatest = Fraction(float(values[inside]))
    scale = spec_blocks.scale_of(greatest, as_spec.element_of(format.element), format.scale)
    _same(event, index, "scale", scale, int(event.result.scales[of]))
    return Block(of, values.size, greatest, at, scale - spec_blocks.GREATEST, format.bits)
