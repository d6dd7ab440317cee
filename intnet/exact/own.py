"""Quantizers of formats of users' own, by their rules alone (`numbers/own_formats.py`).

Equidistant codes are rounded by the loops that intnet's own formats take (`round_to`); levels an element at a
time, by the rule itself.

Defined by `spec/formats.py: quantize`.
"""

from math import prod

import numpy as np

from intnet.errors import FormatError, NumberError
from intnet.exact.expressions import Exact, Expression
from intnet.exact.sources import FloatExact
from intnet.numbers import shares
from intnet.numbers.formats import Levels, OwnFormat, kind_of
from intnet.numbers.qtensor import INT64_BOUND, QTensor, Status, container, max_abs
from intnet.numbers.rounding import MODES, STOCHASTIC, Rounding
from intnet.spec.rounding import Mode
from intnet.spec.tensor import power


def quantize(x: Expression, format: OwnFormat, rounding: Rounding) -> QTensor:
    """`x` in a user's format; FormatError for what its rule does not say, or what no rule can be asked of."""
    kind_of(format)
    where = rounding.where or "quantize"
    if not isinstance(x, Exact | FloatExact):
        raise FormatError(f"{where}: {format} needs exact extremes, which a root or a curve has not")
    if 0 in x.shape:
        raise NumberError(f"{where}: an empty tensor of shape {x.shape} has no extremes for {format}")
    extremes = x.extremes()
    grid = format.grid(shares.extremes(*extremes) if rounding.of_batch else extremes)
    exponent = format.exponent(grid)
    if format.step(grid) != power(exponent):
        raise FormatError(f"{where}: {format} has steps of {format.step(grid)}, and code 1 is 2^{exponent}")
    if isinstance(format, Levels):
        codes, status = _by_level(x, format, grid, rounding)
        bound = max(map(abs, format.table[0]))
        return QTensor(codes, exponent, format, bound, status)
    limits = format.limits()
    if limits is None:
        codes, status = x.round_to(exponent, rounding)
        return QTensor(codes, exponent, format, status.peak, status)
    low, high, overflow = limits
    if not all(isinstance(end, int | np.integer) and abs(int(end)) < INT64_BOUND for end in (low, high)):
        raise FormatError(
            f"{where}: {format} has the limits {low} and {high}: whole numbers below 2^62 are needed"
        )
    if not low <= 0 <= high:
        raise FormatError(f"{where}: {format} has the limits {low} and {high}, between which 0 has to be")
    if overflow != "saturate":
        raise FormatError(f"{where}: a format of one's own saturates; {format} says {overflow!r}")
    codes, status = x.round_to(exponent, rounding.within(low, high))
    return QTensor(codes, exponent, format, max(-low, high), status)


def _by_level(
    x: Exact | FloatExact, format: Levels, grid: int, rounding: Rounding
) -> tuple[np.ndarray, Status]:
    """Each element by the rule."""
    mode: Mode = rounding.rule or next(name for name, code in MODES.items() if code == rounding.mode)
    words = rounding.drawn(prod(x.shape)) if rounding.mode == STOCHASTIC else None
    codes, saturated, inexact = [], 0, 0
    for i, value in enumerate(x.fractions().reshape(-1)):
        word = None if words is None else int(words[i]) >> (32 - rounding.bits)
        way = format.way(value, grid, mode, word, rounding.bits)
        codes.append(way.code)
        saturated += way.saturated
        inexact += way.decision.fraction != 0
    made = np.array(codes, np.int64)
    peak = max_abs(made)
    return made.astype(container(peak)).reshape(x.shape), Status(saturated, inexact, len(codes), peak)
