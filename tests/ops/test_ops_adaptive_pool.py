"""adaptive_avg_pool2d: windows, means and gradients equal what fractions say."""

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
from intnet.numbers.formats import Direct, Shift
from intnet.numbers.qtensor import QTensor
from intnet.ops import adaptive_avg_pool2d
from intnet.spec.float32 import add32, to_float32
from tests.support.opcheck import fixed, floating, integer, run, scaled, tensor, threads, values

SEEDS = st.integers(0, 2**32)
SIDES = st.tuples(st.integers(1, 7), st.integers(1, 7))


def plan(shape: tuple[int, ...], output: tuple[int, int]) -> list[list[int]]:
    """The flat input indices of every output element: the pixels that its share of the image touches."""
    n, h, w, c = shape

    def touched(size: int, i: int, parts: int) -> list[int]:
        first, last = Fraction(i * size, parts), Fraction((i + 1) * size, parts)
        return [p for p in range(size) if p + 1 > first and p < last]

    return [
        [
            ((k * h + y) * w + x) * c + channel
            for y in touched(h, i, output[0])
            for x in touched(w, j, output[1])
        ]
        for k in range(n)
        for i in range(output[0])
        for j in range(output[1])
        for channel in range(c)
    ]


@pytest.mark.slow
@given(side=SIDES, output=SIDES, seed=SEEDS)
def test_integers(side: tuple[int, int], output: tuple[int, int], seed: int) -> None:
    shape, out = (2, *side, 3), (2, *output, 3)
    x, e = integer(seed, shape, 8, -7), integer(seed + 1, out, 8, -20)
    got, (dx,) = run(adaptive_avg_pool2d, x, error=e, output=output)
    codes, places = fixed(x).codes, plan(shape, output)
    want = oracle.Tensor(out, [Fraction(sum(codes[i] for i in p), len(p)) for p in places])
    assert (got.shape, values(got)) == (out, scaled(want, -7))
    q = oracle.formats.quantize(values(got), oracle.formats.Direct(8))
    assert fixed(quantize(got, Direct(8))) == oracle.Fixed(out, *q[:2])
    back = [Fraction(0)] * x.size
    for v, p in zip(fixed(e).codes, places, strict=True):
        for i in p:
            back[i] += Fraction(v, len(p))
    assert values(dx) == scaled(oracle.Tensor(shape, back), -20)
    q = oracle.formats.quantize(values(dx), oracle.formats.Shift(8))
    assert fixed(quantize(dx, Shift(8))) == oracle.Fixed(shape, *q[:2])


@pytest.mark.slow
@given(side=SIDES, output=SIDES, seed=SEEDS, over_integers=st.booleans())
def test_floats(side: tuple[int, int], output: tuple[int, int], seed: int, over_integers: bool) -> None:
    """Additions in row-major order, one division; back one division, then additions: over integers too."""
    shape, out = (2, *side, 3), (2, *output, 3)
    x: Any = integer(seed, shape, 8, -7) if over_integers else floating(seed, shape)
    e, places = floating(seed + 1, out), plan(shape, output)
    got, (dx,) = run(adaptive_avg_pool2d, x, error=e, output=output)
    if not over_integers:
        means = []
        for p in places:
            total = Fraction(0)
            for i in p:
                total = add32(total, tensor(x).values[i])
            means.append(to_float32(total / len(p)))
        assert values(got) == means
    back = [Fraction(0)] * x.size
    for v, p in zip(values(e), places, strict=True):
        for i in p:
            back[i] = add32(back[i], to_float32(v / len(p)))
    assert values(dx) == back


def test_an_image_of_the_output_size_is_left_as_it_is() -> None:
    x = integer(1, (1, 6, 6, 2))
    got, _ = run(adaptive_avg_pool2d, x, output=(6, 6))
    assert isinstance(got, Exact) and got.den == 1 and values(got) == values(x)


@pytest.mark.slow
def test_threads_do_not_change_a_bit() -> None:
    results = []
    for n in (1, 2):
        with threads(n):
            got = [
                run(adaptive_avg_pool2d, a, error=b, output=(6, 6))
                for a, b in (
                    (integer(1, (5, 7, 13, 4)), integer(2, (5, 6, 6, 4), 20)),
                    (floating(1, (5, 7, 13, 4)), floating(2, (5, 6, 6, 4))),
                )
            ]
            results.append([values(v) for out, grads in got for v in (out, *grads)])
    assert results[0] == results[1]


def test_what_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"input \(2, 5\) is not \(N, H, W, C\)"):
        adaptive_avg_pool2d(Tensor(integer(1, (2, 5))), output=(6, 6))
    big = QTensor(np.full((1, 4, 4, 1), 2**60), 0)
    with pytest.raises(ContainerError, match=r"sums of up to .* do not fit int64"):
        adaptive_avg_pool2d(Tensor(big), output=(3, 3))
    with pytest.raises(ContainerError, match=r"sums of errors of up to .* do not fit int64"):
        run(adaptive_avg_pool2d, integer(1, (1, 2, 2, 1)), error=QTensor(big.codes, 0), output=(4, 4))
