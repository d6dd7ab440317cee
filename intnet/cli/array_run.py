"""`intnet costs` of a run of dynasty: its maps of bit widths, and what it cost on a bit-serial array."""

import argparse
import dataclasses
import json
from pathlib import Path
from typing import Any

from intnet.cli import array_read, array_text
from intnet.cli.array_read import Logged
from intnet.costs import array_costs
from intnet.costs.array_costs import STAGES, Curve
from intnet.errors import ConfigError
from intnet.runs import files, report, run_folder
from intnet.training.train import Run

OPERANDS = ("weights", "activations")


def run(args: argparse.Namespace, given: Run) -> int:
    """Count, draw, print."""
    if args.map is not None:
        _check_map(args, given)
    logged = array_read.read(args.folder, given)
    result = told(args, given, logged)
    title = (
        f"{report.title(logged.identity)}: {given.step:,} steps of {given.batch_size} images, "
        f"{logged.history.length:g} epochs; against 8 bits everywhere"
    )
    if args.plot is not None:
        files.replace(args.plot, lambda stream: _draw(stream, args.plot, args.map, given, title, result))
    if args.json:
        print(json.dumps(result))
        return 0
    array_text.show(title, result)
    if args.plot is not None:
        print(f"\nwritten: {args.plot}")
    return 0


def _check_map(args: argparse.Namespace, given: Run) -> None:
    from intnet.methods.options import unknown

    if args.plot is None:
        raise ConfigError("--map draws: name the picture with --plot FILE")
    names = [layer.name for layer in given.model.all_layers() if layer.takes_weight]
    if args.map not in names:
        raise unknown("weight layer", args.map, names)


def _draw(stream: Any, file: Path, layer: str | None, given: Run, title: str, result: dict[str, Any]) -> None:
    if layer is None:
        from intnet.cli import array_plot

        array_plot.draw(stream, file, title, result)
    else:
        from intnet.cli import array_map

        array_map.draw(stream, file, given, layer)


def told(args: argparse.Namespace, given: Run, logged: Logged) -> dict[str, Any]:
    """What `--json` prints; epochs count from 1."""
    own, history = logged.identity, logged.history
    wanted, baseline = args.accuracy, Curve(history.length, logged.tested if args.baseline is None else [])
    if args.baseline is not None:
        baseline, final = _baseline(args, own)
        wanted = final if wanted is None else wanted
    last = logged.maps[-1]
    reached = array_costs.iso(history, logged.tested, wanted, baseline)
    summary = dataclasses.asdict(array_costs.summary(history)) | {
        "iso": dataclasses.asdict(reached) | {"baseline_length": baseline.length},
        "noise_factor": {operand: factor(last[operand]) for operand in OPERANDS},
        "noise_factor_by_macs": {operand: factor_by_macs(last[operand]) for operand in OPERANDS},
    }
    return {
        "run": args.folder,
        "baseline": args.baseline,
        "method": own["method"],
        "model": own["model"],
        "data": own["data"],
        "steps": given.step,
        "batch_size": given.batch_size,
        "forward": history.forward,
        "accuracy": logged.accuracy,
        "wanted_accuracy": wanted,
        "summary": summary,
        "epochs": _epochs(logged),
        "maps": [_map(line) for line in logged.maps],
        "layers": [
            {"layer": layer.name} | {operand: last["layers"][layer.name].get(operand) for operand in OPERANDS}
            for layer in history.epochs[0]
        ],
    }


def _baseline(args: argparse.Namespace, own: dict[str, Any]) -> tuple[Curve, float | None]:
    """Its curve and final accuracy; ConfigError unless it is of the same model, data and images."""
    from intnet.cli.costs import check_same

    other = run_folder.load(args.baseline, data_dir=args.data_dir)
    check_same(
        args.baseline, own, run_folder.identity(other), ("model", "data", "image_shape", "classes", "limit")
    )
    return array_read.curve(args.baseline, other)


def factor(summary: dict[str, Any]) -> float | None:
    """Loss noise of a uniform map of as many bits over this map's; None where there is none."""
    noise = summary["loss_noise"]
    return noise["uniform"] / noise["after"] if noise["after"] else None


def factor_by_macs(summary: dict[str, Any]) -> float | None:
    """The same of a uniform map that takes as much time: noise falls by 4 with every bit."""
    found = factor(summary)
    return None if found is None else found * 4 ** (summary["mean"] - summary["mac_bits"])


def _map(line: dict[str, Any]) -> dict[str, Any]:
    """A map as made at the end of `epoch`: its summaries, and how far its blocks moved."""
    found: dict[str, Any] = {"epoch": line["epoch"] + 1}
    for operand in OPERANDS:
        entries = [entry[operand] for entry in line["layers"].values() if operand in entry]
        moved = {key: _mean(entries, key) for key in ("change", "change_new")} if entries else {}
        factors = {
            "noise_factor": factor(line[operand]),
            "noise_factor_by_macs": factor_by_macs(line[operand]),
        }
        found[operand] = line[operand] | moved | factors
    return found


def _mean(entries: list[dict[str, Any]], key: str) -> float:
    """Over all blocks of all layers."""
    return sum(entry[key] * entry["blocks"] for entry in entries) / sum(entry["blocks"] for entry in entries)


def _epochs(logged: Logged) -> list[dict[str, Any]]:
    """What each epoch, in part or whole, cost with the map in force."""
    history, found = logged.history, []
    costs = zip(array_costs.by_stage(history), history.epochs, history.shares, strict=True)
    for k, (stages, layers, share) in enumerate(costs):
        whole = array_costs.work(stages.values())
        maps = [layer.activations for layer in layers if layer.activations is not None]
        found.append(
            {
                "epoch": k + 1,
                "share": share,
                "time": array_costs.ratio(whole),
                "stages": {name: array_costs.ratio(stages[name]) for name in STAGES},
                "skipped": array_costs.skipped(whole),
                "weights": array_costs.mean([layer.weights for layer in layers]),
                "activations": array_costs.mean(maps) if maps else None,
                "test_accuracy": logged.tested[k] if k < len(logged.tested) else None,
            }
        )
    return found
