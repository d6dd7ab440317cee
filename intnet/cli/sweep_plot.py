"""`intnet sweep --plot`: test accuracy over epochs, and at the end over the first varied key of numbers.

As in figures 4.1, 5.1, 5.3, 5.5 and 6.3 of J. Li, "Mix-Precision Stochastic Quantization of Activations
during Backpropagation" (Heidelberg 2025): means over seeds, with the range as a band or as whiskers.
"""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from intnet.cli import output
from intnet.sweeps import table
from intnet.sweeps.plan import Plan
from intnet.sweeps.table import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE = (12.0, 5.5)  # inches
WRAP = 150  # characters of a title's line
STYLES = ("-", "--", "-.", ":")  # one a round of colours
MARKS = ("o", "s", "D", "^", "v", "P", "X")
COLORS = 10
MARKED = 30  # epochs, up to which each has a point
LEGEND = 30  # names in a column
APART = 0.08  # of the distance between two values: lines side by side, so that whiskers stay visible


def draw(stream: BinaryIO, file: Path, folder: Path, plan: Plan, rows: Sequence[Row]) -> None:
    """Write the picture in the format that the file's name ends in."""
    with output.picture(stream, file, SIZE) as figure:
        figure.suptitle("\n".join(textwrap.wrap(table.title(plan), WRAP)), fontsize=9)
        curves, final = figure.subplots(1, 2, width_ratios=(1.2, 1))
        _curves(curves, folder, plan, rows)
        _final(final, plan, rows)
        lines, names = curves.get_legend_handles_labels()
        if lines:
            columns = -(-len(names) // LEGEND)
            figure.legend(lines, names, loc="outside right upper", fontsize=7, ncols=columns)


def _curves(axis: "Axes", folder: Path, plan: Plan, rows: Sequence[Row]) -> None:
    """A line a point, as far as all of its seeds that have begun are."""
    from matplotlib.ticker import MaxNLocator

    for k, row in enumerate(rows):
        found = [table.curve(folder, plan, row.point, seed) for seed in plan.seeds]
        begun = [curve for curve in found if curve]
        epochs = [[100 * value for value in column] for column in zip(*begun, strict=False)]
        if not epochs:
            continue
        x, color = range(1, len(epochs) + 1), "0.3" if row.point.baseline else f"C{k % COLORS}"
        style = ":" if row.point.baseline else STYLES[k // COLORS % len(STYLES)]
        mark = "." if len(epochs) <= MARKED else "none"
        means = [sum(column) / len(column) for column in epochs]
        axis.plot(x, means, color=color, linestyle=style, marker=mark, label=plan.label(row.point))
        if len(begun) > 1:
            low, high = [min(column) for column in epochs], [max(column) for column in epochs]
            axis.fill_between(x, low, high, color=color, alpha=0.15, linewidth=0)
    axis.set_xlabel("epoch")
    axis.set_ylabel("test accuracy, %")
    axis.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axis.grid(alpha=0.3)


def _final(axis: "Axes", plan: Plan, rows: Sequence[Row]) -> None:
    """Over the values of one key, a line for each combination of the others; else over points."""
    own = [row for row in rows if not row.point.baseline and row.reports]
    key = next((key for key in plan.varied() if _numbers(own, key)), None)
    if key is None:
        ticks = [plan.label(row.point) for row in own]
        lines = {"": list(zip(range(len(own)), own, strict=True))}
    else:
        ticks = sorted({row.point.value(key) for row in own}, key=_order)
        lines = {}
        for row in own:
            others = [other for other in plan.varied() if other != key]
            name = " ".join(f"{other}={row.point.value(other)}" for other in others)
            lines.setdefault(name, []).append((ticks.index(row.point.value(key)), row))
    for k, (name, entries) in enumerate(lines.items()):
        shift = APART * (k - (len(lines) - 1) / 2)
        numbers = [entry for entry in entries if key is not None and not _order(entry[1].point.value(key))[0]]
        texts = [entry for entry in entries if entry not in numbers]
        for part, joined in ((numbers, True), (texts, False)):
            if part:
                label = name if part is numbers or not numbers else ""
                _whiskers(axis, sorted(part, key=lambda entry: entry[0]), k, shift, label, joined)
    for row in rows:
        mean = row.mean("test_accuracy")
        if row.point.baseline and mean is not None:
            axis.axhline(100 * mean, color="0.3", linestyle=":", label=plan.label(row.point))
    axis.set_xticks(range(len(ticks)), ticks, rotation=90 if key is None else 0)
    axis.set_xlabel(key or "")
    axis.set_ylabel("test accuracy at the end, %")
    axis.grid(alpha=0.3)
    if any(not name.startswith("_") and name for name in axis.get_legend_handles_labels()[1]):
        axis.legend(fontsize=7)


def _whiskers(
    axis: "Axes", entries: list[tuple[int, Row]], k: int, shift: float, name: str, joined: bool
) -> None:
    """Means with least and greatest; lines join the values that are numbers."""
    values = [[100 * value for value in row.values("test_accuracy")] for _, row in entries]
    means = [sum(column) / len(column) for column in values]
    low = [mean - min(column) for mean, column in zip(means, values, strict=True)]
    high = [max(column) - mean for mean, column in zip(means, values, strict=True)]
    x = [place + shift for place, _ in entries]
    axis.errorbar(
        x,
        means,
        yerr=[[max(0.0, number) for number in side] for side in (low, high)],
        label=name or None,
        color=f"C{k % COLORS}",
        linestyle=STYLES[k // COLORS % len(STYLES)] if joined else "none",
        marker=MARKS[k % len(MARKS)],
        markersize=4,
        capsize=3,
    )


def _numbers(rows: Sequence[Row], key: str) -> bool:
    """Whether a key has at least two values that are numbers."""
    return len({_order(row.point.value(key))[1] for row in rows if not _order(row.point.value(key))[0]}) > 1


def _order(text: str) -> tuple[bool, float, str]:
    """Numbers by size, then texts."""
    try:
        return False, float(text), text
    except ValueError:
        return True, 0.0, text
