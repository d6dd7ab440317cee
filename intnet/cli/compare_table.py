"""The table of `intnet compare`: a row a method and settings, means over seeds; text, Markdown, CSV, JSON.

`Compared` gathers `compare_figures.numbers` of every run once; `cells` is what a person reads, `LEGEND` and
`notes` say what the columns are. Nothing measured is part of `digest`.
"""

import csv
import hashlib
import io
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from intnet.cli import compare_figures, terminal
from intnet.cli.compare_figures import COPIES, KINDS, SIDES, Numbers, operand_key
from intnet.runs import files
from intnet.sweeps import table
from intnet.sweeps.plan import Plan, Point, run_name
from intnet.sweeps.table import CSV, JSON, MARKDOWN, Row
from intnet.training.tape import KB, MB

WIDTH = 240  # of the widest table

LEGEND = (
    "W, x, e, gW: bits of the weights, inputs, errors and weight gradients of the weight layers in the last "
    "step, means over elements: what the format names (what the widest code of a layer needed); float32 "
    "counts as 32. Forward/backward where products read two copies.",
    "SU: training over float32 by AdaPT's performance model, the backward pass of every method in float32, "
    "as printed; SU own: the backward pass in the word length of the method's own errors. Of the forward "
    "products it counts the weights' bits alone, of adapt and muppet without weights that are zero.",
    "model: bytes of the parameters that inference reads, packed; tape: bytes that the last step "
    "saves for its backward pass, as this program holds them, and packed: in the bits that formats name, or "
    "that codes need where those are more. kB are 2^10 bytes, MB 2^20.",
    "images/s: median of all training steps; peak: the most memory of the process that trained the run, of "
    "an interrupted one the last. Both are measured: they compare methods only where runs were trained one "
    "at a time on an idle machine, with kernels that were compiled before.",
)


@dataclass(frozen=True)
class Line:
    """A row, its name, and the figures of its runs by seed."""

    row: Row
    label: str
    runs: dict[int, Numbers]

    def values(self, key: str) -> list[float]:
        """One number a run that has it."""
        return [value for own in self.runs.values() if (value := own[key]) is not None]

    def mean(self, key: str) -> float | None:
        """Over the runs; None where no run has it."""
        values = self.values(key)
        return math.fsum(values) / len(values) if values else None


class Compared:
    """The figures of a plan's runs; each run is read once, however often it is shown."""

    def __init__(self) -> None:
        self._known: dict[str, Numbers] = {}

    def lines(self, folder: Path, plan: Plan, rows: Sequence[Row]) -> list[Line]:
        """One a row, in the order of the plan."""
        made = []
        for row in rows:
            runs = {}
            for seed, report in row.reports.items():
                run = run_name(row.point, seed)
                if run not in self._known:
                    self._known[run] = compare_figures.numbers(folder, plan, row.point, seed, report)
                runs[seed] = self._known[run]
            made.append(Line(row, name(plan, row.point), runs))
        return made

    # -- as a `View` ----------------------------------------------------------------------------

    def write(self, folder: Path, plan: Plan, rows: Sequence[Row]) -> None:
        """table.json, table.csv and table.md in the folder."""
        lines = self.lines(folder, plan, rows)
        files.replace(folder / JSON, (json.dumps(result(plan, lines), indent=2) + "\n").encode())
        files.replace(folder / CSV, text_csv(lines).encode())
        files.replace(folder / MARKDOWN, markdown(plan, lines).encode())

    def result(self, folder: Path, plan: Plan, rows: Sequence[Row]) -> dict[str, Any]:
        """Everything, for machines."""
        return result(plan, self.lines(folder, plan, rows))

    def show(self, folder: Path, plan: Plan, rows: Sequence[Row], written: Sequence[Path]) -> None:
        """The table, what it means, what failed, and the digest of all."""
        lines = self.lines(folder, plan, rows)
        headings, texts = cells(plan, lines)
        made = Table(box=None, pad_edge=False)
        for i, heading in enumerate(headings):
            made.add_column(heading, justify="right" if i else "left", no_wrap=True)
        for text in texts:
            made.add_row(*text)
        print(f"\n{table.title(plan)}", flush=True)
        console = Console(highlight=False, markup=False)
        terminal.print_table(console, made, WIDTH)
        print()
        for note in (*LEGEND, *notes(plan, lines)):
            console.print(note, style="dim", soft_wrap=not console.is_terminal)
        for file in written:
            print(f"written: {file}")
        print(f"compare sha256: {digest(lines)}")


def name(plan: Plan, point: Point) -> str:
    """'wageubn e2=16': a sweep's label, which leaves out the method where all points have one."""
    label = plan.label(point)
    return label if label.split()[0] == point.method else f"{point.method} {label}"


def digest(lines: Sequence[Line]) -> str:
    """SHA-256 over names, state digests and accuracies of all runs that are done."""
    texts = sorted(
        f"{run_name(line.row.point, seed)} {report['state_sha256']} {report['test_accuracy']!r}\n"
        for line in lines
        for seed, report in line.row.reports.items()
    )
    return hashlib.sha256("".join(texts).encode()).hexdigest()


# -- for people --------------------------------------------------------------------------------


