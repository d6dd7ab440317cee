"""The three products of a weight layer, x1 = W * x0, e4 = W^T e3, gW = e3 x0^T, by what their operands are.

integers   the exact sum of products, exponents add                                     `convolution`
float32    fused multiply-adds in the contract's order; beside one an integer is one    `convolution`
blocks     the exact sum, rounded once to float32                                       `block_float`
affine     the exact sum of products of codes as a float32, times the product of both scales
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from intnet.spec import block_float
from intnet.spec import convolution as conv
from intnet.spec import float32 as floats
from intnet.spec.block_float import Blocks
from intnet.spec.models import Layer
from intnet.spec.tensor import Fixed, Tensor
from intnet.spec.values import Affine, Value, channels, elements, exact, joined, to_float, with_elements


def _product(
    by: tuple[Callable[..., Tensor], Callable[..., Tensor]], a: Value, b: Value, *more: Any
) -> Value:
    """By the integers' operation or by that of float32."""
    exactly, in_float32 = by
    if isinstance(a, Fixed) and isinstance(b, Fixed):
        out = exactly(a.ints(), b.ints(), *more)
        return Fixed(out.shape, out.values, a.exponent + b.exponent)
    if isinstance(a, Blocks) and isinstance(b, Blocks):
        return block_float.rounded(block_float.exact(exactly, a.real(), b.real(), *more))
    if isinstance(a, Affine) and isinstance(b, Affine):
        step, out = floats.mul32(a.scale, b.scale), exactly(a.ints(), b.ints(), *more)
        return Tensor(out.shape, [floats.mul32(floats.to_float32(v), step) for v in out.values])
    return in_float32(to_float(a), to_float(b), *more)


def forward(layer: Layer, x0: Value, w: Value) -> Value:
    """x1 = W * x0."""
    return _product((conv.conv2d, conv.conv32), x0, w, layer.stride, layer.padding, layer.groups)


def input_error(layer: Layer, e3: Value, w: Value, x_shape: tuple[int, ...]) -> Value:
    """e4 = W^T e3."""
    by = conv.conv2d_input_grad, conv.conv32_input_grad
    return _product(by, e3, w, x_shape, layer.stride, layer.padding, layer.groups)


def weight_gradient(layer: Layer, e3: Value, x0: Value, w_shape: tuple[int, ...]) -> Value:
    """gW = e3 x0^T."""
    by = conv.conv2d_weight_grad, conv.conv32_weight_grad
    return _product(by, e3, x0, w_shape, layer.stride, layer.padding, layer.groups)


def with_bias(x1: Value, b: Value) -> Value:
    """x1 + b: one number an output, added last."""
    return joined(x1, with_elements(b, x1.shape, channels(elements(b), len(elements(x1)))))


def bias_gradient(e3: Value) -> Value:
    """gb = sum(e3) over everything but the outputs: of integers exact, else in float32 over the batch."""
    c = e3.shape[-1]
    if isinstance(e3, Fixed):
        return Fixed((c,), [sum(e3.codes[k::c]) for k in range(c)], e3.exponent)
    per_image, values = prod(e3.shape[1:-1]), exact(e3)
    return Tensor((c,), [floats.batch_sum32(values[k::c], per_image) for k in range(c)])
