"""The tile, the heart of every product: LLVM code behind a plain twin that gives the same bits.

    multiply_rows(vectors, out, ...)    a tile of ROWS x LANES (or 2*LANES) sums, whose rows lie in windows
    multiply_columns(out, ...)          of OUTPUTS x 1 to 3*LANES, whose vectors do: for sums over positions
    begin_tiles(words), end_tiles(words)    around the tiles of a task
    line_zeros(size, element)           memory for what a tile reads and writes by vectors

What a word is and what a multiply-add of two words means is `machine/words.py`'s.
Every sum is a chain of its own in the order of the twin, so neither the vector's width nor the
instruction changes a bit. The code itself stands in `machine/tile_code.py` and `machine/amx.py`.
"""

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload
from numpy.typing import NDArray

from intnet.machine import amx, tile_code
from intnet.machine.jit import rule
from intnet.machine.words import AMX, LANES, LLVM, OUTPUTS, ROWS, add_product, vectors_of

__all__ = [
    "LANES",
    "OUTPUTS",
    "ROWS",
    "SPARE",
    "begin_tiles",
    "end_tiles",
    "line_zeros",
    "multiply_columns",
    "multiply_rows",
    "vectors_of",
]

Flat = np.ndarray
I64 = NDArray[np.int64]
SPARE = (
    amx.WORDS - 1 if AMX else 0
)  # lines that `multiply_rows` may read behind fours in `b`; they count nothing


