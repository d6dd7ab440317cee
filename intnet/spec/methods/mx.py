"""mx: training in OCP's MX formats, forward and backward.

Rouhani et al. 2023, "Microscaling Data Formats for Deep Learning": each product's operands are in MX blocks
along the axis that it sums over, so that a tensor that two products read is quantized twice (`mx_blocks`):

    forward   x1 = Wq * x0 (+ b)     Wq, x0 in blocks along the input channels at each place of the kernel
    backward  e4 = Wb^T e3           Wb, e3 along the output channels
    update    gW = e3w x0b^T         e3w, x0b along the batch, 32 images at each pixel and channel

W, x0 and e3 are float32, and each copy is rounded once, from them. Sums are float32's, as is all else. `w`,
`x`, `e` and `g` say how weights, activations, errors and the operands of gW are rounded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from intnet.spec.formats import FixedPoint
from intnet.spec.methods import float_master
from intnet.spec.methods.float32 import PlainStep
from intnet.spec.methods.float_master import first
from intnet.spec.methods.step import FLOAT32, in_float32, of_layer
from intnet.spec.microscaling import Element
from intnet.spec.models import WEIGHTED, Layer
from intnet.spec.mx_blocks import Along, quantize_along
from intnet.spec.small_floats import Float
from intnet.spec.tensor import Tensor
from intnet.spec.values import Bifurcated, Copies, Expression, Value, to_float

ELEMENTS: dict[str, Element] = {
    "MXFP8_E4M3": Float(4, 3, "nan"),
    "MXFP8_E5M2": Float(5, 2, "ieee"),
    "MXFP6_E3M2": Float(3, 2, "none"),
    "MXFP6_E2M3": Float(2, 3, "none"),
    "MXFP4": Float(2, 1, "none"),
    "MXINT8": FixedPoint(8, 6, overflow="saturate_symmetric"),
}
ROLES = {"Wq": "w", "x0": "x", "Wb": "w", "e3": "e", "x0b": "g", "e3w": "g"}  # path -> option

__all__ = ["ELEMENTS", "ROLES", "Rounded", "Settings", "Step", "first"]


class Rounded(NamedTuple):
    """'MXFP4/ceil/stochastic': an element, how a block's scale is made, how elements are rounded."""

    element: Element
    scale: str = "floor"
    mode: str = "ties_even"

    @classmethod
    def of(cls, text: str) -> Rounded | None:
        """None of 'off'."""
        name, *rest = text.split("/")
        return None if text == "off" else cls(ELEMENTS[name], *rest)


@dataclass(frozen=True)
class Settings(float_master.Settings):
    """format: of all that products read; w, x, e, g: of a role, where it is not 'format'; of layers too."""

    format: str = "MXFP6_E3M2"
    w: str = "format"
    x: str = "format"
    e: str = "format"
    g: str = "format"

    READ: ClassVar[dict[str, Callable[[Any], Any]]] = float_master.Settings.READ | dict.fromkeys(
        ("format", "w", "x", "e", "g"), str
    )

    def rounded(self, layer: str, role: str) -> Rounded | None:
        """How a layer's operands of a role are rounded; None: they stay float32."""
        own = of_layer(self, layer)
        text = getattr(own, role)
        return Rounded.of(own.format if text == "format" else text)


class Step(PlainStep):
    """The rules of the method for one step."""

    shows_masters = True

    def format_of(self, layer: Layer, path: str) -> Any:
        """Blocks of what products read, along the axis that they sum over; else float32."""
        if layer.kind not in WEIGHTED or path not in ROLES:
            return FLOAT32
        made = self.settings.rounded(layer.name, ROLES[path])
        if made is None:
            return FLOAT32
        mode = "ties_even" if made.mode == "stochastic" and self.now.inference else made.mode
        axis, groups = {"Wq": (1, 1), "Wb": (0, layer.groups), "x0b": (0, 1), "e3w": (0, 1)}.get(
            path, (-1, layer.groups)
        )
        return Along(made.element, made.scale, mode, axis, groups)

    def stream_of(self, layer: Layer, path: str) -> str | None:
        """Each copy that is rounded stochastically has words of its own, by its path; none at inference."""
        form = self.format_of(layer, path)
        return f"{layer.name}/{path}" if isinstance(form, Along) and form.mode == "stochastic" else None

    def mode_of(self, layer: Layer, path: str) -> Any:
        """As the option says."""
        form = self.format_of(layer, path)
        return form.mode if isinstance(form, Along) else super().mode_of(layer, path)

    def copy(self, layer: Layer, path: str, x: Tensor) -> Tensor:
        """One copy of an operand, rounded as its path says."""
        form, stream = self.format_of(layer, path), self.stream_of(layer, path)
        if form == FLOAT32:
            made: Tensor = self.stored(layer, path, x)
            return made
        drawn = None if stream is None else self.words(stream, len(x.values))
        q = quantize_along(x, form, drawn)
        if q.saturated:
            self.saturated[f"{layer.name}/{path}"] = q.saturated
        out = Tensor(x.shape, q.values)
        kept: Tensor = self.note(layer, path, x, out, form, form.mode, drawn)
        return kept

    # -- hooks -------------------------------------------------------------------------------------

    def weight(self, layer: Layer, symbol: str) -> Any:
        """Wq, and Wb where an e4 is asked for; b, gamma, beta as they are."""
        if symbol != "W":
            return super().weight(layer, symbol)
        w = self.parameter(layer.name, "W")
        wq = self.copy(layer, "Wq", w)
        return wq if self._forward_only(layer) else Copies(wq, self.copy(layer, "Wb", w))

    def activation(self, layer: Layer, path: str, value: Expression) -> Any:
        """x0 and x0b of a product, all else in float32."""
        if path != "x0" or layer.kind not in WEIGHTED:
            return super().activation(layer, path, value)
        a = in_float32(value)
        x0 = self.copy(layer, "x0", a)
        return x0 if self.now.inference else Copies(x0, self.copy(layer, "x0b", a))

    def error(self, layer: Layer, path: str, value: Value) -> Any:
        """e3, where an e4 is asked for, and e3w; all else in float32."""
        if path != "e3":
            return super().error(layer, path, value)
        wide = self.copy(layer, "e3w", to_float(value))
        narrow = wide if self.edge(layer) == "first" else self.copy(layer, "e3", to_float(value))
        return Bifurcated(narrow, wide)

    def _forward_only(self, layer: Layer) -> bool:
        """Whether no product of the way back reads W: at inference, and in the first layer."""
        return self.now.inference or self.edge(layer) == "first"
