"""Method mx: whole steps equal the definition's, with every format, rounding and kind of layer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from intnet import methods
from intnet.errors import ConfigError, NumberError
from intnet.exact.blocks.mx_blocks import Along
from intnet.methods import mx as lib
from intnet.methods.trace import Recorder
from intnet.numbers.microscaling import MXS
from intnet.ops.products import Bifurcated, Copies
from intnet.spec.words import words
from intnet.training.train import Run
from tests.support.opcheck import threads
from tests.support.two_worlds import begun, differences, first_steps, unsettle

COPIES = {"Wq", "Wb", "x0", "x0b", "e3", "e3w"}


def run_of(net: str, seed: int, batch: int = 4, **options: Any) -> Run:
    return unsettle(begun(net, methods.make("mx", **options), seed, batch, 2 * batch))


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
    results = first_steps(run_of(net, seed, batch, **options), net, 2)
    assert [differences(result) for result in results] == [[], []]
    assert {name.rpartition("/")[2] for name in results[-1].expected.tensors} >= COPIES


def test_a_step_equals_the_definition() -> None:
    (result,) = first_steps(run_of("mlp", 1), "mlp")
    assert differences(result) == [] and result.expected.saturated


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
        (result,) = first_steps(run_of("lenet", 7, format="MXFP8_E5M2/ceil/stochastic"), "lenet")
        assert differences(result) == []


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
            (result,) = first_steps(run_of("mlp", 1, w="MXINT8", g="MXINT8"), "mlp")
            assert path in differences(result), fault
