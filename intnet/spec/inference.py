"""Inference: one way forward after training, and the class of every image.

    batch      256 test images, in order: what a format makes of a whole tensor, as R(x), it makes of a batch
    norm       by running means and variances (`Step.running`), or as scale x1 + offset (`Step.folded`);
               `statistics=batch` reads those of the batch
    estimate   on demand means over N training batches stand for the running ones: of the N steps that would
               come next, which pass in order, in inference, each by its own statistics (`reestimated`)
    dropout    hands on what comes
    rounding   parameters by the words of the step that would come next; activations to nearest, ties to even
    class      the first of an image's greatest logits

All of it is intnet's own contract: the papers say how they train; of MuPPET it is told that a float32 network
comes of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

from intnet.spec import batch_norm as integer_norm
from intnet.spec import float_batch_norm as float_norm
from intnet.spec.data import Dataset
from intnet.spec.digest import Floats, Words
from intnet.spec.loss import logits32
from intnet.spec.methods.step import Now, State, Step
from intnet.spec.models import Layer, Net, layers_of
from intnet.spec.nets import Walk
from intnet.spec.tensor import Fixed, Tensor
from intnet.spec.values import Quotient, Roots, Value, exact

BATCH = 256
# As golden packs print them: of the network's end, and of batch norm in integers, in float32 and folded.
RULES = {
    "logits": "the network's output; codes are rounded once to binary32",
    "class": "the first of the image's greatest logits, counted from 0",
}
INTEGER_NORM = {
    "mu": "running_mean",
    "sigma": "sqrt(running_var), rounded once: floor is the root's, and it goes up where the radicand is"
    " above (floor + 1/2)^2",
    "x2": integer_norm.RULES["x2"],
    "x3": integer_norm.RULES["x3"],
}
FLOAT_NORM = {
    "x2": "(x1 - running_mean) * r, r = 1 / sqrt(running_var + eps), eps = 0x3727c5ac",
    "x3": "x2 * {gamma} + {beta}, a product and a sum",
}
FOLDED_NORM = {
    "scale": "{gamma} * r, r = 1 / sqrt(running_var + eps), eps = 0x3727c5ac, in binary32, then BF(32),"
    " ties_even; where its exponent is below FL + E - 30, FL that of precision and E the exponent of offset,"
    " it is rounded at that one instead, to -2^31..2^31 - 1",
    "offset": "{beta} - running_mean * ({gamma} * r), in binary32, then BF(32), ties_even; where its exponent"
    " is below that of BF(32) of scale, it is rounded at that one instead, to -2^31..2^31 - 1",
    "x3": "scale * x1 + offset",
}


class Inference(Walk):
    """The walk with running statistics and without dropout."""

    rules: Step

    def _dropout(self, layer: Layer, x: Value) -> Value:
        return x

    def _norm(self, layer: Layer, x: Value) -> Value:
        running = self.rules.running(layer)
        if running is None:
            return super()._norm(layer, x)
        act, folded, c = self.rules.activation, self.rules.folded(layer), x.shape[-1]
        if folded is not None:
            scale, offset = (exact(part) for part in folded)
            made = [integer_norm.folded_at(v, scale[i % c], offset[i % c]) for i, v in enumerate(exact(x))]
            return act(layer, "x3", Quotient(x.shape, made))
        gamma, beta = self.rules.weight(layer, "gamma"), self.rules.weight(layer, "beta")
        if isinstance(x, Fixed) != isinstance(gamma, Fixed):
            x = act(layer, "x1", x)
        mean, variance = running
        if isinstance(x, Fixed):
            mu, sigma = act(layer, "mu", Quotient((c,), mean)), act(layer, "sigma", Roots((c,), variance))
            x2 = act(layer, "x2", Quotient(x.shape, integer_norm.normalized(x, mu, sigma)))
            return act(layer, "x3", integer_norm.scale_shift(x2, gamma, beta))
        assert isinstance(x, Tensor)
        r = [float_norm.reciprocal_root(v) for v in variance]
        x2 = [float_norm.x2_at(v, mean[i % c], r[i % c]) for i, v in enumerate(x.values)]
        act(layer, "x2", Tensor(x.shape, x2))
        pairs = enumerate(x2)
        x3 = [float_norm.x3_at(v, gamma.values[i % c], beta.values[i % c]) for i, v in pairs]
        return act(layer, "x3", Tensor(x.shape, x3))


class Estimation(Inference):
    """The walk of inference by the batch's own statistics, whatever the method reads otherwise."""

    def _norm(self, layer: Layer, x: Value) -> Value:
        return Walk._norm(self, layer, x)


