"""max_pool2d, avg_pool2d, global_avg_pool: values, winners and gradients equal the oracle's."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intnet import spec as oracle
from intnet.autograd import Tensor
from intnet.errors import ContainerError, FormatError, NumberError, ShapeError
from intnet.exact.expressions import Exact, FloatExact
from intnet.exact.quantize import quantize
from intnet.numbers.formats import Direct, Shift
from intnet.numbers.qtensor import QTensor
from intnet.ops import avg_pool2d, global_avg_pool, max_pool2d
from intnet.spec.float32 import add32, to_float32
from intnet.spec.pooling import adaptive_windows, pooled, pooled_grad, windows_of
from intnet.spec.tensor import places
from tests.support import cases
from tests.support.opcheck import fixed, floating, integer, run, scaled, tensor, threads, values

SEEDS = st.integers(0, 2**32)
BITS = st.sampled_from([2, 8, 16, 32, 48])


@st.composite
def pools(draw: st.DrawFn) -> dict[str, Any]:
    """An input shape and a window; at most half of it is padding, windows may overlap or leave gaps."""
    kernel = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    padding = tuple(draw(st.integers(0, k // 2)) for k in kernel)
    side = [draw(st.integers(max(1, kernel[a] - 2 * padding[a]), 6)) for a in (0, 1)]
    return {
        "x": (draw(st.integers(1, 3)), *side, draw(st.integers(1, 4))),
        "kernel": kernel,
        "stride": (draw(st.integers(1, 3)), draw(st.integers(1, 3))),
        "padding": padding,
    }


def window(shape: dict[str, Any]) -> dict[str, Any]:
    return {key: shape[key] for key in ("kernel", "stride", "padding")}


# -- maximum ------------------------------------------------------------------------------------


@pytest.mark.slow
@given(shape=pools(), bits=BITS, e_bits=BITS, seed=SEEDS)
def test_integer_max_pool2d(shape: dict[str, Any], bits: int, e_bits: int, seed: int) -> None:
    """With 2 bits nearly every window is a tie: the first position wins the whole error."""
    x, how, made = integer(seed, shape["x"], bits, -7), window(shape), []

    def error(output: QTensor) -> QTensor:
        made.append(integer(seed + 1, output.shape, e_bits, -20))
        return made[0]

    got, (dx,) = run(max_pool2d, x, error=error, **how)
    want, winners = oracle.pooling.max_pool(fixed(x).ints(), **how)
    assert fixed(got) == oracle.Fixed(want.shape, want.values, -7)
    assert got.codes.dtype == x.codes.dtype
    want = oracle.pooling.max_pool_grad(fixed(made[0]).ints(), winners, x.shape)
    assert fixed(dx) == oracle.Fixed(x.shape, want.values, -20)


@pytest.mark.slow
@given(shape=pools(), seed=SEEDS, few=st.booleans())
def test_float_max_pool2d(shape: dict[str, Any], seed: int, few: bool) -> None:
    """Overlapping windows add their errors in float32, windows in row-major order."""
    x, how, made = floating(seed, shape["x"]), window(shape), []
    if few:  # many ties
        x = np.sign(x).astype(np.float32)

    def error(output: np.ndarray) -> np.ndarray:
        made.append(floating(seed + 1, output.shape))
        return made[0]

    got, (dx,) = run(max_pool2d, x, error=error, **how)
    want, winners = oracle.pooling.max_pool(tensor(x), **how)
    assert tensor(got) == want
    sums = [Fraction(0)] * x.size
    for v, index in zip(values(made[0]), winners, strict=True):
        sums[index] = add32(sums[index], v)
    assert values(dx) == sums


def test_max_pool2d_takes_the_first_of_equals_in_row_major_order() -> None:
    x = QTensor(np.array([[3, 5, 5], [5, 5, 1], [-1, -1, -1]], np.int8).reshape(1, 3, 3, 1), 0)
    e = QTensor(np.array([[1, 10], [100, 1000]], np.int16).reshape(1, 2, 2, 1), 0)
    how = {"kernel": (2, 2), "stride": (1, 1)}
    _, (dx,) = run(max_pool2d, x, error=e, **how)
    assert dx.codes.reshape(3, 3).tolist() == [[0, 11, 0], [100, 1000, 0], [0, 0, 0]]


def test_padding_never_wins_a_maximum() -> None:
    low = QTensor(np.full((1, 2, 2, 1), -128, np.int8), 0)
    how: dict[str, Any] = {"kernel": (2, 2), "stride": (2, 2), "padding": (1, 1)}
    got, (dx,) = run(max_pool2d, low, error=QTensor(np.ones((1, 2, 2, 1), np.int8), 0), **how)
    assert got.codes.reshape(-1).tolist() == [-128] * 4
    assert dx.codes.reshape(-1).tolist() == [1] * 4


def test_max_pool2d_of_an_exact_sum_and_with_an_exact_error() -> None:
    a, b = integer(1, (2, 4, 4, 3), 16, -7), integer(2, (2, 4, 4, 3), 16, -9)
    join, how = Exact([(a, 4), (b, 1)], -9), {"kernel": (2, 2), "stride": (2, 2)}
    e = Exact([(integer(3, (2, 2, 2, 3)), np.array([3, -1, 2]))], -11)
    got, (dx,) = run(max_pool2d, join, error=e, **how)
    want, winners = oracle.pooling.max_pool(oracle.Tensor((2, 4, 4, 3), values(join)), **how)
    assert values(got) == want.values
    want = oracle.pooling.max_pool_grad(oracle.Tensor((2, 2, 2, 3), values(e)), winners, (2, 4, 4, 3))
    assert values(dx) == want.values


# -- mean ---------------------------------------------------------------------------------------


@pytest.mark.slow
@given(shape=pools(), bits=BITS, e_bits=BITS, seed=SEEDS)
def test_integer_avg_pool2d(shape: dict[str, Any], bits: int, e_bits: int, seed: int) -> None:
    """Exact quotients both ways, and correctly rounded by whichever quantizer takes them."""
    x, how, made = integer(seed, shape["x"], bits, -7), window(shape), []

    def error(output: Exact) -> QTensor:
        made.append(integer(seed + 1, output.shape, e_bits, -20))
        return made[0]

    got, (dx,) = run(avg_pool2d, x, error=error, **how)
    want = pooled(fixed(x).ints(), windows_of(x.shape, **how))
    assert (got.shape, values(got)) == (want.shape, scaled(want, -7))
    if bits < 48:
        q = oracle.formats.quantize(values(got), oracle.formats.Direct(8))
        assert fixed(quantize(got, Direct(8))) == oracle.Fixed(want.shape, *q[:2])
    want = pooled_grad(fixed(made[0]).ints(), windows_of(x.shape, **how))
    assert (dx.shape, values(dx)) == (want.shape, scaled(want, -20))
    q = oracle.formats.quantize(values(dx), oracle.formats.Shift(8))
    assert fixed(quantize(dx, Shift(8))) == oracle.Fixed(want.shape, *q[:2])


@pytest.mark.slow
@given(shape=pools(), seed=SEEDS)
def test_float_avg_pool2d(shape: dict[str, Any], seed: int) -> None:
    """Forward: additions in row-major order, one division. Back: one division, then the additions."""
    x, how, made = floating(seed, shape["x"]), window(shape), []

    def error(output: np.ndarray) -> np.ndarray:
        made.append(floating(seed + 1, output.shape))
        return made[0]

    got, (dx,) = run(avg_pool2d, x, error=error, **how)
    windows = oracle.pooling.windows_of(x.shape, **how)
    plan = [windows.members(place) for place in places(windows.output)]
    size, source = how["kernel"][0] * how["kernel"][1], values(x)
    sums = []
    for members in plan:
        total = Fraction(0)
        for index in members:
            total = add32(total, source[index])
        sums.append(to_float32(total / size))
    assert (got.shape, values(got)) == (windows.output, sums)
    back = [Fraction(0)] * x.size
    for v, members in zip(values(made[0]), plan, strict=True):
        for index in members:
            back[index] = add32(back[index], to_float32(v / size))
    assert values(dx) == back


@pytest.mark.slow
@given(n=st.integers(1, 3), side=st.tuples(st.integers(1, 5), st.integers(1, 5)), bits=BITS, seed=SEEDS)
def test_integer_global_avg_pool(n: int, side: tuple[int, int], bits: int, seed: int) -> None:
    x = integer(seed, (n, *side, 3), bits, -7)
    e = integer(seed + 1, (n, 3), 16, -25)
    got, (dx,) = run(global_avg_pool, x, error=e)
    want = pooled(fixed(x).ints(), adaptive_windows(x.shape, 1))
    assert (got.shape, values(got)) == ((n, 3), scaled(want, -7))
    assert values(got.to_float32()) == [to_float32(v) for v in values(got)]
    want = pooled_grad(fixed(e).ints(), adaptive_windows(x.shape, 1))
    assert (dx.shape, values(dx)) == (want.shape, scaled(want, -25))


@given(
    n=st.integers(1, 3), side=st.tuples(st.integers(1, 5), st.integers(1, 5)), exponent=st.integers(-140, 30),
    seed=SEEDS,
)  # fmt: skip
def test_a_float_error_through_an_integer_global_avg_pool(
    n: int, side: tuple[int, int], exponent: int, seed: int
) -> None:
    """The exact quotient error / size, rounded once by SQ; subnormal errors too."""
    x, e = integer(seed, (n, *side, 3)), floating(seed + 1, (n, 3), exponent)
    _, (dx,) = run(global_avg_pool, x, error=e)
    assert isinstance(dx, FloatExact)
    want = pooled_grad(tensor(e), adaptive_windows(x.shape, 1))
    assert values(dx) == want.values
    q = oracle.formats.quantize(want.values, oracle.formats.Shift(8))
    assert fixed(quantize(dx, Shift(8))) == oracle.Fixed(x.shape, *q[:2])


def test_a_float_error_through_separate_integer_windows() -> None:
    x, e = integer(1, (2, 4, 6, 2)), floating(2, (2, 2, 2, 2), -20)
    _, (dx,) = run(avg_pool2d, x, error=e, kernel=(2, 3), stride=(2, 3))
    assert values(dx) == pooled_grad(tensor(e), windows_of(x.shape, (2, 3), (2, 3))).values


def test_float_global_avg_pool() -> None:
    x, e = floating(1, (2, 3, 5, 2)), floating(2, (2, 2))
    got, (dx,) = run(global_avg_pool, x, error=e)
    for n in range(2):
        for c in range(2):
            total = Fraction(0)
            for v in values(x[n, :, :, c].copy()):
                total = add32(total, v)
            assert Fraction(float(got[n, c])) == to_float32(total / 15)
            assert set(values(dx[n, :, :, c])) == {to_float32(Fraction(float(e[n, c])) / 15)}


def test_threads_do_not_change_a_bit() -> None:
    how: dict[str, Any] = {"kernel": (3, 2), "stride": (1, 1), "padding": (1, 1)}
    x, f = integer(1, (5, 6, 7, 4), 3), floating(1, (5, 6, 7, 4))
    e, g = integer(2, (5, 6, 8, 4), 20), floating(2, (5, 6, 8, 4))
    results = []
    for n in (1, 2):
        with threads(n):
            got = [run(op, a, error=b, **how) for op in (max_pool2d, avg_pool2d) for a, b in ((x, e), (f, g))]
            results.append([values(v) for out, grads in got for v in (out, *grads)])
    assert results[0] == results[1]


# -- what is refused ----------------------------------------------------------------------------


def test_a_float_error_over_overlapping_integer_windows_is_refused() -> None:
    for stride in ((1, 2), (2, 1)):
        with pytest.raises(FormatError, match="overlapping windows is not exact: quantize it"):
            run(
                avg_pool2d, integer(1, (1, 4, 4, 1)), error=lambda y: floating(2, y.shape),
                kernel=(2, 2), stride=stride,
            )  # fmt: skip


def test_sums_beyond_int64_are_refused() -> None:
    big = QTensor(np.full((1, 3, 3, 1), 2**60), 0)
    windows: dict[str, Any] = {"kernel": (2, 2), "stride": (1, 1)}
    with pytest.raises(ContainerError, match="avg_pool2d: sums of 4 codes up to 1152921504606846976"):
        avg_pool2d(Tensor(big), **windows)
    for op in (avg_pool2d, max_pool2d):
        e = QTensor(np.full((1, 2, 2, 1), 2**60), 0)
        with pytest.raises(ContainerError, match=f"{op.name}: sums of 4 codes up to .* do not fit int64"):
            run(op, integer(1, (1, 3, 3, 1)), error=e, **windows)
        kept = {"kernel": (2, 2), "stride": (2, 2)}
        _, (dx,) = run(op, integer(1, (1, 4, 4, 1)), error=QTensor(e.codes, 0), **kept)
        assert max(values(dx)) == (2**60 if op is max_pool2d else 2**58)


def test_a_quotient_has_no_maximum_pool() -> None:
    mean, _ = run(avg_pool2d, integer(1, (1, 4, 4, 1)), kernel=(2, 2), stride=(1, 1))
    with pytest.raises(NumberError, match="a quotient has no exact codes; quantize it"):
        max_pool2d(Tensor(mean), kernel=(2, 2), stride=(1, 1))


@pytest.mark.parametrize("op", [max_pool2d, avg_pool2d])
def test_windows_that_do_not_fit_are_named(op: Any) -> None:
    how: dict[str, Any] = {"kernel": (3, 3), "stride": (2, 2)}
    for make in (integer, floating):
        for x, padding, message in (
            ((2, 5, 5), (0, 0), r"input \(2, 5, 5\) is not \(N, H, W, C\)"),
            ((1, 5, 2, 1), (0, 0), r"the window \(3, 3\) does not fit the input \(5, 2\)"),
            ((1, 5, 5, 1), (1, 2), r"padding \(1, 2\) is more than half the window \(3, 3\)"),
        ):
            with pytest.raises(ShapeError, match=f"{op.name}: {message}"):
                op(Tensor(make(1, x)), padding=padding, **how)
    with pytest.raises(ShapeError, match=r"global_avg_pool: input \(2, 3\) is not"):
        global_avg_pool(Tensor(integer(1, (2, 3))))


def test_pools_over_the_corner_codes_of_every_container() -> None:
    for bits in cases.WIDTHS[:3]:
        corners = cases.corners(bits)
        dtype = np.dtype(f"int{bits}")
        codes = np.array(corners + corners[: -len(corners) % 4], dtype).reshape(1, -1, 4, 1)
        x = QTensor(codes, 0)
        how = {"kernel": (1, 4), "stride": (1, 4)}
        got, _ = run(avg_pool2d, x, **how)
        assert values(got) == pooled(fixed(x).ints(), windows_of(x.shape, **how)).values
        got, _ = run(max_pool2d, x, **how)
        assert values(got) == oracle.pooling.max_pool(fixed(x).ints(), **how)[0].values


# -- containers ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("top", "dtype"), [(31, np.int8), (32, np.int64)])
@pytest.mark.parametrize("sign", [1, -1])
def test_sums_of_four_leave_int8_where_it_could_not_hold_them(top: int, dtype: type, sign: int) -> None:
    """4 * 31 is an int8, 4 * 32 is not; forward, and back where four windows read the middle."""
    x, window = QTensor(np.full((1, 3, 3, 2), sign * top, np.int8), -7), {"kernel": (2, 2), "stride": (1, 1)}
    y, (dx,) = run(avg_pool2d, x, error=x[:, :2, :2], **window)
    (sums, _), (spread, _) = y.terms[0], dx.terms[0]
    assert sums.codes.dtype == spread.codes.dtype == dtype
    assert (sums.codes == 4 * sign * top).all()
    assert (spread.codes[0, :, :, 0] == sign * top * np.array([[1, 2, 1], [2, 4, 2], [1, 2, 1]])).all()
    middle = np.zeros((1, 3, 3, 2), np.int8)
    middle[:, 1, 1] = 1
    _, (dx,) = run(max_pool2d, QTensor(middle, 0), error=x[:, :2, :2], **window)
    assert dx.codes.dtype == dtype
    assert (dx.codes == 4 * sign * top * middle.astype(int)).all()


@pytest.mark.parametrize("op", [max_pool2d, avg_pool2d])
def test_a_window_of_nothing_is_named(op: Any) -> None:
    x = Tensor(integer(1, (1, 4, 4, 2)))
    for kernel, stride, padding in (
        ((0, 2), (1, 1), (0, 0)),
        ((2, 2), (1, 0), (0, 0)),
        ((2, 2), (1, 1), (0, -1)),
    ):
        with pytest.raises(
            ShapeError, match=r"a window of \d, stride \d, padding -?\d: from 1, 1 and 0 upwards"
        ):
            op(x, kernel=kernel, stride=stride, padding=padding)
