"""Histograms with exact edges, against plain Python."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intnet.numbers.qtensor import QTensor
from intnet.ops.kernels import histograms as lib
from intnet.spec import power
from intnet.spec.methods.adapt_switch import histogram
from tests.support import cases
from tests.support.opcheck import threads

F32 = np.float32
GREATEST = float(np.finfo(F32).max)
RANGES = [
    (-1.0, 1.0),
    (0.1, 0.7),
    (-0.3, 1e-30),
    (1e-45, 7e-45),  # five denormals
    (-3e-45, 1e-38),
    (-GREATEST, GREATEST),
    (float(F32(1)), float(np.nextafter(F32(1), F32(2)))),  # two neighbours: most bins have no float32
    (-100.0, -99.5),
]


def count_floats(x: np.ndarray, lo: float, hi: float, r: int) -> list[int]:
    return lib.count_floats(x, lib.inner_edges(lo, hi, r)).tolist()


def check_floats(x: np.ndarray, lo: float, hi: float, r: int) -> None:
    want = histogram([Fraction(float(v)) for v in x], Fraction(lo), Fraction(hi), r)
    assert count_floats(x, lo, hi, r) == want


def neighbours(x: float) -> list[np.float32]:
    near = F32(x)
    with np.errstate(over="ignore"):
        down, up = np.nextafter(near, F32(-np.inf)), np.nextafter(near, F32(np.inf))
        return [v for v in (np.nextafter(down, F32(-np.inf)), down, near, up) if np.isfinite(v)]


@pytest.mark.parametrize(("lo", "hi"), RANGES, ids=str)
@pytest.mark.parametrize("r", [1, 2, 3, 50, 150])
def test_all_neighbours_of_every_edge(lo: float, hi: float, r: int) -> None:
    """Where an edge is a float32 itself, it belongs to the bin above it; the end belongs to the last bin."""
    lo, hi = float(F32(lo)), float(F32(hi))
    edges = [Fraction(lo) + (Fraction(hi) - Fraction(lo)) * i / r for i in range(r + 1)]
    x = np.array([v for e in edges for v in neighbours(float(e))] + [-0.0, 0.0], F32)
    check_floats(x, lo, hi, r)


def test_a_value_on_an_edge_belongs_to_the_bin_above() -> None:
    x = np.array([0, 1, 2, 3, 4], F32)
    assert count_floats(x, 0.0, 4.0, 4) == [1, 1, 1, 2]
    q = QTensor(np.array([0, 16, 32, 48, 64, 15, 47], np.int8), -4)
    assert lib.count_codes(q, lib.inner_edges(0.0, 4.0, 4)).tolist() == [2, 1, 2, 2]


def test_outside_counts_in_the_end_bins() -> None:
    assert count_floats(np.array([-9, 9, 0, 1], F32), 0.0, 1.0, 3) == [2, 0, 2]


@given(
    st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=2, max_size=30),
    st.integers(1, 150),
)
def test_any_float32(values: list[float], r: int) -> None:
    x = np.array(values, F32)
    if x.min() < x.max():
        check_floats(x, float(x.min()), float(x.max()), r)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
@pytest.mark.parametrize("exponent", [-28, -4, 0, 5])
def test_codes_of_every_container(dtype: type, exponent: int) -> None:
    """Both limits of the container, and the codes beside every edge; some edges lie beyond all codes."""
    bits = np.iinfo(dtype).bits
    unit = power(exponent)
    for lo, hi in ((-1.0, 1.0), (0.25, 0.3), (-3.0, 2.0**20), (-(2.0**-60), 2.0**-61)):
        for r in (1, 7, 50):
            edges = lib.inner_edges(lo, hi, r)
            codes = {c + d for e in edges for c in [int(e / unit)] for d in (-2, -1, 0, 1, 2)}
            top = 2 ** min(bits - 1, 62)
            codes |= {*cases.limits(bits), 1 - top, top - 1, -1, 0, 1}
            kept = [c for c in codes if -top <= c < top]
            q = QTensor(np.array(kept, dtype), exponent)
            want = histogram([c * unit for c in kept], Fraction(lo), Fraction(hi), r)
            assert lib.count_codes(q, edges).tolist() == want


def test_edges_that_no_code_reaches() -> None:
    """A weight of 2^100 under <32,28>: its codes saturate, its edges are beyond int64."""
    q = QTensor(np.array([-(2**31), 0, 2**31 - 1], np.int32), -28)
    for lo, hi in ((-(2.0**100), 2.0**100), (-8.0, GREATEST), (-GREATEST, -1.0)):
        want = histogram([c * power(-28) for c in q.codes.tolist()], Fraction(lo), Fraction(hi), 50)
        assert lib.count_codes(q, lib.inner_edges(lo, hi, 50)).tolist() == want


def test_many_values_on_any_number_of_threads() -> None:
    """More than one block; the last one is not full."""
    x = np.array([float(v) for v in cases.random_float32(3, 5000, 0)], F32)
    x = np.tile(x, 7)
    want = histogram([Fraction(float(v)) for v in x[:5000]], Fraction(-1), Fraction(1), 50)
    for n in (1, 2):
        with threads(n):
            assert count_floats(x, -1.0, 1.0, 50) == [7 * count for count in want]
