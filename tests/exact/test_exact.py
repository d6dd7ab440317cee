"""Exact expressions against Fractions: one and two terms, roots, floats, sums, on every path of the loops."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intnet.errors import ContainerError, NumberError, ShapeError
from intnet.exact import expressions as module
from intnet.exact import lane as lanes
from intnet.exact.expressions import Exact, FloatExact, add, exact, fraction_to_float32, log2_round
from intnet.numbers.qtensor import QTensor, container
from intnet.numbers.rounding import MODES, NO_WORDS, TIES_EVEN, UNLIMITED, Rounding
from intnet.spec import float32 as floats
from intnet.spec import overflow, power, round_fraction
from intnet.spec.formats import log2_R
from tests.support import cases
from tests.support.comparing import DETERMINISTIC

F = Fraction


@dataclass
class Sum:
    """The same expression for both sides: `value` for the library, `xs` as Fractions."""

    value: Exact
    xs: list[F]


def make_sum(
    source: random.Random, code_bits: int, coef_bits: int, den_bits: int, terms: int = 2, relu: bool = False
) -> Sum:
    """Random codes (N, C), coefficients, offset and denominator, a channel or all alike."""
    n, channels = source.randrange(1, 5), source.randrange(1, 4)
    per_channel = source.random() < 0.7

    def vector(bits: int, positive: bool = False) -> list[int]:
        draw = [source.getrandbits(bits) if bits else 0 for _ in range(channels)]
        if positive:
            draw = [max(v, 1) for v in draw]
        elif bits < 63:
            draw = [source.choice((-1, 1)) * v for v in draw]
        return draw if per_channel else draw[:1] * channels

    def spread(values: list[int]) -> np.ndarray | int:
        return np.array(values, np.int64) if per_channel else values[0]

    codes = [
        cases.random_magnitudes(source.getrandbits(32), n * channels, code_bits + 1) for _ in range(terms)
    ]
    coefs = [vector(coef_bits) for _ in range(terms)]
    offset, den = vector(min(62, code_bits + coef_bits)), vector(den_bits, positive=True)
    exponent = source.randrange(-30, 10)
    tensors = [
        QTensor(np.array(c).astype(container(max(map(abs, c)))).reshape(n, channels), 0) for c in codes
    ]
    value = Exact(
        [(t, spread(c)) for t, c in zip(tensors, coefs, strict=True)],
        exponent,
        spread(offset),
        spread(den),
        relu,
    )
    xs = []
    for i in range(n * channels):
        c = i % channels
        total = sum(coef[c] * part[i] for coef, part in zip(coefs, codes, strict=True)) + offset[c]
        xs.append(F(max(total, 0) if relu else total, den[c]) * power(exponent))
    return Sum(value, xs)


def check_round(s: Sum, exponent: int, mode: str, words: list[int] | None = None, bits: int = 32) -> None:
    """round_to without and with a narrow range, codes and counts; ContainerError where codes pass 62 bits."""
    units = [x / power(exponent) for x in s.xs]
    drawn = words or [None] * len(units)
    want = [round_fraction(u, mode, w, bits) for u, w in zip(units, drawn, strict=True)]
    inexact = sum(u.denominator != 1 for u in units)
    array = NO_WORDS if words is None else np.array([w << (32 - bits) for w in words], np.uint32)
    for lo, hi in ((-UNLIMITED, UNLIMITED), (-100, 99), (0, 2**31)):
        if hi == UNLIMITED and max(map(abs, want)) >= 2**62:
            with pytest.raises(ContainerError, match="here: a rounded code is beyond 62 bits"):
                s.value.round_to(exponent, Rounding(MODES[mode], where="here"))
            continue
        codes, status = s.value.round_to(exponent, Rounding(MODES[mode], lo, hi, array, bits))
        clipped = [overflow(c, lo, hi, "saturate") for c in want]
        assert codes.reshape(-1).tolist() == clipped and codes.shape == s.value.shape
        saturated = sum(a != b for a, b in zip(want, clipped, strict=True))
        assert (status.saturated, status.inexact, status.elements) == (saturated, inexact, len(units))


@contextmanager
def path(name: str) -> Iterator[None]:
    """Force every numerator through the general loop, or through two limbs."""
    with pytest.MonkeyPatch.context() as patch:
        if name != "quick":
            patch.setattr(lanes, "LIMIT", -1)
        if name == "limbs":
            patch.setattr(module, "INT64_BOUND", 0)
        yield


# -- rounding of sums ------------------------------------------------------------------------


@pytest.mark.slow
@given(
    st.randoms(use_true_random=False), st.integers(1, 62), st.integers(0, 62), st.integers(1, 58),
    st.integers(1, 2), st.booleans(), st.integers(-45, 30), st.sampled_from(DETERMINISTIC),
)  # fmt: skip
def test_sums_of_any_width(source, code_bits, coef_bits, den_bits, terms, relu, above, mode):
    s = make_sum(source, code_bits, coef_bits, den_bits, terms, relu)
    exponent = s.value.exponent + above
    if s.value.bound() << max(-above, 0) >= 2**126:
        with pytest.raises(ContainerError, match="beyond every container"):
            s.value.round_to(exponent, Rounding(MODES[mode]))
    else:
        check_round(s, exponent, mode)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("total", [58, 60, 61, 62, 63, 64, 90, 123])
def test_bounds_on_both_sides_of_the_switch_to_two_limbs(mode, total):
    source = random.Random(total)
    for _ in range(12):
        coef_bits = source.randrange(max(0, total - 63), min(total, 62) + 1)
        den_bits = 26 if mode == "stochastic" else source.choice((1, 5, 30, 55))
        s = make_sum(source, total - coef_bits, coef_bits, den_bits, relu=source.random() < 0.3)
        above = source.randrange(-2, 70)
        words, bits = None, source.choice((1, 8, 31, 32))
        if mode == "stochastic":
            words = [source.getrandbits(bits) for _ in s.xs]
        check_round(s, s.value.exponent + above, mode, words, bits)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["quick", "general", "limbs"])
def test_quotients_at_multiples_at_halves_and_beside_them(name):
    """num = k*den + (0, 1, -1) and (2k+1)*den/2 + (0, 1, -1), up to 2^48: where a reciprocal errs."""
    for den in (1, 2, 3, 5, 7, 10, 641, 2**13 - 1, 2**13, 2**20 + 6, 3**20):
        ks = [k for k in (0, 1, 2, 5, 2**20, 2**31 - 1, 2**40 + 1, 2**47 - 1) if (k + 1) * den < 2**61]
        nums = sorted(
            {
                s * (k * den // 2 + d)
                for k in (*ks, *(2 * k + 1 for k in ks))
                for d in (-1, 0, 1)
                for s in (1, -1)
            }
        )
        s = Sum(Exact([(QTensor(np.array(nums, np.int64), 0), 1)], 0, den=den), [F(v, den) for v in nums])
        with path(name):
            for mode in DETERMINISTIC:
                check_round(s, 0, mode)
                check_round(s, 3, mode)


@pytest.mark.parametrize("den", [2**60, 2**60 - 1, 2**59 + 1, 2**57, 3**36])
@pytest.mark.parametrize("name", ["quick", "general", "limbs"])
def test_denominators_up_to_60_bits(den, name):
    nums = sorted({s * (k * den // 2 + d) for k in range(4) for d in (-1, 0, 1) for s in (1, -1)})
    s = Sum(Exact([(QTensor(np.array(nums, np.int64), 0), 1)], 5, den=den), [F(v, den) * 32 for v in nums])
    with path(name):
        for mode in DETERMINISTIC:
            check_round(s, 5, mode)
            if den.bit_length() <= 59:
                check_round(s, 6, mode)
                check_round(s, 80, mode)


def test_denominators_that_leave_no_room_are_refused():
    s = Exact([(QTensor(np.array([7]), 0), 1)], 0, den=2**60)
    with pytest.raises(ContainerError, match="no room to round exactly"):
        s.round_to(1, Rounding(MODES["ties_even"]))
    with pytest.raises(ContainerError, match="no room to round exactly"):
        s.round_to(0, Rounding(MODES["ties_even"]), 7)
    with pytest.raises(ContainerError, match="no room to round exactly"):
        Exact([(QTensor(np.array([7]), 0), 1)], 0, den=2**30).round_to(60, Rounding(MODES["stochastic"]))


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fine", [0, 7])
def test_three_paths_give_the_same_codes_and_counts(mode, fine):
    source = random.Random(fine)
    for _ in range(25):
        s = make_sum(source, source.randrange(1, 30), source.randrange(0, 20), source.randrange(1, 20))
        exponent = s.value.exponent + source.randrange(-5, 12)
        words = np.array([source.getrandbits(32) for _ in s.xs], np.uint32)
        if mode == "stochastic" and fine:
            continue
        results = []
        for name in ("quick", "general", "limbs"):
            with path(name):
                how = Rounding(MODES[mode], -127 << fine, 127 << fine, words)
                codes, status = s.value.round_to(exponent, how, fine)
                results.append((codes.tolist(), codes.dtype, status))
        assert results[0] == results[1] == results[2]


def test_every_row_length_and_a_tensor_of_many_blocks():
    """Rows that end in the middle of a channel vector, and more elements than one block holds."""
    for channels in (1, 3, 1000):
        x = np.arange(-50_000, 50_000 // channels * channels - 50_000 + channels * 17, dtype=np.int32)
        x = x[: x.size // channels * channels].reshape(-1, channels)
        coef, den = np.arange(1, channels + 1), np.arange(1, channels + 1)[::-1] * 7
        value = Exact([(QTensor(x, 0), coef)], 0, coef - 2, den.copy())
        num = x.astype(np.int64) * coef + coef - 2
        for mode, want in (
            ("to_neg", num // den),
            ("to_pos", -(-num // den)),
            ("ties_pos", (2 * num + den) // (2 * den)),
        ):
            codes, status = value.round_to(0, Rounding(MODES[mode]))
            assert np.array_equal(codes, want) and status.inexact == np.count_nonzero(num % den)
        assert value.max() == max(
            F(int(a), int(b)) for a, b in zip(np.abs(num).max(axis=0), den, strict=True)
        )
        assert np.array_equal(value.positive(), num > 0)


# -- what else an expression tells -----------------------------------------------------------


@pytest.mark.slow
@given(
    st.randoms(use_true_random=False),
    st.integers(1, 62),
    st.integers(0, 62),
    st.integers(1, 60),
    st.booleans(),
)
def test_fractions_maximum_sign_and_bound(source, code_bits, coef_bits, den_bits, relu):
    s = make_sum(source, code_bits, coef_bits, den_bits, source.choice((1, 2)), relu)
    assert s.value.fractions().reshape(-1).tolist() == s.xs
    den_max = int(np.max(s.value.den))
    assert all(abs(x) * den_max <= s.value.bound() * power(s.value.exponent) * den_max for x in s.xs)
    assert s.value.bits() == s.value.bound().bit_length() + 1
    for name in ("quick", "limbs"):
        with path(name):
            top = s.value.max()
            assert top == max(map(abs, s.xs))
            assert s.value.log2_max() == log2_R(top)
            assert s.value.positive().reshape(-1).tolist() == [x > 0 for x in s.xs]


@pytest.mark.slow
@given(st.randoms(use_true_random=False), st.integers(1, 50), st.integers(0, 20), st.integers(1, 40))
def test_to_float32_is_correctly_rounded(source, code_bits, coef_bits, den_bits):
    s = make_sum(source, code_bits, coef_bits, den_bits)
    want = [floats.to_float32(x) for x in s.xs]
    for name in ("quick", "limbs"):
        with path(name):
            got = s.value.to_float32()
            assert got.dtype == np.float32 and got.shape == s.value.shape
            assert [F(float(v)) for v in got.reshape(-1)] == want


@pytest.mark.parametrize("den", [1, 3, 7, 2**34 + 1, 2**35, 2**40 - 87])
@pytest.mark.parametrize("exponent", [0, -90, -91, -126, -150, 60])
def test_to_float32_at_midpoints_and_beside_them(den, exponent):
    room = 61 - den.bit_length()
    mids = [
        m for m in (1, 3, 2**24 - 1, 2**24 + 1, 2**25 - 1, 2**25 + 1, 2**25 + 3) if m.bit_length() <= room
    ]
    nums = sorted({s * (m * den + d) for m in mids for d in (-1, 0, 1) for s in (1, -1)})
    value = Exact([(QTensor(np.array(nums, np.int64), 0), 1)], exponent, den=den)
    want = [floats.to_float32(F(v, den) * power(exponent)) for v in nums]
    assert [F(float(v)) for v in value.to_float32()] == want


@pytest.mark.parametrize("bits", [25, 52, 53, 54, 61, 62, 63, 64, 93, 94, 95, 118, 125])
@pytest.mark.parametrize("exponent", [0, -151, -200, -240])
def test_to_float32_of_wide_numerators_is_rounded_once(bits, exponent, monkeypatch):
    """Midpoints of two float32 and both their neighbours, of every length that a container holds."""
    monkeypatch.setattr(Exact, "fractions", lambda self: pytest.fail("the slow way"))
    mids = [m << (bits - 25) for m in (2**24 + 1, 2**24 + 3, 2**25 - 1)]
    nums = sorted({s * (m + d) for m in mids for d in (-1, 0, 1) for s in (1, -1)} | {0, 1, -1})
    want = [floats.to_float32(num * power(exponent)) for num in nums]
    if bits <= 62:
        value = Exact([(QTensor(np.array(nums, np.int64), 0), 1)], exponent)
    else:  # high and low halves
        parts = [np.array(half, np.int64) for half in zip(*(divmod(num, 2**63) for num in nums), strict=True)]
        terms = [(QTensor(parts[0] * 2, 0), 1), (QTensor(parts[1], 0), 1)]
        value = Exact(terms, exponent, shifts=(62, 0))
    got = value.to_float32()
    assert [F(float(v)) for v in got] == want and not np.any(np.signbit(got) & (np.array(nums, object) >= 0))
    above = value.rectified().to_float32()
    assert [F(float(v)) for v in above] == [max(v, 0) for v in want]


def test_to_float32_overflow_is_an_error():
    for exponent in (128, 200, 5000):
        for den in (1, 2**36):
            with pytest.raises(NumberError, match="beyond float32's range"):
                Exact([(QTensor(np.array([0, 2**37]), 0), 1)], exponent, den=den).to_float32()
    for top, exponent in ((2**60, 68), (2**60, 5000), (2**62, 66)):
        with pytest.raises(NumberError, match="fc: a value is beyond float32's range"):
            Exact([(QTensor(np.array([1, top]), 0), 4)], exponent - 2).to_float32("fc")
    assert fraction_to_float32(F(2**24 - 1) * 2**104) == np.finfo(np.float32).max
    with pytest.raises(NumberError):
        fraction_to_float32(F(2**25 - 1) * 2**103)
    for x in (F(0), F(1, 2**149), F(-3, 2**150), F(1, 2**150), F(1, 3), -F(2**60, 7)):
        assert F(float(fraction_to_float32(x))) == floats.to_float32(x)


def test_a_relu_reads_negatives_as_zero_on_every_reader():
    s = Exact([(QTensor(np.array([-3, 0, 2, -(2**62)]), 0), 1)], -1).rectified()
    assert s.fractions().tolist() == [0, 0, 1, 0] and s.max() == 1
    assert s.to_float32().tolist() == [0, 0, 1, 0]
    assert s.round_to(-1, Rounding(MODES["to_neg"]))[0].tolist() == [0, 0, 2, 0]
    assert s.positive().tolist() == [False, False, True, False]


def test_to_qtensor_only_without_a_denominator():
    q = Exact([(QTensor(np.array([3, -200]), 0), 5)], -4, offset=7).to_qtensor()
    assert (
        q.codes.tolist() == [22, -993] and q.exponent == -4 and q.codes.dtype == np.int16 and q.bound == 993
    )
    with pytest.raises(NumberError, match="a quotient has no exact codes"):
        Exact([(QTensor(np.array([3]), 0), 5)], -4, den=np.array([2])).to_qtensor()


def test_what_no_container_holds_and_what_does_not_fit_together():
    x = QTensor(np.array([2**62]), 0)
    with pytest.raises(ContainerError, match="bn1/x2: a numerator of up to 129 bits"):
        Exact([(x, 2**62), (x, 2**62)], 0, offset=2**62).round_to(-2, Rounding(0, where="bn1/x2"))
    for sign in (1, -1):  # on the coarse grid of a flag without a range
        with pytest.raises(ContainerError, match="fc/e3: a rounded code is beyond 62 bits"):
            Exact([(x, sign * 7)], 0).round_to(0, Rounding(TIES_EVEN, where="fc/e3"), 15)
    with pytest.raises(ContainerError, match="beyond int64"):
        Exact([(x, 2**63)], 0).round_to(0, Rounding(0))
    with pytest.raises(ShapeError, match="cannot combine"):
        Exact([(x, 1), (QTensor(np.ones(2, np.int8), 0), 1)], 0)
    for empty in (
        Exact([(QTensor(np.zeros((0, 2), np.int8), 0), np.array([1, 2]))], 0),
        FloatExact(np.zeros(0, np.float32)),
    ):
        with pytest.raises(NumberError, match="empty tensor"):
            empty.max()
        assert empty.round_to(0, Rounding(0))[0].size == 0


def test_log2_round_against_the_squares():
    for x in (
        *(F(v) for n in range(70) for v in cases.sqrt2_neighbours(n)),
        *cases.random_fractions(5, 300, 60),
    ):
        if x:
            assert log2_round(abs(x)) == log2_R(abs(x))
            assert log2_round(1 / abs(x)) == log2_R(1 / abs(x))


@pytest.mark.parametrize("gap", [0, 30, 61, 62, 63, 80, 95])
@pytest.mark.parametrize("small", [0, 1, -5])
def test_branches_of_far_exponents_join_exactly(gap: int, small: int) -> None:
    near = QTensor(np.array([3, -7, 1 << 20], np.int32), -10)
    far = QTensor(np.array([small, 0, small], np.int32), -10 - gap, bound=1 << 30)
    joined = add(near, far)
    expected = near.fractions() + far.fractions()
    assert joined.fractions().tolist() == expected.tolist()
    assert joined.max() == max(abs(value) for value in expected)
    assert joined.positive().tolist() == [value > 0 for value in expected]
    codes, _ = joined.round_to(-12, Rounding(TIES_EVEN))
    assert codes.tolist() == [round(value * 4096) for value in expected]


def test_an_all_zero_branch_joins_at_any_distance() -> None:
    nothing = QTensor(np.zeros(2, np.int32), -14, bound=1 << 30)
    joined = add(QTensor(np.array([1, -2], np.int32), -400), nothing)
    codes, _ = joined.round_to(-400, Rounding(TIES_EVEN))
    assert codes.tolist() == [1, -2]


def test_branches_beyond_two_limbs_are_refused() -> None:
    joined = add(QTensor(np.array([1], np.int32), 0), QTensor(np.array([1], np.int32), -130))
    with pytest.raises(ContainerError, match="branches too far apart"):
        joined.round_to(-7, Rounding(TIES_EVEN))
    one, zero = QTensor(np.array([1, 0]), 2**59), QTensor(np.array([0, 0]), 2**59)
    for value in (exact(one), add(one, QTensor(np.array([1, 1]), 0))):  # refused ahead of making the number
        with pytest.raises(ContainerError, match="bits is beyond every container"):
            value.round_to(0, Rounding(TIES_EVEN))
    assert exact(zero).round_to(0, Rounding(TIES_EVEN))[0].tolist() == [0, 0]


def with_tops(u: list[list[int]], v: list[list[int]], vectors: np.ndarray, exponent: int) -> Sum:
    """(offset + cu u + cv v) / den of rows u, v, which knows the greatest |u| of each channel."""
    offset, cu, cv, den = vectors
    tops = np.array([max(abs(row[c]) for row in u) for c in range(len(u[0]))])
    terms = [(QTensor(np.array(u), 0), cu), (QTensor(np.array(v), 0), cv)]
    pairs = [zip(offset.tolist(), cu.tolist(), a, cv.tolist(), b, den.tolist(), strict=True)
             for a, b in zip(u, v, strict=True)]  # fmt: skip
    xs = [F(o + c * x + d * y, n) * power(exponent) for row in pairs for o, c, x, d, y, n in row]
    return Sum(Exact(terms, exponent, offset, den, tops=tops), xs)


@given(
    u_bits=st.integers(1, 24), coef_bits=st.integers(1, 20), rest_bits=st.integers(0, 20),
    rows=st.integers(1, 6), channels=st.integers(1, 5), exponent=st.integers(-40, 40),
    seed=st.integers(0, 2**32),
)  # fmt: skip
def test_log2_of_the_maximum_where_the_greatest_codes_are_known(
    u_bits: int, coef_bits: int, rest_bits: int, rows: int, channels: int, exponent: int, seed: int
) -> None:
    source = random.Random(seed)

    def draw(bits: int) -> list[int]:
        return [source.randint(-(1 << bits) + 1, (1 << bits) - 1) for _ in range(channels)]

    u, v = [draw(u_bits) for _ in range(rows)], [draw(rest_bits) for _ in range(rows)]
    den = [source.randint(1, 1 << 20) for _ in range(channels)]
    case = with_tops(u, v, np.array([draw(rest_bits), draw(coef_bits), draw(3), den]), exponent)
    top = max(abs(x) for x in case.xs)
    assert case.value.log2_max() == (log2_R(top) if top else 0)


@pytest.mark.parametrize("n", [1, 5, 20, 40])
@pytest.mark.parametrize("rest", [0, 1])
def test_a_maximum_beside_a_border_of_log2_is_looked_for(n: int, rest: int) -> None:
    """A rest that could carry the maximum over sqrt2 * 2^n leaves the bounds undecided."""
    for border in cases.sqrt2_neighbours(n):
        if border < 3:
            continue
        for offset in (-rest, rest):
            vectors = np.array([[offset], [1], [0], [1]])
            case = with_tops([[int(border)], [1]], [[1], [1]], vectors, -7)
            assert case.value.log2_max() == log2_R(max(abs(x) for x in case.xs))


def test_known_greatest_codes_spare_the_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(lane: lanes.Lane) -> list[float]:
        raise AssertionError("the codes were read")

    monkeypatch.setattr(lanes, "peaks", read)
    vectors = np.array([[3, -1], [1 << 12, 1 << 10], [2, 1], [7, 9]])
    case = with_tops([[100, -3], [5, 90]], [[4, 4], [-4, 2]], vectors, -20)
    assert case.value.log2_max() == log2_R(max(abs(x) for x in case.xs))
    with pytest.raises(AssertionError, match="were read"):
        Exact(case.value.terms, -20, vectors[0], vectors[3]).log2_max()
