"""float32 of the definition: rounding, encoding, the order of sums, and functions made of float64.

Expected values are literals worked by hand, or identities that hold exactly; none comes from the library.
"""

from decimal import Decimal, localcontext
from fractions import Fraction
from random import Random
from statistics import NormalDist

import pytest

from intnet.spec import Tensor, convolution, elementary, float64, products, tensor
from intnet.spec import float32 as floats
from tests.support import cases

F = Fraction


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
    assert convolution.conv32(Tensor((1, 1, 2, 2), first), w).values == [2**24]
    assert convolution.conv32(Tensor((1, 1, 2, 2), last), w).values == [2**24 + 2]
    # The input gradient runs over the kernel columns upwards, so over the errors downwards.
    e, tap = Tensor((1, 1, 3, 1), [F(1), F(1), F(2**24)]), Tensor((1, 1, 1, 3), [F(1)] * 3)
    assert convolution.conv32_input_grad(e, tap, (1, 1, 5, 1)).values[2] == 2**24
    # The weight gradient: the batch is the outermost.
    e = Tensor((2, 1, 2, 1), [F(1), F(1), F(2**24), F(0)])
    x = Tensor((2, 1, 2, 1), [F(1)] * 4)
    assert convolution.conv32_weight_grad(e, x, (1, 1, 1, 1)).values == [2**24 + 2]


def test_float_linear_layer():
    x, w = tensor([[F(1), F(2)]]), tensor([[F(3), F(4)], [F(1, 2), F(-1)]])
    assert products.with_bias(convolution.conv32(x, w), tensor([F(1), F(2**-3)])).values == [12, F(-11, 8)]
    e = tensor([[F(1), F(-2)]])
    assert convolution.conv32_input_grad(e, w, x.shape).values == [2, 6]
    assert convolution.conv32_weight_grad(e, x, w.shape).values == [1, 2, -2, -4]
    assert products.bias_gradient(tensor([[F(1), F(2)], [F(3), F(5)]])).values == [4, 7]


