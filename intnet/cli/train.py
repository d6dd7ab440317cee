"""`intnet train`: a new run in a new folder."""

import argparse
from collections.abc import Iterable
from typing import Any

from intnet.errors import ConfigError

# what options come to that are not on the command line, where that is not None or nothing
DEFAULTS = {"seed": 1, "seeds": [1], "batch_size": 64, "checkpoint_every": 100, "jobs": 1}

SUMMARY = "train a model under a method and keep the run in a folder"
EXAMPLE = """\
  intnet train --method wageubn --model resnet8 --data digits --epochs 3 --out runs/first
  intnet train --method wageubn --set e2=16 --set lr=26,13@5 --model mlp --data digits --steps 200 \\
      --out runs/e2
  intnet train --method wageubn --model resnet50 --data cifar10 --weights resnet50.safetensors \\
      --weights-partial --out runs/tuned

--data folder:PATH has PATH/train/CLASS/*.png (or .jpg) and PATH/test/CLASS/ (or val/), see `intnet list`.
--augment crop=4,flip moves each image by up to 4 pixels and mirrors about half of them, as the seed says.

The last line of stdout is 'state sha256: HEX', the same on every machine. A run that was stopped or
killed goes on with `intnet resume RUN`. `intnet list` shows all names and the keys of --set."""


def positive(text: str) -> int:
    """A whole number of at least 1, for argparse."""
    number = int(text) if text.isascii() and text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return number


def seeds(text: str) -> list[int]:
    """'1,2,3' as numbers, for argparse."""
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of whole numbers, as 1,2,3") from None
    if len(set(found)) < len(found):
        raise argparse.ArgumentTypeError(f"{text!r} has a seed twice")
    return found


def given(args: argparse.Namespace, names: Iterable[str]) -> list[str]:
    """Those of the options that were given another value than their default, as '--batch-size'."""
    said = [name for name in names if getattr(args, name, None) not in (None, [], DEFAULTS.get(name))]
    return [f"--{name.replace('_', '-')}" for name in said]


def add_length(parser: argparse._ActionsContainer, default: str) -> None:
    """--epochs or --steps."""
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--epochs", type=positive, metavar="E", help=f"epochs in all ({default})")
    length.add_argument("--steps", type=positive, metavar="S", help="steps in all, instead of epochs")


def add_names(parser: argparse._ActionsContainer, required: bool) -> None:
    """--method, --model and --data."""
    about = "how numbers are stored: wageubn, adapt, muppet, dynasty, saved, float32"
    parser.add_argument("--method", required=required, metavar="M", help=about)
    add_model_and_data(parser, required)


def add_model_and_data(parser: argparse._ActionsContainer, required: bool) -> None:
    """--model and --data."""
    for name, letter, about in (
        ("--model", "N", "the network: mlp, lenet5, resnet20, ..."),
        ("--data", "D", "the data set: digits, fashion-mnist, cifar10, ..., or folder:PATH"),
    ):
        parser.add_argument(name, required=required, metavar=letter, help=about)


def add_details(parser: argparse._ActionsContainer) -> None:
    """What else decides the bits of a new run."""
    about = "seed of all randomness (1)"
    parser.add_argument("--seed", type=int, default=DEFAULTS["seed"], metavar="K", help=about)
    add_settings(parser)


def add_settings(parser: argparse._ActionsContainer) -> None:
    """What else but the seed."""
    parser.add_argument(
        "--batch-size", type=positive, default=DEFAULTS["batch_size"], metavar="B", help="images a step (64)"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="an option of the method, repeatable"
    )
    parser.add_argument("--data-dir", metavar="DIR", help="look for data files there only")
    parser.add_argument("--limit", type=positive, metavar="N", help="only the first N training images")
    parser.add_argument(
        "--augment", metavar="HOW", help="of training images, of the seed: crop=P, flip, or crop=P,flip"
    )
    add_image_size(parser)


def add_image_size(parser: argparse._ActionsContainer) -> None:
    """What is made of images of several sizes."""
    parser.add_argument(
        "--image-size",
        type=positive,
        metavar="S",
        help="of folder:PATH: scale the middle square of each",
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of a new run."""
    need = parser.add_argument_group("what to train")
    add_names(need, required=True)
    need.add_argument("--out", required=True, metavar="RUN", help="the run's folder, new or empty")
    how = parser.add_argument_group("how")
    add_length(how, "1 unless told")
    add_details(how)
    add_weights(how)
    add_saving(how)


def add_weights(parser: argparse._ActionsContainer) -> None:
    """Where first weights come from, if not from the seed."""
    parser.add_argument(
        "--weights",
        metavar="FILE",
        help="first weights: a state dict as .npz or .safetensors, of torchvision's names",
    )
    parser.add_argument(
        "--weights-partial", action="store_true", help="take what fits of it (another number of classes, ...)"
    )


def show_weights(given: dict[str, Any], args: argparse.Namespace) -> None:
    """What was taken of a file, and what was not."""
    print(
        f"first weights from {args.weights}: {given['tensors']:,} tensors, {given['numbers']:,} numbers; as "
        f"{args.method} stores them {given['rounded']:,} are rounded, {given['limited']:,} limited"
    )
    for name, why in given["left"].items():
        print(f"  left out: {name}: {why}")
    if given["passed_over"]:
        print(f"  passed over: {given['passed_over']:,} num_batches_tracked, which nothing here reads")


def add_saving(parser: argparse._ActionsContainer) -> None:
    """How often a run is saved."""
    parser.add_argument(
        "--checkpoint-every",
        type=positive,
        default=DEFAULTS["checkpoint_every"],
        metavar="N",
        help="save every N steps (100) and at the end of every epoch",
    )


def options(texts: list[str], option: str = "--set") -> dict[str, str]:
    """KEY -> VALUE of all texts KEY=VALUE of an option of the command."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise ConfigError(f"{option} {text}: write KEY=VALUE, as in lr=26")
        if key in found:
            raise ConfigError(f"{option} {key} is given twice")
        found[key] = value
    return found


def run(args: argparse.Namespace) -> int:
    """Make the folder and train."""
    from intnet.cli import terminal
    from intnet.runs import run_folder

    chosen = options(args.set)
    if args.weights_partial and args.weights is None:
        raise ConfigError("--weights-partial: there is no --weights FILE to take a part of")
    run_folder.check_unused(args.out)  # before anything that takes time
    new = run_folder.build(
        args.method, chosen, args.model, args.data, args.batch_size, args.seed, args.limit, args.data_dir,
        args.augment, args.image_size, args.weights, args.weights_partial,
    )  # fmt: skip
    if new.weights is not None and not args.json:
        show_weights(new.weights, args)
    steps = args.steps or (args.epochs or 1) * new.steps_per_epoch
    with run_folder.create(args.out, new, steps, args.checkpoint_every, args.data_dir) as work:
        return terminal.train(work, args)
