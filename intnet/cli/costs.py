"""`intnet costs`: word lengths of a run over time, and what it cost by its method's model.

By the models of `papers/costs/`: AdaPT's speaks of float32, adapt and muppet (`adapt_report.py`), DYNASTY's
of its own runs (`dynasty_report.py`); of method saved it is what the tape holds (`saved_costs.py`).
"""

import argparse
import dataclasses
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from intnet.cli import options
from intnet.cli.options import positive
from intnet.errors import ConfigError

if TYPE_CHECKING:
    from intnet.papers.costs.report import Report
    from intnet.training.train import Run

SUMMARY = "what a run cost by its method's model: widths over time and speed-up, or the memory of its tape"
EXAMPLE = """\
  intnet costs runs/adapt
  intnet costs runs/adapt --baseline runs/float32 --plot widths.png
  intnet costs --schedule 16@8,10@12,14@14,14@16,45@32 --model resnet20 --image 32x32x3 --classes 10
  intnet train --method dynasty --model mlp --data digits --epochs 4 --out runs/dynasty
  intnet costs runs/dynasty --accuracy 0.9 --plot widths.png
  intnet costs runs/dynasty --map fc2 --plot fc2.png
  intnet costs runs/bits6 runs/bits4 runs/bits2 --baseline runs/float32 --plot bits.png
  intnet costs --method saved --set bits=4 --model efficientnetv2 --image 32x32x3 --classes 10

The model (Kummer et al., "Adaptive Precision Training", first version, section 4.1.2) counts multiply-adds
times bits. It speaks of float32 and of methods whose word lengths move while they train.

  WL, FL               word length, and how many bits of it are fraction (MuPPET: the scale, 2^-FL a step)
  up, down             how often the word length grew and shrank;  lb, r: lookback and resolution
  sparsity             share of the weights that are zero, over the run and in the final model, which the
                       last update leaves: it may be of other word lengths than the last step, 'last'
  SU                   float32's cost of training over this one's, its overhead counted; 2 is twice as fast
  overhead             share of the precision switches in that cost; measured: in the time of all steps
  as printed           the same by the paper's formula, which counts a step's overhead for every image
  SU, iso-accuracy     as SU, but training ends with the first epoch that reaches float32's final accuracy
  SU, inference        of one image with the final model: forward only
  SZ                   word length times density of the final model, mean over layers, over 32
  MEM                  the same over training and with the float32 copy that is kept, over 32; above 1 is more
  as later             MEM as the paper's peer-reviewed version counts
  bits                 of the final model's weights, really counted: SZ takes all layers as equally large

Without --baseline or --accuracy, float32 trains as many steps of the same batches and its accuracy is not
known: SU, iso-accuracy is '-'. --schedule is one dense network whose word lengths are all alike, without
overhead: EPOCHS@WL, one after another.

A run of dynasty is priced on its bit-serial array (sections 4 and 5 of its paper): a product takes as long
as its dynamic operand is wide. All is against 8 bits everywhere. --baseline is any run on the same data: it
tells the length and the accuracies of training in 8 bits; with --accuracy too, both train to that.

Several runs of dynasty stand side by side: time and energy of each, in epochs of the array at 8 bits, and up
to the accuracy; the baseline takes 8 bits everywhere. --plot draws accuracy over time and energy by part.

  bits                 mean width of the blocks in use: weights W, activations A; by MACs: weighted by these
  MACs, skipped        multiply-adds of one product of a batch; the share of them in blocks of 0 bits
  r                    relative sensitivity, log2; of a layer the median of its blocks, '-' where all are -inf
  alpha, lambda        the mean width aimed at, and what is taken off r to come there
  exact                mean width before it is smoothed over epochs and rounded to 0, 2, 4, 6, 8 bits
  untuned              the same with the estimate of lambda, mean(r) - alpha, as before its first tuning
  noise                mean square change of the loss by rounding: map before, after, one width everywhere
  factor, as long      noise of one width over that of the map: as many bits in the mean; as much time
  time, energy         over the array's at 8 bits; by step: the module's energy as the same in every step
  iso-accuracy         up to the first epoch that reaches the accuracy, over 8 bits for the baseline's epochs

Of method saved it tells what the tape holds for the gradients: of a run, value by value, in one more step,
which is not kept; of a model (--method saved) by blocks, for --batch-size images.

  b, bits              nominal bits of a code; what an element takes, scales and zero points counted
  codes, found         different codes that there are (of a mix: of the wider), and that occur
  clipped              codes limited to 0 .. 2^b - 1: these are not unbiased
  b/8*N, saved         the memory model without metadata, and float32's memory less that
  on the tape          all that gradients read in a block: the inputs of its convolutions and batch norms

--plot draws sensitivities by layer (figure 3), widths with and without tuning (5), their fluctuation with and
without smoothing (4), time and noise; --map draws the widths of one layer's blocks, as they are in use."""

