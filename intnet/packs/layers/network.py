"""Packs of a whole network: every layer of a training step with its loss, or of an inference.

    write(draft(run, 1), "packs/step")          the next step of `run`: forward, loss, backward, update
    write(inference(run, 4), "packs/images")    the first 4 test images, by the state as it stands

Both are run again (`redraft`, `reinfer`) as a whole, from the images, the labels and the state ahead of them:
no layer is given what another one made. Ports of the loss and of the classes: `heads.py`.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from intnet import ops
from intnet.autograd import Tensor, backward, watched
from intnet.errors import ConfigError, PackError
from intnet.inspect.as_spec import definition_of
from intnet.methods.method import Method
from intnet.methods.trace import Event
from intnet.models.model import Model
from intnet.numbers.qtensor import QTensor
from intnet.packs.layers import Advance, heads
from intnet.packs.layers.again import Again
from intnet.packs.layers.capture import Captured, Taps, rates, remember, remembered, set_state
from intnet.packs.layers.paths import Maker
from intnet.packs.layers.wiring import Wiring
from intnet.packs.pack import Pack
from intnet.packs.ports import HEADS, INFERENCE, LOSS, NETWORK, Draft, Json
from intnet.runs.identity import identity
from intnet.training.inference import as_codes, evaluation_batch
from intnet.training.train import Run

OUTPUTS = {"linear": "x1", "conv": "x1", "norm": "x3"}  # the path of what a layer gives; x4 of all others
MOST = 1 << 27  # elements of all paths of a pack: with their trails some 70 bytes of memory each


class Whole(Taps):
    """All layers of a model in one pass: taps on them, and the wiring between."""

    wiring: Wiring

    def __init__(self, model: Model, method: Method) -> None:
        super().__init__(model.all_layers(), method, Wiring())
        taken = [layer.name for layer in model.all_layers() if layer.name in HEADS]
        if taken:
            raise PackError(f"layer {taken[0]}: a pack of a whole network has another use for this name")

    def __enter__(self) -> "Whole":
        self._watch = watched(self.wiring)
        self._watch.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._watch.__exit__(*error)

    def captured(self) -> list[Captured]:
        """All layers, in the order in which they ran; what a layer gives and rounds nowhere is a path too."""
        found = [self.seen[name] for name in self.wiring.order]
        for seen in found:
            seen.sources, seen.errors = self.wiring.sources[seen.layer], self.wiring.readers(seen.layer)
            seen.factor_sources = self.wiring.factors.get(seen.layer)
            path = OUTPUTS.get(seen.kind, "x4")
            if all(event.path != path for event in seen.events) and isinstance(
                seen.output, QTensor | np.ndarray
            ):
                step = self.method.step
                seen.events.append(Event(seen.layer, path, step, seen.output, seen.output))
        return found

    def trained(self, labels: np.ndarray, step: int) -> list[Captured]:
        """All layers of a training step, and its loss."""
        found, last = self._layers()
        return [*found, heads.loss(last, labels, self.method.label_smoothing, step)]

    def inferred(self, step: int) -> list[Captured]:
        """All layers of an inference, and its classes; of the state only what it reads.

        Codes alone: what format they once had, a run that goes on from its checkpoint does not know.
        """
        found, last = self._layers()
        for one in found:
            read = {key: v for key, v in one.before.items() if key.startswith(":") or ":" not in key}
            one.before = {key: _codes(value) for key, value in read.items()}
        return [*found, heads.classes(last, step)]

    def _layers(self) -> tuple[list[Captured], Captured]:
        """(all of them, the last one); PackError where they are too much for a pack."""
        found = self.captured()
        size = sum(prod(event.result.shape) for one in found for event in one.events)
        if size > MOST:
            raise PackError(
                f"{size:,} results of this network are more than the {MOST:,} that a pack holds: take fewer "
                "images (--batch-size, --inference), or some layers (--layer)"
            )
        return found, next(one for one in found if one.layer == self.wiring.last())


def _codes(value: Any) -> Any:
    return QTensor(value.codes, value.exponent, bound=value.bound) if isinstance(value, QTensor) else value


# -- a training step ---------------------------------------------------------------------------


def draft(run: Run, steps: int, advance: Advance) -> Draft:
    """The next step of `run`, or the next `steps`; advance: takes a run to a step, an observer sees the last.

    PackError for a network that is more than layers and sums of two branches, or too large.
    """
    generator = {"kind": NETWORK, "step": run.step + 1, "steps": steps}
    made = Maker(run.method, generator | identity(run))
    for _ in range(steps):
        labels = run.batch(run.step)[1]
        with Whole(run.model, run.method) as whole:
            advance(run, run.step + 1, whole)
        epoch = (run.step - 1) // run.steps_per_epoch
        made.add(whole.trained(labels, run.step), run.step, epoch, whole.remembered, whole.rates)
    return made.draft()


def redraft(pack: Pack) -> Draft:
    """The draft of a pack of a training step, run again; see `layers.redraft` of its errors."""
    again = Again(pack)
    for step in again.steps():
        labels = _set(again, step)[LOSS]["before"][heads.LABELS]["tensor"]
        classes = pack.codes(labels).reshape(-1)
        with Whole(again.model, again.method) as whole, again.method.within(observers=[whole]):
            logits = again.model(Tensor(_images(again, step)), again.method)
            smoothing = again.method.label_smoothing
            loss = ops.softmax_cross_entropy(logits, labels=classes, smoothing=smoothing)
            gradients = backward(loss, np.float32(1), ops.elementwise.join)
            updates = [(layer, p, gradients[p]) for _, layer, p in again.model.all_parameters()]
            again.method.update_all(updates)
        captured = whole.trained(classes, step["step"])
        again.made.add(captured, step["step"], step["epoch"], whole.remembered, whole.rates)
    return again.made.draft()


def _set(again: Again, step: Json) -> dict[str, Json]:
    """What `replay` has of each layer in a step; the state ahead of it is set."""
    entries: dict[str, Json] = {one["layer"]: one for one in step["layers"]}
    remember(again.method, step.get("method", {}))
    for name, layer in again.layers.items():
        load = again.loads[name]
        set_state(layer, {key: load(json) for key, json in entries[name]["before"].items()})
    return entries


def _images(again: Again, step: Json) -> Any:
    """What the first layer reads."""
    first, *_ = [one for one in step["layers"] if not one["sources"]]
    return again.loads[first["layer"]](first["value"])


# -- inference ---------------------------------------------------------------------------------


def inference(run: Run, images: int) -> Draft:
    """The first test images, as one batch, by the state of `run` as it stands.

    ConfigError for a method that has no definition, and where there are fewer images.
    """
    if definition_of(type(run.method)) is None:
        raise ConfigError(
            f"method {run.method.name!r} names no definition, `spec`, which would judge a pack of inference"
        )
    if images > len(run.data.test_labels):
        raise ConfigError(
            f"--inference {images}: {run.data.name} has {len(run.data.test_labels)} test images"
        )
    step = run.step + 1
    generator = {"kind": INFERENCE, "images": images, "step": step, "steps": 1}
    made = Maker(run.method, generator | identity(run))
    batch = as_codes(evaluation_batch(run.data, 0, images)[0], run.data.exponent)
    _infer(made, run.model, run.method, batch, {"step": step, "epoch": run.step // run.steps_per_epoch})
    return made.draft()


def reinfer(pack: Pack) -> Draft:
    """The draft of a pack of an inference, run again."""
    again = Again(pack)
    for step in again.steps():
        _set(again, step)
        _infer(again.made, again.model, again.method, _images(again, step), step)
    return again.made.draft()


def _infer(made: Maker, model: Model, method: Method, images: Any, step: Json) -> None:
    """One pass; step: the one that would come next."""
    with Whole(model, method) as whole, method.within(training=False, observers=[whole]):
        model(Tensor(images), method)
    captured: Sequence[Captured] = whole.inferred(step["step"])
    made.add(captured, step["step"], step["epoch"], remembered(method), rates(method))
