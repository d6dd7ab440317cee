"""Loops of the weight gradient, integer and float32: sums over the positions of all windows.

    out[o, c, tap] = sum over positions of e[position, o] * x[pixel, c]

A tile's rows are outputs o, its lanes (tap, channel), which lie side by side in a window. For int16 operands
a word holds one element of two images, for int8 of four, so one layout serves every tap, stride and odd
width. Tasks sum shares of the images (float32: groups of images, or chunks of a group) into parts, which
`collect` adds up.
Terms are those of `tiles.py`; `int_products.py` and `float_products.py` call in here.
"""

from typing import Any

import numpy as np

from intnet.machine.jit import pjit, prange, rule
from intnet.machine.tile import LANES, OUTPUTS, line_zeros, multiply_columns
from intnet.machine.words import OFFSET
from intnet.numbers.batch_sums import GROUP, add_chunks, meetings, stack_lines
from intnet.numbers.fp32 import CHUNK
from intnet.ops.kernels.tiles import Flat, copy_run, images_of, join_run, lay_out, lay_starts
from intnet.ops.kernels.windows import Block, Grid

_INT32 = (1 << 31) - 1


@rule
def _lay_out_words(
    words: Flat, at: int, images: tuple[Flat, ...], shape: Any, c0: int, block: Block, zero: Any
) -> None:
    """Images (height, width, channels) as padded words of `block` from word `at`; zero: as in `join_run`."""
    height, width, channels = shape
    for y in range(min(height, block.height - block.top)):
        target = at + ((y + block.top) * block.width + block.left) * block.channels
        columns = min(width, block.width - block.left)
        if block.channels == channels:
            join_run(words, target, images, y * width * channels, columns * channels, zero)
        else:
            for column in range(columns):
                start = (y * width + column) * channels + c0
                join_run(words, target + column * block.channels, images, start, block.channels, zero)


@rule
def _lay_out_errors(
    lines: Flat, at: int, images: tuple[Flat, ...], positions: int, channels: int, o0: int, width: int,
    line: int,
) -> None:  # fmt: skip
    """Errors of outputs o0 .. o0+width-1 as words [position, line] from word `at`."""
    if width == channels == line:
        join_run(lines, at, images, 0, positions * line, 0)
    else:
        for m in range(positions):
            join_run(lines, at + m * line, images, m * channels + o0, width, 0)


@rule
def _magnitudes(
    images: tuple[Flat, ...], begin: int, end: int, channels: int, o0: int, width: int, sums: Flat
) -> int:
    """The largest sum, over outputs, of |errors| of positions begin .. end-1: bounds their products."""
    sums[:] = 0
    for m in range(begin, end):
        start = m * channels + o0
        for image in images:
            errors = image[start : start + width]
            for o in range(width):
                sums[o] += np.int32(abs(np.int32(errors[o])))
    top = sums[0]
    for o in range(1, width):
        top = max(top, sums[o])
    return top


# --- integers -----------------------------------------------------------------------------------


@rule
def _chunk_ends(ends: Flat, magnitudes: Flat, pieces: int, limit: int) -> int:
    """Join pieces to chunks while their magnitudes add up to at most `limit`; the number of chunks.

    A piece alone never passes the limit of an int32 sum: the plan's chunk proves that.
    """
    chunks, total = 0, np.int64(0)
    for piece in range(pieces):
        if piece and total + magnitudes[piece] > limit:
            ends[chunks] = piece
            chunks += 1
            total = np.int64(0)
        total += magnitudes[piece]
    ends[chunks] = pieces
    return chunks + 1


@rule
def _lay_out_unit(
    words: Flat, lines: Flat, first_at: int, magnitudes: Flat, peaks: Flat, e: np.ndarray, x: np.ndarray,
    n0: int, group: int, runs: Flat, block: Block, width: int, line: int, per_word: int, blank_e: Flat,
    blank_x: Flat, zero: Any,
) -> None:  # fmt: skip
    """Images and errors from n0 on as words, zeros after the last, and the magnitude of each piece."""
    area = block.height * block.width * block.channels
    pieces = runs.size // 3 // block.images
    for image in range(block.images):
        n = n0 + image * per_word
        xs, es = images_of(x, n, blank_x), images_of(e, n, blank_e)
        _lay_out_words(words, image * area, xs, x.shape[1:], group * block.channels, block, zero)
        at, channels, o0 = first_at + image * block.positions * line, e.shape[3], group * width
        _lay_out_errors(lines, at, es, block.positions, channels, o0, width, line)
        first = np.int64(0)
        for piece in range(image * pieces, image * pieces + pieces):
            end = first + runs[3 * piece + 1]
            if per_word == 2:
                magnitudes[piece] = _magnitudes(es, first, end, channels, o0, width, peaks)
            elif per_word == 4:  # int8: so small that to look is not worth while
                magnitudes[piece] = (end - first) * 4 * OFFSET
            first = end


