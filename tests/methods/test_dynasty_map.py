"""DYNASTY's maps against a scalar oracle with 50 digits, its laws, and the optimum that SciPy finds."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from intnet.exact.blocks.block_float import quantize_blocks
from intnet.methods import dynasty_map as lib
from intnet.spec.methods import dynasty_map as definition
from intnet.spec.models import Layer
from tests.support import blocks
from tests.support import map_digits as oracle
from tests.support.opcheck import tensor

INF = float("inf")
ALPHAS = (0.0, 0.5, 2.0, 3.0, 4.0, 6.0, 7.5, 8.0)
FINITE = st.lists(st.floats(-60, 60), min_size=1, max_size=30)
DEAD = st.lists(st.one_of(st.floats(-60, 60), st.just(-INF)), min_size=1, max_size=30)


def decimals(r: Any) -> list[Decimal | None]:
    """The oracle's view of r."""
    return [None if v == -INF else oracle.decimal(float(v)) for v in r]


def converged(r: np.ndarray, alpha: float, epochs: int = 40) -> float:
    """lambda of the same r, epoch after epoch."""
    lam = lib.first_lambda(r, alpha)
    for _ in range(epochs):
        lam = lib.tune(lam, r, alpha)
    return lam


# -- the parts -------------------------------------------------------------------------------------


@pytest.mark.slow
@given(st.lists(st.tuples(st.floats(1e-120, 1e120), st.integers(1, 10**12)), min_size=1), st.integers(1, 500))
def test_relative_sensitivity(pairs: list[tuple[float, int]], batches: int) -> None:
    sums, uses = np.array([s for s, _ in pairs]), np.array([t for _, t in pairs], np.int64)
    got = lib.relative_sensitivity(sums, batches, uses)
    for r, (s, t) in zip(got, pairs, strict=True):
        want = oracle.relative(Fraction(s) / batches, t)
        assert want is not None and abs(float(want) - r) < 1e-12


def test_no_sensitivity_is_minus_infinity() -> None:
    """Also where no product reads the block."""
    got = lib.relative_sensitivity(np.array([0.0, 1.0, 0.0]), 3, np.array([5, 5, 0]))
    assert got[0] == got[2] == -INF and np.isfinite(got[1])


def test_powers_of_four_are_whole_numbers() -> None:
    sums = np.exp2(np.arange(-300.0, 300, 2))
    got = lib.relative_sensitivity(sums, 1, np.ones(sums.size, np.int64))
    assert np.max(np.abs(got - np.arange(-150, 150))) < 1e-12


@given(DEAD, st.floats(-70, 70), st.sampled_from(ALPHAS))
def test_widths_and_the_first_lambda(r: list[float], lam: float, alpha: float) -> None:
    array, exact = np.array(r), oracle.decimal(lam)
    got = lib.widths(array, lam)
    want = [oracle.width(v, exact) for v in decimals(r)]
    assert np.max(np.abs(got - np.array(want, np.float64))) < 1e-12
    assert abs(lib.mean_width(array, lam) - float(oracle.mean(want))) < 1e-12
    first = float(oracle.first_lambda(decimals(r), oracle.decimal(alpha)))
    assert abs(lib.first_lambda(array, alpha) - first) < 1e-12


@pytest.mark.slow
@given(DEAD, st.one_of(st.none(), st.floats(-80, 80)), st.sampled_from(ALPHAS))
@settings(max_examples=200)
def test_algorithm_1(r: list[float], lam: float | None, alpha: float) -> None:
    """Three epochs one after another; where two means differ by a rounding error alone, any step is right."""
    array, exact = np.array(r), decimals(r)
    now = lib.first_lambda(array, alpha) if lam is None else lam
    for _ in range(3):
        want = oracle.tune(exact, oracle.decimal(now), oracle.decimal(alpha))
        now = lib.tune(now, array, alpha)
        widths = [oracle.width(v, want) for v in exact]
        assert np.max(np.abs(lib.widths(array, now) - np.array(widths, np.float64))) < 1e-6


def test_algorithm_1_by_hand() -> None:
    """r of 0 and 4, alpha 3, from lambda 2: means of 1, 5/2 and 3; lambda_0 stays at -3, with a mean of 5."""
    r = [Decimal(0), Decimal(4)]
    for rounds, lam, widths in ((1, "-0.5", ["0.5", "4.5"]), (2, "-1", ["1", "5"]), (3, "-1", ["1", "5"])):
        assert oracle.tune(r, Decimal(2), Decimal(3), rounds) == Decimal(lam)
        assert [oracle.width(v, Decimal(lam)) for v in r] == list(map(Decimal, widths))
    assert lib.tune(2.0, np.array([0.0, 4.0]), 3.0) == -1.0


