"""linear, conv2d and add_bias: every value and gradient equals the oracle's, in every container."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intnet import spec as oracle
from intnet.autograd import Tensor, leaf
from intnet.errors import ContainerError, FormatError, ShapeError
from intnet.exact.expressions import Exact
from intnet.exact.quantize import quantize
from intnet.machine.words import OUTPUTS
from intnet.numbers.formats import Shift
from intnet.numbers.qtensor import QTensor
from intnet.ops import add_bias, conv2d, linear
from intnet.ops.kernels import float_products, int_products
from intnet.ops.kernels.float_products import conv2d_weight_grad
from intnet.ops.kernels.int_products import plan
from intnet.spec.products import bias_gradient, with_bias
from tests.support.opcheck import (
    fixed,
    floating,
    integer,
    road,
    road_taken,
    run,
    scaled,
    tensor,
    threads,
    values,
)

SEEDS = st.integers(0, 2**32)

# Bits of two operands at their limits, and what holds a sum of 2..36 such products.
WIDTHS = [
    (8, 8, "int32"),
    (13, 13, "int32"),
    (16, 16, "int64"),
    (17, 9, "int32"),
    (32, 24, "int64"),
    (32, 32, "limbs"),
    (48, 20, "limbs"),
    (64, 10, "limbs"),
    (48, 40, "none"),
    (64, 64, "none"),
]


@st.composite
def convolutions(draw: st.DrawFn) -> dict[str, Any]:
    """Shapes of x and w and the window; the kernel fits the padded image, at least two terms a sum."""
    groups = draw(st.integers(1, 3))
    kernel = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    padding = (draw(st.integers(0, 2)), draw(st.integers(0, 2)))
    cin = draw(st.integers(1 if max(kernel) > 1 else 2, 3))
    side = [draw(st.integers(max(1, kernel[a] - 2 * padding[a]), 5)) for a in (0, 1)]
    return {
        "x": (draw(st.integers(1, 3)), *side, groups * cin),
        "w": (groups * draw(st.integers(1, 3)), cin, *kernel),
        "stride": (draw(st.integers(1, 3)), draw(st.integers(1, 3))),
        "padding": padding,
        "groups": groups,
    }


def window(shape: dict[str, Any]) -> dict[str, Any]:
    return {key: shape[key] for key in ("stride", "padding", "groups")}


def check_product(got: Any, a: QTensor, b: QTensor, terms: int, want: oracle.Tensor) -> None:
    """Value, exponent and container of an integer result."""
    exponent = int(a.exponent) + int(b.exponent)
    assert road_taken(got) == road(a, b, terms)
    assert got.shape == want.shape
    assert int(got.exponent) == exponent
    assert values(got) == scaled(want, exponent)
    q = quantize(got, Shift(8))
    expected = oracle.formats.quantize(values(got), oracle.formats.Shift(8))
    assert fixed(q) == oracle.Fixed(want.shape, *expected[:2])


# -- integers -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("x_bits", "w_bits", "expected"), WIDTHS)
@given(shape=convolutions(), seed=SEEDS, limits=st.booleans())
def test_integer_conv2d(
    x_bits: int, w_bits: int, expected: str, shape: dict[str, Any], seed: int, limits: bool
) -> None:
    x = integer(seed, shape["x"], x_bits, -5, limits)
    w = integer(seed + 1, shape["w"], w_bits, -9, limits)
    how, terms = window(shape), int(np.prod(shape["w"][1:]))
    if road(x, w, terms) == "none":
        with pytest.raises(ContainerError, match="two limbs too"):
            run(conv2d, x, w, **how)
        return
    assert not limits or road(x, w, terms) == expected or terms == 2
    got, _ = run(conv2d, x, w, **how)
    check_product(got, x, w, terms, oracle.convolution.conv2d(fixed(x).ints(), fixed(w).ints(), **how))


@pytest.mark.slow
@pytest.mark.parametrize(("e_bits", "x_bits", "w_bits"), [(8, 8, 8), (16, 8, 16), (15, 24, 32), (33, 16, 28)])
@given(shape=convolutions(), seed=SEEDS, limits=st.booleans())
def test_integer_conv2d_gradients(
    e_bits: int, x_bits: int, w_bits: int, shape: dict[str, Any], seed: int, limits: bool
) -> None:
    x = integer(seed, shape["x"], x_bits, -5, limits)
    w = integer(seed + 1, shape["w"], w_bits, -9, limits)
    how, made = window(shape), []

    def error(output: Any) -> QTensor:
        made.append(integer(seed + 2, output.shape, e_bits, -30, limits))
        return made[0]

    _, (dx, dw) = run(conv2d, x, w, error=error, **how)
    e = made[0]
    want = oracle.convolution.conv2d_input_grad(fixed(e).ints(), fixed(w).ints(), x.shape, **how)
    check_product(dx, e, w, w.shape[0] // how["groups"] * w.shape[2] * w.shape[3], want)
    want = oracle.convolution.conv2d_weight_grad(fixed(e).ints(), fixed(x).ints(), w.shape, **how)
    check_product(dw, e, x, e.size // e.shape[3], want)


@pytest.mark.slow
@pytest.mark.parametrize(("x_bits", "w_bits", "expected"), WIDTHS)
@given(n=st.integers(1, 5), cin=st.integers(2, 36), cout=st.integers(1, 6), seed=SEEDS, limits=st.booleans())
def test_integer_linear(
    x_bits: int, w_bits: int, expected: str, n: int, cin: int, cout: int, seed: int, limits: bool
) -> None:
    x, w = integer(seed, (n, cin), x_bits, 3, limits), integer(seed + 1, (cout, cin), w_bits, -9, limits)
    e = integer(seed + 2, (n, cout), 7, -40, limits)
    assert not limits or road(x, w, cin) == expected or cin == 2
    if "none" in (road(x, w, cin), road(e, w, cout), road(e, x, n)):
        with pytest.raises(ContainerError, match="two limbs too"):
            run(linear, x, w, error=e)
        return
    got, (dx, dw) = run(linear, x, w, error=e)
    ints = {name: fixed(value).ints() for name, value in (("x", x), ("w", w), ("e", e))}
    check_product(got, x, w, cin, oracle.convolution.conv2d(ints["x"], ints["w"]))
    check_product(dx, e, w, cout, oracle.convolution.conv2d_input_grad(ints["e"], ints["w"], (n, cin)))
    check_product(dw, e, x, n, oracle.convolution.conv2d_weight_grad(ints["e"], ints["x"], (cout, cin)))


@pytest.mark.parametrize("top", [127, 1023, 8191, 8192, 32767])
def test_sums_at_the_limits_of_their_chunks(top: int) -> None:
    """Equal signs, so that every partial sum is as large as its bound allows, around each chunk's end."""
    chunk = (2**31 - 1) // top**2
    ends = {max(1, min(chunk, 600) * k + d) for k in (1, 2) for d in (-1, 0, 1)}
    for terms in sorted({1, 2, 31, 32, 33} | ends):
        for rows, columns in ((1, 1), (2, 4), (3, 5)):
            x = QTensor(np.full((rows, terms), top, np.int16), 0)
            w = QTensor(np.full((columns, terms), -top, np.int16), 0)
            got, _ = run(linear, x, w)
            assert np.all(got.codes == -(top**2) * terms)
            assert road_taken(got) == road(x, w, terms)


