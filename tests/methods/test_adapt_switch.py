"""AdaPT's precision switch, rule by rule, against the oracle; thresholds are met from both sides."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intnet import methods
from intnet import spec as oracle_package
from intnet.exact.quantize import quantize
from intnet.methods import adapt_switch as lib
from intnet.methods import float_master as fast_master
from intnet.methods import muppet, schedules
from intnet.numbers.formats import FixedPoint
from intnet.spec import float_batch_norm as float_norm
from intnet.spec import initial
from intnet.spec import words as oracle_random
from intnet.spec.float32 import sqrt32, to_float32
from intnet.spec.methods import adapt_switch as oracle
from intnet.spec.methods import float_master
from tests.support import cases, moving, two_worlds
from tests.support.cases import near

F32 = np.float32
DIVERSITIES = [1e-300, 1e-6, 0.3, 0.5, 1.0, 1.5, 2.0, math.e, 3.0, 10.0, 1e3, 1e308, math.inf]


# -- KL ------------------------------------------------------------------------------------------


def array(counts: Any) -> np.ndarray:
    return np.array(counts, np.int64)


def agree(p: Any, q: Any) -> None:
    """The divergence, and every decision with eps at it and beside it."""
    want = oracle.divergence(p, q)
    got = lib.divergence(array(p), array(q))
    if want in (0, oracle.INFINITE):
        assert got == float(want)
    else:
        assert 0 < got < math.inf and abs(Decimal(got) - want) < Decimal("1e-13")
    finite = float(want) if want != oracle.INFINITE else 1.0
    for eps in (0.0, *near(finite, 2), finite / 2, finite * 2):
        if eps >= 0:
            assert lib.diverges(array(p), array(q), eps) == (want > Decimal(eps)), (p, q, eps)


@pytest.mark.slow
def test_all_pairs_of_histograms_of_five_values_in_three_bins() -> None:
    every = [h for h in product(range(6), repeat=3) if sum(h) == 5]
    for p, q in product(every, repeat=2):
        agree(p, q)


@pytest.mark.slow
@given(st.integers(1, 150), st.integers(1, 10**6), st.integers(0, 2**32))
def test_any_histograms(r: int, n: int, seed: int) -> None:
    """Some values of Q move to other bins to make P."""
    q = cases.random_codes(seed, r, 0, n)
    p = list(q)
    for i in cases.random_codes(seed + 1, 10, 0, r - 1):
        moved = min(p[i], 1 + seed % 7)
        p[i] -= moved
        p[(i + seed) % r] += moved
    if sum(q):
        agree(p, q)


# -- PushDown ------------------------------------------------------------------------------------


def weights(seed: int, n: int, exponent: int) -> tuple[np.ndarray, list[Fraction], np.ndarray]:
    """float32 weights, the oracle's view of them, and their random words."""
    values = cases.random_float32(seed, n, exponent)
    words = cases.random_codes(seed + 1, n, 0, 2**32 - 1)
    return np.array([float(v) for v in values], F32), values, np.array(words, np.uint32)


FORMATS = st.tuples(st.integers(1, 32), st.integers(1, 28))
EPS = st.one_of(st.just(0.0), st.floats(0, 0.5))


@pytest.mark.slow
@given(st.integers(0, 2**32), st.integers(1, 25), st.integers(-8, 4), FORMATS, st.integers(1, 60), EPS)
def test_push_down(seed: int, n: int, exponent: int, form: tuple[int, int], r: int, eps: float) -> None:
    w, values, words = weights(seed, n, exponent)
    got = lib.push_down(w, *form, r, eps, words)
    assert got == oracle.push_down(values, form, r, eps, words.tolist())
    if w.min() < w.max():
        minimal(values, got, form, r, eps, words.tolist())


