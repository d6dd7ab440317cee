"""What the runs of a plan came to: one row a point, over its seeds; as text, JSON, CSV and Markdown.

`Sweep` is what `intnet sweep` makes of them, of a sweep at work too; `compared.py` has what `intnet compare`
tells otherwise. `MEASURES` are the columns: a new one is a line there, shown where a report has it.
"""

import csv
import hashlib
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar

from rich.console import Console

from intnet.errors import CheckpointError
from intnet.runs import files, report
from intnet.show import tables
from intnet.show.tables import Get, Shown, Table, text
from intnet.sweeps import plots
from intnet.sweeps.plan import Plan, Point, run_folder, run_name
from intnet.sweeps.rows import JSON, Numbers, Row, check_whole, curve, over_epochs, title

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CSV, MARKDOWN = "table.csv", "table.md"
SHORT = 12  # digits of a digest in a table


@dataclass(frozen=True)
class Measure:
    """A column of what a report and `over_epochs` have, by its key in `MEASURES`.

    spread: with its range; shown: in tables for people, too
    """

    heading: str
    spec: str
    spread: bool = False
    shown: bool = True


MEASURES = {
    "test_accuracy": Measure("test accuracy", ".2%", spread=True),
    "best_accuracy": Measure("best", ".2%"),
    "mean_accuracy": Measure("mean of epochs", ".2%"),
    "last_loss": Measure("last loss", ".4f"),
    "saved_bits": Measure("saved bits", ".3f"),
    "saved_bytes": Measure("saved bytes", ",.0f"),
    "images_per_second": Measure("images/s", ",.0f"),
    "seconds": Measure("seconds", ",.1f", shown=False),
}


