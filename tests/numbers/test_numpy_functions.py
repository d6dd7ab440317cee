"""NumPy's functions of a QTensor answer exactly or not at all; `==` compares exact values."""

from fractions import Fraction as F
from typing import Any

import numpy as np
import pytest

from intnet import FP32, MXINT8, FixedPoint, QTensor, quantize
from intnet.errors import ContainerError, NumberError, ShapeError
from intnet.exact.expressions import Exact

BIG = 2**53 + 1  # no float64
A = QTensor(np.array([[3, -5, 7], [0, 1, -8]], np.int8), -3)
B = QTensor(np.array([[2, -1, BIG], [4, 9, -6]]), 5)


def power(n: int) -> F:
    return F(2) ** n


def values(q: QTensor) -> list[list[F]]:
    """By the meaning of codes, an element at a time."""
    return [[int(code) * power(int(q.exponent)) for code in row] for row in q.codes]


def dot(x: list[F], y: list[F]) -> F:
    return sum((a * b for a, b in zip(x, y, strict=True)), F(0))


X, Y = values(A), values(B)
FLAT_X, FLAT_Y = [*X[0], *X[1]], [*Y[0], *Y[1]]
INNER = [[dot(x, y) for y in Y] for x in X]


@pytest.mark.parametrize(
    ("made", "want"),
    [
        (lambda: np.dot(A, np.transpose(B)), INNER),
        (lambda: np.inner(A, B), INNER),
        (lambda: np.tensordot(A, B, axes=([1], [1])), INNER),
        (lambda: np.einsum("ij,kj->ik", A, B), INNER),
        (lambda: np.einsum("ij,kj,ij->i", A, B, A), [sum(dot([a * a for a in x], y) for y in Y) for x in X]),
        (lambda: np.vdot(A, B), dot(FLAT_X, FLAT_Y)),
        (lambda: np.outer(A, B), [[x * y for y in FLAT_Y] for x in FLAT_X]),
        (lambda: np.sum(B), sum(FLAT_Y)),
        (lambda: np.sum(B, axis=1, keepdims=True), [[sum(y)] for y in Y]),
        (lambda: np.trace(B), Y[0][0] + Y[1][1]),
        (lambda: np.max(B), max(FLAT_Y)),
        (lambda: np.min(B, axis=0), [min(pair) for pair in zip(*Y, strict=True)]),
        (lambda: np.reshape(B, (3, 2)), [FLAT_Y[:2], FLAT_Y[2:4], FLAT_Y[4:]]),
        (lambda: np.ravel(B), FLAT_Y),
        (lambda: np.flip(B, 1), [y[::-1] for y in Y]),
    ],
)  # fmt: skip
def test_exact_answers(made: Any, want: Any) -> None:
    q = made()
    assert isinstance(q, QTensor) and q.fractions().tolist() == want
    assert q.bound >= max(abs(int(code)) for code in q.codes.reshape(-1))


def test_sizes_and_equality() -> None:
    assert (np.shape(A), np.ndim(A), np.size(A), np.size(A, 1)) == ((2, 3), 2, 6, 3)
    assert np.array_equal(A, A[:]) and not np.array_equal(A, B) and not np.array_equal(A[0], A)
    assert np.array_equal(np.asarray(A), A) is True


def test_a_format_stays_with_the_elements() -> None:
    q = quantize(np.array([[0.5, -0.25]], np.float32), FixedPoint(8, 6))
    assert np.transpose(q).format == q.format and np.max(q).format == q.format
    assert np.sum(q).format is None


def test_sums_up_to_int64_and_not_beyond() -> None:
    """Partial sums count, so it is the magnitudes that must fit."""
    most = QTensor(np.array([2**61 - 2**9, 2**61 - 2**9]), 0)
    assert np.sum(most).fractions() == 2**62 - 2**10
    for codes in ([2**61, 2**61], [2**62, -(2**62)], [-(2**63)]):
        with pytest.raises(ContainerError, match=r"np.sum: sums up to .* beyond int64"):
            np.sum(QTensor(np.array(codes), 0))
    with pytest.raises(ContainerError, match=r"np.dot"):
        np.dot(most, most)
    assert np.dot(QTensor(np.array([2**30]), 0), QTensor(np.array([2**31 - 1]), -9)).fractions() == F(
        2**30 * (2**31 - 1), 2**9
    )


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda: np.mean(A),
            r"np.mean of a QTensor has no exact answer here: np.sum\(q\) is exact, and quantize\(Exact",
        ),
        (
            lambda: np.std(A),
            r"np.std of a QTensor has no exact answer here: np.asarray\(q\) is exact and float64",
        ),
        (lambda: np.linalg.norm(A), "np.linalg.norm of a QTensor has no exact answer here"),
        (lambda: np.sum(A, dtype=np.float64), "np.sum of a QTensor with dtype has no exact answer here"),
        (lambda: np.sum(A, 0, np.float64), "np.sum of a QTensor with dtype has no exact answer here"),
        (lambda: np.dot(A[0], np.ones(3)), r"np.dot: every operand is a QTensor with one exponent"),
        (lambda: np.dot(A[0], [0.5, 1, 1]), "np.dot: every operand is a QTensor"),
        (lambda: np.einsum("i,i", A[0], np.ones(3)), "np.einsum: every operand is a QTensor"),
        (lambda: np.sum(QTensor(A.codes, np.array([1, 2, 3]))), "with one exponent"),
        (lambda: np.transpose(a=A), "by position"),
        (lambda: np.concatenate([A, B]), "np.concatenate: a list of QTensors of one exponent and one format"),
        (lambda: np.stack([A, X]), "np.stack: a list of QTensors"),
        (lambda: np.fft.fft(A), "np.fft.fft of a QTensor has no exact answer here"),
        (lambda: np.max(A, 0, np.zeros(3, np.int8)), "np.max of a QTensor with out has no exact answer here"),
        (lambda: np.sqrt(A), r"np.sqrt of a QTensor has no exact answer here: np.asarray\(q\)"),
        (lambda: np.add.reduce(A), r"np.add.reduce has no exact answer here: .* np.sum\(q\)"),
        (lambda: np.add(A, A, out=np.zeros((2, 3))), "np.add with out has no exact answer here"),
        (lambda: np.divide(A, A), r"a quotient is no code as a rule: of q/3 quantize\(Exact"),
        (lambda: np.add(A, np.ones(3)), r"\+: a QTensor goes with QTensors and numbers"),
        (lambda: np.ones(3) * A, r"\*: a QTensor goes with QTensors and numbers"),
        (lambda: np.array_equal(A, A, equal_nan=True), "np.array_equal of a QTensor"),
    ],
)
def test_no_answer_says_what_to_use(call: Any, says: str) -> None:
    with pytest.raises(NumberError, match=says):
        call()