def test_the_container_follows_the_proven_bound_not_the_codes() -> None:
    ones = np.ones((1, 4), np.int8)
    for bound, dtype in ((2**28, np.int32), (2**29, np.int64), (2**60, None)):
        got, _ = run(linear, QTensor(ones, 0, bound=bound), QTensor(ones, 0))
        assert road_taken(got) == ("limbs" if dtype is None else np.dtype(dtype).name)
        assert values(got) == [4]


def test_a_bound_exactly_at_the_int32_limit() -> None:
    for a, b, dtype in ((2**31 - 1, 1, np.int32), (2**30, 2, np.int64), (2**16 - 1, 2**15, np.int32)):
        how = plan(QTensor(np.array([a]), 0), QTensor(np.array([b]), 0), 1)
        assert how.result == dtype and how.bound == a * b


@pytest.mark.parametrize("where", ["layer1.0.conv1", ""])
def test_beyond_every_container_the_layer_is_named(where: str) -> None:
    big = QTensor(np.full((1, 1, 1, 2), 2**50), 0)
    message = f"{where or 'product'}: 2 products of codes up to .* bits: beyond every container"
    with pytest.raises(ContainerError, match=message):
        conv2d(Tensor(big), Tensor(big.reshape(1, 2, 1, 1)), where=where)
    with pytest.raises(ContainerError, match=message):
        linear(Tensor(big.reshape(1, 2)), Tensor(big.reshape(1, 2)), where=where)


