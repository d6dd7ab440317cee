"""What inference alone has: batch norm by running statistics or folded, no dropout, the class of an image."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from intnet.spec import inference
from intnet.spec.float32 import to_float32
from intnet.spec.nets import Layer
from intnet.spec.tensor import Tensor
from intnet.verify.events import compare
from intnet.verify.judge import Judge, exact_numbers
from intnet.verify.record import Call
from intnet.verify.row import Row
from intnet.verify.taken import Taken
from intnet.verify.tasks import STEP, Task
from intnet.verify.values import NotSpecified, Values, shape_of

NORMS = ("batch_norm", "normalize", "scale_shift")
FOLDED = "x3 = scale x1 + offset"


def tasks(taken: Taken, values: Values, judge: Judge) -> Iterator[Task]:
    """A row of every batch norm, one of the operations, one of the classes."""
    for name in NORMS:
        for call in taken.record.calls(name):
            layer, order = call.attributes["where"], STEP * call.number
            yield Task(layer, 1, _maker(values, judge, call, layer, order), order)
    yield Task("step", 1, lambda: operations(taken), 0)
    yield Task("step", 1, lambda: classes(taken, values), STEP * len(taken.record.happened))


def _maker(values: Values, judge: Judge, call: Call, layer: str, order: int) -> Any:
    def make() -> Row:
        row = Row(layer, "statistics", "", ["Step.running", "Step.folded"], order=order)
        try:
            if judge.rules is None:
                raise NotSpecified("the method names no spec")
            _statistics(values, judge, call, judge.layers[layer], row)
        except NotSpecified as why:
            row.not_specified(why)
        return row

    return make


def _statistics(values: Values, judge: Judge, call: Call, layer: Layer, row: Row) -> None:
    """Which of the three ways the definition takes, and every channel of what it reads."""
    running = judge.rules.running(layer)
    folded = None if running is None else judge.fresh(judge.state).folded(layer)
    wanted = "batch_norm" if running is None else "normalize" if folded is None else "scale_shift"
    if call.op.name != wanted:
        row.differs(f"{call.op.name} where the definition has {wanted}")
        return
    if running is None:
        row.specs = ["the batch's own"]
        return
    row.path, row.specs = ("statistics", ["Step.running"])
    given, made = call.operands[3:5], list(running)
    if folded is not None:
        row.path, row.equation, row.specs = "scale, offset", FOLDED, ["float_batch_norm.folded"]
        given, made = call.operands[1:], [exact_numbers(part.real().values) for part in folded]
    for stored, expected in zip(given, made, strict=True):
        every = np.arange(shape_of(stored)[0])
        row.elements, row.checked = row.elements + len(every), row.checked + len(every)
        compare(row, every, every.shape, expected, values.at(stored, every))


def operations(taken: Taken) -> Row:
    """What is done in inference is what is done in training, but for dropout and the way of a batch norm."""
    assert taken.inference is not None
    mine, training = taken.inference.operations
    row = Row("step", "operations", "those of training, without dropout", ["inference.Inference"])
    wanted = ["norm" if name in NORMS else name for name in training if name != "dropout"]
    got = ["norm" if name in NORMS else name for name in mine]
    row.elements = row.checked = len(got)
    if got != wanted:
        k = next((i for i, (a, b) in enumerate(zip(got, wanted, strict=False)) if a != b), len(wanted))
        row.differs(f"operation {k} is {[*got, 'none'][k]!r}, the definition has {[*wanted, 'none'][k]!r}")
    return row


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
        row.not_specified(why)
    return row
