"""banner: training in 8 bits a value, the baseline that DYNASTY's paper stands beside.

Banner, Hubara, Hoffer, Soudry 2018, "Scalable Methods for 8-bit Training of Neural Networks". A whole tensor
is one bucket of the affine codec (`buckets`): s = (max - min)/(2^b - 1), z = round(-min/s), a~ = s (q - z).

    forward   x1 = Wq * x0q (+ bq)      all in 8 bits, to nearest; x1 ahead of batch norm too, gammaq, betaq
    backward  e4 = Wq^T e3              e3 in 8 bits, stochastic, as e1 of batch norm
    update    gW = e3w x0q^T            e3w: the same error in 16 bits, to nearest ("gradient bifurcation")

Products are sums of integers q - z, exact, as a float32 times both scales (`products`). Batch norm goes by
the batch's range (`range_norm`); the rest is method `float32`'s.
"""

from __future__ import annotations

from typing import Any

from intnet.spec.buckets import affine_back
from intnet.spec.float32 import ONE, value
from intnet.spec.methods.float32 import PlainStep
from intnet.spec.methods.float_master import Settings, first
from intnet.spec.methods.packing import Codec, Packed, pack
from intnet.spec.methods.step import FLOAT32, in_float32
from intnet.spec.models import WEIGHTED, Layer
from intnet.spec.tensor import Tensor
from intnet.spec.values import Affine, Bifurcated, Expression, Value, to_float

BITS, WIDE = 8, 16  # of all that is stored, and of the errors that weights' gradients are made of

__all__ = ["Settings", "Step", "first", "steps"]


def steps(packed: Packed) -> Affine:
    """One bucket as the integers q - z in steps of s; of a constant one 1 in steps of its value."""
    (bucket,) = packed.saved.buckets
    if bucket.scale == 0:
        return Affine(packed.shape, [1] * len(bucket.codes), value(bucket.zero))
    shares = (affine_back(q, bucket.scale, bucket.zero).share for q in bucket.codes)
    return Affine(packed.shape, [share.units // ONE for share in shares], value(bucket.scale))


class Step(PlainStep):
    """The rules of the method for one step."""

    shows_masters = True
    ranged = True

    def format_of(self, layer: Layer, path: str) -> Any:
        """The codec of what is stored in 8 or 16 bits, else float32."""
        weighted, edge = layer.kind in WEIGHTED, self.edge(layer)
        nearest = path in ("Wq", "bq", "gammaq", "betaq", "x0") or (path == "x1" and edge != "last")
        if nearest and (weighted or layer.kind == "norm"):
            return Codec("affine", BITS, bucket=None)
        if (path == "e1" and layer.kind == "norm") or (path == "e3" and edge != "first" and weighted):
            return Codec("affine-stochastic", BITS, bucket=None)
        return Codec("affine", WIDE, bucket=None) if path == "e3w" else FLOAT32

    def stream_of(self, layer: Layer, path: str) -> str | None:
        """A word an element of e1 and e3, on 'layer/e1' and 'layer/e3'."""
        form = self.format_of(layer, path)
        stochastic = isinstance(form, Codec) and form.kind == "affine-stochastic"
        return f"{layer.name}/{path}" if stochastic else None

    def packed(self, layer: Layer, path: str, x: Tensor) -> Packed:
        """A tensor in the codec of its path."""
        form, stream = self.format_of(layer, path), self.stream_of(layer, path)
        drawn = None if stream is None else self.words(stream, len(x.values))
        made = pack(self.now, form, layer.name, drawn, x)
        clipped = made.saved.buckets[0].clipped
        if clipped:
            self.saturated[f"{layer.name}/{path}"] = clipped
        self.note(layer, path, x, made, form, "ties_even" if drawn is None else "stochastic", drawn)
        return made

    # -- hooks -------------------------------------------------------------------------------------

    def weight(self, layer: Layer, symbol: str) -> Any:
        """Wq in integers, bq, gammaq, betaq as a~."""
        made = self.packed(layer, f"{symbol}q", self.parameter(layer.name, symbol))
        return steps(made) if symbol == "W" else made.values

    def activation(self, layer: Layer, path: str, value: Expression) -> Any:
        """x0 of a product in integers, x1 as a~, all else in float32."""
        if not isinstance(self.format_of(layer, path), Codec):
            return super().activation(layer, path, value)
        made = self.packed(layer, path, in_float32(value))
        return steps(made) if path == "x0" else made.values

    def error(self, layer: Layer, path: str, value: Value) -> Any:
        """e3 twice, 8 bits for e4 and 16 for the gradients, e1 of batch norm as a~, all else in float32."""
        if path == "e3":
            wide = steps(self.packed(layer, "e3w", to_float(value)))
            narrow = isinstance(self.format_of(layer, path), Codec)
            return Bifurcated(steps(self.packed(layer, path, to_float(value))) if narrow else wide, wide)
        if isinstance(self.format_of(layer, path), Codec):
            return self.packed(layer, path, to_float(value)).values
        return super().error(layer, path, value)