def test_threads_do_not_change_a_bit() -> None:
    x, w = integer(1, (5, 7, 6, 8), 16, limits=True), integer(2, (6, 4, 3, 3), 14)
    e = integer(3, (5, 4, 3, 6), 9)
    how = {"stride": (2, 2), "padding": (1, 1), "groups": 2}
    fx, fw, fe = floating(1, (5, 7, 6, 8)), floating(2, (6, 4, 3, 3)), floating(3, (5, 4, 3, 6))
    results = []
    for n in (1, 2):
        with threads(n):
            got = [run(conv2d, a, b, error=error, **how) for a, b, error in ((x, w, e), (fx, fw, fe))]
            results.append([values(v) for out, grads in got for v in (out, *grads)])
    assert results[0] == results[1]


# -- bias ---------------------------------------------------------------------------------------


@pytest.mark.slow
@given(
    shape=st.sampled_from([(3, 4), (1, 1), (2, 3, 2, 5)]), bits=st.sampled_from([(8, 8), (31, 16), (45, 8)]),
    seed=SEEDS, gap=st.integers(-12, 12),
)  # fmt: skip
def test_integer_add_bias(shape: tuple[int, ...], bits: tuple[int, int], seed: int, gap: int) -> None:
    y, b = integer(seed, shape, bits[0], -20), integer(seed + 1, shape[-1:], bits[1], -20 + gap)
    e = integer(seed + 2, shape, 16, -33)
    got, (dy, db) = run(add_bias, y, b, error=e)
    bias = values(b)
    assert values(got) == [v + bias[i % len(bias)] for i, v in enumerate(values(y))]
    assert dy is e
    assert fixed(db) == bias_gradient(fixed(e))


def test_add_bias_to_two_limbs() -> None:
    x, w = integer(4, (2, 3), 48, limits=True), integer(5, (4, 3), 20, limits=True)
    b = integer(6, (4,), 16, -2)
    product, _ = run(linear, x, w)
    got, _ = run(add_bias, product, b)
    bias, plain = values(b), values(product)
    assert values(got) == [v + bias[i % 4] for i, v in enumerate(plain)]
    want = oracle.formats.quantize(values(got), oracle.formats.Shift(16))
    assert fixed(quantize(got, Shift(16))) == oracle.Fixed((2, 4), *want[:2])


def test_a_bias_gradient_beyond_int64_is_refused() -> None:
    y, b = integer(1, (4, 2), 8), integer(2, (2,), 8)
    e = QTensor(np.full((4, 2), 2**60), 0)
    with pytest.raises(ContainerError, match="4 codes up to 1152921504606846976 do not fit int64"):
        run(add_bias, y, b, error=e)


# -- float32 ------------------------------------------------------------------------------------


@pytest.mark.slow
@given(shape=convolutions(), seed=SEEDS)
def test_float_conv2d(shape: dict[str, Any], seed: int) -> None:
    x, w = floating(seed, shape["x"]), floating(seed + 1, shape["w"], 2)
    how, made = window(shape), []

    def error(output: np.ndarray) -> np.ndarray:
        made.append(floating(seed + 2, output.shape, -6))
        return made[0]

    got, (dx, dw) = run(conv2d, x, w, error=error, **how)
    tx, tw, te = tensor(x), tensor(w), tensor(made[0])
    assert tensor(got) == oracle.convolution.conv32(tx, tw, **how)
    assert tensor(dx) == oracle.convolution.conv32_input_grad(te, tw, x.shape, **how)
    assert tensor(dw) == oracle.convolution.conv32_weight_grad(te, tx, w.shape, **how)


