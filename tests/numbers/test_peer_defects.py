"""Defects that other fixed-point and training simulators have, each computed here in float, and not had.

Every docstring reads 'gives X, a float simulation gives Y'; the test computes both. The float side is
NumPy float32 written as such simulators write it.
"""

import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from intnet import datasets, methods, models
from intnet.exact.expressions import Exact, add, exact, log2_round
from intnet.exact.quantize import flag_words, quantize
from intnet.numbers import rng
from intnet.numbers.formats import Direct, FixedPoint, Flag, Shift
from intnet.numbers.qtensor import QTensor
from intnet.numbers.rounding import MODES
from intnet.training.train import Run

F = Fraction
f32 = np.float32


def integers(*codes: int) -> QTensor:
    return QTensor(np.array(codes, np.int64), 0)


def nearest(value: float, **fmt: object) -> int:
    """The code of one float32 in <32,0>, ties to even unless `rounding` says otherwise."""
    return int(quantize(np.array([value], f32), FixedPoint(32, 0), **fmt).codes[0])  # type: ignore[arg-type]


# -- nearest ---------------------------------------------------------------------------------


def test_0_499996_of_a_step_is_not_rounded_up():
    """gives 0, a float simulation gives 1 step: adding 6*2^E first rounds the sum to a tie."""
    width, e = 8, 0
    step = 2.0 ** (e + 2 - width)
    x = f32(0.499996 * step)
    shifted = f32(x + f32(6 * 2.0**e))  # 6*2^E makes one mantissa bit a step
    mantissa_bits = shifted.view(np.int32) + np.int32(1 << (23 - width - 1))  # half a step, then cut
    cut = np.int32(mantissa_bits & ~((1 << (23 - width)) - 1)).view(f32)
    assert (cut - f32(6 * 2.0**e)) / step == 1.0
    assert quantize(np.array([x]), FixedPoint(width, width - e - 2)).codes.tolist() == [0]


def test_0_49999997_is_not_rounded_to_1():
    """gives 0, a float simulation (floor(|x| + 0.5)) gives 1."""
    x = f32(0.49999997)
    assert np.floor(np.abs(x) + f32(0.5)) == 1.0
    for mode in ("ties_even", "ties_away", "ties_pos"):
        assert nearest(x, rounding=mode) == 0
        assert nearest(-x, rounding=mode) == 0


def test_an_integer_above_2_to_the_23_keeps_its_value():
    """gives 2^23+1, a float simulation (floor(x + 0.5)) gives 2^23+2."""
    x = f32(2**23 + 1)
    assert np.floor(x + f32(0.5)) == 2**23 + 2
    for mode in MODES:
        words = np.zeros(1, np.uint32) if mode == "stochastic" else None
        assert nearest(x, rounding=mode, words=words) == 2**23 + 1


def test_dropping_two_bits_of_a_60_bit_integer_has_no_float64_detour():
    """gives 2^58+1 for (2^60+5)/4, a float simulation gives 2^58: float64 has lost the 5."""
    code = 2**60 + 5
    assert int(np.rint(np.float64(code) / 4)) == 2**58
    assert quantize(integers(code), Direct(1, lsb=2)).codes.tolist() == [2**58 + 1]


# -- stochastic ------------------------------------------------------------------------------


def means(x: F, exponent: int, bits: int) -> F:
    """The mean over every word of stochastic rounding to 2^exponent, in exact arithmetic."""
    unit = F(2) ** -20
    codes = np.full(2**bits, int(x / unit), np.int64)
    words = (np.arange(2**bits) << (32 - bits)).astype(np.uint32)
    q = quantize(
        QTensor(codes, -20), Direct(1, lsb=exponent), rounding="stochastic", words=words, word_bits=bits
    )
    return F(sum(q.codes.tolist()), 2**bits) * F(2) ** exponent


def test_stochastic_rounding_of_a_large_value_has_the_right_mean():
    """gives mean 1048576.125, a float simulation gives 1048576.0625: float32's mantissa cuts the noise."""
    x = f32(1048576.125)
    noise = ((np.arange(256) + 0.5) / 256 - 0.5).astype(f32)  # every draw, once
    simulated = np.rint((x + noise).astype(f32))
    assert F(int(simulated.astype(np.int64).sum()), 256) == F(10485760625, 10000)
    assert means(F(1048576125, 1000), 0, 8) == F(1048576125, 1000)