def minimal(
    w: list[Fraction], got: tuple[int, int], form: tuple[int, int], r: int, eps: float, words: list[int]
) -> None:
    """The result keeps its condition or is the upper bound; a bit less does not, or is below the range."""

    def holds(wl: int, fl: int) -> bool:
        return oracle.loss_of(w, (wl, fl), r, words) <= Decimal(eps)

    (wl, fl), (wl_min, fl_min) = form, got
    assert min(4, fl) <= fl_min <= fl and min(fl_min, wl) <= wl_min <= wl
    assert holds(wl, fl_min) or fl_min == fl
    assert fl_min == min(4, fl) or not holds(wl, fl_min - 1)
    assert holds(wl_min, fl_min) or wl_min == wl
    assert wl_min == min(fl_min, wl) or not holds(wl_min - 1, fl_min)


def test_a_word_of_no_bits_holds_nothing() -> None:
    """A start of FL = 0, where any divergence is taken: the least WL is 1."""
    w = np.linspace(-1, 1, 50, dtype=np.float32)
    words = np.zeros(50, np.uint32)
    for wl in (1, 2, 8):
        values = [Fraction(float(x)) for x in w]
        got = lib.push_down(w, wl, 0, 7, math.inf, words)
        assert got == oracle.push_down(values, (wl, 0), 7, 1e300, words.tolist()) == (1, 0)


def test_push_down_of_known_weights() -> None:
    """Multiples of 2^-6 up to 1 need 6 bits after the point, and 8 in all: +1 is code 64."""
    w = np.arange(-64, 65, dtype=F32) / F32(64)
    words = np.zeros(129, np.uint32)
    assert lib.push_down(w, 16, 10, 129, 0.0, words) == (8, 6)
    assert lib.push_down(w, 7, 6, 129, 0.0, words) == (7, 6)  # 7 bits do not hold +1: the bound itself
    assert lib.push_down(w, 16, 10, 1, 0.0, words) == (4, 4)  # one bin loses nothing
    assert lib.push_down(np.full(5, F32(0.3)), 16, 10, 50, 0.0, words[:5]) == (4, 4)
    assert lib.push_down(np.full(5, F32(0.3)), 3, 2, 50, 0.0, words[:5]) == (3, 2)


def test_every_candidate_rounds_by_the_same_words() -> None:
    """Not by words that go on: the candidates are compared with `quantize` itself."""
    w, values, words = weights(9, 30, 0)
    for wl, fl in ((8, 4), (9, 7), (5, 5)):
        q = quantize(w, FixedPoint(wl, fl), rounding="stochastic", words=words)
        assert [Fraction(v) for v in q.fractions()] == oracle.rounded(values, (wl, fl), words.tolist())
        candidates = lib.Candidates(w, words, 20)
        for eps in (0.0, 0.01, 0.3, 1.0):
            for _ in range(2):
                want = oracle.loss_of(values, (wl, fl), 20, words.tolist()) <= Decimal(eps)
                assert candidates.holds(wl, fl, eps) == want


# -- PushUp, lookback, resolution, strategy --------------------------------------------------------


def thresholds(reading: str) -> list[float]:
    """Diversities beside each step of s1 and s2, by ln D."""
    if reading != "printed":  # (ln D - 1)^2 = 1/k, (ln D - 1)^2 = j/32
        roots = [math.sqrt(1 / k) for k in range(1, 40)] + [math.sqrt(j / 32) for j in range(1, 34)]
        logs = [1 + sign * root for root in roots for sign in (1, -1)]
    else:  # ln^2 D = 1 + 1/k, ln^2 D = j/32
        roots = [math.sqrt(1 + 1 / k) for k in range(1, 40)] + [math.sqrt(j / 32) for j in range(32, 67)]
        logs = [sign * root for root in roots for sign in (1, -1)]
    return [d for log in logs for d in near(math.exp(log), 3)]


@pytest.mark.slow
@pytest.mark.parametrize("reading", get_args(lib.Reading))
def test_suggestions_at_every_threshold(reading: Any) -> None:
    for d in [*thresholds(reading), *near(math.e), *near(1 / math.e), *DIVERSITIES]:
        for fl_min in (0, 4, 13, 32):
            got = lib.suggestions(d, fl_min, reading)
            assert got == oracle.suggestions(d, fl_min, reading), d
            for strategy in lib.STRATEGIES:
                assert lib.chosen(got, strategy) == oracle.chosen(*got, strategy)


