"""Hex files: integer codes as the words that `$readmemh` reads, one a line, and back.

A word is `lanes` codes of `bits` bits each, two's complement, lane 0 least significant; above them pad bits
of zero up to whole digits. The text of a word: exactly ceil(lanes * bits / 4) lower-case digits and LF, the
last line included (Verilator 5.006 drops a last word without one). No `@`, comment, sign, x or z.

    text, guard = encode(codes, Layout(bits=8, lanes=4))
    codes       = decode(text, Layout(bits=8, lanes=4, signed=True), words=100, where="in/x0.hex")

The load guard is s = rotl64(s, 1) ^ piece over the pieces of 64 bits of every word, the least significant
piece first, s = 0 at first: simulators finish with status 0 on a short or a missing file, a testbench that
recomputes s does not. `decode` takes what `encode` writes and nothing else; what simulators and programs
write, `packs/device.py` brings into this form.
"""

from dataclasses import dataclass

import numpy as np

from intnet.errors import PackError
from intnet.machine.jit import njit, rule

MOST_BITS = 1024  # of a word
_PIECE = 64  # bits of a word that the load guard takes at a time
_PART = 32  # bits of a code that are handled at a time


@dataclass(frozen=True)
class Layout:
    """How codes become words: bits a code (1..64), codes a word, whether a code is signed."""

    bits: int
    lanes: int = 1
    signed: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.bits <= 64 or self.lanes < 1 or self.word_bits > MOST_BITS:
            raise PackError(
                f"{self.lanes} lanes of {self.bits} bits: a lane has 1..64 bits, a word at most {MOST_BITS}"
            )

    @property
    def word_bits(self) -> int:
        """Bits of a word."""
        return self.lanes * self.bits

    @property
    def digits(self) -> int:
        """Hex digits of a word."""
        return -(-self.word_bits // 4)

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest code."""
        half = 1 << self.bits - 1
        return (-half, half - 1) if self.signed else (0, 2 * half - 1)


@rule
def _digit(value: np.uint64) -> np.uint8:
    return np.uint8(value + np.uint64(48 if value < np.uint64(10) else 87))


@njit
def _encode(codes: np.ndarray, bits: int, lanes: int, digits: int, out: np.ndarray) -> np.uint64:
    """The text of all words into `out`; the load guard. A word is filled from its last digit to the first."""
    guard, one = np.uint64(0), np.uint64(1)
    for word in range(codes.shape[0] // lanes):
        at = (word + 1) * (digits + 1) - 1
        out[at] = 10
        held, count, piece, piece_bits = np.uint64(0), 0, np.uint64(0), 0
        for lane in range(lanes):
            code, left = np.uint64(codes[word * lanes + lane]), bits
            while left > 0:
                part = min(left, _PART)
                held |= (code & ((one << np.uint64(part)) - one)) << np.uint64(count)
                code, left, count = code >> np.uint64(part), left - part, count + part
                last = lane == lanes - 1 and left == 0
                while count >= 4 or (last and count > 0):
                    nibble = held & np.uint64(15)
                    at -= 1
                    out[at] = _digit(nibble)
                    held, count = held >> np.uint64(4), count - 4
                    piece |= nibble << np.uint64(piece_bits)
                    piece_bits += 4
                    if piece_bits == _PIECE:
                        guard = ((guard << one) | (guard >> np.uint64(63))) ^ piece
                        piece, piece_bits = np.uint64(0), 0
                count = max(count, 0)
        if piece_bits > 0:
            guard = ((guard << one) | (guard >> np.uint64(63))) ^ piece
    return guard


@rule
def _value(char: int) -> int:
    """The value of a lower-case hex digit, or -1."""
    if 48 <= char <= 57:
        return char - 48
    return char - 87 if 97 <= char <= 102 else -1


@njit
def _decode(
    text: np.ndarray, bits: int, lanes: int, digits: int, signed: bool, codes: np.ndarray
) -> tuple[int, np.uint64]:
    """Codes of all words; where the first character stands that may not be there, or -1, and the guard."""
    guard, one = np.uint64(0), np.uint64(1)
    for word in range(codes.shape[0] // lanes):
        start = word * (digits + 1)
        if text[start + digits] != 10:
            return start + digits, guard
        held, count, lane, code, done = np.uint64(0), 0, 0, np.uint64(0), 0
        piece, piece_bits = np.uint64(0), 0
        for k in range(digits - 1, -1, -1):
            digit = _value(text[start + k])
            if digit < 0:
                return start + k, guard
            nibble = np.uint64(digit)
            piece |= nibble << np.uint64(piece_bits)
            piece_bits += 4
            if piece_bits == _PIECE:
                guard = ((guard << one) | (guard >> np.uint64(63))) ^ piece
                piece, piece_bits = np.uint64(0), 0
            held |= nibble << np.uint64(count)
            count += 4
            while lane < lanes and count >= min(bits - done, _PART):
                part = min(bits - done, _PART)
                code |= (held & ((one << np.uint64(part)) - one)) << np.uint64(done)
                held, count, done = held >> np.uint64(part), count - part, done + part
                if done == bits:
                    if signed and bits < 64 and code >> np.uint64(bits - 1):
                        code |= ~np.uint64(0) << np.uint64(bits)
                    codes[word * lanes + lane] = np.int64(code)
                    code, done, lane = np.uint64(0), 0, lane + 1
        if held != np.uint64(0):  # a pad bit
            return start, guard
        if piece_bits > 0:
            guard = ((guard << one) | (guard >> np.uint64(63))) ^ piece
    return -1, guard


def encode(codes: np.ndarray, layout: Layout) -> tuple[bytes, int]:
    """The text of integer codes in C order, and its load guard.

    PackError where a code does not fit a lane, or the codes do not fill whole words.
    """
    flat = np.ascontiguousarray(codes).reshape(-1)
    if flat.size % layout.lanes:
        raise PackError(f"{flat.size} codes do not fill words of {layout.lanes} lanes")
    check(flat, layout)
    out = np.empty(flat.size // layout.lanes * (layout.digits + 1), np.uint8)
    guard = _encode(flat.astype(np.int64), layout.bits, layout.lanes, layout.digits, out)
    return out.tobytes(), int(guard)


def check(flat: np.ndarray, layout: Layout) -> None:
    """PackError where a code does not fit a lane."""
    low, high = layout.limits
    if flat.size and (int(flat.min()) < low or int(flat.max()) > high):
        raise PackError(
            f"codes from {flat.min()} to {flat.max()} do not fit {layout.bits} "
            f"{'signed' if layout.signed else 'unsigned'} bits ({low}..{high})"
        )


def decode(text: bytes, layout: Layout, words: int, where: str) -> tuple[np.ndarray, int]:
    """(int64[words * lanes], load guard) of a text that `encode` wrote.

    PackError names `where`, the line and the column of what is not as it should be.
    """
    line = layout.digits + 1
    if len(text) != words * line:
        lines = text.count(b"\n")
        raise PackError(
            f"{where}: {len(text)} bytes and {lines} lines; {words} words of {layout.digits} digits are "
            f"{words * line} bytes" + ("" if text.endswith(b"\n") or not text else " (no newline at the end)")
        )
    codes = np.empty(words * layout.lanes, np.int64)
    raw = np.frombuffer(text, np.uint8)
    at, guard = _decode(raw, layout.bits, layout.lanes, layout.digits, layout.signed, codes)
    if at >= 0:
        raise PackError(f"{where}:{at // line + 1}:{at % line + 1}: {_complaint(text, at, line)}")
    return codes, int(guard)


def _complaint(text: bytes, at: int, line: int) -> str:
    """What is wrong with the character at `at`."""
    char, column = chr(text[at]), at % line
    if column == line - 1:
        return f"the line does not end after {line - 1} digits"
    if char in "0123456789abcdef":
        return "a pad bit above the lanes is set"
    return f"{char!r} is no digit of lower-case hex"
