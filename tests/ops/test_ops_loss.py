"""softmax_cross_entropy: each float32 operation as written, bits that no thread changes, clear refusals."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intnet.autograd import Tensor
from intnet.errors import ConfigError, DataError, NumberError, ShapeError
from intnet.exact.expressions import Exact
from intnet.ops import softmax_cross_entropy
from intnet.spec.float32 import to_float32
from tests.support import cases
from tests.support.opcheck import expected_loss, floating, integer, run, tensor, threads, values


@pytest.mark.slow
@given(
    n=st.sampled_from([1, 2, 7, 15, 16, 17, 33, 50]),
    classes=st.integers(1, 12),
    exponent=st.integers(-20, 8),
    seed=st.integers(0, 2**32),
    smoothing=st.sampled_from([0.0, 0.05, 0.1, 0.999, 1e-44]),
)
def test_float_softmax_cross_entropy(
    n: int, classes: int, exponent: int, seed: int, smoothing: float
) -> None:
    logits, labels = floating(seed, (n, classes), exponent), cases.random_codes(seed, n, 0, classes - 1)
    attributes = {"labels": np.array(labels), "smoothing": smoothing, "error": np.float32(1)}
    loss, (error,) = run(softmax_cross_entropy, logits, **attributes)
    assert (Fraction(float(loss)), values(error)) == expected_loss(logits, labels, smoothing)
    # rounding errors aside, shares of a row sum to 1: each of the few roundings is within 2^-24
    for i in range(n):
        assert abs(sum(tensor(error[i]).values)) * n < Fraction(2 * classes + 2, 2**24)


def test_integer_logits_are_rounded_once_to_float32() -> None:
    """40-bit codes: a float64 on the way would round twice."""
    labels = np.array([0, 2, 1])
    q = integer(1, (3, 4), 40, -30)
    for logits in (q, Exact([(q, 1)], -30, np.array([1, -1, 2**33, 5])), Exact([(q, 1)], -20, den=3)):
        rounded = np.array([float(to_float32(v)) for v in values(logits)], np.float32).reshape(3, 4)
        one32 = np.float32(1)
        loss, (error,) = run(softmax_cross_entropy, logits, labels=labels, error=one32)
        assert (Fraction(float(loss)), values(error)) == expected_loss(rounded, labels.tolist())


def test_threads_and_batches_do_not_change_a_bit() -> None:
    logits, labels = floating(1, (300, 10), 4), np.array(cases.random_codes(2, 300, 0, 9))
    results = []
    for n in (1, 2):
        with threads(n):
            loss, (error,) = run(softmax_cross_entropy, logits, labels=labels, error=np.float32(1))
            results.append((float(loss).hex(), error.tobytes()))
    assert results[0] == results[1]
    # a row's shares depend on that row alone: 300 = 75 * 4 leaves only the exact factor 4
    _, (part_error,) = run(softmax_cross_entropy, logits[:75], labels=labels[:75], error=np.float32(1))
    _, (error,) = run(softmax_cross_entropy, logits, labels=labels, error=np.float32(1))
    assert np.array_equal(part_error, error[:75] * np.float32(4))


def test_the_largest_logits_do_not_overflow() -> None:
    big = np.float32(1.5e38)  # twice that is still a float32
    logits = np.array([[big, -big, 0], [-big, -big, -big], [0, 0, 0]], np.float32)
    loss, (error,) = run(softmax_cross_entropy, logits, labels=np.array([0, 1, 2]), error=np.float32(1))
    assert np.all(np.isfinite(error)) and np.isfinite(loss)
    assert error[0].tolist() == [0, 0, 0]


def test_smoothed_targets_by_hand() -> None:
    """Two equal logits have p = 1/2 and -log p = ln 2 whatever the target; s = 1/2 makes it 3/4 and 1/4."""
    attributes = {"labels": np.array([0]), "smoothing": 0.5, "error": np.float32(1)}
    loss, (error,) = run(softmax_cross_entropy, np.zeros((1, 2), np.float32), **attributes)
    assert (float(loss), error.tolist()) == (float(np.float32(0.6931471805599453)), [[-0.25, 0.25]])


def test_no_smoothing_is_the_default_to_the_bit() -> None:
    logits, labels = floating(3, (40, 10), 3), np.array(cases.random_codes(4, 40, 0, 9))
    first, second = (
        run(softmax_cross_entropy, logits, labels=labels, error=np.float32(1), **attributes)
        for attributes in ({}, {"smoothing": 0.0})
    )
    assert float(first[0]).hex() == float(second[0]).hex() and first[1][0].tobytes() == second[1][0].tobytes()


@pytest.mark.parametrize("smoothing", [-0.1, 1.0, np.nan])
def test_a_share_of_smoothing_is_below_one(smoothing: float) -> None:
    with pytest.raises(ConfigError, match=r"label smoothing .* from 0 to below 1"):
        softmax_cross_entropy(Tensor(floating(1, (2, 3))), labels=LABELS, smoothing=smoothing)


LABELS = np.array([0, 1])


@pytest.mark.parametrize("labels", [[0, 3], [-1, 0], [5, 7]])
def test_labels_out_of_range_are_a_data_error(labels: list[int]) -> None:
    message = f"labels run from {min(labels)} to {max(labels)}, the model has 3 classes"
    with pytest.raises(DataError, match=message):
        softmax_cross_entropy(Tensor(floating(1, (2, 3))), labels=np.array(labels))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_logits_that_are_no_numbers_are_refused(bad: float) -> None:
    logits = floating(1, (2, 3))
    logits[1, 2] = bad
    with pytest.raises(NumberError, match="the logits hold a NaN or infinity: training diverged"):
        softmax_cross_entropy(Tensor(logits), labels=LABELS)


@pytest.mark.parametrize(
    ("logits", "labels"),
    [((2, 3), np.zeros(3, int)), ((2, 3, 1), LABELS), ((6,), LABELS), ((0, 3), LABELS[:0])],
)
def test_shapes_that_do_not_fit_are_named(logits: tuple[int, ...], labels: Any) -> None:
    with pytest.raises(ShapeError, match=r"cross-entropy: logits .* do not fit labels"):
        softmax_cross_entropy(Tensor(np.zeros(logits, np.float32)), labels=labels)


def test_the_gradient_is_that_of_the_seed() -> None:
    """A loss that is scaled has scaled gradients: by a power of two without another rounding."""
    logits, labels = floating(1, (5, 4), 2), np.array([0, 3, 1, 1, 2])
    (one,), (four,) = (
        run(softmax_cross_entropy, logits, labels=labels, error=np.float32(seed))[1] for seed in (1, 4)
    )
    assert values(four) == [4 * value for value in values(one)]
