"""Reports: what a run came to, and what every data path needed, as a dict, JSON and Markdown.

`make` collects them from a run whose last step a `trace.PathTable` observed; `groups` condenses the
table to one row a path and format for a terminal. Nothing here trains or writes.
"""

import dataclasses
import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any

import intnet
from intnet.errors import CheckpointError
from intnet.machine.ranks import current
from intnet.methods.packing import Held
from intnet.methods.trace import PathRow, PathTable
from intnet.runs import records
from intnet.show.tables import Cell, Column, Table, text
from intnet.training import model_bytes
from intnet.training.tape import MB, Tape, unit
from intnet.training.train import Run

JSON, MARKDOWN = "report.json", "report.md"

COLUMNS = {
    "layer": "layer",
    "path": "path",
    "format": "format",
    "nominal_bits": "nominal bits",
    "used_bits": "used bits",
    "range_bits": "log2(2 peak + 1)",
    "bound_bits": "bound, bits",
    "exponents": "exponent",
    "elements": "elements",
    "saturated": "saturated",
    "zeros": "zeros",
    "saturated_in_run": "saturated in the run",
}

# Shapes (`runs/records.py`) of a report.
_WHOLE, _REAL = (int, NoneType), (float, NoneType)
_ROW = {
    "layer": str,
    "path": str,
    "format": str,
    "nominal_bits": _WHOLE,
    "bound_bits": _WHOLE,
    "exponents": ([int], NoneType),
    "elements": int,
    "saturated": _WHOLE,
    "zeros": _WHOLE,
}
_INTEGER_ROW = _ROW | {"used_bits": int, "range_bits": float, "saturated_in_run": int}
_FLOAT_ROW = _ROW | {"used_bits": NoneType, "range_bits": NoneType, "saturated_in_run": NoneType}
_REPORT = {
    "intnet": str,
    "run": dict,
    "steps": int,
    "epochs": float,
    "test_accuracy": _REAL,  # None of data without a test part
    "test_images": int,
    "last_loss": _REAL,
    "seconds": float,
    "images_per_second": _REAL,
    "saturated": int,
    "state_sha256": str,
    "paths": [(_INTEGER_ROW, _FLOAT_ROW)],
}

_OF_SOME = {  # shapes of what some methods' reports have, or those of runs that were seen to their end
    "saved": {"elements": int, "bytes": int, "bits": float, "mask_bytes": int},
    "fixed_model": {"packed": int, "float32": int, "zeros": int, "elements": int},
    "tape": {"held": int, "packed": int},
    "model_bytes": int,
    "process": {"threads": int, "beside": int, "before": _WHOLE, "peak": _WHOLE},
}

NOTES = """\
Values of the last step. *nominal*: bits that the format names; *used*: bits that the codes really needed,
sign included; *log2(2 peak + 1)*: the same as a fraction, where codes lie within +-peak; *bound*: bits that
the exact value before rounding is proven to fit (its accumulator); *exponent*: value = code * 2^exponent.
Paths of float32 have none of these. *saturated in the run* counts all steps.
"""


def make(
    run: Run,
    identity: dict[str, Any],
    table: PathTable,
    accuracy: float | None,
    metrics: Iterable[dict[str, Any]],
    tape: Tape | None = None,
) -> dict[str, Any]:
    """The report of `run`; `metrics` are the lines of metrics.jsonl up to its step, tape: of the last one."""
    saturated = run.counts()
    seconds, rates, loss = 0.0, [], None
    for line in metrics:
        if line["kind"] == "step":
            seconds += line["seconds"]
            rates.append(line["images_per_second"])
            loss = line["loss"]
        elif line["kind"] == "epoch":
            for name, count in line["saturated"].items():
                saturated[name] = saturated.get(name, 0) + count
    result = {
        "intnet": intnet.__version__,
        "run": identity,
        "steps": run.step,
        "epochs": round(run.step / run.steps_per_epoch, 3),
        "test_accuracy": accuracy,
        "test_images": len(run.data.test_labels),
        "last_loss": loss,
        "seconds": round(seconds, 3),
        "images_per_second": round(statistics.median(rates), 1) if rates else None,
        "saturated": sum(saturated.values()),
        "state_sha256": run.digest(),
        "model_bytes": model_bytes.stored_bytes(run),
        "paths": [_row(row, saturated) for row in table.rows.values()],
    }
    result |= {"saved": _held(run.method.held)} if run.method.held and current() is None else {}
    return result | ({"tape": dataclasses.asdict(tape)} if tape is not None else {})


