"""Rounding, random words and formats of the definition, against published and hand-computed answers.

Expected values are literals worked by hand, or identities that hold exactly; none comes from the library.
"""

import itertools
from fractions import Fraction

import pytest

from intnet.spec import Tensor, block_float, buckets, convolution
from intnet.spec import float32 as floats
from intnet.spec import formats as qz
from intnet.spec import words as random
from intnet.spec.float32 import ONE
from intnet.spec.rounding import MODES, overflow, round_fraction, round_sqrt
from intnet.spec.tensor import index_of, place_of, places
from tests.support import cases

F = Fraction


# Rounding

XS = [F(n, 4) for n in (-10, -9, -7, -6, -2, 0, 2, 6, 9, 10, 11, 28)]
ROUNDED = {
    "ties_even": [-2, -2, -2, -2, 0, 0, 0, 2, 2, 2, 3, 7],
    "ties_away": [-3, -2, -2, -2, -1, 0, 1, 2, 2, 3, 3, 7],
    "ties_pos": [-2, -2, -2, -1, 0, 0, 1, 2, 2, 3, 3, 7],
    "to_neg": [-3, -3, -2, -2, -1, 0, 0, 1, 2, 2, 2, 7],
    "to_pos": [-2, -2, -1, -1, 0, 0, 1, 2, 3, 3, 3, 7],
    "to_zero": [-2, -2, -1, -1, 0, 0, 0, 1, 2, 2, 2, 7],
}


@pytest.mark.parametrize("mode", ROUNDED)
def test_rounding_table(mode):
    assert [round_fraction(x, mode) for x in XS] == ROUNDED[mode]


def test_rounding_near_a_tie_is_not_a_tie():
    assert round_fraction(F(49999997, 10**8), "ties_away") == 0
    assert round_fraction(F(2**60 + 5, 4), "ties_even") == 2**58 + 1
    assert round_fraction(F(1, 2) + F(1, 10**30), "ties_even") == 1


def test_every_mode_is_in_a_table_and_a_bare_nearest_is_refused():
    assert set(MODES) == {*ROUNDED, "stochastic"}
    with pytest.raises(ValueError, match="ties_even, ties_away"):
        round_fraction(F(1, 3), "nearest")
    with pytest.raises(ValueError, match="unknown"):
        round_fraction(3, "nearest")


@pytest.mark.parametrize(
    ("x", "bits", "ups"), [(F(5, 8), 3, 5), (F(-5, 4), 2, 3), (F(1, 3), 2, 1), (F(3), 4, 0)]
)
def test_stochastic_rounding_by_every_word(x, bits, ups):
    floor = x.numerator // x.denominator
    results = [round_fraction(x, "stochastic", r, bits) for r in range(2**bits)]
    assert results == [floor + 1] * ups + [floor] * (2**bits - ups)


def test_stochastic_rounding_needs_a_word_that_fits():
    assert round_fraction(F(1, 2), "stochastic", 2**31 - 1) == 1
    assert round_fraction(F(1, 2), "stochastic", 2**31) == 0
    for word, bits in ((None, 32), (8, 3), (-1, 3), (0, 0), (0, 33)):
        with pytest.raises(ValueError, match=r"random bits|needs a word"):
            round_fraction(F(1, 3), "stochastic", word, bits)


def test_overflow_modes():
    codes = [-257, -129, -128, -127, 127, 128, 300]
    assert [overflow(c, -128, 127, "saturate") for c in codes] == [-128, -128, -128, -127, 127, 127, 127]
    symmetric = [overflow(c, -128, 127, "saturate_symmetric") for c in codes]
    assert symmetric == [-127, -127, -127, -127, 127, 127, 127]
    assert [overflow(c, -128, 127, "wrap") for c in codes] == [-1, 127, -128, -127, 127, -128, 44]
    assert overflow(-128, -128, 127, "error") == -128
    with pytest.raises(OverflowError):
        overflow(128, -128, 127, "error")


