"""AdaPT and MuPPET by the library and by the oracle: the same nets, state and steps, and where they differ.

`Case` says what is trained; `run_case` takes steps in both worlds, `differences` names every tensor and
every stored number that is not equal. Used by `test_adapt_step`, `test_muppet` and, with faults seeded
into the library, by `test_seeded_faults_moving`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from intnet import datasets, methods
from intnet import spec as oracle
from intnet.autograd import Tensor
from intnet.datasets import Dataset
from intnet.exact import Exact, FloatExact
from intnet.layers import BatchNorm2d, Conv2d, Flatten, Linear, MaxPool2d, ReLU
from intnet.methods.method import Method
from intnet.models.mlp import MLP
from intnet.models.model import Model
from intnet.qtensor import QTensor
from intnet.spec import nets
from intnet.spec.methods import adapt, muppet
from intnet.spec.methods.adapt_switch import STRATEGIES
from intnet.spec.nets import Layer, Residual
from intnet.trace import Recorder
from intnet.train import Run
from tests import cases
from tests.stepping import CLASSES, SIDE, TinyResNet, array, real

State = Any


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


def _dense(i: int) -> tuple[Layer, ...]:
    return Layer("linear", f"fc{i}"), Layer("norm", f"bn{i}"), Layer("relu", f"relu{i}")


def _block(name: str, stride: int, shortcut: bool) -> tuple[Layer | Residual, ...]:
    main = (
        Layer("conv", f"{name}.conv1", stride=stride, padding=1),
        Layer("norm", f"{name}.bn1"),
        Layer("relu", f"{name}.relu1"),
        Layer("conv", f"{name}.conv2", padding=1),
        Layer("norm", f"{name}.bn2"),
    )
    down = (Layer("conv", f"{name}.downsample.0", stride=stride), Layer("norm", f"{name}.downsample.1"))
    return Residual(main, down if shortcut else ()), Layer("relu", f"{name}.relu2")


NETS: dict[str, nets.Net] = {
    "mlp": (Layer("flatten", "flatten"), *_dense(1), *_dense(2), Layer("linear", "fc3", bias=True)),
    "lenet": (
        Layer("conv", "conv1", bias=True, padding=1),
        Layer("relu", "relu1"),
        Layer("max_pool", "pool1"),
        Layer("conv", "conv2", padding=2),
        Layer("norm", "bn2"),
        Layer("relu", "relu2"),
        Layer("max_pool", "pool2"),
        Layer("flatten", "flatten"),
        Layer("linear", "fc", bias=True),
    ),
    "resnet": (
        Layer("conv", "conv1", padding=1),
        Layer("norm", "bn1"),
        Layer("relu", "relu1"),
        *_block("layer1.0", 1, False),
        *_block("layer2.0", 2, True),
        Layer("mean", "avgpool"),
        Layer("linear", "fc", bias=True),
    ),
}
LAST = {"mlp": "fc3", "lenet": "fc", "resnet": "fc"}


def model(name: str) -> Model:
    """The library's net of a name."""
    return {"mlp": lambda: MLP((8, 8, 1), 10, hidden=5), "lenet": TinyLeNet, "resnet": TinyResNet}[name]()


@dataclass(frozen=True)
class Case:
    """`options` of the method; `start` sets state: of AdaPT's layers '<layer>/window' and '<layer>/precision'
    ('*' for all), a factor of random 'G', of the whole net by name. `per_epoch`: steps an epoch. `lr`: of
    the first epoch, then.
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
        first = self.first_step // self.per_epoch
        lr = f"{self.lr[0]},{self.lr[1]}@{first + 1}"
        kind: Any = {"adapt": methods.Adapt, "muppet": methods.Muppet}[self.method]
        made: Method = kind(lr=lr, **self.settings())
        return made

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
    method.step, method.epoch = case.first_step, case.first_step // case.per_epoch
    return run


# -- the two states ------------------------------------------------------------------------------


def numbers(value: Any) -> list[Fraction]:
    """The exact values of anything that either world keeps."""
    if isinstance(value, Exact | FloatExact):
        return [Fraction(v) for v in value.fractions().reshape(-1)]
    if isinstance(value, QTensor | np.ndarray):
        return real(value).values
    return [Fraction(v) for v in nets.exact(value)]


def _named(run: Run) -> dict[str, str]:
    """'layer.weight' -> 'layer/W'."""
    return {name: f"{layer.name}/{p.symbol}" for name, layer, p in run.model.all_parameters()}


_READ: dict[str, Callable[[list[Fraction]], Any]] = {
    "strategy": lambda kept: STRATEGIES[int(kept[0])],
    "batches": lambda kept: int(kept[0]),
    "losses": list,
}


def oracle_state(case: Case, run: Run) -> State:
    """The oracle's start: what the library has before its first step."""
    values = {f"{layer.name}/{p.symbol}": real(p.value) for _, layer, p in run.model.all_parameters()}
    first = {name: value for name, value in run.method.state.items() if name in case.start}
    if case.method == "muppet":
        state = muppet.State(values)
        for name, value in first.items():
            setattr(state, name, numbers(value) if name == "diversities" else int(numbers(value)[0]))
        return state
    layers = run.model.all_layers()
    precision = {x.name: tuple(x.buffers["precision"].codes.tolist()) for x in layers}
    windows = {x.name: tuple(x.buffers["window"].codes.tolist()) for x in layers if x.takes_weight}
    made = adapt.State(values, precision, windows)
    weights = [(layer.name, p) for _, layer, p in run.model.all_parameters() if "G" in p.slots]
    made.gathered = {name: real(parameter.slots["G"]) for name, parameter in weights}
    for name, value in first.items():
        kept = numbers(value)
        setattr(made, name, _READ.get(name, tuple)(kept))
    return made


