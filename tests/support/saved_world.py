"""Method `saved` by the library and by the oracle: the same nets, data and steps, and where they differ.

`run_case` takes steps in both worlds from the first one on, each going on from its own state; `differences`
names every tensor, what is packed and what is held, and every stored number that is not equal. Used by
`test_saved_step` and, with faults seeded into the library, by `test_seeded_faults_saved`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from intnet import datasets, methods
from intnet import spec as oracle
from intnet.autograd import Tensor
from intnet.datasets import Dataset
from intnet.exact.blocks.buckets import Packed
from intnet.layers import BatchNorm2d, Conv2d, GlobalAvgPool, Linear, SiLU
from intnet.layers.joints import SqueezeExcitation
from intnet.methods.method import Method
from intnet.methods.trace import Recorder
from intnet.models.model import Model
from intnet.spec import float32, nets
from intnet.spec.methods import saved
from intnet.spec.methods.saved import Codec
from intnet.spec.methods.step import Now
from intnet.spec.nets import Layer
from intnet.training.train import Run
from tests.support import cases, moving
from tests.support.bucket_cases import SIGNED, patterns
from tests.support.moving import numbers
from tests.support.states import state_differences, state_of
from tests.support.stepping import CHANNELS, CLASSES, SIDE, array, fixed, judged, real


class Excited(Model):
    """A convolution with batch norm and SiLU, squeeze and excitation, a classifier."""

    def __init__(self) -> None:
        super().__init__("excited", (SIDE, SIDE, CHANNELS), CLASSES)
        self.conv1, self.bn1, self.act1 = Conv2d(CHANNELS, 5, 3, padding=1), BatchNorm2d(5), SiLU()
        self.se = SqueezeExcitation(5, 3)
        self.avgpool, self.fc = GlobalAvgPool(), Linear(5, CLASSES)
        self.finish()

    def forward(self, x: Tensor, method: Method) -> Tensor:
        x = self.act1(self.bn1(self.conv1(x, method), method), method)
        return self.fc(self.avgpool(self.se(x, method), method), method)


NETS: dict[str, nets.Net] = moving.NETS | {
    "excited": (
        Layer("conv", "conv1", 5, 3, padding=1),
        Layer("norm", "bn1"),
        Layer("silu", "act1"),
        Layer("excite", "se", 3),
        Layer("mean", "avgpool"),
        Layer("linear", "fc", CLASSES, bias=True),
    )
}

# options by layer, and what they say of each layer that they name
PATTERNS = {"bits@layer2.*": "8", "bits@layer2.0.bn?": "off", "codec@*.conv1": "affine", "codec@fc": "levels"}
BY_LAYER = {
    "layer1.0.conv1": Codec("affine", 2, bucket=64),
    "layer2.0.conv1": Codec("affine", 8, bucket=64),
    "layer2.0.bn1": Codec(bits=None),
    "layer2.0.conv2": Codec(bits=8, bucket=64),
    "layer2.0.bn2": Codec(bits=None),
    "layer2.0.downsample.0": Codec(bits=8, bucket=64),
    "layer2.0.downsample.1": Codec(bits=8, bucket=64),
    "layer2.0.relu1": Codec(bits=8, bucket=64),
    "layer2.0.relu2": Codec(bits=8, bucket=64),
    "fc": Codec("levels", 2, bucket=64),
}


@dataclass(frozen=True)
class Case:
    """What is trained, `per_epoch` batches an epoch.

    codec: the oracle's view of `options`, of the first epoch; layers: of layers with their own; shares: of a
    mix, by epoch, where they move
    """

    net: str = "mlp"
    seed: int = 1
    batch: int = 5
    steps: int = 3
    per_epoch: int = 2
    options: dict[str, Any] = field(default_factory=dict)
    codec: Codec = field(default_factory=Codec)
    layers: dict[str, Codec] = field(default_factory=dict)
    shares: tuple[float, ...] = ()
    lr: tuple[float, float] = (0.1, 0.03)

    def __str__(self) -> str:
        more = ",".join(f"{key}={value}" for key, value in self.options.items())
        return f"{self.net}-{self.seed}-{more}"

    def model(self) -> Model:
        return Excited() if self.net == "excited" else moving.model(self.net)

    def method(self) -> Method:
        made: Method = methods.make("saved", lr=f"{self.lr[0]},{self.lr[1]}@1", **self.options)
        return made

    def settings(self) -> saved.Settings:
        """The oracle's."""
        rates = f"{self.lr[0]},{self.lr[1]}@1"
        return saved.Settings.from_options({"lr": rates, **self.options})

    def expected_codec(self, layer: str, epoch: int) -> Codec:
        """What `settings` has to make of the options."""
        codec = self.layers.get(layer, self.codec)
        return codec._replace(share=self.shares[min(epoch, len(self.shares) - 1)]) if self.shares else codec

    def dataset(self) -> Dataset:
        """Digits; nets of small images take pieces, two a picture."""
        n = self.batch * self.per_epoch
        digits = datasets.load("digits")
        images = digits.train_images[100 * self.seed % 1000 :][: 2 * n]
        labels = digits.train_labels[100 * self.seed % 1000 :][:n].astype(np.int64)
        if self.net in ("resnet", "excited"):
            pairs = images.reshape(n, 2, 8, 8).transpose(0, 2, 3, 1)
            images, labels = pairs[:, 1 : 1 + SIDE, 1 : 1 + SIDE], labels % CLASSES
        images = np.ascontiguousarray(images[:n])
        return Dataset("some digits", images, labels, images, labels, -4, int(labels.max()) + 1)


