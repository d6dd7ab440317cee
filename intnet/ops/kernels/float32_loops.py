"""The loops of the float32 products: gather, multiply tile by tile, add chunk sums in order.

`float32.py` states the order of every sum and prepares the operands; nothing is checked here.
All arrays are flat unless a shape is given. A *tap* is one kernel position as the offset
(rows, columns) of the source pixel from the pixel where a window starts; a *position* is one
window, counted over (image, row, column). A *run* is a row (row offset, column offset, first tap,
number of taps): consecutive taps whose terms are consecutive in the source. Read next: `float32_tile.py`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from intnet._jit import njit, pjit, prange
from intnet.ops.kernels.float32_tile import LANES, ROWS, copy_run, fma_run, fma_tile

F32 = NDArray[np.float32]
I64 = NDArray[np.int64]

CHUNK = 1024
TILE = ROWS * LANES
ZERO = np.float32(0.0)
# Positions gathered at a time: few enough that the gathered rows stay in the first-level cache.
_GATHER_ROWS = 4 * ROWS
_GATHER_TERMS = 64


class Windows(NamedTuple):
    """Where windows read: the source's size and the grid of window positions in one image."""

    height: int
    width: int
    channels: int
    step_h: int
    step_w: int
    rows: int
    cols: int


class Target(NamedTuple):
    """Where results go: position (p, q) is pixel (first_h + p step_h, first_w + q step_w)."""

    height: int
    width: int
    channels: int
    first_h: int
    first_w: int
    step_h: int
    step_w: int


@njit
def _locate(m: int, win: Windows) -> tuple[int, int, int]:
    """(image, row, column) of position m."""
    line = m // win.cols
    return line // win.rows, line % win.rows, m % win.cols


@njit
def _next(image: int, p: int, q: int, win: Windows) -> tuple[int, int, int]:
    """The position after (image, p, q), without a division."""
    q += 1
    if q == win.cols:
        q = 0
        p += 1
        if p == win.rows:
            p = 0
            image += 1
    return image, p, q


@njit
def _gather_terms(
    out: F32, at: int, source: F32, win: Windows, h: int, w: int, src: int, depth: int, low: int, high: int
) -> None:
    """Terms low .. high of one run whose pixels start at (h, w), source index `src`; zero outside."""
    size = high - low
    inside = 0 <= h < win.height
    if inside and w >= 0 and w + (high + depth - 1) // depth <= win.width:
        copy_run(out, at, source, src + low, size)
        return
    for k in range(low, high):
        pixel = w + k // depth
        out[at + k - low] = source[src + k] if inside and 0 <= pixel < win.width else ZERO


@njit
def _gather(
    out: F32,
    source: F32,
    win: Windows,
    runs: I64,
    depth: int,
    base: int,
    m0: int,
    rows: int,
    k0: int,
    k1: int,
) -> None:
    """out[r * (k1 - k0) + k - k0] = source value of term k at position m0 + r, zero outside.

    Term k is channel base + k % depth of tap k // depth.
    """
    image, p, q = _locate(m0, win)
    at = 0
    for _ in range(rows):
        for run in range(runs.shape[0]):
            first = runs[run, 2] * depth
            low = max(k0 - first, 0)
            high = min(k1 - first, runs[run, 3] * depth)
            if low < high:
                h = p * win.step_h + runs[run, 0]
                w = q * win.step_w + runs[run, 1]
                src = ((image * win.height + h) * win.width + w) * win.channels + base
                _gather_terms(out, at, source, win, h, w, src, depth, low, high)
                at += high - low
        image, p, q = _next(image, p, q, win)


@njit
def _store(
    out: F32, sums: F32, at: int, to: Target, win: Windows, m0: int, count: int, c0: int, size: int
) -> None:
    """Write `count` rows of a tile, `size` lanes each, to their pixels; -0 becomes +0."""
    image, p, q = _locate(m0, win)
    for i in range(at, at + count * LANES):
        sums[i] += ZERO
    for r in range(count):
        row = image * to.height + to.first_h + p * to.step_h
        dst = (row * to.width + to.first_w + q * to.step_w) * to.channels + c0
        copy_run(out, dst, sums, at + r * LANES, size)
        image, p, q = _next(image, p, q, win)


