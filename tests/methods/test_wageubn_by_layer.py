"""WAGEUBN whose options differ by layer: fast code against definition, and every command on such a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from intnet import methods
from intnet.autograd import Tensor
from intnet.datasets import Dataset
from intnet.errors import ConfigError
from intnet.methods.method import Method
from intnet.methods.trace import Recorder
from intnet.methods.wageubn import Wageubn
from intnet.numbers.formats import Direct, FixedPoint, Flag, Shift
from intnet.numbers.qtensor import QTensor
from intnet.spec import data
from intnet.spec.training import train
from intnet.spec.words import words
from intnet.training.train import Run
from tests.support.command import MLP, here, refused, tour
from tests.support.inferring import agree
from tests.support.states import state_differences, state_of
from tests.support.two_worlds import random_images
from tests.support.zoo import KINDS, RESNET, TinyResNet

FORMS = {"k_e2@layer2.*": 6, "e2@layer1.*": "16", "k_e1@*relu1": 5, "k_e1@*relu2": 11}
WIDE = {"k_w@layer1.0.conv1": 4, "k_w@layer2.*": 11, "k_a@layer1.0.relu1": 5, "k_a@relu1": 10}
NORMS = {
    "k_bn@bn1": 12,
    "k_gamma@*bn2": 6,
    "k_beta@layer2.0.bn?": 11,
    "k_mu@bn1": 12,
    "k_sigma@layer1.0.bn1": 10,
}
RATES = {
    "k_acc@layer1.*": 10, "k_mom@*bn1": 5, "mom@*bn1": 13, "k_lr@layer2.*": 14, "lr@layer2.*": "900,30@1",
    "lr@fc": "90", "mom@conv1": 1, "dr@layer1.*": "64,32@1", "weight_decay@layer2.*": 9, "weight_decay@fc": 4,
}  # fmt: skip
RANGES = {"saturate@layer1.0.relu1": 1, "saturate@layer1.0.bn?": 2, "k_a@layer1.0.relu1": 6}
STOCHASTIC = dict.fromkeys(("r_w", "r_a", "r_e1", "r_gamma", "r_beta", "r_bn", "r_mu", "r_acc"), "stochastic")
MODES = {"r_w": "ties_away", "r_a": "to_neg", "r_e1": "ties_pos", "r_e2": "to_zero", "r_gamma": "to_pos"} | {
    "r_beta": "to_neg", "r_bn": "to_zero", "r_mu": "to_pos", "r_sigma": "to_neg", "r_gw": "ties_even",
    "r_ggamma": "to_neg", "r_gbeta": "stochastic", "r_acc": "to_zero", "k_gamma": 5, "k_beta": 5,
}  # fmt: skip
ROUNDED = {
    "r_a@relu1": "stochastic", "r_w@layer1.*": "stochastic", "r_sigma@layer2.0.bn?": "to_pos",
    "r_e1@*relu2": "to_neg", "r_bn@bn1": "to_neg", "r_gw@layer2.*": "ties_away",
    "r_gbeta@*bn1": "stochastic", "r_acc@*.bn2": "stochastic",
}  # fmt: skip
RESIDUAL: list[dict[str, Any]] = [
    FORMS,
    WIDE | NORMS,
    RATES,
    RANGES,
    {"edges": "fixed16", "first": "layer"} | FORMS | RATES,
    {"first": "block", "k_e2": 9} | FORMS | WIDE | RATES,
    STOCHASTIC | {"r_e2": "stochastic", "e2": "16"},
    MODES,
    {"edges": "fixed16", "r_e2@fc": "stochastic", "r_w@fc": "to_neg", "r_a@conv1": "to_zero"} | ROUNDED,
    {"first": "block", "r_a": "stochastic", "k_e1": 14, "k_gamma": 12},
    {"k_w": 6, "k_w@*": 5, "k_w@layer1.*": 7, "k_w@layer1.0.conv2": 3},
]


def trained(model: Any, options: dict[str, Any], steps: int = 3) -> tuple[Run, data.Dataset]:
    """The library's steps, two an epoch, and the definition's data."""
    fast, plain = random_images(model, 6)
    run = Run(model, Wageubn(**options), fast, 3, 2)
    run.train(steps)
    return run, plain


def differences(net: str, options: dict[str, Any]) -> list[str]:
    layers, make = KINDS[net]
    run, plain = trained(make(), options)
    wanted = train(layers, "wageubn", plain, 2, 3, 3, run.method.settings())
    return state_differences(state_of(run), wanted)


# -- the bits --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("options", RESIDUAL, ids=str)
def test_a_residual_net_whose_layers_differ(options: dict[str, Any]) -> None:
    """Branches of two grids meet in a join, and errors of two grids in its way back."""
    assert differences("resnet", options) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("net", "options"),
    [
        ("zoo", {"k_a@tanh1": 6, "k_a@pool2": 5, "k_a@drop": 7, "k_w@conv2": 5, "k_beta@conv2": 6}),
        ("zoo", {"k_e1@pool2": 5, "k_e1@drop": 9, "k_e2@fc1": 4, "k_acc@conv2": 11, "saturate@tanh1": 0}),
        ("excited", {"k_a@act1": 6, "k_e1@act1": 5, "k_w@se.*": 5, "k_e2@*": 7, "k_a@se*": 9}),
        ("zoo", {"r_a": "to_zero", "r_a@drop": "stochastic", "r_e1": "stochastic", "r_beta": "to_pos"}),
        ("excited", {"r_a": "to_neg", "r_e1": "stochastic", "r_w@se*": "stochastic"}),
    ],
    ids=str,
)  # fmt: skip
def test_other_kinds_of_layers(net: str, options: dict[str, Any]) -> None:
    assert differences(net, options) == []


@pytest.mark.slow
def test_inference() -> None:
    run, _ = trained(TinyResNet(), FORMS | WIDE | NORMS)
    agree(run, RESNET, run.data.test_images)
    run, _ = trained(TinyResNet(), STOCHASTIC | {"r_a@layer1.*": "to_neg"})  # no words in inference
    agree(run, RESNET, run.data.test_images)


@pytest.mark.parametrize("key", Wageubn.BY_LAYER)
def test_each_option_is_of_its_layer_alone(key: str) -> None:
    """The last pattern that matches holds; what no pattern matches has what holds for all."""
    values = {"e2": ("8", "16"), "k_e2": (5, 9), "lr": ("9", "7"), "dr": ("64", "32"), "mom": (1, 2)}
    first, last = values.get(key, (10, 11) if key in ("k_acc", "k_lr", "weight_decay") else (5, 6))
    if key.startswith("r_"):
        first, last = "to_neg", "to_pos"
    method = Wageubn(**{f"{key}@layer*": first, f"{key}@layer2.*": last})
    model = TinyResNet()
    Run(model, method, Dataset("one", *(np.zeros((2, 6, 6, 2), np.uint8), np.arange(2)) * 2, -8, 3), 2, 1)
    found = {layer.name: getattr(method.rules(layer).options, key) for layer in model.all_layers()}
    assert found["layer1.0.conv1"] == first
    assert found["layer2.0.conv1"] == last
    assert found["conv1"] == getattr(Wageubn().options, key)


def test_which_formats_stand_where() -> None:
    run, recorder = trained(TinyResNet(), FORMS | WIDE, 0)[0], Recorder("*")
    run.method.set(observers=[recorder])
    run.train(1)
    formats = {
        name: recorder.events[name].format
        for name in ("layer1.0.conv1/e3", "layer2.0.conv1/e3", "layer1.0.relu1/e0", "layer1.0.conv1/Wq")
    }
    assert formats == {
        "layer1.0.conv1/e3": Shift(16),
        "layer2.0.conv1/e3": Flag(6),
        "layer1.0.relu1/e0": Shift(5),
        "layer1.0.conv1/Wq": FixedPoint(4, 3, overflow="saturate_symmetric"),
    }
    assert recorder.events["layer1.0.relu1/x4"].format == Direct(5)
    assert recorder.events["relu1/x4"].format == Direct(10)


def test_how_paths_round_and_by_which_words() -> None:
    """Events tell the mode; words are those of 'layer/path', and none in inference."""
    options = {"r_a@relu1": "stochastic", "r_gw@layer2.*": "ties_even", "r_sigma": "to_neg", "e2": "16"}
    run, recorder = trained(TinyResNet(), options | {"r_e2": "stochastic"}, 0)[0], Recorder("*")
    run.method.set(observers=[recorder])
    run.train(1)
    events = recorder.events
    names = ("relu1/x4", "layer1.0.relu1/x4", "layer2.0.conv1/gWq", "layer1.0.conv1/gWq", "bn1/sigma")
    told = [events[name].rounding for name in names]
    assert told == ["stochastic", "ties_even", "ties_even", "stochastic", "to_neg"]
    for name in ("relu1/x4", "layer1.0.conv1/e3"):
        wanted = words(2, 0, name, events[name].result.codes.size)
        assert events[name].words is not None and events[name].words.tolist() == wanted
    recorder = Recorder("*")
    run.method.set(observers=[recorder], training=False)
    run.model(Tensor(QTensor(run.data.test_images.astype(np.int16), -8)), run.method)
    assert recorder.events["relu1/x4"].rounding == "ties_even" and recorder.events["relu1/x4"].words is None


@pytest.mark.slow
def test_a_mode_that_is_forgotten_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The definition against fast code that rounds one path as the paper has it, or by another's words."""
    assert differences("resnet", {"r_acc": "stochastic"}) == []
    right = Method.draw
    monkeypatch.setattr(Method, "draw", lambda self, name, n: right(self, name.replace("Accq", "Acc"), n))
    assert "state layer1.0.bn2.weight.Accq" in differences("resnet", {"r_acc": "stochastic"})
    monkeypatch.undo()
    mode = Wageubn.mode
    monkeypatch.setattr(
        Wageubn, "mode", lambda self, layer, path: "ties_even" if path == "e0" else mode(self, layer, path)
    )
    assert "state layer1.0.conv1.weight" in differences("resnet", {"r_e1": "to_neg"})