def prepared(case: Case, method: Method | None = None) -> Run:
    """A run, of the case's method or another, whose biases, gammas and betas are not what they start with."""
    run = Run(case.model(), method or case.method(), case.dataset(), case.batch, case.seed)
    for i, (_, _, parameter) in enumerate(run.model.all_parameters()):
        if parameter.symbol != "W":
            values = cases.random_float32(i, int(np.prod(parameter.shape)), -2)
            parameter.value = parameter.value + array(oracle.Tensor(parameter.shape, values))
    return run


# -- steps in both worlds --------------------------------------------------------------------------


@dataclass
class Result:
    """One step: the library's events, what it held, counts and state; the oracle's step."""

    events: Recorder
    held: dict[str, tuple[int, int]]
    saturated: dict[str, int]
    state: dict[str, Any]
    expected: saved.Step


def run_case(case: Case) -> list[Result]:
    """All steps of a case."""
    return list(steps_of(case))


def steps_of(case: Case) -> Iterator[Result]:
    """The same, one by one."""
    run = prepared(case)
    state, settings = state_of(run), case.settings()
    for number in range(case.steps):
        now = Now(case.seed, number, case.per_epoch)
        batch, _ = run.batch(number)
        recorder = Recorder("*")
        run.method.set(observers=[recorder])
        run.method.saturated.clear()
        run.train_step()
        run.method.set(observers=[])
        last = NETS[case.net][-1]
        assert isinstance(last, Layer)
        error = real(recorder[f"{last.name}/e3"])
        expected = saved.Step(NETS[case.net], settings, state, now)
        tape = settings.packing
        assert tape is not None
        for layer in expected.layers:
            assert _plain(tape.codec_of(layer, now.epoch)) == _plain(case.expected_codec(layer, now.epoch))
        expected.take(fixed(batch), judged(error))
        state = expected.state
        held = {name: (one.elements, one.nbytes) for name, one in run.method.held.items()}
        yield Result(recorder, held, dict(run.method.saturated), state_of(run), expected)


def _plain(codec: Codec) -> Codec | None:
    """What counts of a codec: the scale's norm is of levels, the share of a mix."""
    if codec.bits is None:
        return None
    norm, share = codec.norm if codec.kind == "levels" else "", codec.share if codec.mix else 0.0
    return codec._replace(norm=norm, share=share)


# -- where they differ -----------------------------------------------------------------------------


def differences(result: Result) -> list[str]:
    """The names of all that differ, or that one world lacks."""
    bad, left = [], set(result.events.events)
    for name, want in result.expected.tensors.items():
        event = result.events.events.get(name)
        left.discard(name)
        if event is None:
            bad.append(f"{name} missing")
        elif isinstance(want, saved.Packed):
            bad += [f"{name} {part}" for part in packed_differences(event.result, want)]
        elif numbers(event.result) != numbers(want):
            bad.append(name)
    bad += [f"{name} extra" for name in sorted(left)]
    if result.saturated != result.expected.saturated:
        bad.append("saturated")
    for name in sorted(result.held.keys() | result.expected.held.keys()):
        if result.held.get(name) != result.expected.held.get(name):
            bad.append(f"held {name}")
    return bad + state_differences(result.state, result.expected.state)


def packed_differences(got: Packed, want: saved.Packed) -> list[str]:
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
