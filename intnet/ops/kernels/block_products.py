"""Loops of block-float products in float64 that leave out blocks of zeros; `ops/blocks.py` proves them exact.

    out[n, position, o] = sum over taps and channels of x[n, pixel, c] * w[o, tap, c]      correlate_blocks
    out[o, (tap, c)]    = sum over images and positions of e[n, position, o] * x[n, pixel, c]      block_sums

As in `tiles.py` and `position_sums.py`, whose terms these are, but laid out so that a tile meets few
blocks: its rows are the same pixel of GROUP images (three blocks of the batch), or channels of a tap.
Before each tile its runs are listed: those of words where some block of its rows and some block of its
columns is not all 0. Padding counts as 0. Operands are float32 and become float64 as they are laid out.
"""

import numba
import numpy as np

from intnet.blocks.block_loops import SIDE
from intnet.machine.jit import njit, pjit, prange
from intnet.machine.tile import LANES, ROWS, multiply_rows
from intnet.ops.kernels.tiles import DOUBLES, Flat, copy_run, lay_out, pack_panels
from intnet.ops.kernels.windows import Block, Grid, Windows, block_of, channel_table

GROUP = 12  # images whose same pixels are the rows of a tile (or of two)
_SCRATCH = 1 << 17  # float64 that a task lays out at a time: half of a second-level cache
_SHARES, _PART_WORDS = 4, 1 << 21  # of a batch, each with its own sums, and words of all these sums
_DEAD, _MIXED, _LIVE = 0, 1, 2  # what the blocks of a pixel are


@njit
def _append(runs: Flat, count: int, offset: int, length: int, place: int) -> int:
    """One run more, joined to the last one where both go on; the number of runs."""
    last = 3 * count - 3
    if count and runs[last] + runs[last + 1] == offset and runs[last + 2] + runs[last + 1] == place:
        runs[last + 1] += length
        return count
    runs[last + 3], runs[last + 4], runs[last + 5] = offset, length, place
    return count + 1


@njit
def _mark(marks: np.ndarray, live: np.ndarray, b0: int, b1: int, y0: int, y1: int, block: Block) -> None:
    """marks[row, column, channel block] = 1 where one of batch blocks b0 .. b1-1 is live; 0 in padding."""
    marks[:] = 0
    height, columns = live.shape[1], min(live.shape[2], block.width - block.left)
    for y in range(max(y0, block.top), min(y1, block.top + height)):
        for x in range(columns):
            mark = marks[y - y0, x + block.left]
            for b in range(b0, b1):
                source = live[b, y - block.top, x]
                for k in range(source.size):
                    mark[k] |= source[k]


@njit
def _states(marks: np.ndarray, states: np.ndarray) -> None:
    """What the blocks of each pixel are; marks [pixel, block]."""
    for p in range(marks.shape[0]):
        count = 0
        for k in range(marks.shape[1]):
            count += marks[p, k]
        states[p] = _DEAD if count == 0 else (_LIVE if count == marks.shape[1] else _MIXED)


@njit
def _window_runs(
    runs: Flat, pixel: int, offsets: Flat, marks: np.ndarray, states: Flat, panel: np.ndarray,
    panel_states: Flat, depth: int,
) -> int:  # fmt: skip
    """The live words of the window at `pixel`, as runs; how many."""
    count = 0
    for tap in range(offsets.size):
        here = pixel + offsets[tap]
        if states[here] == _DEAD or panel_states[tap] == _DEAD:
            continue
        start, place = offsets[tap] * depth, tap * depth
        if states[here] == _LIVE and panel_states[tap] == _LIVE:
            count = _append(runs, count, start, depth, place)
        else:
            for k in range(marks.shape[1]):
                if marks[here, k] and panel[tap, k]:
                    c = k * SIDE
                    count = _append(runs, count, start + c, min(SIDE, depth - c), place + c)
    return count


