"""Random words: published Philox rows, the counter rule against the oracle, the LFSR, colliding streams."""

import itertools
import os
import random
import subprocess
import sys
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from intnet import spec as oracle
from intnet.errors import ConfigError
from intnet.exact.quantize import quantize
from intnet.machine.jit import njit
from intnet.numbers import rng
from intnet.numbers.formats import FixedPoint
from tests.support.opcheck import threads

# counter, key -> output of philox4x32 with 10 rounds, as published with Random123
PUBLISHED = [
    "00000000 00000000 00000000 00000000 00000000 00000000 6627e8d5 e169c58d bc57ac4c 9b00dbd8",
    "ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff 408f276d 41c83b0e a20bc7c6 6d5451fd",
    "243f6a88 85a308d3 13198a2e 03707344 a4093822 299f31d0 d16cfe09 94fdcceb 5001e420 24126ea1",
]
philox = njit(rng.philox)
NAME = "layer1.0.conv1/gW"


def draw(seed: int, step: int, name: str, n: int, start: int = 0) -> list[int]:
    return rng.words(seed, step, rng.stream(name), n, start).tolist()


@pytest.mark.parametrize("row", PUBLISHED)
def test_published_rows(row):
    numbers = [int(word, 16) for word in row.split()]
    got = philox(*(np.uint64(v) for v in numbers[:6]))
    assert [int(v) for v in got] == numbers[6:]
    assert list(oracle.words.philox4x32(numbers[:4], numbers[4:6])) == numbers[6:]


def test_the_published_rows_appear_as_words_of_their_seed_step_and_stream():
    """The counter is (block low, block high, stream, step), the key (seed low, seed high)."""
    for row in PUBLISHED:
        c0, c1, stream, step, k0, k1, *out = (int(word, 16) for word in row.split())
        block = c0 | c1 << 32
        assert rng.words(k0 | k1 << 32, step, stream, 4, 4 * block).tolist() == out


def test_philox_on_random_counters_is_the_oracles():
    source = random.Random(3)
    for _ in range(200):
        six = [source.getrandbits(32) for _ in range(6)]
        got = philox(*(np.uint64(v) for v in six))
        assert tuple(int(v) for v in got) == oracle.words.philox4x32(six[:4], six[4:])


@pytest.mark.parametrize("start", [*range(9), 1023, 2**20 + 1])
def test_words_from_any_start_and_of_any_length(start):
    for n in (0, 1, 2, 3, 4, 5, 8, 13):
        words = rng.words(7, 11, rng.stream(NAME), n, start)
        assert words.dtype == np.uint32 and words.shape == (n,)
        assert words.tolist() == oracle.words.words(7, 11, NAME, n, start)


@pytest.mark.parametrize(
    "start",
    [4 * 2**31 - 3, 4 * 2**32 - 3, 4 * 2**32 + 1, 4 * 2**53 + 6, 4 * 2**63 - 5, 4 * 2**63 + 7, 4 * 2**64 - 9],
)
def test_words_where_the_block_number_passes_32_and_63_bits(start):
    assert draw(1, 2, NAME, 9, start) == oracle.words.words(1, 2, NAME, 9, start)


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 1])
@pytest.mark.parametrize("step", [0, 1, 2**31, 2**32 - 1])
def test_words_at_the_ends_of_seed_and_step(seed, step):
    assert draw(seed, step, NAME, 6) == oracle.words.words(seed, step, NAME, 6)


def test_any_split_draws_the_same_words():
    whole = draw(5, 6, NAME, 40)
    for cut in range(41):
        assert draw(5, 6, NAME, cut) + draw(5, 6, NAME, 40 - cut, cut) == whole
    for i in range(40):
        assert draw(5, 6, NAME, 1, i) == whole[i : i + 1]


def test_a_draw_on_all_threads_is_the_draws_of_its_pieces_on_one():
    n = 300_000
    whole = rng.words(9, 1, 77, n)
    pieces = [rng.words(9, 1, 77, min(1001, n - at), at) for at in range(0, n, 1001)]
    assert np.array_equal(whole, np.concatenate(pieces))
    assert np.array_equal(whole, rng.words(9, 1, 77, n, alone=True))


def check_lengths() -> None:
    """Every length up to some vectors of counters, also where a counter's halves carry and where they end."""
    seed, step = 2**63 + 5, 2**32 - 1
    for start in (0, 1, 2, 3, 4 * 2**32 - 61, 4 * 2**63 - 62, 4 * 2**64 - 139):
        expected = oracle.words.words(seed, step, NAME, 139, start)
        for n in range(140):
            assert draw(seed, step, NAME, n, start) == expected[:n], (start, n)


def test_every_length_around_the_widths_of_vectors():
    check_lengths()