@rule
def _add_unit(
    part: Flat, at: int, columns: Flat, words: Flat, step: int, runs: Flat, ends: Flat, lines: Flat,
    first_at: int, line: int, width: int, vectors: int, tile0: int, tile1: int, fresh: bool, sums: Flat,
) -> None:  # fmt: skip
    """part[at + o*size + lane] += sum over all runs (fresh: = it), for tiles tile0 .. tile1-1.

    first_at: where the words of errors begin; ends: runs that chunks end with
    """
    alone = np.zeros(ends.size, np.int64)  # no two chunks meet: their sums are added in the type of `part`
    size, lanes, outs = columns.size * LANES, vectors * LANES, line // OUTPUTS
    for tile in range(tile0, tile1):
        first, o0 = tile // outs * vectors, tile % outs * OUTPUTS
        for chunk in range(ends.size):
            multiply_columns(
                sums, 0, lanes, words, columns, first, step, runs, chunk, chunk + 1, lines, first_at + o0,
                line, ends, alone, sums,
            )  # fmt: skip
            for r in range(min(OUTPUTS, width - o0)):
                to = at + (o0 + r) * size + first * LANES
                total, extra = part[to : to + lanes], sums[r * lanes : r * lanes + lanes]
                if fresh and chunk == 0:
                    for j in range(lanes):
                        total[j] = extra[j]
                else:
                    for j in range(lanes):
                        total[j] += extra[j]


