"""Loops of the weight gradient, integer and float32: sums over the positions of all windows.

    out[o, c, tap] = sum over positions of e[position, o] * x[pixel, c]

A tile's rows are (tap, channel), its lanes the outputs o. For int16 operands a word holds one
element of two images, for int8 of four, so one layout serves every tap, stride and odd width. Tasks sum
shares of the images (float32: groups of images, or chunks of a group) into parts, which `collect` adds up.
Terms are those of `tiles.py`; `int_conv.py` and `float_products.py` call in here.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from intnet.machine.jit import njit, pjit, prange
from intnet.machine.tile import LANES, ROWS, line_zeros, multiply_groups
from intnet.machine.words import OFFSET
from intnet.numbers.batch_sums import GROUP, add_chunks, meetings, stack_lines
from intnet.numbers.fp32 import CHUNK
from intnet.ops.kernels.tiles import Flat, copy_run, lay_out, lay_starts
from intnet.ops.kernels.windows import Block, Grid

_INT32 = (1 << 31) - 1


def images_of(x: np.ndarray, n: int, blank: Flat) -> tuple[Flat, ...]:
    """The images from n on that share words, flat: four of int8, two of int16; `blank` after the last."""
    count = {np.dtype(np.int8): 4, np.dtype(np.int16): 2}.get(x.dtype, 1)
    return tuple(_image(x, n + i, blank) for i in range(count))


@njit
def _image(x: np.ndarray, n: int, blank: Flat) -> Flat:
    return x[n].reshape(-1) if n < x.shape[0] else blank


@overload(images_of)
def _images_of(x: Any, n: Any, blank: Any) -> Callable[..., Any]:
    def fours(x: Any, n: Any, blank: Any) -> Any:
        return _image(x, n, blank), _image(x, n + 1, blank), _image(x, n + 2, blank), _image(x, n + 3, blank)

    def pairs(x: Any, n: Any, blank: Any) -> Any:
        return _image(x, n, blank), _image(x, n + 1, blank)

    def singles(x: Any, n: Any, blank: Any) -> Any:
        return (_image(x, n, blank),)

    return {types.int8: fours, types.int16: pairs}.get(x.dtype, singles)


def join_run(out: Flat, at: int, images: tuple[Flat, ...], start: int, count: int, zero: Any) -> None:
    """Words out[at ..] of elements start .. of `images`, the first image lowest.

    zero: the word of zeros; int8 are laid out with OFFSET added where it has one
    """
    elements = np.stack([image[start : start + count] for image in images], axis=1)
    joined = elements.view(out.dtype)[:, 0] ^ zero if len(images) > 1 else elements[:, 0]
    out[at : at + count] = joined


@overload(join_run)
def _join_run(out: Any, at: Any, images: Any, start: Any, count: Any, zero: Any) -> Callable[..., None]:
    def fours(out: Any, at: Any, images: Any, start: Any, count: Any, zero: Any) -> None:
        end, target = start + count, out[at : at + count]
        a, b, c, d = images[0][start:end], images[1][start:end], images[2][start:end], images[3][start:end]
        for i in range(count):
            low = np.uint32(np.uint32(np.uint8(a[i])) | np.uint32(np.uint32(np.uint8(b[i])) << np.uint32(8)))
            high = np.uint32(np.uint32(np.uint8(c[i])) | np.uint32(np.uint32(np.uint8(d[i])) << np.uint32(8)))
            target[i] = np.uint32(low | np.uint32(high << np.uint32(16))) ^ np.uint32(zero)

    def pairs(out: Any, at: Any, images: Any, start: Any, count: Any, zero: Any) -> None:
        end, target = start + count, out[at : at + count]
        low, high = images[0][start:end], images[1][start:end]
        for i in range(count):
            half = np.int32(np.int32(high[i]) << np.int32(16))
            target[i] = np.int32(np.int32(low[i]) & np.int32(0xFFFF)) | half

    def singles(out: Any, at: Any, images: Any, start: Any, count: Any, zero: Any) -> None:
        copy_run(out, at, images[0], start, count)

    return {4: fours, 2: pairs}.get(len(images), singles)


@njit
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


@njit
def lay_out_errors(
    panels: Flat, at: int, page: int, images: tuple[Flat, ...], positions: int, channels: int, o0: int,
    width: int, lanes: int,
) -> None:  # fmt: skip
    """Errors of outputs o0 .. as words [page of outputs][position, lane]; a page takes `page` words."""
    for first in range(0, width, lanes):
        kept = min(lanes, width - first)
        for m in range(positions):
            join_run(panels, at + m * lanes, images, m * channels + o0 + first, kept, 0)
        at += page


@njit
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


@njit
def _multiply_channels(
    part: Flat, at: int, offsets: Flat, rows: int, words: Flat, step: int, runs: Flat, ends: Flat,
    panels: Flat, first_at: int, page: int, width: int, vectors: int, tile0: int, tile1: int, sums: Flat,
) -> None:  # fmt: skip
    """part[at + row*width + o] += sum over all runs, for the rows of tiles tile0 .. tile1-1.

    first_at: where the words of the first page of panels begin; ends: runs that chunks end with
    """
    alone = np.zeros(ends.size, np.int64)  # no two chunks meet: their sums are added in the type of `part`
    lanes = vectors * LANES
    for first in range(0, width, lanes):
        columns = min(lanes, width - first)
        for row0 in range(tile0 * ROWS, min(tile1 * ROWS, rows), ROWS):
            b_at = first_at + first // lanes * page
            for chunk in range(ends.size):
                multiply_groups(
                    vectors, sums, 0, lanes, words, offsets, row0, 0, step, runs, chunk, chunk + 1, panels,
                    b_at, ends, alone, sums,
                )  # fmt: skip
                for r in range(min(ROWS, rows - row0)):
                    to = at + (row0 + r) * width + first
                    line, extra = part[to : to + columns], sums[r * lanes : r * lanes + columns]
                    for j in range(columns):
                        line[j] += extra[j]


# --- integers -----------------------------------------------------------------------------------


@njit
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


@njit
def _lay_out_unit(
    words: Flat, panels: Flat, first_at: int, page: int, magnitudes: Flat, peaks: Flat, e: np.ndarray,
    x: np.ndarray, n0: int, group: int, runs: Flat, block: Block, width: int, lanes: int, per_word: int,
    blank_e: Flat, blank_x: Flat, zero: Any,
) -> None:  # fmt: skip
    """Images and errors from n0 on as words, zeros behind the last, and the magnitude of each piece."""
    area = block.height * block.width * block.channels
    pieces = runs.size // 3 // block.images
    for image in range(block.images):
        n = n0 + image * per_word
        xs, es = images_of(x, n, blank_x), images_of(e, n, blank_e)
        _lay_out_words(words, image * area, xs, x.shape[1:], group * block.channels, block, zero)
        at, channels, o0 = first_at + image * block.positions * lanes, e.shape[3], group * width
        lay_out_errors(panels, at, page, es, block.positions, channels, o0, width, lanes)
        first = 0
        for piece in range(image * pieces, image * pieces + pieces):
            end = first + runs[3 * piece + 1]
            if per_word == 2:
                magnitudes[piece] = _magnitudes(es, first, end, channels, o0, width, peaks)
            elif per_word == 4:  # int8: so small that to look is not worth while
                magnitudes[piece] = (end - first) * 4 * OFFSET
            first = end


@pjit
def position_sums(
    team: int, parts: Flat, e: np.ndarray, x: np.ndarray, offsets: Flat, step: int, runs: Flat, block: Block,
    groups: int, rows: int, width: int, vectors: int, shares: int, splits: int, bound: int, per_word: int,
    word: Flat, total: Flat,
) -> None:  # fmt: skip
    """parts[share, group, (tap, c), o]: sums over the images of each share.

    runs: pieces (offset in a block's words, length, first position) of its positions; bound: on the codes
    of x; word: one of zeros; block.images counts words, so twice as many images where a word holds two

    Defined by `spec/convolution.py: conv2d_weight_grad`.
    """
    units = (x.shape[0] + block.images * per_word - 1) // (block.images * per_word)
    lanes, pieces, tiles = vectors * LANES, runs.size // 3, (rows + ROWS - 1) // ROWS
    first_at = pieces * lanes if per_word == 4 else 0  # before it, the starts of chunks
    page = first_at + block.images * block.positions * lanes
    blank_x, blank_e = np.zeros(x[0].size, x.dtype), np.zeros(e[0].size, e.dtype)
    for task in prange(team, shares * splits):
        share, slice_ = task // splits, task % splits
        words = np.full(block.images * block.height * block.width * block.channels, word[0])
        panels = line_zeros((width + lanes - 1) // lanes * page, word)
        magnitudes, ends = np.zeros(pieces, np.int64), np.zeros(pieces, np.int64)
        sums, peaks = line_zeros(ROWS * lanes, total), np.zeros(width, np.int64)
        tile0, tile1 = tiles * slice_ // splits, tiles * (slice_ + 1) // splits
        for group in range(groups):
            first = (share * groups + group) * rows
            parts[(first + tile0 * ROWS) * width : (first + min(tile1 * ROWS, rows)) * width] = 0
        for unit in range(units * share // shares, units * (share + 1) // shares):
            for group in range(groups):
                _lay_out_unit(
                    words, panels, first_at, page, magnitudes, peaks, e, x, unit * block.images * per_word,
                    group, runs, block, width, lanes, per_word, blank_e, blank_x, word[0],
                )  # fmt: skip
                chunks = _chunk_ends(ends, magnitudes, pieces, _INT32 // bound)
                if per_word == 4:
                    for at in range(first_at, panels.size, page):
                        lay_starts(panels, at, runs, ends[:chunks], lanes)
                _multiply_channels(
                    parts, (share * groups + group) * rows * width, offsets, rows, words, step, runs,
                    ends[:chunks], panels, first_at, page, width, vectors, tile0, tile1, sums,
                )  # fmt: skip


# --- float32 ------------------------------------------------------------------------------------


@njit
def _multiply_groups(
    part: Flat, at: int, offsets: Flat, rows: int, words: Flat, step: int, runs: Flat, ends: Flat,
    groups: int, panels: Flat, page: int, width: int, vectors: int, tile0: int, tile1: int, stack: Flat,
) -> None:  # fmt: skip
    """part[at + row*width + o] = the groups' sums in their tree, for the rows of tiles tile0 .. tile1-1.

    ends: runs that a group's sum ends with; stack: tiles, `stack_lines` of them
    """
    lanes, met = vectors * LANES, meetings(groups)
    sums = line_zeros(ROWS * lanes, stack)
    for first in range(0, width, lanes):
        columns, b_at = min(lanes, width - first), first // lanes * page
        for row0 in range(tile0 * ROWS, min(tile1 * ROWS, rows), ROWS):
            multiply_groups(
                vectors, sums, 0, lanes, words, offsets, row0, 0, step, runs, 0, groups, panels, b_at, ends,
                met, stack,
            )  # fmt: skip
            for r in range(min(ROWS, rows - row0)):
                to = at + (row0 + r) * width + first
                line, total = part[to : to + columns], sums[r * lanes : r * lanes + columns]
                for j in range(columns):
                    line[j] = total[j]


@pjit
def position_chunks(
    team: int, parts: Flat, e: Flat, x: np.ndarray, offsets: Flat, step: int, block: Block, grid: Grid,
    span: int, groups: int, rows: int, width: int, vectors: int, joined: int, first_chunk: int, chunks: int,
    splits: int,
) -> None:  # fmt: skip
    """parts[chunk, group, (tap, c), o]: float32 sums over the positions of a chunk, ascending from +0.

    span: rows of the padded image that one row of windows reads; joined: groups of images, of one chunk each,
    whose sums meet in their tree here and count as one chunk

    Defined by `spec/convolution.py: conv32_weight_grad`.
    """
    unit = joined * GROUP * block.positions
    longest, levels = unit if joined > 1 else CHUNK, stack_lines(joined)
    lanes, line = vectors * LANES, block.width * block.channels
    tiles, channels, of_unit = (rows + ROWS - 1) // ROWS, groups * width, (unit + longest - 1) // longest
    for task in prange(team, chunks * splits):
        slice_, chunk = task % splits, first_chunk + task // splits
        begin = chunk // of_unit * unit + chunk % of_unit * longest
        end = min(begin + longest, (chunk // of_unit + 1) * unit, x.shape[0] * block.positions)
        grid_rows = (end - 1) // grid.cols - begin // grid.cols + 1
        pieces = (end - 1) // block.positions - begin // block.positions + 1  # images, or parts of them
        runs, ends = np.empty(3 * grid_rows, np.int64), np.empty(pieces, np.int64)
        page = (end - begin) * lanes
        panels = line_zeros((width + lanes - 1) // lanes * page, parts)
        stack = line_zeros(levels * ROWS * lanes, parts)
        for group in range(groups):
            words = np.zeros((grid_rows * grid.step_h + pieces * span) * line, np.float32)
            at, m, run, done, sums = 0, begin, 0, 0, 0
            while m < end:
                n, q = m // block.positions, m % block.positions
                stop = min(end - m, block.positions - q) + q
                y0, y1 = q // grid.cols, (stop - 1) // grid.cols + 1
                height = (y1 - 1 - y0) * grid.step_h + span
                top = y0 * grid.step_h
                lay_out(words, at, x, n, group * block.channels, top, top + height, block)
                for y in range(y0, y1):
                    left = q - y * grid.cols if y == y0 else 0
                    right = min(stop - y * grid.cols, grid.cols)
                    runs[3 * run] = at + (y - y0) * grid.step_h * line + left * step
                    runs[3 * run + 1] = right - left
                    runs[3 * run + 2] = done
                    done += right - left
                    run += 1
                at += height * line
                m += stop - q
                if m == end or (n + 1) % GROUP == 0:
                    ends[sums] = run
                    sums += 1
            lay_out_errors(
                panels, 0, page, (e[begin * channels : end * channels],), end - begin, channels,
                group * width, width, lanes,
            )  # fmt: skip
            _multiply_groups(
                parts, (task // splits * groups + group) * rows * width, offsets, rows, words, step, runs,
                ends, sums, panels, page, width, vectors, tiles * slice_ // splits,
                tiles * (slice_ + 1) // splits, stack,
            )  # fmt: skip


# --- both ---------------------------------------------------------------------------------------


@pjit
def collect(
    team: int, out: Flat, parts: Flat, shares: int, per_group: int, levels: int, groups: int, taps: int,
    depth: int, width: int,
) -> None:  # fmt: skip
    """out[group, o, c, tap] += the sum of parts[share, group, (tap, c), o] in the order of `add_chunks`.

    per_group: shares of a group of images; levels: lines of the stack for their tree
    """
    size, strips = taps * depth * width, (width + LANES - 1) // LANES
    for task in prange(team, groups * strips):  # a strip of outputs: writes stay within few lines of memory
        group, o0 = task // strips, task % strips * LANES
        stack, line = np.zeros((levels, LANES), out.dtype), np.empty(min(LANES, width - o0), out.dtype)
        for tap in range(taps):
            for c in range(depth):
                at = group * size + (tap * depth + c) * width + o0
                to = ((group * width + o0) * depth + c) * taps + tap
                if shares <= per_group:  # no tree: the sums need no place of their own on the way
                    for share in range(shares):
                        part = parts[at + share * groups * size : at + share * groups * size + line.size]
                        for o in range(line.size):
                            out[to + o * depth * taps] += part[o]
                    continue
                for o in range(line.size):
                    line[o] = out[to + o * depth * taps]
                add_chunks(parts, at, groups * size, shares, per_group, stack, line)
                for o in range(line.size):
                    out[to + o * depth * taps] = line[o]
