"""Every rounding of a step: the format, the grid, the words and the codes of a path, by the definition."""

from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import Any

import numpy as np

from intnet.exact.expressions import Exact, FloatExact
from intnet.numbers.qtensor import QTensor
from intnet.spec import words as random
from intnet.spec.curves import curve_round, tanh_round
from intnet.spec.float32 import to_float32
from intnet.spec.formats import Direct, FixedPoint, Format
from intnet.spec.rounding import round_fraction
from intnet.spec.tensor import power
from intnet.trace import Event
from intnet.verify import chains, draw
from intnet.verify.grids import decided, grid_of
from intnet.verify.judge import FLOAT32, Judge
from intnet.verify.record import Back, Call, Joined
from intnet.verify.row import DIFFERS, Difference, Row, written
from intnet.verify.rules.rule import Source, shown
from intnet.verify.values import NotSpecified, Values, is_float, is_stored, shape_of


@dataclass(frozen=True)
class Options:
    """elements: of each path, None: all; seed: of the draw."""

    elements: int | None = 200
    seed: int = 0


@dataclass
class Place:
    """An event, the operation it lies in, and what enters it: a value, or a path inside an operation's rule.

    unit: the value is divided by its length first, AdaPT's (3.4)
    """

    event: Event
    what: Call | Back | None
    entered: Any
    inner: bool
    unit: bool = False

    @property
    def name(self) -> str:
        """'layer/path'."""
        return f"{self.event.layer}/{self.event.path}"


def source_of(values: Values, place: Place, flat: np.ndarray) -> Source:
    """The exact values that are rounded."""
    if place.inner:
        assert place.what is not None
        op = place.what.op if isinstance(place.what, Call) else place.what.call.op
        found: Source = values.rule(op).inner(values, place.what, place.event.path, flat)
        return found
    if place.unit:
        return Source(of_unit_length(place.entered, flat))
    return Source(values.at(place.entered, flat))


def of_unit_length(q: QTensor, flat: np.ndarray) -> list[Fraction]:
    """code / ||codes||_2 in float64, as `methods.adapt.unit_length` has it; the sum of squares is exact."""
    (squares,) = chains.whole_dots(q.codes.reshape(1, -1), q.codes.reshape(1, -1))
    norm = sqrt(float(squares)) if squares else 1.0
    return [Fraction(code / norm) for code in q.codes.reshape(-1)[flat].tolist()]


def told(expression: Any, flat: np.ndarray) -> list[Fraction] | None:
    """What an expression of the fast code's says of itself; None where it does not say."""
    if isinstance(expression, FloatExact):
        return [
            Fraction(*v.as_integer_ratio()) / expression.den
            for v in expression.values.reshape(-1)[flat].tolist()
        ]
    if not isinstance(expression, Exact):
        return None
    channels = expression.shape[-1]

    def of(part: Any, i: int) -> int:
        return int(part) if not isinstance(part, np.ndarray) or not part.ndim else int(part[i % channels])

    out = []
    for i in flat.tolist():
        total = of(expression.offset, i)
        for (term, coefficient), shift in zip(expression.terms, expression.shifts, strict=True):
            total += (of(coefficient, i) * int(term.codes.reshape(-1)[i])) << shift
        total = max(total, 0) if expression.relu else total
        out.append(Fraction(total, of(expression.den, i)) * power(expression.exponent))
    return out


def check(values: Values, judge: Judge, place: Place, options: Options) -> Row:
    """One event: NotSpecified, in the row, where no spec says what it should be."""
    event = place.event
    row = Row(event.layer, event.path, judge.equation(event.path), [], int(np.prod(shape_of(event.result))))
    try:
        form = judge.format_of(event.layer, event.path, place.entered)
        row.specs += entering(values, place)
        _check(values, judge, place, form, options, row)
    except NotSpecified as what:
        row.not_specified(what)
    return row


def entering(values: Values, place: Place) -> list[str]:
    """The spec functions that make what enters, where it is not stored."""
    if place.inner:
        assert place.what is not None
        op = place.what.op if isinstance(place.what, Call) else place.what.call.op
        return list(values.rule(op).inner_specs(place.what, place.event.path))
    made = values.record.origin(place.entered)
    if is_stored(place.entered) or made is None:
        return []
    what, k = made
    if isinstance(what, Joined):
        return list(values.rule_of_joins.specs(what, k))
    return list(values.rule(what.op if isinstance(what, Call) else what.call.op).specs(what, k))


def _check(values: Values, judge: Judge, place: Place, form: Any, options: Options, row: Row) -> None:
    event = place.event
    flat = draw.drawn(f"{options.seed}/{event.step}/{place.name}", row.elements, options.elements)
    if isinstance(form, Format) and isinstance(event.result, QTensor):
        _check_codes(values, judge, place, form, flat, options, row)
        return
    if form is not None and form != FLOAT32:
        raise NotSpecified(f"format {form}")
    row.specs.append("float32.to_float32" if is_float(event.result) else "exact")
    if place.unit:
        row.specs.insert(0, "methods.adapt.unit_length")
    if is_stored(event.result) and options.elements is not None:
        numbers = event.result.codes if isinstance(event.result, QTensor) else event.result
        flat = np.union1d(flat, draw.telling(numbers, None))
    exact = source_of(values, place, flat).values
    expected = [to_float32(v) for v in exact] if is_float(event.result) else exact
    stored = values.at(event.result, flat) if is_stored(event.result) else told(event.result, flat)
    if stored is None:
        raise NotSpecified(f"a {type(event.result).__name__} that is not stored")
    row.checked = len(flat)
    compare(row, flat, shape_of(event.result), expected, stored)


