"""WAGEUBN, section IV-E, figures 9 and 10: what 8-bit SQ and 8-bit Flag-Q keep of the errors e3.

The data ratio is the share of values that are not zero after quantization. A network trains under the
method; at its last step the exact e3 of every hidden convolution, before its quantizer, is quantized by
three formats: SQ(., 8) (16), Flag-QE2 (17) and SQ(., 16). No other value of the step depends on that.

Figure 9 is a table here: shares of the values of the first hidden convolution by octaves of |x|/R(x). Before
quantization they are seen through SQ(., 32), whose step is 2^-31 R(x): exact to that.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from intnet.exact.quantize import quantize
from intnet.methods.trace import Event
from intnet.methods.wageubn import Wageubn
from intnet.numbers.formats import Flag, Format, Shift
from intnet.numbers.qtensor import QTensor
from intnet.papers.checks import training
from intnet.papers.checks.check import Check, Result, Sizes, Task
from intnet.show.pictures import picture, wrapped
from intnet.show.tables import Cell, Column, Table, numbers

FORMATS: dict[str, Format] = {"SQ 8": Shift(8), "Flag 8": Flag(8), "SQ 16": Shift(16)}
FINE = Shift(32)
LIMITS = (-8, -15)  # of SQ 8 and Flag 8 (sec. IV-E): at these powers of 2 of R(x), half a step, and below: 0
OCTAVES = 20


def run(task: Task) -> Result:
    """Train, then quantize the last step's errors three ways."""
    sizes = task.training
    data = training.load(sizes, task.data_dir)
    trained = training.start(sizes, Wageubn(), data)
    steps = sizes.epochs * trained.steps_per_epoch
    errors = Errors()
    trained.train(steps, lambda step: task.progress("training", step.step, steps), [errors])
    order = [layer.name for layer in trained.model.all_layers() if layer.name in errors.seen]
    ratios = [_ratios(name, errors.seen[name]) for name in order]
    first = errors.seen[order[0]]
    return Result(
        f"{training.about(sizes)}; e3 of step {steps}",
        [_table(ratios), _distribution(order[0], first)],
        _remarks(ratios),
    )


class Errors:
    """An observer that keeps every e3 as each of the formats has it, and as it is before them."""

    def __init__(self) -> None:
        self.seen: dict[str, dict[str, QTensor]] = {}

    def __call__(self, event: Event) -> None:
        """Quantize the event's exact source, whatever the method made of it."""
        if event.path == "e3" and event.format is not None:
            formats = {"before": FINE, **FORMATS}
            self.seen[event.layer] = {name: quantize(event.source, f) for name, f in formats.items()}


def ratio(q: QTensor) -> float:
    """Share of codes that are not zero."""
    return int(np.count_nonzero(q.codes)) / q.size


def covered(q: QTensor, limit: int) -> float:
    """Share of |x| above 2^limit R(x), of x as SQ(., 32): the covered range of section IV-E."""
    magnitude = np.abs(q.codes.astype(np.int64))
    return int(np.count_nonzero(magnitude > 1 << FINE.k - 1 + limit)) / q.size


def _ratios(name: str, found: dict[str, QTensor]) -> tuple[Any, ...]:
    sq8, flag, sq16 = (ratio(found[key]) for key in FORMATS)
    before = found["before"]
    return name, before.size, sq8, flag, sq16, *(covered(before, limit) for limit in LIMITS)


def _table(rows: Sequence[tuple[Any, ...]]) -> Table:
    shares = numbers(*FORMATS, "above 2^-8 R", "above 2^-15 R", spec=".2%")
    columns = (Column("layer"), Column("values", ","), *shares)
    return Table("data ratio of e3, layer by layer (figure 10)", columns, rows)


def _octaves(q: QTensor) -> np.ndarray:
    """floor(log2(|x|/R(x))) of the values that are not zero; R(x) is so far above code 1."""
    format = q.format
    assert isinstance(format, Shift | Flag)
    below = format.k - 1 if isinstance(format, Shift) else 2 * format.fine
    magnitude = np.abs(q.codes.astype(np.int64))
    _, exponents = np.frexp(magnitude[magnitude > 0].astype(np.float64))  # exact below 2^53
    return exponents - 1 - below