def reestimated(
    net: Net, method: ModuleType, settings: Any, state: State, batches: Sequence[Fixed], now: Now
) -> State:
    """The state with every batch norm's running statistics as their means over `batches`; nothing else moves.

    Of integers the means of mu and of sigma^2, else of the mean and the variance.
    """
    norms = [layer for layer in layers_of(net) if layer.kind == "norm"]
    passes: list[Step] = []
    for images in batches:
        passes.append(method.Step(net, settings, state, replace(now, inference=True)))
        Estimation(passes[-1], passes[-1].first).forward(net, images)
    made = dict(state)
    for name in (layer.name for layer in norms):
        shape = passes[0].tensors[f"{name}/mu"].shape
        integers = isinstance(passes[0].tensors[f"{name}/mu"], Fixed)
        means = zip(*(exact(step.tensors[f"{name}/mu"]) for step in passes), strict=True)
        width = f"{name}/{'sigma' if integers else 'var'}"
        widths = zip(*(exact(step.tensors[width]) for step in passes), strict=True)
        power = 2 if integers else 1
        for key, seen in (("running_mean", means), ("running_var", ([v**power for v in c] for c in widths))):
            if integers:
                codes = [integer_norm.reestimated(channel) for channel in seen]
                made[f"{name}.{key}"] = Words("int64", shape, codes, integer_norm.RUNNING_EXPONENT)
            else:
                values = [float_norm.reestimated(channel) for channel in seen]
                made[f"{name}.{key}"] = Floats("float32", shape, values)
    return made


def logits(net: Net, method: ModuleType, settings: Any, state: State, images: Fixed, now: Now) -> Tensor:
    """float32 (images, classes) of one batch; now.step: how many steps the state has behind it."""
    step: Step = method.Step(net, settings, state, replace(now, inference=True))
    found = Inference(step, step.first).forward(net, images)
    assert isinstance(found, Fixed | Tensor)
    return logits32(found)


def classes(logits: Tensor) -> list[int]:
    """The first of the greatest logits of every image.

    >>> classes(Tensor((2, 3), [0, 2, 2, 5, 1, 0]))
    [1, 0]
    """
    n, width = logits.shape
    rows = [list(logits.values[i * width : (i + 1) * width]) for i in range(n)]
    return [row.index(max(row)) for row in rows]


def ranks(logits: Tensor, labels: Sequence[int]) -> list[int]:
    """How many classes stand ahead of each image's own: of greater logits, of equal ones by number.

    >>> ranks(Tensor((2, 3), [0, 2, 2, 5, 1, 0]), [2, 1])
    [1, 1]
    """
    n, width = logits.shape
    rows = [list(logits.values[i * width : (i + 1) * width]) for i in range(n)]
    return [
        sorted(range(width), key=lambda c, row=row: (-row[c], c)).index(label)  # type: ignore[misc]
        for row, label in zip(rows, labels, strict=True)
    ]


def batch(data: Dataset, k: int, size: int = BATCH) -> tuple[Fixed, list[int]]:
    """(images, labels) of the test batch k, from 0; the last one may be short."""
    part = slice(k * size, (k + 1) * size)
    images, labels = data.test_images[part], data.test_labels[part]
    return Fixed((len(images), *data.shape), [v for image in images for v in image], data.exponent), labels
