"""Training: one model, one method, one data set, one seed; steps that can stop and go on anywhere.

    run = fit(resnet8(data.image_shape, data.classes), Wageubn(), data, epochs=3, seed=1)
    run.evaluate(), run.digest()

A step is a pure function of (state, seed, step number): the batch and every random word come from the
seed and the step (`datasets.Batches`, `rng`), so a resumed run repeats an unbroken one bit for bit.
Batches are read ahead on other threads (`datasets.Ahead`), which changes no bit.
Where runs are kept on disk: `runs/run_folder.py`; commands: `cli/`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from intnet import ops
from intnet.autograd import Tensor, backward
from intnet.datasets import Ahead, Augment, Batches, Dataset
from intnet.datasets.dataset import is_int
from intnet.errors import ConfigError, ShapeError
from intnet.layers import Conv2d
from intnet.machine.ahead import compile_kernels, group
from intnet.methods.method import Method
from intnet.models.model import Model
from intnet.numbers.qtensor import QTensor
from intnet.ops.loss import float_logits
from intnet.trace import Observer, Recorder
from intnet.training.reestimate import reestimated
from intnet.training.state import check_finite, digest

EVALUATION_BATCH = 256
NO_AUGMENT = Augment()
METHOD_STATE = "method/"  # leads the names of `Method.state` in a run's state


@dataclass(frozen=True)
class StepReport:
    """One step: its number (from 1), epoch (from 0), mean loss, share of right answers, seconds.

    widths: `Method.widths` of this step; overhead: its seconds that went into moving them; moves:
    `Method.moves`; map: `Method.map` where the step ended an epoch
    """

    step: int
    epoch: int
    loss: float
    accuracy: float
    seconds: float
    images: int
    widths: dict[str, dict[str, int]] = field(default_factory=dict)
    overhead: float = 0.0
    moves: dict[str, dict[str, Any]] = field(default_factory=dict)
    map: dict[str, Any] = field(default_factory=dict)


class Run:
    """A training run in memory."""

    def __init__(
        self,
        model: Model,
        method: Method,
        data: Dataset,
        batch_size: int = 64,
        seed: int = 1,
        augment: Augment = NO_AUGMENT,
    ) -> None:
        batches = Batches(data, batch_size, seed, augment)
        if model.classes < data.classes:
            raise ConfigError(
                f"the model has {model.classes} classes, data set {data.name!r} has {data.classes}"
            )
        self.model, self.method, self.data = model, method, data
        self.batch_size, self.seed = batch_size, seed
        self.augment = augment
        self.weights: dict[str, Any] | None = None  # what `state_dicts.load` gave its model, if anything
        self.plugins: dict[str, str] | None = None  # of the header that it was made again from, if any
        self.steps_per_epoch = method.steps_per_epoch = batches.per_epoch
        self.paths = Recorder()
        self.on_tape: Callable[[Tensor], None] | None = None  # sees the loss ahead of its backward pass
        convolves = any(isinstance(layer, Conv2d) for layer in model.all_layers())
        compile_kernels(group(method.name, convolves))
        method.start(model.all_layers(), seed)
        self._batches, self._ahead = batches, Ahead(batches)

    @property
    def step(self) -> int:
        """Steps done."""
        return self.method.step

    def batch(self, step: int) -> tuple[QTensor, np.ndarray]:
        """(images as exact codes, labels) of step `step` (from 0); the last one of an epoch may be short."""
        images, labels = self._batches(step)
        return as_codes(images, self.data.exponent), labels

    def train_step(self) -> StepReport:
        """One step: forward, backward, update of every parameter."""
        started = perf_counter()
        method, step = self.method, self.method.step
        method.set(epoch=step // self.steps_per_epoch, training=True)
        method.moves = {}
        pixels, labels = self._ahead(step)
        images = as_codes(pixels, self.data.exponent)
        # a float32 run that diverges overflows first; the checks of logits and gradients then say so
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            logits = self.model(Tensor(images), method)
            loss = ops.softmax_cross_entropy(logits, labels=labels, smoothing=method.label_smoothing)
            method.see_loss(float(loss.value))
            if self.on_tape is not None:
                self.on_tape(loss)
            gradients = backward(loss, np.float32(1), ops.elementwise.join)
            method.update_all([(layer, p, gradients[p]) for _, layer, p in self.model.all_parameters()])
        method.end_of_step()
        ended = method.step % self.steps_per_epoch == 0
        if ended:
            method.end_of_epoch()
        right = float(np.mean(float_logits(logits.value).argmax(axis=1) == labels))
        seconds = perf_counter() - started
        return StepReport(
            step + 1,
            step // self.steps_per_epoch,
            float(loss.value),
            right,
            seconds,
            len(labels),
            dict(method.widths()),
            method.overhead,
            method.moves,
            method.map if ended else {},
        )

    def train(
        self,
        steps: int,
        on_step: Callable[[StepReport], None] | None = None,
        observe_last: Sequence[Observer] = (),
    ) -> None:
        """Go on until `steps` steps are done in all; `observe_last` see every value of the last one."""
        while self.step < steps:
            observers = self.method.observers
            if self.step == steps - 1:
                observers = [*observers, *observe_last]
            with self.method.within(observers=observers):
                report = self.train_step()
            if on_step is not None:
                on_step(report)

    def evaluate(self, on_batch: Callable[[int], None] | None = None, reestimate: int = 0) -> float:
        """Share of test images classified right; see `evaluate_top`."""
        return self.evaluate_top(1, on_batch=on_batch, reestimate=reestimate)[0]

    def evaluate_top(
        self, *most: int, on_batch: Callable[[int], None] | None = None, reestimate: int = 0
    ) -> list[float]:
        """For each of `most`: the share of test images whose class is among so many greatest logits.

        Batch norm reads running statistics, or as the method says the test batch's own. With `reestimate` it
        reads their means over the batches that so many next steps would train on; the run stays as it is.
        """
        if not is_int(reestimate) or reestimate < 0:
            raise ConfigError(f"reestimate={reestimate!r}: a number of training batches, or 0")
        if not reestimate:
            return evaluate(self.model, self.method, self.data, most, on_batch)
        ahead = Ahead(self._batches, end=self.step + reestimate)
        steps = range(self.step, self.step + reestimate)
        images = (as_codes(ahead(step)[0], self.data.exponent) for step in steps)
        with reestimated(self.model, self.method, images):
            return evaluate(self.model, self.method, self.data, most, on_batch)

    def digest(self) -> str:
        """SHA-256 over every parameter, optimizer word, running statistic and what the method remembers."""
        return digest(self.state())

    def state(self) -> dict[str, Any]:
        """Name -> QTensor or float32 array of all that the next step depends on; see `restore`."""
        own = {f"{METHOD_STATE}{name}": value for name, value in self.method.state.items()}
        return self.model.state_dict() | own

    def restore(self, state: dict[str, Any], step: int) -> None:
        """Go on from a saved state; NumberError or ShapeError names a tensor that does not fit."""
        check_finite(state)
        names = [name for name in state if name.startswith(METHOD_STATE)]
        expected = {f"{METHOD_STATE}{name}" for name in self.method.state}
        if set(names) != expected:
            wrong = ", ".join(sorted(expected ^ set(names)))
            raise ShapeError(f"what method {self.method.name!r} remembers is missing or extra: {wrong}")
        self.model.load_state_dict({name: state[name] for name in state if name not in expected})
        self.method.state = {name.removeprefix(METHOD_STATE): state[name] for name in names}
        self.method.set(step=step, epoch=step // self.steps_per_epoch)


def evaluate(
    model: Model,
    method: Method,
    data: Dataset,
    most: Sequence[int] = (1,),
    on_batch: Callable[[int], None] | None = None,
    batch_size: int = EVALUATION_BATCH,
) -> list[float]:
    """For each of `most`: the share of the test images whose class is among so many greatest logits.

    batch_size: test images at a time, on which the batch's own statistics and scales depend
    """
    parts = -(-len(data.test_labels) // batch_size)
    ahead = Ahead(lambda k: evaluation_batch(data, k, batch_size), end=parts)
    right = np.zeros(len(most), np.int64)
    for k in range(parts):
        images, labels = ahead(k)
        places = ranks(logits_of(model, method, images, data.exponent), labels)
        right += [np.count_nonzero(places < top) for top in most]
        if on_batch is not None:
            on_batch(len(labels))
    return [int(count) / len(data.test_labels) for count in right]


def evaluation_batch(data: Dataset, k: int, size: int = EVALUATION_BATCH) -> tuple[np.ndarray, np.ndarray]:
    """(uint8 images, labels) of the test batch k, from 0. Defined by `spec/inference.py: batch`."""
    part = slice(k * size, (k + 1) * size)
    return data.test_images[part], data.test_labels[part]


def logits_of(model: Model, method: Method, images: np.ndarray, exponent: int) -> np.ndarray:
    """float32 (images, classes). Defined by `spec/inference.py: logits`."""
    with method.within(training=False):
        return float_logits(model(Tensor(as_codes(images, exponent)), method).value)


def classified(model: Model, method: Method, images: np.ndarray, exponent: int) -> np.ndarray:
    """The class of each image: the first of its greatest logits.

    Defined by `spec/inference.py: classes`.
    """
    found: np.ndarray = logits_of(model, method, images, exponent).argmax(axis=1)
    return found


def ranks(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """int64: how many classes stand ahead of each image's own: of greater logits, of equal ones by number.

    Defined by `spec/inference.py: ranks`.
    """
    own = logits[np.arange(len(labels)), labels][:, None]
    lower = np.arange(logits.shape[1]) < labels[:, None]
    ahead = ~(logits <= own) | ((logits == own) & lower)  # a logit that is no number stands ahead
    found: np.ndarray = np.count_nonzero(ahead, axis=1)
    return found


def as_codes(images: np.ndarray, exponent: int) -> QTensor:
    """uint8 images as an exact QTensor: value = byte * 2**exponent."""
    return QTensor(images.astype(np.int16), exponent, bound=255)


def fit(
    model: Model,
    method: Method,
    data: Dataset,
    epochs: int = 1,
    batch_size: int = 64,
    seed: int = 1,
    record: Sequence[str] = (),
    on_step: Callable[[StepReport], None] | None = None,
    augment: Augment = NO_AUGMENT,
) -> Run:
    """Train and return the run; `run.paths['layer/path']` holds the last step's values of `record`.

    record: patterns of 'layer/path' with shell wildcards, such as 'layer1.0.conv1/*'
    """
    run = Run(model, method, data, batch_size, seed, augment)
    run.paths = Recorder(*record)
    run.train(epochs * run.steps_per_epoch, on_step, [run.paths] if record else [])
    return run
