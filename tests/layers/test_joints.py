"""Joins, squeeze and excitation: each tensor stored under WAGEUBN follows from those it reads; float32."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from intnet.autograd import Tensor
from intnet.errors import PackError, ShapeError
from intnet.inspect.explain import explain
from intnet.inspect.measure import compare
from intnet.inspect.operands import Operands
from intnet.layers import BatchNorm2d, Conv2d, GlobalAvgPool, Linear, SiLU
from intnet.layers.joints import Join, Scale, SqueezeExcitation
from intnet.methods import METHODS, Method, Wageubn, make
from intnet.methods.trace import Recorder
from intnet.models.model import Model
from intnet.packs.layers.capture import Taps
from intnet.spec import Fixed, convolution, pooling, power
from intnet.spec import Tensor as Exact
from intnet.spec import formats as qz
from intnet.spec.curves import curve_bounds, curve_round
from intnet.spec.float32 import dot32, mul32
from intnet.spec.values import exact, joined
from intnet.training.train import Run
from tests.support import cases
from tests.support.opcheck import fixed, values
from tests.support.two_worlds import random_images

N, SEED = 3, 2


class Gated(Model):
    """Images of 5x6x2: a depthwise convolution, excitation, a linear bottleneck, a residual join."""

    def __init__(self) -> None:
        super().__init__("gated", (5, 6, 2), 3)
        self.conv1, self.bn1, self.act1 = Conv2d(2, 4, 3, padding=1), BatchNorm2d(4), SiLU()
        self.conv2, self.bn2 = Conv2d(4, 4, 3, padding=1, groups=4), BatchNorm2d(4)
        self.act2, self.se = SiLU(), SqueezeExcitation(4, 2)
        self.conv3, self.bn3, self.join = Conv2d(4, 4, 1), BatchNorm2d(4), Join()
        self.last, self.pool, self.fc = Join(), GlobalAvgPool(), Linear(4, 3)
        self.finish()

    def forward(self, x: Tensor, method: Method) -> Tensor:
        first = self.act1(self.bn1(self.conv1(x, method), method), method)
        y = self.act2(self.bn2(self.conv2(first, method), method), method)
        y = self.bn3(self.conv3(self.se(y, method), method), method)
        y = self.last(self.join(y, method, first), method)
        return self.fc(self.pool(y, method), method)


def trained(name: str, **options: Any) -> tuple[Run, Recorder]:
    """One step, its trace."""
    model = Gated()
    run, recorder = Run(model, make(name, **options), random_images(model, N)[0], N, SEED), Recorder("*")
    for _, layer, parameter in run.model.all_parameters():  # biases start at zero: move them
        if name == "wageubn" and parameter.symbol == "b" and not layer.edge:
            parameter.value.codes[:] = cases.random_codes(7, parameter.value.size, -(2**22), 2**22)
    run.method.set(observers=[recorder])
    run.train_step()
    return run, recorder


class Trace:
    """One step under WAGEUBN, by name, in the oracle's view."""

    def __init__(self) -> None:
        _, self.recorder = trained("wageubn")

    def __getitem__(self, name: str) -> Fixed:
        return fixed(self.recorder[name])

    def real(self, name: str) -> Exact:
        return self[name].real()


@pytest.fixture(scope="module")
def trace() -> Trace:
    return Trace()


def direct(xs: list[Fraction]) -> list[int]:
    return list(qz.quantize(xs, qz.Direct(8))[0])


def curve(name: str, x: Exact) -> list[int]:
    return [curve_round(name, v, -7) for v in x.values]


def product(a: Exact, b: Exact) -> list[Fraction]:
    return [p * q for p, q in zip(a.values, b.values, strict=True)]


@pytest.mark.slow
def test_silu(trace: Trace) -> None:
    for act, norm in (("act1", "bn1"), ("act2", "bn2"), ("se.activation", "")):
        x3 = trace.real(f"{norm}/x3" if norm else "se.fc1/x1")
        assert trace[f"{act}/x4"].codes == curve("silu", x3)
        assert trace[f"{act}/dx4"].codes == curve("slope", x3)
        e1 = product(trace.real(f"{act}/e0"), trace.real(f"{act}/dx4"))
        assert trace[f"{act}/e1q"][1:] == qz.quantize(e1, qz.Shift(8))[:2]


