"""`intnet lab FILE`: the page on which a number goes through a format, in a browser without a network."""

import argparse
import json
from pathlib import Path

from intnet.cli import options

SUMMARY = "write the lab: a page on which numbers go through formats, in any browser, without a network"
EXAMPLE = "  intnet lab lab.html"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where to write it."""
    parser.add_argument("file", metavar="FILE", type=Path, help="the page to write")


def run(args: argparse.Namespace) -> int:
    """Write it, whole or not at all."""
    from intnet.runs import definition, files
    from intnet.show import lab

    options.check_replaced("FILE", args.file, b"<!doctype html")
    page = lab.page(definition.VERSION).encode()
    files.replace(args.file, page)
    if args.json:
        print(json.dumps({"file": str(args.file), "bytes": len(page)}))
    else:
        print(f"{args.file}: {len(page):,} bytes, open it in a browser")
    return 0
