"""`intnet costs`: word lengths of a run over time, and what it cost by its method's model.

AdaPT's performance model speaks of float32, adapt and muppet; a run of dynasty is told by `array_run.py`,
what the tape of method saved holds by `tape_run.py`.
"""

import argparse
import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from intnet.cli import output
from intnet.cli.train import positive
from intnet.errors import ConfigError

if TYPE_CHECKING:
    from intnet.cli.costs_read import Logged
    from intnet.costs.adapt_costs import History
    from intnet.training.train import Run

SUMMARY = "what a run cost by its method's model: widths over time and speed-up, or the memory of its tape"
EXAMPLE = """\
  intnet costs runs/adapt
  intnet costs runs/adapt --baseline runs/float32 --plot widths.png
  intnet costs --schedule 16@8,10@12,14@14,14@16,45@32 --model resnet20 --image 32x32x3 --classes 10
  intnet train --method dynasty --model mlp --data digits --epochs 4 --out runs/dynasty
  intnet costs runs/dynasty --accuracy 0.9 --plot widths.png
  intnet costs runs/dynasty --map fc2 --plot fc2.png
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
  bits                 of the final model's weights, really counted: SZ takes all layers as equally large

Without --baseline or --accuracy, float32 trains as many steps of the same batches and its accuracy is not
known: SU, iso-accuracy is '-'. --schedule is one dense network whose word lengths are all alike, without
overhead: EPOCHS@WL, one after another.

A run of dynasty is priced on its bit-serial array (sections 4 and 5 of its paper): a product takes as long
as its dynamic operand is wide. All is against 8 bits everywhere. --baseline is any run on the same data: it
tells the length and the accuracies of training in 8 bits; with --accuracy too, both train to that.

  bits                 mean width of the blocks in use: weights W, activations A; by MACs: weighted by these
  MACs, skipped        multiply-adds of one product of a batch; the share of them in blocks of 0 bits
  r                    relative sensitivity, log2; of a layer the median of its blocks, '-' where all are -inf
  alpha, lambda        the mean width aimed at, and what is taken off r to come there
  exact                mean width before it is smoothed over epochs and rounded to 0, 2, 4, 6, 8 bits
  untuned              the same with lambda = mean(r) - alpha, as before its first tuning
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
TAPE = "saved"  # the method whose tape is told
OF_TAPE = ("method", "set", "batch_size")


@dataclass(frozen=True)
class Shown:
    """What is printed and drawn: a title, widths by `unit`s ('step', 'epoch'), the result for machines."""

    title: str
    unit: str
    history: "History"
    result: dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A run and what it is compared with, or a schedule; the plot."""
    parser.add_argument("folder", nargs="?", metavar="RUN", help="a run's folder; or give a schedule:")
    parser.add_argument(
        "--baseline", metavar="RUN", help="the run to compare with: of float32 (of dynasty: any)"
    )
    parser.add_argument(
        "--accuracy", type=share, metavar="A", help="float32's final accuracy, 0 to 1; dynasty: to reach"
    )
    parser.add_argument("--data-dir", metavar="DIR", help="look for data files there only")
    parser.add_argument("--schedule", type=schedule, metavar="E@WL,..", help="epochs of each word length")
    parser.add_argument("--model", metavar="N", help="with --schedule or --method: the network")
    parser.add_argument("--image", type=image, metavar="HxWxC", help="the same: 32x32x3")
    parser.add_argument("--classes", type=positive, metavar="K", help="the same: classes")
    parser.add_argument(
        "--accs", type=positive, metavar="N", help="with --schedule: steps of one gradient (1)"
    )
    parser.add_argument("--method", metavar="M", help="saved: what the tape of a model holds")
    parser.add_argument(
        "--set", action="append", metavar="KEY=VALUE", help="with --method: an option of it, repeatable"
    )
    parser.add_argument("--batch-size", type=positive, metavar="B", help="with --method: images (128)")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw them: .png, .svg, .pdf")
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
    """Count, print, draw."""
    _check_arguments(args)
    if args.plot is not None:
        output.check_picture("--plot", args.plot)
    if args.method is not None:
        from intnet.cli import tape_run

        return tape_run.of_model(args)
    if args.folder is None:
        shown = _of_schedule(args)
    else:
        from intnet.runs import run_folder

        given = run_folder.load(args.folder, data_dir=args.data_dir)
        if given.method.name == ARRAY:
            from intnet.cli import array_run

            return array_run.run(args, given)
        if given.method.name == TAPE:
            from intnet.cli import tape_run

            _only(args, "data_dir", "json", "debug", "folder", why=f"{args.folder} is a run of {TAPE}")
            return tape_run.of_run(args, given)
        shown = _of_run(args, given)
    if args.plot is not None:
        from intnet.cli import costs_plot
        from intnet.runs import files

        files.replace(args.plot, lambda stream: costs_plot.draw(stream, args.plot, shown))
    if args.json:
        print(json.dumps(shown.result))
        return 0
    from intnet.cli import costs_text

    costs_text.show(shown)
    if args.plot is not None:
        print(f"\nwritten: {args.plot}")
    return 0


