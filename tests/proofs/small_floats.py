"""Floats of few bits, many at a time: to the code what NumPy's are, small enough to try all of them.

A `World` has a short format and a long one. A value is an integer of steps of 2**-point, so exact sums and
products are integers, and rounding is to nearest, ties to even. Formats have subnormals and no greatest
exponent: whether a result is beyond one is asked of the rounded number. Zero has no sign.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np

from tests.proofs.rules import plain

SHORT, LONG, PATTERN = "float32", "float64", "int64"  # what the code calls them


@dataclass(frozen=True)
class Format:
    """Significands of so many bits, the last bit worth at least 2**least steps."""

    bits: int
    least: int = 0

    def nearest(self, n: np.ndarray) -> np.ndarray:
        """Integers of steps, each rounded."""
        size = np.abs(n)
        assert size.max(initial=0) < 1 << 53, "frexp is exact below"
        shift = np.maximum(np.frexp(size.astype(np.float64))[1].astype(np.int64) - self.bits, self.least)
        floor = size >> shift
        twice = 2 * (size - (floor << shift))
        up = (twice > 1 << shift) | ((twice == 1 << shift) & (floor & 1 == 1))
        return np.asarray(np.sign(n) * ((floor + up) << shift))

    def pattern(self, n: np.ndarray) -> np.ndarray:
        """The bits of an IEEE number: sign, exponent, fraction; least must be 0."""
        size = np.abs(n)
        shift = np.maximum(np.frexp(size.astype(np.float64))[1].astype(np.int64) - self.bits, 0)
        bits = (size >> shift) + (shift << (self.bits - 1))
        return np.where(n < 0, bits + np.iinfo(np.int64).min, bits)

    def value(self, pattern: np.ndarray) -> np.ndarray:
        """The other way round."""
        bits = pattern & np.iinfo(np.int64).max
        top = np.int64(1 << (self.bits - 1))
        shift = np.maximum(bits // top - 1, 0)
        size = np.where(bits < top, bits, (bits % top + top) << shift)
        return np.where(pattern < 0, -size, size)

    def numbers(self, exponents: int) -> np.ndarray:
        """0, the subnormals, and the normal numbers of so many exponents, of either sign."""
        half = 1 << (self.bits - 1)
        normal = [m << e for e in range(exponents) for m in range(half, 2 * half)]
        size = np.array([*range(1, half), *normal], np.int64) << self.least
        return np.concatenate([-size[::-1], np.zeros(1, np.int64), size])


@dataclass(frozen=True)
class World:
    """Two formats, over steps of 2**-point."""

    short: Format
    long: Format
    point: int

    def exact_product(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """In steps; none is lost."""
        product = a * b
        assert not np.any(product & ((1 << self.point) - 1)), "finer than a step"
        return product >> self.point


@dataclass
class Patterns:
    """The int64 view of long floats."""

    world: World
    bits: np.ndarray

    def __and__(self, mask: int) -> np.ndarray:
        return self.bits & mask

    def __add__(self, other: np.ndarray) -> Patterns:
        return Patterns(self.world, self.bits + other)

    def view(self, kind: str) -> Small:
        """As long floats again."""
        assert kind == LONG
        return Small(self.world, self.world.long.value(self.bits))


@dataclass
class Small:
    """Long floats (or short ones, which are some of them); every sum is rounded to the long format."""

    world: World
    steps: np.ndarray

    def __add__(self, other: Small) -> Small:
        return Small(self.world, self.world.long.nearest(self.steps + other.steps))

    def __sub__(self, other: Small) -> Small:
        return Small(self.world, self.world.long.nearest(self.steps - other.steps))

    def __gt__(self, zero: float) -> np.ndarray:
        assert zero == 0
        return self.steps > 0

    def __ne__(self, zero: object) -> np.ndarray:  # type: ignore[override]
        assert zero == 0
        return self.steps != 0

    def __getitem__(self, whole: tuple[()]) -> Small:
        assert whole == ()
        return self

    def view(self, kind: str) -> Patterns:
        """The bits."""
        assert kind == PATTERN
        return Patterns(self.world, self.world.long.pattern(self.steps))

    def astype(self, kind: str) -> Small:
        """Rounded to the short format."""
        assert kind == SHORT
        return Small(self.world, self.world.short.nearest(self.steps))


def _multiply(a: Small, b: Small, dtype: str) -> Small:
    assert dtype == LONG
    return Small(a.world, a.world.long.nearest(a.world.exact_product(a.steps, b.steps)))


def _asarray(a: Small, dtype: str = LONG) -> Small:
    assert dtype == LONG
    return a


def _where(condition: np.ndarray, yes: Any, no: Any) -> Any:
    if isinstance(yes, Patterns):
        return Patterns(yes.world, np.where(condition, yes.bits, no.bits))
    return np.where(condition, yes, no)


NUMPY = SimpleNamespace(
    float32=SHORT, float64=LONG, int64=PATTERN, multiply=_multiply, asarray=_asarray, where=_where,
    isfinite=lambda a: np.ones(a.steps.shape, bool), errstate=lambda **_: nullcontext(),
)  # fmt: skip


def on_small_floats(function: Any) -> Callable[..., Any]:
    """The code object of the function, with floats of few bits for NumPy's."""
    return FunctionType(plain(function).__code__, {"np": NUMPY, "__builtins__": __builtins__})
