"""Sigmoid, silu, silu's derivative and tanh of integer tensors as expressions, correctly rounded.

    sigmoid(x) = 1/(1 + e^-x)      silu(x) = x sigmoid(x)      slope(x) = s + x s (1 - s), s = sigmoid(x)
    tanh(x) = 2 sigmoid(2x) - 1

At every rational x but 0 all four are transcendental (Lindemann), so no tie and no grid point is ever met,
and any sufficient precision decides. Three stages, as Ziv's: float64 with a proven bound on its error, for
nearly all codes (`kernels/curves.py`); decimal arithmetic with more digits until both ends of the error
round alike, for the distinct codes that are left; and where |x| is so large that no grid can tell the curve
from its asymptote, a point between the two stands for it, exactly.

Defined by `spec/curves.py: curve_round`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np

from intnet.errors import ContainerError, FormatError
from intnet.exact.expressions import Exact, exact
from intnet.machine.buffers import empty
from intnet.numbers import fp32
from intnet.numbers.qtensor import QTensor, Status, container, max_abs
from intnet.numbers.rounding import OWN, STOCHASTIC, UNLIMITED, Rounding, round_up
from intnet.ops.kernels import curves

FINEST = 32  # fraction bits of a result at most
_DIGITS = 40  # to begin with
_NARROW = 1 << 30
_FARTHEST = 128  # |kx| up to which float64's error is proven
_EXPONENTS = 500  # of x and of the grid, up or down: powers of two that float64 has


@dataclass(frozen=True)
class Asymptote:
    """line * x + level, which the curve nears from above (side = 1) or from below (side = -1)."""

    line: int
    level: int
    side: int


@lru_cache(maxsize=64)
def far(unit: int) -> int:
    """The least whole F from which on (|x| + 1) e^-|x| < 2^(unit - 1), so that no curve is that far off.

    e > 271/100 decides.
    """
    f = 1
    while (f + 1) * 100**f << max(1 - unit, 0) >= 271**f << max(unit - 1, 0):
        f += 1
    return f


def _unit(step: int, exponent: int) -> int:
    """log2 of what every x, every level and every border between two codes is a multiple of."""
    return min(step, exponent - 1, 0)


class Curve:
    """The expression curve(x), x an integer tensor: made of s = sigmoid(kx), q = sigmoid(-kx) and kx."""

    relu = False
    k: ClassVar[int] = 1  # a power of two
    name: ClassVar[str]
    parts: ClassVar[curves.Parts]
    at_zero: ClassVar[Fraction]
    below: ClassVar[Asymptote]
    above: ClassVar[Asymptote]

    def __init__(self, x: QTensor) -> None:
        if abs(int(x.exponent)) > _EXPONENTS:
            raise ContainerError(f"{self.name} of codes at exponent {x.exponent}: beyond +-{_EXPONENTS}")
        self.x = x

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value."""
        return self.x.shape

    def to_float32(self) -> np.ndarray:
        """float32 curve of the codes rounded to float32: for formats that integer curves do not round to."""
        x = exact(self.x)
        assert isinstance(x, Exact)
        return self.of_floats(x.to_float32(self.name))

    @staticmethod
    def of_floats(x: np.ndarray) -> np.ndarray:
        """The curve at every element of a float32 array.

        Defined by `spec/elementary.py: sigmoid32`, `spec/elementary.py: silu32`,
        `spec/elementary.py: slope32`, `spec/elementary.py: tanh32`.
        """
        raise NotImplementedError("a curve defines of_floats")

    def log2_max(self) -> int:
        """Not defined here: curves feed fixed-resolution formats."""
        raise FormatError(f"{self.name} is quantized to a fixed resolution, not by its maximum")

    def fractions(self) -> np.ndarray:
        """Array of Fractions: the curve to 60 decimals, for inspection."""
        out = np.empty(self.shape, object)
        for index, x in np.ndenumerate(self.x.fractions()):
            out[index] = Fraction(self.decimal(x, 60)) if x else self.at_zero
        return out

    @classmethod
    def decimal(cls, x: Fraction, digits: int) -> Decimal:
        """The curve at x, within 10^(5 - digits) * (1 + |x|)."""
        with localcontext() as context:
            context.prec = digits
            given = Decimal(cls.k * x.numerator) / Decimal(x.denominator)
            t = (-abs(given)).exp()
            s, q = 1 / (1 + t), t / (1 + t)
            return cls.combine(given, *((s, q) if x >= 0 else (q, s)))

    @staticmethod
    def combine(x: Decimal, s: Decimal, q: Decimal) -> Decimal:
        """The curve, given kx, sigmoid(kx) and sigmoid(-kx)."""
        raise NotImplementedError("a curve defines combine")

    def round_to(self, exponent: int, rounding: Rounding, fine: int = 0) -> tuple[np.ndarray, Status]:
        """As `Exact.round_to`, for deterministic modes and at most FINEST fraction bits.

        Defined by `spec/curves.py: curve_round`.
        """
        mode, where = rounding.mode, rounding.where
        if mode in (STOCHASTIC, OWN) or fine or not -FINEST <= exponent <= _EXPONENTS:
            raise FormatError(
                f"{where or self.name}: integer {self.name} rounds deterministically, to at most {FINEST} "
                "fraction bits"
            )
        codes, step = np.ascontiguousarray(self.x.codes).reshape(-1), int(self.x.exponent)
        border = far(_unit(step, exponent))
        reach = (border + 1) << max(-exponent, 0)
        out = empty(codes.shape, np.int32 if reach < _NARROW else np.int64)
        farthest = float(min(self.k * border, _FARTHEST))
        left = curves.round_curve(codes, self.parts, self.k * 2.0**step, 2.0**-exponent, mode, farthest, out)
        if np.any(left):
            out = self._closed(codes, np.flatnonzero(left), out, exponent, mode, where)
        kept = np.clip(out, rounding.low, rounding.high)
        exact_zero = (self.at_zero / Fraction(2) ** exponent).denominator == 1
        inexact = int(np.count_nonzero(codes)) if exact_zero else codes.size
        peak = max_abs(kept)
        status = Status(int(np.count_nonzero(kept != out)), inexact, codes.size, peak)
        return kept.astype(container(peak)).reshape(self.shape), status

    def _closed(
        self, codes: np.ndarray, left: np.ndarray, out: np.ndarray, exponent: int, mode: int, where: str
    ) -> np.ndarray:
        """`out` with the elements `left`, which float64 did not decide."""
        step, given = int(self.x.exponent), codes[left].astype(np.int64)
        unit = _unit(step, exponent)
        border = min(math.ceil(far(unit) / Fraction(2) ** step), UNLIMITED)
        rounded = np.empty(given.shape, np.int64)
        for beside, asymptote in ((given >= border, self.above), (given <= -border, self.below)):
            if np.any(beside):
                rounded[beside] = self._beside(given[beside], asymptote, unit, exponent, mode, where)
        near = (given > -border) & (given < border)
        values, at = np.unique(given[near], return_inverse=True)
        found = [self._ziv(code, exponent, mode) for code in values.tolist()]
        rounded[near] = np.array(found, np.int64)[at.reshape(-1)]
        out = out.astype(np.int64) if max_abs(rounded) >= _NARROW else out
        out[left] = rounded
        return out

    def _beside(
        self, codes: np.ndarray, asymptote: Asymptote, unit: int, exponent: int, mode: int, where: str
    ) -> np.ndarray:
        """Codes of points between the asymptote and the next border of the rounding: half a unit off."""
        x = QTensor(codes, 0)
        line = asymptote.line << (int(self.x.exponent) - unit + 1)
        level = (asymptote.level << (1 - unit)) + asymptote.side
        points = Exact([(x, line)], unit - 1, level)
        return points.round_to(exponent, Rounding(mode, where=where or self.name))[0]

    def _ziv(self, code: int, exponent: int, mode: int) -> int:
        """The code, by as many digits as it takes."""
        x, digits = Fraction(code) * Fraction(2) ** int(self.x.exponent), _DIGITS
        if not x:
            return _round_fraction(self.at_zero / Fraction(2) ** exponent, mode)
        while True:
            y, error = Fraction(self.decimal(x, digits)), (1 + abs(x)) * Fraction(10) ** (5 - digits)
            low, high = (_round_fraction((y + d) / Fraction(2) ** exponent, mode) for d in (-error, error))
            if low == high:
                return low
            digits *= 2


