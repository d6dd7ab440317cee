"""Bins that are aligned with the codes: each holds equally many, symmetric codes look symmetric."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import ceil, floor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intnet.inspect import histograms
from intnet.inspect.histograms import Bins, bins

MOST = 17


def place(value: Fraction, width: Fraction) -> int:
    """k of a bin by its definition: (k - 1/2) width to (k + 1/2) width, an edge to the bin nearer to 0."""
    k = max(0, ceil(abs(value) / width - Fraction(1, 2)))
    return -k if value < 0 else k


@given(st.integers(0, 2**40), st.integers(1, 2**12), st.sampled_from([3, 17, 33]), st.booleans())
def test_bins_of_codes_hold_equally_many_and_reach_the_greatest(
    top: int, grain: int, most: int, signed: bool
) -> None:
    top *= grain
    made = bins(top, grain, most, signed)
    assert len(made.edges) - 1 <= most
    assert made.width % grain == 0 and (made.width // grain) % 2 == 1, "an odd number of codes"
    assert made.edges[-1] >= top and (top > made.edges[-2] or len(made.edges) <= 4)
    ends = [(ceil(low / grain), floor(high / grain)) for low, high in pairwise(made.edges)]
    inside = [last - first + 1 for first, last in ends]
    assert set(inside[not signed :]) <= {int(made.width) // grain}
    if signed:
        assert made.edges == [-edge for edge in made.edges[::-1]]


def test_few_codes_have_a_bin_each() -> None:
    made = bins(8, 1, MOST, signed=True)
    assert (made.width, made.counts(np.arange(-7, 9))) == (1, [0] + [1] * 16)
    assert bins(16, 1, MOST, signed=False).counts(np.arange(17)) == [1] * 17


@given(st.lists(st.integers(-(2**62), 2**62), min_size=1), st.integers(1, 2**40), st.integers(0, 40))
def test_counts_of_quotients_are_plain_counting(tops: list[int], bottom: int, last: int) -> None:
    """Beyond int64 too: what is farther away counts in the outer bins."""
    made, values = Bins(3, -last, last), [Fraction(top, bottom) for top in tops]
    expected = [0] * (2 * last + 1)
    for value in values:
        expected[min(max(place(value, Fraction(3)), -last), last) + last] += 1
    assert made.counts(np.array(tops), bottom) == expected
    assert made.beyond(np.array(tops), bottom) == sum(abs(v) > 3 * (last + Fraction(1, 2)) for v in values)


@given(st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=1))
def test_counts_of_floats_are_plain_counting(values: list[float]) -> None:
    made = bins(max(map(abs, values)), 0, MOST, signed=True)
    expected = [0] * MOST
    for value in values:
        expected[place(Fraction(value), Fraction(made.width)) + MOST // 2] += 1
    assert made.counts(np.array(values)) == expected
    assert made.beyond(np.array(values)) == 0


@pytest.mark.parametrize("signed", [True, False])
def test_symmetric_codes_look_symmetric(signed: bool) -> None:
    codes = np.arange(-127, 128) if signed else np.arange(128)
    counts = bins(127, 1, MOST, signed).counts(codes)
    assert (counts == counts[::-1]) == signed
    assert set(counts[not signed :][:-1]) == {counts[len(counts) // 2]}


def test_ties_on_edges_are_symmetric() -> None:
    """Exact values lie on edges often: a half, of codes that nearest rounding decides."""
    halves = np.array([-3, -1, 1, 3])
    assert Bins(1, -2, 2).counts(halves, 2) == [0, 1, 2, 1, 0]
    assert Bins(1, -2, 2).counts(halves / 2) == [0, 1, 2, 1, 0]


def test_a_bin_too_far_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Edges with the bin farther from 0: a fault that the symmetry of ties finds."""
    made = Bins(1, -2, 2)

    def farther(self: Bins, top: np.ndarray, bottom: object = 1) -> np.ndarray:
        return np.floor(np.asarray(top) / np.asarray(bottom) + 0.5).astype(np.int64)

    monkeypatch.setattr(histograms.Bins, "places", farther)
    assert made.counts(np.array([-3, -1, 1, 3]), 2) != [0, 1, 2, 1, 0]
