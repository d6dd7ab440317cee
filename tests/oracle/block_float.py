"""Block float: an exponent a block of 4x4, exact values, and results rounded once to float32.

`ops` sums the exact values; nothing is rounded on the way.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from tests.oracle.floats import to_float32
from tests.oracle.tensor import Tensor, power

SIDE = 4

Index = tuple[int, ...]


def blocks(shape: Sequence[int], axes: Sequence[int]) -> list[Index]:
    """The index of every block of a tensor whose `axes` are cut in fours, the last piece maybe shorter."""
    counts = [(size + SIDE - 1) // SIDE if axis in axes else size for axis, size in enumerate(shape)]
    return list(product(*(range(count) for count in counts)))


def block_of(index: Index, axes: Sequence[int]) -> Index:
    """The block that an element lies in."""
    return tuple(i // SIDE if axis in axes else i for axis, i in enumerate(index))


def real(
    shape: Sequence[int], codes: Sequence[int], exponents: Mapping[Index, int], axes: Sequence[int]
) -> Tensor:
    """The exact values: codes in C order times 2^exponent of the element's block."""
    places = product(*(range(size) for size in shape))
    values = [
        code * power(exponents[block_of(place, axes)]) for code, place in zip(codes, places, strict=True)
    ]
    return Tensor(tuple(shape), values)


def rounded(t: Tensor) -> Tensor:
    """Each value in float32, rounded once; OverflowError beyond its range."""
    return Tensor(t.shape, [to_float32(value) for value in t.values])
