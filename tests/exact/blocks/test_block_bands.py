"""Block float products: every float32 of linear and conv2d is the oracle's exact sum, rounded once.

Operands are made twice from the same numbers: a QTensor here, Fractions for the oracle.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intnet import spec as oracle
from intnet.errors import ContainerError, NumberError, ShapeError
from intnet.exact.blocks import long_sums
from intnet.exact.blocks.bands import Band, Banded, matching_bands
from intnet.exact.blocks.block_float import expand
from intnet.exact.blocks.long_sums import LongSum
from intnet.exact.expressions import Exact
from intnet.numbers.qtensor import QTensor
from intnet.ops import conv2d, linear
from intnet.ops.blocks import block_product
from intnet.ops.kernels.int_products import gemm
from intnet.spec.float32 import to_float32
from tests.support.blocks import agrees, check_conv, check_linear
from tests.support.opcheck import run, threads, values

MATRIX, IMAGE, WEIGHT = (0, 1), (0, 3), (0, 1)  # axes of 4x4 blocks
SEEDS = st.integers(0, 2**32)
F = Fraction


class Pair(NamedTuple):
    """One operand, as the library and as the oracle see it."""

    q: QTensor
    exact: oracle.Tensor


def operand(
    seed: int, shape: tuple[int, ...], axes: tuple[int, int], exponent: Callable[[Any], int], bits: int = 8,
    zeros: float = 0.1,
) -> Pair:  # fmt: skip
    """Codes of `bits` bits, the limits among them; `exponent` of a block's index; some blocks are zero.

    A block without bits has codes of 0 and keeps some exponent.
    """
    rng = np.random.default_rng(seed)
    top = 2 ** (bits - 1) - 1
    codes = rng.integers(-top, top + 1, shape)
    codes[rng.random(shape) < 0.2] = top
    table = {block: int(exponent(block)) for block in oracle.block_float.blocks(shape, axes)}
    empty = {block for block in table if rng.random() < zeros}
    for place in np.ndindex(*shape):
        if oracle.block_float.block_of(place, axes) in empty:
            codes[place] = 0
    counts = [-(-size // 4) if axis in axes else size for axis, size in enumerate(shape)]
    small = np.array(list(table.values()), np.int16).reshape(counts)
    dtype = np.int8 if bits <= 8 else np.int32
    q = QTensor(codes.astype(dtype), expand(small, shape, axes))
    return Pair(q, oracle.block_float.real(shape, codes.reshape(-1).tolist(), table, axes))


def uniform(seed: int, low: int, high: int) -> Callable[[Any], int]:
    rng = np.random.default_rng(seed)
    return lambda block: int(rng.integers(low, high + 1))


def row(exponents: list[int], codes: list[int] | None = None) -> QTensor:
    """A matrix of one row, an exponent an element."""
    ones = np.ones(len(exponents), np.int32) if codes is None else np.array(codes, np.int32)
    return QTensor(ones[None], np.array([exponents], np.int16))


# -- linear and conv2d --------------------------------------------------------------------------

RANGES = [(0, 0), (-6, 2), (-20, 8), (-45, 5), (-128, 30), (-128, 127)]


@pytest.mark.slow
@pytest.mark.parametrize(("low", "high"), RANGES)
@given(
    n=st.integers(1, 9), cin=st.integers(1, 13), cout=st.integers(1, 9), bits=st.sampled_from([2, 8, 16]),
    seed=SEEDS,
)  # fmt: skip
def test_linear(low: int, high: int, n: int, cin: int, cout: int, bits: int, seed: int) -> None:
    x = operand(seed, (n, cin), MATRIX, uniform(seed, low, high), bits)
    w = operand(seed + 1, (cout, cin), MATRIX, uniform(seed + 1, low, high), bits)
    e = operand(seed + 2, (n, cout), MATRIX, uniform(seed + 2, low, high), bits)
    check_linear(x, w, e)


@pytest.mark.slow
@pytest.mark.parametrize(("low", "high"), RANGES)
@given(
    n=st.integers(1, 5), side=st.tuples(st.integers(1, 4), st.integers(1, 4)), cin=st.integers(1, 6),
    cout=st.integers(1, 6), kernel=st.integers(1, 3), stride=st.integers(1, 2), groups=st.integers(1, 2),
    seed=SEEDS,
)  # fmt: skip
def test_conv2d(
    low: int, high: int, n: int, side: tuple[int, int], cin: int, cout: int, kernel: int, stride: int,
    groups: int, seed: int,
) -> None:  # fmt: skip
    how = {"stride": (stride, 1), "padding": (kernel // 2, kernel - 1), "groups": groups}
    shape, weight = (n, *side, cin * groups), (cout * groups, cin, kernel, kernel)
    size = (side[0] + 2 * (kernel // 2) - kernel) // stride + 1, side[1] + kernel - 1
    if size[0] < 1:
        return
    x = operand(seed, shape, IMAGE, uniform(seed, low, high))
    w = operand(seed + 1, weight, WEIGHT, uniform(seed + 1, low, high))
    e = operand(seed + 2, (n, *size, cout * groups), IMAGE, uniform(seed + 2, low, high))
    check_conv(x, w, e, **how)


@pytest.mark.slow
@given(n=st.integers(1, 6), cout=st.integers(1, 6), seed=SEEDS)
def test_operands_from_end_to_end_of_the_exponents_with_results_that_float32_holds(
    n: int, cout: int, seed: int
) -> None:
    """Exponents s and -s meet: products are near 1, and gradients down to where float32 ends."""
    far = [-128, 127, 60, -61, 5]
    noise = np.random.default_rng(seed)
    x = operand(seed, (n, 18), MATRIX, lambda block: far[block[1]])
    w = operand(seed + 1, (cout, 18), MATRIX, lambda block: max(-128, -far[block[1]] - noise.integers(9)))
    e = operand(seed + 2, (n, cout), MATRIX, uniform(seed, -40, -24))
    assert len(matching_bands(Banded(x.q), Banded(w.q), 18)[0]) > 1
    check_linear(x, w, e)


@pytest.mark.parametrize("gap", [0, 200])
def test_zero_blocks_have_no_say(gap: int) -> None:
    """Blocks without a code, at any exponent, neither widen the aligned codes nor add a band."""
    x = operand(1, (8, 8), MATRIX, lambda block: -gap if block[1] else 0, zeros=0)
    x.q.codes[:, 4:] = 0
    w = operand(2, (8, 8), MATRIX, lambda block: 0, zeros=0)
    assert Banded(x.q).bands() == [Band(0, 0, 127)]
    assert Banded(x.q).aligned(Band(0, 0, 127)).codes.dtype == np.int8
    exact = oracle.Tensor((8, 8), [F(int(code)) for code in x.q.codes.reshape(-1)])
    agrees(block_product(x.q, w.q, 8, gemm), oracle.convolution.conv2d(exact, w.exact))


def test_all_zero_operands_give_zeros() -> None:
    for low in (-3, -128):
        x = operand(1, (5, 7), MATRIX, uniform(1, low, 3), zeros=1)
        w = operand(2, (6, 7), MATRIX, uniform(2, low, 3))
        e = operand(3, (5, 6), MATRIX, uniform(3, low, 3), zeros=1)
        assert not x.q.codes.any() and not e.q.codes.any()
        check_linear(x, w, e)
        check_linear(x, operand(2, (6, 7), MATRIX, uniform(2, low, 3), zeros=1), e)


def test_zeros_of_one_exponent_times_blocks_of_many() -> None:
    for exponent in (-300, 0, 300):
        zeros = QTensor(np.zeros((2, 2), np.int8), exponent)
        assert not block_product(zeros, row([-300, 250]), 2, gemm).any()
        assert not block_product(row([-300, 250]), zeros, 2, gemm).any()


def test_an_empty_batch() -> None:
    x, e = (operand(1, (0, width), MATRIX, uniform(1, -9, 9)) for width in (5, 3))
    check_linear(x, operand(2, (3, 5), MATRIX, uniform(2, -9, 9)), e)


@pytest.mark.slow
def test_exponents_that_broadcast_and_plain_operands() -> None:
    """One exponent a channel, a row, a tensor: all the same product."""
    rng = np.random.default_rng(4)
    a, b = (rng.integers(-127, 128, shape).astype(np.int8) for shape in ((5, 6), (3, 6)))
    channel, rows = rng.integers(-60, 9, 6).astype(np.int8), rng.integers(-60, 9, (3, 1))
    for x, w in (
        (QTensor(a, channel), QTensor(b, rows)), (QTensor(a, -7), QTensor(b, channel)),
        (QTensor(a, channel), QTensor(b, 3)), (QTensor(a, np.array(-5)), QTensor(b, np.array([[2]]))),
    ):  # fmt: skip
        want = oracle.convolution.conv2d(*(oracle.Tensor(q.shape, values(q)) for q in (x, w)))
        agrees(run(linear, x, w)[0], want)


@pytest.mark.slow
@pytest.mark.parametrize("low", [-8, -20, -100])
def test_threads_do_not_change_a_bit(low: int) -> None:
    x = operand(1, (9, 6, 5, 7), IMAGE, uniform(1, low, 4))
    w = operand(2, (10, 7, 3, 3), WEIGHT, uniform(2, low, 4))
    e = operand(3, (9, 4, 3, 10), IMAGE, uniform(3, low, 4))
    results = []
    for n in (1, 2):
        with threads(n):
            got, gradients = run(conv2d, x.q, w.q, error=e.q)
            results.append([v.view(np.int32).tolist() for v in (got, *gradients)])
    assert results[0] == results[1]


# -- the rounding -------------------------------------------------------------------------------

# Terms 2**e of a sum: a tie, a tie that something below breaks, limits of the ways to sum
TIE = [24, 0]
SUMS = [
    TIE, [25, 24, 1, 0], [*TIE, -20], [*TIE, -28], [*TIE, -29], [*TIE, -30], [*TIE, -36], [*TIE, -37],
    [*TIE, -38], [*TIE, -60], [*TIE, -120], [*TIE, -128], [*TIE, -102, -128], [127, 103, -128], [-118, -128],
    [52, 0], [53, 0], [53, 28, 0], [54, 29, 0], [61, 37, 0], [62, 38, 0], [61, 37, -1], [-100, -124, -128],
    [0],
]  # fmt: skip


def assert_sums(exponents: list[int]) -> None:
    """Every choice of signs of the terms, times powers of two down to where float32 ends and below."""
    signs = list(product((1, -1), repeat=len(exponents)))
    for unit in (0, -21, -22, -23, -24, -25, -60, -128):
        x = QTensor(np.array(signs, np.int8), np.array(exponents, np.int16))
        w = row([unit] * len(exponents))
        want = oracle.convolution.conv2d(*(oracle.Tensor(q.shape, values(q)) for q in (x, w)))
        agrees(block_product(x, w, len(exponents), gemm), want)


@pytest.mark.slow
@pytest.mark.parametrize("exponents", SUMS, ids=str)
def test_ties_and_what_breaks_them(exponents: list[int]) -> None:
    assert_sums(exponents)


@pytest.mark.slow
@pytest.mark.parametrize("shift", [0, 1, 2, 22, 23, 24])
def test_subnormal_results_and_their_ties(shift: int) -> None:
    """k * 2**-150 and what lies a little beside: from nothing to the least normal number."""
    for k in (1, 2, 3, 5, 2**shift, 2**shift + 1, 2**shift - 1, 2**24 - 1, 2**24 + 1):
        for below in (-40, -60, -128):
            x = row([-75, below], [k, 0]), row([-75, below], [k, 1]), row([-75, below], [k, -1])
            for a in x:
                w = row([-75, -128])
                want = oracle.Tensor((1, 1), [sum(map(prod, zip(values(a), values(w), strict=True)))])
                agrees(block_product(a, w, 2, gemm), want)


@pytest.mark.parametrize("below", [80, 60, 0, -128])
def test_the_end_of_float32(below: int) -> None:
    """Its greatest number, the midpoint beyond it, which is too much, and what lies just under that."""
    w = row([0, 0])
    for top, rest, fits in ((2**24 - 1, 0, True), (2**24 - 1, 1, True)):
        got = block_product(row([104, below], [top, rest]), w, 2, gemm)
        assert (got[0, 0] == np.finfo(np.float32).max) == fits
    beyond, under = row([103, below], [2**25 - 1, 0]), row([103, below], [2**25 - 1, -1])
    assert block_product(under, w, 2, gemm)[0, 0] == np.finfo(np.float32).max
    for x in (beyond, row([103, below], [2**25 - 1, 1]), row([127, below], [-2, 1])):
        with pytest.raises(NumberError, match="conv1: a value is beyond float32's range"):
            block_product(x, w, 2, gemm, "conv1")


def test_the_road_follows_the_proven_bound() -> None:
    """One product while int64 holds it, however many bits float64 has; else bands."""
    for top, terms, pairs in ((53, 1, 1), (59, 2, 1), (61, 1, 1), (62, 1, 2), (61, 2, 2), (122, 1, 2)):
        a, b = Banded(row([0, top])), Banded(row([0]))
        bands = matching_bands(a, b, terms)
        assert len(bands[0]) * len(bands[1]) == pairs
    assert [band.low for band in bands[0]] == [0, 122]


# -- sums of any distance -----------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(1 - 2**62, 2**62 - 1), st.integers(-300, 70)), min_size=1, max_size=8))
def test_long_sums(terms: list[tuple[int, int]]) -> None:
    total = LongSum((1,), -300, 70)
    for code, exponent in terms:
        total.add(np.array([code], np.int64), exponent)
    want = sum(code * oracle.power(exponent) for code, exponent in terms)
    try:
        rounded = to_float32(want)
    except OverflowError:
        with pytest.raises(NumberError, match="sum: a value is beyond float32's range"):
            total.to_float32()
        return
    assert values(total.to_float32()) == [rounded]


@pytest.mark.parametrize("bits", [(20, 20), (28, 28), (30, 32), (32, 30)])
def test_codes_whose_own_products_pass_int64(bits: tuple[int, int]) -> None:
    """Two limbs a pair of bands, where single exponents need them."""
    x = operand(1, (3, 40), MATRIX, uniform(1, -90, 20), bits[0])
    w = operand(2, (2, 40), MATRIX, uniform(2, -90, 20), bits[1])
    agrees(block_product(x.q, w.q, 40, gemm), oracle.convolution.conv2d(x.exact, w.exact))


# -- blocks, and what is refused ----------------------------------------------------------------


@pytest.mark.slow
@given(
    shape=st.lists(st.integers(0, 9), min_size=2, max_size=4).map(tuple), data=st.data(),
)  # fmt: skip
def test_expand_gives_each_code_its_blocks_exponent(shape: tuple[int, ...], data: st.DataObject) -> None:
    axes = tuple(data.draw(st.permutations(range(len(shape))))[:2])
    counts = tuple(-(-size // 4) if axis in axes else size for axis, size in enumerate(shape))
    small = np.arange(prod(counts), dtype=np.int16).reshape(counts)
    got = expand(small, shape, axes)
    assert got.shape == shape and got.dtype == np.int16
    for place in np.ndindex(*shape):
        assert got[place] == small[oracle.block_float.block_of(place, axes)]


def test_expand_names_what_does_not_fit() -> None:
    with pytest.raises(ShapeError, match=r"exponents \(2, 2\) where \(8, 9\), .* \(0, 1\), has \(2, 3\)"):
        expand(np.zeros((2, 2), np.int8), (8, 9), MATRIX)


def test_operands_beyond_every_container_are_refused() -> None:
    w = row([0, 0])
    for exponents in ([0, 301], [-301, 0]):
        with pytest.raises(NumberError, match=r"fc: an exponent is beyond \+-300"):
            block_product(row(exponents), w, 2, gemm, "fc")
    wide = QTensor(np.array([[2**62, 1]]), np.array([[0, 1]]))
    with pytest.raises(ContainerError, match="operand: codes up to 4611686018427387904 are beyond 62 bits"):
        block_product(wide, w, 2, gemm)
    wide = QTensor(np.array([[2**50, 1]]), np.array([[0, 1]]))
    with pytest.raises(ContainerError, match=r"fc: .* two limbs too"):
        block_product(wide, wide, 2, gemm, "fc")


# -- the comparisons see faults -----------------------------------------------------------------


def rounded_twice(patch: pytest.MonkeyPatch) -> None:
    """float64, then float32."""

    def faulty(self: Exact, where: str = "") -> np.ndarray:
        doubles = np.array([float(v) for v in self.fractions().reshape(-1)])
        return doubles.astype(np.float32).reshape(self.shape)

    patch.setattr(Exact, "to_float32", faulty)


def long_sums_rounded_twice(patch: pytest.MonkeyPatch) -> None:
    def faulty(digits: np.ndarray, units: np.ndarray, out: np.ndarray) -> None:
        scales = [Fraction(float(unit)) for unit in units]
        for i, line in enumerate(digits.tolist()):
            out[i] = float(sum(digit * scale for digit, scale in zip(line, scales, strict=True)))

    patch.setattr(long_sums, "_round", faulty)


def wrong_least_exponent(patch: pytest.MonkeyPatch) -> None:
    """One too high: what has the least exponent is lost."""
    right = Banded.bands
    patch.setattr(
        Banded, "bands",
        lambda self, width=600: [band._replace(low=band.low + 1) for band in right(self, width)],
    )  # fmt: skip


def band_at_the_wrong_place(patch: pytest.MonkeyPatch) -> None:
    right = LongSum.add
    patch.setattr(LongSum, "add", lambda self, codes, exponent: right(self, codes, exponent + 1))


FAULTS = [
    (rounded_twice, lambda: assert_sums([*TIE, -30])),
    (long_sums_rounded_twice, lambda: assert_sums([*TIE, -60])),
    (wrong_least_exponent, lambda: assert_sums([3, 0])),
    (wrong_least_exponent, lambda: assert_sums([*TIE, -60])),
    (band_at_the_wrong_place, lambda: assert_sums([*TIE, -60])),
]  # fmt: skip


@pytest.mark.parametrize(("fault", "case"), FAULTS)
def test_faults_are_seen(fault: Callable[[pytest.MonkeyPatch], None], case: Callable[[], None]) -> None:
    case()
    with pytest.MonkeyPatch.context() as patch:
        fault(patch)
        with pytest.raises(AssertionError):
            case()
