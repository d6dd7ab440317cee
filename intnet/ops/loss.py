"""softmax cross-entropy in float32.

    p = exp(l - max l) / sum exp(l - max l)      d = log(sum) - (l - max l) = -log p
    loss = mean of d_label                       dl = (p - onehot) / N

With label smoothing s over C classes (Szegedy et al. 2016, sec. 7) the targets are t = on*onehot + off:

    off = s / C, on = 1 - s                      loss = mean of on*d_label + sum of off*d
    dl = ((p - off) - on*onehot) / N

Rows are independent; within a row, sums run over ascending classes; the mean sums groups of rows, whose
sums meet in a tree (`numbers/batch_sums.py`), all in float32. A product and the sum that it joins round once
(`fma32`): the sum of off*d from 0, then on*d_label. Integer logits are rounded once to float32 first.

Defined by `spec/loss.py: cross_entropy`.
"""

from typing import Any

import numpy as np

from intnet.autograd import Op, Saved
from intnet.errors import ConfigError, DataError, NumberError, ShapeError
from intnet.exact.expressions import exact
from intnet.machine.instructions import fma32
from intnet.machine.jit import njit
from intnet.numbers import shares
from intnet.numbers.batch_sums import GROUP, settle, stack_lines
from intnet.numbers.fp32 import exp32, log32


@njit
def _softmax(
    logits: np.ndarray, labels: np.ndarray, on: np.float32, off: np.float32, p: np.ndarray, stack: np.ndarray
) -> np.float32:
    """p = softmax of every row; the sum of the losses. stack: one word wide, for the sums of groups.

    Defined by `spec/loss.py: loss_of`, `spec/loss.py: mean_loss`.
    """
    total, top_sum, rows = np.float32(0), np.int64(0), logits.shape[0]
    for n in range(rows):
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
        log = log32(denominator)
        loss = np.float32(0)
        if off != np.float32(0):  # without it, a logit far below the others may make a term infinite
            for c in range(row.shape[0]):
                loss = fma32(off, np.float32(log - np.float32(row[c] - top)), loss)
        total = np.float32(total + fma32(on, np.float32(log - np.float32(row[labels[n]] - top)), loss))
        if (n + 1) % GROUP == 0 or n + 1 == rows:
            stack[top_sum, 0] = total
            top_sum = settle(stack, top_sum, n // GROUP, n + 1 == rows) + 1
            total = np.float32(0)
    return np.float32(stack[0, 0])


def float_logits(logits: Any) -> np.ndarray:
    """Logits as float32, integer ones rounded once. Defined by `spec/loss.py: logits32`."""
    return logits if isinstance(logits, np.ndarray) else exact(logits).to_float32()  # type: ignore[union-attr]


def probabilities(logits: np.ndarray) -> np.ndarray:
    """float32 (N, C): the softmax of each row; NumberError where a logit is none.

    Defined by `spec/loss.py: loss_of`.
    """
    if not np.all(np.isfinite(logits)):
        raise NumberError("the logits hold a NaN or infinity: training diverged, or the input did")
    p, labels = np.empty_like(logits), np.zeros(len(logits), np.int64)
    stack = np.empty((stack_lines(-(-len(logits) // GROUP)), 1), np.float32)
    _softmax(logits, labels, np.float32(1), np.float32(0), p, stack)
    return p


def _targets(smoothing: float, classes: int) -> tuple[np.float32, np.float32]:
    """(on, off) of the module. Defined by `spec/loss.py: targets`."""
    if not 0 <= smoothing < 1:
        raise ConfigError(f"label smoothing {smoothing}: it is from 0 to below 1")
    share = np.float32(smoothing)
    return np.float32(1) - share, share / np.float32(classes)


def _softmax_cross_entropy(
    saved: Saved, logits: Any, *, labels: np.ndarray, smoothing: float = 0.0
) -> np.float32:
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
    saved.images = shares.rows(labels.size)
    saved.on, saved.off = _targets(smoothing, values.shape[1])
    stack = np.empty((stack_lines(-(-labels.size // GROUP)), 1), np.float32)

    def losses(*rows: np.ndarray) -> np.ndarray:
        return np.array([_softmax(*rows[:2], saved.on, saved.off, rows[2], stack)], np.float32)

    (total,) = shares.folded(losses, values, labels.astype(np.int64), saved.p)
    return np.float32(total / np.float32(saved.images))


def _softmax_cross_entropy_vjp(saved: Saved, seed: Any) -> tuple[np.ndarray]:
    """(p - t)/N, times a seed that is not 1, which training has. Defined by `spec/loss.py: error_at`."""
    labels = saved.labels
    rows = np.arange(labels.size)
    error = saved.p - saved.off
    error[rows, labels] -= saved.on
    error /= np.float32(saved.images)
    return (error if seed == 1 else error * np.float32(seed),)


softmax_cross_entropy = Op("softmax_cross_entropy", _softmax_cross_entropy, _softmax_cross_entropy_vjp)
