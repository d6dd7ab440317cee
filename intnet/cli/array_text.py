"""`intnet costs` of a run of dynasty on a terminal: layers, maps, epochs, figures."""

from typing import Any

from rich.console import Console
from rich.table import Table

from intnet.cli import terminal
from intnet.cli.costs_text import percent, times
from intnet.costs import adapt_costs
from intnet.costs.array_costs import ARRAY_MILLIWATTS, MODULE_MILLIWATTS, MODULE_MM2, STAGES

WIDTH = 140  # of the widest table
BETWEEN = 18  # epochs shown between the first and the last
LAYER = ("MACs", "W blocks", "bits", "skipped", "r", "A blocks", "bits", "skipped", "r")
MAP = (
    "alpha", "lambda", "bits", "exact", "untuned", "by MACs", "skipped", "noise before", "after", "uniform",
    "factor", "as long",
)  # fmt: skip
EPOCH = ("W bits", "A bits", *STAGES, "time", "skipped", "accuracy")


def show(title: str, result: dict[str, Any]) -> None:
    """All tables and figures."""
    console = Console(highlight=False)
    print(title)
    for made in (
        _layers(result),
        _maps(result, "weights"),
        _maps(result, "activations"),
        _epochs(result),
    ):
        terminal.print_table(console, made, WIDTH)
    print()
    for what, value, about in figures(result):
        print(f"{what:18} {value:>7}  {about}".rstrip())


def _layers(result: dict[str, Any]) -> Table:
    made = terminal.numbers_table("weight layers, last map (W weights, A activations)", "layer", LAYER)
    for layer in result["layers"]:
        cells = [f"{layer['weights']['macs']:,}"]
        for operand in ("weights", "activations"):
            entry = layer[operand]
            if entry is None:
                cells += ["-", "8", "-", "-"]
                continue
            middle = f"{entry['r'][2]:.1f}" if entry["r"] else "-"
            cells += [f"{entry['blocks']:,}", f"{entry['mean']:.2f}", percent(entry["skipped"]), middle]
        made.add_row(layer["layer"], *cells)
    return made


def _maps(result: dict[str, Any], operand: str) -> Table:
    made = terminal.numbers_table(f"maps of {operand}, by the epoch that ends with it", "epoch", MAP)
    for at in adapt_costs.spaced(len(result["maps"]), BETWEEN):
        line = result["maps"][at]
        entry, noise = line[operand], line[operand]["loss_noise"]
        made.add_row(
            f"{line['epoch']}",
            f"{entry['alpha']:g}",
            f"{entry['lambda']:.3f}",
            *(f"{entry[key]:.2f}" for key in ("mean", "exact", "untuned", "mac_bits")),
            percent(entry["skipped"]),
            *(f"{noise[key]:.2e}" for key in ("before", "after", "uniform")),
            times(entry["noise_factor"]),
            times(entry["noise_factor_by_macs"]),
        )
    return made


def _epochs(result: dict[str, Any]) -> Table:
    made = terminal.numbers_table("epochs, over 8 bits everywhere", "epoch", EPOCH)
    for at in adapt_costs.spaced(len(result["epochs"]), BETWEEN):
        line = result["epochs"][at]
        tested = line["test_accuracy"]
        made.add_row(
            f"{line['epoch']}",
            f"{line['weights']:.2f}",
            times(line["activations"]),
            *(percent(line["stages"][name]) for name in STAGES),
            percent(line["time"]),
            percent(line["skipped"]),
            "-" if tested is None else f"{tested:.2%}",
        )
    return made


def figures(result: dict[str, Any]) -> list[tuple[str, str, str]]:
    """(what, value, what it means) of what `--json` prints."""
    summary = result["summary"]
    watts = f"array {ARRAY_MILLIWATTS:g} mW and module {MODULE_MILLIWATTS:g} mW"
    macs = (times(summary[f"{operand}_mac_bits"]) for operand in ("weights", "activations"))
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
        ("bits, weights", times(summary["weights"]), by_macs[0]),
        ("bits, activations", times(summary["activations"]), by_macs[1]),
        *_iso(result),
        *_noise(summary),
    ]


def _noise(summary: dict[str, Any]) -> list[tuple[str, str, str]]:
    """How much more the loss would see of one width everywhere."""
    lines = []
    for operand, value in summary["noise_factor"].items():
        by_macs = summary["noise_factor_by_macs"][operand]
        lines.append((f"noise, {operand}", times(value), "of one width over the last map's, as many bits"))
        lines.append(
            ("  as much time", times(by_macs), "of one width, as many bits weighted by multiply-adds")
        )
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
