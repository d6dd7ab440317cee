"""What `intnet costs` reads of a run: its word lengths step by step, its tests, and the seconds it took."""

import dataclasses
from array import array
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from intnet import models
from intnet.costs import adapt_costs
from intnet.costs.adapt_costs import History, LayerSize
from intnet.errors import CheckpointError, ConfigError
from intnet.numbers.qtensor import QTensor
from intnet.runs import metrics, records, report, run_folder
from intnet.training.train import Run

WITH_LOOKBACK = {str: {"lb": int, "r": int}}


@dataclass
class Logged:
    """A run as its folder tells it.

    accuracy: at its last test, None without one; tested: (step, accuracy) of every epoch
    step_seconds: of all steps; switch_seconds: of those, of the precision switch, None without one
    """

    identity: dict[str, Any]
    history: History
    accuracy: float | None
    tested: list[tuple[int, float]]
    step_seconds: float
    switch_seconds: float | None


@dataclass
class Log:
    """The lines of metrics.jsonl, condensed as they come."""

    layers: tuple[LayerSize, ...]
    steps: int = 0
    step_seconds: float = 0.0
    switches: int = 0
    switch_seconds: float = 0.0
    tested: list[tuple[int, float]] = field(default_factory=list)
    columns: dict[str, "array[int]"] = field(default_factory=dict)

    def add(self, line: dict[str, Any]) -> None:
        """The next line; ValueError where it does not follow from those before."""
        if line["kind"] == "epoch":
            self.tested.append((line["step"], line["test_accuracy"]))
        elif line["kind"] == "step":
            self.steps += 1
            self.step_seconds += line["seconds"]
            self._follows(line, self.steps)
        elif line["kind"] == "precision":
            self.switches += 1
            self.switch_seconds += line["seconds"]
            self._follows(line, self.switches)
            self._widths(line["layers"])
        else:
            raise ValueError(f"a line of kind {line['kind']!r}: its method does not write that")

    @staticmethod
    def _follows(line: dict[str, Any], step: int) -> None:
        if line["step"] != step:
            raise ValueError(
                f"where its line of kind {line['kind']!r} of step {step} is due, {line['step']} is"
            )

    def _widths(self, layers: dict[str, dict[str, int]]) -> None:
        names = [size.name for size in self.layers]
        if set(layers) != set(names):
            odd = ", ".join(sorted(set(layers) ^ set(names)))
            raise ValueError(f"step {self.switches} and the model do not have the same layers: {odd}")
        if not self.columns:
            learned = any("lb" in entry or "r" in entry for entry in layers.values())
            keys = ("WL", "FL", "nonzero", "lb", "r") if learned else ("WL", "FL", "nonzero")
            self.columns = {key: array("q") for key in keys}
        if "lb" in self.columns:
            records.check(layers, WITH_LOOKBACK, f"step {self.switches}")
        for key, column in self.columns.items():
            column.extend(layers[name][key] for name in names)

    def history(self, batch_size: int, accs: int) -> History:
        """What the cost model takes; float32's where no word length was logged."""
        if not self.switches:
            return adapt_costs.float32(self.layers, self.steps, batch_size, accs)
        if self.switches != self.steps:
            raise ValueError(f"it has word lengths of {self.switches} steps and did {self.steps}")
        shape = (self.steps, len(self.layers))
        found = {key: np.array(column, np.int64).reshape(shape) for key, column in self.columns.items()}
        lookback, resolution = found.get("lb"), found.get("r")
        return History(
            self.layers, found["WL"], found["nonzero"], found["FL"], lookback, resolution, batch_size, accs
        )


def read(folder: str, run: Run) -> Logged:
    """The run up to its last checkpoint; ConfigError where the model does not speak of its method."""
    if run.step == 0:
        raise ConfigError(f"{folder} has done no step: train it first")
    own = run_folder.identity(run)
    log, history = read_log(Path(folder), own, run.step)
    history = dataclasses.replace(history, final=_final(run) if log.switches else None)
    if not log.switches and own["method"] != "float32":
        raise _unspoken(folder, own["method"])
    made = report.read(Path(folder), own, run.step)
    last = made["test_accuracy"] if made else log.tested[-1][1] if log.tested else None
    seconds = log.switch_seconds if log.switches else None
    return Logged(own, history, last, log.tested, log.step_seconds, seconds)


def read_log(folder: Path, own: dict[str, Any], step: int) -> tuple[Log, History]:
    """The log up to a step of the run `own`, and what the cost model takes of it."""
    path = folder / run_folder.METRICS
    log = Log(adapt_costs.layer_sizes(models.make(own["model"], tuple(own["image_shape"]), own["classes"])))
    try:
        for line in metrics.read_metrics(path):
            if line["step"] <= step:
                log.add(line)
        if log.steps != step:
            raise ValueError(f"it has {log.steps} of {step} steps")
        return log, log.history(own["batch_size"], _accs(own))
    except CheckpointError:
        raise
    except (ValueError, OverflowError) as error:
        raise CheckpointError(f"{path}: {error}") from None


def _final(run: Run) -> tuple[np.ndarray, np.ndarray] | None:
    """WL and non-zero weights by layer, of the weights as inference reads them; None where in float32."""
    found = []
    for layer in run.model.all_layers():
        if layer.takes_weight:
            with run.method.within(training=False):
                q = run.method.weight(layer, next(p for p in layer.parameters if p.symbol == "W"))
            if not isinstance(q, QTensor) or q.format is None:
                return None
            found.append((q.format.bits, np.count_nonzero(q.codes)))
    widths, nonzero = np.array(found, np.int64).T
    return widths, nonzero


def _unspoken(folder: str, method: str) -> ConfigError:
    return ConfigError(
        f"{folder}: {method} logged no word lengths; the cost model speaks of float32, and of methods whose "
        "word lengths move while they train (adapt, muppet)"
    )


def _accs(own: dict[str, Any]) -> int:
    """Steps that one gradient is accumulated over."""
    accs = own["options"].get("accs", 1)
    if type(accs) is not int:
        raise ValueError(f"accs = {accs!r} is no number of steps")
    return accs
