"""+ - * @, unary - and comparison of QTensors: exact values, and the width that their ranges ask for."""

from collections.abc import Callable
from fractions import Fraction as F
from itertools import product
from operator import add, ge, gt, le, lt, matmul, mul, sub
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intnet import Direct, FixedPoint, QTensor, Shift, quantize
from intnet.errors import ContainerError, NumberError, ShapeError
from intnet.numbers import arithmetic
from intnet.spec import arithmetic as definition
from intnet.spec import formats as quantizers
from tests.support import cases

BINARY = [add, sub, mul]
ORDERS = [lt, le, gt, ge]
SMALL = [
    FixedPoint(wl, fl, signed, overflow)
    for wl, fl, signed, overflow in product(
        (1, 2, 3, 4), (-1, 0, 2), (True, False), ("saturate", "saturate_symmetric")
    )
    if (wl > 1 and signed) or overflow == "saturate"
]


def values(q: QTensor) -> list[F]:
    """By the meaning of codes, an element at a time."""
    exponents = np.broadcast_to(q.exponent, q.shape).reshape(-1).tolist()
    return [int(c) * F(2) ** e for c, e in zip(q.codes.reshape(-1), exponents, strict=True)]


def every_code(fmt: FixedPoint) -> QTensor:
    low, high = (-(2 ** (fmt.wl - 1)), 2 ** (fmt.wl - 1) - 1) if fmt.signed else (0, 2**fmt.wl - 1)
    low += fmt.overflow == "saturate_symmetric"
    return QTensor(np.arange(low, high + 1, dtype=np.int64), -fmt.fl, fmt)


def narrowest(codes: list[int]) -> tuple[bool, int]:
    """(signed, bits) of the narrowest word that holds all codes, found by trying."""
    signed = min(codes) < 0
    low, high = min(codes), max(codes)
    return signed, next(
        w for w in range(1, 99) if (-(2 ** (w - 1)) <= low and high < 2 ** (w - 1) if signed else high < 2**w)
    )


@pytest.mark.slow
@pytest.mark.parametrize("operate", BINARY)
def test_every_pair_of_codes_of_every_pair_of_small_formats(operate: Callable[..., Any]) -> None:
    """The values are exact, and the format is the narrowest that holds all of them."""
    for a, b in product(SMALL, SMALL):
        left, right = every_code(a), every_code(b)
        got = operate(left[:, None], right[None, :])
        want = [operate(x, y) for x in values(left) for y in values(right)]
        assert values(got) == want, (a, b)
        signed, bits = narrowest([int(v / F(2) ** got.exponent) for v in want])
        assert got.format == FixedPoint(bits, -got.exponent, signed), (a, b)
        assert got.exponent == (-a.fl - b.fl if operate is mul else -max(a.fl, b.fl))


@pytest.mark.parametrize("fmt", SMALL, ids=str)
def test_every_negative(fmt: FixedPoint) -> None:
    q = every_code(fmt)
    want = [-v for v in values(q)]
    assert values(-q) == want
    signed, bits = narrowest([int(v * 2**fmt.fl) for v in want])
    assert (-q).format == FixedPoint(bits, fmt.fl, signed)


def of_spec(fmt: FixedPoint) -> definition.Span:
    return definition.span(quantizers.FixedPoint(fmt.wl, fmt.fl, fmt.signed, fmt.overflow))


def format_by_spec(span: definition.Span) -> FixedPoint | None:
    made = definition.format_of(span)
    return None if made is None else FixedPoint(made.wl, made.fl, made.signed)


FORMATS = st.builds(
    FixedPoint, st.integers(1, 32), st.integers(-40, 40), st.booleans(), st.sampled_from(["saturate", "wrap"])
)


