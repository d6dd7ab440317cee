"""What is known of a value, and what an operation of a program is: the base of `program.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from intnet.errors import ConfigError, ShapeError

Pair = tuple[int, int]
Shape = tuple[int, ...]
BITS = 63  # what an int64 holds beside its sign
ROOM = 61  # bits of each of two terms whose exponents are known by the image alone
CODES, FLOAT32, BLOCKS = "codes", "float32", "blocks"  # forms of a value
LEAST_FLOAT = -149  # log2 of what all float32 are multiples of
BEYOND = Fraction(2) ** 127  # float32 holds all below, and so does block float


class Value(NamedTuple):
    """What is known of a value: codes within lo..hi, and within +-peak all that is computed on the way.

    scale: None, or the place of the operation that chose a scale by the image: its exponent comes on top
    top: where there is a scale, or no code, a bound of what the codes stand for
    form: codes at one exponent; float32, which has no code; or blocks of four channels, of codes with an
    exponent a block. Of the latter two `exponent` is that of a unit of which all numbers are multiples
    """

    shape: Shape
    exponent: int
    lo: int
    hi: int
    peak: int
    scale: int | None = None
    top: Fraction = Fraction(0)
    form: str = CODES

    @property
    def bits(self) -> int:
        """Of a two's complement word that holds every code."""
        return word_bits(self.lo, self.hi)

    @property
    def greatest(self) -> int:
        """Of the codes' magnitudes."""
        return max(abs(self.lo), abs(self.hi))

    @property
    def reach(self) -> Fraction:
        """A bound of the magnitudes that the codes stand for."""
        return (
            self.top
            if self.scale is not None or self.form != CODES
            else self.greatest * Fraction(2) ** self.exponent
        )

    def told(self, of: str = "") -> str:
        """Its exponent as text; of: what stands ahead of the place that the scale is of."""
        if self.scale is None:
            return str(self.exponent)
        return f"{of}{self.scale}" + (
            f" {'+-'[self.exponent < 0]} {abs(self.exponent)}" if self.exponent else ""
        )


def word_bits(lo: int, hi: int) -> int:
    """Of the least two's complement word that has lo..hi."""
    return max((lo + 1 if lo < 0 else lo).bit_length(), hi.bit_length()) + 1


def bits_of(codes: np.ndarray) -> int:
    """Of the least that has them all; a curve without a step has no codes, and words of one bit."""
    return 1 if not codes.size else word_bits(int(codes.min()), int(codes.max()))


def proven(
    shape: Shape, exponent: int, ends: Sequence[int], peak: int = 0, like: Value | None = None,
    grows: Fraction | int = 1,
) -> Value:  # fmt: skip
    """A value of these ends; like: whose scale and form it has, of values so many times as great."""
    lo, hi = min(ends), max(ends)
    made = Value(shape, exponent, lo, hi, max(peak, abs(lo), abs(hi)))
    return made if like is None else made._replace(scale=like.scale, top=like.top * grows, form=like.form)


def floating(shape: Shape, exponent: int, reach: Fraction, name: str, roundings: int = 1) -> Value:
    """float32 up to `reach`, after so many roundings more, multiples of 2^exponent.

    ConfigError where it is not proven that float32 holds them.
    """
    top = reach * (1 + Fraction(1, 1 << 23)) ** roundings + roundings * Fraction(2) ** LEAST_FLOAT
    if not top < BEYOND:
        raise ConfigError(f"{name}: its float32 may be beyond 2^127, for images it may come to see")
    return Value(shape, max(exponent, LEAST_FLOAT), 0, 0, 0, None, top, FLOAT32)


def sides(shape: Shape, kernel: Shape, stride: Pair, padding: Pair, name: str) -> Pair:
    """Rows and columns of windows over an image."""
    found = [(shape[a] + 2 * padding[a] - kernel[a]) // stride[a] + 1 for a in (0, 1)]
    if min(found) < 1 or min(stride) < 1:
        raise ShapeError(f"{name}: a window {kernel} does not fit {shape}")
    return found[0], found[1]


def sums_shape(
    name: str, x: Value, form: str, w: np.ndarray, stride: Pair, padding: Pair, groups: int
) -> Shape:
    """Of sums of weights (Cout, Cin/groups, kh, kw) over windows of x, or (Cout, Cin) over all of it.

    ShapeError where x is not of this form, or weights do not fit it.
    """
    if x.form != form:
        raise ShapeError(f"{name}: it reads {x.form} where {form} are wanted")
    if w.ndim not in (2, 4) or len(x.shape) != w.ndim - 1 or x.shape[-1] != w.shape[1] * groups:
        raise ShapeError(f"{name}: weights {w.shape} do not fit a value of shape {x.shape}")
    return (*sides(x.shape, w.shape[2:], stride, padding, name), len(w)) if w.ndim == 4 else (len(w),)


def with_zero(x: Value) -> tuple[int, int]:
    """Its interval with 0 in it."""
    return min(x.lo, 0), max(x.hi, 0)


@dataclass(frozen=True, eq=False)
class Op:
    """One operation; name: 'layer/path' that it makes; reads: the places of what it reads."""

    name: str
    reads: tuple[int, ...]

    def value(self, *read: Value) -> Value:
        """What it makes of values like these; ShapeError where they are none for it."""
        raise NotImplementedError(f"{type(self).__name__} defines no value")


def fixed(x: Value, name: str) -> Value:
    """x; ShapeError where its exponent follows the image, or where it has no codes."""
    if x.scale is not None:
        raise ShapeError(f"{name}: it reads a value whose exponent follows the image")
    if x.form != CODES:
        raise ShapeError(f"{name}: it reads {x.form} where codes are wanted")
    return x


def by_channel(v: np.ndarray, x: Value, name: str) -> list[int]:
    """Constants of a value's channels, or one of all; ShapeError where they are others."""
    if v.ndim != 1 or len(v) not in (1, x.shape[-1]):
        raise ShapeError(f"{name}: {v.shape} constants for a value of shape {x.shape}")
    return [int(one) for one in v]
