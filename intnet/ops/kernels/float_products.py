"""float32 products and convolutions with the same bits on every machine.

The sum behind every result is fixed: `acc = fma32(a, b, acc)` from +0 with k ascending, in chunks
of CHUNK terms; the chunk sums are then added in ascending order. k runs over
  forward          (kernel row, kernel column, input channel of the group),
  input gradient   (kernel row, kernel column, output channel of the group), kernel not flipped,
  weight gradient  (output row, output column) of each image: such sums of groups of images meet in a
                   tree, and chunks begin anew in every group (`numbers/batch_sums.py`).
Padding and the holes of a stride are terms with a zero factor. A result of zero is always +0 (an
underflow could leave a -0 that a further zero term would turn into +0), so such terms may be left
out without a trace; they still count where chunks begin. Threads share out independent results
or whole chunks, so their number never changes a bit.

Arrays are NHWC, weights OIHW, all float32; infinities and NaN are the caller's to refuse. This file
checks shapes and lists taps; the loops are those of `tiles.py` and `position_sums.py`, and of
`depthwise.py` where every channel is a group.

Defined by `spec/float32.py: dot_units`, `spec/float32.py: batch_dot_units`.
"""

from functools import lru_cache

import numba
import numpy as np
from numpy.typing import NDArray

from intnet.errors import FormatError, ShapeError
from intnet.machine.buffers import empty
from intnet.machine.tile import LANES, vectors_of
from intnet.numbers.batch_sums import GROUP, chunks_in, chunks_of_group, node_of, settle, stack_lines
from intnet.numbers.fp32 import CHUNK
from intnet.ops.kernels import depthwise
from intnet.ops.kernels.position_sums import collect, position_chunks
from intnet.ops.kernels.tiles import FLOATS, correlate_windows, multiply
from intnet.ops.kernels.windows import (
    Pair,
    Windows,
    backward_windows,
    block_of,
    columns_of,
    even_limits,
    forward_windows,
    output_size,
)

__all__ = ["conv2d", "conv2d_input_grad", "conv2d_weight_grad", "matmul", "matmul_nt", "matmul_tn"]

F32 = NDArray[np.float32]

FLOAT = np.dtype(np.float32)
_HELD_WORDS = 1 << 24  # float32 words of chunk sums held at a time
_UNIT = 3 * CHUNK // 2  # positions of groups summed as one task at most: what it reads stays in a cache


def _checked(x: F32, dimensions: int, name: str) -> F32:
    """x as it is, a float32 array of so many dimensions."""
    if x.dtype != np.float32:
        raise FormatError(f"{name} must be float32, got {x.dtype}; convert with .astype(np.float32)")
    if x.ndim != dimensions:
        raise ShapeError(f"{name} must have {dimensions} dimensions, got shape {x.shape}")
    return x


def _operand(x: F32, dimensions: int, name: str) -> F32:
    """`_checked`, laid out as the loops read it."""
    return np.ascontiguousarray(_checked(x, dimensions, name))


def _conv_shape(image: Pair, channels: Pair, kernel: Pair, stride: Pair, padding: Pair, groups: int) -> Pair:
    """Output (height, width) of a convolution; `channels` is (input, output)."""
    if groups < 1 or channels[0] % groups or channels[1] % groups:
        raise ShapeError(f"{channels[0]} input and {channels[1]} output channels do not form {groups} groups")
    for size, width, step, zeros in zip(image, kernel, stride, padding, strict=True):
        if step < 1 or zeros < 0 or width < 1:
            raise ShapeError(f"stride {step}, kernel {width}, padding {zeros}: below 1, 1 or 0")
        if size + 2 * zeros < width:
            raise ShapeError(f"a kernel of {width} does not fit in {size} pixels with padding {zeros}")
    height, width = (output_size(image[a], kernel[a], stride[a], padding[a]) for a in (0, 1))
    return height, width


