"""What entered a value: the papers' symbols of each data path, and the names of a recorded step's operands.

An event's source (`methods/trace.py`) holds codes and coefficients without names. `Operands` finds the names:
codes that another path of the step handed on are called by that path, the others as the method's table
of `Symbol`s says (`methods/symbols.py`). `Operands.inputs` says which paths a value was made from.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from intnet.exact.expressions import Exact
from intnet.exact.sources import FloatExact
from intnet.methods.symbols import Symbol, symbol_of
from intnet.methods.trace import Event
from intnet.numbers.qtensor import QTensor


@dataclass(frozen=True)
class Product:
    """A sum of products: 'layer/path' of its factors, products an element sums, proven bound of |codes|.

    terms: the most that an element sums; at the border of a padded convolution there are fewer
    """

    factors: tuple[str, ...]
    terms: int
    bound: int


@dataclass(frozen=True)
class Input:
    """A path that entered a value; `before`: the word that it held before this step gave it a new one."""

    layer: str
    path: str
    before: bool = False


_NAME = re.compile(r"[A-Za-z]\w*")
_ROUNDED = re.compile(r"^(?:SR|BF|AQ)\((.*?)(?:; <WL,FL>|, WL|, \d+)\)")  # as symbols.py writes quantizers


class Operands:
    """Names of what entered the values of one recorded step."""

    def __init__(
        self, events: Mapping[str, Event] | None = None, symbols: Mapping[str, Symbol] | None = None
    ) -> None:
        self.events: Mapping[str, Event] = events or {}
        self.symbols: Mapping[str, Symbol] = symbols or {}
        self._by_codes: dict[int, list[Event]] = {}
        self._order = {id(event): k for k, event in enumerate(self.events.values())}
        self._neighbours: dict[str, dict[str, None]] = {}
        for event in self.events.values():
            codes = _codes(event.result)
            if codes is not None:
                self._by_codes.setdefault(id(codes), []).append(event)
        for event in self.events.values():
            for other in self._handed_on(event):
                self._neighbours.setdefault(event.layer, {})[other.layer] = None
                self._neighbours.setdefault(other.layer, {})[event.layer] = None

    def symbol(self, event: Event) -> Symbol:
        """As `symbol_of`."""
        return symbol_of(self.symbols, event.layer, event.path, self.events)

    def formula(self, event: Event) -> str:
        """The symbol's; without the quantizer where this value was not rounded."""
        formula = self.symbol(event).formula
        if event.path == "e3" and "m1" in _NAME.findall(formula) and not self.inputs(event):
            return "dL/dx1"  # of the loss: no batch norm, whose m1 that is, stands after the layer
        if event.format is not None or not _ROUNDED.match(formula):
            return formula
        entered = self.inputs(event)
        how = "in float32" if isinstance(event.result, np.ndarray) else "as it is"
        if len(entered) == 1 and entered[0].path in (event.path, "x3", "x4"):
            return f"{entered[0].layer}/{entered[0].path}, {how}"
        plain = _ROUNDED.sub(r"\1", formula)
        return f"{plain}, {how}"

    def maker(self, event: Event) -> Event:
        """The event that made the codes which `event` hands on as they are, or `event` itself."""
        codes = _codes(event.result)
        if event.format is not None or codes is None:
            return event
        return next((one for one in self._by_codes.get(id(codes), []) if one.format is not None), event)

    def name(self, event: Event, term: QTensor, k: int) -> str:
        """The name of term `k` of an event's sum: a path of its layer, 'layer/path' of another, or ''."""
        given = self.symbol(event).terms
        if k < len(given):
            return given[k]
        found = [one for one in self._by_codes.get(id(term.codes), []) if self._earlier(one, event)]
        for other in found:
            if other.layer == event.layer:
                return other.path
        return f"{found[0].layer}/{found[0].path}" if found else ""

    def parts(self, event: Event, source: Exact) -> Iterator[tuple[QTensor, Any, int, str, str]]:
        """Of each term of an event's sum: itself, its coefficient, its shift, the names of the first two."""
        named = self.symbol(event).coefficients
        for k, ((term, coefficient), shift) in enumerate(zip(source.terms, source.shifts, strict=True)):
            of = named[k] if k < len(named) else ""
            yield term, coefficient, shift, self.name(event, term, k), of

    def inputs(self, event: Event) -> list[Input]:
        """The paths that `event` was made from, each once; none where no path of the step handed it on.

        A value that another path handed on as it is has that one. Else the names in the paper's formula
        are paths of its layer or of one that codes came from or went to; what enters beside them (a
        shortcut) is known by its codes. Images, pools, the loss and the inside of a float32 layer are
        no paths.
        """
        handed = self._handed_on(event)
        if event.format is None and not isinstance(event.source, Exact) and event.operands is None and handed:
            return [Input(handed[0].layer, handed[0].path)]
        symbol = self.symbol(event)
        names = [name for name in dict.fromkeys(_NAME.findall(symbol.formula)) if name in self.symbols]
        found = [other for name in names for other in self._named(event, name, handed, bool(symbol.factors))]
        inside = {id(codes) for other in found for codes in _entering(other.result)}
        found += [other for other in handed if id(_codes(other.result)) not in inside]
        if symbol.factors and not found:  # a float32 copy that batch norm reads of the layer ahead
            same = [one for one in self.events.values() if one.path == event.path]
            found = [one for one in same if self._earlier(one, event)][-1:]
        return list(dict.fromkeys(Input(one.layer, one.path, not self._earlier(one, event)) for one in found))

    def _handed_on(self, event: Event) -> list[Event]:
        """The paths whose codes enter `event` as they are: of each array the one that made it."""
        found = []
        for codes in _entering(event.operands or event.source):
            found += [one for one in self._by_codes.get(id(codes), [])[:1] if self._earlier(one, event)]
        return found

    def _named(self, event: Event, name: str, handed: list[Event], own: bool) -> list[Event]:
        """The events of path `name` that the formula of `event` means; of its layer alone where `own`."""
        in_layer = self.events.get(f"{event.layer}/{name}")
        if in_layer is not None or own:
            return [in_layer] if in_layer is not None else []
        for layers in (dict.fromkeys(one.layer for one in handed), self._neighbours.get(event.layer, {})):
            others = [self.events.get(f"{layer}/{name}") for layer in layers]
            found = [one for one in others if one is not None and self._earlier(one, event)]
            if found:
                return found
        return []

    def _earlier(self, one: Event, other: Event) -> bool:
        return self._order[id(one)] < self._order[id(other)]

    def product(self, event: Event) -> Product | None:
        """What the products of `event` are made of; None for a path that is no sum of products."""
        names = self.symbol(event).factors
        factors = [self.events.get(f"{event.layer}/{name}") for name in names]
        if not factors or None in factors:
            return None
        entered = event.source if isinstance(event.source, Exact) else event.result  # before it was rounded
        bound = entered.bound() if isinstance(entered, Exact) else getattr(entered, "bound", 0)
        shapes = {name: factor.result.shape for name, factor in zip(names, factors, strict=True) if factor}
        terms = _terms(event.path, event.result.shape[-1], shapes)
        return Product(tuple(f"{event.layer}/{name}" for name in names), terms, bound)


