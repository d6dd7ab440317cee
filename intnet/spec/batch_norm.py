"""Batch normalisation of WAGEUBN in exact arithmetic: statistics, x2, x3 and the full derivative.

    (12)  mu, sigma, x2      (2)  x3      (3)  e2, m1, m2 and dL/dx1      (4)  dL/dgamma, dL/dbeta

`RULES` has what each is before it is rounded. Numbers are equations of WAGEUBN (Yang et al. 2020; Algorithms
1 and 2): mu, sigma and x2 are Q(., 16) of (6) and (13), (17) stores dL/dx1 as e3. eps, the width of m1 and
m2, and the running statistics, on which the paper is silent, are intnet's own contract: mu and sigma carry
gradient, eps counts as part of sigma. The last axis is the channel. What stands inside Q is one exact
number: the rules of one channel and of one element give it, and a format rounds it once. `batch_norm` and
`batch_norm_grad` do both for the paper's formats.

>>> statistics_of([1, 3], 0)                       # codes 1 and 3 at exponent 0
(Fraction(2, 1), Fraction(1, 1))
>>> x2_at(Fraction(3), Fraction(2), Fraction(1))   # a little below 1: eps
Fraction(32768, 32769)
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from operator import mul
from typing import NamedTuple

from intnet.spec.formats import Direct
from intnet.spec.rounding import round_fraction
from intnet.spec.tensor import Fixed, Tensor, power

# As golden packs print them: what stands ahead of each rounding, exact. `handed` is dL/dx1.
RULES = {
    "mu": "sum(x1) / n",
    "sigma": "sqrt(sum((x1 - sum(x1) / n)^2) / n): about the exact mean, not about mu, and rounded once: "
    "floor is the root's, and it goes up where the radicand is above (floor + 1/2)^2",
    "x2": "(x1 - mu) / (sigma + 2^-15), one quotient of the stored mu and sigma",
    "x3": "gammaq * x2 + betaq",
    "e2": "e1 * gammaq",
    "m1": "sum(e2) / n",
    "m2": "sum(e2 * x2) / n",
    "ggamma": "sum(e1 * x2)",
    "gbeta": "sum(e1)",
    "handed": "(e2 - m1 - x2 * m2) / (sigma + 2^-15), one quotient, not rounded",
    "running_mean": "r + (mu - r) / 8, r that before the step, at first 0; ties_even at 2^-31",
    "running_var": "r + (sigma^2 - r) / 8, r that before the step, at first 1; ties_even at 2^-31",
}
SUMS = "Statistics and sums are of one channel, over its n elements: all axes but the last."
K_BN = 16
STORED = Direct(K_BN)  # of mu, sigma and x2
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


# -- one channel -----------------------------------------------------------------------------------


def statistics_of(codes: Sequence[int], exponent: int) -> tuple[Fraction, Fraction]:
    """(mean, variance) of one channel's codes: around the unrounded mean, divided by the count; Eq. (12).

    variance = (n sum(x^2) - sum(x)^2) / n^2
    """
    n, total = len(codes), sum(codes)
    deviation = n * sum(map(mul, codes, codes)) - total**2
    return Fraction(total, n) * power(exponent), Fraction(deviation, n * n) * power(2 * exponent)


def moments_of(e1: Sequence[int], x2: Sequence[int]) -> tuple[int, int]:
    """(sum(e1), sum(e1 x2)) of one channel's codes: (4), and all that m1 and m2 of (3) need."""
    return sum(e1), sum(map(mul, e1, x2))


def means_of(e2: Fixed, x2: Fixed, channel: int) -> tuple[Fraction, Fraction]:
    """The exact means of e2 and of e2 * x2 of one channel; Eq. (3)."""
    c = e2.shape[-1]
    errors, normed = e2.codes[channel::c], x2.codes[channel::c]
    total, product = moments_of(errors, normed)
    unit, n = power(e2.exponent), len(errors)
    return Fraction(total, n) * unit, Fraction(product, n) * unit * power(x2.exponent)


def running_update(running: int, x: Fraction | int) -> int:
    """r <- r + (x - r) * 2^-3 of one statistic, ties_even at exponent -31; takes and returns the code."""
    old = running * power(RUNNING_EXPONENT)
    return round_fraction((old + (Fraction(x) - old) / 8) / power(RUNNING_EXPONENT), "ties_even")


def reestimated(seen: Sequence[Fraction]) -> int:
    """The plain mean over batches of one statistic, mu or sigma^2: the code, ties_even at exponent -31.

    >>> reestimated([Fraction(1, 2), Fraction(1, 4)]) / 2**31
    0.375
    """
    return round_fraction(sum(seen, Fraction(0)) / len(seen) / power(RUNNING_EXPONENT), "ties_even")


# -- one element, before it is rounded -------------------------------------------------------------


def x2_at(x1: Fraction, mu: Fraction, sigma: Fraction) -> Fraction:
    """(x1 - mu) / (sigma + eps): one exact rational; Eq. (12)."""
    return (x1 - mu) / (sigma + EPS)


def x3_at(x2: Fraction, gamma: Fraction, beta: Fraction) -> Fraction:
    """gamma x2 + beta; Eq. (2)."""
    return gamma * x2 + beta


def e2_at(e1: Fraction, gamma: Fraction) -> Fraction:
    """e1 gamma; Eq. (3)."""
    return e1 * gamma


def dx1_at(e2: Fraction, x2: Fraction, m1: Fraction, m2: Fraction, sigma: Fraction) -> Fraction:
    """(e2 - m1 - x2 m2) / (sigma + eps), dL/dx1 of Eq. (3), which (17) rounds."""
    return (e2 - m1 - x2 * m2) / (sigma + EPS)


