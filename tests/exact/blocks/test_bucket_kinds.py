"""The thesis's own quantizers: per-tensor symmetric codes, any number of levels, buckets of any size."""

import math

import numpy as np
import pytest

from intnet.errors import FormatError, NumberError
from intnet.exact.blocks.buckets import TENSOR, Codec, encode
from tests.support.bucket_cases import DRAWN, VALUES, compare, normal


def made(seed: int, n: int) -> np.ndarray:
    return normal(np.random.default_rng(seed), n)


@pytest.mark.parametrize("values", VALUES)
def test_symmetric(values: str) -> None:
    """Outliers, subnormals, and quotients that float32 does not hold."""
    for bits in (1, 2, 3, 7, 8, 9, 24, 25, 31, 32):
        compare(VALUES[values](np.random.default_rng(bits), 70), Codec("symmetric", bits, bucket=TENSOR))


@pytest.mark.slow
def test_symmetric_beyond_float32() -> None:
    """Two values are beyond the percentile: what is divided comes to 3e38/(1e-10/2^31)."""
    x = np.zeros(60_000, np.float32)
    x[7], x[9] = 3e38, -3e38
    packed = encode(x, Codec("symmetric", 32, bucket=TENSOR))
    assert packed.scales[0] == 3e38 / np.float32(2.0**31)  # k = n - 1: the other one
    small = np.concatenate([x, np.zeros(100_000, np.float32)])
    packed = compare(small, Codec("symmetric", 32, bucket=TENSOR))
    assert packed.clipped == 2 and packed.codes()[[7, 9]].tolist() == [2**31 - 1, -(2**31)]


def test_the_percentile_by_a_plain_sort() -> None:
    """Brevitas: `x.abs().view(-1).kthvalue(int(math.floor(.01 * q * x.numel() + 0.5)))`."""
    for n in (1, 2, 999, 50_001, 150_000, 250_000, 300_001):
        x = made(n, n)
        k = math.floor(0.01 * 99.999 * n + 0.5)
        threshold = np.sort(np.abs(x))[k - 1]
        packed = encode(x, Codec("symmetric", 4, bucket=TENSOR))
        assert packed.scales.tolist() == [np.float32(threshold / np.float32(8))]
        assert packed.zeros.size == 0 and packed.nbytes == packed.words.nbytes + 4
        plain = np.clip(np.rint(x / packed.scales[0]), -8, 7)
        assert (packed.codes() == plain).all() and (packed.load() == plain * packed.scales[0]).all()
        assert packed.clipped == np.count_nonzero(np.rint(x / packed.scales[0]) != plain)


def test_one_bit_has_no_positive_code() -> None:
    """-1 and 0: what a ReLU leaves is 0 throughout."""
    packed = encode(
        np.array([1.0, -1.0, 0.25, -0.5, -0.75], np.float32), Codec("symmetric", 1, bucket=TENSOR)
    )
    assert packed.load().tolist() == [0.0, -1.0, 0.0, 0.0, -1.0]


def test_a_mix_promotes_a_whole_tensor() -> None:
    codec, x = Codec("symmetric", 2, mix=9, bucket=TENSOR), made(1, 300)
    for up in (True, False):
        compare(x, codec, np.array([up]))


@pytest.mark.slow
@pytest.mark.parametrize("values", ["normal", "outlier", "subnormal", "huge", "signed_zeros"])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 63, 64, 100, 255, 1000, 2**24 - 1, 2**24])
def test_any_number_of_levels(values: str, count: int) -> None:
    x = VALUES[values](np.random.default_rng(count), 130)
    packed = compare(x, Codec("counted", count, bucket=64))
    assert packed.codec.distinct(count) == 2 * count + 1 <= 2 ** packed.codec.code_width(count)


def test_counted_levels_are_the_same_codes() -> None:
    x = made(5, 777)
    for bits in (1, 2, 5, 8, 24):
        one, other = (encode(x, codec, DRAWN) for codec in (Codec("levels", bits), Codec("counted", 2**bits)))
        assert one.words.tobytes() == other.words.tobytes() and (one.load() == other.load()).all()
    mixed = Codec("counted", 3, mix=700, bucket=100)
    compare(x, mixed, np.arange(8) % 3 == 0)


@pytest.mark.parametrize("norm", ["max", "l2"])
@pytest.mark.parametrize("bits", [31, 32])
def test_levels_of_31_and_32_bits(bits: int, norm: str) -> None:
    """2^(b+1) + 1 codes, in 33 and 34 bits."""
    for n in (1, 7, 64, 70, 129):
        packed = compare(made(n, n), Codec("levels", bits, bucket=64, norm=norm))
        assert packed.codec.code_width(bits) == bits + 2


@pytest.mark.slow
@pytest.mark.parametrize("bucket", [1, 3, 7, 10, 65, 100, 1000, 4095, 4096, 4097, 5000, 9000])
@pytest.mark.parametrize("kind", ["affine", "affine-stochastic", "levels", "counted"])
def test_buckets_of_any_size(kind: str, bucket: int) -> None:
    """Within a task, as long as one, and of several."""
    for n, bits in ((bucket - 1, 4), (bucket + 1, 3), (2 * bucket + 5, 1), (9001, 9)):
        if n > 0 and n // bucket < 1000:
            compare(made(n, n), Codec(kind, bits, bucket=bucket))
    x = made(2, 2500).reshape(50, 50)
    if kind == "levels":
        compare(x, Codec(kind, 3, bucket=bucket, norm="l2"))
    compare(x, Codec(kind, 2, mix=5, bucket=bucket), np.arange(-(-2500 // bucket)) % 2 == 1)


def test_what_does_not_fit() -> None:
    for wrong in (0, -1, True, "all", 2.0, "64"):
        with pytest.raises(FormatError, match="a whole number from 1 on, or tensor"):
            Codec("affine", 2, bucket=wrong)  # type: ignore[arg-type]
    with pytest.raises(FormatError, match="one scale a tensor"):
        Codec("symmetric", 2)
    for count in (0, 2**24 + 1):
        with pytest.raises(FormatError, match=r"from 1 to 2\^24"):
            Codec("counted", count)
    with pytest.raises(NumberError, match=r"NaN or infinity at index \(3,\)"):
        encode(np.array([0, 1, 2, np.nan], np.float32), Codec("symmetric", 2, bucket=TENSOR))
    wide = np.zeros(10_000, np.float32)
    wide[5001:5003] = 3e38, -3e38
    for bucket, first in ((100, 4000), (5000, 5000)):
        with pytest.raises(NumberError, match=f"at or after element {first}"):
            encode(wide, Codec("affine", 2, bucket=bucket))
