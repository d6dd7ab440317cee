"""What every operation's rule offers: its value and its gradients, element by element, by the definition."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from intnet.verify.record import Back, Call
from intnet.verify.row import written
from intnet.verify.values import Near, NotSpecified, Values, shape_of


@dataclass(frozen=True)
class Source:
    """What enters a rounding: exact values, or with `root` the squares of what does, or with `curve` where a
    curve of that name is taken.
    """

    values: list[Fraction]
    root: bool = False
    curve: str = ""


class Rule:
    """Base of the rules; see `Values`."""

    forward_spec = ""
    back_specs: tuple[str, ...] = ()

    def specs(self, what: Call | Back, k: int) -> tuple[str, ...]:
        """Names of the spec functions of the result, or of gradient k."""
        return (self.forward_spec,) if isinstance(what, Call) else (self.back_specs[k],)

    def forward(self, values: Values, call: Call, flat: np.ndarray) -> list[Fraction]:
        """The result at flat indices."""
        raise NotSpecified(f"operation {call.op.name!r}: its value")

    def back(self, values: Values, back: Back, k: int, flat: np.ndarray) -> list[Fraction]:
        """The gradient of operand k at flat indices."""
        raise NotSpecified(f"operation {back.call.op.name!r}: its gradient")

    def near_forward(self, values: Values, call: Call) -> Near:
        """The result in float64, where it is an expression."""
        raise NotSpecified(f"operation {call.op.name!r}: the extremes of its value")

    def near_back(self, values: Values, back: Back, k: int) -> Near:
        """The gradient of operand k in float64, where it is an expression."""
        raise NotSpecified(f"operation {back.call.op.name!r}: the extremes of its gradient")

    def inner_specs(self, what: Call | Back, path: str) -> tuple[str, ...]:
        """Names of the spec functions of a path that is rounded inside the operation."""
        return ()

    def inner(self, values: Values, what: Call | Back, path: str, flat: np.ndarray) -> Source:
        """What enters the rounding of a path inside the operation."""
        raise NotSpecified(f"operation {_name(what)!r}: path {path}")

    def inner_near(self, values: Values, what: Call | Back, path: str) -> Near:
        """The same in float64, where a format asks for a tensor's extremes."""
        raise NotSpecified(f"operation {_name(what)!r}: the extremes of path {path}")

    def operands(self, values: Values, what: Call | Back, k: int, at: int) -> list[str]:
        """What element `at` of the result, or of gradient k, is made of, a line each, where it is few."""
        return []

    def part(self, what: Call | Back, k: int) -> str:
        """The path of the result or of gradient k, as `by_definition` takes it."""
        return "" if isinstance(what, Call) else str(k)

    def by_definition(self, values: Values, what: Call | Back, path: str, flat: int) -> Fraction | None:
        """One element of a long sum by the definition's own integers; None where all are made so."""
        return None


class Elementwise(Rule):
    """A rule whose elements stand by themselves: it reads those beside it of the operands, and the error."""

    def operands(self, values: Values, what: Call | Back, k: int, at: int) -> list[str]:
        """All of them."""
        call = what if isinstance(what, Call) else what.call
        named = [(f"operand {i}", value) for i, value in enumerate(call.operands)]
        if isinstance(what, Call):
            return shown(values, named, what.result, at)
        return shown(values, [("the error", what.gradient), *named], what.results[k], at)


def _name(what: Call | Back) -> str:
    return what.op.name if isinstance(what, Call) else what.call.op.name


def shown(values: Values, named: list[tuple[str, Any]], result: Any, at: int) -> list[str]:
    """Lines of the operands that stand element by element, or channel by channel, beside a result."""
    shape, lines = shape_of(result), []
    for name, value in named:
        own = shape_of(value)
        place = at if own == shape else at % own[0] if len(own) == 1 and own[0] == shape[-1] else None
        if place is not None:
            lines.append(f"{name}[{_index(place, own)}] = {written(values.at(value, np.array([place]))[0])}")
    return lines


def _index(flat: int, shape: tuple[int, ...]) -> str:
    return ",".join(str(int(i)) for i in np.unravel_index(flat, shape))