def _held(held: Mapping[str, Held]) -> dict[str, Any]:
    """What the tape held in the last step: bits an element with metadata; masks are a bit an element."""
    masks = sum(one.nbytes for name, one in held.items() if name.endswith("/mask"))
    values = [one for name, one in held.items() if not name.endswith("/mask")]
    elements, nbytes = sum(one.elements for one in values), sum(one.nbytes for one in values)
    bits = 8 * nbytes / elements
    return {"elements": elements, "bytes": nbytes, "bits": round(bits, 4), "mask_bytes": masks}


def _row(row: PathRow, saturated: dict[str, int]) -> dict[str, Any]:
    """One data path of one layer."""
    count = saturated.get(f"{row.layer}/{row.path}", 0) if row.integer else None
    return row.to_dict() | {"saturated_in_run": count}


def read(folder: Path, identity: dict[str, Any], step: int) -> dict[str, Any] | None:
    """The report in `folder`, None when there is none of this step; CheckpointError when it is damaged."""
    path = folder / JSON
    try:
        result: dict[str, Any] = records.check(records.parse(path.read_bytes()), _REPORT)
        tested = float if result["test_images"] else NoneType
        records.check(result["test_accuracy"], tested, "it['test_accuracy']")
        for name, shape in _OF_SOME.items():
            if name in result:
                records.check(result[name], shape, name)
        if result["run"] != identity:
            raise ValueError("it is of another run")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as error:
        raise CheckpointError(
            f"{path}: damaged ({error}): delete it and resume, which makes it again without its table"
        ) from None
    return result if result["steps"] == step else None


# -- for reading -------------------------------------------------------------------------------


def title(identity: dict[str, Any]) -> str:
    """'wageubn, resnet8 on digits'."""
    return f"{identity['method']}, {identity['model']} on {identity['data']}"


