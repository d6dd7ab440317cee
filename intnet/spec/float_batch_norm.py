"""Batch normalisation in float32: each operation rounded once, in the contract's order.

`RULES` has them. The formulas are Ioffe and Szegedy's (2015), the order of operations intnet's own contract:
sums over the batch are `float32.batch_sum32`, those of products `batch_dot32`, a term a position. The
variance is about the rounded mean. In inference the running statistics stand for the batch's own. Values are
float32 as Fractions; the last axis is the channel.

>>> normed = forward(Tensor((2, 1), [Fraction(1), Fraction(3)]), [Fraction(2)], [Fraction(1)])
>>> normed.mean, normed.variance
([Fraction(2, 1)], [Fraction(1, 1)])
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import reduce
from math import prod
from typing import NamedTuple

from intnet.spec.float32 import (
    add32,
    add_units,
    all_units,
    batch_dot32,
    batch_dot_units,
    batch_sum32,
    batch_sum_units,
    div32,
    mul32,
    sqrt32,
    sub32,
    to_float32,
    units,
    value,
)
from intnet.spec.formats import FixedPoint, Format, Scaled, quantize
from intnet.spec.tensor import Fixed, Tensor

# As golden packs print them; every operation written here is rounded. `handed` is dL/dx1; {x2} is x2, or what
# a packed tape leaves of it.
RULES = {
    "mu": "sum(x1) / n",
    "var": "sum((x1 - mu)^2) / n: differences to the rounded mu, their squares by fused multiply-adds",
    "x3": "x2 * {gamma} + {beta}, a product and a sum; x2 = (x1 - mu) * r, r = 1 / sqrt(var + eps), eps = "
    "0x3727c5ac, the binary32 nearest to 10^-5",
    "gbeta": "sum(e1)",
    "ggamma": "sum(e1 * {x2})",
    "handed": "((e1 - m1) - {x2} * m2) * ({gamma} * r), m1 = gbeta / n, m2 = ggamma / n",
    "running_mean": "r + (mu - r) * 2^-3, r that before the step, at first 0",
    "running_var": "r + (var - r) * 2^-3, r that before the step, at first 1",
}
EPS = to_float32(Fraction(1, 100_000))
WORD = 32  # bits of a folded batch norm's scale and offset


class Normed(NamedTuple):
    """Statistics a channel, what the way back needs, and x3."""

    mean: list[Fraction]
    variance: list[Fraction]
    r: list[Fraction]
    x3: Tensor


# -- one channel -----------------------------------------------------------------------------------


def statistics_of(column: Sequence[Fraction], per_image: int = 1) -> tuple[Fraction, Fraction]:
    """(mean, variance) of one channel, `per_image` positions of each image one after another."""
    n, xs = to_float32(len(column)), all_units(column)
    mean = div32(value(batch_sum_units(xs, per_image)), n)
    centre = units(mean)
    centred = [add_units(x, -centre) for x in xs]
    return mean, div32(value(batch_dot_units(centred, centred, per_image)), n)


def reciprocal_root(variance: Fraction) -> Fraction:
    """r = 1 / sqrt(variance + eps): three operations."""
    return div32(1, sqrt32(add32(variance, EPS)))


def error_sums_of(
    e: Sequence[Fraction], x2: Sequence[Fraction], per_image: int = 1
) -> tuple[Fraction, Fraction]:
    """(gbeta, ggamma) of one channel."""
    return batch_sum32(e, per_image), batch_dot32(e, x2, per_image)


def running_update(old: Fraction, new: Fraction) -> Fraction:
    """r + (x - r) / 8 of one statistic."""
    return add32(old, mul32(sub32(new, old), Fraction(1, 8)))


def reestimated(seen: Sequence[Fraction]) -> Fraction:
    """The plain mean of one statistic over batches: added in order, each sum rounded, then divided."""
    return div32(reduce(add32, seen), to_float32(len(seen)))


# -- one element -----------------------------------------------------------------------------------


def x2_at(x: Fraction, mean: Fraction, r: Fraction) -> Fraction:
    """(x - mean) r."""
    return mul32(sub32(x, mean), r)


def x3_at(x2: Fraction, gamma: Fraction, beta: Fraction) -> Fraction:
    """x2 gamma + beta: two roundings, not a fused one."""
    return add32(mul32(x2, gamma), beta)


def dx_at(e: Fraction, x2: Fraction, m1: Fraction, m2: Fraction, slope: Fraction) -> Fraction:
    """((e - m1) - x2 m2) slope, with slope = gamma r rounded."""
    return mul32(sub32(sub32(e, m1), mul32(x2, m2)), slope)


# -- whole tensors ---------------------------------------------------------------------------------


def normalize(
    x: Tensor, mean: Sequence[Fraction], variance: Sequence[Fraction], gamma: Sequence[Fraction],
    beta: Sequence[Fraction],
) -> Tensor:  # fmt: skip
    """x3 by given statistics: the batch's own, or in inference the running ones."""
    c, r = x.shape[-1], [reciprocal_root(v) for v in variance]
    x2 = [x2_at(v, mean[i % c], r[i % c]) for i, v in enumerate(x.values)]
    return Tensor(x.shape, [x3_at(v, gamma[i % c], beta[i % c]) for i, v in enumerate(x2)])


