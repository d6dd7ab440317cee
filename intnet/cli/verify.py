"""`intnet verify`: one step of a run, every data path of every layer, held to the definition."""

import argparse
import dataclasses
import json
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from intnet.cli import options, source

if TYPE_CHECKING:
    from intnet.training.train import Run
    from intnet.verify.row import Row
    from intnet.verify.work import Totals

SUMMARY = "recompute a step's every data path by the definition, on stored operands"
FILE, INFERENCE_FILE = "verify.json", "verify-inference.json"
ELEMENTS, STEPS = 200, 3
EXAMPLE = """\
  intnet verify runs/first
  intnet verify --method wageubn --model mlp --data digits
  intnet verify --method adapt --model resnet8 --data digits --step 50 --layer 'layer1.*'
  intnet verify --method saved --model lenet5 --data digits --all --out lenet5.json
  intnet verify runs/first --inference

RUN goes on from its last checkpoint by one step, or to --step T, and nothing of it is changed; without RUN a
new model is trained from its seed to --step (3). That last step runs on the real fast code while its dataflow
is recorded, and once more as training runs it, which must end in the same digest. Then every path is computed
again by intnet.spec, in Python's integers and fractions: sums of products, means and roots, roundings with
their random words, gradients, the update of every parameter, the images and their order. Operands are what
the step stored; expressions between two stored tensors are not believed, but made again from what is stored.
Row wiring: the layers' operations ran, with their windows, and all that was made was stored and read.

With --inference no step is taken after --step T (of RUN its last checkpoint): test batch K, of 256 images in
order, is verified instead, from its bytes to the class of every image.

Of each path --elements N are drawn (200) by --draw SEED, and the greatest, the least, zeros, saturated codes
and those nearest to a tie besides; all where they are few, or with --all. Sums over a whole channel or batch
that batch norm needs are made in full: integers by the definition, float32 by NumPy in the definition's
order, one of each path by the definition's own integers too ('by NumPy, 1').

  state   equal; differs; not specified: an operation or method that names no definition (Op.spec,
          Method.spec), or what the definition does not reach, with the reason below

Results are kept layer by layer in RUN/verify.json (of inference in RUN/verify-inference.json) or in --out
FILE: a second call goes on where one was stopped.
Exit status 0: no difference, 1: a difference; the first one is shown with its trail."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A run or a new model, which elements, where the results go."""
    parser.add_argument("folder", nargs="?", metavar="RUN", help="a run's folder; or name a new model:")
    source.add_arguments(parser)
    parser.add_argument(
        "--inference", type=_batch, nargs="?", const=1, metavar="K",
        help="test batch K (1) of 256 images after --step T in place of a training step",
    )  # fmt: skip
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument(
        "--elements", type=options.positive, default=ELEMENTS, metavar="N", help="of each path (200)"
    )
    chosen.add_argument("--all", action="store_true", help="every element: hours for more than a small net")
    parser.add_argument("--draw", type=int, default=0, metavar="SEED", help="of the draw of elements (0)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="keep results here; default RUN/verify.json")


def run(args: argparse.Namespace) -> int:
    """Take the step and verify it."""
    if args.out is not None:
        options.check_file("--out", args.out)
    started = perf_counter()
    verified = source.run(args)
    step = _step(args, verified)
    from intnet.cli import terminal
    from intnet.runs.identity import identity
    from intnet.show.bars import bar
    from intnet.verify import text, work
    from intnet.verify.row import Options
    from intnet.verify.taken import take, take_inference

    chosen = Options(None if args.all else args.elements, args.draw)
    kept = INFERENCE_FILE if args.inference else FILE
    path = args.out if args.out is not None else Path(args.folder) / kept if args.folder else None
    train = partial(terminal.advance, observers=())
    if args.inference:
        taken = take_inference(verified, step, args.inference, train)
    else:
        taken = take(verified, step, train)
    with bar("verifying") as move:
        rows = work.verify(
            taken, chosen, args.layer, path, identity(verified),
            lambda layer, done, total: move(note=layer, completed=done, total=total),
        )  # fmt: skip
    found = work.totals(rows, started)
    if args.json:
        print(json.dumps(_result(args, verified, step, taken.digest, rows, found)))
    else:
        text.show(verified, step, args.inference, rows, found)
    return 1 if found.differing else 0


def _batch(text: str) -> int:
    """The number of a test batch, for argparse."""
    try:
        return options.positive(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}; a RUN stands ahead of --inference") from None


def _step(args: argparse.Namespace, verified: "Run") -> int:
    """The step to take, or that inference stands behind."""
    if args.inference and args.folder and args.step in (None, verified.step):
        return verified.step
    return source.step(args, verified) if args.step or args.folder else STEPS


def _result(
    args: argparse.Namespace, verified: "Run", step: int, digest: str, rows: "list[Row]", found: "Totals"
) -> dict[str, Any]:
    """The JSON object."""
    from intnet import spec

    return source.facts(args, verified, step) | {
        "inference": args.inference,
        "definition": spec.VERSION,
        "state_sha256": digest,
        "equal": not found.differing,
        "totals": dataclasses.asdict(found) | {"share": found.share},
        "paths": [row.to_dict() for row in rows],
    }
