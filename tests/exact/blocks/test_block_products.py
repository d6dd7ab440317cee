"""Products of block tensors: every float32 of linear and conv2d is the oracle's exact sum, rounded once.

Operands are quantized twice from the same numbers, by the library and by the oracle.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intnet import spec as oracle
from intnet.errors import FormatError, ShapeError
from intnet.exact.blocks.block_float import BlockTensor, quantize_blocks
from intnet.numbers.qtensor import QTensor
from intnet.ops import blocks, conv2d, linear
from intnet.ops.kernels import int_products
from intnet.ops.kernels.int_products import plan
from intnet.ops.kernels.tiles import FOURS, PAIRS
from intnet.spec import block_float
from tests.support.blocks import (
    IMAGE,
    MATRIX,
    WEIGHT,
    WIDTHS,
    Pair,
    agrees,
    check_conv,
    check_linear,
    numbers,
    pair,
    uniform,
    widths,
)
from tests.support.opcheck import run, tensor, threads, values

SEEDS = st.integers(0, 2**32)
SPARSE = (0, 0, 0, 0, 2, 4, 6, 8)
RANGES = [(0, 0), (-6, 2), (-20, 8), (-32, 2), (-45, 5), (-100, 20), (-149, 126)]


def made(
    seed: int, shape: tuple[int, ...], axes: Any, low: int, high: int, dynamic: bool, sparse: bool = False
) -> Pair:
    """8 bits everywhere, or a map."""
    bits = widths(seed, shape, axes, SPARSE if sparse else WIDTHS) if dynamic else 8
    return pair(numbers(seed, shape, axes, uniform(seed, low, high)), bits, axes)


# -- shapes, bits and exponents --------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("low", "high"), RANGES)
@given(n=st.integers(1, 13), cin=st.integers(1, 20), cout=st.integers(1, 9), seed=SEEDS,
       which=st.integers(0, 7))  # fmt: skip
@settings(max_examples=25)
def test_linear(low: int, high: int, n: int, cin: int, cout: int, seed: int, which: int) -> None:
    x = made(seed, (n, cin), MATRIX, low, high, bool(which & 1))
    w = made(seed + 1, (cout, cin), MATRIX, low, high, bool(which & 2))
    e = made(seed + 2, (n, cout), MATRIX, low, high, bool(which & 4))
    check_linear(x, w, e)


@pytest.mark.slow
@pytest.mark.parametrize(("low", "high"), RANGES)
@given(
    n=st.integers(1, 5), side=st.tuples(st.integers(1, 4), st.integers(1, 4)), cin=st.integers(1, 6),
    cout=st.integers(1, 6), kernel=st.integers(1, 3), stride=st.integers(1, 2), seed=SEEDS,
    which=st.integers(0, 7),
)  # fmt: skip
@settings(max_examples=12)
def test_conv2d(
    low: int, high: int, n: int, side: tuple[int, int], cin: int, cout: int, kernel: int, stride: int,
    seed: int, which: int,
) -> None:  # fmt: skip
    how = {"stride": (stride, 1), "padding": (kernel // 2, kernel - 1)}
    size = (side[0] + 2 * (kernel // 2) - kernel) // stride + 1, side[1] + kernel - 1
    if size[0] < 1:
        return
    x = made(seed, (n, *side, cin), IMAGE, low, high, bool(which & 1))
    w = made(seed + 1, (cout, cin, kernel, kernel), WEIGHT, low, high, bool(which & 2))
    e = made(seed + 2, (n, *size, cout), IMAGE, low, high, bool(which & 4))
    check_conv(x, w, e, **how)


# batch, side, Cin, Cout, kernel, stride
CONVS = [
    (1, 3, 1, 4, 3, 1), (5, 3, 3, 16, 3, 1), (12, 2, 4, 17, 1, 1), (13, 3, 16, 3, 1, 2), (27, 2, 17, 4, 1, 1),
    (27, 3, 1, 3, 3, 2), (4, 4, 20, 4, 3, 2), (2, 5, 16, 16, 3, 2), (5, 2, 17, 20, 1, 2),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("sizes", CONVS, ids=str)
@pytest.mark.parametrize("sparse", [False, True])
def test_sizes_of_convolutions(sizes: tuple[int, ...], sparse: bool) -> None:
    """Batches, channels and kernels that fill their blocks, or do not."""
    n, side, cin, cout, kernel, stride = sizes
    out = (side + 2 * (kernel // 2) - kernel) // stride + 1
    x = made(1, (n, side, side, cin), IMAGE, -4, 2, True, sparse)
    w = made(2, (cout, cin, kernel, kernel), WEIGHT, -6, 1, True, sparse)
    e = made(3, (n, out, out, cout), IMAGE, -30, -20, False)
    check_conv(x, w, e, stride=stride, padding=kernel // 2)


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 5, 12, 13, 27])
@pytest.mark.parametrize("cin", [1, 3, 4, 16, 17, 20])
def test_sizes_of_matrices(n: int, cin: int) -> None:
    for cout, sparse in ((1, False), (4, True), (17, True)):
        x = made(n, (n, cin), MATRIX, -4, 2, True, sparse)
        w = made(cin, (cout, cin), MATRIX, -6, 1, True, sparse)
        e = made(cout, (n, cout), MATRIX, -30, -20, False)
        check_linear(x, w, e)


@pytest.mark.slow
@pytest.mark.parametrize(("low", "high"), [(-3, 1), (-40, 1), (-20, -10)])
def test_long_sums(low: int, high: int) -> None:
    """More terms than any block, chunk or register tile."""
    x = made(1, (6, 700), MATRIX, low, high, True)
    w = made(2, (5, 700), MATRIX, low, high, True)
    e = made(3, (6, 5), MATRIX, low, high, False)
    check_linear(x, w, e)
    x = made(4, (70, 7), MATRIX, low, high, True)
    check_linear(x, made(5, (3, 7), MATRIX, low, high, True), made(6, (70, 3), MATRIX, low, high, False))


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [1, 2, 3])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_every_window(kernel: int, stride: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pixels that no window meets, or only some: what is not written would be far too great."""
    monkeypatch.setattr(int_products, "empty", lambda shape, kind: np.full(shape, 12345, kind))
    for side, padding in product(range(1, 7), range(kernel)):
        size = (side + 2 * padding - kernel) // stride + 1
        if side + 2 * padding >= kernel:
            x = made(side, (5, side, 1, 2), IMAGE, -4, 2, True)
            w = made(padding, (3, 2, kernel, 1), WEIGHT, -6, 1, True)
            e = made(stride, (5, size, 1, 3), IMAGE, -9, 0, False)
            check_conv(x, w, e, stride=(stride, 1), padding=(padding, 0))


