"""The definition alone, from the seed to the digest, in a process without NumPy: the digest of the fast code.

The longer runs are marked digests: `make spec-digests`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from intnet import datasets, methods, models
from intnet.spec import data, initial
from intnet.spec import models as spec_models
from intnet.spec.__main__ import EXAMPLE
from intnet.spec.digest import digest
from intnet.spec.methods import METHODS
from intnet.spec.training import first, train
from intnet.training.train import Run
from tests.support.states import state_differences, state_of
from tests.support.two_worlds import random_images
from tests.support.zoo import KINDS, TinyResNet

ALONE = """
import sys
from intnet.spec.__main__ import main
main(sys.argv[1:])
assert not [name for name in sys.modules if name.partition(".")[0] in ("numpy", "numba")]
"""
RESIDUAL = """
import sys
from intnet.spec import data
from intnet.spec.digest import digest
from intnet.spec.models import resnet
from intnet.spec.training import train
found = data.digits()
net = resnet(found.shape, found.classes, (4, 6), (1, 1))
print(digest(train(net, sys.argv[1], found, 1, int(sys.argv[2]), int(sys.argv[3]))))
assert not [name for name in sys.modules if name.partition(".")[0] in ("numpy", "numba")]
"""
# Options beside the defaults that move what a step does; none takes part in the longer runs.
OTHERS: list[tuple[str, dict[str, Any]]] = [
    (
        "float32",
        {"optimizer": "adamw", "weight_decay": 0.01, "warmup": 2, "clip": 0.1, "label_smoothing": 0.1},
    ),
    ("wageubn", {"e2": "16", "edges": "fixed16", "weight_decay": 10}),
    ("wageubn", {"saturate": 2, "dr": "64", "lr": "100"}),
    ("wageubn", {"first": "block"}),
    ("wageubn", {"first": "block", "weight_decay": 5, "saturate": 3, "k_a": 7, "mom": 2}),
    ("wageubn", {"first": "block", "saved.bits": "2/4", "saved.bucket": 64}),
    ("wageubn", {"e2": "8", "k_w": 4, "k_a": 6, "k_e1": 7, "k_gamma": 6, "k_beta": 5, "mom": 2}),
    ("wageubn", {"e2": "flag6", "k_acc": 15, "k_mom": 4, "k_lr": 12, "mom": 7, "lr": "90", "k_bn": 12}),
    ("wageubn", {"k_lr": 18, "lr": "6000", "k_mu": 12, "k_sigma": 10, "edges": "fixed16", "k_acc": 10}),
    ("float32", {"accs": 2, "l1": 1e-3, "rop": 0, "rop_factor": 0.5, "init": "tnvs", "init_scale": 0.5}),
    ("adapt", {"accs": 2, "l1": 1e-4, "init_scale": 2.0, "rop": 1, "penalty": "on", "buff": 8}),
    ("adapt", {"lookback": "2-4", "resolution": "8-9", "gamma": 0.5, "start": "10,5", "init": "normal"}),
    ("adapt", {"lookback": "2-3", "normalize": "off", "reading": "printed", "buffer": "printed"}),
    ("muppet", {"resolution": 1, "patience": 1, "cosine": 2}),
    ("float32", {"one_cycle": 1.5, "rop": 0, "saved.bits": 3, "accs": 2}),
    ("adapt", {"lookback": "2-3", "saved.bits": "2/4", "saved.codec": "levels"}),
    ("muppet", {"resolution": 1, "accs": 2, "rop": 0, "l1": 1e-3, "init": "uniform"}),
    ("muppet", {"resolution": 1, "patience": 1, "diversity": "all"}),
    ("dynasty", {"forward_dynamic": "weight", "gamma": 0.25, "weight_bits": 5.0}),
    ("dynasty", {"accs": 2, "rop": 0}),
    ("dynasty", {"lambdas": "one", "mean": "work"}),
    ("dynasty", {"tuning": "off", "mean": "work", "bits": 3.0}),
    ("dynasty", {"tuning": "off", "lambdas": "one"}),
    ("banner", {"optimizer": "adamw", "accs": 2, "clip": 0.2, "rop": 0, "init": "tnvs"}),
    ("mx", {"x": "MXFP4/fit/stochastic", "e": "MXFP8_E5M2", "g@fc3": "off", "clip": 0.3}),
    ("saved", {"bits": "2/4", "bits@fc3": "off", "codec@fc2": "levels", "bucket": 64}),
]


def alone(code: str, *arguments: object) -> str:
    """What a process of the definition prints last."""
    told = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=True
    )
    return told.stdout.splitlines()[-1]


def fast(model: models.Model, method: str, steps: int, batch: int, **options: Any) -> Run:
    """A run of the fast code."""
    run = Run(model, methods.make(method, **options), datasets.load("digits"), batch, 1)
    run.train(steps)
    return run


def mlp(method: str, steps: int, batch: int) -> tuple[str, str]:
    """Both digests of the mlp on digits."""
    asked = ("--method", method, "--model", "mlp", "--data", "digits", "--steps", steps, "--seed", 1)
    return alone(ALONE, *asked, "--batch-size", batch), fast(
        models.MLP((8, 8, 1), 10), method, steps, batch
    ).digest()


def residual(method: str, steps: int, batch: int) -> tuple[str, str]:
    """Both digests of a small residual convolutional net on digits."""
    run = fast(TinyResNet((8, 8, 1), 10), method, steps, batch)
    return alone(RESIDUAL, method, steps, batch), run.digest()


@pytest.mark.digests
@pytest.mark.parametrize("method", METHODS)
def test_six_steps_of_the_mlp(method: str) -> None:
    """A batch of three groups, the last of four images: the tree of their sums has an odd leaf."""
    ours, theirs = mlp(method, 6, 36)
    assert ours == theirs


@pytest.mark.digests
@pytest.mark.parametrize("method", METHODS)
def test_two_steps_of_a_residual_net(method: str) -> None:
    """A batch of two groups, the second of four images."""
    ours, theirs = residual(method, 2, 20)
    assert ours == theirs


@pytest.mark.slow
@pytest.mark.brief
@pytest.mark.parametrize("method", METHODS)
def test_two_steps_of_the_mlp(method: str) -> None:
    ours, theirs = mlp(method, 2, 16)
    assert ours == theirs


@pytest.mark.slow
@pytest.mark.brief
@pytest.mark.parametrize("method", METHODS)
def test_a_step_of_a_residual_net(method: str) -> None:
    ours, theirs = residual(method, 1, 8)
    assert ours == theirs


@pytest.mark.slow
@pytest.mark.parametrize(("method", "options"), OTHERS, ids=str)
def test_options_and_the_end_of_an_epoch(method: str, options: dict[str, Any]) -> None:
    """Three steps of two an epoch: rates, maps and word lengths move; every tensor, not the digest alone."""
    images = datasets.load("digits").first(24)
    run = Run(models.MLP((8, 8, 1), 10, hidden=12), methods.make(method, **options), images, 12, 5)
    run.train(3)
    net = spec_models.mlp((8, 8, 1), 10, hidden=12)
    state = train(net, method, data.digits().first(24), 5, 3, 12, options)
    assert state_differences(state_of(run), state) == []
    assert digest(state) == run.digest()


@pytest.mark.slow
@pytest.mark.parametrize("net", ["zoo", "excited", "weighed"])
@pytest.mark.parametrize("method", METHODS)
def test_every_kind_of_layer_under_every_method(method: str, net: str) -> None:
    """tanh, pools that overlap or adapt, groups, strides of two numbers, dropout, silu, excitation."""
    net = "apart" if (method, net) == ("adapt", "zoo") else net
    layers, make = KINDS[net]
    model = make()
    fast, found = random_images(model, 6)
    run = Run(model, methods.make(method), fast, 3, 2)
    run.train(2)
    assert state_differences(state_of(run), train(layers, method, found, 2, 2, 3)) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", spec_models.MODELS)
@pytest.mark.parametrize("method", ["wageubn", "adapt"])
def test_models_have_the_names_shapes_and_first_values_of_the_fast_ones(name: str, method: str) -> None:
    found = data.digits()
    shape = (12, 12, 1) if name == "lenet5-tanh" else found.shape
    net = spec_models.MODELS[name](shape, found.classes)
    model = models.make(name, shape, found.classes)
    told = [(p.layer, p.symbol, p.shape, p.start, p.fan_in) for p in spec_models.parameters(net, shape)]
    assert told == [(x.name, p.symbol, p.shape, p.start, p.fan_in) for _, x, p in model.all_parameters()]
    if name in ("mlp", "lenet5"):
        run = Run(model, methods.make(method), datasets.load("digits"), 8, 3)
        settings = METHODS[method].Settings()
        assert state_differences(state_of(run), first(net, METHODS[method], settings, found, 3)) == []


@pytest.mark.slow
def test_the_command_as_its_help_says(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--method", "wageubn", "--steps", 1, "--batch-size", 4, "--limit", 8, "--set", "e2=16", "--json")
    told = json.loads(alone(ALONE, *asked))
    run = Run(models.MLP((8, 8, 1), 10), methods.Wageubn(e2="16"), datasets.load("digits").first(8), 4, 1)
    run.train(1, lambda report: told.setdefault("theirs", report.loss))
    assert (told["digest"], told["losses"]) == (run.digest(), [told["theirs"]])
    assert (told["method"], told["steps"], told["options"]) == ("wageubn", 1, {"e2": "16"})
    help_ = subprocess.run(
        [sys.executable, "-m", "intnet.spec", "--help"], capture_output=True, text=True, check=True
    )
    assert EXAMPLE.strip() in help_.stdout


# -- the test is tested ----------------------------------------------------------------------------


def test_a_fault_of_one_word_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The 23rd bit of the word of one first weight, and the order of one batch."""
    net, found = spec_models.mlp((8, 8, 1), 10, hidden=4), data.digits().first(8)
    right = digest(train(net, "float32", found, 1, 1, 4))
    with monkeypatch.context() as patch:
        word = initial.word
        patch.setattr(initial, "word", lambda *at: word(*at) ^ (at[2:] == ("fc1/init_W", 0)) << 9)
        assert digest(train(net, "float32", found, 1, 1, 4)) != right
    with monkeypatch.context() as patch:
        members = data.members
        patch.setattr(data, "members", lambda *at: members(*at)[::-1])
        assert digest(train(net, "float32", found, 1, 1, 4)) != right
