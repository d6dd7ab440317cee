"""`intnet costs --map LAYER --plot`: the widths of a layer's blocks, as the next step uses them, as an image.

Weights: a panel a kernel position, blocks of output channels down, of input channels across. Activations: a
panel a block of channels, the image's positions, each the mean over the blocks of the batch; of a linear
layer one panel, blocks of the batch down, of channels across.
"""

from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from intnet.blocks.block_float import WIDTHS
from intnet.errors import ConfigError
from intnet.methods.dynasty_map import rounded
from intnet.show.pictures import picture
from intnet.training.train import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = ("#efefef", "#f6c667", "#e5734b", "#a2305b", "#2d1447")
MOST, ACROSS = 16, 4  # panels of activations; in a row
PANEL, LEAST = 1.7, (5.5, 3.4)  # inches of a panel, and at least of the picture
FEW = 4  # blocks, up to which each has its number
BLOCK = 4  # channels, or images, of a block


def maps_of(run: Run, name: str) -> tuple[np.ndarray, np.ndarray | None]:
    """The map of a layer's weights and, but for the first layer, of its activations."""
    layer = next(layer for layer in run.model.all_layers() if layer.name == name)
    slots = next(p.slots for p in layer.parameters if p.symbol == "W")
    if "b" not in slots:
        raise ConfigError(f"--map {name}: the saved state holds no map of it")
    return rounded(slots["b"]), rounded(layer.buffers["b"]) if "b" in layer.buffers else None


Panels = list[tuple[str, np.ndarray]]  # title, bits


def draw(stream: BinaryIO, file: Path, run: Run, name: str) -> None:
    """Write the picture in the format that the file's name ends in."""
    weights, activations = maps_of(run, name)
    kernel = weights.shape[2:] or (1, 1)
    parts = [(_of_weights(weights), kernel[1], ("Cin blocks", "Cout blocks"))]
    if activations is not None:
        panels = _of_activations(activations)
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


def _of_weights(weights: np.ndarray) -> Panels:
    """Of (Cout blocks, Cin blocks, kh, kw) or (Cout blocks, Cin blocks)."""
    if weights.ndim == 2:
        return [("weights", weights)]
    rows, columns = weights.shape[2:]
    one = rows * columns == 1
    return [
        ("weights" if one else f"weights at {i},{j}", weights[:, :, i, j])
        for i in range(rows)
        for j in range(columns)
    ]


def _of_activations(activations: np.ndarray) -> Panels:
    """Of (batch blocks, H, W, Cin blocks), the mean over the first; or of (batch blocks, Cin blocks)."""
    if activations.ndim == 2:
        return [("activations", activations)]
    mean = activations.mean(axis=0)
    return [
        (f"activations {BLOCK * k}..{BLOCK * k + BLOCK - 1}", mean[:, :, k])
        for k in range(min(MOST, mean.shape[2]))
    ]


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
