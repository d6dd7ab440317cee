"""DYNASTY's bit-width map (DYNASTY, secs. 3.2 and 3.3), one block at a time, in float64.

    S_i = 2^(2 e_i)/16 sum of squared gradients       sensitivity of block i                        (1)
    b_i = max(0, min(r_i - lambda, beta)), beta = 8   its width: least noise at a given mean       (3a)
    r_i = 1/2 log2(S_i / T_i)                         relative sensitivity, T_i = multiply-adds    (3b)
    lambda                                            such that the mean of b is alpha: `tune`, Algorithm 1
    b   = gamma b_last + (1 - gamma) b_new            in use are the nearest of 0, 2, 4, 6, 8       (4)

All is Python's float64 in the order written; `log64` is `elementary`'s. r is -infinity where S is 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cache
from math import fsum, inf
from typing import Any

from intnet.spec import block_float, models
from intnet.spec.block_float import Blocks, Index
from intnet.spec.elementary import log64
from intnet.spec.float32 import to_float32
from intnet.spec.geometry import conv_shape, forward_terms
from intnet.spec.tensor import Tensor, places

BETA = 8.0
CHUNK = 4096  # blocks whose sum is one term of the total
ROUNDS = 3  # L of Algorithm 1
HALF_LOG2_E = float.fromhex("0x1.71547652b82fep-1")  # 1/(2 ln 2)

Map = dict[Index, Any]


# -- sensitivity and work --------------------------------------------------------------------------


def sensitivity(gradients: Tensor, q: Blocks, zero: Iterable[Index]) -> dict[Index, float]:
    """(1) S = 2^(2e)/16 sum of g^2 of every block, added in float64 row by row; 0 of a block that is zero."""
    values = dict(zip(places(gradients.shape), gradients.values, strict=True))
    dead = set(zero)
    out = {}
    for block, e in q.exponents.items():
        s = 0.0
        for place in block_float.members(block, q.axes):
            g = float(values.get(place, 0))
            s += g * g
        out[block] = 0.0 if block in dead else s * 2.0 ** (2 * e - 4)
    return out


def zero_blocks(x: Tensor, axes: tuple[int, int]) -> list[Index]:
    """The blocks that are zero: all of their numbers are, or are below 2^-129."""
    inside: Map = {block: [] for block in block_float.blocks(x.shape, axes)}
    for place, value in zip(places(x.shape), x.values, strict=True):
        inside[block_float.block_of(place, axes)].append(value)
    return [block for block, xs in inside.items() if block_float.exponent(xs) is None]


@cache
def work(
    layer: models.Layer, x: tuple[int, ...], w: tuple[int, ...]
) -> tuple[dict[Index, int], dict[Index, int]]:
    """T: multiply-adds of one product, counted one by one, of every block of the weights and of the input."""
    axes = 0, len(x) - 1
    shape = conv_shape(x, w, layer.stride, layer.padding, layer.groups)
    of_x = [block_float.block_of(place, axes) for place in places(x)]
    of_w = [block_float.block_of(place, (0, 1)) for place in places(w)]
    weights = {block: 0 for block in block_float.blocks(w, (0, 1))}
    inputs = {block: 0 for block in block_float.blocks(x, axes)}
    for terms in forward_terms(shape):
        for i, j in terms:
            if i >= 0 and j >= 0:
                weights[of_w[j]] += 1
                inputs[of_x[i]] += 1
    return weights, inputs


# -- the map ---------------------------------------------------------------------------------------


def relative(s: float, batches: int, t: int) -> float:
    """(3b) r = log2(S/T)/2, S the mean of `batches` sums."""
    return log64(s / (float(batches) * float(t))) * HALF_LOG2_E if s > 0 else -inf


def width(r: float, lam: float) -> float:
    """(3a) b = r - lambda within 0 .. 8."""
    return min(max(r - lam, 0.0), BETA)


def total(values: Sequence[float]) -> float:
    """Their sum: ascending in chunks of 4096, whose sums are added in order."""
    out = 0.0
    for start in range(0, len(values), CHUNK):
        part = 0.0
        for v in values[start : start + CHUNK]:
            part += v
        out += part
    return out


def mean_width(rs: Sequence[float], lam: float, work: Sequence[int] | None = None) -> float:
    """The mean of all widths; with work T that of (2b), sum(T b)/sum(T), the sum of products rounded once."""
    if work is None:
        return total([width(r, lam) for r in rs]) / len(rs)
    return fsum(t * width(r, lam) for t, r in zip(work, rs, strict=True)) / sum(work)


def first_lambda(rs: Sequence[float], alpha: float, work: Sequence[int] | None = None) -> float:
    """mean(r) - alpha of all finite r, 0 where there are none (sec. 3.3.1); with work T, weighted by it."""
    finite = sum(r > -inf for r in rs)
    if not finite:
        return 0.0
    if work is None:
        return total([r if r > -inf else 0.0 for r in rs]) / finite - alpha
    read = [(t, r) for t, r in zip(work, rs, strict=True) if r > -inf]
    return fsum(t * r for t, r in read) / sum(t for t, _ in read) - alpha


def tune(
    rs: Sequence[float], lam: float, alpha: float, work: Sequence[int] | None = None, rounds: int = ROUNDS
) -> float:
    """Algorithm 1: interpolations between the least and the greatest finite r, and none beyond.

    It stops where both means agree: there 0/0 is printed. work: of `mean_width`
    """
    finite = [r for r in rs if r > -inf]
    if not finite:
        return lam
    low, high = min(finite) - alpha, max(finite) - alpha
    for _ in range(rounds):
        now = mean_width(rs, lam, work)
        up = now > alpha
        end = mean_width(rs, high if up else low, work)
        if now == end:
            break
        t = min(max((now - alpha) / (now - end), 0.0), 1.0)
        if up:
            low, lam = lam, (1 - t) * lam + t * high
        else:
            high, lam = lam, (1 - t) * lam + t * low
    return lam


def smoothed(last: Fraction, new: Fraction, gamma: float) -> Fraction:
    """(4) gamma b_last + (1 - gamma) b_new in float64, stored as float32."""
    return to_float32(Fraction(gamma * float(last) + (1 - gamma) * float(new)))


def in_use(b: Fraction | float) -> int:
    """The nearest of 0, 2, 4, 6, 8; an odd number upward."""
    return min((0, 2, 4, 6, 8), key=lambda w: (abs(Fraction(b) - w), -w))
