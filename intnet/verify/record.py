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
from intnet.exact.expressions import Exact
from intnet.exact.sources import FloatExact
from intnet.methods.trace import Event
from intnet.ops.elementwise import add

NORMS = ("batch_norm", "range_norm", "normalize", "scale_shift")  # the ways of a batch norm


class Happened:
    """What both ways of an operation have."""

    events: list[Event]

    def inside(self, path: str) -> Any:
        """What a path inside the operation holds."""
        return next(event.result for event in self.events if event.path == path)


@dataclass(eq=False)
class Call(Happened):
    """One operation on the way forward. number: its place in the order of all that happened.

    joins: it is no operation of the model, but the sum of the gradients of one value that met
    """

    op: Op
    operands: tuple[Any, ...]
    attributes: dict[str, Any]
    number: int
    result: Any = None
    events: list[Event] = field(default_factory=list)
    wanted: tuple[bool, ...] = ()
    joins: bool = False

    @property
    def call(self) -> "Call":
        """Itself."""
        return self

    @property
    def results(self) -> tuple[Any, ...]:
        """All that it made."""
        return (self.result,)

    @property
    def given(self) -> Any:
        """What it moves: its first operand, if it has one; on the way back the gradient."""
        return self.operands[0] if self.operands else None


@dataclass(eq=False)
class Back(Happened):
    """Its way back: the gradient of its result, and that of each operand (None where it is not wanted)."""

    call: Call
    gradient: Any
    number: int
    results: tuple[Any, ...] = ()
    events: list[Event] = field(default_factory=list)

    @property
    def op(self) -> Op:
        """The operation."""
        return self.call.op

    @property
    def given(self) -> Any:
        """The gradient."""
        return self.gradient


What = Call | Back
Origin = tuple[What, int]  # which of its results


class Record(Watcher):
    """Watches operations and observes a method; see the module."""

    def __init__(self) -> None:
        self.happened: list[What] = []
        self.events: list[Event] = []  # in order; those outside every operation are of the update
        self.update: list[Event] = []
        self._open: list[What] = []
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

    def ends(
        self, op: Op, operands: tuple[Any, ...], attributes: dict[str, Any], value: Any, node: Node | None
    ) -> None:
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
        self.happened.append(Call(add, (first, second), {}, len(self.happened), total, joins=True))
        self._came_from(total, self.happened[-1], 0, ())

    def __call__(self, event: Event) -> None:
        """Observe one event; it belongs to the operation that is open, if any."""
        self._order[id(event)] = len(self.happened)
        self.events.append(event)
        self._held.append(event)
        if self._open:
            self._open[-1].events.append(event)
        else:
            self.update.append(event)

    def _came_from(self, value: Any, what: What, k: int, given: tuple[Any, ...]) -> None:
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
        """All forward passes by name, in order, those of NORMS as 'norm'; casts, which read, are none."""
        calls = [one for one in self.happened if isinstance(one, Call) and not one.joins]
        names = [call.op.name for call in calls if call.op.name != "cast"]
        return ["norm" if name in NORMS else name for name in names]

    def calls(self, name: str) -> Iterator[Call]:
        """Every forward pass of the operation of that name."""
        calls = (one for one in self.happened if isinstance(one, Call) and not one.joins)
        return (call for call in calls if call.op.name == name)

    def labels(self) -> np.ndarray:
        """Of the images of the step."""
        labels: np.ndarray = next(self.calls("softmax_cross_entropy")).attributes["labels"]
        return labels


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
