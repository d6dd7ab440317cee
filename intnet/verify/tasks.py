"""What there is to verify of a recorded step: `Step(taken, options).rows(layer)`.

Every stored result of an operation is one task, every event another, and what stands after the step, the
parameters and the rest of the state, are the last. A result is named by the event that handed it on; one that
no event names, as the sum of two float32 branches, by the event that came next and the operation.
"""

from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from intnet.exact.blocks.affine import AffineTensor
from intnet.exact.blocks.block_float import BlockTensor
from intnet.exact.blocks.buckets import Packed
from intnet.exact.blocks.mx_blocks import Along
from intnet.methods.trace import Event
from intnet.numbers.formats import BlockFloat
from intnet.numbers.qtensor import QTensor
from intnet.ops.products import Bifurcated, Copies
from intnet.verify import blocks, events, inferred, mx_blocks, packed
from intnet.verify.events import Place
from intnet.verify.judge import FLOAT32, Judge
from intnet.verify.moved import Moved
from intnet.verify.record import Back, Call, What, entered
from intnet.verify.remembered import Remembered
from intnet.verify.row import DIFFERS, PARTS, STEP, NotSpecified, Options, Row, Task
from intnet.verify.rules import RULES
from intnet.verify.taken import Taken
from intnet.verify.values import Decayed, Values, as_float64, decoded, forget, is_float, is_stored, shape_of

AS_IT_COMES = "the very array that came"  # which is verified where it was made, and counts there
SHOWN = 3  # wrong elements of a vector that is compared whole


class Step:
    """A recorded step, ready to be verified."""

    def __init__(self, taken: Taken, options: Options) -> None:
        self.taken, self.options = taken, options
        forget()
        for event in taken.record.events:
            if isinstance(event.result, Packed):
                decoded(event.result)
        values = Values(taken, Judge(taken), options, RULES)
        self.tasks: list[Task] = [*Happenings(values).tasks()]
        if taken.inference is not None:
            self.tasks += inferred.tasks(values)
        else:
            moved = Moved(values)
            self.tasks += [*moved.tasks(), Remembered(values, moved.gradients).task()]
            self.tasks += blocks.tasks(values)

    def layers(self) -> list[str]:
        """In the order in which they come up."""
        return list(dict.fromkeys(task.row.layer for task in self.tasks))

    def cost(self, layer: str) -> int:
        """About how many elements its tasks go through."""
        return sum(task.cost for task in self.tasks if task.row.layer == layer)

    def rows(self, layer: str) -> list[Row]:
        """Of one layer, in the order of the step."""
        made = (task.make() for task in self.tasks if task.row.layer == layer)
        return sorted(made, key=lambda row: row.order)


def key(value: Any) -> int | None:
    """What a stored value is known by: its array."""
    if isinstance(value, QTensor | BlockTensor):
        return id(value.codes)
    if isinstance(value, AffineTensor):
        return id(value.codes.codes)
    return id(value) if isinstance(value, np.ndarray | Packed) else None


