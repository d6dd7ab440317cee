"""`intnet costs --plot`: word lengths, sparsity and cost over training, as in figures 4 to 6 of the paper."""

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from intnet.cli import output
from intnet.costs import adapt_costs

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from intnet.cli.costs import Shown

SIZE = (9.0, 8.0)  # inches
WRAP = 90  # characters of a title's line
POINTS = 2000  # of a line; longer runs are drawn every so many steps
WIDEST, THINNEST = 3.6, 1.0  # lines, the first drawn the widest: one that lies below another stays visible
STYLES = ("-", "--", "-.", ":")  # one a round of colours
COLORS = 10
LEGEND = 48  # names in a column


def draw(stream: BinaryIO, file: Path, shown: "Shown") -> None:
    """Write the picture in the format that the file's name ends in."""
    from matplotlib.ticker import MaxNLocator, MultipleLocator

    history = shown.history
    with output.picture(stream, file, SIZE) as figure:
        widths, zeros, cost = figure.subplots(3, 1, sharex=True, height_ratios=(2, 1.2, 1.2))
        at = np.arange(0, history.steps, -(-history.steps // POINTS))
        _lines(widths, history, np.arange(history.steps), history.widths, WIDEST)
        _lines(zeros, history, at, 100 * (1 - adapt_costs.shares(history)), THINNEST)
        _cost(cost, history, at)
        widths.set_title("\n".join(textwrap.wrap(shown.title, WRAP)), loc="left", fontsize=9)
        widths.set_ylabel("word length, bits")
        widths.set_ylim(0, adapt_costs.FLOAT_BITS + 2)
        widths.yaxis.set_major_locator(MultipleLocator(4))
        zeros.set_ylabel("zero weights, %")
        top = max(1.0, 1.05 * zeros.dataLim.y1)
        zeros.set_ylim(-0.02 * top, top)
        cost.set_xlabel(shown.unit)
        cost.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        for axis in (widths, zeros, cost):
            axis.grid(alpha=0.3)
            axis.margins(x=0.01)
        lines, names = widths.get_legend_handles_labels()
        columns = -(-len(names) // LEGEND)
        figure.legend(lines, names, loc="outside right upper", fontsize=7, ncols=columns)


def _cost(axis: "Axes", history: adapt_costs.History, at: np.ndarray) -> None:
    """The cost of the steps `at` over float32's, without overhead and, where there is some, with it."""
    from matplotlib.ticker import LogLocator

    labels = ("training", "overhead once a step", "overhead for every image")
    lines = list(zip(labels, adapt_costs.relative(history), strict=True))
    for label, values in lines if history.lookback is not None else lines[:1]:
        axis.step(_edges(at, history.steps), [*values[at], values[-1]], where="post", label=label)
    axis.axhline(1, color="0.3", linewidth=0.8, linestyle=":", label="float32")
    axis.set_ylabel("cost / float32's")
    low, high = axis.dataLim.intervaly
    axis.set_yscale("log", base=2)  # overhead for every image is many times the rest
    axis.set_ylim(min(0.5, low / 1.1), max(1.5, high * 1.1))
    axis.yaxis.set_major_locator(LogLocator(2, (1.0, 1.5)))
    axis.yaxis.set_major_formatter("{x:g}")
    axis.legend(
        fontsize=7, loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0.2, ncols=4, frameon=False
    )


def _lines(
    axis: "Axes", history: adapt_costs.History, at: np.ndarray, values: np.ndarray, widest: float
) -> None:
    """A line a layer, through `values` [steps, layers] at the steps `at`; a point only where it moves."""
    count = len(history.layers)
    for k, layer in enumerate(history.layers):
        own = values[at, k]
        moved = np.flatnonzero(np.diff(own, prepend=np.nan) != 0)
        width = widest - (widest - THINNEST) * k / max(count - 1, 1)
        axis.step(
            _edges(at[moved], history.steps),
            [*own[moved], own[-1]],
            where="post",
            label=layer.name,
            linewidth=width,
            color=f"C{k % COLORS}",
            linestyle=STYLES[k // COLORS % len(STYLES)],
        )


def _edges(at: np.ndarray, steps: int) -> np.ndarray:
    """Where the steps `at` begin, counted from 1, and where the last of all ends."""
    return np.append(at + 1, steps + 1)
