"""Training the runs of a plan and showing what they came to: what `sweep` and `compare` have in common.

    conduct(args, needed, ask, view)    the whole command: `ask` reads the arguments into a plan's `Asked`, a
                                        `View` writes, draws and prints the results

`args` are those of `add_arguments`, and --json; `quiet` where the command has it.
"""

import argparse
import json
import signal
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from intnet.cli import output
from intnet.cli.train import DEFAULTS, add_length, add_saving, add_settings, given, positive
from intnet.errors import ConfigError

if TYPE_CHECKING:
    from distributed import Client

    from intnet.cli.sweep_text import Show
    from intnet.cli.terminal import Stop
    from intnet.sweeps.plan import Asked, Part, Plan
    from intnet.sweeps.table import Row

OF_TRAINING = (  # what --show leaves no use for
    *("vary", "also", "baseline", "with", "set", "seeds", "epochs", "steps", "batch_size", "limit"),
    *("augment", "image_size", "data_dir", "checkpoint_every", "jobs", "cluster"),
)


@dataclass(frozen=True)
class View:
    """How results are seen; each function takes (folder, plan, rows), and what else it needs.

    write: the tables in the folder; result: for --json; show: on stdout, with the names of files written;
    draw: into a stream, in the format of a file's name
    """

    write: "Callable[[Path, Plan, Sequence[Row]], None]"
    result: "Callable[[Path, Plan, Sequence[Row]], dict[str, Any]]"
    show: "Callable[[Path, Plan, Sequence[Row], Sequence[Path]], None]"
    draw: "Callable[[BinaryIO, Path, Path, Plan, Sequence[Row]], None]"


def add_arguments(
    need: argparse._ArgumentGroup, points: argparse._ArgumentGroup, how: argparse._ArgumentGroup
) -> None:
    """Folders, seeds, lengths, where runs are trained, the picture."""
    need.add_argument("--out", type=Path, metavar="DIR", help="the folder: new, or to go on with")
    need.add_argument("--show", type=Path, metavar="DIR", help="instead: what a folder has come to so far")
    points.add_argument(
        "--seeds", type=seeds, default=DEFAULTS["seeds"], metavar="K1,K2,..", help="of every point (1)"
    )
    add_length(how, "1 unless told")
    add_settings(how)
    add_saving(how)
    where = how.add_mutually_exclusive_group()
    where.add_argument(
        "--jobs", type=positive, default=DEFAULTS["jobs"], metavar="J", help="runs at a time, processes (1)"
    )
    where.add_argument("--cluster", metavar="ADDRESS", help="a Dask scheduler, tcp://HOST:PORT")
    how.add_argument("--plot", type=Path, metavar="FILE", help="draw the results: .png, .svg, .pdf")


def asked(args: argparse.Namespace, parts: "Sequence[Part]", settings: dict[str, str]) -> "Asked":
    """The plan that is asked for: rows and their common settings, and the rest as `args` have it."""
    from intnet.sweeps import plan

    return plan.Asked(
        parts,
        args.model,
        args.data,
        settings,
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


def seeds(text: str) -> list[int]:
    """'1,2,3' as numbers, for argparse."""
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of whole numbers, as 1,2,3") from None
    if len(set(found)) < len(found):
        raise argparse.ArgumentTypeError(f"{text!r} has a seed twice")
    return found


def conduct(
    args: argparse.Namespace,
    needed: Sequence[str],
    ask: "Callable[[argparse.Namespace], Asked]",
    view: Callable[[], View],
) -> int:
    """Plan, train what is not done, show the results; the exit status."""
    if args.plot is not None:
        output.check_picture("--plot", args.plot)
    if args.show is not None:
        return _show(args, needed, view)
    missing = [f"--{name}" for name in needed if getattr(args, name) is None]
    if missing:
        raise ConfigError(f"give {', '.join(missing)} (or --show DIR, to see what one has come to)")
    from intnet.cli.sweep_text import Show
    from intnet.cli.terminal import Stop
    from intnet.sweeps import cluster, plan, table, work

    stop, shown = Stop(), view()
    with ExitStack() as held:
        new = plan.make(ask(args))
        client = held.enter_context(cluster.connected(args.cluster)) if args.cluster else None
        held.enter_context(plan.opened(args.out, new))
        show, failed = Show(args.out, new, args.json or getattr(args, "quiet", False)), {}
        try:
            with stop, show.bars:
                failed = _train(args, new, client, show, stop)
        except KeyboardInterrupt:
            stop.signal = stop.signal or signal.SIGINT
        finally:
            work.end(args.out)
        rows = table.collect(args.out, new, failed)
        shown.write(args.out, new, rows)
    if stop():
        show.stopped()
        return 128 + stop.signal
    return _finish(args, args.out, new, rows, shown)


def _train(
    args: argparse.Namespace, plan: "Plan", client: "Client | None", show: "Show", stop: "Stop"
) -> dict[str, str]:
    """Train what is not done; why runs failed, by name."""
    from intnet.sweeps import cluster, processes, work
    from intnet.sweeps.plan import task

    session, failed = work.begin(args.out), {}
    tasks = [task(args.out, plan, *run, session, args.data_dir, args.jobs) for run in show.pending.values()]
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


def _show(args: argparse.Namespace, needed: Sequence[str], view: Callable[[], View]) -> int:
    """What the runs have come to, without training."""
    said = given(args, (*needed, *OF_TRAINING))
    if said:
        raise ConfigError(f"{', '.join(said)}: {args.show} says that itself; --show trains nothing")
    from intnet.sweeps import plan, table

    read = plan.read(args.show)
    rows = table.collect(args.show, read, table.failures(args.show))
    return _finish(args, args.show, read, rows, view())


def _finish(args: argparse.Namespace, folder: Path, plan: "Plan", rows: "list[Row]", view: View) -> int:
    """Draw and print; the exit status."""
    if args.plot is not None:
        from intnet.runs import files

        files.replace(args.plot, lambda stream: view.draw(stream, args.plot, folder, plan, rows))
    if args.json:
        print(json.dumps(view.result(folder, plan, rows)))
    else:
        view.show(folder, plan, rows, [] if args.plot is None else [args.plot])
    return 1 if any(row.failed for row in rows) else 0