@pjit
def gather_product(
    out: F32,
    source: F32,
    weights: F32,
    win: Windows,
    runs: I64,
    terms: int,
    ends: I64,
    to: Target,
    groups: int,
    positions: int,
    tasks: int,
    splits: int,
) -> None:
    """out[m, o] = sum over k of gathered[m, k] * weights[k, o], per group.

    weights: [groups, panels, k, LANES], zero-padded in the last panel; ends: the k at which
    each chunk ends. The work is tasks (shares of the positions) x splits (shares of the panels).
    """
    depth = win.channels // groups
    width = to.channels // groups
    panels = (width + LANES - 1) // LANES
    share = (positions + tasks - 1) // tasks
    share = (share + ROWS - 1) // ROWS * ROWS
    for task in prange(tasks * splits):
        first_panel = panels * (task % splits) // splits
        last_panel = panels * (task % splits + 1) // splits
        begin = task // splits * share
        end = min(begin + share, positions)
        rows = np.zeros(_GATHER_ROWS * min(terms, CHUNK), np.float32)
        part = np.empty(TILE, np.float32)
        sums = np.empty((last_panel - first_panel) * _GATHER_ROWS * LANES, np.float32)
        for m0 in range(begin, end, _GATHER_ROWS):
            count = min(end - m0, _GATHER_ROWS)
            for group in range(groups):
                sums[:] = ZERO
                k0 = 0
                for chunk in range(ends.size):
                    k1 = ends[chunk]
                    _gather(rows, source, win, runs, depth, group * depth, m0, count, k0, k1)
                    for panel in range(first_panel, last_panel):
                        w_at = ((group * panels + panel) * terms + k0) * LANES
                        for r in range(0, count, ROWS):
                            at = ((panel - first_panel) * _GATHER_ROWS + r) * LANES
                            if chunk == 0:
                                fma_tile(sums, at, rows, r * (k1 - k0), k1 - k0, 1, weights, w_at, k1 - k0)
                            else:
                                part[:] = ZERO
                                fma_tile(part, 0, rows, r * (k1 - k0), k1 - k0, 1, weights, w_at, k1 - k0)
                                for i in range(TILE):
                                    sums[at + i] += part[i]
                    k0 = k1
                for panel in range(first_panel, last_panel):
                    size = min(width - panel * LANES, LANES)
                    for r in range(0, count, ROWS):
                        at = ((panel - first_panel) * _GATHER_ROWS + r) * LANES
                        c0 = group * width + panel * LANES
                        _store(out, sums, at, to, win, m0 + r, min(count - r, ROWS), c0, size)


