"""Loops of every matrix product and convolution, integer and float32: tiles over windows.

    out[position, o] = sum over taps and channels of x[pixel, c] * w[o, tap, c]

A *position* is one window (image, row, column), a *tap* one place of the kernel, given as the offset
(rows, columns) of the pixel that it reads. Nothing is laid out as a matrix of patches: a block of
images is copied once, with zeros around it, into the scratch of its thread, and the tile reads the
windows where they lie there. A matrix is a batch of images of one pixel.

What a word is and how sums run is `machine/tile.py`'s; `Arithmetic` names the kinds. The order of the
words is that of the taps, so float32 sums have the order their caller gives (`float_products.py`). Integer
sums run in int32 over a chunk that a bound proves to fit, then move to the type of `out`; in float64
where none passes 2**53; else in int64.
Read next: `windows.py`, which makes the tables, and `position_sums.py`, the sums over positions.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import types
from numba.extending import overload

from intnet.machine.buffers import LEAST, empty
from intnet.machine.instructions import shaped, wide_vectors
from intnet.machine.jit import SMALL, njit, pjit, prange, rule
from intnet.machine.tile import LANES, ROWS, SPARE, begin_tiles, end_tiles, line_zeros, multiply_rows
from intnet.machine.words import OFFSET
from intnet.numbers.batch_sums import meetings, stack_lines
from intnet.ops.kernels.windows import Block, Grid, Windows, even_limits, tables

Flat = np.ndarray


_NEAR_COLUMNS = 256  # bytes of a row that are read one after another
_NEAR = 1 << 18  # bytes of panels that meet a tile's rows before the next rows: well in a second-level cache


class Arithmetic(NamedTuple):
    """One kind of product: arrays whose types are those of an operand and of a running sum.

    element: what a zero of the first operand is laid out as; sum: empty
    """

    element: np.ndarray
    sum: np.ndarray

    @property
    def per_word(self) -> int:
        """Elements of one word of the tile."""
        return {1: 4, 2: 2}.get(self.element.itemsize, 1)

    @property
    def word(self) -> np.ndarray:
        """One word of zeros of the first operand."""
        return as_words(np.repeat(self.element, self.per_word))

    @property
    def codes(self) -> np.dtype:
        """The type of the codes of both operands that the loops read."""
        return np.dtype(np.int8) if self is FOURS else self.element.dtype

    def vectors(self, columns: int) -> int:
        """Vectors a tile's row: two where the columns fill more than one and registers hold two."""
        return 2 if columns > LANES and self.sum.itemsize < 8 else 1


FOURS = Arithmetic(np.full(1, OFFSET, np.uint8), np.empty(0, np.int32))
PAIRS = Arithmetic(np.zeros(1, np.int16), np.empty(0, np.int32))
SINGLES = Arithmetic(np.zeros(1, np.int32), np.empty(0, np.int64))
LONG = Arithmetic(np.zeros(1, np.int64), np.empty(0, np.int64))
DOUBLES = Arithmetic(np.zeros(1, np.float64), np.empty(0, np.float64))
FLOATS = Arithmetic(np.zeros(1, np.float32), np.empty(0, np.float32))


# --- words --------------------------------------------------------------------------------------


def as_words(elements: Flat) -> Flat:
    """Elements as words of the tile: 8 bits in fours, int16 in pairs, all else one by one."""
    if elements.itemsize == 1:
        return elements.view(np.uint32)
    return elements.view(np.int32) if elements.dtype == np.int16 else elements


@overload(as_words)
def _as_words(elements: Any) -> Callable[..., Any]:
    def fours(elements: Any) -> Any:
        return elements.view(np.uint32)

    def pairs(elements: Any) -> Any:
        return elements.view(np.int32)

    def same(elements: Any) -> Any:
        return elements

    return {types.int8: fours, types.uint8: fours, types.int16: pairs}.get(elements.dtype, same)


def copy_run(out: Flat, at: int, source: Flat, start: int, count: int) -> None:
    """out[at : at + count] = source[start : start + count], converted to the type of `out`.

    For FOURS `out` is uint8 and takes each int8 plus OFFSET, which turns its highest bit.
    """
    codes = source[start : start + count]
    out[at : at + count] = codes.astype(np.uint8) ^ OFFSET if out.dtype == np.uint8 else codes


@overload(copy_run)
def _copy_run(out: Any, at: Any, source: Any, start: Any, count: Any) -> Callable[..., None]:
    def fours(out: Any, at: Any, source: Any, start: Any, count: Any) -> None:
        target, origin = out[at : at + count], source[start : start + count]
        for i in range(count):
            target[i] = np.uint8(origin[i]) ^ np.uint8(OFFSET)

    def same(out: Any, at: Any, source: Any, start: Any, count: Any) -> None:
        target, origin = out[at : at + count], source[start : start + count]
        for i in range(count):
            target[i] = origin[i]

    return fours if out.dtype == types.uint8 else same


