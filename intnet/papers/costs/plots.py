"""`intnet costs --plot`: word lengths over training by AdaPT's figures 4 to 6, or DYNASTY's 3 to 5, 7 and 8.

word_lengths    widths, zero weights, cost and memory, over the steps of a run or the epochs of a schedule
maps            sensitivity, widths, fluctuation, time and loss noise of a run of dynasty
side_by_side    of several runs of dynasty accuracy over time, and energy by part: its figures 7 and 8
layer_map       `--map LAYER`: the widths of one layer's blocks
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from intnet.errors import ConfigError
from intnet.exact.blocks.block_float import WIDTHS
from intnet.inspect.block_maps import COLORS, of_activations, of_weights
from intnet.methods.dynasty_map import rounded
from intnet.papers.costs import adapt_costs
from intnet.papers.costs.adapt_costs import History
from intnet.papers.costs.dynasty_costs import PARTS, START_BITS, STATIC_BITS
from intnet.papers.costs.logs import Decision
from intnet.show.pictures import MARKED, MARKS, STYLES, by_epoch, legend_outside, picture, styled, wrapped
from intnet.training.train import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POINTS = 2000  # of a line; longer runs are drawn every so many steps
WIDEST, THINNEST = 3.6, 1.0  # of the first line and of the last
NAMES = 48  # of layers in a column
OPERANDS = ("weights", "activations")
DECADE = 10  # from there on factors are drawn in powers
LEGEND = 0.16  # of the height, kept free for it


def word_lengths(
    stream: BinaryIO, file: Path, title: str, unit: str, history: History, decisions: Sequence[Decision] = ()
) -> None:
    """Write the picture in the format that the file's name ends in; unit: 'step' or 'epoch'.

    decisions: (step, what a switch or a policy decided, and by what), of which a panel shows why widths moved
    """
    from matplotlib.ticker import MultipleLocator

    with picture(stream, file, (9.0, 10.0 if decisions else 8.0)) as figure:
        heights = (2, 1.2, 1.2, 1.2)[: 4 if decisions else 3]
        widths, *reasons, zeros, cost = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights)
        for axis in reasons:
            _reasons(axis, history, decisions)
        at = np.arange(0, history.steps, -(-history.steps // POINTS))
        _layers(widths, history, np.arange(history.steps), history.widths, WIDEST)
        _layers(zeros, history, at, 100 * (1 - adapt_costs.shares(history)), THINNEST)
        _cost(cost, history, at)
        widths.set_title(wrapped(title, 90), loc="left", fontsize=9)
        widths.set_ylabel("word length, bits")
        widths.set_ylim(0, adapt_costs.FLOAT_BITS + 2)
        widths.yaxis.set_major_locator(MultipleLocator(4))
        zeros.set_ylabel("zero weights, %")
        top = max(1.0, 1.05 * zeros.dataLim.y1)
        zeros.set_ylim(-0.02 * top, top)
        by_epoch(cost, unit)
        for axis in (widths, *reasons, zeros, cost):
            axis.grid(True, alpha=0.3)
            axis.margins(x=0.01)
        legend_outside(figure, widths, NAMES)


def _reasons(axis: "Axes", history: History, decisions: Sequence[Decision]) -> None:
    """Of AdaPT the diversity D at every switch, marked by the strategy; of MuPPET p and its threshold."""
    net = [(step, of["net"]) for step, of in decisions if "net" in of]
    if net:
        steps = [step for step, _ in net]
        for name in ("p", "threshold"):
            axis.plot(steps, [found[name] for _, found in net], marker="o", markersize=3, label=name)
        axis.set_ylabel("p of the policy")
    else:
        for strategy, mark in (("min", "v"), ("mean", "o"), ("max", "^")):
            for k, layer in enumerate(history.layers):
                own = [(step, of[layer.name]) for step, of in decisions if layer.name in of]
                found = [(step, of["D"]) for step, of in own if of["strategy"] == strategy and of["D"]]
                x, y = [step for step, _ in found], [d for _, d in found]
                axis.scatter(x, y, s=9, marker=mark, color=styled(k)["color"], linewidths=0)
            axis.scatter([], [], s=9, marker=mark, color="0.4", label=strategy)
        axis.set_yscale("log", base=2)
        axis.yaxis.set_major_formatter("{x:g}")
        axis.set_ylabel("D at a switch, by strategy")
    _legend_above(axis, 3)


def _cost(axis: "Axes", history: History, at: np.ndarray) -> None:
    """Cost of the steps `at` over float32's, without overhead and, where there is some, with it; memory."""
    from matplotlib.ticker import LogLocator

    labels = ("training", "overhead once a step", "overhead for every image")
    lines = list(zip(labels, adapt_costs.relative(history), strict=True))
    told = lines if history.lookback is not None else lines[:1]
    for label, values in (*told, ("memory", adapt_costs.memory(history))):
        axis.step(_edges(at, history.steps), [*values[at], values[-1]], where="post", label=label)
    axis.axhline(1, color="0.3", linewidth=0.8, linestyle=":", label="float32")
    axis.set_ylabel("cost, memory / float32's")
    low, high = axis.dataLim.intervaly
    axis.set_yscale("log", base=2)  # overhead for every image is many times the rest
    axis.set_ylim(min(0.5, low / 1.1), max(1.5, high * 1.1))
    axis.yaxis.set_major_locator(LogLocator(2, (1.0, 1.5)))
    axis.yaxis.set_major_formatter("{x:g}")
    _legend_above(axis, 5)


