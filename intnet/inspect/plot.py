"""`intnet inspect --plot`: the histograms of every shown path, before and after rounding, as one picture."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from intnet.inspect.measure import Measured
from intnet.inspect.text import over, unit
from intnet.show.pictures import picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS, SIZE = 4, (3.4, 2.5)  # histograms in a row, inches of one


def draw(stream: BinaryIO, file: Path, title: str, rows: Sequence[Measured]) -> None:
    """Write the picture of `rows` in the format that the file's name ends in."""
    columns = min(COLUMNS, len(rows))
    lines = -(-len(rows) // columns)
    with picture(stream, file, (columns * SIZE[0], lines * SIZE[1] + 0.6)) as figure:
        figure.suptitle(title)
        axes = figure.subplots(lines, columns, squeeze=False).reshape(-1)
        for axis, row in zip(axes, rows, strict=False):
            _histogram(axis, row)
        for axis in axes[len(rows) :]:
            axis.set_axis_off()
        legend = axes[next((k for k, row in enumerate(rows) if row.before), 0)]
        legend.legend(fontsize=7)


def _histogram(axis: "Axes", row: Measured) -> None:
    """Bars of the codes, over them the exact values' steps."""
    from matplotlib.ticker import MaxNLocator

    edge, bins = row.edges or 1.0, len(row.after)
    width = 2 * edge / bins
    edges = [-edge + k * width for k in range(bins + 1)]
    axis.bar(edges[:-1], row.after, width, align="edge", color="#9ecae1", label="after")
    if row.before is not None:
        axis.stairs(row.before, edges, color="#08306b", label="before")
    sqnr = "" if row.sqnr_db is None else f", SQNR {row.sqnr_db:.1f} dB"
    bits = f", {row.range_bits:.1f} bits used" if over(row) else ""
    if row.buckets is not None:
        bits = f", {row.buckets.packed_bits:.3g} packed"
    axis.set_title(f"{row.layer}/{row.path}\n{row.short}{sqnr}{bits}")
    axis.set_xlabel(unit(row))
    axis.set_ylabel("elements")
    axis.xaxis.set_major_locator(MaxNLocator(4))
    axis.yaxis.set_major_locator(MaxNLocator(5, integer=True))
