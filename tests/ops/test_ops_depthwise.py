"""Depthwise convolution: its own loops against the oracle, and against those of other convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intnet import spec as oracle
from intnet.numbers.qtensor import QTensor
from intnet.ops import conv2d
from intnet.ops.kernels import depthwise
from intnet.ops.kernels import float_products as float32
from intnet.ops.kernels import int_products as conv
from intnet.ops.kernels.int_products import plan
from tests.support.opcheck import fixed, floating, integer, road, run, scaled, tensor, threads, values


@st.composite
def shapes(draw: st.DrawFn) -> dict[str, Any]:
    kernel = (draw(st.integers(1, 4)), draw(st.integers(1, 4)))
    padding = (draw(st.integers(0, 2)), draw(st.integers(0, 2)))
    side = [draw(st.integers(max(1, kernel[a] - 2 * padding[a]), 6)) for a in (0, 1)]
    channels = draw(st.sampled_from([2, 3, 17, 40]))
    return {
        "x": (draw(st.integers(1, 3)), *side, channels),
        "w": (channels, 1, *kernel),
        "window": {
            "stride": (draw(st.integers(1, 5)), draw(st.integers(1, 5))), "padding": padding,
            "groups": channels,
        },
    }  # fmt: skip


def test_which_convolutions_it_takes() -> None:
    assert depthwise.fits(3, 3, 3, (3, 3)) and depthwise.fits(3, 3, 3, (32, 32))
    others = [(1, 1, 1, (3, 3)), (4, 4, 2, (3, 3)), (3, 6, 3, (3, 3)), (3, 3, 3, (33, 32))]
    assert not any(depthwise.fits(*other) for other in others)


@pytest.mark.slow
@given(shape=shapes(), bits=st.sampled_from([(8, 8), (16, 8), (32, 24)]), seed=st.integers(0, 2**32))
def test_integers(shape: dict[str, Any], bits: tuple[int, int], seed: int) -> None:
    x, w = integer(seed, shape["x"], bits[0]), integer(seed + 1, shape["w"], bits[1], -5)
    window = shape["window"]
    out = oracle.convolution.conv2d(fixed(x).ints(), fixed(w).ints(), **window)
    e = integer(seed + 2, out.shape, 8, -20)
    y, (dx, dw) = run(conv2d, x, w, error=e, **window)
    assert values(y) == scaled(out, -12)
    if road(x, w, w.shape[2] * w.shape[3]) in ("int32", "int64"):
        assert str(y.codes.dtype) == road(x, w, w.shape[2] * w.shape[3])
    want = oracle.convolution.conv2d_input_grad(fixed(e).ints(), fixed(w).ints(), x.shape, **window)
    assert values(dx) == scaled(want, -25)
    want = oracle.convolution.conv2d_weight_grad(fixed(e).ints(), fixed(x).ints(), w.shape, **window)
    assert values(dw) == scaled(want, -27)


@pytest.mark.slow
@given(shape=shapes(), seed=st.integers(0, 2**32))
def test_floats(shape: dict[str, Any], seed: int) -> None:
    x, w, window = floating(seed, shape["x"]), floating(seed + 1, shape["w"]), shape["window"]
    want = oracle.convolution.conv32(tensor(x), tensor(w), **window)
    e = floating(seed + 2, want.shape)
    y, (dx, dw) = run(conv2d, x, w, error=e, **window)
    assert values(y) == want.values
    found = oracle.convolution.conv32_input_grad(tensor(e), tensor(w), x.shape, **window)
    assert values(dx) == found.values
    assert values(dw) == oracle.convolution.conv32_weight_grad(tensor(e), tensor(x), w.shape, **window).values


def everything(stride: int, floats: bool) -> list[np.ndarray]:
    """Forward and both gradients of two chunks of positions and more."""
    shape, window = (3, 25, 31, 21), ((stride, stride), (1, 1), 21)
    out = (3, -(-25 // stride), -(-31 // stride), 21)
    if floats:
        x, w, e = floating(1, shape), floating(2, (21, 1, 3, 3)), floating(3, out)
        x[0, :3], w[:2] = np.float32(1e-30), np.float32(-1e-30)  # products that underflow to -0
        return [
            float32.conv2d(x, w, *window),
            float32.conv2d_input_grad(e, w, shape[1:3], *window),
            float32.conv2d_weight_grad(e, x, (3, 3), *window),
        ]
    x, w, e = integer(1, shape), integer(2, (21, 1, 3, 3)), integer(3, out, 16)

    def how(a: QTensor, b: QTensor, terms: int) -> Any:
        return plan(a, b, terms)

    return [
        conv.forward(x.codes, w.codes, how(x, w, 9), window),
        conv.input_grad(e.codes, w.codes, how(e, w, 9), window, shape[1:3]),
        conv.weight_grad(e.codes, x.codes, how(e, x, e.size // 21), window, (3, 3)),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("floats", [True, False])
@pytest.mark.parametrize("stride", [1, 2])
def test_the_bits_of_the_other_loops(stride: int, floats: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    made = everything(stride, floats)
    with threads(2):
        again = everything(stride, floats)
    monkeypatch.setattr(depthwise, "fits", lambda *_: False)
    for one, other, plain in zip(made, again, everything(stride, floats), strict=True):
        assert one.dtype == plain.dtype and one.shape == plain.shape
        assert one.tobytes() == other.tobytes() == plain.tobytes()


def test_an_underflow_leaves_no_negative_zero() -> None:
    x = np.full((1, 3, 3, 2), 1e-30, np.float32)
    w = np.full((2, 1, 3, 3), -1e-30, np.float32)
    for got in (
        float32.conv2d(x, w, (1, 1), (1, 1), 2),
        float32.conv2d_input_grad(x, w, (3, 3), (1, 1), (1, 1), 2),
        float32.conv2d_weight_grad(x, -x, (3, 3), (1, 1), (1, 1), 2),
    ):
        assert not got.any() and not np.signbit(got).any()