def test_roots_by_comparing_squares():
    squares = [F(0), F(1, 4), F(2), F(9, 4), F(4), F(25, 4), F(49, 4), F(99, 4), F(10**40 - 1)]
    assert [round_sqrt(v) for v in squares] == [0, 0, 1, 2, 2, 2, 4, 5, 10**20]
    assert round_sqrt(F(10**40 - 1), "to_neg") == 10**20 - 1
    for v in cases.random_magnitudes(1, 200, 90):
        r = round_sqrt(abs(v))
        assert (2 * r - 1) ** 2 <= 4 * abs(v) <= (2 * r + 1) ** 2 or r == v == 0


# Random words

PHILOX = """
00000000 00000000 00000000 00000000  00000000 00000000  6627e8d5 e169c58d bc57ac4c 9b00dbd8
ffffffff ffffffff ffffffff ffffffff  ffffffff ffffffff  408f276d 41c83b0e a20bc7c6 6d5451fd
243f6a88 85a308d3 13198a2e 03707344  a4093822 299f31d0  d16cfe09 94fdcceb 5001e420 24126ea1
"""

STREAM = 0x92DC8F8A  # sha256sum of the name starts so


@pytest.mark.parametrize("line", PHILOX.split("\n")[1:-1])
def test_philox_known_answers(line):
    numbers = [int(word, 16) for word in line.split()]
    assert list(random.philox4x32(numbers[:4], numbers[4:6])) == numbers[6:]


def test_words_follow_the_counter_rule():
    assert random.stream("layer1.0.conv1/gW") == STREAM
    seed, name = 2**40 + 7, "layer1.0.conv1/gW"
    all_words = random.words(seed, 3, name, 11)
    assert all_words[:4] == list(random.philox4x32((0, 0, STREAM, 3), (7, 256)))
    assert all_words[8:] == list(random.philox4x32((2, 0, STREAM, 3), (7, 256)))[:3]
    assert random.words(seed, 3, name, 5, start=6) == all_words[6:]
    far = random.philox4x32((0, 1, STREAM, 3), (7, 256))
    assert random.words(seed, 3, name, 1, start=2**34 + 1) == [far[1]]
    assert random.words(seed, 3, name, 11, bits=5) == [word >> 27 for word in all_words]


def test_lfsr_first_states_and_draws():
    states = list(itertools.islice(random.lfsr_states(1), 32))
    assert states[:4] == [0x80200003, 0xC0300002, 0x60180001, 0xB02C0003]
    assert list(itertools.islice(random.lfsr(1), 2)) == [states[15] % 65536, states[31] % 65536]
    with pytest.raises(ValueError, match="LFSR"):
        next(random.lfsr_states(0))


@pytest.mark.parametrize(
    "odd", [{"seed": -1}, {"seed": 2**64}, {"step": -1}, {"step": 2**32}, {"i": -4}], ids=str
)
def test_what_is_no_key_and_no_counter_is_refused(odd: dict[str, int]) -> None:
    assert random.word(**({"seed": 2**64 - 1, "step": 2**32 - 1, "name": "x", "i": 2**66 - 1}))
    with pytest.raises(ValueError, match=r"seed 0\.\.2\^64 - 1"):
        random.word(**({"seed": 1, "step": 1, "name": "x", "i": 1} | odd))


# Formats


def test_log2_of_R():
    table = {0: 0, 1: 0, 2: 1, 3: 2, 5: 2, 6: 3, 741454: 19, 741455: 19, 741456: 20, 2**47: 47}
    assert {m: qz.log2_R(m) for m in table} == table
    assert qz.log2_R(F(1, 3)) == -2
    assert qz.log2_R(F(7, 10)) == -1
    assert qz.log2_R(F(71, 100)) == 0
    for n in range(80):
        assert [qz.log2_R(m) for m in cases.sqrt2_neighbours(n)] == [n, n + 1]
        assert [qz.log2_R(F(m, 2**100)) for m in cases.sqrt2_neighbours(n)] == [n - 100, n - 99]
    with pytest.raises(ValueError, match="empty"):
        qz.quantize([], qz.Shift(8))


