"""What `intnet costs` reads of a run whose method makes a map of widths at the end of every epoch."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from intnet.costs.array_costs import Curve, History, LayerMaps, Width
from intnet.errors import CheckpointError, ConfigError
from intnet.runs import metrics, records, report, run_folder
from intnet.runs.metrics import LAYER_MAP
from intnet.training.train import Run

COUNTS, QUANTILES = 5, 5  # entries of "counts" and, where there is one, of "r"


@dataclass(frozen=True)
class Logged:
    """A run as its folder tells it.

    maps: the lines of kind 'map', one an epoch; tested: accuracy after each epoch; accuracy: at its last
    test, None without one
    """

    identity: dict[str, Any]
    history: History
    maps: list[dict[str, Any]]
    tested: list[float]
    accuracy: float | None


class Place(NamedTuple):
    """How far a run is, and the names of its weight layers, in the model's order."""

    step: int
    steps_per_epoch: int
    layers: list[str]


def _place(run: Run) -> Place:
    names = [layer.name for layer in run.model.all_layers() if layer.takes_weight]
    return Place(run.step, run.steps_per_epoch, names)


def read_history(folder: Path, place: Place, own: dict[str, Any]) -> tuple[list[dict[str, Any]], History]:
    """(lines of epochs and maps, the maps in force) of the run `own`, which moves its map."""

    def build(lines: list[dict[str, Any]]) -> History:
        maps = [line for line in lines if line["kind"] == "map"]
        _check_epochs(maps, "map", place)
        return _history(maps, place, str(own["options"].get("forward_dynamic", "activation")))

    return _lines(folder, place, build)


def read(folder: str, run: Run) -> Logged:
    """The run up to its last checkpoint; ConfigError where it has made no map yet."""
    own = run_folder.identity(run)
    if own["options"].get("map") == "uniform":
        bits, weights = own["options"]["bits"], own["options"]["weight_bits"]
        widths = f"weights of {bits if weights is None else weights:g} bits, activations of {bits:g}"
        raise ConfigError(f"{folder}: its map is uniform and never moves: {widths}")
    if run.step < run.steps_per_epoch:
        raise ConfigError(f"{folder} has not done a whole epoch: its first map comes then; train it further")
    lines, history = read_history(Path(folder), _place(run), own)
    maps = [line for line in lines if line["kind"] == "map"]
    tested = [line["test_accuracy"] for line in lines if line["kind"] == "epoch"]
    return Logged(own, history, maps, tested, accuracy(folder, run, tested))


def curve(folder: str, run: Run) -> tuple[Curve, float | None]:
    """A baseline's length and tests, and its final accuracy."""
    if run.step == 0:
        raise ConfigError(f"{folder} has done no step: train it first")
    lines, _ = _lines(Path(folder), _place(run), lambda lines: None)
    tested = [line["test_accuracy"] for line in lines if line["kind"] == "epoch"]
    return Curve(run.step / run.steps_per_epoch, tested), accuracy(folder, run, tested)


def accuracy(folder: str, run: Run, tested: list[float]) -> float | None:
    """Of the report or of the last test; None without either."""
    made = report.read(Path(folder), run_folder.identity(run), run.step)
    return made["test_accuracy"] if made else tested[-1] if tested else None


def _lines(
    folder: Path, place: Place, build: Callable[[list[dict[str, Any]]], Any]
) -> tuple[list[dict[str, Any]], Any]:
    """The lines of epochs and maps, and what `build` makes of them; CheckpointError where they do not fit."""
    path = folder / run_folder.METRICS
    lines = [
        line
        for line in metrics.read_metrics(path)
        if line["kind"] in ("epoch", "map") and line["step"] <= place.step
    ]
    try:
        _check_epochs([line for line in lines if line["kind"] == "epoch"], "epoch", place)
        return lines, build(lines)
    except (ValueError, OverflowError, ConfigError) as error:
        raise CheckpointError(f"{path}: {error}") from None


def _check_epochs(lines: list[dict[str, Any]], kind: str, place: Place) -> None:
    """ValueError unless there is one line of every whole epoch."""
    whole = place.step // place.steps_per_epoch
    for k, line in enumerate(lines):
        if (line["epoch"], line["step"]) != (k, (k + 1) * place.steps_per_epoch):
            found = f"epoch {line['epoch']}, step {line['step']}"
            raise ValueError(f"where its line of kind {kind!r} of epoch {k} is due, one of {found} is")
    if len(lines) != whole:
        raise ValueError(f"it has {len(lines)} lines of kind {kind!r} and did {whole} whole epochs")


def _history(maps: list[dict[str, Any]], place: Place, forward: str) -> History:
    """The first epoch's 4 bits, then each map for the epoch after it."""
    from intnet.costs.array_costs import START_BITS

    made = [_layers(line, place.layers) for line in maps]
    for line, layers in zip(maps, made, strict=True):
        if [_extent(layer) for layer in layers] != [_extent(layer) for layer in made[0]]:
            raise ValueError(f"epoch {line['epoch']}: its blocks and multiply-adds are not those of epoch 0")
    begun = -(-place.step // place.steps_per_epoch)
    epochs = (tuple(layer.at(START_BITS) for layer in made[0]), *made)[:begun]
    last = place.step - (begun - 1) * place.steps_per_epoch
    return History(epochs, (1.0,) * (begun - 1) + (last / place.steps_per_epoch,), forward)


def _layers(line: dict[str, Any], names: list[str]) -> tuple[LayerMaps, ...]:
    """A line's layers in the model's order; the first reads the network's input, which has no map."""
    layers, at = line["layers"], f"epoch {line['epoch']}"
    if set(layers) != set(names):
        odd = ", ".join(sorted(set(layers) ^ set(names)))
        raise ValueError(f"{at} and the model do not have the same layers: {odd}")
    found = []
    for name in names:
        where = f"{at}[{name!r}]"
        if ("activations" in layers[name]) == (name == names[0]):
            raise ValueError(f"{where}: the first weight layer alone has no map of activations")
        operands = [
            _width(layers[name][operand], f"{where}[{operand!r}]")
            for operand in ("weights", "activations")
            if operand in layers[name]
        ]
        found.append(LayerMaps(name, operands[0], operands[1] if len(operands) > 1 else None))
    return tuple(found)


def _width(entry: dict[str, Any], where: str) -> Width:
    records.check(entry, LAYER_MAP, where)
    if len(entry["counts"]) != COUNTS or sum(entry["counts"]) != entry["blocks"] or min(entry["counts"]) < 0:
        raise ValueError(f"{where}: counts {entry['counts']} are not of {entry['blocks']} blocks")
    if len(entry["r"]) not in (0, QUANTILES) or entry["r"] != sorted(entry["r"]):
        raise ValueError(f"{where}: r is {entry['r']}, not a least, three quartiles and a greatest")
    try:
        return Width(entry["macs"], entry["mac_bits"], entry["skipped"], entry["blocks"], entry["mean"])
    except ConfigError as error:
        raise ValueError(f"{where}: {error}") from None


def _extent(layer: LayerMaps) -> tuple[int, ...]:
    """What no map changes."""
    operands = [layer.weights] + ([layer.activations] if layer.activations is not None else [])
    return tuple(size for width in operands for size in (width.blocks, width.macs))
