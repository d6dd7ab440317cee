"""Paths in blocks of 4x4: the exponent and the codes of drawn elements' blocks, by `spec.block_float`."""

from typing import Any

import numpy as np

from intnet.blocks.block_float import BlockTensor, blocks_shape
from intnet.ops.bilinear import Copies
from intnet.spec import block_float
from intnet.spec.methods.dynasty import BlockFloat as SpecBlocks
from intnet.spec.methods.dynasty_map import in_use
from intnet.verify.events import Place
from intnet.verify.judge import Judge
from intnet.verify.row import NotSpecified, Row
from intnet.verify.values import Values, as_float64, fractions

STARTED = 4  # bits of a block of which no map speaks yet


def check(values: Values, place: Place, out: Any, row: Row) -> None:
    """One event: of every drawn element its block's exponent and its code; then what is read."""
    event, shape, judge = place.event, place.event.result.shape, values.judge
    row.specs = ["block_float.quantize"]
    flat = values.drawn(f"{event.step}/{place.name}", row.elements, event.result)
    form = judge.format_of(event.layer, event.path)
    if not isinstance(form, SpecBlocks):
        raise NotSpecified(f"blocks where the format is {form}")
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
        codes.append(block_float.code_at(x, e, b)[0])
        exponents.append(0 if e is None else e - b + 1)
    row.checked = len(flat)
    units = np.broadcast_to(event.result.exponent, shape).reshape(-1)[flat].tolist()
    row.compare(flat, shape, codes, event.result.codes.reshape(-1)[flat].tolist())
    live = [k for k, code in enumerate(codes) if code]
    row.compare(flat[live], shape, [exponents[k] for k in live], [units[k] for k in live])
    _check_read(event.result, out, row)


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


def _check_read(result: Any, out: Any, row: Row) -> None:
    """What products read are the values of the codes, all of them."""
    copies = (out.forward, out.backward) if isinstance(out, Copies) else (out,)
    held = as_float64(result)
    read = [one.values.astype(np.float64) for one in copies if isinstance(one, BlockTensor)]
    if not read or any(np.array_equal(one, held) for one in read):
        return
    wrong = np.flatnonzero(read[0] != held)[:1]
    row.compare(
        wrong, result.shape, fractions(held.reshape(-1)[wrong]), fractions(read[0].reshape(-1)[wrong])
    )