@pytest.mark.parametrize(("stride", "padding", "groups"), [(1, 1, 1), (2, 1, 2), ((1, 2), (0, 1, 1, 0), 1)])
def test_float_convolutions_are_exact_on_small_integers(stride, padding, groups):
    x = Tensor((2, 4, 5, 4), cases.random_codes(1, 160, -9, 9))
    w = Tensor((2, 4 // groups, 3, 2), cases.random_codes(2, 48 // groups, -9, 9))
    y = convolution.conv2d(x, w, stride, padding, groups)
    e = Tensor(y.shape, cases.random_codes(3, len(y.values), -9, 9))
    args = (stride, padding, groups)
    assert convolution.conv32(x, w, *args) == y
    assert convolution.conv32_input_grad(e, w, x.shape, *args) == convolution.conv2d_input_grad(
        e, w, x.shape, *args
    )
    assert convolution.conv32_weight_grad(e, x, w.shape, *args) == convolution.conv2d_weight_grad(
        e, x, w.shape, *args
    )


# Units and bits

BITS = {F(0): 0, F(1): 0x3F800000, F(-3, 2): 0xBFC00000, F(1, 2**149): 1, F(2**128 - 2**104): 0x7F7FFFFF,
        F(-1, 2**126): 0x80800000, F(2**23 - 1, 2**149): 0x007FFFFF}  # fmt: skip


def test_bits():
    for x, bits in BITS.items():
        assert floats.bits_of(floats.units(x)) == bits
        assert floats.value(floats.units_of(bits)) == x
    assert floats.units_of(0x80000000) == 0
    for bits in (0x7F800000, 0xFFC00000):
        with pytest.raises(ValueError, match="not finite"):
            floats.units_of(bits)
    for n in (2**24 + 1, floats.INFINITE):
        with pytest.raises(ValueError, match="not a float32"):
            floats.bits_of(n)
    for x in (F(1, 2**150), F(1, 3), F(2**128), F(2**24 + 1)):
        with pytest.raises(ValueError, match="not a float32"):
            floats.units(x)


def test_quotients_and_roots():
    assert floats.div32(1, 3) == F(11184811, 2**25)
    assert floats.div32(-1, 3) == F(-11184811, 2**25)
    assert floats.div32(F(1, 2**149), 2) == 0  # a tie, to even
    assert floats.div32(F(3, 2**149), -2) == F(-2, 2**149)
    assert floats.sqrt32(F(9, 4)) == F(3, 2)
    assert floats.sqrt32(F(2)) == F(11863283, 2**23)  # 1.41421354
    assert floats.sqrt32(F(1, 2**149)) == F(11863283, 2**98)
    assert floats.sqrt32(F(0)) == 0
    assert floats.sub32(F(1), F(1, 2**25)) == 1
    with pytest.raises(OverflowError):
        floats.div32(F(2**127), F(1, 2))
    with pytest.raises(ZeroDivisionError):
        floats.div32(1, 0)


def any_float(source):
    """Of any exponent, subnormal too; one in five is 0."""
    bits = source.choice((0, 1 << 31)) | source.randrange(0x7F800000)
    return 0 if source.random() < 0.2 else floats.units_of(bits if source.random() < 0.5 else bits % 2**24)


def test_a_chain_is_a_fused_multiply_add_after_another():
    """Of operands of any size, subnormal ones too."""
    source = Random(7)
    for length in (1, 2, 5, 40):
        for _ in range(60):
            shift = source.randrange(60)
            a = [any_float(source) >> 128 for _ in range(length)]
            a = [floats.nearest_units(v << shift) for v in a]
            b = [any_float(source) >> 100 for _ in range(length)]
            b = [floats.nearest_units(v) for v in b]
            acc = 0
            for p, q in zip(a, b, strict=True):
                acc = floats.fma_units(p, q, acc)
            assert floats.dot_units(a, b) == acc
            total = 0
            for p in a:
                total = floats.add_units(total, p)
            assert floats.chain_units(a) == floats.sum_units(a) == total


def test_a_sum_that_passes_the_last_float_is_refused():
    top = floats.units(F(2**127))
    with pytest.raises(OverflowError):
        floats.sum_units([top, top, -top])
    with pytest.raises(OverflowError):
        floats.dot_units([top, top], [floats.ONE, floats.ONE])
    last = floats.units(F(2**128 - 2**104))
    assert floats.sum_units([last, 1]) == last


def test_groups_of_sixteen_images_meet_in_a_tree():
    big, ones = F(2**24), [F(1)] * 16
    assert floats.batch_sum32([big, *ones]) == big  # 15 ties within the group, one after it
    assert floats.batch_sum32([*ones, big]) == big + 16
    zeros = [F(0)] * 15
    one = [F(1), *zeros]
    assert floats.batch_sum32([big, *zeros, *one, *one]) == big  # (big + 1) + 1
    assert floats.batch_sum32([*one, *one, big]) == big + 2
    assert floats.batch_sum32([big, *zeros, *one, *one, *one]) == big + 2  # (big + 1) + (1 + 1)
    assert floats.batch_sum32([big, *zeros, *one, *one, *one, F(2)]) == big + 4  # the fifth goes up twice
    pairs = [
        [big, F(0)],
        [F(1), F(0)],
        [F(1), F(0)],
    ]  # six groups: (big + 1) + 1, where (1 + 1) + big is more
    six = [floats.units(v) for pair in pairs for v in pair]
    assert floats.tree_units(six) == six[0]
    assert floats.batch_dot32([*ones, big], [F(1)] * 17) == big + 16
    assert floats.batch_sum32([F(1, 2)] * 4, per_image=2) == 2
    assert floats.batch_sum32([]) == floats.batch_dot32([], []) == 0


def test_a_group_counts_images_and_chunks_begin_anew_in_it():
    """17 images of 100 terms: chunks of 1024 and 576 terms, then a chunk of 100."""
    terms = [F(0)] * 1700
    terms[0], terms[1023], terms[1024], terms[1600] = F(2**24), F(1), F(1), F(1)
    assert floats.batch_sum32(terms, per_image=100) == 2**24  # ties: in a chunk, between chunks, in the tree
    terms[1601] = F(1)
    assert floats.batch_sum32(terms, per_image=100) == 2**24 + 2
    terms[1025], terms[1600], terms[1601] = F(1), F(0), F(0)
    assert floats.batch_sum32(terms, per_image=100) == 2**24 + 2
    assert [(g.start, g.stop) for g in floats.groups(1700, 100)] == [(0, 1600), (1600, 3200)]


def test_any_parts_of_whole_groups_give_the_same():
    values = cases.random_float32(3, 16 * 11 + 5, 3)
    sums = [floats.sum32(values[at]) for at in floats.groups(len(values))]
    for split in (1, 2, 5, 8):
        parts = [*sums[:split], *sums[split:]]
        assert floats.value(floats.tree_units([floats.units(v) for v in parts])) == floats.batch_sum32(values)


# float64


def test_float64():
    assert float64.sum64([F(2**53), F(1), F(1)]) == 2.0**53
    assert float64.sum64([2.0**53] + [0.0] * 1023 + [1.0, 1.0]) == 2.0**53 + 2  # another chunk
    assert float64.root64(F(2)) == F(float.fromhex("0x1.6a09e667f3bcdp+0"))
    assert float64.root64(F(9, 4)) == F(3, 2)


# Elementary functions


def close(got, want, bound):
    return abs(Decimal(got) - want) <= abs(want) * Decimal(bound)


def test_exp_log_tanh_against_decimals():
    source = Random(1)
    with localcontext() as context:
        context.prec = 60
        for _ in range(300):
            x = source.choice((-1, 1)) * source.random() * 10.0 ** source.randrange(-6, 3)
            if abs(x) < 700:
                e = Decimal(x).exp()
                assert close(elementary.exp64(x), e, "4e-16")
                assert close(elementary.decay64(x), (-abs(Decimal(x))).exp(), "4e-16")
                t = (2 * Decimal(x)).exp()
                assert close(elementary.tanh64(x), (t - 1) / (t + 1), "1e-15")
                s = 1 / (1 + (-Decimal(x)).exp())
                assert close(elementary.sigmoid64(x), s, "1e-15")
                assert close(elementary.silu64(x), Decimal(x) * s, "2e-15")
                slope = s + Decimal(x) * s * (1 - s)
                assert abs(Decimal(elementary.slope64(x)) - slope) < Decimal("2e-15") * (
                    s + abs(Decimal(x)) * s
                )
            if x:
                assert close(elementary.log64(abs(x)), abs(Decimal(x)).ln(), "1e-15")


def test_functions_at_their_ends():
    e = elementary
    assert (e.exp64(710.0), e.exp64(-746.0), e.exp64(0.0), e.log64(0.0)) == (
        float("inf"),
        0.0,
        1.0,
        float("-inf"),
    )
    assert e.exp64(-745.0) == 5e-324
    assert e.decay64(1e9) == e.exp64(-708.0)
    assert e.log64(5e-324) == pytest.approx(-744.4400719213812, rel=1e-15)
    assert (e.tanh64(0.0), e.tanh64(20.0), e.tanh64(-1e300)) == (0.0, 1.0, -1.0)
    with pytest.raises(ValueError, match="logarithm"):
        e.log64(-1.0)
    with pytest.raises(OverflowError):
        e.exp32(F(89))
    with pytest.raises(OverflowError):
        e.log32(F(0))


def test_known_float32():
    """e, ln 2, tanh 1, sigmoid 1, rounded: their bits are published."""
    got = {
        elementary.exp32(1): 0x402DF854,
        elementary.log32(2): 0x3F317218,
        elementary.tanh32(1): 0x3F42F7D6,
        elementary.sigmoid32(1): 0x3F3B26A8,
        elementary.silu32(1): 0x3F3B26A8,
        elementary.slope32(0): 0x3F000000,
    }
    assert all(floats.bits_of(floats.units(x)) == bits for x, bits in got.items())
    assert elementary.tanh_error32(F(3), F(1, 2)) == F(9, 4)
    assert elementary.sigmoid_error32(F(3), F(1, 4)) == F(9, 16)
    assert elementary.silu_error32(F(3), F(0)) == F(3, 2)


def test_normals_against_another_implementation():
    """CPython's NormalDist has algorithm AS 241 too, in operations of its own order."""
    words = [0, 1, 2**31 - 1, 2**31, 2**32 - 1, *(Random(2).randrange(2**32) for _ in range(500))]
    for word in words:
        want = NormalDist().inv_cdf((word + 0.5) / 2**32)
        assert elementary.normal64(word) == pytest.approx(want, rel=4e-14)
        assert elementary.normal64(word) == -elementary.normal64(2**32 - 1 - word)
