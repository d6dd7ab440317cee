"""Pictures: one way to open, lay out and write them, and what the drawings of several rooms share.

matplotlib is the extra `plot`; it is imported only here and where axes are drawn.
"""

import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The times and versions that a file of each kind would hold: without them the same data give the same file.
METADATA: dict[str, dict[str, None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
STYLES = ("-", "--", "-.", ":")  # of lines
MARKS = ("o", "s", "D", "^", "v", "P", "X", "*")
COLORS = 10
MARKED = 30  # epochs, up to which each has a point


@contextmanager
def picture(stream: BinaryIO, file: Path, size: tuple[float, float]) -> "Iterator[Figure]":
    """A figure of so many inches to draw in, then written in the format that the file's name ends in."""
    with blank(size) as figure:
        yield figure
        _settle(figure)
        figure.savefig(stream, format=file.suffix[1:], metadata=METADATA[file.suffix])


@contextmanager
def blank(size: tuple[float, float]) -> "Iterator[Figure]":
    """A figure of so many inches to draw in."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": "intnet", "font.size": 8}):
        yield Figure(size, layout="constrained")


def _settle(figure: "Figure") -> None:
    """Lay out once, places to 4 digits: the solver's last bits differ between two runs on the same data."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axes in figure.axes:
        left, bottom, width, height = (round(side, 4) for side in axes.get_position().bounds)
        axes.set_position((left, bottom, width, height))


def wrapped(title: str, width: int) -> str:
    """A title in lines of at most so many characters."""
    return "\n".join(textwrap.wrap(title, width))


def styled(k: int) -> dict[str, Any]:
    """Colour and stroke of the k-th line: another stroke a round of colours."""
    return {"color": f"C{k % COLORS}", "linestyle": STYLES[k // COLORS % len(STYLES)]}


def by_epoch(axis: "Axes", label: str = "epoch") -> None:
    """Whole numbers across, and a grid."""
    from matplotlib.ticker import MaxNLocator

    axis.set_xlabel(label)
    axis.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axis.grid(alpha=0.3)


def legend_outside(figure: "Figure", axis: "Axes", most: int) -> None:
    """The names of an axis' lines right of the figure, at most so many in a column."""
    lines, names = axis.get_legend_handles_labels()
    if lines:
        figure.legend(lines, names, loc="outside right upper", fontsize=7, ncols=-(-len(names) // most))


def curve(axis: "Axes", runs: Sequence[Sequence[float]], mark: str, **line: Any) -> None:
    """Means over runs of a share an epoch, in per cent, the range as a band; as far as all that began are."""
    begun = [run for run in runs if run]
    epochs = [[100 * value for value in column] for column in zip(*begun, strict=False)]
    if not epochs:
        return
    x, means = range(1, len(epochs) + 1), [sum(column) / len(column) for column in epochs]
    axis.plot(x, means, marker=mark if len(epochs) <= MARKED else "none", **line)
    if len(begun) > 1:
        low, high = [min(column) for column in epochs], [max(column) for column in epochs]
        axis.fill_between(x, low, high, color=line["color"], alpha=0.15, linewidth=0)
