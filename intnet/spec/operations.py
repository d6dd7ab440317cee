"""Exact operations on tensors of ints or Fractions: linear, convolution, ReLU, dropout, pooling.

Nothing is rounded here: `norm` holds batch normalisation, `functions` tanh. Activations are NHWC or (N, C).
"""
from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from intnet.spec.geometry import (
    Pair,
    both,
    contract,
    conv_shape,
    forward_terms,
    input_terms,
    weight_terms,
    windows,
)
from intnet.spec.tensor import Number, Tensor


def dot(a: Sequence[Any], b: Sequence[Any]) -> Any:
    """The exact sum of products."""
    return sum(p * q for p, q in zip(a, b, strict=True))


def linear(x: Tensor, w: Tensor, bias: Sequence[Number] | None = None) -> Tensor:
    """x (N, C), w (O, C), bias (O,) to (N, O)."""
    (n, c), o = x.shape, w.shape[0]
    out = []
    for i in range(n):
        for j in range(o):
            value = dot(x.values[i * c : (i + 1) * c], w.values[j * c : (j + 1) * c])
            out.append(value if bias is None else value + bias[j])
    return Tensor((n, o), out)


def linear_input_grad(e: Tensor, w: Tensor) -> Tensor:
    """e (N, O), w (O, C) to (N, C)."""
    (n, o), c = e.shape, w.shape[1]
    rows = [e.values[i * o : (i + 1) * o] for i in range(n)]
    return Tensor((n, c), [dot(row, w.values[j::c]) for row in rows for j in range(c)])


def linear_weight_grad(e: Tensor, x: Tensor) -> Tensor:
    """e (N, O), x (N, C) to (O, C)."""
    o, c = e.shape[1], x.shape[1]
    return Tensor((o, c), [dot(e.values[i::o], x.values[j::c]) for i in range(o) for j in range(c)])


def bias_grad(e: Tensor) -> list[Number]:
    """The sum of e (..., O) over everything but its last axis."""
    o = e.shape[-1]
    return [sum(e.values[i::o]) for i in range(o)]


def conv2d(x: Tensor, w: Tensor, stride: Pair = 1, padding: Pair = 0, groups: int = 1) -> Tensor:
    """x (N, H, W, C), w (O, C/groups, kh, kw) to (N, OH, OW, O)."""
    g = conv_shape(x.shape, w.shape, stride, padding, groups)
    return Tensor((g.n, g.oh, g.ow, g.o), contract(forward_terms(g), x.values, w.values, dot))


def conv2d_input_grad(
    e: Tensor, w: Tensor, x_shape: Sequence[int], stride: Pair = 1, padding: Pair = 0, groups: int = 1
) -> Tensor:
    """e (N, OH, OW, O) to the gradient of the input, of shape `x_shape`."""
    g = conv_shape(x_shape, w.shape, stride, padding, groups)
    return Tensor(tuple(x_shape), contract(input_terms(g), e.values, w.values, dot))


def conv2d_weight_grad(
    e: Tensor, x: Tensor, w_shape: Sequence[int], stride: Pair = 1, padding: Pair = 0, groups: int = 1
) -> Tensor:
    """e (N, OH, OW, O), x (N, H, W, C) to the gradient of the weight, of shape `w_shape`."""
    g = conv_shape(x.shape, w_shape, stride, padding, groups)
    return Tensor(tuple(w_shape), contract(weight_terms(g), x.values, e.values, dot))


def add(a: Tensor, b: Tensor) -> Tensor:
    """The exact sum of two tensors of one shape."""
    if a.shape != b.shape:
        raise ValueError(f"shapes {a.shape} and {b.shape} differ")
    return Tensor(a.shape, [p + q for p, q in zip(a.values, b.values, strict=True)])


def relu(x: Tensor) -> Tensor:
    """max(x, 0)."""
    return Tensor(x.shape, [v if v > 0 else 0 * v for v in x.values])


def relu_grad(e: Tensor, x: Tensor) -> Tensor:
    """e where the ReLU's input x is positive, else 0."""
    return Tensor(e.shape, [v if p > 0 else 0 * v for v, p in zip(e.values, x.values, strict=True)])


