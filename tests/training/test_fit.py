"""`fit`: history, callbacks, an interrupt, what belongs to one run, what is refused, what is shown."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from intnet import EarlyStopping, datasets, fit, layers, methods, models
from intnet.autograd import Tensor
from intnet.errors import ConfigError, IntnetError
from intnet.methods.method import Method
from intnet.models import Model
from intnet.training.history import Epoch, StepReport
from intnet.training.train import Run

X = np.random.default_rng(1).normal(size=(40, 6))
Y = (X[:, 0] > 0).astype(int)
DATA = datasets.from_arrays(X, Y, test=0.25)  # 30 to train on: steps of 8, 8, 8, 6


def mlp() -> Model:
    return models.mlp((1, 1, 6), 2)


def made(epochs: int = 3, method: str = "wageubn", **options: Any) -> Run:
    return fit(mlp(), methods.make(method), DATA, epochs=epochs, batch_size=8, **options)


# ---- history ----


def test_a_row_of_history_is_the_mean_of_its_steps_and_what_was_tested() -> None:
    steps: list[StepReport] = []
    seen: list[tuple[int, float, float]] = []

    def look(run: Run) -> None:
        scores = run.evaluate()
        seen.append((run.step, scores.loss, scores.accuracy))

    run = made(on_step=steps.append, callbacks=[look])
    assert [step.images for step in steps] == [8, 8, 8, 6] * 3
    assert [step.step for step in steps] == list(range(1, 13))
    history = run.history
    assert history["epoch"] == [1, 2, 3] and history["step"] == [4, 8, 12]
    for k, name in enumerate(("loss", "accuracy")):
        parts = [[(getattr(s, name), s.images) for s in steps[4 * e : 4 * e + 4]] for e in range(3)]
        assert history[name] == [math.fsum(v * n for v, n in part) / 30 for part in parts], k
    assert list(zip(history["step"], history["test_loss"], history["test_accuracy"], strict=True)) == seen
    assert run.counts() == {} and history["bits"] == [None] * 3
    assert history.records() == list(history) and len(history) == 3
    assert set(history.records()[0]) == {
        "epoch", "step", "loss", "accuracy", "test_loss", "test_accuracy", "saturated", "bits"
    }  # fmt: skip
    with pytest.raises(KeyError, match="no column 'val_loss'; there are epoch, step, loss"):
        history["val_loss"]
    assert "test_loss" in repr(history) and "bits" not in repr(history)


def test_saturations_are_of_their_epoch() -> None:
    """Their sums are those of a run that is counted step by step."""
    run, other, counts = made(), Run(mlp(), methods.Wageubn(), DATA, 8), []
    for _ in range(3):
        total = 0
        for _ in range(4):
            with other.method.within(saturated={}):
                before = other.method.saturated
                other.train_step()
                total += sum(before.values())
        counts.append(total)
    assert run.history["saturated"] == counts and sum(counts) > 0
    assert other.digest() == run.digest()


def test_widths_of_a_method_that_moves_them() -> None:
    run = made(method="adapt", epochs=1)
    last = run.history.epochs[-1]
    assert set(last.widths) == {"fc1", "fc2", "fc3"}
    assert run.history["bits"] == [sum(last.widths.values()) / 3]


# ---- callbacks ----


def test_every_callback_is_called_and_one_may_stop() -> None:
    calls: list[tuple[str, int]] = []

    def one(run: Run) -> bool:
        calls.append(("one", run.step))
        return len(run.history) == 2

    run = made(epochs=9, callbacks=[one, lambda run: calls.append(("two", run.step))])
    assert calls == [("one", 4), ("two", 4), ("one", 8), ("two", 8)] and run.step == 8
    assert run.digest() == made(epochs=2).digest()
    assert run.fit(3).digest() == made(epochs=3).digest()


@pytest.mark.parametrize(
    ("column", "values", "stops"),
    [
        ("test_accuracy", [0.5, 0.6, 0.6, 0.55, 0.9], 4),
        ("test_loss", [3, 2, 2.5, 1, 1, 1], 6),
        ("loss", [1, 2, 3], 3),
        ("accuracy", [0.1, 0.2, 0.3, 0.4], None),
    ],
)
def test_early_stopping(column: str, values: list[float], stops: int | None) -> None:
    """Two epochs without a better one: the first of equal ones counts."""
    run, stop = made(epochs=1), EarlyStopping(patience=2, column=column)
    run.history.epochs, found = [], None
    for k, value in enumerate(values, 1):
        row: dict[str, Any] = {"loss": 0.0, "accuracy": 0.0, column: value}
        run.history.epochs.append(Epoch(epoch=k, step=k, saturated={}, widths={}, **row))
        if stop(run):
            found = k
            break
    assert found == stops


@pytest.mark.slow
@pytest.mark.parametrize("method", ["float32", "wageubn", "adapt"])
def test_early_stopping_goes_back_to_its_best_epoch(method: str) -> None:
    """To the state and the step of a run that was stopped there, and to its history."""
    accuracies = iter([0.5, 0.7, 0.6, 0.65])

    def tested(run: Run) -> None:
        last = replace(run.history.epochs[-1], test_accuracy=next(accuracies), test_loss=1.0)
        run.history.epochs[-1] = last

    stop = EarlyStopping(patience=2, restore_best=True)
    run = fit(mlp(), methods.make(method), (X, Y), 9, 8, callbacks=[tested, stop], progress=False)
    alone = fit(mlp(), methods.make(method), (X, Y), 2, 8, progress=False)
    assert (run.step, len(run.history), run.digest()) == (alone.step, 2, alone.digest())
    assert run.history["test_accuracy"] == [0.5, 0.7]
    assert run.fit(3, progress=False).digest() == alone.fit(3, progress=False).digest()


def test_early_stopping_cannot_go_back_to_what_it_has_not_seen() -> None:
    run = made(epochs=1)
    run.history.epochs = []
    for k, value in enumerate([0.9, 0.5], 1):
        run.history.epochs.append(Epoch(k, k, 0.0, 0.0, {}, {}, 1.0, value))
    with pytest.raises(ConfigError, match="the best epoch, 1, was before this callback saw the run"):
        EarlyStopping(patience=1, restore_best=True)(run)


def test_early_stopping_needs_its_column() -> None:
    with pytest.raises(ConfigError, match="no column 'val_loss'; there are epoch"):
        EarlyStopping(column="val_loss")
    with pytest.raises(ConfigError, match="patience=0: at least 1 epoch"):
        EarlyStopping(patience=0)
    with pytest.raises(ConfigError, match="this run has no test_accuracy: give it a test part"):
        fit(mlp(), methods.Float32(), (X, Y), batch_size=8, callbacks=[EarlyStopping()])


# ---- interrupts ----


def test_an_interrupt_hands_the_run_back_and_it_goes_on_to_the_same_bits(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupted(step: StepReport) -> None:
        if step.step == 6:
            os.kill(os.getpid(), signal.SIGINT)

    handler = signal.getsignal(signal.SIGINT)
    run = made(on_step=interrupted)
    assert run.step == 6 and len(run.history) == 1 and signal.getsignal(signal.SIGINT) is handler
    assert (
        "stopped after step 6 of 12: run.fit(epochs=3) goes on, to the same bits" in capsys.readouterr().err
    )
    whole = made()
    assert run.fit(3).digest() == whole.digest()
    assert run.history.records() == whole.history.records()


def test_an_error_of_ones_own_between_steps_is_an_interrupt_too() -> None:
    def interrupted(run: Run) -> None:
        raise KeyboardInterrupt

    run = made(callbacks=[interrupted])
    assert run.step == 4 and run.fit(3).digest() == made().digest()


def test_an_interrupt_within_a_step_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parameters of two steps may be mixed: no run comes back."""

    def cut(self: Run, *_: object) -> StepReport:
        raise KeyboardInterrupt

    monkeypatch.setattr(Run, "train_step", cut)
    with pytest.raises(KeyboardInterrupt) as caught:
        made()
    assert caught.value.__notes__ == [
        "the training was stopped within a step: its run cannot go on from here"
    ]


