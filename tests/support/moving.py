"""AdaPT and MuPPET by the library and by the oracle: the same nets, state and steps, and where they differ.

`Case` says what is trained; `run_case` takes steps in both worlds, `differences` names every tensor and
every stored number that is not equal. Used by `test_adapt_step`, `test_muppet` and, with faults seeded
into the library, by `test_seeded_faults_moving`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from intnet import datasets, methods
from intnet import spec as oracle
from intnet.autograd import Tensor
from intnet.datasets import Dataset
from intnet.exact.expressions import Exact, FloatExact
from intnet.layers import BatchNorm2d, Conv2d, Flatten, Linear, MaxPool2d, ReLU
from intnet.methods.method import Method
from intnet.methods.trace import Recorder
from intnet.models.mlp import MLP
from intnet.models.model import Model
from intnet.numbers.qtensor import QTensor
from intnet.spec import models as spec_models
from intnet.spec import nets
from intnet.spec.methods import METHODS
from intnet.spec.methods.step import Now, Step, value_of
from intnet.spec.nets import Layer
from intnet.spec.values import exact
from intnet.training.train import Run
from tests.support import cases
from tests.support.states import state_differences, state_of
from tests.support.stepping import CLASSES, SIDE, TinyResNet, array, fixed, real
from tests.support.stepping import NET as TINY


class TinyLeNet(Model):
    """A convolution with bias and no batch norm, one with batch norm, pools, a classifier."""

    def __init__(self) -> None:
        super().__init__("tiny lenet", (8, 8, 1), 10)
        self.conv1, self.relu1 = Conv2d(1, 2, 3, padding=1, bias=True), ReLU()
        self.pool1 = MaxPool2d(2)
        self.conv2, self.bn2, self.relu2 = Conv2d(2, 3, 5, padding=2), BatchNorm2d(3), ReLU()
        self.pool2 = MaxPool2d(2)
        self.flatten = Flatten()
        self.fc = Linear(12, 10)
        self.finish()

    def forward(self, x: Tensor, method: Method) -> Tensor:
        x = self.pool1(self.relu1(self.conv1(x, method), method), method)
        x = self.pool2(self.relu2(self.bn2(self.conv2(x, method), method), method), method)
        return self.fc(self.flatten(x, method), method)


NETS: dict[str, nets.Net] = {
    "mlp": spec_models.mlp((8, 8, 1), 10, hidden=5),
    "lenet": (
        Layer("conv", "conv1", 2, 3, bias=True, padding=1),
        Layer("relu", "relu1"),
        Layer("max_pool", "pool1", kernel=2, stride=2),
        Layer("conv", "conv2", 3, 5, padding=2),
        Layer("norm", "bn2"),
        Layer("relu", "relu2"),
        Layer("max_pool", "pool2", kernel=2, stride=2),
        Layer("flatten", "flatten"),
        Layer("linear", "fc", 10, bias=True),
    ),
    "resnet": TINY,
}
LAST = {"mlp": "fc3", "lenet": "fc", "resnet": "fc"}


def model(name: str) -> Model:
    """The library's net of a name."""
    return {"mlp": lambda: MLP((8, 8, 1), 10, hidden=5), "lenet": TinyLeNet, "resnet": TinyResNet}[name]()


@dataclass(frozen=True)
class Case:
    """`options` of the method; `start` sets state: of AdaPT's layers '<layer>/window' and '<layer>/precision'
    ('*' for all), a factor of random 'G' and their 'norms', of the whole net by name. `per_epoch`: steps an
    epoch. `lr`: of the first epoch, then.
    """

    method: str
    net: str = "mlp"
    seed: int = 1
    batch: int = 3
    first_step: int = 4
    per_epoch: int = 1
    lr: tuple[float, float] = (0.1, 0.03)
    options: dict[str, Any] = field(default_factory=dict)
    start: dict[str, Any] = field(default_factory=dict)
    images: str = "digits"

    def __str__(self) -> str:
        return f"{self.method}-{self.net}-{self.seed}"

    def made(self) -> Method:
        kind: Any = {"adapt": methods.Adapt, "muppet": methods.Muppet}[self.method]
        made: Method = kind(lr=self.rates(), **self.settings())
        return made

    def rates(self) -> str:
        """The learning rates."""
        return f"{self.lr[0]},{self.lr[1]}@{self.first_step // self.per_epoch + 1}"

    def settings(self) -> dict[str, Any]:
        """The options in both worlds, whatever the method's own defaults are."""
        usual = {"eps": 0.0, "l1": 1e-8, "l2": 1e-4} if self.method == "adapt" else {"weight_decay": 1e-4}
        return usual | self.options

    def dataset(self) -> Dataset:
        """`per_epoch` batches of digits, or black images; the residual net takes pieces, two a picture."""
        n = self.batch * self.per_epoch
        digits = datasets.load("digits")
        images = digits.train_images[100 * self.seed % 1000 :][: 2 * n]
        labels = digits.train_labels[100 * self.seed % 1000 :][:n].astype(np.int64)
        if self.net == "resnet":
            pairs = images.reshape(n, 2, 8, 8).transpose(0, 2, 3, 1)
            images, labels = pairs[:, 1 : 1 + SIDE, 1 : 1 + SIDE], labels % CLASSES
        images = np.ascontiguousarray(images[:n]) * np.uint8(self.images == "digits")
        return Dataset("some digits", images, labels, images, labels, -4, int(labels.max()) + 1)


