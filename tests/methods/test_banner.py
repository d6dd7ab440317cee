"""Method banner: whole steps equal the definition's, its integers and products those of fractions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intnet import methods
from intnet.errors import ConfigError
from intnet.exact.blocks.affine import steps
from intnet.exact.blocks.buckets import Codec, encode
from intnet.methods import banner as lib
from intnet.methods.banner import NEAREST, STOCHASTIC, WIDE
from intnet.methods.trace import Recorder
from intnet.numbers import rng
from intnet.numbers.rng import Draw
from intnet.ops import conv2d, linear
from intnet.ops.products import Bifurcated
from intnet.spec.float32 import to_float32
from intnet.spec.methods import banner
from intnet.spec.methods.packing import Codec as SpecCodec
from intnet.spec.methods.packing import Packed, pack
from intnet.spec.methods.step import Now
from intnet.spec.words import words
from intnet.training.train import Run
from tests.support.opcheck import floating, run, tensor, threads, values
from tests.support.two_worlds import begun, differences, first_steps, unsettle

FORWARD = {"Wq", "bq", "gammaq", "betaq", "x0", "x1"}


def run_of(net: str, seed: int, **options: Any) -> Run:
    return unsettle(begun(net, methods.make("banner", **options), seed, 4, 8))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("net", "seed", "options"),
    [
        ("mlp", 1, {}),
        ("mlp", 2, {"optimizer": "adamw", "weight_decay": 0.01, "clip": 0.3, "lr": "0.01"}),
        ("lenet", 3, {"momentum": 0.5, "weight_decay": 1e-4}),
        ("resnet", 4, {}),
        ("excited", 5, {"accs": 2, "label_smoothing": 0.1}),
    ],
)
def test_three_steps_equal_the_definition(net: str, seed: int, options: dict[str, Any]) -> None:
    results = first_steps(run_of(net, seed, **options), net, 3)
    assert [differences(result) for result in results] == [[], [], []]
    tensors = results[-1].expected.tensors
    paths = {name.rpartition("/")[2] for name, v in tensors.items() if isinstance(v, Packed)}
    assert paths == FORWARD | {"e1", "e3", "e3w"}


def test_which_layers_have_which_errors() -> None:
    """The first one asks for no e3 in 8 bits, the last one keeps its output: logits."""
    run, recorder = run_of("mlp", 6), Recorder("*")
    run.method.set(observers=[recorder])
    run.train_step()
    codecs = {name: event.format for name, event in recorder.events.items()}
    assert "fc1/e3" not in codecs and codecs["fc2/e3"] is STOCHASTIC and codecs["fc1/e3w"] is WIDE
    assert codecs["fc1/x1"] is NEAREST and codecs["fc3/x1"] is None and codecs["fc3/x0"] is NEAREST
    assert codecs["bn1/e1"] is STOCHASTIC and codecs["relu1/e1"] is None


@pytest.mark.slow
@given(
    seed=st.integers(0, 2**32), n=st.integers(1, 40), kind=st.sampled_from([NEAREST, STOCHASTIC, WIDE]),
    offset=st.sampled_from([0.0, -3.0, 1e3, 1e9]), exponent=st.integers(-100, 80),
)  # fmt: skip
def test_steps_of_any_tensor(seed: int, n: int, kind: Codec, offset: float, exponent: int) -> None:
    """Integers and scale are the definition's; of ranges without 0 and of constants too."""
    x = np.ldexp(floating(seed, (n,)) + np.float32(offset), exponent).astype(np.float32)
    x = np.full_like(x, x[0]) if seed % 5 == 0 else x
    got = steps(encode(x, kind, Draw(seed % 2**32, 7, 9)))
    form = SpecCodec(kind.kind, kind.bits, bucket=None)
    drawn = None
    if kind is STOCHASTIC:
        drawn = rng.words(seed % 2**32, 7, 9, n).tolist()
    want = banner.steps(pack(Now(1, 1), form, "fc", drawn, tensor(x)))
    assert got.codes.codes.tolist() == want.codes and Fraction(float(got.scale)) == want.scale
    assert values(got.values) == want.real().values
    assert got.codes.bound >= max(map(abs, want.codes))


