"""How wrong gradients are: against Fractions, of every kind of product; and that a wrong gradient is seen."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from math import sqrt
from typing import Any

import numpy as np
import pytest

from intnet.exact.quantize import quantize
from intnet.inspect import gradient_error
from intnet.inspect.gradient_error import Compared, compared
from intnet.inspect.operands import Operands
from intnet.layers import Conv2d, Linear
from intnet.methods import METHODS
from intnet.methods.trace import Event, Recorder
from intnet.numbers.formats import FixedPoint
from intnet.runs import run_folder

RNG = np.random.default_rng(3)
SHAPES = [  # images, channels in and out, kernel, stride, padding, groups
    (Conv2d(2, 4, 3, padding=1), (2, 5, 5, 2)),
    (Conv2d(4, 4, 3, stride=2, padding=1, groups=2), (2, 5, 6, 4)),
    (Conv2d(3, 2, (1, 2), stride=(1, 2)), (1, 4, 5, 3)),
    (Linear(6, 3), (4, 6)),
]


def floats(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def images(x: np.ndarray) -> np.ndarray:
    return x.reshape(x.shape[0], 1, 1, -1) if x.ndim == 2 else x


def reached(layer: Any, x: tuple[int, ...], e: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """(index of x0, of e3, of W) of every product, by the definition of the forward sum."""
    w = (
        images(np.zeros(layer.weight.shape)).transpose(0, 3, 1, 2).shape
        if len(x) == 2
        else layer.weight.shape
    )
    x, e = ((*shape[:1], 1, 1, shape[1]) if len(shape) == 2 else shape for shape in (x, e))
    (sh, sw), (ph, pw), groups = layer.stride, layer.padding, getattr(layer, "groups", 1)
    for n, oy, ox, o in product(*map(range, e)):
        for c, ky, kx in product(*map(range, w[1:])):
            y, z = oy * sh + ky - ph, ox * sw + kx - pw
            if 0 <= y < x[1] and 0 <= z < x[2]:
                yield (n, y, z, o // (w[0] // groups) * w[1] + c), (n, oy, ox, o), (o, c, ky, kx)


@pytest.mark.parametrize(("layer", "shape"), SHAPES)
def test_products_of_unrounded_operands(layer: Any, shape: tuple[int, ...]) -> None:
    """x0, e3 and W ahead of <5,3>, whose exact sums in Fractions are g*; the method's are of the codes."""
    layer.name, layer.weight.value = "layer", floats(*layer.weight.shape)
    x, w = floats(*shape), layer.weight.value
    rows = (
        [1, 1]
        if len(shape) == 2
        else [
            (size + 2 * pad - k) // step + 1
            for size, pad, k, step in zip(shape[1:3], layer.padding, w.shape[2:], layer.stride, strict=True)
        ]
    )
    e = floats(shape[0], *rows[: 2 * (len(shape) == 4)], w.shape[0])
    events = {}
    for path, value in (("Wq", w), ("x0", x), ("e3", e)):
        q = quantize(value, FixedPoint(5, 3))
        events[f"layer/{path}"] = Event("layer", path, 0, value, q, FixedPoint(5, 3), "ties_even")
    four = images(np.zeros(w.shape)).transpose(0, 3, 1, 2).shape if w.ndim == 2 else w.shape
    gw, e4 = (np.full(s, Fraction(0), object) for s in (four, images(x).shape))
    ws = w.reshape(four)
    for at, on, of in reached(layer, x.shape, e.shape):
        gw[of] += Fraction(float(images(x)[at])) * Fraction(float(images(e)[on]))
        e4[at] += Fraction(float(ws[of])) * Fraction(float(images(e)[on]))
    gb = np.array([sum(map(Fraction, images(e)[..., o].reshape(-1).tolist())) for o in range(w.shape[0])])
    made = {"gW": floats(*w.shape), "e4": floats(*x.shape), "gb": floats(w.shape[0])}
    events |= {f"layer/{path}": Event("layer", path, 0, value, value) for path, value in made.items()}
    lines = {line.path: line for line in gradient_error.found(layer, events, Operands(events))}
    for path, exact in (("gW", gw), ("e4", e4), ("gb", gb)):
        check(lines[path], exact.reshape(-1).tolist(), made[path].reshape(-1).tolist())
    check(lines["e3"], [Fraction(float(v)) for v in e.reshape(-1)], quantized(e))


