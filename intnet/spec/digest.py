"""The SHA-256 of a training run's state: two runs agree exactly when their digests do.

Of every tensor, in order of the names: the line 'name dtype shape exponent' in UTF-8 and a newline, then the
little-endian bytes of its codes or floats in C order. A shape is written 4x3x3, that of a scalar empty; the
exponent of floats '-', an array of exponents as 'shape:e,e,...'. That is intnet's own contract.

>>> digest({"w": Words("int8", (2,), [1, -2], -7)}) == sha256(b"w int8 2 -7\\n\\x01\\xfe").hexdigest()
True
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from fractions import Fraction
from hashlib import sha256
from typing import NamedTuple

from intnet.spec.float32 import bits_of, units


class Exponents(NamedTuple):
    """One exponent a channel or a block, in C order."""

    shape: tuple[int, ...]
    values: list[int]


class Words(NamedTuple):
    """Integers: dtype 'int8' to 'int64' or 'uint8', codes in C order, value = code * 2^exponent.

    exponent: None where an array of integers has none, as a map of widths
    """

    dtype: str
    shape: tuple[int, ...]
    codes: Sequence[int]
    exponent: int | Exponents | None = 0


class Floats(NamedTuple):
    """Floats: dtype 'float32' (exact Fractions) or 'float64' (Python floats), in C order."""

    dtype: str
    shape: tuple[int, ...]
    values: Sequence[Fraction | float | int]


State = Mapping[str, Words | Floats]


def written(shape: Sequence[int]) -> str:
    """A shape as 4x3x3."""
    return "x".join(map(str, shape))


def exponent_of(value: Words | Floats) -> str:
    """The exponent as the digest's line has it."""
    if isinstance(value, Floats) or value.exponent is None:
        return "-"
    if isinstance(value.exponent, Exponents):
        return f"{written(value.exponent.shape)}:{','.join(map(str, value.exponent.values))}"
    return str(value.exponent)


def content(value: Words | Floats) -> bytes:
    """The little-endian bytes of the codes or floats."""
    if isinstance(value, Words):
        size, signed = int(value.dtype.removeprefix("u").removeprefix("int")) // 8, value.dtype[0] == "i"
        return b"".join(code.to_bytes(size, "little", signed=signed) for code in value.codes)
    if value.dtype == "float64":
        return b"".join(struct.pack("<d", float(v)) for v in value.values)
    return b"".join(bits_of(units(Fraction(v))).to_bytes(4, "little") for v in value.values)


def digest(state: State) -> str:
    """Hex SHA-256 over all tensors in order of their names."""
    sha = sha256()
    for name in sorted(state):
        value = state[name]
        line = f"{name} {value.dtype} {written(value.shape)} {exponent_of(value)}\n"
        sha.update(line.encode("utf-8"))
        sha.update(content(value))
    return sha.hexdigest()
