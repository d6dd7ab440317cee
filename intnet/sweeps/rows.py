"""The rows of a plan: each point's runs as they are in the folder now, reports and figures by seed.

What a table is made of (`table.py`), and a picture (`plots.py`). Means are sums rounded once, over their
number.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from intnet.errors import CheckpointError
from intnet.runs import records, report
from intnet.runs.metrics import read_metrics
from intnet.runs.run_folder import METRICS
from intnet.sweeps.plan import Plan, Point, run_folder
from intnet.sweeps.work import SESSION

JSON = "table.json"
FAILURES = {"rows": [{"method": str, "settings": {str: str}, "failed": {str: str}}]}  # of table.json

Numbers = dict[str, float | None]  # a run's figures by key, None where the run does not tell it


@dataclass(frozen=True)
class Row:
    """A point and its runs by seed: accuracies as far as they are, of those done reports and figures;
    why others failed.
    """

    point: Point
    curves: dict[int, list[float | None]] = field(default_factory=dict)
    reports: dict[int, dict[str, Any]] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)
    numbers: dict[int, Numbers] = field(default_factory=dict)

    def values(self, key: str) -> list[float]:
        """One number a run that has it."""
        return [value for own in self.numbers.values() if (value := own[key]) is not None]

    def mean(self, key: str) -> float | None:
        """Over the runs; None where no run has it."""
        values = self.values(key)
        return math.fsum(values) / len(values) if values else None


def failures(folder: Path) -> dict[str, str]:
    """Why runs failed when the sweep's command last ended, by name; CheckpointError for a damaged table.

    Empty where one is at work, or was killed: it tries them again.
    """
    path = folder / JSON
    if (folder / SESSION).exists() or not path.exists():
        return {}
    try:
        rows = records.check(records.parse(path.read_bytes()), FAILURES)["rows"]
    except ValueError as error:
        raise CheckpointError(f"{path}: damaged ({error}): delete it, give the same command again") from None
    points = [(Point(row["method"], row["settings"], []), row["failed"]) for row in rows]
    return {f"{point.name}+seed={seed}": why for point, own in points for seed, why in own.items()}


def done(folder: Path, plan: Plan, point: Point, seed: int) -> dict[str, Any] | None:
    """The report of a run; None where it is not at its end, or where its report is damaged."""
    try:
        return report.read(run_folder(folder, point, seed), plan.identity(point, seed), plan.steps)
    except CheckpointError:
        return None


def curve(folder: Path, plan: Plan, point: Point, seed: int) -> list[float | None]:
    """Test accuracies of a run, one an epoch, as far as it is; None of data without a test part."""
    lines = read_metrics(run_folder(folder, point, seed) / METRICS)
    tested = [line for line in lines if line["kind"] == "epoch" and line["step"] <= plan.steps]
    for k, line in enumerate(tested):
        if (line["epoch"], line["step"]) != (k, (k + 1) * plan.steps_per_epoch):
            where = run_folder(folder, point, seed) / METRICS
            raise CheckpointError(f"{where}: where its line of epoch {k} is due, one of {line['epoch']} is")
    return [line["test_accuracy"] for line in tested]


def check_whole(folder: Path, plan: Plan, curve: Sequence[float | None]) -> None:
    """CheckpointError where the log of a run that is done lacks epochs at its end."""
    due = plan.steps // plan.steps_per_epoch
    if len(curve) < due:
        raise CheckpointError(
            f"{folder / METRICS}: it has {len(curve)} lines of epochs, and the run did {due}"
        )


def over_epochs(curve: Sequence[float | None], last: float | None = None) -> Numbers:
    """Best and mean test accuracy of a run's epochs; None of fewer than two that have one.

    last: at the end of the run, which may be within an epoch; the best may be this one
    """
    told = [accuracy for accuracy in curve if accuracy is not None]
    several = len(told) > 1
    return {
        "best_accuracy": max(told if last is None else [*told, last]) if several else None,
        "mean_accuracy": math.fsum(told) / len(told) if several else None,
    }


def title(plan: Plan) -> str:
    """What the runs have in common."""
    own = plan.common
    epochs = plan.steps / plan.steps_per_epoch
    passes = f"{epochs:g} epoch{'s' * (epochs != 1)}"
    seeds = ", ".join(map(str, plan.seeds))
    return (
        f"{own['model']} on {own['data']}: {own['limit']:,} training images, {plan.steps:,} steps of "
        f"{own['batch_size']} images ({passes}), seed{'s' * (len(plan.seeds) > 1)} {seeds}"
    )