@pjit
def _correlate(
    team: int, out: np.ndarray, x: np.ndarray, live: np.ndarray, panels: Flat, panel_marks: np.ndarray,
    panel_states: np.ndarray, offsets: Flat, block: Block, grid: Grid, span: int, band: int, first_y: int,
    first_x: int, step_y: int, step_x: int, word: Flat,
) -> None:  # fmt: skip
    """`correlate_blocks`; a task is GROUP images and `band` rows of windows."""
    batch, depth, width = x.shape[0], block.depth, out.shape[3]
    bands, size = (grid.rows + band - 1) // band, offsets.size * depth
    for task in prange(team, (batch + GROUP - 1) // GROUP * bands):
        n0, y0 = task // bands * GROUP, task % bands * band
        n1, y1 = min(n0 + GROUP, batch), min(y0 + band, grid.rows)
        top, height = y0 * grid.step_h, (y1 - 1 - y0) * grid.step_h + span
        area = height * block.width
        words, runs = np.zeros(GROUP * area * depth, word.dtype), np.empty(3 * size, np.int64)
        rows, sums = np.zeros(GROUP, np.int64), np.empty(ROWS * LANES, word.dtype)
        ends, alone = np.empty(1, np.int64), np.zeros(1, np.int64)
        for n in range(n0, n1):
            rows[n - n0] = (n - n0) * area * depth
            lay_out(words, rows[n - n0], x, n, 0, top, top + height, block)
        marks = np.empty((height, block.width, live.shape[3]), np.uint8)
        _mark(marks, live, n0 // SIDE, (n1 + SIDE - 1) // SIDE, top, top + height, block)
        flat, states = marks.reshape(area, live.shape[3]), np.empty(area, np.uint8)
        _states(flat, states)
        for panel in range(panel_marks.shape[0]):
            o0, o1 = panel * LANES, min(panel * LANES + LANES, width)
            for q in range((y1 - y0) * grid.cols):
                row, col = q // grid.cols, q % grid.cols
                pixel = row * grid.step_h * block.width + col * grid.step_w
                count = _window_runs(
                    runs, pixel, offsets, flat, states, panel_marks[panel], panel_states[panel], depth
                )
                to_y, to_x = first_y + (y0 + row) * step_y, first_x + col * step_x
                for r0 in range(0, n1 - n0, ROWS):
                    if count:
                        ends[0] = count
                        multiply_rows(
                            1, sums, 0, LANES, words, rows, r0, pixel * depth, 1, runs, 0, 1, panels,
                            panel * size * LANES, ends, alone, sums,
                        )  # fmt: skip
                    else:
                        sums[:] = 0
                    for r in range(min(ROWS, n1 - n0 - r0)):
                        line = out[n0 + r0 + r, to_y, to_x, o0:o1]
                        for j in range(line.size):
                            line[j] = sums[r * LANES + j]


def _panel_marks(live: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(marks [panel, tap, k], states [panel, tap]) of live [column block, tap, k]."""
    each = LANES // SIDE
    gaps = [(0, -live.shape[0] % each), (0, 0), (0, 0)]
    marks = np.pad(live, gaps).reshape(-1, each, *live.shape[1:]).max(axis=1)
    states = np.where(marks.all(axis=2), _LIVE, np.where(marks.any(axis=2), _MIXED, _DEAD))
    return np.ascontiguousarray(marks), states.astype(np.uint8)


def correlate_blocks(
    out: np.ndarray, x: np.ndarray, live: np.ndarray, w: np.ndarray, live_w: np.ndarray, windows: Windows
) -> None:
    """The pixels of out[N, H, W, O] that `windows` of x[N, .., .., C] make with w[O, tap, C].

    out: float32 or float64; live: uint8 of the blocks of x, [N/4, .., .., C/4]; live_w: of w, [O/4, tap,
    C/4]; all rounded up.

    Defined by `spec/convolution.py: conv2d`, `spec/convolution.py: conv2d_input_grad`,
    `spec/block_float.py: exact`.
    """
    taps, kept, grid = np.array(windows.taps), np.array(windows.kept), windows.grid
    block = block_of(windows, 1, x.shape[3], 1)
    offsets = (taps[:, 0] + block.top) * block.width + taps[:, 1] + block.left
    span = int(taps[:, 0].max()) + block.top + 1
    lines = _SCRATCH // (GROUP * block.width * block.depth)
    band = max(1, min(grid.rows, (lines - span) // grid.step_h + 1))
    panels = pack_panels(w[None], kept, DOUBLES, LANES)
    marks, states = _panel_marks(live_w[:, kept])
    _correlate(
        out, np.ascontiguousarray(x), live, panels, marks, states, offsets, block, grid, span, band,
        *windows.first, *windows.step, DOUBLES.element,
    )  # fmt: skip


# --- sums over positions ------------------------------------------------------------------------


@njit
def _unit_runs(
    runs: Flat, images: int, area: int, block: Block, grid: Grid, step: int, alive: Flat, errors: Flat
) -> int:
    """Runs (offset, length, place) of the positions of `images` images where both are not 0; how many."""
    count = 0
    for y in range(grid.rows):
        line, last = y * grid.step_h * block.width * block.channels, -2
        for x in range(grid.cols):
            place = y * grid.cols + x
            if alive[place] and errors[place]:
                if last == x - 1:
                    runs[3 * count - 2] += 1
                else:
                    runs[3 * count], runs[3 * count + 1], runs[3 * count + 2] = line + x * step, 1, place
                    count += 1
                last = x
    for image in range(1, images):
        for run in range(count):
            to = 3 * (image * count + run)
            runs[to] = runs[3 * run] + image * area
            runs[to + 1] = runs[3 * run + 1]
            runs[to + 2] = runs[3 * run + 2] + image * block.positions
    return count * images


@njit
def _tile_lives(
    alive: Flat, row0: int, rows: int, offsets: Flat, marks: np.ndarray, whole: Flat, block: Block, grid: Grid
) -> None:
    """alive[position] = 1 where one of the (tap, channel block) of a tile's rows is live."""
    alive[:] = 0
    before = -1
    for row in range(row0, min(row0 + ROWS, rows)):
        tap, k = row // block.channels, row % block.channels // SIDE
        if whole[k]:  # beyond padding, which costs less than to leave it out
            alive[:] = 1
            return
        if before == row // SIDE and block.channels % SIDE == 0:
            continue
        before = row // SIDE
        for y in range(grid.rows):
            pixel = offsets[tap] + y * grid.step_h * block.width
            line = alive[y * grid.cols : y * grid.cols + grid.cols]
            for x in range(grid.cols):
                line[x] |= marks[pixel + x * grid.step_w, k]


@njit
def _error_marks(marks: np.ndarray, live: np.ndarray, lanes: int) -> None:
    """marks[page, position] = 1 where an output block of the page is live; live [row, column, block]."""
    marks[:] = 0
    for position in range(marks.shape[1]):
        source = live[position // live.shape[1], position % live.shape[1]]
        for k in range(source.size):
            marks[k * SIDE // lanes, position] |= source[k]


@njit
def _add_tile(part: Flat, row0: int, rows: int, width: int, first: int, sums: Flat) -> None:
    """part[row0 + r, first + j] += sums[r, j]."""
    columns = min(LANES, width - first)
    for r in range(rows):
        to = (row0 + r) * width + first
        target, extra = part[to : to + columns], sums[r * LANES : r * LANES + columns]
        for j in range(columns):
            target[j] += extra[j]


@njit
def _lay_out_errors(panels: Flat, at: int, page: int, errors: Flat, positions: int, width: int) -> None:
    """Errors [position, o] as words [page of outputs][position, lane]; a page takes `page` words."""
    for first in range(0, width, LANES):
        kept = min(LANES, width - first)
        for m in range(positions):
            copy_run(panels, at + m * LANES, errors, m * width + first, kept)
        at += page


@pjit
def _block_sums(
    team: int, parts: Flat, e: np.ndarray, x: np.ndarray, live_e: np.ndarray, live_x: np.ndarray, rows: Flat,
    offsets: Flat, step: int, block: Block, grid: Grid, height: int, shares: int, splits: int, word: Flat,
) -> None:  # fmt: skip
    """parts[share, (tap, c), o]; a unit is one block of the batch, `rows` are the words of (tap, c)."""
    depth, width, units = block.channels, e.shape[3], live_x.shape[0]
    size, area = offsets.size * depth, height * block.width * depth
    tiles, pages = (size + ROWS - 1) // ROWS, (width + LANES - 1) // LANES
    page = SIDE * block.positions * LANES
    for task in prange(team, shares * splits):
        share, slice_ = task // splits, task % splits
        tile0, tile1 = tiles * slice_ // splits, tiles * (slice_ + 1) // splits
        words, panels = np.zeros(SIDE * area, word.dtype), np.zeros(pages * page, word.dtype)
        marks = np.empty((height, block.width, live_x.shape[3]), np.uint8)
        flat, whole = marks.reshape(-1, live_x.shape[3]), np.zeros(live_x.shape[3], np.bool_)
        errors = np.empty((pages, block.positions), np.uint8)
        runs, sums = np.empty(3 * SIDE * block.positions, np.int64), np.empty(ROWS * LANES, word.dtype)
        alive, every = np.empty(block.positions, np.uint8), np.ones(block.positions, np.uint8)
        ends, alone = np.empty(1, np.int64), np.zeros(1, np.int64)
        part = parts[share * size * width : (share + 1) * size * width]
        part[tile0 * ROWS * width : min(tile1 * ROWS, size) * width] = 0
        for unit in range(units * share // shares, units * (share + 1) // shares):
            n0, n1 = unit * SIDE, min(unit * SIDE + SIDE, x.shape[0])
            for n in range(n0, n1):
                lay_out(words, (n - n0) * area, x, n, 0, 0, height, block)
                at = (n - n0) * block.positions * LANES
                _lay_out_errors(panels, at, page, e[n].reshape(-1), block.positions, width)
            _mark(marks, live_x, unit, unit + 1, 0, height, block)
            for k in range(whole.size):
                whole[k] = live_x[unit, :, :, k].all()
            _error_marks(errors, live_e[unit], LANES)
            for tile in range(tile0, tile1):
                row0, count = tile * ROWS, -1
                _tile_lives(alive, row0, size, offsets, flat, whole, block, grid)
                for at in range(pages):
                    if errors[at].all():
                        if count < 0:
                            count = _unit_runs(runs, n1 - n0, area, block, grid, step, alive, every)
                        now = count
                    else:
                        now, count = _unit_runs(runs, n1 - n0, area, block, grid, step, alive, errors[at]), -1
                    if now:
                        ends[0] = now
                        multiply_rows(
                            1, sums, 0, LANES, words, rows, row0, 0, step, runs, 0, 1, panels, at * page,
                            ends, alone, sums,
                        )  # fmt: skip
                        _add_tile(part, row0, min(ROWS, size - row0), width, at * LANES, sums)


def block_sums(
    e: np.ndarray, x: np.ndarray, live_e: np.ndarray, live_x: np.ndarray, windows: Windows
) -> np.ndarray:
    """float64 [O, C, tap] of errors e[N, .., .., O] and x[N, .., .., C]; live: as in `correlate_blocks`.

    Defined by `spec/convolution.py: conv2d_weight_grad`, `spec/block_float.py: exact`.
    """
    width, depth = e.shape[3], x.shape[3]
    block = block_of(windows, 1, depth, 1)
    taps, units = np.array(windows.taps), live_x.shape[0]
    offsets = (taps[:, 0] + block.top) * block.width + taps[:, 1] + block.left
    size = len(taps) * depth
    shares = max(1, min(units, _SHARES, _PART_WORDS // (size * width)))
    splits = min(-(-size // ROWS), -(-2 * numba.get_num_threads() // shares))
    parts = np.empty(shares * size * width)
    _block_sums(
        parts, np.ascontiguousarray(e), np.ascontiguousarray(x), live_e, live_x,
        channel_table(block, windows), offsets, windows.grid.step_w * depth, block, windows.grid,
        block.height, shares, splits, DOUBLES.element,
    )  # fmt: skip
    # exact sums, in any order
    total: np.ndarray = parts.reshape(shares, len(taps), depth, width).sum(axis=0)
    return np.ascontiguousarray(total.transpose(2, 1, 0))
