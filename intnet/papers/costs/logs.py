"""What a run's log says of its costs: word lengths step by step, or maps of widths epoch by epoch.

read_steps    methods whose word lengths move within a step (adapt, muppet), and float32
read_maps     dynasty, which makes a map of widths at the end of every epoch
read_timed    dynasty beside other runs of it, whose map may be uniform
read_curve    any run as a baseline: how long it trained, and its tests
"""

import dataclasses
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from intnet import models
from intnet.errors import CheckpointError, ConfigError
from intnet.methods.dynasty import ACTIVATIONS, WEIGHTS, Dynasty, alphas
from intnet.methods.dynasty_map import multiply_adds
from intnet.methods.options import of_layer
from intnet.methods.rounded_copies import RoundedCopies
from intnet.models import Model
from intnet.numbers.qtensor import QTensor
from intnet.papers.costs import adapt_costs, dynasty_costs
from intnet.papers.costs.adapt_costs import FLOAT_BITS, LayerSize
from intnet.papers.costs.dynasty_costs import START_BITS, Curve, LayerMaps, Width
from intnet.papers.costs.report import check_same
from intnet.runs import metrics, records, report, run_folder
from intnet.runs.identity import identity
from intnet.runs.metrics import LAYER_MAP
from intnet.training.train import Run

WITH_LOOKBACK = {str: {"lb": int, "r": int}}
SAME = ("model", "data", "image_shape", "classes", "limit")  # of what stands beside a run of dynasty
COUNTS, QUANTILES = 5, 5  # entries of "counts" and, where there is one, of "r"


@contextmanager
def _followed(folder: Path) -> Iterator[Path]:
    """The path of the log; CheckpointError where its lines do not follow from each other."""
    path = folder / run_folder.METRICS
    try:
        yield path
    except CheckpointError:
        raise
    except (ValueError, OverflowError, ConfigError) as error:
        raise CheckpointError(f"{path}: {error}") from None


def _trained(folder: str, run: Run) -> dict[str, Any]:
    """The run's identity; ConfigError where it has done nothing."""
    if run.step == 0:
        raise ConfigError(f"{folder} has done no step: train it first")
    return identity(run)


def _accuracy(folder: str, run: Run, tested: list[float]) -> float | None:
    """Of the report or of the last test; None without either."""
    made = report.read(Path(folder), identity(run), run.step)
    return made["test_accuracy"] if made else tested[-1] if tested else None


def _model(own: dict[str, Any]) -> Model:
    """The model of an identity, not trained."""
    return models.make(own["model"], tuple(own["image_shape"]), own["classes"])


def _same_layers(found: dict[str, Any], names: list[str], where: str) -> None:
    """ValueError unless a line tells of all layers of the model, and of no other."""
    if set(found) != set(names):
        odd = ", ".join(sorted(set(found) ^ set(names)))
        raise ValueError(f"{where} and the model do not have the same layers: {odd}")


# -- word lengths, step by step ----------------------------------------------------------------


Decision = tuple[int, dict[str, dict[str, Any]]]  # step, what was decided, as `Method.moves` has it


@dataclass(frozen=True)
class Steps:
    """A run as its folder tells it.

    accuracy: at its last test, None without one
    """

    identity: dict[str, Any]
    history: adapt_costs.History
    accuracy: float | None
    log: "Log"


@dataclass
class Log:
    """The lines of metrics.jsonl, condensed as they come.

    counts, seconds: of kind 'step', and of 'precision', which the precision switch took
    tested: (step, accuracy) of every epoch; decisions: (step, what was decided) as `Method.moves` has it
    """

    layers: tuple[LayerSize, ...]
    counts: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    tested: list[tuple[int, float]] = field(default_factory=list)
    columns: dict[str, "array[int]"] = field(default_factory=dict)
    decisions: list[Decision] = field(default_factory=list)

    def add(self, line: dict[str, Any]) -> None:
        """The next line; ValueError where it does not follow from those before."""
        kind, step = line["kind"], line["step"]
        if kind == "epoch":
            self.tested += [(step, accuracy) for accuracy in _accuracies([line])]
        elif kind == "decision":
            self.decisions.append((step, line["of"]))
        elif kind in ("step", "precision"):
            self.counts[kind] += 1
            self.seconds[kind] += line["seconds"]
            if step != self.counts[kind]:
                due = f"where its line of kind {kind!r} of step {self.counts[kind]} is due"
                raise ValueError(f"{due}, {step} is")
            if kind == "precision":
                self._widths(line["layers"], f"step {step}")
        else:
            raise ValueError(f"a line of kind {kind!r}: its method does not write that")

    def _widths(self, layers: dict[str, dict[str, int]], where: str) -> None:
        names = [size.name for size in self.layers]
        _same_layers(layers, names, where)
        if not self.columns:
            learned = any("lb" in entry or "r" in entry for entry in layers.values())
            keys = ("WL", "FL", "nonzero", "lb", "r") if learned else ("WL", "FL", "nonzero")
            self.columns = {key: array("q") for key in keys}
        if "lb" in self.columns:
            records.check(layers, WITH_LOOKBACK, where)
        for key, column in self.columns.items():
            column.extend(layers[name][key] for name in names)

    def history(self, batch_size: int, accs: int) -> adapt_costs.History:
        """What the cost model takes; float32's where no word length was logged."""
        steps, switches = (self.counts[kind] for kind in ("step", "precision"))
        if not switches:
            return adapt_costs.float32(self.layers, steps, batch_size, accs)
        if switches != steps:
            raise ValueError(f"it has word lengths of {switches} steps and did {steps}")
        shape = (steps, len(self.layers))
        found = {key: np.array(column, np.int64).reshape(shape) for key, column in self.columns.items()}
        lookback, resolution = found.get("lb"), found.get("r")
        return adapt_costs.History(
            self.layers, found["WL"], found["nonzero"], found["FL"], lookback, resolution, batch_size, accs
        )


