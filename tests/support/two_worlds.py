"""One training step by the library and by the definition on the same state, and where they differ.

`steps` takes them, each world going on from its own state; `differences` names every tensor, count, number
of bytes and stored number that is not equal. What is trained, a file of each method says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from intnet import datasets
from intnet.datasets import Dataset
from intnet.exact.blocks.block_float import BlockTensor
from intnet.exact.blocks.buckets import Packed
from intnet.methods.method import Method
from intnet.methods.packing import Held
from intnet.methods.trace import Event, Recorder
from intnet.methods.wageubn import Wageubn
from intnet.models.model import Model
from intnet.numbers.qtensor import QTensor
from intnet.spec import Fixed, data, float32
from intnet.spec.block_float import Blocks
from intnet.spec.methods import METHODS, muppet, packing, saved
from intnet.spec.methods.step import Now, State
from intnet.spec.models import Layer
from intnet.spec.values import exact
from intnet.training.history import StepReport
from intnet.training.train import Run
from tests.support.bucket_cases import SIGNED, patterns
from tests.support.cases import random_codes
from tests.support.opcheck import fixed, floating, tensor, values
from tests.support.states import state_differences, state_of
from tests.support.zoo import KINDS, SHAPE


def numbers(value: Any) -> list[Fraction]:
    """The exact values of anything that either world keeps."""
    if isinstance(value, np.ndarray) or hasattr(value, "fractions"):
        return values(value)
    return [Fraction(v) for v in exact(value)]


# -- what is trained -------------------------------------------------------------------------------


def random_images(model: Model, n: int, seed: int = 1) -> tuple[Dataset, data.Dataset]:
    """Random bytes, the classes in turn, for the library and for the definition."""
    shape = model.image_shape
    images = np.array(random_codes(seed, n * int(np.prod(shape)), 0, 255), np.uint8).reshape(n, *shape)
    labels = np.arange(n) % model.classes
    fast = Dataset("random bytes", images, labels, images, labels, -8, model.classes)
    told = [image.tobytes() for image in images]
    return fast, data.Dataset(told, labels.tolist(), [], [], shape, -8, model.classes)


def begun(net: str, method: Method, seed: int, batch: int, n: int, black: bool = False) -> Run:
    """On `n` digits, other ones a seed, or black images; nets of small images take pieces, two a picture."""
    model, digits, first = KINDS[net][1](), datasets.load("digits"), 100 * seed % 1000
    images = digits.train_images[first : first + 2 * n]
    labels = digits.train_labels[first : first + n].astype(np.int64) % model.classes
    if model.image_shape == SHAPE:
        images = images.reshape(n, 2, 8, 8).transpose(0, 2, 3, 1)[:, 1:7, 1:7]
    images = np.ascontiguousarray(images[:n]) * np.uint8(not black)
    found = Dataset("some digits", images, labels, images, labels, -4, model.classes)
    return Run(model, method, found, batch, seed)


def unsettle(run: Run) -> Run:
    """Its float32 biases, gammas and betas, which start at 0 and 1, at others."""
    for i, (_, _, parameter) in enumerate(run.model.all_parameters()):
        if parameter.symbol != "W":
            parameter.value = parameter.value + floating(i, parameter.shape, -2)
    return run


# -- one step in both worlds -----------------------------------------------------------------------


@dataclass
class Result:
    """What one step left: the library's trace, its values by name, report, counts, tape and state.

    expected: the definition's `Step`
    blocks:   of DYNASTY, by 'layer/path'
    """

    events: dict[str, Event]
    values: dict[str, Any]
    report: StepReport
    saturated: dict[str, int]
    held: dict[str, Held]
    state: State
    expected: Any
    blocks: dict[str, BlockTensor] = field(default_factory=dict)


def step(run: Run, net: str, options: dict[str, Any], state: State, now: Now) -> Result:
    """The library's, recorded; then the definition's on `state`, with the error that the loss gave."""
    method, recorder = run.method, Recorder("*")
    batch, _ = run.batch(now.step)
    method.saturated.clear()
    with method.within(observers=[recorder]):
        report = run.train_step()
    layers, module = KINDS[net][0], METHODS[method.name]
    last = layers[-1]
    assert isinstance(last, Layer)
    source = recorder.events[f"{last.name}/e3"].source
    told = Fraction(report.loss), tensor(getattr(source, "values", source))
    expected = module.Step(layers, module.Settings.from_options(options), state, now)
    expected.take(fixed(batch), lambda _: told)
    return Result(
        events=recorder.events,
        values={name: recorder[name] for name in recorder} | untraced(run),
        report=report,
        saturated=dict(method.saturated),
        held=dict(method.held),
        state=state_of(run),
        expected=expected,
    )


def untraced(run: Run) -> dict[str, np.ndarray]:
    """The new parameters and momenta of WAGEUBN's float32 layers, by the definition's names."""
    out = {}
    for _, layer, parameter in run.model.all_parameters():
        if isinstance(run.method, Wageubn) and isinstance(parameter.value, np.ndarray):
            symbol = parameter.symbol
            out[f"{layer.name}/{symbol}"] = parameter.value.copy()
            slot = f"{layer.name}/Acc" if symbol == "W" else f"{layer.name}/Acc_{symbol}"
            out[slot] = parameter.slots["Acc"].copy()
    return out


def steps(
    run: Run, net: str, options: dict[str, Any], now: Now, count: int, state: State | None = None
) -> Iterator[Result]:
    """So many of them from `now` on, the definition's from `state` or, without one, from the run's."""
    state = state_of(run) if state is None else state
    for number in range(now.step, now.step + count):
        result = step(run, net, options, state, replace(now, step=number))
        state = result.expected.state
        yield result


def first_steps(run: Run, net: str, count: int = 1) -> list[Result]:
    """Of a run that begins, by the options that its method tells."""
    return list(steps(run, net, run.method.settings(), Now(run.seed, 0, run.steps_per_epoch), count))


# -- where they differ -----------------------------------------------------------------------------


def differences(result: Result) -> list[str]:
    """The names of all that differ, or that one world lacks; of tensors in the definition's order."""
    got, expected = dict(result.values), result.expected
    bad: list[str] = []
    for name, want in expected.tensors.items():
        if name not in got:
            bad.append(f"{name} missing")
        elif isinstance(want, packing.Packed):
            bad += [f"{name} {part}" for part in packed_differences(got.pop(name), want)]
        else:
            # MuPPET's definition begins with images of another exponent: so are those of exact values
            free = isinstance(expected, muppet.Step) and result.events[name].rounding is None
            bad += [name] * (not same(got.pop(name), want, free))
    bad += [f"{name} extra" for name in sorted(got)]
    for name in sorted(result.saturated.keys() | expected.saturated.keys()):
        if result.saturated.get(name) != expected.saturated.get(name):
            bad.append(f"{name} saturated")
    names = {name for name, one in result.held.items() if one.codec is not None}
    if isinstance(expected, saved.Step):  # of other methods what is not packed is held by other rules
        names = result.held.keys() | expected.held.keys()
    for name in sorted(names):
        if result.held.get(name, ())[:2] != expected.held.get(name):
            bad.append(f"{name} held")
    return bad + state_differences(result.state, expected.state)


def same(got: Any, want: Any, free: bool) -> bool:
    """Whether a tensor is the definition's: codes on the same grid, unless it is free, else every value."""
    if isinstance(got, QTensor) and isinstance(want, Fixed) and not free:
        return (got.codes.reshape(-1).tolist(), int(got.exponent)) == (want.codes, want.exponent)
    if isinstance(want, Blocks) and got.codes.reshape(-1).tolist() != want.codes:
        return False
    return numbers(got) == numbers(want)


def packed_differences(got: Packed, want: packing.Packed) -> list[str]:
    """Scales, zero points, bytes, widths, codes, a~."""
    made = want.saved.buckets
    zeros = [] if want.kind in SIGNED else [float32.bits_of(b.zero) for b in made]
    pairs = {
        "shape": (got.shape, want.shape),
        "widths": (got.widths.tolist(), want.widths),
        "scales": (patterns(got.scales), [float32.bits_of(b.scale) for b in made]),
        "zeros": (patterns(got.zeros), zeros),
        "bytes": (got.words.tobytes(), want.saved.packed),
        "codes": (got.codes().reshape(-1).tolist(), want.codes),
        "values": (numbers(got.load()), want.values.values),
    }
    return [part for part, (a, b) in pairs.items() if a != b]
