"""`intnet golden`: a golden pack of a layer's training step, of a chain of steps, or of an RTL unit."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from intnet.cli import options, source
from intnet.errors import ConfigError
from intnet.runs import files

if TYPE_CHECKING:
    from intnet.methods.trace import Observer
    from intnet.packs.ports import Draft
    from intnet.training.train import Run

SUMMARY = "write a golden pack: hex files of every data path, by which hardware is judged"
EXAMPLE = """\
  intnet golden runs/first --layer layer1.0.conv1 --out packs/conv1
  intnet golden --method wageubn --model mlp --data digits --layer '[fbr]*2' --step 3 --out packs/block2
  intnet golden --method wageubn --model mlp --data digits --layer fc2 --steps 4 --out packs/chain
  intnet golden unit quantize_sq --level 1 --out packs/sq
  intnet golden unit requantize --set TWICE=1 --set MODE=ties_away --c --out models/requantize
  intnet golden runs/first --layer layer1.0.conv1 --layout nc/16hw16 --lanes 16 --tile 16 --out packs/tiled
  intnet golden packs/conv1 --as mif --out packs/conv1-mif

A layer's pack (level L3) holds one whole step: inputs, stored state, random words, every result of
forward, backward and update, and the trail of each rounding. --steps N makes a chain (L4) with one digest
a step. RUN goes on from its last checkpoint, and nothing is written to its folder. `intnet list` shows the
units; --c writes a unit's model in C99 in place of a pack, with DPI-C and a testbench of random words. What
a pack holds is told bit by bit in its CONTRACT.md. Check one with `intnet check`. --as KIND writes the
vectors of a pack as other files: mem, mif, coe, c, npz, or image, one memory with an address map, of words of
--word bits (32)."""

UNIT = "unit"
CHOSEN = ("layer", "network", "inference")  # what of a network a pack holds
OF_LAYERS = ("method", "model", "data", *CHOSEN, "step", "limit", "data_dir", "augment", "image_size")
DRAWN = ("seed", "batch_size")  # of a training; a unit's vectors are always the same
OF_A_PACK = (*OF_LAYERS, *DRAWN, "level", "set")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A run, a new model, or a unit."""
    parser.add_argument(
        "what",
        nargs="*",
        metavar="RUN | unit NAME | PACK",
        help="a run's folder, a unit, a pack with --as; or name a new model:",
    )
    source.add_arguments(parser)
    parser.add_argument(
        "--steps", type=options.positive, default=1, metavar="N", help="a chain of N steps (1)"
    )
    parser.add_argument(
        "--network",
        action="store_true",
        default=None,
        help="every layer of the step and its loss, in place of --layer",
    )
    parser.add_argument(
        "--inference",
        type=options.positive,
        metavar="N",
        help="the first N test images through the whole network, by the state ahead of the step",
    )
    parser.add_argument("--level", metavar="L", help="of a unit's vectors: 0 to 4")
    parser.add_argument("--c", action="store_true", help="a unit's model in C in place of a pack")
    _add_layout(parser)
    parser.add_argument("--out", required=True, metavar="PACK", help="the pack's folder, not there yet")


def _add_layout(parser: argparse.ArgumentParser) -> None:
    """How files are laid out, and a pack's vectors as other files."""
    parser.add_argument(
        "--layout", metavar="ORDER", help="of data: nhwc, nchw or nc/16hw16 (blocks of any number) (nhwc)"
    )
    parser.add_argument(
        "--lanes", type=options.positive, metavar="N", help="elements a row (as many as fit and divide)"
    )
    parser.add_argument(
        "--word", type=options.positive, metavar="BITS", help="bits of a word, up to 1024 (a row of lanes)"
    )
    parser.add_argument(
        "--tile",
        action="append",
        metavar="[PATH=]K",
        help="partial sums after each K products of x1, e4 or gW (x1), as trail; again for another path",
    )
    parser.add_argument(
        "--as", dest="kind", metavar="KIND", help="write the vectors of PACK as other files: mem, mif, ..."
    )


def run(args: argparse.Namespace) -> int:
    """Make the draft, write it, say what it is."""
    if Path(args.out).exists():  # before anything that takes time
        raise ConfigError(f"--out {args.out} is there already: a pack is never written over")
    if files.leads_nowhere(Path(args.out)):
        raise ConfigError(f"--out {args.out} is a link that leads nowhere: give another name")
    if args.c:
        return _model(args)
    if args.kind is not None:
        return _export(args)
    from intnet.packs import layouts, pack, tiles
    from intnet.packs.ports import INFERENCE, NETWORK
    from intnet.training.tape import MB, unit

    choice = layouts.Choice(args.layout or "nhwc", args.lanes, args.word)
    asked = _tiles(args.tile or ())
    draft = _unit(args) if args.what[:1] == [UNIT] else _layers(args)
    draft = layouts.laid_out(tiles.tiled(draft, asked), choice)

    if draft.generator["kind"] in (NETWORK, INFERENCE):
        words = sum(port.words for port, _ in draft.ports)
        size = sum(port.words * (port.digits + 1) for port, _ in draft.ports) / MB
        told = f"{len(draft.ports)} ports, {words:,} words, {size:,.1f} MB of hex files"
        print(f"the whole network takes {told}", file=sys.stderr)
    folder = pack.write(draft, args.out)
    result = _result(draft, folder)
    if args.json:
        print(json.dumps(result))
        return 0
    print(f"{result['name']} {result['version']}, level {result['level']}, in {folder}")
    one, name = unit(result["bytes"])
    print(f"{result['ports']} ports, {result['words']:,} words, {result['bytes'] / one:,.1f} {name}")
    if result["constant"]:
        print(f"constant at this step, so not compared: {', '.join(result['constant'])}")
    for name, why in result["not_written"].items():
        print(f"not written: {name}: {why}")
    print(f"pack sha256: {result['pack_sha256']}")
    return 0