def quantized(x: np.ndarray) -> list[float]:
    return [float(v) for v in quantize(x, FixedPoint(5, 3)).fractions().reshape(-1)]


def check(line: Compared, exact: list[Fraction], made: list[float]) -> None:
    """The three numbers in Fractions, but for the roots."""
    g = [Fraction(v) for v in made]
    squares, ideals = sum(v * v for v in g), sum(v * v for v in exact)
    along, n = sum(a * b for a, b in zip(g, exact, strict=True)), len(g)
    length = sqrt(squares / ideals)
    assert (line.elements, line.of) == (n, n)
    assert line.cosine == pytest.approx(float(along) / sqrt(squares * ideals), rel=1e-12)
    assert line.length == pytest.approx(length, rel=1e-12)
    bias = (float(sum(g)) / length - float(sum(exact))) / n / sqrt(ideals / n)
    assert line.mean_error == pytest.approx(bias, rel=1e-9, abs=1e-12)


def test_the_three_numbers() -> None:
    same = compared("g", "", [1.0, -2.0, 4.0], np.array([2.0, -4.0, 8.0]), 3)
    assert (same.cosine, same.length, same.mean_error) == (1.0, 2.0, 0.0)
    against = compared("g", "", [3.0, 4.0], np.array([-4.0, 3.0]), 2)
    assert against.cosine == 0 and against.length == 1
    assert against.mean_error == pytest.approx((-0.5 - 3.5) / sqrt(12.5))
    assert compared("g", "", [0.0, 0.0], np.array([1.0, 2.0]), 2).cosine is None


def test_of_many_elements_some_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, shape = SHAPES[0]
    layer.name, layer.weight.value = "layer", floats(*layer.weight.shape)
    x, w, e = floats(*shape), layer.weight.value, floats(2, 5, 5, 4)
    events = {f"layer/{p}": Event("layer", p, 0, v, v) for p, v in (("W", w), ("x0", x), ("e3", e))}
    events["layer/gW"] = Event("layer", "gW", 0, w, w)
    monkeypatch.setattr(gradient_error, "PRODUCTS", 50 * 7)
    line = next(one for one in gradient_error.found(layer, events, Operands(events)) if one.path == "gW")
    assert (line.elements, line.of) == (7, 72)


@pytest.mark.slow
@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_method_and_layer(method: str) -> None:
    """A step of each: the gradient is near the exact one, and one that is turned about is seen."""
    run, recorder = run_folder.build(method, {}, "mlp", "digits", 32, 1, 32), Recorder()
    run.train(1, observe_last=[recorder])
    operands = Operands(recorder.events, run.method.SYMBOLS)
    for layer in run.model.all_layers():
        lines = gradient_error.found(layer, recorder.events, operands)
        if layer.takes_weight:
            line = next(one for one in lines if one.path == "gW")
            assert line.cosine is not None and line.cosine > 0.9, (layer.name, line)
        if layer.normalizes:
            cosines = [one.cosine for one in lines if one.path in ("gbeta", "ggamma")]
            assert len(cosines) == 2 and min(c for c in cosines if c is not None) > 0.9, layer.name


def test_a_wrong_gradient_is_seen() -> None:
    """The seeded fault: gW of the images in another order, the same numbers in the same tensor."""
    run, recorder = run_folder.build("float32", {}, "mlp", "digits", 32, 1, 32), Recorder()
    run.train(1, observe_last=[recorder])
    layer = next(one for one in run.model.all_layers() if one.name == "fc2")
    events = dict(recorder.events)

    def cosine() -> float | None:
        lines = gradient_error.found(layer, events, Operands(events, run.method.SYMBOLS))
        return next(line.cosine for line in lines if line.path == "gW")

    right = cosine()
    wrong = events["fc2/gW"].result[::-1].copy()
    events["fc2/gW"] = Event("fc2", "gW", 0, wrong, wrong)
    seen = cosine()
    assert right == pytest.approx(1, abs=1e-9) and seen is not None and abs(seen) < 0.5
