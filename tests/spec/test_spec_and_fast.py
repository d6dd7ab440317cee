"""The fast code against the definition, == on corners and random numbers, where no other test has them."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from intnet import datasets, layers, methods, spec
from intnet.datasets.augment import Augment
from intnet.datasets.batches import Batches
from intnet.machine.jit import njit
from intnet.numbers import fp32, rng
from intnet.numbers.qtensor import QTensor
from intnet.ops import softmax_cross_entropy
from intnet.ops.kernels import curves
from intnet.spec import digest as states
from intnet.training import state
from tests.support import cases
from tests.support.opcheck import fixed, integer, run, tensor, values

PATTERNS = [
    0, 1, 2**22, 2**23 - 1, 2**23, 2**24 + 5, 0x33800000, 0x3E800000, 0x3EFFFFFF, 0x3F000000, 0x3F000001,
    0x3F317218, 0x3F7FFFFF, 0x3F800000, 0x3FB504F3, 0x3FB504F4, 0x40000000, 0x41A00000, 0x42B00000,
    0x42B17218, 0x42CFF1B5, 0x7F7FFFFF,
]  # fmt: skip


def float32s(count: int) -> np.ndarray:
    """Corners and random bit patterns of both signs, none infinite."""
    source = np.random.default_rng(11)
    bits = np.concatenate([np.array(PATTERNS, np.uint32), source.integers(0, 0x7F800000, count, np.uint32)])
    near = source.standard_normal(count).astype(np.float32) * np.float32(8)
    positive = np.concatenate([bits.view(np.float32), near])
    return np.concatenate([positive, -positive])


def outcome(function: Any, x: Fraction) -> float:
    """As NumPy has it: what is beyond float32 is infinite, a logarithm at 0 minus infinity."""
    try:
        return float(function(x))
    except OverflowError:
        return -np.inf if function is spec.elementary.log32 else np.inf


@pytest.mark.parametrize("name", ["exp", "log", "tanh"])
def test_functions_of_float32(name: str) -> None:
    xs = float32s(400)
    xs = xs[xs >= 0] if name == "log" else xs
    rule = getattr(spec.elementary, f"{name}32")
    assert getattr(fp32, name)(xs).tolist() == [outcome(rule, Fraction(float(x))) for x in xs]


def test_functions_of_float64() -> None:
    tanh64, decay64 = njit(fp32.tanh64), njit(fp32.decay64)
    for x in [*(float(v) for v in float32s(100)), 709.78, -745.1, 1e-310, 0.5, -0.5, 19.999]:
        assert fp32.exp64(x) == spec.elementary.exp64(x)
        assert tanh64(x) == spec.elementary.tanh64(x)
        assert decay64(x) == spec.elementary.decay64(x)
        if x:
            assert fp32.log64(abs(x)) == spec.elementary.log64(abs(x))


@pytest.mark.parametrize("name", ["sigmoid", "silu", "silu_slope"])
def test_curves_of_float32(name: str) -> None:
    xs = np.array([x for x in float32s(300) if abs(x) < 1e30], np.float32)
    got = np.empty_like(xs)
    getattr(curves, name)(xs, got)
    rule = getattr(spec.elementary, {"silu_slope": "slope32"}.get(name, f"{name}32"))
    assert got.tolist() == [float(rule(Fraction(float(x)))) for x in xs]


def test_errors_of_curves() -> None:
    x, e = (cases.random_float32(seed, 60, 2) for seed in (1, 2))
    xs, es, got = np.array(x, np.float32), np.array(e, np.float32), np.empty(60, np.float32)
    curves.silu_error(es, xs, got)
    assert values(got) == [spec.elementary.silu_error32(a, b) for a, b in zip(e, x, strict=True)]
    curves.sigmoid_error(es, xs, got)
    assert values(got) == [spec.elementary.sigmoid_error32(a, b) for a, b in zip(e, x, strict=True)]


def test_normals() -> None:
    source = np.random.default_rng(3)
    drawn = np.concatenate([[0, 1, 2, 2**31 - 1, 2**31, 2**32 - 1], source.integers(0, 2**32, 2000)]).astype(
        np.uint32
    )
    assert fp32.normal(drawn).tolist() == [spec.elementary.normal64(int(word)) for word in drawn]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize(("n", "classes"), [(1, 1), (3, 7), (16, 10)])
def test_loss(n: int, classes: int, smoothing: float) -> None:
    labels = cases.random_codes(n, n, 0, classes - 1)
    how = {"labels": np.array(labels), "smoothing": smoothing, "error": np.float32(1)}
    logits = np.array(cases.random_float32(n, n * classes, 4), np.float32).reshape(n, classes)
    loss, (error,) = run(softmax_cross_entropy, logits, **how)
    want = spec.loss.cross_entropy(tensor(logits), labels, smoothing)
    assert (Fraction(float(loss)), values(error)) == (want.loss, want.error.values)
    q = integer(n, (n, classes), 40, -30)
    loss, (error,) = run(softmax_cross_entropy, q, **how)
    want = spec.loss.cross_entropy(fixed(q), labels, smoothing)
    assert (Fraction(float(loss)), values(error)) == (want.loss, want.error.values)


def test_loss_over_many_groups() -> None:
    n, labels = 16 * 5 + 3, cases.random_codes(4, 83, 0, 4)
    logits = np.array(cases.random_float32(9, n * 5, 5), np.float32).reshape(n, 5)
    loss, (error,) = run(softmax_cross_entropy, logits, labels=np.array(labels), error=np.float32(1))
    want = spec.loss.cross_entropy(tensor(logits), labels)
    assert (Fraction(float(loss)), values(error)) == (want.loss, want.error.values)


def test_first_values() -> None:
    conv, norm = layers.Conv2d(4, 6, (3, 2), groups=2, bias=True), layers.BatchNorm2d(6)
    conv.name, norm.name = "layer1.0.conv1", "bn1"
    method = methods.make("float32")
    method.start([conv, norm], 2**40 + 3)
    for layer in (conv, norm):
        for p in layer.parameters:
            want = spec.initial.first_value(2**40 + 3, layer.name, p.symbol, p.shape, p.start, p.fan_in)
            assert tensor(p.value) == want


@pytest.mark.slow
@pytest.mark.parametrize(("crop", "flip"), [(0, False), (2, True)])
def test_batches_of_the_digits(crop: int, flip: bool) -> None:
    fast, defined = datasets.load("digits"), spec.data.digits()
    assert [image.tobytes() for image in fast.train_images] == defined.train_images
    assert [image.tobytes() for image in fast.test_images] == defined.test_images
    assert fast.train_labels.tolist() == defined.train_labels
    assert fast.test_labels.tolist() == defined.test_labels
    assert (fast.image_shape, fast.exponent, fast.classes) == (
        defined.shape,
        defined.exponent,
        defined.classes,
    )
    for part, whole, size in ((fast.first(37), defined.first(37), 10), (fast, defined, 500)):
        batches = Batches(part, size, 7, Augment(crop, flip))
        for step in (0, batches.per_epoch - 1, batches.per_epoch, 2 * batches.per_epoch + 1):
            images, labels = batches(step)
            x, want = spec.data.batch(whole, 7, step, size, crop, flip)
            assert (images.shape, images.reshape(-1).tolist(), labels.tolist()) == (x.shape, x.codes, want)


def test_digests() -> None:
    source = np.random.default_rng(1)
    fast: dict[str, Any] = {
        f"q{kind.__name__}": QTensor(
            source.integers(np.iinfo(kind).min, np.iinfo(kind).max, (3, 2), kind), -7
        )
        for kind in (np.int8, np.int16, np.int32, np.int64)
    }
    fast |= {
        "exponents": QTensor(np.array([[1, 2], [3, 4]], np.int8), np.array([[-3], [5]])),
        "floats": np.array(cases.random_float32(1, 9), np.float32).reshape(3, 1, 3),
        "doubles": np.array([0.1, -(2.0**-1074)]),
        "bits": np.array([0, 2, 255], np.uint8),
        "scalar": QTensor(np.array(-5, np.int32), 0),
    }
    defined: dict[str, states.Words | states.Floats] = {}
    for name, value in fast.items():
        array, exponent = state.parts(value)
        if isinstance(exponent, np.ndarray):
            exponent = states.Exponents(exponent.shape, exponent.reshape(-1).tolist())
        numbers = array.reshape(-1).tolist()
        made = states.Floats if array.dtype.kind == "f" else states.Words
        rest = () if made is states.Floats else (exponent,)
        defined[name] = made(array.dtype.name, array.shape, numbers, *rest)
    assert states.digest(defined) == state.digest(fast)
    defined["scalar"] = states.Words("int32", (), [-4], 0)
    assert states.digest(defined) != state.digest(fast)


def test_one_word() -> None:
    drawn = rng.words(9, 5, rng.stream("fc1/gW"), 40)
    assert [spec.words.word(9, 5, "fc1/gW", i) for i in range(40)] == drawn.tolist()
    assert spec.words.word(9, 5, "fc1/gW", 7, bits=9) == int(drawn[7]) >> 23


def test_folded_batch_norm() -> None:
    conv, norm = layers.Conv2d(1, 5, 1), layers.BatchNorm2d(5)
    conv.name, norm.name = "conv1", "bn1"
    for seed, spread in ((1, 0), (2, -20), (3, 12)):
        method = methods.make("adapt")
        method.start([conv, norm], seed)
        mean, variance = cases.random_float32(seed, 5, spread), cases.random_float32(seed + 9, 5, spread)
        variance = [abs(v) for v in variance]
        norm.buffers |= {
            "running_mean": np.array(mean, np.float32),
            "running_var": np.array(variance, np.float32),
        }
        method.set(training=False)
        scale, offset = method.fold(norm)
        gamma, beta = (values(method.weight(norm, p)) for p in norm.parameters)
        fl = int(norm.buffers["precision"].codes[1])
        assert spec.float_batch_norm.folded(gamma, beta, mean, variance, fl) == (fixed(scale), fixed(offset))