def images_of(x: np.ndarray, n: int, blank: Flat) -> tuple[Flat, ...]:
    """The images, or rows, from n on that share words: four of int8, two of int16; `blank` after the last."""
    count = {np.dtype(np.int8): 4, np.dtype(np.int16): 2}.get(x.dtype, 1)
    return tuple(_image(x, n + i, blank) for i in range(count))


@njit
def _image(x: np.ndarray, n: int, blank: Flat) -> Flat:
    return shaped(x[n], (x[n].size,)) if n < x.shape[0] else blank


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


@rule
def lay_starts(panel: Flat, at: int, runs: Flat, ends: Flat, lanes: int) -> None:
    """What sums of FOURS start at, before the words of a panel from panel[at] on: see `machine/words.py`.

    -OFFSET times the sum of the chunk's column, the last chunk first: the place where the tile reads it. Two
    halves of a word hold two sums of two codes each, all of them OFFSET higher, so that none has a sign.
    """
    wide_vectors()
    flip, bytes_, halves = np.uint32(0x80808080), np.uint32(0xFF00FF), np.uint32(0xFFFF)
    words, sums, run = panel.view(np.uint32), np.empty(lanes, np.uint32), 0
    for chunk in range(ends.size):
        first, last = runs[3 * run + 2], runs[3 * ends[chunk] - 2] + runs[3 * ends[chunk] - 1]
        sums[:] = 0
        for word in range(at + first * lanes, at + last * lanes, lanes):
            codes = words[word : word + lanes]
            for o in range(lanes):
                code = np.uint32(codes[o] ^ flip)
                two = np.uint32((code & bytes_) + (np.uint32(code >> np.uint32(8)) & bytes_))
                sums[o] = np.uint32(sums[o] + (two & halves) + (two >> np.uint32(16)))
        line, higher = words[at - (chunk + 1) * lanes : at - chunk * lanes], 4 * OFFSET * (last - first)
        for o in range(lanes):
            line[o] = np.uint32(np.int64(OFFSET) * (higher - np.int64(sums[o])))
        run = ends[chunk]


@pjit
def _pack_panels(
    team: int, w: np.ndarray, taps: np.ndarray, lanes: int, page: int, runs: Flat, ends: Flat | None,
    out: Flat,
) -> None:  # fmt: skip
    """As `pack_panels`; ends: None where sums start at 0, which Numba sees as it compiles."""
    groups, width, _, depth = w.shape
    panels = (width + lanes - 1) // lanes
    for number in prange(team, groups * panels):
        group, first = number // panels, number % panels * lanes
        kept, at = min(lanes, width - first), (number + 1) * page - taps.size * depth * lanes
        for t in range(taps.size):
            matrix = w[group, first : first + kept, taps[t]]
            for word in range(depth):
                line = out[at + (t * depth + word) * lanes : at + (t * depth + word + 1) * lanes]
                for o in range(kept):
                    line[o] = matrix[o, word]
                line[kept:] = 0
        if ends is not None:
            lay_starts(out, at, runs, ends, lanes)


