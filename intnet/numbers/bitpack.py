"""Words of any width packed into bytes: what a tensor of <WL,FL>, or of saved codes, really takes.

    pack(codes, bits, signed)            codes one after another, lowest bit first; uint8
    unpack(data, bits, n, signed)        the n codes again

Bit k of code i is bit (i*bits + k) % 8 of byte (i*bits + k) // 8; signed codes are two's complement. The
last byte is filled with zeros. In 64-bit words (little-endian) the same bit is bit (i*bits + k) % 64 of
word (i*bits + k) // 64: that is how the loops see it, which `exact/blocks/bucket_loops.py` calls for a part
at a time.

Defined by `spec/buckets.py: pack`.
"""

import numpy as np

from intnet.errors import FormatError, ShapeError
from intnet.machine.instructions import wide_vectors
from intnet.machine.jit import pjit, prange, rule
from intnet.numbers.formats import check_bits

PART = 1 << 12  # codes that a thread packs at a time; a multiple of 64, so that parts begin with a word
SMALL = 8  # bits up to which codes are held in bytes, and eight of them are packed at once

_0, _1, _4, _8, _16, _32, _64 = (np.uint64(n) for n in (0, 1, 4, 8, 16, 32, 64))
_BYTES, _PAIRS = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF)
_HALF = np.uint64(0xFFFFFFFF)


