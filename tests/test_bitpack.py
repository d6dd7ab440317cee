"""Packed words: every code of small widths, random ones of all widths, against Python's own integers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intnet import bitpack
from intnet.errors import FormatError, ShapeError


def as_bytes(codes: list[int], bits: int) -> bytes:
    """The codes as one long integer, lowest first."""
    total = sum((code % (1 << bits)) << (bits * i) for i, code in enumerate(codes))
    return total.to_bytes(-(-len(codes) * bits // 8), "little")


@pytest.mark.parametrize("bits", range(1, 11))
def test_every_code(bits: int) -> None:
    codes = list(range(-(1 << (bits - 1)), 1 << (bits - 1)))
    packed = bitpack.pack(np.array(codes, np.int32), bits)
    assert packed.tobytes() == as_bytes(codes, bits)
    assert bitpack.unpack(packed, bits, len(codes)).tolist() == codes


@given(st.integers(1, 32), st.data())
def test_any_codes(bits: int, data: st.DataObject) -> None:
    codes = data.draw(st.lists(st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1), max_size=40))
    packed = bitpack.pack(np.array(codes, np.int64), bits)
    assert packed.tobytes() == as_bytes(codes, bits)
    assert len(packed) == bitpack.packed_bytes(len(codes), bits)
    assert bitpack.unpack(packed, bits, len(codes)).tolist() == codes


@pytest.mark.parametrize("bits", [3, 13, 32])
def test_more_than_one_part(bits: int) -> None:
    n = 3 * bitpack.PART + 5
    codes = [(i * 2654435761 % (1 << bits)) - (1 << (bits - 1)) for i in range(n)]
    packed = bitpack.pack(np.array(codes), bits)
    assert packed.tobytes() == as_bytes(codes, bits)
    assert bitpack.unpack(packed, bits, n).tolist() == codes


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(FormatError, match="do not fit 4 bits"):
        bitpack.pack(np.array([8]), 4)
    with pytest.raises(FormatError, match="do not fit 4 bits"):
        bitpack.pack(np.array([-9]), 4)
    with pytest.raises(ShapeError, match="3 codes of 5 bits are 2 bytes, not 3"):
        bitpack.unpack(np.zeros(3, np.uint8), 5, 3)
    with pytest.raises(ShapeError, match="not 0"):
        bitpack.unpack(np.array([0, 0x80], np.uint8), 5, 3)
