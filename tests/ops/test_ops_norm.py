"""batch_norm: forward and the full derivative equal the oracle's; running statistics and inference."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intnet import spec as oracle
from intnet.autograd import Tensor
from intnet.errors import ContainerError, ShapeError
from intnet.exact.expressions import Exact
from intnet.exact.quantize import quantize
from intnet.layers import BatchNorm2d
from intnet.methods import Float32, Wageubn
from intnet.numbers.formats import Direct, Flag, Shift
from intnet.numbers.qtensor import QTensor
from intnet.ops import batch_norm
from intnet.ops import norm as module
from intnet.spec import batch_norm as norm
from intnet.spec import formats, power, round_sqrt
from intnet.spec.float32 import add32, batch_dot32, batch_sum32, dot32, mul32, sum32, to_float32
from tests.support.opcheck import fixed, floating, integer, run, stored, tensor, threads, values

SEEDS = st.integers(0, 2**32)
SHAPES = st.sampled_from([(2, 3, 3, 2), (1, 5, 2, 3), (7, 4), (1, 1), (2, 1, 1, 5), (33, 1)])


class Hooks:
    """The quantizers of WAGEUBN for a batch norm on its own; keeps what it rounded."""

    def __init__(self) -> None:
        self.seen: dict[str, Any] = {}

    def act(self, path: str, value: Any) -> Any:
        self.seen[path] = quantize(value, Direct(16))
        return self.seen[path]

    def err(self, path: str, value: Any) -> Any:
        lsb = value.exponent - 16
        self.seen[path] = value if path == "e2" else quantize(value, Direct(16, lsb=lsb))
        return self.seen[path]


def affine(seed: int, channels: int) -> tuple[QTensor, QTensor]:
    return integer(seed, (channels,), 9, -7), integer(seed + 1, (channels,), 9, -7)


# -- integers -----------------------------------------------------------------------------------


@pytest.mark.slow
@given(
    shape=SHAPES, bits=st.sampled_from([2, 8, 18, 30]), exponent=st.sampled_from([-30, -22, -14, -7, 0]),
    limits=st.booleans(), e_exponent=st.integers(-50, 5), seed=SEEDS,
)  # fmt: skip
def test_integer_batch_norm(
    shape: tuple[int, ...], bits: int, exponent: int, limits: bool, e_exponent: int, seed: int
) -> None:
    x1, (gamma, beta) = integer(seed, shape, bits, exponent, limits), affine(seed + 1, shape[-1])
    e1, hooks = integer(seed + 3, shape, 8, e_exponent), Hooks()
    x3, (dx1, dgamma, dbeta) = run(batch_norm, x1, gamma, beta, error=e1, act=hooks.act, err=hooks.err)
    want = norm.batch_norm(fixed(x1).real())
    assert {path: fixed(hooks.seen[path]) for path in ("mu", "sigma", "x2")} == want._asdict()
    assert fixed(x3.to_qtensor()) == norm.scale_shift(want.x2, fixed(gamma), fixed(beta))
    e2 = norm.scale_error(fixed(e1), fixed(gamma))
    assert fixed(hooks.seen["e2"].to_qtensor()) == e2
    back = norm.batch_norm_grad(e2, want.x2, want.sigma)
    assert (fixed(hooks.seen["m1"]), fixed(hooks.seen["m2"])) == (back.m1, back.m2)
    assert values(dx1) == back.dx1.values
    assert fixed(dgamma) == norm.gamma_grad(fixed(e1), want.x2)
    assert fixed(dbeta) == norm.beta_grad(fixed(e1))
    for quantizer, format in ((Flag(8), formats.Flag(8)), (Shift(16), formats.Shift(16))):
        q = formats.quantize(back.dx1.values, format)
        got = quantize(dx1, quantizer)
        assert fixed(got) == oracle.Fixed(shape, *q[:2])
        assert got.status is not None and got.status.saturated == q.saturated


def test_a_constant_channel_has_no_deviation() -> None:
    x1 = QTensor(np.full((2, 3, 3, 2), 2**20 + 1), -14)
    hooks, (gamma, beta) = Hooks(), affine(1, 2)
    x3, _ = run(batch_norm, x1, gamma, beta, act=hooks.act, err=hooks.err)
    assert hooks.seen["sigma"].codes.tolist() == [0, 0]
    assert not hooks.seen["x2"].codes.any()
    assert values(x3) == values(beta) * 18


def test_the_variance_is_around_the_unrounded_mean() -> None:
    """Mean 2^-17 rounds to 0; the variance about it is 2^-34, about 0 it would be 2^-33."""
    x1, hooks = QTensor(np.array([[0], [1]]), -16), Hooks()
    one = QTensor(np.array([128]), -7)
    run(batch_norm, x1, one, one, act=hooks.act, err=hooks.err)
    seen = {path: q.codes.reshape(-1).tolist() for path, q in hooks.seen.items()}
    assert seen == {"mu": [0], "sigma": [0], "x2": [0, 2**14]}


@pytest.mark.parametrize(("bits", "rows"), [(32, 7), (36, 9), (39, 5)])
def test_statistics_of_wide_inputs(bits: int, rows: int) -> None:
    """Squares beyond int64 are summed in two limbs."""
    for limits in (False, True):
        x1, hooks = integer(bits, (rows, 3), bits, -30, limits), Hooks()
        gamma, beta = affine(1, 3)
        run(batch_norm, x1, gamma, beta, act=hooks.act, err=hooks.err)
        want = norm.batch_norm(fixed(x1).real())
        assert {path: fixed(q) for path, q in hooks.seen.items()} == want._asdict()


@pytest.mark.parametrize(("bits", "message"), [(48, "pass two limbs"), (62, "do not fit int64")])
def test_statistics_beyond_every_container_are_refused(bits: int, message: str) -> None:
    x1, hooks, (gamma, beta) = integer(1, (3, 2), bits, -30, limits=True), Hooks(), affine(1, 2)
    with pytest.raises(ContainerError, match=message):
        run(batch_norm, x1, gamma, beta, act=hooks.act, err=hooks.err)


def test_batch_norm_of_an_exact_value_and_error() -> None:
    """A convolution with a bias, and an error that is a join of two branches."""
    shape = (3, 2, 2, 2)
    x1 = Exact([(integer(1, shape, 16), 1)], -14, np.array([3, -5]))
    e1 = Exact([(integer(2, shape, 8), 4), (integer(3, shape, 8), 1)], -20)
    (gamma, beta), hooks = affine(5, 2), Hooks()
    _, (dx1, dgamma, dbeta) = run(batch_norm, x1, gamma, beta, error=e1, act=hooks.act, err=hooks.err)
    want = norm.batch_norm(oracle.Tensor(shape, values(x1)))
    plain = fixed(e1.to_qtensor())
    back = norm.batch_norm_grad(norm.scale_error(plain, fixed(gamma)), want.x2, want.sigma)
    assert values(dx1) == back.dx1.values
    assert (fixed(dgamma), fixed(dbeta)) == (norm.gamma_grad(plain, want.x2), norm.beta_grad(plain))


@pytest.mark.slow
def test_threads_do_not_change_a_bit() -> None:
    x1, (gamma, beta), e1 = integer(1, (70, 300, 3), 18, -14), affine(2, 3), integer(3, (70, 300, 3), 8, -30)
    fx, fg, fb, fe = (floating(s, shape) for s, shape in enumerate(((70, 300, 3), (3,), (3,), (70, 300, 3))))
    results = []
    for n in (1, 2):
        with threads(n):
            hooks = Hooks()
            out, grads = run(batch_norm, x1, gamma, beta, error=e1, act=hooks.act, err=hooks.err)
            quick = [quantize(v, Flag(8)).codes.tobytes() for v in (out, *grads)]
            out, grads = run(batch_norm, fx, fg, fb, error=fe, act=same, err=same)
            results.append(quick + [v.tobytes() for v in (out, *grads)])
    assert results[0] == results[1]


# -- float32 ------------------------------------------------------------------------------------


def same(path: str, value: Any) -> Any:
    return value


def root32(v: Fraction) -> Fraction:
    """The correctly rounded float32 square root of a positive float32."""
    exponent = 0
    while v * power(-2 * exponent) >= 2**48:
        exponent += 1
    while v * power(-2 * exponent) < 2**46:
        exponent -= 1
    return round_sqrt(v * power(-2 * exponent)) * power(exponent)


@pytest.mark.slow
@given(shape=SHAPES, exponent=st.integers(-10, 10), seed=SEEDS)
def test_float_batch_norm(shape: tuple[int, ...], exponent: int, seed: int) -> None:
    """Every operation one rounding, in the order of the formulas."""
    channels, n, per_image = shape[-1], int(np.prod(shape[:-1])), int(np.prod(shape[1:-1]))
    x = floating(seed, shape, exponent)
    gamma, beta = floating(seed + 1, (channels,)), floating(7, (channels,))
    e, eps = floating(seed + 2, shape, -8), to_float32(Fraction(float(np.float32(1e-5))))
    y, (dx, dgamma, dbeta) = run(batch_norm, x, gamma, beta, error=e, act=same, err=same)
    for c in range(channels):
        xs, es, g, b = tensor(x).values[c::channels], tensor(e).values[c::channels], gamma[c], beta[c]
        g, b = Fraction(float(g)), Fraction(float(b))
        mean = to_float32(batch_sum32(xs, per_image) / n)
        centred = [add32(v, -mean) for v in xs]
        variance = to_float32(batch_dot32(centred, centred, per_image) / n)
        r = to_float32(1 / root32(add32(variance, eps)))
        x2 = [mul32(v, r) for v in centred]
        assert tensor(y).values[c::channels] == [add32(mul32(v, g), b) for v in x2]
        sum_e, sum_ex = batch_sum32(es, per_image), batch_dot32(es, x2, per_image)
        assert (Fraction(float(dbeta[c])), Fraction(float(dgamma[c]))) == (sum_e, sum_ex)
        m1, m2, slope = to_float32(sum_e / n), to_float32(sum_ex / n), mul32(g, r)
        inner = [add32(add32(v, -m1), -mul32(w, m2)) for v, w in zip(es, x2, strict=True)]
        assert tensor(dx).values[c::channels] == [mul32(v, slope) for v in inner]


# -- running statistics and inference -----------------------------------------------------------


def layer_and_method(**options: Any) -> tuple[BatchNorm2d, Wageubn]:
    layer, method = BatchNorm2d(3), Wageubn(**options)
    layer.name = "bn1"
    method.start([layer], 1)
    return layer, method


def test_running_statistics_and_inference() -> None:
    layer, method = layer_and_method()
    mean, variance = [0] * 3, [2**31] * 3
    for step in range(12):
        spread = 18 if step < 6 else 3
        x1 = integer(step, (2, 3, 3, 3), spread, -14)
        layer(Tensor(x1), method)
        want = norm.batch_norm(fixed(x1).real())
        pairs = zip(mean, want.mu.real().values, strict=True)
        mean = [norm.running_update(r, v) for r, v in pairs]
        pairs = zip(variance, want.sigma.real().values, strict=True)
        variance = [norm.running_update(r, v**2) for r, v in pairs]
        assert fixed(layer.buffers["running_mean"]) == oracle.Fixed((3,), mean, -31)
        assert fixed(layer.buffers["running_var"]) == oracle.Fixed((3,), variance, -31)
        check_inference(layer, method, step, mean, variance)


def check_inference(
    layer: BatchNorm2d, method: Wageubn, seed: int, mean: list[int], variance: list[int]
) -> None:
    """mu = Q(running mean), sigma = Q(sqrt(running variance)): each rounded again, once."""
    method.set(training=False)
    x1 = integer(seed + 100, (2, 3, 3, 3), 20, -14)
    before = {key: value.codes.tolist() for key, value in layer.buffers.items()}
    x3 = layer(Tensor(x1), method).value
    method.set(training=True)
    scale = Fraction(2**15, 2**31)
    mu = oracle.Fixed((3,), [oracle.round_fraction(r * scale) for r in mean], -15)
    sigma = oracle.Fixed((3,), [round_sqrt(r * scale * 2**15) for r in variance], -15)
    x2 = norm.normalize(fixed(x1).real(), mu, sigma)
    gamma, beta = (layers_affine(p.value) for p in layer.parameters)
    assert fixed(x3.to_qtensor()) == norm.scale_shift(x2, gamma, beta)
    assert {key: value.codes.tolist() for key, value in layer.buffers.items()} == before


def layers_affine(q: QTensor) -> oracle.Fixed:
    return stored(fixed(q).real(), formats.Direct(8))


def test_inference_by_the_batch_itself() -> None:
    layer, method = layer_and_method(statistics="batch")
    method.set(training=False)
    x1 = integer(1, (2, 3, 3, 3), 18, -14)
    x3 = layer(Tensor(x1), method).value
    gamma, beta = (layers_affine(p.value) for p in layer.parameters)
    assert fixed(x3.to_qtensor()) == norm.scale_shift(norm.batch_norm(fixed(x1).real()).x2, gamma, beta)
    assert layer.buffers == {}


def test_float_running_statistics() -> None:
    """r <- r + (x - r) / 8 in float32, from mean 0 and variance 1."""
    layer, method = BatchNorm2d(2), Float32()
    layer.name = "bn1"
    method.start([layer], 1)
    mean, variance = [Fraction(0)] * 2, [Fraction(1)] * 2
    for step in range(3):
        x = floating(step, (5, 2), 3)
        layer(Tensor(x), method)
        for c in range(2):
            xs = tensor(x).values[c::2]
            m = to_float32(sum32(xs) / 5)
            centred = [add32(v, -m) for v in xs]
            v = to_float32(dot32(centred, centred) / 5)
            mean[c] = add32(mean[c], mul32(add32(m, -mean[c]), Fraction(1, 8)))
            variance[c] = add32(variance[c], mul32(add32(v, -variance[c]), Fraction(1, 8)))
        assert values(layer.buffers["running_mean"]) == mean
        assert values(layer.buffers["running_var"]) == variance


def test_inference_before_any_step_is_refused() -> None:
    layer, method = layer_and_method()
    method.set(training=False)
    with pytest.raises(ShapeError, match="bn1: no running statistics yet; train a step first"):
        layer(Tensor(integer(1, (2, 3))), method)


def test_a_wrong_channel_count_is_named() -> None:
    three = floating(2, (3,))
    for x, (gamma, beta) in ((integer(1, (2, 5)), affine(1, 3)), (floating(1, (2, 5)), (three, three))):
        with pytest.raises(ShapeError, match=r"batch_norm: input \(2, 5\) has 5 channels, gamma 3"):
            batch_norm(Tensor(x), Tensor(gamma), Tensor(beta), act=same, err=same)


def test_exponents_too_far_apart_are_named() -> None:
    far = QTensor(np.ones(3, np.int32), 0, bound=1 << 48)
    with pytest.raises(ContainerError, match=r"bn1/sigma: codes up to 281474976710656 shifted by 15 bits"):
        module.denominator(far, "bn1")
    near = QTensor(np.ones(3, np.int32), -60)
    with pytest.raises(ContainerError, match="bn1/mu: codes up to"):
        module.normalized(near, far, near, "bn1")
    with pytest.raises(ContainerError, match="bn1/beta: codes up to"):
        module.scaled(near, QTensor(np.ones(3, np.int32), -7), far, "bn1")
