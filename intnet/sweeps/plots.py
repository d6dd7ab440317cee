"""`--plot` of sweeps and comparisons: accuracy over epochs, and what it comes to at the end.

`sweep` has at the end the first varied key of numbers across, as figures 4.1, 5.1, 5.3, 5.5 and 6.3 of J. Li,
"Mix-Precision Stochastic Quantization of Activations during Backpropagation" (Heidelberg 2025). `compare` has
three costs: of training (1/SU, backward passes in their own word lengths), the bytes of the model, those that
a step saves, packed. Means over seeds, the range as a band or as whiskers; a row has one colour everywhere.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Protocol

from intnet.show.pictures import (
    COLORS,
    MARKS,
    blank,
    by_epoch,
    curve,
    legend_outside,
    picture,
    styled,
    wrapped,
)
from intnet.sweeps import rows
from intnet.sweeps.plan import Plan, Point
from intnet.sweeps.rows import Row
from intnet.training.tape import KB, MB

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEGEND = 30  # names in a column
APART = 0.08  # of the distance between two values: lines side by side, so that whiskers stay visible
GAP = 0.055  # of an axis' height between two names
BESIDE = 0.02  # of its width between a point and its name
MIDDLE = 0.55  # of its width: names of points right of it stand left of them

# key of the figures, label of the axis, what it is divided by, whether the figure is the cost's inverse
COSTS = (
    ("speedup_own", "cost of training / float32's (1 / SU own)", 1.0, True),
    ("model_bytes", "model, packed, kB of 2^10 bytes", KB, False),
    ("tape_bytes_packed", "saved by the last step for its backward pass, packed, MB", MB, False),
)


class Results(Protocol):
    """What is drawn: the rows of a folder, and what tells each of their points from the others."""

    folder: Path
    plan: Plan
    rows: list[Row]

    def label(self, point: Point) -> str:
        """'wageubn e2=16'."""


class Picture(NamedTuple):
    """Its inches, and what draws in it."""

    size: tuple[float, float]
    panels: Callable[["Figure", Results], None]


def draw(kind: Picture, results: Results, stream: BinaryIO, file: Path) -> None:
    """Write the picture in the format that the file's name ends in."""
    with picture(stream, file, kind.size) as drawn:
        kind.panels(drawn, results)


def figure(kind: Picture, results: Results) -> "Figure":
    """The same picture as a figure, to show, to change or to save."""
    with blank(kind.size) as made:
        kind.panels(made, results)
    return made


def sweep(figure: "Figure", results: Results) -> None:
    """Two panels, the legend beside them."""
    figure.suptitle(wrapped(rows.title(results.plan), 150), fontsize=9)
    left, right = figure.subplots(1, 2, width_ratios=(1.2, 1))
    for k, row in enumerate(results.rows):
        line = {"color": "0.3", "linestyle": ":"} if row.point.baseline else styled(k)
        _curve(left, results, row, ".", label=results.label(row.point), **line)
    _over_epochs(left, results)
    _final(right, results)
    legend_outside(figure, left, LEGEND)


def compare(figure: "Figure", results: Results) -> None:
    """Four panels."""
    figure.suptitle(wrapped(rows.title(results.plan), 130), fontsize=9)
    curves, *costs = figure.subplots(2, 2).flat
    for k, row in enumerate(results.rows):
        line = {"color": f"C{k % COLORS}", "markersize": 4, "label": results.label(row.point)}
        _curve(curves, results, row, MARKS[k % len(MARKS)], **line)
    _over_epochs(curves, results)
    if curves.get_legend_handles_labels()[1]:
        curves.legend(fontsize=7, loc="best")
    for axis, cost in zip(costs, COSTS, strict=True):
        _against(axis, results, *cost)


SWEEP, COMPARISON = Picture((12.0, 5.5), sweep), Picture((11.0, 8.0), compare)


def _curve(axis: "Axes", results: Results, row: Row, mark: str, **line: Any) -> None:
    told = row.curves.values()
    curve(axis, [[accuracy for accuracy in one if accuracy is not None] for one in told], mark, **line)


def _over_epochs(axis: "Axes", results: Results) -> None:
    by_epoch(axis)
    axis.set_ylabel(_accuracy("test accuracy, %", results))
    if not axis.lines:
        axis.text(0.5, 0.5, "no epoch is finished", transform=axis.transAxes, ha="center", color="0.4")


