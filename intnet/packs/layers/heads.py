"""What ends a network, as if it were a layer: the loss of a training step, the classes of an inference.

    loss/labels     in     the class of each image
    loss/logits     the network's output in binary32; where it is that already, another name of it
    loss/p          softmax; loss/losses: of each image; loss/loss: their mean
    loss/e          the error that goes back: what the last layer gets

    classes/logits, classes/class       of inference: the first of each image's greatest logits

Defined by `spec/loss.py: cross_entropy`, `spec/inference.py: classes`.
"""

from typing import Any

import numpy as np

from intnet import ops
from intnet.autograd import Saved
from intnet.methods.symbols import Symbol
from intnet.methods.trace import Event
from intnet.numbers.qtensor import QTensor
from intnet.ops.loss import float_logits
from intnet.packs.layers.capture import Captured
from intnet.packs.ports import CLASSES, HEADS, LOSS

LABELS = "labels"
AXES = {2: "N,C", 1: "N"}
SYMBOLS = {
    "logits": Symbol("forward", "x1, the network's output, rounded once to binary32"),
    "p": Symbol("forward", "softmax of logits"),
    "losses": Symbol("forward", "-log p of the label, from logits, by image"),
    "loss": Symbol("forward", "mean of losses"),
    "e": Symbol("backward", "(p - targets) / N, the error at logits"),
    "class": Symbol("forward", "the first of the greatest logits"),
}


def loss(last: Captured, labels: np.ndarray, smoothing: float, step: int) -> Captured:
    """The loss of a step, after the network's last layer, whose gradient is the error that went back."""
    logits, saved, cross_entropy = (
        float_logits(last.output),
        Saved((True,)),
        ops.softmax_cross_entropy.forward,
    )
    given: dict[str, Any] = {"smoothing": smoothing}
    mean = cross_entropy(saved, logits, labels=labels, **given)
    rows = [slice(n, n + 1) for n in range(len(labels))]
    each = [cross_entropy(Saved((False,)), logits[n], labels=labels[n], **given) for n in rows]
    values = {"logits": logits, "p": saved.p, "losses": np.array(each, np.float32)}
    values |= {"loss": np.array([mean], np.float32), "e": last.gradient}
    made = _head(LOSS, last, values, step)
    made.before = {LABELS: QTensor(labels.astype(np.int64), 0)}
    made.handed, made.wanted, last.errors = last.gradient, True, [["handed", LOSS]]
    return made


def classes(last: Captured, step: int) -> Captured:
    """The classes of an inference, after the network's last layer."""
    logits = float_logits(last.output)
    found = QTensor(logits.argmax(axis=1).astype(np.int64), 0)
    return _head(CLASSES, last, {"logits": logits, "class": found}, step)


def _head(name: str, last: Captured, values: dict[str, Any], step: int) -> Captured:
    events = [Event(name, path, step, value, value) for path, value in values.items()]
    sources = [["output", last.layer]]
    return Captured(name, name, last.output, sources=sources, errors=[], events=events)


def axes(one: Captured) -> dict[int, str] | None:
    """Names of the dimensions of a head's ports, by their number; None for a layer."""
    return AXES if one.kind in HEADS else None
