"""scale: products, and sums by channel, equal the oracle's: exact integers, float32 in the defined order."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intnet.autograd import Kept, Tensor
from intnet.errors import ContainerError, FormatError, ShapeError
from intnet.numbers.qtensor import QTensor
from intnet.ops import scale
from intnet.spec.float32 import dot32, mul32
from tests.support.opcheck import floating, integer, run, threads, values

SHAPES = st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4), st.integers(1, 5))


def by_channel(x: Any) -> list[list[Fraction]]:
    """Values of (N, H, W, C) by image and channel, row-major."""
    flat, (n, h, w, c) = values(x), x.shape
    size = h * w * c
    return [flat[i * size + k : (i + 1) * size : c] for i in range(n) for k in range(c)]


@pytest.mark.slow
@given(
    shape=SHAPES, bits=st.sampled_from([(8, 8, 8), (16, 24, 16), (30, 20, 20)]), seed=st.integers(0, 2**32)
)
def test_integers(shape: tuple[int, ...], bits: tuple[int, int, int], seed: int) -> None:
    x, s = integer(seed, shape, bits[0], -7), integer(seed + 1, (shape[0], shape[3]), bits[1], -3)
    e = integer(seed + 2, shape, bits[2], -11)
    y, (dx, ds) = run(scale, x, s, error=e)
    assert (y.exponent, dx.exponent, ds.exponent) == (-10, -14, -18)
    assert by_channel(y) == [[v * f for v in xs] for xs, f in zip(by_channel(x), values(s), strict=True)]
    assert by_channel(dx) == [[v * f for v in es] for es, f in zip(by_channel(e), values(s), strict=True)]
    pairs = zip(by_channel(e), by_channel(x), strict=True)
    assert values(ds) == [sum(a * b for a, b in zip(es, xs, strict=True)) for es, xs in pairs]
    for q in (y, dx, ds):
        assert q.bound >= np.abs(q.codes.astype(np.int64)).max()


@pytest.mark.slow
@given(shape=SHAPES, seed=st.integers(0, 2**32))
def test_floats(shape: tuple[int, ...], seed: int) -> None:
    check_floats(shape, seed)


@pytest.mark.slow
def test_floats_of_more_than_a_chunk() -> None:
    with threads(2):
        check_floats((2, 33, 40, 2), 7)


def check_floats(shape: tuple[int, ...], seed: int) -> None:
    x, s = floating(seed, shape), floating(seed + 1, (shape[0], shape[3]))
    e = floating(seed + 2, shape)
    y, (dx, ds) = run(scale, x, s, error=e)
    for got, of in ((y, x), (dx, e)):
        found = [[mul32(v, f) for v in one] for one, f in zip(by_channel(of), values(s), strict=True)]
        assert by_channel(got) == found
    assert values(ds) == [dot32(es, xs) for es, xs in zip(by_channel(e), by_channel(x), strict=True)]


class Zeros(Kept):
    def __init__(self, value: np.ndarray) -> None:
        self.shape = value.shape

    def load(self) -> np.ndarray:
        return np.zeros(self.shape, np.float32)


def test_what_the_tape_holds_of_the_image() -> None:
    x, s = floating(1, (2, 3, 3, 4)), floating(2, (2, 4))
    _, (dx, ds) = run(scale, x, s, error=x, keep=Zeros)
    assert dx.any() and not ds.any()
    kept: list[Any] = []
    scale(Tensor(x), Tensor(s), keep=kept.append)
    assert not kept  # no gradient is wanted


def test_a_float_error_at_an_integer_image() -> None:
    x, s, e = integer(1, (2, 3, 3, 4)), integer(2, (2, 4)), floating(3, (2, 3, 3, 4))
    _, (dx, ds) = run(scale, x, s, error=e)
    assert dx.tobytes() == run(scale, e, s.to_float32())[0].tobytes()
    _, (_, want) = run(scale, x.to_float32(), s.to_float32(), error=e)
    assert ds.tobytes() == want.tobytes()


def test_what_is_refused() -> None:
    x, s = integer(1, (2, 3, 3, 4)), integer(2, (2, 4))
    with pytest.raises(ShapeError, match=r"se: needs \(N, H, W, C\) and \(N, C\), got \(2, 3, 3, 4\) and"):
        scale(x, integer(2, (4, 2)), where="se")
    with pytest.raises(FormatError, match="se: scale takes two QTensors"):
        scale(x, s.to_float32(), where="se")
    wide = QTensor(np.full((2, 3, 3, 4), 1 << 40), 0)
    with pytest.raises(ContainerError, match=r"se: 1 products of codes up to .* use narrower operands"):
        scale(wide, QTensor(np.full((2, 4), 1 << 22), 0), where="se")
    with pytest.raises(ContainerError, match="se: 9 products of codes"):
        run(scale, wide, s, error=QTensor(np.full((2, 3, 3, 4), 1 << 20), 0), where="se")
