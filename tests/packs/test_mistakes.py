"""The diagnosis on words of devices that are wrong in one way or in two; Fractions say what is right."""

import random
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import chain

import numpy as np
import pytest

from intnet.numbers.formats import Flag
from intnet.packs.diagnosis import Verdict, diagnose
from intnet.packs.mistakes import Words
from intnet.packs.ports import Port
from intnet.spec import float32
from intnet.spec.formats import flag_encode
from intnet.spec.rounding import overflow, round_fraction

TOP, LANES, COUNT = 127, 4, 800
Device = Callable[[Fraction], int]


def saturate(code: int) -> int:
    return overflow(code, -TOP, TOP, "saturate")


def wrap(code: int, bits: int = 8) -> int:
    half = 1 << bits - 1
    return overflow(code, -half, half - 1, "wrap")


def right(x: Fraction) -> int:
    return saturate(round_fraction(x))


def values(seed: int) -> list[Fraction]:
    """Many ties, many beyond the limits, many with bits far below."""
    source = random.Random(seed)
    quarters = [Fraction(source.randrange(-4 * 200, 4 * 200), 4) for _ in range(COUNT // 2)]
    return quarters + [Fraction(source.randrange(-(200 << 20), 200 << 20), 1 << 20) for _ in quarters]


def words(xs: Sequence[Fraction], want: Sequence[int], got: Sequence[int], **rounding: object) -> Words:
    """As `check` hands them to the diagnosis."""
    how = {"mode": "ties_even", "low": -TOP, "high": TOP, "overflow": "saturate"} | rounding
    port = Port("q", "out", (len(xs),), "N", 8, lanes=LANES, rounding=how)
    floors = [x.__floor__() for x in xs]
    rests = [x - floor for x, floor in zip(xs, floors, strict=True)]
    way = {
        "floor": floors,
        "remainder": [(int(f * 2**32) << 1) | (f * 2**32 != int(f * 2**32)) for f in rests],
        "up": [round_fraction(x) - floor for x, floor in zip(xs, floors, strict=True)],
        "presat": [round_fraction(x) for x in xs],
    }
    arrays = {name: np.array(part, np.int64) for name, part in way.items()}
    return Words(port, np.array(want, np.int64), np.array(got, np.int64), arrays)


def told(device: Device, seed: int = 1) -> list[Verdict]:
    xs = values(seed)
    return diagnose(words(xs, [right(x) for x in xs], [wrap(device(x)) for x in xs]))


def whole(verdicts: Sequence[Verdict]) -> list[str]:
    return [one.name for one in verdicts if one.whole]


# -- two mistakes at once ----------------------------------------------------------------------------

PAIRS: dict[str, Device] = {
    "truncation (floor), and no saturation (wraps)": lambda x: x.__floor__(),
    "tie up (towards +infinity), and no saturation (wraps)": lambda x: round_fraction(x, "ties_pos"),
    "tie away from zero, and limits one code too wide below": lambda x: max(
        -TOP - 1, min(TOP, round_fraction(x, "ties_away"))
    ),
    "truncation towards zero, and no saturation above (wraps)": lambda x: max(
        -TOP, round_fraction(x, "to_zero")
    ),
    "shift by one, too far right, and truncation (floor)": lambda x: saturate((x / 2).__floor__()),
    "shift by one, too far left, and no saturation (wraps)": lambda x: round_fraction(2 * x),
}


@pytest.mark.slow
@pytest.mark.parametrize("pair", PAIRS)
def test_two_mistakes_of_one_rounding(pair: str) -> None:
    assert whole(told(PAIRS[pair])) == [pair]


TIES: dict[str, Callable[[Fraction], bool]] = {  # at a tie: whether it goes up
    "tie up (towards +infinity)": lambda x: True,
    "tie down (towards -infinity), as a constant of half less one": lambda x: False,
    "tie towards zero": lambda x: x < 0,
    "tie to odd": lambda x: x.__floor__() % 2 == 0,
    "tie away from zero": lambda x: x > 0,
}


@pytest.mark.parametrize("name", TIES)
def test_ties_treated_otherwise(name: str) -> None:
    def device(x: Fraction) -> int:
        tie = (x - x.__floor__()) == Fraction(1, 2)
        return saturate(x.__floor__() + TIES[name](x) if tie else round_fraction(x))

    assert whole(told(device)) == [name]


def test_a_single_mistake_is_never_told_as_a_pair() -> None:
    assert whole(told(lambda x: saturate(x.__floor__()))) == ["truncation (floor)"]


def test_few_words_of_a_mistake_that_differ_in_one_bit_each() -> None:
    """Two of 62 are beyond a tie by a bit far below: of even numbers, so that their last bits are wrong."""
    xs = [Fraction(k, 2) for k in range(-30, 30)] + [
        k + Fraction(1, 2) + Fraction(1, 1 << 20) for k in (4, 18)
    ]
    device = ACCUMULATORS["1 bit kept below the grid, no sticky bit"]
    found = diagnose(words(xs, [right(x) for x in xs], [device(x) for x in xs]))
    bits, *others = (one for one in found if one.whole)
    assert bits.lone and bits.name == "one bit inverted in each of 2 elements (bits 0, 0)"
    assert "1 bit kept below the grid, no sticky bit" in [one.name for one in others]
    assert all(one.name.endswith("no sticky bit") for one in others)


def test_few_bits_of_no_mistake() -> None:
    """No pair of mistakes is sought for them."""
    xs = values(7)
    want = [right(x) for x in xs]
    got = [code ^ (16 * (k in (70, 501))) for k, code in enumerate(want)]
    assert whole(diagnose(words(xs, want, got))) == ["one bit inverted in each of 2 elements (bits 4, 4)"]


# -- bits and words that are right, elsewhere ----------------------------------------------------------


def untraced(want: Sequence[int], got: Sequence[int], bits: int, lanes: int = 1) -> list[str]:
    """What is told of signed words of a port that nothing rounds."""
    port = Port("q", "out", (len(want),), "N", bits, lanes=lanes)
    return whole(diagnose(Words(port, np.array(want, np.int64), np.array(got, np.int64), {})))


@pytest.mark.parametrize("bits", [16, 24, 32, 64])
def test_bytes_and_bits_in_the_other_order(bits: int) -> None:
    source = random.Random(bits)
    want = [source.randrange(-(1 << bits - 1), 1 << bits - 1) for _ in range(40)]
    raw = [code.to_bytes(bits // 8, "big", signed=True) for code in want]
    swapped = [int.from_bytes(one, "little", signed=True) for one in raw]
    mirrored = [f"{int.from_bytes(one, 'big'):0{bits}b}"[::-1] for one in raw]
    assert untraced(want, swapped, bits) == ["bytes in the other order"]
    assert untraced(want, [wrap(int(one, 2), bits) for one in mirrored], bits) == ["bits in the other order"]


def test_right_words_in_one_another_s_places() -> None:
    """Of two lanes each; one bit wrong as well, and it is no exchange."""
    source = random.Random(5)
    want = [source.randrange(-(1 << 15), 1 << 15) for _ in range(80)]
    rows = [want[k : k + 2] for k in range(0, 80, 2)]
    rows[7], rows[31] = rows[31], rows[7]
    assert untraced(want, [*chain(*rows)], 16, lanes=2) == ["words 7 and 31 exchanged"]
    rows[31], rows[12] = rows[12], rows[31]
    assert untraced(want, [*chain(*rows)], 16, lanes=2) == ["3 right words in other places"]
    rows[12][0] ^= 4
    assert untraced(want, [*chain(*rows)], 16, lanes=2) == []


# -- ranked by what is explained less what is contradicted ---------------------------------------------


def test_a_mistake_that_contradicts_right_words_stands_below() -> None:
    """Ties go up, and in three words something else happened."""
    xs = [Fraction(k, 2) for k in range(-60, 60)]
    want = [round_fraction(x) for x in xs]
    got = [round_fraction(x, "ties_pos") for x in xs]
    for k in (3, 50, 111):
        got[k] += 9
    verdicts = diagnose(words(xs, want, got))
    first, wrong = verdicts[0], sum(map(int.__ne__, got, want))
    assert (first.name, first.wrong, first.wrong - first.explained) == (
        "tie up (towards +infinity)",
        wrong,
        3,
    )
    assert first.contradicted == 0 and not first.whole
    scores = [one.explained - one.contradicted for one in verdicts]
    assert scores == sorted(scores, reverse=True) and scores[-1] > 0
    assert f"explains {wrong - 3} of {wrong} wrong elements" in str(first)


def test_contradicted_words_are_counted() -> None:
    """A device that truncates in its first quarter only: 'truncation' contradicts the words of the others."""
    xs = values(3)
    want = [right(x) for x in xs]
    got = [saturate(x.__floor__()) if k < COUNT // 4 else right(x) for k, x in enumerate(xs)]
    against = sum(saturate(x.__floor__()) != right(x) for x in xs[COUNT // 4 :])
    verdicts = diagnose(words(xs, want, got))
    assert against and all(one.contradicted < one.explained for one in verdicts)
    assert "truncation (floor)" not in [one.name for one in verdicts]  # it contradicts more than it explains


# -- latency, clips, accumulators ----------------------------------------------------------------------


@pytest.mark.parametrize("gap", [2, 5, 17])
@pytest.mark.parametrize("way", ["late", "early"])
def test_a_right_unit_with_latency(gap: int, way: str) -> None:
    xs = values(4)
    want = [right(x) for x in xs]
    pad = [55] * LANES * gap
    got = pad + want[: -len(pad)] if way == "late" else want[len(pad) :] + pad
    assert whole(diagnose(words(xs, want, got))) == [f"{gap} vectors {way} (latency)"]


@pytest.mark.parametrize("words_a_row", [4, 100])
def test_ends_of_a_delay_are_not_explained_by_it(words_a_row: int) -> None:
    """A device of random words: 'late' says nothing of its first row, 'early' nothing of its last."""
    source = random.Random(8)
    want, got = ([source.getrandbits(16) for _ in range(400)] for _ in range(2))
    port = Port("q", "out", (400,), "N", 16, signed=False, lanes=words_a_row)
    found = diagnose(Words(port, np.array(want, np.int64), np.array(got, np.int64), {}))
    assert not [str(one) for one in found if "latency" in one.name]


CLIPS: dict[str, Device] = {
    "a clip above at 50": lambda x: min(50, right(x)),
    "a clip below at 0": lambda x: max(0, right(x)),
    "a clip above at 99 and below at -20": lambda x: max(-20, min(99, right(x))),
}


@pytest.mark.parametrize("clip", CLIPS)
def test_an_added_clip(clip: str) -> None:
    assert whole(told(CLIPS[clip])) == [clip]


def test_a_device_that_is_stuck() -> None:
    for word in (0, -7):
        assert whole(told(lambda x, word=word: word)) == [f"stuck at {word}"]


def test_a_flag_with_its_sign_inverted() -> None:
    """Of magnitude 0 there is one word."""
    codes = [*range(-127, 128), *(128 * k for k in range(-127, 128))]

    def word(code: int) -> int:
        flag, sign, size = flag_encode(code)
        return flag << 8 | sign << 7 | size

    want, got = ([word(way * code) for code in codes] for way in (1, -1))
    port = Port("q", "out", (len(codes),), "N", 9, signed=False, encoding="flag", format=Flag(8))
    found = diagnose(Words(port, np.array(want), np.array(got), {}))
    assert whole(found) == ["negated"]


def narrow_sum(bits: int, how: str) -> Device:
    half = 1 << bits - 1

    def device(x: Fraction) -> int:
        floor = x.__floor__()
        return saturate(round_fraction(overflow(floor, -half, half - 1, how) + x - floor))

    return device


def few_bits_below(bits: int) -> Device:
    return lambda x: saturate(round_fraction(Fraction((x * 2**bits).__floor__(), 2**bits)))


def few_bits_of_the_magnitude(bits: int) -> Device:
    """Rounds |x| and puts the sign back, as converters do that know magnitudes only."""
    return lambda x: few_bits_below(bits)(abs(x)) * (-1 if x < 0 else 1)


ACCUMULATORS: dict[str, Device] = {
    "the sum wraps ahead of the rounding, 8 bits from the grid up": narrow_sum(8, "wrap"),
    "the sum wraps ahead of the rounding, 6 bits from the grid up": narrow_sum(6, "wrap"),
    "the sum saturates ahead of the rounding, 6 bits from the grid up": narrow_sum(6, "saturate"),
    "1 bit kept below the grid, no sticky bit": few_bits_below(1),
    "3 bits kept below the grid, no sticky bit": few_bits_below(3),
    "1 bit kept below the grid of the magnitude, no sticky bit": few_bits_of_the_magnitude(1),
    "3 bits kept below the grid of the magnitude, no sticky bit": few_bits_of_the_magnitude(3),
}


@pytest.mark.parametrize("name", ACCUMULATORS)
def test_an_accumulator_that_is_too_narrow(name: str) -> None:
    assert whole(told(ACCUMULATORS[name])) == [name]


def test_an_accumulator_that_is_too_wide() -> None:
    """Where the contract wraps, a device that saturates has more bits than it should have."""
    xs = values(5)
    want = [wrap(round_fraction(x)) for x in xs]
    got = [overflow(round_fraction(x), -128, 127, "saturate") for x in xs]
    limits = {"low": -128, "high": 127, "overflow": "wrap"}
    assert whole(diagnose(words(xs, want, got, **limits))) == ["saturates where it has to wrap"]


def test_noise_has_no_known_mistake() -> None:
    source = random.Random(6)
    xs = values(6)
    got = [source.randrange(-127, 128) for _ in xs]
    assert not whole(diagnose(words(xs, [right(x) for x in xs], got)))


@pytest.mark.parametrize(("by", "name"), [(2, "large: twice"), (Fraction(1, 2), "small: half")])
def test_an_exponent_of_a_binary32_that_is_off_by_one(by: Fraction | int, name: str) -> None:
    """Subnormals and ends included: doubled exactly or infinite, halved with one rounding."""
    source = random.Random(7)
    patterns = [source.randrange(1 << 31) % 0x7F800000 | source.randrange(2) << 31 for _ in range(300)]
    patterns += [0, 1 << 31, 1, 2, 3, 0x7FFFFF, 0x800000, 0xFFFFFF, 0x7F000000, 0x7F7FFFFF, 0x7F800000]
    want, got = np.array(patterns, np.int64), np.array([scaled(p, by) for p in patterns], np.int64)
    port = Port("x", "out", (len(patterns),), "N", 32, signed=False, encoding="float32")
    (found,) = diagnose(Words(port, want, got, {}))
    assert found.whole and found.name == f"an exponent one too {name} the value"


def scaled(pattern: int, by: Fraction | int) -> int:
    """The pattern of the value times `by`, by the definition's binary32."""
    sign, size = pattern & 1 << 31, pattern & 0x7FFFFFFF
    if size == 0x7F800000:
        return pattern
    exact = float32.value(float32.units_of(size)) * by
    if exact >= 2**128:
        return sign | 0x7F800000
    return sign | float32.bits_of(float32.units(float32.to_float32(exact)))