# ---- what belongs to a run; what is refused ----


class Unfinished(Model):
    def __init__(self, finished: bool) -> None:
        super().__init__("unfinished", (1, 1, 6), 2)
        self.flat = layers.Flatten()
        if finished:
            self.finish()

    def forward(self, x: Tensor, method: Method) -> Tensor:
        return self.flat(x, method)


class Rows(Model):
    """A linear layer on images."""

    def __init__(self) -> None:
        super().__init__("rows", (1, 1, 6), 2)
        self.fc = layers.Linear(6, 2)
        self.finish()

    def forward(self, x: Tensor, method: Method) -> Tensor:
        return self.fc(x, method)


def test_a_model_and_a_method_belong_to_one_run() -> None:
    run = made(epochs=1)
    digest = run.digest()
    for model, method, message in (
        (run.model, methods.Wageubn(), r"this model \(mlp\) belongs to a run already: run.fit\(epochs=..\)"),
        (mlp(), run.method, r"this method \(Wageubn\(\)\) belongs to a run already and holds its state"),
    ):
        with pytest.raises(ConfigError, match=message):
            fit(model, method, DATA)
    assert run.digest() == digest
    method = methods.Wageubn()
    with pytest.raises(IntnetError):
        fit(models.mlp((1, 1, 7), 2), method, DATA)
    fit(mlp(), method, DATA, batch_size=8)  # a run that was not made has taken nothing