def test_direct_and_fixed():
    assert qz.quantize([F(32, 10), F(-1, 256), F(3, 256)], qz.Direct(8)) == ([410, 0, 2], -7, 0)
    weights = qz.FixedPoint(8, 7, overflow="saturate_symmetric")
    assert qz.quantize([F(32, 10), F(-1), F(1, 2)], weights) == ([127, -127, 64], -7, 2)
    assert qz.quantize([F(-1, 256)], qz.Direct(8), "to_neg") == ([-1], -7, 0)
    assert qz.quantize([F(8), F(-8), F(-9), F(3, 32)], qz.FixedPoint(8, 4)) == ([127, -128, -128, 2], -4, 2)
    assert qz.quantize([F(8)], qz.FixedPoint(8, 4, overflow="wrap")) == ([-128], -4, 1)
    assert qz.quantize([F(-8)], qz.FixedPoint(8, 4, overflow="saturate_symmetric")) == ([-127], -4, 1)
    assert qz.quantize([F(1, 32)] * 2, qz.FixedPoint(8, 4), "stochastic", [7, 8], 4) == ([1, 0], -4, 0)
    with pytest.raises(OverflowError):
        qz.quantize([F(8)], qz.FixedPoint(8, 4, overflow="error"))


def test_shift():
    assert qz.quantize([F(3), F(-1, 100), F(3, 2)], qz.Shift(8)) == ([96, 0, 48], -5, 0)
    assert qz.quantize([F(11, 2), F(-11, 2), F(1)], qz.Shift(8)) == ([127, -127, 32], -5, 2)
    assert qz.quantize([F(1, 2**40)], qz.Shift(16)) == ([32767], -55, 1)
    assert qz.quantize([F(0), F(0)], qz.Shift(8)) == ([0, 0], -7, 0)


def test_constant():
    half = F(1, 256)
    got = qz.quantize([F(1), F(-1), half, half], qz.Constant(), "stochastic", [0, 0, 2**31 - 1, 2**31])
    assert got == ([127, -127, 1, 0], -14, 2)
    assert qz.quantize([F(3), F(1)], qz.Constant(dr=32), "stochastic", [9, 9]) == ([24, 8], -14, 0)
    assert qz.quantize([F(0)], qz.Constant(), "stochastic", [0]) == ([0], -14, 0)


def test_flag():
    sc = F(1, 128)
    ratios = [F(128), F(1), F(255, 256), F(253, 256), F(-3, 256), F(3, 2), F(-127), F(1, 1000)]
    codes = [16256, 128, 128, 126, -2, 256, -16256, 0]
    assert qz.quantize([r * sc for r in ratios], qz.Flag()) == (codes, -14, 1)
    assert qz.quantize([F(0)], qz.Flag()) == ([0], -14, 0)
    stored = {1: (0, 0, 1), -16256: (1, 1, 127), 128: (1, 0, 1), -127: (0, 1, 127), 0: (0, 0, 0)}
    assert {code: qz.flag_encode(code) for code in stored} == stored
    legal = {*range(-128, 129), *(128 * n for n in range(-127, 128))}
    assert all(qz.flag_decode(qz.flag_encode(code)) == code for code in legal)
    for code in (129, 16384, -200):
        with pytest.raises(ValueError, match="no code"):
            qz.flag_encode(code)


def test_formats_with_a_grid_decide_by_the_extremes():
    assert (qz.Shift(8).grid_of(F(-3), F(1)), qz.Flag(8).grid_of(0, 3)) == (2, 2)
    assert qz.Constant().grid_of(F(-1, 3), 0) == -2
    assert qz.FixedPoint(8, 4).grid([]) == qz.Direct(8).grid([]) == 0
    for xs in ([F(7, 3), F(-2)], [F(0)], [F(-5)]):
        for format in (qz.Shift(8), qz.Flag(8), qz.Constant(), qz.Scaled(8)):
            assert format.grid(xs) == format.grid_of(min(xs), max(xs))