@pytest.mark.parametrize(
    ("groups", "width"), [(2, OUTPUTS // 2), (4, OUTPUTS // 4), (2, OUTPUTS), (3, OUTPUTS // 2)]
)
def test_float_groups_that_fill_a_tile_only_together(groups: int, width: int) -> None:
    """Each group reads its own errors, also where all their outputs together are rows of whole tiles."""
    x, e = floating(1, (2, 3, 3, 2 * groups)), floating(2, (2, 3, 3, groups * width))
    got = conv2d_weight_grad(e, x, (1, 1), groups=groups)
    shape = (groups * width, 2, 1, 1)
    assert tensor(got) == oracle.convolution.conv32_weight_grad(tensor(e), tensor(x), shape, groups=groups)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "cin", "cout"), [(1, 1, 1), (3, 5, 4), (2, 1025, 3), (1030, 2, 3), (2, 3, 2050)]
)
def test_float_linear_with_bias(n: int, cin: int, cout: int) -> None:
    x, w, b, e = (floating(s, shape) for s, shape in enumerate(((n, cin), (cout, cin), (cout,), (n, cout))))
    got, (dx, dw) = run(linear, x, w, error=e)
    out, (dy, db) = run(add_bias, got, b, error=e)
    tx, tw, te = tensor(x), tensor(w), tensor(e)
    assert tensor(out) == with_bias(oracle.convolution.conv32(tx, tw), tensor(b))
    assert tensor(dx) == oracle.convolution.conv32_input_grad(te, tw, x.shape)
    assert tensor(dw) == oracle.convolution.conv32_weight_grad(te, tx, w.shape)
    assert dy is e
    assert tensor(db) == bias_gradient(te)


# -- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize("op", [linear, conv2d])
def test_mixed_operands_are_refused(op: Any) -> None:
    shape = (2, 2) if op is linear else (2, 1, 1, 2)
    q, f = integer(1, shape), floating(2, shape)
    double = f.astype(np.float64)
    for a, b in ((q, f), (f, q), (double, double), (f, double), (Exact([(q, 1)], 0), q)):
        with pytest.raises(
            FormatError, match="two QTensors, two BlockTensors, two AffineTensors or two float32 arrays, not"
        ):
            op(Tensor(a), Tensor(b))
    with pytest.raises(FormatError, match=r"head: .* not QTensor and float32 array"):
        op(Tensor(q), Tensor(f), where="head")


def test_an_integer_error_of_a_float_pass_is_refused() -> None:
    x, w, e = floating(1, (2, 2)), floating(2, (2, 2)), integer(3, (2, 2))
    with pytest.raises(
        FormatError, match="fc: gradient takes two QTensors, two BlockTensors, two AffineTensors or"
    ):
        run(linear, x, w, error=e, where="fc")
    image = floating(1, (2, 1, 1, 2))
    with pytest.raises(FormatError, match="conv1: gradient takes"):
        run(conv2d, image, floating(2, (2, 2, 1, 1)), error=integer(3, (2, 1, 1, 2)), where="conv1")
    with pytest.raises(FormatError, match="add_bias takes"):
        run(add_bias, integer(1, (2, 2)), floating(3, (2,)))


def test_a_float_error_passes_an_integer_layer_straight_through() -> None:
    """Small numbers, whose float32 sums are exact: the gradients are those of plain integers."""
    draw = np.random.default_rng(5)
    x, w, e = (draw.integers(-9, 10, shape) for shape in ((4, 3), (5, 3), (4, 5)))
    operands = [QTensor(codes.astype(np.int16), exponent) for codes, exponent in ((x, -3), (w, -7))]
    _, (dx, dw) = run(linear, *operands, error=e.astype(np.float32))
    assert dx.dtype == dw.dtype == np.float32
    assert np.array_equal(dx, (e @ w) * 2.0**-7) and np.array_equal(dw, (e.T @ x) * 2.0**-3)
    image, kernel = (QTensor(q.codes.reshape(-1, 1, 1, 3), q.exponent) for q in operands)
    kernel = QTensor(kernel.codes.reshape(5, 3, 1, 1), kernel.exponent)
    _, (dx, dw) = run(conv2d, image, kernel, error=e.astype(np.float32).reshape(4, 1, 1, 5))
    assert np.array_equal(dx.reshape(4, 3), (e @ w) * 2.0**-7)
    assert np.array_equal(dw.reshape(5, 3), (e.T @ x) * 2.0**-3)


