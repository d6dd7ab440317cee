"""`intnet sweep`: a grid of settings and seeds as one command that can be stopped, killed and given again."""

import argparse
import json
import shlex
import signal
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

from intnet.cli import output
from intnet.cli.train import add_length, add_names, add_saving, add_settings, options, positive
from intnet.errors import ConfigError

if TYPE_CHECKING:
    from distributed import Client

    from intnet.cli.sweep_text import Show
    from intnet.cli.terminal import Stop
    from intnet.sweeps.plan import Asked, Plan
    from intnet.sweeps.table import Row

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
all cores). --cluster gives them to the workers of a running Dask scheduler (pip install 'intnet[cluster]'),
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
    need.add_argument("--out", type=Path, metavar="SWEEP", help="the sweep's folder: new, or to go on with")
    need.add_argument("--show", type=Path, metavar="SWEEP", help="instead: what a sweep has come to so far")
    points = parser.add_argument_group("points")
    points.add_argument(
        "--vary", action="append", default=[], metavar="KEY=V1,..", help="values of a key, repeatable"
    )
    points.add_argument(
        "--also", action="append", default=[], metavar="'K=V ..'", help="another grid, repeatable"
    )
    points.add_argument("--baseline", metavar="'M K=V ..'", help="another method in the same table")
    points.add_argument("--seeds", type=seeds, default=[1], metavar="K1,K2,..", help="of every point (1)")
    how = parser.add_argument_group("how")
    add_length(how, "1 unless told")
    add_settings(how)
    add_saving(how)
    where = how.add_mutually_exclusive_group()
    where.add_argument("--jobs", type=positive, default=1, metavar="J", help="runs at a time, processes (1)")
    where.add_argument("--cluster", metavar="ADDRESS", help="a Dask scheduler, tcp://HOST:PORT")
    how.add_argument("--plot", type=Path, metavar="FILE", help="draw the results: .png, .svg, .pdf")


def seeds(text: str) -> list[int]:
    """'1,2,3' as numbers, for argparse."""
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of whole numbers, as 1,2,3") from None
    if len(set(found)) < len(found):
        raise argparse.ArgumentTypeError(f"{text!r} has a seed twice")
    return found


def run(args: argparse.Namespace) -> int:
    """Plan, train what is not done, show the table."""
    if args.plot is not None:
        output.check_picture("--plot", args.plot)
    if args.show is not None:
        return _show(args)
    missing = [f"--{name}" for name in NEEDED if getattr(args, name) is None]
    if missing:
        raise ConfigError(f"give {', '.join(missing)} (or --show SWEEP, to see what one has come to)")
    from intnet.cli.sweep_text import Show
    from intnet.cli.terminal import Stop
    from intnet.sweeps import cluster, plan, table, work

    stop = Stop()
    with ExitStack() as held:
        new = plan.make(_asked(args))
        client = held.enter_context(cluster.connected(args.cluster)) if args.cluster else None
        held.enter_context(plan.opened(args.out, new))
        show, failed = Show(args.out, new, args.json), {}
        try:
            with stop, show.bars:
                failed = _train(args, new, client, show, stop)
        except KeyboardInterrupt:
            stop.signal = stop.signal or signal.SIGINT
        finally:
            work.end(args.out)
        rows = table.collect(args.out, new, failed)
        table.write(args.out, new, rows)
    if stop():
        show.stopped()
        return 128 + stop.signal
    return _finish(args, args.out, new, rows)


def _asked(args: argparse.Namespace) -> "Asked":
    """The arguments, their texts read."""
    from intnet.sweeps import plan

    baseline = None
    if args.baseline is not None:
        name, *own = _words(args.baseline, "--baseline") or [""]
        baseline = (name, options(own))
    return plan.Asked(
        args.method,
        args.model,
        args.data,
        options(args.set),
        plan.grid(args.vary, "--vary"),
        [plan.grid(_words(text, "--also"), "--also") for text in args.also],
        baseline,
        args.seeds,
        args.batch_size,
        args.limit,
        args.data_dir,
        args.epochs or 1,
        args.steps,
        args.checkpoint_every,
        args.augment,
        args.image_size,
    )


def _words(text: str, option: str) -> list[str]:
    """The words of a text, as a shell would part them."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"{option} {text}: {error}") from None


def _train(
    args: argparse.Namespace, plan: "Plan", client: "Client | None", show: "Show", stop: "Stop"
) -> dict[str, str]:
    """Train what is not done; why runs failed, by name."""
    from intnet.sweeps import cluster, processes, work
    from intnet.sweeps.plan import task

    session, failed = work.begin(args.out), {}
    tasks = [task(args.out, plan, *run, session, args.data_dir) for run in show.pending.values()]
    if client is not None:
        show.start(f"on the cluster at {args.cluster}, workers: {len(client.nthreads())}")
        outcomes = cluster.run(tasks, client)
    else:
        many, share = f"{args.jobs} process{'es' * (args.jobs > 1)}", processes.threads(args.jobs)
        show.start(f"in {many} of {share} thread{'s' * (share > 1)}")
        outcomes = processes.run(tasks, args.jobs)
    with closing(outcomes):
        for outcome in outcomes:
            if stop():
                work.end(args.out)
            show.look()
            if outcome is not None:
                show.ended(outcome)
                if outcome.state == work.FAILED:
                    failed[outcome.name] = outcome.why
    return failed


def _show(args: argparse.Namespace) -> int:
    """What a sweep has come to, without training."""
    given = [f"--{name}" for name in NEEDED if getattr(args, name) is not None]
    if given:
        raise ConfigError(f"{', '.join(given)}: {args.show} says that itself; --show trains nothing")
    from intnet.sweeps import plan, table

    read = plan.read(args.show)
    return _finish(args, args.show, read, table.collect(args.show, read))


def _finish(args: argparse.Namespace, folder: Path, plan: "Plan", rows: "list[Row]") -> int:
    """Draw and print; the exit status."""
    if args.plot is not None:
        from intnet import files
        from intnet.cli import sweep_plot

        files.replace(args.plot, lambda stream: sweep_plot.draw(stream, args.plot, folder, plan, rows))
    if args.json:
        from intnet.sweeps import table

        print(json.dumps(table.result(plan, rows)))
    else:
        from intnet.cli import sweep_text

        sweep_text.show(plan, rows, [] if args.plot is None else [args.plot])
    return 1 if any(row.failed for row in rows) else 0
