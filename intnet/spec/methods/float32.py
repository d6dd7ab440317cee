"""float32: no quantization. The baseline that every method stands beside.

Parameters are float32 masters that a step reads as they are; optimizers and the state's names:
`float_master`. Products and sums: the definition's `float32`.
"""

from __future__ import annotations

from typing import Any

from intnet.spec.methods.float_master import FloatMaster, Settings, first
from intnet.spec.models import Layer

__all__ = ["PlainStep", "Settings", "Step", "first"]


class PlainStep(FloatMaster):
    """Parameters as they are, under their own names; `dynasty`, `saved`, `banner` and `mx` begin with it."""

    def weight(self, layer: Layer, symbol: str) -> Any:
        """W, b, gamma, beta."""
        return self.stored(layer, symbol, self.parameter(layer.name, symbol))


Step = PlainStep