def _legend_above(axis: "Axes", columns: int) -> None:
    axis.legend(
        fontsize=7, loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0.2, ncols=columns, frameon=False
    )


def _layers(axis: "Axes", history: History, at: np.ndarray, values: np.ndarray, widest: float) -> None:
    """A line a layer, through `values` [steps, layers] at the steps `at`; a point only where it moves."""
    count = len(history.layers)
    for k, layer in enumerate(history.layers):
        own = values[at, k]
        moved = np.flatnonzero(np.diff(own, prepend=np.nan) != 0)
        axis.step(
            _edges(at[moved], history.steps),
            [*own[moved], own[-1]],
            where="post",
            label=layer.name,
            linewidth=_width(k, count, widest),
            **styled(k),
        )


def _width(k: int, count: int, widest: float) -> float:
    """Of line k of so many, the first the widest: one that lies below another stays visible."""
    return widest - (widest - THINNEST) * k / max(count - 1, 1)


def _edges(at: np.ndarray, steps: int) -> np.ndarray:
    """Where the steps `at` begin, counted from 1, and where the last of all ends."""
    return np.append(at + 1, steps + 1)


# -- maps --------------------------------------------------------------------------------------


def maps(stream: BinaryIO, file: Path, title: str, result: dict[str, Any]) -> None:
    """Write the picture in the format that the file's name ends in."""
    with picture(stream, file, (11.0, 12.5)) as figure:
        figure.suptitle(wrapped(title, 120), fontsize=9)
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
    for k, (label, values) in enumerate(lines.items()):
        y = [float("nan") if value is None else value for value in values]
        mark = "." if len(x) <= MARKED else "none"
        axis.plot(
            x,
            y,
            marker=mark,
            linestyle=STYLES[k % len(STYLES)],
            linewidth=_width(k, len(lines), WIDEST),
            color=f"C{k}",
            label=label,
        )
    by_epoch(axis)


def _named(axis: "Axes", title: str, label: str, columns: int = 1) -> None:
    """Behind all lines, whose names it lists."""
    axis.set_title(title, loc="left")
    axis.set_ylabel(label)
    axis.legend(fontsize=6, ncols=columns)


