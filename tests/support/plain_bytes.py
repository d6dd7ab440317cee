"""Bytes of files as their formats' descriptions have them, in plain Python: packed codes, IDX."""

from __future__ import annotations

import struct


def as_bytes(codes: list[int], bits: int) -> bytes:
    """The codes as one long number, the first in its lowest digits."""
    digits = "".join(f"{code % (1 << bits):0{bits}b}" for code in reversed(codes))
    return int(digits or "0", 2).to_bytes(-(-len(codes) * bits // 8), "little")


def idx(values: list[int], *shape: int, kind: int = 8) -> bytes:
    return struct.pack(f">BBBB{len(shape)}I", 0, 0, kind, len(shape), *shape) + bytes(values)
