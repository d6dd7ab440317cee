"""Floats of few bits, many at a time: to the code what Python's are, small enough to try all of them.

A `World` has a short format and a long one. A value is an integer of steps of 2**-point, so exact sums and
products are integers, and rounding is to nearest, ties to even. Formats have subnormals and no greatest
exponent: whether a result is beyond one is asked of the rounded number. Zero has no sign.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.proofs.rules import source_of


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
class Small:
    """Long floats (or short ones, which are some of them); every sum is rounded to the long format."""

    world: World
    steps: np.ndarray

    def __add__(self, other: Small) -> Small:
        return Small(self.world, self.world.long.nearest(self.steps + other.steps))

    def __sub__(self, other: Small) -> Small:
        return Small(self.world, self.world.long.nearest(self.steps - other.steps))

    def __mul__(self, other: Small) -> Small:
        return Small(self.world, self.world.long.nearest(self.world.exact_product(self.steps, other.steps)))

    def __rmul__(self, two: int) -> Small:
        assert two == 2
        return Small(self.world, 2 * self.steps)

    def __mod__(self, other: Small) -> Small:
        return Small(self.world, self.steps % other.steps)

    def __abs__(self) -> Small:
        return Small(self.world, np.abs(self.steps))

    def __eq__(self, zero: object) -> np.ndarray:  # type: ignore[override]
        assert zero == 0
        return self.steps == 0

    def __ne__(self, zero: object) -> np.ndarray:  # type: ignore[override]
        return ~(self == zero)

    __hash__ = None  # type: ignore[assignment]

    def __ge__(self, beyond: float) -> np.ndarray:
        assert beyond == math.inf
        return np.zeros(self.steps.shape, bool)


def _ulp(a: Small) -> Small:
    long, size = a.world.long, np.abs(a.steps)
    return Small(a.world, long.value(long.pattern(size) + 1) - size)


def _nextafter(a: Small, towards: np.ndarray | float) -> Small:
    """The next long float, where an infinity of either sign lies."""
    long, outward = a.world.long, (a.steps > 0) == (np.asarray(towards) > 0)
    return Small(a.world, long.value(long.pattern(a.steps) + np.where(outward, 1, -1)))


def _copysign(size: float, sign: Small) -> np.ndarray:
    return np.copysign(size, sign.steps.astype(np.float64))


def _chosen(condition: np.ndarray, yes: Any, no: Small) -> Small:
    """`yes`, which may be an infinity that nothing reaches, where the condition holds."""
    if not isinstance(yes, Small):
        assert not condition.any()
        return no
    return Small(no.world, np.where(condition, yes.steps, no.steps))


MATH = SimpleNamespace(inf=math.inf, ulp=_ulp, nextafter=_nextafter, copysign=_copysign)
NUMPY = SimpleNamespace(float32=lambda a: Small(a.world, a.world.short.nearest(a.steps)))


class _Choices(ast.NodeTransformer):
    """`if condition: name = value` as a choice for each of many numbers at a time."""

    def visit_If(self, node: ast.If) -> ast.Assign:
        (only,) = node.body
        assert isinstance(only, ast.Assign) and not node.orelse
        (name,) = only.targets
        assert isinstance(name, ast.Name)
        chosen = ast.Name("_chosen", ast.Load())
        only.value = ast.Call(chosen, [node.test, only.value, ast.Name(name.id, ast.Load())], [])
        return only


def on_small_floats(function: Any) -> Callable[..., Any]:
    """The function, made from its source, with floats of few bits for Python's and NumPy's."""
    tree = ast.fix_missing_locations(_Choices().visit(ast.parse(source_of(function))))
    space: dict[str, Any] = {
        "math": MATH,
        "np": NUMPY,
        "float": lambda a: a,
        "_chosen": _chosen,
        "_BEYOND": math.inf,
        "Any": Any,
    }
    exec(compile(tree, f"<{function.__name__} on small floats>", "exec"), space)
    made: Callable[..., Any] = space[function.__name__]
    return made
