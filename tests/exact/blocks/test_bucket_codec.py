"""Bucketed codecs: every kind, width, bucket and border against the oracle, with ==."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from intnet.errors import ConfigError, FormatError, NumberError, ShapeError
from intnet.exact.blocks import buckets as bucket_codec
from intnet.exact.blocks import signs as signs_kept
from intnet.exact.blocks.buckets import TENSOR, Codec, encode, promotions
from intnet.exact.blocks.signs import Signs
from intnet.numbers import rng
from intnet.numbers.rng import Draw
from intnet.spec import buckets, float32
from tests.support.bucket_cases import DRAWN, KINDS, VALUES, compare, normal, units

BUCKETS = (64, 128, 256, 512)  # the thesis's

DRAW = Draw(1, 2, 3)
SIZES = (1, 7, 8, 63, 64, 65, 127, 128, 129, 511, 512, 513)
LONG = (4095, 4096, 4097, 8200)  # a task takes 4096


def made(seed: int, n: int) -> np.ndarray:
    return normal(np.random.default_rng(seed), n)


def test_the_oracle_computes_as_ieee_does() -> None:
    """Its integers against the processor's float32, over all exponents; no code of the library takes part."""
    source = np.random.default_rng(0)
    a, b = (VALUES["all_exponents"](source, 3000) for _ in range(2))
    b[:500] = a[:500] * np.float32(1 + 2.0**-20)
    near = source.permutation(VALUES["subnormal"](source, 500))
    a, b = np.concatenate([a, near]), np.concatenate([b, near[::-1]])
    b[b == 0] = 1
    with np.errstate(all="ignore"):
        results = [a + b, a * b, a / b, np.sqrt(np.abs(a))]
    rules = (
        lambda p, q: float32.nearest_units(p + q),
        float32.mul_units,
        float32.div_units,
        lambda p, q: float32.sqrt_units(abs(p)),
    )
    for rule, result in zip(rules, results, strict=True):
        for p, q, r in zip(units(a), units(b), (result + np.float32(0)).tolist(), strict=True):
            if np.isinf(r):
                with pytest.raises(OverflowError):
                    rule(p, q)
            else:
                assert float32.bits_of(rule(p, q)) == int(np.float32(r).view(np.uint32))


@pytest.mark.slow
@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("kind", [*KINDS, "l2"])
def test_every_width(kind: str, values: str) -> None:
    """32 bits are 2^b - 1 = 2^32 as a float32: the last code is 2^32 - 1 all the same."""
    source = np.random.default_rng(len(kind))
    for bits in range(1, 33):
        x = VALUES[values](source, 70)
        if kind == "l2":
            compare(np.minimum(np.abs(x), np.float32(2.0**60)), Codec("levels", bits, bucket=64, norm="l2"))
        else:
            compare(x, Codec(kind, bits, bucket=64))


@pytest.mark.slow
@pytest.mark.parametrize("bucket", [*BUCKETS, TENSOR])
@pytest.mark.parametrize("kind", KINDS)
def test_sizes_around_borders(kind: str, bucket: int | str) -> None:
    for i, n in enumerate(SIZES):
        compare(made(n, n), Codec(kind, (1, 3, 4, 2, 8, 11, 6)[i % 7], bucket=bucket))


@pytest.mark.slow
@pytest.mark.parametrize("n", LONG)
@pytest.mark.parametrize(
    "codec",
    [
        Codec("affine", 2, bucket=64),
        Codec("affine-stochastic", 3, bucket=512),
        Codec("levels", 4, bucket=256, norm="l2"),
        Codec("affine", 13, bucket=TENSOR),
        Codec("affine-stochastic", 1, bucket=TENSOR),
        Codec("levels", 7, bucket=TENSOR, norm="l2"),
    ],
    ids=lambda codec: f"{codec.kind}-{codec.bits}-{codec.bucket}",
)
def test_several_tasks(n: int, codec: Codec) -> None:
    compare(made(n, n), codec)


