"""RoundedCopies: what AdaPT and MuPPET share. float32 masters, of which each step rounds copies at random.

    weight      rounded(W), rounded(b)          the copies that the forward pass reads
    activation  rounded(x0, x1, x3, x4)         what one layer hands to the next
    update      float32                         the optimizers of `float_master.py`

Batch norm computes in float32 between rounded tensors. Products are exact sums of integers. How a value is
rounded, and in how many bits, is the method's (`rounded`), and so are its errors and gradients.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from intnet.methods.float_master import FloatMaster
from intnet.methods.method import LayerLike, to_float32
from intnet.ops.curves import Curve

STORED = ("x0", "x1", "x3", "x4")  # activations that are rounded; those inside batch norm are float32
NORMS = ("gamma", "beta")  # parameters of batch norm


class RoundedCopies(FloatMaster):
    """Base of the two methods; see the module."""

    shows_masters = True
    STREAMS: ClassVar[tuple[str, ...]] = ()  # random streams of a layer beside STORED and its parameters

    def __init__(self, /, **options: Any) -> None:
        super().__init__(**options)
        self._used: dict[str, dict[str, int]] = {}

    def streams(self, layers: Sequence[Any]) -> list[str]:
        """Everything that is rounded draws words of its own: 'layer/W' a weight, 'layer/gW' its gradient."""
        parameters = [f"{kind}{p.symbol}" for layer in layers for p in layer.parameters for kind in ("", "g")]
        paths = [*STORED, *self.STREAMS, *dict.fromkeys(parameters)]
        return super().streams(layers) + [f"{layer.name}/{path}" for layer in layers for path in paths]

    def rounded(self, layer: LayerLike, path: str, value: Any, stream: str = "") -> Any:
        """`value` in the layer's format, stored on `path`; `stream` names its words where `path` does not.

        An activation, which has no stream of its own, rounds to nearest at inference.
        """
        raise NotImplementedError(f"method {self.name!r} rounds nothing")

    def activation(self, layer: LayerLike, path: str, value: Any) -> Any:
        """x0, x1, x3 and x4 rounded; batch norm reads its x1 and computes in float32, as curves do."""
        if isinstance(value, Curve):
            value = value.to_float32()
        if path in STORED and (path != "x1" or layer.takes_weight):
            return self.rounded(layer, path, value)
        return self.passes(layer, path, to_float32(value, f"{layer.name}/{path}"))

    def widths(self) -> dict[str, dict[str, int]]:
        """Weight layer -> WL, FL (block float: the scale s), nonzero weights, and what else moves."""
        return self._used
