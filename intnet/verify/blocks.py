"""Paths in blocks of 4x4, by `spec.block_float`; DYNASTY's sums of sensitivities, by `dynasty_map`.

check(values, place, out, row)    exponents and codes of drawn elements' blocks
tasks(values)                     S <- S + 2^(2e)/16 sum of g^2 of drawn blocks
"""

from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from intnet.exact.blocks.block_float import BlockTensor, blocks_shape
from intnet.ops.products import Copies
from intnet.spec import block_float
from intnet.spec.methods import dynasty_map
from intnet.spec.methods.dynasty import BlockFloat as SpecBlocks
from intnet.spec.methods.dynasty import axes_of
from intnet.spec.methods.step import of_layer
from intnet.spec.tensor import Tensor, place_of
from intnet.verify.events import Place
from intnet.verify.floats import fractions
from intnet.verify.judge import Judge
from intnet.verify.record import Back
from intnet.verify.row import STEP, NotSpecified, Row, Task
from intnet.verify.taken import Taken
from intnet.verify.values import Values, as_float64

STARTED = 4  # bits of a block of which no map speaks yet
BLOCKS = 24  # of a table, unless all are asked for


def check(values: Values, place: Place, out: Any, row: Row) -> None:
    """One event: of every drawn element its block's exponent and its code; then what is read."""
    event, shape, judge = place.event, place.event.result.shape, values.judge
    row.specs = ["block_float.quantize"]
    flat = values.drawn(f"{event.step}/{event.name}", row.elements, event.result)
    form = judge.format_of(event.layer, event.path)
    if not isinstance(form, SpecBlocks):
        raise NotSpecified(f"blocks where the format is {form}")
    axes = form.axes
    bits = bits_of(judge, event.layer, form, blocks_shape(shape, axes))
    codes, exponents = [], []
    kept: dict[tuple[int, ...], int | None] = {}
    for at in flat.tolist():
        block = block_float.block_of(place_of(at, shape), axes)
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
        own = of_layer(judge.settings, layer)
        return np.full(shape, int(own.alpha(form.bits)) if own.map == "uniform" else STARTED)
    numbers, places = np.unique(np.asarray(stored), return_inverse=True)
    widths = np.array([dynasty_map.in_use(v) for v in fractions(numbers)])[places.reshape(-1)].reshape(
        stored.shape
    )
    return widths[np.arange(shape[0]) % stored.shape[0]]


def _check_read(result: Any, out: Any, row: Row) -> None:
    """What products read are the values of the codes, all of them."""
    copies = (out.forward, out.backward) if isinstance(out, Copies) else (out,)
    held = as_float64(result)
    read = [one.values.astype(np.float64) for one in copies if isinstance(one, BlockTensor)]
    if not read or any(np.array_equal(one, held) for one in read):
        return
    row.compare_floats(result.shape, held, read[0])


# -- sums of sensitivities ---------------------------------------------------------------------------


def tasks(values: Values) -> Iterator[Task]:
    """A row for the weights and one for the input of every layer that has a table."""
    taken, judge = values.taken, values.judge
    order = STEP * (len(taken.record.happened) + 2)
    for name in taken.after:
        if not name.endswith(".S") or judge.module is None or not hasattr(judge.rules, "kept"):
            continue
        layer = next(one for one in judge.layers if name in (judge.rules.kept(one, k, "S") for k in "WA"))
        kind = "W" if name == judge.rules.kept(layer, "W", "S") else "A"
        row = Row(layer, f"S of {kind}", "S + 2^(2e)/16 sum(g^2)", ["methods.dynasty_map.sensitivity"])
        row.elements, row.order = int(taken.after[name].size), order
        yield Task(row, 1, partial(_check_sums, values, layer, kind, name))


def _check_sums(values: Values, layer: str, kind: str, name: str, row: Row) -> None:
    taken = values.taken
    source, gradient = _operands(taken, layer, kind)
    axes, shape = axes_of(source.shape, kind == "W"), source.shape
    counts = blocks_shape(shape, axes)
    flat = values.drawn(f"{values.judge.now.step}/{name}", row.elements, few=BLOCKS)
    after, before = (taken.ended or taken.after)[name].reshape(-1), taken.before.get(name)
    images = len(taken.record.labels())
    full = images == (int(taken.before["method/images"].codes[0]) or images)
    expected = []
    for at in flat.tolist():
        old = 0.0 if before is None else float(before.reshape(-1)[at])
        if not full:  # a short batch, whose blocks are others, adds nothing
            expected.append(Fraction(old))
            continue
        block = place_of(at, counts)
        members = np.array(block_float.inside(block, shape, axes))
        inside = tuple(min(block_float.SIDE, n - block_float.SIDE * i) if a in axes else 1
                       for a, (i, n) in enumerate(zip(block, shape, strict=True)))  # fmt: skip
        xs, gs = (Tensor(inside, values.at(v, members)) for v in (source, gradient))
        q = block_float.quantize(xs, 8, axes)
        found = dynasty_map.sensitivity(gs, q, dynasty_map.zero_blocks(xs, axes))
        expected.append(Fraction(old + next(iter(found.values()))))
    row.checked = len(flat)
    row.compare(flat, taken.after[name].shape, expected, fractions(after[flat]))


def _operands(taken: Taken, layer: str, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """(what was cut into blocks, its gradient) of W, or of the layer's input."""
    path = "Wb" if kind == "W" else "x0"
    call = next(
        one for one in taken.record.calls("cast")
        if any(event.layer == layer and event.path == path for event in one.events)
    )  # fmt: skip
    backs = (one for one in taken.record.happened if isinstance(one, Back) and one.call is call)
    back = next(backs, None)
    if back is None:
        raise NotSpecified("no gradient came back")
    return call.operands[0], back.gradient
