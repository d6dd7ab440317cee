"""`intnet costs` of saved activations: what the tape holds, of a run's next step or by the model's blocks."""

import argparse
import dataclasses
import json
from typing import Any

from rich.console import Console
from rich.table import Table

from intnet import methods, models
from intnet.cli import terminal
from intnet.cli.train import options
from intnet.costs import tape_costs
from intnet.costs.tape_costs import Block, Value
from intnet.errors import ConfigError
from intnet.methods.saved import MASK, Saved
from intnet.runs import report, run_folder
from intnet.training.tape import MB
from intnet.training.train import Run

WIDTH = 130  # of the widest table


def of_run(args: argparse.Namespace, given: Run) -> int:
    """Every value of one more step, which is not saved."""
    batch, epoch = len(given.batch(given.step)[1]), given.step // given.steps_per_epoch
    rows, blocks = tape_costs.values(given), tape_costs.blocks(*_anew(given), batch, epoch)
    own = run_folder.identity(given)
    title = f"{report.title(own)}: the tape of step {given.step}, {batch} images"
    result = {"run": args.folder, "method": own["method"], "model": own["model"], "data": own["data"]}
    result |= {"step": given.step, "batch_size": batch}
    told = [dataclasses.asdict(row) | {"bits": row.bits} for row in rows]
    return _show(args, title, result | {"values": told, "total": _total(rows)}, blocks, rows)


def _anew(given: Run) -> tuple[models.Model, Saved]:
    """The same model and method, not yet trained."""
    method = methods.make(given.method.name, **given.method.settings())
    assert isinstance(method, Saved)
    return models.make(given.model.kind, given.model.image_shape, given.model.classes), method


def of_model(args: argparse.Namespace) -> int:
    """The blocks of a model that nobody trained."""
    missing = [f"--{name}" for name in ("model", "image", "classes") if getattr(args, name) is None]
    if missing:
        raise ConfigError(f"--method needs {', '.join(missing)}")
    method = methods.make(args.method, **options(args.set or []))
    if not isinstance(method, Saved):
        raise ConfigError(f"--method {args.method}: what the tape holds is told of method saved")
    batch = args.batch_size or 128
    blocks = tape_costs.blocks(models.make(args.model, args.image, args.classes), method, batch)
    sides = "x".join(map(str, args.image))
    title = f"saved, {args.model}: batch of {batch} images of {sides}, {args.classes} classes"
    result = {"method": "saved", "model": args.model, "image_shape": args.image, "classes": args.classes}
    return _show(args, title, result | {"batch_size": batch}, blocks, [])


def _show(
    args: argparse.Namespace, title: str, result: dict[str, Any], blocks: list[Block], rows: list[Value]
) -> int:
    if args.json:
        told = [dataclasses.asdict(block) | {"float32": 4 * block.elements} for block in blocks]
        print(json.dumps(result | {"blocks": told, "blocks_total": _sums(blocks)}))
        return 0
    console = Console(highlight=False)
    print(title)
    if rows:
        terminal.print_table(console, _values(rows), WIDTH)
    terminal.print_table(console, _blocks(blocks), WIDTH)
    return 0


# -- tables --------------------------------------------------------------------------------------


def _values(rows: list[Value]) -> Table:
    columns = ("elements", "b", "codes", "found", "bits", "float32", "packed", "clipped")
    made = terminal.numbers_table("what the tape holds, sizes in MB of 2^20 bytes", "value", columns)
    for row in rows:
        codes = ("-", "-") if row.codes is None else (f"{row.codes:,}", f"{row.found:,}")
        sizes = ("-" if row.path == MASK else _mb(4 * row.elements), _mb(row.nbytes))
        nominal = f"{row.nominal:g}"
        numbers = (f"{row.elements:,}", nominal, *codes, f"{row.bits:.3f}", *sizes, f"{row.clipped:,}")
        made.add_row(f"{row.layer}/{row.path}", *numbers)
    total = _total(rows)
    all_sizes = (_mb(total["float32"]), _mb(total["bytes"]), f"{total['clipped']:,}")
    made.add_row("all but masks", f"{total['elements']:,}", "", "", "", f"{total['bits']:.3f}", *all_sizes)
    return made


def _total(rows: list[Value]) -> dict[str, Any]:
    """Of all values but masks."""
    rows = [row for row in rows if row.path != MASK]
    elements, nbytes = sum(row.elements for row in rows), sum(row.nbytes for row in rows)
    clipped = sum(row.clipped for row in rows)
    return {
        "elements": elements, "bytes": nbytes, "float32": 4 * elements, "bits": 8 * nbytes / elements,
        "clipped": clipped,
    }  # fmt: skip


def _sums(blocks: list[Block]) -> dict[str, float]:
    names = ("elements", "nominal", "packed", "held", "held_packed")
    sums = {name: sum(getattr(block, name) for block in blocks) for name in names}
    return sums | {"float32": 4 * sums["elements"]}


def _blocks(blocks: list[Block]) -> Table:
    columns = ("elements", "float32", "b/8*N", "saved", "packed", "on the tape", "float32", "packed")
    made = terminal.numbers_table(
        "outputs of the blocks, and all that the tape saves in them; MB of 2^20 bytes", "block", columns
    )
    total = _sums(blocks)
    lines = [(block.name, dataclasses.asdict(block) | {"float32": 4 * block.elements}) for block in blocks]
    for name, row in [*lines, ("total", total)]:
        saved = row["float32"] - row["nominal"]
        made.add_row(
            name, f"{row['elements']:,}", _mb(row["float32"]), _mb(row["nominal"]), _mb(saved),
            _mb(row["packed"]), f"{row['held']:,}", _mb(4 * row["held"]), _mb(row["held_packed"]),
        )  # fmt: skip
    return made


def _mb(count: float) -> str:
    return f"{count / MB:,.2f}"
