"""Exact expressions that are not sums of integer tensors: pooled float tensors and square roots.

`FloatExact` is a float tensor over an integer, `Root` a vector of square roots. Both offer what
every expression does (see `exact/expressions.py`, which builds on this file): `round_to` and `log2_max`. Here
too: R(x) from an exact maximum, and the correct rounding of a Fraction to float32.
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import cache, cached_property
from math import isqrt

import numpy as np

from intnet.errors import ContainerError, FormatError, NumberError
from intnet.exact import lane as lanes
from intnet.exact import loops
from intnet.machine.jit import SMALL
from intnet.numbers.qtensor import Status, container, max_abs
from intnet.numbers.rounding import STOCHASTIC, UNLIMITED, Rounding, round_up

Codes = tuple[np.ndarray, Status]


def log2_round(value: Fraction) -> int:
    """n of R = 2**round(log2(value)), value > 0: 2^(2n-1) <= value^2 < 2^(2n+1). Never a tie.

    Defined by `spec/formats.py: log2_R`.
    """
    return log2_root(value.numerator**2, value.denominator**2)


def log2_root(num: int, den: int) -> int:
    """`log2_round` of the root of num / den: n = (floor(log2(num / den)) + 1) // 2."""
    e = num.bit_length() - den.bit_length()  # floor(log2) or one more
    reached = den << e <= num if e >= 0 else den <= num << -e
    return (e + reached) // 2


def floor_log2(value: Fraction) -> int:
    """The greatest n with 2**n <= value, value > 0."""
    n = value.numerator.bit_length() - value.denominator.bit_length()
    return n if Fraction(2) ** n <= value else n - 1


def finished(codes: np.ndarray, counts: np.ndarray, shape: tuple[int, ...], lo: int, hi: int) -> Codes:
    """Flat codes in their smallest type and in shape, and the sums of the blocks' counts."""
    saturated, inexact = int(counts[:, loops.SATURATED].sum()), int(counts[:, loops.INEXACT].sum())
    peak = int(counts[:, loops.PEAK].max())
    small = codes.astype(lanes.code_type(lo, hi, peak), copy=False)
    return small.reshape(shape), Status(saturated, inexact, codes.size, peak)


def by_rule(values: np.ndarray, exponent: int, rounding: Rounding, fine: int = 0) -> Codes:
    """Fractions / 2**exponent rounded by a user's rule, an element at a time, and limited; as `round_to`.

    Defined by `spec/rounding.py: decision`.
    """
    assert rounding.rule is not None
    step, kept, saturated, inexact = Fraction(2) ** exponent, [], 0, 0
    for value in values.reshape(-1):
        scaled = value / step
        lift = fine if fine and abs(scaled) >= 1 << fine else 0
        scaled /= 1 << lift
        floor = scaled.numerator // scaled.denominator
        code = (floor + rounding.rule(floor, scaled - floor)) << lift
        if abs(code) >= UNLIMITED <= rounding.high:
            raise ContainerError(f"{rounding.where or 'tensor'}: a rounded code is beyond 62 bits")
        kept.append(min(max(code, rounding.low), rounding.high))
        saturated += kept[-1] != code
        inexact += scaled != floor
    codes = np.array(kept, np.int64)
    peak = max_abs(codes)
    return codes.astype(container(peak)).reshape(values.shape), Status(saturated, inexact, len(kept), peak)


def beyond_float32(where: str = "") -> NumberError:
    """The error of a value that float32 does not reach."""
    return NumberError(f"{where + ': ' if where else ''}a value is beyond float32's range")


def fraction_to_float32(value: Fraction, where: str = "") -> np.float32:
    """A Fraction correctly rounded to float32 (ties to even); NumberError on overflow.

    Defined by `spec/float32.py: to_float32`.
    """
    if value == 0:
        return np.float32(0)
    magnitude = abs(value)
    e = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if magnitude < Fraction(2) ** e:
        e -= 1
    unit = max(e - 23, -149)
    code = round(magnitude / Fraction(2) ** unit)  # Python rounds a Fraction half to even
    if code * Fraction(2) ** unit >= Fraction(2) ** 128:
        raise beyond_float32(where)
    result = np.ldexp(np.float32(code), unit)
    return np.float32(-result if value < 0 else result)


