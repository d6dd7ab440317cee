"""softmax cross-entropy with label smoothing, in float32: the loss of a batch, and the error it sends back.

    p = exp(l - max l) / sum exp(l - max l)        d = log(sum exp(l - max l)) - (l - max l) = -log p
    t = on onehot + off                            on = 1 - s, off = s / C; s = 0 without smoothing
    loss = mean over images of (on d_label + sum over classes of off d)
    e = (p - t) / N                                = ((p - off) - on onehot) / N

Label smoothing is that of Szegedy et al. 2016, sec. 7. Every operation is one of float32 in the order
written, which is intnet's own contract: sums over classes are plain chains, ascending; that of off d is a
chain of fused multiply-adds from 0, which on d_label joins with one more; it is left out where off = 0. The
losses of the images are summed as a batch (`float32.batch_sum32`: groups of 16, then a tree), and divided by
N. Integer logits are rounded once to float32 first.

>>> row = loss_of([Fraction(0), Fraction(0)], 1, targets(0.0, 2))
>>> row.p, float(row.loss)
([Fraction(1, 2), Fraction(1, 2)], 0.6931471824645996)
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from intnet.spec.elementary import exp32, log32
from intnet.spec.float32 import batch_sum32, chain32, div32, fma32, sub32, to_float32
from intnet.spec.tensor import Fixed, Tensor

# As golden packs print them, of binary32; l are the logits of one of N images.
RULES = {
    "logits": "the network's output; codes are rounded once to binary32",
    "p": "exp(d[c]) / S, d[c] = l[c] - max l, S = exp(d[0]) + exp(d[1]) + ..., from +0, one addition a class",
    "losses": "fma(on, ln(S) - d[label], t); t = +0, but where off is not 0 t = fma(off, ln(S) - d[c], t)"
    " over the classes in order",
    "loss": "sum(losses) / N, a sum over the batch",
    "e": "((p - off) - on) / N at the image's label, (p - off) / N elsewhere",
}


class Targets(NamedTuple):
    """What a target is made of, in float32: `on` is added at the label, `off` is everywhere."""

    on: Fraction
    off: Fraction


class Row(NamedTuple):
    """One image's share: probabilities by class, and its loss."""

    p: list[Fraction]
    loss: Fraction


class Loss(NamedTuple):
    """The mean loss, p (N, C), and e (N, C), dloss/dlogits."""

    loss: Fraction
    p: Tensor
    error: Tensor


def targets(smoothing: float | Fraction, classes: int) -> Targets:
    """s rounded to float32, then 1 - s and s / C, each rounded."""
    share = to_float32(Fraction(smoothing))
    return Targets(sub32(1, share), div32(share, classes))


def logits32(logits: Tensor | Fixed) -> Tensor:
    """Logits in float32: codes are rounded once."""
    if isinstance(logits, Fixed):
        return Tensor(logits.shape, [to_float32(v) for v in logits.real().values])
    return logits


def loss_of(row: Sequence[Fraction], label: int, target: Targets) -> Row:
    """p and the loss of one image's float32 logits."""
    top = max(row)
    below = [sub32(v, top) for v in row]
    powers = [exp32(v) for v in below]
    total = chain32(powers)
    log = log32(total)
    loss = Fraction(0)
    if target.off:  # without it, a logit far below the others could make a term infinite
        for v in below:
            loss = fma32(target.off, sub32(log, v), loss)
    return Row([div32(v, total) for v in powers], fma32(target.on, sub32(log, below[label]), loss))


def error_at(p: Fraction, is_label: bool, target: Targets, n: int) -> Fraction:
    """e of one logit of a batch of n images: p - off, - on at the label, / n."""
    error = sub32(p, target.off)
    return div32(sub32(error, target.on) if is_label else error, n)


def mean_loss(losses: Sequence[Fraction]) -> Fraction:
    """The mean of the images' losses: their batch's sum, divided by N."""
    return div32(batch_sum32(losses), len(losses))


def cross_entropy(logits: Tensor | Fixed, labels: Sequence[int], smoothing: float | Fraction = 0) -> Loss:
    """logits (N, C) and N labels to the loss, p and e."""
    n, c = logits.shape
    values, target = logits32(logits).values, targets(smoothing, c)
    if len(labels) != n or not n:
        raise ValueError(f"{len(labels)} labels for {n} images")
    rows = [loss_of(values[i * c : (i + 1) * c], label, target) for i, label in enumerate(labels)]
    p = [v for row in rows for v in row.p]
    errors = [error_at(v, i % c == labels[i // c], target, n) for i, v in enumerate(p)]
    return Loss(mean_loss([row.loss for row in rows]), Tensor((n, c), p), Tensor((n, c), errors))
