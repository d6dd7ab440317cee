"""Rounding, exhaustively: every mode against the oracle, every random word of every width up to 8 bits."""

import re
from fractions import Fraction

import numpy as np
import pytest

from intnet.errors import FormatError
from intnet.inspect.explain_rules import rule
from intnet.machine.jit import njit
from intnet.numbers import rounding
from intnet.numbers.rounding import HLS_ALIASES, MODES, STOCHASTIC, mode_code, round_up
from intnet.packs import contract, mistakes
from intnet.spec import round_fraction
from intnet.spec import rounding as oracle
from tests.support import cases

round_quotient = njit(rounding.round_quotient)
DETERMINISTIC = [mode for mode in oracle.MODES if mode != "stochastic"]
DENOMINATORS = range(1, 41)


def test_the_modes_are_the_oracles_modes_and_no_two_share_a_code():
    assert tuple(MODES) == oracle.MODES
    assert len(set(MODES.values())) == len(MODES)


@pytest.mark.slow
@pytest.mark.parametrize("mode", DETERMINISTIC)
def test_every_small_quotient(mode):
    code = MODES[mode]
    for den in DENOMINATORS:
        for num in range(-512, 513):
            assert round_quotient(num, den, code, 0, 0) == round_fraction(Fraction(num, den), mode), (
                num,
                den,
            )


@pytest.mark.slow
@pytest.mark.parametrize("bits", range(1, 9))
def test_stochastic_every_word_of_every_small_quotient(bits):
    words = range(2**bits)
    for den in range(1, 17):
        for num in range(-2 * den, 2 * den + 1):
            x = Fraction(num, den)
            got = [round_quotient(num, den, STOCHASTIC, word, bits) for word in words]
            assert got == [round_fraction(x, "stochastic", word, bits) for word in words], (num, den)


@pytest.mark.slow
@pytest.mark.parametrize("bits", range(1, 9))
def test_stochastic_bias_is_proved_by_enumerating_every_word(bits):
    """Bias lies in (-2^-B, 0], and is 0 exactly where the fraction has at most B bits."""
    for den in (*range(1, 17), 2**bits, 2 ** (bits + 1), 3 * 2**bits):
        for num in range(-den, den + 1):
            x = Fraction(num, den)
            total = sum(int(round_quotient(num, den, STOCHASTIC, word, bits)) for word in range(2**bits))
            bias = Fraction(total, 2**bits) - x
            assert -Fraction(1, 2**bits) < bias <= 0, (num, den)
            assert (bias == 0) == ((x * 2**bits).denominator == 1), (num, den)


@pytest.mark.slow
@pytest.mark.parametrize("bits", range(1, 9))
def test_stochastic_is_what_hardware_does_with_a_carry(bits):
    """B random bits r' = 2^B - 1 - r added below the LSB, then everything below the LSB dropped."""
    for den in (1, 3, 7, 8, 10, 2**bits, 2 ** (bits + 2)):
        for num in range(-2 * den, 2 * den + 1):
            extended = (num << bits) // den  # the value with B bits below the LSB, cut
            for word in range(2**bits):
                carried = (extended + (2**bits - 1 - word)) >> bits
                assert round_quotient(num, den, STOCHASTIC, word, bits) == carried, (num, den, word)


def test_an_exact_integer_never_moves():
    for mode, code in MODES.items():
        for bits in (1, 8, 32):
            for word in (0, 1, 2**bits - 1):
                for den in (1, 2, 3, 2**40):
                    for num in (-3, -1, 0, 1, 7):
                        assert round_quotient(num * den, den, code, word, bits) == num, mode


# Values near the end of the range: 2^62 itself, the limits, ties and the neighbours of both.
BIG_DENOMINATORS = [2**62, 2**62 - 1, 2**61 + 1, 2**61, 3 * 2**60, 2**53 + 1, 2**32 - 1, 10**18, 3, 2, 1]