def test_an_exact_value_is_not_moved_by_a_draw_equal_to_its_fraction():
    """gives 3, a float simulation (up where draw <= fraction) gives 3.5 when the draw is 0."""
    step, draw = f32(0.5), f32(0.0)
    scaled = f32(3.0) / step
    fraction = scaled - np.floor(scaled)
    assert (np.floor(scaled) + f32(draw <= fraction)) * step == 3.5
    q = quantize(np.array([3.0], f32), FixedPoint(8, 1), rounding="stochastic", words=np.zeros(1, np.uint32))
    assert q.fractions().tolist() == [3]


def test_a_draw_equal_to_the_fraction_goes_down_so_the_mean_is_exact():
    """gives mean 3.25 on the grid 1, a simulation that goes up at draw == fraction gives 3.25 + 1/256."""
    draws = np.arange(256, dtype=f32) / f32(256)
    simulated = np.floor(f32(3.25)) + (draws <= f32(0.25)).astype(f32)
    assert F(float(simulated.sum())) / 256 == F(13, 4) + F(1, 256)
    assert means(F(13, 4), 0, 8) == F(13, 4)


def test_stochastic_rounding_of_a_negative_quotient_has_the_right_mean():
    """gives mean -5/4, a float simulation gives -2.75: floor division, then a step away from zero."""
    quotient, remainder = divmod(-5, 4)
    draws = (np.arange(256) + 0.5) / 256
    simulated = quotient - (draws < f32(remainder) / f32(4)).astype(f32)
    assert simulated.mean() == -2.75
    x = Exact([(QTensor(np.full(256, -5, np.int8), 0), 1)], 0, den=4)
    words = (np.arange(256) << 24).astype(np.uint32)
    codes = quantize(x, Direct(1), rounding="stochastic", words=words, word_bits=8).codes
    assert F(int(codes.sum()), 256) == F(-5, 4)


# -- ranges ----------------------------------------------------------------------------------


def test_8_bit_codes_with_a_shared_exponent_never_reach_128():
    """gives 127, a float simulation gives +128, which int8 cannot hold.

    Stands for block float: SQ is the format here with one exponent for many elements.
    """
    values = np.array([0.999, -0.999, 1.4], f32)
    assert np.rint(values / f32(1.0) * f32(128)).tolist() == [128.0, -128.0, 179.0]
    assert quantize(values, Shift(8)).codes.tolist() == [127, -127, 127]


def test_a_4_bit_code_never_spills_into_its_neighbour_when_packed():
    """gives 15 beside 2, a float simulation gives 16, whose fifth bit turns the neighbour's 2 into 3.

    Stands for packed block float: the stored words here are those of Flag, which never pass k + 1 bits.
    """
    values = np.array([15.6, 2.0], f32)
    low, high = (int(v) for v in np.rint(values))
    assert (low | high << 4) >> 4 == 3  # the 2 has become 3
    low, high = quantize(values, FixedPoint(4, 0, signed=False)).codes.tolist()
    assert (low, (low | high << 4) >> 4) == (15, 2)

    extremes = np.array([1.41421, -1.41421, 1.0, -0.0078124, 2.0**-30, 0.0078125], f32)
    q = quantize(extremes, Flag(8))
    assert np.rint(extremes / f32(2**-7)).max() == 181  # 8 bits of magnitude where the word has 7
    assert int(flag_words(q).max()) < 2**9 and int((flag_words(q) & 127).max()) == 127


def test_the_exponent_just_below_a_power_of_two():
    """gives 19 for round(log2(741455)) and 23 for floor(log2(2^24-1)), a float simulation gives 20 and 24."""
    assert np.floor(np.log2(f32(2**24 - 1))) == 24
    assert (2**24 - 1).bit_length() - 1 == 23
    assert np.rint(np.log2(f32(741455))) == 20
    assert log2_round(F(741455)) == 19 and 741455**2 < 2**39 < 741456**2
    assert quantize(integers(741455), Shift(8)).exponent == 19 - 7
    assert log2_round(F(2**24 - 1)) == 24  # R rounds: the leading bit is not what it asks for


