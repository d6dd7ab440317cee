"""Words of hex files: layouts of all kinds, corners of each, and the ways in which devices write them."""

from __future__ import annotations

import random
from collections.abc import Callable

from intnet.numbers.hexfiles import Layout

LAYOUTS = [
    Layout(1), Layout(1, 5), Layout(3, 7, False), Layout(4, 2), Layout(8), Layout(8, 4), Layout(9, 3),
    Layout(13, 5), Layout(16, 64), Layout(31, 3), Layout(32, 32, False), Layout(33, 2), Layout(61, 4),
    Layout(63, 3), Layout(64), Layout(64, 16), Layout(7, 146), Layout(2, 512),
]  # fmt: skip


def corners(layout: Layout, words: int, seed: int) -> list[int]:
    """Codes of the limits, of zero and its neighbours, and of anywhere."""
    source, (low, high) = random.Random(seed), layout.limits
    some = [low, high, 0, low + 1, high - 1, max(low, -1), min(high, 1)]
    pool = [code for code in some if low <= code <= high] + [source.randint(low, high) for _ in range(9)]
    return [source.choice(pool) for _ in range(words * layout.lanes)]


FORMS: dict[str, Callable[[list[str]], str]] = {
    "as it is": lambda words: "\n".join(words) + "\n",
    "without the last line's end": "\n".join,
    "CRLF": lambda words: "".join(f"{word}\r\n" for word in words),
    "upper case": lambda words: "\n".join(words).upper(),
    "several a line": "  ".join,
    "blank lines": lambda words: "\n\n" + "\n\n  \n".join(words),
    "underscores": lambda words: "\n".join("_".join(word) for word in words),
    "leading zeros left out": lambda words: "\n".join(word.lstrip("0") or "0" for word in words),
    "0x": lambda words: "\n".join(f"0x{word}" for word in words),
    "0X": lambda words: "\n".join(f"0X{word.upper()}" for word in words),
    "addresses, comments": lambda words: "// 0x00\n@0\n" + "\n".join(
        f"@{at:08X} /* two\nlines */ {word} // on" for at, word in enumerate(words)
    ),
}  # fmt: skip
