"""What one step of the fast code did: every operation, its way back, every join, every data path's event.

    record = Record()
    with autograd.watched(record): run.train(...)        # record is an observer of the method too

The wiring is what was executed, so a model of any shape is followed. A value is known by its identity: the
record holds all values that passed, so no two of them share one. Nothing is copied.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from intnet.autograd import Node, Op, Watcher
from intnet.exact.expressions import Exact, FloatExact
from intnet.numbers.qtensor import QTensor
from intnet.trace import Event


@dataclass(eq=False)
class Call:
    """One operation on the way forward. number: its place in the order of all that happened."""

    op: Op
    operands: tuple[Any, ...]
    attributes: dict[str, Any]
    number: int
    result: Any = None
    events: list[Event] = field(default_factory=list)
    wanted: tuple[bool, ...] = ()


@dataclass(eq=False)
class Back:
    """Its way back: the gradient of its result, and that of each operand (None where it is not wanted)."""

    call: Call
    gradient: Any
    number: int
    results: tuple[Any, ...] = ()
    events: list[Event] = field(default_factory=list)


@dataclass(eq=False)
class Joined:
    """The gradients of one value that met."""

    first: Any
    second: Any
    result: Any
    number: int


Origin = tuple[Call | Back | Joined, int]  # which of its results
Happened = Call | Back | Joined


class Record(Watcher):
    """Watches operations and observes a method; see the module."""

    def __init__(self) -> None:
        self.happened: list[Happened] = []
        self.events: list[Event] = []  # in order; those outside every operation are of the update
        self.update: list[Event] = []
        self._open: list[Call | Back] = []
        self._calls: dict[int, Call] = {}  # by the identity of the node
        self._nodes: list[Node] = []
        self._origins: dict[int, Origin] = {}
        self._held: list[Any] = []  # so that no identity is given twice
        self._order: dict[int, int] = {}  # event -> number of what came before it

    # -- what is told ---------------------------------------------------------------------------

    def begins(self, op: Op, operands: tuple[Any, ...], attributes: dict[str, Any]) -> None:
        """As `Watcher`."""
        self._open.append(Call(op, operands, attributes, len(self.happened)))
        self.happened.append(self._open[-1])

    def ends(self, value: Any, node: Node | None) -> None:
        """As `Watcher`."""
        call = self._open.pop()
        assert isinstance(call, Call)
        call.result = value
        if node is not None:
            call.wanted = tuple(parent is not None for parent in node.parents)
            self._calls[id(node)] = call
            self._nodes.append(node)
        self._came_from(value, call, 0, call.operands)

    def goes_back(self, node: Node, gradient: Any) -> None:
        """As `Watcher`."""
        self._open.append(Back(self._calls[id(node)], gradient, len(self.happened)))
        self.happened.append(self._open[-1])

    def came_back(self, parts: tuple[Any, ...]) -> None:
        """As `Watcher`."""
        back = self._open.pop()
        assert isinstance(back, Back)
        back.results = parts
        for k, part in enumerate(parts):
            self._came_from(part, back, k, (back.gradient,))

    def joins(self, first: Any, second: Any, total: Any) -> None:
        """As `Watcher`."""
        joined = Joined(first, second, total, len(self.happened))
        self.happened.append(joined)
        self._came_from(total, joined, 0, ())

    def __call__(self, event: Event) -> None:
        """Observe one event; it belongs to the operation that is open, if any."""
        self._order[id(event)] = len(self.happened)
        self.events.append(event)
        self._held.append(event)
        if self._open:
            self._open[-1].events.append(event)
        else:
            self.update.append(event)

    def _came_from(self, value: Any, what: Happened, k: int, given: tuple[Any, ...]) -> None:
        """A value's origin is what made it, not what handed it on."""
        self._held.append(value)
        if value is not None and not any(value is one for one in given):
            self._origins.setdefault(id(value), (what, k))

    # -- what is asked --------------------------------------------------------------------------

    def origin(self, value: Any) -> Origin | None:
        """What made a value; None of images, parameters and what a method made by itself."""
        return self._origins.get(id(value))

    def order(self, event: Event) -> int:
        """The number of what came just before an event."""
        return self._order[id(event)]

    def operations(self) -> list[str]:
        """The names of all forward passes, in order; reads and quantizers, which are casts, are none."""
        return [one.op.name for one in self.happened if isinstance(one, Call) and one.op.name != "cast"]

    def calls(self, name: str) -> Iterator[Call]:
        """Every forward pass of the operation of that name."""
        return (one for one in self.happened if isinstance(one, Call) and one.op.name == name)


def entered(source: Any) -> Any:
    """What an event's source was made from: `exact` wraps a QTensor or an array as an expression."""
    if isinstance(source, Exact) and len(source.terms) == 1 and not source.relu:
        term, coefficient = source.terms[0]
        plain = isinstance(coefficient, int) and coefficient == 1 and not any(source.shifts)
        bare = not np.any(source.offset) and not np.any(np.asarray(source.den) != 1)
        if plain and bare and int(term.exponent) == source.exponent:
            return term
    if isinstance(source, FloatExact) and source.den == 1:
        return source.values
    return source


def stored(value: Any) -> bool:
    """Whether a value is held as codes or floats, not as an expression."""
    return isinstance(value, QTensor | np.ndarray)
