"""Test the tester: faults put into method `saved` and into what reads its tape, one at a time, are each seen.

Every fault is what a careless edit would do. The sweeps pass without one, so what makes them fail is it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from intnet.autograd import loaded
from intnet.exact.blocks.signs import Signs
from intnet.methods import Saved, method, packing
from intnet.methods.method import Held
from intnet.methods.packing import Packing
from intnet.numbers import rng
from intnet.ops import norm
from intnet.spec.methods.saved import Codec
from tests.support.faults import Fault, Patch, caught, pairs, replace
from tests.support.saved_world import BY_LAYER, PATTERNS, Case, steps_of
from tests.support.two_worlds import differences

pytestmark = pytest.mark.slow

MIXED = {"bits": "2/4", "bucket": 64, "mix_prob": "0.5,0@1"}
TWO = Codec(bits=2, mix=4, share=0.5, bucket=64)
STEPS = {
    "mlp": Case(batch=9, per_epoch=1, steps=2, options=MIXED, codec=TWO, shares=(0.5, 0.0)),
    "late": Case(seed=2, batch=9, steps=2, options=MIXED | {"storage": "on_backward"}, codec=TWO),
    "resnet": Case(
        "resnet", seed=3, batch=2, steps=1, options={"bits": "2", "bucket": 64} | PATTERNS,
        codec=Codec(bits=2, bucket=64), layers=BY_LAYER,
    ),
    "excited": Case(
        "excited", seed=4, batch=2, steps=1, options={"bits": "2", "bucket": 64, "silu": "packed"},
        codec=Codec(bits=2, bucket=64),
    ),
    "float silu": Case("excited", seed=5, batch=1, steps=1),
}  # fmt: skip


def stepping(case: Case) -> Callable[[], None]:
    def sweep() -> None:
        for result in steps_of(case):
            assert differences(result) == []

    return sweep


SWEEPS = {name: stepping(case) for name, case in STEPS.items()}


# -- what gradients read ---------------------------------------------------------------------------


def unpacked(path: str, layer_name: str = "") -> Fault:
    """The tape packs a value, and its gradient reads the float32 one all the same."""

    def change(original: Any, self: Packing, layer: Any, at: str, value: Any) -> Any:
        kept = original(self, layer, at, value)
        if at != path or layer_name not in layer.name:
            return kept
        if isinstance(kept, packing.Unrounded):
            kept.load()  # as the trace is told
        return value

    return replace(Packing, "save", change)


def forward_reads_packed(original: Any, self: Saved, layer: Any, path: str, value: Any) -> Any:
    """a~ on the way forward too."""
    x = original(self, layer, path, value)
    if path != "x0" or not self.training:
        return x
    kept = loaded(self.save(layer, path, x))
    self.saturated.pop(f"{layer.name}/{path}s", None)
    return kept


def statistics_of_packed(
    original: Any, kept: Any, x: Any, mean: Any, variance: Any, gamma: Any, beta: Any, act: Any, keep: Any
) -> Any:
    """Mean and variance of a~."""
    packed = keep(x)
    read = loaded(packed)
    return original(kept, read, *norm.float_statistics(read), gamma, beta, act, lambda _: packed)


def mean_of_packed(original: Any, kept: Any, e: Any) -> Any:
    """The way back takes mean and root of a~."""
    mean, variance = norm.float_statistics(loaded(kept.x))
    kept.mean, kept.r = mean, norm.reciprocal_root(variance)
    return original(kept, e)


def at_least_zero(x: np.ndarray) -> Signs:
    """x >= 0, which every output of ReLU is."""
    return Signs(np.where(x >= 0, np.float32(1), np.float32(0)))


def mask_of_codes(original: Any, self: Packing, layer: Any, path: str, value: Any) -> Any:
    """ReLU's mask is made of a packed output: small ones are 0 in a few bits."""
    if path == "mask" and value.size:
        value = np.where(value > 0.05 * value.max(), value, np.float32(0))
    return original(self, layer, path, value)


# -- words and codecs ------------------------------------------------------------------------------


def drawn(**changes: Callable[[int], int]) -> Fault:
    """Random words from elsewhere."""

    def seed(patch: Patch) -> None:
        original = method.Draw

        def faulty(*given: int) -> Any:
            made = original(*given)
            return made._replace(**{name: change(getattr(made, name)) for name, change in changes.items()})

        patch.setattr(method, "Draw", faulty)

    return seed


def streams(change: Callable[[str], str]) -> Fault:
    """Words of another path, of methods' draws only."""

    def seed(patch: Patch) -> None:
        stream = rng.stream
        patch.setattr(
            rng,
            "stream",
            lambda name: stream(change(name) if name.endswith(("/x0", "/x1", "/mix")) else name),
        )
        patch.setattr(rng, "check_streams", lambda names: None)  # which refuses such words

    return seed


