"""What a device, a simulator or a program wrote, read as the words of a port.

Taken are files as `$writememh`, `$fwrite` and `$display` make them, and C or Python: comments, blank lines,
several words a line, upper case, CRLF, `_`, addresses in order, leading zeros left out (`%0h`), `0x`. What
could mean two things is refused: a short word that begins with 0, `0x` before some words and not before
others, and `0x` where it can be a digit that is x.
"""

import re
from dataclasses import dataclass

import numpy as np

from intnet.errors import PackError
from intnet.numbers import hexfiles
from intnet.packs import lines
from intnet.packs.ports import Port

PREFIX = "0x"
DIGIT = 4  # bits of one
SHOWN = 80  # characters of a word in a message


@dataclass(frozen=True)
class Given:
    """What was written: words as `lines.piece` cuts them, a row each; (word, lowest bit) of each x and z."""

    words: np.ndarray
    unknown: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class _Token:
    """A word as written, but for case and `_`; where it stands."""

    text: str
    place: str

    def __str__(self) -> str:
        return repr(self.text if len(self.text) <= SHOWN else f"{self.text[:SHOWN]}..")


def read(text: bytes, port: Port, where: str) -> Given:
    """The words of a port's file, as many as there are; x and z are read as 0 and listed.

    PackError for anything that is no word of the port, and for an address that skips or repeats words.
    """
    tokens = _tokens(text.decode("ascii", "replace"), where)
    words: list[str] = []
    unknown: list[tuple[int, int]] = []
    for token in _without_prefix(tokens, port):
        digits, whole = token.text, port.digits
        short = len(digits) < whole and (digits[:1] != "0" or digits == "0")
        if not re.fullmatch("[0-9a-fxz]+", digits) or not (len(digits) == whole or short):
            fewer = ", fewer only without leading zeros" * (0 < len(digits) < whole)
            binary = ": the file is no ASCII text" * ("\ufffd" in digits or "\0" in digits)
            raise PackError(f"{token.place}: {token} is no word of {expected(port)}{fewer}{binary}")
        if short and digits[0] in "xz":  # %0h leaves out leading ones of these too
            digits = digits.rjust(whole, digits[0])
        places = [k for k, digit in enumerate(reversed(digits)) if digit in "xz"]
        unknown += [(len(words), DIGIT * k) for k in places]
        known = re.sub("[xz]", "0", digits).rjust(whole, "0")
        if int(known, 16) >> port.word_bits:
            raise PackError(
                f"{token.place}: a pad bit above the lanes of {token} is set: a word is {expected(port)}"
            )
        words.append(known)
    cut = lines.piece(port)
    whole_text = "".join(f"{word}\n" for word in words).encode()
    codes = hexfiles.decode(whole_text, cut, len(words), where)[0]
    return Given(codes.reshape(-1, cut.lanes), tuple(unknown))


def expected(port: Port) -> str:
    """'20 hex digits, 8 lanes of 10 bits'."""
    lanes = f"{port.lanes} lanes of {port.bits} bits" if port.lanes > 1 else f"{port.bits} bits"
    if port.row_words > 1:
        lanes = f"a part of {lanes} in {port.row_words} words"
    elif port.word:
        lanes += f" in a word of {port.word}"
    return f"{port.digits} hex digit{'s' * (port.digits > 1)}, {lanes}"


def unknown_codes(port: Port, given: Given) -> list[int]:
    """Cells of the file that an x or z is part of; one of a pad bit belongs to the last lane."""
    found: set[int] = set()
    for word, bit in given.unknown:
        row, part = divmod(word, port.row_words)
        last = min(bit + DIGIT, port.word_bits) - 1  # above it the digit is none of the row's bits
        ends = [min((part * port.word_bits + at) // port.bits, port.lanes - 1) for at in (bit, last)]
        found |= {row * port.lanes + lane for lane in range(ends[0], ends[1] + 1)}
    return sorted(found)


# -- text ----------------------------------------------------------------------------------------


def _tokens(text: str, where: str) -> list[_Token]:
    """Words in lower case, without comments, `_` and addresses, which must be those of the next word."""
    found: list[_Token] = []
    for number, line in enumerate(_without_comments(text, where).split("\n"), 1):
        for token in line.split():
            place = f"{where}:{number}"
            if token.startswith("@"):
                _check_address(token, len(found), place)
            else:
                found.append(_Token(token.replace("_", "").lower(), place))
    return found


def _without_prefix(tokens: list[_Token], port: Port) -> list[_Token]:
    """Tokens without `0x`, where all have it and none could be a word with an x."""
    having = [token for token in tokens if token.text.startswith(PREFIX)]
    if not having:
        return tokens
    if len(having) < len(tokens) and all(len(token.text) == port.digits for token in having):
        return tokens  # the x is a digit
    odd = next((token for token in tokens if not token.text.startswith(PREFIX)), None)
    if odd is not None:
        raise PackError(
            f"{odd.place}: {odd} has no 0x, as {having[0]} at {having[0].place} has: "
            "write it before all words or none"
        )
    unclear = next((token for token in having if len(token.text) == port.digits), None)
    if unclear is not None:
        raise PackError(
            f"{unclear.place}: {unclear} is either {unclear.text[len(PREFIX) :]!r} after 0x, or a "
            f"word with an unknown digit: write all {port.digits} digits, or no 0x"
        )
    return [_Token(token.text.removeprefix(PREFIX), token.place) for token in tokens]


def _without_comments(text: str, where: str) -> str:
    """The text with a blank for each comment; lines keep their numbers."""
    text = re.sub(r"//[^\n]*|/\*[\s\S]*?\*/", lambda comment: " " + "\n" * comment[0].count("\n"), text)
    if "/*" in text:
        raise PackError(f"{where}: a comment that does not end")
    return text


def _check_address(token: str, following: int, place: str) -> None:
    """An address of `$writememh` must be that of the word that follows."""
    if not re.fullmatch("@[0-9a-fA-F]+", token):
        raise PackError(f"{place}: {token!r} is no address")
    if int(token[1:], 16) != following:
        raise PackError(
            f"{place}: {token} where word {following} comes next: words are left out or written twice"
        )
