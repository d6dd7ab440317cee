"""The oracle against published and hand-computed answers: what judges the library is judged here.

Expected values are literals worked by hand, or identities that hold exactly; none comes from the library.
"""
import ast
import itertools
from fractions import Fraction
from pathlib import Path

import pytest

from intnet import spec as oracle
from intnet.spec import Fixed, Tensor, tensor
from intnet.spec import batch_norm as norm
from intnet.spec import float32 as floats
from intnet.spec import formats as qz
from intnet.spec import operations as ops
from intnet.spec import words as random
from intnet.spec.methods import wageubn_layers as layers
from intnet.spec.rounding import MODES, overflow, round_fraction, round_sqrt
from tests import cases

F = Fraction
ALLOWED = {
    "__future__", "collections", "copy", "dataclasses", "decimal", "fractions", "functools", "gzip",
    "hashlib", "importlib", "itertools", "math", "operator", "pathlib", "struct", "typing",
}  # fmt: skip


def test_the_oracle_imports_nothing_but_the_standard_library():
    for path in Path(oracle.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            for name in names:
                assert name.startswith("intnet.spec") or name.split(".")[0] in ALLOWED, (path.name, name)


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


def test_normal_argument():
    assert random.normal_u(0) == F(1, 2**33)
    assert random.normal_u(2**32 - 1) == 1 - F(1, 2**33)


# float32


def test_to_float32():
    pairs = [
        (F(1, 10), F(13421773, 2**27)),
        (F(2**24 + 1), F(2**24)),
        (F(2**24 + 3), F(2**24 + 4)),
        (F(-(2**25) - 3), F(-(2**25) - 4)),
        (F(1, 2**150), F(0)),
        (F(3, 2**150), F(1, 2**148)),
        (F(2**24 - 1, 2**150) / 2, F(1, 2**127)),
        (F(2**128 - 2**103 - 1), F(2**128 - 2**104)),
    ]
    for x, want in pairs:
        assert floats.to_float32(x) == want
    with pytest.raises(OverflowError):
        floats.to_float32(F(2**128 - 2**103))


def test_fused_multiply_add_rounds_once():
    a = 1 + F(1, 2**12)
    assert floats.fma32(a, a, -(1 + F(1, 2**11))) == F(1, 2**24)
    assert floats.mul32(a, a) == 1 + F(1, 2**11)
    assert floats.fma32(F(1, 2**100), F(1, 2**100), F(1, 2**149)) == F(1, 2**149)
    with pytest.raises(ValueError, match="not a float32"):
        floats.add32(F(1, 3), 0)
    with pytest.raises(OverflowError):
        floats.fma32(F(2**127), 2, 0)


def test_dot_product_sums_in_chunks_of_1024():
    big = [F(2**24)] + [F(1)] * 2047
    assert floats.dot32(big, [F(1)] * 2048) == 2**24 + 1024
    assert floats.sum32(big) == 2**24 + 1024
    assert floats.dot32(list(reversed(big)), [F(1)] * 2048) == 2**24 + 2048  # 1023 + 2^24 is a tie
    assert floats.dot32([], []) == 0


def test_float_convolution_orders():
    # k = (row, column, channel): 2^24 first swallows both ones, 2^24 last rounds 2^24 + 2 exactly.
    w = Tensor((1, 2, 1, 2), [F(1)] * 4)
    first, last = [F(2**24), F(1), F(1), F(0)], [F(1), F(1), F(0), F(2**24)]
    assert floats.conv32(Tensor((1, 1, 2, 2), first), w).values == [2**24]
    assert floats.conv32(Tensor((1, 1, 2, 2), last), w).values == [2**24 + 2]
    # The input gradient runs over the kernel columns upwards, so over the errors downwards.
    e, tap = Tensor((1, 1, 3, 1), [F(1), F(1), F(2**24)]), Tensor((1, 1, 1, 3), [F(1)] * 3)
    assert floats.conv32_input_grad(e, tap, (1, 1, 5, 1)).values[2] == 2**24
    # The weight gradient: the batch is the outermost.
    e = Tensor((2, 1, 2, 1), [F(1), F(1), F(2**24), F(0)])
    x = Tensor((2, 1, 2, 1), [F(1)] * 4)
    assert floats.conv32_weight_grad(e, x, (1, 1, 1, 1)).values == [2**24 + 2]


def test_float_linear_layer():
    x, w = tensor([[F(1), F(2)]]), tensor([[F(3), F(4)], [F(1, 2), F(-1)]])
    assert floats.linear32(x, w, [F(1), F(2**-3)]).values == [12, F(-11, 8)]
    e = tensor([[F(1), F(-2)]])
    assert floats.linear32_input_grad(e, w).values == [2, 6]
    assert floats.linear32_weight_grad(e, x).values == [1, 2, -2, -4]
    assert floats.linear32_bias_grad(tensor([[F(1), F(2)], [F(3), F(5)]])) == [4, 7]


@pytest.mark.parametrize(("stride", "padding", "groups"), [(1, 1, 1), (2, 1, 2), ((1, 2), (0, 1, 1, 0), 1)])
def test_float_convolutions_are_exact_on_small_integers(stride, padding, groups):
    x = Tensor((2, 4, 5, 4), cases.random_codes(1, 160, -9, 9))
    w = Tensor((2, 4 // groups, 3, 2), cases.random_codes(2, 48 // groups, -9, 9))
    y = ops.conv2d(x, w, stride, padding, groups)
    e = Tensor(y.shape, cases.random_codes(3, len(y.values), -9, 9))
    args = (stride, padding, groups)
    assert floats.conv32(x, w, *args) == y
    assert floats.conv32_input_grad(e, w, x.shape, *args) == ops.conv2d_input_grad(e, w, x.shape, *args)
    assert floats.conv32_weight_grad(e, x, w.shape, *args) == ops.conv2d_weight_grad(e, x, w.shape, *args)


# Quantizers


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
    assert qz.quantize([F(32, 10), F(-1), F(1, 2)], qz.Direct(8, clip=True)) == ([127, -127, 64], -7, 2)
    assert qz.quantize([F(-1, 256)], qz.Direct(8), "to_neg") == ([-1], -7, 0)
    assert qz.quantize([F(8), F(-8), F(-9), F(3, 32)], qz.FixedPoint(8, 4)) == ([127, -128, -128, 2], -4, 2)
    assert qz.quantize([F(8)], qz.FixedPoint(8, 4, "wrap")) == ([-128], -4, 1)
    assert qz.quantize([F(-8)], qz.FixedPoint(8, 4, "saturate_symmetric")) == ([-127], -4, 1)
    assert qz.quantize([F(1, 32)] * 2, qz.FixedPoint(8, 4), "stochastic", [7, 8], 4) == ([1, 0], -4, 0)
    with pytest.raises(OverflowError):
        qz.quantize([F(8)], qz.FixedPoint(8, 4, "error"))


def test_shift():
    assert qz.quantize([F(3), F(-1, 100), F(3, 2)], qz.Shift(8)) == ([96, 0, 48], -5, 0)
    assert qz.quantize([F(11, 2), F(-11, 2), F(1)], qz.Shift(8)) == ([127, -127, 32], -5, 2)
    assert qz.quantize([F(1, 2**40)], qz.Shift(16)) == ([32767], -55, 1)
    assert qz.quantize([F(0), F(0)], qz.Shift(8)) == ([0, 0], -7, 0)


def test_constant():
    half = F(1, 256)
    got = qz.quantize([F(1), F(-1), half, half], qz.Constant(), "stochastic", [0, 0, 2**31 - 1, 2**31])
    assert got == ([127, -127, 1, 0], -14, 2)
    assert qz.quantize([F(3), F(1)], qz.Constant(32), "stochastic", [9, 9]) == ([24, 8], -14, 0)
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


# Operations


def test_convolution_by_hand():
    x, w = Tensor((1, 2, 2, 1), [1, 2, 3, 4]), Tensor((1, 1, 2, 2), [10, 20, 30, 40])
    assert ops.conv2d(x, w).values == [300]
    padded = ops.conv2d(x, w, padding=1)
    assert padded == ((1, 3, 3, 1), [40, 110, 60, 140, 300, 140, 60, 110, 40])
    assert ops.conv2d(x, w, stride=2, padding=1).values == [40, 60, 60, 40]
    e = Tensor((1, 3, 3, 1), [0, 0, 0, 0, 1, 0, 0, 0, 2])
    assert ops.conv2d_input_grad(e, w, x.shape, padding=1).values == [10, 20, 30, 40 + 2 * 10]
    assert ops.conv2d_weight_grad(e, x, w.shape, padding=1).values == [1 + 2 * 4, 2, 3, 4]
    grouped = ops.conv2d(Tensor((1, 1, 1, 4), [1, 2, 3, 4]), Tensor((2, 2, 1, 1), [1, 10, 1, 10]), groups=2)
    assert grouped.values == [21, 43]


@pytest.mark.parametrize(
    ("stride", "padding", "groups"),
    [(1, 0, 1), (2, 1, 1), (3, 2, 2), ((2, 1), (1, 0), 4), (2, (0, 1, 1, 2), 1)],
)
def test_gradients_are_the_transposes(stride, padding, groups):
    x = Tensor((2, 5, 6, 4), cases.random_codes(1, 240, -99, 99))
    w = Tensor((4, 4 // groups, 3, 2), cases.random_codes(2, 96 // groups, -99, 99))
    y = ops.conv2d(x, w, stride, padding, groups)
    e = Tensor(y.shape, cases.random_codes(3, len(y.values), -99, 99))
    back = ops.conv2d_input_grad(e, w, x.shape, stride, padding, groups)
    grad = ops.conv2d_weight_grad(e, x, w.shape, stride, padding, groups)
    want = ops.dot(e.values, y.values)
    assert ops.dot(back.values, x.values) == want == ops.dot(grad.values, w.values)


def test_linear_by_hand():
    x, w, e = tensor([[1, 2], [3, 4]]), tensor([[5, 6], [7, 8], [9, 1]]), tensor([[1, 0, 2], [0, 1, -1]])
    assert ops.linear(x, w, [100, 0, 0]).nested() == [[117, 23, 11], [139, 53, 31]]
    assert ops.linear_input_grad(e, w).nested() == [[23, 8], [-2, 7]]
    assert ops.linear_weight_grad(e, x).nested() == [[1, 2], [3, 4], [-1, 0]]
    assert ops.bias_grad(e) == [1, 1, 1]


def test_pooling_by_hand():
    x = Tensor((1, 3, 3, 1), [5, 5, 1, 5, 2, 9, 0, 9, 9])
    pooled, winners = ops.max_pool(x, 2, 1)
    assert (pooled.nested(), winners) == ([[[[5], [9]], [[9], [9]]]], [0, 5, 7, 5])
    grad = ops.max_pool_grad(Tensor(pooled.shape, [1, 2, 3, 4]), winners, x.shape)
    assert grad.values == [1, 0, 0, 0, 0, 6, 0, 3, 0]
    negative = Tensor((1, 2, 2, 1), [-4, -3, -2, -1])
    assert ops.max_pool(negative, 3, 2, 1) == (Tensor((1, 1, 1, 1), [-1]), [3])
    assert ops.avg_pool(negative, 2, 2).values == [F(-5, 2)]
    assert ops.avg_pool(negative, 2, 2, 1).values == [-1, F(-3, 4), F(-1, 2), F(-1, 4)]
    assert ops.avg_pool(negative, 2, 2, 1, count_include_pad=False).values == [-4, -3, -2, -1]
    e = Tensor((1, 2, 2, 1), [4, 8, 12, 16])
    assert ops.avg_pool_grad(e, (1, 2, 2, 1), 2, 2, 1).values == [1, 2, 3, 4]
    assert ops.global_avg_pool(Tensor((1, 1, 2, 2), [1, 10, 2, 21])) == ((1, 2), [F(3, 2), F(31, 2)])
    assert ops.global_avg_pool_grad(tensor([[1, 3]]), (1, 1, 2, 2)).values == [F(1, 2), F(3, 2)] * 2


def test_elementwise_by_hand():
    x = Tensor((4,), [-3, 0, 1, 5])
    assert ops.relu(x).values == [0, 0, 1, 5]
    assert ops.relu_grad(Tensor((4,), [7, 8, 9, -1]), x).values == [0, 0, 9, -1]
    assert ops.add(x, x).values == [-6, 0, 2, 10]
    words = [0, 3 * 2**30 - 1, 3 * 2**30, 2**32 - 1]
    assert ops.dropout(x, words, F(3, 4)).values == [-4, 0, 0, 0]
    assert ops.dropout(x, words[::-1], F(3, 4)).values == [0, 0, F(4, 3), F(20, 3)]
    assert oracle.add_fixed(Fixed((2,), [1, 2], -7), Fixed((2,), [3, -4], -9)) == ((2,), [7, 4], -9)


@pytest.mark.parametrize(
    ("x", "digits"),  # tanh(x) * 10^40, truncated
    [
        (F(1, 2), 4621171572600097585023184836436725487302),
        (F(1), 7615941559557648881194582826047935904127),
    ],
)
def test_tanh_has_the_known_digits(x, digits):
    floor = digits * 2**100 // 10**40
    assert oracle.curves.tanh_round(x, -100, "to_neg") == floor
    assert oracle.curves.tanh_round(-x, -100, "to_zero") == -floor
    assert oracle.curves.tanh_round(-x, -100, "to_neg") == -floor - 1
    assert oracle.curves.tanh_round(x, -7) == round(F(digits, 10**40) * 128)


def test_tanh_at_the_ends():
    assert oracle.curves.tanh_round(0, -15) == 0
    # x - x^3/3 + ..., and x^3/3 < 1 step
    assert oracle.curves.tanh_round(F(1, 2**20), -60, "to_neg") == 2**40 - 1
    assert oracle.curves.tanh_round(100, -15) == 2**15
    assert oracle.curves.tanh_round(-100, -15, "to_zero") == 1 - 2**15


# Batch norm and update


def test_batch_norm_by_hand():
    mu, sigma, x2 = norm.batch_norm(Tensor((2, 1), [F(1), F(3)]))
    assert (mu, sigma) == (((1,), [65536], -15), ((1,), [32768], -15))
    assert x2 == ((2, 1), [-32767, 32767], -15)  # 32768^2 / 32769 = 32767.00003
    x3 = norm.scale_shift(x2, Fixed((1,), [128], -7), Fixed((1,), [64], -7))
    assert x3 == ((2, 1), [-2097024, 6291328], -22)
    flat = norm.batch_norm(Tensor((2, 1), [F(5), F(5)]))
    assert (flat.sigma.codes, flat.x2.codes) == ([0], [0, 0])


def test_batch_norm_variance_is_around_the_unrounded_mean():
    # mean 2^-17 rounds to 0; variance 2^-34 exactly, so sigma = 2^-17 rounds to 0 too; (x - 0) / 2^-15 = 1/2
    normed = norm.batch_norm(Tensor((2, 1), [F(0), F(1, 2**16)]))
    assert (normed.mu.codes, normed.sigma.codes, normed.x2.codes) == ([0], [0], [0, 2**14])


def test_batch_norm_gradient_by_hand():
    x2 = Fixed((2, 1), [32767, -32767], -15)
    m1, m2, dx1 = norm.batch_norm_grad(Fixed((2, 1), [1, 0], 0), x2, Fixed((1,), [32768], -15))
    assert (m1, m2) == (((1,), [32768], -16), ((1,), [32767], -16))
    want = F(65535, 2**16 * 32769)  # 2^30 - 32767^2 = 65535
    assert dx1.values == [want, -want]
    e1 = Fixed((2, 1), [3, -5], -7)
    assert norm.gamma_grad(e1, x2) == ((1,), [8 * 32767], -22)
    assert norm.beta_grad(e1) == ((1,), [-2], -7)
    assert norm.scale_error(e1, Fixed((1,), [-100], -7)) == ((2, 1), [-300, 500], -14)


def test_running_statistics():
    assert norm.running_update(0, F(1)) == 2**28
    assert [norm.running_update(r, F(0)) for r in (4, 12, -4)] == [4, 10, -4]


def test_update_by_hand():
    got = layers.update([100, 0, 0], [-8, 0, 0], [5, 2, 6], lr=26)
    assert got == ([-19, 2, 6], [-5, 0, 2], [594, -52, -156], 0)
    edge = 2**23 - 1
    assert layers.update([edge, -edge], [0, 0], [-1, 1], lr=1) == ([-1, 1], [0, 0], [edge, -edge], 2)
    assert layers.update([edge], [0], [-1], lr=1, saturate=False).w == [edge + 1]
    assert layers.update32([F(1)], [F(1)], [F(1, 4)], lr=1) == ([1], [1 - F(1, 512)])


def test_mask_drops_the_error_at_zero():
    assert layers.mask(Fixed((3,), [7, 8, 9], -7), Fixed((3,), [1, 0, -1], -22)) == ((3,), [7, 0, 0], -7)


def test_weights_are_clipped_at_eight_bits():
    assert layers.weight_q(Fixed((3,), [2**23 - 1, 3 * 2**15, -(2**22)], -23)) == ([127, 2, -64], -7, 1)


def test_cases_are_inside_their_words_and_around_their_points():
    for bits in cases.WIDTHS:
        lo, hi = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        got = cases.corners(bits)
        assert (got[0], got[-1]) == (lo, hi) and {0, 1, -1, 5, 8, 24, -8} <= set(got)
        assert all(lo <= v <= hi for v in cases.random_magnitudes(3, 100, bits))
    assert cases.sqrt2_neighbours(19) == (741455, 741456)
    assert cases.ties(3, 1) == [-5, -4, -3, 3, 4, 5]