def asked_of(model: Any = None, method: Any = None, data: Any = DATA) -> Callable[[], Any]:
    return lambda: fit(mlp() if model is None else model, method or methods.Float32(), data, batch_size=8)


COUNTED = (
    "run.train(5): steps are counted from the run's start, and 8 are done; for 5 more it is run.train(13)"
)
RATE = "a learning rate is a whole code, of code * 2^-9; the nearest is lr="
SHAPES = "model 'mlp' was built for images (H, W, C) = (1, 1, 7), data set 'arrays' has (1, 1, 6)"
UNNAMED = "model 'unfinished': its layers have no names yet: make self.finish()"
NO_LAYER = (
    "record='fc9/*': no layer matches 'fc9': write 'layer/path', as 'flatten/*'; there are flatten, fc1"
)
REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: made(epochs=2).train(5), COUNTED),
    (lambda: made(epochs=2).fit(1), "run.fit(epochs=1): epochs are counted from the run's start, and 2 are"),
    (lambda: made(record=["fc9/*"]), NO_LAYER),
    (asked_of(models.LeNet5), "class LeNet5 is no model yet: make one, as LeNet5(data"),
    (asked_of("mlp"), "'mlp' is no model: models.make('resnet8', image_shape, classes)"),
    (asked_of(sys), "module sys is no model"),
    (asked_of(layers.Sequential(layers.Flatten())), "a Sequential is no model: models.make"),
    (asked_of(method=methods.Float32), "class Float32 is no method: make one, as methods.Wageubn"),
    (asked_of(method="wageubn"), "'wageubn' is no method"),
    (asked_of(data=X), "a ndarray is no data set: give datasets.load('digits'), or arrays: (X, y)"),
    (asked_of(data=(X,)), "a tuple is no data set"),
    (
        lambda: made(callbacks=[EarlyStopping]),
        "callbacks: EarlyStopping is a class: make one, as EarlyStopping()",
    ),
    (lambda: made(callbacks=print), "give a list, as callbacks=[EarlyStopping(patience=2)]"),
    (lambda: made(callbacks=[3]), "callbacks: 3 is no function"),
    (lambda: made(record=[3]), "record=[3]: patterns are texts, as record=['flatten/*']"),
    (lambda: made(augment="flip"), "augment='flip': make one, as datasets.Augment(crop=4, flip=True)"),
    (lambda: made(record="fc1/*"), "record='fc1/*': patterns are a list, as record=['fc1/*']"),
    (lambda: Run(mlp(), methods.Float32(), DATA, "8"), "batch_size='8', seed=1: both are whole"),  # type: ignore
    (lambda: Run(mlp(), methods.Float32(), DATA, 8, 1.5), "batch_size=8, seed=1.5: both"),  # type: ignore
    (lambda: made().train("9"), "run.train('9'): how many steps are done in all"),  # type: ignore
    (lambda: made().train(-1), "run.train(-1): how many steps are done in all, a whole number from 0"),
    (
        lambda: Run(Rows(), methods.Float32(), DATA, 8).train(1),
        "fc: reads rows (N, F), not (8, 1, 1, 6): put a Flatten() ahead",
    ),
    (asked_of(models.mlp((1, 1, 7), 2)), SHAPES),
    (lambda: fit(Unfinished(False), methods.Float32(), DATA), UNNAMED),
    (lambda: Unfinished(True), "model 'unfinished' has no layer with weights"),
    (
        lambda: mlp()(X, methods.Float32()),  # type: ignore[arg-type]
        "model(x, method) reads a Tensor, not a ndarray; to classify arrays it is run.predict(X)",
    ),
    (lambda: methods.make("wageubn", lr=0.05), f"wageubn: lr=0.05: {RATE}26, which means 0.0507812"),
    (lambda: methods.Wageubn(lr="26,9.5@3"), f"wageubn: lr=9.5: {RATE}511"),
    (
        lambda: models.make("mlp", (1, 2, 3, 4), 2),
        "image shape (1, 2, 3, 4): give (H, W, C), (H, W), or (F,)",
    ),
]


@pytest.mark.parametrize(("asked", "message"), REFUSED, ids=[row[1][:60] for row in REFUSED])
def test_what_is_refused_says_what_to_do(asked: Callable[[], Any], message: str) -> None:
    with pytest.raises(IntnetError) as caught:
        asked()
    assert message in str(caught.value)


