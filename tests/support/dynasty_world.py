"""DYNASTY by the library and by the oracle: the same nets, data and steps, and where they differ.

`run_case` takes steps in both worlds from the first one on, each going on from its own state; `differences`
names every tensor, block, sensitivity and stored number that is not equal. Used by `test_dynasty_step` and,
with faults seeded into the library, by `test_seeded_faults_dynasty`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from intnet import datasets, methods
from intnet import spec as oracle
from intnet.datasets import Dataset
from intnet.exact.blocks.block_float import BlockTensor
from intnet.exact.expressions import FloatExact
from intnet.methods import dynasty as library
from intnet.methods.method import Method
from intnet.methods.trace import Recorder
from intnet.numbers.qtensor import QTensor
from intnet.spec.methods import dynasty
from intnet.spec.methods.step import Now
from intnet.spec.values import exact
from intnet.training.train import Run
from tests.support import blocks, cases, map_digits
from tests.support.moving import LAST, NETS, model
from tests.support.states import state_differences, state_of
from tests.support.stepping import CLASSES, SIDE, array, fixed, judged, real

CLOSE = 1e-6  # of what is told of a map, which comes from logarithms


@dataclass(frozen=True)
class Case:
    """`full` batches of `batch` images and one of `short`, an epoch; `options` of the method."""

    net: str = "mlp"
    seed: int = 1
    batch: int = 5
    full: int = 2
    short: int = 0
    epochs: int = 2
    lr: tuple[float, float] = (0.1, 0.03)
    options: dict[str, Any] = field(default_factory=dict)
    images: str = "digits"
    zero: str = ""  # a weight layer whose weights start at 0

    def __str__(self) -> str:
        more = ",".join(f"{key}={value}" for key, value in self.options.items())
        return f"{self.net}-{self.seed}-{self.batch}x{self.full}+{self.short}-{more}{self.images}{self.zero}"

    @property
    def steps_per_epoch(self) -> int:
        return self.full + bool(self.short)

    def made(self) -> Method:
        """The library's method."""
        made: Method = methods.Dynasty(**self.given())
        return made

    def settings(self) -> dynasty.Settings:
        """The oracle's."""
        made: dynasty.Settings = dynasty.Settings.from_options(self.given())
        return made

    def given(self) -> dict[str, Any]:
        """The options in both worlds."""
        return {"lr": f"{self.lr[0]},{self.lr[1]}@1", "weight_decay": 1e-4} | self.options

    def dataset(self) -> Dataset:
        """Digits, or black images; the residual net takes pieces, two a picture."""
        n = self.batch * self.full + self.short
        digits = datasets.load("digits")
        images = digits.train_images[100 * self.seed % 1000 :][: 2 * n]
        labels = digits.train_labels[100 * self.seed % 1000 :][:n].astype(np.int64)
        if self.net == "resnet":
            pairs = images.reshape(n, 2, 8, 8).transpose(0, 2, 3, 1)
            images, labels = pairs[:, 1 : 1 + SIDE, 1 : 1 + SIDE], labels % CLASSES
        images = np.ascontiguousarray(images[:n]) * np.uint8(self.images == "digits")
        return Dataset("some digits", images, labels, images, labels, -4, int(labels.max()) + 1)


def prepared(case: Case) -> Run:
    """A run whose biases, gammas and betas are not what they start with; some weights are zero."""
    run = Run(model(case.net), case.made(), case.dataset(), case.batch, case.seed)
    for i, (_, layer, parameter) in enumerate(run.model.all_parameters()):
        if parameter.symbol != "W" and case.images == "digits":
            values = cases.random_float32(i, int(np.prod(parameter.shape)), -2)
            parameter.value = parameter.value + array(oracle.Tensor(parameter.shape, values))
        if parameter.symbol == "W":
            parameter.value = parameter.value.copy()
            parameter.value[4:8, :4] = 0  # a block of zeros where there are two
            parameter.value[:4, -1:] *= np.float32(2.0**-60)
            parameter.value *= np.float32(layer.name != case.zero)
    return run


