"""`intnet sweep`: a grid of settings and seeds as one command that can be stopped, killed and given again.

`compare` trains and shows by the same `carry_out`; its `args` are those of `add_training`, and --json;
`quiet` where the command has it.
"""

import argparse
import dataclasses
import json
import shlex
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from intnet.cli import options
from intnet.errors import ConfigError

if TYPE_CHECKING:
    from intnet.sweeps.plan import Asked, Part
    from intnet.sweeps.table import Sweep

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

--launch 'mpirun -n 4' makes each run a job of its own of four ranks, here or on the cluster's workers, and
leaves threads to it.
The bits depend on none of that. SWEEP has sweep.json (the plan), table.md, table.csv (a line a run) and
table.json. --plot draws test accuracy over epochs, and at the end over the first varied key of numbers.
The last line of stdout is 'sweep sha256: HEX', over the states of all runs that are done."""

NEEDED = ("method", "model", "data", "out")
OF_TRAINING = (  # what --show leaves no use for
    *("vary", "also", "baseline", "with", "set", "seeds", "epochs", "steps", "batch_size", "limit"),
    *("augment", "image_size", "data_dir", "checkpoint_every", "jobs", "cluster", "launch"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to train, the grid, and where it runs."""
    need = parser.add_argument_group("what to train")
    options.add(need, *options.NAMES)
    points = parser.add_argument_group("points")
    points.add_argument(
        "--vary", action="append", default=[], metavar="KEY=V1,..", help="values of a key, repeatable"
    )
    points.add_argument(
        "--also", action="append", default=[], metavar="'K=V ..'", help="another grid, repeatable"
    )
    points.add_argument("--baseline", metavar="'M K=V ..'", help="another method in the same table")
    add_training(need, points, parser.add_argument_group("how"))


def run(args: argparse.Namespace) -> int:
    """Plan, train what is not done, show the table."""
    return carry_out(args, NEEDED, _asked)


def _asked(args: argparse.Namespace) -> "Asked":
    """The arguments, their texts read."""
    from intnet.sweeps import plan

    settings, vary = options.settings(args.set), plan.grid(args.vary, "--vary")
    clash = next((key for key, _ in vary if key in settings), None)
    if clash is not None:
        raise ConfigError(f"{clash} is set and varied: give it once")
    parts = [point(args.baseline, "--baseline", baseline=True)] if args.baseline is not None else []
    for grid in (vary, *(plan.grid(words(text, "--also"), "--also") for text in args.also)):
        parts.append(plan.Part(args.method, grid))
    return asked(args, parts, settings)


def point(text: str, option: str, baseline: bool = False) -> "Part":
    """One point of 'M K=V ..': a method and its own settings."""
    from intnet.sweeps.plan import Part

    name, *own = words(text, option) or [""]
    return Part(name, [(key, [value]) for key, value in options.settings(own, option).items()], baseline)


def words(text: str, option: str) -> list[str]:
    """The words of a text, as a shell would part them."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"{option} {text}: {error}") from None


# -- what `compare` does too ---------------------------------------------------------------------


def add_training(
    need: argparse._ArgumentGroup, points: argparse._ArgumentGroup, how: argparse._ArgumentGroup
) -> None:
    """Folders, seeds, lengths, where runs are trained, the picture."""
    need.add_argument("--out", type=Path, metavar="DIR", help="the folder: new, or to go on with")
    need.add_argument("--show", type=Path, metavar="DIR", help="instead: what a folder has come to so far")
    options.add(points, "--seeds")
    options.add_length(how, "1 unless told")
    options.add(how, *options.SETTINGS, "--checkpoint-every")
    where = how.add_mutually_exclusive_group()
    options.add(where, "--jobs")
    where.add_argument("--cluster", metavar="ADDRESS", help="a Dask scheduler, tcp://HOST:PORT")
    how.add_argument("--launch", metavar="'CMD ..'", help="what starts the ranks of a run: 'mpirun -n 4'")
    options.add(how, "--plot")


def asked(args: argparse.Namespace, parts: "Sequence[Part]", settings: dict[str, str]) -> "Asked":
    """The plan that is asked for: rows and their common settings, and the rest as `args` have it."""
    from intnet.sweeps import plan

    names = [field.name for field in dataclasses.fields(plan.Asked) if hasattr(args, field.name)]
    told = {name: getattr(args, name) for name in names}
    return plan.Asked(**told | {"parts": parts, "settings": settings, "epochs": args.epochs or 1})


def carry_out(
    args: argparse.Namespace, needed: Sequence[str], ask: "Callable[[argparse.Namespace], Asked]"
) -> int:
    """Plan, train what is not done, show the results; the exit status."""
    options.check_picture(args.plot)
    if args.show is not None:
        return _show(args, needed)
    options.need(args, needed, "give {} (or --show DIR, to see what one has come to)")
    from intnet.sweeps.compared import RESULTS
    from intnet.sweeps.conduct import carried_out
    from intnet.training.stop import Stop

    stop, launch = Stop(signal.SIGINT, signal.SIGTERM), words(args.launch or "", "--launch")
    kind, quiet = RESULTS[args.command], args.json or getattr(args, "quiet", False)
    found = carried_out(kind, ask(args), args.out, args.jobs, args.cluster, launch, quiet, stop)
    return 128 + stop.signal if stop() else _finish(args, found)


def _show(args: argparse.Namespace, needed: Sequence[str]) -> int:
    """What the runs have come to, without training."""
    options.refuse(args, (*needed, *OF_TRAINING), f"{args.show} says that itself; --show trains nothing")
    from intnet import plugins
    from intnet.sweeps import plan
    from intnet.sweeps.compared import RESULTS
    from intnet.sweeps.rows import failures

    read = plan.read(args.show)
    plugins.need(read.common.get("plugins", {}), read.imports, str(args.show))
    return _finish(args, RESULTS[args.command](args.show, read, failures(args.show)))


def _finish(args: argparse.Namespace, found: "Sweep") -> int:
    """Draw and print; the exit status."""
    options.write_picture(args.plot, found.draw)
    if args.json:
        print(json.dumps(found.result()))
    else:
        found.show([] if args.plot is None else [args.plot])
    return 1 if any(row.failed for row in found.rows) else 0