@given(
    st.integers(1, 32), st.integers(0, 32), st.integers(1, 10**30), st.integers(1, 31),
    st.sampled_from(["raised", "printed"]),
)  # fmt: skip
def test_push_up_stays_within_its_bounds(wl: int, fl: int, s: int, buff: int, buffer: Any) -> None:
    got = lib.push_up(wl, fl, s, lib.Rule(buff=buff, buffer=buffer))
    assert got == oracle.push_up((wl, fl), s, buff, buffer)
    assert min(fl + (buffer == "raised"), 32 - buff) <= got[1] <= 32 - buff
    assert got[1] + buff <= got[0] <= 32 and got[0] >= wl


@pytest.mark.slow
@given(st.lists(st.tuples(st.floats(1e-9, 1e9), st.sampled_from(oracle.STRATEGIES)), max_size=8))
def test_widths_of_any_sequence_of_switches(switches: list[tuple[float, Any]]) -> None:
    """4 < FL <= 32 - buff and FL + buff <= WL <= 32 from <8,4> on, whatever the weights and diversities."""
    form = (8, 4)
    for i, (d, strategy) in enumerate(switches):
        w, _, words = weights(i, 20, i % 5 - 3)
        least = lib.push_down(w, *form, 50, 0.0, words)
        s = lib.chosen(lib.suggestions(d, least[1]), strategy)
        form = lib.push_up(*least, s, lib.Rule())
        assert 4 < form[1] <= 28 and form[1] + 4 <= form[0] <= 32


@pytest.mark.slow
def test_next_lookback_at_every_threshold() -> None:
    """D beside 100/k for every k, for every lookback."""
    for lb in range(25, 101):
        for d in [d for k in range(24, 102) for d in near(100 / k, 1)] + DIVERSITIES:
            got = lib.next_lookback(lb, d, lib.Rule())
            assert got == oracle.next_lookback(lb, d) and 25 <= got <= 100, (lb, d)


@given(
    st.integers(1, 500),
    st.integers(0, 500),
    st.integers(0, 500),
    st.floats(1e-3, 1e3),
    st.decimals(0, 1, places=3),
)
def test_next_lookback_of_other_rules(low: int, more: int, at: int, d: float, gamma: Decimal) -> None:
    lb, bounds = low + min(at, more), (low, low + more)
    rule = lib.Rule(lookback=bounds, gamma=Fraction(gamma))
    got = lib.next_lookback(lb, d, rule)
    assert got == oracle.next_lookback(lb, d, bounds, Fraction(gamma)) and low <= got <= low + more
    for r in (low, low + more, lb):
        got = lib.next_resolution(r, lb, rule._replace(resolution=bounds))
        assert got == oracle.next_resolution(r, lb, bounds, bounds)


def test_next_resolution() -> None:
    for r, lb in product(range(50, 151), (25, 26, 60, 99, 100)):
        got = lib.next_resolution(r, lb, lib.Rule())
        assert got == oracle.next_resolution(r, lb) and 50 <= got <= 150


LOSSES = st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=6)


@given(LOSSES, st.sampled_from(oracle.STRATEGIES))
def test_next_strategy(losses: list[float], strategy: Any) -> None:
    for seen in (losses, [losses[0]] * len(losses), [*losses, sum(map(abs, losses)) / len(losses)]):
        values = [F32(v) for v in seen]
        want = oracle.next_strategy(strategy, [Fraction(float(v)) for v in values], [len(values)])
        assert lib.next_strategy(strategy, [float(v) for v in values]) == want


def test_next_strategy_where_float64_cannot_tell() -> None:
    """A sum of float32 that is 4 + 2^-69, 4 or 4 - 2^-70 against four times 1: min, else a step up."""
    for last, want in ((2.0**-46 + 2.0**-69, "min"), (2.0**-46, "max"), (2.0**-46 - 2.0**-70, "max")):
        losses = [3 - 2.0**-22, 2.0**-22 - 2.0**-46, last, 1.0]
        assert all(float(F32(v)) == v for v in losses) and sum(losses) == 4
        assert lib.next_strategy("mean", losses) == want