@lru_cache(maxsize=512)
def _limits(kept: tuple[int, ...], depth: int, total_taps: int) -> tuple[int, ...]:
    """Where each chunk of the full k ends, counted over the kept taps' terms only.

    `kept` lists the kept taps ascending; each has `depth` terms. A chunk of holes alone has no terms
    and is left out: it would add +0.
    """
    borders = np.append(np.arange(CHUNK, total_taps * depth, CHUNK), total_taps * depth)
    tap, channel = np.divmod(borders, max(1, depth))
    limits = np.unique(np.searchsorted(kept, tap) * depth + np.isin(tap, kept) * channel)
    return tuple(int(limit) for limit in limits if limit > 0)


# --- matrix products ----------------------------------------------------------------------------


def matmul_nt(a: F32, b: F32) -> F32:
    """a[M, K] @ b[N, K].T -> [M, N]: a linear layer's forward pass.

    Defined by `spec/convolution.py: conv32`.
    """
    a, b = _operand(a, 2, "a"), _checked(b, 2, "b")
    if a.shape[1] != b.shape[1]:
        raise ShapeError(f"product of {a.shape} and {b.shape} transposed: the inner sizes differ")
    out = empty((a.shape[0], b.shape[0]), np.float32)
    multiply(a, b, FLOATS, CHUNK, out)
    return out


def matmul(a: F32, b: F32) -> F32:
    """a[M, K] @ b[K, N] -> [M, N]. Defined by `spec/convolution.py: conv32_input_grad`."""
    return matmul_nt(a, _checked(b, 2, "b").T)


def matmul_tn(a: F32, b: F32) -> F32:
    """a[K, M].T @ b[K, N] -> [M, N]: a linear layer's weight gradient; k are the images of a batch.

    Defined by `spec/convolution.py: conv32_weight_grad`.
    """
    a, b = _operand(_checked(a, 2, "a").T, 2, "a"), _checked(b, 2, "b").T
    if a.shape[1] != b.shape[1]:
        raise ShapeError(f"product of {a.shape} and {b.shape} transposed: the inner sizes differ")
    out = empty((a.shape[0], b.shape[0]), np.float32)
    multiply(a, b, FLOATS, GROUP, out, tree=True)
    return out


# --- convolutions -------------------------------------------------------------------------------


