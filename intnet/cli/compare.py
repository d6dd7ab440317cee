"""`intnet compare`: the same network, data and seeds under several methods, as one table.

A comparison is a sweep (`intnet/sweeps/`) whose points have different methods: the same folder, restarts and
executors. What it shows of a run: `sweeps/figures.py`; the table: `sweeps/compared.py`; the picture:
`sweeps/plots.py`.
"""

import argparse
from typing import TYPE_CHECKING

from intnet.cli import options
from intnet.cli.sweep import add_training, asked, carry_out, point
from intnet.errors import ConfigError

if TYPE_CHECKING:
    from intnet.sweeps.plan import Asked, Part

SUMMARY = "train several methods on the same network, data and seeds, into one table"
EXAMPLE = """\
  intnet compare --methods float32,wageubn,adapt,muppet,dynasty,saved --model mlp --data digits --epochs 4 \\
      --seeds 1,2 --with 'wageubn lr=26,6@3' --with 'saved bits=2' --with 'saved bits=2/4' \\
      --plot compare.png --out runs/compare
  intnet compare --show runs/compare --plot compare.pdf

  --methods M1,M2,..    a row each, in this order; all: every method there is
  --with 'M K=V ..'     settings of one method, on top of --set; the same method twice gives two rows
  --set KEY=VALUE       given to each method that knows the key

Without --with and --set a method trains with its own defaults, whatever the length: its learning rate above
all is worth a look (`intnet list`).

The same command again goes on, also after kill -9: runs that are done are kept, others go on from their
checkpoint. With more methods, settings, seeds, epochs or steps in it the comparison grows; anything else is
refused. A run that fails is told in the table, the others go on, exit status 1. Every run is a folder in
DIR/runs that the other commands read: `intnet costs 'DIR/runs/NAME'` says more of its word lengths.

--jobs trains so many runs at a time, each in a process with its share of the threads, --cluster on the
workers of a Dask scheduler (see `intnet sweep --help`): no bit depends on it, but images/s and peak memory
do. DIR has the plan (sweep.json), table.md, table.csv (a line a run) and table.json. The last line of stdout
is 'compare sha256: HEX', over the states and accuracies of all runs that are done."""

NEEDED = ("methods", "model", "data", "out")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to train, the rows, and where it runs."""
    need = parser.add_argument_group("what to train")
    need.add_argument(
        "--methods",
        metavar="M1,M2,..",
        help="wageubn, adapt, muppet, dynasty, saved, banner, mx, float32; all",
    )
    options.add(need, "--model", "--data")
    rows = parser.add_argument_group("rows")
    rows.add_argument(
        "--with",
        action="append",
        default=[],
        metavar="'M K=V ..'",
        help="settings of one method, repeatable",
    )
    how = parser.add_argument_group("how")
    add_training(need, rows, how)
    how.add_argument("--quiet", action="store_true", help="nothing but the results")


def run(args: argparse.Namespace) -> int:
    """Plan, train what is not done, show the table."""

    def ask(args: argparse.Namespace) -> "Asked":
        return asked(args, parts(args.methods, getattr(args, "with")), options.settings(args.set))

    return carry_out(args, NEEDED, ask)


def parts(methods: str, own: list[str]) -> "list[Part]":
    """A point a method, or one for each text 'M K=V ..' that names it; ConfigError for what fits neither."""
    from intnet.methods import METHODS
    from intnet.sweeps.plan import Part

    names = list(METHODS) if methods == "all" else [name.strip() for name in methods.split(",")]
    if not all(names):
        raise ConfigError(f"--methods {methods}: a name is empty: write M1,M2")
    for name in names:
        METHODS.find(name)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(
            f"--methods {methods}: {twice} is given twice: --with '{twice} K=V' makes further rows"
        )
    given = [point(text, "--with") for text in own]
    stray = next((part for part in given if part.method not in names), None)
    if stray is not None:
        raise ConfigError(f"--with '{stray.method} ..': no method of --methods {methods}: name it there too")
    return [part for name in names for part in [one for one in given if one.method == name] or [Part(name)]]
