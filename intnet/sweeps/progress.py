"""What a sweep shows while it trains: a line a run, bars on a terminal.

Bars follow the logs of the runs, which are in the sweep's folder wherever they are trained.
"""

import sys
from pathlib import Path
from time import monotonic

from rich.progress import TaskID

from intnet.runs.metrics import last_step
from intnet.runs.run_folder import METRICS
from intnet.show.bars import bars, say
from intnet.sweeps import plan as plans
from intnet.sweeps import rows
from intnet.sweeps.plan import Plan, Point
from intnet.sweeps.work import DONE, FAILED, Outcome

EVERY = 1.0  # seconds between two looks at the logs


class Show:
    """Progress of a sweep: a line a run that ends, none under `quiet`; bars where stderr is a terminal.

    pending: (point, seed) of the runs that are not at their end, by name
    """

    def __init__(self, folder: Path, plan: Plan, quiet: bool) -> None:
        self.folder, self.plan, self.quiet = folder, plan, quiet
        self.pending = {
            plans.run_name(*run): run for run in plan.runs() if rows.done(folder, plan, *run) is None
        }
        self.runs = len(plan.points) * len(plan.seeds)
        self.bars = bars()
        self.whole = self.bars.add_task("runs", total=self.runs, completed=self._done(), note="")
        self._steps = {name: last_step(self._log(*run)) for name, run in self.pending.items()}
        self._own: dict[str, TaskID] = {}
        self._next = 0.0

    def _done(self) -> int:
        return self.runs - len(self.pending)

    def _log(self, point: Point, seed: int) -> Path:
        return plans.run_folder(self.folder, point, seed) / METRICS

    def start(self, where: str) -> None:
        """What is about to be done."""
        many = ", ".join(
            f"{count:,} {what}{'s' * (count > 1)}"
            for what, count in (("point", len(self.plan.points)), ("run", self.runs))
        )
        state = f", {self._done():,} done already" if self._done() else ""
        self._print(f"{rows.title(self.plan)}\n{many}{state}; {where}; {self.folder}")

    def look(self) -> None:
        """Move the bars of the runs at work."""
        if self.bars.disable or monotonic() < self._next:
            return
        self._next = monotonic() + EVERY
        for name, run in self.pending.items():
            step = last_step(self._log(*run))
            if name not in self._own and step > self._steps[name]:
                self._own[name] = self.bars.add_task(
                    _label(self.plan, *run), total=self.plan.steps, note="steps"
                )
            if name in self._own:
                self.bars.update(self._own[name], completed=step)

    def ended(self, outcome: Outcome) -> None:
        """A line, and the bar of the run goes."""
        run = self.pending[outcome.name]
        if outcome.state == DONE:
            del self.pending[outcome.name]
        if outcome.name in self._own:
            self.bars.remove_task(self._own.pop(outcome.name))
        self.bars.update(self.whole, completed=self._done())
        if outcome.state == FAILED:
            self._print(f"failed: {_label(self.plan, *run)}: {outcome.why}")
        report = rows.done(self.folder, self.plan, *run) if outcome.state == DONE else None
        if report is not None:
            count = f"{self._done():,}/{self.runs:,}"
            tested = report["test_accuracy"]
            told = "no test part" if tested is None else f"test accuracy {tested:.2%}"
            parts = [f"{count}  {_label(self.plan, *run)}: {told}"]
            if report["last_loss"] is not None:
                parts.append(f"loss {report['last_loss']:.4f}")
            if report["images_per_second"] is not None:
                parts.append(f"{report['images_per_second']:,.0f} images/s")
            self._print(", ".join(parts))

    def stopped(self) -> None:
        """How to go on."""
        print(
            f"stopped: {self._done():,} of {self.runs:,} runs in {self.folder} are done, the others saved; "
            "go on with the same command",
            file=sys.stderr,
        )

    def _print(self, text: str) -> None:
        if not self.quiet:
            say(self.bars, text)


def _label(plan: Plan, point: Point, seed: int) -> str:
    """'bits=2 codec=affine, seed 1'."""
    return f"{plan.label(point)}, seed {seed}"
