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
Saturation and the coarse steps of large values count as noise, as they do in training. Histograms:
`histograms.py`.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from math import fsum, log10
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from intnet.errors import FormatError, NumberError
from intnet.exact.blocks.buckets import Codec, Packed
from intnet.exact.blocks.mx_blocks import Along
from intnet.exact.expressions import Exact, exact
from intnet.exact.sources import FloatExact, Root
from intnet.inspect import histograms
from intnet.inspect.histograms import Bins, Errors
from intnet.methods.trace import Event, PathTable
from intnet.numbers.ap_fixed import ApFixed
from intnet.numbers.formats import Constant, Flag, kind_of
from intnet.numbers.microscaling import BlockScaled, Microscaling
from intnet.numbers.qtensor import INT64_BOUND, QTensor, max_abs
from intnet.numbers.small_floats import Float, FloatTensor

BINS = 17  # at most, of a line of text


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
    mean_bits: that the format names, of blocks or buckets of several widths an element's mean
    buckets:  of a bucketed codec; its range is of codes, its zeros are values of 0
    range:    the least and the greatest code; a float path's least and greatest value
    sqnr_db:  see the module; None where no value changed or where nothing is quantized
    inexact:  elements that rounding or saturation changed
    exponent: the least and the greatest; of block float those of codes that are not 0, None where all are
    edges:    of the histograms' bins, from the lowest up, in units of the code; of float paths, block float
              and codecs in units of value; `before` counts the exact values in them, `after` the codes
    """

    layer: str
    path: str
    format: str
    short: str
    rounding: str | None
    nominal_bits: int | None
    mean_bits: float | None
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
    edges: list[float]
    before: list[int] | None
    after: list[int]
    buckets: Buckets | None = None


class Against(NamedTuple):
    """Of every element, flat: s = top / bottom, s - c = left / bottom; integers or float64, bottom above 0.

    Of a codec a, a - a~ and 1, in units of value.
    """

    top: np.ndarray
    left: np.ndarray
    bottom: np.ndarray | int


def measure(event: Event, most: int = BINS) -> Measured:
    """The row of one event, with histograms of at most so many bins, an odd number.

    FormatError for what is no event, for a result or a format that is not measured; NumberError for values
    that are not finite.
    """
    _check(event)
    event = _in_codes(event)
    table = PathTable()
    table(event)
    row = table.rows[event.layer, event.path]
    result, told = event.result, row.to_dict()
    codes = codes_of(result)
    if codes.dtype.kind == "f" and not np.all(np.isfinite(codes)):
        raise NumberError(
            f"{event.layer}, {event.path}: holds a NaN or infinity: training diverged, or the input did"
        )
    given = None if event.format is None else against(event, result)
    scaled, errors = (None, None) if given is None else _ratios(given, result)
    low, high = (codes.min(), codes.max()) if codes.size else (0, 0)
    shown = codes
    if isinstance(result, Packed):
        shown = result.load().astype(np.float64)
    elif _many_steps(result):
        shown = in_values(codes, result)
    binned, before, after = _histograms(event, shown, given, scaled, most)
    kind = int if row.integer else float
    return Measured(
        short=told.pop("format_short"),
        rounding=event.rounding,
        exponent=told.pop("exponents"),
        range=[kind(low), kind(high)],
        shape=list(result.shape),
        inexact=_inexact(result, errors),
        sqnr_db=None if scaled is None or errors is None else _sqnr(scaled, errors),
        edges=binned.edges,
        before=before,
        after=after,
        buckets=_buckets(result) if isinstance(result, Packed) else None,
        **told | {"zeros": int(np.count_nonzero(shown == 0))},
    )


def _in_codes(event: Event) -> Event:
    """Small floats and MX blocks as significands with exponents; NumberError where one is not finite."""
    result = event.result
    if not isinstance(result, FloatTensor | BlockScaled):
        return event
    q = result.to_qtensor()
    made = QTensor(q.codes, q.exponent, bound=q.bound, status=result.status)
    return replace(event, result=made, mean_bits=float(result.format.bits))


def _inexact(result: object, errors: np.ndarray | None) -> int | None:
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


def _histograms(
    event: Event, shown: np.ndarray, given: Against | None, scaled: np.ndarray | None, most: int
) -> tuple[Bins, list[int] | None, list[int]]:
    """(the bins, elements before rounding in them, elements after it); `shown` are codes or values."""
    others = shown[:0] if scaled is None else scaled
    in_codes = shown.dtype not in (np.float64, np.float32)
    shown = shown if in_codes else shown.astype(np.float64)
    greatest = max_abs(shown) if in_codes else float(np.abs(shown).max(initial=0))
    tops = [greatest, float(np.abs(others).max(initial=0))]
    signed = bool((shown < 0).any() or (others < 0).any())
    grain = max(1, int(np.gcd.reduce(np.abs(shown.reshape(-1).astype(object)), initial=0))) if in_codes else 0
    made = histograms.bins(max(tops), grain, most, signed)
    if isinstance(event.format, Flag) and made.width > 1 << event.format.fine:
        made = histograms.bins(max(tops), 1 << event.format.fine, most, signed)
    after = made.counts(shown)
    if given is None or scaled is None:
        return made, None, after
    return made, made.counts(given.top, given.bottom) if in_codes else made.counts(scaled), after


def errors_of(event: Event) -> Errors | None:
    """The errors of a rounded path, in steps of each element's own grid; None where nothing is rounded."""
    if event.format is None:
        return None
    event = _in_codes(event)
    given = against(event, event.result)
    top, left, bottom = given
    if isinstance(event.result, Packed):
        left, bottom = in_bucket_steps(event.result, left)
    elif isinstance(event.format, Flag):  # the coarse grid from its first code on
        fine = event.format.fine
        wide = np.abs(top) >= (bottom << fine)
        bottom = np.where(wide, bottom << fine, bottom)
    elif isinstance(event.format, Along):
        bottom = np.ldexp(1.0, event.format.own_steps(top))
    mean = fsum(_ratio(left, bottom).tolist()) / left.size if left.size else 0.0
    return histograms.errors(left, bottom, mean)


