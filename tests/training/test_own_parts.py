"""Models, methods, layers and data of one's own with slips that people make: each is said, none is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import intnet
from intnet import datasets, fit, formats, methods, models
from intnet.autograd import Op, Tensor
from intnet.errors import ConfigError, FormatError, NumberError, ShapeError
from intnet.exact.quantize import quantize
from intnet.layers import Dropout, Flatten, Linear, ReLU, Tanh
from intnet.methods.float32 import Float32
from intnet.methods.method import to_float32
from intnet.models import Model
from intnet.numbers.formats import OwnFormat
from intnet.training.inference import all_logits
from intnet.training.state import check_state
from intnet.training.train import Run
from intnet.verify import taken, work
from intnet.verify.row import Options
from tests.support.command import forgotten

DIGITS = datasets.load("digits").first(64)
SHAPE, CLASSES = DIGITS.image_shape, DIGITS.classes


class Net(Model):
    """fc1, what `between` makes of it, fc2."""

    def __init__(
        self, shape: tuple[int, int, int] = SHAPE, classes: int = CLASSES, act: str = "relu"
    ) -> None:
        super().__init__("own-net", shape, classes)
        self.flatten, self.fc1 = Flatten(), Linear(64, 8)
        self.act = Tanh() if act == "tanh" else ReLU()
        self.drop = Dropout(0.5)
        self.fc2 = Linear(8, classes)
        self.set_more()
        self.finish()

    def set_more(self) -> None:
        """Attributes ahead of `finish`."""

    def between(self, x: Tensor, method: methods.Method) -> Tensor:
        return self.drop(self.act(x, method), method)

    def forward(self, x: Tensor, method: methods.Method) -> Tensor:
        return self.fc2(self.between(self.fc1(self.flatten(x, method), method), method), method)


def step(model: Model | None = None, method: methods.Method | None = None) -> Run:
    run = Run(model or Net(), method or Float32(), DIGITS, 16, 1)
    run.train(1)
    return run


@pytest.fixture
def registered(tmp_path: Path) -> Iterator[None]:
    """What a test registers is forgotten after it."""
    with forgotten(tmp_path):
        yield


# -- models ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("held", [lambda a: (a,), lambda a: {"a": a}, lambda a: [a, 1], lambda a: [[a]]])
def test_layers_where_nobody_looks_for_them(held: Callable[[Any], Any]) -> None:
    class Hidden(Net):
        def set_more(self) -> None:
            self.acts = held(ReLU())

    with pytest.raises(ConfigError, match=r"acts would have no names: give each as an attribute"):
        Hidden()


def test_a_layer_behind_finish() -> None:
    model = Net()
    model.late = ReLU()
    with pytest.raises(ConfigError, match=r"layer late was set after self.finish\(\)"):
        Run(model, Float32(), DIGITS, 16, 1)


def test_a_dropout_used_twice_would_draw_one_mask() -> None:
    class Twice(Net):
        def between(self, x: Tensor, method: methods.Method) -> Tensor:
            return self.drop(self.drop(self.act(x, method), method), method)

    with pytest.raises(
        ShapeError, match="layer drop ran 2 times in one pass of the model, and what it stores"
    ):
        step(Twice())


# -- methods and operations ------------------------------------------------------------------------


def test_a_hook_that_returns_nothing() -> None:
    class Forgets(Float32):
        def gradient(self, layer: Any, parameter: Any, g: Any) -> Any:
            super().gradient(layer, parameter, g)

    with pytest.raises(ShapeError, match=r"'float32': gradient of fc2, bias, returned nothing: .* \(10,\)"):
        step(method=Forgets())


@pytest.mark.parametrize(
    ("hook", "made", "told"),
    [
        (
            "weight",
            lambda w: w.astype(np.float64),
            r"weight of fc1, weight, returned float64 of shape \(8, 64\)",
        ),
        (
            "weight",
            lambda w: w.T,
            r"weight of fc1, weight, returned float32 of shape \(64, 8\): it was given",
        ),
        ("activation", lambda x: 1.5, r"activation of fc1, x0, returned float of shape"),
        (
            "error",
            lambda e: e[:1],
            r"error of fc2, e3, returned float32 of shape \(1, 10\): it was given shape \(16, 10\)",
        ),
        ("gradient", lambda g: g.astype(np.float64), r"gradient of fc2, bias, returned float64 of shape"),
    ],
)
def test_a_hook_that_returns_something_else(hook: str, made: Callable[[Any], Any], told: str) -> None:
    """Of a square weight, its transpose would be taken for it."""

    def changed(self: Float32, *given: Any) -> Any:
        return made(getattr(Float32, hook)(self, *given))

    with pytest.raises(ShapeError, match=told):
        step(method=type("Changed", (Float32,), {hook: changed})())


@pytest.mark.parametrize(
    ("left", "told"),
    [
        (lambda w: w[:1], r"fc1.weight is of shape \(1, 64\) after its update, before it \(8, 64\)"),
        (lambda w: w.astype(np.float64), "fc1.weight is float64 after its update"),
    ],
)
def test_an_update_that_leaves_something_else(left: Callable[[Any], Any], told: str) -> None:
    class Leaves(Float32):
        def update(self, layer: Any, parameter: Any, gradient: Any) -> None:
            parameter.value = left(parameter.value)

        def update_all(self, updates: Any) -> None:
            for one in updates:
                self.update(*one)

    with pytest.raises((ShapeError, NumberError), match=told):
        step(method=Leaves())


def test_a_step_that_is_not_counted_ends_the_training() -> None:
    """It went on for ever."""

    class Uncounted(Float32):
        def end_of_step(self) -> None:
            pass

    with pytest.raises(ConfigError, match=r"step 1 was not counted: its end_of_step calls super"):
        step(method=Uncounted())


def test_a_method_without_an_update_is_no_method(registered: None) -> None:
    with pytest.raises(
        ConfigError, match="method 'still' has no update: write one, or derive from FloatMaster"
    ):

        @methods.register("still")
        class Still(methods.Method):
            pass


def test_an_answer_does_not_hang_on_the_place_in_a_batch() -> None:
    """Activations draw words while training, none in inference."""

    class Drawn(Float32):
        drawn: Any = None

        def activation(self, layer: Any, path: str, value: Any) -> Any:
            if path != "x4":
                return super().activation(layer, path, value)
            format = formats.Shift(3)
            return to_float32(self.store(layer, "x4", to_float32(value), format, "stochastic"))

        def words(self, name: str, n: int) -> Any:
            self.drawn = [*(self.drawn or []), name]
            return super().words(name, n)

    run = step(method=Drawn())
    assert "act/x4" in run.method.drawn  # type: ignore[attr-defined]
    run.method.drawn = []  # type: ignore[attr-defined]
    images = np.repeat(DIGITS.test_images[:1], 9, axis=0)
    logits = all_logits(run.model, run.method, images, DIGITS.exponent)
    assert run.method.drawn == []  # type: ignore[attr-defined]
    assert np.array_equal(logits, np.repeat(logits[:1], 9, axis=0))


@pytest.mark.parametrize(("gives", "told"), [(lambda g: g, "a ndarray"), (lambda g: (g, g), "2 gradients")])
def test_a_vjp_that_gives_something_else(gives: Callable[[Any], Any], told: str) -> None:
    doubled = Op("doubled", lambda saved, x: x * 2, lambda saved, g: gives(g))

    class Doubled(Net):
        def between(self, x: Tensor, method: methods.Method) -> Tensor:
            return doubled(self.act(x, method))  # type: ignore[no-any-return]

    with pytest.raises(TypeError, match=f"the vjp of 'doubled' gave {told}: a tuple of 1 is wanted"):
        step(Doubled())


def test_options_that_are_no_options(registered: None) -> None:
    with pytest.raises(
        ConfigError, match="its __init__ takes k, which no run would remember: make them fields"
    ):

        @methods.register("positional")
        class Positional(Float32):
            def __init__(self, k: int = 4) -> None:
                super().__init__()

    assert "positional" not in methods.METHODS


def test_a_callback_that_returns_numpys_true() -> None:
    run = fit(Net(), Float32(), DIGITS, epochs=3, batch_size=16, callbacks=[lambda run: np.bool_(True)])
    assert run.step == run.steps_per_epoch


def test_limits_the_wrong_way_round(registered: None) -> None:
    @formats.register("odd-limits")
    @dataclass(frozen=True)
    class Odd(OwnFormat):
        low: int
        high: int

        def grid_of(self, least: Any, greatest: Any) -> int:
            return -2

        def limits(self) -> Any:
            return self.low, self.high, "saturate"

    assert quantize([0.5, -9.0], Odd(-7, 7)).codes.tolist() == [2, -7]
    for low, high in ((7, -8), (2, 7), (-7, -1)):
        with pytest.raises(FormatError, match=f"has the limits {low} and {high}, between which 0 has to be"):
            quantize([0.5], Odd(low, high))


# -- what is remembered ----------------------------------------------------------------------------


class Lazy(Float32):
    """It begins to remember in its first step."""

    def end_of_step(self) -> None:
        before = self.state.get("sum", np.zeros(1))
        self.state["sum"] = before + 1.5
        super().end_of_step()


def test_a_method_that_begins_to_remember_later_goes_on() -> None:
    straight, first = step(method=Lazy()), step(method=Lazy())
    again = Run(Net(), Lazy(), DIGITS, 16, 1)
    again.restore(first.state(), first.step)
    for run in (straight, again):
        run.train(3)
    assert again.method.state["sum"].tolist() == [4.5] and again.digest() == straight.digest()


def test_what_no_checkpoint_holds_is_said_before_one_is_written(tmp_path: Path, registered: None) -> None:
    models.register("own-net")(Net)

    @methods.register("odd-slots")
    class Odd(Float32):
        kept: Any = None

        def end_of_step(self) -> None:
            self.context_model.fc1.parameters[0].slots["least"] = self.kept
            super().end_of_step()

    for kept, says in (
        (np.full(3, np.inf, np.float32), "least holds a NaN or infinity at index"),
        (3, "least is int, a number, no array"),
        (np.zeros(2, np.float16), "least is an array of float16"),
    ):
        run = Run(Net(), Odd(), DIGITS, 16, 1)
        run.method.context_model, run.method.kept = run.model, kept  # type: ignore[attr-defined]
        with pytest.raises(NumberError, match=says):
            run.train(1)  # after the first step, not after an epoch
        with pytest.raises(NumberError, match=says):
            intnet.save(run, tmp_path / "run")
    for name in ("weight", "c.d"):
        run = step()
        run.model.fc1.buffers[name] = np.zeros(3, np.float32)  # type: ignore[union-attr]
        with pytest.raises(ShapeError, match=f"buffer '{name}' of layer fc1: a name without a dot"):
            run.digest()


def test_a_model_that_its_name_makes_otherwise_is_not_saved(tmp_path: Path, registered: None) -> None:
    models.register("own-net")(Net)
    with pytest.raises(ConfigError, match=r"makes another model than this one \(act differs\)"):
        intnet.save(step(Net(act="tanh")), tmp_path / "tanh")
    run = step()
    intnet.save(run, tmp_path / "relu")
    again = intnet.load(tmp_path / "relu")
    assert again.digest() == run.digest()
    assert again.evaluate().accuracy == run.evaluate().accuracy


def test_data_that_no_name_finds_are_kept(tmp_path: Path) -> None:
    given = datasets.Dataset(
        "mine", DIGITS.train_images, DIGITS.train_labels, DIGITS.test_images, DIGITS.test_labels,
        DIGITS.exponent, CLASSES,
    )  # fmt: skip
    run = fit(models.mlp(SHAPE, CLASSES), Float32(), given, epochs=1, batch_size=16)
    intnet.save(run, tmp_path / "run")
    assert intnet.load(tmp_path / "run").fit(2).digest() == run.fit(2).digest()


def test_arrays_that_change_behind_the_call() -> None:
    bytes_of = [DIGITS.train_images[:32].copy(), DIGITS.train_images[32:].copy()]
    labels = [DIGITS.train_labels[:32].copy(), DIGITS.train_labels[32:].copy()]
    made = datasets.from_arrays(bytes_of[0], labels[0], bytes_of[1], labels[1])
    before = [part.copy() for part in (made.train_images, made.train_labels, made.test_images)]
    for part in (*bytes_of, *labels):
        part[:] = 0
    now = (made.train_images, made.train_labels, made.test_images)
    assert all(np.array_equal(a, b) for a, b in zip(before, now, strict=True))


@pytest.mark.slow
def test_numpys_randomness_is_seen_by_a_part_of_verify() -> None:
    class Drawn(Float32):
        def update(self, layer: Any, parameter: Any, g: Any) -> None:
            super().update(layer, parameter, g + np.float32(np.random.default_rng().random()))

    run = Run(models.mlp(SHAPE, CLASSES), Drawn(), DIGITS, 16, 1)
    took = taken.take(run, 1, lambda run, steps: run.train(steps))
    row, _ = work.first_rows(took, Options(), "fc2")
    assert row.differing == 1 and "watched" in row.why


# -- what a model and a method give back ---------------------------------------------------------


def test_a_forward_that_returns_no_tensor_of_the_graph_is_named() -> None:
    class OfValues(Net):
        def forward(self, x: Tensor, method: methods.Method) -> Any:
            return super().forward(x, method).value

    class Apart(Net):
        def forward(self, x: Tensor, method: methods.Method) -> Tensor:
            return Tensor(super().forward(x, method).value)

    for net, told in ((OfValues(), "a ndarray"), (Apart(), "a Tensor that depends on no parameter")):
        with pytest.raises(ShapeError, match=f"forward returns {told}: that of its last layer is wanted"):
            step(net)


def test_streams_is_a_method() -> None:
    class Mine(Float32):
        streams = ("gWq",)  # type: ignore[assignment]

    with pytest.raises(ConfigError, match=r"streams is a method, streams\(self, layers\)"):
        methods.register("own-streams")(Mine)


def test_a_number_in_a_methods_state_is_told_from_an_array() -> None:
    run = step()
    run.method.state["n"] = np.float32(1)  # type: ignore[assignment]
    with pytest.raises(NumberError, match=r"method/n is float32, a number, no array \(np.asarray"):
        check_state(run.state())