class FloatExact:
    """value = a finite float32 or float64 tensor / den. NumberError for NaN or infinity where it is read.

    float32, from which training's values come, has quick lanes; other types but float64 become it.
    """

    relu = False

    def __init__(self, values: np.ndarray, den: int = 1, where: str = "") -> None:
        # of an array that was read from a file asarray makes a view: observers know arrays by identity
        plain = isinstance(values, np.ndarray) and values.dtype == np.float32 and values.flags.c_contiguous
        dtype = np.float64 if values.dtype == np.float64 else np.float32
        self.values: np.ndarray = values if plain else np.asarray(values, dtype, order="C")
        self.den = den
        self.where = where

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value."""
        return self.values.shape

    @cached_property
    def _greatest(self) -> float:
        if self.values.dtype == np.float64:
            return float(np.max(np.abs(self.values), initial=0.0))
        return lanes.top_float32(self.values)

    def _top(self) -> float:
        """max |values|; NumberError where one is not finite."""
        if not self._greatest < np.inf:
            raise self._not_finite()
        return self._greatest

    def _not_finite(self) -> NumberError:
        index = tuple(int(i) for i in np.argwhere(~np.isfinite(self.values))[0])
        return NumberError(f"{self.where + ': ' if self.where else ''}NaN or infinity at index {index}")

    def max(self) -> Fraction:
        """max |value|, exact."""
        if self.values.size == 0:
            raise NumberError("an empty tensor has no maximum")
        return Fraction(self._top()) / self.den

    def extremes(self) -> tuple[Fraction, Fraction]:
        """(max, min), exact."""
        self._top()
        return Fraction(float(self.values.max())) / self.den, Fraction(float(self.values.min())) / self.den

    def log2_max(self) -> int:
        """n of R(x) = 2**n; R(0) := 1."""
        top = self.max()
        return log2_round(top) if top else 0

    def round_to(self, exponent: int, rounding: Rounding, fine: int = 0) -> Codes:
        """As `Exact.round_to`. Defined by `spec/rounding.py: round_fraction`."""
        mode, bits, where = rounding.mode, rounding.bits, rounding.where
        lo, hi = rounding.low, rounding.high
        if rounding.rule is not None:
            return by_rule(self.fractions(), exponent, rounding, fine)
        room, most = 61 - self.den.bit_length() - fine, 63 if fine else 61
        if room + fine < 40:
            raise ContainerError(f"{where}: a float tensor over {self.den} leaves no room to round exactly")
        # a range of 40 bits or fewer clips whatever is shifted out; without one nothing may be
        open_range, single = max(-lo, hi) > 1 << 40, self.values.dtype == np.float32 and room >= 40
        # where the quick lane is exact at any size, its own pass finds what is not finite
        quick = single and self.den & (self.den - 1) == 0
        top = np.inf if quick and not open_range else self._top()
        if open_range and Fraction(top) >= Fraction(2) ** (most + exponent):
            raise ContainerError(f"{where or 'float tensor'}: a value needs codes of more than 62 bits")
        vectors = np.array([[0], [1], [0], [self.den]], np.int64)
        few = single and self.values.size < SMALL
        result = lanes.round_few(vectors, [self.values], [top], -exponent, rounding, fine) if few else None
        if result is not None:
            return result[0].reshape(self.shape), result[1]
        lane = lanes.prepare(vectors, [self.values], [top], -exponent) if single else None
        if lane is not None and lanes.rounds(lane, rounding):
            with np.errstate(over="ignore"):  # what is beyond float32 is clipped
                result = lanes.round_codes(lane, rounding, fine)
            if result is None:
                raise self._not_finite()
            return result[0].reshape(self.shape), result[1]
        self._top()
        patterns = self.values.reshape(-1).astype(np.float64).view(np.int64)
        out = np.empty(patterns.shape, np.int64)
        counts = np.zeros((loops.blocks_for(patterns.size), 4), np.int64)
        drawn = rounding.drawn(out.size)
        loops.round_floats(patterns, self.den, room, exponent, fine, mode, drawn, bits, lo, hi, out, counts)
        return finished(out, counts, self.shape, lo, hi)

    def to_float32(self) -> np.ndarray:
        """float32 array, each value rounded once; NumberError where it is not finite."""
        self._top()
        single = self.values.dtype == np.float32
        return self.values / np.float32(self.den) if single and self.den < 1 << 24 else self._divided()

    def _divided(self) -> np.ndarray:
        """The same by exact fractions: float32 holds neither float64 nor every integer of 25 bits."""
        flat = [fraction_to_float32(value, self.where) for value in self.fractions().reshape(-1)]
        return np.array(flat, np.float32).reshape(self.shape)

    def fractions(self) -> np.ndarray:
        """Array of Fractions: the exact values."""
        self._top()
        out = np.empty(self.shape, object)
        for index, value in np.ndenumerate(self.values):
            out[index] = Fraction(float(value)) / self.den
        return out


@cache
def _quarters_up(mode: int) -> list[list[int]]:
    """Whether floor + quarters/4 goes up, by the floor's parity and the quarters."""
    return [[int(round_up(mode, floor, quarters, 4, 0, 0)) for quarters in range(4)] for floor in (0, 1)]


