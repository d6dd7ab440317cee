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
from intnet.block_float import BlockTensor
from intnet.datasets import Dataset
from intnet.exact import FloatExact
from intnet.methods import dynasty as library
from intnet.methods.method import Method
from intnet.qtensor import QTensor
from intnet.spec import nets
from intnet.spec.methods import dynasty
from intnet.trace import Recorder
from intnet.train import Run
from tests import blocks, cases
from tests.moving import LAST, NETS, model
from tests.stepping import CLASSES, SIDE, array, real

CLOSE = 1e-6  # of widths, which come from logarithms


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
        options = {"weight_decay": 1e-4} | self.options
        made: Method = methods.Dynasty(lr=f"{self.lr[0]},{self.lr[1]}@1", **options)
        return made

    def settings(self, number: int) -> dynasty.Settings:
        """The oracle's."""
        epoch, ends = number // self.steps_per_epoch, (number + 1) % self.steps_per_epoch == 0
        options: dict[str, Any] = {"weight_decay": 1e-4} | self.options
        return dynasty.Settings(self.lr[min(epoch, 1)], self.batch, ends=ends, **options)

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


# -- the two states --------------------------------------------------------------------------------


def per_block(kept: dict[Any, Any]) -> np.ndarray:
    """The values of all blocks in an array of the blocks' shape."""
    last = max(kept)
    return np.array([float(kept[place]) for place in np.ndindex(*(i + 1 for i in last))]).reshape(
        [i + 1 for i in last]
    )


def numbers(value: Any) -> list[Fraction]:
    """The exact values of anything that either world keeps."""
    if isinstance(value, QTensor | np.ndarray):
        return real(value).values
    return [Fraction(v) for v in nets.exact(value)]


def oracle_state(run: Run) -> dynasty.State:
    """The oracle's start: the library's parameters before the first step."""
    named = [(f"{layer.name}/{p.symbol}", p.value) for _, layer, p in run.model.all_parameters()]
    return dynasty.State({name: real(value) for name, value in named})


@dataclass
class Result:
    """One step: the library's events, block tensors, counts and state; the oracle's step."""

    events: Recorder
    blocks: dict[str, BlockTensor]
    saturated: dict[str, int]
    state: dict[str, Any]
    map: dict[str, Any]  # what the step told of a new one
    expected: dynasty.Step
    names: dict[str, str]  # 'layer/W' -> 'layer.weight'


@contextmanager
def recorded() -> Iterator[dict[str, BlockTensor]]:
    """Every block tensor that the method makes, by 'layer/path'."""
    made: dict[str, BlockTensor] = {}

    def note(x: np.ndarray, bits: Any, axes: Any, where: str) -> BlockTensor:
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
    state = oracle_state(run)
    names = {f"{layer.name}/{p.symbol}": name for name, layer, p in run.model.all_parameters()}
    for number in range(case.epochs * case.steps_per_epoch):
        batch, _ = run.batch(number)
        images = oracle.Fixed(batch.shape, [int(v) for v in batch.codes.reshape(-1)], int(batch.exponent))
        recorder = Recorder("*")
        run.method.observers = [recorder]
        run.method.saturated.clear()
        with recorded() as made:
            report = run.train_step()
        run.method.observers = []
        source = recorder.events[f"{LAST[case.net]}/e3"].source
        error = real(source.values if isinstance(source, FloatExact) else source)
        expected = dynasty.step(NETS[case.net], state, images, error, case.settings(number))
        state = expected.state
        kept = {
            name: value.copy() if isinstance(value, np.ndarray) else value
            for name, value in run.state().items()
        }
        yield Result(recorder, made, dict(run.method.saturated), kept, dict(report.map), expected, names)


# -- where they differ -----------------------------------------------------------------------------


def differences(result: Result) -> list[str]:
    """The names of all that differ, or that one world lacks."""
    seconds = result.map.pop("seconds", 0.0)
    return [*_tensors(result), *_state(result), *_told("map", result.map, result.expected.map)] + (
        ["seconds"] * (seconds < 0)
    )


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


def _state(result: Result) -> list[str]:
    got, s = dict(result.state), result.expected.state
    bad = []
    exact: dict[str, list[Any]] = {result.names[key]: value.values for key, value in s.values.items()}
    exact |= {f"{result.names[key]}.Acc": value.values for key, value in s.acc.items()}
    for layer, (mean, variance) in s.running.items():
        exact |= {f"{layer}.running_mean": mean, f"{layer}.running_var": variance}
    exact |= {"method/batches": [s.batches], "method/images": [result.expected.settings.batch]}
    for name, want in exact.items():
        value = got.pop(name, None)
        if value is None or numbers(value) != want:
            bad.append(f"state {name}")
    for kind, kept in (("S", s.sums), ("b", s.smoothed), ("b_new", s.new)):
        for key, table in kept.items():
            layer, symbol = key.split("/")
            name = f"{result.names[key] if symbol == 'W' else layer}.{kind}"
            if not _same(kind, got.pop(name, None), per_block(table)):
                bad.append(f"state {name}")
    found = got.pop("method/lambda", None)
    lambdas = [float(s.lambdas[kind]) for kind in ("W", "A")] if s.lambdas else []
    kind = found is not None and found.dtype == np.float64 and found.shape == (len(lambdas),)
    if not kind or not np.allclose(found, lambdas, rtol=0, atol=1e-9):
        bad.append("state method/lambda")
    return bad + [f"state {name} extra" for name in sorted(got)]


def _same(kind: str, got: Any, want: np.ndarray) -> bool:
    """S to the bit; widths within CLOSE, and what they are rounded to."""
    dtype = np.float64 if kind == "S" else np.float32
    if not isinstance(got, np.ndarray) or got.dtype != dtype or got.shape != want.shape:
        return False
    return bool(np.array_equal(got, want) if kind == "S" else np.max(np.abs(got - want)) <= CLOSE)
