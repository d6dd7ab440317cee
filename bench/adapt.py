"""How long does a step of AdaPT and of MuPPET take beside a simulation with qtorch, and what does the switch?

ResNet-20 and LeNet-5, batch 128, digits enlarged to 28x28x1. The simulation (`torch_methods.py`) is PyTorch's
float32 with a stochastic quantizer of qtorch (fixed point; block float with one exponent a tensor) on exactly
the paths that intnet rounded stochastically in its second step; what intnet only moves or clips (most x4)
costs the simulation nothing, and it has no precision switch. Each group of steps of intnet is followed by one
step of the simulation, and the ratio is the median of the groups'.

The first row of AdaPT is 100 steps from <8,4> on with every switch in it: their widths move, and the share of
the switch is `Method.overhead`, beside that of the cost model (equations 8 and 9,
`intnet/papers/costs/adapt_costs.py`). The rows after it hold one <WL,FL> in all layers, before any switch.
"""

from collections.abc import Callable, Sequence
from statistics import median
from time import sleep
from typing import Any

import numpy as np

from bench import peers
from bench.summary import Row, at_least, column
from bench.timing import PAUSE, seconds
from intnet import datasets, methods, models
from intnet.methods.trace import Event
from intnet.numbers.formats import Format
from intnet.numbers.qtensor import QTensor
from intnet.papers.costs import adapt_costs
from intnet.training.history import StepReport
from intnet.training.train import Run

BATCH = 128
MOVING, FIXED = (10, 10), (7, 2)  # groups, and steps a group: with the switch, and of widths that stay
WIDTHS = ((8, 4), (16, 12), (24, 20))
MODELS = ("resnet20", "lenet5")
QUESTION = f"adapt and muppet, batch {BATCH}, 28x28x1, beside a simulation with qtorch; seconds a step"
RATIO, SHARE, MODELLED = "x simulation", "switch, share", "switch, cost model"


def data() -> datasets.Dataset:
    """The embedded digits, 8x8, as 28x28: every pixel 3x3 times, with a margin of 2."""
    digits = datasets.load("digits")
    large = [
        np.pad(np.asarray(images).repeat(3, 1).repeat(3, 2), ((0, 0), (2, 2), (2, 2), (0, 0)))
        for images in (digits.train_images, digits.test_images)
    ]
    return datasets.from_arrays(large[0], digits.train_labels, large[1], digits.test_labels, 10)


def run(method: str, model: str, widths: tuple[int, int] | None) -> Run:
    """A new run; `widths` are <WL,FL> of all layers in place of the start's."""
    given = data()
    made = Run(models.make(model, given.image_shape, 10), methods.make(method), given, BATCH)
    if widths is not None:
        for layer in made.model.all_layers():
            layer.buffers["precision"] = QTensor(np.array(widths, np.int32), 0)
    return made


def formats(ours: Run) -> dict[str, Format]:
    """'layer/path' -> format of all that is rounded stochastically in the second step; trains two."""
    found: dict[str, Format] = {}

    def see(event: Event) -> None:
        if isinstance(event.format, Format) and event.rounding == "stochastic":
            found[event.name] = event.format

    ours.train_step()
    ours.method.set(observers=[see])
    ours.train_step()
    ours.method.set(observers=[])
    return found


def simulation(qtorch: Any, ours: Run) -> Callable[[], Any] | None:
    """A call that trains a step of the simulation of `ours`, of which two steps are trained."""
    stored = formats(ours)
    if qtorch is None:
        return None
    from bench import torch_methods

    images, labels = ours.batch(0)
    floats = np.ascontiguousarray(images.to_float32().transpose(0, 3, 1, 2))
    named = (ours.model.kind, ours.method.name)
    call = torch_methods.step(qtorch, *named, stored, floats, labels.astype(np.int64))
    call()
    return call


def taken(
    ours: Run, theirs: Callable[[], Any] | None, groups: int, each: int
) -> tuple[list[StepReport], list[float]]:
    """Reports of groups of `each` steps, and the seconds of the simulated step after each group."""
    reports, simulated = [], []
    for _ in range(groups):
        sleep(PAUSE)
        reports += [ours.train_step() for _ in range(each)]
        sleep(PAUSE)
        if theirs is not None:
            simulated.append(seconds(theirs))
    return reports, simulated


def modelled(ours: Run, reports: Sequence[StepReport]) -> float:
    """The share of the switch in the cost model, from the widths that these steps had."""
    sizes = adapt_costs.layer_sizes(models.make(ours.model.kind, ours.data.image_shape, 10))

    def of(key: str) -> np.ndarray:
        return np.array([[report.widths[size.name][key] for size in sizes] for report in reports])

    history = adapt_costs.History(
        sizes, of("WL"), of("nonzero"), of("FL"), of("lb"), of("r"), BATCH, ours.method.options.accs
    )
    summary = adapt_costs.summary(history, adapt_costs.float32(sizes, len(reports), BATCH))
    return float(summary["overhead_share"])


def row(qtorch: Any, method: str, model: str, widths: tuple[int, int] | None = None) -> Row:
    """One row; of AdaPT without `widths`, 100 steps with the switch."""
    ours = run(method, model, widths)
    switches = method == "adapt" and widths is None
    groups, each = MOVING if switches else FIXED
    reports, simulated = taken(ours, simulation(qtorch, ours), groups, each)
    spent = [report.seconds for report in reports]
    ratios = [theirs / (sum(spent[k * each : (k + 1) * each]) / each) for k, theirs in enumerate(simulated)]
    what = f"{method} at <{widths[0]},{widths[1]}>" if widths else method
    out: Row = {"model": model, "method": what, "steps": len(spent), "seconds": median(spent)}
    out |= {"mean": sum(spent) / len(spent), "simulation": median(simulated) if simulated else None}
    out[RATIO] = median(ratios) if ratios else None
    if switches:
        out["last WL"] = float(np.mean([used["WL"] for used in reports[-1].widths.values()]))
        out[SHARE] = sum(report.overhead for report in reports) / sum(spent)
        out[MODELLED] = modelled(ours, reports)
    return out


def rows() -> list[Row]:
    qtorch = peers.qtorch() if peers.torch is not None else None
    table = []
    for model in MODELS:
        table.append(row(qtorch, "adapt", model))
        table += [row(qtorch, "adapt", model, widths) for widths in WIDTHS]
        table.append(row(qtorch, "muppet", model))
    return table


def targets(rows: list[Row]) -> list[Row]:
    def smallest(method: str) -> float | None:
        return min(column([row for row in rows if row["method"] == method], RATIO), default=None)

    return [
        at_least(10, f"{method} step, {note}times the simulation with qtorch, smaller", smallest(method))
        for method, note in (("adapt", "switch included, "), ("muppet", ""))
    ]
