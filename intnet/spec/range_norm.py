"""Range batch norm in float32: a channel's deviation is estimated from the range of the batch.

Banner et al. 2018, "Scalable Methods for 8-bit Training of Neural Networks". Of n values of a channel

    w = C(n) (max - min), C(n) = 1/sqrt(2 ln n)        in place of the standard deviation

Here v = w^2 stands where batch norm has the variance, so that x2 = (x1 - mu) r with r = 1/sqrt(v + eps), the
running statistics and inference are `float_batch_norm`'s. The gradient of the range goes to the first of the
greatest values and to the first of the least:

    dL/dx1 = (e1 - m1) slope, slope = gamma r; at the greatest less k, at the least plus k
    k      = ((slope ggamma) (w r)) C(n)               what the range moves of all x3

which leaves 1 for (w r)^2 where eps is nothing beside v. Every operation is rounded, in the order written.

>>> statistics_of([Fraction(1), Fraction(3)])[0], [float(constant(n)) for n in (1, 2)]
(Fraction(2, 1), [0.0, 0.8493217825889587])
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context
from fractions import Fraction
from math import prod

from intnet.spec.float32 import add32, batch_sum32, div32, mul32, sub32, to_float32
from intnet.spec.float_batch_norm import Normed, dx_at, error_sums_of, x2_at
from intnet.spec.tensor import Tensor

DIGITS = Context(prec=50)


def constant(n: int) -> Fraction:
    """C(n), from 50 digits; of one value 0, whose range is 0 too."""
    if n == 1:
        return Fraction(0)
    return to_float32(Fraction(DIGITS.divide(1, DIGITS.sqrt(DIGITS.multiply(2, DIGITS.ln(n))))))


# -- one channel -----------------------------------------------------------------------------------


def width_of(column: Sequence[Fraction]) -> Fraction:
    """w = C(n) (max - min)."""
    return mul32(constant(len(column)), sub32(max(column), min(column)))


def statistics_of(column: Sequence[Fraction], per_image: int = 1) -> tuple[Fraction, Fraction]:
    """(mean, v = w^2) of one channel, `per_image` positions of each image one after another."""
    w = width_of(column)
    return div32(batch_sum32(column, per_image), to_float32(len(column))), mul32(w, w)


def moved_by_range(n: int, w: Fraction, r: Fraction, slope: Fraction, ggamma: Fraction) -> Fraction:
    """k."""
    return mul32(mul32(mul32(slope, ggamma), mul32(w, r)), constant(n))


# -- whole tensors ---------------------------------------------------------------------------------


def statistics(x: Tensor) -> tuple[list[Fraction], list[Fraction]]:
    """(means, v) of the channels."""
    c, per_image = x.shape[-1], prod(x.shape[1:-1])
    found = [statistics_of(x.values[k::c], per_image) for k in range(c)]
    return [mean for mean, _ in found], [v for _, v in found]


def backward(
    e: Tensor, x: Tensor, normed: Normed, gamma: Sequence[Fraction]
) -> tuple[Tensor, list[Fraction], list[Fraction]]:
    """(dL/dx, dL/dgamma, dL/dbeta)."""
    c, per_image = x.shape[-1], prod(x.shape[1:-1])
    out, sums = list(e.values), []
    for channel in range(c):
        column, errors = x.values[channel::c], e.values[channel::c]
        mean, r, slope = normed.mean[channel], normed.r[channel], mul32(gamma[channel], normed.r[channel])
        x2 = [x2_at(v, mean, r) for v in column]
        gbeta, ggamma = error_sums_of(errors, x2, per_image)
        m1 = div32(gbeta, to_float32(len(column)))
        dx = [dx_at(v, w, m1, Fraction(0), slope) for v, w in zip(errors, x2, strict=True)]
        k = moved_by_range(len(column), width_of(column), r, slope, ggamma)
        top, bottom = column.index(max(column)), column.index(min(column))
        dx[top] = sub32(dx[top], k)
        dx[bottom] = add32(dx[bottom], k)
        out[channel::c] = dx
        sums.append((ggamma, gbeta))
    return Tensor(e.shape, out), [ggamma for ggamma, _ in sums], [gbeta for _, gbeta in sums]