@pjit
def _pack_columns(
    team: int, w: np.ndarray, lanes: int, page: int, runs: Flat, ends: Flat | None, blank: Flat, out: Flat
) -> None:
    """As `pack_panels` of one tap of w[c, o]: words of rows that lie side by side; blank: a row of zeros."""
    panels, per_word = (w.shape[1] + lanes - 1) // lanes, len(images_of(w, 0, blank))
    words, near = (w.shape[0] + per_word - 1) // per_word, max(1, _NEAR_COLUMNS // (lanes * w.itemsize))
    for task in prange(team, (panels + near - 1) // near):
        first, last = task * near, min((task + 1) * near, panels)
        for word in range(words):
            rows = images_of(w, word * per_word, blank)
            for panel in range(first, last):
                at, kept = (panel + 1) * page - (words - word) * lanes, min(lanes, w.shape[1] - panel * lanes)
                join_run(out, at, rows, panel * lanes, kept, 0)
                out[at + kept : at + lanes] = 0
        if ends is not None:
            for panel in range(first, last):
                lay_starts(out, (panel + 1) * page - words * lanes, runs, ends, lanes)


def pack_panels(
    w: np.ndarray, taps: np.ndarray, arithmetic: Arithmetic, lanes: int, runs: Flat, ends: Flat
) -> Flat:
    """w[groups, o, tap, c] as words [group, panel of `lanes` outputs, kept tap, word of c, lane].

    Before the words of a panel of FOURS stand the starts of the sums of chunks, which end with runs `ends`.
    """
    (groups, width, _, depth), fours, word = w.shape, arithmetic is FOURS, arithmetic.word.dtype
    words = -(-depth // arithmetic.per_word)
    page = (taps.size * words + ends.size * fours) * lanes
    size = groups * -(-width // lanes) * page
    # aligned: no vector lies across two lines
    out = empty((max(size + SPARE * fours * lanes, LEAST // word.itemsize),), word)[:size]
    starts, turned = ends if fours else None, w[0, :, 0].T
    # many weights lie in rows of outputs: to turn them first took a third of a step of AlexNet
    if w.size >= SMALL and groups == w.shape[2] == taps.size == 1 and turned.flags.c_contiguous:
        codes = turned.astype(arithmetic.codes, copy=False)
        _pack_columns(codes, lanes, page, runs, starts, np.zeros(width, codes.dtype), out)
        return out
    if depth % arithmetic.per_word:
        w = np.pad(w, [(0, 0)] * 3 + [(0, -depth % arithmetic.per_word)])
    w = as_words(np.ascontiguousarray(w, arithmetic.codes))  # these are few: one layout, one kernel
    _pack_panels(w, taps, lanes, page, runs, starts, out)
    return out


@rule
def lay_out(out: Flat, at: int, x: np.ndarray, n: int, c0: int, y0: int, y1: int, block: Block) -> None:
    """Padded rows y0..y1-1 of image n, channels c0.., into `out`, filled with zeros from element `at`."""
    height, width, channels = x.shape[1], x.shape[2], x.shape[3]
    source, columns = shaped(x, (x.size,)), min(width, block.width - block.left)
    whole = block.channels == channels and block.depth == channels
    for y in range(max(y0, block.top), min(y1, block.top + height)):
        start = (n * height + y - block.top) * width * channels + c0
        target = at + ((y - y0) * block.width + block.left) * block.depth
        if whole:
            copy_run(out, target, source, start, columns * channels)
        else:
            for column in range(columns):
                copy_run(
                    out, target + column * block.depth, source, start + column * channels, block.channels
                )


@rule
def lay_out_block(out: Flat, x: np.ndarray, n0: int, n1: int, c0: int, block: Block) -> None:
    """Images n0..n1-1 whole, one after another, into `out`, which has zeros around them."""
    size = block.height * block.width * block.depth
    bare = block.top == 0 and block.left == 0 and block.depth == block.channels
    if bare and (block.height, block.width, block.depth) == x.shape[1:]:
        copy_run(out, 0, shaped(x, (x.size,)), n0 * size, (n1 - n0) * size)
    else:
        for n in range(n0, n1):
            lay_out(out, (n - n0) * size, x, n, c0, np.int64(0), block.height, block)


# --- sums over taps and channels ----------------------------------------------------------------


def of_type(out: Flat, like: Flat) -> Flat:
    """`out` where it has the type of `like`, else nothing of that type."""
    return out if out.dtype == like.dtype else like[:0]


@overload(of_type)
def _of_type(out: Any, like: Any) -> Callable[..., Any]:
    def itself(out: Any, like: Any) -> Any:
        return out

    def nothing(out: Any, like: Any) -> Any:
        return like[:0]

    return itself if out.dtype == like.dtype else nothing


@rule
def multiply_positions(
    out: Flat, at: int, targets: Flat, words: Flat, rows: Flat, count: int, runs: Flat, ends: Flat,
    panels: Flat, page: int, first: int, panel0: int, panel1: int, width: int, vectors: int, tree: bool,
    met: Flat, stack: Flat, sums: Flat,
) -> None:  # fmt: skip
    """out[at + targets[p] + j] for `count` positions and the columns j of panels panel0..panel1-1.

    page: words that a panel takes with what stands before its own; first: the panel of column 0; ends: runs
    a chunk ends with; tree: chunks are groups of a batch, `met` their `meetings`, 0 where chunk sums are a
    chain; stack: tiles of scratch; sums: one.
    A tile's rows meet several panels one after another, which writes lines of `out` on, not a bit of each.
    Whole tiles whose rows lie evenly in `out` go there at once: what a sum of one chunk is, it stays.
    """
    lanes, last = vectors * LANES, 3 * ends[-1] - 3
    size, together = runs[last + 1] + runs[last + 2], ends.size if tree else 1
    near, in_place = max(1, _NEAR // (size * lanes * panels.itemsize)), of_type(out, sums)
    for near0 in range(panel0, panel1, near):
        for p0 in range(0, count, ROWS):
            even = in_place.size > 0 and together == ends.size and p0 + ROWS <= count
            even = even and targets[p0 + ROWS - 1] - targets[p0] == (ROWS - 1) * width
            for panel in range(near0, min(near0 + near, panel1)):
                start = (first + panel + 1) * page - size * lanes
                columns = min(width - panel * lanes, lanes)
                if even and columns == lanes:
                    multiply_rows(
                        vectors, in_place, at + targets[p0] + panel * lanes, width, words, rows, p0, 0,
                        runs, 0, together, panels, start, ends, met, stack,
                    )  # fmt: skip
                    continue
                for chunk in range(0, ends.size, together):
                    multiply_rows(
                        vectors, sums, 0, lanes, words, rows, p0, 0, runs, chunk, chunk + together, panels,
                        start, ends, met, stack,
                    )  # fmt: skip
                    for r in range(min(ROWS, count - p0)):
                        to = at + targets[p0 + r] + panel * lanes
                        line, part = out[to : to + columns], sums[r * lanes : r * lanes + columns]
                        if chunk == 0:
                            for j in range(columns):
                                line[j] = part[j]
                        else:
                            for j in range(columns):
                                line[j] += part[j]


@pjit
def correlate(
    team: int, out: Flat, image_out: int, x: np.ndarray, panels: Flat, rows: Flat, targets: Flat,
    runs: Flat, ends: Flat, block: Block, groups: int, width: int, vectors: int, splits: int, tree: bool,
    element: Flat, total: Flat,
) -> None:  # fmt: skip
    """out[n*image_out + targets[p] + g*width + o] of all images n and groups g; see `windows.py`.

    splits: shares of the panels, for batches too small to occupy the threads; tree: chunks are groups of a
    batch, whose sums meet in their tree

    Defined by `spec/convolution.py: conv2d`, `spec/convolution.py: conv32`.
    """
    batch = x.shape[0]
    blocks = (batch + block.images - 1) // block.images
    pages = (width + vectors * LANES - 1) // (vectors * LANES)
    size = block.height * block.width * block.depth
    met = meetings(ends.size) if tree else np.zeros(ends.size, np.int64)
    scratch = np.full(block.images * size, element[0])  # what lies around images stays
    sums = line_zeros(ROWS * vectors * LANES, total)
    stack = line_zeros(stack_lines(ends.size) * sums.size if tree else 0, total)
    for task in prange(team, blocks * splits):
        n0, share = task // splits * block.images, task % splits
        n1 = min(n0 + block.images, batch)
        begin_tiles(panels)
        for group in range(groups):
            lay_out_block(scratch, x, n0, n1, group * block.channels, block)
            multiply_positions(
                out, n0 * image_out + group * width, targets, as_words(scratch), rows,
                (n1 - n0) * block.positions, runs, ends, panels, panels.size // (groups * pages),
                group * pages, pages * share // splits, pages * (share + 1) // splits, width, vectors, tree,
                met, stack, sums,
            )  # fmt: skip
        end_tiles(panels)


def correlate_windows(
    out: np.ndarray, x: np.ndarray, w: np.ndarray, windows: Windows, arithmetic: Arithmetic,
    limits: tuple[int, ...], tree: bool = False,
) -> None:  # fmt: skip
    """The pixels of out[N, H, W, groups*O] that `windows` of x[N, .., .., C] make with w[groups, O, tap, c].

    limits: words, counted over all taps, at which chunks of a sum end (`windows.even_limits`)
    tree: chunks are groups of a batch (`numbers/batch_sums.py`)
    """
    groups, width, _, depth = w.shape
    if not out.size or not depth:
        out[...] = 0
        return
    vectors, image = arithmetic.vectors(width), (out.shape[1], out.shape[2], groups * width)
    t = tables(windows, x.shape[0], depth, arithmetic.per_word, image, limits)
    pages, blocks = -(-width // (vectors * LANES)), -(-x.shape[0] // t.block.images)
    splits = min(pages, max(1, 2 * numba.get_num_threads() // blocks))
    panels = pack_panels(w, t.kept, arithmetic, vectors * LANES, t.runs, t.ends)
    correlate(
        out.reshape(-1), out[0].size, x, panels, t.rows, t.targets, t.runs, t.ends, t.block, groups, width,
        vectors, splits, tree, arithmetic.element, arithmetic.sum,
    )  # fmt: skip


def multiply(
    a: np.ndarray, b: np.ndarray, arithmetic: Arithmetic, chunk: int, out: np.ndarray, tree: bool = False
) -> None:
    """out[M, N] = a[M, K] . b[N, K] as M images of one pixel; sums of `chunk` words at a time.

    tree: chunks are groups of a batch (`numbers/batch_sums.py`)
    """
    (rows, terms), columns = a.shape, b.shape[0]
    limits = even_limits(-(-terms // arithmetic.per_word), chunk)
    images, pixel = out.reshape(rows, 1, 1, columns), Windows(((0, 0),), (0,), Grid(1, 1, 1, 1))
    correlate_windows(
        images, a.reshape(rows, 1, 1, terms), b[None, :, None, :], pixel, arithmetic, limits, tree
    )
