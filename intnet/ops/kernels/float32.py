"""float32 products, convolutions and column sums with the same bits on every machine.

The sum behind every result is fixed: `acc = fma32(a, b, acc)` from +0 with k ascending, in chunks
of CHUNK terms; the chunk sums are then added in ascending order. k runs over
  forward          (kernel row, kernel column, input channel of the group),
  input gradient   (kernel row, kernel column, output channel of the group), kernel not flipped,
  weight gradient  (batch, output row, output column).
Padding and the holes of a stride are terms with a zero factor. A result of zero is always +0 (an
underflow could leave a -0 that a further zero term would turn into +0), so such terms may be left
out without a trace; they still count where chunks begin. Threads share out independent results
or whole chunks, so their number never changes a bit.

Arrays are NHWC, weights OIHW, all float32; infinities and NaN are the caller's to refuse.
This file checks shapes, lists taps and packs weights. Read next: `float32_loops.py`.
"""

import numpy as np
from numpy.typing import NDArray

from intnet.errors import FormatError, ShapeError
from intnet.ops.kernels.float32_loops import (
    CHUNK,
    TILE,
    Target,
    Windows,
    add_chunks,
    depthwise_product,
    depthwise_weight_gradient_chunks,
    dot_chunks,
    gather_product,
    sum_chunks,
    weight_gradient_chunks,
)
from intnet.ops.kernels.float32_tile import LANES, ROWS

__all__ = [
    "conv2d",
    "conv2d_input_grad",
    "conv2d_weight_grad",
    "dot_rows",
    "matmul",
    "matmul_nt",
    "matmul_tn",
    "sum_rows",
]

F32 = NDArray[np.float32]
I64 = NDArray[np.int64]
Pair = tuple[int, int]

# Shares of the work offered to the threads, and float32 words of chunk sums held at a time.
_TASKS = 16
_HELD_WORDS = 1 << 24


# --- checks and packing -------------------------------------------------------------------------


def _operand(x: F32, dimensions: int, name: str) -> F32:
    if x.dtype != np.float32:
        raise FormatError(f"{name} must be float32, got {x.dtype}; convert with .astype(np.float32)")
    if x.ndim != dimensions:
        raise ShapeError(f"{name} must have {dimensions} dimensions, got shape {x.shape}")
    return np.ascontiguousarray(x)


def _out_size(size: int, kernel: int, stride: int, padding: int) -> int:
    if stride < 1 or padding < 0 or kernel < 1:
        raise ShapeError(f"stride {stride}, kernel {kernel}, padding {padding}: below 1, 1 or 0")
    out = (size + 2 * padding - kernel) // stride + 1
    if size + 2 * padding < kernel:
        raise ShapeError(f"a kernel of {kernel} does not fit in {size} pixels with padding {padding}")
    return out


def _conv_shape(image: Pair, channels: Pair, kernel: Pair, stride: Pair, padding: Pair, groups: int) -> Pair:
    """Output (height, width) of a convolution; `channels` is (input, output)."""
    if groups < 1 or channels[0] % groups or channels[1] % groups:
        raise ShapeError(f"{channels[0]} input and {channels[1]} output channels do not form {groups} groups")
    return (
        _out_size(image[0], kernel[0], stride[0], padding[0]),
        _out_size(image[1], kernel[1], stride[1], padding[1]),
    )


def _taps(kernel: Pair, padding: Pair) -> I64:
    """Offset of the source pixel per kernel position, rows then columns: int64 [kh * kw, 2]."""
    return np.array(
        [(ky - padding[0], kx - padding[1]) for ky in range(kernel[0]) for kx in range(kernel[1])], np.int64
    )


def _runs(taps: I64, joined: bool) -> I64:
    """Taps as runs (row, column, first tap, taps); taps side by side are joined if `joined`."""
    runs: list[list[int]] = []
    for t, (h, w) in enumerate(taps.tolist()):
        if joined and runs and [h, w] == [runs[-1][0], runs[-1][1] + runs[-1][3]]:
            runs[-1][3] += 1
        else:
            runs.append([h, w, t, 1])
    return np.array(runs, np.int64)


def _chunk_ends(kept: I64, depth: int, total_taps: int) -> I64:
    """Where each chunk of the full k ends, counted over the kept taps' terms only.

    `kept` lists the kept taps ascending; each has `depth` terms. There is at least one chunk.
    """
    ends = []
    for chunk_end in range(CHUNK, total_taps * depth + CHUNK, CHUNK):
        tap, channel = divmod(min(chunk_end, total_taps * depth), depth)
        position = int(np.searchsorted(kept, tap))
        inside = channel if position < kept.size and kept[position] == tap else 0
        ends.append(position * depth + inside)
    return np.array(ends, np.int64)