@pytest.mark.slow
def test_squares_are_summed_in_chunks_of_1024() -> None:
    for n in (1023, 1024, 1025, 1500, 2048, 2049, 3000):
        compare(made(n, n).reshape(1, n), Codec("levels", 3, bucket=TENSOR, norm="l2"))


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(17, 3), (33, 5, 2), (50, 1, 41), (80, 21), (48, 130)], ids=str)
def test_squares_of_groups_of_images_meet_in_a_tree(shape: tuple[int, ...]) -> None:
    """Buckets within a group, across the border of two, and of many groups."""
    x = made(1, int(np.prod(shape))).reshape(shape)
    for bucket in (64, 512, TENSOR):
        compare(x, Codec("levels", 3, bucket=bucket, norm="l2"))


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(), (1,), (3, 5, 7), (2, 1, 65), (130, 1)])
def test_shapes_and_strides(shape: tuple[int, ...]) -> None:
    """Buckets run in C order, whatever the memory looks like."""
    x = made(3, int(np.prod(shape))).reshape(shape)
    shifted = np.frombuffer(b"?" + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(shape)
    assert not shifted.flags.aligned and not shifted.flags.writeable
    for kind in KINDS:
        codec = Codec(kind, 3, bucket=64)
        packed = compare(x, codec)
        for same in (np.asfortranarray(x), np.repeat(x[..., None], 2, -1)[..., 1], shifted):
            assert encode(same, codec, DRAWN).words.tobytes() == packed.words.tobytes()


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0, 4)])
@pytest.mark.parametrize("kind", KINDS)
def test_nothing(kind: str, shape: tuple[int, ...]) -> None:
    for codec in (Codec(kind, 3), Codec(kind, 3, mix=5), Codec(kind, 3, bucket=TENSOR)):
        promoted = None if codec.mix is None else np.zeros(0, bool)
        packed = encode(np.zeros(shape, np.float32), codec, DRAW, promoted)
        assert packed.load().shape == packed.codes().shape == shape
        assert packed.nbytes == packed.clipped == packed.widths.size == 0
    assert Signs(np.zeros(shape, np.float32)).load().shape == shape


finite = st.floats(-(2.0**126), 2.0**126, width=32)
few = st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.0**-149, -(2.0**-149), 2.0**-126, 3.0, 1e6])


@pytest.mark.slow
@given(
    arrays.arrays(np.float32, arrays.array_shapes(max_dims=3, max_side=13), elements=st.one_of(finite, few)),
    st.sampled_from(KINDS), st.integers(1, 30), st.sampled_from([64, 128, TENSOR]), st.data(),
)  # fmt: skip
def test_any_tensor(x: np.ndarray, kind: str, bits: int, bucket: int | str, data: st.DataObject) -> None:
    norm = data.draw(st.sampled_from(["max", "l2"])) if np.abs(x).max() < 2.0**60 else "max"
    mix = data.draw(st.one_of(st.none(), st.integers(1, 30)))
    codec = Codec(kind, bits, mix, bucket, norm)
    chosen = st.lists(st.booleans(), min_size=codec.buckets(x.size), max_size=codec.buckets(x.size))
    compare(x, codec, None if mix is None else np.array(data.draw(chosen)))


# -- words and mixing --------------------------------------------------------------------------------


@pytest.mark.parametrize("bucket", [*BUCKETS, TENSOR])
def test_element_i_takes_word_i(bucket: int | str) -> None:
    """u = 1/2 (of levels 3/2) but where a bucket has its extremes: up iff the word's top bit is 0."""
    up = (rng.words(5, 6, 7, 9026) < 2**31).astype(np.int64)
    x, want = np.full(up.size, 0.5, np.float32), up.copy()
    x[::64], x[1::64] = 0, 3
    want[::64], want[1::64] = 0, 3
    codes = encode(x, Codec("affine-stochastic", 2, bucket=bucket), Draw(5, 6, 7)).codes()
    assert codes.tolist() == want.tolist()
    x, want = np.full(up.size, -0.75, np.float32), -1 - up
    x[::64], want[::64] = 1, 2
    codes = encode(x, Codec("levels", 1, bucket=bucket), Draw(5, 6, 7)).codes()
    assert codes.tolist() == want.tolist()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "bits", "mix"),
    [("affine", 2, 4), ("affine-stochastic", 2, 6), ("levels", 3, 6), ("affine-stochastic", 4, 8),
     ("levels", 4, 8), ("affine", 7, 9), ("affine-stochastic", 13, 3), ("affine", 32, 1)],
)  # fmt: skip
@pytest.mark.parametrize("bucket", [64, 256, 512])
def test_each_bucket_packs_at_its_own_width(kind: str, bits: int, mix: int, bucket: int) -> None:
    for n in (1, 65, 1000, 4100):
        codec = Codec(kind, bits, mix, bucket)
        promoted = np.random.default_rng(n).integers(0, 2, codec.buckets(n)).astype(bool)
        packed = compare(made(n, n), codec, promoted)
        assert packed.widths.tolist() == [mix if p else bits for p in promoted.tolist()]