@given(FORMATS, FORMATS, st.integers(1, 40), st.data())
def test_any_formats_against_the_definition(a: FixedPoint, b: FixedPoint, terms: int, data: Any) -> None:
    """Values against fractions; where a bound passes 62 bits the codes decide, and there is no format."""

    def drawn(fmt: FixedPoint) -> QTensor:
        codes = data.draw(st.lists(st.integers(fmt.lo, fmt.hi), min_size=terms, max_size=terms))
        return QTensor(np.array(codes, np.int64), -fmt.fl, fmt)

    left, right = drawn(a), drawn(b)
    x, y = values(left), values(right)
    spans = of_spec(a), of_spec(b)
    by_spec = {
        add: definition.plus(*spans),
        sub: definition.plus(spans[0], definition.negative(spans[1])),
        mul: definition.times(*spans),
        matmul: definition.times(*spans, terms),
    }
    for operate, span in by_spec.items():
        dotted = operate is matmul
        want = [sum((p * q for p, q in zip(x, y, strict=True)), F(0))] if dotted else list(map(operate, x, y))
        fits = max(-span.low, span.high) < 2**62
        try:
            got = operate(left, right)
        except ContainerError:
            assert not fits
            continue
        assert values(got) == want and got.bound >= max(abs(int(c)) for c in got.codes.reshape(-1))
        assert got.format == (format_by_spec(span) if fits else None)
        assert not fits or (got.exponent, got.bound) == (span.exponent, max(-span.low, span.high))


EXACT = st.one_of(
    st.integers(-(2**40), 2**40), st.floats(width=32, min_value=-(2.0**20), max_value=2.0**20),
    st.builds(lambda n, e: F(n) / 2**e, st.integers(-999, 999), st.integers(0, 9)),
    st.builds(np.float16, st.floats(width=16, allow_nan=False, allow_infinity=False)),
    st.builds(np.int16, st.integers(-(2**15), 2**15 - 1)), st.booleans(),
)  # fmt: skip


@given(EXACT, st.integers(-20, 20))
def test_numbers_on_either_side(number: Any, fl: int) -> None:
    q = QTensor(np.array([[3, -128], [127, 0]], np.int8), -fl, FixedPoint(8, fl))
    value = F(int(number)) if isinstance(number, np.integer) else F(*number.as_integer_ratio())
    alone = definition.number(value)
    assert alone.low * F(2) ** alone.exponent == value
    of_q = of_spec(FixedPoint(8, fl))
    turned = definition.negative(alone)
    for got, want, span in (
        (lambda: q + number, [v + value for v in values(q)], definition.plus(of_q, alone)),
        (lambda: number + q, [v + value for v in values(q)], definition.plus(of_q, alone)),
        (lambda: q - number, [v - value for v in values(q)], definition.plus(of_q, turned)),
        (
            lambda: number - q,
            [value - v for v in values(q)],
            definition.plus(definition.negative(of_q), alone),
        ),
        (lambda: q * number, [v * value for v in values(q)], definition.times(of_q, alone)),
        (lambda: number * q, [v * value for v in values(q)], definition.times(of_q, alone)),
    ):
        if max(-span.low, span.high) >= 2**62:
            with pytest.raises(ContainerError, match="bits"):
                got()
            continue
        made = got()
        assert values(made) == want and made.shape == (2, 2)
        assert made.exponent == span.exponent and made.format == format_by_spec(span)
    assert (q == number).tolist() == [
        [v == value for v in values(q)[:2]],
        [v == value for v in values(q)[2:]],
    ]


def test_containers_follow_ranges_and_not_codes() -> None:
    q = quantize([0.5, 0], FixedPoint(8, 6))
    assert (q * 1).codes.dtype == np.int8 and (q * 1).format == FixedPoint(8, 6)
    assert (q + q).codes.dtype == (-q).codes.dtype == (q * q).codes.dtype == np.int16
    assert (q @ q).codes.dtype == np.int32 and (q @ q).format == FixedPoint(17, 12)
    assert sum([q, q, q]).format == FixedPoint(10, 6)
    assert q[:1].bound < 128 and (q[:1] + q).format == FixedPoint(9, 6)  # not the bound of what is there


def test_without_a_format_the_bound_is_the_range() -> None:
    q = quantize([3.2, -1.0], Direct(8))
    assert q.bound == 410 and (q * q).format is None and (q * q).bound == 410**2
    assert (q + quantize([1, 0], FixedPoint(8, 6))).format is None
    shifted = quantize([0.3, 1.0], Shift(8))
    assert (shifted - shifted).bound == 2 * 127 and values(shifted - shifted) == [0, 0]
    other = QTensor(np.array([5], np.int8), -2, FixedPoint(8, 6), 5)  # not where its format stands
    assert (other * other).format is None and values(other * other) == [F(25, 16)]


