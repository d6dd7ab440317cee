"""What several commands share: options, each told once, and the files that they name."""

import argparse
import importlib.util
import os
from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, BinaryIO

from intnet.errors import ConfigError
from intnet.runs import files
from intnet.show.pictures import METADATA


def positive(text: str) -> int:
    """A whole number of at least 1, for argparse."""
    number = int(text) if text.isascii() and text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return number


class Once(argparse.Action):
    """An option that is taken once: given again it is refused, where argparse keeps the last."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: object,
        option_string: str | None = None,
    ) -> None:  # fmt: skip
        """Store it."""
        if getattr(namespace, self.dest) is not None:
            parser.error(f"{option_string} is given twice: one pattern can name many, such as 'conv*'")
        setattr(namespace, self.dest, values)


def seeds(text: str) -> list[int]:
    """'1,2,3' as numbers, for argparse."""
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of whole numbers, as 1,2,3") from None
    if len(set(found)) < len(found):
        raise argparse.ArgumentTypeError(f"{text!r} has a seed twice")
    return found


METHODS = "how numbers are stored: wageubn, adapt, muppet, dynasty, saved, banner, mx, float32"
DATA = "the data set: digits, fashion-mnist, cifar10, ..., folder:PATH or arrays:FILE.npz"
AUGMENT = "of training images, of the seed: crop=P, flip, or crop=P,flip"
SET = "an option of the method, repeatable"
WEIGHTS = "first weights: a state dict as .npz or .safetensors, of torchvision's names"

OPTIONS: dict[str, dict[str, Any]] = {  # as `add_argument` takes them
    "--method": {"metavar": "M", "help": METHODS},
    "--model": {"metavar": "N", "help": "the network: mlp, lenet5, resnet20, ..."},
    "--data": {"metavar": "D", "help": DATA},
    "--seed": {"type": int, "default": 1, "metavar": "K", "help": "seed of all randomness (1)"},
    "--seeds": {"type": seeds, "default": [1], "metavar": "K1,K2,..", "help": "of every point (1)"},
    "--batch-size": {"type": positive, "default": 64, "metavar": "B", "help": "images a step (64)"},
    "--set": {"action": "append", "default": [], "metavar": "KEY=VALUE", "help": SET},
    "--data-dir": {"metavar": "DIR", "help": "look for data files there only"},
    "--limit": {"type": positive, "metavar": "N", "help": "only the first N training images"},
    "--augment": {"metavar": "HOW", "help": AUGMENT},
    "--image-size": {
        "type": positive, "metavar": "S", "help": "of folder:PATH: scale the middle square of each",
    },
    "--weights": {"metavar": "FILE", "help": WEIGHTS},
    "--weights-partial": {
        "action": "store_true", "help": "take what fits of it (another number of classes, ...)",
    },
    "--checkpoint-every": {
        "type": positive, "default": 100, "metavar": "N",
        "help": "save every N steps (100) and at the end of every epoch",
    },
    "--stats": {
        "type": Path, "metavar": "FILE", "help": "statistics of every data path, JSON lines in a new file",
    },
    "--stats-every": {"type": positive, "default": 1, "metavar": "N", "help": "of every N-th step (1)"},
    "--jobs": {"type": positive, "default": 1, "metavar": "J", "help": "runs at a time, processes (1)"},
    "--plot": {"type": Path, "metavar": "FILE", "help": "draw the results: .png, .svg, .pdf"},
}  # fmt: skip
NAMES = ("--method", "--model", "--data")
SETTINGS = ("--batch-size", "--set", "--data-dir", "--limit", "--augment", "--image-size")  # of a new run


def add(parser: argparse._ActionsContainer, *names: str, **changes: Any) -> None:
    """Options of the table; changes: what this command has otherwise, of all of them."""
    for name in names:
        parser.add_argument(name, **OPTIONS[name] | changes)


def names(arguments: Sequence[str]) -> list[str]:
    """The options of a command line, '--steps' of '--steps=3' too; after '--' there is none."""
    before = takewhile(lambda text: text != "--", arguments)
    return [text.partition("=")[0] for text in before if text.startswith("--")]


def add_length(parser: argparse._ActionsContainer, default: str) -> None:
    """--epochs or --steps."""
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--epochs", type=positive, metavar="E", help=f"epochs in all ({default})")
    length.add_argument("--steps", type=positive, metavar="S", help="steps in all, instead of epochs")


def given(args: argparse.Namespace, names: Iterable[str]) -> list[str]:
    """Those that have another value than the command's default, as '--batch-size'; a folder as 'RUN'."""
    said = [name for name in names if getattr(args, name, None) != args.parser.get_default(name)]
    return ["RUN" if name == "folder" else f"--{name.replace('_', '-')}" for name in said]


