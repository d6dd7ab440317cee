"""What `train` and `resume` show while they work, how a signal stops them; tables of all commands.

Progress goes to stderr and only to a terminal; lines of epochs and the summary go to stdout.
"""

import argparse
import io
import json
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType, TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from intnet.runs import report
from intnet.runs.run_folder import RunFolder, resume_command
from intnet.trace import Observer
from intnet.training.train import Run, StepReport

FIRST = "first step: compiles what is new"


class Stop:
    """While entered: the first SIGINT or SIGTERM asks to stop after the step, the second stops at once."""

    def __init__(self) -> None:
        self.signal = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Stop":
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def __call__(self) -> bool:
        """Whether a signal came."""
        return self.signal != 0

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.signal:
            raise KeyboardInterrupt
        self.signal = number
        # os.write: a handler may interrupt a print to the same stream
        os.write(2, b"\nstopping after this step (once more: at once)\n")


def bars(console: Console) -> Progress:
    """Progress bars, silent where stderr is no terminal."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
        redirect_stdout=False,
        redirect_stderr=False,
    )


def note(step: StepReport) -> str:
    """What stands beside the bar after a step."""
    rate = step.images / step.seconds
    return f"loss {step.loss:.4f}  accuracy {step.accuracy:6.1%}  {rate:,.0f} images/s"


def advance(run: Run, steps: int, observers: Sequence[Observer]) -> None:
    """Train up to step `steps` behind a bar; `observers` see the last step. Nothing is saved."""
    with bars(Console(stderr=True)) as progress:
        task = progress.add_task("training", total=steps, completed=run.step, note=FIRST)
        run.train(steps, lambda step: progress.update(task, completed=step.step, note=note(step)), observers)


class Show:
    """Progress of one run: a bar where stderr is a terminal, a line an epoch, nothing under `quiet`."""

    def __init__(self, work: RunFolder, quiet: bool) -> None:
        self.work, self.quiet = work, quiet
        self.console = Console(stderr=True)
        self.bars = bars(self.console)
        self.steps = self.bars.add_task(
            "training", total=work.plan.steps, completed=work.run.step, note=FIRST
        )
        self.test: TaskID | None = None

    def on_step(self, step: StepReport) -> None:
        """Move the bar."""
        self.bars.update(self.steps, completed=step.step, note=note(step))
        self.last = step

    def on_test(self, images: int) -> None:
        """Move the bar of a test; it goes when the test is done."""
        total = len(self.work.run.data.test_labels)
        if self.test is None:
            self.test = self.bars.add_task("testing", total=total, note="")
        self.bars.advance(self.test, images)
        if self.bars.disable or self.bars.tasks[-1].finished:
            self.bars.remove_task(self.test)
            self.test = None

    def on_epoch(self, line: dict[str, Any]) -> None:
        """A line of text."""
        if self.quiet:
            return
        text = (
            f"epoch {line['epoch'] + 1}: loss {self.last.loss:.4f}, "
            f"test accuracy {line['test_accuracy']:.2%}, {sum(line['saturated'].values()):,} values saturated"
        )
        if not self.bars.disable and sys.stdout.isatty():
            self.console.print(text, highlight=False)  # above the bar
        else:
            print(text, flush=True)


def train(work: RunFolder, args: argparse.Namespace) -> int:
    """Train as far as planned, show it, print the summary; the exit status."""
    if not args.json:
        run, own = work.run, work.identity
        print(
            f"{report.title(own)}: {own['limit']:,} training images, {run.steps_per_epoch:,} steps an epoch; "
            f"from step {run.step:,} to {work.plan.steps:,} in {work.folder}",
            flush=True,
        )
    stop, show = Stop(), Show(work, args.json)
    try:
        with stop, show.bars:
            result = work.train(show.on_step, show.on_epoch, show.on_test, stop)
    except KeyboardInterrupt:
        result, stop.signal = None, stop.signal or signal.SIGINT
    if result is None:
        print(
            f"stopped: {work.folder} is saved at step {work.saved:,} of {work.plan.steps:,}; "
            f"go on with: {resume_command(work.folder)}",
            file=sys.stderr,
        )
        return 128 + stop.signal
    if args.json:
        print(json.dumps(result))
    else:
        summary(result, work)
    return 0


def summary(result: dict[str, Any], work: RunFolder) -> None:
    """The report for a terminal; the last line is the digest."""
    console = Console(highlight=False)
    console.print()
    for what, value in report.facts(result):
        console.print(f"[bold]{what:15}[/bold]  {value}", soft_wrap=True)
    integers, floats = report.groups(result)
    if integers:
        console.print()
        console.print(_paths(integers))
    if floats:
        console.print(f"in float32: {', '.join(floats)}", style="dim")
    console.print(f"all layers: {work.folder / report.MARKDOWN}", style="dim", soft_wrap=True)
    print(f"state sha256: {result['state_sha256']}")


def _paths(integers: list[report.Group]) -> Table:
    """Data paths, one row a path and format; codes wider than their format says stand out."""
    title = "data paths: bits of the widest layer at the last step, values saturated in the run"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for heading in ("path", "format"):
        table.add_column(heading, no_wrap=True)
    for heading in ("layers", "nominal", "used", "bound", "saturated"):
        table.add_column(heading, justify="right", no_wrap=True)
    for group in integers:
        nominal = "-" if group.nominal_bits is None else str(group.nominal_bits)
        over = group.nominal_bits is not None and group.used_bits > group.nominal_bits
        used = f"[yellow]{group.range_bits:.1f}[/yellow]" if over else f"{group.range_bits:.1f}"
        bound = str(group.bound_bits) if group.bound_bits else "-"
        saturated = f"{group.saturated:,}" if group.saturated else "-"
        table.add_row(group.path, group.format, str(group.layers), nominal, used, bound, saturated)
    return table


def numbers_table(title: str, first: str, columns: Sequence[str]) -> Table:
    """An empty table: a column of names, and columns of numbers."""
    made = Table(title=f"\n{title}", title_justify="left", title_style="bold", box=None, pad_edge=False)
    made.add_column(first, no_wrap=True)
    for name in columns:
        made.add_column(name, justify="right", no_wrap=True)
    return made


def print_table(console: Console, made: Table, width: int) -> None:
    """To a terminal as it is; to a file whole and without the blanks that fill a table's lines.

    width: of the widest table
    """
    if console.is_terminal:
        console.print(made)
        return
    whole = Console(highlight=False, width=2 * width, file=io.StringIO())
    whole.print(made)
    assert isinstance(whole.file, io.StringIO)
    print("\n".join(line.rstrip() for line in whole.file.getvalue().splitlines()))
