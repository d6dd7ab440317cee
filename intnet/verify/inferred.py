"""What inference alone has: batch norm as a scale and an offset, and the class of every image."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from intnet.spec import inference
from intnet.spec.float32 import to_float32
from intnet.spec.tensor import Tensor
from intnet.verify.events import compare
from intnet.verify.judge import Judge, exact_numbers
from intnet.verify.record import Call
from intnet.verify.row import UNSPECIFIED, Row
from intnet.verify.taken import Taken
from intnet.verify.tasks import STEP, Task
from intnet.verify.values import NotSpecified, Values, shape_of

FOLDED = "x3 = scale x1 + offset"


def tasks(taken: Taken, values: Values, judge: Judge) -> Iterator[Task]:
    """A row of every scale and offset, and one of the classes."""
    for call in taken.record.calls("scale_shift"):
        layer, order = call.attributes["where"], STEP * call.number
        yield Task(layer, 1, _maker(values, judge, call, layer, order), order)
    assert taken.inference is not None
    yield Task("step", 1, lambda: classes(taken, values), STEP * len(taken.record.happened))


def _maker(values: Values, judge: Judge, call: Call, layer: str, order: int) -> Any:
    def make() -> Row:
        row = Row(layer, "scale, offset", FOLDED, ["float_batch_norm.folded"], order=order)
        try:
            _folded(values, judge, call, layer, row)
        except NotSpecified as why:
            row.state, row.why = UNSPECIFIED, str(why)
        return row

    return make


def _folded(values: Values, judge: Judge, call: Call, layer: str, row: Row) -> None:
    """Every channel's."""
    if judge.rules is None:
        raise NotSpecified("the method names no spec")
    made = judge.fresh(judge.state).folded(judge.layers[layer])
    if made is None:
        raise NotSpecified("the method's spec does not fold batch norm")
    for stored, expected in zip(call.operands[1:], made, strict=True):
        every = np.arange(shape_of(stored)[0])
        row.elements, row.checked = row.elements + len(every), row.checked + len(every)
        compare(row, every, every.shape, exact_numbers(expected.real().values), values.at(stored, every))


def classes(taken: Taken, values: Values) -> Row:
    """The first of the greatest logits of every image, from the logits of the watched pass."""
    assert taken.inference is not None
    told, value = taken.inference.classes, taken.inference.logits
    row = Row(
        "step", "class", "argmax of the logits", ["loss.logits32", "inference.classes"], len(told), len(told)
    )
    row.order = STEP * len(taken.record.happened)
    try:
        flat = np.arange(int(np.prod(shape_of(value))))
        logits = Tensor(shape_of(value), [to_float32(v) for v in values.at(value, flat)])
        found = [Fraction(k) for k in inference.classes(logits)]
        compare(row, np.arange(len(told)), told.shape, found, [Fraction(int(k)) for k in told])
    except NotSpecified as why:
        row.state, row.why = UNSPECIFIED, str(why)
    return row