def test_scaled():
    """(127 + 1/2) 2^0 is reached at 127.5; from there on s falls. LB lies one farther."""
    scaled = qz.Scaled(8)
    assert [scaled.grid([F(x)]) for x in (1, 127, F(255, 2), 128, -128, F(-257, 2), -129)] == [
        6,
        0,
        0,
        -1,
        0,
        0,
        -1,
    ]
    assert scaled.grid([F(0)]) == 6 and scaled.grid([F(1, 2**40)]) == 46
    assert qz.quantize([F(100), F(-129), F(1)], scaled) == ([50, -64, 0], 1, 0)  # ties: 64.5 and 1/2 to even
    assert qz.quantize([F(255, 2)], scaled) == ([127], 0, 1)


def test_unsigned_and_a_resolution_of_its_own():
    assert qz.quantize([F(-1), F(300), F(5, 2)], qz.FixedPoint(8, 0, signed=False)) == ([0, 255, 2], 0, 2)
    assert qz.quantize([F(5, 2)], qz.Direct(8, lsb=-1)) == ([5], -1, 0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: qz.FixedPoint(0, 0),
        lambda: qz.FixedPoint(-2, 0),
        lambda: qz.FixedPoint(F(8), 0),
        lambda: qz.Direct(0),
        lambda: qz.Shift(0),
        lambda: qz.Constant(15, 100),
        lambda: qz.Constant(0, 128),
        lambda: qz.Constant(15, 0),
        lambda: qz.Scaled(0),
        lambda: qz.Flag(1),
        lambda: random.word(1, 0, "x", 0, bits=33),
        lambda: random.word(1, 0, "x", 0, bits=0),
    ],
)
def test_widths_that_no_word_has_are_refused(make) -> None:
    with pytest.raises(ValueError, match=r"whole number of bits|power of two|1\.\.32 bits"):
        make()


def test_roots_of_every_format():
    """sqrt(2) * 2^15 = 46340.95; in <8,4> it saturates nowhere: 22.63."""
    assert qz.Direct(16).root_code(F(2), 0) == (46341, False)
    assert qz.FixedPoint(8, 4).root_code(F(2), 0) == (23, False)
    assert qz.FixedPoint(8, 4).root_code(F(2), 0, "to_neg") == (22, False)
    assert qz.FixedPoint(8, 4).root_code(F(100), 0) == (127, True)


def test_one_element_needs_its_value_its_word_and_the_grid():
    xs, words = cases.random_fractions(5, 40), random.words(3, 2, "a/b", 40)
    for format in (qz.Shift(8), qz.Constant(), qz.Scaled(6), qz.FixedPoint(6, 2)):
        q, grid = qz.quantize(xs, format, "stochastic", words), format.grid(xs)
        for i in (0, 7, 39):
            code, _ = format.code(xs[i], grid, "stochastic", random.word(3, 2, "a/b", i))
            assert (code, format.exponent(grid)) == (q.codes[i], q.exponent)


# Places


def test_places_and_indices():
    assert places((2, 1, 2)) == [(0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 0, 1)]
    assert [index_of(place, (2, 3, 4)) for place in places((2, 3, 4))] == list(range(24))
    assert [place_of(i, (2, 3, 4)) for i in range(24)] == places((2, 3, 4))
    assert (index_of((), ()), place_of(0, ())) == (0, ())


# Buckets


def test_squares_of_groups_meet():
    """2^12 squared takes 15 ones with it as ties, where they are in its group."""
    values = [2**12 * ONE, *[ONE] * 16]
    assert buckets.sum_of_squares(values) == 2**24 * ONE
    assert buckets.sum_of_squares(values, 0, 1) == 2**24 * ONE
    assert buckets.sum_of_squares(values, 1, 1) == (2**24 + 2) * ONE  # two ones are in group 1
    assert buckets.sum_of_squares(values, 160, 10) == 2**24 * ONE
    assert buckets.sum_of_squares([3 * ONE, 4 * ONE], 5, 1) == 25 * ONE
    assert buckets.level_scale([3 * ONE, -4 * ONE], "l2") == 5 * ONE
    assert buckets.level_scale([3 * ONE, -4 * ONE]) == 4 * ONE
    assert buckets.level_scale([0]) == floats.units(floats.to_float32(F(1, 10**8)))


