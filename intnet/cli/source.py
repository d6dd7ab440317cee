"""Where `inspect` and `golden` take their step from: a run's folder, or a new model from its seed."""

import argparse
from typing import TYPE_CHECKING, Any

from intnet.cli import options
from intnet.errors import ConfigError

if TYPE_CHECKING:
    from intnet.training.train import Run

NAMES = ("method", "model", "data")
OF_THE_RUN = (*NAMES, "seed", "batch_size", "set", "limit", "augment", "image_size")  # a folder has them


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A new model, the step, the layers."""
    options.add(parser, *options.NAMES, "--seed", *options.SETTINGS)
    parser.add_argument(
        "--step", type=options.positive, metavar="T", help="the step to take, from 1 (of a run the next one)"
    )
    parser.add_argument(
        "--layer",
        action=options.Once,
        metavar="PATTERN",
        help="names of layers, * ? [] as in a shell",
    )


def run(args: argparse.Namespace) -> "Run":
    """The run in `args.folder` at its last checkpoint, or a new one."""
    from intnet.runs import run_folder

    if args.folder is not None:
        options.refuse(args, OF_THE_RUN, f"{args.folder} says that itself; give RUN or a new model")
        return run_folder.load(args.folder, data_dir=args.data_dir)
    options.need(args, NAMES, "give the folder of a run, or {}")
    names = (args.method, options.settings(args.set), args.model, args.data)
    details = (args.batch_size, args.seed, args.limit, args.data_dir, args.augment, args.image_size)
    return run_folder.build(*names, *details)


def step(args: argparse.Namespace, taken: "Run") -> int:
    """The number of the step to take; ConfigError where the run is past it."""
    wanted: int = args.step or taken.step + 1
    if wanted <= taken.step:
        raise ConfigError(f"--step {wanted}: the run has done {taken.step} steps; give a later one or none")
    return wanted


def facts(args: argparse.Namespace, taken: "Run", step: int) -> dict[str, Any]:
    """What `--json` says of the run and its step."""
    names = {"method": taken.method.name, "model": taken.model.kind, "data": taken.data.name}
    return {"run": args.folder, **names, "seed": taken.seed, "step": step}


def matching(names: list[str], pattern: str, kind: str) -> list[str]:
    """The names that match; ConfigError lists what there is."""
    import fnmatch

    found = [name for name in dict.fromkeys(names) if fnmatch.fnmatchcase(name, pattern)]
    if not found:
        raise ConfigError(f"no {kind} matches {pattern!r}; there are {', '.join(dict.fromkeys(names))}")
    return found