def big_numerators(den: int) -> list[int]:
    """Corner numerators within +-2^62 and those next to multiples and half multiples of `den`."""
    near = {k * den // 2 + d for k in range(-5, 6) for d in (-1, 0, 1)}
    return sorted(v for v in near | set(cases.corners(63)) if -(2**62) <= v <= 2**62)


@pytest.mark.slow
@pytest.mark.parametrize("mode", DETERMINISTIC)
def test_corners_near_the_end_of_the_range(mode):
    code = MODES[mode]
    for den in BIG_DENOMINATORS:
        for num in big_numerators(den):
            assert round_quotient(num, den, code, 0, 0) == round_fraction(Fraction(num, den), mode), (
                num,
                den,
            )


@pytest.mark.slow
@pytest.mark.parametrize("bits", [1, 16, 31, 32])
def test_stochastic_corners_near_the_end_of_the_range(bits):
    """The words on both sides of the threshold, where 2^32 * remainder needs 94 bits."""
    for den in BIG_DENOMINATORS:
        for num in big_numerators(den)[::3]:
            x = Fraction(num, den)
            threshold = int((x - num // den) * 2**bits)
            for word in {0, 2**bits - 1, threshold - 1, threshold, threshold + 1}:
                if 0 <= word < 2**bits:
                    want = round_fraction(x, "stochastic", word, bits)
                    assert round_quotient(num, den, STOCHASTIC, word, bits) == want, (num, den, word)


def test_round_up_asks_only_for_the_parity_and_the_sign_of_the_floor():
    """The two-limb loops pass 0, 1, -2 or -1 for a floor that has no int64."""
    for mode in DETERMINISTIC:
        for floor in range(-6, 6):
            stand_in = (floor & 1) - (2 if floor < 0 else 0)
            for rem in range(8):
                full, short = (round_up(MODES[mode], f, rem, 8, 0, 0) for f in (floor, stand_in))
                assert bool(full) == bool(short), (mode, floor, rem)


def test_a_bare_nearest_is_refused_with_the_list_of_names():
    with pytest.raises(FormatError) as error:
        mode_code("nearest")
    assert "where a tie goes" in str(error.value)
    for name in (*MODES, *HLS_ALIASES):
        assert name in str(error.value)


@pytest.mark.parametrize("name", ["", "TIES_EVEN", "rnd", "half_up", "RND_ZERO"])
def test_other_unknown_names_are_refused_with_the_list(name):
    with pytest.raises(
        FormatError, match="ties_even, ties_away, ties_pos, to_neg, to_pos, to_zero, stochastic"
    ):
        mode_code(name)


def test_hls_names_mean_the_modes_of_ap_fixed():
    """AP_RND: to +infinity; AP_RND_INF: away; AP_RND_CONV: to even; AP_TRN: floor; AP_TRN_ZERO: to zero."""
    halves = [Fraction(n, 2) for n in (-5, -3, -1, 1, 3, 5)]
    rounded = {
        "RND": [-2, -1, 0, 1, 2, 3],
        "RND_INF": [-3, -2, -1, 1, 2, 3],
        "RND_CONV": [-2, -2, 0, 0, 2, 2],
        "TRN": [-3, -2, -1, 0, 1, 2],
        "TRN_ZERO": [-2, -1, 0, 0, 1, 2],
    }
    for name, want in rounded.items():
        assert [round_quotient(x.numerator, x.denominator, mode_code(name), 0, 0) for x in halves] == want, (
            name
        )
    assert mode_code("STOCH") == STOCHASTIC
    assert set(HLS_ALIASES) == {*rounded, "STOCH"}


@pytest.mark.parametrize("mode", DETERMINISTIC)
def test_whoever_tells_of_a_mode_tells_what_it_does(mode):
    """inspect, the diagnosis of packs and CONTRACT.md each know every mode: none may be forgotten."""
    for floor in (-2, -1, 0, 1):
        for quarters in range(1, 4):
            part = Fraction(quarters, 4)
            up = round_fraction(floor + part, mode) > floor
            made = oracle.decision(floor + part, mode)
            assert (made.floor, made.fraction, made.up) == (floor, part, up)
            assert rule(mode, made).endswith(f"{'up' if up else 'down'} to {floor + up}")
            remainder = np.array([quarters << mistakes.FRACTION_BITS - 1])  # its last bit is sticky
            assert mistakes.UP[mode](np.array([floor]), remainder, None, 0)[0] == up
    table = contract._READING.partition("| mode |")[2]
    assert mode in re.findall(r"\w+", table)


def test_what_nobody_was_told_of_is_refused():
    for mode in ("nearest", "ties_odd"):
        with pytest.raises(FormatError, match=mode):
            rule(mode, oracle.Decision(0, Fraction(1, 2), True, None, False))
