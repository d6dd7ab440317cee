"""`intnet golden`: a golden pack of a layer's training step, of a chain of steps, or of an RTL unit."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from intnet.cli import options, source
from intnet.errors import ConfigError

if TYPE_CHECKING:
    from intnet.packs.ports import Draft

SUMMARY = "write a golden pack: hex files of every data path, by which hardware is judged"
EXAMPLE = """\
  intnet golden runs/first --layer layer1.0.conv1 --out packs/conv1
  intnet golden --method wageubn --model mlp --data digits --layer '[fbr]*2' --step 3 --out packs/block2
  intnet golden --method wageubn --model mlp --data digits --layer fc2 --steps 4 --out packs/chain
  intnet golden unit quantize_sq --level 1 --out packs/sq
  intnet golden unit requantize --set TWICE=1 --set MODE=ties_away --c --out models/requantize

A layer's pack (level L3) holds one whole step: inputs, stored state, random words, every result of forward,
backward and update, and the trail of each rounding. --steps N makes a chain (L4) with one digest a step. RUN
goes on from its last checkpoint, and nothing is written to its folder. `intnet list` shows the units; --c
writes a unit's model in C99 in place of a pack, with DPI-C and a testbench of random words. What a pack holds
is told bit by bit in its CONTRACT.md. Check one with `intnet check`."""

UNIT = "unit"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A run, a new model, or a unit."""
    parser.add_argument(
        "what", nargs="*", metavar="RUN | unit NAME", help="a run's folder, or a unit; or name a new model:"
    )
    source.add_arguments(parser, layer_needed=False)
    parser.add_argument(
        "--steps", type=options.positive, default=1, metavar="N", help="a chain of N steps (1)"
    )
    parser.add_argument("--level", metavar="L", help="of a unit's vectors: 0 to 4")
    parser.add_argument("--c", action="store_true", help="a unit's model in C in place of a pack")
    parser.add_argument("--out", required=True, metavar="PACK", help="the pack's folder, not there yet")


def run(args: argparse.Namespace) -> int:
    """Make the draft, write it, say what it is."""
    if Path(args.out).exists():  # before anything that takes time
        raise ConfigError(f"--out {args.out} is there already: a pack is never written over")
    if args.c:
        return _model(args)
    draft = _unit(args) if args.what[:1] == [UNIT] else _layers(args)
    from intnet.packs import pack
    from intnet.training.tape import KB, MB

    folder = pack.write(draft, args.out)
    result = _result(draft, folder)
    if args.json:
        print(json.dumps(result))
        return 0
    print(f"{result['name']} {result['version']}, level {result['level']}, in {folder}")
    size = result["bytes"]
    unit, name = (MB, "MB") if size >= MB else (KB, "kB")
    print(f"{result['ports']} ports, {result['words']:,} words, {size / unit:,.1f} {name}")
    if result["constant"]:
        print(f"constant at this step, so not compared: {', '.join(result['constant'])}")
    for name, why in result["not_written"].items():
        print(f"not written: {name}: {why}")
    print(f"pack sha256: {result['pack_sha256']}")
    return 0


def _model(args: argparse.Namespace) -> int:
    """Write a unit's C model, and say what it is."""
    if args.what[:1] != [UNIT] or len(args.what) != 2 or args.level is not None:
        raise ConfigError("write `intnet golden unit NAME --c --out DIR`; `intnet list` shows the units")
    _of_layers_only(args)
    from intnet.packs.units import models

    folder = models.write(args.what[1], options.settings(args.set), args.out)
    names = sorted(path.name for path in folder.iterdir())
    if args.json:
        print(json.dumps({"model": str(folder), "unit": args.what[1], "files": names}))
    else:
        print(f"{args.what[1]} as C99 in {folder}: {', '.join(names)}")
    return 0


def _of_layers_only(args: argparse.Namespace) -> None:
    names = ("method", "model", "data", "layer", "step", "limit", "data_dir", "augment", "image_size")
    strange = options.given(args, names)
    if strange or args.steps != 1:
        raise ConfigError(f"{(strange or ['--steps'])[0]} is for a pack of layers, not of a unit")


def _unit(args: argparse.Namespace) -> "Draft":
    if len(args.what) != 2 or args.level is None:
        raise ConfigError(
            "write `intnet golden unit NAME --level L --out PACK`; `intnet list` shows the units"
        )
    _of_layers_only(args)
    from intnet.packs import units

    level = args.level if args.level.startswith("L") else f"L{args.level}"
    return units.draft(args.what[1], level, options.settings(args.set))


def _layers(args: argparse.Namespace) -> "Draft":
    if len(args.what) > 1:
        raise ConfigError(f"{' '.join(args.what)}: give one folder of a run, or `unit NAME`")
    if args.layer is None:
        raise ConfigError("give --layer PATTERN: which layers the pack holds")
    if args.level is not None:
        raise ConfigError("--level is for units; a pack of layers is L3, with --steps L4")
    from intnet.cli import terminal
    from intnet.packs import layers

    args.folder = args.what[0] if args.what else None
    given = source.run(args)
    names = source.matching([layer.name for layer in given.model.all_layers()], args.layer, "layer")
    first = source.step(args, given)
    if first > given.step + 1:
        terminal.advance(given, first - 1, [])
    return layers.draft(given, names, args.steps, lambda run, step, seen: terminal.advance(run, step, [seen]))


def _result(draft: "Draft", folder: Path) -> dict[str, Any]:
    """What was written, as JSON."""
    import hashlib

    from intnet.packs import pack

    copies = [port.name for port, _ in draft.ports if port.direction == "trail" and port.rounding]
    return {
        "pack": str(folder),
        "name": draft.name,
        "version": pack.VERSION,
        "level": draft.level,
        "ports": len(draft.ports),
        "words": sum(port.words for port, _ in draft.ports),
        "bytes": sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()),
        "constant": copies,
        "not_written": draft.about.get("not written", {}),
        "pack_sha256": hashlib.sha256((folder / pack.SUMS).read_bytes()).hexdigest(),
    }
