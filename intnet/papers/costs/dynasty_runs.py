"""Runs of DYNASTY side by side on its bit-serial array: accuracy over time (figure 7), energy (figure 8).

Time counts epochs of the array at 8 bits: an epoch of a run takes sum T b / sum T 8 of one. --baseline is any
run on the same data; it takes 8 bits everywhere, without the module, and tells the accuracy to reach unless
--accuracy does. Energy counts what the array takes for such an epoch; the module's is the same in every step
(`dynasty_costs.energy_by_step`), none where widths never move (`map=uniform`).
"""

from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

from intnet.errors import ConfigError
from intnet.methods import METHODS
from intnet.papers.costs import dynasty_costs, logs, plots
from intnet.papers.costs.adapt_costs import iso_step
from intnet.papers.costs.dynasty_costs import STATIC_BITS, History
from intnet.papers.costs.report import Report, check_same
from intnet.runs import report, run_folder
from intnet.show import tables

METHOD = "dynasty"
WHOLE = (
    ("run", "", "name"), ("W bits", ".2f", "weights"), ("A bits", ".2f", "activations"),
    ("epochs", "g", "epochs"), ("accuracy", ".2%", "accuracy"), ("best", ".2%", "best"),
    *((key, ".2f", lambda line, key=key: line["whole"][key]) for key in ("time", "energy")),
)  # fmt: skip
REACHED = (
    ("run", "", "name"),
    *((name, spec, lambda line, key=key: (line["reached"] or {}).get(key)) for name, spec, key in (
        ("epochs", "d", "epochs"), ("time", ".2f", "time"), ("of 8 bits' time", ".1%", "time_ratio"),
        ("energy", ".2f", "energy"), ("of 8 bits' energy", ".1%", "energy_ratio"),
    )),
)  # fmt: skip


def of_runs(
    folders: Sequence[str], baseline: str | None, accuracy: float | None, data_dir: str | None
) -> Report:
    """All runs against the baseline; accuracy: to reach, its final one unless told."""
    read: list[logs.Maps] = []
    for folder in folders:
        run = run_folder.load(folder, data_dir=data_dir)
        if not isinstance(run.method, METHODS[METHOD]):
            raise ConfigError(f"{folder} is a run of {run.method.name}; side by side are runs of {METHOD}")
        found = logs.read_timed(folder, run)
        read.append(found)
        check_same(folder, read[0].identity, found.identity, logs.SAME, "the first run's")
    own, lines = read[0].identity, []
    if baseline is not None:
        curve, accuracy = logs.read_baseline(baseline, own, accuracy, data_dir)
        layers = tuple(layer.at(STATIC_BITS) for layer in read[0].history.epochs[0])
        wide = dynasty_costs.of_length(layers, curve.length, read[0].history.forward)
        lines.append(told("8 bits", wide, curve.tested, accuracy, False))
    for name, one in zip(_names(folders), read, strict=True):
        moves = logs.moving(one.identity)
        lines.append(told(name, one.history, one.tested, accuracy, moves))
    if baseline is not None:
        _over(lines[0]["reached"], lines)
    result = {"runs": list(folders), "baseline": baseline, "wanted_accuracy": accuracy, "lines": lines}
    title = f"{report.title(own)}: {len(folders)} runs on the bit-serial array, in its epochs at 8 bits"
    made = [tables.of("time and energy of all epochs", lines, WHOLE)]
    if accuracy is not None:
        made.append(tables.of(f"up to {accuracy:.2%}; '-': no epoch reaches it", lines, REACHED))
    return Report(title, result, made, draw=partial(plots.side_by_side, title=title, result=result))


def told(
    name: str, history: History, tested: Sequence[float], wanted: float | None, moves: bool
) -> dict[str, Any]:
    """A run as `--json` prints it; times: after each whole epoch; moves: the module makes its maps."""
    epochs = iso_step(enumerate(tested, start=1), wanted)
    summary = dynasty_costs.summary(history)
    return {
        "name": name,
        "weights": summary["weights"],
        "activations": summary["activations"],
        "epochs": history.length,
        "accuracy": tested[-1] if tested else None,
        "best": max(tested, default=None),
        "tested": list(tested),
        "times": list(accumulate(dynasty_costs.times(history)))[: len(tested)],
        "whole": _spent(history, None, moves),
        "reached": None if epochs is None else {"epochs": epochs} | _spent(history, epochs, moves),
    }


def _spent(history: History, epochs: int | None, moves: bool) -> dict[str, Any]:
    """Time, energy and its parts of the first so many epochs, or of all."""
    parts = dynasty_costs.parts(history, epochs, moves)
    time = sum(parts[name] for name in dynasty_costs.STAGES)
    return {"time": time, "energy": sum(parts.values()), "parts": parts}


def _over(theirs: dict[str, Any] | None, lines: list[dict[str, Any]]) -> None:
    """Time and energy to the accuracy over the baseline's, where it gets there."""
    for line in lines:
        if line["reached"] is not None:
            for key in ("time", "energy"):
                ratio = None if theirs is None else line["reached"][key] / theirs[key]
                line["reached"][f"{key}_ratio"] = ratio


def _names(folders: Sequence[str]) -> list[str]:
    """The folders' own names where these differ."""
    short = [Path(folder).name for folder in folders]
    return short if len(set(short)) == len(short) else list(folders)
