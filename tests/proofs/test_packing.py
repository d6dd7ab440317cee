"""Packed words (`intnet/numbers/bitpack.py`), hex words (`intnet/numbers/hexfiles.py`), every width.

Codes are terms, as many as it takes until a code begins with a word again; then one more.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any

import numpy as np
import pytest
import z3

from intnet.numbers import bitpack, hexfiles
from tests.proofs.machine import I64, U8, U64, Num, all_of, assume, counterexample, prove, variable
from tests.proofs.memory import Array, Cells, anything, filled, zeros
from tests.proofs.rules import named, on_numbers, on_terms, with_fault

Claim = Callable[[], Any]


def codes_of(n: int, bits: int) -> list[Num]:
    """n codes below 2**bits."""
    codes = [variable(f"c{i}", U64) for i in range(n)]
    if bits < 64:
        assume(all_of(*(code < 1 << bits for code in codes)))
    return codes


def one_number(codes: list[Num], bits: int, length: int) -> Any:
    """The codes as one long number, the first in its lowest bits: the definition of what is packed."""
    parts = [z3.Extract(bits - 1, 0, code.bv()) for code in reversed(codes)]
    whole = z3.Concat(*parts) if len(parts) > 1 else parts[0]
    return z3.simplify(z3.ZeroExt(length - whole.size(), whole))


def stored(words: Array, n: int) -> Any:
    """The first n bytes, as one number."""
    return z3.simplify(z3.Concat(*reversed(words.data[:n])) if n > 1 else words.data[0])


def period(bits: int) -> int:
    """Codes until one begins with a word again, and one more."""
    return 64 // gcd(64, bits) + 1


def words_there_and_back(bits: int, n: int) -> Callable[[Any, Any], Claim]:
    """pack_words writes one long number; unpack_words reads its codes."""

    def of(pack: Any, unpack: Any) -> Claim:
        def claim() -> Any:
            codes = codes_of(n, bits)
            out, again = anything("out", -(-n * bits // 64), U64), anything("again", n, U64)
            on_terms(pack)(filled(codes, U64), n, bits, out, 0)
            right = stored(out, 8 * out.size) == one_number(codes, bits, 64 * out.size)
            on_terms(unpack)(out, 0, n, bits, again)
            return all_of(right, *(again[i] == codes[i] for i in range(n)))

        return claim

    return of


@pytest.mark.slow
@pytest.mark.parametrize("bits", range(1, 65))
def test_words(bits: int) -> None:
    prove(words_there_and_back(bits, period(bits))(bitpack.pack_words, bitpack.unpack_words))


def bytes_there_and_back(bits: int, n: int) -> Callable[[Any, Any], Claim]:
    """As above of bytes, whose loops shift eight codes at once; codes after the last are 0."""

    def of(pack: Any, unpack: Any) -> Claim:
        def claim() -> Any:
            codes, room = codes_of(n, bits), (n + 7) // 8 * 8
            small = filled([*codes, *[Num(0, U64)] * (room - n)], U8)
            out, again = zeros(bitpack.packed_words(n, bits), U64), anything("again", room, U8)
            on_terms(pack)(small, n, bits, out, 0)
            right = stored(out, 8 * out.size) == one_number(codes, bits, 64 * out.size)
            on_terms(unpack)(out, 0, n, bits, again)
            return all_of(right, *(again[i] == codes[i] for i in range(n)))

        return claim

    return of


@pytest.mark.slow
@pytest.mark.parametrize("bits", range(1, 9))
@pytest.mark.parametrize("n", [3, 66])
def test_bytes(bits: int, n: int) -> None:
    prove(bytes_there_and_back(bits, n)(bitpack.pack_bytes, bitpack.unpack_bytes))


@pytest.mark.slow
@pytest.mark.parametrize("bits", range(1, 33))
def test_signs(bits: int) -> None:
    """(x & mask) read back as `_unpack` does: (x ^ sign) - sign is x again, of every x of so many bits."""

    def claim() -> Any:
        x, sign = variable("x", I64), 1 << (bits - 1)
        assume(all_of(x >= -sign, x < sign))
        mask = (Num(1, I64) << Num(bits, I64)) - 1
        return ((x & mask) ^ sign) - sign == x

    prove(claim)


# --- hex words -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", range(16))
def test_digits(value: int) -> None:
    """All sixteen: `_value` reads what `_digit` writes. So digits stand for their values below."""
    digit = on_numbers(hexfiles._digit)(np.uint64(value))
    assert chr(digit) == f"{value:x}" and on_numbers(hexfiles._value)(int(digit)) == value


def hex_there_and_back(bits: int, lanes: int, signed: bool) -> Callable[[Any, Any], Claim]:
    """The word is its lanes as one number, four bits a digit, the last digit lowest; and read, the codes."""
    layout = hexfiles.Layout(bits, lanes, signed)

    def of(encode: Any, decode: Any) -> Claim:
        def claim() -> Any:
            low, high = layout.limits
            codes = [variable(f"c{i}", I64) for i in range(lanes)]
            if bits < 64:
                assume(all_of(*(z3.And((c >= low).term, (c <= high).term) for c in codes)))
            text, again = Cells([None] * (layout.digits + 1)), Cells([None] * lanes)
            guard = on_terms(encode, _digit=lambda x: x)(Cells(codes), bits, lanes, layout.digits, text)
            parts = [z3.Extract(3, 0, text[k].bv()) for k in range(layout.digits)]
            number = z3.Concat(*parts) if len(parts) > 1 else parts[0]
            right = number == one_number(codes, bits, 4 * layout.digits)
            text[layout.digits] = 10
            read_word = on_terms(decode, _value=lambda x: x)
            wrong, read = read_word(text, bits, lanes, layout.digits, signed, again)
            assert wrong == -1
            return all_of(right, read == guard, *(again[i] == codes[i] for i in range(lanes)))

        return claim

    return of


LAYOUTS = [(bits, 2) for bits in (1, 3, 4, 5, 7, 8, 13, 16, 31, 32, 33, 47, 63, 64)] + [(9, 3), (21, 3)]


@pytest.mark.slow
@pytest.mark.parametrize(("bits", "lanes"), LAYOUTS)
@pytest.mark.parametrize("signed", [True, False])
def test_hex_words(bits: int, lanes: int, signed: bool) -> None:
    prove(hex_there_and_back(bits, lanes, signed)(hexfiles._encode, hexfiles._decode))


# --- faults --------------------------------------------------------------------------------------------

PACK_FAULTS = [
    (bitpack.pack_words, "filled >= _64", "filled > _64", 32),
    (bitpack.pack_words, "code >> (width - filled)", "code >> (width - filled - _1)", 5),
    (bitpack.pack_words, " if filled > _0 else _0", "", 64),
    (bitpack.unpack_words, "words[at] << (width - used)", "words[at] << (width - used - _1)", 11),
    (bitpack.unpack_words, "~_0 >> (_64 - width)", "~_0 >> (_64 - width + _1)", 7),
    (bitpack.pack_bytes, "<< (b + b)", "<< b", 3),
    (bitpack.pack_bytes, "(x >> _32) << (b * _4)", "(x >> _32) << (b * _4 - _1)", 6),
    (bitpack.unpack_bytes, "middle |= middle << _32", "middle |= middle << _16", 5),
    (bitpack.unpack_bytes, "((x >> b) & high)", "((x >> b) & middle)", 7),
]


@pytest.mark.slow
@pytest.mark.parametrize(("function", "right", "wrong", "bits"), PACK_FAULTS, ids=named)
def test_a_fault_has_a_counterexample(function: Any, right: str, wrong: str, bits: int) -> None:
    """And there the two write or read other codes, as Python runs them."""
    small = "bytes" in function.__name__
    names = ("pack_bytes", "unpack_bytes") if small else ("pack_words", "unpack_words")
    faulty = with_fault(function, right, wrong)
    pair = [faulty if name == function.__name__ else getattr(bitpack, name) for name in names]
    there_and_back = (bytes_there_and_back if small else words_there_and_back)(bits, period(bits))
    try:
        found = counterexample(there_and_back(*pair))
    except AssertionError as refused:  # a shift by 64 or more: what it gives is not defined
        assert "undefined" in str(refused) or "element" in str(refused)
        return
    assert found is not None
    codes = [int(found[f"c{i}"]) for i in range(period(bits))]
    assert again(codes, bits, small, *(getattr(bitpack, name) for name in names)) == codes
    assert again(codes, bits, small, *pair) != codes


def again(codes: list[int], bits: int, small: bool, pack: Any, unpack: Any) -> list[int]:
    """The codes packed and unpacked, on numbers."""
    n, kind = len(codes), np.uint8 if small else np.uint64
    source, out, back = (np.zeros((n + 7) // 8 * 8, t) for t in (kind, np.uint64, kind))
    source[:n] = codes
    with np.errstate(over="ignore"):
        on_numbers(pack)(source, n, bits, out, 0)
        on_numbers(unpack)(out, 0, n, bits, back)
    return [int(code) for code in back[:n]]