def packed_bytes(n: int, bits: int) -> int:
    """Bytes of n codes."""
    return -(-n * bits // 8)


def packed_words(n: int, bits: int) -> int:
    """64-bit words that the loops fill for n codes: n counts as a multiple of 8."""
    return -(-(-(-n // 8) * 8 * bits) // 64)


# --- loops --------------------------------------------------------------------------------------


@rule
def pack_words(codes: np.ndarray, n: int, bits: int, out: np.ndarray, at: int) -> None:
    """Words out[at ..] of uint64 codes, each below 2**bits; bits from 1 to 64.

    Defined by `spec/buckets.py: pack`.
    """
    width = np.uint64(bits)
    word, filled = _0, _0
    for i in range(n):
        code = codes[i]
        word |= code << filled
        filled += width
        if filled >= _64:
            out[at] = word
            at += 1
            filled -= _64
            word = code >> (width - filled) if filled > _0 else _0
    if filled > _0:
        out[at] = word


@rule
def _copy(source: np.ndarray, target: np.ndarray) -> None:
    """The low bits of unsigned integers, or as many with zeros ahead."""
    for i in range(source.size):
        target[i] = source[i]


@rule
def pack_bytes(codes: np.ndarray, n: int, bits: int, out: np.ndarray, at: int) -> None:
    """As `pack_words` of uint8 codes, bits from 1 to 8; codes after the n-th, to a multiple of 8, are 0.

    Eight codes lie in one word; three steps close the gaps between neighbours, pairs and halves, in the
    memory of the codes: they are used up. What comes of eight fills bytes or whole words.

    Defined by `spec/buckets.py: pack`.
    """
    wide_vectors()
    b, groups = np.uint64(bits), (n + 7) // 8
    eights = codes.view(np.uint64)[:groups]
    for i in range(groups):  # a loop of vectors
        x = eights[i]
        x = (x & _BYTES) | (((x >> _8) & _BYTES) << b)
        x = (x & _PAIRS) | (((x >> _16) & _PAIRS) << (b + b))
        eights[i] = (x & _HALF) | ((x >> _32) << (b * _4))
    rest = out[at:]
    if bits == 1:
        _copy(eights, rest.view(np.uint8)[:groups])
    elif bits == 2:
        _copy(eights, rest.view(np.uint16)[:groups])
    elif bits == 4:
        _copy(eights, rest.view(np.uint32)[:groups])
    else:
        pack_words(eights, groups, 8 * bits, out, at)


@rule
def unpack_words(words: np.ndarray, at: int, n: int, bits: int, codes: np.ndarray) -> None:
    """uint64 codes of `pack_words`."""
    width = np.uint64(bits)
    mask = ~_0 >> (_64 - width)
    used = _0
    for i in range(n):
        code = words[at] >> used
        used += width
        if used >= _64:
            at += 1
            used -= _64
            if used > _0:
                code |= words[at] << (width - used)
        codes[i] = code & mask


@rule
def unpack_bytes(words: np.ndarray, at: int, n: int, bits: int, codes: np.ndarray) -> None:
    """uint8 codes of `pack_bytes`, to a multiple of 8."""
    b, groups = np.uint64(bits), (n + 7) // 8
    eights, rest = codes.view(np.uint64)[:groups], words[at:]
    if bits == 1:
        _copy(rest.view(np.uint8)[:groups], eights)
    elif bits == 2:
        _copy(rest.view(np.uint16)[:groups], eights)
    elif bits == 4:
        _copy(rest.view(np.uint32)[:groups], eights)
    else:
        unpack_words(words, at, groups, 8 * bits, eights)
    pair, four = b + b, b * _4
    low, middle, high = (_1 << four) - _1, (_1 << pair) - _1, (_1 << b) - _1
    middle |= middle << _32
    high |= high << _16
    high |= high << _32
    for i in range(groups):  # a loop of vectors
        x = eights[i]
        x = (x & low) | (((x >> four) & low) << _32)
        x = (x & middle) | (((x >> pair) & middle) << _16)
        eights[i] = (x & high) | (((x >> b) & high) << _8)


@pjit
def _pack(
    team: int, codes: np.ndarray, bits: int, low: int, high: int, out: np.ndarray, beyond: np.ndarray
) -> None:
    """Words of integer codes; beyond[part]: how many of them are not within low .. high."""
    for part in prange(team, beyond.size):
        first, n = part * PART, min(PART, codes.size - part * PART)
        count, mask = np.int64(0), (np.int64(1) << np.int64(bits)) - 1
        if bits <= SMALL:
            small = np.zeros(PART, np.uint8)
            for i in range(n):
                code = np.int64(codes[first + i])
                count += np.int64((code < low) | (code > high))
                small[i] = code & mask
            pack_bytes(small, n, bits, out, part * (PART // 64 * bits))
        else:
            wide = np.empty(PART, np.uint64)
            for i in range(n):
                code = np.int64(codes[first + i])
                count += np.int64((code < low) | (code > high))
                wide[i] = np.uint64(code & mask)
            pack_words(wide, n, bits, out, part * (PART // 64 * bits))
        beyond[part] = count


@pjit
def _unpack(team: int, words: np.ndarray, bits: int, sign: int, out: np.ndarray) -> None:
    """Codes of words; sign: 2**(bits - 1) of signed ones, else 0."""
    for part in prange(team, (out.size + PART - 1) // PART):
        first, n, at = part * PART, min(PART, out.size - part * PART), part * (PART // 64 * bits)
        if bits <= SMALL:
            small = np.empty(PART, np.uint8)
            unpack_bytes(words, at, n, bits, small)
            for i in range(n):
                out[first + i] = (np.int64(small[i]) ^ sign) - sign
        else:
            wide = np.empty(PART, np.uint64)
            unpack_words(words, at, n, bits, wide)
            for i in range(n):
                out[first + i] = (np.int64(wide[i]) ^ sign) - sign


# --- functions ----------------------------------------------------------------------------------


def pack(codes: np.ndarray, bits: int, signed: bool = True) -> np.ndarray:
    """uint8 of integer codes, flat in C order; FormatError for one that does not fit `bits`, 1 to 32.

    Defined by `spec/buckets.py: pack`.
    """
    check_bits(bits, "bits")
    flat = np.ascontiguousarray(codes).reshape(-1)
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    out = np.zeros(packed_words(flat.size, bits), np.uint64)
    beyond = np.zeros(-(-flat.size // PART), np.int64)
    _pack(flat, bits, low, high, out, beyond)
    if beyond.any():
        raise FormatError(f"codes from {flat.min()} to {flat.max()} do not fit {bits} bits")
    return out.view(np.uint8)[: packed_bytes(flat.size, bits)]


def unpack(data: np.ndarray, bits: int, n: int, signed: bool = True) -> np.ndarray:
    """int32[n], or uint32, from `pack`; ShapeError where `data` has not n codes, or ends in ones."""
    check_bits(bits, "bits")
    if data.dtype != np.uint8 or data.size != packed_bytes(n, bits):
        raise ShapeError(f"{n} codes of {bits} bits are {packed_bytes(n, bits)} bytes, not {data.size}")
    if n * bits % 8 and data[-1] >> (n * bits % 8):
        raise ShapeError(f"{n} codes of {bits} bits: bits after the last code are not 0")
    words = np.zeros(packed_words(n, bits), np.uint64)
    words.view(np.uint8)[: data.size] = data
    out = np.empty(n, np.int32 if signed else np.uint32)
    _unpack(words, bits, 1 << (bits - 1) if signed else 0, out)
    return out
