"""What a device wrote: every way of writing a word that has one meaning is read, every other one is named."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intnet.errors import PackError
from intnet.packs import device, lines
from intnet.packs.ports import Port
from tests.support.hex_words import FORMS, LAYOUTS, corners


def port(bits: int, lanes: int = 1, words: int = 1, word: int = 0, signed: bool = True) -> Port:
    return Port("x", "out", (words * lanes,), "C", bits, signed=signed, lanes=lanes, word=word)


def codes_of(text: str, of: Port) -> list[int]:
    found = device.read(text.encode(), of, "dut/x.hex")
    assert not found.unknown
    return lines.held(of, lines.from_pieces(of, found.words, "dut/x.hex")).tolist()


def written(codes: list[int], of: Port) -> list[str]:
    """The words in full, by Python's own integers."""
    width = of.lanes * of.bits
    rows = [
        sum(code % (1 << of.bits) << lane * of.bits for lane, code in enumerate(codes[at : at + of.lanes]))
        for at in range(0, len(codes), of.lanes)
    ]
    size = of.word or width
    parts = -(-width // size)
    words = [row >> size * k & (1 << size) - 1 for row in rows for k in range(parts)]
    return [f"{word:0{-(-size // 4)}x}" for word in words]


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_the_same_words_in_many_forms(layout: object, form: str) -> None:
    of = port(layout.bits, layout.lanes, 6, signed=layout.signed)  # type: ignore[attr-defined]
    codes = corners(layout, 6, 3)  # type: ignore[arg-type]
    assert codes_of(FORMS[form](written(codes, of)), of) == codes


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@given(bits=st.integers(1, 64), lanes=st.integers(1, 5), word=st.integers(1, 130), seed=st.integers(0, 2**32))
def test_the_same_words_of_any_width(form: str, bits: int, lanes: int, word: int, seed: int) -> None:
    of = port(bits, lanes, 3, 0 if word == bits * lanes else word)
    source = random.Random(seed)
    codes = [source.randrange(-(1 << bits - 1), 1 << bits - 1) for _ in range(3 * lanes)]
    assert codes_of(FORMS[form](written(codes, of)), of) == codes


def test_every_word_of_eight_bits_without_its_zeros() -> None:
    of = port(4, 2, 256, signed=False)
    want = [code for word in range(256) for code in (word & 15, word >> 4)]
    for prefix in ("", "0x"):
        assert codes_of("\n".join(f"{prefix}{word:x}" for word in range(256)), of) == want


def test_unknown_bits_are_read_as_none_and_listed() -> None:
    def cells(text: str, of: Port) -> list[int]:
        return device.unknown_codes(of, device.read(text.encode(), of, "dut/x.hex"))

    assert cells("1_0\nxx\n5Z\n7f\n", port(4, 2, 4)) == [2, 3, 4]
    assert cells("07fff\n3xfff\n0000z\nx0000\n", port(6, 3, 4)) == [5, 6, 11]  # 18 bits in 20
    assert cells("x\n12\nz4\n", port(4, 2, 3)) == [0, 1, 5]  # %0h of a word that is x
    assert cells("x7\n", port(8, 2, 1)) == [0, 1]
    assert cells("0xff\n1234\n", port(8, 2, 2)) == [1]  # no prefix: the digit is x
    assert cells("0x1\n002\n", port(12, 1, 2)) == [0]
    assert cells("00\nx0\n12\n3z\n", port(12, 1, 2, 8)) == [0, 1]  # a row of two words
    assert cells("x5b\n105\n15b\n10z\n", port(9, 2, 2, 9)) == [0, 3]  # the digit's other bits are pad


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("01\nhello\n", "dut/x.hex:2: 'hello' is no word of 2 hex digits, 2 lanes of 4 bits$"),
        ("01\n001\n", "dut/x.hex:2: '001' is no word of 2 hex digits, 2 lanes of 4 bits$"),
        ("01\n-1\n", "dut/x.hex:2: '-1' is no word"),
        ("01\n_\n", "dut/x.hex:2: '' is no word"),
        ("01\n8'hff\n", 'dut/x.hex:2: "8\'hff" is no word'),
        ("0x01\n0xg\n", "dut/x.hex:2: 'g' is no word"),
        ("0x01\n0x\n", "dut/x.hex:2: '0x' is either '' after 0x, or a word with an unknown digit"),
        ("01\n@5\n02\n", "dut/x.hex:2: @5 where word 1 comes next: words are left out or written twice"),
        ("01\n@g\n", "dut/x.hex:2: '@g' is no address"),
        ("01\n@-1\n", "dut/x.hex:2: '@-1' is no address"),
        ("01 /* open", "dut/x.hex: a comment that does not end"),
        ("01 // note /* here\n00f\n01 // end */\n", "dut/x.hex:2: '00f' is no word"),
        ("0x01\n02\n", "dut/x.hex:2: '02' has no 0x, as '0x01' at dut/x.hex:1 has: write it before all"),
        (
            "7\xff\n",
            "dut/x.hex:1: '7\ufffd' is no word of 2 hex digits, 2 lanes of 4 bits: the file is no ASCII",
        ),
        ("0\x001\x00\n\x00", "dut/x.hex:1: .* is no word of .*: the file is no ASCII text$"),
        ("01\n" + 999 * "ab", f"dut/x.hex:2: '{40 * 'ab'}..' is no word"),
        ("01/**/g\n", "dut/x.hex:1: 'g' is no word"),
    ],
)
def test_what_could_be_no_word_is_named(text: str, message: str) -> None:
    with pytest.raises(PackError, match=message):
        device.read(text.encode("latin-1"), port(4, 2, 2), "dut/x.hex")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "1234\n0f\n",
            "x.hex:2: '0f' is no word of 4 hex digits, 2 lanes of 8 bits, fewer only without lead",
        ),
        ("00\n", "x.hex:1: '00' is no word of 4 hex digits"),
        (
            "0x1\n0x07\n",
            "x.hex:2: '0x07' is either '07' after 0x, or a word with an unknown digit: write all 4",
        ),
        ("0x0123\n0x12\n", "x.hex:2: '0x12' is either '12' after 0x"),
        ("0x12\n0x34\n", "x.hex:1: '0x12' is either '12' after 0x"),
    ],
)
def test_what_could_mean_two_things_is_named(text: str, message: str) -> None:
    with pytest.raises(PackError, match=message):
        device.read(text.encode(), port(8, 2, 2), "x.hex")


def test_a_bit_above_the_lanes_is_named() -> None:
    with pytest.raises(
        PackError, match=r"x\.hex:1: a pad bit above the lanes of 'f0' is set: a word is 2 hex"
    ):
        device.read(b"f0\n", port(5), "x.hex")
    with pytest.raises(PackError, match="a part of 3 lanes of 5 bits in 2 words"):
        device.read(b"0000\n", port(5, 3, 2, 8), "x.hex")
    with pytest.raises(
        PackError, match="'012' is no word of 8 hex digits, 2 lanes of 5 bits in a word of 32, few"
    ):
        device.read(b"012\n", port(5, 2, 2, 32), "x.hex")
    of = port(5, 3, 1, 8)  # 15 bits in two words of 8
    with pytest.raises(PackError, match=r"x\.hex:2: a bit of word 1 above 3 lanes of 5 bits is set"):
        lines.from_pieces(of, device.read(b"00\n80\n", of, "x.hex").words, "x.hex")