def _refuse(args: argparse.Namespace, names: Sequence[str], why: str) -> None:
    """ConfigError where one of these options is given, or --steps."""
    strange = options.given(args, (*names, "steps"))
    if strange:
        raise ConfigError(f"{strange[0]} {why}")


def _model(args: argparse.Namespace) -> int:
    """Write a unit's C model, and say what it is."""
    if args.what[:1] != [UNIT] or len(args.what) != 2:
        raise ConfigError("write `intnet golden unit NAME --c --out DIR`; `intnet list` shows the units")
    others = (*OF_LAYERS, "level", "kind", "layout", "lanes", "tile", "word")
    _refuse(args, (*others, *DRAWN), "is for a pack, not for a unit's model in C")
    from intnet.packs.units import models

    folder = models.write(args.what[1], options.settings(args.set), args.out)
    names = sorted(path.name for path in folder.iterdir())
    if args.json:
        print(json.dumps({"model": str(folder), "unit": args.what[1], "files": names}))
    else:
        print(f"{args.what[1]} as C99 in {folder}: {', '.join(names)}")
    return 0


def _tiles(given: Sequence[str]) -> dict[str, int]:
    """'16' and 'gW=64' as products a tile, by path."""
    out: dict[str, int] = {}
    for text in given:
        path, _, count = text.rpartition("=")
        path = path or "x1"
        if not (count.isascii() and count.isdigit()) or path in out:
            raise ConfigError(f"--tile {text}: give a whole number, or PATH=K, each path once")
        out[path] = int(count)
    return out


def _export(args: argparse.Namespace) -> int:
    """A pack's vectors as other files."""
    others = (*OF_A_PACK, "layout", "lanes", "tile")
    _refuse(args, others, "is chosen when a pack is written, not with --as")
    if len(args.what) != 1:
        raise ConfigError("write `intnet golden PACK --as KIND --out DIR`, with the folder of a pack")
    from intnet.packs import export, pack

    made = export.write(pack.read(args.what[0]), args.kind, args.out, args.word)
    if args.json:
        print(json.dumps({"folder": args.out, "as": args.kind, "files": made}))
    else:
        more = ", ..." * (len(made) > 3)
        print(f"{len(made)} file{'s' * (len(made) > 1)} in {args.out}: {', '.join(made[:3])}{more}")
    return 0


def _unit(args: argparse.Namespace) -> "Draft":
    if len(args.what) != 2:
        raise ConfigError(
            "write `intnet golden unit NAME --level L --out PACK`; `intnet list` shows the units"
        )
    _refuse(args, (*OF_LAYERS, *DRAWN), "is for a pack of layers, not of a unit")
    from intnet.packs import units

    name, level = args.what[1], args.level or ""
    if name in units.UNITS and not level:
        raise ConfigError(f"--level is missing: which of {name}'s vectors, 0 to 4?")
    return units.draft(name, level if level.startswith("L") else f"L{level}", options.settings(args.set))


def _layers(args: argparse.Namespace) -> "Draft":
    if len(args.what) > 1:
        raise ConfigError(f"{' '.join(args.what)}: give one folder of a run, or `unit NAME`")
    _check_chosen(args)
    if args.level is not None:
        raise ConfigError("--level is for units; a pack of layers is L3, with --steps L4")
    from intnet.cli import terminal
    from intnet.packs import layers
    from intnet.packs.layers import network

    args.folder = args.what[0] if args.what else None
    given = source.run(args)
    names = [layer.name for layer in given.model.all_layers()]
    names = source.matching(names, args.layer, "layer") if args.layer is not None else names
    first = source.step(args, given)
    terminal.advance(given, first - 1, [])
    if args.inference is not None:
        return network.inference(given, args.inference)

    def advance(run: "Run", step: int, seen: "Observer") -> None:
        terminal.advance(run, step, [seen])

    if args.network:
        return network.draft(given, args.steps, advance)
    return layers.draft(given, names, args.steps, advance)


def _check_chosen(args: argparse.Namespace) -> None:
    """ConfigError unless one of --layer, --network and --inference is given, with what goes with it."""
    if sum(getattr(args, name) is not None for name in CHOSEN) != 1:
        raise ConfigError(
            "give --layer PATTERN, which layers the pack holds, --network, all of them with the loss, or "
            "--inference N, test images through all of them"
        )
    if args.inference is not None and args.steps != 1:
        raise ConfigError("--steps is a chain of training steps: an inference has none")


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