def _widths(axis: "Axes", result: dict[str, Any], operand: str) -> None:
    """Figure 5: mean width with lambda tuned and not."""
    maps = result["maps"]
    keys = {"tuned": "exact", "smoothed, rounded: in use": "mean", "not tuned": "untuned"}
    epochs = [line["epoch"] for line in maps]
    _lines(axis, epochs, {label: [line[operand][key] for line in maps] for label, key in keys.items()})
    axis.axhline(maps[-1][operand]["alpha"], color="0.3", linewidth=0.8, label="target")
    axis.set_ylim(0, STATIC_BITS)
    _named(axis, f"mean width of {operand}, maps by the epoch that ends with them", "bits", 4)


def _fluctuation(axis: "Axes", result: dict[str, Any], operand: str) -> None:
    """Figure 4: by how much blocks change from map to map."""
    maps = result["maps"]
    keys = {"without smoothing": "change_new", "with smoothing": "change"}
    lines = {label: [line[operand].get(key) for line in maps] for label, key in keys.items()}
    _lines(axis, [line["epoch"] for line in maps], lines)
    axis.set_ylim(bottom=0)
    _named(axis, f"fluctuation: mean change of a block's width, {operand}", "bits")


def _time(axis: "Axes", result: dict[str, Any]) -> None:
    """Of every epoch and stage, over 8 bits."""
    epochs = result["epochs"]
    lines: dict[str, list[float | None]] = {"all": [100 * line["time"] for line in epochs]}
    for name in epochs[0]["stages"]:
        lines[name] = [100 * line["stages"][name] for line in epochs]
    _lines(axis, [line["epoch"] for line in epochs], lines)
    axis.set_ylim(0, 105)
    _named(axis, f"time of an epoch (the first: {START_BITS} bits)", "% of 8 bits", 4)


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
    _named(axis, "loss noise of one width everywhere over the map's, as much time", "factor")


# -- runs side by side -------------------------------------------------------------------------

SHADES = ("#9ecae1", "#4292c6", "#08519c", "#cb181d")  # of the array's stages, and the module


def side_by_side(stream: BinaryIO, file: Path, title: str, result: dict[str, Any]) -> None:
    """Write the picture in the format that the file's name ends in."""
    with picture(stream, file, (11.0, 4.8)) as figure:
        figure.suptitle(wrapped(title, 120), fontsize=9)
        curves, bars = figure.subplots(1, 2, width_ratios=(1.3, 1))
        _convergence(curves, result)
        _energies(bars, result)


def _convergence(axis: "Axes", result: dict[str, Any]) -> None:
    """Figure 7: accuracy after each epoch over the time up to there, a line a run."""
    for k, line in enumerate(result["lines"]):
        mark = MARKS[k % len(MARKS)] if len(line["tested"]) <= MARKED else "none"
        accuracies = [100 * accuracy for accuracy in line["tested"]]
        axis.plot(line["times"], accuracies, marker=mark, markersize=4, label=line["name"], **styled(k))
    if result["wanted_accuracy"] is not None:
        wanted = 100 * result["wanted_accuracy"]
        axis.axhline(wanted, color="0.3", linewidth=0.8, linestyle=":", label=f"{wanted:.2f} %")
    axis.set_xlim(left=0)
    axis.set_title("accuracy over time (figure 7)", loc="left")
    axis.set_xlabel("time, epochs of the array at 8 bits")
    axis.set_ylabel("test accuracy, %")
    axis.grid(alpha=0.3)
    axis.legend(fontsize=7, loc="lower right")


def _energies(axis: "Axes", result: dict[str, Any]) -> None:
    """Figure 8: energy up to the accuracy, or of all epochs where there is none to reach, a bar a run."""
    key = "whole" if result["wanted_accuracy"] is None else "reached"
    lines = result["lines"]
    there = [k for k, line in enumerate(lines) if line[key] is not None]
    below = [0.0] * len(there)
    for part, color in zip(PARTS, SHADES, strict=True):
        own = [lines[k][key]["parts"][part] for k in there]
        label = part if part == "module" else f"array, {part}"
        axis.bar(there, own, 0.6, bottom=below, color=color, label=label)
        below = [a + b for a, b in zip(below, own, strict=True)]
    for k, height in zip(there, below, strict=True):
        axis.text(k, height, f"{height:.2f}", ha="center", va="bottom", fontsize=7)
    axis.set_xticks(range(len(lines)), [wrapped(line["name"], 14) for line in lines], fontsize=7)
    axis.set_xlim(-0.6, len(lines) - 0.4)
    axis.set_ylim(0, max([1.0, *below]) * (1 + LEGEND))
    end = "of all epochs" if key == "whole" else "up to the accuracy; none: not reached"
    axis.set_title(f"energy by part (figure 8), {end}", loc="left")
    axis.set_ylabel("energy, the array's in an epoch at 8 bits")
    axis.grid(alpha=0.3, axis="y")
    axis.legend(fontsize=7, ncols=2)


