"""`intnet inspect --plot`: the histograms of every shown path, before and after rounding, as one picture."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from intnet.inspect.measure import Measured
from intnet.inspect.text import over, unit
from intnet.show.pictures import picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SLIDE, COLUMNS, MOST = (13.33, 7.5), 4, 12  # inches of a slide of 16:9; panels in a row, and on it


def draw(stream: BinaryIO, file: Path, title: str, rows: Sequence[Measured]) -> None:
    """Write the picture of `rows`, or of MOST of them, in the format that the file's name ends in."""
    shown = chosen(rows)
    columns = min(COLUMNS, len(shown))
    lines = -(-len(shown) // columns)
    with picture(stream, file, SLIDE) as figure:
        figure.suptitle(f"{title}\n{said(shown, len(rows))}", fontsize=12)
        axes = figure.subplots(lines, columns, squeeze=False).reshape(-1)
        for axis, row in zip(axes, shown, strict=False):
            _histogram(axis, row)
        for axis in axes[len(shown) :]:
            axis.set_axis_off()
        legend = axes[next((k for k, row in enumerate(shown) if row.before), 0)]
        legend.legend(fontsize=8)


def chosen(rows: Sequence[Measured]) -> list[Measured]:
    """Of more than MOST paths those that rounding changed most, in the step's order.

    Least SQNR first; paths that nothing changed come last.
    """
    order = sorted(range(len(rows)), key=lambda k: (rows[k].sqnr_db is None, rows[k].sqnr_db or 0.0, k))
    return [rows[k] for k in sorted(order[:MOST])]


def said(shown: Sequence[Measured], all_paths: int) -> str:
    """What is seen, in a line."""
    rounded = any(row.before is not None for row in shown)
    what = "Values before rounding (line) and the codes they became (bars)" if rounded else "Values"
    few = (
        f"; of {all_paths} paths the {len(shown)} that rounding changed most"
        if len(shown) < all_paths
        else ""
    )
    return what + few


def _histogram(axis: "Axes", row: Measured) -> None:
    """Bars of the codes, over them the exact values' steps."""
    from matplotlib.ticker import MaxNLocator

    widths = [high - low for low, high in pairwise(row.edges)]
    axis.bar(row.edges[:-1], row.after, widths, align="edge", color="#9ecae1", label="after")
    if row.before is not None:
        axis.stairs(row.before, row.edges, color="#08306b", label="before")
    sqnr = "" if row.sqnr_db is None else f", SQNR {row.sqnr_db:.1f} dB"
    bits = f", {row.range_bits:.1f} bits used" if over(row) else ""
    if row.buckets is not None:
        bits = f", {row.buckets.packed_bits:.3g} packed"
    axis.set_title(f"{row.layer}/{row.path}\n{row.short}{sqnr}{bits}")
    axis.set_xlabel(unit(row))
    axis.set_ylabel("elements")
    axis.xaxis.set_major_locator(MaxNLocator(4))
    axis.yaxis.set_major_locator(MaxNLocator(5, integer=True))
