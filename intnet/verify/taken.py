"""The step that is verified: taken twice, once watched and once as in training, from one state.

The watched step is what the checks read. Methods may take other roads where nobody observes (many parameters
updated at once, copies of weights kept from the step before), so the other one ends in the same digest or the
first row of the result says so.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from intnet.autograd import watched
from intnet.qtensor import QTensor
from intnet.train import Run
from intnet.verify.record import Record


@dataclass
class Taken:
    """One step, from 0: the state before and behind it, what happened, and the digest without a watcher."""

    run: Run
    step: int
    before: dict[str, Any]
    after: dict[str, Any]
    record: Record
    loss: float
    digest: str
    unwatched: str


def copied(state: dict[str, Any]) -> dict[str, Any]:
    """A state whose arrays are its own."""
    out: dict[str, Any] = {}
    for name, value in state.items():
        if isinstance(value, QTensor):
            out[name] = QTensor(value.codes.copy(), value.exponent, value.format, value.bound, value.status)
        else:
            out[name] = np.array(value)
    return out


def take(run: Run, step: int, progress: Callable[[Run, int], None]) -> Taken:
    """Step number `step`, from 1, of a run; `progress` trains up to a step."""
    progress(run, step - 1)
    before = copied(run.state())
    progress(run, step)  # with the copies that the step before made
    unwatched = run.digest()
    run.restore(copied(before), step - 1)
    given = run.state()  # the very arrays that the step reads
    record, losses = Record(), []
    with watched(record):
        run.train(step, lambda report: losses.append(report.loss), [record])
    return Taken(run, step - 1, given, run.state(), record, losses[0], run.digest(), unwatched)
