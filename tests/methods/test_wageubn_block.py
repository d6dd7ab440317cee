"""WAGEUBN with first=block: every kind of first block, its trace, what is refused, runs that go on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from intnet import methods, models
from intnet.autograd import Tensor
from intnet.errors import ConfigError, NumberError
from intnet.layers import BatchNorm2d, Flatten, Layer, Linear, ReLU, Sequential, Sigmoid, SiLU, Tanh
from intnet.methods.method import Method
from intnet.methods.trace import Recorder
from intnet.models.model import Model
from intnet.numbers.formats import Direct
from intnet.spec.models import Layer as SpecLayer
from intnet.spec.models import Net
from intnet.spec.training import train
from intnet.training.train import Run
from tests.support.command import resumed
from tests.support.inferring import agree
from tests.support.states import state_differences, state_of
from tests.support.two_worlds import random_images
from tests.support.zoo import KINDS, TinyResNet

SHAPE, CLASSES = (2, 2, 1), 3


class Stack(Model):
    """Layers one behind another, of images of 4 pixels, after `flatten`."""

    def __init__(self, *layers: Layer) -> None:
        super().__init__("stack", SHAPE, CLASSES)
        self.flatten, self.body = Flatten(), Sequential(*layers)
        self.finish()

    def forward(self, x: Tensor, method: Method) -> Tensor:
        return self.body(self.flatten(x, method), method)


def stack(*kinds: str) -> Net:
    """The same as data; each linear layer but the last has 5 outputs."""
    last = max(i for i, kind in enumerate(kinds) if kind == "linear")
    body = [
        SpecLayer(kind, f"body.{i}", CLASSES if i == last else 5, bias=True)
        if kind == "linear"
        else SpecLayer(kind, f"body.{i}")
        for i, kind in enumerate(kinds)
    ]
    return SpecLayer("flatten", "flatten"), *body


# Silu whose output scales and is scaled; no batch norm, and a pool after; a join; the classifier after.
WORLDS: dict[str, tuple[Net, Callable[[], Model]]] = {
    **{net: KINDS[net] for net in ("excited", "lenet", "resnet")},
    "direct": (
        stack("linear", "norm", "relu", "linear"),
        lambda: Stack(Linear(4, 5), BatchNorm2d(5), ReLU(), Linear(5, CLASSES)),
    ),
    "silu": (
        stack("linear", "silu", "linear", "norm", "relu", "linear"),
        lambda: Stack(Linear(4, 5), SiLU(), Linear(5, 5), BatchNorm2d(5), ReLU(), Linear(5, CLASSES)),
    ),
}
OPTIONS: list[dict[str, Any]] = [
    {},
    {"e2": "16", "saturate": 2, "weight_decay": 4},
    {"statistics": "batch", "saved.bits": "2/4", "saved.silu": "packed", "saved.bucket": 32},
]


def begun(model: Model, **options: Any) -> Run:
    """A run of three images a step."""
    return Run(model, methods.Wageubn(first="block", **options), random_images(model, 6)[0], 3, 2)


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("world", WORLDS)
def test_from_the_seed_to_the_classes(world: str, options: dict[str, Any]) -> None:
    """Three steps, the second of an epoch after them too; then inference."""
    net, make = WORLDS[world]
    run = begun(make(), **options)
    run.train(3)
    given, (_, plain) = {"first": "block", **options}, random_images(run.model, 6)
    assert state_differences(state_of(run), train(net, "wageubn", plain, 2, 3, 3, given)) == []
    agree(run, net, run.data.test_images)


@pytest.mark.slow
def test_the_way_back_moves_every_parameter_of_the_block() -> None:
    """What first=layer has in integers is float32, and all of it is trained."""
    run = begun(TinyResNet())
    before = run.state()
    assert all(before[f"bn1.{name}"].dtype == np.float32 for name in ("weight", "bias"))
    run.train(1)
    after = run.state()
    for name in ("conv1.weight", "bn1.weight", "bn1.bias"):
        assert after[f"{name}.Acc"].dtype == np.float32 and np.any(after[name] != before[name]), name
        assert f"{name}.Accq" not in after
    assert {after[f"bn1.running_{name}"].dtype for name in ("mean", "var")} == {np.dtype(np.float32)}
    assert after["layer1.0.bn1.running_mean"].codes.dtype == np.int64


@pytest.mark.slow
def test_one_rounding_stands_in_the_block() -> None:
    """All of it is float32 in the trace, but for x4, which is Q of float32."""
    run, seen = begun(TinyResNet()), Recorder("*")
    run.train(1, observe_last=[seen])
    block = {name: event for name, event in seen.events.items() if event.layer in ("conv1", "bn1", "relu1")}
    x4 = block.pop("relu1/x4")
    assert {"conv1/e3", "conv1/gW", "bn1/var", "bn1/x3", "bn1/ggamma", "relu1/e0"} <= block.keys()
    assert all(event.format is None and event.result.dtype == np.float32 for event in block.values())
    assert x4.format == Direct(8) and seen["layer1.0.conv1/x0"] is x4.result
    assert seen.events["layer1.0.relu1/e0"].format is not None


@pytest.mark.slow
def test_a_run_goes_on_bit_for_bit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--method", "wageubn", "--set", "first=block", "--model", "mlp", "--data", "digits")
    resumed(capsys, tmp_path, *asked, "--batch-size", 9)


# -- what is refused -------------------------------------------------------------------------------


def test_integers_at_the_first_weight_layer_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"first=block has .* edges=fixed16 .*: take one of them"):
        methods.Wageubn(first="block", edges="fixed16")


@pytest.mark.parametrize(
    ("layers", "why"),
    [
        (
            [Linear(4, 5), BatchNorm2d(5), Tanh(), Linear(5, 3)],
            r"body\.2 \(Tanh\) has its derivative from x4",
        ),
        ([Linear(4, 5), Linear(5, 3)], r"no activation is defined next; use first=layer"),
        ([Linear(4, 5), BatchNorm2d(5), Linear(5, 3)], r"no activation is defined next"),
        ([Linear(4, 3)], r"no activation is defined next"),
    ],
)
def test_a_model_without_such_a_block_is_refused(layers: list[Layer], why: str) -> None:
    with pytest.raises(ConfigError, match=f"wageubn: first=block: .*{why}"):
        begun(Stack(*layers))


class Shared(Stack):
    """One ReLU for two layers, and batch norms in another order than that of their definition."""

    def __init__(self, order: tuple[int, ...]) -> None:
        norms = BatchNorm2d(5), BatchNorm2d(5)
        self.order = order
        super().__init__(Linear(4, 5), norms[0], ReLU(), Linear(5, 5), norms[1], ReLU(), Linear(5, 3))

    def forward(self, x: Tensor, method: Method) -> Tensor:
        x = self.flatten(x, method)
        for i in self.order:
            x = self.body.layers[i](x, method)
        return x


@pytest.mark.parametrize(
    ("order", "name"), [((0, 1, 2, 3, 4, 2, 6), r"body\.2"), ((0, 5, 3, 4, 2, 1, 6), r"body\.2")]
)
def test_a_block_that_runs_elsewhere_is_refused(order: tuple[int, ...], name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} reads integers: .* but runs elsewhere"):
        begun(Shared(order)).train(1)


@pytest.mark.parametrize("name", ["body.1.weight", "body.0.weight"])
def test_what_is_not_finite_is_named(name: str) -> None:
    run = begun(Stack(Linear(4, 5), BatchNorm2d(5), ReLU(), Linear(5, 3)))
    run.state()[name][...] = np.inf
    layer, symbol = name.removesuffix(".weight"), "gamma" if "1" in name else "W"
    with pytest.raises(NumberError, match=f"{layer}/{symbol}: NaN or infinity"):
        run.train(1)


def test_what_overflows_in_the_block_is_named() -> None:
    run = begun(Stack(Linear(4, 5), BatchNorm2d(5), ReLU(), Linear(5, 3)))
    run.state()["body.1.weight"][...] = np.float32(3e38)
    with pytest.raises(NumberError, match=r"body\.2/x4"):
        run.train(2)


# -- which layers it has ---------------------------------------------------------------------------

BLOCKS = {
    "mlp": ["fc1", "bn1", "relu1"],
    "lenet5": ["conv1", "bn1", "relu1"],
    "lenet5-tanh": ["conv1", "tanh1"],
    "alexnet-cifar": ["features.0", "features.1"],
    "resnet8": ["conv1", "bn1", "relu1"],
    "resnet50-imagenet": ["conv1", "bn1", "relu1"],
    "efficientnetv2": ["features.0.0", "features.0.1", "features.0.2"],
}


@pytest.mark.parametrize("name", BLOCKS)
def test_the_first_block_of_models(name: str) -> None:
    model = models.make(name, (32, 32, 3), 10)
    assert [layer.name for layer in model.all_layers() if layer.first_block] == BLOCKS[name]


# -- an activation after the last layer, which is float32 too ---------------------------------------

ENDS: dict[str, type[Layer]] = {"relu": ReLU, "tanh": Tanh, "sigmoid": Sigmoid, "silu": SiLU}


@pytest.mark.parametrize("options", [{}, {"saved.bits": "2/4"}, {"edges": "fixed16"}], ids=str)
@pytest.mark.parametrize("kind", ENDS)
def test_an_activation_ends_the_net(kind: str, options: dict[str, Any]) -> None:
    """It stores its error in integers, after which the derivative of a float32 ReLU has to take codes."""
    model = Stack(Linear(4, 5), BatchNorm2d(5), ReLU(), Linear(5, CLASSES), ENDS[kind]())
    fast, plain = random_images(model, 6)
    run = Run(model, methods.Wageubn(**options), fast, 3, 2)
    run.train(3)
    want = train(stack("linear", "norm", "relu", "linear", kind), "wageubn", plain, 2, 3, 3, options)
    assert state_differences(state_of(run), want) == []
