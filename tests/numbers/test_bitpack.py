"""Packed words: every code of small widths, random ones of all widths, against Python's own integers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intnet.errors import FormatError, ShapeError
from intnet.numbers import bitpack
from tests.support.plain_bytes import as_bytes


def limits(bits: int, signed: bool) -> tuple[int, int]:
    return (-(1 << (bits - 1)), 1 << (bits - 1)) if signed else (0, 1 << bits)


@pytest.mark.slow
@pytest.mark.parametrize("bits", range(1, 11))
def test_every_code(bits: int) -> None:
    codes = list(range(-(1 << (bits - 1)), 1 << (bits - 1)))
    packed = bitpack.pack(np.array(codes, np.int32), bits)
    assert packed.tobytes() == as_bytes(codes, bits)
    assert bitpack.unpack(packed, bits, len(codes)).tolist() == codes


@pytest.mark.slow
@given(st.integers(1, 32), st.data())
def test_any_codes(bits: int, data: st.DataObject) -> None:
    codes = data.draw(st.lists(st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1), max_size=40))
    packed = bitpack.pack(np.array(codes, np.int64), bits)
    assert packed.tobytes() == as_bytes(codes, bits)
    assert len(packed) == bitpack.packed_bytes(len(codes), bits)
    assert bitpack.unpack(packed, bits, len(codes)).tolist() == codes


@pytest.mark.slow
@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("bits", range(1, 33))
def test_every_length_to_130(bits: int, signed: bool) -> None:
    """Both limits, all zeros, all ones, and anything, at every place a code can have in a word."""
    low, high = limits(bits, signed)
    source = np.random.default_rng(bits)
    for n in range(131):
        codes = source.integers(low, high, n)
        codes[n // 2 : n // 2 + 3] = np.array([low, high - 1, 0])[: n - n // 2]
        packed = bitpack.pack(codes, bits, signed)
        assert packed.tobytes() == as_bytes(codes.tolist(), bits)
        again = bitpack.unpack(packed, bits, n, signed)
        assert again.dtype == (np.int32 if signed else np.uint32)
        assert again.tolist() == codes.tolist()
        if bits < 32 and n:
            assert bitpack.unpack(packed, bits, n, not signed).tolist() == [
                c % (1 << bits) if signed else c - (c >> (bits - 1) << bits) for c in codes.tolist()
            ]


@pytest.mark.slow
@pytest.mark.parametrize("bits", range(1, 33))
def test_parts(bits: int) -> None:
    """A thread packs 4096 codes; a part begins with a word."""
    for n in (bitpack.PART - 1, bitpack.PART, bitpack.PART + 1, 3 * bitpack.PART + 5):
        codes = [(i * 2654435761 % (1 << bits)) - (1 << (bits - 1)) for i in range(n)]
        packed = bitpack.pack(np.array(codes), bits)
        assert packed.tobytes() == as_bytes(codes, bits)
        assert bitpack.unpack(packed, bits, n).tolist() == codes


@pytest.mark.slow
@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.uint32])
def test_any_integers_of_any_shape(kind: type) -> None:
    codes = np.arange(63).astype(kind).reshape(3, 7, 3)
    for x in (codes, codes.transpose(2, 0, 1), codes[:, ::2], codes[:0]):
        packed = bitpack.pack(x, 6, signed=False)
        assert packed.tobytes() == as_bytes(x.reshape(-1).tolist(), 6)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(FormatError, match="do not fit 4 bits"):
        bitpack.pack(np.array([8]), 4)
    with pytest.raises(FormatError, match="do not fit 4 bits"):
        bitpack.pack(np.array([-9]), 4)
    for bits in range(1, 33):
        for signed in (True, False):
            low, high = limits(bits, signed)
            for wrong in (low - 1, high, -(2**40), 2**40):
                codes = np.zeros(bitpack.PART + 9, np.int64)
                codes[-3] = wrong
                with pytest.raises(FormatError, match=f"codes from .* do not fit {bits} bits"):
                    bitpack.pack(codes, bits, signed)
    for bits in (0, 33):
        with pytest.raises(FormatError, match="from 1 to 32"):
            bitpack.pack(np.zeros(1, np.int64), bits)
    with pytest.raises(ShapeError, match="3 codes of 5 bits are 2 bytes, not 3"):
        bitpack.unpack(np.zeros(3, np.uint8), 5, 3)
    with pytest.raises(ShapeError, match="not 0"):
        bitpack.unpack(np.array([0, 0x80], np.uint8), 5, 3)
