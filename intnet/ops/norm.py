"""batch_norm over all axes but the last.

Integers (WAGEUBN Eq. 12, Algorithms 1 and 2), every `q(path, expression)` one rounding by the method:

    mu = q(mean(x1))                  sigma = q(sqrt(mean((x1 - mean)^2)))   the mean unrounded
    x2 = q((x1 - mu)/(sigma + eps))   x3 = gamma * x2 + beta                 eps = 2^-15
    e2 = e1 * gamma                   m1 = q(mean(e2)), m2 = q(mean(e2 * x2))
    dL/dx1 = (e2 - m1 - x2*m2)/(sigma + eps)     exact, rounded by the quantizer that takes it
    dgamma = sum(e1 * x2)             dbeta = sum(e1)

`normalize` makes x3 by given statistics, `scale_shift` by a scale and an offset; inference reads them.

float32: mean and variance by the row sums of `kernels/float32_rows.py`, then the same formulas with
1/sqrt(variance + eps), each operation one IEEE rounding in the order written.

Defined by `spec/batch_norm.py: batch_norm`, `spec/batch_norm.py: scale_shift`,
`spec/batch_norm.py: batch_norm_grad`, `spec/batch_norm.py: gamma_grad`, `spec/batch_norm.py: beta_grad`,
`spec/float_batch_norm.py: forward`, `spec/float_batch_norm.py: backward`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from intnet.autograd import Keep, Op, Saved, as_it_is, loaded
from intnet.errors import ContainerError, FormatError, ShapeError
from intnet.exact.expressions import Exact
from intnet.exact.sources import Root
from intnet.numbers import shares
from intnet.numbers.qtensor import INT64_BOUND, QTensor
from intnet.ops.elementwise import codes_of
from intnet.ops.kernels import float32_rows
from intnet.ops.kernels.reduce import column_products

Quantizer = Callable[[str, Any], Any]

EPS_EXPONENT = -15  # eps_q = 2^-15
FLOAT_EPS = np.float32(1e-5)


# -- integers --------------------------------------------------------------------------------


def statistics(x1: QTensor, q: Quantizer, where: str = "") -> tuple[QTensor, QTensor]:
    """(mu, sigma): the batch's mean and standard deviation, each rounded once by q.

    Defined by `spec/batch_norm.py: statistics_of`.
    """
    n = shares.rows(x1.size // x1.shape[-1])
    (x1,) = shares.alike(x1)
    sums, squares, _ = column_products(x1, x1, f"{where}/mu", f"{where}/sigma")
    mu = q("mu", Exact([(sums, 1)], int(x1.exponent), den=n))
    deviations = [n * square - int(total) ** 2 for square, total in zip(squares, sums.codes, strict=True)]
    return mu, q("sigma", Root(deviations, n * n, int(x1.exponent), bound=(n * x1.bound) ** 2))


def _lifted(q: QTensor, bits: int, where: str) -> np.ndarray:
    """int64 codes * 2**bits; ContainerError where they are not proven to fit."""
    if q.bound << bits >= INT64_BOUND:
        raise ContainerError(
            f"{where}: codes up to {q.bound} shifted by {bits} bits are beyond every container; the "
            "exponents that meet in batch norm are too far apart, or the codes too wide"
        )
    return q.codes.astype(np.int64) << bits


def denominator(sigma: QTensor, where: str = "batch_norm") -> tuple[np.ndarray, int]:
    """(codes, exponent) of sigma + eps."""
    exponent = min(int(sigma.exponent), EPS_EXPONENT)
    codes = _lifted(sigma, int(sigma.exponent) - exponent, f"{where}/sigma")
    return codes + (1 << (EPS_EXPONENT - exponent)), exponent


def normalized(x1: QTensor, mu: QTensor, sigma: QTensor, where: str = "batch_norm") -> Exact:
    """(x1 - mu)/(sigma + eps) as one exact quotient. Defined by `spec/batch_norm.py: x2_at`."""
    den, den_exponent = denominator(sigma, where)
    exponent = min(int(x1.exponent), int(mu.exponent))
    offset = -_lifted(mu, int(mu.exponent) - exponent, f"{where}/mu")
    return Exact([(x1, 1 << (int(x1.exponent) - exponent))], exponent - den_exponent, offset, den)


def scaled(x2: QTensor, gamma: QTensor, beta: QTensor, where: str = "batch_norm") -> Exact:
    """x3 = gamma * x2 + beta, exact. Defined by `spec/batch_norm.py: x3_at`."""
    exponent = min(int(x2.exponent) + int(gamma.exponent), int(beta.exponent))
    coefficient = _lifted(gamma, int(x2.exponent) + int(gamma.exponent) - exponent, f"{where}/gamma")
    offset = _lifted(beta, int(beta.exponent) - exponent, f"{where}/beta")
    return Exact([(x2, coefficient)], exponent, offset)


def _forward_integer(saved: Saved, x1: QTensor, gamma: QTensor, beta: QTensor, act: Quantizer) -> Exact:
    mu, sigma = statistics(x1, act, saved.where)
    x2 = act("x2", normalized(x1, mu, sigma, saved.where))
    saved.x2, saved.sigma, saved.gamma = x2, sigma, gamma
    return scaled(x2, gamma, beta, saved.where)


def _backward_integer(saved: Saved, e1: QTensor) -> tuple[Exact | None, QTensor, QTensor]:
    x2, gamma, err, where = saved.x2, saved.gamma, saved.err, saved.where
    n = shares.rows(x2.size // x2.shape[-1])
    e1, x2 = shares.alike(e1, x2)
    sum_e, dots, tops = column_products(e1, x2, f"{where}/gbeta", f"{where}/ggamma")
    if max(map(abs, dots)) >= INT64_BOUND:
        raise ContainerError(f"{where}/ggamma: the sum of e1 * x2 does not fit int64")
    exponent, bound = int(e1.exponent) + int(x2.exponent), n * e1.bound * x2.bound
    sum_ex = QTensor(np.array(dots, np.int64), exponent, bound=bound)
    if not saved.needs[0]:
        return None, sum_ex, sum_e
    g = gamma.codes.astype(np.int64)
    e2 = err("e2", Exact([(e1, g)], int(e1.exponent) + int(gamma.exponent)))
    m1 = err("m1", Exact([(sum_e, g)], e2.exponent, den=n))
    m2 = err("m2", Exact([(sum_ex, g)], e2.exponent, den=n << -int(x2.exponent)))
    den, den_exponent = denominator(saved.sigma, where)
    exponent = min(int(m1.exponent), int(m2.exponent) + int(x2.exponent))
    terms = [
        (e1, _lifted(gamma, e2.exponent - exponent, f"{where}/e2")),
        (x2, -_lifted(m2, int(m2.exponent) + int(x2.exponent) - exponent, f"{where}/m2")),
    ]
    offset = -_lifted(m1, int(m1.exponent) - exponent, f"{where}/m1")
    return Exact(terms, exponent - den_exponent, offset, den, tops=tops), sum_ex, sum_e


# -- float32 ---------------------------------------------------------------------------------


def float_statistics(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(mean, variance), float32[C], variance about the rounded mean, divided by n.

    Defined by `spec/float_batch_norm.py: statistics_of`.
    """
    n = np.float32(shares.rows(x.size // x.shape[-1]))
    mean = shares.folded(float32_rows.sum_rows, x) / n
    return mean, shares.folded(lambda part: float32_rows.centred_squares(part, mean), x) / n


def error_sums(e: np.ndarray, x: np.ndarray, mean: np.ndarray, r: np.ndarray) -> Any:
    """(sum of e, sum of e * x2), float32[C]. Defined by `spec/float_batch_norm.py: error_sums_of`."""
    return shares.folded(lambda *part: float32_rows.error_sums(part[0], part[1], mean, r), e, x)


def reciprocal_root(variance: np.ndarray) -> np.ndarray:
    """r = 1/sqrt(variance + eps). Defined by `spec/float_batch_norm.py: reciprocal_root`."""
    return np.float32(1) / np.sqrt(variance + FLOAT_EPS)


def normalized_float(
    saved: Saved, x: Any, mean: Any, variance: Any, gamma: Any, beta: Any, act: Quantizer, keep: Keep
) -> np.ndarray:
    """x3 of float32 by these statistics, of which `act` is told, and what the way back reads."""
    act("mu", mean)
    act("var", variance)
    r = reciprocal_root(variance)
    if any(saved.needs):
        saved.x = keep(x)
    saved.mean, saved.r, saved.gamma = mean, r, gamma
    return float32_rows.normalize(x, mean, r, gamma, beta)


def _backward_float(saved: Saved, e: np.ndarray) -> tuple[np.ndarray | None, np.ndarray, np.ndarray]:
    x, mean, r = loaded(saved.x), saved.mean, saved.r
    sum_e, sum_ex = error_sums(e, x, mean, r)
    if not saved.needs[0]:
        return None, sum_ex, sum_e
    n = np.float32(shares.rows(x.size // x.shape[-1]))
    dx = float32_rows.input_error(e, x, mean, r, sum_e / n, sum_ex / n, saved.gamma * r)
    return dx, sum_ex, sum_e


# -- the operation ---------------------------------------------------------------------------


def check_channels(x: Any, gamma: Any, where: str) -> None:
    """ShapeError unless gamma has a number a channel."""
    if x.shape[-1] != gamma.shape[0]:
        raise ShapeError(f"{where}: input {x.shape} has {x.shape[-1]} channels, gamma {gamma.shape[0]}")


def _batch_norm(
    saved: Saved,
    x: Any,
    gamma: Any,
    beta: Any,
    *,
    act: Quantizer,
    err: Quantizer,
    keep: Keep = as_it_is,
    where: str = "batch_norm",
) -> Any:
    """act(path, value) rounds mu, sigma, x2 on the way forward; err(path, value) e2, m1, m2 back.

    keep: what the tape holds of a float32 x
    """
    check_channels(x, gamma, where)
    saved.err, saved.where, saved.floating = err, where, isinstance(x, np.ndarray)
    if saved.floating:
        return normalized_float(saved, x, *float_statistics(x), gamma, beta, act, keep)
    return _forward_integer(saved, codes_of(x), gamma, beta, act)


def _batch_norm_vjp(saved: Saved, e: Any) -> tuple[Any, Any, Any]:
    e = codes_of(e)
    if isinstance(e, np.ndarray) and not saved.floating:
        raise FormatError("batch_norm: a float error at integer statistics is not exact; quantize it first")
    return _backward_float(saved, e) if saved.floating else _backward_integer(saved, e)


batch_norm = Op("batch_norm", _batch_norm, _batch_norm_vjp)


# -- inference -------------------------------------------------------------------------------


def _normalize(
    _: Saved, x: Any, gamma: Any, beta: Any, mean: Any, variance: Any, *, act: Quantizer, where: str
) -> Any:
    """x3 by running statistics; act(path, value) rounds mu, sigma and x2.

    Defined by `spec/inference.py: Inference`.
    """
    if isinstance(x, np.ndarray):
        one, zero = np.ones_like(gamma), np.zeros_like(gamma)
        x2 = act("x2", float32_rows.normalize(x, mean, reciprocal_root(variance), one, -zero))
        return float32_rows.normalize(x2, zero, one, gamma, beta)  # times 1, less 0, plus -0: not a bit
    mu = act("mu", Exact([(mean, 1)], int(mean.exponent)))
    odd = int(variance.exponent) % 2  # sqrt(v * 2^e) = sqrt(2 v) * 2^((e - 1)/2)
    root = Root([int(v) << odd for v in variance.codes], 1, (int(variance.exponent) - odd) // 2)
    x2 = act("x2", normalized(codes_of(x), mu, act("sigma", root), where))
    return scaled(x2, gamma, beta, where)


def _scale_shift(_: Saved, x: Any, scale: QTensor, offset: QTensor, *, where: str) -> Exact:
    """x3 = scale * x1 + offset. Defined by `spec/batch_norm.py: folded_at`."""
    return scaled(codes_of(x), scale, offset, where)


normalize = Op("normalize", _normalize, None)
scale_shift = Op("scale_shift", _scale_shift, None)