def numbers(value: Any) -> list[Fraction]:
    """The exact values of anything that either world keeps."""
    if isinstance(value, QTensor | np.ndarray):
        return real(value).values
    return [Fraction(v) for v in exact(value)]


# -- steps in both worlds --------------------------------------------------------------------------


@dataclass
class Result:
    """One step: the library's events, block tensors, counts and state; the oracle's step."""

    events: Recorder
    blocks: dict[str, BlockTensor]
    saturated: dict[str, int]
    state: dict[str, Any]
    map: dict[str, Any]  # what the step told of a new one
    expected: dynasty.Step


@contextmanager
def recorded() -> Iterator[dict[str, BlockTensor]]:
    """Every block tensor that the method makes, by 'layer/path'."""
    made: dict[str, BlockTensor] = {}

    def note(x: np.ndarray, bits: int | np.ndarray, axes: tuple[int, int], where: str = "") -> BlockTensor:
        made[where] = original(x, bits, axes, where)
        return made[where]

    original = library.quantize_blocks
    library.quantize_blocks = note
    try:
        yield made
    finally:
        library.quantize_blocks = original


def run_case(case: Case) -> list[Result]:
    """All steps of a case's epochs."""
    return list(steps_of(case))


def steps_of(case: Case) -> Iterator[Result]:
    """The same, one by one."""
    run = prepared(case)
    state, settings = state_of(run), case.settings()
    for number in range(case.epochs * case.steps_per_epoch):
        batch, _ = run.batch(number)
        recorder = Recorder("*")
        run.method.set(observers=[recorder])
        run.method.saturated.clear()
        with recorded() as made:
            report = run.train_step()
        run.method.set(observers=[])
        source = recorder.events[f"{LAST[case.net]}/e3"].source
        error = real(source.values if isinstance(source, FloatExact) else source)
        expected = dynasty.Step(NETS[case.net], settings, state, Now(case.seed, number, case.steps_per_epoch))
        expected.take(fixed(batch), judged(error))
        state = expected.state
        told = dict(run.method.saturated), state_of(run), dict(report.map), expected
        yield Result(recorder, made, *told)


# -- where they differ -----------------------------------------------------------------------------


def differences(result: Result) -> list[str]:
    """The names of all that differ, or that one world lacks."""
    seconds = result.map.pop("seconds", 0.0)
    wanted = map_digits.told(result.expected)
    bad = [*_tensors(result), *state_differences(result.state, result.expected.state)]
    return bad + _told("map", result.map, wanted) + ["seconds"] * (seconds < 0)


def _tensors(result: Result) -> list[str]:
    bad, left = [], set(result.events.events)
    for name, want in result.expected.tensors.items():
        event = result.events.events.get(name)
        left.discard(name)
        if event is None:
            bad.append(f"{name} missing")
        elif isinstance(want, oracle.block_float.Blocks):
            got = result.blocks.get(name)
            bad += [f"{name} {part}" for part in (blocks.differences(got, want) if got else ["no blocks"])]
            if (
                event.result.codes.reshape(-1).tolist() != want.codes
                or numbers(event.result) != want.real().values
            ):
                bad.append(f"{name} event")
        elif numbers(event.result) != numbers(want):
            bad.append(name)
    if result.saturated != result.expected.saturated:
        bad.append("saturated")
    return bad + [f"{name} extra" for name in sorted(left)]


def _told(name: str, got: Any, want: Any) -> list[str]:
    """Where two records differ: numbers by more than CLOSE of them."""
    if isinstance(want, dict) and isinstance(got, dict) and got.keys() == want.keys():
        return [bad for key in want for bad in _told(f"{name} {key}", got[key], want[key])]
    if isinstance(want, list) and isinstance(got, list) and len(got) == len(want):
        pairs = enumerate(zip(got, want, strict=True))
        return [bad for i, (a, b) in pairs for bad in _told(f"{name} {i}", a, b)]
    same = type(got) is type(want) and not isinstance(want, dict | list)
    if same and (got == want or (isinstance(want, float) and abs(got - want) <= CLOSE * abs(want) + 1e-300)):
        return []
    return [f"{name}: {got} is not {want}"]