def read_steps(folder: str, run: Run) -> Steps:
    """The run up to its last checkpoint; ConfigError where the model does not speak of its method."""
    own = _trained(folder, run)
    log, history = read_log(Path(folder), own, run.step)
    history = dataclasses.replace(history, final=_final(run))
    if not log.columns and own["method"] != "float32":
        raise ConfigError(
            f"{folder}: {own['method']} logged no word lengths; the cost model speaks of float32, and of "
            "methods whose word lengths move while they train (adapt, muppet)"
        )
    return Steps(own, history, _accuracy(folder, run, [accuracy for _, accuracy in log.tested]), log)


def read_log(folder: Path, own: dict[str, Any], step: int) -> tuple[Log, adapt_costs.History]:
    """The log up to a step of the run `own`, and what the cost model takes of it."""
    log = Log(adapt_costs.layer_sizes(_model(own)))
    with _followed(folder) as path:
        for line in metrics.read_metrics(path):
            if line["step"] <= step:
                log.add(line)
        if log.counts["step"] != step:
            raise ValueError(f"it has {log.counts['step']} of {step} steps")
        accs = own["options"].get("accs", 1)  # steps that one gradient is accumulated over
        if type(accs) is not int:
            raise ValueError(f"accs = {accs!r} is no number of steps")
        return log, log.history(own["batch_size"], accs)


def _final(run: Run) -> tuple[np.ndarray, np.ndarray] | None:
    """WL and non-zero weights by layer, of the weights as inference reads them; None without such copies."""
    if not isinstance(run.method, RoundedCopies):
        return None
    found = []
    for layer in run.model.all_layers():
        if layer.takes_weight:
            with run.method.within(training=False):
                q = run.method.weight(layer, next(p for p in layer.parameters if p.symbol == "W"))
            if isinstance(q, QTensor) and q.format is not None:
                found.append((q.format.bits, np.count_nonzero(q.codes)))
            else:  # muppet's last level
                found.append((FLOAT_BITS, np.count_nonzero(np.asarray(q))))
    widths, nonzero = np.array(found, np.int64).T
    return widths, nonzero


# -- maps, epoch by epoch ----------------------------------------------------------------------


@dataclass(frozen=True)
class Maps:
    """A run as its folder tells it.

    maps: the lines of kind 'map', one an epoch, none where they never move; tested: accuracy after each
    epoch; accuracy: at its last test, None without one
    """

    identity: dict[str, Any]
    history: dynasty_costs.History
    maps: list[dict[str, Any]]
    tested: list[float]
    accuracy: float | None


def read_maps(folder: str, run: Run) -> Maps:
    """The run up to its last checkpoint; ConfigError where it has made no map yet."""
    own = identity(run)
    if not moving(own):
        bits, weights = own["options"]["bits"], own["options"]["weight_bits"]
        widths = f"weights of {bits if weights is None else weights:g} bits, activations of {bits:g}"
        raise ConfigError(f"{folder}: its map is uniform and never moves: {widths}")
    if run.step < run.steps_per_epoch:
        raise ConfigError(f"{folder} has not done a whole epoch: its first map comes then; train it further")
    tested, maps, history = read_history(Path(folder), own, run.step)
    return Maps(own, history, maps, tested, _accuracy(folder, run, tested))


def read_timed(folder: str, run: Run) -> Maps:
    """The same of maps that may be uniform; ConfigError where it has not done a whole epoch."""
    own = identity(run)
    if moving(own):
        return read_maps(folder, run)
    curve, final = read_curve(folder, run)
    if not curve.tested:
        raise ConfigError(f"{folder} has not done a whole epoch: train it further")
    return Maps(own, _uniform(own, curve.length), [], list(curve.tested), final)


def _accuracies(epochs: Iterable[dict[str, Any]]) -> list[float]:
    """Of the epochs, none of data without a test part."""
    return [line["test_accuracy"] for line in epochs if line["test_accuracy"] is not None]


def _by_layer(own: dict[str, Any]) -> Callable[[str], Dynasty.Options]:
    """A layer's name -> the options that hold for it: dynasty's, of a method that derives from it."""
    known = {one.name for one in dataclasses.fields(Dynasty.Options)}
    given = {key: value for key, value in own["options"].items() if key.partition("@")[0] in known}
    method = Dynasty(**given)
    return lambda name: of_layer(method.options, method.overrides, name)