@given(st.lists(st.floats(0.125, 5, width=32), min_size=1, max_size=130), st.integers(25, 100))
@settings(max_examples=10)
def test_the_history_of_losses(losses: list[float], lookback: int) -> None:
    """As many as 100 are kept; the strategy sees the last of them, by the mean of the lookbacks."""
    case = moving.Case("adapt", options={"l1": 0, "l2": 0}, start={"fc2/window": (lookback, 50, 0)})
    method: Any = moving.prepared(case).method
    strategy, kept = "min", []
    for loss in losses:
        method.see_loss(loss)
        kept = [*kept, Fraction(loss)][-100:]
        strategy = oracle.next_strategy(strategy, kept, [25, lookback, 25])
        assert oracle.STRATEGIES[int(method.state["strategy"].codes[0])] == strategy
    assert two_worlds.numbers(method.state["losses"]) == kept


# -- reduce on plateau, TNVS, MuPPET's policy ------------------------------------------------------


@given(
    st.lists(st.sampled_from([0.5, 0.99, 0.9999, 0.99995, 1.0, 1.5, 2.0]), max_size=20),
    st.integers(0, 3), st.sampled_from([0.5, 0.125]), st.sampled_from([0.0, 1e-4, 0.25]),
)  # fmt: skip
def test_reduce_on_plateau(losses: list[float], patience: int, factor: float, threshold: float) -> None:
    state = want = 1.0, float(np.finfo(F32).max), 0
    for loss in losses:
        want = float_master.plateau(want, loss, patience, factor, threshold)
        state = schedules.reduce_on_plateau(state, loss, patience, factor, threshold)
        assert state == want


def normal_below(z: Fraction) -> Decimal:
    """The normal distribution's probability below z, |z| < 2: the series of its integral."""
    context = oracle.DIGITS
    x = oracle.decimal(z)
    term, total, n = x, x, 0
    while abs(term) > Decimal("1e-45"):
        n += 1
        term = context.divide(context.multiply(context.multiply(term, -x), x), Decimal(2 * n))
        total = context.add(total, context.divide(term, Decimal(2 * n + 1)))
    two_pi = 2 * Decimal("3.14159265358979323846264338327950288419716939937511")
    return context.add(Decimal("0.5"), context.divide(total, context.sqrt(two_pi)))


@pytest.mark.slow
@pytest.mark.parametrize(("fan_in", "s"), [(64, 1.0), (5, 2.0), (1, 0.3)])
def test_the_start_is_a_truncated_normal(fan_in: int, s: float) -> None:
    """Every weight is the float32 whose rounding interval holds the quantile of its word, as is the range."""
    deviation = oracle.DIGITS.sqrt(Decimal(s) / fan_in)
    words = [*oracle_random.words(3, 0, "fc/init_W", 200), 0, 1, 2**31, 2**32 - 1]
    got = methods.Adapt(init_scale=s).first_weights(np.array(words, np.uint32), fan_in)
    tail = round(normal_below(-Fraction(oracle.DIGITS.sqrt(Decimal(3)))) * 2**32)
    assert tail == fast_master.TAIL == initial.TAIL
    for word, w in zip(words, got, strict=True):
        inside = tail + (word * (2**32 - 2 * tail) >> 32)
        u = oracle.decimal(Fraction(2 * inside + 1, 2**33))
        ends = [(float(w) + float(np.nextafter(w, F32(e)))) / 2 for e in (-np.inf, np.inf)]
        below, above = (normal_below(Fraction(oracle.decimal(e) / deviation)) for e in ends)
        assert below <= u <= above, (word, w)
        assert Decimal(float(w)) ** 2 <= 3 * Decimal(s) / fan_in * Decimal("1.0000001")
    assert all(Fraction(float(w)) == to_float32(Fraction(float(w))) for w in got)


