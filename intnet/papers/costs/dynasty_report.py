"""What DYNASTY's model says of a run: its maps of widths, and what it cost on a bit-serial array."""

from functools import partial
from typing import Any

from intnet.papers.costs import dynasty_costs, logs, plots
from intnet.papers.costs.dynasty_costs import ARRAY_MILLIWATTS, MODULE_MILLIWATTS, MODULE_MM2, STAGES, Curve
from intnet.papers.costs.logs import Maps
from intnet.papers.costs.plots import OPERANDS
from intnet.papers.costs.report import Report, percent, spaced, two_places
from intnet.runs import report
from intnet.show import tables
from intnet.show.tables import Table
from intnet.training.train import Run

BETWEEN = 18  # epochs shown between the first and the last
OF_LAYER = (
    ("blocks", ",", "blocks"),
    ("bits", ".2f", "mean"),
    ("skipped", ".1%", "skipped"),
    ("r", ".1f", "r"),
)
EPOCH = (
    ("epoch", "", "epoch"), ("W bits", ".2f", "weights"), ("A bits", ".2f", "activations"),
    *((name, ".1%", lambda line, name=name: line["stages"][name]) for name in STAGES),
    ("time", ".1%", "time"), ("skipped", ".1%", "skipped"), ("accuracy", ".2%", "test_accuracy"),
)  # fmt: skip
MAP = (
    ("epoch", "", "epoch"), ("alpha", "g", "alpha"), ("lambda", ".3f", "lambda"), ("bits", ".2f", "mean"),
    ("exact", ".2f", "exact"), ("untuned", ".2f", "untuned"), ("by MACs", ".2f", "mac_bits"),
    ("skipped", ".1%", "skipped"),
    *((name, ".2e", lambda entry, name=name: entry["loss_noise"][name.split()[-1]])
      for name in ("noise before", "after", "uniform")),
    ("factor", ".2f", "noise_factor"), ("as long", ".2f", "noise_factor_by_macs"),
)  # fmt: skip


def of_run(
    folder: str, run: Run, baseline: str | None, accuracy: float | None, data_dir: str | None
) -> Report:
    """A run against 8 bits everywhere, for as long or for as long as the baseline; accuracy: to reach."""
    logged = logs.read_maps(folder, run)
    other = Curve(logged.history.length, logged.tested if baseline is None else [])
    if baseline is not None:
        other, accuracy = logs.read_baseline(baseline, logged.identity, accuracy, data_dir)
    whose = {"run": folder, "baseline": baseline}
    result = whose | told(run, logged, other, accuracy)
    title = (
        f"{report.title(logged.identity)}: {run.step:,} steps of {run.batch_size} images, "
        f"{logged.history.length:g} epochs; against 8 bits everywhere"
    )
    made = [_layers(result), *(_maps(result, operand) for operand in OPERANDS)]
    made.append(
        tables.of(
            "epochs, over 8 bits everywhere",
            [result["epochs"][at] for at in spaced(len(result["epochs"]), BETWEEN)],
            EPOCH,
        )
    )
    return Report(title, result, made, figures(result), partial(plots.maps, title=title, result=result))


# -- for machines ------------------------------------------------------------------------------