def moving(own: dict[str, Any]) -> bool:
    """Whether a layer's map moves."""
    options = _by_layer(own)
    return any(options(one.name).map == "dynamic" for one in _model(own).all_layers() if one.takes_weight)


def _uniform(own: dict[str, Any], length: float) -> dynasty_costs.History:
    """One width in all blocks from the start, for so many epochs; the network's input is of 8 bits."""
    options, made = _by_layer(own), _model(own)
    seen = adapt_costs.image_through(made, "*/x0")
    weighted: list[Any] = [layer for layer in made.all_layers() if layer.takes_weight]
    layers: list[LayerMaps] = []
    for layer in weighted:
        shape = seen[f"{layer.name}/x0"].shape
        uses = multiply_adds(shape, layer.weight.shape, layer.stride, layer.padding)
        whole = [Width(int(part.sum()), 0, 0, int(np.count_nonzero(part)), 0) for part in uses]
        widths = alphas(options(layer.name))
        operands = whole[0].at(widths[WEIGHTS]), whole[1].at(widths[ACTIVATIONS]) if layers else None
        layers.append(LayerMaps(layer.name, *operands))
    forward = str(own["options"].get("forward_dynamic", "activation"))
    return dynasty_costs.of_length(tuple(layers), length, forward)


def read_history(
    folder: Path, own: dict[str, Any], step: int
) -> tuple[list[float], list[dict[str, Any]], dynasty_costs.History]:
    """(accuracy after each epoch, lines of maps, the maps in force) of the run `own`, which moves its map."""
    with _followed(folder) as path:
        lines = [line for line in metrics.read_metrics(path) if line["kind"] != "step"]
        tested, maps = (_by_epoch(lines, kind, own, step) for kind in ("epoch", "map"))
        history = _history(maps, own, step)
    return _accuracies(tested), maps, history


def read_curve(folder: str, run: Run) -> tuple[Curve, float | None]:
    """A baseline's length and tests, and its final accuracy."""
    own = _trained(folder, run)
    with _followed(Path(folder)) as path:
        lines = _by_epoch(metrics.read_metrics(path), "epoch", own, run.step)
    tested = _accuracies(lines)
    return Curve(run.step / run.steps_per_epoch, tested), _accuracy(folder, run, tested)


def read_baseline(
    baseline: str, own: dict[str, Any], accuracy: float | None, data_dir: str | None
) -> tuple[Curve, float | None]:
    """A run on the same data, which takes 8 bits everywhere; the accuracy to reach, its own unless told."""
    other = run_folder.load(baseline, data_dir=data_dir)
    check_same(f"--baseline {baseline}", own, identity(other), SAME)
    curve, final = read_curve(baseline, other)
    return curve, final if accuracy is None else accuracy


def _per_epoch(own: dict[str, Any]) -> int:
    """Steps of an epoch."""
    return -(-int(own["limit"]) // int(own["batch_size"]))


def _by_epoch(
    every: Iterable[dict[str, Any]], kind: str, own: dict[str, Any], step: int
) -> list[dict[str, Any]]:
    """The lines of a kind; ValueError unless there is one of every whole epoch."""
    lines = [line for line in every if line["kind"] == kind and line["step"] <= step]
    whole = step // _per_epoch(own)
    for k, line in enumerate(lines):
        if (line["epoch"], line["step"]) != (k, (k + 1) * _per_epoch(own)):
            found = f"epoch {line['epoch']}, step {line['step']}"
            raise ValueError(f"where its line of kind {kind!r} of epoch {k} is due, one of {found} is")
    if len(lines) != whole:
        raise ValueError(f"it has {len(lines)} lines of kind {kind!r} and did {whole} whole epochs")
    return lines


def _history(maps: list[dict[str, Any]], own: dict[str, Any], step: int) -> dynasty_costs.History:
    """The first epoch's 4 bits, then each map for the epoch after it; where no map moves, as it is."""
    names = [layer.name for layer in _model(own).all_layers() if layer.takes_weight]
    made = [_layers(line, names) for line in maps]
    for line, layers in zip(maps, made, strict=True):
        if [_extent(layer) for layer in layers] != [_extent(layer) for layer in made[0]]:
            raise ValueError(f"epoch {line['epoch']}: its blocks and multiply-adds are not those of epoch 0")
    length = _per_epoch(own)
    begun = -(-step // length)
    options = _by_layer(own)
    start = (one if options(one.name).map == "uniform" else one.at(START_BITS) for one in made[0])
    epochs = (tuple(start), *made)[:begun]
    last = (step - (begun - 1) * length) / length
    forward = str(own["options"].get("forward_dynamic", "activation"))
    return dynasty_costs.History(epochs, (1.0,) * (begun - 1) + (last,), forward)


def _layers(line: dict[str, Any], names: list[str]) -> tuple[LayerMaps, ...]:
    """A line's layers in the model's order; the first reads the network's input, which has no map."""
    layers, at = line["layers"], f"epoch {line['epoch']}"
    _same_layers(layers, names, at)
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