@pytest.mark.slow
def test_images_that_are_cut_into_bands_and_channels_into_pages() -> None:
    """Lines of 40 pixels and 64 channels; 33 output channels, of which some blocks are zero everywhere."""
    x = made(1, (1, 6, 40, 64), IMAGE, -4, 2, True, sparse=True)
    w = made(2, (1, 64, 3, 1), WEIGHT, -6, 1, True)
    e = made(3, (1, 6, 40, 1), IMAGE, -30, -20, False)
    check_conv(x, w, e, padding=(1, 0))
    x = made(4, (14, 3, 3, 9), IMAGE, -4, 2, True, sparse=True)
    bits = widths(5, (33, 9, 3, 3), WEIGHT, SPARSE)
    bits[2:4], bits[5], bits[:, 1] = 0, 0, 0
    w = pair(numbers(6, (33, 9, 3, 3), WEIGHT, uniform(6, -3, 1)), bits, WEIGHT)
    e = made(7, (14, 2, 2, 33), IMAGE, -30, -20, True, sparse=True)
    check_conv(x, w, e, stride=2, padding=1)


@pytest.mark.parametrize("groups", [2, 3])
def test_groups(groups: int) -> None:
    x = made(1, (3, 3, 3, 4 * groups), IMAGE, -8, 2, True)
    w = made(2, (5 * groups, 4, 3, 3), WEIGHT, -8, 2, True)
    e = made(3, (3, 3, 3, 5 * groups), IMAGE, -8, 2, False)
    check_conv(x, w, e, padding=1, groups=groups)


