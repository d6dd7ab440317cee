"""Operations of the definition, forward and back, and batch norm: by hand, and element by element.

Expected values are literals worked by hand, or identities that hold exactly; none comes from the library.
"""

from fractions import Fraction

import pytest

from intnet.spec import (
    Fixed,
    Tensor,
    add_fixed,
    curves,
    elementwise,
    float_batch_norm,
    geometry,
    pooling,
    products,
    tensor,
    values,
)
from intnet.spec import batch_norm as norm
from intnet.spec import convolution as conv
from intnet.spec import float32 as floats
from intnet.spec.models import Layer
from intnet.spec.nets import Rules, Walk
from intnet.spec.tensor import places
from tests.support import cases

F = Fraction


# Operations


def test_convolution_by_hand():
    x, w = Tensor((1, 2, 2, 1), [1, 2, 3, 4]), Tensor((1, 1, 2, 2), [10, 20, 30, 40])
    assert conv.conv2d(x, w).values == [300]
    padded = conv.conv2d(x, w, padding=1)
    assert padded == ((1, 3, 3, 1), [40, 110, 60, 140, 300, 140, 60, 110, 40])
    assert conv.conv2d(x, w, stride=2, padding=1).values == [40, 60, 60, 40]
    e = Tensor((1, 3, 3, 1), [0, 0, 0, 0, 1, 0, 0, 0, 2])
    assert conv.conv2d_input_grad(e, w, x.shape, padding=1).values == [10, 20, 30, 40 + 2 * 10]
    assert conv.conv2d_weight_grad(e, x, w.shape, padding=1).values == [1 + 2 * 4, 2, 3, 4]
    grouped = conv.conv2d(Tensor((1, 1, 1, 4), [1, 2, 3, 4]), Tensor((2, 2, 1, 1), [1, 10, 1, 10]), groups=2)
    assert grouped.values == [21, 43]


