"""DYNASTY's map of widths as panels of blocks: which got how many bits.

    bits_of(event) -> b of each block; panels(bits) -> [(title, b of its blocks, down and across)]

Weights: a panel a kernel position, blocks of output channels down, of input channels across. Activations: a
panel a block of channels, the image's positions, each the mean over the blocks of the batch; of a linear
layer one panel, blocks of the batch down, of channels across.
"""

import numpy as np

from intnet.exact.blocks.block_float import WIDTHS, blocks_of
from intnet.exact.blocks.block_loops import SIDE
from intnet.methods.trace import Event
from intnet.numbers.formats import BlockFloat

MOST = 16  # panels of activations
COLORS = ("#efefef", "#f6c667", "#e5734b", "#a2305b", "#2d1447")  # of 0, 2, 4, 6, 8 bits

Panels = list[tuple[str, np.ndarray]]  # title, bits


def bits_of(event: Event) -> np.ndarray:
    """uint8 a block of a block float event."""
    assert isinstance(event.format, BlockFloat)
    return blocks_of(event.result, event.source).bits


def counts(bits: np.ndarray) -> dict[int, int]:
    """Blocks of each width."""
    return {width: int(np.count_nonzero(bits == width)) for width in WIDTHS}


def of_weights(weights: np.ndarray) -> Panels:
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


def of_activations(activations: np.ndarray) -> Panels:
    """Of (batch blocks, H, W, Cin blocks), the mean over the first; or of (batch blocks, Cin blocks)."""
    if activations.ndim == 2:
        return [("activations", activations)]
    mean = activations.mean(axis=0)
    return [
        (f"activations {SIDE * k}..{SIDE * k + SIDE - 1}", mean[:, :, k])
        for k in range(min(MOST, mean.shape[2]))
    ]
