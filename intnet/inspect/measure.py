"""What quantization did to one data path in one step: widths, range, SQNR, histograms.

    measure(event) -> Measured

Let s be the exact value in units of the grid's step (value / 2**grid; CQ is scaled by dr/R(x) before) and c
the stored code. The signal to quantization noise ratio is

    SQNR = 10 log10( sum s^2 / sum (s - c)^2 )  dB

over all elements: the power of the value over the power of the error. In block float, in buckets and wherever
steps differ from element to element, both count in units of value: s * 2**grid and (s - c) * 2**grid, a and
a - a~. Every one is an
exact rational before it becomes a float64 (within 2 units in the last place); `math.fsum` adds the
squares, so the order does not matter. It has no value where no element changed.
Saturation and the coarse steps of large values count as noise, as they do in training.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import fsum, log10
from typing import Any

import numpy as np

from intnet.blocks.buckets import Packed
from intnet.errors import FormatError
from intnet.exact.expressions import Exact, exact
from intnet.exact.sources import FloatExact, Root
from intnet.numbers.formats import Constant
from intnet.numbers.qtensor import INT64_BOUND, QTensor, max_abs
from intnet.trace import Event, PathTable

BINS = 16


@dataclass(frozen=True)
class Buckets:
    """What a bucketed codec came to, whatever its nominal bits say.

    nominal_bits:   of its codes, of a mix two; distinct_codes: that there are of each width
    packed_bits:    bits an element that the tape holds, scales, zero points and widths included
    buckets:        of the tensor; promoted: those that took the wider codes, None where widths are not mixed
    constant:       those of one value, whose scale is 0
    scales:         the least and the greatest of the others, None where all are constant
    """

    nominal_bits: list[int]
    distinct_codes: list[int]
    packed_bits: float
    buckets: int
    promoted: int | None
    constant: int
    scales: list[float] | None


@dataclass(frozen=True)
class Measured:
    """One row of the table; None where a float path or an unrounded value has no such number.

    short:    the format as narrow tables write it
    buckets:  of a bucketed codec; its range is of codes, its zeros are values of 0
    range:    the least and the greatest code; a float path's least and greatest value
    sqnr_db:  see the module; None where no value changed or where nothing is quantized
    inexact:  elements that rounding or saturation changed
    exponent: the least and the greatest; of block float those of codes that are not 0, None where all are
    edges:    the histograms' range in units of the code; `before` counts the exact values in `BINS` equal
              bins, `after` the codes, both within +-edges; of block float and codecs in units of value
    """

    layer: str
    path: str
    format: str
    short: str
    rounding: str | None
    nominal_bits: int | None
    used_bits: int | None
    range_bits: float | None
    bound_bits: int | None
    exponent: list[int] | None
    range: list[float] | None
    shape: list[int]
    elements: int
    saturated: int | None
    inexact: int | None
    zeros: int
    sqnr_db: float | None
    edges: float
    before: list[int] | None
    after: list[int]
    buckets: Buckets | None = None


def measure(event: Event) -> Measured:
    """The row of one event."""
    table = PathTable()
    table(event)
    row = table.rows[event.layer, event.path]
    result = event.result
    integer = row.integer
    codes = codes_of(result)
    scaled, errors = compare(event, result) if event.format is not None else (None, None)
    low, high = (codes.min(), codes.max()) if codes.size else (0, 0)
    shown = codes.astype(np.float64)
    if scaled is not None and errors is not None and _many_steps(result):
        scaled, errors, shown = (in_values(numbers, result) for numbers in (scaled, errors, shown))
    if isinstance(result, Packed):
        shown = result.load().astype(np.float64)
    tops = [float(np.abs(numbers).max(initial=0)) for numbers in (shown, scaled) if numbers is not None]
    edge = max(tops)
    return Measured(
        event.layer,
        event.path,
        row.format,
        row.short,
        event.rounding,
        row.nominal,
        row.used if integer else None,
        round(row.fraction_bits, 1) if integer else None,
        row.bound or None,
        list(row.exponents) if row.exponents else None,
        [int(low), int(high)] if integer else [float(low), float(high)],
        list(result.shape),
        row.elements,
        row.saturated if integer else None,
        _inexact(result, errors),
        int(np.count_nonzero(shown == 0)),
        None if scaled is None or errors is None else _sqnr(scaled, errors),
        edge,
        None if scaled is None else histogram(scaled, edge),
        histogram(shown, edge),
        _buckets(result) if isinstance(result, Packed) else None,
    )


def _inexact(result: Any, errors: np.ndarray | None) -> int | None:
    if isinstance(result, Packed) and errors is not None:
        return int(np.count_nonzero(errors))
    return result.status.inexact if isinstance(result, QTensor) and result.status else None


def _buckets(packed: Packed) -> Buckets:
    codec = packed.codec
    varied = packed.scales[packed.scales != 0]
    return Buckets(
        list(codec.widths),
        [codec.distinct(bits) for bits in codec.widths],
        round(8 * packed.nbytes / packed.elements, 3),
        packed.scales.size,
        None if codec.mix is None else int(np.count_nonzero(packed.widths == codec.mix)),
        packed.scales.size - varied.size,
        [float(varied.min()), float(varied.max())] if varied.size else None,
    )


def histogram(values: np.ndarray, edge: float) -> list[int]:
    """Counts of `values` in `BINS` equal bins of [-edge, edge]."""
    counts, _ = np.histogram(values, BINS, (-edge or -1.0, edge or 1.0))
    return [int(count) for count in counts]


def _many_steps(result: Any) -> bool:
    """Whether elements have exponents of their own."""
    return isinstance(result, QTensor) and isinstance(result.exponent, np.ndarray)


def in_values(numbers: np.ndarray, result: QTensor) -> np.ndarray:
    """`numbers` of each element, in steps of its own grid, in units of value."""
    return np.ldexp(numbers.reshape(-1), np.broadcast_to(result.exponent, result.shape).reshape(-1))


def _sqnr(scaled: np.ndarray, errors: np.ndarray) -> float | None:
    noise = fsum((errors * errors).tolist())
    signal = fsum((scaled * scaled).tolist())
    return round(10 * log10(signal / noise), 2) if noise and signal else None


def codes_of(result: Any) -> np.ndarray:
    """Codes, or the values of a float path or of a quotient."""
    if isinstance(result, Exact):
        numerator, den = numerators(result)
        if not np.any(np.asarray(result.den) != 1):
            return numerator
        return _ratio(numerator, den) * 2.0**result.exponent
    if isinstance(result, FloatExact):
        return result.values.astype(np.float64) / result.den
    if isinstance(result, Packed):
        return result.codes()
    codes: np.ndarray = result.codes if isinstance(result, QTensor) else result
    return codes


def numerators(value: Exact) -> tuple[np.ndarray, np.ndarray | int]:
    """(numerators, denominators) of an expression: int64 where that holds them, else Python integers."""
    wide = value.bound() >= INT64_BOUND
    kind: Any = object if wide else np.int64
    total = np.zeros(value.shape, kind)
    for (term, coefficient), shift in zip(value.terms, value.shifts, strict=True):
        factor = np.asarray(coefficient).astype(kind)
        total = total + ((term.codes.astype(kind) * factor) << shift)
    total = total + np.asarray(value.offset).astype(kind)
    return np.maximum(total, 0) if value.relu else total, value.den


def _ratio(top: np.ndarray, bottom: Any) -> np.ndarray:
    """float64 of exact quotients, within 2 units in the last place."""
    return np.asarray(top / np.asarray(bottom), np.float64)


def compare(event: Event, result: QTensor | Packed) -> tuple[np.ndarray, np.ndarray]:
    """(s, s - c) of every element in float64, flat; `result` is what the event's format made.

    Of a codec (a, a - a~), in units of value.
    """
    if isinstance(result, Packed):
        given = event.source.astype(np.float64).reshape(-1)
        return given, given - result.load().reshape(-1)
    source, codes = exact(event.source), result.codes
    if _many_steps(result):  # every element in steps of its own, or of its block
        if not isinstance(source, FloatExact) or source.den != 1:
            raise FormatError(
                f"{event.layer}/{event.path}: what {event.format} does to sums is not measured: its elements "
                "have steps of their own, and it was given no float32"
            )
        scaled = np.ldexp(source.values.astype(np.float64), -np.asarray(result.exponent))
        return scaled.reshape(-1), (scaled - codes).reshape(-1)
    grid = int(np.max(result.exponent))
    if isinstance(event.format, Constant):
        grid = source.log2_max() - (event.format.dr.bit_length() - 1)
    if isinstance(source, Exact):
        top, den = numerators(source)
        return _exact_compare(top, den, source.exponent - grid, codes)
    if isinstance(source, Root):
        exact_values = source.fractions().reshape(-1) / Fraction(2) ** grid
        differences = exact_values - codes.reshape(-1).astype(object)
        return exact_values.astype(np.float64), differences.astype(np.float64)
    if isinstance(source, FloatExact):
        scaled = np.ldexp(source.values.astype(np.float64), -grid) / source.den
    else:  # a curve, such as tanh (`ops/`): near enough for a measure
        scaled = np.ldexp(source.to_float32().astype(np.float64), -grid)
    return scaled.reshape(-1), (scaled - codes).reshape(-1)


def _exact_compare(top: np.ndarray, den: Any, shift: int, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """s = top * 2^shift / den and s - codes: integers until the last division."""
    up, down = max(shift, 0), max(-shift, 0)
    largest = max((max_abs(top) << up), (max_abs(codes) * max_abs(den)) << down, max_abs(den) << down)
    kind: Any = np.int64 if 2 * largest < INT64_BOUND and top.dtype != object else object
    top, bottom = top.astype(kind) << up, np.asarray(den).astype(kind) << down
    left = top - codes.astype(kind) * bottom
    return _ratio(top, bottom).reshape(-1), _ratio(left, bottom).reshape(-1)