def test_the_policy_uses_the_papers_constants() -> None:
    assert (float(muppet.ALPHA), float(muppet.BETA), float(muppet.LAMBDA)) == (1.0, 1.5, 0.1)
    o = methods.Adapt().options
    assert (o.start, o.lookback, o.resolution, o.gamma, o.buff) == ("8,4", "25-100", "50-150", 0.33, 4)
    rule = lib.Rule()
    assert (rule.lookback, rule.resolution, rule.gamma) == ((25, 100), (50, 150), Fraction("0.33"))


# -- the oracle itself ---------------------------------------------------------------------------


def test_the_oracles_switch_by_hand() -> None:
    one_bit = oracle.divergence([2, 0], [1, 1])  # all of P in one of two equal bins
    assert abs(one_bit - 1) < Decimal("1e-45") and oracle.divergence([1, 1], [2, 0]) == oracle.INFINITE
    assert oracle.histogram([Fraction(v, 2) for v in (-3, 0, 1, 2, 9)], Fraction(0), Fraction(1), 2) == [2, 3]
    assert [oracle.bisect(4, 9, least.__le__) for least in (0, 4, 7, 9, 99)] == [4, 4, 7, 9, 9]
    # printed: ln^2 D is 4 beside D = e^2: a = 3, s1 = 1, s2 = 32 - FL_min; 1 or less where ln^2 D <= 1
    assert oracle.suggestions(math.exp(2), 6, "printed") == (1, 26)
    assert oracle.suggestions(2.0, 6, "printed") == (1, 1) == oracle.suggestions(math.inf, 6)
    # graded: ln 5 - 1 = 0.6094, a = 0.3714, 1/a = 2.69, 32 a = 11.9
    assert oracle.suggestions(5.0, 5) == (3, 7) == oracle.suggestions(5.0, 5, "program")
    # ln 4 - 1 = 0.3863, a = 0.1492, 1/a = 6.70, 32 a = 4.78; the program asks for nothing where D <= e
    assert [oracle.suggestions(4.0, 5, of) for of in ("graded", "program")] == [(7, 1), (7, 0)]
    assert [oracle.suggestions(2.5, 5, of) for of in ("graded", "program")] == [(143, 1), (1, 1)]
    assert oracle.push_up((9, 6), 0, 4) == (10, 6)
    assert [oracle.chosen(3, 8, name) for name in oracle.STRATEGIES] == [3, 6, 8]
    assert oracle.push_up((9, 6), 14, 4) == (24, 20) and oracle.push_up((9, 6), 14, 4, "printed") == (10, 6)
    assert oracle.push_up((31, 6), 26, 8) == (32, 24)
    # 100/2 = 50, 0.33 * 50 + 0.67 * 25 = 33.25
    assert (oracle.next_lookback(25, 2.0), oracle.next_lookback(25, math.inf)) == (34, 50)
    seen = (1.0, math.inf, 0)
    for loss in (3.0, 2.0, 2.0, 2.0, 1.0):
        seen = float_master.plateau(seen, loss, 1, 0.5, 0.0)
    assert seen == (0.5, 1.0, 0)


def test_the_oracles_float32_roots_and_norm_by_hand() -> None:
    assert sqrt32(Fraction(9, 4)) == Fraction(3, 2)
    assert sqrt32(Fraction(2)) == Fraction(11863283, 2**23)  # 1.41421354
    x = oracle_package.Tensor((2, 1), [Fraction(1), Fraction(3)])
    normed = float_norm.forward(x, [Fraction(2)], [Fraction(1)])
    assert (normed.mean, normed.variance) == ([Fraction(2)], [Fraction(1)])
    assert [round(float(v), 4) for v in normed.x3.values] == [-1.0, 3.0]
    e = oracle_package.Tensor((2, 1), [Fraction(1), Fraction(1)])
    dx, gamma, beta = float_norm.backward(e, x, normed, [Fraction(2)])
    assert (dx.values, gamma, beta) == ([0, 0], [0], [2])