class Sweep(Shown):
    """What `intnet sweep` shows of the runs in a folder as they are now; each report is read once.

    failed: why a run failed, by the run's name
    """

    command = "sweep"
    picture: ClassVar[plots.Picture] = plots.SWEEP

    def __init__(self, folder: Path, plan: Plan, failed: dict[str, str] | None = None) -> None:
        self.folder, self.plan = folder, plan
        self.runs = len(plan.points) * len(plan.seeds)
        self.several = len(plan.seeds) > 1
        self.rows = [self._row(point, failed or {}) for point in plan.points]
        self.done = sum(len(row.reports) for row in self.rows)

    def _row(self, point: Point, reasons: dict[str, str]) -> Row:
        row = Row(point)
        for seed in self.plan.seeds:
            row.curves[seed] = []
            try:
                self._read(row, seed)
            except CheckpointError as error:
                row.failed[seed] = str(error)
            name = run_name(point, seed)
            if seed not in row.reports and name in reasons:
                row.failed[seed] = reasons[name]
        return row

    def _read(self, row: Row, seed: int) -> None:
        """One run as it is; CheckpointError, with what to do, where its report or its log is damaged."""
        folder = run_folder(self.folder, row.point, seed)
        found = report.read(folder, self.plan.identity(row.point, seed), self.plan.steps)
        try:
            row.curves[seed] = curve(self.folder, self.plan, row.point, seed)
            if found is not None:
                check_whole(folder, self.plan, row.curves[seed])
                row.numbers[seed] = self.numbers(row.point, seed, found, row.curves[seed])
        except CheckpointError as error:
            again = f"remove {folder}, and the same command trains it again"
            raise CheckpointError(f"{error}: {again}") from None
        if found is not None:
            row.reports[seed] = found

    # -- what another command tells otherwise ---------------------------------------------------

    def numbers(
        self, point: Point, seed: int, report: dict[str, Any], curve: Sequence[float | None]
    ) -> Numbers:
        """What the report, and the accuracies of all epochs, have of each measure; None: not this run's."""
        saved = {f"saved_{key}": float(number) for key, number in report.get("saved", {}).items()}
        epochs = over_epochs(curve, report["test_accuracy"])
        whole = report | saved | epochs
        return {key: whole.get(key) for key in MEASURES}

    def keys(self) -> Iterable[str]:
        """All, whether or not a run has them."""
        return MEASURES

    def label(self, point: Point) -> str:
        """What tells it from the others."""
        return self.plan.label(point)

    def settings(self, point: Point) -> dict[str, str]:
        """The keys that vary; one that is called as another column is 'set KEY'."""
        taken = ("method", "seed", "epoch", "state_sha256", *self.keys())
        found = {}
        for key in self.plan.varied():
            none = point.baseline and key not in point.settings
            found[f"set {key}" if key in taken else key] = "-" if none else point.value(key)
        return found

    def about(self, point: Point) -> dict[str, Any]:
        """The whole point."""
        whole = {"method": point.method, "settings": point.settings, "options": point.options}
        return whole | {"baseline": point.baseline}

    def state(self, report: dict[str, Any]) -> str:
        """The trained bits."""
        return str(report["state_sha256"])

    def summary(self) -> Table:
        """A row a point, by the columns of the command."""
        left, right = self.columns()
        return tables.of("", self.rows, [*left, *right], left=len(left))

    def columns(self) -> tuple[list[Get], list[Get]]:
        """Method where they differ, keys that vary; measures, and of one seed the state's digest.

        A sweep that has only begun shows the accuracy's column.
        """
        varied = list(self.settings(self.plan.points[0]))
        methods = len({row.point.method for row in self.rows}) > 1 or not varied
        left: list[Get] = [("method", "", lambda row: row.point.method)] * methods
        left += [(key, "", lambda row, key=key: self.settings(row.point)[key]) for key in varied]
        right: list[Get] = [("runs", "", self.count)]
        for key, one in MEASURES.items():
            if one.shown and (key == "test_accuracy" or any(row.values(key) for row in self.rows)):
                right += self.measured(key, one.heading, one.spec, one.spread)
        return left, right + [("state sha256", "", _state)] * (not self.several)

    def measured(self, key: str, heading: str, spec: str, spread: bool = False, unit: float = 1) -> list[Get]:
        """The column of a figure's means in units of `unit`; with `spread` of several seeds their range."""

        def mean(row: Row) -> float | None:
            value = row.mean(key)
            return None if value is None else value / unit

        ranges: Get = ("least..greatest", "", lambda row: ends(row.values(key), spec))
        return [(heading, spec, mean), *[ranges] * (spread and self.several)]

    def remarks(self, console: Console) -> None:
        """What failed, and how much is done."""
        for line in self.failed():
            print(line)
        if self.done < self.runs:
            print(f"{self.done:,} of {self.runs:,} runs are done")

    def foot(self) -> list[str]:
        """The digest, and what failed."""
        return [
            f"Means over the seeds. sweep sha256: `{self.digest()}`",
            *(f"- {line}" for line in self.failed()),
        ]

    # -- for people -----------------------------------------------------------------------------

    def __repr__(self) -> str:
        return "\n".join([title(self.plan), repr(self.summary()), *self.failed()])

    def count(self, row: Row) -> str:
        """'1/2 failed': runs that are done."""
        return f"{len(row.reports)}/{len(self.plan.seeds)}{' failed' if row.failed else ''}"

    def failed(self) -> list[str]:
        """A line a run that failed."""
        return [
            f"failed: {self.label(row.point)}, seed {seed}: {why}"
            for row in self.rows
            for seed, why in row.failed.items()
        ]

    def show(self, written: Sequence[Path]) -> None:
        """The table, what it means, what failed, and the digest of all."""
        console = Console(highlight=False, markup=False)
        print(f"\n{title(self.plan)}", flush=True)
        tables.show(self.summary(), console)
        self.remarks(console)
        for file in written:
            print(f"written: {file}")
        print(f"{self.command} sha256: {self.digest()}")

    def markdown(self) -> str:
        """The table with its title and what it means."""
        return "\n".join([f"# {title(self.plan)}", "", *self.summary().markdown(), "", *self.foot(), ""])

    # -- for machines ---------------------------------------------------------------------------

    def digest(self) -> str:
        """SHA-256 over names and states of all runs that are done, '-' where none is; nothing measured."""
        lines = sorted(
            f"{run_name(row.point, seed)} {self.state(report)}\n"
            for row in self.rows
            for seed, report in row.reports.items()
        )
        return hashlib.sha256("".join(lines).encode()).hexdigest() if lines else "-"

    def result(self) -> dict[str, Any]:
        """Everything."""
        return {
            self.command: self.plan.common,
            "steps": self.plan.steps,
            "seeds": self.plan.seeds,
            "runs": self.runs,
            "done": self.done,
            "rows": [self._json(row) for row in self.rows],
            f"{self.command}_sha256": self.digest(),
        }

    def _json(self, row: Row) -> dict[str, Any]:
        keys = self.keys() if row.numbers else ()
        means = {
            key: {"mean": row.mean(key), "least": min(values), "greatest": max(values)}
            for key in keys
            if (values := row.values(key))
        }
        runs = {
            str(seed): {"name": run_name(row.point, seed), "state_sha256": row.reports[seed]["state_sha256"]}
            | own
            for seed, own in row.numbers.items()
        }
        failed = {str(seed): why for seed, why in row.failed.items()}
        return {**self.about(row.point), **means, "runs": runs, "failed": failed}

    def records(self) -> list[dict[str, Any]]:
        """A run that is done a dict: method, settings, seed, each figure (None where it has none), the state.

        As a table: `pandas.DataFrame(found.records())`, `polars.DataFrame(found.records())`.
        """
        keys = list(self.keys())
        return [
            {"method": row.point.method, **self.settings(row.point), "seed": seed}
            | {key: own[key] for key in keys}
            | {"state_sha256": row.reports[seed]["state_sha256"]}
            for row in self.rows
            for seed, own in row.numbers.items()
        ]

    def epochs(self) -> list[dict[str, Any]]:
        """A run and an epoch a dict, of runs at work too: method, settings, seed, epoch from 1, accuracy."""
        return [
            {"method": row.point.method, **self.settings(row.point), "seed": seed}
            | {"epoch": epoch, "test_accuracy": accuracy}
            for row in self.rows
            for seed, curve in row.curves.items()
            for epoch, accuracy in enumerate(curve, 1)
        ]

    def figure(self) -> "Figure":
        """What `--plot` draws, as a figure of matplotlib."""
        return plots.figure(self.picture, self)

    def draw(self, stream: BinaryIO, file: Path) -> None:
        """The same into a file, in the format that its name ends in."""
        plots.draw(self.picture, self, stream, file)

    def csv(self) -> str:
        """`records` as lines, numbers in full."""
        stream, keys = io.StringIO(), list(self.keys())
        heads = ["method", *self.settings(self.plan.points[0]), "seed", *keys, "state_sha256"]
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(heads)
        for record in self.records():
            writer.writerow([repr(value) if isinstance(value, float) else value for value in record.values()])
        return stream.getvalue()

    def write(self) -> None:
        """table.json, table.csv and table.md in the folder."""
        files.replace(self.folder / JSON, (json.dumps(self.result(), indent=2) + "\n").encode())
        files.replace(self.folder / CSV, self.csv().encode())
        files.replace(self.folder / MARKDOWN, self.markdown().encode())


def _state(row: Row) -> str:
    return next((str(report["state_sha256"])[:SHORT] for report in row.reports.values()), "-")


def ends(values: Sequence[float], spec: str) -> str:
    """'91.00%..93.50%', '-' where there is none."""
    return f"{text(min(values), spec)}..{text(max(values), spec)}" if values else "-"
