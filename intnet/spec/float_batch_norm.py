"""Batch normalisation in float32: each operation rounded once, in the contract's order. Used by `nets`.

x2 = (x - mean) * r with r = 1/sqrt(variance + 1e-5); sums over rows are `float32.batch_sum32`, those of
products `batch_dot32`. Values are float32 as Fractions, the last axis is the channel.
"""

from __future__ import annotations

from fractions import Fraction
from math import prod
from typing import NamedTuple

from intnet.spec.float32 import add32, batch_dot32, batch_sum32, mul32, sqrt32, to_float32
from intnet.spec.tensor import Tensor

EPS = to_float32(Fraction(1, 100_000))


class Normed(NamedTuple):
    """Statistics a channel, what the way back needs, and x3."""

    mean: list[Fraction]
    variance: list[Fraction]
    r: list[Fraction]
    x3: Tensor


def forward(x: Tensor, gamma: list[Fraction], beta: list[Fraction]) -> Normed:
    """x3 = x2 * gamma + beta by the batch's own statistics."""
    c = x.shape[-1]
    n = len(x.values) // c
    per_image = prod(x.shape[1:-1])
    mean = [to_float32(batch_sum32(x.values[k::c], per_image) / n) for k in range(c)]
    centred = [add32(v, -mean[i % c]) for i, v in enumerate(x.values)]
    columns = [centred[k::c] for k in range(c)]
    variance = [to_float32(batch_dot32(d, d, per_image) / n) for d in columns]
    r = [to_float32(1 / sqrt32(add32(v, EPS))) for v in variance]
    out = [add32(mul32(mul32(d, r[i % c]), gamma[i % c]), beta[i % c]) for i, d in enumerate(centred)]
    return Normed(mean, variance, r, Tensor(x.shape, out))


def backward(
    e: Tensor, x: Tensor, normed: Normed, gamma: list[Fraction]
) -> tuple[Tensor, list[Fraction], list[Fraction]]:
    """(dL/dx, dL/dgamma, dL/dbeta)."""
    c = x.shape[-1]
    n = len(x.values) // c
    x2 = [mul32(add32(v, -normed.mean[i % c]), normed.r[i % c]) for i, v in enumerate(x.values)]
    per_image = prod(x.shape[1:-1])
    sums = [batch_sum32(e.values[k::c], per_image) for k in range(c)]
    products = [batch_dot32(e.values[k::c], x2[k::c], per_image) for k in range(c)]
    m1, m2 = [to_float32(v / n) for v in sums], [to_float32(v / n) for v in products]
    slope = [mul32(g, r) for g, r in zip(gamma, normed.r, strict=True)]
    out = [
        mul32(add32(add32(v, -m1[i % c]), -mul32(x2[i], m2[i % c])), slope[i % c])
        for i, v in enumerate(e.values)
    ]
    return Tensor(e.shape, out), products, sums


def running(old: list[Fraction], new: list[Fraction]) -> list[Fraction]:
    """r + (x - r) / 8 of each statistic."""
    return [add32(r, mul32(add32(x, -r), Fraction(1, 8))) for r, x in zip(old, new, strict=True)]
