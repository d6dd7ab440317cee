"""Words of any width packed into bytes: what a tensor of <WL,FL> really takes.

    pack(codes, bits)          codes one after another, two's complement, lowest bit first; uint8
    unpack(bytes, bits, n)     the n codes again

Bit k of code i is bit (i*bits + k) % 8 of byte (i*bits + k) // 8. The last byte is filled with zeros.
"""

import numpy as np

from intnet.errors import FormatError, ShapeError
from intnet.formats import check_bits

_PART = 1 << 16  # codes packed at a time, a multiple of 8: every part but the last ends with a whole byte


def packed_bytes(n: int, bits: int) -> int:
    """Bytes of n codes."""
    return -(-n * bits // 8)


def pack(codes: np.ndarray, bits: int) -> np.ndarray:
    """uint8 of integer codes, flat in C order; FormatError for one that does not fit `bits`."""
    check_bits(bits, "bits")
    flat = codes.reshape(-1)
    if flat.size and (int(flat.min()) < -(1 << (bits - 1)) or int(flat.max()) >= 1 << (bits - 1)):
        raise FormatError(f"codes from {flat.min()} to {flat.max()} do not fit {bits} bits")
    return _joined([_part_bytes(flat[i : i + _PART], bits) for i in range(0, flat.size, _PART)])


def _part_bytes(codes: np.ndarray, bits: int) -> np.ndarray:
    digits = codes.astype(np.int64)[:, None] >> np.arange(bits) & 1
    return np.packbits(digits.astype(np.uint8).reshape(-1), bitorder="little")


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(parts) if parts else np.zeros(0, np.uint8)


def unpack(data: np.ndarray, bits: int, n: int) -> np.ndarray:
    """int32[n] from `pack`; ShapeError where `data` is not as long as n codes are, or ends in ones."""
    check_bits(bits, "bits")
    if data.dtype != np.uint8 or data.size != packed_bytes(n, bits):
        raise ShapeError(f"{n} codes of {bits} bits are {packed_bytes(n, bits)} bytes, not {data.size}")
    if n * bits % 8 and data[-1] >> (n * bits % 8):
        raise ShapeError(f"{n} codes of {bits} bits: bits behind the last code are not 0")
    out = np.empty(n, np.int32)
    for first in range(0, n, _PART):
        last = min(first + _PART, n)
        part = data[first * bits // 8 : packed_bytes(last, bits)]
        digits = np.unpackbits(part, count=(last - first) * bits, bitorder="little").reshape(-1, bits)
        words = digits.astype(np.int64) @ (np.int64(1) << np.arange(bits))
        out[first:last] = words - ((words >> (bits - 1)) << bits)
    return out