def _check_arguments(args: argparse.Namespace) -> None:
    """ConfigError unless they are those of a run or those of a schedule."""
    names = (*SCHEDULED, "accs")
    if args.method is not None:
        return _only(args, *OF_TAPE, *SCHEDULED, "json", why=f"--method {args.method}")
    given = [f"--{name.replace('_', '-')}" for name in OF_TAPE if getattr(args, name) is not None]
    if given:
        raise ConfigError(f"{', '.join(given)}: goes with --method saved")
    if args.folder is not None:
        given = [f"--{name}" for name in ("schedule", *names) if getattr(args, name) is not None]
        if given:
            raise ConfigError(f"{', '.join(given)}: {args.folder} says that itself; give RUN or --schedule")
        return
    if args.schedule is None:
        raise ConfigError("give the folder of a run, or --schedule")
    given = [f"--{name}" for name in ("baseline", "accuracy", "map") if getattr(args, name) is not None]
    if given:
        why = "a schedule has no accuracy; its baseline is float32, equally long"
        raise ConfigError(f"{given[0]}: {why if given[0] != '--map' else 'only a run of dynasty has maps'}")
    missing = [f"--{name}" for name in SCHEDULED if getattr(args, name) is None]
    if missing:
        raise ConfigError(f"--schedule needs {', '.join(missing)}")


def _only(args: argparse.Namespace, *names: str, why: str) -> None:
    """ConfigError for an argument that is given and is none of `names`."""
    able = (
        "folder",
        "baseline",
        "accuracy",
        "schedule",
        *SCHEDULED,
        "accs",
        *OF_TAPE,
        "plot",
        "map",
        "data_dir",
    )
    given = [name for name in able if getattr(args, name) is not None and name not in names]
    if given:
        shown = ", ".join("RUN" if name == "folder" else f"--{name.replace('_', '-')}" for name in given)
        raise ConfigError(f"{why}, which does not go with {shown}")


def _of_schedule(args: argparse.Namespace) -> Shown:
    """Dense, one word length for all layers, an epoch as one step."""
    from intnet import models
    from intnet.costs import adapt_costs

    sizes = adapt_costs.layer_sizes(models.make(args.model, args.image, args.classes))
    history = adapt_costs.dense(sizes, args.schedule, accs=args.accs or 1)
    baseline = adapt_costs.float32(sizes, history.steps, accs=history.accs)
    text = ", ".join(f"{epochs} of {width} bits" for epochs, width in args.schedule)
    sides = "x".join(map(str, args.image))
    title = f"{args.model}, images of {sides}, {args.classes} classes, accs {history.accs}; epochs: {text}"
    told = {
        "schedule": args.schedule,
        "model": args.model,
        "image_shape": args.image,
        "classes": args.classes,
        "accs": history.accs,
    }
    summary = dataclasses.asdict(adapt_costs.summary(history, baseline))
    return Shown(title, "epoch", history, told | {"summary": summary} | _widths(history))


def _of_run(args: argparse.Namespace, given: "Run") -> Shown:
    """A run against its baseline, or against float32 for as long."""
    from intnet.cli import costs_read
    from intnet.costs import adapt_costs
    from intnet.runs import report, run_folder

    if args.map is not None:
        raise ConfigError(f"--map: {args.folder} is a run of {given.method.name}; one of dynasty has maps")
    if args.baseline is not None and args.accuracy is not None:
        raise ConfigError("--accuracy is not allowed with --baseline, which tells float32's accuracy itself")
    logged = costs_read.read(args.folder, given)
    own, history = logged.identity, logged.history
    wanted, base, against = args.accuracy, history, "float32 for as many steps"
    if args.baseline is not None:
        other = costs_read.read(args.baseline, run_folder.load(args.baseline, data_dir=args.data_dir))
        _check_baseline(args.baseline, own, other)
        wanted, base, against = other.accuracy, other.history, args.baseline
    baseline = adapt_costs.float32(history.layers, base.steps, base.batch_size, history.accs)
    iso = adapt_costs.iso_step(logged.tested, wanted)
    summary = dataclasses.asdict(adapt_costs.summary(history, baseline, iso))
    measured = logged.switch_seconds
    if measured is not None:
        measured = measured / logged.step_seconds if logged.step_seconds else None
    title = (
        f"{report.title(own)}: {history.steps:,} steps of {history.batch_size} images, accs {history.accs}; "
        f"against {against}"
    )
    result = {
        "run": args.folder,
        "baseline": args.baseline,
        "method": own["method"],
        "model": own["model"],
        "data": own["data"],
        "steps": history.steps,
        "batch_size": history.batch_size,
        "accs": history.accs,
        "accuracy": logged.accuracy,
        "float32_accuracy": wanted,
        "summary": summary | {"measured_overhead": measured},
    }
    return Shown(title, "step", history, result | _widths(history))


def _check_baseline(folder: str, own: dict[str, Any], other: "Logged") -> None:
    """ConfigError unless the other run is one of float32, of the same model and data."""
    theirs = other.identity
    if theirs["method"] != "float32":
        raise ConfigError(f"--baseline {folder}: a run of {theirs['method']}; the baseline is one of float32")
    check_same(folder, own, theirs)


def check_same(
    folder: str,
    own: dict[str, Any],
    theirs: dict[str, Any],
    keys: tuple[str, ...] = ("model", "data", "image_shape", "classes"),
) -> None:
    """ConfigError unless the other run's identity has the same keys."""
    for key in keys:
        if theirs[key] != own[key]:
            raise ConfigError(f"--baseline {folder}: its {key} is {theirs[key]}, the run's is {own[key]}")


def _widths(history: "History") -> dict[str, Any]:
    """Layer by layer: the row of each, and where its word length moved."""
    from intnet.costs import adapt_costs

    moves = zip(adapt_costs.rows(history), adapt_costs.changes(history), strict=True)
    return {"layers": [dataclasses.asdict(row) | {"changes": changes} for row, changes in moves]}
