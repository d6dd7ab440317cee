"""What a run tells of itself: a report a step, and a row an epoch, of training and of testing."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from intnet.show.tables import Column, Shown, Table, numbers
from intnet.training.inference import Scores


@dataclass(frozen=True)
class StepReport:
    """One step: its number (from 1), epoch (from 0), mean loss, share of right answers, seconds.

    widths: `Method.widths` of this step; overhead: its seconds that went into moving them; moves:
    `Method.moves`; map: `Method.map` where the step ended an epoch
    """

    step: int
    epoch: int
    loss: float
    accuracy: float
    seconds: float
    images: int
    widths: dict[str, dict[str, int]] = field(default_factory=dict)
    overhead: float = 0.0
    moves: dict[str, dict[str, Any]] = field(default_factory=dict)
    map: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Epoch:
    """One epoch, from 1, and the last step of it.

    loss, accuracy: means over its training images, each as its step found it; None where not all were seen
    test_loss, test_accuracy: of the test part after it, where it was tested
    saturated: 'layer/path' -> values that a range changed in it; widths: layer -> bits of its weights
    after it, where the method moves them
    """

    epoch: int
    step: int
    loss: float | None
    accuracy: float | None
    saturated: dict[str, int]
    widths: dict[str, int]
    test_loss: float | None = None
    test_accuracy: float | None = None

    @property
    def bits(self) -> float | None:
        """The mean of `widths` over layers."""
        return sum(self.widths.values()) / len(self.widths) if self.widths else None


def _column(name: str) -> Callable[[Epoch], float | None]:
    if name == "saturated":
        return lambda epoch: sum(epoch.saturated.values())
    return lambda epoch: getattr(epoch, name)


COLUMNS: dict[str, Callable[[Epoch], float | None]] = {
    name: _column(name)
    for name in ("epoch", "step", "loss", "accuracy", "test_loss", "test_accuracy", "saturated", "bits")
}


class History(Shown):
    """The epochs of a run: `history["loss"]` is a column, `history.records()` go into pandas as they are.

    epochs: what columns are made of; steps: reports of the steps of the epoch under way
    """

    def __init__(self) -> None:
        self.epochs: list[Epoch] = []
        self.steps: list[StepReport] = []

    def saw(self, step: StepReport) -> None:
        """A step was done."""
        self.steps.append(step)

    def end(self, images: int, saturated: dict[str, int]) -> None:
        """The last step seen ended an epoch of so many training images."""
        steps, last = self.steps, self.steps[-1]
        loss = accuracy = None
        if sum(step.images for step in steps) == images:
            loss = math.fsum(step.images * step.loss for step in steps) / images
            accuracy = math.fsum(step.images * step.accuracy for step in steps) / images
        widths = {name: own["WL"] for name, own in last.widths.items()}
        counts = dict(sorted(saturated.items()))
        self.epochs.append(Epoch(last.epoch + 1, last.step, loss, accuracy, counts, widths))
        self.steps = []

    def tested(self, found: Scores) -> None:
        """Scores of the test part after the last epoch."""
        loss = found.loss if math.isfinite(found.loss) else None
        self.epochs[-1] = replace(self.epochs[-1], test_loss=loss, test_accuracy=found.accuracy)

    def cut(self, step: int) -> None:
        """Forget what came after a step."""
        self.epochs = [epoch for epoch in self.epochs if epoch.step <= step]
        self.steps = [one for one in self.steps if one.step <= step]

    def __len__(self) -> int:
        return len(self.epochs)

    def __getitem__(self, column: str) -> list[float | None]:
        """A column of COLUMNS, an entry an epoch; None where there is none."""
        if column not in COLUMNS:
            raise KeyError(f"no column {column!r}; there are {', '.join(COLUMNS)}")
        return [COLUMNS[column](epoch) for epoch in self.epochs]

    def records(self) -> list[dict[str, float | None]]:
        """A dictionary an epoch."""
        return [{name: of(epoch) for name, of in COLUMNS.items()} for epoch in self.epochs]

    def __iter__(self) -> Iterator[dict[str, float | None]]:
        return iter(self.records())

    def summary(self) -> Table:
        """All columns that have something in them."""
        specs = {"loss": ".4f", "accuracy": ".2%", "test_loss": ".4f", "test_accuracy": ".2%", "bits": ".1f"}
        filled = [name for name in COLUMNS if any(value is not None for value in self[name])]
        columns: list[Column] = []
        for name in filled:
            columns += numbers(name, spec=specs.get(name, ","))
        return Table("", columns, [[COLUMNS[name](epoch) for name in filled] for epoch in self.epochs])

    def __repr__(self) -> str:
        return repr(self.summary()) if self.epochs else "no epochs yet"