def _distribution(layer: str, found: dict[str, QTensor]) -> Table:
    """Shares by octave; what is below them in one row, zeros in another."""
    names = ("before", *FORMATS)
    octaves = {name: _octaves(found[name]) for name in names}
    size = found["before"].size
    rows: list[Sequence[Cell]] = []
    for low in range(0, -OCTAVES, -1):
        shares = [int(np.count_nonzero(octaves[name] == low)) / size for name in names]
        rows.append((f"2^{low} .. 2^{low + 1}", *shares))
    rest = [int(np.count_nonzero(octaves[name] <= -OCTAVES)) / size for name in names]
    rows.append((f"below 2^{1 - OCTAVES}", *rest))
    rows.append(("zero", *(1 - octaves[name].size / size for name in names)))
    columns = (Column("|e3| / R(e3)"), *numbers(*names, spec=".2%"))
    return Table(f"values of {layer}, the first quantized layer, by octave (figure 9)", columns, rows)


def _remarks(rows: Sequence[tuple[Any, ...]]) -> list[str]:
    better = sum(row[3] > row[2] for row in rows)
    trends = [_trend([row[at] for row in rows]) for at in (2, 3)]
    pairs = len(rows) * (len(rows) - 1) // 2
    low, high = min(row[2] for row in rows), max(row[2] for row in rows)
    return [
        "The paper draws both figures and prints no number of them; what it says of them in words:",
        f"8-bit SQ covers far less than 8-bit Flag. Here: Flag keeps more in {better} of {len(rows)} layers; "
        f"SQ {low:.1%} to {high:.1%}, Flag {min(row[3] for row in rows):.1%} to "
        f"{max(row[3] for row in rows):.1%}.",
        "Both distributions end at 2^-8 R and 2^-15 R. Here: the last two columns, counted on values before "
        "quantization, are the ratios of SQ and Flag to the last digit but for ties.",
        "Roughly, the ratio falls towards the input. Here: of all pairs of layers, the deeper one has the "
        f"greater ratio in {trends[0]} of {pairs} by SQ, in {trends[1]} of {pairs} by Flag.",
    ]


def _trend(ratios: Sequence[float]) -> int:
    """Pairs whose later layer has the greater ratio."""
    return sum(b > a for i, a in enumerate(ratios) for b in ratios[i + 1 :])


def draw(stream: BinaryIO, file: Path, source: str, result: Result) -> None:
    """Figure 10, the share of values that are not zero, layer by layer, and 9, the values by octave."""
    ratios, octaves = result.tables
    with picture(stream, file, (11.0, 5.0)) as figure:
        figure.suptitle(wrapped(f"{source}: {result.setting}", 90), fontsize=9)
        left, right = figure.subplots(1, 2)
        layers = ratios.column("layer")
        for name, mark in (("SQ 8", "o"), ("Flag 8", "s"), ("SQ 16", "^")):
            left.plot(range(len(layers)), [100 * x for x in ratios.column(name)], marker=mark, label=name)
        left.set_xticks(range(len(layers)), layers, rotation=90, fontsize=6)
        left.set_ylabel("values of e3 that are not zero, %")
        left.set_ylim(0, 103)
        names = octaves.column("|e3| / R(e3)")
        for name, style in (("before", "-"), ("SQ 8", "--"), ("Flag 8", ":")):
            shares = [100 * x for x in octaves.column(name)]
            right.plot(range(len(names)), shares, style, marker=".", label=name)
        right.set_xticks(range(len(names)), names, rotation=90, fontsize=6)
        right.set_ylabel("share of the values, %")
        right.set_xlabel(f"|e3| / R(e3) of {layers[0]}")
        for axis in (left, right):
            axis.grid(alpha=0.3)
            axis.legend()


CHECK = Check(
    "what 8-bit SQ and 8-bit Flag-Q keep of the errors behind convolutions",
    "WAGEUBN, section IV-E, figures 9 and 10",
    "1 minute",
    run,
    Sizes("resnet20", "fashion-mnist", 4000, 1),
    draw=draw,
)