@pytest.mark.slow
def test_every_length_without_compilation():
    command = [sys.executable, "-W", "error", "-c"]
    for setup in ("", "rng._PART, rng._SHARED = 16, 32; "):
        code = f"from tests.numbers.test_rng import check_lengths, rng; {setup}check_lengths()"
        done = subprocess.run(
            [*command, code],
            cwd=Path(__file__).resolve().parents[2],
            env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr


MANY = rng._SHARED + 2 * rng._PART  # words
CARRY = 4 * 2**32 - rng._SHARED // 2 - 2  # the low half of the counter overflows inside a part


@cache
def many(start: int) -> np.ndarray:
    """MANY words of the oracle, from `start`, of seed 3 + 5 * 2**32, step 7 and stream 11."""
    first = start // 4
    blocks = range(first, (start + MANY + 3) // 4)
    halves = ((block & 2**32 - 1, block >> 32, 11, 7) for block in blocks)
    words = [word for half in halves for word in oracle.words.philox4x32(half, (3, 5))]
    return np.array(words, np.uint32)[start - 4 * first :][:MANY]


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("start", [0, CARRY, CARRY + 1])
def test_lengths_around_those_that_threads_share(start, count):
    around = [rng._PART, rng._SHARED, rng._SHARED + rng._PART]
    with threads(count):
        for n in [MANY, *(border + more for border in around for more in range(-9, 10))]:
            assert np.array_equal(rng.words(3 + 5 * 2**32, 7, 11, n, start), many(start)[:n]), n


def test_large_draws_that_live_at_once_share_no_memory():
    draws = [rng.words(1, step, 2, rng._SHARED) for step in range(3)]
    for step, words in enumerate(draws):
        assert np.array_equal(words, rng.words(1, step, 2, rng._SHARED))


def test_seed_step_stream_and_index_all_matter():
    base = draw(1, 1, NAME, 8)
    others = [
        draw(2, 1, NAME, 8),
        draw(1 + 2**32, 1, NAME, 8),
        draw(1, 2, NAME, 8),
        draw(1, 1, NAME + "x", 8),
    ]
    others.append(draw(1, 1, NAME, 8, start=8))
    for one, other in itertools.combinations([base, *others], 2):
        assert one != other


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((-1, 0, 0, 1), "seed"),
        ((2**64, 0, 0, 1), "seed"),
        ((0, -1, 0, 1), "step"),
        ((0, 2**32, 0, 1), "step"),
        ((0, 0, -1, 1), "stream"),
        ((0, 0, 2**32, 1), "stream"),
        ((0, 0, 0, 1, -1), "elements"),
        ((0, 0, 0, -1), "elements"),
        ((0, 0, 0, 0, 2**66), "elements"),
        ((0, 0, 0, 2, 2**66 - 1), "elements"),
    ],
)
def test_what_is_out_of_range_is_named(arguments, named):
    with pytest.raises(ConfigError, match=named):
        rng.words(*arguments)


def test_a_stream_is_the_first_four_bytes_of_sha256_big_endian():
    # FIPS 180-2: SHA-256 of 'abc' begins ba7816bf, of nothing e3b0c442
    assert rng.stream("abc") == 0xBA7816BF
    assert rng.stream("") == 0xE3B0C442
    for name in (NAME, "fc/init_W", "Schicht/größe"):
        assert rng.stream(name) == oracle.words.stream(name)


def colliding_names() -> tuple[str, str]:
    """The first two of layer0/gW, layer1/gW, ... that share a stream."""
    seen: dict[int, str] = {}
    for i in itertools.count():
        name = f"layer{i}/gW"
        other = seen.setdefault(rng.stream(name), name)
        if other != name:
            return other, name
    raise AssertionError


@pytest.mark.slow
def test_two_names_of_one_model_that_collide_are_refused():
    one, two = colliding_names()
    assert draw(1, 2, one, 4) == draw(1, 2, two, 4)
    with pytest.raises(ConfigError) as error:
        rng.check_streams(["conv1/gW", one, "fc/gW", two])
    assert repr(one) in str(error.value) and repr(two) in str(error.value)
    rng.check_streams(["conv1/gW", one, "fc/gW"])


def test_one_name_twice_is_no_collision(monkeypatch):
    rng.check_streams([NAME, "fc/gW", NAME])
    monkeypatch.setattr(rng, "stream", lambda name: 5)
    rng.check_streams([NAME, NAME])
    with pytest.raises(ConfigError, match="rename one"):
        rng.check_streams([NAME, "fc/gW"])


def test_lfsr_states_after_one_are_the_published_ones():
    states = list(itertools.islice(rng.lfsr_states(1), 4))
    assert states == [0x80200003, 0xC0300002, 0x60180001, 0xB02C0003]


@pytest.mark.parametrize("seed", [1, 2, 0x80200003, 0xDEADBEEF, 2**32 - 1])
def test_lfsr_draws_are_the_oracles(seed):
    n = 300
    draws = rng.lfsr_words(seed, n)
    assert draws.dtype == np.uint16
    assert draws.tolist() == list(itertools.islice(oracle.words.lfsr(seed), n))
    states = list(itertools.islice(rng.lfsr_states(seed), 16 * n))
    assert draws.tolist() == [state & 0xFFFF for state in states[15::16]]
    assert states == list(itertools.islice(oracle.words.lfsr_states(seed), 16 * n))


def test_lfsr_draws_round_a_tensor_as_the_docstring_says():
    draws = list(itertools.islice(oracle.words.lfsr(1), 300))
    words = rng.lfsr_words(1, 300).astype(np.uint32) << 16
    q = quantize([2.1] * 300, FixedPoint(8, 0), rounding="stochastic", words=words, word_bits=16)
    ups = [draw < (Fraction(2.1) - 2) * 2**16 // 1 for draw in draws]
    assert q.codes.tolist() == [2 + up for up in ups] and 10 < sum(ups) < 50


def test_an_lfsr_never_starts_or_ends_in_zero():
    assert rng.lfsr_words(1, 0).tolist() == []
    with pytest.raises(ConfigError, match="-3 draws: a whole number from 0 on"):
        rng.lfsr_words(1, -3)
    assert 0 not in itertools.islice(rng.lfsr_states(1), 10_000)
    for seed in (0, -1, 2**32):
        with pytest.raises(ConfigError, match="non-zero"):
            rng.lfsr_words(seed, 1)
        with pytest.raises(ConfigError, match="non-zero"):
            next(rng.lfsr_states(seed))
