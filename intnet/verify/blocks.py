"""Paths in blocks of 4x4: the exponent and the codes of drawn elements' blocks, by `spec.block_float`."""

from fractions import Fraction
from typing import Any

import numpy as np

from intnet.blocks.block_float import BlockTensor, blocks_shape
from intnet.numbers.formats import BlockFloat
from intnet.ops.bilinear import Copies
from intnet.spec import block_float
from intnet.spec.methods.dynasty import BlockFloat as SpecBlocks
from intnet.spec.methods.dynasty_map import in_use
from intnet.trace import Event
from intnet.verify import draw
from intnet.verify.events import Options, Place, compare
from intnet.verify.judge import Judge
from intnet.verify.row import Row
from intnet.verify.values import NotSpecified, Values, as_float64, fractions

STARTED = 4  # bits of a block of which no map speaks yet


def is_block(event: Event) -> bool:
    """Whether a path holds blocks."""
    return isinstance(event.format, BlockFloat)


def check(values: Values, judge: Judge, place: Place, out: Any, options: Options) -> Row:
    """One event: of every drawn element its block's exponent and its code; then what is read."""
    event = place.event
    row = Row(
        event.layer, event.path, judge.equation(event.path), ["block_float.quantize"], event.result.size
    )
    flat = draw.drawn(f"{options.seed}/{event.step}/{place.name}", row.elements, options.elements)
    if options.elements is not None:
        flat = np.union1d(flat, draw.telling(event.result, None))
    try:
        form = judge.format_of(event.layer, event.path)
        if not isinstance(form, SpecBlocks):
            raise NotSpecified(f"blocks where the format is {form}")
        _check(values, judge, place, form, flat, row)
        _check_read(place, out, row)
    except NotSpecified as why:
        row.state, row.why = "not specified", str(why)
    return row


def _check(values: Values, judge: Judge, place: Place, form: Any, flat: np.ndarray, row: Row) -> None:
    event, shape = place.event, place.event.result.shape
    axes = form.axes
    bits = bits_of(judge, event.layer, form, blocks_shape(shape, axes))
    codes, exponents = [], []
    kept: dict[tuple[int, ...], int | None] = {}
    flats = np.stack(np.unravel_index(flat, shape), axis=1).tolist()
    for at, index in zip(flat.tolist(), flats, strict=True):
        block = block_float.block_of(tuple(index), axes)
        if block not in kept:
            members = np.array(block_float.inside(block, shape, axes))
            kept[block] = block_float.exponent(values.at(place.entered, members))
        e, b = kept[block], int(bits[block])
        x = values.at(place.entered, np.array([at]))[0]
        codes.append(Fraction(block_float.code_at(x, e, b)[0]))
        exponents.append(0 if e is None else e - b + 1)
    row.checked = len(flat)
    stored = [Fraction(c) for c in event.result.codes.reshape(-1)[flat].tolist()]
    units = np.broadcast_to(event.result.exponent, shape).reshape(-1)[flat].tolist()
    compare(row, flat, shape, codes, stored)
    live = [k for k, code in enumerate(codes) if code]
    expected = [Fraction(exponents[k]) for k in live]
    compare(row, flat[live], shape, expected, [Fraction(units[k]) for k in live])


def bits_of(judge: Judge, layer: str, form: Any, shape: Any) -> np.ndarray:
    """The widths of all blocks, by the map that the state ahead of the step has."""
    if isinstance(form.bits, int):
        return np.full(shape, form.bits)
    stored = judge.before.get(judge.rules.kept(layer, form.bits, "b"))
    if stored is None:
        uniform = judge.settings.map == "uniform"
        return np.full(shape, int(judge.settings.alpha(form.bits)) if uniform else STARTED)
    numbers, places = np.unique(np.asarray(stored), return_inverse=True)
    widths = np.array([in_use(v) for v in fractions(numbers)])[places.reshape(-1)].reshape(stored.shape)
    return widths[np.arange(shape[0]) % stored.shape[0]]


def _check_read(place: Place, out: Any, row: Row) -> None:
    """What products read are the values of the codes, all of them."""
    event = place.event
    read = [
        one for one in ((out.forward, out.backward) if isinstance(out, Copies) else (out,)) if one is not None
    ]
    held = as_float64(event.result)
    tensors = [one for one in read if isinstance(one, BlockTensor)]
    if not tensors or any(np.array_equal(one.values.astype(np.float64), held) for one in tensors):
        return
    wrong = np.flatnonzero((tensors[0].values.astype(np.float64) != held).reshape(-1))[:1]
    given = tensors[0].values.reshape(-1)[wrong]
    compare(
        row,
        wrong,
        event.result.shape,
        [Fraction(v) for v in held.reshape(-1)[wrong].tolist()],
        fractions(given),
    )
