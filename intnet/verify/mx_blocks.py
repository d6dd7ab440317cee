"""Operands in MX blocks along an axis: whole blocks of drawn elements, scale and all, by `spec.mx_blocks`."""

from fractions import Fraction

import numpy as np

from intnet.spec.microscaling import GREATEST, decoded, quantize_block
from intnet.spec.mx_blocks import Along, InBlock, block_at
from intnet.spec.tensor import place_of, power
from intnet.verify.events import Place
from intnet.verify.row import NotSpecified, Row
from intnet.verify.values import Values

BLOCKS = 4  # of a tensor, unless all are asked for


def check(values: Values, place: Place, row: Row) -> None:
    """One event: exponents and codes of every element of the drawn blocks."""
    event, judge, q = place.event, values.judge, place.event.result
    form, stream = judge.format_of(event.layer, event.path), judge.stream_of(event.layer, event.path)
    if not isinstance(form, Along):
        raise NotSpecified(f"MX blocks where the format is {form}")
    row.specs = ["mx_blocks.quantize_along", *(["words.word"] if stream else [])]
    shape, done = tuple(q.shape), set[int]()
    codes, exponents = q.codes.reshape(-1), q.exponent.reshape(-1)
    for at in values.drawn(f"{event.step}/{event.name}", row.elements, q, few=BLOCKS).tolist():
        if at in done:
            continue
        block = block_at(shape, form, place_of(at, shape))
        done |= set(block)
        flat = np.array(block)
        drawn = None if stream is None else values.words(stream, flat, row)
        made = quantize_block(values.at(place.entered, flat), form.element, form.scale, form.mode, drawn)
        exponent = InBlock(form.element).exponent(made.scale - GREATEST)
        expected = [Fraction(decoded(word, made.scale, form.element)) for word in made.elements]
        row.checked += len(block)
        row.compare(flat, shape, [exponent] * len(block), exponents[flat].tolist())
        row.compare(flat, shape, expected, [code * power(exponent) for code in codes[flat].tolist()])
        if event.words is not None and drawn is not None:
            row.compare(flat, shape, drawn, event.words.reshape(-1)[flat].tolist())
