"""Every rounding of a step: the format, the grid, the words and the codes of a path, by the definition."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import Any

import numpy as np

from intnet.exact.expressions import Exact
from intnet.exact.sources import FloatExact
from intnet.inspect.explain import value_at
from intnet.inspect.operands import Operands
from intnet.methods.trace import Event
from intnet.numbers.qtensor import QTensor
from intnet.spec.float32 import to_float32
from intnet.spec.formats import Direct, FixedPoint, Format
from intnet.spec.methods.step import curve_code
from intnet.spec.rounding import Mode, round_fraction
from intnet.spec.tensor import place_of, power
from intnet.verify import chains
from intnet.verify.judge import FLOAT32
from intnet.verify.record import What
from intnet.verify.row import NotSpecified, Row, written
from intnet.verify.rules.rule import Source
from intnet.verify.values import MARGIN, Near, Values, close, forward_copy, is_float, is_stored, telling

MANY = 20_000  # candidates for an extreme that are evaluated exactly


@dataclass
class Place:
    """An event, the operation it lies in, and what enters it: a value, or a path inside an operation's rule.

    unit: the value is divided by its length first, AdaPT's (3.4)
    """

    event: Event
    what: What
    entered: Any
    inner: bool
    unit: bool = False


def source_of(values: Values, place: Place, flat: np.ndarray) -> Source:
    """The exact values that are rounded."""
    if place.inner:
        found: Source = values.rule(place.what).inner(values, place.what, place.event.path, flat)
        return found
    if place.unit:
        return Source(of_unit_length(place.entered, flat))
    return Source(values.at(place.entered, flat))


def of_unit_length(q: QTensor, flat: np.ndarray) -> list[Fraction]:
    """code / ||codes||_2 in float64, as `methods.adapt.unit_length` has it; the sum of squares is exact."""
    (squares,) = chains.whole_dots(q.codes.reshape(1, -1), q.codes.reshape(1, -1))
    norm = sqrt(float(squares)) if squares else 1.0
    return [Fraction(code / norm) for code in q.codes.reshape(-1)[flat].tolist()]


def check(values: Values, place: Place, row: Row) -> None:
    """One event."""
    event = place.event
    form = values.judge.format_of(event.layer, event.path, place.entered)
    row.specs += entering(values, place)
    flat = values.drawn(f"{event.step}/{event.name}", row.elements)
    if isinstance(form, Format) and isinstance(event.result, QTensor):
        _check_codes(values, place, form, flat, row)
        return
    if form is not None and form != FLOAT32:
        raise NotSpecified(f"format {form}")
    row.specs.append("float32.to_float32" if is_float(event.result) else "exact")
    if place.unit:
        row.specs.insert(0, "methods.adapt.unit_length")
    if is_stored(event.result):
        flat = values.drawn(f"{event.step}/{event.name}", row.elements, event.result)
    exact = source_of(values, place, flat).values
    expected = [to_float32(v) for v in exact] if is_float(event.result) else exact
    stored = held(values, event, flat)
    row.checked = len(flat)
    row.compare(flat, tuple(event.result.shape), expected, stored)


def held(values: Values, event: Event, flat: np.ndarray) -> list[Fraction]:
    """The result of an event at flat indices, of an expression what it says of itself; or NotSpecified."""
    result = event.result
    if is_stored(result):
        return values.at(result, flat)
    if not isinstance(result, Exact | FloatExact):
        raise NotSpecified(f"a {type(result).__name__} that is not stored")
    shape, names = tuple(result.shape), Operands()
    told = (value_at(event, result, place_of(i, shape), names).value for i in flat.tolist())
    return [value for value in told if value is not None]


def entering(values: Values, place: Place) -> list[str]:
    """The spec functions that make what enters, where it is not stored."""
    if place.inner:
        return list(values.rule(place.what).inner_specs(place.what, place.event.path))
    made = values.record.origin(place.entered)
    if is_stored(place.entered) or made is None:
        return []
    return list(values.rule(made[0]).specs(*made))


def _check_codes(values: Values, place: Place, form: Format, flat: np.ndarray, row: Row) -> None:
    event, judge, q = place.event, values.judge, place.event.result
    stream = judge.stream_of(event.layer, event.path)
    mode = judge.mode_of(event.layer, event.path) if stream is None else "stochastic"
    grid = inner_grid(values, place, form) if place.inner else grid_of(values, form, place.entered)
    exponent = form.exponent(grid)
    row.specs += [f"formats.{type(form).__name__}", *(["words.word"] if stream else [])]
    limits = form.limits()
    if values.options.elements is not None:
        flat = np.union1d(flat, telling(q, None if limits is None else limits[:2]))
        if not place.inner and row.elements > len(flat):
            scaled = values.near(place.entered).value / float(form.step(grid))
            flat = np.union1d(flat, close(scaled, None if stream is None else event.words))
    source = source_of(values, place, flat)
    drawn: list[Any] = [None] * len(flat) if stream is None else values.words(stream, flat, row)
    made = [_code(form, source, x, grid, mode, word) for x, word in zip(source.values, drawn, strict=True)]
    row.checked = len(flat)
    unit = power(exponent)

    def trail(k: int) -> list[str]:
        origin = None if place.inner or is_stored(place.entered) else values.record.origin(place.entered)
        at, lines = int(flat[k]), []
        if origin is not None:
            lines += values.rule(origin[0]).operands(values, *origin, at)
        lines += explained(form, source, source.values[k], grid)
        if stream is not None:
            lines.append(
                f"random word {drawn[k]} of {stream!r}, element {at}: "
                "up where it is below the remainder * 2^32"
            )
        return [*lines, f"{getattr(mode, '__name__', mode)} gives code {made[k]}"]

    if int(np.max(np.abs(np.asarray(q.exponent) - exponent))) == 0:
        row.compare(flat, q.shape, made, q.codes.reshape(-1)[flat].tolist(), trail)
    else:  # codes that were kept as they are, on a coarser grid, stand for the same numbers
        row.compare(flat, q.shape, [code * unit for code in made], values.at(q, flat), trail)
    if event.words is not None and stream is not None:
        row.compare(flat, q.shape, drawn, event.words.reshape(-1)[flat].tolist())


def grid_of(values: Values, form: Format, value: Any) -> int:
    """`form.grid_of` the exact extremes of a value.

    Of an expression float64 gives bounds of both; a grid grows with them, so where the bounds' grids agree,
    that is the grid. Else every element that may be an extreme is evaluated exactly.
    """
    if isinstance(form, FixedPoint | Direct):
        return form.grid_of(0, 0)
    value = forward_copy(value)
    if is_stored(value) and not (isinstance(value, QTensor) and isinstance(value.exponent, np.ndarray)):
        flat = value.codes.reshape(-1) if isinstance(value, QTensor) else np.asarray(value).reshape(-1)
        least, greatest = values.at(value, np.array([flat.argmin(), flat.argmax()]))
        return form.grid((least, greatest))
    return decided(form, values.near(value), lambda flat: values.at(value, flat))


def decided(form: Format, near: Near, exact_at: Callable[[np.ndarray], list[Fraction]]) -> int:
    """The same of float64 numbers, and of what makes the exact ones at flat indices."""
    off = MARGIN * near.size
    low, high = (near.value - off).reshape(-1), (near.value + off).reshape(-1)
    inner = form.grid_of(Fraction(min(high.min(), 0.0)), Fraction(max(low.max(), 0.0)))
    outer = form.grid_of(Fraction(min(low.min(), 0.0)), Fraction(max(high.max(), 0.0)))
    nonzero = high.min() < 0 or low.max() > 0
    if nonzero and inner == outer:
        return outer
    may = np.flatnonzero((low <= high.min()) | (high >= low.max()))
    assert may.size <= MANY, f"{may.size} elements may be the greatest"
    exact = exact_at(may)
    return form.grid(exact)


def inner_grid(values: Values, place: Place, form: Format) -> int:
    """The grid of a path inside an operation: of a curve that float32 took, by its extremes."""
    if isinstance(form, FixedPoint | Direct):
        return form.grid_of(0, 0)
    near = values.rule(place.what).inner_near(values, place.what, place.event.path)
    return decided(form, near, lambda flat: source_of(values, place, flat).values)


def _code(form: Format, source: Source, x: Fraction, grid: int, mode: Mode, word: int | None) -> int:
    if source.root:
        return form.root_code(x, grid, mode)[0]
    if source.curve:
        return form.limited(curve_code(source.curve, x, form.exponent(grid), mode))[0]
    return form.code(x, grid, mode, word)[0]


def explained(form: Format, source: Source, x: Fraction, grid: int) -> list[str]:
    """What enters a rounding and where the grid has it, line by line."""
    curve = f"the argument of {source.curve}" if source.curve else "the exact value"
    step, what = form.step(grid), "the square of the value" if source.root else curve
    lines = [f"{what}: {written(x)}", f"format {form}, grid {grid}: steps of {written(step)}"]
    if source.root or source.curve:
        return lines
    scaled = x / step
    floor = round_fraction(scaled, "to_neg")
    return [*lines, f"in steps: {written(scaled)}; floor {floor}, remainder {written(scaled - floor)}"]
