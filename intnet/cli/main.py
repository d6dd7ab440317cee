"""`intnet COMMAND ...`: parsing, exit statuses and errors; every command is listed here, once.

Exit status: 0 success, 1 what was checked does not hold, 2 bad usage or input with one line on
stderr, 128 + n stopped by signal n. A command is a module with

    SUMMARY, EXAMPLE                    for --help
    add_arguments(parser), run(args)    run returns the exit status

and imports what is heavy inside `run`, so that `--help` and errors come at once.
"""

import argparse
import difflib
import io
import os
import re
import sys
import traceback
import warnings
from types import ModuleType
from typing import Any, NoReturn

import intnet
from intnet import plugins
from intnet.cli import (
    check,
    compare,
    costs,
    evaluate,
    export,
    golden,
    inspect,
    lab,
    options,
    papers,
    resume,
    sweep,
    together,
    train,
    verify,
)
from intnet.cli import list as listing
from intnet.errors import IntnetError
from intnet.runs import definition

COMMANDS: dict[str, ModuleType] = {
    "train": train,
    "resume": resume,
    "eval": evaluate,
    "export": export,
    "inspect": inspect,
    "lab": lab,
    "golden": golden,
    "check": check,
    "verify": verify,
    "costs": costs,
    "sweep": sweep,
    "compare": compare,
    "papers": papers,
    "list": listing,
}

BAD_INPUT, INTERRUPTED, BROKEN_PIPE = 2, 130, 141


class Parser(argparse.ArgumentParser):
    """An argument parser that says what is wrong in one line."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As ever; an option that a command does not know is named ahead of all that is missing.

        argparse takes several names in one place only: `golden unit --out X NAME` is told so.
        """
        of_a_command = self._subparsers is None
        if of_a_command:
            words = sys.argv[1:] if args is None else args
            if any(re.fullmatch("(--[^=]+=)?", word) for word in words):  # Path("") is the present folder
                self.error("an argument is empty: a variable of the shell that is not set?")
            for option in options.names(words):
                if option not in self._option_string_actions:
                    near = difflib.get_close_matches(option, self._option_string_actions, 1)
                    hint = f"; did you mean {near[0]}?" if near else ""
                    self.error(f"unknown option {option}{hint}")
        found, left = super().parse_known_args(args, namespace)
        if of_a_command and left:
            several = any(action.nargs == "*" for action in self._get_positional_actions())
            hint = "; names stand together, ahead of the options" * several
            self.error(f"unrecognized arguments: {' '.join(left)}{hint}")
        return found, left

    def error(self, message: str) -> NoReturn:
        """Print the line and leave with status 2."""
        self.exit(BAD_INPUT, f"{self.prog}: {message} (see {self.prog} --help)\n")


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    top = Parser(
        prog="intnet",
        description="Training neural networks in exact integers and fixed point: every bit defined.",
        epilog="`intnet COMMAND --help` shows a command's options and an example.",
        allow_abbrev=False,
    )
    version = f"intnet {intnet.__version__}, definition {definition.VERSION}"
    top.add_argument("--version", action="version", version=version)
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, module in COMMANDS.items():
        sub = commands.add_parser(
            name,
            help=module.SUMMARY,
            description=f"{module.SUMMARY[0].upper()}{module.SUMMARY[1:]}.",
            epilog=f"example:\n{module.EXAMPLE}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        module.add_arguments(sub)
        if module is not papers:  # which train methods of their own
            sub.add_argument(
                "--import", action="append", default=[], dest="imports", metavar="FILE",
                help="a Python file that registers methods, models, ... of your own, repeatable",
            )  # fmt: skip
        sub.add_argument("--json", action="store_true", help="print one JSON object on stdout, for machines")
        sub.set_defaults(parser=sub)  # whose defaults `options.given` reads
        sub.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return top


class _Nowhere(io.TextIOBase):
    """For a stream that is closed: what is said is dropped (a null device left open is warned of)."""

    def write(self, text: str) -> int:
        return len(text)


def _open_streams() -> None:
    """Streams that are there and take every text: what an encoding lacks is said as '\\xe4'.

    A closed one keeps its number: a file of a run that got it would hold what is written to the stream.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest number that is free
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, _Nowhere())
        else:
            stream.reconfigure(errors="backslashreplace")


def _warned(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning as errors are told, without the line of code that gave it."""
    print(f"intnet: warning: {' '.join(str(message).split())}", file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Run a command; returns the exit status. arguments: None are the process's own, which ends with it."""
    if arguments is None:
        _open_streams()
        warnings.showwarning = _warned
    args = parser().parse_args(arguments)
    try:
        with together.ranks(args):
            for file in getattr(args, "imports", ()):
                plugins.load(file)
            status: int = COMMANDS[args.command].run(args)
        sys.stdout.flush()  # here, so that a closed pipe is met inside this try
        if arguments is None:
            together.leave(status)
        return status
    except KeyboardInterrupt:
        print(f"intnet {args.command}: interrupted", file=sys.stderr)
        return together.ended(INTERRUPTED)
    except (BrokenPipeError, SystemExit) as error:
        if isinstance(error, SystemExit) and not isinstance(error.__context__, BrokenPipeError):
            raise  # rich leaves by one, with status 1
        # The reader of our output (head, less) is gone; nothing may be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return together.ended(BROKEN_PIPE)
    except Exception as error:
        if args.debug:
            traceback.print_exc()
        else:
            rank = together.ahead_of_error()
            print(f"intnet {args.command}: {rank}{_line(error)}", file=sys.stderr, flush=True)
        return together.ended(BAD_INPUT)


def _line(error: Exception) -> str:
    """What went wrong, in one line."""
    if isinstance(error, IntnetError):
        return error.line()
    if isinstance(error, FileNotFoundError) and not error.filename:
        return "the current folder is not there any more"
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error)
    if isinstance(error, MemoryError):
        return "out of memory: use a smaller --batch-size or model"
    where = plugins.place(error) or "internal error: "
    return " ".join(f"{where}{type(error).__name__}: {error} (--debug shows where)".split())
