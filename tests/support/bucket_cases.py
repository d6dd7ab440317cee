"""Bucketed codecs against the oracle: one comparison, and the values that are worth comparing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from intnet import spec as oracle
from intnet.exact.blocks import buckets as bucket_codec
from intnet.exact.blocks.buckets import Codec, Packed
from intnet.numbers.rng import Draw
from intnet.spec import buckets, float32

NAME = "layer1.0.conv1/a"  # a stream
SEED, STEP = 0x1_0000_0007, 12
DRAWN = Draw(SEED, STEP, oracle.words.stream(NAME))  # what `compare` draws

KINDS = ("affine", "affine-stochastic", "levels")
SIGNED = ("levels", "counted", "symmetric")  # codes with a sign, and no zero point


def units(x: np.ndarray) -> list[int]:
    return [float32.units_of(bits) for bits in x.reshape(-1).view(np.uint32).tolist()]


def patterns(x: np.ndarray) -> list[int]:
    """What == compares: 32 bits a float32, so that -0 is not 0."""
    return x.reshape(-1).view(np.uint32).tolist()


def compare(x: np.ndarray, codec: Codec, promoted: np.ndarray | None = None) -> Packed:
    """Both ways; AssertionError at the first difference in scales, codes, bytes, counts or a~."""
    packed = bucket_codec.encode(x, codec, DRAWN, promoted)
    n = x.size
    size = codec.bucket if isinstance(codec.bucket, int) else n
    widths = [codec.bits] * -(-n // size)
    if promoted is not None:
        assert codec.mix is not None
        widths = [codec.mix if p else codec.bits for p in promoted.tolist()]
    words = oracle.words.words(SEED, STEP, NAME, n)
    image = int(np.prod(x.shape[1:]))
    want = buckets.save(units(x), codec.kind, widths, size, words, codec.norm, image)
    assert patterns(packed.scales) == [float32.bits_of(b.scale) for b in want.buckets]
    if codec.kind in SIGNED:
        assert packed.zeros.size == 0
    else:
        assert patterns(packed.zeros) == [float32.bits_of(b.zero) for b in want.buckets]
    assert packed.words.tobytes() == want.packed
    assert packed.clipped == sum(b.clipped for b in want.buckets)
    assert packed.widths.tolist() == widths
    middle = {"levels": lambda b: 2**b, "counted": lambda b: b, "symmetric": lambda b: 2 ** (b - 1)}
    offsets = [middle.get(codec.kind, lambda b: 0)(b) for b in widths]
    codes = [c - o for b, o in zip(want.buckets, offsets, strict=True) for c in b.codes]
    assert packed.codes().shape == x.shape and packed.codes().reshape(-1).tolist() == codes
    assert packed.load().shape == x.shape and packed.load().dtype == np.float32
    assert patterns(packed.load()) == [float32.bits_of(v) for v in want.values]
    return packed


# -- values ------------------------------------------------------------------------------------------


def normal(source: np.random.Generator, n: int) -> np.ndarray:
    return source.standard_normal(n).astype(np.float32)


def after_relu(source: np.random.Generator, n: int) -> np.ndarray:
    return np.maximum(normal(source, n), np.float32(0))


def constant(source: np.random.Generator, n: int) -> np.ndarray:
    """Runs of 64 of one value, 0 and -0 among them."""
    values = np.array([0.0, -0.0, 1.5, -3e-39, 3e38], np.float32)
    return np.resize(np.repeat(source.permutation(values), 64), n)


def zeros_of_both_signs(source: np.random.Generator, n: int) -> np.ndarray:
    return source.choice(np.array([0.0, -0.0], np.float32), n)


def signed_zeros(source: np.random.Generator, n: int) -> np.ndarray:
    return source.choice(np.array([0.0, -0.0, 1.0, -1.0, 0.5], np.float32), n)


def outlier(source: np.random.Generator, n: int) -> np.ndarray:
    x = normal(source, n)
    x[n // 2] = source.choice(np.array([1e6, -1e30], np.float32))
    return x


def far_from_zero(source: np.random.Generator, n: int) -> np.ndarray:
    """min/s up to 2^24 * 2^b: a bucket of a few neighbouring float32."""
    base = np.float32(source.choice([1000.0, -3.0, 1e30])).view(np.int32)
    return (base + source.integers(0, 40, n).astype(np.int32)).view(np.float32)


def subnormal(source: np.random.Generator, n: int) -> np.ndarray:
    bits = source.integers(0, 1 << source.integers(3, 24), n, dtype=np.uint32)
    return (bits | source.integers(0, 2, n, dtype=np.uint32) << np.uint32(31)).view(np.float32)


def step_of_a_few_units(source: np.random.Generator, n: int) -> np.ndarray:
    """s underflows to 0, or is 1, 2 or 3 units of 2^-149 for one of the widths."""
    top = 1 << int(source.integers(1, 23))
    return source.integers(0, top, n, dtype=np.uint32).view(np.float32)


def huge(source: np.random.Generator, n: int) -> np.ndarray:
    """Ranges just below the greatest float32."""
    return (source.uniform(-1.7e38, 1.7e38, n)).astype(np.float32)


def all_exponents(source: np.random.Generator, n: int) -> np.ndarray:
    bits = source.integers(0, 0x7F000000, n, dtype=np.uint32)
    return (bits | source.integers(0, 2, n, dtype=np.uint32) << np.uint32(31)).view(np.float32)


def halves(source: np.random.Generator, n: int) -> np.ndarray:
    """Ties: multiples of s/2, where the range is whole steps of a power of two (b up to 6 in 64)."""
    x = source.integers(-63, 64, n).astype(np.float32) / np.float32(2)
    x[::64], x[1::64] = np.float32(-31.5), np.float32(31.5)
    return x


VALUES: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    f.__name__: f
    for f in (
        normal, after_relu, constant, zeros_of_both_signs, signed_zeros, outlier, far_from_zero, subnormal,
        step_of_a_few_units, huge, all_exponents, halves,
    )
}  # fmt: skip
