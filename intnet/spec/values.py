"""What stands on a data path: integers, float32, exact numbers that are neither, blocks. Read `nets` next.

    Fixed      codes at one exponent           Quotient   exact rationals: a mean, an error over sigma
    Tensor     float32                         Roots      exact square roots: sigma before it is rounded
    Affine     codes in steps of a float32
    Blocks     codes, an exponent a block      Curve      exact tanh, sigmoid, silu or its slope of rationals

A method rounds `Roots` and `Curve` where they arise; all others may go from layer to layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from intnet.spec import float32 as floats
from intnet.spec.block_float import Blocks
from intnet.spec.tensor import Fixed, Tensor, add_fixed


class Quotient(NamedTuple):
    """Exact rationals that are neither codes nor float32."""

    shape: tuple[int, ...]
    values: list[Fraction]


class Roots(NamedTuple):
    """The square roots of exact rationals."""

    shape: tuple[int, ...]
    squares: list[Fraction]


class Curve(NamedTuple):
    """A function of exact rationals: 'tanh', 'sigmoid', 'silu', or 'slope', the derivative of silu."""

    shape: tuple[int, ...]
    name: str
    at: list[Fraction]


class Affine(NamedTuple):
    """Integers in steps of a float32: value = scale * code, rounded to float32."""

    shape: tuple[int, ...]
    codes: list[int]
    scale: Fraction

    def ints(self) -> Tensor:
        """The codes as a tensor of integers, for exact sums in code units."""
        return Tensor(self.shape, list(self.codes))

    def real(self) -> Tensor:
        """The values."""
        return Tensor(self.shape, [floats.mul32(self.scale, Fraction(code)) for code in self.codes])


Value = Fixed | Tensor | Quotient | Blocks | Affine
Expression = Value | Roots | Curve


class Copies(NamedTuple):
    """Two of a value: what the forward product reads, and what the products of the way back read."""

    forward: Value
    back: Value


class Bifurcated(NamedTuple):
    """Two copies of an error at a weight layer's output: what e4 is made of, and what gW and gb are."""

    down: Value
    weight: Value


def exact(value: Value) -> list[Fraction]:
    """The exact values, in C order."""
    return value.real().values if isinstance(value, Fixed | Blocks | Affine) else value.values


def to_float(value: Value) -> Tensor:
    """float32: as it is, or every element rounded once."""
    if isinstance(value, Tensor):
        return value
    return Tensor(value.shape, [floats.to_float32(v) for v in exact(value)])


def elements(value: Value) -> list[Any]:
    """Codes, or values."""
    return value.codes if isinstance(value, Fixed | Blocks | Affine) else value.values


def with_elements(value: Value, shape: tuple[int, ...], elements: list[Any]) -> Value:
    """Other codes, or other values, of the same kind."""
    if isinstance(value, Fixed):
        return Fixed(shape, elements, value.exponent)
    assert isinstance(value, Tensor | Quotient)
    return type(value)(shape, elements)


def reshaped(value: Value, shape: tuple[int, ...]) -> Value:
    """The same elements in another shape."""
    return with_elements(value, shape, elements(value))


def joined(a: Value, b: Value) -> Value:
    """a + b: of float32 one rounding an element, else exact."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return Tensor(a.shape, [floats.add32(x, y) for x, y in zip(a.values, b.values, strict=True)])
    if isinstance(a, Fixed) and isinstance(b, Fixed):
        return add_fixed(a, b)
    return Quotient(a.shape, [x + y for x, y in zip(exact(a), exact(b), strict=True)])


def times(a: Value, b: Value) -> Value:
    """a * b, element by element: of integers exact, with a float32 one rounding; it makes a float32 of the
    other."""
    if isinstance(a, Fixed) and isinstance(b, Fixed):
        return Fixed(a.shape, [x * y for x, y in zip(a.codes, b.codes, strict=True)], a.exponent + b.exponent)
    pairs = zip(to_float(a).values, to_float(b).values, strict=True)
    return Tensor(a.shape, [floats.mul32(x, y) for x, y in pairs])


def channels(per_channel: Sequence[Any], count: int) -> list[Any]:
    """One number a channel as one an element, of `count` elements; the last axis is the channel."""
    return list(per_channel) * (count // len(per_channel))
