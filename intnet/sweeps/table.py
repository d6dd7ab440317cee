"""What the runs of a sweep came to: one row a point, over its seeds; as JSON, CSV and Markdown.

`collect` reads the runs' reports, of a sweep at work too; `MEASURES` are the columns: a new one is a line
there, shown where a report has it. Means are sums rounded once, over their number.
"""

import csv
import hashlib
import io
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from intnet.errors import CheckpointError
from intnet.runs import files, records, report
from intnet.runs.metrics import read_metrics
from intnet.runs.run_folder import METRICS
from intnet.sweeps.plan import Plan, Point, run_folder, run_name
from intnet.sweeps.work import SESSION

JSON, CSV, MARKDOWN = "table.json", "table.csv", "table.md"
FAILURES = {"rows": [{"method": str, "settings": {str: str}, "failed": {str: str}}]}  # of table.json
SHORT = 12  # digits of a digest in a table


@dataclass(frozen=True)
class Measure:
    """A column: how it is read from a report (None: it is not there) and written.

    spread: with its range; shown: in tables for people, too
    """

    heading: str
    read: Callable[[dict[str, Any]], float | None]
    form: str
    spread: bool = False
    shown: bool = True

    def text(self, value: float | None) -> str:
        """A number of it."""
        return "-" if value is None else self.form.format(value)


def _saved(key: str) -> Callable[[dict[str, Any]], float | None]:
    """Of what a method packs of the values that it saves for the backward pass."""

    def read(report: dict[str, Any]) -> float | None:
        number = report.get("saved", {}).get(key)
        return None if number is None else float(number)

    return read


MEASURES = {
    "test_accuracy": Measure("test accuracy", lambda report: report["test_accuracy"], "{:.2%}", spread=True),
    "last_loss": Measure("last loss", lambda report: report["last_loss"], "{:.4f}"),
    "saved_bits": Measure("saved bits", _saved("bits"), "{:.3f}"),
    "saved_bytes": Measure("saved bytes", _saved("bytes"), "{:,.0f}"),
    "images_per_second": Measure("images/s", lambda report: report["images_per_second"], "{:,.0f}"),
    "seconds": Measure("seconds", lambda report: report["seconds"], "{:,.1f}", shown=False),
}


@dataclass(frozen=True)
class Row:
    """A point and the reports of those of its runs that are done, by seed; failed: why, by seed."""

    point: Point
    reports: dict[int, dict[str, Any]]
    failed: dict[int, str] = field(default_factory=dict)

    def values(self, measure: str) -> list[float]:
        """One number a run that has it."""
        found = (MEASURES[measure].read(report) for report in self.reports.values())
        return [value for value in found if value is not None]

    def mean(self, measure: str) -> float | None:
        """Over the runs; None where no run has it."""
        values = self.values(measure)
        return math.fsum(values) / len(values) if values else None


def collect(folder: Path, plan: Plan, failed: dict[str, str] | None = None) -> list[Row]:
    """The rows of a sweep; failed: why a run failed, by the run's name."""
    rows, reasons = [], failed or {}
    for point in plan.points:
        found = {seed: done(folder, plan, point, seed) for seed in plan.seeds}
        reports = {seed: report for seed, report in found.items() if report is not None}
        names = {seed: run_name(point, seed) for seed in plan.seeds if seed not in reports}
        why = {seed: reasons[name] for seed, name in names.items() if name in reasons}
        rows.append(Row(point, reports, why))
    return rows


def failures(folder: Path) -> dict[str, str]:
    """Why runs failed when the sweep's command last ended, by name; CheckpointError for a damaged table.

    None where one is at work, or was killed: it has tried them again.
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


def curve(folder: Path, plan: Plan, point: Point, seed: int) -> list[float]:
    """Test accuracies of a run, an epoch each, as far as it is."""
    lines = read_metrics(run_folder(folder, point, seed) / METRICS)
    return [line["test_accuracy"] for line in lines if line["kind"] == "epoch" and line["step"] <= plan.steps]


def digest(rows: Sequence[Row]) -> str:
    """SHA-256 over the names and state digests of all runs that are done."""
    lines = sorted(
        f"{run_name(row.point, seed)} {report['state_sha256']}\n"
        for row in rows
        for seed, report in row.reports.items()
    )
    return hashlib.sha256("".join(lines).encode()).hexdigest()


# -- as a table --------------------------------------------------------------------------------


def cells(plan: Plan, rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """(headings, texts of every row), columns that no row has left out."""
    varied = plan.varied()
    several = len({row.point.method for row in rows}) > 1 or not varied
    measures = [key for key, measure in MEASURES.items() if measure.shown and _known(rows, key)]
    headings = ["method"] * several + varied + ["runs"]
    alone = len(plan.seeds) == 1
    for key in measures:
        headings += [MEASURES[key].heading] + ["least..greatest"] * (MEASURES[key].spread and not alone)
    texts = []
    for row in rows:
        line = [row.point.method] * several + [_setting(row.point, key) for key in varied]
        line.append(f"{len(row.reports)}/{len(plan.seeds)}" + (" failed" if row.failed else ""))
        for key in measures:
            line.append(MEASURES[key].text(row.mean(key)))
            if MEASURES[key].spread and not alone:
                line.append(_range(MEASURES[key], row.values(key)))
        own = next(iter(row.reports.values()), {"state_sha256": "-"})
        texts.append(line + [own["state_sha256"][:SHORT]] * alone)
    return headings + ["state sha256"] * alone, texts


def _known(rows: Sequence[Row], key: str) -> bool:
    """Whether a row has the measure; a sweep that has only begun shows the accuracy's column."""
    return key == "test_accuracy" or any(row.values(key) for row in rows)


