"""One WAGEUBN training step by the library and by the oracle on the same state, and where they differ.

`Case` says what is trained; `run_case` takes steps in both worlds; `differences` names every tensor
that is not equal (codes and exponent, float32 as exact Fractions). Used by `test_wageubn_step` and, with
faults seeded into the library, by `test_seeded_faults_ops`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from intnet import methods
from intnet import spec as oracle
from intnet.autograd import Tensor
from intnet.datasets import Dataset
from intnet.exact.expressions import Exact
from intnet.layers import BatchNorm2d, Conv2d, GlobalAvgPool, Linear, ReLU, Sequential
from intnet.methods.method import Method
from intnet.methods.trace import Event, Recorder
from intnet.models.model import Model
from intnet.models.resnet import BasicBlock
from intnet.numbers.qtensor import QTensor
from intnet.spec import models
from intnet.spec.methods import wageubn
from intnet.spec.methods.step import Now, store
from intnet.spec.values import elements, to_float, with_elements
from intnet.training.train import Run
from tests.support import cases
from tests.support.states import state_differences, state_of

Plain = tuple[list[int], int] | list[Fraction]
State = dict[str, Any]

SIDE, CHANNELS, WIDTHS, CLASSES = 6, 2, (4, 6), 3
SHAPE = SIDE, SIDE, CHANNELS
NET = models.resnet(SHAPE, CLASSES, WIDTHS, (1, 1))

# The oracle's name of a parameter and the library's: 'layer/W' is the parameter 'layer.weight'.
PARAMETERS = {"W": "weight", "b": "bias", "gamma": "weight", "beta": "bias"}
JOINS = {"layer1.0": "relu1/x4", "layer2.0": "layer2.0.downsample.1/x3"}  # block -> what its branch joins


class TinyResNet(Model):
    """The oracle's net: a stem, an identity block, a block with stride 2 and a downsample, a classifier."""

    def __init__(self, shape: tuple[int, int, int] = SHAPE, classes: int = CLASSES) -> None:
        super().__init__("tiny", shape, classes)
        first, last = WIDTHS
        self.conv1 = Conv2d(shape[2], first, 3, padding=1)
        self.bn1, self.relu1 = BatchNorm2d(first), ReLU()
        self.layer1 = Sequential(BasicBlock(first, first, 1))
        self.layer2 = Sequential(BasicBlock(first, last, 2))
        self.avgpool = GlobalAvgPool()
        self.fc = Linear(last, classes)
        self.finish()

    def forward(self, x: Tensor, method: Method) -> Tensor:
        x = self.relu1(self.bn1(self.conv1(x, method), method), method)
        return self.fc(self.avgpool(self.layer2(self.layer1(x, method), method), method), method)


@dataclass(frozen=True)
class Case:
    """One comparison: images, state, method options; the schedules have other values in the second step."""

    seed: int = 1
    batch: int = 3
    first_step: int = 4
    e2: str = "flag8"
    edges: str = "float32"
    first: str = "layer"
    images: str = "random"
    weights: str = "random"
    lr: tuple[int, int] = (26, 13)
    dr: tuple[int, int] = (128, 64)

    def options(self) -> dict[str, Any]:
        lr, dr = (f"{first},{second}@{self.first_step + 1}" for first, second in (self.lr, self.dr))
        return {"e2": self.e2, "edges": self.edges, "first": self.first, "lr": lr, "dr": dr}

    def method(self) -> methods.Wageubn:
        return methods.Wageubn(**self.options())

    def dataset(self) -> Dataset:
        """A data set of one batch: an epoch is a step."""
        shape = (self.batch, SIDE, SIDE, CHANNELS)
        top = {"random": 255, "zero": 0, "faint": 1}[self.images]
        codes = cases.random_codes(self.seed + 100, int(np.prod(shape)), 0, top)
        images = np.array(codes, np.uint8).reshape(shape)
        labels = np.array(cases.random_codes(self.seed + 101, self.batch, 0, CLASSES - 1), np.int64)
        return Dataset("one batch", images, labels, images, labels, -8, CLASSES)

    def state(self) -> State:
        state = cases.net_state(NET, SHAPE, self.seed)
        if self.edges == "fixed16":
            state = dict(_fixed_edge(self.seed + i, *item) for i, item in enumerate(state.items()))
        if self.first == "block":
            state = dict(_float_norm(*item) for item in state.items())
        change = {"random": _same, "extreme": _extreme, "ties": _ties, "dead": _dead}[self.weights]
        return {name: change(name, value) for name, value in state.items()}


