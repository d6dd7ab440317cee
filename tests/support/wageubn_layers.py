"""One layer of WAGEUBN at a time on `Fixed` tensors, beside the definition's walk: its update in fractions.

Exponents: weights, gamma, beta -23 (stored), -7 (quantized); activations -7; gradients -14; stored
momentum -12; the learning rate -9.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from intnet.spec.convolution import conv2d, conv2d_input_grad, conv2d_weight_grad
from intnet.spec.elementwise import relu_at
from intnet.spec.formats import Direct, FixedPoint, Flag, Quantized, Shift, quantize
from intnet.spec.geometry import Pair
from intnet.spec.tensor import Fixed, Tensor, power

W_EXPONENT = -23
G_EXPONENT = -14
ACC_EXPONENT = -12
LR_EXPONENT = -9
W_LIMIT = 2**23 - 1
MOMENTUM = Fraction(3, 4)
E2_WIDTHS = ("flag8", "16")


class Updated(NamedTuple):
    """Acc at exponent -14 (exact), Acc_q' at -12, the new W at -23, and how many W were saturated."""

    acc: list[int]
    accq: list[int]
    w: list[int]
    saturated: int


def whole(x: Fraction) -> int:
    """The integer that x must be; AssertionError where the grid was left."""
    assert x.denominator == 1, f"{x} is off the grid"
    return x.numerator


def as_fixed(shape: Sequence[int], q: Quantized) -> Fixed:
    """A quantizer's answer with its shape."""
    return Fixed(tuple(shape), q.codes, q.exponent)


def weight_q(w: Fixed) -> Quantized:
    """Wq = clip(Q(W, 8), -1 + d, 1 - d)."""
    return quantize(w.real().values, FixedPoint(8, 7, overflow="saturate_symmetric"))


def affine_q(parameter: Fixed) -> Quantized:
    """gamma_q or beta_q = Q(., 8), without a range limit."""
    return quantize(parameter.real().values, Direct(8))


def conv_forward(x0: Fixed, wq: Fixed, stride: Pair, padding: Pair, groups: int = 1) -> Fixed:
    """x1 = Wq * x0, exact."""
    out = conv2d(x0.ints(), wq.ints(), stride, padding, groups)
    return Fixed(out.shape, out.values, x0.exponent + wq.exponent)


def conv_error(
    e3: Fixed, wq: Fixed, x_shape: Sequence[int], stride: Pair, padding: Pair, groups: int = 1
) -> Fixed:
    """e4 = Wq^T e3, exact."""
    out = conv2d_input_grad(e3.ints(), wq.ints(), x_shape, stride, padding, groups)
    return Fixed(out.shape, out.values, e3.exponent + wq.exponent)


def conv_gradient(
    e3: Fixed, x0: Fixed, w_shape: Sequence[int], stride: Pair, padding: Pair, groups: int = 1
) -> Fixed:
    """gW = e3 x0^T, exact."""
    out = conv2d_weight_grad(e3.ints(), x0.ints(), w_shape, stride, padding, groups)
    return Fixed(out.shape, out.values, e3.exponent + x0.exponent)


def activation(x3: Fixed) -> Fixed:
    """x4 = Q(relu(x3), 8)."""
    return as_fixed(x3.shape, quantize(list(map(relu_at, x3.real().values)), Direct(8)))


def mask(e0: Fixed, x3: Fixed) -> Fixed:
    """e1 = e0 where x3 > 0, else 0."""
    return Fixed(e0.shape, [e if x > 0 else 0 for e, x in zip(e0.codes, x3.codes, strict=True)], e0.exponent)


def error_q(dx1: Tensor, e2: str) -> Quantized:
    """e3 = QE2(dL/dx1): the flag format ('flag8') or SQ(., 16) ('16')."""
    if e2 not in E2_WIDTHS:
        raise ValueError(f"unknown e2 width {e2!r}; choose one of {', '.join(E2_WIDTHS)}")
    return quantize(dx1.values, Flag(8) if e2 == "flag8" else Shift(16))


def update(
    w: Sequence[int], accq: Sequence[int], gq: Sequence[int], lr: int, saturate: bool = True
) -> Updated:
    """Acc = 3/4 Acc_q + g_q, Acc_q' = Q(Acc, 13), W' = W - lr * Acc; `lr` is a code at 2^-9.

    All arguments are codes (W -23, Acc_q -12, g_q -14). W is clipped to +-(1 - 2^-23) where `saturate`.
    """
    acc, new_accq, new_w, saturated = [], [], [], 0
    rate = lr * power(LR_EXPONENT)
    for w_code, a_code, g_code in zip(w, accq, gq, strict=True):
        exact = MOMENTUM * (a_code * power(ACC_EXPONENT)) + g_code * power(G_EXPONENT)
        acc.append(whole(exact / power(G_EXPONENT)))
        new_accq.append(quantize([exact], Direct(13)).codes[0])
        moved = whole((w_code * power(W_EXPONENT) - rate * exact) / power(W_EXPONENT))
        kept = max(-W_LIMIT, min(W_LIMIT, moved)) if saturate else moved
        saturated += kept != moved
        new_w.append(kept)
    return Updated(acc, new_accq, new_w, saturated)
