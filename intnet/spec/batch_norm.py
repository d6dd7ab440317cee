"""Batch normalisation of WAGEUBN in exact arithmetic: statistics, x2, x3 and the full derivative.

The last axis is the channel. mu, sigma and x2 are codes at exponent -15, gamma and beta at -7.
"""
from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from intnet.spec.operations import bias_grad
from intnet.spec.rounding import round_fraction, round_sqrt
from intnet.spec.tensor import Fixed, Tensor, power

K_BN = 16
EPS = power(-15)
GUARD_BITS = 16  # m1 and m2 keep this many bits below e2's LSB
RUNNING_EXPONENT = -31


class Normed(NamedTuple):
    """Statistics per channel and the normalised tensor, all at exponent -(K_BN - 1)."""

    mu: Fixed
    sigma: Fixed
    x2: Fixed


class NormGrad(NamedTuple):
    """m1 and m2 as stored words, and dL/dx1 as exact rationals."""

    m1: Fixed
    m2: Fixed
    dx1: Tensor


def mean_and_variance(x1: Tensor) -> list[tuple[Fraction, Fraction]]:
    """Exact mean and variance (around the unrounded mean, divided by the count) of every channel."""
    c = x1.shape[-1]
    out = []
    for k in range(c):
        xs = [Fraction(v) for v in x1.values[k::c]]
        mean = sum(xs) / Fraction(len(xs))
        out.append((mean, sum((v - mean) ** 2 for v in xs) / Fraction(len(xs))))
    return out


def batch_norm(x1: Tensor, mode: str = "ties_even") -> Normed:
    """mu_q = Q(mean, 16), sigma_q = Q(sqrt(variance), 16), x2 = Q((x1 - mu_q) / (sigma_q + eps_q), 16)."""
    exponent, scale = 1 - K_BN, 2 ** (K_BN - 1)
    stats = mean_and_variance(x1)
    c = len(stats)
    mu = Fixed((c,), [round_fraction(mean * scale, mode) for mean, _ in stats], exponent)
    # round(sqrt(v) * 2^15) = round(sqrt(v * 2^30))
    sigma = Fixed((c,), [round_sqrt(variance * scale**2, mode) for _, variance in stats], exponent)
    return Normed(mu, sigma, normalize(x1, mu, sigma, mode))


def normalize(x1: Tensor, mu: Fixed, sigma: Fixed, mode: str = "ties_even") -> Fixed:
    """x2 = Q((x1 - mu) / (sigma + 2^-15), 16): one exact rational, rounded once."""
    c = x1.shape[-1]
    centre, width = mu.real().values, sigma.real().values
    scale = 2 ** (K_BN - 1)
    codes = [
        round_fraction((Fraction(v) - centre[i % c]) / (width[i % c] + EPS) * scale, mode)
        for i, v in enumerate(x1.values)
    ]
    return Fixed(x1.shape, codes, 1 - K_BN)


def scale_shift(x2: Fixed, gamma: Fixed, beta: Fixed) -> Fixed:
    """x3 = gamma * x2 + beta per channel, exact, at the product's exponent (which may not exceed beta's)."""
    c = x2.shape[-1]
    exponent = x2.exponent + gamma.exponent
    raised = [code * 2 ** (beta.exponent - exponent) for code in beta.codes]
    codes = [gamma.codes[i % c] * code + raised[i % c] for i, code in enumerate(x2.codes)]
    return Fixed(x2.shape, codes, exponent)


def scale_error(e1: Fixed, gamma: Fixed) -> Fixed:
    """e2 = e1 * gamma per channel, exact."""
    c = e1.shape[-1]
    codes = [code * gamma.codes[i % c] for i, code in enumerate(e1.codes)]
    return Fixed(e1.shape, codes, e1.exponent + gamma.exponent)


def batch_norm_grad(e2: Fixed, x2: Fixed, sigma: Fixed) -> NormGrad:
    """m1 = mean(e2), m2 = mean(e2 * x2), each rounded once (ties_even) to 16 bits below e2's LSB;
    dL/dx1 = (e2 - m1 - x2 * m2) / (sigma + 2^-15), not rounded.
    """
    c = e2.shape[-1]
    errors, normed, width = e2.real().values, x2.real().values, sigma.real().values
    exponent = e2.exponent - GUARD_BITS
    unit = power(exponent)
    m1, m2 = [], []
    for k in range(c):
        es, xs = errors[k::c], normed[k::c]
        m1.append(round_fraction(sum(es) / Fraction(len(es)) / unit, "ties_even"))
        product = sum((e * x for e, x in zip(es, xs, strict=True)), Fraction(0))
        m2.append(round_fraction(product / len(es) / unit, "ties_even"))
    dx1 = [
        (e - m1[i % c] * unit - x * (m2[i % c] * unit)) / (width[i % c] + EPS)
        for i, (e, x) in enumerate(zip(errors, normed, strict=True))
    ]
    return NormGrad(Fixed((c,), m1, exponent), Fixed((c,), m2, exponent), Tensor(e2.shape, dx1))


def gamma_grad(e1: Fixed, x2: Fixed) -> Fixed:
    """sum(e1 * x2) per channel, exact."""
    products = [e * x for e, x in zip(e1.codes, x2.codes, strict=True)]
    c = e1.shape[-1]
    return Fixed((c,), [sum(products[k::c]) for k in range(c)], e1.exponent + x2.exponent)


def beta_grad(e1: Fixed) -> Fixed:
    """sum(e1) per channel, exact."""
    sums = bias_grad(e1.ints())
    return Fixed((len(sums),), [int(v) for v in sums], e1.exponent)


def running_update(running: int, x: Fraction | int) -> int:
    """r <- r + (x - r) * 2^-3 of one statistic, ties_even at exponent -31; takes and returns the code."""
    old = running * power(RUNNING_EXPONENT)
    return round_fraction((old + (Fraction(x) - old) / 8) / power(RUNNING_EXPONENT), "ties_even")