def _setting(point: Point, key: str) -> str:
    return "-" if point.baseline and key not in point.settings else point.value(key)


def _range(measure: Measure, values: list[float]) -> str:
    return f"{measure.text(min(values))}..{measure.text(max(values))}" if values else "-"


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


def markdown(plan: Plan, rows: Sequence[Row]) -> str:
    """The table with its title."""
    headings, texts = cells(plan, rows)
    lines = [f"# {title(plan)}", "", *markdown_table(headings, texts, headings.index("runs"))]
    lines += ["", f"Means over the seeds. sweep sha256: `{digest(rows)}`"]
    for row in rows:
        label = plan.label(row.point)
        lines += [f"- failed: {label}, seed {seed}: {why}" for seed, why in row.failed.items()]
    return "\n".join([*lines, ""])


def markdown_table(headings: Sequence[str], texts: Sequence[Sequence[str]], left: int) -> list[str]:
    """Lines of Markdown; the first `left` columns are words, the others numbers."""
    rules = ["---"] * left + ["---:"] * (len(headings) - left)
    lines = [
        f"| {' | '.join(part.replace('|', chr(92) + '|') for part in parts)} |"
        for parts in (headings, *texts)
    ]
    return [lines[0], f"|{'|'.join(rules)}|", *lines[1:]]


def extent(plan: Plan, rows: Sequence[Row]) -> dict[str, Any]:
    """How much was asked for, and how much of it is done."""
    return {
        "steps": plan.steps,
        "seeds": plan.seeds,
        "runs": len(plan.points) * len(plan.seeds),
        "done": sum(len(row.reports) for row in rows),
    }


def result(plan: Plan, rows: Sequence[Row]) -> dict[str, Any]:
    """Everything, for machines."""
    return {
        "sweep": plan.common,
        **extent(plan, rows),
        "rows": [_row(row) for row in rows],
        "sweep_sha256": digest(rows),
    }


def _row(row: Row) -> dict[str, Any]:
    point = row.point
    return {
        "method": point.method,
        "settings": point.settings,
        "options": point.options,
        "baseline": point.baseline,
        **{
            key: {"mean": row.mean(key), "least": min(values), "greatest": max(values)}
            for key in MEASURES
            if (values := row.values(key))
        },
        "runs": {
            str(seed): {"name": run_name(point, seed), "state_sha256": report["state_sha256"]}
            | {key: measure.read(report) for key, measure in MEASURES.items()}
            for seed, report in row.reports.items()
        },
        "failed": {str(seed): why for seed, why in row.failed.items()},
    }


def _csv(plan: Plan, rows: Sequence[Row]) -> str:
    """One line a run that is done: what it was and every measure, numbers in full."""
    varied, stream = plan.varied(), io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["method", *varied, "seed", *MEASURES, "state_sha256"])
    for row in rows:
        for seed, found in row.reports.items():
            own = [row.point.method, *(_setting(row.point, key) for key in varied), seed]
            numbers = (measure.read(found) for measure in MEASURES.values())
            texts = ("" if number is None else repr(number) for number in numbers)
            writer.writerow([*own, *texts, found["state_sha256"]])
    return stream.getvalue()


def write(folder: Path, plan: Plan, rows: Sequence[Row]) -> None:
    """table.json, table.csv and table.md in the sweep's folder."""
    files.replace(folder / JSON, (json.dumps(result(plan, rows), indent=2) + "\n").encode())
    files.replace(folder / CSV, _csv(plan, rows).encode())
    files.replace(folder / MARKDOWN, markdown(plan, rows).encode())
