"""What every operation's rule offers: its value and its gradients, element by element, by the definition."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from intnet.spec.tensor import place_of
from intnet.verify.record import Back, Call, What
from intnet.verify.row import NotSpecified, written
from intnet.verify.values import Near, Values, is_float, shape_of


@dataclass(frozen=True)
class Source:
    """What enters a rounding: exact values, or with `root` the squares of what does, or with `curve` where a
    curve of that name is taken.
    """

    values: list[Fraction]
    root: bool = False
    curve: str = ""


class Rule:
    """Base of the rules; see `Values`.

    exact: names of the spec functions of the result, then of each gradient, the last one of all that follow
    floats: the same of a result that is float32, where they are others
    """

    exact: tuple[str, ...] = ()
    floats: tuple[str, ...] = ()

    def specs(self, what: What, k: int) -> tuple[str, ...]:
        """Names of the spec functions of the result, or of gradient k."""
        named = self.floats if self.floats and is_float(what.results[k]) else self.exact
        return (named[min(0 if isinstance(what, Call) else 1 + k, len(named) - 1)],)

    def at(self, values: Values, what: What, k: int, flat: np.ndarray) -> list[Fraction]:
        """Result k at flat indices."""
        if isinstance(what, Call):
            return self.forward(values, what, flat)
        return self.back(values, what, k, flat)

    def near(self, values: Values, what: What, k: int) -> Near:
        """All of result k in float64, where it is an expression."""
        return self.near_forward(values, what) if isinstance(what, Call) else self.near_back(values, what, k)

    def forward(self, values: Values, call: Call, flat: np.ndarray) -> list[Fraction]:
        """The result at flat indices."""
        raise NotSpecified(f"operation {call.op.name!r}: its value")

    def back(self, values: Values, back: Back, k: int, flat: np.ndarray) -> list[Fraction]:
        """The gradient of operand k at flat indices."""
        raise NotSpecified(f"operation {back.op.name!r}: its gradient")

    def near_forward(self, values: Values, call: Call) -> Near:
        """The result in float64."""
        raise NotSpecified(f"operation {call.op.name!r}: the extremes of its value")

    def near_back(self, values: Values, back: Back, k: int) -> Near:
        """The gradient of operand k in float64."""
        raise NotSpecified(f"operation {back.op.name!r}: the extremes of its gradient")

    def inner_specs(self, what: What, path: str) -> tuple[str, ...]:
        """Names of the spec functions of a path that is rounded inside the operation."""
        return ()

    def inner(self, values: Values, what: What, path: str, flat: np.ndarray) -> Source:
        """What enters the rounding of a path inside the operation."""
        raise NotSpecified(f"operation {what.op.name!r}: path {path}")

    def inner_near(self, values: Values, what: What, path: str) -> Near:
        """The same in float64, where a format asks for a tensor's extremes."""
        raise NotSpecified(f"operation {what.op.name!r}: the extremes of path {path}")

    def operands(self, values: Values, what: What, k: int, at: int) -> list[str]:
        """What element `at` of the result, or of gradient k, is made of, a line each, where it is few."""
        return []

    def by_definition(self, values: Values, back: Back, k: int, flat: int) -> Fraction | None:
        """One element of a gradient that is a long sum by the definition's own integers; None of others."""
        return None


class Elementwise(Rule):
    """A rule whose elements stand by themselves: it reads those beside it of the operands, and the error.

    equation, equation32: the result of numbers, exact and of float32; the gradient is the error as it is
    """

    equation: ClassVar[Callable[..., Any]]
    equation32: ClassVar[Callable[..., Any] | None] = None

    def forward(self, values: Values, call: Call, flat: np.ndarray) -> list[Fraction]:
        """By the numbers beside an element."""
        floats = self.equation32 is not None and is_float(call.result)
        rule: Any = self.equation32 if floats else self.equation
        return [rule(*row) for row in zip(*(values.beside(v, flat) for v in call.operands), strict=True)]

    def near_forward(self, values: Values, call: Call) -> Near:
        """By the same equation."""
        found: Near = self.equation(*map(values.near, call.operands))
        return found

    def back(self, values: Values, back: Back, k: int, flat: np.ndarray) -> list[Fraction]:
        """The error."""
        return values.at(back.gradient, flat)

    def operands(self, values: Values, what: What, k: int, at: int) -> list[str]:
        """All of them."""
        named = [(f"operand {i}", value) for i, value in enumerate(what.call.operands)]
        if isinstance(what, Back):
            named.insert(0, ("the error", what.gradient))
        return shown(values, named, what.results[k], at)


def shown(values: Values, named: list[tuple[str, Any]], result: Any, at: int) -> list[str]:
    """Lines of the operands that stand element by element, or channel by channel, beside a result."""
    shape, lines = shape_of(result), []
    for name, value in named:
        own = shape_of(value)
        place = at if own == shape else at % own[0] if len(own) == 1 and own[0] == shape[-1] else None
        if place is not None:
            index = ",".join(map(str, place_of(place, own)))
            lines.append(f"{name}[{index}] = {written(values.at(value, np.array([place]))[0])}")
    return lines
