"""TwoSum and rounding to odd, by all floats of few bits: `fma32`.

A sum of two floats that is inexact is too hard for the solver, even of 3 bits within 8. So the code itself
runs on every number of formats of 2, 3 and 4 bits. float32 and float64 differ from them in widths alone, of
which the method asks that the long format holds products and two bits more: here the least that it asks and
what float64 has, 2p + 2 and 2p + 5. Exponents reach so far that each of a*b and c lies beyond the last bit of
the other, that they cancel, and that results are subnormal.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from intnet.machine.instructions import fma32
from intnet.spec.rounding import round_fraction
from tests.proofs.rules import named, with_fault
from tests.proofs.small_floats import Format, Small, World, on_small_floats

SPARE = 14  # steps below the last bit of any product: `fma32` asks for no subnormal float64


def world(p: int, more: int, exponents: int) -> tuple[World, np.ndarray]:
    """Short floats of p bits and long ones of 2p + more; all short ones of so many exponents around 1."""
    unit = -(p + exponents - 1) // 2  # the least subnormal is 2**unit
    point = SPARE - 2 * unit
    short = Format(p, unit + point)
    return World(short, Format(2 * p + more), point), short.numbers(exponents)


def fused_multiply_add_fails(f: Any, p: int, more: int, exponents: int) -> int:
    """For how many a, b, c float32(a * b + c) is not what is nearest to the exact value."""
    here, numbers = world(p, more, exponents)
    run, wrong = on_small_floats(f), 0
    b, c = (x.ravel() for x in np.meshgrid(numbers, numbers))
    for a in numbers:
        each = np.full_like(b, a)
        got = run(Small(here, each), Small(here, b), Small(here, c))
        wrong += int(np.count_nonzero(got.steps != here.short.nearest(here.exact_product(each, b) + c)))
    return wrong


@pytest.mark.slow
@pytest.mark.parametrize("more", [2, 5])
@pytest.mark.parametrize(("p", "exponents"), [(2, 14), (3, 12), (4, 9)])
def test_fused_multiply_add_of_all_small_floats(p: int, exponents: int, more: int) -> None:
    assert fused_multiply_add_fails(fma32, p, more, exponents) == 0


FAULTS = [
    (fma32, "math.nextafter(total, math.copysign(math.inf, error))", "total", 2),  # not odd
    (fma32, "math.copysign(math.inf, error)", "math.inf", 2),  # the error's sign
    (fma32, "math.copysign(math.inf, error)", "math.copysign(math.inf, total)", 2),
    (fma32, "(error != 0) & ", "", 2),  # odd where nothing is lost
    (fma32, "ulp(total)) == 0)", "ulp(total)) != 0)", 2),
    (fma32, "(product - (total - part)) + (addend - part)", "product - (total - part)", 2),  # half of TwoSum
    (fma32, "(product - (total - part)) + (addend - part)", "addend - part", 4),  # the other: 10 * 13 tells
]


@pytest.mark.slow
@pytest.mark.parametrize(("function", "right", "wrong", "bits"), FAULTS, ids=named)
def test_a_fault_is_found(function: Any, right: str, wrong: str, bits: int) -> None:
    assert fused_multiply_add_fails(with_fault(function, right, wrong), bits, 2, {2: 14, 4: 9}[bits]) > 0


@pytest.mark.slow
def test_a_long_format_that_is_too_short_is_found() -> None:
    """Products need 2p bits; with one less the method is wrong, and this file says so."""
    assert fused_multiply_add_fails(fma32, 3, -1, 12) > 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Format(2), Format(3, 2), Format(4, 5)])
def test_small_floats_round_as_the_definition_says(kind: Format) -> None:
    n = np.arange(-3000, 3000)
    for given, got in zip(n.tolist(), kind.nearest(n).tolist(), strict=True):
        step = 1 << max(abs(given).bit_length() - kind.bits, kind.least)
        assert got == step * round_fraction(Fraction(given, step), "ties_even")


def test_float16_is_one_of_them() -> None:
    """Patterns and rounding are NumPy's, in steps of the least subnormal, 2**-24."""
    half = Format(11)
    n = np.random.default_rng(0).integers(-(1 << 39), 1 << 39, 20000) >> np.arange(20000) % 39
    expected = np.ldexp(n.astype(np.float64), -24).astype(np.float16)
    rounded = half.nearest(n)
    assert np.array_equal(np.ldexp(rounded.astype(np.float64), -24), expected.astype(np.float64))
    patterns = half.pattern(rounded)
    assert np.array_equal(patterns[n > 0], expected[n > 0].view(np.int16))
    assert np.array_equal(half.value(patterns), rounded)