def dropout(x: Tensor, words: Sequence[int], keep: Fraction) -> Tensor:
    """x * q / num where keep = num / q and word * q < num * 2^32, else 0; its gradient is the same map."""
    num, q = keep.numerator, keep.denominator
    scaled = [
        v * Fraction(q, num) if word * q < num * 2**32 else Fraction(0)
        for v, word in zip(x.values, words, strict=True)
    ]
    return Tensor(x.shape, scaled)


def _pool_plan(
    shape: Sequence[int], kernel: Pair, stride: Pair, padding: Pair
) -> tuple[tuple[int, ...], list[list[int]]]:
    """The output shape and, for every output element, the flat input indices of its window."""
    n, h, w, c = shape
    places = windows(h, w, kernel, stride, padding)
    wide = len(windows(1, w, (1, both(kernel)[1]), (1, both(stride)[1]), _columns(padding)))
    plan = [
        [((i * h + y) * w + x) * c + k for y, x in place]
        for i in range(n)
        for place in places
        for k in range(c)
    ]
    return (n, len(places) // wide, wide, c), plan


def _columns(padding: Pair) -> Pair:
    """The same padding, left and right only."""
    if isinstance(padding, int):
        return (0, padding)
    return (0, padding[1]) if len(padding) == 2 else (0, 0, padding[2], padding[3])


def max_pool(x: Tensor, kernel: Pair, stride: Pair, padding: Pair = 0) -> tuple[Tensor, list[int]]:
    """The maximum of each window, and the flat input index that won: the first in row-major order."""
    shape, plan = _pool_plan(x.shape, kernel, stride, padding)
    winners = []
    for window in plan:
        best = window[0]
        for index in window[1:]:
            if x.values[index] > x.values[best]:
                best = index
        winners.append(best)
    return Tensor(shape, [x.values[i] for i in winners]), winners


def max_pool_grad(e: Tensor, winners: Sequence[int], x_shape: Sequence[int]) -> Tensor:
    """Every error goes to the element that won; overlapping windows add."""
    out = [0] * _size(x_shape)
    for v, index in zip(e.values, winners, strict=True):
        out[index] += v
    return Tensor(tuple(x_shape), out)


def avg_pool(
    x: Tensor, kernel: Pair, stride: Pair, padding: Pair = 0, count_include_pad: bool = True
) -> Tensor:
    """The exact mean of each window; padding counts as zeros unless `count_include_pad` is False."""
    shape, plan = _pool_plan(x.shape, kernel, stride, padding)
    full = both(kernel)[0] * both(kernel)[1]
    return Tensor(
        shape,
        [Fraction(sum(x.values[i] for i in p)) / (full if count_include_pad else len(p)) for p in plan],
    )


def avg_pool_grad(
    e: Tensor,
    x_shape: Sequence[int],
    kernel: Pair,
    stride: Pair,
    padding: Pair = 0,
    count_include_pad: bool = True,
) -> Tensor:
    """Every error, divided by its window's count, goes to every in-image element of the window."""
    _, plan = _pool_plan(x_shape, kernel, stride, padding)
    full = both(kernel)[0] * both(kernel)[1]
    out = [Fraction(0)] * _size(x_shape)
    for v, window in zip(e.values, plan, strict=True):
        for index in window:
            out[index] += Fraction(v) / (full if count_include_pad else len(window))
    return Tensor(tuple(x_shape), out)


def global_avg_pool(x: Tensor) -> Tensor:
    """(N, H, W, C) to the exact means (N, C)."""
    n, h, w, c = x.shape
    size = h * w * c
    images = [x.values[i * size : (i + 1) * size] for i in range(n)]
    return Tensor((n, c), [Fraction(sum(image[k::c])) / (h * w) for image in images for k in range(c)])


def global_avg_pool_grad(e: Tensor, x_shape: Sequence[int]) -> Tensor:
    """e (N, C) over the pool size, at every position, as exact rationals."""
    n, h, w, c = x_shape
    return Tensor(
        tuple(x_shape),
        [Fraction(e.values[i * c + k]) / (h * w) for i in range(n) for _ in range(h * w) for k in range(c)],
    )


def _size(shape: Sequence[int]) -> int:
    size = 1
    for length in shape:
        size *= length
    return size