@pjit
def position_sums(
    team: int, parts: Flat, e: np.ndarray, x: np.ndarray, columns: Flat, step: int, runs: Flat, block: Block,
    groups: int, width: int, vectors: int, shares: int, splits: int, bound: int, per_word: int, word: Flat,
    total: Flat,
) -> None:  # fmt: skip
    """parts[share, group, o, lane]: sums over the images of each share; lanes of all `columns`.

    runs: pieces (offset in a block's words, length, first position) of its positions; bound: on the codes
    of x; word: one of zeros; block.images counts words, so twice as many images where a word holds two

    Defined by `spec/convolution.py: conv2d_weight_grad`.
    """
    units = (x.shape[0] + block.images * per_word - 1) // (block.images * per_word)
    outs, pieces, size = (width + OUTPUTS - 1) // OUTPUTS, runs.size // 3, columns.size * LANES
    line, tiles = outs * OUTPUTS, columns.size // vectors * outs
    first_at = pieces * line if per_word == 4 else 0  # before it, the starts of chunks
    blank_x, blank_e = np.zeros(x[0].size, x.dtype), np.zeros(e[0].size, e.dtype)
    for task in prange(team, shares * splits):
        share, slice_ = task // splits, task % splits
        tile0, tile1 = tiles * slice_ // splits, tiles * (slice_ + 1) // splits
        words = line_zeros(block.images * block.height * block.width * block.channels + LANES, word)
        words[:] = word[0]
        lines = line_zeros(first_at + block.images * block.positions * line, word)
        magnitudes, ends = np.zeros(pieces, np.int64), np.zeros(pieces, np.int64)
        sums, peaks = line_zeros(OUTPUTS * vectors * LANES, total), np.zeros(width, np.int64)
        unit0 = units * share // shares
        for unit in range(unit0, units * (share + 1) // shares):
            for group in range(groups):
                _lay_out_unit(
                    words, lines, first_at, magnitudes, peaks, e, x, unit * block.images * per_word, group,
                    runs, block, width, line, per_word, blank_e, blank_x, word[0],
                )  # fmt: skip
                chunks = _chunk_ends(ends, magnitudes, pieces, _INT32 // bound)
                if per_word == 4:
                    lay_starts(lines, first_at, runs, ends[:chunks], line)
                _add_unit(
                    parts, (share * groups + group) * width * size, columns, words, step, runs, ends[:chunks],
                    lines, first_at, line, width, vectors, tile0, tile1, unit == unit0, sums,
                )  # fmt: skip


# --- float32 ------------------------------------------------------------------------------------


@rule
def _put_chunk(
    part: Flat, at: int, columns: Flat, words: Flat, step: int, runs: Flat, ends: Flat, groups: int,
    lines: Flat, first_at: int, line: int, width: int, vectors: int, tile0: int, tile1: int, stack: Flat,
) -> None:  # fmt: skip
    """part[at + o*size + lane] = the groups' sums in their tree, for tiles tile0 .. tile1-1.

    ends: runs that a group's sum ends with; stack: tiles, `stack_lines` of them
    """
    size, lanes, outs, met = columns.size * LANES, vectors * LANES, line // OUTPUTS, meetings(groups)
    sums = line_zeros(OUTPUTS * lanes, stack)
    for tile in range(tile0, tile1):
        first, o0 = tile // outs * vectors, tile % outs * OUTPUTS
        multiply_columns(
            sums, 0, lanes, words, columns, first, step, runs, 0, groups, lines, first_at + o0, line, ends,
            met, stack,
        )  # fmt: skip
        for r in range(min(OUTPUTS, width - o0)):
            to = at + (o0 + r) * size + first * LANES
            copy_run(part, to, sums, r * lanes, lanes)


@rule
def _lay_out_rows(
    words: Flat, runs: Flat, ends: Flat, x: np.ndarray, begin: int, end: int, channel: int, step: int,
    block: Block, grid: Grid, span: int,
) -> int:  # fmt: skip
    """A batch's positions begin to end into words, one group of channels; how many sums they have.

    runs gets (word, positions, first position) of each row of windows; ends[sum] the runs up to that sum's
    end: where a group of images ends, and at the end
    """
    row = block.width * block.channels
    at, m, run, done, sums = 0, begin, 0, 0, 0
    while m < end:
        n, q = m // block.positions, m % block.positions
        stop = min(end - m, block.positions - q) + q
        y0, y1 = q // grid.cols, (stop - 1) // grid.cols + 1
        height = (y1 - 1 - y0) * grid.step_h + span
        top = y0 * grid.step_h
        lay_out(words, at, x, n, channel, top, top + height, block)
        for y in range(y0, y1):
            left = q - y * grid.cols if y == y0 else 0
            right = min(stop - y * grid.cols, grid.cols)
            runs[3 * run] = at + (y - y0) * grid.step_h * row + left * step
            runs[3 * run + 1] = right - left
            runs[3 * run + 2] = done
            done += right - left
            run += 1
        at += height * row
        m += stop - q
        if m == end or (n + 1) % GROUP == 0:
            ends[sums] = run
            sums += 1
    return sums


@pjit
def position_chunks(
    team: int, parts: Flat, e: Flat, x: np.ndarray, columns: Flat, step: int, block: Block, grid: Grid,
    span: int, groups: int, width: int, vectors: int, joined: int, first_chunk: int, chunks: int, splits: int,
) -> None:  # fmt: skip
    """parts[chunk, group, o, lane]: float32 sums over the positions of a chunk, ascending from +0.

    span: rows of the padded image that one row of windows reads; joined: groups of images, of one chunk each,
    whose sums meet in their tree here and count as one chunk

    Defined by `spec/convolution.py: conv32_weight_grad`.
    """
    unit = joined * GROUP * block.positions
    longest, levels = unit if joined > 1 else CHUNK, stack_lines(joined)
    outs, channels, of_unit = (
        (width + OUTPUTS - 1) // OUTPUTS,
        groups * width,
        (unit + longest - 1) // longest,
    )
    line, tiles, row = outs * OUTPUTS, columns.size // vectors * outs, block.width * block.channels
    for task in prange(team, chunks * splits):
        slice_, chunk = task % splits, first_chunk + task // splits
        begin = chunk // of_unit * unit + chunk % of_unit * longest
        end = min(begin + longest, (chunk // of_unit + 1) * unit, x.shape[0] * block.positions)
        grid_rows = (end - 1) // grid.cols - begin // grid.cols + 1
        pieces = (end - 1) // block.positions - begin // block.positions + 1  # images, or parts of them
        runs, ends = np.empty(3 * grid_rows, np.int64), np.empty(pieces, np.int64)
        lines, first_at = e, begin * channels
        laid = groups > 1 or line != channels  # else the errors lie as tiles read them already
        if laid:
            lines, first_at = line_zeros((end - begin) * line, parts), 0
        stack = line_zeros(levels * OUTPUTS * vectors * LANES, parts)
        for group in range(groups):
            words = line_zeros((grid_rows * grid.step_h + pieces * span) * row + LANES, parts)
            sums = _lay_out_rows(
                words, runs, ends, x, begin, end, group * block.channels, step, block, grid, span
            )
            if laid:
                errors = e[begin * channels : end * channels]
                _lay_out_errors(lines, 0, (errors,), end - begin, channels, group * width, width, line)
            _put_chunk(
                parts, (task // splits * groups + group) * width * columns.size * LANES, columns, words, step,
                runs, ends, sums, lines, first_at, line, width, vectors, tiles * slice_ // splits,
                tiles * (slice_ + 1) // splits, stack,
            )  # fmt: skip


# --- both ---------------------------------------------------------------------------------------


@pjit
def collect(
    team: int, out: Flat, parts: Flat, size: int, source: Flat, shares: int, per_group: int, levels: int
) -> None:
    """out[o, i] += the sum of parts[share, o, source[i]] in the order of `add_chunks`.

    size: lanes that parts have; per_group: shares of a group of images; levels: lines of the stack for their
    tree
    """
    weights = source.size
    channels = out.size // weights
    for o in prange(team, channels):
        total, line = out[o * weights : (o + 1) * weights], np.zeros(size, out.dtype)
        for i in range(weights):
            line[source[i]] = total[i]
        if shares <= per_group:  # no tree: the sums need no place of their own on the way
            for share in range(shares):
                part = parts[(share * channels + o) * size : (share * channels + o + 1) * size]
                for j in range(size):
                    line[j] += part[j]
        else:
            stack = np.zeros((levels, size), out.dtype)
            add_chunks(parts, o * size, channels * size, shares, per_group, stack, line)
        for i in range(weights):
            total[i] = line[source[i]]