def _codes(result: object) -> np.ndarray | None:
    """The array that readers of a result get."""
    if isinstance(result, QTensor):
        return result.codes
    if isinstance(result, Exact) and len(result.terms) == 1 and not result.relu:
        term, coefficient = result.terms[0]
        plain = isinstance(coefficient, int) and coefficient == 1 and not np.any(result.offset)
        return term.codes if plain and not any(result.shifts) else None
    return result if isinstance(result, np.ndarray) else None


def _entering(source: object) -> list[np.ndarray]:
    """The arrays that a value is made from."""
    if isinstance(source, Exact):
        return [term.codes for term, _ in source.terms]
    if isinstance(source, FloatExact):
        return [source.values]
    codes = _codes(source)
    return [] if codes is None else [codes]


def _terms(path: str, channels: int, shapes: dict[str, tuple[int, ...]]) -> int:
    """Products that an element of `path` sums, from the factors' shapes (channels last; weights first)."""
    weights = next((shapes[name] for name in ("Wq", "Wb", "W") if name in shapes), ())
    if path == "x1":
        return int(np.prod(weights[1:]))
    if path == "e4":
        return int(np.prod(weights)) // channels  # of the input: each group reads its own outputs
    error = shapes.get("e3", shapes.get("e3w", shapes.get("e1", (1, 1))))
    return int(np.prod(error[:-1]))
