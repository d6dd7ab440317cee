"""Epochs of a run: steps, a test after each epoch, callbacks, progress; an interrupt stops between steps.

`Run.fit` calls `train_epochs`. A callback is called with the run after each epoch, its row of `run.history`
being there; one that returns True stops the training. `EarlyStopping` is one.
"""

import copy
import signal
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from intnet.errors import ConfigError
from intnet.show.bars import FIRST, bars
from intnet.training.history import COLUMNS, StepReport
from intnet.training.stop import Stop

if TYPE_CHECKING:
    from intnet.training.train import Run

Callback = Callable[["Run"], Any]


class EarlyStopping:
    """A callback: stops when a column of `run.history` has not got better for `patience` epochs.

    column: less is better of a loss, more of all others. It reads the history alone, so a run that goes on
    stops where an unbroken one would. restore_best: where it stops, the run goes back to where it was after
    its best epoch, to the bit: parameters, optimizer, step, history.
    """

    def __init__(self, patience: int = 3, column: str = "test_accuracy", restore_best: bool = False) -> None:
        if column not in COLUMNS:
            raise ConfigError(f"EarlyStopping: no column {column!r}; there are {', '.join(COLUMNS)}")
        if patience < 1:
            raise ConfigError(f"EarlyStopping: patience={patience}: at least 1 epoch")
        self.patience, self.column, self.restore_best = patience, column, restore_best
        self._best: tuple[Run | None, int, dict[str, Any]] = None, 0, {}  # of a run: step, state

    def __call__(self, run: "Run") -> bool:
        """Whether to stop."""
        values = [value for value in run.history[self.column] if value is not None]
        if len(values) < len(run.history):
            raise ConfigError(
                f"EarlyStopping: this run has no {self.column}: give it a test part, or another column"
            )
        sign = -1 if self.column.endswith("loss") else 1
        ordered = [sign * value for value in values]
        best = ordered.index(max(ordered))
        if self.restore_best and best == len(ordered) - 1:
            self._best = run, run.step, copy.deepcopy(run.state())
        stops = len(ordered) - 1 - best >= self.patience
        if stops and self.restore_best:
            of, step, state = self._best
            if of is not run or step != run.history.epochs[best].step:
                raise ConfigError(
                    f"EarlyStopping: the best epoch, {best + 1}, was before this callback saw the run, which "
                    "cannot go back to it: give restore_best=True from the first epoch on"
                )
            run.restore(state, step)
        return stops


def note(step: StepReport) -> str:
    """What stands beside the bar after a step."""
    rate = step.images / step.seconds
    return f"loss {step.loss:.4f}  accuracy {step.accuracy:6.1%}  {rate:,.0f} images/s"


class Progress:
    """On stderr: a bar on a terminal, a changing line in a notebook, and a line an epoch; else nothing."""

    def __init__(self, run: "Run", steps: int, shown: bool) -> None:
        self.run, self.steps = run, steps
        self.bars = bars()
        self.bars.disable = self.bars.disable or not shown
        self.notebook = shown and self.bars.disable and "ipykernel" in sys.modules
        self.task = self.bars.add_task("training", total=steps, completed=run.step, note=FIRST)

    def __enter__(self) -> "Progress":
        self.bars.start()
        self._line(FIRST)
        return self

    def __exit__(self, *error: object) -> None:
        self.bars.stop()

    def step(self, report: StepReport) -> None:
        """After a step."""
        self.bars.update(self.task, completed=report.step, note=note(report))
        self._line(f"step {report.step:,} of {self.steps:,}: {note(report)}")

    def epoch(self) -> None:
        """After an epoch: its row in words."""
        row = self.run.history.epochs[-1]
        text = f"epoch {row.epoch}: loss {row.loss:.4f}" if row.loss is not None else f"epoch {row.epoch}"
        if row.test_accuracy is not None:
            text += f", test accuracy {row.test_accuracy:.2%}"
        text += f", {sum(row.saturated.values()):,} values saturated"
        if not self.bars.disable:
            self.bars.console.print(text, highlight=False, markup=False, soft_wrap=True)
        self._line(text, end="\n")

    def _line(self, text: str, end: str = "") -> None:
        if self.notebook:
            print(f"\r{text:<78}", end=end, file=sys.stderr, flush=True)


def train_epochs(
    run: "Run",
    epochs: int,
    callbacks: Sequence[Callback],
    on_step: Callable[[StepReport], None] | None,
    progress: bool,
) -> None:
    """Train until so many epochs are done in all, or a callback or an interrupt stops it after a step."""
    steps, reports = epochs * run.steps_per_epoch, list[StepReport]()
    within = False
    try:
        with Stop(signal.SIGINT) as stop, Progress(run, steps, progress) as show:
            while run.step < steps and not stop():
                ends = (run.step + 1) % run.steps_per_epoch == 0
                within = True
                run.train(run.step + 1, reports.append, run.recorders if ends else [])
                within = False
                report = reports.pop()
                show.step(report)
                if on_step is not None:
                    on_step(report)
                if ends and _end_epoch(run, callbacks, show):
                    return
        stopped = stop()
    except KeyboardInterrupt as error:
        if within:  # of two in a row, or in another thread: parameters of two steps may be mixed
            error.add_note("the training was stopped within a step: its run cannot go on from here")
            raise
        stopped = True
    if stopped and run.step < steps:
        print(
            f"stopped after step {run.step:,} of {steps:,}: run.fit(epochs={epochs}) goes on, to the same "
            "bits",
            file=sys.stderr,
        )


def _end_epoch(run: "Run", callbacks: Sequence[Callback], show: Progress) -> bool:
    """Test, tell, call back; whether to stop."""
    if len(run.data.test_labels):
        run.history.tested(run.evaluate())
    show.epoch()
    said = [callback(run) for callback in callbacks]  # all of them are called
    return any(isinstance(one, bool | np.bool_) and bool(one) for one in said)