def test_wrong_shapes_are_named() -> None:
    def refuse(op: Any, x: tuple[int, ...], w: tuple[int, ...], message: str, **how: Any) -> None:
        for a, b in ((integer(1, x), integer(2, w)), (floating(1, x), floating(2, w))):
            with pytest.raises(ShapeError, match=message):
                op(Tensor(a), Tensor(b), **how)

    refuse(linear, (2, 3), (4, 5), r"input \(2, 3\) does not fit weights \(4, 5\)")
    refuse(linear, (2, 3, 1), (4, 3), r"fc: input \(2, 3, 1\)", where="fc")
    message = r"input has 3 channels, the weights \(2, 2, 3, 3\) with 1 group\(s\) take 2"
    refuse(conv2d, (1, 4, 4, 3), (2, 2, 3, 3), message)
    message = r"stem: the input has 4 channels.* take 2"
    refuse(conv2d, (1, 4, 4, 4), (2, 1, 3, 3), message, groups=2, where="stem")
    refuse(conv2d, (1, 4, 4, 4), (3, 2, 1, 1), "has 4 channels", groups=2)
    refuse(conv2d, (1, 2, 4, 1), (1, 1, 3, 3), r"kernel \(3, 3\) does not fit the input \(2, 4\)")
    refuse(conv2d, (4, 4, 1), (1, 1, 3, 3), r"\(N, H, W, C\)")
    refuse(conv2d, (1, 4, 4, 1), (1, 1, 3), r"\(Cout, Cin, kh, kw\)")


def test_only_the_wanted_gradients_are_computed() -> None:
    x, w = integer(1, (2, 3)), leaf(integer(2, (4, 3)))
    output = linear(Tensor(x), w)
    assert output.node is not None and output.node.saved is not None
    dx, dw = linear.vjp(output.node.saved, integer(3, (2, 4)))  # type: ignore[misc]
    assert dx is None and dw.shape == (4, 3)


def test_a_window_of_nothing_is_named() -> None:
    x, w = integer(1, (1, 4, 4, 2)), integer(2, (2, 2, 2, 2))
    for how in ({"stride": (0, 1)}, {"stride": (1, -1)}, {"padding": (-1, 0)}):
        with pytest.raises(ShapeError, match=r"a window of 2, stride -?\d, padding -?\d: from 1, 1 and 0"):
            conv2d(Tensor(x), Tensor(w), **how)
    with pytest.raises(ShapeError, match=r"with 0 group\(s\)"):
        conv2d(Tensor(x), Tensor(w), groups=0)


def test_products_that_no_two_limbs_hold_are_told_as_they_are() -> None:
    x, w = (QTensor(np.array([[2**40]]), 0) for _ in range(2))
    told = "1 products of codes up to 1099511627776 and 1099511627776 need 82 bits: beyond every container"
    with pytest.raises(ContainerError, match=told):
        linear(Tensor(x), Tensor(w))


@pytest.mark.parametrize("of", [np.int8, np.int16, np.float32])
def test_sums_over_no_channel_are_zero(of: type, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (int_products, float_products):
        monkeypatch.setattr(module, "empty", lambda shape, kind: np.full(shape, 7, kind))
    window = ((1, 1), (0, 0), 1)
    none, taken = (np.zeros(shape, of) for shape in ((2, 5, 5, 0), (4, 0, 3, 3)))
    error, given = (np.zeros(shape, of) for shape in ((2, 3, 3, 0), (0, 4, 3, 3)))
    if of is np.float32:
        sums = [float_products.conv2d(none, taken), float_products.conv2d_input_grad(error, given, (5, 5))]
    else:
        how = plan(QTensor(none, 0), QTensor(taken, 0), 0)
        sums = [
            int_products.forward(none, taken, how, window),
            int_products.input_grad(error, given, how, window, (5, 5)),
        ]
    assert [s.shape for s in sums] == [(2, 3, 3, 4), (2, 5, 5, 4)] and not any(s.any() for s in sums)
