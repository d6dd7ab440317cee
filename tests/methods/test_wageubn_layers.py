"""Every kind of layer in one model under WAGEUBN: each stored tensor follows from those it reads.

The model has what the residual net of `test_wageubn_step` has not: tanh, overlapping max pooling, average
pooling, dropout, groups, strides of two sizes, hidden linear layers and hidden biases. Values recorded in
one step are recomputed by the oracle's pieces, one layer at a time.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from intnet import spec as oracle
from intnet.methods import Wageubn
from intnet.methods.trace import Recorder
from intnet.spec import Fixed, convolution, elementwise, pooling, power
from intnet.spec import batch_norm as norm
from intnet.spec import formats as qz
from intnet.spec import words as random
from intnet.spec.float32 import to_float32
from intnet.spec.products import bias_gradient
from intnet.training.train import Run
from tests.support import cases
from tests.support import wageubn_layers as layers
from tests.support.opcheck import fixed, values
from tests.support.two_worlds import random_images
from tests.support.zoo import Zoo

SEED, STEP, N = 3, 0, 4
WINDOW = {"stride": (1, 2), "padding": (1, 0), "groups": 2}
MAX = {"kernel": (3, 3), "stride": (2, 2), "padding": (1, 1)}
AVG = {"kernel": (2, 2), "stride": (1, 1), "padding": (1, 1)}


class Recorded:
    """One step of the model, its parameters before it, and the trace in the oracle's view."""

    def __init__(self, **options: Any) -> None:
        model, method = Zoo(), Wageubn(**options)
        run = Run(model, method, random_images(model, N)[0], N, SEED)
        for _, layer, parameter in model.all_parameters():  # biases start at zero: move them
            if parameter.symbol in ("b", "beta") and not layer.edge:
                parameter.value.codes[:] = cases.random_codes(7, parameter.value.size, -(2**21), 2**21)
        self.before = {f"{layer.name}/{p.symbol}": p.value for _, layer, p in model.all_parameters()}
        self.recorder = Recorder("*")
        method.set(observers=[self.recorder])
        run.train_step()

    def __getitem__(self, name: str) -> Fixed:
        return fixed(self.recorder[name])

    def values(self, name: str) -> list[Fraction]:
        return values(self.recorder[name])


@pytest.fixture(scope="module", params=["flag8", "16"])
def seen(request: pytest.FixtureRequest) -> Recorded:
    return Recorded(e2=request.param)


def q(shape: tuple[int, ...], quantized: qz.Quantized) -> Fixed:
    return layers.as_fixed(shape, quantized)


def with_bias(x: oracle.Tensor, exponent: int, bias: Fixed) -> Fixed:
    raised = [code * 2 ** (bias.exponent - exponent) for code in bias.codes]
    return Fixed(x.shape, [v + raised[i % len(raised)] for i, v in enumerate(x.values)], exponent)


def check_update(seen: Recorded, layer: str, symbol: str, lr: int = 26) -> None:
    """From g_q to the new stored word; the first step starts from zero momentum."""
    old, suffix = fixed(seen.before[f"{layer}/{symbol}"]), "" if symbol == "W" else f"_{symbol}"
    new = layers.update(old.codes, [0] * len(old.codes), seen[f"{layer}/g{symbol}q"].codes, lr, symbol == "W")
    assert seen[f"{layer}/Acc{suffix}"] == Fixed(old.shape, new.acc, -14)
    assert seen[f"{layer}/Accq{suffix}"] == Fixed(old.shape, new.accq, -12)
    assert seen[f"{layer}/{symbol}"] == Fixed(old.shape, new.w, -23)


def check_weight_gradient(seen: Recorded, layer: str, exact: oracle.Tensor) -> None:
    e3, x0 = seen[f"{layer}/e3"], seen[f"{layer}/x0"]
    assert seen[f"{layer}/gW"] == Fixed(exact.shape, exact.values, e3.exponent + x0.exponent)
    words = random.words(SEED, STEP, f"{layer}/gW", len(exact.values))
    want = qz.quantize(seen.values(f"{layer}/gW"), qz.Constant(), "stochastic", words)
    assert seen[f"{layer}/gWq"] == q(exact.shape, want)
    gb = bias_gradient(e3)
    assert seen[f"{layer}/gb"] == gb
    assert seen[f"{layer}/gbq"] == q(gb.shape, qz.quantize(gb.real().values, qz.Direct(15)))
    for symbol in ("W", "b"):
        check_update(seen, layer, symbol)