def statistics(x: Tensor) -> tuple[list[Fraction], list[Fraction]]:
    """(means, variances) of the channels."""
    c, per_image = x.shape[-1], prod(x.shape[1:-1])
    found = [statistics_of(x.values[k::c], per_image) for k in range(c)]
    return [mean for mean, _ in found], [variance for _, variance in found]


def normed(
    x: Tensor, mean: list[Fraction], variance: list[Fraction], gamma: Sequence[Fraction],
    beta: Sequence[Fraction],
) -> Normed:  # fmt: skip
    """x3 by given statistics, with what the way back needs."""
    r = [reciprocal_root(v) for v in variance]
    return Normed(mean, variance, r, normalize(x, mean, variance, gamma, beta))


def forward(x: Tensor, gamma: Sequence[Fraction], beta: Sequence[Fraction]) -> Normed:
    """x3 by the batch's own statistics."""
    return normed(x, *statistics(x), gamma, beta)


def backward(
    e: Tensor, x: Tensor, normed: Normed, gamma: Sequence[Fraction]
) -> tuple[Tensor, list[Fraction], list[Fraction]]:
    """(dL/dx, dL/dgamma, dL/dbeta)."""
    c, per_image = x.shape[-1], prod(x.shape[1:-1])
    n = to_float32(len(x.values) // c)
    x2 = [x2_at(v, normed.mean[i % c], normed.r[i % c]) for i, v in enumerate(x.values)]
    sums = [error_sums_of(e.values[k::c], x2[k::c], per_image) for k in range(c)]
    m1, m2 = [div32(total, n) for total, _ in sums], [div32(product, n) for _, product in sums]
    slope = [mul32(g, r) for g, r in zip(gamma, normed.r, strict=True)]
    pairs = enumerate(zip(e.values, x2, strict=True))
    out = [dx_at(v, w, m1[i % c], m2[i % c], slope[i % c]) for i, (v, w) in pairs]
    return Tensor(e.shape, out), [product for _, product in sums], [total for total, _ in sums]


def running(old: Sequence[Fraction], new: Sequence[Fraction]) -> list[Fraction]:
    """`running_update` of each statistic."""
    return [running_update(r, x) for r, x in zip(old, new, strict=True)]


# -- folded into integers --------------------------------------------------------------------------


def folded(
    gamma: Sequence[Fraction], beta: Sequence[Fraction], mean: Sequence[Fraction],
    variance: Sequence[Fraction], fl: int,
) -> tuple[Fixed, Fixed]:  # fmt: skip
    """(scale, offset) of x3 = scale x1 + offset: batch norm of AdaPT's fixed-point model, in 32-bit words.

    scale = gamma r and offset = beta - mean gamma r in float32, each by the exponent of `Scaled`. But the
    offset is no finer than the scale, and the scale no finer than the offset allows: its product with a code
    at 2^-fl and the offset fit 64 bits. `batch_norm.folded_at` makes an element of x3. intnet's own contract.
    """
    slope = [mul32(g, reciprocal_root(v)) for g, v in zip(gamma, variance, strict=True)]
    shift = [sub32(b, mul32(m, s)) for b, m, s in zip(beta, mean, slope, strict=True)]

    def stored(values: Sequence[Fraction], format: Format) -> Fixed:
        q = quantize(values, format)
        return Fixed((len(values),), q.codes, q.exponent)

    scale, offset = stored(slope, Scaled(WORD)), stored(shift, Scaled(WORD))
    if offset.exponent < scale.exponent:
        offset = stored(shift, FixedPoint(WORD, -scale.exponent))
    finest = WORD - 2 - fl - offset.exponent
    if -scale.exponent > finest:
        scale = stored(slope, FixedPoint(WORD, finest))
    return scale, offset