SCHEDULED = ("model", "image", "classes")
ARRAY = "dynasty"  # the method that is priced on a bit-serial array
OF_TAPE = ("method", "set", "batch_size")
ALL = (
    *("folder", "baseline", "accuracy", "schedule", *SCHEDULED, "accs", *OF_TAPE),
    *("plot", "map", "data_dir"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A run and what it is compared with, or a schedule; the plot."""
    parser.add_argument(
        "folders", nargs="*", metavar="RUN", help="a run's folder, of dynasty several; or give a schedule:"
    )
    parser.add_argument(
        "--baseline", metavar="RUN", help="the run to compare with: of float32 (of dynasty: any)"
    )
    parser.add_argument(
        "--accuracy", type=share, metavar="A", help="float32's final accuracy, 0 to 1; dynasty: to reach"
    )
    options.add(parser, "--data-dir")
    parser.add_argument("--schedule", type=schedule, metavar="E@WL,..", help="epochs of each word length")
    options.add(parser, "--model", help="with --schedule or --method: the network")
    parser.add_argument("--image", type=image, metavar="HxWxC", help="the same: 32x32x3")
    parser.add_argument("--classes", type=positive, metavar="K", help="the same: classes")
    parser.add_argument(
        "--accs", type=positive, metavar="N", help="with --schedule: steps of one gradient (1)"
    )
    options.add(parser, "--method", help="saved: what the tape of a model holds")
    options.add(parser, "--set", default=None, help="with --method: an option of it, repeatable")
    options.add(parser, "--batch-size", default=None, help="with --method: images (128)")
    options.add(parser, "--plot", help="draw them: .png, .svg, .pdf")
    parser.add_argument("--map", metavar="LAYER", help="dynasty, with --plot: draw this layer's map instead")


def share(text: str) -> float:
    """'0.95' as a number, for argparse."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no share: write 95 % as 0.95")
    return number


def schedule(text: str) -> list[tuple[int, int]]:
    """'16@8,45@32' as (epochs, WL), for argparse."""
    found = []
    for part in text.split(","):
        epochs, at, width = (word.strip() for word in part.partition("@"))
        whole = all(word.isascii() and word.isdecimal() for word in (epochs, width))
        if not (at and whole and 1 <= int(epochs) <= 100_000 and 1 <= int(width) <= 32):
            raise argparse.ArgumentTypeError(
                f"{part!r} is not EPOCHS@WL, 1 to 100,000 epochs of 1 to 32 bits, as in 16@8,45@32"
            )
        found.append((int(epochs), int(width)))
    return found


def image(text: str) -> tuple[int, int, int]:
    """'32x32x3' as numbers, for argparse."""
    sides = text.split("x")
    if len(sides) != 3 or not all(s.isascii() and s.isdecimal() and 1 <= int(s) <= 4096 for s in sides):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no image: write height, width, channels, as in 32x32x3"
        )
    height, width, channels = map(int, sides)
    return height, width, channels