def prepared(case: Case) -> Run:
    """A run whose biases, gammas and betas are not what they start with, at the case's step and state."""
    run = Run(model(case.net), case.made(), case.dataset(), case.batch, case.seed)
    method: Any = run.method
    for i, (_, _, parameter) in enumerate(run.model.all_parameters()):
        values = cases.random_float32(i, int(np.prod(parameter.shape)), -2)
        more = array(oracle.Tensor(parameter.shape, values))
        if parameter.symbol != "W" and case.images == "digits":
            parameter.value = parameter.value + more
        if parameter.symbol == "W" and "G" in case.start:
            parameter.slots["G"] = np.float32(case.start["G"]) * more
        if parameter.symbol == "W" and "norms" in case.start:
            parameter.slots["norms"] = np.array([case.start["norms"]], np.float32)
    for layer in run.model.all_layers():
        for key in ("window", "precision"):
            value = case.start.get(f"{layer.name}/{key}", case.start.get(f"*/{key}"))
            if value is not None and key in layer.buffers:
                layer.buffers[key] = QTensor(np.array(value, np.int32), 0)
    for name in method.state:
        if name in case.start:
            value, old = case.start[name], method.state[name]
            method.state[name] = (
                QTensor(np.array([value], np.int32), 0)
                if isinstance(old, QTensor)
                else np.array(value, np.float32)
            )
    method.set(step=case.first_step, epoch=case.first_step // case.per_epoch)
    return run


def numbers(value: Any) -> list[Fraction]:
    """The exact values of anything that either world keeps."""
    if isinstance(value, Exact | FloatExact):
        return [Fraction(v) for v in value.fractions().reshape(-1)]
    if isinstance(value, QTensor | np.ndarray):
        return real(value).values
    return [Fraction(v) for v in exact(value)]


# -- steps in both worlds ------------------------------------------------------------------------


@dataclass
class Result:
    """One step: the library's events and state, the oracle's step."""

    events: Recorder
    kept: dict[str, Any]
    expected: Step

    @property
    def state(self) -> dict[str, list[Fraction]]:
        """The numbers of the library's state."""
        return {name: numbers(value_of(value)) for name, value in self.kept.items()}


def run_case(case: Case, steps: int = 1) -> list[Result]:
    """`steps` consecutive steps; each world goes on from its own state."""
    run = prepared(case)
    state, module = state_of(run), METHODS[case.method]
    settings = module.Settings.from_options({"lr": case.rates(), **case.settings()})
    results = []
    for number in range(case.first_step, case.first_step + steps):
        batch, _ = run.batch(number)
        recorder = Recorder("*")
        run.method.set(observers=[recorder])
        report = run.train_step()
        run.method.set(observers=[])
        source = recorder.events[f"{LAST[case.net]}/e3"].source
        error = real(source.values if isinstance(source, FloatExact) else source)
        expected = module.Step(NETS[case.net], settings, state, Now(case.seed, number, case.per_epoch))
        expected.take(fixed(batch), lambda _, told=(Fraction(report.loss), error): told)
        state = expected.state
        results.append(Result(recorder, state_of(run), expected))
    return results


def differences(result: Result) -> list[str]:
    """The names of all tensors and of all state that differ, or that one world lacks."""
    bad, left = [], set(result.events.events)
    for name, want in result.expected.tensors.items():
        event = result.events.events.get(name)
        left.discard(name)
        if event is None or numbers(event.result) != numbers(want):
            bad.append(name)
        elif event.rounding is not None and int(event.result.exponent) != want.exponent:
            bad.append(f"{name} exponent")
    bad += sorted(left)
    return bad + state_differences(result.kept, result.expected.state)
