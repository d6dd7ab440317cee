"""Depthwise convolution, float32 and integer: every channel has a kernel of its own, and is a vector's lane.

    y[n, oy, ox, c]  = sum over ky, kx of        x[n, oy*sh + ky - ph, ox*sw + kx - pw, c] * w[c, 0, ky, kx]
    dx[n, y, x, c]   = sum over ky, kx of        e[n, (y + ph - ky)/sh, (x + pw - kx)/sw, c] * w[c, 0, ky, kx]
    dw[c, 0, ky, kx] = sum over n, oy, ox of     e[n, oy, ox, c] * x[n, oy*sh + ky - ph, ox*sw + kx - pw, c]

The same terms in the same order as `float_products.py` and `int_products.py` sum them, so the same bits:
there a tile's lanes are the outputs of a group, of which a depthwise convolution has one. Terms outside the
image, and those that a stride skips, are left out; they count where chunks of positions begin
(`numbers/batch_sums.py`).
"""

import numpy as np

from intnet.machine.buffers import empty
from intnet.machine.instructions import shaped
from intnet.machine.jit import pjit, prange
from intnet.numbers.batch_sums import add_chunks, chunk_rows, chunks_in, chunks_of_group, stack_lines
from intnet.numbers.fp32 import CHUNK
from intnet.ops.kernels.channels import alike, multiply_add
from intnet.ops.kernels.windows import Pair, output_size


def fits(channels: int, outputs: int, groups: int, kernel: Pair) -> bool:
    """Whether a convolution is one of these; its taps must be one chunk."""
    return 1 < groups == channels == outputs and kernel[0] * kernel[1] <= CHUNK


# --- loops --------------------------------------------------------------------------------------


@pjit
def _forward(
    team: int, x: np.ndarray, w: np.ndarray, kernel: Pair, stride: Pair, padding: Pair, out: np.ndarray
) -> None:
    height, width = x.shape[1], x.shape[2]
    for task in prange(team, out.shape[0] * out.shape[1]):
        n, oy = task // out.shape[1], task % out.shape[1]
        top, zero = oy * stride[0] - padding[0], out.dtype.type(0)
        for ox in range(out.shape[2]):
            line, left = out[n, oy, ox], ox * stride[1] - padding[1]
            line[:] = zero
            for ky in range(max(0, -top), min(kernel[0], height - top)):
                for kx in range(max(0, -left), min(kernel[1], width - left)):
                    pixel, factors = x[n, top + ky, left + kx], w[ky * kernel[1] + kx]
                    for c in range(line.size):
                        line[c] = multiply_add(pixel[c], factors[c], line[c])
            for c in range(line.size):
                line[c] += zero  # -0, which only an underflow leaves, becomes +0