def run(args: argparse.Namespace) -> int:
    """Count, draw, print."""
    args.folder, *args.others = args.folders or [None]
    _check_arguments(args)
    options.check_picture(args.plot)
    report = _report(args)
    options.write_picture(args.plot, report.draw)
    if args.json:
        print(json.dumps(report.result))
        return 0
    report.show()
    if args.plot is not None:
        print(f"\nwritten: {args.plot}")
    return 0


def _report(args: argparse.Namespace) -> "Report":
    """By the model that speaks of what is given."""
    from intnet.papers.costs import adapt_report, dynasty_report, saved_costs

    if args.method is not None:
        network = (args.model, args.image, args.classes)
        return saved_costs.of_model(
            args.method, options.settings(args.set or []), *network, args.batch_size or 128
        )
    if args.others:
        from intnet.papers.costs import dynasty_runs

        return dynasty_runs.of_runs(args.folders, args.baseline, args.accuracy, args.data_dir)
    if args.folder is None:
        return adapt_report.of_schedule(args.model, args.image, args.classes, args.schedule, args.accs or 1)
    from intnet import methods
    from intnet.runs import run_folder

    given = run_folder.load(args.folder, data_dir=args.data_dir)
    name = given.method.name
    if isinstance(given.method, methods.Saved):
        _only(args, "data_dir", "folder", why=f"{args.folder} is a run of {name}")
        return saved_costs.of_run(args.folder, given)
    against = (args.baseline, args.accuracy, args.data_dir)
    if isinstance(given.method, methods.METHODS[ARRAY]):
        layer_map = None if args.map is None else _layer_map(args, given)
        report = dynasty_report.of_run(args.folder, given, *against)
        return report if layer_map is None else dataclasses.replace(report, draw=layer_map)
    if args.map is not None:
        raise ConfigError(f"--map: {args.folder} is a run of {name}; one of dynasty has maps")
    if args.baseline is not None and args.accuracy is not None:
        raise ConfigError("--accuracy is not allowed with --baseline, which tells float32's accuracy itself")
    return adapt_report.of_run(args.folder, given, *against)


def _layer_map(args: argparse.Namespace, given: "Run") -> "Callable[[BinaryIO, Path], None]":
    """What draws one layer's map."""
    from intnet.errors import unknown
    from intnet.papers.costs import plots

    if args.plot is None:
        raise ConfigError("--map draws: name the picture with --plot FILE")
    names = [layer.name for layer in given.model.all_layers() if layer.takes_weight]
    if args.map not in names:
        raise unknown("weight layer", args.map, names)
    return partial(plots.layer_map, run=given, name=args.map)


# -- which arguments go together ---------------------------------------------------------------


def _check_arguments(args: argparse.Namespace) -> None:
    """ConfigError unless they are those of a run, of a schedule, or of a method's model."""
    if args.method is not None:
        _only(args, *OF_TAPE, *SCHEDULED, why=f"--method {args.method}")
        return options.need(args, SCHEDULED, "--method needs {}")
    options.refuse(args, OF_TAPE, "goes with --method saved")
    if args.folder is not None:
        itself = f"{args.folder} says that itself; give RUN or --schedule"
        options.refuse(args, ("schedule", *SCHEDULED, "accs"), itself)
        if args.others and args.map is not None:
            raise ConfigError("--map draws a layer of one run: give one RUN")
        return None
    if args.schedule is None:
        raise ConfigError("give the folder of a run, or --schedule")
    given = options.given(args, ("baseline", "accuracy", "map"))
    if given:
        why = "a schedule has no accuracy; its baseline is float32, equally long"
        raise ConfigError(f"{given[0]}: {why if given[0] != '--map' else 'only a run of dynasty has maps'}")
    return options.need(args, SCHEDULED, "--schedule needs {}")


def _only(args: argparse.Namespace, *names: str, why: str) -> None:
    """ConfigError for an argument that is given and is none of `names`."""
    given = options.given(args, [name for name in ALL if name not in names])
    if given:
        raise ConfigError(f"{why}, which does not go with {', '.join(given)}")