def last_batch(report: dict[str, Any]) -> int:
    """Images of the last step: at an epoch's end they are what is left."""
    images, batch = report["run"]["limit"], report["run"]["batch_size"]
    before = (report["steps"] - 1) % -(-images // batch) * batch
    return int(min(batch, images - before))


def facts(report: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(what, value) of everything but the table, as far as the report has it."""
    run = report["run"]
    images = f"of {report['test_images']:,} images" if report["test_images"] else "no test part"
    yield "test accuracy", f"{text(report['test_accuracy'], '.2%')} {images}"
    if "fixed_model" in report:
        sizes = report["fixed_model"]
        share, zeros = sizes["packed"] / sizes["float32"], sizes["zeros"] / sizes["elements"]
        packed = f"{sizes['packed']:,} bytes packed, {share:.1%} of float32"
        yield "fixed point", f"{packed}; {zeros:.1%} of its weights are 0"
    yield from _bytes(report)
    yield "last loss", text(report["last_loss"], ".4f")
    passes = f"{report['epochs']:g} epoch{'s' * (report['epochs'] != 1)}"
    yield "steps", f"{report['steps']:,} of {run['batch_size']} images ({passes})"
    yield "seed", str(run["seed"])
    if "weights" in run:
        own = run["weights"]
        left = f", {len(own['left']):,} did not fit" if own["left"] else ""
        yield "first weights", f"{own['tensors']:,} tensors of a file{left}; its sha256 {own['sha256']}"
    yield "training images", f"{run['limit']:,}"
    if "augment" in run:
        yield "augmented", run["augment"]
    options = (f"{key}={'off' if value is None else value}" for key, value in run["options"].items())
    yield "options", ", ".join(options) or "-"
    rate = report["images_per_second"]
    yield "time", f"{report['seconds']:.1f} s" + (f", {rate:,.0f} images/s" if rate else "")
    yield "saturated", f"{report['saturated']:,} values"


def _bytes(report: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Of what a method packs on the tape, of the model, of all that a step saves, of the process."""
    if "saved" in report:
        held = report["saved"]
        one, name = unit(4 * held["elements"])
        masks = f", and masks of {held['mask_bytes'] / one:,.2f} {name}" if held["mask_bytes"] else ""
        size = f"{held['bytes'] / one:,.2f} {name} of {held['elements']:,} values of the last step"
        floats = f"float32: {held['elements'] * 4 / one:,.2f} {name}"
        yield "tape", f"{size}, {held['bits']:.2f} bits each{masks}; {floats}"
    if "model_bytes" in report:
        yield "model", f"{report['model_bytes']:,} bytes for inference, in its formats' bits"
    if "tape" in report:
        one, name = unit(max(report["tape"].values()))
        held, packed = (f"{report['tape'][key] / one:,.2f} {name}" for key in ("held", "packed"))
        yield "last step saved", f"{held} of {last_batch(report)} images; {packed} in its formats' bits"
    own = report.get("process", {"peak": None})
    if own["peak"] is not None:
        most, before = (f"{own[key] / MB:,.0f} MB" for key in ("peak", "before"))
        yield "memory", f"{most} at most, {before} before the first step"


def markdown(report: dict[str, Any]) -> str:
    """The report with the whole table, one row a layer and path."""
    lines = [f"# {title(report['run'])}", ""]
    lines += [f"- {what}: {value}" for what, value in facts(report)]
    lines += [f"- state sha256: `{report['state_sha256']}`", f"- intnet {report['intnet']}"]
    lines += ["", "## Data paths", ""]
    if not report["paths"]:
        return "\n".join([*lines, "No step was observed: the run was already at its last step.", ""])
    columns = [Column(name, right=key not in ("layer", "path", "format")) for key, name in COLUMNS.items()]
    cells = [[_cell(key, row[key]) for key in COLUMNS] for row in report["paths"]]
    return "\n".join([*lines, NOTES, *Table("", columns, cells).markdown(), ""])


def _cell(key: str, value: Any) -> Cell:
    if key == "format":
        return f"`{value}`"  # '<8,7>' is not a tag
    return span(value) if key == "exponents" and value is not None else value


def span(exponents: list[int]) -> str:
    """'-7' or '-21..-19'."""
    low, high = exponents
    return str(low) if low == high else f"{low}..{high}"


@dataclass
class Group:
    """One path in one format, over all layers that have it: the largest of each number, and sums.

    format: as narrow tables write it
    """

    path: str
    format: str
    nominal_bits: int | None
    layers: int = 0
    used_bits: int = 0
    range_bits: float = 0.0
    bound_bits: int = 0
    saturated: int = 0


def groups(report: dict[str, Any]) -> tuple[list[Group], list[str]]:
    """(integer paths condensed over layers, names of float32 paths), in the order in which they came."""
    found: dict[tuple[str, str], Group] = {}
    floats: dict[str, None] = {}
    for row in report["paths"]:
        if row["used_bits"] is None:
            floats[row["path"]] = None
            continue
        key = (row["path"], row.get("format_short", row["format"]))  # an older report has none
        group = found.setdefault(key, Group(*key, row["nominal_bits"]))
        group.layers += 1
        group.used_bits = max(group.used_bits, row["used_bits"])
        group.range_bits = max(group.range_bits, row["range_bits"])
        group.bound_bits = max(group.bound_bits, row["bound_bits"] or 0)
        group.saturated += row["saturated_in_run"]
    return list(found.values()), list(floats)