@pjit
def _input_grad(
    team: int, e: np.ndarray, w: np.ndarray, kernel: Pair, stride: Pair, padding: Pair, out: np.ndarray
) -> None:
    rows, cols = e.shape[1], e.shape[2]
    for task in prange(team, out.shape[0] * out.shape[1]):
        n, y = task // out.shape[1], task % out.shape[1]
        zero = out.dtype.type(0)
        for x in range(out.shape[2]):
            line = out[n, y, x]
            line[:] = zero
            for ky in range(kernel[0]):
                down = y + padding[0] - ky
                if down < 0 or down % stride[0] or down // stride[0] >= rows:
                    continue
                for kx in range(kernel[1]):
                    right = x + padding[1] - kx
                    if right < 0 or right % stride[1] or right // stride[1] >= cols:
                        continue
                    errors, factors = e[n, down // stride[0], right // stride[1]], w[ky * kernel[1] + kx]
                    for c in range(line.size):
                        line[c] = multiply_add(errors[c], factors[c], line[c])
            for c in range(line.size):
                line[c] += zero


@pjit
def _weight_grad(
    team: int, e: np.ndarray, x: np.ndarray, kernel: Pair, stride: Pair, padding: Pair, parts: np.ndarray
) -> None:
    """parts[chunk, tap, c]: sums over the positions of each chunk; zero-filled `parts`."""
    height, width, rows, cols = x.shape[1], x.shape[2], e.shape[1], e.shape[2]
    for chunk in prange(team, parts.shape[0]):
        begin, end = chunk_rows(chunk, rows * cols, e.shape[0] * rows * cols)
        for m in range(begin, end):
            n, oy, ox = m // (rows * cols), m // cols % rows, m % cols
            errors, top, left = e[n, oy, ox], oy * stride[0] - padding[0], ox * stride[1] - padding[1]
            for ky in range(max(0, -top), min(kernel[0], height - top)):
                for kx in range(max(0, -left), min(kernel[1], width - left)):
                    pixel, line = x[n, top + ky, left + kx], parts[chunk, ky * kernel[1] + kx]
                    for c in range(line.size):
                        line[c] = multiply_add(errors[c], pixel[c], line[c])


@pjit
def _collect(team: int, parts: np.ndarray, per_group: int, levels: int, out: np.ndarray) -> None:
    """out[tap, c] += the sum of parts[chunk, tap, c], `per_group` chunks a group of images."""
    chunks, taps, channels = parts.shape
    for tap in prange(team, taps):
        stack = np.empty((levels, channels), out.dtype)
        add_chunks(
            shaped(parts, (parts.size,)), tap * channels, taps * channels, chunks, per_group, stack, out[tap]
        )


# --- functions ----------------------------------------------------------------------------------


def _by_tap(w: np.ndarray, kind: np.dtype) -> np.ndarray:
    """w[C, 1, kh, kw] as [tap, C]."""
    return np.ascontiguousarray(w.reshape(w.shape[0], -1).T, kind)


def forward(x: np.ndarray, w: np.ndarray, stride: Pair, padding: Pair, kind: np.dtype) -> np.ndarray:
    """y of x[N, H, W, C] and w[C, 1, kh, kw] in type `kind`, proven to hold it; as is done below.

    Defined by `spec/convolution.py: conv2d`, `spec/convolution.py: conv32`.
    """
    kernel = w.shape[2], w.shape[3]
    rows, cols = (output_size(x.shape[1 + a], kernel[a], stride[a], padding[a]) for a in (0, 1))
    out = empty((x.shape[0], rows, cols, x.shape[3]), kind)
    _forward(*alike(kind, x), _by_tap(w, kind), kernel, stride, padding, out)
    return out


def input_grad(
    e: np.ndarray, w: np.ndarray, hw: Pair, stride: Pair, padding: Pair, kind: np.dtype
) -> np.ndarray:
    """dx[N, *hw, C] of e[N, Ho, Wo, C] and w[C, 1, kh, kw].

    Defined by `spec/convolution.py: conv2d_input_grad`, `spec/convolution.py: conv32_input_grad`.
    """
    out = empty((e.shape[0], *hw, e.shape[3]), kind)
    kernel = w.shape[2], w.shape[3]
    _input_grad(*alike(kind, e), _by_tap(w, kind), kernel, stride, padding, out)
    return out


def weight_grad(
    e: np.ndarray, x: np.ndarray, kernel: Pair, stride: Pair, padding: Pair, kind: np.dtype
) -> np.ndarray:
    """dw[C, 1, kh, kw] of e[N, Ho, Wo, C] and x[N, H, W, C].

    Defined by `spec/convolution.py: conv2d_weight_grad`, `spec/convolution.py: conv32_weight_grad`.
    """
    channels, taps = x.shape[3], kernel[0] * kernel[1]
    positions = e.shape[1] * e.shape[2]
    chunks, per_group = chunks_in(e.shape[0] * positions, positions), chunks_of_group(positions)
    parts, out = empty((chunks, taps, channels), kind), np.zeros((taps, channels), kind)
    parts[...] = 0
    _weight_grad(*alike(kind, e, x), kernel, stride, padding, parts)
    _collect(parts, per_group, stack_lines(-(-chunks // per_group)), out)
    return np.ascontiguousarray(out.T).reshape(channels, 1, *kernel)