def _fixed_edge(seed: int, name: str, value: Any) -> tuple[str, Any]:
    """An edge layer's float32 parameter or momentum as one in fixed point, like a hidden layer's."""
    if isinstance(value, oracle.Fixed):
        return name, value
    momentum = "/Acc" in name
    spread, exponent = (40, -12) if momentum else (2**22, -23)
    codes = cases.random_codes(seed, len(value.values), -spread, spread)
    return name.replace("/Acc", "/Accq"), oracle.Fixed(value.shape, codes, exponent)


def _float_norm(name: str, value: Any) -> tuple[str, Any]:
    """A parameter or momentum of the first batch norm, rounded to float32."""
    if not name.startswith("bn1/"):
        return name, value
    return name.replace("/Accq", "/Acc"), to_float(value)


def _same(name: str, value: Any) -> Any:
    return value


def _extreme(name: str, value: Any) -> Any:
    """Weights at the limits of 24 bits, momenta that push them outwards, gammas up to 64."""
    if not isinstance(value, oracle.Fixed):
        return value
    sign = [1 if code % 2 else -1 for code in value.codes]
    size = {"W": 2**23 - 1, "Accq": -(2**14), "gamma": 2**29, "beta": 2**27}.get(name.split("/")[1])
    return value if size is None else value._replace(codes=[size * s for s in sign])


def _ties(name: str, value: Any) -> Any:
    """Weights, gammas and betas that are exact ties of the 8-bit grid; momenta that are ties of 13 bits."""
    if not isinstance(value, oracle.Fixed):
        return value
    step = 2 if "Accq" in name else 2**15
    small = 3 if name.endswith("/W") else 64
    return value._replace(codes=[step * (2 * (code % small) - small + 1 | 1) for code in value.codes])


def _dead(name: str, value: Any) -> Any:
    """No beta and no momentum: with black images every activation and every hidden error is zero."""
    zero = name.endswith(("/beta", "/Accq", "/Accq_beta", "/Accq_gamma", "/Acc_beta", "/Acc_gamma"))
    return with_elements(value, value.shape, [0] * len(elements(value))) if zero else value


# -- between the two worlds ---------------------------------------------------------------------


def array(value: Any) -> Any:
    """The library's value of an oracle `Fixed` or float32 `Tensor`."""
    if isinstance(value, oracle.Fixed):
        return QTensor(np.array(value.codes, np.int32).reshape(value.shape), value.exponent)
    return np.array([float(v) for v in value.values], np.float32).reshape(value.shape)


def plain(value: Any) -> Plain:
    """The oracle's view of a QTensor, an exact expression without denominator, or a float32 array."""
    if isinstance(value, Exact):
        value = value.to_qtensor()
    if isinstance(value, QTensor):
        return [int(code) for code in value.codes.reshape(-1)], int(value.exponent)
    assert value.dtype == np.float32
    return [Fraction(float(v)) for v in value.reshape(-1)]


def judged(error: oracle.Tensor) -> Callable[[Any], tuple[Fraction, oracle.Tensor]]:
    """A loss that has this error, whatever the logits are."""
    return lambda _: (Fraction(0), error)


def real(value: Any) -> oracle.Tensor:
    """A float32 array or QTensor as an oracle tensor of Fractions."""
    fractions = value.fractions() if isinstance(value, QTensor) else np.vectorize(Fraction, [object])(value)
    return oracle.Tensor(value.shape, [Fraction(v) for v in fractions.reshape(-1)])


def named(state: State) -> State:
    """A state by a checkpoint's names."""
    out = {}
    for name, value in state.items():
        layer, path = name.split("/")
        slot, _, symbol = path.partition("_")
        if slot in ("Acc", "Accq"):
            out[f"{layer}.{PARAMETERS[symbol or 'W']}.{slot}"] = value
        else:
            out[f"{layer}.{PARAMETERS[path]}"] = value
    return out


