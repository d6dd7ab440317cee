"""add, relu, dropout, flatten and cast: values and gradients equal the oracle's."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intnet import spec as oracle
from intnet.autograd import Tensor, backward, leaf
from intnet.errors import ContainerError, FormatError, ShapeError
from intnet.exact.expressions import Exact
from intnet.exact.expressions import add as join
from intnet.exact.quantize import quantize
from intnet.layers import Dropout
from intnet.methods import Wageubn
from intnet.numbers import rng
from intnet.numbers.formats import Direct, Shift
from intnet.numbers.qtensor import QTensor
from intnet.ops import add, cast, dropout, flatten, relu
from intnet.spec import formats
from intnet.spec import words as random
from intnet.spec.float32 import add32
from intnet.spec.values import Quotient, exact, joined
from tests.support.opcheck import fixed, floating, integer, run, stored, tensor, values

SEEDS = st.integers(0, 2**32)
SHAPES = st.sampled_from([(3, 4), (2, 3, 2, 5), (1, 1), (2, 1, 1, 3)])
BITS = st.sampled_from([2, 8, 16, 32, 45])


def oracle_tensor(x: Any) -> oracle.Tensor:
    return oracle.Tensor(x.shape, values(x))


def quotient(x: Any) -> Quotient:
    return Quotient(x.shape, values(x))


def rectified(x: oracle.Tensor) -> oracle.Tensor:
    return oracle.Tensor(x.shape, list(map(oracle.elementwise.relu_at, x.values)))


def masked(e: oracle.Tensor, x: oracle.Tensor) -> list[Any]:
    return list(map(oracle.elementwise.relu_grad_at, e.values, x.values))


def dropped(x: oracle.Tensor, words: list[int], keep: Fraction) -> oracle.Tensor:
    pairs = zip(x.values, words, strict=True)
    return oracle.Tensor(x.shape, [oracle.elementwise.dropout_at(v, word, keep) for v, word in pairs])


# -- add ----------------------------------------------------------------------------------------


@pytest.mark.slow
@given(shape=SHAPES, bits=st.tuples(BITS, BITS), gap=st.integers(-12, 12), seed=SEEDS)
def test_integer_add(shape: tuple[int, ...], bits: tuple[int, int], gap: int, seed: int) -> None:
    a, b = integer(seed, shape, bits[0], -7), integer(seed + 1, shape, bits[1], -7 + gap)
    e = integer(seed + 2, shape)
    got, (da, db) = run(add, a, b, error=e)
    assert da is e and db is e
    want = oracle.add_fixed(fixed(a), fixed(b))
    assert values(got) == want.real().values
    assert fixed(got.to_qtensor()) == want
    assert fixed(quantize(got, Shift(8))) == stored(want.real(), formats.Shift(8))


def test_add_of_sums_products_and_batch_norms() -> None:
    """Terms with channel coefficients and offsets, up to four tensors in all; the sum of three joins too."""
    shape = (2, 3, 4)
    one = Exact([(integer(1, shape), np.array([3, -5, 7, 0]))], -22, np.array([1, 2, -3, 4]))
    two = Exact([(integer(2, shape), 1), (integer(3, shape), 16)], -18)
    plain = integer(4, shape, 16, -7)
    for a, b in ((one, two), (two, two), (one, one), (one, plain), (plain, two)):
        got, _ = run(add, a, b)
        want = joined(quotient(a), quotient(b))
        assert values(got) == exact(want)
        twice, _ = run(add, got, two)
        assert values(twice) == exact(joined(want, quotient(two)))


@given(shape=SHAPES, seed=SEEDS)
def test_float_add(shape: tuple[int, ...], seed: int) -> None:
    a, b, e = floating(seed, shape), floating(seed + 1, shape, 3), floating(seed + 2, shape)
    got, (da, db) = run(add, a, b, error=e)
    assert values(got) == [add32(p, q) for p, q in zip(values(a), values(b), strict=True)]
    assert da is e and db is e


def test_what_cannot_be_joined_is_refused() -> None:
    q, f = integer(1, (2, 3)), floating(1, (2, 3))
    with pytest.raises(ShapeError, match=r"add: branches of shapes \(2, 3\) and \(3, 2\) do not join"):
        add(Tensor(q), Tensor(integer(1, (3, 2))))
    with pytest.raises(FormatError, match="a float branch and an integer branch cannot be joined exactly"):
        add(Tensor(q), Tensor(f))
    mean = Exact([(q, 1)], 0, den=3)
    with pytest.raises(FormatError, match="over one denominator"):
        add(Tensor(mean), Tensor(q))
    with pytest.raises(FormatError, match="without ReLU"):
        add(Tensor(Exact([(q, 1)], 0).rectified()), Tensor(q))
    far = add(Tensor(q), Tensor(integer(1, (2, 3), exponent=193)))
    with pytest.raises(ContainerError, match="branches too far apart"):
        far.value.to_qtensor()


def test_sums_beyond_two_limbs_are_refused() -> None:
    big = QTensor(np.full((2,), 2**62), 64)
    joined, _ = run(add, big, QTensor(np.full((2,), 1), 3))
    with pytest.raises(ContainerError, match="a rounded code is beyond 62 bits"):
        joined.to_qtensor()
    joined, _ = run(add, big, QTensor(np.full((2,), 1), -8))
    with pytest.raises(ContainerError, match="beyond every container"):
        joined.to_qtensor()


# -- relu ---------------------------------------------------------------------------------------


@given(shape=SHAPES, bits=BITS, seed=SEEDS)
def test_integer_relu(shape: tuple[int, ...], bits: int, seed: int) -> None:
    """With 2 bits a third of the elements is zero: their error is dropped."""
    x, e = integer(seed, shape, bits, -22), integer(seed + 1, shape, 8, -40)
    got, (dx,) = run(relu, x, error=e)
    want = rectified(fixed(x).real())
    assert values(got) == want.values
    assert fixed(quantize(got, Direct(8))) == stored(want, formats.Direct(8))
    codes = masked(fixed(e).ints(), fixed(x).ints())
    assert fixed(dx) == oracle.Fixed(shape, codes, -40)


def test_relu_of_a_join_and_of_a_quotient() -> None:
    """x3 of two branches, beyond int64 too; a mean keeps its denominator."""
    for bits in (16, 45):
        a, b = integer(1, (4, 3), bits, -22), integer(2, (4, 3), 30, -50)
        e = integer(3, (4, 3), 8)
        x = join(a, b)
        for value in (x, Exact([(a, np.array([1, -2, 3]))], -22, den=np.array([3, 5, 7]))):
            got, (dx,) = run(relu, value, error=e)
            want = rectified(oracle_tensor(value))
            assert values(got) == want.values
            assert fixed(quantize(got, Shift(16))) == stored(want, formats.Shift(16))
            assert values(dx) == masked(fixed(e).real(), oracle_tensor(value))


def test_float_relu_and_its_mask() -> None:
    tiny = np.float32(2.0**-149)
    x = np.array([-1, -tiny, -0.0, 0, tiny, 1], np.float32)
    e = np.array([1, 2, 3, 4, 5, 6], np.float32)
    got, (dx,) = run(relu, x, error=e)
    assert got.tolist() == [0, 0, 0, 0, tiny, 1]
    assert dx.tolist() == [0, 0, 0, 0, 5, 6]


def test_a_float_error_behind_an_integer_relu_is_multiplied_by_its_mask() -> None:
    """0 times an error keeps its sign, on one thread and on all."""
    signs, errors = np.array([-3, 0, 5], np.int8), np.array([2.5, -2.5, -0.0, 0.0, 3e38], np.float32)
    for rows in (1, 5000):
        codes, e = np.resize(np.repeat(signs, 5), (rows, 15)), np.resize(np.tile(errors, 3), (rows, 15))
        _, (dx,) = run(relu, QTensor(codes, -2), error=e)
        zeros = np.copysign(np.float32(0), e)
        want = [x if code > 0 else zero for code, x, zero in zip(codes.flat, e.flat, zeros.flat, strict=True)]
        assert dx.dtype == np.float32 and dx.tobytes() == np.array(want, np.float32).tobytes()


def test_relu_takes_an_exact_error() -> None:
    x, e = integer(1, (4, 3)), Exact([(integer(2, (4, 3)), np.array([3, -5, 7]))], -14)
    _, (dx,) = run(relu, x, error=e)
    assert values(dx) == masked(oracle_tensor(e), oracle_tensor(x))


# -- dropout ------------------------------------------------------------------------------------

KEEPS = [Fraction(*pq) for pq in ((1, 2), (4, 5), (2, 3), (1, 1), (999, 1000), (1, 2**31 - 1))]


@pytest.mark.slow
@pytest.mark.parametrize("keep", KEEPS, ids=str)
@given(shape=SHAPES, seed=SEEDS)
def test_integer_dropout(keep: Fraction, shape: tuple[int, ...], seed: int) -> None:
    """The library's and the oracle's own words of one stream; x / keep is exact."""
    x, e = integer(seed, shape, 8, -7), integer(seed + 1, shape, 8, -30)
    drawn = random.words(seed, 5, "drop/mask", x.size)
    words = rng.words(seed, 5, rng.stream("drop/mask"), x.size)
    assert words.tolist() == drawn
    got, (dx,) = run(dropout, x, words=words, keep=keep, error=e)
    want = dropped(fixed(x).real(), drawn, keep)
    assert values(got) == want.values
    assert fixed(quantize(got, Direct(8))) == stored(want, formats.Direct(8))
    assert values(dx) == dropped(fixed(e).real(), drawn, keep).values


def test_dropout_of_a_rectified_quotient_keeps_the_relu() -> None:
    """Averages, exact and not rounded yet: the ReLU after them is part of the value that is dropped."""
    x = QTensor(np.array([[-5, 6, -7, 8], [-1, 1, 3, -3]], np.int8), 0)
    quotient = Exact([(x, 1)], 0, den=4).rectified()
    words, keep = rng.words(1, 0, 0, 8), Fraction(1, 2)
    got = dropout(Tensor(quotient), words=words, keep=keep).value
    reals = oracle.Tensor(x.shape, [max(Fraction(int(code), 4), Fraction(0)) for code in x.codes.reshape(-1)])
    assert values(got) == dropped(reals, words.tolist(), keep).values


@pytest.mark.parametrize("keep", KEEPS, ids=str)
def test_dropout_decides_at_the_exact_border(keep: Fraction) -> None:
    """An element stays where word < keep * 2^32, and not where they are equal."""
    border = keep * 2**32
    words = sorted({w for d in (-1, 0, 1) if 0 <= (w := border.__ceil__() + d) < 2**32} | {0, 2**32 - 1})
    x = QTensor(np.ones(len(words), np.int8), 0)
    got, _ = run(dropout, x, words=np.array(words, np.uint32), keep=keep)
    assert [v != 0 for v in values(got)] == [w < border for w in words]


@pytest.mark.parametrize("keep", [Fraction(4, 5), Fraction(553648127, 553648160)])
def test_float_dropout(keep: Fraction) -> None:
    x, e = floating(1, (5, 7)), floating(2, (5, 7))
    words = rng.words(1, 2, 3, 35)
    got, (dx,) = run(dropout, x, words=words, keep=keep, error=e)
    rule = oracle.elementwise.dropout32_at
    for value, source in ((got, x), (dx, e)):
        pairs = zip(tensor(source).values, words.tolist(), strict=True)
        assert values(value) == [rule(v, w, keep) for v, w in pairs]


def test_dropout_layer_draws_the_words_of_its_own_stream() -> None:
    layer, method = Dropout(0.2), Wageubn()
    layer.name = "drop1"
    method.start([layer], 9)
    method.set(step=7)
    x = integer(1, (4, 5))
    got = layer(Tensor(x), method).value
    want = dropped(fixed(x).real(), random.words(9, 7, "drop1/mask", 20), Fraction(4, 5))
    assert fixed(got) == stored(want, formats.Direct(8))
    method.set(training=False)
    assert layer(Tensor(x), method).value is x


def test_dropout_refuses() -> None:
    x = integer(1, (2, 3))
    with pytest.raises(ShapeError, match=r"dropout: 5 random words for an input of shape \(2, 3\)"):
        dropout(Tensor(x), words=np.zeros(5, np.uint32), keep=Fraction(1, 2))
    for keep in (Fraction(0), Fraction(3, 2), Fraction(-1, 2), Fraction(1, 2**31)):
        with pytest.raises(FormatError, match=r"dropout keeps a share in \(0, 1\] with a denominator below"):
            dropout(Tensor(x), words=np.zeros(6, np.uint32), keep=keep)
    for p in (1, 1.5, -0.1):
        with pytest.raises(ShapeError, match=r"is not in \[0, 1\)"):
            Dropout(p)


# -- flatten and cast ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["integer", "exact", "float"])
def test_flatten(kind: str) -> None:
    shape = (2, 3, 4, 5)
    x, e = integer(1, shape, 16), integer(2, (2, 60))
    if kind == "float":
        x, e = floating(1, shape), floating(2, (2, 60))
    if kind == "exact":
        x, e = Exact([(x, 3), (integer(3, shape), 1)], -9), Exact([(e, 5)], -9, 1)
    got, (dx,) = run(flatten, x, error=e)
    assert (got.shape, values(got)) == ((2, 60), values(x))
    assert (dx.shape, values(dx)) == (shape, values(e))


def test_cast_puts_one_function_on_each_way() -> None:
    x, e = integer(1, (3, 2), 16, -12), integer(2, (3, 2), 20, -33)
    got, (dx,) = run(
        cast, x, error=e, forward=lambda v: quantize(v, Direct(8)), backward=lambda g: quantize(g, Shift(8))
    )
    assert fixed(got)[1:] == formats.quantize(values(x), formats.Direct(8))[:2]
    assert fixed(dx)[1:] == formats.quantize(values(e), formats.Shift(8))[:2]


# -- gradients that meet ------------------------------------------------------------------------


def test_errors_of_one_tensor_read_three_times_are_added_exactly() -> None:
    x = leaf(integer(1, (3, 2), 8, -7))
    rectified = cast(relu(x), forward=lambda v: v.to_qtensor(), backward=lambda g: g)
    output = add(add(rectified, x), x)
    e = integer(2, (3, 2), 8, -20)
    got = backward(output, e, join)[x.node]
    through = masked(fixed(e).real(), fixed(x.value).real())
    assert values(got) == [2 * a + b for a, b in zip(values(e), through, strict=True)]