@njit
def _pack_errors(out: F32, errors: F32, channels: int, base: int, width: int, m0: int, count: int) -> None:
    """Columns base .. base + width of `count` rows as panels [panel, _GATHER_TERMS, LANES]."""
    for panel in range((width + LANES - 1) // LANES):
        size = min(width - panel * LANES, LANES)
        for r in range(count):
            dst = (panel * _GATHER_TERMS + r) * LANES
            src = (m0 + r) * channels + base + panel * LANES
            copy_run(out, dst, errors, src, size)


@pjit
def weight_gradient_chunks(
    out: F32,
    errors: F32,
    source: F32,
    win: Windows,
    runs: I64,
    terms: int,
    channels: int,
    groups: int,
    positions: int,
    first_chunk: int,
    chunks: int,
    splits: int,
) -> None:
    """Chunk sums of gathered[m, k] * errors[m, o] over the positions m, for `chunks` chunks.

    out: [chunks, groups, tile of k, panel of o, ROWS, LANES], zero-filled by the caller; the rows
    and lanes that pad the last tile hold values without meaning. splits: shares of the k tiles.
    """
    depth = win.channels // groups
    width = channels // groups
    panels = (width + LANES - 1) // LANES
    tiles = (terms + ROWS - 1) // ROWS
    for task in prange(chunks * splits):
        chunk = task // splits
        first_tile = tiles * (task % splits) // splits
        last_tile = tiles * (task % splits + 1) // splits
        k0 = first_tile * ROWS
        k1 = min(last_tile * ROWS, terms)
        rows = np.zeros(_GATHER_TERMS * (k1 - k0) + ROWS, np.float32)
        lanes = np.zeros(panels * _GATHER_TERMS * LANES, np.float32)
        begin = (first_chunk + chunk) * CHUNK
        end = min(begin + CHUNK, positions)
        for m0 in range(begin, end, _GATHER_TERMS):
            count = min(end - m0, _GATHER_TERMS)
            for group in range(groups):
                _gather(rows, source, win, runs, depth, group * depth, m0, count, k0, k1)
                _pack_errors(lanes, errors, channels, group * width, width, m0, count)
                for tile in range(first_tile, last_tile):
                    for panel in range(panels):
                        at = (((chunk * groups + group) * tiles + tile) * panels + panel) * TILE
                        k = (tile - first_tile) * ROWS
                        fma_tile(out, at, rows, k, 1, k1 - k0, lanes, panel * _GATHER_TERMS * LANES, count)


@pjit
def depthwise_product(
    out: F32, source: F32, weights: F32, win: Windows, taps: I64, ends: I64, to: Target, positions: int
) -> None:
    """out[m, c] = sum over taps t of source[pixel of t, c] * weights[t, c]: one channel a group."""
    channels = win.channels
    lines = positions // win.cols
    for line in prange(lines):
        p = line % win.rows
        image = line // win.rows
        part = np.empty(channels, np.float32)
        total = np.empty(channels, np.float32)
        for q in range(win.cols):
            t0 = 0
            total[:] = ZERO
            for chunk in range(ends.size):
                part[:] = ZERO
                for t in range(t0, ends[chunk]):
                    h = p * win.step_h + taps[t, 0]
                    w = q * win.step_w + taps[t, 1]
                    if 0 <= h < win.height and 0 <= w < win.width:
                        src = ((image * win.height + h) * win.width + w) * channels
                        fma_run(part, 0, source, src, weights, t * channels, channels)
                for c in range(channels):
                    total[c] += part[c]
                t0 = ends[chunk]
            row = image * to.height + to.first_h + p * to.step_h
            dst = (row * to.width + to.first_w + q * to.step_w) * channels
            for c in range(channels):
                out[dst + c] = total[c] + ZERO


@pjit
def depthwise_weight_gradient_chunks(
    out: F32, errors: F32, source: F32, win: Windows, taps: I64, positions: int, first_chunk: int, chunks: int
) -> None:
    """Chunk sums [chunks, taps, channels] of source * error over the positions; zero-filled `out`."""
    channels = win.channels
    for chunk in prange(chunks):
        begin = (first_chunk + chunk) * CHUNK
        for m in range(begin, min(begin + CHUNK, positions)):
            image, p, q = _locate(m, win)
            for t in range(taps.shape[0]):
                h = p * win.step_h + taps[t, 0]
                w = q * win.step_w + taps[t, 1]
                if 0 <= h < win.height and 0 <= w < win.width:
                    src = ((image * win.height + h) * win.width + w) * channels
                    dst = (chunk * taps.shape[0] + t) * channels
                    fma_run(out, dst, source, src, errors, m * channels, channels)


@pjit
def add_chunks(total: F32, parts: F32, chunks: int) -> None:
    """total[i] += parts[chunk, i], chunk ascending."""
    size = total.size
    block = 4096
    for b in prange((size + block - 1) // block):
        for chunk in range(chunks):
            for i in range(b * block, min((b + 1) * block, size)):
                total[i] += parts[chunk * size + i]


@pjit
def sum_chunks(out: F32, x: F32, rows: int, columns: int) -> None:
    """Chunk sums [chunks, columns] of x[rows, columns]; zero-filled `out`."""
    for chunk in prange((rows + CHUNK - 1) // CHUNK):
        for m in range(chunk * CHUNK, min((chunk + 1) * CHUNK, rows)):
            for c in range(columns):
                out[chunk * columns + c] += x[m * columns + c]


@pjit
def dot_chunks(out: F32, x: F32, y: F32, rows: int, columns: int) -> None:
    """Chunk sums [chunks, columns] of x * y; zero-filled `out`."""
    for chunk in prange((rows + CHUNK - 1) // CHUNK):
        for m in range(chunk * CHUNK, min((chunk + 1) * CHUNK, rows)):
            fma_run(out, chunk * columns, x, m * columns, y, m * columns, columns)
