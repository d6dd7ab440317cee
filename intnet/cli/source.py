"""Where `inspect` and `golden` take their step from: a run's folder, or a new model from its seed."""

import argparse
from typing import TYPE_CHECKING

from intnet.cli.train import add_details, add_names, options, positive
from intnet.errors import ConfigError

if TYPE_CHECKING:
    from intnet.train import Run


def add_arguments(parser: argparse.ArgumentParser, layer_needed: bool) -> None:
    """A new model, the step, the layers."""
    add_names(parser, required=False)
    add_details(parser)
    parser.add_argument("--step", type=positive, metavar="T", help="the step to take, from 1 (the next one)")
    parser.add_argument(
        "--layer", required=layer_needed, metavar="PATTERN", help="names of layers, * ? [] as in a shell"
    )


def run(args: argparse.Namespace) -> "Run":
    """The run in `args.folder` at its last checkpoint, or a new one."""
    from intnet import runs

    named = [name for name in ("method", "model", "data") if getattr(args, name) is not None]
    if args.folder is not None:
        given = [f"--{name}" for name in named] + ["--set"] * bool(args.set)
        images = ("limit", "augment", "image_size")
        given += [f"--{key.replace('_', '-')}" for key in images if getattr(args, key)]
        if given:
            raise ConfigError(f"{', '.join(given)}: {args.folder} says that itself; give RUN or a new model")
        return runs.load(args.folder, data_dir=args.data_dir)
    missing = [f"--{name}" for name in ("method", "model", "data") if name not in named]
    if missing:
        raise ConfigError(f"give the folder of a run, or {', '.join(missing)}")
    names = (args.method, options(args.set), args.model, args.data)
    details = (args.batch_size, args.seed, args.limit, args.data_dir, args.augment, args.image_size)
    return runs.build(*names, *details)


def step(args: argparse.Namespace, given: "Run") -> int:
    """The number of the step to take; ConfigError where the run is past it."""
    wanted: int = args.step or given.step + 1
    if wanted <= given.step:
        raise ConfigError(f"--step {wanted}: the run has done {given.step} steps; give a later one or none")
    return wanted


def matching(names: list[str], pattern: str, kind: str) -> list[str]:
    """The names that match; ConfigError lists what there is."""
    import fnmatch

    found = [name for name in dict.fromkeys(names) if fnmatch.fnmatchcase(name, pattern)]
    if not found:
        raise ConfigError(f"no {kind} matches {pattern!r}; there are {', '.join(dict.fromkeys(names))}")
    return found
