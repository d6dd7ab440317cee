"""Options by layer of adapt, dynasty and the packed tape: fast code against definition, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from intnet import methods
from intnet.errors import ConfigError
from intnet.methods.adapt import Adapt
from intnet.methods.dynasty import Dynasty
from intnet.methods.options import parse_options
from intnet.spec import data
from intnet.spec.training import train
from intnet.training.train import Run
from tests.support.command import here, tour
from tests.support.inferring import agree
from tests.support.states import state_differences, state_of
from tests.support.two_worlds import random_images
from tests.support.zoo import RESNET, TinyResNet

SMALL = {"lookback": "2-3", "resolution": "5-9"}
ADAPT: list[dict[str, Any]] = [
    SMALL | {"start": "9,3", "start@layer1.*": "16,10", "switch@layer1.0.conv?": "off", "penalty": "on"},
    SMALL | {"switch": "off", "switch@layer2.*": "on", "start@conv1": "6,4", "normalize": "off"},
]
DYNASTY: list[dict[str, Any]] = [
    {"map@layer1.0.conv1": "uniform", "bits@layer1.0.conv1": 6, "weight_bits@layer1.0.conv1": 2},
    {"map": "uniform", "bits": 4, "bits@fc": 8, "map@layer2.*": "dynamic"},
    {"map@*": "uniform", "bits@layer2.*": 2, "bits@fc": 0, "forward_dynamic": "weight"},
    {"map@fc": "uniform", "lambdas": "one", "weight_bits@fc": 6, "mean": "work"},
]


def nothing() -> None:
    """No change."""


def trained(
    method: str, options: dict[str, Any], steps: int = 4, change: Callable[[], None] = nothing
) -> tuple[Run, data.Dataset]:
    """The library's steps, two an epoch, and the definition's data; change: made ahead of the first step."""
    model = TinyResNet()
    fast, plain = random_images(model, 8)
    run = Run(model, methods.make(method, **options), fast, 4, 2)
    change()
    run.train(steps)
    return run, plain


def differences(method: str, options: dict[str, Any], change: Callable[[], None] = nothing) -> list[str]:
    run, plain = trained(method, options, 4, change)
    wanted = train(RESNET, method, plain, 2, 4, 4, run.method.settings())
    return state_differences(state_of(run), wanted)


@pytest.mark.slow
@pytest.mark.parametrize("options", ADAPT, ids=str)
def test_adapt(options: dict[str, Any]) -> None:
    assert differences("adapt", options) == []


@pytest.mark.slow
@pytest.mark.parametrize("options", DYNASTY, ids=str)
def test_dynasty(options: dict[str, Any]) -> None:
    assert differences("dynasty", options) == []


@pytest.mark.slow
def test_inference() -> None:
    run, _ = trained("adapt", ADAPT[0])
    agree(run, RESNET, run.data.test_images)


def test_a_layer_of_fixed_precision_stays_and_the_others_move() -> None:
    run, _ = trained("adapt", SMALL | {"start@layer1.*": "16,10", "switch@layer1.*": "off"})
    found = {one.name: tuple(one.buffers["precision"].codes.tolist()) for one in run.model.all_layers()}
    assert {name: wl for name, wl in found.items() if name.startswith("layer1")} == dict.fromkeys(
        (f"layer1.0.{name}" for name in ("conv1", "bn1", "conv2", "bn2", "relu1", "relu2")), (16, 10)
    )
    assert found["conv1"] != (8, 4) and found["fc"] != (8, 4)
    assert "layer1.0.conv1" not in run.method.moves


def test_a_layer_of_fixed_bits_has_no_map() -> None:
    run, _ = trained("dynasty", DYNASTY[0])
    layers = {layer.name: layer for layer in run.model.all_layers()}
    fixed = layers["layer1.0.conv1"]
    assert "b" not in fixed.buffers and "S" not in fixed.parameters[0].slots
    moving = layers["layer1.0.conv2"].parameters[0].slots
    assert set(np.unique(moving["b"])) != {4.0}
    told = run.method.map["layers"]["layer1.0.conv1"]
    assert (told["weights"]["blocks"], told["weights"]["mean"], told["activations"]["mean"]) == (9, 2.0, 6.0)
    assert told["weights"]["counts"] == [0, 9, 0, 0, 0]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "options"), [(Adapt, ADAPT[0]), (Dynasty, DYNASTY[0])])
def test_a_layer_that_is_forgotten_is_seen(
    kind: type, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The definition against fast code that takes all layers alike."""

    def change() -> None:
        monkeypatch.setattr(kind, "_of", lambda self, layer: self.options)

    assert any("layer1.0.conv1" in line for line in differences(kind.name, options, change))  # type: ignore


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("adapt", {"start@relu1": "8,4"}, "start@relu1: no layer that it matches reads start, nothing would"),
        ("adapt", {"start@fc": "8,8"}, "start=8,8: WL,FL with 0 <= FL < WL <= 32"),
        (
            "adapt",
            {"lr@fc": "0.1"},
            "lr holds for all layers alike; by layers one sets start@PATTERN, switch@",
        ),
        ("adapt", {"switch@fc": "no"}, "switch@fc='no': use one of on, off"),
        ("dynasty", {"bits@fc": 6}, "bits@fc: no layer that it matches reads bits, .* fc reads map"),
        ("dynasty", {"map@bn1": "uniform"}, "map@bn1: no layer that it matches reads map"),
        ("dynasty", {"map@fc": "uniform", "bits@fc": 5}, r"has 0, 2, 4, 6 or 8 bits \(of layer fc\)"),
        ("dynasty", {"map@fd": "uniform"}, "map@fd: no layer of this model has such a name; there are conv1"),
        ("muppet", {"lr@fc": "0.1"}, "lr@fc: lr holds for all layers alike; by layers one sets no key"),
        ("saved", {"bits@avgpool": "4"}, "avgpool reads none of the options by layer; bits is read by conv1"),
        ("mx", {"w@bn1": "off"}, "w@bn1: no layer that it matches reads w"),
        ("saved", {"norm@fc": "l2"}, "norm@fc: no layer that it matches reads norm"),
        (
            "saved",
            {"codec@relu1": "levels"},
            "relu1 reads bits, storage; codec is read by conv1, bn1, layer1",
        ),
        ("float32", {"saved.bits@avgpool": "4"}, "float32: saved: bits@avgpool: no layer that it matches"),
    ],
    ids=str,
)
def test_what_no_layer_reads_is_refused(method: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        trained(method, options, 0)


@dataclass(frozen=True)
class Fields:
    count: int | None = 1
    rate: float = 0.5
    flag: bool = False


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("count", 7.9, "count=7.9 is not a whole number"),
        ("count", True, "count=True is not a whole number"),
        ("count", float("inf"), "count=inf is not a whole number"),
        ("rate", True, "rate=True is not a number"),
        ("flag", "maybe", "flag='maybe' is not on or off"),
    ],
)
def test_no_value_is_cut_to_its_kind(key: str, value: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        parse_options(Fields, {key: value}, "own")


def test_values_of_any_kind_that_say_it_are_taken() -> None:
    for value in (7, 7.0, "7", np.int8(7), np.float32(7)):
        assert parse_options(Fields, {"count": value}, "own")[0] == Fields(count=7)
    for value in (True, "on", "True"):
        assert parse_options(Fields, {"flag": value}, "own")[0] == Fields(flag=True)
    for value in (False, "off", "False"):
        assert parse_options(Fields, {"flag": value}, "own")[0] == Fields(flag=False)


def test_files_name_what_came_later_only_where_it_is_set() -> None:
    assert "switch" not in Adapt().settings()
    assert Adapt(switch="off", **{"start@fc": "9,3"}).settings()["switch"] == "off"  # type: ignore[arg-type]
    assert (
        methods.make("adapt", **Adapt(switch="off").settings()).settings() == Adapt(switch="off").settings()
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "options"),
    [("adapt", ("start@fc2=12,6", "switch@fc2=off")), ("dynasty", ("map@fc2=uniform", "bits@fc2=6"))],
)
def test_every_command_takes_such_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], method: str, options: tuple[str, ...]
) -> None:
    """The tour, and costs."""
    given = ("--method", method, "--model", "mlp", "--data", "digits", "--limit", 144, "--batch-size", 70)
    told = [word for option in options for word in ("--set", option)]
    out = tour(capsys, tmp_path, *given, *told, path="x0")
    assert "<12,6>" in out or "6 bits" in out
    status, _, err = here(capsys, "costs", tmp_path / "run")
    assert status == 0, err