def refuse(args: argparse.Namespace, names: Iterable[str], why: str) -> None:
    """ConfigError where any of these options is `given`: which, and why not."""
    said = given(args, names)
    if said:
        raise ConfigError(f"{', '.join(said)}: {why}")


def need(args: argparse.Namespace, names: Iterable[str], told: str) -> None:
    """ConfigError where any of these options has no value; told: what to do, with {} for which."""
    missing = [f"--{name}" for name in names if getattr(args, name) is None]
    if missing:
        raise ConfigError(told.format(", ".join(missing)))


def settings(texts: list[str], option: str = "--set") -> dict[str, str]:
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


# -- files, checked before the work starts -----------------------------------------------------


def check_file(option: str, file: Path) -> None:
    """ConfigError where the file cannot be written."""
    if not file.parent.is_dir():
        raise ConfigError(f"{option} {file}: there is no folder {file.parent}")
    if file.is_dir():
        raise ConfigError(f"{option} {file}: that is a folder; name a file")
    files.place(file)
    if not os.access(file.parent, os.W_OK):
        raise ConfigError(f"{option} {file}: {file.parent} may not be written into: name a file elsewhere")


def check_replaced(option: str, file: Path, begins: bytes) -> None:
    """As `check_file`; ConfigError too for a file of another kind, which what is written would replace."""
    check_file(option, file)
    if file.exists():
        with open(file, "rb") as stream:
            if not stream.read(len(begins)).lower() == begins:
                raise ConfigError(f"{option} {file}: a file of another kind is there: name another")


def check_folder(option: str, folder: Path) -> None:
    """ConfigError where there can be no such folder."""
    if not folder.parent.is_dir():
        raise ConfigError(f"{option} {folder}: there is no folder {folder.parent}")
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{option} {folder}: that is a file; end the name of a page in .html")
    if files.leads_nowhere(folder):
        raise ConfigError(f"{option} {folder}: that is a link that leads nowhere; name another")


def check_stats(file: Path | None, every: int) -> None:
    """ConfigError, before the work starts, where --stats can not become a new file, or is not there."""
    if file is None and every != 1:
        raise ConfigError("--stats-every: there is no --stats FILE to write them into")
    if file is not None and file.exists():
        raise ConfigError(f"--stats {file} is there already: name another file")
    if file is not None:
        check_file("--stats", file)


def check_picture(file: Path | None) -> None:
    """ConfigError where what was asked for with --plot, if it was, cannot be drawn or written."""
    if file is None:
        return
    check_file("--plot", file)
    if file.suffix not in METADATA:
        raise ConfigError(f"--plot {file}: end the name in {', '.join(METADATA)}")
    if importlib.util.find_spec("matplotlib") is None:
        raise ConfigError("--plot needs matplotlib: pip install matplotlib")


def write_picture(file: Path | None, draw: Callable[[BinaryIO, Path], None] | None) -> None:
    """What was asked for with --plot, if it was; `draw` writes into a stream, in the format of the name."""
    if file is not None:
        from intnet.runs import files

        assert draw is not None, "a picture of what has none is refused before"
        files.replace(file, lambda stream: draw(stream, file))
