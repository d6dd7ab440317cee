"""Hex files: words as text and back, judged by Python's own integers; whatever is not a word is named."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intnet.errors import PackError
from intnet.numbers.hexfiles import Layout, decode, encode
from tests.support.hex_words import LAYOUTS, corners


def reference(codes: list[int], layout: Layout) -> tuple[str, int]:
    """The text and its load guard in Python's own integers and formatting."""
    text, guard = "", 0
    for first in range(0, len(codes), layout.lanes):
        word = 0
        for lane, code in enumerate(codes[first : first + layout.lanes]):
            word |= code % (1 << layout.bits) << lane * layout.bits
        width = -(-layout.bits * layout.lanes // 4)
        text += f"{word:0{width}x}\n"
        for k in range(-(-4 * width // 64)):
            turned = (guard << 1 | guard >> 63) % (1 << 64)
            guard = turned ^ (word >> 64 * k) % (1 << 64)
    return text, guard


def held(codes: list[int]) -> np.ndarray:
    """The smallest array that takes them."""
    return np.array(codes, np.uint64 if codes and max(codes) >= 1 << 63 else np.int64)


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@given(words=st.integers(0, 9), seed=st.integers(0, 2**32))
def test_there_and_back(layout: Layout, words: int, seed: int) -> None:
    codes = corners(layout, words, seed)
    text, guard = encode(held(codes), layout)
    assert (text.decode(), guard) == reference(codes, layout)
    back, again = decode(text, layout, words, "x.hex")
    assert back.tolist() == codes and again == guard


def test_codes_of_64_bits_without_a_sign() -> None:
    layout, codes = Layout(64, 2, False), np.array([2**64 - 1, 0, 2**63, 5], np.uint64)
    text, _ = encode(codes, layout)
    assert text == b"0000000000000000ffffffffffffffff\n00000000000000058000000000000000\n"
    back, _ = decode(text, layout, 2, "x.hex")
    assert back.view(np.uint64).tolist() == codes.tolist()


@pytest.mark.parametrize(
    ("layout", "codes", "message"),
    [
        (Layout(8), [128], r"codes from 128 to 128 do not fit 8 signed bits \(-128..127\)"),
        (Layout(8, 1, False), [-1, 3], r"codes from -1 to 3 do not fit 8 unsigned bits \(0..255\)"),
        (Layout(8, 4), [1, 2, 3], "3 codes do not fill words of 4 lanes"),
    ],
)
def test_what_does_not_fit_a_word_is_refused(layout: Layout, codes: list[int], message: str) -> None:
    with pytest.raises(PackError, match=message):
        encode(np.array(codes), layout)


@pytest.mark.parametrize(("bits", "lanes"), [(0, 1), (65, 1), (8, 0), (64, 17)])
def test_no_such_layout(bits: int, lanes: int) -> None:
    with pytest.raises(PackError, match=r"a lane has 1\.\.64 bits, a word at most 1024"):
        Layout(bits, lanes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0ff\n12a\n", "in/x.hex: 8 bytes and 2 lines; 3 words of 3 digits are 12 bytes$"),
        ("0ff\n12a\n001", r"11 bytes and 2 lines; .* are 12 bytes \(no newline at the end\)"),
        ("0ff\n12a\n001\n002\n", "16 bytes and 4 lines"),
        ("0ff\n1Aa\n001\n", "in/x.hex:2:2: 'A' is no digit of lower-case hex"),
        ("0ff\n12x\n001\n", "in/x.hex:2:3: 'x' is no digit"),
        ("0ff\n12\na001\n", "in/x.hex:2:4: the line does not end after 3 digits"),
        ("0ff\n12a\n0012", "in/x.hex:3:4: the line does not end after 3 digits"),
        ("0ff\n22a\n001\n", "in/x.hex:2:1: a pad bit above the lanes is set"),
        ("0ff\r12a\n001\n", "in/x.hex:1:4: the line does not end after 3 digits"),
    ],
)
def test_what_is_not_a_word_is_named(text: str, message: str) -> None:
    with pytest.raises(PackError, match=message):
        decode(text.encode(), Layout(3, 3), 3, "in/x.hex")


@pytest.mark.parametrize("change", ["a missing word", "two words swapped", "one bit", "a word twice"])
def test_the_guard_sees(change: str) -> None:
    layout, codes = Layout(8), [3, 1, 4, 1, 5, 9, 2, 6]
    other = {
        "a missing word": codes[:3] + codes[4:],
        "two words swapped": [1, 3, *codes[2:]],
        "one bit": [*codes[:7], 7],
        "a word twice": [*codes, 6],
    }[change]
    assert encode(np.array(codes), layout)[1] != encode(np.array(other), layout)[1]
