"""What the tape holds of saved activations: of a run's next step value by value, or by a model's blocks."""

import dataclasses
from typing import Any

from intnet import methods, models
from intnet.costs import tape_costs
from intnet.costs.report import Report
from intnet.costs.tape_costs import Block, Value
from intnet.errors import ConfigError
from intnet.methods.saved import MASK, Saved
from intnet.runs import report, run_folder
from intnet.show import tables
from intnet.show.tables import Table
from intnet.training.tape import MB
from intnet.training.train import Run

SUMMED = ("elements", "nominal", "packed", "held", "held_packed")


def of_run(folder: str, run: Run) -> Report:
    """Every value of one more step, which is not saved; and the blocks of the same model, not yet trained."""
    batch, epoch = len(run.batch(run.step)[1]), run.step // run.steps_per_epoch
    rows, own = tape_costs.values(run), run_folder.identity(run)
    model = models.make(run.model.kind, run.model.image_shape, run.model.classes)
    blocks = tape_costs.blocks(model, _saved(run.method.name, run.method.settings()), batch, epoch)
    title = f"{report.title(own)}: the tape of step {run.step}, {batch} images"
    result: dict[str, Any] = {"run": folder} | {key: own[key] for key in ("method", "model", "data")}
    values = [dataclasses.asdict(row) | {"bits": row.bits} for row in rows]
    result |= {"step": run.step, "batch_size": batch, "values": values, "total": _total(rows)}
    return _report(title, result, blocks, [_values(rows)])


def of_model(
    method: str, settings: dict[str, Any], model: str, image: tuple[int, int, int], classes: int, batch: int
) -> Report:
    """The blocks of a model that nobody trained."""
    blocks = tape_costs.blocks(models.make(model, image, classes), _saved(method, settings), batch)
    sides = "x".join(map(str, image))
    title = f"saved, {model}: batch of {batch} images of {sides}, {classes} classes"
    result = {"method": "saved", "model": model, "image_shape": image, "classes": classes}
    return _report(title, result | {"batch_size": batch}, blocks, [])


def _saved(name: str, settings: dict[str, Any]) -> Saved:
    method = methods.make(name, **settings)
    if not isinstance(method, Saved):
        raise ConfigError(f"--method {name}: what the tape holds is told of method saved")
    return method


def _report(title: str, result: dict[str, Any], blocks: list[Block], above: list[Table]) -> Report:
    told = [dataclasses.asdict(block) | {"float32": 4 * block.elements} for block in blocks]
    total = {name: sum(getattr(block, name) for block in blocks) for name in SUMMED}
    total |= {"float32": 4 * total["elements"]}
    made = [*above, _blocks([*told, {"name": "total"} | total])]
    return Report(title, result | {"blocks": told, "blocks_total": total}, made)


def _total(rows: list[Value]) -> dict[str, Any]:
    """Of all values but masks."""
    rows = [row for row in rows if row.path != MASK]
    elements, nbytes = sum(row.elements for row in rows), sum(row.nbytes for row in rows)
    clipped = sum(row.clipped for row in rows)
    return {
        "elements": elements, "bytes": nbytes, "float32": 4 * elements, "bits": 8 * nbytes / elements,
        "clipped": clipped,
    }  # fmt: skip


def _values(rows: list[Value]) -> Table:
    columns = (
        ("value", "", "value"), ("elements", ",", "elements"), ("b", "g", "nominal"), ("codes", ",", "codes"),
        ("found", ",", "found"), ("bits", ".3f", "bits"), ("float32", ",.2f", "float32"),
        ("packed", ",.2f", "packed"), ("clipped", ",", "clipped"),
    )  # fmt: skip
    lines = [
        dataclasses.asdict(row) | {
            "value": f"{row.layer}/{row.path}", "bits": row.bits, "packed": row.nbytes / MB,
            "float32": None if row.path == MASK else 4 * row.elements / MB,
        }
        for row in rows
    ]  # fmt: skip
    total = _total(rows)
    total |= {"value": "all but masks", "nominal": "", "codes": "", "found": ""}
    total |= {"float32": total["float32"] / MB, "packed": total["bytes"] / MB}
    return tables.of("what the tape holds, sizes in MB of 2^20 bytes", [*lines, total], columns)


def _blocks(lines: list[dict[str, Any]]) -> Table:
    columns = (
        ("block", "", "name"), ("elements", ",", "elements"),
        ("float32", ",.2f", lambda row: row["float32"] / MB),
        ("b/8*N", ",.2f", lambda row: row["nominal"] / MB),
        ("saved", ",.2f", lambda row: (row["float32"] - row["nominal"]) / MB),
        ("packed", ",.2f", lambda row: row["packed"] / MB), ("on the tape", ",", "held"),
        ("float32", ",.2f", lambda row: 4 * row["held"] / MB),
        ("packed", ",.2f", lambda row: row["held_packed"] / MB),
    )  # fmt: skip
    return tables.of(
        "outputs of the blocks, and all that the tape saves in them; MB of 2^20 bytes", lines, columns
    )
