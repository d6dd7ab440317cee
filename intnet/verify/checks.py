"""All of a step's checks, layer by layer: `Step(taken, options).rows(layer)`."""

import types
from typing import Any

from intnet.blocks.buckets import Packed
from intnet.verify import inferred, sensitivity
from intnet.verify.events import Options
from intnet.verify.judge import Judge
from intnet.verify.moved import Moved
from intnet.verify.record import Record
from intnet.verify.remembered import Remembered
from intnet.verify.row import Row
from intnet.verify.rules import RULES
from intnet.verify.taken import Taken
from intnet.verify.tasks import Task, Tasks
from intnet.verify.values import Values, decoded, forget


class Step:
    """A recorded step, ready to be verified."""

    def __init__(self, taken: Taken, options: Options) -> None:
        self.taken, self.options = taken, options
        forget()
        for event in taken.record.events:
            if isinstance(event.result, Packed):
                decoded(event.result)
        values = Values(taken.record, RULES)
        inference = taken.inference is not None
        self.judge = Judge(taken.run, taken.before, taken.step, exponents(taken.record), inference)
        self.tasks: list[Task] = [*Tasks(taken.record, values, self.judge, options).tasks]
        if inference:
            self.tasks += inferred.tasks(taken, values, self.judge)
        else:
            moved = Moved(taken, values, self.judge, options)
            self.tasks += moved.tasks()
            self.tasks += Remembered(taken, values, self.judge, options, moved.gradients).tasks()
            self.tasks += sensitivity.tasks(taken, values, self.judge, options)

    def layers(self) -> list[str]:
        """In the order in which they come up."""
        return list(dict.fromkeys(task.layer for task in self.tasks))

    def cost(self, layer: str) -> int:
        """About how many elements its tasks go through."""
        return sum(task.cost for task in self.tasks if task.layer == layer)

    def rows(self, layer: str) -> list[Row]:
        """Of one layer, in the order of the step."""
        return sorted((task.make() for task in self.tasks if task.layer == layer), key=lambda row: row.order)


def exponents(record: Record) -> dict[str, Any]:
    """'layer/e2' -> what has its exponent: the sum of those of e1's and of gammaq's codes."""
    held = {f"{event.layer}/{event.path}": event.result for event in record.events}
    out: dict[str, Any] = {}
    for event in record.events:
        if event.path == "e2":
            parts = [held[f"{event.layer}/{path}"].exponent for path in ("e1", "gammaq")]
            out[f"{event.layer}/e2"] = types.SimpleNamespace(exponent=sum(parts))
    return out