# -- the map of a layer ------------------------------------------------------------------------

ACROSS = 4  # panels in a row
PANEL, LEAST = 1.7, (5.5, 3.4)  # inches of a panel, and at least of the picture
FEW = 4  # blocks, up to which each has its number


def maps_of(run: Run, name: str) -> tuple[np.ndarray, np.ndarray | None]:
    """The map of a layer's weights and, but for the first layer, of its activations."""
    layer = next(layer for layer in run.model.all_layers() if layer.name == name)
    slots = next(p.slots for p in layer.parameters if p.symbol == "W")
    if "b" not in slots:
        raise ConfigError(f"--map {name}: the saved state holds no map of it")
    return rounded(slots["b"]), rounded(layer.buffers["b"]) if "b" in layer.buffers else None


def layer_map(stream: BinaryIO, file: Path, run: Run, name: str) -> None:
    """The widths of a layer's blocks, as the next step uses them, as an image: `inspect/block_maps.py`."""
    weights, activations = maps_of(run, name)
    kernel = weights.shape[2:] or (1, 1)
    parts = [(of_weights(weights), kernel[1], ("Cin blocks", "Cout blocks"))]
    if activations is not None:
        panels = of_activations(activations)
        labels = ("W", "H") if activations.ndim == 4 else ("Cin blocks", "batch blocks")
        parts.append((panels, min(ACROSS, len(panels)), labels))
    across = [columns for _, columns, _ in parts]
    down = [-(-len(panels) // columns) for panels, columns, _ in parts]
    size = (max(PANEL * sum(across) + 1.2, LEAST[0]), max(PANEL * max(down) + 1.2, LEAST[1]))
    with picture(stream, file, size) as figure:
        figure.suptitle(f"{name}: widths of blocks in step {run.step + 1:,}, {run.method.name}")
        outer = figure.add_gridspec(1, len(parts), width_ratios=across)
        for part, (panels, columns, labels) in enumerate(parts):
            grid = outer[part].subgridspec(down[part], columns)
            for k, (title, values) in enumerate(panels):
                axis = figure.add_subplot(grid[k // columns, k % columns])
                _image(axis, values, title)
                if k == (down[part] - 1) * columns:
                    axis.set_xlabel(labels[0])
                    axis.set_ylabel(labels[1])
        _legend(figure)


def _image(axis: "Axes", values: np.ndarray, title: str) -> None:
    from matplotlib.colors import BoundaryNorm, ListedColormap
    from matplotlib.ticker import FixedLocator, MaxNLocator

    norm = BoundaryNorm([-1, 1, 3, 5, 7, 9], len(WIDTHS))
    axis.imshow(values, ListedColormap(COLORS), norm, interpolation="nearest")
    axis.set_title(title, fontsize=7)
    axis.tick_params(labelsize=6)
    for line, blocks in ((axis.yaxis, values.shape[0]), (axis.xaxis, values.shape[1])):
        line.set_major_locator(MaxNLocator(4, integer=True) if blocks > FEW else FixedLocator(range(blocks)))


def _legend(figure: "Figure") -> None:
    from matplotlib.patches import Patch

    patches = [Patch(facecolor=c, edgecolor="0.6", label=str(b)) for b, c in zip(WIDTHS, COLORS, strict=True)]
    figure.legend(
        handles=patches, title="bits (means: the nearest)", loc="outside lower center", ncols=len(WIDTHS)
    )