# -- the layers, first to last --------------------------------------------------------------------


@pytest.mark.slow
def test_tanh(seen: Recorded) -> None:
    x3 = seen["bn1/x3"]
    codes = [oracle.curves.curve_round("tanh", v, -7) for v in x3.real().values]
    assert seen["tanh1/x4"] == Fixed(x3.shape, codes, -7)
    winners = pooling.max_pool(seen["tanh1/x4"].ints(), **MAX)[1]
    error = pooling.max_pool_grad(seen["conv2/e4"].real(), winners, x3.shape)
    assert seen["tanh1/e0"] == q(x3.shape, qz.quantize(error.values, qz.Shift(8)))
    slopes = [1 - v**2 for v in seen.values("tanh1/x4")]
    want = [e * s for e, s in zip(seen.values("tanh1/e0"), slopes, strict=True)]
    assert seen.values("tanh1/e1") == seen.values("bn1/e1") == want


def test_grouped_convolution_with_bias(seen: Recorded) -> None:
    pooled = pooling.max_pool(seen["tanh1/x4"].ints(), **MAX)[0]
    x0, wq, e3 = seen["conv2/x0"], seen["conv2/Wq"], seen["conv2/e3"]
    assert x0 == Fixed(pooled.shape, pooled.values, -7)
    assert wq == q(wq.shape, layers.weight_q(fixed(seen.before["conv2/W"])))
    assert seen["conv2/bq"] == q((6,), layers.affine_q(fixed(seen.before["conv2/b"])))
    assert any(seen["conv2/bq"].codes)
    product = convolution.conv2d(x0.ints(), wq.ints(), **WINDOW)
    assert seen["conv2/x1"] == with_bias(product, -14, seen["conv2/bq"])
    assert seen["conv2/e4"] == layers.conv_error(e3, wq, x0.shape, **WINDOW)
    exact = convolution.conv2d_weight_grad(e3.ints(), x0.ints(), wq.shape, **WINDOW)
    check_weight_gradient(seen, "conv2", exact)


@pytest.mark.slow
@pytest.mark.parametrize(("bn", "weighted"), [("bn1", "conv1"), ("bn2", "conv2"), ("bn3", "fc1")])
def test_batch_norm(seen: Recorded, bn: str, weighted: str) -> None:
    x1, e1 = seen[f"{weighted}/x1"], seen[f"{bn}/e1"]
    for symbol in ("gamma", "beta"):
        stored = fixed(seen.before[f"{bn}/{symbol}"])
        assert seen[f"{bn}/{symbol}q"] == q(stored.shape, layers.affine_q(stored))
        check_update(seen, bn, symbol)
    want = norm.batch_norm(x1.real())
    assert (seen[f"{bn}/mu"], seen[f"{bn}/sigma"], seen[f"{bn}/x2"]) == want
    assert seen[f"{bn}/x3"] == norm.scale_shift(want.x2, seen[f"{bn}/gammaq"], seen[f"{bn}/betaq"])
    e2 = norm.scale_error(e1, seen[f"{bn}/gammaq"])
    back = norm.batch_norm_grad(e2, want.x2, want.sigma)
    assert (seen[f"{bn}/e2"], seen[f"{bn}/m1"], seen[f"{bn}/m2"]) == (e2, back.m1, back.m2)
    assert seen[f"{bn}/ggamma"] == norm.gamma_grad(e1, want.x2)
    assert seen[f"{bn}/gbeta"] == norm.beta_grad(e1)
    if bn == "bn1":
        assert seen.values("conv1/e3") == [to_float32(v) for v in back.dx1.values]
    else:
        e2_width = "flag8" if seen.recorder.events["conv2/e3"].format.bits == 9 else "16"  # type: ignore[union-attr]
        assert seen[f"{weighted}/e3"] == q(x1.shape, layers.error_q(back.dx1, e2_width))


def test_relu_and_average_pool(seen: Recorded) -> None:
    x3 = seen["bn2/x3"]
    assert seen["relu2/x4"] == layers.activation(x3)
    windows = pooling.windows_of(x3.shape, **AVG)
    pooled = pooling.pooled(seen["relu2/x4"].real(), windows)
    assert seen["pool2/x4"] == q(pooled.shape, qz.quantize(pooled.values, qz.Direct(8)))
    error = pooling.pooled_grad(seen["pool2/e0"].real(), windows)
    assert seen["relu2/e0"] == q(x3.shape, qz.quantize(error.values, qz.Shift(8)))
    assert seen["relu2/e1"] == seen["bn2/e1"] == layers.mask(seen["relu2/e0"], x3)