def over_floats(loop: Callable[..., None], *arrays: np.ndarray) -> np.ndarray:
    """float32 result of a loop over the flat elements of arrays of one shape."""
    flat = [np.ascontiguousarray(array).reshape(-1) for array in arrays]
    out = empty(flat[0].shape, np.float32)
    loop(*flat, out)
    return out.reshape(arrays[0].shape)


def _round_fraction(value: Fraction, mode: int) -> int:
    """A Fraction rounded to an integer: a remainder counts by the quarter that it is in."""
    floor = value.numerator // value.denominator
    part = value - floor
    quarters = 0 if part == 0 else 1 if 2 * part < 1 else 2 if 2 * part == 1 else 3
    like = (floor & 1) - 2 * (floor < 0)  # its parity and its sign, all that counts
    return floor + bool(round_up(mode, like, quarters, 4, 0, 0))


class Sigmoid(Curve):
    """sigmoid(x): from 0 to 1. Defined by `spec/curves.py: curve_bounds`."""

    name, parts, at_zero = "sigmoid", curves.SIGMOID, Fraction(1, 2)
    below, above = Asymptote(0, 0, 1), Asymptote(0, 1, -1)

    @staticmethod
    def of_floats(x: np.ndarray) -> np.ndarray:
        """The curve at every element of a float32 array."""
        return over_floats(curves.sigmoid, x)

    @staticmethod
    def combine(x: Decimal, s: Decimal, q: Decimal) -> Decimal:
        """s."""
        return s


