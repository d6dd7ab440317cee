"""DYNASTY's sums of sensitivities, S <- S + 2^(2e)/16 sum of g^2 of drawn blocks, by `dynasty_map`."""

from collections.abc import Iterator
from fractions import Fraction
from functools import partial

import numpy as np

from intnet.blocks.block_float import blocks_shape
from intnet.spec import block_float
from intnet.spec.methods import dynasty_map
from intnet.spec.methods.dynasty import axes_of
from intnet.spec.tensor import Tensor
from intnet.verify.record import Back
from intnet.verify.row import STEP, NotSpecified, Row, Task
from intnet.verify.taken import Taken
from intnet.verify.values import Values, fractions

BLOCKS = 24  # of a tensor, unless all are asked for


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
        yield Task(row, 1, partial(_check, values, layer, kind, name))


def _check(values: Values, layer: str, kind: str, name: str, row: Row) -> None:
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
        block = tuple(int(i) for i in np.unravel_index(at, counts))
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