def told(run: Run, logged: Maps, baseline: Curve, wanted: float | None) -> dict[str, Any]:
    """What `--json` prints; epochs count from 1."""
    own, history, last = logged.identity, logged.history, logged.maps[-1]
    reached = dynasty_costs.iso(history, logged.tested, wanted, baseline)
    summary = dynasty_costs.summary(history) | {
        "iso": reached | {"baseline_length": baseline.length},
        "noise_factor": {operand: factor(last[operand]) for operand in OPERANDS},
        "noise_factor_by_macs": {operand: factor_by_macs(last[operand]) for operand in OPERANDS},
    }
    return {
        **{key: own[key] for key in ("method", "model", "data")},
        "steps": run.step,
        "batch_size": run.batch_size,
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
        factors = {"noise_factor": factor, "noise_factor_by_macs": factor_by_macs}
        found[operand] = line[operand] | moved | {key: of(line[operand]) for key, of in factors.items()}
    return found


def _mean(entries: list[dict[str, Any]], key: str) -> float:
    """Over all blocks of all layers."""
    return sum(entry[key] * entry["blocks"] for entry in entries) / sum(entry["blocks"] for entry in entries)


def _epochs(logged: Maps) -> list[dict[str, Any]]:
    """What each epoch, in part or whole, cost with the map in force."""
    history, found = logged.history, []
    costs = zip(dynasty_costs.by_stage(history), history.epochs, history.shares, strict=True)
    for k, (stages, layers, share) in enumerate(costs):
        whole = dynasty_costs.work(stages.values())
        maps = [layer.activations for layer in layers if layer.activations is not None]
        found.append(
            {
                "epoch": k + 1,
                "share": share,
                "time": dynasty_costs.ratio(whole),
                "stages": {name: dynasty_costs.ratio(stages[name]) for name in STAGES},
                "skipped": dynasty_costs.skipped(whole),
                "weights": dynasty_costs.mean([layer.weights for layer in layers]),
                "activations": dynasty_costs.mean(maps) if maps else None,
                "test_accuracy": logged.tested[k] if k < len(logged.tested) else None,
            }
        )
    return found


# -- for people --------------------------------------------------------------------------------


def _maps(result: dict[str, Any], operand: str) -> Table:
    maps = [result["maps"][at] for at in spaced(len(result["maps"]), BETWEEN)]
    lines = [line[operand] | {"epoch": line["epoch"]} for line in maps]
    return tables.of(f"maps of {operand}, by the epoch that ends with it", lines, MAP)


def _layers(result: dict[str, Any]) -> Table:
    """The first layer's activations are the network's input, of 8 bits."""
    empty = {"blocks": None, "mean": "8", "skipped": None, "r": None}
    columns: list[tables.Get] = [
        ("layer", "", "layer"),
        ("MACs", ",", lambda layer: layer["weights"]["macs"]),
    ]
    for operand in OPERANDS:
        for name, spec, key in OF_LAYER:
            heading = f"{operand[0].upper()} {name}" if key == "blocks" else name
            columns.append((heading, spec, lambda layer, of=operand, key=key: _of(layer[of] or empty, key)))
    return tables.of("weight layers, last map (W weights, A activations)", result["layers"], columns)


def _of(entry: dict[str, Any], key: str) -> Any:
    """Of r the median, where it has one."""
    if key != "r":
        return entry[key]
    return entry["r"][2] if entry["r"] else None


def figures(result: dict[str, Any]) -> list[tuple[str, str, str]]:
    """(what, value, what it means) of what `--json` prints."""
    summary = result["summary"]
    watts = f"array {ARRAY_MILLIWATTS:g} mW and module {MODULE_MILLIWATTS:g} mW"
    macs = (two_places(summary[f"{operand}_mac_bits"]) for operand in ("weights", "activations"))
    by_macs = [f"mean over blocks and training; {value} weighted by multiply-adds" for value in macs]
    area = f"{summary['area_mm2']:g} mm2 with the module's {MODULE_MM2:g}"
    return [
        ("time", percent(summary["time"]), "of training, over 8 bits everywhere for as many epochs"),
        *((f"  {name}", percent(summary["by_stage"][name]), "") for name in STAGES),
        ("energy", percent(summary["energy"]), f"over the array's at 8 bits: {watts}, for that time"),
        ("  array alone", percent(summary["energy_array"]), ""),
        ("  by step", percent(summary["energy_by_step"]), "the module takes as much in every step"),
        ("area", f"+{summary['area_overhead']:.1%}", area),
        ("skipped", percent(summary["skipped"]), "of multiply-adds, their block being of 0 bits"),
        ("bits, weights", two_places(summary["weights"]), by_macs[0]),
        ("bits, activations", two_places(summary["activations"]), by_macs[1]),
        *_iso(result),
        *_noise(summary),
    ]


def _noise(summary: dict[str, Any]) -> list[tuple[str, str, str]]:
    """How much more the loss would see of one width everywhere."""
    lines = []
    for operand, value in summary["noise_factor"].items():
        by_macs = two_places(summary["noise_factor_by_macs"][operand])
        lines.append(
            (f"noise, {operand}", two_places(value), "of one width over the last map's, as many bits")
        )
        lines.append(("  as much time", by_macs, "of one width, as many bits weighted by multiply-adds"))
    return lines


def _iso(result: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Time and energy to the wanted accuracy."""
    wanted, found = result["wanted_accuracy"], result["summary"]["iso"]
    name = "time, iso-accuracy"
    if wanted is None:
        return [(name, "-", "no accuracy to reach: --baseline or --accuracy tells it")]
    if found["epochs"] is None:
        return [(name, "-", f"no epoch reaches {wanted:.2%}")]
    whole, epochs = f"{found['baseline_length']:g}", found["epochs"]
    to_there = f"up to epoch {epochs}, which reaches {wanted:.2%}"
    lines = [
        (name, percent(found["time"]), f"{to_there}, over 8 bits for {whole} epochs"),
        ("  as many epochs", percent(found["equal"]), f"over 8 bits for {epochs}"),
    ]
    if result["baseline"] is not None:
        reached = found["baseline_epochs"]
        about = f"over 8 bits up to epoch {reached}, where the baseline reaches it"
        if reached is None:
            about = "no epoch of the baseline reaches it"
        lines.append(("  both to there", percent(found["reached"]), about))
    return [
        *lines,
        ("  energy", percent(found["energy"]), f"over 8 bits for {whole} epochs"),
        ("  energy by step", percent(found["energy_by_step"]), ""),
    ]
