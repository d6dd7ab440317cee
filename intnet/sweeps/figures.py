"""What `intnet compare` tells of a run: from its report and log to one number a column.

    numbers(folder, plan, point, seed, report)      key -> number, None where the run does not tell it

Bits are means over the elements of the weight layers' operands in the last step. Forward and backward differ
where a method reads two copies of an operand (`COPIES`).

    W    the weights that the products read        e    errors at the layers' outputs, e3
    x    the layers' inputs, x0                    gW   weight gradients, as they leave their quantizer

`nominal` is what the format names (of blocks in several widths the mean), `used` what the widest code of a
layer really needed; float32 counts as 32 in both. Speed-ups are of training over float32 by AdaPT's model
(`papers/costs/adapt_costs.py`), the products of a layer in WL forward, in the errors' word length backward:

    speedup         every backward pass in float32, as the paper counts its own method and MuPPET
    speedup_own     every backward pass in the word length of its errors: of adapt and saved the same

WL and zero weights of adapt and muppet are those of every step, with adapt's overhead counted once a step;
other methods' are of the last step, dense, float32 layers of 32 bits. `array_time` is DYNASTY's own model, a
bit-serial array: time over that of 8 bits everywhere, which no other column is comparable with.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from intnet import methods, models
from intnet.methods.rounded_copies import RoundedCopies
from intnet.papers.costs import adapt_costs, dynasty_costs, logs
from intnet.papers.costs.adapt_costs import FLOAT_BITS, History
from intnet.runs.report import last_batch
from intnet.sweeps.plan import Plan, Point, run_folder
from intnet.sweeps.rows import Numbers, over_epochs

# operand -> paths that the forward and the backward products read, the first that a layer has
COPIES = {
    "W": (("Wq", "W"), ("Wb", "Wq", "W")),
    "x": (("x0",), ("x0b", "x0s", "x0")),
    "e": (("e3",), ("e3w", "e3")),  # of e4, then of gW
    "gW": (("gWq", "gW"), ("gWq", "gW")),
}
ERRORS = ("e3", "e3w")  # one of which each weight layer has
SIDES = ("forward", "backward")
KINDS = ("nominal", "used")
STORED = ("memory", "sparsity_mean")  # of those, from adapt_costs.summary


def numbers(
    folder: Path, plan: Plan, point: Point, seed: int, report: dict[str, Any], curve: Sequence[float | None]
) -> Numbers:
    """All figures of a run that is done; CheckpointError where its log is damaged. curve: of `rows.curve`."""
    tape, process = report.get("tape", {}), report.get("process", {})
    own = plan.identity(point, seed)
    place = run_folder(folder, point, seed)
    return {
        "test_accuracy": report["test_accuracy"],
        **over_epochs(curve, report["test_accuracy"]),
        **operand_bits(report["paths"]),
        **speedups(place, own, report),
        "array_time": array_time(place, own, report["steps"], plan.steps_per_epoch),
        "model_bytes": report.get("model_bytes"),
        "tape_images": last_batch(report) if tape else None,
        "tape_bytes": tape.get("held"),
        "tape_bytes_packed": tape.get("packed"),
        "images_per_second": report["images_per_second"],
        "seconds": report["seconds"],
        "peak_bytes": process.get("peak"),
        "bytes_before": process.get("before"),
        "threads": process.get("threads"),
        "beside": process.get("beside"),
    }


# -- bits --------------------------------------------------------------------------------------


def operand_key(operand: str, side: str, kind: str) -> str:
    """'W_forward_nominal'."""
    return f"{operand}_{side}_{kind}"


def operand_bits(paths: Sequence[dict[str, Any]]) -> Numbers:
    """Mean bits of the four operands, both sides, both kinds; None for a report without its table."""
    layers = _weight_layers(paths)
    found: Numbers = {}
    for operand, sides in COPIES.items():
        for side, names in zip(SIDES, sides, strict=True):
            rows = [row for row in (_first(layer, names) for layer in layers) if row is not None]
            elements = sum(row["elements"] for row in rows)
            for kind, bits in zip(KINDS, (_nominal, _used), strict=True):
                total = math.fsum(bits(row) * row["elements"] for row in rows)
                found[operand_key(operand, side, kind)] = total / elements if elements else None
    return found


def _weight_layers(paths: Sequence[dict[str, Any]]) -> list[dict[str, dict[str, Any]]]:
    """The paths of each layer that has weights, by name."""
    layers: dict[str, dict[str, dict[str, Any]]] = {}
    for row in paths:
        layers.setdefault(row["layer"], {})[row["path"]] = row
    return [layer for layer in layers.values() if _first(layer, ERRORS) is not None]


def _first(layer: dict[str, dict[str, Any]], names: Sequence[str]) -> dict[str, Any] | None:
    return next((layer[name] for name in names if name in layer), None)


def _nominal(row: dict[str, Any]) -> float:
    """Of an exact path what its codes need: no format limits them."""
    if row["used_bits"] is None:
        return FLOAT_BITS
    bits = next(
        (row[key] for key in ("mean_bits", "nominal_bits") if row.get(key) is not None), row["used_bits"]
    )
    return float(bits)


def _used(row: dict[str, Any]) -> float:
    return FLOAT_BITS if row["used_bits"] is None else row["used_bits"]


# -- costs -------------------------------------------------------------------------------------


def speedups(folder: Path, own: dict[str, Any], report: dict[str, Any]) -> Numbers:
    """`speedup` and `speedup_own`; None for a report without its table. And `STORED` where WL moves."""
    method = methods.METHODS[own["method"]]
    moves = issubclass(method, RoundedCopies)
    if moves:
        history = logs.read_log(folder, own, report["steps"])[1]
        errors = history.widths if issubclass(method, methods.Muppet) else None
    elif not report["paths"]:
        return dict.fromkeys(("speedup", "speedup_own", *STORED))
    else:
        history, errors = _constant(own, report)
    base = adapt_costs.float32(history.layers, history.steps, history.batch_size, history.accs)
    told = adapt_costs.summary(history, base)
    return {
        "speedup": told["speedup"],
        "speedup_own": adapt_costs.summary(replace(history, errors=errors), base)["speedup"],
        **{key: told[key] if moves else None for key in STORED},
    }


def _constant(own: dict[str, Any], report: dict[str, Any]) -> tuple[History, np.ndarray]:
    """One step that stands for all, and the errors' word lengths in it."""
    sizes = adapt_costs.layer_sizes(models.make(own["model"], tuple(own["image_shape"]), own["classes"]))
    found = {next(iter(layer.values()))["layer"]: layer for layer in _weight_layers(report["paths"])}
    rows = [tuple(_first(found[size.name], names) for names in (COPIES["W"][0], ERRORS)) for size in sizes]
    widths, errors = (
        np.array([[min(FLOAT_BITS, _nominal(row[k])) for row in rows]])  # type: ignore[arg-type]
        for k in range(2)
    )
    return adapt_costs.dense(sizes, [(1, widths)], own["batch_size"], own["options"].get("accs", 1)), errors


def array_time(folder: Path, own: dict[str, Any], steps: int, steps_per_epoch: int) -> float | None:
    """DYNASTY's; None for other methods, maps that never move, and before the first map."""
    dynasty = issubclass(methods.METHODS[own["method"]], methods.Dynasty)
    if not dynasty or steps < steps_per_epoch or not logs.moving(own):
        return None
    time: float = dynasty_costs.summary(logs.read_history(folder, own, steps)[-1])["time"]
    return time