@pytest.mark.slow
@given(n=st.integers(1, 6), cout=st.integers(1, 6), seed=SEEDS)
@settings(max_examples=30)
def test_exponents_from_end_to_end_with_results_that_float32_holds(n: int, cout: int, seed: int) -> None:
    """Exponents s and -s meet: products are near 1."""
    far = [-128, 126, 60, -61, 5]
    noise = np.random.default_rng(seed)
    x = pair(numbers(seed, (n, 18), MATRIX, lambda block: far[block[1]]), 8, MATRIX)
    small = numbers(seed, (cout, 18), MATRIX, lambda b: min(126, -far[b[1]]) - int(noise.integers(9)))
    w = pair(small, widths(seed, (cout, 18), MATRIX), MATRIX)
    e = made(seed + 2, (n, cout), MATRIX, -40, -24, False)
    check_linear(x, w, e)


@pytest.mark.slow
@pytest.mark.parametrize("spread", range(1, 48))
def test_spreads_of_one_limb_two_three_and_more(spread: int) -> None:
    """8 bits of a code and the spread of exponents: each number of limbs, on both sides of where it ends."""
    x = np.ones((4, 16), np.float32)
    x[:, :4], x[:, 8:12] = 127 / 128, -127 / 128
    x[:, 4:8] = 127 / 128 * np.float32(2.0**-spread)
    w = np.full((3, 16), 127 / 64, np.float32)
    w[1, 4:8], w[2, :4] = -127 / 64, 127 / 64 * np.float32(2.0**-9)
    e = np.array([[127, 1, -127]] * 4, np.float32) / 128
    e[1], e[2, 0] = e[1] * np.float32(2.0**-spread), 2.0**-40
    check_linear(pair(x, 8, MATRIX), pair(w, 8, MATRIX), pair(e, 8, MATRIX))


LIMBS = {
    (0, 0): (1, 1), (15, 10): (1, 1), (16, 9): (2, 1), (15, 11): (1, 2), (20, 15): (2, 1), (18, 18): (2, 2),
    (28, 11): (2, 1), (29, 5): (3, 1), (5, 42): (1, 3), (42, 33): (3, 3), (43, 5): None, (42, 34): None,
}  # fmt: skip


@pytest.mark.parametrize("bits", LIMBS, ids=str)
def test_limbs_of_two_operands(bits: tuple[int, int]) -> None:
    assert blocks._counts(*bits) == LIMBS[bits]