def cells(plan: Plan, lines: Sequence[Line]) -> tuple[list[str], list[list[str]]]:
    """(headings, texts of every row)."""
    several = len(plan.seeds) > 1
    whole = all(len(line.runs) == len(plan.seeds) for line in lines)
    headings = ["method", *["runs"] * (several or not whole), "accuracy", *["least..greatest"] * several]
    headings += [*COPIES, "SU", "SU own", "model kB", "tape MB", "packed", "images/s", "peak MB"]
    texts = []
    for line in lines:
        text = [line.label]
        if several or not whole:
            failed = " failed" if line.row.failed else ""
            text.append(f"{len(line.runs)}/{len(plan.seeds)}{failed}")
        text.append(_number(line.mean("test_accuracy"), "{:.2%}"))
        if several:
            values = line.values("test_accuracy")
            text.append(f"{min(values):.2%}..{max(values):.2%}" if values else "-")
        text += [_bits(line, operand) for operand in COPIES]
        text += [_number(line.mean(key), "{:.2f}") for key in ("speedup", "speedup_own")]
        text.append(_number(line.mean("model_bytes"), "{:,.1f}", KB))
        text += [_number(line.mean(key), "{:,.2f}", MB) for key in ("tape_bytes", "tape_bytes_packed")]
        text.append(_number(line.mean("images_per_second"), "{:,.0f}"))
        text.append(_number(line.mean("peak_bytes"), "{:,.0f}", MB))
        texts.append(text)
    return headings, texts


def _number(value: float | None, form: str, unit: float = 1) -> str:
    return "-" if value is None else form.format(value / unit)


def _bits(line: Line, operand: str) -> str:
    """'8.1 (7.4)', or '8/4.1 (8/4)' where forward and backward differ."""
    both = []
    for kind in KINDS:
        means = [line.mean(operand_key(operand, side, kind)) for side in SIDES]
        if None in means:
            return "-"
        texts = [f"{mean:.1f}".removesuffix(".0") for mean in means]
        both.append(texts)
    nominal, used = (
        texts[0] if all(each[0] == each[1] for each in both) else "/".join(texts) for texts in both
    )
    return nominal if nominal == used else f"{nominal} ({used})"


def notes(plan: Plan, lines: Sequence[Line]) -> list[str]:
    """What is true of these runs: settings, DYNASTY's own model, how they were timed, what is missing."""
    found = []
    for line in lines:
        own = " ".join(f"{key}={value}" for key, value in line.row.point.settings.items())
        if not line.label.endswith(own):
            found.append(f"{line.label}: {own}")
    for line in lines:
        time = line.mean("array_time")
        if time is not None:
            found.append(
                f"{line.label}, by its own model and against 8 bits everywhere, not float32: a bit-serial "
                f"array takes {time:.1%} of the time, {1 / time:.2f} times as fast."
            )
    for images in sorted({images for line in lines for images in line.values("tape_images")}):
        found.append(f"tape: of {images:,.0f} images, which the last step had.")
    timed = {(own["threads"], own["beside"]) for line in lines for own in line.runs.values()}
    for threads, beside in sorted((each for each in timed if None not in each), key=str):
        found.append(
            f"Timed in processes of {threads:.0f} thread{'s' * (threads != 1)}, {beside:.0f} at a time."
        )
    done, asked = sum(len(line.runs) for line in lines), len(plan.points) * len(plan.seeds)
    if done < asked:
        found.append(f"{done:,} of {asked:,} runs are done.")
    for line in lines:
        found += [f"failed: {line.label}, seed {seed}: {why}" for seed, why in line.row.failed.items()]
    return found


def markdown(plan: Plan, lines: Sequence[Line]) -> str:
    """The table with its title and what it means."""
    headings, texts = cells(plan, lines)
    text = [f"# {table.title(plan)}", "", *table.markdown_table(headings, texts, 1), ""]
    text += [f"- {note}" for note in (*LEGEND, *notes(plan, lines))]
    return "\n".join([*text, f"- compare sha256: `{digest(lines)}`", ""])


# -- for machines ------------------------------------------------------------------------------


def result(plan: Plan, lines: Sequence[Line]) -> dict[str, Any]:
    """Everything."""
    return {
        "compare": plan.common,
        **table.extent(plan, [line.row for line in lines]),
        "rows": [_json(line) for line in lines],
        "compare_sha256": digest(lines),
    }


def _json(line: Line) -> dict[str, Any]:
    point, reports = line.row.point, line.row.reports
    keys = dict.fromkeys(key for own in line.runs.values() for key in own)
    return {
        "name": line.label,
        "method": point.method,
        "settings": point.settings,
        "options": point.options,
        **{
            key: {"mean": line.mean(key), "least": min(values), "greatest": max(values)}
            for key in keys
            if (values := line.values(key))
        },
        "runs": {
            str(seed): {"name": run_name(point, seed), "state_sha256": reports[seed]["state_sha256"]} | own
            for seed, own in line.runs.items()
        },
        "failed": {str(seed): why for seed, why in line.row.failed.items()},
    }


def text_csv(lines: Sequence[Line]) -> str:
    """One line a run that is done: what it was and every figure, numbers in full."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    keys = list(dict.fromkeys(key for line in lines for own in line.runs.values() for key in own))
    writer.writerow(["method", "settings", "seed", *keys, "state_sha256"])
    for line in lines:
        settings = " ".join(f"{key}={value}" for key, value in line.row.point.settings.items())
        for seed, own in line.runs.items():
            texts = ["" if own[key] is None else repr(own[key]) for key in keys]
            state = line.row.reports[seed]["state_sha256"]
            writer.writerow([line.row.point.method, settings, seed, *texts, state])
    return stream.getvalue()