def test_a_shape_of_fewer_axes_is_that_of_arrays() -> None:
    for shape, whole in (((6,), (1, 1, 6)), ((4, 5), (4, 5, 1)), ((4, 5, 3), (4, 5, 3))):
        assert models.make("mlp", shape, 2).image_shape == whole
        assert datasets.from_arrays(np.zeros((2, *shape)), [0, 1]).image_shape == whole


def test_kernels_of_a_method_of_ones_own_are_those_of_its_base(monkeypatch: pytest.MonkeyPatch) -> None:
    class Mine(methods.Wageubn):
        name = "mine"

    asked: list[str] = []
    monkeypatch.setattr("intnet.training.train.compile_kernels", lambda *groups, **_: asked.extend(groups))
    Run(mlp(), Mine(), DATA, 8)
    assert asked == ["wageubn dense"]


# ---- what is shown ----


def test_progress_in_a_notebook_and_silence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)  # a test that runs notebooks loads it
    made(epochs=1)
    assert capsys.readouterr().err == ""  # neither a terminal nor a notebook
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    made(epochs=1, progress=False)
    assert capsys.readouterr().err == ""
    run = made(epochs=2)
    lines = capsys.readouterr().err.split("\n")
    assert "\rfirst step: compiles what is new" in lines[0] and "\rstep 1 of 8: loss " in lines[0]
    row = run.history.epochs[1]
    assert lines[1].endswith(
        f"\repoch 2: loss {row.loss:.4f}, test accuracy {row.test_accuracy:.2%}, "
        f"{sum(row.saturated.values()):,} values saturated".ljust(79)
    )


@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal that a program makes")
@pytest.mark.slow
def test_progress_on_a_terminal(tmp_path: Path) -> None:
    import pty

    code = "from tests.training.test_fit import made; made(epochs=2)"
    parent, child = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", code], stderr=child, env=os.environ | {"TERM": "xterm", "COLUMNS": "200"}
    ) as process:
        os.close(child)
        text = b""
        try:
            while part := os.read(parent, 4096):
                text += part
        except OSError:  # as Linux says that all is read
            pass
    os.close(parent)
    assert process.returncode == 0
    assert b"training" in text and b"first step: compiles what is new" in text and b"epoch 2: loss " in text


def test_reprs_and_summaries() -> None:
    run = made(epochs=1, record=["fc1/*"])
    assert repr(run) == "Run(Wageubn(), mlp on 'arrays', after step 4, epoch 1)"
    assert (
        repr(run.model)
        == f"MLP('mlp': 1x1x6 to 2 classes, {6 * 64 + 64 * 64 + 4 * 64 + 64 * 2 + 2:,} parameters)"
    )
    assert repr(run.model.fc1) == "Linear(fc1: weight 64x6)" and repr(layers.ReLU()) == "ReLU()"
    told = methods.make("saved", **{"momentum": "0.5", "bits@fc1": 2})
    assert repr(told) == "Saved(momentum=0.5, **{'bits@fc1': '2'})"
    names = run.model.summary().column("layer")
    assert names == [*(layer.name for layer in run.model.all_layers()), "all"]
    rows = run.model.summary().records()
    assert rows[1] == {"layer": "fc1", "kind": "Linear", "output": "64", "parameters": 384}
    assert rows[-1]["parameters"] == 4866
    options = {row["option"]: row for row in told.summary().records()}
    assert options["momentum"] == {"option": "momentum", "value": "0.5", "default": "0.9"}
    assert options["lr"]["default"] is None
    assert repr(run.paths).startswith("Recorder(fc1/*: ") and "fc1/x0" in run.paths.summary().column("path")
    for one in (run, run.model, run.model.fc1, run.method, run.data, run.history, run.paths, run.evaluate()):
        assert one.summary()._repr_html_() == one._repr_html_()
        assert one._repr_html_().startswith("<table>")
    assert run.digest() in repr(run.summary())


def test_a_path_that_is_none_is_told_with_those_that_are() -> None:
    run = made(epochs=1, record=["fc1/zz", "fc2/Wq"])
    with pytest.raises(
        KeyError, match=r"no value of 'fc1/zz' .* there are fc2/Wq; paths of fc1 are .*x0, x1"
    ):
        run.paths["fc1/zz"]
    with pytest.raises(KeyError, match=r"no value of 'fc9/x0' was recorded; there are fc2/Wq\"$"):
        run.paths["fc9/x0"]
    assert list(run.paths) == ["fc2/Wq"]


def test_a_summary_of_codes() -> None:
    q = made(epochs=1, record=["fc2/Wq"]).paths["fc2/Wq"]
    told = dict(q.summary().rows)
    assert told["shape"] == "64x64" and told["format"] == "<8,7>"
    assert told["codes"] == f"{q.raw().min()}..{q.raw().max()}"
