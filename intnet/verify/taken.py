"""What is verified, taken twice from one state: once watched and once as in training, or in inference.

The watched step is what the checks read. Methods may take other roads where nobody observes (many parameters
updated at once, copies of weights kept from the step before), so the other one ends in the same digest or the
first row of the result says so.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from intnet.autograd import Tensor, watched
from intnet.errors import ConfigError
from intnet.numbers.qtensor import QTensor
from intnet.training.inference import EVALUATION_BATCH, as_codes, classified, evaluation_batch
from intnet.training.train import Run
from intnet.verify.record import Record

FEW = 8  # images of the forward pass in training that inference is compared with


@dataclass
class Taken:
    """One step, from 0: the state before and after it, what happened, and the digest without a watcher.

    ended: the state ahead of the epoch's end, where the step ends one
    """

    run: Run
    step: int
    before: dict[str, Any]
    after: dict[str, Any]
    record: Record
    loss: float
    digest: str
    unwatched: str
    ended: dict[str, Any] = field(default_factory=dict)
    inference: "Inference | None" = None  # in place of a step


@dataclass
class Inference:
    """A batch of test images after `Taken.step` steps.

    batch: its number, from 0; images, labels: as the fast code read them
    logits: of the watched pass, as the model gave them; classes: of the other one
    operations: the names of what was done on the way forward, in inference and in training
    """

    batch: int
    images: QTensor
    labels: np.ndarray
    logits: Any
    classes: np.ndarray
    operations: tuple[list[str], list[str]]


def take(run: Run, step: int, progress: Callable[[Run, int], None]) -> Taken:
    """Step number `step`, from 1, of a run; `progress` trains up to a step."""
    progress(run, step - 1)
    before = deepcopy(run.state())
    progress(run, step)  # with the copies that the step before made
    unwatched = run.digest()
    run.restore(deepcopy(before), step - 1)
    given = run.state()  # the very arrays that the step reads
    record, losses, ended = Record(), [], {}
    with watched(record), at_the_end_of_an_epoch(run, lambda: ended.update(run.state())):
        run.train(step, lambda report: losses.append(report.loss), [record])
    return Taken(run, step - 1, given, run.state(), record, losses[0], run.digest(), unwatched, ended)


@contextmanager
def at_the_end_of_an_epoch(run: Run, seen: Callable[[], None]) -> Iterator[None]:
    """Call `seen` ahead of what the method does at an epoch's end."""
    method, ends = run.method, run.method.end_of_epoch

    def both() -> None:
        seen()
        ends()

    method.end_of_epoch = both  # type: ignore[method-assign]
    try:
        yield
    finally:
        del method.end_of_epoch  # the class's again


def take_inference(run: Run, steps: int, batch: int, progress: Callable[[Run, int], None]) -> Taken:
    """Test batch number `batch`, from 1, of a run after so many steps; ConfigError where there is none."""
    labels = run.data.test_labels
    last = -(-len(labels) // EVALUATION_BATCH)
    if not 1 <= batch <= last:
        raise ConfigError(
            f"--inference {batch}: {len(labels):,} test images are {last} batches of {EVALUATION_BATCH}"
        )
    progress(run, steps)
    before, digest, method = deepcopy(run.state()), run.digest(), run.method
    pixels, labels = evaluation_batch(run.data, batch - 1)
    classes = classified(run.model, method, pixels, run.data.exponent)
    record, images = Record(), as_codes(pixels, run.data.exponent)
    with method.within(training=False):
        logits = _watched_forward(run, images, record)
    after, behind = run.state(), run.digest()
    training = Record()
    _watched_forward(run, as_codes(pixels[:FEW], run.data.exponent), training)
    run.restore(deepcopy(before), steps)
    operations = record.operations(), training.operations()
    made = Inference(batch - 1, images, labels, logits, classes, operations)
    return Taken(run, steps, before, after, record, 0.0, behind, digest, inference=made)


def _watched_forward(run: Run, images: QTensor, record: Record) -> Any:
    """The logits, with the method in the state that it is in."""
    method = run.method
    with watched(record), method.within(observers=[*method.observers, record]):
        return run.model(Tensor(images), method).value
