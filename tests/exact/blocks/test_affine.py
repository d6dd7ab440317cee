"""Affine codes as integers: q - z, their values, 16 bits in two halves, and products of these."""

import numpy as np
import pytest

from intnet.exact.blocks.affine import AffineTensor, steps
from intnet.exact.blocks.buckets import Codec, encode
from intnet.methods.banner import NEAREST, WIDE
from intnet.numbers.qtensor import QTensor, container
from intnet.ops.blocks import affine_product
from intnet.ops.kernels import int_products


@pytest.mark.parametrize("codec", [WIDE, NEAREST], ids=["16", "8"])
@pytest.mark.parametrize("middle", [0.0, 0.4, -3.0, 1e3, 1e6])
def test_codes_in_steps_are_the_values_that_come_back(codec: Codec, middle: float) -> None:
    """Zero points within the codes, beyond them, and beyond 2^24, where q - z is rounded."""
    x = (np.random.default_rng(1).random((37, 300)) - 0.5 + middle).astype(np.float32)
    packed = encode(x, codec)
    made, q = steps(packed), packed.words.view({16: np.uint16, 8: np.uint8}[codec.bits])[: x.size]
    assert np.array_equal(made.values, packed.load())
    assert abs(made.codes.codes.astype(np.int64)).max() <= made.codes.bound
    if made.codes.bound <= 1 << 24:
        assert np.array_equal(made.codes.codes.reshape(-1), q.astype(np.int64) - int(packed.zeros[0]))


def affine(codes: np.ndarray, scale: float, bits: int) -> AffineTensor:
    bound = int(abs(codes).max())
    return AffineTensor(QTensor(codes.astype(container(bound)), 0, bound=bound), np.float32(scale), bits)


def test_halves_of_every_code() -> None:
    codes = np.arange(-65535, 65536)
    high, low = affine(codes, 1.0, 16).halves()
    assert (high.exponent, low.exponent) == (8, 0)
    assert np.array_equal(high.codes.astype(np.int64) * 256 + low.codes, codes)
    for half in (high, low):
        assert half.codes.dtype == np.int16 and abs(half.codes.astype(int)).max() <= half.bound
    assert low.codes.min() == 0


@pytest.mark.parametrize("terms", [1, 33, 40000])
@pytest.mark.parametrize("sign", [1, -1])
def test_products_of_16_and_8_bits(terms: int, sign: int) -> None:
    """Random codes, a row of the greatest and one of the least, against integer sums of NumPy."""
    draw = np.random.default_rng(terms)
    a, b = draw.integers(-65535, 65536, (3, terms)), draw.integers(-255, 256, (4, terms))
    a[0], a[1], b[0] = 65535, -65535, 255 * sign
    got = affine_product(affine(a, 0.75, 16), affine(b, 1.25, 8), terms, int_products.gemm)
    assert got.dtype == np.float32
    assert np.array_equal(got, (a @ b.T).astype(np.float32) * (np.float32(0.75) * np.float32(1.25)))