def test_wrong_shapes() -> None:
    with pytest.raises(ShapeError, match=r"np\.dot: shapes"):
        np.dot(A, B)
    with pytest.raises(ShapeError, match=r"np\.reshape: cannot reshape"):
        np.reshape(A, (5, 5))


def test_a_mean_as_the_message_says() -> None:
    total = np.sum(A)
    mean = quantize(Exact([(total, 1)], total.exponent, den=A.size), FixedPoint(8, 10))
    assert F(sum(FLAT_X), 6) == F(-2, 8 * 6) and mean.fractions() == F(-43, 1024)  # -42.67 of 1024


# -- equality ----------------------------------------------------------------------------------


def test_equal_values_are_equal_in_whatever_codes() -> None:
    q = QTensor(np.array([4, -6, 0, 1], np.int8), -2)
    assert (q == QTensor(np.array([1, -3, 0, 2]), np.array([0, -1, 40, -3]))).tolist() == [True] * 4
    assert (q == QTensor(np.array([[1], [4]]), -2)).tolist() == [[False] * 3 + [True], [True] + [False] * 3]
    assert (q != QTensor(np.array([4, 6, 1, 1]), -2)).tolist() == [False, True, True, False]
    assert (q == QTensor(np.array([-(2**63)] * 4), -61)).tolist() == [False] * 4
    assert (QTensor(np.array([-(2**63)]), -61) == QTensor(np.array([-1], np.int8), 2)).tolist() == [True]


@pytest.mark.parametrize("other", [
    [1, -1.5, 0, 0.25], np.array([1, -1.5, -0.0, 0.25], np.float16), np.array([1, -1.5, 0, 0.25], np.float32),
    np.array([1, -1.5, 0, 0.25]), np.array([F(1), F(-3, 2), 0, F(1, 4)], object),
])  # fmt: skip
def test_numbers_and_arrays_on_either_side(other: Any) -> None:
    q = QTensor(np.array([4, -6, 0, 1], np.int8), -2)
    assert (q == other).tolist() == (other == q).tolist() == [True] * 4
    assert (q != other).tolist() == [False] * 4


def test_what_float64_cannot_tell_apart() -> None:
    q = QTensor(np.array([BIG, BIG - 1]), 0)
    assert (q == float(BIG - 1)).tolist() == [False, True] and (q == BIG).tolist() == [True, False]
    assert (QTensor(np.array([1]), 64) == 2**64).tolist() == [True]
    assert (QTensor(np.array([1]), 63) == np.array([2**63, 2**63 + 1], np.uint64)).tolist() == [True, False]
    assert (QTensor(np.array([1]), -1074) == np.array([5e-324])).tolist() == [True]
    assert (QTensor(np.array([1, 1]), 2000) == np.array([np.inf, np.nan])).tolist() == [False] * 2
    assert (QTensor(np.array([1, 0]), 0) == np.array([True, False])).tolist() == [True] * 2


@pytest.mark.parametrize("format", [FP32, MXINT8])
def test_floats_and_blocks_are_compared_exactly_from_either_side(format: Any) -> None:
    floats, wide = quantize([2.0**60, -3.0], format), QTensor(np.array([2**60 + 1, -3]), 0)
    assert (floats == wide).tolist() == (wide == floats).tolist() == [False, floats.to_float64()[1] == -3]
    assert not np.array_equal(floats, wide) and not np.array_equal(wide, floats)


def test_what_is_no_number() -> None:
    assert (A == "x") is False and (A != "x") is True
    assert not np.any(A == None)  # noqa: E711
    with pytest.raises(ShapeError, match=r"shapes \(2, 3\) and \(2,\) cannot be compared"):
        np.ones(2) == A  # noqa: B015
    with pytest.raises(NumberError, match="not complex128"):
        A == 1j  # noqa: B015
    with pytest.raises(TypeError, match="unhashable"):
        hash(A)