@pytest.mark.slow
@pytest.mark.parametrize("alpha", ALPHAS)
def test_guards(alpha: float) -> None:
    """All equal; all dead; one alone; some dead: finite, and the mean as near to alpha as it can be."""
    for r in ([3.0] * 7, [-INF] * 5, [-2.5], [1.0, -INF], [0.0, 1.0, -INF, -INF, -INF], [-INF, 5.0, 5.0]):
        array = np.array(r)
        for start in (lib.first_lambda(array, alpha), 0.0, -1e3, 1e3):
            lam = start
            for _ in range(30):
                lam = lib.tune(lam, array, alpha)
            assert np.isfinite(lam)
            if np.isfinite(array).all() and 0 < alpha < 8:
                assert abs(lib.mean_width(array, lam) - alpha) < 1e-6
            if not np.isfinite(array).any():
                assert lam == start


@pytest.mark.slow
@given(DEAD, st.floats(-100, 100), st.sampled_from(ALPHAS))
def test_lambda_never_leaves_its_interval(r: list[float], lam: float, alpha: float) -> None:
    """With dead blocks the mean at lambda_0 may be below alpha, and a step beyond it has no end."""
    array = np.array(r)
    finite = array[np.isfinite(array)]
    ends = [lam, *(finite - alpha)]
    for _ in range(5):
        lam = lib.tune(lam, array, alpha)
        assert min(ends) - 1e-9 <= lam <= max(ends) + 1e-9


def test_dead_blocks_that_come_alive_find_their_widths_again() -> None:
    """Seven of ten blocks are dead for some epochs: alpha cannot be reached; then it can."""
    rng = np.random.default_rng(0)
    alive = rng.normal(0, 3, 200)
    dead = np.where(np.arange(200) < 140, -INF, alive)
    lam = lib.first_lambda(dead, 4.0)
    for _ in range(4):
        lam = lib.tune(lam, dead, 4.0)
    for _ in range(3):
        lam = lib.tune(lam, alive, 4.0)
    assert abs(lib.mean_width(alive, lam) - 4) < 0.1


# -- sensitivities ---------------------------------------------------------------------------------

SHAPES = [((6, 9), (0, 1)), ((5, 2, 3, 7), (0, 3)), ((9, 2, 2, 4), (0, 3)), ((6, 5, 3, 2), (0, 1))]


@pytest.mark.parametrize(("shape", "axes"), SHAPES, ids=str)
def test_sensitivities(shape: tuple[int, ...], axes: tuple[int, int]) -> None:
    """To the bit, over three batches; gradients of all 24 bits, of which a sum in another order differs."""
    rng = np.random.default_rng(3)
    sums = np.zeros(blocks.counts(shape, axes))
    want = dict.fromkeys(np.ndindex(*sums.shape), 0.0)
    for low in (-140, -30, -3):
        x = blocks.numbers(low + 200, shape, axes, blocks.uniform(low + 300, low, low + 12), zeros=0.2)
        bits = blocks.widths(low + 400, shape, axes)
        g = (rng.normal(0, 1, shape) * np.exp2(rng.uniform(-8, 8, shape))).astype(np.float32)
        g[rng.random(shape) < 0.1] = 0
        quantize_blocks(x, bits, axes).add_sensitivities(g, sums)
        q = blocks.expected(x, bits, axes)
        found = oracle.sensitivity(tensor(g), q, oracle.zero_blocks(tensor(x), axes))
        want = {block: want[block] + s for block, s in found.items()}
    assert {place: float(sums[place]) for place in np.ndindex(*sums.shape)} == want


def test_sensitivity_by_hand() -> None:
    """e = 1 of the number 1: 4/16 of 1 + 4 + 9; the block beside it is zero, however large g."""
    sums = np.zeros((1, 2))
    x = quantize_blocks(np.array([[1, 0, 0, 0, 0]], np.float32), 0, (0, 1))
    x.add_sensitivities(np.array([[1, -2, 3, 0, 1e30]], np.float32), sums)
    assert sums.tolist() == [[3.5, 0]]


# -- laws ------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(FINITE, st.sampled_from(ALPHAS[1:-1]))
def test_the_mean_is_alpha_once_lambda_stands_still(r: list[float], alpha: float) -> None:
    array = np.array(r)
    lam = converged(array, alpha, 200)
    b = lib.widths(array, lam)
    assert b.min() >= 0 and b.max() <= 8
    assert abs(b.mean() - alpha) < 1e-3


