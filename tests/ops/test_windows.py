"""The vectors of a weight gradient's tile hold every weight once, at the word that its window reads."""

import pytest

from intnet.machine.tile import LANES
from intnet.ops.kernels.windows import Block, block_of, columns_of, forward_windows

SHAPES = [
    (depth, kernel, vectors)
    for depth in (1, 3, 8, LANES, LANES + 1, 2 * LANES, 3 * LANES)
    for kernel in ((1, 1), (3, 3), (2, 5), (5, 1))
    for vectors in (1, 3)
]


def read(block: Block, tap: tuple[int, int], padding: tuple[int, int], channel: int) -> int:
    """The word of a channel of a tap's pixel, from where a window starts in the padded image."""
    row, column = (place - pad + edge for place, pad, edge in zip(tap, padding, block[4:6], strict=True))
    return (row * block.width + column) * block.channels + channel


@pytest.mark.parametrize(("depth", "kernel", "vectors"), SHAPES)
@pytest.mark.parametrize("padding", [(0, 0), (1, 2)])
def test_every_weight_has_a_lane(
    depth: int, kernel: tuple[int, int], vectors: int, padding: tuple[int, int]
) -> None:
    windows = forward_windows((6, 7), kernel, (1, 1), padding)
    block = block_of(windows, 1, depth, 1)
    columns = columns_of(block, windows, vectors)
    assert columns.starts.size % vectors == 0
    taps = [(row, column) for row in range(kernel[0]) for column in range(kernel[1])]
    want = [read(block, tap, padding, channel) for channel in range(depth) for tap in taps]
    assert [int(columns.starts[lane // LANES]) + lane % LANES for lane in columns.source.tolist()] == want


def test_taps_of_one_part_of_a_pixel_come_one_after_another() -> None:
    """A tile of three vectors then reads few lines of memory: one pixel's part is the next window's too."""
    windows = forward_windows((6, 7), (3, 3), (1, 1), (1, 1))
    columns = columns_of(block_of(windows, 1, 2 * LANES, 1), windows, 3)
    pixels = [int(start) // (2 * LANES) for start in columns.starts[:6]]
    parts = [int(start) % (2 * LANES) // LANES for start in columns.starts[:6]]
    assert pixels == [0, 1, 2] * 2 and parts == [0] * 3 + [1] * 3
