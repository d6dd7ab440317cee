"""Block float: an exponent a block of 4x4, exact values, and results rounded once to float32.

`ops` sums the exact values; nothing is rounded on the way.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.oracle.floats import to_float32
from tests.oracle.tensor import Tensor, power

SIDE = 4

Index = tuple[int, ...]


def places(counts: Sequence[int]) -> list[Index]:
    """Every index of a tensor, in C order."""
    found: list[Index] = [()]
    for count in counts:
        found = [(*place, i) for place in found for i in range(count)]
    return found


def blocks(shape: Sequence[int], axes: Sequence[int]) -> list[Index]:
    """The index of every block of a tensor whose `axes` are cut in fours, the last piece maybe shorter."""
    return places([(size + SIDE - 1) // SIDE if axis in axes else size for axis, size in enumerate(shape)])


def block_of(index: Index, axes: Sequence[int]) -> Index:
    """The block that an element lies in."""
    return tuple(i // SIDE if axis in axes else i for axis, i in enumerate(index))


def real(
    shape: Sequence[int], codes: Sequence[int], exponents: Mapping[Index, int], axes: Sequence[int]
) -> Tensor:
    """The exact values: codes in C order times 2^exponent of the element's block."""
    units = [power(exponents[block_of(place, axes)]) for place in places(shape)]
    return Tensor(tuple(shape), [code * unit for code, unit in zip(codes, units, strict=True)])


def rounded(t: Tensor) -> Tensor:
    """Each value in float32, rounded once; OverflowError beyond its range."""
    return Tensor(t.shape, [to_float32(value) for value in t.values])