def test_products_of_limbs_are_products_of_16_bits() -> None:
    """`plan` takes the greatest limbs that operands of so many bits can have as int16 or int8."""
    for bits in product(range(43), repeat=2):
        counts = blocks._counts(*bits)
        if counts is None:
            continue
        tops = []
        for wide, count in zip(bits, counts, strict=True):
            size = -(-wide // count)
            lower, last = (1 << size) - 1, wide - (count - 1) * size
            tops.append(max(lower, 1 << last) if count > 1 else lower)
        a, b = (QTensor(np.zeros(1, np.int32), 0, bound=top) for top in tops)
        assert plan(a, b, 1 << 20).arithmetic in (PAIRS, FOURS)


@given(
    bits=st.integers(1, 42),
    count=st.integers(1, 3),
    low=st.sampled_from([-128, -60, 0, 84]),
    seed=SEEDS,
)
def test_limbs_add_up_to_the_values(bits: int, count: int, low: int, seed: int) -> None:
    """Blocks of all widths anywhere within so many bits, with their greatest codes, and blocks of zeros."""
    size = -(-bits // count)
    if size > (15 if count == 1 else 14) or bits <= (count - 1) * size:
        return
    rng, shape = np.random.default_rng(seed), (5, 67)
    b = rng.choice([width for width in WIDTHS if width - 1 <= bits], (2, 17))
    filled, most = rng.integers(0, 2, b.shape), (1 << np.maximum(b, 1) - 1) - 1
    place = rng.integers(0, bits - np.maximum(b - 1, 0) + 1)
    exponents = np.where(filled, low + place + b - 1, -128).clip(-128, 127)
    within, places = (np.repeat(np.repeat(x, 4, 0), 4, 1)[:5, :67] for x in (most * filled, place))
    codes = rng.integers(-within, within + 1)
    codes[0], codes[1] = within[0], -within[1]
    made = (codes.astype(np.int8), exponents.astype(np.int8), b.astype(np.uint8), filled.astype(np.uint8))
    limbs = BlockTensor(*made, MATRIX).limbs(low, bits, count)
    assert [limb.exponent for limb in limbs] == [low + k * size for k in range(count)]
    for limb in limbs:
        assert limb.codes.dtype == np.int16 and limb.codes.shape == shape
        assert abs(limb.codes.astype(int)).max() <= limb.bound
    total = sum(limb.codes.astype(np.int64) << (k * size) for k, limb in enumerate(limbs))
    assert np.array_equal(total, codes << places)


# -- ties of float32 -------------------------------------------------------------------------------


def assert_sums(exponents: list[int]) -> None:
    """Every choice of signs of a sum of powers of two, a block a power, at four scales."""
    signs = np.array(list(product((1, -1), repeat=len(exponents))), np.float32)
    blocks = np.repeat(np.ldexp(signs, exponents).astype(np.float32), 4, axis=1)
    blocks[:, [i for i in range(blocks.shape[1]) if i % 4]] = 0
    x = pair(blocks, 2, MATRIX)
    for unit in (0, -24, -60, -128):
        w = pair(np.full((1, blocks.shape[1]), 2.0**unit, np.float32), 8, MATRIX)
        got, _ = run(linear, x.q, w.q)
        agrees(got, block_float.exact(oracle.convolution.conv2d, x.exact, w.exact))


TIES = [
    [0, -24], [0, -23, -24], [0, -24, -25], [0, -24, -48], [0, -24, -53], [0, -24, -54], [0, -24, -90],
    [0, -23, -24, -70], [0, -24, -37], [3, 3, -20, -60], [-126, -150 + 24], [23, -1, -30], [0, 0, -110],
]  # fmt: skip


@pytest.mark.parametrize("exponents", TIES, ids=str)
def test_ties_and_what_breaks_them(exponents: list[int]) -> None:
    """What float64 would round twice is among them: a tie of float32 beside a term below 2^-53."""
    assert_sums(exponents)


@pytest.mark.slow
@pytest.mark.parametrize("below", [-30, -52, -53, -54, -55, -80, -126])
def test_one_unit_beside_a_tie(below: int) -> None:
    """k + 1/2 units of float32, exactly and with +-2^below: for every parity of k and both signs."""
    rows = []
    for k, sign, rest in product((2**7 - 1, 2**6, 2**6 + 1, 65, 126), (1, -1), (0, 1, -1)):
        # k * 2^0 + 2^-k's half unit of float32 + rest * 2^below
        half = int(np.floor(np.log2(k))) - 24
        rows.append([sign * k, 0, 0, 0, sign * 2.0**half, 0, 0, 0, rest * 2.0**below, 0, 0, 0])
        rows.append([sign * k, 0, 0, 0, sign * 3 * 2.0**half, 0, 0, 0, rest * 2.0**below, 0, 0, 0])
    spaced = np.zeros((4 * len(rows), 12), np.float32)  # a row a block
    spaced[::4] = np.array(rows, np.float32)
    x = pair(spaced, 8, MATRIX)
    w = pair(np.ones((1, 12), np.float32), 8, MATRIX)
    got, _ = run(linear, x.q, w.q)
    agrees(got, block_float.exact(oracle.convolution.conv2d, x.exact, w.exact))


def test_total_cancellation_is_plus_zero() -> None:
    x = numbers(1, (5, 12), MATRIX, uniform(2, -60, 60))
    both = np.concatenate([x, -x], axis=1)
    w = numbers(3, (4, 12), MATRIX, uniform(4, -60, 60))
    got, _ = run(linear, quantize_blocks(both, 6, MATRIX), quantize_blocks(np.tile(w, 2), 4, MATRIX))
    assert not got.any() and not np.signbit(got).any()
    both[0, 0] = 2.0**-126
    check_linear(
        pair(both, 6, MATRIX), pair(np.tile(w, 2), 4, MATRIX), pair(np.zeros((5, 4), np.float32), 8, MATRIX)
    )


def test_results_below_float32() -> None:
    """From nothing to the least normal number, rounded once there too."""
    x = np.zeros((8, 4), np.float32)
    x[:, 0] = [1, 3, 5, 127, 65, 2, 126, 77]
    x[:, 1] = [0, 1, -1, 1, 0, -1, 3, 5]
    for low in (-149, -150, -151, -155, -156, -157):
        a = pair(np.ldexp(x, low // 2).astype(np.float32), 8, MATRIX)
        b = pair(np.ldexp(np.ones((1, 4)), low - low // 2).astype(np.float32), 8, MATRIX)
        got, _ = run(linear, a.q, b.q)
        agrees(got, block_float.exact(oracle.convolution.conv2d, a.exact, b.exact))


def test_results_beyond_float32_are_named() -> None:
    """The sum of 2^127 and what takes it to, or keeps it from, the midpoint beyond the greatest number."""
    for rest in (-3.0, -(2.0**-100), 0, 2.0**-100):
        x = np.array([[2.0**64 * (1 - 2.0**-7), 0, 0, 0, rest, 0, 0, 0]], np.float32)
        w = np.full((1, 8), 2.0**63, np.float32)
        e = pair(np.zeros((1, 1), np.float32), 8, MATRIX)
        check_linear(pair(x, 8, MATRIX), pair(w, 8, MATRIX), e)
        x[0, 0], x[0, 1:4] = 2.0**64, [2.0**63, 2.0**62, 2.0**61]
        check_linear(pair(x, 8, MATRIX), pair(w, 8, MATRIX), e)


# -- zeros, and what is refused --------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("zero", ["x", "w", "e"])
def test_operands_of_zeros_and_without_bits(zero: str) -> None:
    """All numbers zero, or all widths."""
    shapes = {"x": ((5, 3, 3, 6), IMAGE), "w": ((5, 6, 3, 3), WEIGHT), "e": ((5, 3, 3, 5), IMAGE)}
    for bits in (0, 4):
        pairs = {}
        for i, (name, (shape, axes)) in enumerate(shapes.items()):
            x = numbers(i, shape, axes, uniform(i, -9, 3))
            if name == zero:
                pairs[name] = pair(x * np.float32(bits == 0), bits, axes)
            else:
                pairs[name] = pair(x, widths(i, shape, axes), axes)
        check_conv(pairs["x"], pairs["w"], pairs["e"], padding=1)


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2])
def test_threads_do_not_change_a_bit(n: int) -> None:
    with threads(n):
        x = made(1, (9, 5, 5, 8), IMAGE, -30, 2, True)
        w = made(2, (12, 8, 3, 3), WEIGHT, -30, 2, True)
        e = made(3, (9, 5, 5, 12), IMAGE, -30, 2, False)
        got, gradients = run(conv2d, x.q, w.q, error=e.q, padding=(1, 1))
        first = run(conv2d, x.q, w.q, error=e.q, padding=(1, 1))
        assert values(got) == values(first[0])
        agrees(got, block_float.exact(oracle.convolution.conv2d, x.exact, w.exact, 1, 1))
        assert len(gradients) == 2


def test_operands_of_another_kind_are_refused() -> None:
    x = quantize_blocks(np.ones((4, 4), np.float32), 4, MATRIX)
    with pytest.raises(FormatError, match="linear"):
        linear(x, np.ones((4, 4), np.float32))
    with pytest.raises(ShapeError, match="fc"):
        linear(x, quantize_blocks(np.ones((4, 5), np.float32), 4, MATRIX), where="fc")
    assert tensor(x.values) == oracle.Tensor((4, 4), [1] * 16)