def test_dropout(seen: Recorded) -> None:
    x, keep = seen["pool2/x4"], Fraction(7, 10)
    words = random.words(SEED, STEP, "drop/mask", len(x.codes))
    want = [elementwise.dropout_at(v, word, keep) for v, word in zip(x.real().values, words, strict=True)]
    assert seen["drop/x4"] == q(x.shape, qz.quantize(want, qz.Direct(8)))
    assert seen["drop/e0"] == q(x.shape, qz.quantize(seen.values("fc1/e4"), qz.Shift(8)))
    pairs = zip(seen.values("drop/e0"), words, strict=True)
    want = [elementwise.dropout_at(v, word, keep) for v, word in pairs]
    assert seen["pool2/e0"] == q(x.shape, qz.quantize(want, qz.Shift(8)))


def test_hidden_linear_with_bias(seen: Recorded) -> None:
    x0, wq, e3 = seen["fc1/x0"], seen["fc1/Wq"], seen["fc1/e3"]
    assert x0 == seen["drop/x4"]._replace(shape=(N, 90))
    assert wq == q(wq.shape, layers.weight_q(fixed(seen.before["fc1/W"])))
    assert seen["fc1/x1"] == with_bias(convolution.conv2d(x0.ints(), wq.ints()), -14, seen["fc1/bq"])
    e4 = convolution.conv2d_input_grad(e3.ints(), wq.ints(), x0.shape)
    assert seen["fc1/e4"] == Fixed(e4.shape, e4.values, e3.exponent + wq.exponent)
    check_weight_gradient(seen, "fc1", convolution.conv2d_weight_grad(e3.ints(), x0.ints(), wq.shape))


def test_the_float_classifier_hands_its_error_to_the_last_relu(seen: Recorded) -> None:
    assert seen.values("fc2/x0") == seen.values("relu3/x4")
    assert seen["relu3/e0"] == q((N, 5), qz.quantize(seen.values("fc2/e4"), qz.Shift(8)))
    assert seen["relu3/e1"] == layers.mask(seen["relu3/e0"], seen["bn3/x3"])


# -- options --------------------------------------------------------------------------------------


def test_weight_decay_is_added_exactly_before_cq() -> None:
    seen = Recorded(weight_decay=5)
    x0, e3 = seen["fc1/x0"], seen["fc1/e3"]
    exact = convolution.conv2d_weight_grad(e3.ints(), x0.ints(), seen["fc1/Wq"].shape)
    gw = [v * power(e3.exponent + x0.exponent) for v in exact.values]
    decayed = [g + w / 32 for g, w in zip(gw, values(seen.before["fc1/W"]), strict=True)]
    assert seen.values("fc1/gW") == decayed != gw
    words = random.words(SEED, STEP, "fc1/gW", len(gw))
    assert seen["fc1/gWq"] == q(exact.shape, qz.quantize(decayed, qz.Constant(), "stochastic", words))
    assert seen["fc1/gb"] == bias_gradient(e3)


def test_saturate_makes_the_nominal_widths_true() -> None:
    """Each direct path keeps its bits and gives up resolution for range, here two bits for activations."""
    seen = Recorded(saturate=2)
    x3, x1 = seen["bn2/x3"], seen["conv2/x1"]
    rectified = list(map(elementwise.relu_at, x3.real().values))
    want = qz.quantize(rectified, qz.FixedPoint(8, 5, overflow="saturate_symmetric"))
    assert seen["relu2/x4"] == q(x3.shape, want)
    mean = [m for m, _ in norm.mean_and_variance(x1.real())]
    assert seen["bn2/mu"] == q((6,), qz.quantize(mean, qz.FixedPoint(16, 11, overflow="saturate_symmetric")))
    want = qz.quantize(values(seen.before["bn2/gamma"]), qz.FixedPoint(8, 6, overflow="saturate_symmetric"))
    assert seen["bn2/gammaq"] == q((6,), want)
    limited = ("x4", "mu", "sigma", "x2", "gammaq", "betaq", "bq", "ggammaq", "gbetaq", "gbq", "Accq", "Wq")
    for name, event in seen.recorder.events.items():
        if event.format is not None and name.split("/")[1].startswith(limited):
            assert event.result.width <= event.format.bits, name
