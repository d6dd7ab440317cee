"""Two-limb integers against Python's own: every pair of corners, every operation."""

import random
from types import SimpleNamespace

import numpy as np
import pytest

from intnet.machine.jit import njit
from intnet.numbers import wide as rules
from tests.support import cases

RULES = "add fits_int64 floor_divmod magnitude negate shift_left smul to_int64 udivmod umul umul_le widen"
wide = SimpleNamespace(**{name: njit(getattr(rules, name)) for name in RULES.split()})
LIMIT = 2**126
CORNERS = sorted(set(cases.corners(64)[::4]) | {-(2**63), 2**63 - 1, 0, 1, -1})
UNSIGNED = sorted({abs(v) for v in CORNERS} | {2**64 - 1, 2**63, 2**63 + 1, 2**32, 2**32 - 1, 2**64 - 2**32})


def split(value: int) -> tuple[np.int64, np.uint64]:
    """A Python integer as two limbs."""
    return np.int64(value >> 64), np.uint64(value & (2**64 - 1))


def whole(hi, lo) -> int:
    return (int(hi) << 64) + int(lo)


def wide_values() -> list[int]:
    """Corner values of both limbs, and random ones of every length, below 2^126."""
    near = {s * (2**n + d) for n in range(126) for d in (-1, 0, 1) for s in (1, -1)}
    random_ones = cases.random_magnitudes(9, 200, 126)
    return sorted(v for v in near | set(random_ones) if abs(v) < LIMIT)


VALUES = wide_values()


@pytest.mark.slow
def test_products_of_corners():
    for a in UNSIGNED:
        for b in UNSIGNED:
            assert whole(*wide.umul(np.uint64(a), np.uint64(b))) == a * b
    for a in CORNERS:
        for b in CORNERS[::2]:
            assert whole(*wide.smul(np.int64(a), np.int64(b))) == a * b


def test_comparison_of_products():
    source = random.Random(4)
    small = [abs(v) for v in CORNERS if abs(v) < 2**63][::3]
    for a in small:
        for b in small:
            c, d = source.choice(small), source.choice(small)
            assert wide.umul_le(np.int64(a), np.int64(b), np.int64(c), np.int64(d)) == (a * b <= c * d)
            assert wide.umul_le(np.int64(a), np.int64(b), np.int64(b), np.int64(a))
            if a and b > 1:
                assert not wide.umul_le(np.int64(a), np.int64(b), np.int64(a), np.int64(b - 1))


def test_widening_magnitude_and_the_way_back():
    for a in CORNERS:
        hi, lo = (int(limb) for limb in wide.widen(np.int64(a)))
        assert whole(hi, lo) == a
        # compiled functions give Python integers: the limbs' types are put back
        assert wide.fits_int64(np.int64(hi), np.uint64(lo)) and int(wide.to_int64(np.uint64(lo))) == a
        assert int(wide.magnitude(np.int64(a))) == abs(a)
    for v in VALUES:
        assert wide.fits_int64(*split(v)) == (-(2**63) <= v < 2**63)
    for v in (2**63, -(2**63) - 1, 2**64 - 1, 2**64, -(2**64)):
        assert not wide.fits_int64(*split(v))


def test_negation_and_shifts():
    for v in VALUES:
        assert whole(*wide.negate(*split(v))) == -v
        for bits in (0, 1, 5, 63, 64, 100):
            if abs(v) << bits < LIMIT:
                assert whole(*wide.shift_left(*split(v), bits)) == v << bits


@pytest.mark.slow
def test_sums():
    for a in VALUES[::2]:
        for b in VALUES[::7]:
            if abs(a + b) < LIMIT:
                assert whole(*wide.add(*split(a), *split(b))) == a + b


@pytest.mark.parametrize("den", [1, 2, 3, 10, 2**31, 2**32 + 1, 2**61 + 1, 2**62, 2**63 - 1])
def test_division(den):
    near = {v // den * den + d for v in VALUES[::9] for d in (-1, 0, 1)}
    for v in sorted(near | set(VALUES[::3])):
        q_hi, q_lo, rem = wide.floor_divmod(*split(v), np.int64(den))
        assert (whole(q_hi, q_lo), int(rem)) == divmod(v, den)
        if v >= 0:
            q_hi, q_lo, rem = wide.udivmod(*split(v), np.int64(den))
            assert (whole(q_hi, q_lo), int(rem)) == divmod(v, den)
