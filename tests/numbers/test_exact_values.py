"""Digits and fractions of many codes at once, against Python's own of each alone."""

from __future__ import annotations

import gc
from fractions import Fraction
from math import gcd

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intnet import FixedPoint, quantize
from intnet.errors import FormatError
from intnet.numbers import exact_values
from tests.support import cases

CODES = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20)


@given(CODES, st.integers(1, 64))
def test_digits_are_those_of_python(codes: list[int], bits: int) -> None:
    """Any width, in hex and in binary; no space and no zero too many."""
    array, mask = np.array(codes, np.int64), (1 << bits) - 1
    wanted = [f"{code & mask:0{-(-bits // 4)}x}" for code in codes]
    assert exact_values.digits(array, bits, 4).tolist() == wanted
    assert exact_values.digits(array, bits, 1).tolist() == [f"{code & mask:0{bits}b}" for code in codes]


@pytest.mark.parametrize("bits", range(1, 13))
def test_every_word_of_a_narrow_width(bits: int) -> None:
    """As signed and as unsigned codes, in any order of memory."""
    least, most = -(1 << bits - 1), 1 << bits
    every = np.arange(least, most)
    for codes in (every, every[::-1], np.repeat(every, 2)[::2], np.stack([every, every]).T):
        words = [int(code) % most for code in codes.flat]
        for of, form in ((4, f"0{-(-bits // 4)}x"), (1, f"0{bits}b")):
            made = exact_values.digits(codes, bits, of)
            assert made.shape == codes.shape and made.ravel().tolist() == [
                format(word, form) for word in words
            ]


@pytest.mark.parametrize("bits", range(1, 65))
def test_the_edges_of_every_width(bits: int) -> None:
    least, most = -(1 << bits - 1), (1 << bits) - 1
    codes = [least, least + 1, -1, 0, 1, most >> 1, most] if bits < 64 else [least, -1, 0, 1, most >> 1]
    for of, form in ((4, f"0{-(-bits // 4)}x"), (1, f"0{bits}b")):
        made = exact_values.digits(np.array(codes, np.int64), bits, of)
        assert made.tolist() == [format(code % (1 << bits), form) for code in codes]
        assert all(
            int(text, 16 if of == 4 else 2) == code & most for text, code in zip(made, codes, strict=True)
        )


def test_a_longer_text_is_not_cut_into_digits() -> None:
    """NumPy's strings have one length: what is put in would lose its end without a word."""
    made = exact_values.digits(np.array([1, 2]), 8, 4)
    with pytest.raises(ValueError, match="read-only"):
        made[0] = "0x01"


@given(CODES, st.sampled_from([0, 1, -1, 70, -23, -62, -63, -64, -65, -149, -1100]))
def test_fractions_are_those_of_python(codes: list[int], exponent: int) -> None:
    """In lowest terms, of Python's integers, and as good as any other."""
    found = exact_values.fractions(np.array(codes, np.int64), exponent).tolist()
    wanted = [code * Fraction(2) ** exponent for code in codes]
    assert found == wanted
    assert [hash(one) for one in found] == [hash(one) for one in wanted]
    for one, other in zip(found, wanted, strict=True):
        assert type(one) is Fraction and type(one.numerator) is type(one.denominator) is int
        assert gcd(one.numerator, one.denominator) == 1 and one.denominator == other.denominator
        assert str(one + 1) == str(other + 1)


@pytest.mark.parametrize("shape", [(0,), (), (2, 3, 4), (3, 0)])
def test_shapes_stay(shape: tuple[int, ...]) -> None:
    n = int(np.prod(shape))
    codes = np.array(cases.random_codes(1, n, -(2**40), 2**40), np.int64).reshape(shape)
    for count, made in ((11, exact_values.digits(codes, 41, 4)), (41, exact_values.digits(codes, 41, 1))):
        assert (made.shape, made.dtype) == (shape, f"<U{count}")
        base = 16 if count == 11 else 2
        assert [int(text, base) for text in made.ravel()] == [int(code) % 2**41 for code in codes.ravel()]
    assert exact_values.fractions(codes, -3).shape == shape
    assert exact_values.fractions(codes, -3).reshape(-1).tolist() == [
        Fraction(int(code), 8) for code in codes.reshape(-1)
    ]


def test_garbage_is_looked_for_as_before() -> None:
    assert gc.isenabled()
    exact_values.fractions(np.array([2**40, 1, -5]), -3)
    assert gc.isenabled()
    gc.disable()
    try:
        exact_values.fractions(np.array([2**40, 1, -5]), -3)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_list_of_tensors_is_told_from_uneven_lists() -> None:
    q = quantize([0.5, -0.25], FixedPoint(8, 6))
    with pytest.raises(FormatError, match=r"a list of tensors: np\.stack or np\.concatenate"):
        quantize([q[0], q[1]], FixedPoint(8, 6))


def test_a_complex_array_of_values_is_made_without_a_warning() -> None:
    assert np.asarray(quantize([0.5, -0.25], FixedPoint(8, 6)), complex).tolist() == [0.5, -0.25]