def expected_state(case: Case, run: Run, state: State) -> dict[str, list[Fraction]]:
    """Everything that the library's state holds, by its names, from the oracle's."""
    out: dict[str, list[Any]] = {}
    slots = {"Acc": state.acc, "sum": state.sums}
    slots |= {"G": state.gathered} if case.method == "adapt" else {}
    for name, key in _named(run).items():
        out[name] = state.values[key].values
        for slot, kept in slots.items():
            value = kept.get(key.removesuffix("/W") if slot == "G" else key)
            if value is not None and (slot != "G" or key.endswith("/W")):
                out[f"{name}.{slot}"] = value.values
        if case.method == "muppet" and key in state.squares:
            out[f"{name}.squares"] = [state.squares[key]]
    for layer, (mean, variance) in state.running.items():
        out |= {f"{layer}.running_mean": mean, f"{layer}.running_var": variance}
    if case.method == "muppet":
        for name in ("level", "switched", "epochs", "violations"):
            out[f"method/{name}"] = [getattr(state, name)]
        return out | {"method/diversities": state.diversities}
    out |= {f"{layer}.precision": list(value) for layer, value in state.precision.items()}
    out |= {f"{layer}.window": list(value) for layer, value in state.windows.items()}
    out["method/strategy"] = [STRATEGIES.index(state.strategy)]
    out |= {"method/losses": state.losses, "method/batches": [state.batches]}
    return out | {"method/epoch": list(state.epoch), "method/plateau": list(state.plateau)}


# -- steps in both worlds ------------------------------------------------------------------------


@dataclass
class Result:
    """One step: the library's events and state, the oracle's step and state."""

    events: Recorder
    state: dict[str, list[Fraction]]
    expected: Any
    expected_state: dict[str, list[Fraction]]


def _settings(case: Case, number: int) -> Any:
    epoch, first = number // case.per_epoch, case.first_step // case.per_epoch
    ends = (number + 1) % case.per_epoch == 0
    if case.method == "muppet":
        lr = ((0, case.lr[0]), (first + 1, case.lr[1]))
        return muppet.Settings(case.seed, number, epoch, lr, ends=ends, **case.settings())
    options = case.settings()
    options["penalty"] = options.get("penalty") == "on"
    return adapt.Settings(case.seed, number, case.lr[min(epoch - first, 1)], ends=ends, **options)


def run_case(case: Case, steps: int = 1) -> list[Result]:
    """`steps` consecutive steps; each world goes on from its own state."""
    run = prepared(case)
    state = oracle_state(case, run)
    results = []
    for number in range(case.first_step, case.first_step + steps):
        batch, _ = run.batch(number)
        images = oracle.Fixed(batch.shape, [int(v) for v in batch.codes.reshape(-1)], int(batch.exponent))
        recorder = Recorder("*")
        run.method.observers = [recorder]
        report = run.train_step()
        run.method.observers = []
        source = recorder.events[f"{LAST[case.net]}/e3"].source
        error = real(source.values if isinstance(source, FloatExact) else source)
        made = _settings(case, number)
        if case.method == "muppet":
            expected: Any = muppet.step(NETS[case.net], state, images, error, made)
        else:
            expected = adapt.step(NETS[case.net], state, images, error, report.loss, made)
        state = expected.state
        kept = {name: numbers(value) for name, value in run.state().items()}
        results.append(Result(recorder, kept, expected, expected_state(case, run, state)))
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
    names = sorted(result.state.keys() | result.expected_state.keys())
    return bad + [f"state {n}" for n in names if result.state.get(n) != result.expected_state.get(n)]