@pytest.mark.slow
def test_a_layer_that_is_forgotten_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The definition against fast code that takes one layer for any other."""
    right = Wageubn.rules
    assert differences("resnet", {"k_w@layer1.0.conv2": 5}) == []
    monkeypatch.setattr(
        Wageubn,
        "rules",
        lambda self, layer: self._of(self.options) if layer.name == "layer1.0.conv2" else right(self, layer),
    )
    assert "state layer1.0.conv2.weight" in differences("resnet", {"k_w@layer1.0.conv2": 5})


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"k_e2@layr2.*": 6},
            r"no layer of this model has such a name; there are conv1, bn1, .*avgpool, fc$",
        ),
        ({"edges@conv1": "fixed16"}, "edges holds for all layers alike; by layers one sets k_e2@PATTERN, "),
        ({"statistics@bn1": "batch"}, "statistics holds for all layers alike"),
        ({"first@conv1": "block"}, "first holds for all layers alike"),
        ({"k_e3@conv1": 6}, "unknown key of method 'wageubn' 'k_e3'; did you mean"),
        ({"k_w@": 6}, "k_w@: by layers one sets"),
        ({"k_e2@fc": 17}, r"k_e2=17: the width of e3 is from 2 to 16 \(of layer fc\)"),
        ({"k_w@fc": 40}, r"k_w = 40: a bit width is from 1 to 32 \(of layer fc\)"),
        ({"k_lr@bn1": 22}, r"make kGC = 15 by \(22\) and kWU = 36 by \(24\).*\(of layer bn1\)"),
        ({"lr@fc": "600"}, r"lr=600: a 10-bit code is from 1 to 511 \(of layer fc\)"),
        ({"mom@fc": 4}, r"mom=4: a 3-bit code is from 0 to 3 \(of layer fc\)"),
        (
            {"k_w@relu1": 5},
            "k_w@relu1: no layer that it matches reads k_w, nothing would change; relu1 reads k_a",
        ),
        ({"k_a@avgpool": 5}, "avgpool reads none of the options by layer; k_a is read by conv1, relu1, "),
        ({"k_e2@fc": 6}, "fc reads k_lr, k_mom, lr, mom, weight_decay; k_e2 is read by layer1.0.conv1, "),
        ({"k_w@conv1": 6, "first": "block"}, "k_w@conv1: no layer that it matches reads k_w"),
        ({"dr@bn1": "64"}, "dr@bn1: no layer that it matches reads dr"),
        ({"k_beta@layer1.0.conv1": 5}, "k_beta@layer1.0.conv1: no layer that it matches reads k_beta"),
        ({"r_sigma": "stochastic"}, "r_sigma=stochastic: sigma is a square root"),
        ({"r_e2": "stochastic"}, r"Flag-Q draws no random words: set e2=16, say, .*layer1.0.conv1\)"),
        (
            {"r_a": "nearest"},
            r"r_a: unknown rounding mode 'nearest' \('nearest' does not say where a tie goes",
        ),
        ({"k_w": 24, "k_a": 24}, r"has k_w \+ k_a - 1 = 47 bits, at most 32"),
        ({"k_w@fc": "wide"}, "k_w@fc='wide' is not a whole number"),
        ({"lr": "26,1.0e999@2"}, "'1.0e999@2' is not VALUE or VALUE@EPOCH"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_before_the_first_step(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        trained(TinyResNet(), options)


def test_options_come_back_from_what_is_written() -> None:
    method = Wageubn(**{"k_e2@layer2.*": 6, "lr@fc": "26,13@5"})  # type: ignore[arg-type]
    again = methods.make("wageubn", **method.settings())
    assert again.settings() == method.settings()
    assert repr(method) == "Wageubn(**{'k_e2@layer2.*': 6}, **{'lr@fc': '26,13@5'})"


# -- commands --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_command_takes_such_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The tour, and a sweep."""
    options = ("--set", "k_e2@fc2=6", "--set", "k_w@fc2=5", "--set", "lr@fc3=13")
    options += ("--set", "r_a@relu1=stochastic", "--set", "r_e2@fc2=to_zero", "--set", "r_sigma@bn2=to_pos")
    told = tour(capsys, tmp_path, *MLP, *options, path="e3", layers="fc[23]")
    assert "Flag-Q(6+1)" in told
    contract = (tmp_path / "pack" / "CONTRACT.md").read_text()
    assert "update of p = W, b, in binary32" in contract and "-13 * 2^-9" in contract
    grid = ("--vary", "k_e2@fc2=4,6", "--steps", 2, "--seeds", 1, "--jobs", 1, "--out", tmp_path / "sweep")
    status, told, err = here(capsys, "sweep", *MLP[:6], *grid)
    assert status == 0, err
    assert "k_e2@fc2" in told
    told = refused(capsys, "train", *MLP, "--set", "k_e2@fcc=6", "--steps", 1, "--out", tmp_path / "no")
    assert "there are flatten, fc1, bn1, relu1, fc2, bn2, relu2, fc3" in told