class Happenings:
    """The tasks of all that happened in the step, but for those of the state."""

    def __init__(self, values: Values) -> None:
        self.record, self.values, self.judge = values.record, values, values.judge
        self.names: dict[int, Event] = {}
        for event in self.record.events:
            for value in (entered(event.source), event.result):
                at = key(value)
                if at is not None:
                    self.names.setdefault(at, event)
        self.made: set[int] = set()  # keys of stored results of operations

    def tasks(self) -> Iterator[Task]:
        """All of them."""
        for what in self.record.happened:
            if what.op.name != "cast":
                for k, value in enumerate(what.results):
                    yield from self._result(what, k, value)
            yield from self._events(what)

    # -- results --------------------------------------------------------------------------------

    def _result(self, what: What, k: int, value: Any) -> Iterator[Task]:
        if isinstance(value, np.floating):
            value = np.asarray(value)
        if not is_stored(value) or value is (what.gradient if isinstance(what, Back) else None):
            return
        at = key(value)
        assert at is not None
        if at in self.made:
            return
        self.made.add(at)
        layer, path = self._named(what, at)
        size, order = int(np.prod(shape_of(value))), STEP * (what.number + 1) + len(PARTS) - k
        row = Row(layer, path, self.judge.equation(layer, path), [], size, order=order)
        yield Task(row, size, partial(self._check, what, k, value))

    def _named(self, what: What, at: int) -> tuple[str, str]:
        """(layer, path) of a result."""
        if at in self.names:
            return self.names[at].layer, self.names[at].path
        name = f"{what.op.name}'" if isinstance(what, Back) else "join" if what.joins else what.op.name
        if name == "softmax_cross_entropy":
            return "loss", "loss"
        behind = (event for event in self.record.events if self.record.order(event) > what.number)
        after = next(behind, None)
        return ("" if after is None else after.layer), f"({name})"

    def _check(self, what: What, k: int, value: Any, row: Row) -> None:
        """One stored result by its operation's rule."""
        flat = self.values.drawn(f"{row.name}/{what.number}", row.elements, value)
        rule = self.values.rule(what)
        row.specs += rule.specs(what, k)
        expected = self.values.made(what, k, flat)
        row.checked = len(flat)
        stored = self.values.at(value, flat)
        row.compare(
            flat, shape_of(value), expected, stored,
            lambda i: rule.operands(self.values, what, k, int(flat[i])),
        )  # fmt: skip
        self._by_definition(rule, what, k, flat, expected, row)
        if isinstance(what, Call) and what.op.name == "dropout":
            self._mask(what, flat, row)

    def _by_definition(
        self, rule: Any, what: What, k: int, flat: np.ndarray, expected: list[Fraction], row: Row
    ) -> None:
        """Where sums were made by `chains`: one of them by the definition's own integers."""
        if isinstance(what, Call) or not len(flat):
            return
        place = len(flat) // 2
        found = rule.by_definition(self.values, what, k, int(flat[place]))
        if found is not None:
            row.chained, row.definition, row.sums = len(flat), 1, len(flat)
            row.specs.append("verify.chains")
            row.compare(flat[[place]], (row.elements,), [found], [expected[place]])

    def _mask(self, call: Call, flat: np.ndarray, row: Row) -> None:
        """The words of a dropout, whose stream is 'layer/mask'."""
        drawn = self.values.words(f"{row.layer}/mask", flat, row)
        row.specs.append("words.word")
        given = call.attributes["words"].reshape(-1)[flat].tolist()
        row.compare(flat, (row.elements,), drawn, given)

    # -- events ---------------------------------------------------------------------------------

    def _events(self, what: What) -> Iterator[Task]:
        cast = what.op.name == "cast"
        given = what.given
        if cast and isinstance(what, Back) and what.events and what.events[0].path == "gW":
            decay = getattr(self.judge.settings, "weight_decay", None)
            if isinstance(decay, int):  # WAGEUBN's, which joins the gradient where it is rounded
                given = Decayed(given, what.call.operands[0], decay)
        for k, event in enumerate(what.events):
            before = what.events[k - 1] if k else None
            last = k == len(what.events) - 1
            place = Place(event, what, given, not cast)
            if cast and before is not None and event.path in (f"{before.path}q", f"{before.path[:-1]}n"):
                held = before.result if is_stored(before.result) else given
                place = Place(event, what, held, inner=False, unit=event.path.endswith("n"))
            if self._is_named(place):
                continue
            size, order = int(np.prod(shape_of(event.result))), STEP * self.record.order(event)
            row = Row(
                event.layer, event.path, self.judge.equation(event.layer, event.path), [], size, order=order
            )
            out = _out(event, what.results[0], last) if cast else None
            yield Task(row, size, partial(self._check_event, place, out))

    def _is_named(self, place: Place) -> bool:
        """Whether the event only hands on a stored result that has a task under its name."""
        at = key(place.event.result)
        named = at is not None and at in self.made and self.names.get(at) is place.event
        return named and place.event.result is place.entered and place.event.format is None

    def _check_event(self, place: Place, out: Any, row: Row) -> None:
        event = place.event
        try:
            if isinstance(event.result, Packed):
                packed.check(self.values, place, row)
            elif isinstance(event.format, BlockFloat):
                blocks.check(self.values, place, out, row)
            elif isinstance(event.format, Along):
                mx_blocks.check(self.values, place, row)
            elif self._as_it_comes(place):
                row.specs, row.elements = [AS_IT_COMES], 0
            else:
                events.check(self.values, place, row)
        finally:
            if out is not None and row.state != DIFFERS:
                _handed_on(row, event, out)

    def _as_it_comes(self, place: Place) -> bool:
        """Whether a stored value is handed on as the very array that came, where that is the definition."""
        event = place.event
        if not is_stored(event.result) or event.result is not place.entered:
            return False
        try:
            return self.judge.format_of(event.layer, event.path) in (None, FLOAT32)
        except NotSpecified:
            return False


def _out(event: Event, out: Any, last: bool) -> Any:
    """What readers get of an event's path: of two copies of one value its own, else the last event's."""
    if isinstance(out, Bifurcated):
        return out.weight if event.path == "e3w" else out.down
    if isinstance(out, Copies) and isinstance(event.format, Along):
        return out.backward if event.path in ("Wb", "x0b") else out.forward
    return out if last else None


def _handed_on(row: Row, event: Event, out: Any) -> None:
    """What readers get is what the path holds, number by number."""
    if isinstance(out, AffineTensor) and isinstance(event.result, Packed):
        packed.check_steps(event.result, out, row)
        return
    if out is event.result or key(out) == key(event.result) or isinstance(out, Copies | BlockTensor):
        return
    if not is_stored(out) or not is_stored(event.result):
        row.not_specified(f"a {type(out).__name__} is handed on")
        return
    given, held = as_float64(out), as_float64(event.result)
    if is_float(out):
        held = held.astype(np.float32).astype(np.float64)
    row.compare_floats(shape_of(out), held, given, SHOWN)
    if row.differing:
        row.why = "what readers get (stored) is not what the path holds (expected)"