class Silu(Curve):
    """silu(x): below 0 where x is, never under -0.279. Defined by `spec/curves.py: curve_bounds`."""

    name, parts, at_zero = "silu", curves.SILU, Fraction(0)
    below, above = Asymptote(0, 0, -1), Asymptote(1, 0, -1)

    @staticmethod
    def of_floats(x: np.ndarray) -> np.ndarray:
        """The curve at every element of a float32 array."""
        return over_floats(curves.silu, x)

    @staticmethod
    def combine(x: Decimal, s: Decimal, q: Decimal) -> Decimal:
        """x*s."""
        return x * s


class Slope(Curve):
    """The derivative of silu: from -0.0999 to 1.0999. Defined by `spec/curves.py: curve_bounds`."""

    name, parts, at_zero = "silu's derivative", curves.SLOPE, Fraction(1, 2)
    below, above = Asymptote(0, 0, -1), Asymptote(0, 1, 1)

    @staticmethod
    def of_floats(x: np.ndarray) -> np.ndarray:
        """The curve at every element of a float32 array."""
        return over_floats(curves.silu_slope, x)

    @staticmethod
    def combine(x: Decimal, s: Decimal, q: Decimal) -> Decimal:
        """s + x*s*q."""
        return s + x * s * q


class Tanh(Curve):
    """tanh(x): from -1 to 1. Defined by `spec/curves.py: curve_bounds`."""

    name, parts, at_zero, k = "tanh", curves.TANH, Fraction(0), 2
    below, above = Asymptote(0, -1, 1), Asymptote(0, 1, -1)

    @staticmethod
    def of_floats(x: np.ndarray) -> np.ndarray:
        """The curve at every element of a float32 array."""
        return fp32.tanh(x)

    @staticmethod
    def combine(x: Decimal, s: Decimal, q: Decimal) -> Decimal:
        """s - q."""
        return s - q
