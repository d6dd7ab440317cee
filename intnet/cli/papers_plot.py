"""`intnet papers --plot`: figures 8 to 10 of WAGEUBN, from the tables of a check."""

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from intnet.cli import output

if TYPE_CHECKING:
    from intnet.papers.check import Result

WIDE, SMALL = (11.0, 5.0), (6.5, 4.5)  # inches
WRAP = 90  # characters of a title's line


def data_ratio(stream: BinaryIO, file: Path, source: str, result: "Result") -> None:
    """Figure 10, the share of values that are not zero, layer by layer, and 9, the values by octave."""
    ratios, octaves = result.tables
    with output.picture(stream, file, WIDE) as figure:
        figure.suptitle(_title(source, result), fontsize=9)
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


def batch_size(stream: BinaryIO, file: Path, source: str, result: "Result") -> None:
    """Figure 8: accuracy over batch size, with the range of the seeds."""
    (table,) = result.tables
    with output.picture(stream, file, SMALL) as figure:
        axis = figure.subplots()
        axis.set_title(_title(source, result), fontsize=8)
        batches = table.column("batch")
        columns = (("float32", "its least", "its most"), ("wageubn", "least", "most"))
        for names, mark in zip(columns, ("o", "s"), strict=True):
            at = [i for i, mean in enumerate(table.column(names[0])) if mean is not None]
            mean, low, high = ([100 * table.column(name)[i] for i in at] for name in names)
            below = [m - x for m, x in zip(mean, low, strict=True)]
            above = [x - m for m, x in zip(mean, high, strict=True)]
            axis.errorbar(at, mean, (below, above), marker=mark, capsize=3, label=names[0])
        axis.set_xticks(range(len(batches)), [str(size) for size in batches])
        axis.set_xlabel("batch size")
        axis.set_ylabel("test accuracy, %")
        axis.grid(alpha=0.3)
        axis.legend()


def _title(source: str, result: "Result") -> str:
    return "\n".join(textwrap.wrap(f"{source}: {result.setting}", WRAP))


DRAW: dict[str, Callable[[BinaryIO, Path, str, "Result"], None]] = {
    "wageubn-data-ratio": data_ratio,
    "wageubn-batch-size": batch_size,
}
