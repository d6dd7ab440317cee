"""Method mx: whole steps equal the definition's, with every format, rounding and kind of layer."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from intnet import datasets, methods
from intnet.datasets import Dataset
from intnet.errors import ConfigError, NumberError
from intnet.exact.blocks.mx_blocks import Along
from intnet.methods import mx as lib
from intnet.methods.trace import Recorder
from intnet.numbers.microscaling import MXS
from intnet.ops.bilinear import Bifurcated, Copies
from intnet.spec.methods import mx
from intnet.spec.methods.step import Now
from intnet.spec.words import words
from intnet.training.train import Run
from tests.support.opcheck import tensor, threads, values
from tests.support.saved_world import Case, prepared
from tests.support.states import state_differences, state_of
from tests.support.stepping import CLASSES, fixed
from tests.support.zoo import WORLD, Grouped

COPIES = {"Wq", "Wb", "x0", "x0b", "e3", "e3w"}


def run_of(net: str, seed: int, batch: int = 4, **options: Any) -> Run:
    method = methods.make("mx", **options)
    if net != "grouped":
        made: Run = prepared(Case(net, seed=seed, batch=batch), method)
        return made
    digits = datasets.load("digits")
    images, labels = digits.train_images[: 2 * batch], digits.train_labels[: 2 * batch] % CLASSES
    return Run(Grouped(), method, Dataset("some", images, labels, images, labels, -4, CLASSES), batch, seed)


def both(run: Run, net: str, number: int) -> tuple[list[str], Any]:
    """One step in both worlds: what differs, and the definition's step."""
    method, recorder, state = run.method, Recorder("*"), state_of(run)
    batch, _ = run.batch(number)
    method.set(observers=[recorder])
    method.saturated.clear()
    report = run.train_step()
    method.set(observers=[])
    last = "fc3" if net == "mlp" else "fc"
    error = tensor(recorder.events[f"{last}/e3w"].source)
    settings = mx.Settings.from_options(method.settings())
    expected = mx.Step(WORLD[net], settings, state, Now(run.seed, number, run.steps_per_epoch))
    expected.take(fixed(batch), lambda _: (Fraction(report.loss), error))
    bad = sorted(expected.tensors.keys() ^ recorder.events.keys())
    bad += [
        n for n, v in expected.tensors.items() if n in recorder.events and values(recorder[n]) != v.values
    ]
    if dict(method.saturated) != expected.saturated:
        bad.append("saturated")
    return bad + state_differences(state_of(run), expected.state), expected