def _accuracy(what: str, results: Results) -> str:
    """What an axis shows, and of several seeds what the bands and the whiskers are."""
    seeds = len(results.plan.seeds)
    return what if seeds == 1 else f"{what}: mean, least and most of {seeds} seeds"


# -- a sweep's end -----------------------------------------------------------------------------


def _final(axis: "Axes", results: Results) -> None:
    """Over the values of one key, a line for each combination of the others; else over points."""
    varied = results.plan.varied()
    own = [row for row in results.rows if not row.point.baseline and row.values("test_accuracy")]
    key = next((key for key in varied if _numbers(own, key)), None)
    if key is None:
        ticks = [results.label(row.point) for row in own]
        lines = {"": list(zip(range(len(own)), own, strict=True))}
    else:
        ticks = sorted({row.point.value(key) for row in own}, key=_order)
        lines = {}
        for row in own:
            others = [other for other in varied if other != key]
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
    for row in results.rows:
        mean = row.mean("test_accuracy")
        if row.point.baseline and mean is not None:
            axis.axhline(100 * mean, color="0.3", linestyle=":", label=results.label(row.point))
    axis.set_xticks(range(len(ticks)), ticks, rotation=90 if key is None else 0)
    axis.set_xlabel(key or "")
    axis.set_ylabel(_accuracy("test accuracy at the end, %", results))
    axis.grid(alpha=0.3)
    if any(not name.startswith("_") and name for name in axis.get_legend_handles_labels()[1]):
        axis.legend(fontsize=7)


def _whiskers(
    axis: "Axes", entries: list[tuple[int, Row]], k: int, shift: float, name: str, joined: bool
) -> None:
    """Means with least and greatest; lines join the values that are numbers."""
    values = [[100 * value for value in row.values("test_accuracy")] for _, row in entries]
    means = [sum(column) / len(column) for column in values]
    low = [max(0.0, mean - min(column)) for mean, column in zip(means, values, strict=True)]
    high = [max(0.0, max(column) - mean) for mean, column in zip(means, values, strict=True)]
    line = styled(k) if joined else styled(k) | {"linestyle": "none"}
    line |= {"marker": MARKS[k % len(MARKS)], "markersize": 4, "capsize": 3, "label": name or None}
    axis.errorbar([place + shift for place, _ in entries], means, yerr=[low, high], **line)


def _numbers(own: Sequence[Row], key: str) -> bool:
    """Whether a key has at least two values that are numbers."""
    return len({_order(row.point.value(key))[1] for row in own if not _order(row.point.value(key))[0]}) > 1


def _order(text: str) -> tuple[bool, float, str]:
    """Numbers by size, then texts."""
    try:
        return False, float(text), text
    except ValueError:
        return True, 0.0, text


# -- a comparison's costs ----------------------------------------------------------------------


def _against(axis: "Axes", results: Results, key: str, label: str, unit: float, inverse: bool) -> None:
    """Accuracy at the end over a cost; every point has its name."""
    points = []
    for k, row in enumerate(results.rows):
        cost, values = row.mean(key), [100 * value for value in row.values("test_accuracy")]
        if cost is None or not values:
            continue
        x, y = (1 / cost if inverse else cost / unit), sum(values) / len(values)
        reach = [[y - min(values)], [max(values) - y]] if len(values) > 1 else None
        mark, color = MARKS[k % len(MARKS)], f"C{k % COLORS}"
        axis.errorbar(
            x, y, reach, color=color, marker=mark, linestyle="none", elinewidth=0.8, capsize=3, zorder=5
        )
        points.append((x, y, results.label(row.point), color))
    axis.set_xlabel(label)
    axis.set_ylabel(_accuracy("test accuracy at the end, %", results))
    axis.grid(alpha=0.3)
    axis.margins(x=0.12, y=0.12)
    if points:
        left, right = axis.get_xlim()
        axis.set_xlim(max(left, 0), right)
        _name(axis, points)


def _name(axis: "Axes", points: Sequence[tuple[float, float, str, str]]) -> None:
    """Names beside the points, inwards, each above or below all others by GAP; a thin line leads to each."""
    (left, right), (low, high) = axis.get_xlim(), axis.get_ylim()
    line = {"arrowstyle": "-", "linewidth": 0.5, "shrinkA": 0, "shrinkB": 2}
    places = [
        ((x - left) / (right - left), (y - low) / (high - low), name, color)
        for x, y, name, color in sorted(points, key=lambda point: point[1])
    ]
    for (x, y, name, color), at in zip(places, spread([place[1] for place in places], GAP), strict=True):
        on_right = x > MIDDLE
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
