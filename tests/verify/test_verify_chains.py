"""`verify.chains`, NumPy in the definition's order, against the definition by ==; and its own arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from intnet.spec import float32, float64
from intnet.verify import chains
from intnet.verify.floats import fractions, units

CORNERS = np.array(
    [0, 2.0**-149, -(2.0**-149), 2.0**-126, 1, -1, 1 + 2.0**-23, 2.0**24, 2.0**24 + 2, -(2.0**40), 1 / 3],
    np.float32,
)  # fmt: skip


def numbers(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    """float32 of many sizes, corners and zeros among them."""
    random = np.random.default_rng(seed)
    x = (random.standard_normal(shape) * 2.0 ** random.integers(-30, 12, shape)).astype(np.float32)
    at = random.random(shape) < 0.2
    x[at] = random.choice(CORNERS, int(at.sum()))
    return x


def test_fma_of_corners_is_the_definition_s() -> None:
    a, b, c = (part.reshape(-1) for part in np.meshgrid(CORNERS, CORNERS, CORNERS))
    made = chains.fma(a, b, c)
    for p, q, r, found in zip(*map(units, (a, b, c, made)), strict=True):
        assert found == float32.fma_units(p, q, r)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("images", "per_image"),
    [(1, 1), (15, 3), (16, 1), (17, 1), (33, 70), (48, 64), (50, 65), (80, 13), (3, 2500)],
)
def test_sums_over_a_batch_are_the_definition_s(images: int, per_image: int) -> None:
    a, b = (numbers(seed, (3, images * per_image)) for seed in (images, per_image + 1000))
    dots, sums = chains.batch_dots(a, b, per_image), chains.batch_sums(a, per_image)
    for row in range(3):
        left, right = units(a[row]), units(b[row])
        assert units(dots)[row] == float32.batch_dot_units(left, right, per_image)
        assert units(sums)[row] == float32.batch_sum_units(left, per_image)


@pytest.mark.parametrize("terms", [1, 5, 1023, 1024, 1025, 3000])
def test_dots_are_the_definition_s(terms: int) -> None:
    a, b = numbers(terms, (4, terms)), numbers(terms + 1, (4, terms))
    made = units(chains.batch_dots(a, b, terms))  # of one image
    assert made == [float32.dot_units(units(x), units(y)) for x, y in zip(a, b, strict=True)]


def test_many_rows_are_summed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = numbers(1, (7, 600)), numbers(2, (7, 600))
    whole = chains.batch_dots(a, b, 20)
    monkeypatch.setattr(chains, "WIDE", 1500)
    np.testing.assert_array_equal(chains.batch_dots(a, b, 20), whole)


def test_exact_sums_are_exact() -> None:
    random = np.random.default_rng(3)
    a, b = (random.integers(-(2**40), 2**40, (5, 300)) for _ in range(2))
    expected = [sum(int(p) * int(q) for p, q in zip(x, y, strict=True)) for x, y in zip(a, b, strict=True)]
    assert chains.whole_dots(a, b) == expected  # beyond int64
    small = a >> 20
    assert chains.whole_dots(small, small) == [sum(int(p) ** 2 for p in x) for x in small]
    x, y = numbers(5, (4, 200)), numbers(6, (4, 200))
    x[np.abs(x) < 2.0**-60] = 0  # of block float no product is subnormal
    for row, (total, up) in enumerate(chains.float_dots(x, y)):
        exact = sum(p * q for p, q in zip(fractions(x[row]), fractions(y[row]), strict=True))
        assert total * Fraction(2) ** up == exact


@pytest.mark.parametrize("terms", [0, 1, 1023, 1024, 1025, 5000])
def test_sums_in_float64_are_the_definition_s(terms: int) -> None:
    x = numbers(terms, (terms,)).astype(np.float64) ** 3
    assert chains.sum64(x) == float64.sum64(x.tolist())