@pytest.mark.parametrize(
    ("stride", "padding", "groups"),
    [(1, 0, 1), (2, 1, 1), (3, 2, 2), ((2, 1), (1, 0), 4), (2, (0, 1, 1, 2), 1)],
)
def test_gradients_are_the_transposes(stride, padding, groups):
    x = Tensor((2, 5, 6, 4), cases.random_codes(1, 240, -99, 99))
    w = Tensor((4, 4 // groups, 3, 2), cases.random_codes(2, 96 // groups, -99, 99))
    y = conv.conv2d(x, w, stride, padding, groups)
    e = Tensor(y.shape, cases.random_codes(3, len(y.values), -99, 99))
    back = conv.conv2d_input_grad(e, w, x.shape, stride, padding, groups)
    grad = conv.conv2d_weight_grad(e, x, w.shape, stride, padding, groups)
    want = conv.exact_dot(e.values, y.values)
    assert conv.exact_dot(back.values, x.values) == want == conv.exact_dot(grad.values, w.values)


def test_linear_by_hand():
    x, w, e = tensor([[1, 2], [3, 4]]), tensor([[5, 6], [7, 8], [9, 1]]), tensor([[1, 0, 2], [0, 1, -1]])
    assert conv.conv2d(x, w).nested() == [[17, 23, 11], [39, 53, 31]]
    assert conv.conv2d_input_grad(e, w, x.shape).nested() == [[23, 8], [-2, 7]]
    assert conv.conv2d_weight_grad(e, x, w.shape).nested() == [[1, 2], [3, 4], [-1, 0]]
    assert products.bias_gradient(Fixed(e.shape, e.values, -3)) == ((3,), [1, 1, 1], -3)


def test_pooling_by_hand():
    x = Tensor((1, 3, 3, 1), [5, 5, 1, 5, 2, 9, 0, 9, 9])
    pooled, winners = pooling.max_pool(x, 2, 1)
    assert (pooled.nested(), winners) == ([[[[5], [9]], [[9], [9]]]], [0, 5, 7, 5])
    grad = pooling.max_pool_grad(Tensor(pooled.shape, [1, 2, 3, 4]), winners, x.shape)
    assert grad.values == [1, 0, 0, 0, 0, 6, 0, 3, 0]
    negative = Tensor((1, 2, 2, 1), [-4, -3, -2, -1])
    assert pooling.max_pool(negative, 3, 2, 1) == (Tensor((1, 1, 1, 1), [-1]), [3])
    assert pooling.pooled(negative, pooling.windows_of(negative.shape, 2, 2)).values == [F(-5, 2)]
    padded = pooling.windows_of(negative.shape, 2, 2, 1)
    assert pooling.pooled(negative, padded).values == [-1, F(-3, 4), F(-1, 2), F(-1, 4)]
    assert pooling.pooled_grad(Tensor((1, 2, 2, 1), [4, 8, 12, 16]), padded).values == [1, 2, 3, 4]
    layer, walk = Layer("mean", "avgpool"), Walk(Rules(), "none")
    images = values.Quotient((1, 1, 2, 2), [F(1), F(10), F(2), F(21)])
    assert walk.forward((layer,), images) == ((1, 2), [F(3, 2), F(31, 2)])
    back = walk.backward((layer,), values.Quotient((1, 2), [F(1), F(3)]))
    assert back == (images.shape, [F(1, 2), F(3, 2)] * 2)


def test_elementwise_by_hand():
    x = Tensor((4,), [-3, 0, 1, 5])
    assert list(map(elementwise.relu_at, x.values)) == [0, 0, 1, 5]
    assert list(map(elementwise.relu_grad_at, [7, 8, 9, -1], x.values)) == [0, 0, 9, -1]
    quotient = values.Quotient(*x)
    assert values.joined(quotient, quotient) == ((4,), [-6, 0, 2, 10])
    words = [0, 3 * 2**30 - 1, 3 * 2**30, 2**32 - 1]
    for drawn, want in ((words, [-4, 0, 0, 0]), (words[::-1], [0, 0, F(4, 3), F(20, 3)])):
        assert [
            elementwise.dropout_at(v, word, F(3, 4)) for v, word in zip(x.values, drawn, strict=True)
        ] == want
    assert add_fixed(Fixed((2,), [1, 2], -7), Fixed((2,), [3, -4], -9)) == ((2,), [7, 4], -9)


@pytest.mark.parametrize(
    ("x", "digits"),  # tanh(x) * 10^40, truncated
    [
        (F(1, 2), 4621171572600097585023184836436725487302),
        (F(1), 7615941559557648881194582826047935904127),
    ],
)
def test_tanh_has_the_known_digits(x, digits):
    floor = digits * 2**100 // 10**40
    assert curves.curve_round("tanh", x, -100, "to_neg") == floor
    assert curves.curve_round("tanh", -x, -100, "to_zero") == -floor
    assert curves.curve_round("tanh", -x, -100, "to_neg") == -floor - 1
    assert curves.curve_round("tanh", x, -7) == round(F(digits, 10**40) * 128)


def test_tanh_at_the_ends():
    assert curves.curve_round("tanh", 0, -15) == 0
    # x - x^3/3 + ..., and x^3/3 < 1 step
    assert curves.curve_round("tanh", F(1, 2**20), -60, "to_neg") == 2**40 - 1
    assert curves.curve_round("tanh", 100, -15) == 2**15
    assert curves.curve_round("tanh", -100, -15, "to_zero") == 1 - 2**15


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


# Terms of one element

SIZES = [((2, 4, 5, 4), (6, 2, 3, 2), 1, 1, 2), ((1, 5, 6, 2), (3, 2, 3, 3), 2, (0, 1, 1, 2), 1),
         ((2, 3, 3, 2), (2, 1, 2, 2), (3, 2), (2, 0), 2), ((1, 1, 1, 3), (2, 3, 1, 1), 1, 0, 1)]  # fmt: skip


def zero_padded(g, n, y, x, c):
    inside = 0 <= y < g.h and 0 <= x < g.w
    return ((n * g.h + y) * g.w + x) * g.c + c if inside else None


def flattened(runs):
    return [(None if p is None else p[i], q[i]) for p, q in runs for i in range(len(q))]


@pytest.mark.parametrize("sizes", SIZES)
def test_runs_are_the_terms_of_the_equations(sizes):
    g = geometry.conv_shape(*sizes)
    og = g.o // g.groups

    def weight(o, c, i, j):
        return ((o * g.cg + c) * g.kh + i) * g.kw + j

    for n, y, x, o in places((g.n, g.oh, g.ow, g.o)):
        rows = [(y * g.sh + i - g.top, x * g.sw + j - g.left, i, j) for i, j in places((g.kh, g.kw))]
        want = [
            (zero_padded(g, n, r, s, o // og * g.cg + c), weight(o, c, i, j))
            for r, s, i, j in rows
            for c in range(g.cg)
        ]
        assert flattened(geometry.forward_runs(g, n, y, x, o)) == want
    for o, c, i, j in places((g.o, g.cg, g.kh, g.kw)):
        want = [
            (
                zero_padded(g, n, y * g.sh + i - g.top, x * g.sw + j - g.left, o // og * g.cg + c),
                g.e(n, y, x, o),
            )
            for n, y, x in places((g.n, g.oh, g.ow))
        ]
        assert flattened(geometry.weight_runs(g, o, c, i, j)) == want
    for n, y, x, c in places((g.n, g.h, g.w, g.c)):
        want = []
        for i, j in places((g.kh, g.kw)):
            hits = [
                (a, b)
                for a, b in places((g.oh, g.ow))
                if a * g.sh + i - g.top == y and b * g.sw + j - g.left == x
            ]
            for o in range(c // g.cg * og, (c // g.cg + 1) * og):
                want.append((g.e(n, *hits[0], o) if hits else None, weight(o, c % g.cg, i, j)))
        assert flattened(geometry.input_runs(g, n, y, x, c)) == want


def test_one_element_of_a_float_weight_gradient_is_a_batch():
    """17 images of one pixel: 16 meet 1."""
    g = geometry.conv_shape((17, 1, 1, 1), (1, 1, 1, 1))
    ones, big = [floats.ONE] * 17, floats.units(F(2**24))
    rising, falling = [*ones[:16], big], [big, *ones[:16]]
    at = (0, 0, 0, 0)
    assert conv.conv2d_weight_grad_at(rising, ones, g, at, conv.batch_dot(g)) == floats.units(F(2**24 + 16))
    assert conv.conv2d_weight_grad_at(falling, ones, g, at, conv.batch_dot(g)) == big
    e = Tensor((17, 1), [floats.value(v) for v in rising])
    assert conv.conv32_weight_grad(e, Tensor((17, 1), [F(1)] * 17), (1, 1)).values == [2**24 + 16]
    assert products.bias_gradient(e).values == [2**24 + 16]
    g = geometry.conv_shape((2, 3), (4, 3))
    assert conv.conv2d_at([1, 2, 3, 4, 5, 6], list(range(12)), g, (1, 0, 0, 3)) == 4 * 9 + 5 * 10 + 6 * 11


# Pools element by element


def test_windows_by_hand():
    windows = pooling.adaptive_windows((1, 5, 2, 1), (3, 1))
    assert [list(rows) for rows in windows.rows] == [[0, 1], [1, 2, 3], [3, 4]]
    x = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    assert pooling.pooled(Tensor((1, 5, 2, 1), x), windows) == ((1, 3, 1, 1), [F(5, 2), F(11, 2), F(17, 2)])
    back = pooling.pooled_grad(Tensor((1, 3, 1, 1), [4, 6, 8]), windows)
    assert back.values == [1, 1, 2, 2, 1, 1, 3, 3, 2, 2]
    assert pooling.avg_grad_at([4, 6, 8], windows, (0, 3, 1, 0)) == 3
    assert windows.readers((0, 1, 0, 0)) == [(0, 0, 0, 0), (0, 1, 0, 0)]


def test_a_float_mean_has_no_chunks():
    x = Tensor((1, 1100, 1, 1), [F(2**24)] + [F(1)] * 1099)
    means = pooling.pooled32(x, pooling.adaptive_windows(x.shape, 1))
    assert means.values == [floats.to_float32(F(2**24, 1100))]
    overlapping = pooling.windows_of((1, 1, 3, 1), (1, 2), 1)
    e = [F(2**24), F(2)]
    assert pooling.avg32_grad_at(e, overlapping, (0, 0, 1, 0)) == 2**23 + 1
    assert pooling.pooled32_grad(Tensor((1, 1, 2, 1), e), overlapping).values == [2**23, 2**23 + 1, 1]


def test_max_element_by_element():
    x, windows = [5, 5, 1, 5, 2, 9, 0, 9, 9], pooling.windows_of((1, 3, 3, 1), 2, 1)
    assert [pooling.max_at(x, windows, place) for place in places(windows.output)] == [0, 5, 7, 5]
    assert pooling.max_grad_at([1, 2, 3, 4], x, windows, (0, 1, 2, 0)) == [2, 4]
    e = Tensor((1, 2, 2, 1), [F(1), F(2**24), F(3), F(1)])
    assert pooling.max_pool32_grad(e, [0, 5, 7, 5], (1, 3, 3, 1)).values[5] == 2**24  # a tie


# Scale and curves


def test_scale_by_hand():
    integers, factors = Fixed((2, 1, 2, 2), [1, 2, 3, 4, 5, 6, 7, 8], -1), Fixed((2, 2), [10, 20, 30, 40], -2)
    layer, walk = Layer("scale", "se"), Walk(Rules(), "none")
    for x, s in ((integers, factors), (integers.real(), factors.real())):
        y = walk.scaled(layer, x, s)
        assert values.exact(y) == [F(v, 8) for v in (10, 40, 30, 80, 150, 240, 210, 320)]
        dx, ds = walk.scaled_back(layer, x)
        assert (dx, values.exact(ds)) == (y, [F(1 + 9, 4), F(4 + 16, 4), F(25 + 49, 4), F(36 + 64, 4)])
    codes = integers.codes
    assert elementwise.scale_grad_at(codes, codes, integers.shape, (1, 0)) == 74
    assert elementwise.factor_of(5, integers.shape) == 3


def test_float_dropout_and_sums():
    third = F(2, 3)  # 1/keep = 3/2
    assert elementwise.dropout32_at(F(3), 0, third) == F(9, 2)
    assert elementwise.dropout32_at(F(3), 2**32 - 1, third) == 0
    tenth = F(9, 10)  # 10/9 = 1.1111112 in float32
    assert elementwise.dropout32_at(F(1), 0, tenth) == F(9320676, 2**23)


class Drawing(Rules):
    """All stay: words of 0."""

    def words(self, name: str, n: int) -> list[int]:
        """n zeros."""
        return [0] * n


def test_the_walk_takes_the_reciprocal_of_keep_as_binary64_first():
    layer = Layer("dropout", "drop", keep=F(553648127, 553648160))  # 1/keep is just above 1 + 2^-24,
    assert floats.to_float32(1 / layer.keep) == 1 + F(1, 2**23)  # which is the binary64 nearest to it: a tie
    walk, ones = Walk(Drawing(), "none"), Tensor((2,), [F(1)] * 2)
    assert walk.forward((layer,), ones) == walk.backward((layer,), ones) == ones


def test_float_sums():
    assert values.joined(Tensor((1,), [F(2**24)]), Tensor((1,), [F(1)])) == ((1,), [2**24])
    assert (elementwise.tanh_grad_at(F(3), F(1, 2)), elementwise.sigmoid_grad_at(F(3), F(1, 4))) == (
        F(9, 4),
        F(9, 16),
    )


def test_curves_have_the_known_digits():
    """sigmoid(1) = (1 + tanh(1/2))/2, whose digits stand above; the slope at 1 is s (2 - s)."""
    s = (1 + F(4621171572600097585023184836436725487302, 10**40)) / 2
    for curve, value in (("sigmoid", s), ("silu", s), ("slope", s * (2 - s))):
        assert curves.curve_round(curve, 1, -100, "to_neg") == value * 2**100 // 1
        assert curves.curve_round(curve, 1, -7) == round(value * 128)
        assert curves.curve_round(curve, 0, -8) == (0 if curve == "silu" else 128)
    assert curves.curve_round("sigmoid", -1, -100, "to_neg") == (1 - s) * 2**100 // 1


# Batch norm channel by channel


def test_channel_statistics_are_those_of_the_tensor():
    x = Fixed((3, 2, 2), cases.random_codes(4, 12, -99, 99), -5)
    for k, (mean, variance) in enumerate(norm.mean_and_variance(x.real())):
        column = [F(v, 32) for v in x.codes[k::2]]
        assert norm.statistics_of(x.codes[k::2], -5) == (mean, variance)
        assert mean == sum(column) / 6
        assert variance == sum((v - mean) ** 2 for v in column) / 6
    thirds = Tensor((3, 1), [F(1, 3), F(1, 5), F(1)])
    assert norm.mean_and_variance(thirds)[0][0] == F(23, 45)


def test_elements_by_hand():
    assert norm.x2_at(F(3), F(2), 1 - F(1, 2**15)) == 1
    assert norm.dx1_at(F(5), F(1, 2), F(1), F(2), 1 - F(1, 2**15)) == 3
    assert (norm.x3_at(F(2), F(3), F(4)), norm.e2_at(F(2), F(3)), norm.folded_at(F(2), F(3), F(-7))) == (
        10,
        6,
        -1,
    )
    assert norm.moments_of([1, 2, 3], [4, 5, 6]) == (6, 32)


def test_float_batch_norm_by_hand():
    """variance + eps = 1 + 84/2^23, its root 1 + 42/2^23, the inverse 1 - 84/2^24."""
    r = 1 - F(84, 2**24)
    normed = float_batch_norm.forward(Tensor((2, 1), [F(1), F(3)]), [F(2)], [F(1)])
    assert (normed.mean, normed.variance, normed.r) == ([2], [1], [r])
    assert normed.x3.values == [floats.to_float32(1 - 2 * r), floats.to_float32(1 + 2 * r)]
    dx, gamma, beta = float_batch_norm.backward(
        Tensor((2, 1), [F(1), F(1)]), Tensor((2, 1), [F(1), F(3)]), normed, [F(2)]
    )
    assert (dx.values, gamma, beta) == ([0, 0], [0], [2])
    assert float_batch_norm.dx_at(F(5), F(1, 2), F(1), F(2), F(3)) == 9
    assert float_batch_norm.running([F(8)], [F(0)]) == [7]


def test_folded_by_hand():
    """variance 1 - eps gives r = 1: scale 1/2 is 2^30 at 2^-31, offset 8 - 2 * 1/2 is 7 * 2^28 at 2^-28."""
    one = floats.sub32(1, float_batch_norm.EPS)
    scale, offset = float_batch_norm.folded([F(1, 2)], [F(8)], [F(2)], [one], 4)
    assert offset == ((1,), [7 * 2**28], -28)
    assert scale == ((1,), [2**30], -31)  # finest is 32 - 2 - 4 + 28 = 54
    scale, offset = float_batch_norm.folded([F(1, 2)], [F(8)], [F(2)], [one], 30)
    assert scale == ((1,), [2**27], -28)
    scale, offset = float_batch_norm.folded([F(4)], [F(1)], [F(0)], [one], 4)
    assert (scale.exponent, offset) == (-28, ((1,), [2**28], -28))  # 1 alone would have 2^-30


def test_float_statistics_sum_in_groups():
    column = [F(2**24)] + [F(1)] * 16
    assert float_batch_norm.statistics_of(column)[0] == floats.to_float32(F(2**24, 17))
    assert float_batch_norm.statistics_of(column[::-1])[0] == floats.to_float32(F(2**24 + 16, 17))
    assert float_batch_norm.statistics_of(column[::-1], 17)[0] == floats.to_float32(F(2**24 + 16, 17))
    assert float_batch_norm.error_sums_of(column[::-1], [F(1)] * 17) == (2**24 + 16, 2**24 + 16)
