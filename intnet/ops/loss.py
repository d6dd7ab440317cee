"""softmax cross-entropy in float32.

    p = exp(l - max l) / sum exp(l - max l)      loss = mean of log(sum) - (l_label - max l)
    dl = (p - onehot) / N

Rows are independent; within a row, sums run over ascending classes; the mean sums rows in order,
all in float32. Integer logits are rounded once to float32 first.
"""

from typing import Any

import numpy as np

from intnet._jit import njit
from intnet.autograd import Op, Saved
from intnet.errors import DataError, NumberError, ShapeError
from intnet.exact import exact
from intnet.fp32 import exp32, log32


@njit
def _softmax(logits: np.ndarray, labels: np.ndarray, p: np.ndarray) -> np.float32:
    """p = softmax of every row; the mean loss."""
    total = np.float32(0)
    for n in range(logits.shape[0]):
        row, out = logits[n], p[n]
        top = row[0]
        for c in range(1, row.shape[0]):
            top = max(top, row[c])
        denominator = np.float32(0)
        for c in range(row.shape[0]):
            out[c] = exp32(np.float32(row[c] - top))
            denominator = np.float32(denominator + out[c])
        for c in range(row.shape[0]):
            out[c] = np.float32(out[c] / denominator)
        total = np.float32(total + np.float32(log32(denominator) - np.float32(row[labels[n]] - top)))
    return np.float32(total / np.float32(logits.shape[0]))


def float_logits(logits: Any) -> np.ndarray:
    """Logits as float32, integer ones rounded once."""
    return logits if isinstance(logits, np.ndarray) else exact(logits).to_float32()  # type: ignore[union-attr]


def _softmax_cross_entropy(saved: Saved, logits: Any, *, labels: np.ndarray) -> np.float32:
    values = float_logits(logits)
    if values.ndim != 2 or labels.shape != (values.shape[0],) or values.shape[0] == 0:
        raise ShapeError(f"cross-entropy: logits {values.shape} do not fit labels {labels.shape}")
    if labels.min() < 0 or labels.max() >= values.shape[1]:
        raise DataError(
            f"labels run from {labels.min()} to {labels.max()}, the model has {values.shape[1]} classes"
        )
    if not np.all(np.isfinite(values)):
        raise NumberError("the logits hold a NaN or infinity: training diverged, or the input did")
    saved.p, saved.labels = np.empty_like(values), labels
    return np.float32(_softmax(values, labels.astype(np.int64), saved.p))


def _softmax_cross_entropy_vjp(saved: Saved, seed: Any) -> tuple[np.ndarray]:
    """(p - y)/N; the seed is 1 (a loss is the end of the graph)."""
    p, labels = saved.p, saved.labels
    rows = np.arange(labels.size)
    error = p.copy()
    error[rows, labels] = p[rows, labels] - np.float32(1)
    return (error / np.float32(labels.size),)


softmax_cross_entropy = Op("softmax_cross_entropy", _softmax_cross_entropy, _softmax_cross_entropy_vjp)