class Root:
    """value = sqrt(numerators / den) * 2**exponent: a vector, one non-negative rational a channel.

    bound: a proven bound on the numerators, for reports (Python integers hold them)
    """

    relu = False

    def __init__(self, numerators: Sequence[int], den: int, exponent: int, bound: int = 0) -> None:
        self.numerators = [int(n) for n in numerators]
        self.bound = bound or max(self.numerators, default=0)
        self.den = den
        self.exponent = exponent

    @property
    def shape(self) -> tuple[int, ...]:
        """(C,)"""
        return (len(self.numerators),)

    def bits(self) -> int:
        """Bits that a numerator is proven to fit, sign included."""
        return self.bound.bit_length() + 1

    def round_to(self, exponent: int, rounding: Rounding, fine: int = 0) -> Codes:
        """As `Exact.round_to`; deterministic modes, decided by integer square roots.

        Defined by `spec/rounding.py: round_sqrt`.
        """
        mode, lo, hi, where = rounding.mode, rounding.low, rounding.high, rounding.where
        if rounding.rule is not None:
            raise FormatError(
                f"{where or 'root'}: a square root is rounded by comparing squares, and a rounding mode of "
                "one's own needs its fraction: take one of intnet's modes for this path"
            )
        if mode == STOCHASTIC or fine:
            raise FormatError(f"{where or 'root'}: a square root is rounded by a deterministic mode")
        shift = 2 * (self.exponent - exponent)
        up, den, ups = 2 + max(shift, 0), self.den << max(-shift, 0), _quarters_up(mode)
        kept, saturated, inexact = [], 0, 0
        for numerator in self.numerators:
            square, rest = divmod(numerator << up, den)
            twice = isqrt(square)  # floor(2 * root)
            # the quarters of root over its floor: 0 or 2 exactly, else 1 or 3 for all in between
            floor, quarters = twice >> 1, 2 * (twice & 1) + (rest != 0 or twice * twice != square)
            code = floor + ups[floor & 1][quarters]
            if code >= UNLIMITED <= hi:
                raise ContainerError(f"{where or 'root'}: a rounded code is beyond 62 bits")
            kept.append(min(max(code, lo), hi))
            saturated += kept[-1] != code
            inexact += quarters != 0
        codes = np.array(kept, np.int64)
        peak = max_abs(codes)
        return codes.astype(container(peak, where)), Status(saturated, inexact, len(codes), peak)

    def log2_max(self) -> int:
        """n of R(x) = 2**n; R(0) := 1. The square decides, so no root is taken."""
        top = max(self.numerators)
        return log2_root(top, self.den) + self.exponent if top else 0

    def fractions(self) -> np.ndarray:
        """Array of Fractions: the roots rounded down at 2**(exponent - 64)."""
        roots = [Fraction(isqrt((n << 128) // self.den)) for n in self.numerators]
        return np.array([r * Fraction(2) ** (self.exponent - 64) for r in roots], object)
