"""Operations on float32 and on blocks of four channels: what DYNASTY computes, image by image.

    blocks          float32, or codes, as codes with an exponent a block of four channels
    block_product   exact sums of W x over windows, of blocks, each rounded once to float32
    plus            x + b by channel, or x + y, in float32

Blocks of activations are of 4 images and 4 channels; of one image they are of 4 channels at a pixel, with the
widths that the map has for the first images of a batch. Float32 has one rounding an operation. How sums of
any exponents are exact is told in `digits.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod

import numpy as np

from intnet.errors import ConfigError, NumberError, ShapeError
from intnet.exact.blocks.block_float import blocks_shape, expand
from intnet.exact.blocks.block_loops import LEAST, SIDE
from intnet.export import digits
from intnet.export.values import BLOCKS, FLOAT32, Op, Pair, Shape, Value, fixed, floating, sums_shape

EXACT = 1 << 53  # integers that float64 has all of
MANTISSA = 1 << 24  # codes that float32 has all of
MOST = 1 << 9  # bits that blocks of one tensor are apart, and more
KERNEL = (0, 1)  # blocks of weights: (Cout, Cin) at each place of the kernel


def floats(x: Value, name: str) -> Value:
    """x; ShapeError where it is no float32."""
    if x.form != FLOAT32:
        raise ShapeError(f"{name}: it reads {x.form} where float32 is wanted")
    return x


@dataclass(frozen=True, eq=False)
class Blocks(Op):
    """Block float of float32: four channels at a pixel share e, the least integer with max|x| < 2^e.

    A code is x / 2^(e - b + 1) to nearest, ties to even, within +-(2^(b-1) - 1); of b = 0 it is 0, and so is
    a block below 2^-129. bits: int64, b of each block (H, W, C/4) or (C/4,), or one of all.
    Defined by `spec/block_float.py: quantize`.
    """

    bits: np.ndarray

    def value(self, *read: Value) -> Value:
        """The exponents that there may be, from what float32 reaches and of what all are multiples."""
        (x,) = read
        if x.form != FLOAT32 and fixed(x, self.name).greatest > MANTISSA:
            raise ConfigError(f"{self.name}: codes up to {x.greatest}, beyond those that float32 has all of")
        each, most = self.bits, int(self.bits.max(initial=0))
        if each.shape not in ((1,), blocks_of(x.shape)) or int(each.min(initial=0)) < 0 or most > SIDE * 2:
            raise ShapeError(f"{self.name}: bits {each.shape} up to {most} for a value of shape {x.shape}")
        limit = (1 << max(most, 1) - 1) - 1
        unit = max(x.exponent + 1, LEAST) - max(most, 1) + 1
        top = x.reach * Fraction(10, 9)  # what a block of 4 bits may round up: 4.5 to 5
        return Value(x.shape, unit, -limit, limit, limit, None, top, BLOCKS)

    def widths(self, shape: Shape) -> np.ndarray:
        """b of every block."""
        return np.broadcast_to(self.bits, blocks_of(shape))


def blocks_of(shape: Shape) -> Shape:
    """Blocks of an image or of a row: four channels each."""
    return (*shape[:-1], -(-shape[-1] // SIDE))


@dataclass(frozen=True, eq=False)
class BlockProduct(Op):
    """Exact sums of products of blocks, each rounded once to float32.

    weight: int64, codes of (Cout, Cin/groups, kh, kw) or (Cout, Cin), in units of 2^(exponent + step), steps:
    int64, a step a block of (Cout/4, Cin/4) at each place of the kernel, the least of them 0.
    Defined by `spec/block_float.py: exact`, `spec/block_float.py: rounded`.
    """

    weight: np.ndarray
    exponent: int
    steps: np.ndarray
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    groups: int = 1

    @property
    def kernel(self) -> Shape:
        """Rows and columns of a window; none of rows."""
        return self.weight.shape[2:]

    def value(self, *read: Value) -> Value:
        """ConfigError where float64 is not proven to hold the sums of a digit."""
        (x,) = read
        w = self.weight
        shape = sums_shape(self.name, x, BLOCKS, w, self.stride, self.padding, self.groups)
        lo, hi = int(self.steps.min()), int(self.steps.max())
        if self.steps.shape != blocks_shape(w.shape, KERNEL) or lo < 0 or hi > MOST:
            raise ShapeError(f"{self.name}: steps {self.steps.shape} of {lo}..{hi} for weights {w.shape}")
        terms = prod(w.shape[1:]) * len(self.digits)
        peak = terms << 2 * (digits.CODE + digits.DIGIT) - 1  # of both operands' digits
        if int(np.abs(w).max()) >= 1 << digits.CODE or peak > EXACT:
            raise ConfigError(f"{self.name}: {terms:,} products of 8 bits a sum: choose smaller layers")
        total = x.reach * self.greatest_row * Fraction(2) ** self.exponent
        return floating(shape, x.exponent + self.exponent, total, self.name)._replace(peak=peak)

    @cached_property
    def each(self) -> np.ndarray:
        """The step of every weight."""
        return expand(self.steps, self.weight.shape, KERNEL).astype(np.int64)

    @cached_property
    def digits(self) -> Mapping[int, np.ndarray]:
        """Weights by the digit that they count in: int64, zeros where it is another."""
        place, lifted = self.each // digits.DIGIT, self.weight << self.each % digits.DIGIT
        there = np.unique(place[lifted != 0]).tolist() or [0]
        return {d: np.where(place == d, lifted, 0) for d in there}

    @property
    def greatest_row(self) -> int:
        """Of the sums of magnitudes that an output has, in units of 2^exponent."""
        rows = [0] * len(self.weight)
        for d, lifted in self.digits.items():
            sums = np.abs(lifted).reshape(len(rows), -1).sum(1).tolist()
            rows = [row + (total << d * digits.DIGIT) for row, total in zip(rows, sums, strict=True)]
        return max(rows)


@dataclass(frozen=True, eq=False)
class Plus(Op):
    """x + b or x + y in float32; b: float32, one a channel.

    Defined by `spec/values.py: joined`.
    """

    b: np.ndarray | None = None

    def value(self, *read: Value) -> Value:
        """Multiples of the lesser unit."""
        terms = [floats(x, self.name) for x in read]
        shape = terms[0].shape
        if len(terms) != 1 + (self.b is None) or any(x.shape != shape for x in terms):
            raise ShapeError(f"{self.name}: it adds one value and b, or two of one shape")
        reach, units = sum((x.reach for x in terms), Fraction(0)), [x.exponent for x in terms]
        if self.b is not None:
            check_constants(self.name, shape, self.b)
            reach += Fraction(float(np.abs(self.b).max()))
            units.append(unit_of(self.b))
        return floating(shape, min(units), reach, self.name)


def check_constants(name: str, shape: Shape, *constants: np.ndarray) -> None:
    """ShapeError unless they are float32, one a channel; NumberError where one is not finite."""
    if any(v.dtype != np.float32 or v.shape != (shape[-1],) for v in constants):
        raise ShapeError(f"{name}: float32 constants, one a channel of {shape}")
    if not all(np.all(np.isfinite(v)) for v in constants):
        raise NumberError(f"{name}: NaN or infinity among its statistics or parameters")


def unit_of(v: np.ndarray) -> int:
    """The exponent of a power of two of which finite float32 are all multiples; of zeros that of 1."""
    return min((1 - Fraction(x).denominator.bit_length() for x in v.tolist()), default=0)
