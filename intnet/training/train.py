"""Training: one model, one method, one data set, one seed; steps that can stop and go on anywhere.

    run = fit(resnet8(data.image_shape, data.classes), Wageubn(), data, epochs=3, seed=1)
    run.history, run.evaluate(), run.predict(X), run.digest()

A step is a pure function of (state, seed, step number): the batch and every random word come from the
seed and the step (`datasets.Batches`, `rng`), so a resumed run repeats an unbroken one bit for bit.
Batches are read ahead on other threads (`datasets.Ahead`), which changes no bit.
Where runs are kept on disk: `runs/run_folder.py`; commands: `cli/`.
"""

import fnmatch
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from intnet import ops
from intnet.autograd import Tensor, backward
from intnet.datasets import Ahead, Augment, Batches, Dataset, check_labels, from_arrays
from intnet.datasets.arrays import codes_like
from intnet.datasets.dataset import is_int
from intnet.errors import ConfigError, ShapeError
from intnet.layers import Conv2d
from intnet.machine.ahead import compile_kernels, group, listed
from intnet.machine.ranks import current
from intnet.methods.method import Method, Update, of_batch
from intnet.methods.trace import Observer, Recorder
from intnet.models.model import Model
from intnet.numbers import shares
from intnet.numbers.qtensor import QTensor
from intnet.ops.loss import float_logits, probabilities
from intnet.show.tables import Shown, Table, facts
from intnet.training.epochs import Callback, train_epochs
from intnet.training.history import History, StepReport
from intnet.training.inference import EVALUATION_BATCH, Scores, all_logits, as_codes, evaluate, scores
from intnet.training.reestimate import reestimated
from intnet.training.state import METHOD_STATE, check_left, check_state, digest

NO_AUGMENT = Augment()


