"""What is equal on every path that there is, and wrong all the same: told in the row `wiring`."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from intnet import autograd, datasets, layers, methods, ops
from intnet.layers.base import Layer
from intnet.methods.float32 import Float32
from intnet.methods.method import Parameter, to_float32
from intnet.methods.mx import Mx
from intnet.methods.packing import Packing
from intnet.methods.wageubn import Wageubn
from intnet.runs import run_folder
from intnet.training import train
from intnet.training.train import Run
from intnet.verify import taken, wiring
from intnet.verify.judge import Judge
from intnet.verify.row import DIFFERS, EQUAL, Row
from tests.support.everything import Everything
from tests.support.zoo import KINDS

CASES = [
    *((method, {}) for method in methods.METHODS),
    ("wageubn", {"edges": "fixed16"}),
    ("wageubn", {"first": "block"}),
    ("dynasty", {"forward_dynamic": "weight"}),
    ("muppet", {"statistics": "batch"}),
]


def told(method: str, inference: bool = False, net: Callable[[], Any] = Everything, **options: Any) -> Row:
    model, draw = net(), np.random.default_rng(4)
    images = draw.integers(0, 256, (8, *model.image_shape)).astype(np.uint8)
    labels = np.arange(8) % model.classes
    data = datasets.from_arrays(images, labels, images, labels, model.classes)
    run = Run(model, methods.make(method, **options), data, 4, seed=5)
    if inference:
        step = taken.take_inference(run, 2, 1, lambda run, steps: run.train(steps))
    else:
        step = taken.take(run, 1, lambda run, steps: run.train(steps))
    return wiring.check(step, Judge(step))


@pytest.mark.slow
@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize(("method", "options"), CASES, ids=str)
def test_a_step_as_it_is(method: str, options: dict[str, Any], inference: bool) -> None:
    for net in (Everything, KINDS["resnet"][1]):
        row = told(method, inference, net, **options)
        assert (row.state, row.why) == (EQUAL, "")


ON_PATH, WEIGHT, PACKED = Layer.on_path, Wageubn.weight, Packing._packed
LOSS, DROPOUT, MAXIMA = ops.softmax_cross_entropy, ops.dropout, ops.max_pool2d


def raw(self: Layer, x: Any, method: Any, path: str | None, back: str | None) -> Any:
    """The quantized copy is made and left aside."""
    made = ON_PATH(self, x, method, path, back)
    return x if path == "x0" and self.name == "fc2" else made


def as_it_is(self: Wageubn, layer: Any, parameter: Parameter, symbol: str) -> Any:
    """Wageubn's, but for one symbol, which is read as it stands in the memory."""
    return parameter.value if parameter.symbol == symbol else WEIGHT(self, layer, parameter)


def halved(self: Any, layer: Any, path: str, value: Any) -> Any:
    """Shown as it is, handed on by half."""
    made = self.passes(layer, path, to_float32(value))
    return made * np.float32(0.5) if layer.name == "fc2" and path in ("x1", "e4") else made


FAULTS: dict[str, tuple[str, Any, str, Any, str]] = {
    "gradients of a join are lost": (
        "float32", autograd, "_joined", lambda before, part, add: part,
        "a gradient that it made was not read",
    ),
    "an activation is shown and another one handed on": (
        "float32", Float32, "activation", halved,
        "fc2/x1: the method showed one value and handed on another",
    ),
    "an error is shown and another one handed on": (
        "float32", Float32, "error", halved, "fc2/e4: the method showed one value and handed on another",
    ),
    "weights are never rounded": (
        "wageubn", Wageubn, "weight", lambda *args: as_it_is(*args, "W"), "conv2/Wq was not stored",
    ),
    "gamma is never rounded": (
        "wageubn", Wageubn, "weight", lambda *args: as_it_is(*args, "gamma"), "bn2/gammaq was not stored",
    ),
    "products of what was not rounded": (
        "muppet", Layer, "on_path", raw, "cast fc2/x0: its result was not read",
    ),
    "no copy for the way back": (
        "mx", Mx, "weight",
        lambda self, layer, p: self._copy(layer, "Wq", p.value) if p.symbol == "W" else p.value,
        "fc2/Wb was not stored",
    ),
    "a tape of float32": (
        "saved", Packing, "_packed",
        lambda self, layer, path, x, plan: x if path == "x1" else PACKED(self, layer, path, x, plan),
        "bn1/x1s was not stored",
    ),
    "a loss without its smoothing": (
        "float32", train.ops, "softmax_cross_entropy",
        lambda x, labels, smoothing: LOSS(x, labels=labels, smoothing=0.0),
        "the loss has label smoothing 0.0, and the method 0.1",
    ),
    "dropout keeps another share": (
        "float32", ops, "dropout", lambda x, words, keep: DROPOUT(x, words=words, keep=Fraction(9, 10)),
        "dropout ran with keep = (Fraction(9, 10),)",
    ),
    "a pool of other windows": (
        "float32", ops, "max_pool2d", lambda x, **_: MAXIMA(x, kernel=(2, 2), stride=(2, 2), padding=(0, 0)),
        "max_pool2d ran with kernel, stride, padding = ((2, 2), (2, 2), (0, 0, 0, 0))",
    ),
    "maxima in place of means": (
        "float32", layers.AdaptiveAvgPool2d, "forward",
        lambda self, x, method: MAXIMA(x, kernel=(1, 2), stride=(1, 2), padding=(0, 0)),
        "operation adaptive_avg_pool2d ran 0 times",
    ),
    "an activation that is left out": (
        "float32", layers.ReLU, "forward", lambda self, x, method: x, "operation relu ran 0 times",
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_told(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    method, owner, attribute, fault, says = FAULTS[name]
    monkeypatch.setattr(owner, attribute, fault)
    row = told(method, **({"label_smoothing": 0.1} if "smoothing" in name else {}))
    assert row.state == DIFFERS and row.differing and says in row.why


def test_an_equation_has_what_the_gradient_reads() -> None:
    """x0s where the tape packed it; adapt's table knows of no tape."""
    options = {"saved.bits@fc1": "4", "saved.bits": "off"}
    run = run_folder.build("adapt", options, "mlp", "digits", batch_size=20, limit=40)
    judge = Judge(taken.take(run, 1, lambda run, steps: run.train(steps)))
    assert [judge.equation(layer, "gW") for layer in ("fc1", "fc2")] == ["e3 x0s^T", "e3 x0^T"]
