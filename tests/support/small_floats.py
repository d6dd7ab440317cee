"""Inputs that decide: every word of a small float, every tie, and their neighbours in float32 and float64."""

from __future__ import annotations

from fractions import Fraction
from math import isnan

import numpy as np

from intnet.exact.quantize import quantize
from intnet.numbers.formats import FixedPoint
from intnet.numbers.microscaling import Microscaling
from intnet.numbers.small_floats import FLOATS, Float
from intnet.spec import formats as fixed
from intnet.spec import microscaling
from intnet.spec import small_floats as spec

NARROW = {name: format for name, format in FLOATS.items() if format.bits <= 8}
MODES = ("ties_even", "ties_away", "ties_pos", "to_neg", "to_pos", "to_zero")
SPECIAL = np.array([0.0, np.inf, 1e300, 5e-324, 2.0**-149, 3.4e38, 1.0 + 2**-40])


def defined(format: Float) -> spec.Float:
    """The format as the definition has it."""
    return spec.Float(format.e, format.m, format.specials, format.overflow)


def grid(format: Float, dtype: type = np.float64, step: int = 1) -> np.ndarray:
    """Both signs of every `step`-th number and of three beyond the last, of the ties, of all neighbours."""
    numbers = [*range(0, format.greatest, step), *range(format.greatest - 2, format.greatest + 4)]
    whole = spec.Float(format.e, format.m)
    points = [spec.value(n, whole) for n in numbers]
    points += [(spec.value(n, whole) + spec.value(n + 1, whole)) / 2 for n in numbers]
    with np.errstate(over="ignore"):
        at: np.ndarray = np.array([float(point) for point in points]).astype(dtype)
        near = [at, np.nextafter(at, dtype(np.inf)), np.nextafter(at, dtype(0)), SPECIAL.astype(dtype)]
    found = np.concatenate(near)
    return np.concatenate([found, -found])


def exactly(x: float) -> spec.Value:
    """A float as the definition takes it."""
    if isnan(x):
        return "nan"
    if x in (np.inf, -np.inf):
        return "inf" if x > 0 else "-inf"
    return "-0" if x == 0 and np.signbit(x) else Fraction(x)


def sweep(format: Float, mode: str, x: np.ndarray, words: np.ndarray | None = None, bits: int = 32) -> None:
    """AssertionError where a word or a count of the library is not the definition's."""
    made = quantize(x, format, rounding=mode, words=words, word_bits=bits)
    drawn = [None] * x.size if words is None else [int(word) >> (32 - bits) for word in words]
    told = [
        spec.encode(exactly(value), defined(format), mode, word, bits)
        for value, word in zip(x.tolist(), drawn, strict=True)
    ]
    wrong = np.flatnonzero(made.words != [one.word for one in told])
    assert not wrong.size, (
        f"{format} {mode}: {x[wrong[0]]!r} is {made.words[wrong[0]]:#x}, not {told[wrong[0]]}"
    )
    assert made.status is not None
    assert made.status.saturated == sum(one.saturated for one in told)
    assert made.status.inexact == sum(one.inexact for one in told)


def element(format: Microscaling) -> microscaling.Element:
    """The element of a block's format as the definition has it."""
    of = format.element
    return fixed.FixedPoint(of.wl, of.fl, overflow=of.overflow) if isinstance(of, FixedPoint) else defined(of)
