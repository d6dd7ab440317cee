"""What there is to verify of a recorded step, layer by layer: `Tasks.of(layer)` makes its rows.

Every stored result of an operation is one task, every event another, and what stands behind the step, the
parameters and the rest of the state, are the last. A result is named by the event that handed it on; one that
no event names, as the sum of two float32 branches, by the event that came next and the operation.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from intnet.blocks.block_float import BlockTensor
from intnet.blocks.buckets import Packed
from intnet.numbers.qtensor import QTensor
from intnet.ops.bilinear import Copies
from intnet.spec import words as random
from intnet.trace import Event
from intnet.verify import blocks, draw, events, packed
from intnet.verify.events import Options, Place, compare
from intnet.verify.judge import FLOAT32, Judge
from intnet.verify.record import Back, Call, Happened, Joined, Record, entered
from intnet.verify.row import DIFFERS, Row
from intnet.verify.rules.rule import Rule
from intnet.verify.values import NotSpecified, Values, as_float64, is_float, is_stored, shape_of

AS_IT_COMES = "the very array that came"  # which is verified where it was made, and counts there
PARTS = range(4)  # results of one operation at most: sums stand ahead of what is made of them
STEP = 2 * len(PARTS)  # from one operation's place in the order of rows to the next
SHOWN = 3  # wrong elements of a vector that is compared whole


@dataclass
class Task:
    """One check. cost: about how many elements it goes through."""

    layer: str
    cost: int
    make: Callable[[], Row]
    order: int


def key(value: Any) -> int | None:
    """What a stored value is known by: its array."""
    if isinstance(value, QTensor):
        return id(value.codes)
    if isinstance(value, BlockTensor):
        return id(value.values)
    return id(value) if isinstance(value, np.ndarray | Packed) else None


class Tasks:
    """The tasks of one step, but for those of the state."""

    def __init__(self, record: Record, values: Values, judge: Judge, options: Options) -> None:
        self.record, self.values, self.judge, self.options = record, values, judge, options
        self.names: dict[int, Event] = {}
        for event in record.events:
            for value in (entered(event.source), event.result):
                at = key(value)
                if at is not None:
                    self.names.setdefault(at, event)
        self.made: set[int] = set()  # keys of stored results of operations
        self.tasks = list(self._all())

    def of(self, layer: str) -> list[Task]:
        """Of one layer, in the order of the step."""
        return [task for task in self.tasks if task.layer == layer]

    def layers(self) -> list[str]:
        """In the order in which they come up."""
        return list(dict.fromkeys(task.layer for task in self.tasks))

    def _all(self) -> Iterator[Task]:
        for what in self.record.happened:
            if isinstance(what, Joined):
                yield from self._result(what, 0, what.result)
                continue
            results = (what.result,) if isinstance(what, Call) else what.results
            op = what.op if isinstance(what, Call) else what.call.op
            if op.name != "cast":
                for k, value in enumerate(results):
                    yield from self._result(what, k, value)
            yield from self._events(what)

    # -- results --------------------------------------------------------------------------------

    def _result(self, what: Happened, k: int, value: Any) -> Iterator[Task]:
        if isinstance(value, np.floating):
            value = np.asarray(value)
        if not is_stored(value) or value is (what.gradient if isinstance(what, Back) else None):
            return
        at = key(value)
        assert at is not None
        if at in self.made:
            return
        self.made.add(at)
        layer, path = self._named(what, value)
        yield Task(
            layer,
            int(np.prod(shape_of(value))),
            lambda: self._check(what, k, value, layer, path),
            STEP * (what.number + 1) + len(PARTS) - k,
        )

    def _named(self, what: Happened, value: Any) -> tuple[str, str]:
        """(layer, path) of a result."""
        at = key(value)
        event = self.names.get(at) if at is not None else None
        if event is not None:
            return event.layer, event.path
        name = (
            "join"
            if isinstance(what, Joined)
            else what.op.name
            if isinstance(what, Call)
            else f"{what.call.op.name}'"
        )
        if name == "softmax_cross_entropy":
            return "loss", "loss"
        behind = (event for event in self.record.events if self.record.order(event) > what.number)
        after = next(behind, None)
        return ("" if after is None else after.layer), f"({name})"

    def _check(self, what: Happened, k: int, value: Any, layer: str, path: str) -> Row:
        """One stored result by its operation's rule."""
        row = Row(
            layer,
            path,
            self.judge.equation(path),
            [],
            int(np.prod(shape_of(value))),
            order=STEP * (what.number + 1) + len(PARTS) - k,
        )
        flat = draw.drawn(
            f"{self.options.seed}/{layer}/{path}/{what.number}", row.elements, self.options.elements
        )
        if self.options.elements is not None:
            flat = np.union1d(flat, draw.telling(value, None))
        try:
            rule = self._rule(what)
            row.specs += list(rule.specs(what, k))
            expected = self.values.made(what, k, flat)
            row.checked = len(flat)
            stored = self.values.at(value, flat)
            compare(row, flat, shape_of(value), expected, stored, lambda i: self._operands(what, k, flat[i]))
            self._by_definition(rule, what, k, flat, expected, row)
            if isinstance(what, Call) and what.op.name == "dropout":
                self._mask(what, layer, flat, row)
        except NotSpecified as why:
            row.not_specified(why)
        return row

    def _operands(self, what: Happened, k: int, at: Any) -> list[str]:
        return events.operands(self.values, what, k, int(at))

    def _rule(self, what: Happened) -> Any:
        if isinstance(what, Joined):
            return self.values.rule_of_joins
        return self.values.rule(what.op if isinstance(what, Call) else what.call.op)

    def _by_definition(
        self, rule: Rule, what: Happened, k: int, flat: np.ndarray, expected: list[Fraction], row: Row
    ) -> None:
        """Where sums were made by `chains`: one of them by the definition's own integers."""
        if isinstance(what, Joined) or not len(flat):
            return
        place = len(flat) // 2
        found = rule.by_definition(self.values, what, rule.part(what, k), int(flat[place]))
        if found is not None:
            row.chained, row.definition, row.sums = len(flat), 1, len(flat)
            row.specs.append("verify.chains")
            compare(row, flat[[place]], (row.elements,), [found], [expected[place]])

    def _mask(self, call: Call, layer: str, flat: np.ndarray, row: Row) -> None:
        """The words of a dropout, whose stream is 'layer/mask'."""
        given = call.attributes["words"].reshape(-1)[flat].tolist()
        drawn = [random.word(self.judge.seed, self.judge.now.step, f"{layer}/mask", i) for i in flat.tolist()]
        row.words, row.specs = len(flat), [*row.specs, "words.word"]
        compare(row, flat, (row.elements,), [Fraction(w) for w in drawn], [Fraction(w) for w in given])

    # -- events ---------------------------------------------------------------------------------

    def _events(self, what: Call | Back) -> Iterator[Task]:
        cast = (what.op if isinstance(what, Call) else what.call.op).name == "cast"
        given = (
            what.operands[0] if isinstance(what, Call) and what.operands else getattr(what, "gradient", None)
        )
        if cast and isinstance(what, Back) and what.events and what.events[0].path == "gW":
            given = self.judge.decayed(given, what.call.operands[0])
        for k, event in enumerate(what.events):
            before = what.events[k - 1] if k else None
            last = k == len(what.events) - 1
            place = Place(event, what, given, not cast)
            if cast and before is not None and event.path in (f"{before.path}q", f"{before.path[:-1]}n"):
                held = before.result if is_stored(before.result) else given
                place = Place(event, what, held, inner=False, unit=event.path.endswith("n"))
            out = (what.result if isinstance(what, Call) else what.results[0]) if cast and last else None
            size = int(np.prod(shape_of(event.result)))
            if self._is_named(place):
                continue
            order = STEP * self.record.order(event)
            yield Task(event.layer, size, self._check_event(place, out, order), order)

    def _is_named(self, place: Place) -> bool:
        """Whether the event only hands on a stored result that has a task under its name."""
        at = key(place.event.result)
        named = at is not None and at in self.made and self.names.get(at) is place.event
        return named and place.event.result is place.entered and place.event.format is None

    def _check_event(self, place: Place, out: Any, order: int) -> Callable[[], Row]:
        def make() -> Row:
            event = place.event
            if isinstance(event.result, Packed):
                row = packed.check(self.values, self.judge, place, self.options)
            elif place.what is not None and blocks.is_block(event):
                row = blocks.check(self.values, self.judge, place, out, self.options)
            elif self._as_it_comes(place):
                row = Row(event.layer, event.path, self.judge.equation(event.path), [AS_IT_COMES])
            else:
                row = events.check(self.values, self.judge, place, self.options)
            row.order = order
            if out is not None and row.state != DIFFERS:
                _handed_on(row, event, out)
            return row

        return make

    def _as_it_comes(self, place: Place) -> bool:
        """Whether a stored value is handed on as the very array that came, where that is the definition."""
        event = place.event
        if not is_stored(event.result) or event.result is not place.entered:
            return False
        try:
            return self.judge.format_of(event.layer, event.path) in (None, FLOAT32)
        except NotSpecified:
            return False


def _handed_on(row: Row, event: Event, out: Any) -> None:
    """What readers get is what the path holds, number by number."""
    if out is event.result or key(out) == key(event.result) or isinstance(out, Copies | BlockTensor):
        return
    if not is_stored(out) or not is_stored(event.result):
        row.not_specified(f"a {type(out).__name__} is handed on")
        return
    given, held = as_float64(out), as_float64(event.result)
    if is_float(out):
        held = held.astype(np.float32).astype(np.float64)
    wrong = np.flatnonzero((given != held).reshape(-1))[:SHOWN]
    if wrong.size:
        numbers = [[Fraction(v) for v in x.reshape(-1)[wrong].tolist()] for x in (held, given)]
        compare(row, wrong, shape_of(out), *numbers)
