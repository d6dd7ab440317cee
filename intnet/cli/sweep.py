"""`intnet sweep`: a grid of settings and seeds as one command that can be stopped, killed and given again."""

import argparse
import shlex
from typing import TYPE_CHECKING

from intnet.cli import sweep_run
from intnet.cli.train import add_names, options
from intnet.errors import ConfigError

if TYPE_CHECKING:
    from intnet.cli.sweep_run import View
    from intnet.sweeps.plan import Asked, Part

SUMMARY = "train a grid of settings and seeds, many runs at a time, into one table"
EXAMPLE = """\
  intnet sweep --method saved --model mlp --data digits --epochs 4 --set lr=0.05,0.01@3 --vary bits=8,4,2 \\
      --vary codec=affine,affine-stochastic --also 'codec=levels bits=2/4 bucket=64,512' \\
      --baseline float32 --seeds 1,2 --jobs 2 --plot sweep.png --out runs/sweep
  intnet sweep --show runs/sweep --plot sweep.pdf

A point is a method with its settings, a row of the table; a run is a point and a seed, a folder in
SWEEP/runs that every other command reads: intnet eval 'runs/sweep/runs/float32+lr=0.05,0.01@3+seed=1'

  --set KEY=VALUE       of all points
  --vary KEY=V1,V2,..   a point for every value; several --vary: for every combination. Where values hold
                        commas, semicolons part them: --vary 'lr=0.05,0.01@3;0.1'; 'lr=0.05,0.01@3;' is one
  --also 'K=V K=V1,V2'  a grid of its own beside that of --vary, on top of --set: for what a full product
                        would waste runs on. With --also and no --vary, --set alone is a point too
  --baseline 'M K=V'    method M beside the points, with its own settings and those of --set that it knows

A key is whatever --set takes: --vary 'bits@layer2.*=4,2' too. All points are built before the first one is
trained, so a wrong key or value is told at once.

The same command again goes on: runs that are done are kept, others go on from their checkpoint, also after
kill -9. With more values, seeds, epochs or steps in it the sweep grows; anything else is refused. A run that
fails (its numbers overflow, its process dies 3 times) is told at the end, the others go on, exit status 1.

--jobs trains so many runs at a time, each in a process with its share of the threads (NUMBA_NUM_THREADS, or
all cores). --cluster gives them to the workers of a running Dask scheduler (pip install distributed),
which have the same intnet and see SWEEP and the data by the same paths; a worker trains one at a time:

  dask scheduler &
  NUMBA_NUM_THREADS=2 dask worker --nthreads 1 --nworkers 4 tcp://localhost:8786 &
  intnet sweep --cluster tcp://localhost:8786 ...

The bits depend on none of that. SWEEP has sweep.json (the plan), table.md, table.csv (a line a run) and
table.json. --plot draws test accuracy over epochs, and at the end over the first varied key of numbers.
The last line of stdout is 'sweep sha256: HEX', over the states of all runs that are done."""

NEEDED = ("method", "model", "data", "out")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to train, the grid, and where it runs."""
    need = parser.add_argument_group("what to train")
    add_names(need, required=False)
    points = parser.add_argument_group("points")
    points.add_argument(
        "--vary", action="append", default=[], metavar="KEY=V1,..", help="values of a key, repeatable"
    )
    points.add_argument(
        "--also", action="append", default=[], metavar="'K=V ..'", help="another grid, repeatable"
    )
    points.add_argument("--baseline", metavar="'M K=V ..'", help="another method in the same table")
    sweep_run.add_arguments(need, points, parser.add_argument_group("how"))


def run(args: argparse.Namespace) -> int:
    """Plan, train what is not done, show the table."""
    return sweep_run.conduct(args, NEEDED, _asked, _view)


def _view() -> "View":
    from intnet.cli import sweep_plot, sweep_text
    from intnet.sweeps import table

    return sweep_run.View(table.write, lambda _, *of: table.result(*of), sweep_text.show, sweep_plot.draw)


def _asked(args: argparse.Namespace) -> "Asked":
    """The arguments, their texts read."""
    from intnet.sweeps import plan

    settings, vary = options(args.set), plan.grid(args.vary, "--vary")
    clash = next((key for key, _ in vary if key in settings), None)
    if clash is not None:
        raise ConfigError(f"{clash} is set and varied: give it once")
    parts = [point(args.baseline, "--baseline", baseline=True)] if args.baseline is not None else []
    for grid in (vary, *(plan.grid(words(text, "--also"), "--also") for text in args.also)):
        parts.append(plan.Part(args.method, grid))
    return sweep_run.asked(args, parts, settings)


def point(text: str, option: str, baseline: bool = False) -> "Part":
    """One point of 'M K=V ..': a method and its own settings."""
    from intnet.sweeps.plan import Part

    name, *own = words(text, option) or [""]
    return Part(name, [(key, [value]) for key, value in options(own, option).items()], baseline)


def words(text: str, option: str) -> list[str]:
    """The words of a text, as a shell would part them."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"{option} {text}: {error}") from None
