"""`intnet compare --plot`: accuracy over epochs by method, and against what training and inference cost.

Four panels: test accuracy over epochs; at the end over the cost of training (1/SU, backward passes in their
own word lengths), over the bytes of the model, over those that a step saves, packed. A row has
one colour everywhere; means over seeds, whiskers from the least to the greatest.
"""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from intnet.cli import output
from intnet.cli.compare_table import Compared, Line
from intnet.sweeps import table
from intnet.sweeps.plan import Plan
from intnet.sweeps.table import Row
from intnet.training.tape import KB, MB

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE = (11.0, 8.0)  # inches
WRAP = 130  # characters of a title's line
MARKS = ("o", "s", "D", "^", "v", "P", "X", "*")
COLORS = 10
MARKED = 30  # epochs, up to which each has a point
GAP = 0.055  # of an axis' height between two names
BESIDE = 0.02  # of its width between a point and its name
MIDDLE = 0.55  # of its width: names of points right of it stand left of them

# key of the figures, label of the axis, what it is divided by, whether the figure is the cost's inverse
COSTS = (
    ("speedup_own", "cost of training / float32's (1 / SU own)", 1.0, True),
    ("model_bytes", "model, packed, kB of 2^10 bytes", KB, False),
    ("tape_bytes_packed", "saved by the last step for its backward pass, packed, MB", MB, False),
)


def draw(
    compared: Compared, stream: BinaryIO, file: Path, folder: Path, plan: Plan, rows: Sequence[Row]
) -> None:
    """Write the picture in the format that the file's name ends in."""
    lines = compared.lines(folder, plan, rows)
    with output.picture(stream, file, SIZE) as figure:
        figure.suptitle("\n".join(textwrap.wrap(table.title(plan), WRAP)), fontsize=9)
        curves, *costs = figure.subplots(2, 2).flat
        _curves(curves, folder, plan, lines)
        for axis, cost in zip(costs, COSTS, strict=True):
            _against(axis, lines, *cost)


def _curves(axis: "Axes", folder: Path, plan: Plan, lines: Sequence[Line]) -> None:
    """A line a row, as far as all of its seeds that have begun are."""
    from matplotlib.ticker import MaxNLocator

    for k, line in enumerate(lines):
        found = [table.curve(folder, plan, line.row.point, seed) for seed in plan.seeds]
        begun = [curve for curve in found if curve]
        epochs = [[100 * value for value in column] for column in zip(*begun, strict=False)]
        if not epochs:
            continue
        x, means = range(1, len(epochs) + 1), [sum(column) / len(column) for column in epochs]
        mark = MARKS[k % len(MARKS)] if len(epochs) <= MARKED else "none"
        axis.plot(x, means, color=f"C{k % COLORS}", marker=mark, markersize=4, label=line.label)
        if len(begun) > 1:
            low, high = [min(column) for column in epochs], [max(column) for column in epochs]
            axis.fill_between(x, low, high, color=f"C{k % COLORS}", alpha=0.15, linewidth=0)
    axis.set_xlabel("epoch")
    axis.set_ylabel("test accuracy, %")
    axis.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axis.grid(alpha=0.3)
    if axis.get_legend_handles_labels()[1]:
        axis.legend(fontsize=7, loc="best")


def _against(axis: "Axes", lines: Sequence[Line], key: str, label: str, unit: float, inverse: bool) -> None:
    """Accuracy at the end over a cost; every point has its name."""
    points = []
    for k, line in enumerate(lines):
        cost, values = line.mean(key), [100 * value for value in line.values("test_accuracy")]
        if cost is None or not values:
            continue
        x, y = (1 / cost if inverse else cost / unit), sum(values) / len(values)
        reach = [[y - min(values)], [max(values) - y]] if len(values) > 1 else None
        mark, color = MARKS[k % len(MARKS)], f"C{k % COLORS}"
        axis.errorbar(x, y, reach, color=color, marker=mark, linestyle="none", elinewidth=0.8, capsize=3)
        points.append((x, y, line.label, color))
    axis.set_xlabel(label)
    axis.set_ylabel("test accuracy at the end, %")
    axis.grid(alpha=0.3)
    axis.margins(x=0.12, y=0.12)
    if points:
        left, right = axis.get_xlim()
        axis.set_xlim(max(left, 0), right)
        _name(axis, points)


def _name(axis: "Axes", points: Sequence[tuple[float, float, str, str]]) -> None:
    """Names beside the points, on either side apart from each other by GAP; a thin line leads to each."""
    (left, right), (low, high) = axis.get_xlim(), axis.get_ylim()
    line = {"arrowstyle": "-", "linewidth": 0.5, "shrinkA": 0, "shrinkB": 2}
    for on_right in (False, True):
        own = [
            ((x - left) / (right - left), (y - low) / (high - low), name, color)
            for x, y, name, color in sorted(points, key=lambda point: point[1])
            if ((x - left) / (right - left) > MIDDLE) == on_right
        ]
        for (x, y, name, color), at in zip(own, spread([place[1] for place in own], GAP), strict=True):
            axis.annotate(
                name,
                (x, y),
                (x - BESIDE if on_right else x + BESIDE, at),
                xycoords="axes fraction",
                textcoords="axes fraction",
                fontsize=7,
                color=color,
                va="center",
                ha="right" if on_right else "left",
                arrowprops={**line, "color": color},
                bbox={"boxstyle": "square,pad=0.1", "color": "white", "alpha": 0.75, "linewidth": 0},
            )


def spread(places: Sequence[float], gap: float) -> list[float]:
    """Rising numbers moved apart by at least `gap`, each group about its own middle."""
    groups: list[tuple[float, int]] = []  # middle, members
    for place in places:
        groups.append((place, 1))
        while len(groups) > 1 and groups[-1][0] - groups[-2][0] < gap * (groups[-1][1] + groups[-2][1]) / 2:
            (a, m), (b, n) = groups[-2:]
            groups[-2:] = [((a * m + b * n) / (m + n), m + n)]
    return [middle + gap * (i - (count - 1) / 2) for middle, count in groups for i in range(count)]