def test_affine_by_hand():
    """s = 7/7 and z = 2: -2, 1/2, 1 and 5 stand at 0, 5/2, 3 and 7 of 0..7."""
    values = [floats.units(v) for v in (F(-2), F(1, 2), F(1), F(5))]
    found = buckets.scaling(min(values), max(values), 3)
    assert (found.s.units, found.z) == (ONE, 2 * ONE)
    made = buckets.affine(values, 3)
    assert (made.codes, made.clipped) == ([0, 2, 3, 7], 0)  # 2.5 is a tie, to even
    assert buckets.affine_values(made) == [floats.units(v) for v in (F(-2), F(0), F(1), F(5))]
    drawn = buckets.affine(values, 3, [0, 2**31 - 1, 0, 0])
    assert drawn.codes == [0, 3, 3, 7]
    assert buckets.affine(values, 3, [0, 2**31, 0, 0]).codes == [0, 2, 3, 7]
    assert buckets.affine([ONE, ONE], 3) == ([0, 0], 0, ONE, 0)


def test_levels_by_hand():
    """1/2 and -1/4 of the greatest, 4 levels: u = 2 and 1 of 4; 3/8 of it goes up by a word below 1/2."""
    values = [floats.units(v) for v in (F(4), F(2), F(-1), F(3, 2))]
    assert buckets.levels(values, 4, [0, 0, 0, 2**31 - 1]).codes == [8, 6, 3, 6]
    assert buckets.levels(values, 4, [0, 0, 0, 2**31]).codes == [8, 6, 3, 5]
    made = buckets.levels(values, 4, [0] * 4)
    assert buckets.level_values(made, 4) == [floats.units(v) for v in (F(4), F(2), F(-1), F(2))]
    assert buckets.pack([1, 2, 3], 3).hex() == "d100"
    assert buckets.save(values, "levels", [2, 2], 3, [0] * 4).packed == buckets.pack(
        [8, 6, 3, 0, 0, 0, 0, 0], 4, 8
    ) + buckets.pack([8, 0, 0, 0, 0, 0, 0, 0], 4, 8)


# Block float


def test_blocks_by_hand():
    """15/16 < 2^0: a step is 2^(0-4+1), 7.5 of them are 8, and 7 is the limit; column 4 begins a block."""
    x = Tensor((1, 5), [F(15, 16), F(-15, 16), F(5, 16), F(1, 8), F(3)])
    q = block_float.quantize(x, 4, (0, 1))
    assert (q.codes, q.saturated) == ([7, -7, 2, 1, 6], 2)  # 2.5 is a tie, to even
    assert (q.exponents, q.bits) == ({(0, 0): 0, (0, 1): 2}, {(0, 0): 4, (0, 1): 4})
    assert q.real().values == [F(7, 8), F(-7, 8), F(1, 4), F(1, 8), F(3)]
    assert block_float.code_at(F(15, 16), 0, 5) == (15, False)
    assert block_float.code_at(F(15, 16), 0, 0) == block_float.code_at(F(1), None, 4) == (0, False)
    assert block_float.exponent([F(1), F(-2)]) == 2 and block_float.exponent([F(1, 2**130)]) is None
    assert block_float.inside((0, 1), (1, 5), (0, 1)) == [4]
    assert block_float.packed_block([7, -7, 2, 1], 0, 4).hex() == "00" + "9712" + "00" * 6
    assert block_float.unpack(block_float.pack(q), (1, 5), (0, 1), q.bits).codes == q.codes
    with pytest.raises(OverflowError):
        block_float.exponent([F(2**127)])


def test_block_products_are_rounded_once():
    """1 + 2^-24 is a tie, to even; 1 + 2^-24 + 2^-40 is not."""
    a, b = Tensor((1, 3), [F(1), F(1, 2**12), F(1, 2**20)]), Tensor((2, 3), [F(1), F(1, 2**12), F(0)] * 2)
    b.values[5] = F(1, 2**20)
    exact = block_float.exact(convolution.conv2d, a, b)
    assert exact.values == [1 + F(1, 2**24), 1 + F(1, 2**24) + F(1, 2**40)]
    assert block_float.rounded(exact).values == [1, 1 + F(1, 2**23)]
