"""`intnet check`: what a device wrote against a golden pack, or the pack against its own recomputation.

A recomputation is by the fast code, or with `--by spec` by the definition (`packs/by_spec`).
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from intnet.packs.check import Result
    from intnet.packs.pack import Pack

SUMMARY = "check what a device wrote against a golden pack, word by word, and say what went wrong"
EXAMPLE = """\
  intnet check packs/conv1                        is the pack whole, and does a recomputation give it?
  intnet check packs/conv1 --by spec              the same by the definition, in plain Python integers (slow)
  intnet check packs/conv1 --dut build/out        files of the device, named as in exp/
  intnet check packs/conv1 --dut build/out --port '*/x1' --junit report.xml

Exit status: 0 all equal, 1 a mismatch, 2 a file that is bad or missing. Comparing is exact; words missing,
too many, x or z are errors. A mismatch is shown with its coordinates, both words, the way the right one came
about, and the mistake that explains what the device gave, if it is a known one. Where ports of a layer's pack
are wrong, each is made again by the definition from what the device had ahead of it: what only follows from
the fault of another port says so, and the ports with faults of their own stand first."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The pack, the device's files, reports."""
    parser.add_argument("pack", metavar="PACK", help="a pack's folder")
    parser.add_argument(
        "--by",
        choices=("code", "spec"),
        default="code",
        help="what recomputes the pack: the fast code, or the definition, which shares none of it",
    )
    parser.add_argument("--dut", metavar="DIR", help="the folder of what the device wrote")
    parser.add_argument(
        "--port", metavar="PATTERN", default="*", help="only these expected ports (with --dut)"
    )
    parser.add_argument("--junit", metavar="FILE", help="also write a JUnit XML report")


def run(args: argparse.Namespace) -> int:
    """Verify the pack, compare, tell."""
    from intnet.cli import options
    from intnet.errors import ConfigError
    from intnet.packs import causes, check, pack, text, unit_causes
    from intnet.packs.by_spec import recompute
    from intnet.runs import files
    from intnet.show.bars import bar

    if args.junit is not None:
        options.check_replaced("--junit", Path(args.junit), b"<?xml")
    if args.dut is None and args.port != "*":
        raise ConfigError("--port chooses among the files of --dut: give both, or neither")
    if args.dut is not None and args.by == "spec":
        raise ConfigError("--by says what recomputes the pack, --dut compares a device with it: give one")
    read = pack.read(args.pack)
    if args.dut is not None:
        result = _watched(read, ("out",), lambda on_port: check.check_dut(read, args.dut, args.port, on_port))
        for looks in (causes, unit_causes):  # of layers, of a unit
            if looks.worth_it(result):
                with bar("looking for causes", 1) as move:
                    result = looks.trace(read, result)
                    move(advance=1)
    elif args.by == "spec":
        result = _watched(read, ("out", "rnd", "trail"), lambda on_port: recompute.recompute(read, on_port))
    else:
        result = check.recompute(read)
    if args.json:
        print(json.dumps(text.to_dict(result)))
    else:
        text.show(result)
    if args.junit is not None:
        files.replace(Path(args.junit), text.junit(result))
    return result.exit_status


def _watched(
    read: "Pack", directions: tuple[str, ...], compare: "Callable[[Callable[[str], None]], Result]"
) -> "Result":
    """Under a bar, one tick a port of these directions."""
    from intnet.show.bars import bar

    total = sum(port.direction in directions for port in read.ports.values())
    with bar("comparing", total) as move:
        return compare(lambda name: move(advance=1, note=name))