def by_hand(left: Any, right: Any, pairs: list[list[tuple[int, int]]]) -> list[Fraction]:
    """fl(fl(sum of products of integers) * fl(product of scales))."""
    a, b = (one.codes.codes.reshape(-1).tolist() for one in (left, right))
    step = to_float32(Fraction(float(left.scale)) * Fraction(float(right.scale)))
    return [to_float32(to_float32(Fraction(sum(a[i] * b[j] for i, j in one))) * step) for one in pairs]


def affine(seed: int, shape: tuple[int, ...], codec: Codec = NEAREST) -> Any:
    return steps(encode(floating(seed, shape), codec))


@pytest.mark.parametrize("seed", range(5))
def test_products_in_fractions(seed: int) -> None:
    """x1, e4 and gW of a linear layer; the gradients each read their own copy of the error."""
    n, c, o = 3, 5, 4
    x, w = affine(seed, (n, c)), affine(seed + 10, (o, c))
    e = Bifurcated(affine(seed + 20, (n, o)), affine(seed + 30, (n, o), WIDE))
    y, (dx, dw) = run(linear, x, w, error=e)
    forward = [[(i * c + k, j * c + k) for k in range(c)] for i in range(n) for j in range(o)]
    assert values(y) == by_hand(x, w, forward)
    down = [[(i * o + j, j * c + k) for j in range(o)] for i in range(n) for k in range(c)]
    assert values(dx) == by_hand(e.down, w, down)
    up = [[(i * o + j, i * c + k) for i in range(n)] for j in range(o) for k in range(c)]
    assert values(dw) == by_hand(e.weight, x, up)


def test_a_convolution_of_points_is_the_linear_layer() -> None:
    x, w = affine(1, (3, 5)), affine(2, (4, 5))
    e = Bifurcated(affine(3, (3, 4)), affine(4, (3, 4), WIDE))
    flat = run(linear, x, w, error=e)

    def points(one: Any, shape: tuple[int, ...]) -> Any:
        codes = one.codes.codes.reshape(shape)
        return type(one)(type(one.codes)(codes, 0, bound=one.codes.bound), one.scale, one.bits)

    again = Bifurcated(*(points(one, (3, 1, 1, 4)) for one in e))
    y, (dx, dw) = run(conv2d, points(x, (3, 1, 1, 5)), points(w, (4, 5, 1, 1)), error=again)
    for one, other in zip((flat[0], *flat[1]), (y, dx, dw), strict=True):
        assert one.tobytes() == other.tobytes()


def test_words_of_an_error_are_those_of_its_name() -> None:
    """Word i of 'fc2/e3' in this step rounds element i."""
    run, recorder = run_of("mlp", 3), Recorder("fc2/e3")
    run.method.set(observers=[recorder])
    run.train(2)
    event = recorder.events["fc2/e3"]
    assert event.words is not None and event.step == 1
    assert event.words.tolist() == words(run.seed, 1, "fc2/e3", event.source.size)


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2])
def test_threads_do_not_change_a_bit(n: int) -> None:
    with threads(n):
        assert [differences(one) for one in first_steps(run_of("lenet", 7), "lenet", 2)] == [[], []]


def test_what_it_refuses() -> None:
    with pytest.raises(ConfigError, match=r"banner: its tape holds 8 bits an element already: saved\.bits"):
        methods.make("banner", **{"saved.bits": 4})
    with pytest.raises(ConfigError, match="unknown key of method 'banner' 'bits'"):
        methods.make("banner", bits=4)


def test_faults_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the library: gW of the 8-bit error, e1 to nearest, a scale of one operand."""

    def seen() -> list[str]:
        return differences(first_steps(run_of("mlp", 1), "mlp")[0])

    assert seen() == []
    with monkeypatch.context() as patch:
        patch.setattr(lib, "Bifurcated", lambda down, weight: Bifurcated(down, down))
        assert "fc2/gW" in seen()
    with monkeypatch.context() as patch:
        patch.setattr(lib, "STOCHASTIC", NEAREST)
        assert any(bad.startswith("bn1/e1") for bad in seen())
