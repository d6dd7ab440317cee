"""range_norm over all axes but the last: batch norm whose deviation is estimated from the batch's range.

    w = C(n) (max - min), C(n) = 1/sqrt(2 ln n)      v = w^2 in place of the variance
    dL/dx1 = (e1 - m1) slope, at the first greatest value of a channel less k, at the first least plus k
    slope = gamma r, k = ((slope ggamma) (w r)) C(n)

float32 alone; mean, x3, dgamma and dbeta are `norm.py`'s, and so is inference. Source: Banner et al. 2018.

Defined by `spec/range_norm.py: statistics`, `spec/range_norm.py: backward`, `spec/range_norm.py: constant`.
"""

from decimal import Context
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from intnet.autograd import Keep, Op, Saved, as_it_is, loaded
from intnet.errors import FormatError
from intnet.exact.sources import fraction_to_float32
from intnet.numbers import shares
from intnet.ops.kernels import float32_rows
from intnet.ops.kernels.float32_rows import Ends
from intnet.ops.norm import Quantizer, check_channels, error_sums, normalized_float

DIGITS = Context(prec=50)


@cache
def constant(n: int) -> np.float32:
    """C(n). Defined by `spec/range_norm.py: constant`."""
    if n == 1:
        return np.float32(0)
    return fraction_to_float32(Fraction(DIGITS.divide(1, DIGITS.sqrt(DIGITS.multiply(2, DIGITS.ln(n))))))


def width(ends: Ends, n: int) -> np.ndarray:
    """w, float32[C], of n values a channel. Defined by `spec/range_norm.py: width_of`."""
    greatest, least = shares.greatest(np.stack([ends.greatest, -ends.least]))
    return constant(n) * (greatest + least)


def _range_norm(
    saved: Saved, x: Any, gamma: Any, beta: Any, *, act: Quantizer, keep: Keep = as_it_is, where: str = ""
) -> np.ndarray:
    """act(path, value) is told of mu and var, which is v; keep: what the tape holds of x."""
    if not isinstance(x, np.ndarray):
        raise FormatError(f"{where or 'range_norm'} takes float32, not a {type(x).__name__}")
    check_channels(x, gamma, where or "range_norm")
    n = shares.rows(x.size // x.shape[-1])
    saved.ends = float32_rows.ends(x)
    mean, saved.width = shares.folded(float32_rows.sum_rows, x) / np.float32(n), width(saved.ends, n)
    return normalized_float(saved, x, mean, saved.width * saved.width, gamma, beta, act, keep)


def _first(at: np.ndarray, top: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """(rows, channels) whose `top` is the first greatest of all ranks; at: where it stands, of n rows."""
    number = shares.start(n) + at
    behind = np.where(top == shares.greatest(top), -number, -shares.rows(n))
    channels = np.flatnonzero(-shares.greatest(behind) == number)
    return at[channels], channels


def _range_norm_vjp(saved: Saved, e: np.ndarray) -> tuple[Any, Any, Any]:
    x, mean, r, w, ends = loaded(saved.x), saved.mean, saved.r, saved.width, saved.ends
    sum_e, sum_ex = error_sums(e, x, mean, r)
    if not saved.needs[0]:
        return None, sum_ex, sum_e
    rows, slope = x.reshape(-1, x.shape[-1]), saved.gamma * r
    n, none = shares.rows(rows.shape[0]), np.zeros_like(mean)
    dx = float32_rows.input_error(e, x, mean, r, sum_e / np.float32(n), none, slope)
    k = ((slope * sum_ex) * (w * r)) * constant(n)
    out = dx.reshape(rows.shape)
    for at, top, sign in ((ends.at_greatest, ends.greatest, 1), (ends.at_least, -ends.least, -1)):
        first, here = _first(at, top, rows.shape[0])
        out[first, here] -= sign * k[here]
    return dx, sum_ex, sum_e


range_norm = Op("range_norm", _range_norm, _range_norm_vjp)