@pytest.mark.slow
def test_a_mixed_tensor_as_one_bucket() -> None:
    for promoted in (False, True):
        packed = compare(made(1, 4500), Codec("affine-stochastic", 2, 9, TENSOR), np.array([promoted]))
        assert packed.widths.tolist() == [9 if promoted else 2]


def test_buckets_begin_with_a_word_by_hand() -> None:
    """Three buckets of 64 codes at 2, 5 and 2 bits: words 0-1, 2-6, 7-8."""
    x = np.tile(np.array([0, 3], np.float32), 96)
    packed = encode(x, Codec("affine", 2, 5, 64), promoted=np.array([False, True, False]))
    assert packed.words.size == 2 + 5 + 2
    assert [hex(w) for w in packed.words[[0, 1, 7, 8]].tolist()] == ["0xcccccccccccccccc"] * 4
    assert packed.words[2] & 0x3FF == 31 << 5  # code 0, then 31
    assert packed.flags is not None and packed.flags.tolist() == [0b010]
    assert packed.nbytes == 9 * 8 + 3 * (4 + 4) + 1


def test_promotions() -> None:
    words = rng.words(4, 5, 6, 5000)
    for p in (0.0, 0.2, 0.3, 0.5, 1.0):
        assert promotions(5000, p, Draw(4, 5, 6)).tolist() == [
            word < int(p * 2**32) for word in words.tolist()
        ]
    assert not promotions(5000, 0.0, DRAW).any() and promotions(5000, 1.0, DRAW).all()
    word = int(words[17])
    assert not promotions(18, word / 2**32, Draw(4, 5, 6))[17]
    assert promotions(18, (word + 1) / 2**32, Draw(4, 5, 6))[17]


# -- what a tensor takes -----------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "width", "metadata"), [("affine", 4, 8), ("levels", 6, 4)])
def test_bytes_held_are_those_of_the_model(kind: str, width: int, metadata: int) -> None:
    for bucket in BUCKETS:
        packed = encode(made(0, 4096), Codec(kind, 4, bucket=bucket), DRAW)
        assert packed.nbytes == 4096 * width // 8 + 4096 // bucket * metadata
        assert packed.nbytes == packed.codec.packed_bytes(4096)
    mixed = Codec(kind, 4, 8, 64)
    packed = encode(made(0, 4096), mixed, DRAW, np.arange(64) % 4 == 0)
    assert packed.nbytes == 4096 * width // 8 + 16 * 64 * 4 // 8 + 64 * metadata + 64 // 8
    assert packed.nbytes == mixed.packed_bytes(4096, 0.25)


def test_one_bit_of_a_symmetric_range_keeps_nothing() -> None:
    """Of -1 .. 1: s = 2, z = round(1/2) = 0, u = -1/2 .. 1/2, and all of it rounds to 0."""
    x = np.linspace(-1, 1, 64).astype(np.float32)
    assert set(compare(x, Codec("affine", 1, bucket=64)).load().tolist()) == {0.0}


def test_distinct_codes_are_all_there() -> None:
    """Of `levels` 2^(b+1) + 1: 4 levels and a sign are 9 codes, 3.17 bits, packed in 4."""
    for kind in KINDS:
        x = np.linspace(-1 if kind == "levels" else 0, 1, 1 << 15).astype(np.float32)
        for bits in range(1, 7):
            codec = Codec(kind, bits, bucket=TENSOR)
            codes = set(encode(x, codec, DRAW).codes().tolist())
            assert len(codes) == codec.distinct(bits) <= 2 ** codec.code_width(bits)
    assert Codec("levels", 2).distinct(2) == 9 and Codec("levels", 2).code_width(2) == 4


