"""The definition's containers: `Tensor` (shape and exact numbers) and `Fixed` (codes and one exponent).

    value = code * 2^exponent

Flat lists in C order, activations as (N, H, W, C) or (N, C). Nothing is computed here but alignment, and the
place of an element: `place_of` and `index_of` are each other's inverse.

>>> t = tensor([[1, 2, 3], [4, 5, 6]])
>>> t.shape, t.values[index_of((1, 0), t.shape)], place_of(3, t.shape)
((2, 3), 4, (1, 0))
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

Number = int | Fraction
Place = tuple[int, ...]


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
        num, den = power(self.exponent).as_integer_ratio()
        values = {code: Fraction(code * num, den) for code in set(self.codes)}  # of many elements few codes
        return Tensor(self.shape, [values[code] for code in self.codes])

    def ints(self) -> Tensor:
        """The codes as a tensor of integers, for exact sums in code units."""
        return Tensor(self.shape, list(self.codes))


@lru_cache(maxsize=4096)
def power(exponent: int) -> Fraction:
    """2^exponent, exactly."""
    return Fraction(2**exponent) if exponent >= 0 else Fraction(1, 2**-exponent)


def log2_floor(x: Fraction) -> int:
    """The n with 2^n <= x < 2^(n+1), x > 0."""
    n = x.numerator.bit_length() - x.denominator.bit_length()
    return n if x >= power(n) else n - 1


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


def places(shape: Sequence[int]) -> list[Place]:
    """Every place of a tensor, in C order."""
    found: list[Place] = [()]
    for count in shape:
        found = [(*place, i) for place in found for i in range(count)]
    return found


def place_of(index: int, shape: Sequence[int]) -> Place:
    """The place of a flat index."""
    place: list[int] = []
    for count in reversed(shape):
        index, i = divmod(index, count)
        place.insert(0, i)
    return tuple(place)


def index_of(place: Sequence[int], shape: Sequence[int]) -> int:
    """The flat index of a place."""
    index = 0
    for i, count in zip(place, shape, strict=True):
        index = index * count + i
    return index


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