class Run(Shown):
    """A training run in memory: `fit` makes one and trains it.

    history: a row an epoch; paths: values of the last step that `fit` was asked to record
    """

    def __init__(
        self,
        model: Model,
        method: Method,
        data: Dataset,
        batch_size: int = 64,
        seed: int = 1,
        augment: Augment = NO_AUGMENT,
    ) -> None:
        _check_new(model, method)
        if model.classes < data.classes:
            raise ConfigError(
                f"the model has {model.classes} classes, data set {data.name!r} has {data.classes}"
            )
        if model.image_shape != data.image_shape:
            raise ShapeError(
                f"model {model.kind!r} was built for images (H, W, C) = {model.image_shape}, data set "
                f"{data.name!r} has {data.image_shape}: build it for the data's shape"
            )
        if not (is_int(batch_size) and is_int(seed)):
            raise ConfigError(f"batch_size={batch_size!r}, seed={seed!r}: both are whole numbers")
        batches = Batches(data, batch_size, seed, augment)
        self.model, self.method, self.data = model, method, data
        self.batch_size, self.seed = batch_size, seed
        self.augment = augment
        self.weights: dict[str, Any] | None = None  # what `state_dicts.load` gave its model, if anything
        self.plugins: dict[str, str] | None = None  # of the header that it was made again from, if any
        self.tested_only = False  # whether its data are others than it was trained on: see `check_own_data`
        self.steps_per_epoch = method.steps_per_epoch = batches.per_epoch
        self.history, self.paths = History(), Recorder()
        self.recorders: Sequence[Observer] = ()  # see the last step of every epoch of `fit`
        _compile(_kernels(model, method))
        method.start(model.all_layers(), seed)
        model.taken = method.taken = True
        self._batches, self._ahead = batches, Ahead(batches)

    @property
    def step(self) -> int:
        """Steps done."""
        return self.method.step

    def batch(self, step: int) -> tuple[QTensor, np.ndarray]:
        """(images as exact codes, labels) of step `step` (from 0); the last one of an epoch may be short."""
        images, labels = self._batches(step)
        return as_codes(images, self.data.exponent), labels

    def check_own_data(self) -> None:
        """ConfigError where the run was loaded with other data: its batches are none of the training's."""
        if self.tested_only:
            raise ConfigError(
                f"this run was loaded with other data, {self.data.name!r}, which it can be tested on alone: "
                "intnet.load(RUN) has those that it was trained on, and goes on"
            )

    def counts(self) -> dict[str, int]:
        """'layer/path' -> values saturated so far in the epoch that is under way; none between two."""
        if not self.step % self.steps_per_epoch:
            return {}
        return shares.counted(self.method.saturated, of_batch)

    def train_step(self, on_tape: Callable[[Tensor], None] | None = None) -> StepReport:
        """One step: forward, backward, update of every parameter; on_tape sees the loss ahead of backward."""
        self.check_own_data()
        started = perf_counter()
        method, step = self.method, self.method.step
        if step % self.steps_per_epoch == 0:
            method.saturated.clear()  # so that the counts of an epoch stand until the next one begins
        method.set(epoch=step // self.steps_per_epoch, training=True)
        method.moves = {}
        pixels, labels = self._ahead(step)
        images = as_codes(pixels, self.data.exponent)
        # a float32 run that diverges overflows first; the checks of logits and gradients then say so
        diverging = np.errstate(over="ignore", invalid="ignore", divide="ignore")
        with shares.sharing(self._batches.share(step, bool(method.observers))), diverging:
            logits = self.model(Tensor(images), method)
            if not isinstance(logits, Tensor) or logits.node is None:
                told = f"a {type(logits).__name__}"
                told += " that depends on no parameter" * (told == "a Tensor")
                raise ShapeError(f"the model's forward returns {told}: that of its last layer is wanted")
            loss = ops.softmax_cross_entropy(logits, labels=labels, smoothing=method.label_smoothing)
            method.see_loss(float(loss.value))
            if on_tape is not None:
                on_tape(loss)
            method.update_all(self._updates(backward(loss, np.float32(1), ops.elementwise.join)))
            right = shares.joined(float_logits(logits.value).argmax(axis=1) == labels)
        method.end_of_step()
        check_left(self.model, method, step)
        ended = method.step % self.steps_per_epoch == 0
        if ended:
            method.end_of_epoch()
        seconds = perf_counter() - started
        report = StepReport(
            step + 1,
            step // self.steps_per_epoch,
            float(loss.value),
            float(np.mean(right)),
            seconds,
            len(right),
            dict(method.widths()),
            method.overhead,
            method.moves,
            method.map if ended else {},
        )
        self.history.saw(report)
        if ended:
            self.history.end(len(self.data.train_labels), shares.counted(method.saturated, of_batch))
        return report

    def _updates(self, gradients: dict[Any, Any]) -> list[Update]:
        """Those of every parameter; ShapeError for one that no gradient reached."""
        updates: list[Update] = []
        for name, layer, parameter in self.model.all_parameters():
            if parameter not in gradients:
                raise ShapeError(
                    f"no gradient reached {name}: does the model read it, is each operation on the way "
                    "recorded, and do the hooks `error` and `gradient` return what they made?"
                )
            updates.append((layer, parameter, gradients[parameter]))
        return updates

    def train(
        self,
        steps: int,
        on_step: Callable[[StepReport], None] | None = None,
        observe_last: Sequence[Observer] = (),
        last_tape: Callable[[Tensor], None] | None = None,
    ) -> None:
        """Go on until `steps` steps are done in all; `observe_last` see every value of the last one.

        last_tape: sees its loss between the forward and the backward pass, as `tape.measure` does

        Nothing is tested and nobody called back between: that is `fit`.
        """
        if not is_int(steps) or steps < 0:
            raise ConfigError(f"run.train({steps!r}): how many steps are done in all, a whole number from 0")
        if steps < self.step:
            raise ConfigError(
                f"run.train({steps}): steps are counted from the run's start, and {self.step:,} are done; "
                f"for {steps:,} more it is run.train({self.step + steps})"
            )
        while self.step < steps:
            last = self.step == steps - 1
            observers = [*self.method.observers, *(observe_last if last else ())]
            with self.method.within(observers=observers):
                report = self.train_step(last_tape if last else None)
            if on_step is not None:
                on_step(report)

    def fit(
        self,
        epochs: int,
        callbacks: Sequence[Callback] = (),
        on_step: Callable[[StepReport], None] | None = None,
        progress: bool = True,
    ) -> "Run":
        """Go on until `epochs` epochs are done in all, the test part tested after each; see `fit`.

        Ctrl-C stops between two steps, and this returns too: called again, it goes on to the same bits.
        """
        if not is_int(epochs) or epochs * self.steps_per_epoch < self.step:
            raise ConfigError(
                f"run.fit(epochs={epochs!r}): epochs are counted from the run's start, and "
                f"{self.step / self.steps_per_epoch:g} are done: give a whole number above"
            )
        _check_callbacks(callbacks)
        train_epochs(self, int(epochs), callbacks, on_step, progress)
        return self

    # -- inference ------------------------------------------------------------------------------

    def predict(self, X: Any, batch_size: int = EVALUATION_BATCH) -> np.ndarray:
        """int64 (N,): the class of each image, the first of its greatest logits.

        X: of the training's shape, bytes or numbers as these were. batch_size: see `training/inference.py`
        Defined by `spec/inference.py: classes`.
        """
        found: np.ndarray = self._logits(X, batch_size).argmax(axis=1)
        return found

    def predict_proba(self, X: Any, batch_size: int = EVALUATION_BATCH) -> np.ndarray:
        """float32 (N, classes): the softmax of each image's logits. Defined by `spec/loss.py: loss_of`."""
        return probabilities(self._logits(X, batch_size))

    def evaluate(
        self,
        X: Any = None,
        y: Any = None,
        batch_size: int = EVALUATION_BATCH,
        reestimate: int = 0,
        on_batch: Callable[[int], None] | None = None,
    ) -> Scores:
        """Loss, accuracy and top-5 of X and their classes y, or of the test part; on_batch counts images.

        Batch norm reads running statistics, or as the method says the tested batch's own. With `reestimate`
        it reads their means over the batches that so many next steps would train on; the run stays as it is.
        """
        if not is_int(reestimate) or reestimate < 0:
            raise ConfigError(f"reestimate={reestimate!r}: a number of training batches, or 0")
        if (X is None) != (y is None):
            raise ConfigError(
                "run.evaluate takes images and their classes, (X, y), or neither: the test part"
            )
        if reestimate:
            self.check_own_data()
            ahead = Ahead(self._batches, end=self.step + reestimate)
            steps = range(self.step, self.step + reestimate)
            images = (as_codes(ahead(step)[0], self.data.exponent) for step in steps)
            with reestimated(self.model, self.method, images):
                return self.evaluate(X, y, batch_size, 0, on_batch)
        if X is None:
            with self.method.within(saturated={}):
                return evaluate(self.model, self.method, self.data, on_batch, batch_size)
        logits, labels = self._logits(X, batch_size), check_labels(y, self.model.classes, "y")
        if len(labels) != len(logits):
            raise ShapeError(f"{len(logits):,} images in X but {len(labels):,} labels in y")
        return scores(logits, labels)

    def _logits(self, X: Any, batch_size: int) -> np.ndarray:
        """What saturates here is not counted as training's."""
        images = codes_like(self.data, X)
        with self.method.within(saturated={}):
            return all_logits(self.model, self.method, images, self.data.exponent, batch_size)

    # -- what it is -----------------------------------------------------------------------------

    def __repr__(self) -> str:
        epochs = f"epoch {self.step / self.steps_per_epoch:.4g}"
        return (
            f"Run({self.method!r}, {self.model.kind} on {self.data.name!r}, after step {self.step:,}, "
            f"{'to be tested on these data' if self.tested_only else epochs})"
        )

    def summary(self) -> Table:
        """What was trained, on what, how far, and how well."""
        pairs = {
            "method": repr(self.method),
            "model": repr(self.model),
            "data": repr(self.data),
            "steps": f"{self.step:,}, of other data"
            if self.tested_only
            else f"{self.step:,} of {self.batch_size} images, {self.steps_per_epoch:,} an epoch",
            "seed": str(self.seed),
        }
        last = self.history.epochs[-1] if self.history.epochs else None
        if last is not None and last.loss is not None:
            pairs["loss"] = f"{last.loss:.4f} in epoch {last.epoch}"
        if last is not None and last.test_accuracy is not None:
            pairs["test accuracy"] = f"{last.test_accuracy:.2%} after epoch {last.epoch}"
        return facts("", [*pairs.items(), ("state sha256", self.digest())])

    # -- its state ------------------------------------------------------------------------------

    def digest(self) -> str:
        """SHA-256 over every parameter, optimizer word, running statistic and what the method remembers."""
        return digest(self.state())

    def state(self) -> dict[str, Any]:
        """Name -> QTensor or array of floats of all that the next step depends on; see `restore`."""
        self.method.meet()
        own = {f"{METHOD_STATE}{name}": value for name, value in self.method.state.items()}
        return self.model.state_dict() | own

    def restore(self, state: dict[str, Any], step: int) -> None:
        """Go on from a saved state; NumberError or ShapeError names a tensor that does not fit."""
        check_state(state)
        names = [name for name in state if name.startswith(METHOD_STATE)]
        missing = {f"{METHOD_STATE}{name}" for name in self.method.state} - set(names)
        if missing:  # more than at the start there may be: a method may begin to remember later
            raise ShapeError(f"what method {self.method.name!r} remembers is missing: {', '.join(missing)}")
        self.model.load_state_dict({name: state[name] for name in state if name not in names})
        self.method.state = {name.removeprefix(METHOD_STATE): state[name] for name in names}
        self.method.set(step=step, epoch=step // self.steps_per_epoch)
        self.history.cut(step)


def _compile(group: str) -> None:
    """The kernels of a first step; among ranks first on rank 0, whose cache others may read."""
    world = current()
    if world is not None and world.rank:
        world.messages(b"")
    compile_kernels(group)
    if world is not None and not world.rank:
        world.messages(b"")


def _kernels(model: Model, method: Method) -> str:
    """The group of kernels that its first step calls: of a method of one's own, those of its base."""
    convolves = any(isinstance(layer, Conv2d) for layer in model.all_layers())
    names = [group(getattr(cls, "name", ""), convolves) for cls in type(method).__mro__]
    return next((name for name in names if name in listed()), group("float32", convolves))


def _check_callbacks(callbacks: Any) -> None:
    """ConfigError unless these are functions of a run."""
    if not isinstance(callbacks, Sequence) or isinstance(callbacks, str):
        raise ConfigError(f"callbacks={callbacks!r}: give a list, as callbacks=[EarlyStopping(patience=2)]")
    for one in callbacks:
        if isinstance(one, type):
            raise ConfigError(f"callbacks: {one.__name__} is a class: make one, as {one.__name__}()")
        if not callable(one):
            raise ConfigError(f"callbacks: {one!r} is no function: each is called with the run, every epoch")


def _check_new(model: Any, method: Any) -> None:
    """ConfigError unless these are a model and a method that no run has yet."""
    if isinstance(model, type) and issubclass(model, Model):
        name = model.__name__
        raise ConfigError(
            f"class {name} is no model yet: make one, as {name}(data.image_shape, data.classes)"
        )
    if not isinstance(model, Model):
        raise ConfigError(
            f"{_told(model)} is no model: models.make('resnet8', image_shape, classes) makes one of those "
            "here; one of your own is a class that derives from intnet.models.Model, with layers as "
            "attributes, and ends its constructor with self.finish()"
        )
    model.check_names()
    if not isinstance(method, Method):
        raise ConfigError(f"{_told(method)} is no method: make one, as methods.Wageubn(lr='26,6@6')")
    if model.taken:
        raise ConfigError(
            f"this model ({model.kind}) belongs to a run already: run.fit(epochs=..) goes on with that run; "
            "a new run needs a model of its own"
        )
    if method.taken:
        raise ConfigError(
            f"this method ({method!r}) belongs to a run already and holds its state: make another one for a "
            "new run"
        )


def _told(value: Any) -> str:
    """'class LeNet5', 'module intnet.models.mlp', 'Sequential', "'wageubn'"."""
    if isinstance(value, str):
        return repr(value)
    name = getattr(value, "__name__", type(value).__name__)
    kinds = {"type": "class ", "module": "module ", "function": "function "}
    return kinds.get(type(value).__name__, "a ") + name


def fit(
    model: Model,
    method: Method,
    data: Dataset | Sequence[Any],
    epochs: int = 1,
    batch_size: int = 64,
    seed: int = 1,
    record: Sequence[str] = (),
    on_step: Callable[[StepReport], None] | None = None,
    augment: Augment = NO_AUGMENT,
    callbacks: Sequence[Callback] = (),
    progress: bool = True,
) -> Run:
    """Train a new model by a new method and return the run; the test part, if any, is tested each epoch.

    data: a Dataset, or arrays as `datasets.from_arrays` takes them: (X, y) or (X, y, X_test, y_test)
    record: patterns of 'layer/path' with shell wildcards, such as 'layer1.0.conv1/*', whose values of the
    last step are in `run.paths['layer/path']`
    callbacks: each is called with the run after every epoch, and stops the training by returning True
    progress: on stderr, where that is a terminal, or in a notebook
    """
    _check_new(model, method)
    given = data if isinstance(data, Dataset) else _from_pair(data)
    _check_callbacks(callbacks)
    if isinstance(record, str):
        raise ConfigError(f"record={record!r}: patterns are a list, as record=[{record!r}]")
    for pattern in record:
        _check_pattern(pattern, [layer.name for layer in model.all_layers()])
    if not progress:
        compile_kernels(_kernels(model, method), moved=lambda done, of: None)
    run = Run(model, method, given, batch_size, seed, augment)
    run.paths = Recorder(*record)
    run.recorders = [run.paths] if record else []
    return run.fit(epochs, callbacks, on_step, progress)


def _from_pair(data: Any) -> Dataset:
    if not isinstance(data, tuple | list) or len(data) not in (2, 4):
        raise ConfigError(
            f"{_told(data)} is no data set: give datasets.load('digits'), or arrays: (X, y) or "
            "(X, y, X_test, y_test)"
        )
    return from_arrays(*data)


def _check_pattern(pattern: str, names: Sequence[str]) -> None:
    """ConfigError where no layer has a name that 'layer/path' could mean."""
    if not isinstance(pattern, str):
        raise ConfigError(f"record={[pattern]!r}: patterns are texts, as record=['{names[0]}/*']")
    layer = pattern.rpartition("/")[0] or pattern
    if not any(fnmatch.fnmatchcase(name, layer) for name in names):
        raise ConfigError(
            f"record={pattern!r}: no layer matches {layer!r}: write 'layer/path', as '{names[0]}/*'; there "
            f"are {', '.join(names)}"
        )
