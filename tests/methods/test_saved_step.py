"""Whole steps under method `saved` equal the oracle's: what is packed and held, gradients, the next state."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from intnet import methods
from intnet.autograd import Tensor, backward
from intnet.exact.expressions import add
from intnet.layers import Linear
from intnet.methods.method import Method
from intnet.methods.trace import Recorder
from intnet.spec.methods.saved import Codec
from intnet.spec.models import Layer, Residual
from tests.support.opcheck import threads
from tests.support.saved_world import BY_LAYER, PATTERNS, Case, prepared, run_case
from tests.support.two_worlds import Result, differences
from tests.support.zoo import KINDS


def options(codec: str, bits: str, bucket: int | str, **more: Any) -> dict[str, Any]:
    return {"codec": codec, "bits": bits, "bucket": bucket, **more}


CASES = [
    Case(options=options("affine", "4", "tensor"), codec=Codec("affine", 4, bucket=None)),
    Case(seed=2, options=options("affine", "1", 64, momentum=0.5), codec=Codec("affine", 1, bucket=64)),
    Case(
        seed=3, options=options("affine-stochastic", "2", 64, weight_decay=0.01),
        codec=Codec(bits=2, bucket=64),
    ),
    Case(
        seed=4, batch=9, steps=6, options=options("affine-stochastic", "2/4", 64, mix_prob="1,0@1,0.3@2"),
        codec=Codec(bits=2, mix=4, bucket=64), shares=(1.0, 0.0, 0.3),
    ),
    Case(
        seed=5, batch=9, options=options("levels", "3/6", 128, norm="l2", storage="on_backward"),
        codec=Codec("levels", 3, 6, 0.4, 128, "l2"),
    ),
    Case(
        seed=6, steps=4, options=options("affine-stochastic", "2/6", "tensor", mix_prob=0.5),
        codec=Codec(bits=2, mix=6, share=0.5, bucket=None),
    ),
    Case(seed=7, options=options("levels", "12", 512), codec=Codec("levels", 12)),
    Case(seed=8, options={"bits": "off"}, codec=Codec(bits=None)),
    Case(
        "lenet", seed=9, batch=3, options=options("affine-stochastic", "2/4", 64),
        codec=Codec(bits=2, mix=4, share=0.5, bucket=64),
    ),
    Case(
        "lenet", seed=10, batch=2, options=options("levels", "2", 128), codec=Codec("levels", 2, bucket=128)
    ),
    Case("resnet", seed=11, batch=2, options=options("affine-stochastic", "2", 64) | PATTERNS,
         codec=Codec(bits=2, bucket=64), layers=BY_LAYER),
    Case("resnet", seed=12, batch=2, steps=2, options=options("affine", "3/6", 64, storage="on_backward"),
         codec=Codec("affine", 3, 6, 0.4, 64)),
    Case("excited", seed=13, batch=2, options=options("affine-stochastic", "4", 64, silu="packed"),
         codec=Codec(bits=4, bucket=64)),
    Case("excited", seed=14, batch=2, steps=2, options=options("levels", "3", 256),
         codec=Codec("levels", 3, bucket=256)),
]  # fmt: skip


@cache
def stepped(i: int) -> list[Result]:
    """The steps of a case, taken once."""
    return run_case(CASES[i])


@pytest.mark.slow
@pytest.mark.parametrize("i", range(len(CASES)), ids=map(str, CASES))
def test_every_step_equals_the_oracle(i: int) -> None:
    """All float32 tensors, codes, scales and bytes, what is held and clipped, parameters and statistics."""
    assert [differences(result) for result in stepped(i)] == [[]] * CASES[i].steps


@pytest.mark.slow  # whose steps the slow tests take too
def test_the_cases_clip_mix_and_hold_float32() -> None:
    assert any(result.expected.saturated for i in range(len(CASES)) for result in stepped(i))
    widths = [
        {b for value in result.expected.tensors.values() for b in getattr(value, "widths", [])}
        for result in stepped(3)
    ]
    assert widths == [{4}, {4}, {2}, {2}, {2, 4}, {2, 4}]  # the share of a mix follows its epochs
    whole = [
        tuple(value.widths)
        for result in stepped(5)
        for value in result.expected.tensors.values()
        if hasattr(value, "widths")
    ]
    assert set(whole) == {(2,), (6,)}  # one bucket a tensor
    held = stepped(10)[0].held
    assert held["layer2.0.bn1/x1"][:2] == (108, 432)
    assert held["layer2.0.conv2/x0"][:2] == (108, 64 + 48 + 2 * 8)


@pytest.mark.slow
def test_threads_do_not_change_a_bit() -> None:
    with threads(2):
        for result in run_case(CASES[3]):
            assert differences(result) == []


# -- beside float32 --------------------------------------------------------------------------------


def forward_paths(net: str) -> set[str]:
    """Paths of the forward pass by the oracle's net."""
    layers = [
        layer
        for item in KINDS[net][0]
        for layer in ([*item.main, *item.shortcut] if isinstance(item, Residual) else [item])
        if isinstance(layer, Layer)
    ]
    paths = {
        "linear": ("W", "x0", "x1"),
        "conv": ("W", "x0", "x1"),
        "norm": ("mu", "var", "x3"),
        "relu": ("x4",),
    }
    return {f"{layer.name}/{path}" for layer in layers for path in paths.get(layer.kind, ())}


