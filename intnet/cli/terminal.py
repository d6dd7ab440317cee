"""What `train` and `resume` show while they work, and at their end; how a signal stops them: `stopping.py`.

Progress goes to stderr and only to a terminal; lines of epochs and the summary go to stdout.
"""

import argparse
import json
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from rich.console import Console
from rich.progress import TaskID
from rich.text import Text

from intnet.cli import stopping
from intnet.inspect.over_steps import logged
from intnet.methods.trace import Observer
from intnet.runs import kept, report
from intnet.runs.run_folder import RunFolder
from intnet.show import tables
from intnet.show.bars import FIRST, bar, bars, say
from intnet.show.tables import Column, Table, numbers
from intnet.training.epochs import note
from intnet.training.history import StepReport
from intnet.training.train import Run


def advance(
    run: Run,
    steps: int,
    observers: Sequence[Observer],
    on_step: Callable[[StepReport], None] = lambda step: None,
) -> None:
    """Train up to step `steps` under a bar; `observers` see the last step. Nothing is saved."""
    if run.step >= steps:
        return
    with bar("training", steps, run.step, FIRST) as move:

        def seen(step: StepReport) -> None:
            move(completed=step.step, note=note(step))
            on_step(step)

        run.train(steps, seen, observers)


class Show:
    """Progress of one run: a bar where stderr is a terminal, a line an epoch, nothing under `quiet`."""

    def __init__(self, work: RunFolder, quiet: bool) -> None:
        self.work, self.quiet = work, quiet
        self.bars = bars()
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
        saturated = sum(line["saturated"].values())
        say(
            self.bars,
            f"epoch {line['epoch'] + 1}: loss {self.last.loss:.4f}, "
            f"test accuracy {tables.text(line['test_accuracy'], '.2%')}, {saturated:,} values saturated",
        )


def train(work: RunFolder, args: argparse.Namespace) -> int:
    """Train as far as planned, show it, print the summary; the exit status."""
    if not args.json:
        run, own = work.run, work.identity
        print(
            f"{report.title(own)}: {own['limit']:,} training images, {run.steps_per_epoch:,} steps an epoch; "
            f"from step {run.step:,} to {work.plan.steps:,} in {work.folder}",
            flush=True,
        )
        for remark in run.data.remarks():
            print(f"{own['data']}: {remark}", flush=True)
    stop, show = stopping.stop(), Show(work, args.json)
    try:
        watched = nullcontext() if args.stats is None else logged(work.run, args.stats, args.stats_every)
        with stop, show.bars, watched:
            result = work.train(show.on_step, show.on_epoch, show.on_test, stop)
    except KeyboardInterrupt:
        result, stop.signal = None, stop.signal or signal.SIGINT
    if work.sent and work.sent.steps:
        print(sent(work.sent.told(work.run)), file=sys.stderr)  # the last line of stdout is the digest
    if result is None:
        if work.writes:
            print(f"stopped: {kept.told(work.folder)}", file=sys.stderr)
        return 128 + (stop.signal or signal.SIGINT)  # another rank's
    if not work.writes:
        return 0
    if args.json:
        print(json.dumps(result))
    else:
        summary(result, work)
    return 0


def sent(told: dict[str, Any]) -> str:
    """What a rank sent, in a line."""
    kinds = ", ".join(f"{count:,.0f} {kind}" for kind, count in told["bytes"].items())
    return (
        f"{told['ranks']} ranks; in a step rank 0 gave others {told['all_bytes']:,.0f} bytes in "
        f"{told['messages']:,.0f} messages: {kinds}; float32 gradients are {told['float32_gradients']:,}"
    )


def summary(result: dict[str, Any], work: RunFolder) -> None:
    """The report for a terminal; the last line is the digest."""
    console = Console(highlight=False)
    console.print()
    for what, value in report.facts(result):
        console.print(f"[bold]{what:15}[/bold]  {value}", soft_wrap=True)
    integers, floats = report.groups(result)
    if integers:
        tables.show(_paths(integers), console)
    if floats:
        console.print(f"in float32: {', '.join(floats)}", style="dim")
    console.print(f"all layers: {work.folder / report.MARKDOWN}", style="dim", soft_wrap=True)
    print(f"state sha256: {result['state_sha256']}")


def _paths(integers: list[report.Group]) -> Table:
    """Data paths, one row a path and format; codes wider than their format says stand out."""
    columns = [Column(name, right=False) for name in ("path", "format")]
    columns += numbers("layers", "nominal") + numbers("used", spec=".1f") + numbers("bound")
    rows = []
    for group in integers:
        over = group.nominal_bits is not None and group.used_bits > group.nominal_bits
        used = Text(f"{group.range_bits:.1f}", "yellow" if over else "")
        bits = (group.nominal_bits, used, group.bound_bits or None)
        rows.append((group.path, group.format, group.layers, *bits, group.saturated or None))
    title = "data paths: bits of the widest layer at the last step, values saturated in the run"
    return Table(title, [*columns, *numbers("saturated", spec=",")], rows)