def test_where_a_bound_passes_62_bits_the_codes_decide() -> None:
    wide = QTensor(np.array([5, -7]), 0, bound=2**61)
    assert values(wide * wide) == [25, 49] and values(wide + wide) == [10, -14]
    q = quantize([0.5, -0.5], FixedPoint(32, 31))
    assert (q * q).format is None and values(q * q) == [F(1, 4)] * 2
    assert values(q * q * 2.0**-1000) == [F(1, 4) / 2**1000] * 2
    top = QTensor(np.array([2**61]), 0)
    assert values(top + (2**61 - 1)) == [2**62 - 1] and values(QTensor(top.codes, 0) - 2**61) == [0]
    for refused in (lambda: top + top, lambda: top * 3, lambda: top + F(1, 2**9), lambda: -(top + top),
                    lambda: QTensor(np.array([-(2**63)]), 0) * 1, lambda: q * q * q):  # fmt: skip
        with pytest.raises(ContainerError, match="at most 63 are kept: quantize an operand"):
            refused()
    with pytest.raises(ContainerError, match="more than 62 bits"):
        q * (2**62 + 1)


def test_far_exponents_meet_only_where_the_sum_fits() -> None:
    near, far = QTensor(np.array([3]), 0), QTensor(np.array([0]), 200)
    assert values(near + far) == [3] and values(far - near) == [-3]
    with pytest.raises(ContainerError):
        near + QTensor(np.array([1]), 200)
    with pytest.raises(ContainerError, match="at most 63 are kept"):
        near + QTensor(np.array([1]), 2**59)
    assert values(near + 0) == [3] and (QTensor(np.array([3]), 70) + 0).exponent == 70
    assert (near < QTensor(np.array([1]), 200)).tolist() == [True]


def test_exponent_arrays() -> None:
    q = QTensor(np.array([[1, -2, 3], [4, 5, -6]], np.int8), np.array([-1, 0, 5]))
    p = QTensor(np.array([[7], [-8]], np.int8), np.array([[2], [-3]]))
    x, y = values(q), [v for v in values(p) for _ in range(3)]
    for operate in BINARY:
        assert values(operate(q, p)) == list(map(operate, x, y))
        assert values(operate(q, F(3, 2))) == [operate(v, F(3, 2)) for v in x]
    assert values(-q) == [-v for v in x]
    for compare in ORDERS:
        assert compare(q, p).reshape(-1).tolist() == list(map(compare, x, y))
    empty = QTensor(np.zeros((0, 3), np.int8), np.zeros((0, 1), np.int64))
    assert (empty + 1).shape == (empty * empty).shape == (0, 3)
    with pytest.raises(NumberError, match="@: every operand has one exponent"):
        q @ p


@pytest.mark.parametrize("bits", [8, 27])
@pytest.mark.parametrize(
    ("left", "right"), [((3,), (3,)), ((2, 3), (3, 4)), ((5, 1, 2, 3), (4, 3, 2)), ((2, 0), (0, 2))]
)
def test_matrix_products(bits: int, left: tuple[int, ...], right: tuple[int, ...]) -> None:
    """Sums in float64 below 2^53, and in int64 above; NumPy's objects are exact fractions."""
    source = np.random.default_rng(bits)
    a, b = (
        QTensor(source.integers(-(2**bits), 2**bits, shape), e, FixedPoint(bits + 1, -e))
        for shape, e in ((left, -7), (right, 3))
    )
    got, want = a @ b, np.asarray(np.matmul(a.fractions(), b.fractions()))
    assert got.shape == want.shape and got.fractions().tolist() == want.tolist()
    assert values(got) == np.ravel(want).tolist() and got.exponent == -4


def test_a_sum_that_float64_would_round() -> None:
    a = QTensor(np.array([2**27, 1]), 0)
    assert values(a @ QTensor(np.array([2**27, 1]), 0)) == [2**54 + 1]
    assert arithmetic._EXACT == 2**53