@pytest.mark.parametrize("i", [8, 10])
def test_the_first_step_is_float32s_but_for_what_reads_packed_values(i: int) -> None:
    """Forward to the bit. On the way back: the classifier's error; beta's gradient of the last batch norm."""
    case = CASES[i]
    run, other = prepared(case), prepared(case, methods.make("float32"))
    seen, plain = Recorder("*"), Recorder("*")
    run.method.set(observers=[seen])
    other.method.set(observers=[plain])
    losses = [each.train_step().loss for each in (run, other)]
    assert losses[0] == losses[1]
    for name in forward_paths(case.net):
        assert seen[name].tobytes() == plain[name].tobytes(), name
    last = "bn2" if case.net == "lenet" else "layer2.0.downsample.1"
    for name in ("fc/e3", "fc/e4", "fc/gb", f"{last}/gbeta"):
        assert seen[name].tobytes() == plain[name].tobytes(), name
    for name in ("fc/gW", "conv1/gW"):
        assert seen[name].tobytes() != plain[name].tobytes()


# -- by hand ---------------------------------------------------------------------------------------


def one_layer(**given: Any) -> tuple[Linear, Method]:
    layer = Linear(4, 1, bias=False)
    layer.name = "fc"
    method = methods.make("saved", **given)
    method.start([layer], 1)
    layer.weight.value = np.array([[1, 2, 3, 4]], np.float32)
    return layer, method


@pytest.mark.parametrize("storage", ["save", "on_backward"])
@pytest.mark.parametrize(
    ("bits", "again"), [("1", [0, 0, 1, 1]), ("2", [0, 1 / 3, 1, 1]), ("off", [0, 0.25, 0.875, 1])]
)
def test_a_linear_layer_by_hand(storage: str, bits: str, again: list[float]) -> None:
    """y = 1*0 + 2*0.25 + 3*0.875 + 4*1 of what is given; gW = 2 a~."""
    layer, method = one_layer(codec="affine", bits=bits, storage=storage)
    seen = Recorder("fc/*")
    method.set(observers=[seen])
    y = layer(Tensor(np.array([[0, 0.25, 0.875, 1]], np.float32)), method)
    assert y.value.tolist() == [[7.125]]
    backward(y, np.full((1, 1), 2, np.float32), add)
    assert seen["fc/gW"].tolist() == [[float(np.float32(2) * np.float32(v)) for v in again]]
    assert ("fc/x0s" in seen.events) == (bits != "off")


def test_inference_packs_nothing() -> None:
    layer, method = one_layer(bits="2")
    method.set(training=False)
    layer(Tensor(np.ones((1, 4), np.float32)), method)
    assert method.held == {}