# -- whole tensors, before they are rounded --------------------------------------------------------


def mean_and_variance(x1: Tensor) -> list[tuple[Fraction, Fraction]]:
    """Exact mean and variance of every channel of exact numbers."""
    c = x1.shape[-1]
    out = []
    for k in range(c):
        xs = [Fraction(v) for v in x1.values[k::c]]
        unit = max(v.denominator for v in xs)
        if all(unit % v.denominator == 0 for v in xs):  # powers of two: integers will do
            mean, variance = statistics_of([v.numerator * (unit // v.denominator) for v in xs], 0)
            out.append((mean / unit, variance / unit**2))
            continue
        mean = sum(xs, Fraction(0)) / len(xs)
        out.append((mean, sum(((v - mean) ** 2 for v in xs), Fraction(0)) / len(xs)))
    return out


def normalized(x1: Fixed | Tensor, mu: Fixed, sigma: Fixed) -> list[Fraction]:
    """`x2_at` of every element."""
    xs = x1.real().values if isinstance(x1, Fixed) else x1.values
    c, centre, width = x1.shape[-1], mu.real().values, sigma.real().values
    return [x2_at(v, centre[i % c], width[i % c]) for i, v in enumerate(xs)]


def error_means(e2: Fixed, x2: Fixed) -> tuple[list[Fraction], list[Fraction]]:
    """The exact means of e2 and of e2 * x2, by channel."""
    means = [means_of(e2, x2, k) for k in range(e2.shape[-1])]
    return [m for m, _ in means], [m for _, m in means]


def input_error(e2: Fixed, x2: Fixed, m1: Fixed, m2: Fixed, sigma: Fixed) -> list[Fraction]:
    """`dx1_at` of every element."""
    c = e2.shape[-1]
    first, second, width = m1.real().values, m2.real().values, sigma.real().values
    pairs = enumerate(zip(e2.real().values, x2.real().values, strict=True))
    return [dx1_at(e, x, first[i % c], second[i % c], width[i % c]) for i, (e, x) in pairs]


# -- whole tensors, rounded as the paper has it ----------------------------------------------------


def batch_norm(x1: Tensor, mode: str = "ties_even") -> Normed:
    """mu = Q(mean, 16), sigma = Q(sqrt(variance), 16), x2 = Q((x1 - mu) / (sigma + eps), 16); Eq. (12)."""
    stats, exponent = mean_and_variance(x1), STORED.exponent(0)
    shape = (len(stats),)
    mu = Fixed(shape, [STORED.code(mean, 0, mode)[0] for mean, _ in stats], exponent)
    sigma = Fixed(shape, [STORED.root_code(variance, 0, mode)[0] for _, variance in stats], exponent)
    return Normed(mu, sigma, normalize(x1, mu, sigma, mode))


def normalize(x1: Tensor, mu: Fixed, sigma: Fixed, mode: str = "ties_even") -> Fixed:
    """x2 by given statistics, which in inference are the running ones."""
    codes = [STORED.code(v, 0, mode)[0] for v in normalized(x1, mu, sigma)]
    return Fixed(x1.shape, codes, STORED.exponent(0))


def scale_shift(x2: Fixed, gamma: Fixed, beta: Fixed) -> Fixed:
    """x3 = gamma x2 + beta per channel, exact, at the product's exponent, at most beta's; Eq. (2)."""
    c = x2.shape[-1]
    exponent = x2.exponent + gamma.exponent
    raised = [code * 2 ** (beta.exponent - exponent) for code in beta.codes]
    codes = [gamma.codes[i % c] * code + raised[i % c] for i, code in enumerate(x2.codes)]
    return Fixed(x2.shape, codes, exponent)


def scale_error(e1: Fixed, gamma: Fixed) -> Fixed:
    """e2 = e1 gamma per channel, exact; Eq. (3)."""
    c = e1.shape[-1]
    codes = [code * gamma.codes[i % c] for i, code in enumerate(e1.codes)]
    return Fixed(e1.shape, codes, e1.exponent + gamma.exponent)


def batch_norm_grad(e2: Fixed, x2: Fixed, sigma: Fixed) -> NormGrad:
    """m1 and m2, each rounded once (ties_even) to 16 bits below e2's LSB; dL/dx1 of them, unrounded."""
    exponent = e2.exponent - GUARD_BITS
    means = error_means(e2, x2)
    shape = (e2.shape[-1],)
    m1, m2 = (Fixed(shape, [round_fraction(m / power(exponent)) for m in ms], exponent) for ms in means)
    return NormGrad(m1, m2, Tensor(e2.shape, input_error(e2, x2, m1, m2, sigma)))


def gamma_grad(e1: Fixed, x2: Fixed) -> Fixed:
    """sum(e1 x2) per channel, exact; Eq. (4)."""
    c = e1.shape[-1]
    sums = [moments_of(e1.codes[k::c], x2.codes[k::c])[1] for k in range(c)]
    return Fixed((c,), sums, e1.exponent + x2.exponent)


def beta_grad(e1: Fixed) -> Fixed:
    """sum(e1) per channel, exact; Eq. (4)."""
    c = e1.shape[-1]
    return Fixed((c,), [sum(e1.codes[k::c]) for k in range(c)], e1.exponent)


# -- inference -------------------------------------------------------------------------------------


def folded_at(x1: Fraction, scale: Fraction, offset: Fraction) -> Fraction:
    """x3 = scale x1 + offset of a model whose batch norm is two stored words a channel: exact."""
    return scale * x1 + offset
