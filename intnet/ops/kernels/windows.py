"""Tables that say where windows lie: for the loops of `tiles.py`, made once a shape.

A block of images is laid out in scratch memory with zeros around, so no loop asks whether a pixel
exists. The tables below hold offsets into that layout and into the result.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from intnet.errors import ShapeError
from intnet.machine.tile import LANES, ROWS

I64 = NDArray[np.int64]
Pair = tuple[int, int]
Window = tuple[Pair, Pair, int]  # stride, padding, groups of a convolution

_POSITIONS = 8 * ROWS  # that a block has at least, so that few tiles are cut short
_ELEMENTS = 1 << 17  # of scratch that a block may take for it: it stays in the second-level cache
_UNIT_POSITIONS = 256  # at least, of the images whose products a weight gradient's tile sums at a time
_CACHED = 512  # tables kept: a training step makes the same products every time
_TASKS = 4  # blocks come in multiples of this, so that two or four threads end together


class Block(NamedTuple):
    """Images of one task, and how each lies in scratch memory."""

    images: int
    positions: int  # windows an image
    height: int
    width: int
    top: int  # rows of zeros above the image, columns of zeros left of it
    left: int
    depth: int  # elements a pixel, filled up to whole words
    channels: int  # of these, read from the image


class Grid(NamedTuple):
    """Windows in one image: rows, columns, and the steps from one to the next."""

    rows: int
    cols: int
    step_h: int
    step_w: int


def output_size(size: int, kernel: int, stride: int, padding: int) -> int:
    """Positions of a window along one axis; below 1 where it does not fit. ShapeError for no window."""
    if kernel < 1 or stride < 1 or padding < 0:
        raise ShapeError(f"a window of {kernel}, stride {stride}, padding {padding}: from 1, 1 and 0 upwards")
    return (size + 2 * padding - kernel) // stride + 1


class Windows(NamedTuple):
    """Which pixels windows read, and which pixels of the result they make.

    taps: the offset (row, column) of the pixel that each place of the kernel reads from where a window
    starts; kept: those places, as indices into the kernel; grid: the windows; window (row, col) makes
    pixel first + (row, col) * step of the result
    """

    taps: tuple[Pair, ...]
    kept: tuple[int, ...]
    grid: Grid
    first: Pair = (0, 0)
    step: Pair = (1, 1)

    def from_the_last(self) -> "Windows":
        """The same windows with their taps in the opposite order."""
        return self._replace(taps=self.taps[::-1], kept=self.kept[::-1])


@lru_cache(maxsize=_CACHED)
def forward_windows(size: Pair, kernel: Pair, stride: Pair, padding: Pair) -> Windows:
    """The windows of a convolution over images of `size`, taps by rows, then columns."""
    rows, cols = (output_size(size[a], kernel[a], stride[a], padding[a]) for a in (0, 1))
    taps = tuple((ky - padding[0], kx - padding[1]) for ky, kx in np.ndindex(*kernel))
    return Windows(taps, tuple(range(len(taps))), Grid(rows, cols, *stride))


@lru_cache(maxsize=_CACHED)
def backward_windows(size: Pair, kernel: Pair, stride: Pair, padding: Pair) -> tuple[Windows, ...]:
    """The windows over errors that make the gradient of images of `size`: one set a remainder to the stride.

    The input gradient at pixel y sums, over kernel rows ky, the error of window (y + p - ky)/s where
    that is whole; pixels with one remainder to the stride share the places that are.
    """
    sets = []
    for first in np.ndindex(*(min(stride[a], size[a]) for a in (0, 1))):
        y, x = first[0] + padding[0], first[1] + padding[1]
        places = [
            (at, (y - ky) // stride[0], (x - kx) // stride[1])
            for at, (ky, kx) in enumerate(np.ndindex(*kernel))
            if (y - ky) % stride[0] == 0 == (x - kx) % stride[1]
        ]
        rows, cols = (-(-(size[a] - first[a]) // stride[a]) for a in (0, 1))
        if places:
            taps, kept = tuple((r, c) for _, r, c in places), tuple(at for at, _, _ in places)
            sets.append(Windows(taps, kept, Grid(rows, cols, 1, 1), (first[0], first[1]), stride))
    return tuple(sets)


def block_of(windows: Windows, batch: int, channels: int, per_word: int) -> Block:
    """How many images a task takes, and the layout that holds every pixel its windows read."""
    taps, grid = np.array(windows.taps), windows.grid
    top, left = (max(0, -int(taps[:, axis].min())) for axis in (0, 1))
    height = top + 1 + max(0, (grid.rows - 1) * grid.step_h + int(taps[:, 0].max()))
    width = left + 1 + max(0, (grid.cols - 1) * grid.step_w + int(taps[:, 1].max()))
    depth = -(-channels // per_word) * per_word
    positions, size = grid.rows * grid.cols, height * width * depth
    if positions == 1:  # a matrix: whole tiles
        images = ROWS * _tiles(-(-batch // ROWS), -(-_ELEMENTS // (ROWS * size)))
    else:
        images = max(1, min(-(-_POSITIONS // positions), _ELEMENTS // size))
        if batch > images:
            images = -(-batch // (-(-batch // (images * _TASKS)) * _TASKS))
    return Block(images, positions, height, width, top, left, depth, channels)


def _tiles(tiles: int, most: int) -> int:
    """How many of a matrix's tiles a task takes, at most `most`: as many as leave all threads done together.

    What the busiest of _TASKS shares has is within 1/32 of the least that any number gives it.
    """
    shares = [-(-tiles // (count * _TASKS)) * count for count in range(1, min(tiles, most) + 1)]
    return max(i + 1 for i, share in enumerate(shares) if share * 32 <= min(shares) * 33)


def row_table(block: Block, grid: Grid, per_word: int) -> I64:
    """Word where each window of a block starts; filled up with zeros to whole tiles."""
    image, row, col = np.ogrid[: block.images, : grid.rows, : grid.cols]
    pixel = (image * block.height + row * grid.step_h) * block.width + col * grid.step_w
    table = (pixel * (block.depth // per_word)).ravel()
    return np.concatenate([table, np.zeros(-table.size % ROWS, np.int64)])


def target_table(images: int, grid: Grid, size: Pair, channels: int, first: Pair, step: Pair) -> I64:
    """Element of the result where each window goes: pixel first + (row, col) * step of an image of `size`."""
    image, row, col = np.ogrid[:images, : grid.rows, : grid.cols]
    pixel = (image * size[0] + first[0] + row * step[0]) * size[1] + first[1] + col * step[1]
    return np.ascontiguousarray(pixel * channels).ravel()


def run_table(block: Block, windows: Windows, per_word: int, limits: Sequence[int]) -> tuple[I64, I64]:
    """(runs, ends): the words of all taps as runs (offset, length, place), and the runs a chunk ends with.

    In order; taps that lie side by side in scratch are joined. limits: the numbers of words, counted over
    the taps here, at which chunks end; ascending, the last is all of them.
    """
    words = block.depth // per_word
    runs: list[list[int]] = []
    ends: list[int] = []
    done, borders = 0, iter(limits)
    border = next(borders)
    for row, col in windows.taps:
        at, left = ((row + block.top) * block.width + col + block.left) * words, words
        while left:
            length = min(left, border - done)
            if runs and len(runs) > (ends[-1] if ends else 0) and sum(runs[-1][:2]) == at:
                runs[-1][1] += length
            else:
                runs.append([at, length, done])
            at, left, done = at + length, left - length, done + length
            if done == border:
                ends.append(len(runs))
                border = next(borders, done + left)
    return np.array(runs, np.int64).ravel(), np.array(ends, np.int64)


class Tables(NamedTuple):
    """What `tiles.correlate` reads of windows; nobody writes into it."""

    block: Block
    rows: I64
    targets: I64
    runs: I64
    ends: I64
    kept: I64


@lru_cache(maxsize=_CACHED)
def tables(
    windows: Windows,
    batch: int,
    depth: int,
    per_word: int,
    result: tuple[int, int, int],
    limits: tuple[int, ...],
) -> Tables:
    """The tables of one product. depth: channels read; result: (height, width, channels) of an image.

    limits: words, counted over all taps, at which chunks of a sum end
    """
    block, grid = block_of(windows, batch, depth, per_word), windows.grid
    targets = target_table(block.images, grid, result[:2], result[2], windows.first, windows.step)
    runs, ends = run_table(block, windows, per_word, limits)
    return Tables(block, row_table(block, grid, per_word), targets, runs, ends, np.array(windows.kept))


@lru_cache(maxsize=_CACHED)
def even_limits(words: int, chunk: int) -> tuple[int, ...]:
    """Chunks of `chunk` words, and what is left."""
    return (*range(chunk, words, chunk), words)


# --- for sums over positions --------------------------------------------------------------------


def piece_table(block: Block, grid: Grid, longest: int) -> I64:
    """The positions of a block as runs (offset, length, place): rows, cut at `longest` positions."""
    starts = np.arange(0, grid.cols, longest)
    image, row, col = np.ogrid[: block.images, : grid.rows, : starts.size]
    pixel = (image * block.height + row * grid.step_h) * block.width + starts[col] * grid.step_w
    lengths = np.broadcast_to(np.minimum(longest, grid.cols - starts), pixel.shape)
    places = np.cumsum(lengths).reshape(lengths.shape) - lengths
    return np.stack([pixel * block.channels, lengths, places], axis=-1).ravel()


class Columns(NamedTuple):
    """The vectors of `tile.multiply_columns` that hold every (tap, channel) of a window.

    starts: their first words, from where a window starts; whole tiles, the last vector again
    source: where the sum of channel c and tap t is among their lanes, [c, t] flat
    """

    starts: I64
    source: I64


@lru_cache(maxsize=_CACHED)
def columns_of(block: Block, windows: Windows, vectors: int) -> Columns:
    """Tables for tiles of so many vectors.

    Taps side by side are one line of words. Where a pixel is whole vectors, those of one part of it come one
    after another: a tile then reads few lines of memory.
    """
    taps, depth = np.array(windows.taps), block.channels
    pixel = (taps[:, 0] + block.top) * block.width + taps[:, 1] + block.left
    breaks = [*np.flatnonzero(np.diff(pixel) != 1) + 1, len(taps)]
    starts: list[int] = []
    first = 0
    for end in breaks:
        line = range(int(pixel[first]) * depth, int(pixel[end - 1] + 1) * depth, LANES)
        starts += sorted(line, key=lambda word: word % depth) if depth % LANES == 0 else line
        first = end
    order, words = np.argsort(starts), (pixel[:, None] * depth + np.arange(depth)).T.ravel()
    vector = order[np.searchsorted(np.sort(starts), words, "right") - 1]
    source = vector * LANES + words - np.array(starts)[vector]
    starts += starts[-1:] * (-len(starts) % vectors)
    return Columns(np.array(starts, np.int64), source)


@lru_cache(maxsize=_CACHED)
def unit_tables(windows: Windows, images: int, depth: int, longest: int) -> tuple[Block, I64]:
    """(block of at most `images` words-images, pieces of at most `longest` positions)."""
    block = block_of(windows, 1, depth, 1)
    block = block._replace(images=max(1, min(images, _UNIT_POSITIONS // block.positions)))
    return block, piece_table(block, windows.grid, longest)
