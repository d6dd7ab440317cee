"""banner: training in 8 bits a value, the baseline that DYNASTY's paper stands beside.

Banner, Hubara, Hoffer, Soudry 2018, "Scalable Methods for 8-bit Training of Neural Networks". A whole tensor
is one bucket of the affine codec (`exact/blocks/buckets.py`), integers q - z in steps of s (`affine.py`):

    forward   x1 = Wq * x0q (+ bq)      all in 8 bits, to nearest; x1 ahead of batch norm too, gammaq, betaq
    backward  e4 = Wq^T e3              e3 in 8 bits, stochastic, as e1 of batch norm
    update    gW = e3w x0q^T            e3w: the same error in 16 bits, to nearest ("gradient bifurcation")

Sums of products are exact. Batch norm goes by the batch's range (`ops/range_norm.py`); all else, the update
of the float32 master with it, is method `float32`'s.

Defined by `spec/methods/banner.py: Step`.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from intnet.errors import ConfigError
from intnet.exact.blocks.affine import steps
from intnet.exact.blocks.buckets import TENSOR, Codec, Packed, encode
from intnet.methods import symbols
from intnet.methods.float32 import Float32
from intnet.methods.method import LayerLike, Parameter, of_batch, to_float32
from intnet.methods.packing import PREFIX
from intnet.methods.trace import Event
from intnet.ops.products import Bifurcated

NEAREST = Codec("affine", 8, bucket=TENSOR)
STOCHASTIC = Codec("affine-stochastic", 8, bucket=TENSOR)
WIDE = Codec("affine", 16, bucket=TENSOR)
ERRORS = ("e1", "e3")  # of batch norm, and of a weight layer


class Banner(Float32):
    """8 bits a value by the tensor's range, range batch norm, float32 updates (Banner et al.).

    What is rounded where, the module says; keys are the fields of `Options`.
    """

    name = "banner"
    reads_copies = shows_masters = True
    ranged = True
    SYMBOLS = symbols.BANNER
    DEVIATIONS: ClassVar[dict[str, str]] = {
        "zero point": "an integer, so that products are of integers and 0 is exact where the range has it, "
        "as in gemmlowp; the released code rounds (x - min)/s and adds min again",
        "range": "the least and the greatest value of the tensor; the released code takes for activations "
        "the mean over images of each image's, which clips, and at inference a running one",
        "products": "sums of integers, as a float32 times both scales; the released code multiplies the "
        "values in float32",
        "16 bits": "of the errors for gW and gb, as the authors' poster says, to nearest, by a range of "
        "their own; the released code keeps float32",
        "edges": "the first and the last weight layer are in 8 bits too, as in the released code; the "
        "logits are float32",
        "bias": "8 bits, by its own range",
        "x1": "is in 8 bits after every weight layer but the last; in the released code where batch norm "
        "reads it",
        "range batch norm": "C(n) = 1/sqrt(2 ln n) and the range are of all n values of a channel; the "
        "released code takes the mean range of 16 parts and another constant",
        "eps": "10^-5, added to the square of C(n) (max - min), which stands where batch norm has the "
        "variance; its mean over steps serves inference",
        "inside batch norm": "mu and 1/deviation are float32; the released code rounds the latter to 8 bits",
        "gradient of the range": "goes to the first of the greatest and to the first of the least values",
        "schedule": "lr, momentum and decay are method float32's; the released code sets its own for a model",
    }

    def __init__(self, /, **options: Any) -> None:
        super().__init__(**options)
        if self.packing is not None:
            raise ConfigError(
                f"banner: its tape holds 8 bits an element already: {PREFIX}bits goes with others"
            )

    def streams(self, layers: Sequence[Any]) -> list[str]:
        """Beside the others those of e1 and e3."""
        return super().streams(layers) + [f"{layer.name}/{path}" for layer in layers for path in ERRORS]

    def _packed(self, layer: LayerLike, path: str, value: np.ndarray, codec: Codec) -> Packed:
        """A tensor in a codec, seen by observers. Defined by `spec/methods/banner.py: Step.packed`."""
        name = f"{layer.name}/{path}"
        packed = encode(value, codec, self.draw(name, value.size), where=name, of_batch=of_batch(path))
        self.count(name, packed.clipped)
        if self.observers:
            words = self.words(name, value.size) if codec is STOCHASTIC else None
            rounding = "ties_even" if words is None else "stochastic"
            self.emit(Event(layer.name, path, self.step, value, packed, codec, rounding, words))
        return packed

    def weight(self, layer: LayerLike, parameter: Parameter) -> Any:
        """Wq in integers, bq, gammaq, betaq as a~. Defined by `spec/methods/banner.py: Step.weight`."""
        made = self._packed(layer, f"{parameter.symbol}q", parameter.value, NEAREST)
        return steps(made) if parameter.symbol == "W" else made.load()

    def activation(self, layer: LayerLike, path: str, value: Any) -> Any:
        """x0 of a product in integers, x1 as a~, all else in float32.

        Defined by `spec/methods/banner.py: Step.activation`.
        """
        value = to_float32(value, f"{layer.name}/{path}")
        if layer.takes_weight and path == "x0":
            return steps(self._packed(layer, path, value, NEAREST))
        if layer.takes_weight and path == "x1" and layer.edge != "last":
            return self._packed(layer, path, value, NEAREST).load()
        return self.passes(layer, path, value)

    def error(self, layer: LayerLike, path: str, value: Any) -> Any:
        """e3 twice, 8 bits for e4 and 16 for the gradients, e1 of batch norm as a~, all else in float32.

        Defined by `spec/methods/banner.py: Step.error`.
        """
        if path == "e3":
            wide = steps(self._packed(layer, "e3w", value, WIDE))
            if layer.edge == "first":
                return Bifurcated(wide, wide)
            return Bifurcated(steps(self._packed(layer, path, value, STOCHASTIC)), wide)
        if path == "e1" and layer.normalizes:
            return self._packed(layer, path, value, STOCHASTIC).load()
        return super().error(layer, path, value)