def in_bucket_steps(packed: Packed, errors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(left, bottom) of `errors` in steps of each element's own bucket; 0 where the bucket is constant."""
    codec = packed.codec
    levels = not codec.has_zero and codec.kind != "symmetric"
    count = np.array([codec.grade(b) for b in packed.widths.tolist()], np.float64) if levels else 1.0
    of = np.arange(errors.size) // codec.size(errors.size)
    constant = packed.scales[of] == 0
    left = np.where(constant, 0.0, errors * np.broadcast_to(count, packed.scales.shape)[of])
    return left, np.where(constant, 1.0, packed.scales[of].astype(np.float64))


def _many_steps(result: object) -> TypeGuard[QTensor]:
    """Whether elements have exponents of their own."""
    return isinstance(result, QTensor) and isinstance(result.exponent, np.ndarray)


def in_values(numbers: np.ndarray, result: QTensor) -> np.ndarray:
    """`numbers` of each element, in steps of its own grid, in units of value."""
    return np.ldexp(
        numbers.reshape(-1).astype(np.float64), np.broadcast_to(result.exponent, result.shape).reshape(-1)
    )


def _sqnr(scaled: np.ndarray, errors: np.ndarray) -> float | None:
    noise = fsum((errors * errors).tolist())
    signal = fsum((scaled * scaled).tolist())
    return round(10 * log10(signal / noise), 2) if noise and signal else None


_UNNAMED = Codec | Along | Float | Microscaling | ApFixed  # formats that `FORMATS` has not


def _check(event: object) -> None:
    """FormatError unless it is an event whose result, of what entered it, can be measured."""
    if not isinstance(event, Event):
        raise FormatError(
            f"measure reads an event, not a {type(event).__name__}: recorder.events['fc1/x0'] of a Recorder, "
            "or Event(layer, path, step, source, result, format) of a tensor by itself"
        )
    where, result = event.name, event.result
    if not isinstance(result, QTensor | FloatTensor | BlockScaled | np.ndarray | Packed | Exact | FloatExact):
        raise FormatError(f"{where}: a {type(result).__name__} is not measured: it has no codes of one step")
    if event.format is not None and not isinstance(event.format, _UNNAMED):
        kind_of(event.format)
    if event.format is not None and tuple(event.source.shape) != tuple(result.shape):
        raise FormatError(
            f"{where}: a result of shape {tuple(result.shape)} is none of {tuple(event.source.shape)} numbers"
        )


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
    kind: type = object if wide else np.int64
    total: np.ndarray = np.zeros(value.shape, kind)
    for (term, coefficient), shift in zip(value.terms, value.shifts, strict=True):
        factor: np.ndarray = np.asarray(coefficient).astype(kind)
        total = total + ((term.codes.astype(kind) * factor) << shift)
    total = total + np.asarray(value.offset).astype(kind)
    return np.maximum(total, 0) if value.relu else total, value.den


def _ratio(top: np.ndarray, bottom: np.ndarray | int) -> np.ndarray:
    """float64 of exact quotients, within 2 units in the last place."""
    return np.asarray(top / np.asarray(bottom), np.float64)


def compare(event: Event, result: QTensor | Packed) -> tuple[np.ndarray, np.ndarray]:
    """(s, s - c) of every element in float64, flat; `result` is what the event's format made.

    Of a codec (a, a - a~), in units of value.
    """
    top, left, bottom = against(event, result)
    return _ratio(top, bottom), _ratio(left, bottom)


def _ratios(given: Against, result: object) -> tuple[np.ndarray, np.ndarray]:
    """`compare`, in units of value where steps differ from element to element."""
    both = _ratio(given.top, given.bottom), _ratio(given.left, given.bottom)
    if not _many_steps(result):
        return both
    return in_values(both[0], result), in_values(both[1], result)


def against(event: Event, result: QTensor | Packed) -> Against:
    """What every element was, and what its code lost."""
    if isinstance(result, Packed):
        a = event.source.astype(np.float64).reshape(-1)
        return Against(a, a - result.load().reshape(-1), 1)
    source, codes = exact(event.source), result.codes
    if _many_steps(result):  # every element in steps of its own, or of its block
        if not isinstance(source, FloatExact) or source.den != 1:
            raise FormatError(
                f"{event.name}: what {event.format} does to sums is not measured: its elements "
                "have steps of their own, and it was given no float32"
            )
        top = np.ldexp(source.values.astype(np.float64), -np.asarray(result.exponent)).reshape(-1)
        return Against(top, top - codes.reshape(-1), 1)
    grid = int(np.max(result.exponent))
    if isinstance(event.format, Constant):
        grid = source.log2_max() - (event.format.dr.bit_length() - 1)
    if isinstance(source, Exact):
        numerator, den = numerators(source)
        return _against_exact(numerator, den, source.exponent - grid, codes)
    if isinstance(source, Root):
        values = (source.fractions() / Fraction(2) ** grid).reshape(-1).tolist()
        top = np.array([value.numerator for value in values], object)
        bottom = np.array([value.denominator for value in values], object)
        return Against(top, top - codes.reshape(-1).astype(object) * bottom, bottom)
    den = 1
    if isinstance(source, FloatExact):
        top, den = np.ldexp(source.values.astype(np.float64), -grid).reshape(-1), source.den
    else:  # a curve, such as tanh (`ops/`): near enough for a measure
        top = np.ldexp(source.to_float32().astype(np.float64), -grid).reshape(-1)
    return Against(top, top - codes.reshape(-1).astype(np.float64) * den, den)


def _against_exact(numerator: np.ndarray, den: np.ndarray | int, shift: int, codes: np.ndarray) -> Against:
    """s = numerator * 2^shift / den and s - codes, in integers."""
    up, down = max(shift, 0), max(-shift, 0)
    largest = max((max_abs(numerator) << up), (max_abs(codes) * max_abs(den)) << down, max_abs(den) << down)
    kind: type = np.int64 if 2 * largest < INT64_BOUND and numerator.dtype != object else object
    top, bottom = numerator.astype(kind) << up, np.asarray(den).astype(kind) << down
    left = top - codes.astype(kind) * bottom
    return Against(top.reshape(-1), left.reshape(-1), np.broadcast_to(bottom, codes.shape).reshape(-1))
