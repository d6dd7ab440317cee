"""Rules of tanh, sigmoid and silu: of integers correctly rounded where they are stored, else in float32."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from intnet.ops.curves import Curve
from intnet.ops.tanh import Tanh
from intnet.spec import elementary
from intnet.spec import float32 as f32
from intnet.verify.record import Back, Call
from intnet.verify.rules.products import Conv
from intnet.verify.rules.rule import Elementwise, Source
from intnet.verify.values import Near, Values, is_float

ONE = Fraction(1)
ROUNDED = 2.0**14  # times MARGIN is more than float32's half unit, twice
FLOATS: dict[str, Callable[[Fraction], Fraction]] = {
    "tanh": elementary.tanh32,
    "sigmoid": elementary.sigmoid32,
    "silu": elementary.silu32,
    "slope": elementary.slope32,
}


class Curved(Elementwise):
    """Base of the three; the paths inside are x4 and, of silu, dx4."""

    name = ""

    def inner_specs(self, what: Call | Back, path: str) -> tuple[str, ...]:
        """Of codes the correctly rounded curve, else float32's."""
        name = "slope" if path == "dx4" else self.name
        return (f"curves.curve_round, elementary.{name}32",)

    def inner(self, values: Values, what: Call | Back, path: str, flat: np.ndarray) -> Source:
        """The curve at the input, exact where the format takes it so."""
        assert isinstance(what, Call)
        name, x = "slope" if path == "dx4" else self.name, values.at(what.operands[0], flat)
        event = next(event for event in what.events if event.path == path)
        if isinstance(event.source, Curve | Tanh):
            return Source(x, curve=name)
        return Source([FLOATS[name](f32.to_float32(v)) for v in x])

    def inner_near(self, values: Values, what: Call | Back, path: str) -> Near:
        """In float64, as far off as float32's rounding; no curve is steeper than 1.1."""
        assert isinstance(what, Call)
        x, size = values.near(what.operands[0])
        with np.errstate(over="ignore"):
            sigmoid = 1 / (1 + np.exp(-x))
        curves = {"tanh": np.tanh(x), "sigmoid": sigmoid, "silu": x * sigmoid}
        curves["slope"] = sigmoid + curves["silu"] * (1 - sigmoid)
        found = curves["slope" if path == "dx4" else self.name]
        return found, 1.1 * size + ROUNDED * (np.abs(found) + 2.0**-126)

    def specs(self, what: Call | Back, k: int) -> tuple[str, ...]:
        """The gradient's products."""
        if isinstance(what, Call):
            return self.inner_specs(what, "x4")
        return ("float32.mul32",) if is_float(what.results[k]) else ("elementwise",)

    def forward(self, values: Values, call: Call, flat: np.ndarray) -> list[Fraction]:
        """What the quantizer that was handed in stored."""
        return values.at(next(event.result for event in call.events if event.path == "x4"), flat)

    def near_back(self, values: Values, back: Back, k: int) -> Near:
        """Gradients of curves are stored."""
        return values.near(back.results[k])

    def factors(self, values: Values, back: Back, floats: bool, flat: np.ndarray) -> list[Fraction]:
        """What the error is multiplied by."""
        raise NotImplementedError(f"{type(self).__name__} defines no factors")

    def back(self, values: Values, back: Back, k: int, flat: np.ndarray) -> list[Fraction]:
        """e times the derivative: exact, or e as float32 and one rounding."""
        floats = is_float(back.results[k])
        pairs = zip(values.at(back.gradient, flat), self.factors(values, back, floats, flat), strict=True)
        if not floats:
            return [e * d for e, d in pairs]
        return [f32.mul32(f32.to_float32(e), d) for e, d in pairs]


class TanhRule(Curved):
    """dx = e (1 - y^2), y as it is stored."""

    name = "tanh"

    def factors(self, values: Values, back: Back, floats: bool, flat: np.ndarray) -> list[Fraction]:
        """1 - y^2."""
        y = values.at(back.call.result, flat)
        if not floats:
            return [1 - v * v for v in y]
        given = [f32.to_float32(v) for v in y]
        return [f32.add32(ONE, -f32.mul32(v, v)) for v in given]


class SigmoidRule(Curved):
    """dx = e y (1 - y), y as it is stored."""

    name = "sigmoid"

    def factors(self, values: Values, back: Back, floats: bool, flat: np.ndarray) -> list[Fraction]:
        """y (1 - y)."""
        y = values.at(back.call.result, flat)
        if not floats:
            return [v * (1 - v) for v in y]
        given = [f32.to_float32(v) for v in y]
        return [f32.mul32(v, f32.add32(ONE, -v)) for v in given]


class SiluRule(Curved):
    """dx = e d: d the stored slope of an integer input; of a float32 one made again from the tape's."""

    name = "silu"

    def specs(self, what: Call | Back, k: int) -> tuple[str, ...]:
        """Of a float32 input the slope is not stored."""
        if isinstance(what, Back) and is_float(what.call.operands[0]):
            return ("elementary.silu_error32",)
        return super().specs(what, k)

    def back(self, values: Values, back: Back, k: int, flat: np.ndarray) -> list[Fraction]:
        """e d."""
        x: Any = back.call.operands[0]
        if not is_float(x):
            return super().back(values, back, k, flat)
        pairs = zip(values.at(back.gradient, flat), values.at(Conv.kept(back, x), flat), strict=True)
        return [elementary.silu_error32(f32.to_float32(e), v) for e, v in pairs]

    def factors(self, values: Values, back: Back, floats: bool, flat: np.ndarray) -> list[Fraction]:
        """dx4, as float32 beside a float32 error."""
        stored = next(event.result for event in back.call.events if event.path == "dx4")
        slope = values.at(stored, flat)
        return [f32.to_float32(v) for v in slope] if floats else slope