def conv2d(x: F32, w: F32, stride: Pair = (1, 1), padding: Pair = (0, 0), groups: int = 1) -> F32:
    """x[N, H, W, Ci] convolved with w[Co, Ci/groups, kh, kw] -> [N, Ho, Wo, Co].

    Defined by `spec/convolution.py: conv32`.
    """
    x, w = _operand(x, 4, "x"), _operand(w, 4, "w")
    batch, height, width, channels = x.shape
    out_channels, depth, kh, kw = w.shape
    if depth * groups != channels:
        raise ShapeError(f"weights {w.shape} in {groups} groups do not take {channels} channels")
    rows, cols = _conv_shape((height, width), (channels, out_channels), (kh, kw), stride, padding, groups)
    if depthwise.fits(channels, out_channels, groups, (kh, kw)):
        return depthwise.forward(x, w, stride, padding, FLOAT)
    out = empty((batch, rows, cols, out_channels), np.float32)
    by_tap = w.reshape(groups, out_channels // groups, depth, kh * kw).transpose(0, 1, 3, 2)
    windows = forward_windows((height, width), (kh, kw), stride, padding)
    correlate_windows(out, x, by_tap, windows, FLOATS, even_limits(kh * kw * depth, CHUNK))
    return out


def conv2d_input_grad(
    e: F32, w: F32, input_hw: Pair, stride: Pair = (1, 1), padding: Pair = (0, 0), groups: int = 1
) -> F32:
    """Gradient of `conv2d` to x: e[N, Ho, Wo, Co], w[Co, Ci/groups, kh, kw] -> [N, H, W, Ci].

    Input rows and columns are taken by their remainder to the stride: within such a class the
    same kernel positions meet an error, and the others are holes.

    Defined by `spec/convolution.py: conv32_input_grad`.
    """
    e, w = _operand(e, 4, "e"), _operand(w, 4, "w")
    out_channels, depth, kh, kw = w.shape
    rows_cols = _conv_shape(input_hw, (depth * groups, out_channels), (kh, kw), stride, padding, groups)
    if e.shape[1:] != (*rows_cols, out_channels):
        raise ShapeError(f"error {e.shape} does not belong to an output of {(*rows_cols, out_channels)}")
    if depthwise.fits(depth * groups, out_channels, groups, (kh, kw)):
        return depthwise.input_grad(e, w, input_hw, stride, padding, FLOAT)
    per_group = out_channels // groups
    out = empty((e.shape[0], *input_hw, depth * groups), np.float32)
    if stride[0] > kh or stride[1] > kw:  # some pixels met no window
        out[...] = 0
    by_tap = w.reshape(groups, per_group, depth, kh * kw).transpose(0, 2, 3, 1)
    for windows in backward_windows(input_hw, (kh, kw), stride, padding):
        correlate_windows(out, e, by_tap, windows, FLOATS, _limits(windows.kept, per_group, kh * kw))
    return out


def conv2d_weight_grad(
    e: F32, x: F32, kernel_hw: Pair, stride: Pair = (1, 1), padding: Pair = (0, 0), groups: int = 1
) -> F32:
    """Gradient of `conv2d` to w: e[N, Ho, Wo, Co], x[N, H, W, Ci] -> [Co, Ci/groups, kh, kw].

    Defined by `spec/convolution.py: conv32_weight_grad`.
    """
    e, x = _operand(e, 4, "e"), _operand(x, 4, "x")
    batch, height, width, channels = x.shape
    out_channels = e.shape[3]
    rows, cols = _conv_shape((height, width), (channels, out_channels), kernel_hw, stride, padding, groups)
    if e.shape != (batch, rows, cols, out_channels):
        raise ShapeError(
            f"error {e.shape} and input {x.shape} do not belong together: {rows} x {cols} windows"
        )
    if depthwise.fits(channels, out_channels, groups, kernel_hw):
        return depthwise.weight_grad(e, x, kernel_hw, stride, padding, FLOAT)
    depth = channels // groups
    if not (out_channels and depth and batch):
        return np.zeros((out_channels, depth, *kernel_hw), np.float32)
    windows = forward_windows((height, width), kernel_hw, stride, padding)
    out = _position_sums(e, x, windows, stride[1] * depth, groups)
    return out.reshape(out_channels, depth, *kernel_hw)


def _position_sums(e: F32, x: F32, windows: Windows, step: int, groups: int) -> F32:
    """Flat [Co, Ci/groups, tap]: e[N, .., .., Co] times every tap of `windows` of x[N, H, W, Ci].

    step: words from one window to the next. A unit is a group of images, or a node of the tree with groups of
    one chunk each, which then is one. Chunk sums are held of a node of units at a time, or of a part of one.
    """
    depth, width = x.shape[3] // groups, e.shape[3] // groups
    block, taps = block_of(windows, x.shape[0], depth, 1), np.array(windows.taps)
    vectors, span = vectors_of(FLOAT), int(taps[:, 0].max() - taps[:, 0].min()) + 1
    starts, source = columns_of(block, windows, vectors)
    size = starts.size * LANES
    joined = node_of(_UNIT // (GROUP * block.positions)) if GROUP * block.positions <= CHUNK else 1
    of_unit = chunks_of_group(block.positions)
    chunks = chunks_in(x.shape[0] * block.positions, block.positions)
    if joined > 1:
        chunks = -(-chunks // joined)
    held = max(1, _HELD_WORDS // (size * e.shape[3]))
    of_node = node_of(held // of_unit) * of_unit
    firsts = range(0, chunks, of_node)
    stack, top = np.zeros((stack_lines(len(firsts)), source.size * e.shape[3]), np.float32), 0
    for node, first in enumerate(firsts):
        end = min(first + of_node, chunks)
        stack[top] = 0
        for begin in range(first, end, held):
            now = min(held, end - begin)
            parts = empty((now * size * e.shape[3],), np.float32)
            splits = min(starts.size // vectors, -(-2 * numba.get_num_threads() // now))
            position_chunks(
                parts, e.reshape(-1), x, starts, step, block, windows.grid, span, groups, width, vectors,
                joined, begin, now, splits,
            )  # fmt: skip
            levels = stack_lines(-(-now // of_unit))
            collect(stack[top], parts, size, source, now, of_unit, levels)
        top = settle(stack, top, node, end == chunks) + 1
    return stack[0]