@pytest.mark.parametrize("operate", [*BINARY, matmul])
def test_what_is_no_operand_is_told(operate: Callable[..., Any]) -> None:
    q = quantize([1, 2], FixedPoint(8, 4))
    for other in (np.ones(2), np.ones(2, np.int64), [1, 2], (1, 2)):
        for pair in ((q, other), (other, q)):
            with pytest.raises(
                NumberError, match=r"QTensor.from_float\(x, exponent\).*quantize\(x, format\)"
            ):
                operate(*pair)
    for other in (F(1, 3), float("nan"), float("inf"), np.float32("nan")):
        with pytest.raises(
            NumberError, match=r"no code|no whole number times a power of two: quantize\(Exact"
        ):
            operate(q, other)
    for other in ("x", None, 1j):
        with pytest.raises(TypeError):
            operate(q, other)
    with pytest.raises(ShapeError, match=r"shapes \(2,\) and \(3,\)"):
        operate(q, quantize([1, 2, 3], FixedPoint(8, 4)))
    if operate is not matmul:
        with pytest.raises(ShapeError, match=r"shapes \(2,\) and \(3,\)"):
            operate(QTensor(q.raw(), np.array([0, 1])), QTensor(np.array([1, 2, 3]), np.array([0, 1, 2])))


def test_quotients_and_numbers_times_matrices() -> None:
    q = quantize([1, 2], FixedPoint(8, 4))
    for refused in (lambda: q / 3, lambda: 3 / q, lambda: q / q, lambda: q // 3, lambda: 3 // q):
        with pytest.raises(
            NumberError, match=r"quantize\(Exact\(\[\(q, 1\)\], q.exponent, den=3\), format\)"
        ):
            refused()
    with pytest.raises(ShapeError, match="a number is no matrix"):
        q @ 2


# -- comparison ----------------------------------------------------------------------------------


CODES = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-9, 9), st.sampled_from(cases.corners(64)))


@given(st.lists(st.tuples(CODES, CODES), min_size=1), st.integers(-70, 70), st.integers(-70, 70))
def test_order_is_that_of_fractions(pairs: list[tuple[int, int]], left: int, right: int) -> None:
    a, b = (
        QTensor(np.array(codes, np.int64), e)
        for codes, e in zip(zip(*pairs, strict=True), (left, right), strict=True)
    )
    for compare in ORDERS:
        assert compare(a, b).tolist() == list(map(compare, values(a), values(b)))


@given(st.lists(st.tuples(CODES, st.floats())), st.integers(-1100, 1030))
def test_order_against_any_float(pairs: list[tuple[int, float]], exponent: int) -> None:
    """Subnormals, infinities and NaN too: Python compares a Fraction with a float exactly."""
    codes, floats = ([pair[k] for pair in pairs] for k in (0, 1))
    q = QTensor(np.array(codes, np.int64), exponent)
    for compare in ORDERS:
        want = [compare(v, f) for v, f in zip(values(q), floats, strict=True)]
        assert compare(q, np.array(floats, np.float64)).tolist() == want


@pytest.mark.parametrize("compare", ORDERS)
def test_every_pair_of_4_bit_codes_in_order(compare: Callable[..., Any]) -> None:
    a, b = every_code(FixedPoint(4, 1)), every_code(FixedPoint(4, -1))
    want = [[compare(x, y) for y in values(b)] for x in values(a)]
    assert compare(a[:, None], b[None, :]).tolist() == want
    assert compare(a[:, None], np.asarray(b)[None, :]).tolist() == want
    assert compare(np.asarray(a)[:, None], b[None, :]).tolist() == want
    assert compare(a, F(1, 3)).tolist() == [compare(x, F(1, 3)) for x in values(a)]
    assert compare(a, 2**70).tolist() == [compare(x, 2**70) for x in values(a)]


def test_what_has_no_order() -> None:
    q = quantize([1, 2], FixedPoint(8, 4))
    with pytest.raises(TypeError):
        q < "x"  # noqa: B015
    with pytest.raises(ShapeError, match="cannot be compared"):
        q < np.ones(3)  # noqa: B015
    with pytest.raises(NumberError, match="not complex128"):
        q < 1j  # noqa: B015


# -- the tests, tested ---------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["exponent", "low", "high", "codes"])
def test_a_seeded_fault_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = arithmetic._sum

    def wrong(x: Any, y: Any) -> Any:
        made = right(x, y)
        new = {"codes": lambda: made.codes() + 1} if fault == "codes" else {fault: getattr(made, fault) + 1}
        return made._replace(**new)

    monkeypatch.setattr(arithmetic, "_sum", wrong)
    with pytest.raises(AssertionError):
        test_every_pair_of_codes_of_every_pair_of_small_formats(add)