@given(DEAD, st.sampled_from(ALPHAS))
def test_widths_follow_r(r: list[float], alpha: float) -> None:
    """A more sensitive block never has fewer bits, smoothed and rounded neither; a dead one has none."""
    array = np.sort(np.array(r))
    b = lib.widths(array, converged(array, alpha, 3)).astype(np.float32)
    last = np.full(b.shape, 4, np.float32)
    for row in (b, lib.smooth(last, b, 0.5), lib.rounded(b), lib.rounded(lib.smooth(last, b, 0.5))):
        assert np.all(np.diff(row.astype(np.float64)) >= 0)
    assert np.all(b[array == -INF] == 0) and set(lib.rounded(b).tolist()) <= {0, 2, 4, 6, 8}


@given(
    st.lists(st.tuples(*[st.floats(0, 8, width=32)] * 2), min_size=1), st.sampled_from([0.0, 0.25, 0.5, 0.9])
)
def test_smoothing(pairs: list[tuple[float, float]], gamma: float) -> None:
    last, new = (np.array(column, np.float32) for column in zip(*pairs, strict=True))
    got = lib.smooth(last, new, gamma)
    assert got.dtype == np.float32
    for b, (a, c) in zip(got, pairs, strict=True):
        assert abs(float(oracle.smoothed(oracle.decimal(a), oracle.decimal(c), gamma)) - float(b)) <= 2.0**-22


def test_rounding_of_every_tie_and_what_lies_beside() -> None:
    b = np.array([0, 8, 0.5, 1.5, 6.5, *range(9)], np.float32)
    for towards in (np.float32(0), np.float32(8)):
        b = np.concatenate([b, np.nextafter(b, towards), np.nextafter(np.nextafter(b, towards), towards)])
    assert lib.rounded(b).tolist() == [oracle.in_use(Fraction(float(v))) for v in b]
    assert lib.rounded(np.array([1, 3, 5, 7], np.float32)).tolist() == [2, 4, 6, 8]


@pytest.mark.slow
@given(st.lists(st.tuples(st.floats(1e-90, 1e90), st.sampled_from([0, 2, 4, 6, 8])), min_size=1))
def test_loss_noise(pairs: list[tuple[float, int]]) -> None:
    sums, bits = np.array([s for s, _ in pairs]), np.array([b for _, b in pairs], np.uint8)
    want = oracle.loss_noise([s / 4 for s, _ in pairs], [b for _, b in pairs])
    assert lib.loss_noise(sums, 4, bits) == pytest.approx(want, rel=1e-13)
    for width in (0.0, 3.25, 4.0, 8.0):
        want = oracle.loss_noise([s / 4 for s, _ in pairs], [width] * len(pairs))
        assert lib.uniform_noise(sums, 4, width) == pytest.approx(want, rel=1e-12)


def test_long_maps_are_summed_whole() -> None:
    """Longer than a chunk of a sum."""
    rng = np.random.default_rng(1)
    for n in (4095, 4096, 4097, 9000):
        r = rng.uniform(-9, 9, n)
        r[::17] = -INF
        want = oracle.mean([oracle.width(v, Decimal(-1)) for v in decimals(r)])
        assert abs(lib.mean_width(r, -1.0) - float(want)) < 1e-11
        finite = r[np.isfinite(r)]
        assert abs(lib.first_lambda(r, 3.0) - (finite.mean() - 3)) < 1e-11
        sums = np.exp2(2 * r)
        got = lib.loss_noise(sums, 1, np.full(n, 2, np.uint8))
        assert got == pytest.approx(sums.sum() / 16 / (3 * n), rel=1e-12)


# -- to the bit ------------------------------------------------------------------------------------


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.just(0.0) | st.floats(1e-120, 1e120), st.integers(1, 10**12)), min_size=1),
    st.integers(1, 500), st.one_of(st.none(), st.floats(-80, 80)), st.sampled_from(ALPHAS),
)  # fmt: skip
@settings(max_examples=200)
def test_a_map_is_the_definitions_to_the_bit(
    pairs: list[tuple[float, int]], batches: int, lam: float | None, alpha: float
) -> None:
    sums, uses = np.array([s for s, _ in pairs]), np.array([t for _, t in pairs], np.int64)
    last = np.array([4.0] * len(pairs), np.float32)
    found = lib.relative_sensitivity(sums, batches, uses)
    r, work = [definition.relative(s, batches, t) for s, t in pairs], uses.tolist()
    assert found.tolist() == r
    for t, told in ((None, None), (uses, work)):
        start = lib.first_lambda(found, alpha, t)
        assert start == definition.first_lambda(r, alpha, told)
        tuned = lib.tune(start if lam is None else lam, found, alpha, t)
        want = definition.tune(r, start if lam is None else lam, alpha, told)
        assert tuned == want
    made = lib.make(lib.Given(sums, uses, last, last), found, want, 0.3)
    assert made.lam == want
    new = [Fraction(float(np.float32(definition.width(v, want)))) for v in r]
    assert [Fraction(v) for v in made.new.tolist()] == new
    b = [definition.smoothed(Fraction(4), v, 0.3) for v in new]
    assert [Fraction(v) for v in made.smoothed.tolist()] == b
    assert made.bits.tolist() == [definition.in_use(v) for v in b]