def test_excitation_on_the_way_forward(trace: Trace) -> None:
    x = trace.real("act2/x4")
    assert trace["se.fc1/x0"].codes == direct(pooling.pooled(x, pooling.adaptive_windows(x.shape, 1)).values)
    for fc in ("se.fc1", "se.fc2"):
        x0, wq, bq = (trace.real(f"{fc}/{path}") for path in ("x0", "Wq", "bq"))
        want = [v + bq.values[i % len(bq.values)] for i, v in enumerate(convolution.conv2d(x0, wq).values)]
        assert trace.real(f"{fc}/x1").values == want
    assert trace["se.scale_activation/x4"].codes == curve("sigmoid", trace.real("se.fc2/x1"))
    s = trace.real("se.scale_activation/x4")
    scaled = [v * s.values[i // 120 * 4 + i % 4] for i, v in enumerate(x.values)]
    assert trace["se.scale/x4"].codes == direct(scaled)


def test_excitation_on_the_way_back(trace: Trace) -> None:
    x, s, e0 = (trace.real(name) for name in ("act2/x4", "se.scale_activation/x4", "se.scale/e0"))
    dots = [
        sum(e0.values[n * 120 + p * 4 + c] * x.values[n * 120 + p * 4 + c] for p in range(30))
        for n in range(N)
        for c in range(4)
    ]
    assert trace["se.scale_activation/e0"][1:] == qz.quantize(dots, qz.Shift(8))[:2]
    slopes = Exact(s.shape, [v * (1 - v) for v in s.values])
    e1 = product(trace.real("se.scale_activation/e0"), slopes)
    assert values(trace.recorder["se.scale_activation/e1"]) == e1
    assert trace["se.fc2/e3"][1:] == qz.quantize(e1, qz.Flag())[:2]
    squeezed = pooling.pooled_grad(trace.real("se.fc1/e4"), pooling.adaptive_windows((N, 5, 6, 4), 1)).values
    assert trace["se.avgpool/e0"][1:] == qz.quantize(squeezed, qz.Shift(8))[:2]
    through = [v * s.values[i // 120 * 4 + i % 4] for i, v in enumerate(e0.values)]
    both = [a + b for a, b in zip(through, trace.real("se.avgpool/e0").values, strict=True)]
    assert trace["act2/e0"][1:] == qz.quantize(both, qz.Shift(8))[:2]


def test_joins(trace: Trace) -> None:
    total = joined(trace["bn3/x3"], trace["act1/x4"])
    assert trace["join/x4"].codes == direct(exact(total))
    assert trace["last/x4"].codes == trace["join/x4"].codes
    assert trace["bn3/e1"] == trace["join/e0"]
    both = joined(trace["conv2/e4"], trace["join/e0"])
    assert trace["act1/e0"][1:] == qz.quantize(exact(both), qz.Shift(8))[:2]


@pytest.mark.slow
@pytest.mark.parametrize("path", ["act1/x4", "act1/dx4", "se.scale_activation/x4"])
def test_curves_are_explained_and_measured(trace: Trace, path: str) -> None:
    event = trace.recorder.events[path]
    index = tuple(size - 1 for size in event.result.shape)
    one = explain(event, index, Operands(trace.recorder.events, Wageubn.SYMBOLS))
    name = {"act1/x4": "silu", "act1/dx4": "slope"}.get(path, "sigmoid")
    x = trace.real("bn1/x3" if path.startswith("act1") else "se.fc2/x1").values[-1]
    low, high = curve_bounds(name, x, 300)
    assert low - Fraction(1, 10**50) <= one.value.value <= high + Fraction(1, 10**50)
    assert one.code == trace[path].codes[-1] == curve_round(name, x, -7)
    scaled, errors = compare(event, event.result)
    assert abs(scaled[-1] - float(low) * 128) < 1e-4 and np.abs(errors).max() <= 0.5001


def test_float32() -> None:
    """The gate's sums in the defined order; the error of the squeezed mean is joined in float32."""
    _, seen = trained("float32")
    x, e0 = values(seen["act2/x4"]), values(seen["se.scale/e0"])
    dots = [
        dot32([e0[n * 120 + p * 4 + c] for p in range(30)], [x[n * 120 + p * 4 + c] for p in range(30)])
        for n in range(N)
        for c in range(4)
    ]
    assert values(seen["se.scale_activation/e0"]) == dots
    s = values(seen["se.scale_activation/x4"])
    assert values(seen["se.scale/x4"]) == [mul32(v, s[i // 120 * 4 + i % 4]) for i, v in enumerate(x)]


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_every_method_trains_and_evaluates_it(name: str) -> None:
    run, _ = trained(name)
    assert np.isfinite(run.train_step().loss)
    assert 0 <= run.evaluate().accuracy <= 1


def test_saturate_limits_the_derivative_to_two_bits_before_the_point() -> None:
    run, seen = trained("wageubn", saturate=2)
    assert isinstance(run.method, Wageubn)
    assert str(seen["act1/dx4"].format) == str(run.method.formats["dx4"])
    assert seen["act1/dx4"].exponent == -6 and power(-6) * 127 > Fraction(11, 10)


def test_what_the_last_pass_gave() -> None:
    run, _ = trained("float32")
    model = run.model
    assert model.se.output_shape == (N, 5, 6, 4) and model.pool.output_shape == (N, 4)
    assert model.blocks["se"] == "se" and list(model.blocks)[:2] == ["conv1", "bn1"]


def test_what_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"Scale: needs factors \(N, C\) beside its images"):
        Scale()(Tensor(np.zeros((1, 2, 2, 3), np.float32)), make("float32"))
    run, _ = trained("float32")
    join = run.model.join
    join.__class__ = type("Difference", (Join,), {})  # of a user's own: what it computes nobody knows
    why = "layer join of the class Difference reads two tensors: a pack holds of such layers those"
    with Taps([join], run.method), pytest.raises(PackError, match=why):
        run.train_step()
