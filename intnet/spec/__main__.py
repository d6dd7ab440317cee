"""Train by the definition alone and print the digest of the state: `python -m intnet.spec --help`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from fractions import Fraction

from intnet.spec import VERSION, data
from intnet.spec.digest import digest
from intnet.spec.methods import METHODS
from intnet.spec.models import MODELS
from intnet.spec.training import train

EXAMPLE = """example, about a minute:
  python -m intnet.spec --method wageubn --model mlp --data digits --steps 20 --seed 1 --batch-size 64

The same digest from the fast code:
  intnet train --method wageubn --model mlp --data digits --steps 20 --seed 1 --batch-size 64
"""


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = argparse.ArgumentParser(
        "python -m intnet.spec",
        description="Train by the definition alone, in plain integers; print the SHA-256 of the state.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--method", choices=METHODS, required=True)
    made.add_argument("--model", choices=MODELS, default="mlp", help="default: mlp")
    made.add_argument("--data", choices=["digits"], default="digits", help="default: digits")
    made.add_argument("--steps", type=int, default=20, metavar="N", help="default: 20")
    made.add_argument("--seed", type=int, default=1, metavar="N", help="default: 1")
    made.add_argument("--batch-size", type=int, default=64, metavar="N", help="default: 64")
    made.add_argument("--limit", type=int, metavar="N", help="the first N training images only")
    made.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="an option of the method"
    )
    made.add_argument("--json", action="store_true", help="one JSON object in place of the digest alone")
    return made


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, tell of each step where stderr is a terminal, print the digest on stdout."""
    asked = parser().parse_args(arguments)
    found = data.digits()
    if asked.limit is not None:
        found = found.first(asked.limit)
    net = MODELS[asked.model](found.shape, found.classes)
    options = dict(part.split("=", 1) for part in asked.set)
    started, losses = time.perf_counter(), []

    def seen(step: int, loss: Fraction) -> None:
        losses.append(float(loss))
        if sys.stderr.isatty():
            seconds = time.perf_counter() - started
            print(f"step {step}/{asked.steps}  loss {losses[-1]:.6f}  {seconds:.1f} s", file=sys.stderr)

    state = train(net, asked.method, found, asked.seed, asked.steps, asked.batch_size, options, seen)
    found_digest = digest(state)
    if not asked.json:
        print(found_digest)
        return
    own = {
        key: getattr(asked, key)
        for key in ("method", "model", "data", "steps", "seed", "batch_size", "limit")
    }
    told = {"definition": VERSION, **own, "options": options, "losses": losses, "digest": found_digest}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