def _panels(weights: F32) -> F32:
    """[groups, k, o] packed as flat [groups, panel of o, k, LANES], zeros after the last o."""
    groups, terms, width = weights.shape
    panels = -(-width // LANES)
    if width < panels * LANES:
        padded = np.zeros((groups, terms, panels * LANES), np.float32)
        padded[:, :, :width] = weights
        weights = padded
    split = weights.reshape(groups, terms, panels, LANES)
    return np.ascontiguousarray(split.transpose(0, 2, 1, 3)).reshape(-1)


def _product(
    out: F32, source: F32, weights: F32, win: Windows, taps: I64, ends: I64, to: Target, groups: int
) -> None:
    """Run the gather kernel that fits; weights is [groups, k, o]."""
    positions = out.size // max(to.height * to.width * to.channels, 1) * win.rows * win.cols
    if groups == win.channels == to.channels and groups > 1:
        flat = np.ascontiguousarray(weights[:, :, 0].T).reshape(-1)
        depthwise_product(out.reshape(-1), source.reshape(-1), flat, win, taps, ends, to, positions)
        return
    panels = -(-(to.channels // groups) // LANES)
    tasks = min(-(-positions // ROWS), 2 * _TASKS)
    splits = min(panels, -(-_TASKS // max(tasks, 1)))
    gather_product(
        out.reshape(-1),
        source.reshape(-1),
        _panels(weights),
        win,
        _runs(taps, groups == 1),
        weights.shape[1],
        ends,
        to,
        groups,
        positions,
        tasks,
        splits,
    )


# --- matrix products ----------------------------------------------------------------------------


def matmul(a: F32, b: F32) -> F32:
    """a[M, K] @ b[K, N] -> [M, N]."""
    a, b = _operand(a, 2, "a"), _operand(b, 2, "b")
    (rows, terms), columns = a.shape, b.shape[1]
    if b.shape[0] != terms:
        raise ShapeError(f"matmul of {a.shape} and {b.shape}: the inner sizes differ")
    out = np.zeros((rows, columns), np.float32)
    if out.size and terms:
        ends = np.append(np.arange(CHUNK, terms, CHUNK), terms)
        win, to = Windows(1, 1, terms, 1, 1, 1, 1), Target(1, 1, columns, 0, 0, 1, 1)
        _product(out, a, b[None], win, np.zeros((1, 2), np.int64), ends, to, 1)
    return out


def matmul_nt(a: F32, b: F32) -> F32:
    """a[M, K] @ b[N, K].T -> [M, N]: a linear layer's forward pass."""
    return matmul(a, _operand(b, 2, "b").T)


def matmul_tn(a: F32, b: F32) -> F32:
    """a[K, M].T @ b[K, N] -> [M, N]: a linear layer's weight gradient."""
    return matmul(_operand(a, 2, "a").T, b)


# --- convolutions -------------------------------------------------------------------------------


def conv2d(x: F32, w: F32, stride: Pair = (1, 1), padding: Pair = (0, 0), groups: int = 1) -> F32:
    """x[N, H, W, Ci] convolved with w[Co, Ci/groups, kh, kw] -> [N, Ho, Wo, Co]."""
    x, w = _operand(x, 4, "x"), _operand(w, 4, "w")
    batch, height, width, channels = x.shape
    out_channels, depth, *kernel = w.shape
    if depth * groups != channels:
        raise ShapeError(f"weights {w.shape} in {groups} groups do not take {channels} channels")
    pair = (kernel[0], kernel[1])
    rows, cols = _conv_shape((height, width), (channels, out_channels), pair, stride, padding, groups)
    out = np.zeros((batch, rows, cols, out_channels), np.float32)
    taps = _taps(pair, padding)
    ends = _chunk_ends(np.arange(len(taps)), depth, len(taps))
    per_group = w.reshape(groups, out_channels // groups, depth, len(taps))
    packed = per_group.transpose(0, 3, 2, 1).reshape(groups, len(taps) * depth, -1)
    win = Windows(height, width, channels, stride[0], stride[1], rows, cols)
    if out.size:
        _product(out, x, packed, win, taps, ends, Target(rows, cols, out_channels, 0, 0, 1, 1), groups)
    return out


def conv2d_input_grad(
    e: F32, w: F32, input_hw: Pair, stride: Pair = (1, 1), padding: Pair = (0, 0), groups: int = 1
) -> F32:
    """Gradient of `conv2d` to x: e[N, Ho, Wo, Co], w[Co, Ci/groups, kh, kw] -> [N, H, W, Ci].

    Input rows and columns are taken by their remainder to the stride: within such a class the
    same kernel positions meet an error, and the others are holes.
    """
    e, w = _operand(e, 4, "e"), _operand(w, 4, "w")
    out_channels, depth, kh, kw = w.shape
    rows_cols = _conv_shape(input_hw, (depth * groups, out_channels), (kh, kw), stride, padding, groups)
    if e.shape[1:] != (*rows_cols, out_channels):
        raise ShapeError(f"error {e.shape} does not belong to an output of {(*rows_cols, out_channels)}")
    height, width = input_hw
    per_group = out_channels // groups
    out = np.zeros((e.shape[0], height, width, depth * groups), np.float32)
    split = w.reshape(groups, per_group, depth, kh * kw).transpose(0, 3, 1, 2)  # group, tap, o, i
    for first_h in range(min(stride[0], height)):
        for first_w in range(min(stride[1], width)):
            up, left = first_h + padding[0], first_w + padding[1]
            kept = np.array(
                [k for k in range(kh * kw) if (up - k // kw) % stride[0] == 0 == (left - k % kw) % stride[1]],
                np.int64,
            )
            if not (kept.size and out.size):
                continue
            taps = np.stack([(up - kept // kw) // stride[0], (left - kept % kw) // stride[1]], axis=1)
            packed = split[:, kept].reshape(groups, kept.size * per_group, depth)
            rows, cols = -(-(height - first_h) // stride[0]), -(-(width - first_w) // stride[1])
            win = Windows(*rows_cols, out_channels, 1, 1, rows, cols)
            to = Target(height, width, depth * groups, first_h, first_w, *stride)
            ends = _chunk_ends(kept, per_group, kh * kw)
            _product(out, e, packed, win, np.ascontiguousarray(taps), ends, to, groups)
    return out


def conv2d_weight_grad(
    e: F32, x: F32, kernel_hw: Pair, stride: Pair = (1, 1), padding: Pair = (0, 0), groups: int = 1
) -> F32:
    """Gradient of `conv2d` to w: e[N, Ho, Wo, Co], x[N, H, W, Ci] -> [Co, Ci/groups, kh, kw]."""
    e, x = _operand(e, 4, "e"), _operand(x, 4, "x")
    batch, height, width, channels = x.shape
    out_channels = e.shape[3]
    kh, kw = kernel_hw
    rows, cols = _conv_shape((height, width), (channels, out_channels), kernel_hw, stride, padding, groups)
    if e.shape != (batch, rows, cols, out_channels):
        raise ShapeError(
            f"error {e.shape} and input {x.shape} do not belong together: {rows} x {cols} windows"
        )
    taps = _taps(kernel_hw, padding)
    win = Windows(height, width, channels, stride[0], stride[1], rows, cols)
    runs = _runs(taps, groups == 1)
    depth, per_group = channels // groups, out_channels // groups
    terms, positions = len(taps) * depth, batch * rows * cols
    tiles, panels = -(-terms // ROWS), -(-per_group // LANES)
    depthwise = groups == channels == out_channels and groups > 1
    size = len(taps) * channels if depthwise else groups * tiles * panels * TILE
    total, flat_e, flat_x = np.zeros(size, np.float32), e.reshape(-1), x.reshape(-1)
    chunks = -(-positions // CHUNK)
    held = min(chunks, max(_TASKS, _HELD_WORDS // max(size, 1)))
    for first in range(0, chunks, max(held, 1)):
        now = min(held, chunks - first)
        parts = np.zeros(now * size, np.float32)
        if depthwise:
            depthwise_weight_gradient_chunks(parts, flat_e, flat_x, win, taps, positions, first, now)
        else:
            splits = min(tiles, -(-_TASKS // now))
            weight_gradient_chunks(
                parts, flat_e, flat_x, win, runs, terms, out_channels, groups, positions, first, now, splits
            )
        add_chunks(total, parts, now)
    if depthwise:
        return np.ascontiguousarray(total.reshape(kh, kw, 1, channels).transpose(3, 2, 0, 1))
    product = total.reshape(groups, tiles, panels, ROWS, LANES).transpose(0, 2, 4, 1, 3)
    product = product.reshape(groups, panels * LANES, tiles * ROWS)[:, :per_group, :terms]
    return np.ascontiguousarray(product.reshape(out_channels, kh, kw, depth).transpose(0, 3, 1, 2))


# --- column sums --------------------------------------------------------------------------------


def sum_rows(x: F32) -> F32:
    """Sum of each column of x[M, C] -> [C]: plain additions, rows ascending, in chunks of CHUNK."""
    x = _operand(x, 2, "x")
    rows, columns = x.shape
    chunks = -(-rows // CHUNK)
    parts, total = np.zeros(chunks * columns, np.float32), np.zeros(columns, np.float32)
    sum_chunks(parts, x.reshape(-1), rows, columns)
    add_chunks(total, parts, chunks)
    return total


def dot_rows(x: F32, y: F32) -> F32:
    """Sum of x * y over each column of [M, C] -> [C], with `fma32`, rows ascending, in chunks of CHUNK."""
    x, y = _operand(x, 2, "x"), _operand(y, 2, "y")
    if x.shape != y.shape:
        raise ShapeError(f"dot_rows of {x.shape} and {y.shape}: the shapes differ")
    rows, columns = x.shape
    chunks = -(-rows // CHUNK)
    parts, total = np.zeros(chunks * columns, np.float32), np.zeros(columns, np.float32)
    dot_chunks(parts, x.reshape(-1), y.reshape(-1), rows, columns)
    add_chunks(total, parts, chunks)
    return total