EACH = {
    "w": "MXFP4/ceil",
    "x": "MXFP8_E4M3/fit/stochastic",
    "e": "MXFP8_E5M2/round",
    "g": "MXINT8/floor/to_zero",
}
CASES: list[tuple[str, int, int, dict[str, Any]]] = [
    ("mlp", 1, 4, {}),
    ("mlp", 2, 35, {"format": "MXFP4/ceil/stochastic", "lr": "0.01"}),
    ("mlp", 3, 4, EACH | {"optimizer": "adamw", "clip": 0.3, "format@fc2": "off", "w@fc3": "MXINT8"}),
    ("lenet", 4, 3, {"format": "MXINT8", "momentum": 0.5, "weight_decay": 1e-4}),
    ("resnet", 5, 4, {"format": "MXFP8_E4M3/round/ties_away"}),
    ("excited", 6, 4, {"format": "MXFP6_E2M3", "accs": 2, "g": "off"}),
    ("grouped", 7, 3, {"e": "MXFP4/floor/stochastic", "label_smoothing": 0.1}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("net", "seed", "batch", "options"), CASES)
def test_two_steps_equal_the_definition(net: str, seed: int, batch: int, options: dict[str, Any]) -> None:
    run = run_of(net, seed, batch, **options)
    for number in range(2):
        bad, expected = both(run, net, number)
        assert bad == []
    assert {name.rpartition("/")[2] for name in expected.tensors} >= COPIES


def test_a_step_equals_the_definition() -> None:
    bad, expected = both(run_of("mlp", 1), "mlp", 0)
    assert bad == [] and expected.saturated


def test_axes_of_every_copy() -> None:
    """The axis that its product sums over, which groups part; the first layer asks for no e4."""
    run, recorder = run_of("grouped", 3), Recorder("*")
    run.method.set(observers=[recorder])
    run.train_step()
    form = replace(MXS["MXFP6_E3M2"])
    found = {name: event.format for name, event in recorder.events.items() if event.format is not None}
    assert found.pop("conv2/x0") == found.pop("conv2/e3") == Along(form, -1, 3)
    assert found.pop("conv2/Wq") == Along(form, 1) and found.pop("conv2/Wb") == Along(form, 0, 3)
    assert found.pop("conv2/x0b") == found.pop("conv2/e3w") == Along(form, 0)
    assert {name for name in found if name.startswith("conv1")} == {
        f"conv1/{p}" for p in ("Wq", "x0", "x0b", "e3w")
    }


def test_words_of_a_copy_are_those_of_its_name() -> None:
    run, recorder = run_of("mlp", 3, format="MXFP4/floor/stochastic"), Recorder("*")
    run.method.set(observers=[recorder])
    run.train(2)
    for path in COPIES:
        event = recorder.events[f"fc2/{path}"]
        assert event.words is not None and event.step == 1
        assert event.words.reshape(-1).tolist() == words(run.seed, 1, f"fc2/{path}", event.source.size)


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2])
def test_threads_do_not_change_a_bit(n: int) -> None:
    with threads(n):
        assert both(run_of("lenet", 7, format="MXFP8_E5M2/ceil/stochastic"), "lenet", 0)[0] == []


def test_what_it_refuses() -> None:
    with pytest.raises(ConfigError, match=r"mx: what gW reads is in MX blocks already: saved\.bits"):
        methods.make("mx", **{"saved.bits": 4})
    with pytest.raises(ConfigError, match="mx: w=MXFP7: unknown format 'MXFP7'; use one of MXFP8_E4M3"):
        methods.make("mx", w="MXFP7")
    with pytest.raises(ConfigError, match="mx: e@fc1=MXFP4/up: unknown scale 'up'; use one of floor"):
        methods.make("mx", **{"e@fc1": "MXFP4/up"})
    with pytest.raises(ConfigError, match="mx: format=MXFP4/fit/nearest: unknown rounding 'nearest'"):
        methods.make("mx", format="MXFP4/fit/nearest")
    with pytest.raises(ConfigError, match="mx: g=MXFP4/fit/ties_even/1: FORMAT/SCALE/ROUNDING"):
        methods.make("mx", g="MXFP4/fit/ties_even/1")
    with pytest.raises(ConfigError, match="mx: format=format: unknown format 'format'"):
        methods.make("mx", format="format")


def test_what_is_no_number_is_named() -> None:
    run = run_of("mlp", 1)
    weight = next(p for name, _, p in run.model.all_parameters() if name == "fc2.weight")
    weight.value = weight.value.copy()
    weight.value[1, 2] = np.inf
    with pytest.raises(NumberError, match=r"fc2/Wq: NaN or infinity at index \(1, 2\)"):
        run.train_step()


def test_faults_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the library: gW by the wrong copies, e4 by the forward weights, blocks along another axis."""
    faults: dict[str, tuple[str, Any, str]] = {
        "gW of e3": ("Bifurcated", lambda down, weight: Bifurcated(down, down), "fc2/gW"),
        "one copy of x0 and W": ("Copies", lambda forward, back: Copies(forward, forward), "fc2/gW"),
        "Wb along the inputs": ("COPIES", lib.COPIES | {"Wb": ("w", 1, False)}, "fc2/Wb"),
        "e3 by g": ("COPIES", lib.COPIES | {"e3": ("g", -1, True)}, "fc2/e3"),
    }
    for fault, (name, seeded, path) in faults.items():
        with monkeypatch.context() as patch:
            patch.setattr(lib, name, seeded)
            assert path in both(run_of("mlp", 1, w="MXINT8", g="MXINT8"), "mlp", 0)[0], fault