def compare(
    row: Row, flat: np.ndarray, shape: tuple[int, ...], expected: list[Fraction], stored: list[Fraction],
    trail: Any = None,
) -> None:  # fmt: skip
    """Note the first element that differs, and how many do."""
    wrong = [k for k, (a, b) in enumerate(zip(expected, stored, strict=True)) if a != b]
    if not wrong:
        return
    row.state, row.differing = DIFFERS, row.differing + len(wrong)
    if row.difference is None:
        first = wrong[0]
        index = [int(i) for i in np.unravel_index(int(flat[first]), shape)] if shape else []
        lines = [] if trail is None else trail(first)
        row.difference = Difference(index, written(expected[first]), written(stored[first]), lines)


def operands(values: Values, what: Call | Back | Joined, k: int, at: int) -> list[str]:
    """What the definition reads for element `at` of result k of an operation, a line each."""
    if isinstance(what, Joined):
        return shown(values, [("the first", what.first), ("the second", what.second)], what.result, at)
    rule = values.rule(what.op if isinstance(what, Call) else what.call.op)
    lines: list[str] = rule.operands(values, what, k, at)
    return lines


def inner_grid(values: Values, place: Place, form: Format) -> int:
    """The grid of a path inside an operation: of a curve that float32 took, by its extremes."""
    if isinstance(form, FixedPoint | Direct):
        return form.grid_of(0, 0)
    assert place.what is not None
    op = place.what.op if isinstance(place.what, Call) else place.what.call.op
    found, size = values.rule(op).inner_near(values, place.what, place.event.path)
    return decided(form, found, size, lambda flat: source_of(values, place, flat).values)


def _check_codes(
    values: Values, judge: Judge, place: Place, form: Format, flat: np.ndarray, options: Options, row: Row
) -> None:
    event, stream = place.event, judge.stream_of(place.event.layer, place.event.path)
    mode = "ties_even" if stream is None else "stochastic"
    q = event.result
    grid = inner_grid(values, place, form) if place.inner else grid_of(values, form, place.entered)
    exponent = form.exponent(grid)
    row.specs += [f"formats.{type(form).__name__}", *(["words.word"] if stream else [])]
    limits = form.limits()
    if options.elements is not None:
        flat = np.union1d(flat, draw.telling(q, None if limits is None else limits[:2]))
        if not place.inner and row.elements > len(flat):
            found, _ = values.near(place.entered)
            scaled = found / float(form.step(grid))
            words = event.words if stream is not None and event.words is not None else None
            flat = np.union1d(flat, draw.close(scaled, words))
    source = source_of(values, place, flat)
    drawn: list[Any] = [None] * len(flat)
    if stream is not None:
        drawn = [random.word(judge.seed, judge.now.step, stream, i) for i in flat.tolist()]
        row.words = len(flat)
    made = [_code(form, source, k, grid, mode, word) for k, word in enumerate(drawn)]
    row.checked = len(flat)
    unit = power(exponent)

    def trail(k: int) -> list[str]:
        origin = None if place.inner or is_stored(place.entered) else values.record.origin(place.entered)
        read = [] if origin is None else operands(values, *origin, int(flat[k]))
        return [*read, *explained(form, source, k, int(flat[k]), grid, mode, drawn[k], made[k], stream)]

    if int(np.max(np.abs(np.asarray(q.exponent) - exponent))) == 0:
        compare(row, flat, q.shape, [Fraction(c) for c in made], values.at(QTensor(q.codes, 0), flat), trail)
    else:  # codes that were kept as they are, on a coarser grid, stand for the same numbers
        compare(row, flat, q.shape, [c * unit for c in made], values.at(q, flat), trail)
    if event.words is not None and stream is not None:
        given = event.words.reshape(-1)[flat].tolist()
        compare(row, flat, q.shape, [Fraction(w) for w in drawn], [Fraction(w) for w in given])


def _code(form: Format, source: Source, k: int, grid: int, mode: str, word: int | None) -> int:
    x = source.values[k]
    if source.root:
        return form.root_code(x, grid, mode)[0]
    if source.curve:
        exponent = form.exponent(grid)
        code = tanh_round(x, exponent) if source.curve == "tanh" else curve_round(source.curve, x, exponent)
        return form.limited(int(code))[0]
    return form.code(x, grid, mode, word)[0]


def explained(
    form: Format,
    source: Source,
    k: int,
    at: int,
    grid: int,
    mode: str,
    word: int | None,
    code: int,
    stream: str | None,
) -> list[str]:
    """How the definition comes to a code, line by line; k: its place among those drawn, at: in the tensor."""
    x, step = source.values[k], form.step(grid)
    what = (
        "the square of the value"
        if source.root
        else f"the argument of {source.curve}"
        if source.curve
        else "the exact value"
    )
    lines = [f"{what}: {written(x)}", f"format {form}, grid {grid}: steps of {written(step)}"]
    if not source.root and not source.curve:
        scaled = x / step
        floor = round_fraction(scaled, "to_neg")
        lines.append(f"in steps: {written(scaled)}; floor {floor}, remainder {written(scaled - floor)}")
    if word is not None:
        lines.append(
            f"random word {word} of {stream!r}, element {at}: up where it is below the remainder * 2^32"
        )
    return [*lines, f"{mode} gives code {code}"]
