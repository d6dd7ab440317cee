"""Method `saved` by the library and by the definition: what is trained, and by which codecs.

Used by `test_saved_step` and, with faults seeded into the library, by `test_seeded_faults_saved`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from intnet import methods
from intnet.methods.method import Method
from intnet.spec.methods.saved import Codec
from intnet.spec.methods.step import Now
from intnet.training.train import Run
from tests.support import two_worlds
from tests.support.two_worlds import Result, begun, unsettle

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

    def given(self) -> dict[str, Any]:
        """The options in both worlds."""
        return {"lr": f"{self.lr[0]},{self.lr[1]}@1"} | self.options

    def expected_codec(self, layer: str, epoch: int) -> Codec:
        """What `settings` has to make of the options."""
        codec = self.layers.get(layer, self.codec)
        return codec._replace(share=self.shares[min(epoch, len(self.shares) - 1)]) if self.shares else codec


def prepared(case: Case, method: Method | None = None) -> Run:
    """A run, of the case's method or another, whose biases, gammas and betas are not what they start with."""
    made = method or methods.make("saved", **case.given())
    return unsettle(begun(case.net, made, case.seed, case.batch, case.batch * case.per_epoch))


# -- steps in both worlds --------------------------------------------------------------------------


def run_case(case: Case) -> list[Result]:
    """All steps of a case."""
    return list(steps_of(case))


def steps_of(case: Case) -> Iterator[Result]:
    """The same, one by one."""
    now = Now(case.seed, 0, case.per_epoch)
    for result in two_worlds.steps(prepared(case), case.net, case.given(), now, case.steps):
        expected = result.expected
        for layer in expected.layers:
            told = expected.settings.packing.codec_of(layer, expected.now.epoch)
            assert _plain(told) == _plain(case.expected_codec(layer, expected.now.epoch))
        yield result


def _plain(codec: Codec) -> Codec | None:
    """What counts of a codec: the scale's norm is of levels, the share of a mix."""
    if codec.bits is None:
        return None
    norm, share = codec.norm if codec.kind == "levels" else "", codec.share if codec.mix else 0.0
    return codec._replace(norm=norm, share=share)
