"""Rules of tanh, sigmoid and silu: of integers correctly rounded where they are stored, else in float32."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from intnet.ops.curves import Curve
from intnet.ops.tanh import Tanh
from intnet.spec import elementary, elementwise
from intnet.spec.float32 import mul32, to_float32
from intnet.verify.record import Back, Call, What
from intnet.verify.rules.products import Conv
from intnet.verify.rules.rule import Elementwise, Source
from intnet.verify.values import Near, Values, is_float

ROUNDED = 2.0**14  # times MARGIN is more than float32's half unit, twice
FLOATS: dict[str, Callable[[Fraction], Fraction]] = {
    "tanh": elementary.tanh32,
    "sigmoid": elementary.sigmoid32,
    "silu": elementary.silu32,
    "slope": elementary.slope32,
}


class Curved(Elementwise):
    """A curve by its name; the paths inside are x4 and, of silu, dx4.

    grad, grad32: dx of the error and of y as it is stored, exact and of float32
    """

    def __init__(self, name: str, grad: Callable[..., Any], grad32: Callable[..., Fraction]) -> None:
        self.name, self.grad, self.grad32 = name, grad, grad32

    def inner_specs(self, what: What, path: str) -> tuple[str, ...]:
        """Of codes the correctly rounded curve, else float32's."""
        name = "slope" if path == "dx4" else self.name
        return (f"curves.curve_round, elementary.{name}32",)

    def inner(self, values: Values, what: What, path: str, flat: np.ndarray) -> Source:
        """The curve at the input, exact where the format takes it so."""
        name, x = "slope" if path == "dx4" else self.name, values.at(what.call.operands[0], flat)
        event = next(event for event in what.events if event.path == path)
        if isinstance(event.source, Curve | Tanh):
            return Source(x, curve=name)
        return Source([FLOATS[name](to_float32(v)) for v in x])

    def inner_near(self, values: Values, what: What, path: str) -> Near:
        """In float64, as far off as float32's rounding; no curve is steeper than 1.1."""
        near = values.near(what.call.operands[0])
        x = near.value
        with np.errstate(over="ignore"):
            sigmoid = 1 / (1 + np.exp(-x))
        curves = {"tanh": np.tanh(x), "sigmoid": sigmoid, "silu": x * sigmoid}
        curves["slope"] = sigmoid + curves["silu"] * (1 - sigmoid)
        found = curves["slope" if path == "dx4" else self.name]
        return Near(found, 1.1 * near.size + ROUNDED * (np.abs(found) + 2.0**-126))

    def specs(self, what: What, k: int) -> tuple[str, ...]:
        """The gradient's products."""
        if isinstance(what, Call):
            return self.inner_specs(what, "x4")
        return ("float32.mul32",) if is_float(what.results[k]) else ("elementwise",)

    def forward(self, values: Values, call: Call, flat: np.ndarray) -> list[Fraction]:
        """What the quantizer that was handed in stored."""
        return values.at(call.inside("x4"), flat)

    def near_back(self, values: Values, back: Back, k: int) -> Near:
        """Gradients of curves are stored."""
        return values.near(back.results[k])

    def back(self, values: Values, back: Back, k: int, flat: np.ndarray) -> list[Fraction]:
        """By the error and y."""
        return self._of(values, back, back.call.result, flat)

    def _of(self, values: Values, back: Back, kept: Any, flat: np.ndarray) -> list[Fraction]:
        pairs = zip(values.at(back.gradient, flat), values.at(kept, flat), strict=True)
        if is_float(back.results[0]):
            return [self.grad32(to_float32(e), to_float32(v)) for e, v in pairs]
        return [self.grad(e, v) for e, v in pairs]


class Silu(Curved):
    """dx = e d: d the stored slope of an integer input; of a float32 one made again from the tape's."""

    def specs(self, what: What, k: int) -> tuple[str, ...]:
        """Of a float32 input the slope is not stored."""
        if isinstance(what, Back) and is_float(what.call.operands[0]):
            return ("elementary.silu_error32",)
        return super().specs(what, k)

    def back(self, values: Values, back: Back, k: int, flat: np.ndarray) -> list[Fraction]:
        """e d."""
        x = back.call.operands[0]
        if not is_float(x):
            return self._of(values, back, back.call.inside("dx4"), flat)
        pairs = zip(values.at(back.gradient, flat), values.at(Conv.kept(back, x), flat), strict=True)
        return [elementary.silu_error32(to_float32(e), v) for e, v in pairs]


CURVES: dict[str, Curved] = {
    "tanh": Curved("tanh", elementwise.tanh_grad_at, elementary.tanh_error32),
    "sigmoid": Curved("sigmoid", elementwise.sigmoid_grad_at, elementary.sigmoid_error32),
    "silu": Silu("silu", lambda e, slope: e * slope, mul32),
}