def unrectified(event: Any) -> QTensor:
    """x3 that a ReLU read: the source of its x4, before max(., 0)."""
    source = event.source
    assert source.relu
    return Exact(source.terms, source.exponent, source.offset, source.den).to_qtensor()


def loss_error(recorder: Recorder) -> np.ndarray:
    """(p - y)/N in float32 as the loss gave it to the last layer."""
    source = recorder.events["fc/e3"].source
    return source if isinstance(source, np.ndarray) else source.values


# -- one step in both worlds --------------------------------------------------------------------


@dataclass
class Result:
    """What one step left: the library's tensors by the oracle's names and its state; the oracle's step."""

    library: dict[str, Plain]
    saturated: dict[str, int]
    state: State
    expected: wageubn.Step
    tensors: dict[str, Plain]  # the oracle's
    events: dict[str, Event]


def _library_step(run: Run) -> Recorder:
    recorder = Recorder("*")
    run.method.set(observers=[recorder])
    run.train_step()
    run.method.set(observers=[])
    return recorder


def _tensors(run: Run, recorder: Recorder) -> dict[str, Plain]:
    """Every value of the trace and, of the float32 layers, the new parameters and momenta."""
    out = {name: plain(recorder[name]) for name in recorder.events}
    for name, layer, parameter in run.model.all_parameters():
        if isinstance(parameter.value, np.ndarray):
            symbol = parameter.symbol
            out[f"{layer.name}/{symbol}"] = plain(parameter.value)
            out[f"{layer.name}/Acc" + ("" if symbol == "W" else f"_{symbol}")] = plain(parameter.slots["Acc"])
        if plain(parameter.value) != out[f"{layer.name}/{parameter.symbol}"]:
            raise AssertionError(f"{name} is not what its trace said")
    for block in JOINS:
        out[f"{block}.relu2/x3"] = plain(unrectified(recorder.events[f"{block}.relu2/x4"]))
    return out


def of_oracle(value: Any) -> Plain:
    """The same of an oracle's value."""
    return (value.codes, value.exponent) if isinstance(value, oracle.Fixed) else value.values


def expected_tensors(step: wageubn.Step) -> dict[str, Plain]:
    """Every value of the oracle's step, and what its joins hand to their ReLU."""
    out = {name: of_oracle(value) for name, value in step.tensors.items()}
    for block, shortcut in JOINS.items():
        joined = oracle.add_fixed(step.tensors[f"{block}.bn2/x3"], step.tensors[shortcut])
        out[f"{block}.relu2/x3"] = of_oracle(joined)
    return out


def run_case(case: Case, steps: int = 1) -> list[Result]:
    """`steps` consecutive steps; each world goes on from its own state."""
    model, method = TinyResNet(), case.method()
    run = Run(model, method, case.dataset(), case.batch, case.seed)
    first = named(case.state())
    run.restore({name: array(value) for name, value in first.items()}, case.first_step)
    state = {name: store(value) for name, value in first.items()}
    settings = wageubn.Settings.from_options(case.options())
    results: list[Result] = []
    for number in range(case.first_step, case.first_step + steps):
        images, _ = run.batch(number)
        method.saturated.clear()
        recorder = _library_step(run)
        expected = wageubn.Step(NET, settings, state, Now(case.seed, number))
        error = real(loss_error(recorder))
        expected.take(fixed(images), judged(error))
        counts = dict(method.saturated)
        told = _tensors(run, recorder), counts, state_of(run), expected, expected_tensors(expected)
        results.append(Result(*told, recorder.events))
        state = expected.state
    return results


def fixed(images: QTensor) -> oracle.Fixed:
    """A batch as the oracle's codes."""
    return oracle.Fixed(images.shape, [int(v) for v in images.codes.reshape(-1)], int(images.exponent))


def differences(result: Result) -> list[str]:
    """The names of all tensors, counts and stored numbers that differ, or that one world lacks."""
    got = dict(result.library)
    bad = [name for name, want in result.tensors.items() if got.pop(name, None) != want]
    bad += sorted(got)
    names = sorted(result.expected.saturated.keys() | result.saturated.keys())
    bad += [f"{n} saturated" for n in names
            if result.expected.saturated.get(n, 0) != result.saturated.get(n, 0)]  # fmt: skip
    return bad + state_differences(result.state, result.expected.state)