@pytest.mark.slow
def test_bits_behind_the_last_code_are_0(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where memory is used again that held something else."""

    def used(shape: tuple[int, ...], dtype: type) -> np.ndarray:
        out = np.empty(shape, dtype)
        out.view(np.uint8)[:] = 0xFF
        return out

    for module in (bucket_codec, signs_kept):
        monkeypatch.setattr(module, "empty", used)
    for kind in KINDS:
        for bits in range(1, 31):
            for n in (1, 3, 65, 77):
                compare(made(n, n), Codec(kind, bits, bucket=64))
    for n in (1, 8, 9, 63, 64, 65, 130):
        signs = Signs(np.ones(n, np.float32))
        assert int.from_bytes(signs.words.tobytes(), "little") == 2**n - 1


@pytest.mark.parametrize("n", [1, 7, 8, 9, 15, 16, 17, 63, 64, 65, 143, 4097, 10000, 40000])
def test_signs(n: int) -> None:
    x = VALUES["signed_zeros"](np.random.default_rng(n), n)
    signs = Signs(x)
    assert signs.load().tolist() == [int(v > 0) for v in x.tolist()]
    assert signs.nbytes == len(signs.words) * 8 == -(-n // 64) * 8
    total = sum(1 << i for i, v in enumerate(x.tolist()) if v > 0)
    assert int.from_bytes(signs.words.tobytes(), "little") == total
    e = np.resize(np.float32([1.5, -2.0, 0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -3e38]), n)
    with np.errstate(invalid="ignore"):
        want, got = e * (x > 0), signs.times(e)
    assert np.array_equal(np.isnan(got), np.isnan(want))
    assert np.array_equal(got.view(np.int32)[~np.isnan(want)], want.view(np.int32)[~np.isnan(want)])


def test_signs_of_other_errors_are_refused() -> None:
    signs = Signs(np.ones((2, 3), np.float32))
    with pytest.raises(ShapeError, match=r"an error of shape \(3, 2\) does not meet signs of shape \(2, 3\)"):
        signs.times(np.ones((3, 2), np.float32))
    with pytest.raises(FormatError, match="must be float32, got float64"):
        signs.times(np.ones((2, 3)))


# -- threads, and without compilation ----------------------------------------------------------------


def digest(n: int) -> str:
    """SHA-256 of everything that is kept of tensors of n elements."""
    sha = hashlib.sha256()
    x = made(9, n).reshape(2, -1)
    for kind in KINDS:
        for codec in (Codec(kind, 3, bucket=64), Codec(kind, 11, 2, 128), Codec(kind, 5, bucket=TENSOR)):
            promoted = None if codec.mix is None else promotions(codec.buckets(n), 0.5, DRAW)
            for norm in ("max", "l2") if kind == "levels" else ("max",):
                chosen = Codec(kind, codec.bits, codec.mix, codec.bucket, norm)
                packed = encode(x, chosen, DRAW, promoted)
                for part in (packed.words, packed.scales, packed.zeros, packed.load(), packed.codes()):
                    sha.update(part.tobytes())
                sha.update(str(packed.clipped).encode())
    sha.update(Signs(x).words.tobytes())
    return sha.hexdigest()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variable", "value", "n"),
    [("NUMBA_NUM_THREADS", "1", 20002), ("NUMBA_NUM_THREADS", "2", 20002), ("NUMBA_DISABLE_JIT", "1", 202)],
)
def test_the_same_bytes_everywhere(variable: str, value: str, n: int) -> None:
    code = f"from tests.exact.blocks.test_bucket_codec import digest; print(digest({n}))"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, variable: value}, cwd=Path(__file__).parents[3], capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == [digest(n)]


# -- what is refused ---------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [np.nan, -np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", KINDS)
def test_the_first_nan_or_infinity_is_named(kind: str, wrong: float) -> None:
    for bucket in (64, 512, TENSOR):
        for at in ((0, 0, 0), (1, 2, 3), (2, 99, 15)):
            x = made(1, 3 * 100 * 16).reshape(3, 100, 16)
            x[at] = x[2, 99, 15] = np.float32(wrong)
            with pytest.raises(NumberError) as error:
                encode(x, Codec(kind, 4, bucket=bucket), DRAW, where="layer1 (saved)")
            assert str(error.value) == f"layer1 (saved): NaN or infinity at index {at}"


def test_what_float32_does_not_hold() -> None:
    x = made(1, 9000)
    x[5000], x[5001] = 3e38, -3e38
    for codec in (Codec("affine", 4), Codec("affine-stochastic", 4), Codec("levels", 4, norm="l2")):
        what = "norm" if codec.kind == "levels" else "range"
        text = f"conv: float32 does not hold the {what} of a bucket .at or after element 4096."
        with pytest.raises(NumberError, match=text):
            encode(x, codec, DRAW, where="conv")
    for codec in (Codec("affine", 4, bucket=TENSOR), Codec("levels", 4, bucket=TENSOR, norm="l2")):
        with pytest.raises(NumberError, match="after element 0"):
            encode(x, codec, DRAW)
    compare(x[4900:5100], Codec("levels", 4))  # of the greatest magnitude it does


@pytest.mark.slow
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("kind", ["affine", "affine-stochastic"])
def test_a_code_whose_value_overflows(kind: str, sign: int) -> None:
    """a~ may lie s/2 outside of min .. max, which at 2.8e38 .. 3.4e38 and s = 0.6e38 is infinite."""
    x = np.linspace(2.8e38, 3.4e38, 64).astype(np.float32) * np.float32(sign)
    with pytest.raises(NumberError, match="float32 does not hold the range of a bucket"):
        encode(x, Codec(kind, 1, bucket=64), DRAWN)
    refused = 0
    for bits in (1, 2, 3, 8, 9):  # the border itself, on the oracle's word
        for low in np.linspace(2.6e38, 3.39e38, 12).astype(np.float32):
            x[0], x[1:] = np.float32(sign) * low, np.float32(sign * 3.4e38)
            ends = buckets.affine(units(x), bits)._replace(codes=[0, 2**bits - 1])
            try:
                buckets.affine_values(ends)
            except OverflowError:
                refused += 1
                with pytest.raises(NumberError, match="does not hold the range"):
                    encode(x, Codec(kind, bits, bucket=64), DRAWN)
            else:
                compare(x, Codec(kind, bits, bucket=64))
    assert 0 < refused < 30


def test_misuse_is_explained() -> None:
    x = np.zeros(100, np.float32)
    stochastic = Codec("affine-stochastic", 2, bucket=64)
    with pytest.raises(FormatError, match="conv takes float32, got float64"):
        encode(x.astype(np.float64), stochastic, DRAW, where="conv")
    with pytest.raises(FormatError, match="give a draw"):
        encode(x, stochastic)
    for codec, promoted in (
        (stochastic, np.zeros(2, bool)),
        (Codec("affine", 2, 4, 64), None),
        (Codec("affine", 2, 4, 64), np.zeros(1, bool)),
    ):
        with pytest.raises(FormatError, match="a choice for each of 2 buckets"):
            encode(x, codec, DRAW, promoted)
    for draw in (Draw(1 << 64, 0, 0), Draw(0, 1 << 32, 0), Draw(0, -1, 0), Draw(0, 0, 1 << 32)):
        with pytest.raises(ConfigError, match="is outside 0"):
            encode(x, stochastic, draw)
    for more, text in (
        ({"kind": "log"}, "use one of affine"), ({"bits": 0}, "from 1 to 32"), ({"bits": 33}, "from 1 to 32"),
        ({"mix": 0}, "from 1 to 32"), ({"kind": "levels", "bits": 33}, "from 1 to 32"),
        ({"bucket": 0}, "a whole number from 1 on"), ({"norm": "l1"}, "use max or l2"),
    ):  # fmt: skip
        with pytest.raises(FormatError, match=text):
            Codec(**more)
