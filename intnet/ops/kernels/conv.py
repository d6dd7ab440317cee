"""Integer convolutions: forward, input gradient, weight gradient, exact.

Activations x and errors e are (N, H, W, C), weights (Cout, Cin/groups, kh, kw). Each image is laid
out as a matrix of patches in a buffer of its thread and multiplied by `dot.dot_tile`; nothing is
laid out for the whole batch. Types and bounds come from `gemm.plan`.

    y[n, oy, ox, o]  = sum over ky, kx, c of  x[n, oy*sh + ky - ph, ox*sw + kx - pw, c] * w[o, c, ky, kx]
"""

import numpy as np

from intnet._jit import njit, pjit, prange
from intnet.ops.kernels.dot import dot_tile
from intnet.ops.kernels.gemm import Plan

Pair = tuple[int, int]


def output_size(size: int, kernel: int, stride: int, padding: int) -> int:
    """Positions of a window along one axis."""
    return (size + 2 * padding - kernel) // stride + 1


@njit
def _patches(
    image: np.ndarray, c0: int, kernel: Pair, stride: Pair, padding: Pair, wide: int, out: np.ndarray
) -> None:
    """out[oy*wide + ox, (ky, kx, c)] = image[oy*sh + ky - ph, ox*sw + kx - pw, c0 + c], 0 outside."""
    height, width = image.shape[0], image.shape[1]
    channels = out.shape[1] // (kernel[0] * kernel[1])
    for p in range(out.shape[0]):
        row = out[p]
        y0, x0 = (p // wide) * stride[0] - padding[0], (p % wide) * stride[1] - padding[1]
        at = 0
        for ky in range(kernel[0]):
            for kx in range(kernel[1]):
                y, x = y0 + ky, x0 + kx
                target = row[at : at + channels]
                if 0 <= y < height and 0 <= x < width:
                    source = image[y, x, c0 : c0 + channels]
                    for c in range(channels):
                        target[c] = source[c]
                else:
                    for c in range(channels):
                        target[c] = 0
                at += channels


@njit
def _back_patches(
    error: np.ndarray, c0: int, kernel: Pair, stride: Pair, padding: Pair, wide: int, out: np.ndarray
) -> None:
    """out[y*wide + x, (ky, kx, o)] = the error whose window position (ky, kx) reads input (y, x), or 0."""
    height, width = error.shape[0], error.shape[1]
    channels = out.shape[1] // (kernel[0] * kernel[1])
    for p in range(out.shape[0]):
        row = out[p]
        at = 0
        for ky in range(kernel[0]):
            for kx in range(kernel[1]):
                y, x = p // wide + padding[0] - ky, p % wide + padding[1] - kx
                target = row[at : at + channels]
                hit = y >= 0 and x >= 0 and y % stride[0] == 0 and x % stride[1] == 0
                if hit and y // stride[0] < height and x // stride[1] < width:
                    source = error[y // stride[0], x // stride[1], c0 : c0 + channels]
                    for c in range(channels):
                        target[c] = source[c]
                else:
                    for c in range(channels):
                        target[c] = 0
                at += channels


@njit
def _transposed(matrix: np.ndarray, out: np.ndarray) -> None:
    """out = matrix^T."""
    for i in range(matrix.shape[0]):
        row = matrix[i]
        for j in range(row.shape[0]):
            out[j, i] = row[j]


@pjit
def _forward(
    x: np.ndarray, w: np.ndarray, kernel: Pair, stride: Pair, padding: Pair, chunk: int, out: np.ndarray
) -> None:
    groups, per_group, depth = w.shape
    positions = out.shape[1] * out.shape[2]
    for n in prange(x.shape[0]):
        patches = np.empty((positions, depth), x.dtype)
        sums = np.empty((positions, per_group), out.dtype)
        image = out[n].reshape(positions, groups * per_group)
        for g in range(groups):
            _patches(x[n], g * (x.shape[3] // groups), kernel, stride, padding, out.shape[2], patches)
            sums[:] = 0
            dot_tile(patches, w[g], chunk, sums)
            image[:, g * per_group : (g + 1) * per_group] = sums


@pjit
def _input_grad(
    e: np.ndarray, w: np.ndarray, kernel: Pair, stride: Pair, padding: Pair, chunk: int, out: np.ndarray
) -> None:
    groups, per_group, depth = w.shape
    positions = out.shape[1] * out.shape[2]
    for n in prange(e.shape[0]):
        patches = np.empty((positions, depth), e.dtype)
        sums = np.empty((positions, per_group), out.dtype)
        image = out[n].reshape(positions, groups * per_group)
        for g in range(groups):
            _back_patches(e[n], g * (e.shape[3] // groups), kernel, stride, padding, out.shape[2], patches)
            sums[:] = 0
            dot_tile(patches, w[g], chunk, sums)
            image[:, g * per_group : (g + 1) * per_group] = sums


@pjit
def _weight_grad(
    e: np.ndarray, x: np.ndarray, kernel: Pair, stride: Pair, padding: Pair, chunk: int, partial: np.ndarray
) -> None:
    """partial[block, group, o, (ky, kx, c)]: the sum over the images of each block."""
    blocks, groups, per_group, depth = partial.shape
    batch, positions = e.shape[0], e.shape[1] * e.shape[2]
    for b in prange(blocks):
        patches = np.empty((positions, depth), x.dtype)
        columns = np.empty((depth, positions), x.dtype)
        errors = np.empty((e.shape[3], positions), e.dtype)
        for n in range(batch * b // blocks, batch * (b + 1) // blocks):
            _transposed(e[n].reshape(positions, e.shape[3]), errors)
            for g in range(groups):
                _patches(x[n], g * (x.shape[3] // groups), kernel, stride, padding, e.shape[2], patches)
                _transposed(patches, columns)
                dot_tile(errors[g * per_group : (g + 1) * per_group], columns, chunk, partial[b, g])


def _operand(codes: np.ndarray, how: Plan) -> np.ndarray:
    return np.ascontiguousarray(codes, dtype=how.operand)


def forward(x: np.ndarray, w: np.ndarray, stride: Pair, padding: Pair, groups: int, how: Plan) -> np.ndarray:
    """Codes of the convolution, (N, Ho, Wo, Cout) in `how.result`."""
    cout, cin, kh, kw = w.shape
    rows = w.transpose(0, 2, 3, 1).reshape(groups, cout // groups, kh * kw * cin)
    size = tuple(output_size(x.shape[1 + a], (kh, kw)[a], stride[a], padding[a]) for a in (0, 1))
    out = np.empty((x.shape[0], *size, cout), how.result)
    _forward(_operand(x, how), _operand(rows, how), (kh, kw), stride, padding, how.chunk, out)
    return out


def input_grad(
    e: np.ndarray, w: np.ndarray, input_hw: Pair, stride: Pair, padding: Pair, groups: int, how: Plan
) -> np.ndarray:
    """Codes of the gradient of the input, (N, H, W, Cin) in `how.result`."""
    cout, cin, kh, kw = w.shape
    grouped = w.reshape(groups, cout // groups, cin, kh, kw)
    rows = grouped.transpose(0, 2, 3, 4, 1).reshape(groups, cin, kh * kw * (cout // groups))
    out = np.empty((e.shape[0], *input_hw, groups * cin), how.result)
    _input_grad(_operand(e, how), _operand(rows, how), (kh, kw), stride, padding, how.chunk, out)
    return out


def weight_grad(
    e: np.ndarray, x: np.ndarray, kernel: Pair, stride: Pair, padding: Pair, groups: int, how: Plan
) -> np.ndarray:
    """Codes of the gradient of the weights, (Cout, Cin/groups, kh, kw) in `how.result`."""
    cout, cin = e.shape[3], x.shape[3] // groups
    blocks = min(e.shape[0], 16)
    partial = np.zeros((blocks, groups, cout // groups, kernel[0] * kernel[1] * cin), how.result)
    _weight_grad(_operand(e, how), _operand(x, how), kernel, stride, padding, how.chunk, partial)
    total = partial.sum(axis=0, dtype=how.result).reshape(cout, *kernel, cin)
    return np.ascontiguousarray(total.transpose(0, 3, 1, 2))