def test_the_accumulator_saturates_where_its_format_says_so():
    """gives 32767 and counts it, a float simulation of the accumulator gives 40000."""
    products = [(200, 100), (200, 100)]
    assert sum(f32(a) * f32(b) for a, b in products) == 40000
    total = Exact([(integers(a), b) for a, b in products], 0)
    q = quantize(total, FixedPoint(16, 0))
    assert q.codes.tolist() == [32767] and q.status is not None and q.status.saturated == 1


def test_an_accumulator_never_wraps():
    """gives 2^32 - 2 for the sum of two int32 limits, a simulation in int32 gives -2."""
    top = np.array([2**31 - 1], np.int32)
    assert (top + top).tolist() == [-2]
    x = QTensor(top, 0)
    total = exact(add(x, x))
    assert total.fractions().tolist() == [2**32 - 2]
    assert quantize(total, Direct(1)).codes.tolist() == [2**32 - 2]


def test_a_range_that_needs_33_bits_is_said_to_need_33():
    """gives 33 bits for sums up to +2^31, a float simulation (ceil(log2(range))) gives 32."""
    bound = 2**31
    assert 1 + int(np.ceil(np.log2(f32(bound)))) == 32
    x = QTensor(np.array([2**30], np.int32), 0)
    total = Exact([(x, 1), (x, 1)], 0)
    assert total.bound() == bound and total.bits() == 33
    assert quantize(total, Direct(1)).width == 33


# -- whole training steps --------------------------------------------------------------------

SCRIPT = """
from tests.numbers.test_peer_defects import start
run = start(seed=1)
run.train(2)
print(run.digest())
"""


def start(seed: int) -> Run:
    """The mlp under wageubn; batches of 512 so that tensors are cut into blocks for all threads."""
    data = datasets.load("digits")
    return Run(models.make("mlp", data.image_shape, data.classes), methods.Wageubn(), data, 512, seed)


def digest_with_threads(threads: int) -> str:
    environment = {**os.environ, "NUMBA_NUM_THREADS": str(threads)}
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-W", "error", "-c", SCRIPT]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
def test_two_threads_give_the_same_state_as_one():
    """gives one digest, a float simulation gives two sums: each thread adds its half."""
    values = np.array([1.0, 2.0**-24, 2.0**-24, 2.0**-24], f32)
    straight = f32(0)
    for v in values:
        straight += v
    halves = (values[0] + values[1]) + (values[2] + values[3])
    assert straight == 1.0 and halves == 1.0 + 2.0**-23
    assert digest_with_threads(1) == digest_with_threads(2) != ""


def test_the_seed_has_an_effect_and_is_the_only_thing_that_has():
    """gives other states for other seeds, a float simulation that only rounds to nearest gives one state."""
    simulated = {seed: np.rint(np.linspace(-3, 3, 50, dtype=f32)).tolist() for seed in (1, 2)}
    assert simulated[1] == simulated[2]
    digests = []
    for seed in (1, 2, 1):
        run = start(seed)
        run.train(1)
        digests.append(run.digest())
    assert digests[0] == digests[2] != digests[1]


@pytest.mark.slow
def test_a_resumed_run_draws_the_words_of_an_unbroken_one():
    """gives the unbroken run's state, a float simulation gives other draws: its generator restarted."""
    unbroken = np.random.default_rng(1).random(8, dtype=f32)
    resumed = np.concatenate(
        [np.random.default_rng(1).random(4, dtype=f32) for _ in range(2)]
    )  # restarted at 4
    assert unbroken.tolist() != resumed.tolist()
    assert (
        rng.words(1, 5, 6, 8).tolist() == rng.words(1, 5, 6, 4).tolist() + rng.words(1, 5, 6, 4, 4).tolist()
    )

    straight, first, second = start(1), start(1), start(1)
    straight.train(2)
    first.train(1)
    second.restore(first.model.state_dict(), first.step)
    second.train(2)
    assert second.digest() == straight.digest() != first.digest()
