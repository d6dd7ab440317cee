"""The vectors of a weight gradient's tile hold every weight once, where its window reads; shares are even."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intnet.machine.tile import LANES, ROWS
from intnet.ops.kernels.windows import Block, Grid, Windows, block_of, columns_of, forward_windows

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


@pytest.mark.slow
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


def busiest(tiles: int, block: int, threads: int = 4) -> int:
    """Tiles of the busiest of four threads, each of which takes neighbouring blocks of so many tiles."""
    blocks = [min(block, tiles - at) for at in range(0, tiles, block)]
    cuts = [len(blocks) * t // threads for t in range(threads + 1)]
    return max(sum(blocks[a:b]) for a, b in pairwise(cuts))


@given(st.integers(1, 4000), st.integers(1, 3000))
def test_shares_of_a_matrix_are_even(rows: int, terms: int) -> None:
    """Blocks of whole tiles; no thread has much more to do than by the best blocks that memory allows."""
    matrix = Windows(((0, 0),), (0,), Grid(1, 1, 1, 1))
    images = block_of(matrix, rows, terms, 1).images
    tiles, most = -(-rows // ROWS), -(-(1 << 17) // (ROWS * terms))
    assert images % ROWS == 0 and images // ROWS <= most
    best = min(busiest(tiles, block) for block in range(1, min(tiles, most) + 1))
    assert busiest(tiles, images // ROWS) <= best * 33 / 32 + images // ROWS
