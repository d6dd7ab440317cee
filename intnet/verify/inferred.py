"""What inference alone has: batch norm by running statistics or folded, no dropout, the class of an image."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from intnet.spec import inference
from intnet.spec.float32 import to_float32
from intnet.spec.tensor import Tensor
from intnet.verify.judge import numbers
from intnet.verify.record import NORMS, Call
from intnet.verify.row import STEP, Row, Task
from intnet.verify.taken import Inference
from intnet.verify.values import Values, shape_of

OWN = ("batch_norm", "range_norm")  # by the batch's own statistics
FOLDED = "x3 = scale x1 + offset"


def tasks(values: Values) -> Iterator[Task]:
    """A row of every batch norm, one of the operations, one of the classes."""
    record, found = values.record, values.taken.inference
    assert found is not None
    for name in NORMS:
        for call in record.calls(name):
            specs, order = ["Step.running", "Step.folded"], STEP * call.number
            row = Row(call.attributes["where"], "statistics", "", specs, order=order)
            yield Task(row, 1, partial(_statistics, values, call))
    row = Row("step", "operations", "those of training, without dropout", ["inference.Inference"])
    yield Task(row, 1, partial(_operations, found))
    row = Row("step", "class", "argmax of the logits", ["loss.logits32", "inference.classes"])
    row.order = STEP * len(record.happened)
    yield Task(row, 1, partial(_classes, values, found))


def _statistics(values: Values, call: Call, row: Row) -> None:
    """Which of the three ways the definition takes, and every channel of what it reads."""
    judge = values.judge
    running = judge.rules.running(judge.layers[row.layer])
    folded = None if running is None else judge.fresh(judge.state).folded(judge.layers[row.layer])
    wanted = OWN[judge.rules.ranged] if running is None else "normalize" if folded is None else "scale_shift"
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
        given, made = call.operands[1:], [numbers(part) for part in folded]
    for stored, expected in zip(given, made, strict=True):
        every = np.arange(shape_of(stored)[0])
        row.compare_all(every.shape, expected, values.at(stored, every))


def _operations(found: Inference, row: Row) -> None:
    """What is done in inference is what is done in training, but for dropout and the way of a batch norm."""
    got, training = found.operations
    wanted = [name for name in training if name != "dropout"]
    row.elements = row.checked = len(got)
    if got != wanted:
        k = next((i for i, (a, b) in enumerate(zip(got, wanted, strict=False)) if a != b), len(wanted))
        row.differs(f"operation {k} is {[*got, 'none'][k]!r}, the definition has {[*wanted, 'none'][k]!r}")


def _classes(values: Values, found: Inference, row: Row) -> None:
    """The first of the greatest logits of every image, from the logits of the watched pass."""
    row.elements = row.checked = len(found.classes)
    shape, exact = values.tensor(found.logits)
    made = inference.classes(Tensor(shape, [to_float32(v) for v in exact]))
    row.compare(np.arange(len(made)), found.classes.shape, made, found.classes.tolist())
