"""`intnet costs --plot` of a run of dynasty: figures 3, 4 and 5 of its paper, time and loss noise."""

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from intnet.cli import output
from intnet.costs.array_costs import START_BITS, STATIC_BITS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE = (11.0, 12.5)  # inches
WRAP = 120  # characters of a title's line
OPERANDS = ("weights", "activations")
DECADE = 10  # from there on factors are drawn in powers
LEGEND = 0.16  # of the height, kept free for it
MARKED = 30  # epochs, up to which each has a point


def draw(stream: BinaryIO, file: Path, title: str, result: dict[str, Any]) -> None:
    """Write the picture in the format that the file's name ends in."""
    with output.picture(stream, file, SIZE) as figure:
        figure.suptitle("\n".join(textwrap.wrap(title, WRAP)), fontsize=9)
        axes = figure.subplots(4, 2, height_ratios=(1.5, 1, 1, 1))
        for column, operand in enumerate(OPERANDS):
            _sensitivity(axes[0, column], result, operand)
            _widths(axes[1, column], result, operand)
            _fluctuation(axes[2, column], result, operand)
        _time(axes[3, 0], result)
        _noise(axes[3, 1], result)


def _sensitivity(axis: "Axes", result: dict[str, Any], operand: str) -> None:
    """Figure 3: least to greatest as a line, the middle half as a box, the median as a mark."""
    axis.set_title(f"relative sensitivity r of {operand} by layer, last epoch", loc="left")
    names = [layer["layer"] for layer in result["layers"]]
    at = [k for k, layer in enumerate(result["layers"]) if layer[operand] and layer[operand]["r"]]
    r = [result["layers"][k][operand]["r"] for k in at]
    if r:
        low, first, middle, third, high = zip(*r, strict=True)
        height = [b - a for a, b in zip(first, third, strict=True)]
        axis.vlines(at, low, high, color="#9ecae1", label="least to greatest")
        axis.bar(at, height, 0.6, bottom=first, color="#4292c6", label="middle half of the blocks")
        axis.plot(at, middle, "D", color="#cb181d", markersize=4, label="median")
        none = result["maps"][-1][operand]["lambda"]  # 0 bits up to there, 8 from 8 above it on
        axis.axhspan(none, none + STATIC_BITS, color="0.92", zorder=-1, label="lambda to lambda + 8")
        bottom, top = axis.get_ylim()
        axis.set_ylim(bottom, top + LEGEND * (top - bottom))
        axis.legend(fontsize=6, ncols=2, loc="upper left")
    axis.set_xticks(range(len(names)), names, rotation=90, fontsize=6)
    axis.set_xlim(-0.6, len(names) - 0.4)
    axis.set_ylabel("r, bits")
    axis.grid(alpha=0.3, axis="y")


def _lines(axis: "Axes", x: list[int], lines: dict[str, list[float | None]]) -> None:
    """By epoch; None is a gap."""
    from matplotlib.ticker import MaxNLocator

    styles = ("-", "--", "-.", ":")
    for k, (label, values) in enumerate(lines.items()):
        y = [float("nan") if value is None else value for value in values]
        mark = "." if len(x) <= MARKED else "none"
        axis.plot(x, y, marker=mark, linestyle=styles[k % len(styles)], color=f"C{k}", label=label)
    axis.set_xlabel("epoch")
    axis.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axis.grid(alpha=0.3)


def _widths(axis: "Axes", result: dict[str, Any], operand: str) -> None:
    """Figure 5: mean width with lambda tuned and not."""
    maps = result["maps"]
    keys = {"tuned": "exact", "smoothed, rounded: in use": "mean", "not tuned": "untuned"}
    epochs = [line["epoch"] for line in maps]
    _lines(axis, epochs, {label: [line[operand][key] for line in maps] for label, key in keys.items()})
    axis.axhline(maps[-1][operand]["alpha"], color="0.3", linewidth=0.8, label="target")
    axis.set_ylim(0, STATIC_BITS)
    axis.set_title(f"mean width of {operand}, maps by the epoch that ends with them", loc="left")
    axis.set_ylabel("bits")
    axis.legend(fontsize=6, ncols=4)


def _fluctuation(axis: "Axes", result: dict[str, Any], operand: str) -> None:
    """Figure 4: by how much blocks change from map to map."""
    maps = result["maps"]
    keys = {"without smoothing": "change_new", "with smoothing": "change"}
    lines = {label: [line[operand].get(key) for line in maps] for label, key in keys.items()}
    _lines(axis, [line["epoch"] for line in maps], lines)
    axis.set_ylim(bottom=0)
    axis.set_title(f"fluctuation: mean change of a block's width, {operand}", loc="left")
    axis.set_ylabel("bits")
    axis.legend(fontsize=6)


def _time(axis: "Axes", result: dict[str, Any]) -> None:
    """Of every epoch and stage, over 8 bits."""
    epochs = result["epochs"]
    lines: dict[str, list[float | None]] = {"all": [100 * line["time"] for line in epochs]}
    for name in epochs[0]["stages"]:
        lines[name] = [100 * line["stages"][name] for line in epochs]
    _lines(axis, [line["epoch"] for line in epochs], lines)
    axis.set_ylim(0, 105)
    axis.set_title(f"time of an epoch (the first: {START_BITS} bits)", loc="left")
    axis.set_ylabel("% of 8 bits")
    axis.legend(fontsize=6, ncols=4)


def _noise(axis: "Axes", result: dict[str, Any]) -> None:
    """How much less noise the loss sees than with one width that takes as much time."""
    from matplotlib.ticker import LogLocator, NullFormatter

    maps = result["maps"]
    lines = {operand: [line[operand]["noise_factor_by_macs"] for line in maps] for operand in OPERANDS}
    _lines(axis, [line["epoch"] for line in maps], lines)
    axis.axhline(1, color="0.3", linewidth=0.8, linestyle=":")
    if max((value for values in lines.values() for value in values if value), default=1) >= DECADE:
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(LogLocator(10, (1, 2, 5)))
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_formatter(NullFormatter())
    axis.set_title("loss noise of one width everywhere over the map's, as much time", loc="left")
    axis.set_ylabel("factor")
    axis.legend(fontsize=6)