def test_long_sums_are_the_definitions_to_the_bit() -> None:
    """Longer than a chunk."""
    r = np.random.default_rng(2).uniform(-9, 9, 9000)
    r[::17] = -INF
    assert lib.mean_width(r, -1.25) == definition.mean_width(r.tolist(), -1.25)
    assert lib.first_lambda(r, 3.0) == definition.first_lambda(r.tolist(), 3.0)


# -- multiply-adds ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [1, 2, 3])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_multiply_adds_counted_one_by_one(kernel: int, stride: int) -> None:
    for side, padding, n in product((3, 4, 5), range(kernel), (1, 6)):
        x, w = (n, side, 4, 5), (6, 5, kernel, kernel)
        layer = Layer("conv", "c", stride=stride, padding=padding)
        got = lib.multiply_adds(x, w, (stride, stride), (padding, padding))
        for array, want in zip(got, oracle.work(layer, x, w), strict=True):
            assert {place: int(array[place]) for place in np.ndindex(*array.shape)} == want


@pytest.mark.parametrize("sizes", [(1, 1, 1), (4, 8, 4), (5, 7, 9), (13, 3, 2)])
def test_multiply_adds_of_matrices(sizes: tuple[int, int, int]) -> None:
    n, c, o = sizes
    got = lib.multiply_adds((n, c), (o, c), (1, 1), (0, 0))
    for array, want in zip(got, oracle.work(Layer("linear", "fc"), (n, c), (o, c)), strict=True):
        assert {place: int(array[place]) for place in np.ndindex(*array.shape)} == want
    assert got[0].sum() == got[1].sum() == n * c * o


# -- the relaxed problem (2) -----------------------------------------------------------------------


def optimum(s: np.ndarray, t: np.ndarray, alpha: float) -> np.ndarray:
    """The least sum of S 2^(-2b) with 0 <= b <= 8 and a T-weighted mean of at most alpha, by SciPy."""
    share = t / t.sum()
    scale = np.exp2(-2 * alpha + np.mean(np.log2(s)))
    found = minimize(
        lambda b: float(np.sum(s * np.exp2(-2 * b)) / scale),
        np.full(s.size, alpha),
        jac=lambda b: -2 * np.log(2) * s * np.exp2(-2 * b) / scale,
        method="SLSQP",
        bounds=[(0, 8)] * s.size,
        constraints=[{"type": "ineq", "fun": lambda b: alpha - share @ b, "jac": lambda b: -share}],
        options={"ftol": 1e-16, "maxiter": 1000},
    )
    return np.asarray(found.x)


PROBLEMS = list(product((3, 6, 10), (2, 4), (2.0, 4.0, 6.0)))


@pytest.mark.parametrize(("n", "spread", "alpha"), PROBLEMS)
def test_a_map_of_equal_work_is_the_optimum(n: int, spread: float, alpha: float) -> None:
    rng = np.random.default_rng(n)
    sums, uses = np.exp2(2 * rng.uniform(-spread, spread, n)), np.full(n, 96, np.int64)
    r = lib.relative_sensitivity(sums, 1, uses)
    b = lib.widths(r, converged(r, alpha))
    assert np.max(np.abs(b - optimum(sums, uses, alpha))) < 1e-6


@pytest.mark.parametrize(("n", "spread", "alpha"), PROBLEMS)
def test_a_map_of_any_work_is_the_optimum_of_its_own_weighted_mean(
    n: int, spread: float, alpha: float
) -> None:
    """lambda is tuned on the mean of T b instead: the form r - lambda is right for every T."""
    rng = np.random.default_rng(n)
    sums, uses = np.exp2(2 * rng.uniform(-spread, spread, n)), rng.integers(10, 80, n)
    r = lib.relative_sensitivity(sums, 1, uses)
    low, high = float(r.min()) - 8, float(r.max())
    for _ in range(100):
        lam = (low + high) / 2
        mean = float(uses @ lib.widths(r, lam)) / uses.sum()
        low, high = (lam, high) if mean > alpha else (low, lam)
    assert np.max(np.abs(lib.widths(r, lam) - optimum(sums, uses, alpha))) < 1e-6
