"""The oracle's two containers: `Tensor` (shape and exact numbers) and `Fixed` (codes and one exponent).

Flat lists in C order; nothing is computed here but alignment. Read `ops` next.
"""
from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import prod
from typing import Any, NamedTuple

Number = int | Fraction


class Tensor(NamedTuple):
    """Exact numbers in C order."""

    shape: tuple[int, ...]
    values: list[Any]

    def nested(self) -> Any:
        """The same numbers as nested lists."""
        return _nest(self.values, self.shape)


class Fixed(NamedTuple):
    """value = code * 2^exponent, codes in C order."""

    shape: tuple[int, ...]
    codes: list[int]
    exponent: int

    def real(self) -> Tensor:
        """The exact values as Fractions."""
        unit = power(self.exponent)
        return Tensor(self.shape, [code * unit for code in self.codes])

    def ints(self) -> Tensor:
        """The codes as a tensor of integers, for exact sums in code units."""
        return Tensor(self.shape, list(self.codes))


def power(exponent: int) -> Fraction:
    """2^exponent, exactly."""
    return Fraction(2**exponent) if exponent >= 0 else Fraction(1, 2**-exponent)


def tensor(nested: Any) -> Tensor:
    """A tensor from nested lists of one shape."""
    shape: list[int] = []
    values: list[Any] = [nested]
    while values and isinstance(values[0], (list, tuple)):
        sizes = {len(row) for row in values}
        if len(sizes) != 1:
            raise ValueError(f"ragged rows of lengths {sorted(sizes)}")
        shape.append(sizes.pop())
        values = [item for row in values for item in row]
    return Tensor(tuple(shape), values)


def reshape(flat: Sequence[Any], shape: Sequence[int]) -> Tensor:
    """A flat list as a tensor of `shape`."""
    if prod(shape) != len(flat):
        raise ValueError(f"{len(flat)} numbers do not fill the shape {tuple(shape)}")
    return Tensor(tuple(shape), list(flat))


def add_fixed(a: Fixed, b: Fixed) -> Fixed:
    """The exact sum, at the lower of the two exponents."""
    if a.shape != b.shape:
        raise ValueError(f"shapes {a.shape} and {b.shape} differ")
    low = min(a.exponent, b.exponent)
    left, right = 2 ** (a.exponent - low), 2 ** (b.exponent - low)
    return Fixed(a.shape, [x * left + y * right for x, y in zip(a.codes, b.codes, strict=True)], low)


def _nest(values: list[Any], shape: tuple[int, ...]) -> Any:
    if not shape:
        return values[0]
    size = prod(shape[1:])
    return [_nest(values[i * size : (i + 1) * size], shape[1:]) for i in range(shape[0])]