@rule
def line_zeros(size: int, element: Flat) -> Flat:
    """Zeros [size] of the type of `element`, from an address that is a multiple of 64.

    No vector of a tile then lies across two cache lines: such a vector costs two reads, and to read one
    that was just written costs a wait, which made sums of groups on a stack a third slower.
    """
    memory = np.zeros(size + 64 // element.itemsize, element.dtype)
    first = -np.int64(memory.ctypes.data) % 64 // element.itemsize
    return memory[first : first + size]


def multiply_rows(
    vectors: int, out: Flat, at: int, stride: int, a: Flat, rows: I64, row0: int, base: int, runs: I64,
    group0: int, group1: int, b: Flat, b_at: int, ends: I64, met: I64, stack: Flat,
) -> None:  # fmt: skip
    """out[at + r*stride + j] = sum of a-word * b-word over the runs of groups group0 .. group1-1.

    Run i is runs[3i] (offset), runs[3i + 1] (length >= 1) and runs[3i + 2] (place in b); its word k of row r
    is a[base + rows[row0 + r] + offset + k], that of column j b[b_at + (place + k)*width + j] with
    width = vectors*LANES. j < width, r < ROWS; 1 or 2 vectors, at least one run.
    The sums of groups come one after another on a stack. Group g ends with run ends[g] - 1; then the two on
    top meet met[g] times, and after the last group one is left. One call for all groups of a tile: that they
    end costs little more than their meetings, and what a tile needs is made ready once. stack: scratch of
    tiles, as many as there are sums at a time. Four 8-bit products come in one group, whose sums start at
    the int32 of group g before b_at, b[b_at - (g + 1)*width + j].
    """
    width = vectors * LANES
    starts = base + rows[row0 : row0 + ROWS]
    sums: list[np.ndarray] = []
    for group in range(group0, group1):
        tile = np.zeros((ROWS, width), out.dtype)
        if b.dtype == np.uint32:
            tile += b[b_at - (group + 1) * width : b_at - group * width].view(np.int32)
        for run in range(ends[group - 1] if group else 0, ends[group]):
            offset, length, place = map(int, runs[3 * run : 3 * run + 3])
            for k in range(length):
                left = a[starts + offset + k][:, None]
                right = b[b_at + (place + k) * width : b_at + (place + k + 1) * width][None, :]
                tile = add_product(left, right, tile)
        if out.dtype == np.float32:
            tile += np.float32(0)  # -0, which only an underflow leaves, becomes +0
        for _ in range(met[group]):
            tile = sums.pop() + tile
        sums.append(tile)
    for r in range(ROWS):
        out[at + r * stride : at + r * stride + width] = sums[-1][r]


def multiply_columns(
    out: Flat, at: int, stride: int, a: Flat, columns: I64, column0: int, step: int, runs: I64, group0: int,
    group1: int, b: Flat, b_at: int, line: int, ends: I64, met: I64, stack: Flat,
) -> None:  # fmt: skip
    """out[at + r*stride + v*LANES + j] = sums as of `multiply_rows`, r < OUTPUTS, v < vectors_of(out's type).

    The vectors lie in `a`: word k of a run of vector v begins at a[columns[column0 + v] + offset + k*step].
    The rows are words side by side in `b`: that of row r is b[b_at + (place + k)*line + r]. Words of four
    8-bit codes are uint8 in `a`, int8 in `b`, and their sums start at b[b_at - (g + 1)*line + r].
    """
    lane = np.arange(LANES)
    starts = (columns[column0 : column0 + vectors_of(out.dtype), None] + lane).ravel()
    sums: list[np.ndarray] = []
    for group in range(group0, group1):
        tile = np.zeros((starts.size, OUTPUTS), out.dtype)
        if b.dtype == np.uint32:
            first = b_at - (group + 1) * line
            tile += b[first : first + OUTPUTS].view(np.int32)
        for run in range(ends[group - 1] if group else 0, ends[group]):
            offset, length, place = map(int, runs[3 * run : 3 * run + 3])
            for k in range(length):
                words = b[b_at + (place + k) * line : b_at + (place + k) * line + OUTPUTS]
                tile = add_product(a[starts + offset + k * step][:, None], words[None, :], tile)
        if out.dtype == np.float32:
            tile += np.float32(0)
        for _ in range(met[group]):
            tile = sums.pop() + tile
        sums.append(tile)
    for r in range(OUTPUTS):
        out[at + r * stride : at + r * stride + starts.size] = sums[-1][:, r]


def begin_tiles(words: Flat) -> None:
    """What a thread needs ahead of tiles of such words."""


def end_tiles(words: Flat) -> None:
    """After the last of them."""


# --- in kernels ---------------------------------------------------------------------------------


def _flat(kinds: tuple[Any, ...], *arrays: Any) -> bool:
    """Whether these are types of contiguous 1-D arrays of `kinds`; anything else is a typing error."""
    return all(
        isinstance(x, types.Array) and (x.ndim, x.layout) == (1, "C") and x.dtype in kinds for x in arrays
    )


def _by_amx(words: Any) -> bool:
    return AMX and getattr(words, "dtype", None) == types.uint32


@overload(multiply_rows, inline="always")
def _rows_in_kernels(vectors: Any, out: Any, at: Any, stride: Any, a: Any, rows: Any, row0: Any, base: Any,
                     runs: Any, group0: Any, group1: Any, b: Any, b_at: Any, ends: Any, met: Any,
                     stack: Any) -> Any:  # fmt: skip
    codes = amx if _by_amx(a) else tile_code
    one, two = codes.rows1, codes.rows2

    def code(vectors: Any, out: Any, at: Any, stride: Any, a: Any, rows: Any, row0: Any, base: Any,
             runs: Any, group0: Any, group1: Any, b: Any, b_at: Any, ends: Any, met: Any,
             stack: Any) -> None:  # fmt: skip
        if vectors == 1:
            one(out, at, stride, a, rows, row0, base, runs, group0, group1, b, b_at, ends, met, stack)
        else:
            two(out, at, stride, a, rows, row0, base, runs, group0, group1, b, b_at, ends, met, stack)

    same = _flat((getattr(out, "dtype", None),), stack) and _flat((types.int64,), rows, runs, ends, met)
    return code if _flat(tuple(LLVM), out, a, b) and same else None


overload(begin_tiles, inline="always")(
    lambda words: (lambda words: amx.begin()) if _by_amx(words) else lambda words: None
)
overload(end_tiles, inline="always")(
    lambda words: (lambda words: amx.end()) if _by_amx(words) else lambda words: None
)


@overload(multiply_columns, inline="always")
def _columns_in_kernels(out: Any, at: Any, stride: Any, a: Any, columns: Any, column0: Any, step: Any,
                        runs: Any, group0: Any, group1: Any, b: Any, b_at: Any, line: Any, ends: Any,
                        met: Any, stack: Any) -> Any:  # fmt: skip
    def code(out: Any, at: Any, stride: Any, a: Any, columns: Any, column0: Any, step: Any, runs: Any,
             group0: Any, group1: Any, b: Any, b_at: Any, line: Any, ends: Any, met: Any,
             stack: Any) -> None:  # fmt: skip
        tile_code.columns(
            out, at, stride, a, columns, column0, step, runs, group0, group1, b, b_at, line, ends, met, stack
        )

    same = _flat((getattr(out, "dtype", None),), stack) and _flat((types.int64,), columns, runs, ends, met)
    return code if _flat(tuple(LLVM), out, a, b) and same else None
