"""`intnet resume`: go on with a run from its last checkpoint, bit for bit."""

import argparse

from intnet.cli import options

SUMMARY = "go on with a run that was stopped, killed or finished, bit for bit"
EXAMPLE = """\
  intnet resume runs/first
  intnet resume runs/first --epochs 10

Steps and epochs count from the start of the run: the state after S steps is that of an unbroken run."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The folder, and how far to go."""
    parser.add_argument("folder", metavar="RUN", help="the run's folder")
    options.add_length(parser, "default: as planned")
    options.add(parser, "--data-dir", help="look for data files there only, if they moved")
    options.add(parser, "--stats", "--stats-every")


def run(args: argparse.Namespace) -> int:
    """Lock the folder, load its checkpoint and train."""
    from intnet.cli import terminal
    from intnet.runs import many_ranks

    options.check_stats(args.stats, args.stats_every)
    with many_ranks.resume(args.folder, args.steps, args.epochs, args.data_dir) as work:
        return terminal.train(work, args)