def late_words(patch: Patch) -> None:
    """What is rounded when it is read draws the words after."""
    load, encode, late = packing.Unrounded.load, packing.encode, [0]

    def loading(self: Any) -> Any:
        late[0] = 1
        return load(self)

    def encoding(x: Any, codec: Any, draw: Any, *rest: Any) -> Any:
        return encode(x, codec, draw._replace(step=draw.step + late[0]), *rest)

    patch.setattr(packing.Unrounded, "load", loading)
    patch.setattr(packing, "encode", encoding)


def shifted_plans(original: Any, self: Packing, layers: Any) -> None:
    """Every layer has the codec of the one before it."""
    original(self, layers)
    plans = dict(self._plans)
    for before, layer in pairwise(layers):
        for path in ("x0", "x1"):
            plans[layer.name, path] = self._plans[before.name, path]
    self._plans = plans


def channels_first(original: Any, x: np.ndarray, *rest: Any) -> Any:
    """Buckets of (N, C, H, W)."""
    if x.ndim != 4:
        return original(x, *rest)
    packed = original(np.ascontiguousarray(x.transpose(0, 3, 1, 2)), *rest)
    load = packed.load
    packed.load = lambda: np.ascontiguousarray(load().transpose(0, 2, 3, 1))
    return packed


def float_bytes(original: Any, self: Packing, layer: Any, path: str, value: Any) -> Any:
    """float32's bytes are told of what is packed."""
    kept = original(self, layer, path, value)
    name = f"{layer.name}/{path}"
    if path != "mask":
        held = self.owner.held
        held[name] = Held(value.size, value.nbytes, held[name].codec)
    return kept


def without_metadata(patch: Patch) -> None:
    patch.setattr(packing.Packed, "nbytes", property(lambda self: self.words.nbytes))


def not_counted(original: Any, *args: Any) -> Any:
    packed = original(*args)
    packed.clipped = 0
    return packed


def every_schedule_at_its_start(original: Any, self: Packing, *rest: Any) -> Any:
    """The share of the first epoch."""
    with self.owner.within(epoch=0):
        return original(self, *rest)


FAULTS: dict[str, tuple[Fault, list[str]]] = {
    "gW of x0": (unpacked("x0"), ["mlp", "late"]),
    "batch norm of x1": (unpacked("x1"), ["mlp"]),
    "factors of x0": (unpacked("x0", "scale"), ["excited"]),
    "slope at x3": (unpacked("x3"), ["excited"]),
    "a~ on the way forward": (replace(Saved, "activation", forward_reads_packed), ["mlp"]),
    "statistics after rounding": (replace(norm, "normalized_float", statistics_of_packed), ["mlp"]),
    "mean after rounding on the way back": (replace(norm, "_backward_float", mean_of_packed), ["mlp"]),
    ">= for >": (lambda patch: patch.setattr(packing, "Signs", at_least_zero), ["mlp"]),
    "mask of codes": (replace(Packing, "save", mask_of_codes), ["mlp"]),
    "words of the next step": (drawn(step=lambda step: step + 1), ["mlp", "late"]),
    "words of every step": (drawn(step=lambda _: 0), ["mlp", "late"]),
    "words of seed 0": (drawn(seed=lambda _: 0), ["mlp"]),
    "words of all layers": (streams(lambda name: name.rpartition("/")[2]), ["mlp"]),
    "words of x0 for x1": (streams(lambda name: name.replace("/x1", "/x0")), ["mlp"]),
    "flags by the words of elements": (streams(lambda name: name.replace("/mix", "/x0")), ["mlp", "late"]),
    "flags of another layer": (
        streams(lambda name: "fc1/mix" if name.endswith("/mix") else name), ["mlp", "late"]),
    "later words": (late_words, ["late"]),
    "codec of the layer before": (replace(Packing, "start", shifted_plans), ["resnet"]),
    "patterns are ignored": (
        replace(packing, "of_layer", lambda f, options, overrides, layer: options), ["resnet"]),
    "an even mix": (replace(packing, "promotions", lambda f, n, share, draw: f(n, 0.5, draw)), ["mlp"]),
    "a mix of the other share": (
        replace(packing, "promotions", lambda f, n, share, draw: ~f(n, share, draw)), ["mlp", "late"]),
    "the first epoch's share": (replace(Packing, "_packed", every_schedule_at_its_start), ["mlp"]),
    "buckets of channels": (replace(packing, "encode", channels_first), ["excited"]),
    "float32's bytes": (replace(Packing, "save", float_bytes), ["mlp"]),
    "no metadata": (without_metadata, ["mlp"]),
    "clipped codes are not counted": (replace(packing, "encode", not_counted), ["mlp"]),
    "silu is packed": (
        replace(Packing, "plan", lambda f, self, layer, path: f(self, layer, "x0" if path == "x3" else path)),
        ["float silu"]),
}  # fmt: skip


@pytest.mark.parametrize("name", SWEEPS)
def test_without_a_fault_every_sweep_passes(name: str) -> None:
    assert not caught(SWEEPS[name])


@pairs(FAULTS)
def test_a_fault_is_caught(fault: str, sweep: str, monkeypatch: Patch) -> None:
    FAULTS[fault][0](monkeypatch)
    assert caught(SWEEPS[sweep])
