"""SinglePath: float32 training with one data path quantized as WAGEUBN does (its section IV-D, table II).

All formats are those of `Wageubn` (section III-D), on float32 values: the quantizer rounds the exact value
of the float32 number once, and the code goes on as float32. Of one path at a time:

    w         Wq = clip(Q(W, 8), -1+d, 1-d)                             hidden layers
    bn        x2 = Q((x1 - mu)*r, 8), r = 1/sqrt(variance + 10^-5)      every batch norm; (13), kBN = 8
    a         x4 = Q(relu(x3), 8)                                       every activation
    gw        gW = CQ(gW), kGC = 15, dr = 128, stochastic               hidden layers
    e1        e0 = SQ(e0, 8)                                            every activation
    e2-flag8  e3 = Flag-QE2(e3), 8 bits (17)                            hidden layers
    e2-16     e3 = SQ(e3, 16) (16)                                      hidden layers
    e2-8      e3 = SQ(e3, 8), which the paper says does not converge    hidden layers

Straight-through estimators are the identity: the gradient of gamma reads the rounded x2, the error passes
the unrounded one. Float32's batch norm has no hook at x2, so with `bn` x3 is made again from what it read.
The learning rate and the momentum are WAGEUBN's, 26 * 2^-9 and 3 * 2^-2 unless told.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from intnet.methods.float32 import Float32
from intnet.methods.method import LayerLike, Parameter, to_float32
from intnet.methods.wageubn import Wageubn
from intnet.numbers.formats import Constant, Direct, Format, Shift
from intnet.ops.kernels import float32_rows
from intnet.ops.norm import reciprocal_root

BITS = 8  # of x2 and of the error by SQ; the other widths are the method's
LR, MOMENTUM = 26 * 2.0**-9, 3 * 2.0**-2


class SinglePath(Float32):
    """The method; see the module. It is a check's own and stands in no list of methods."""

    name = "single-path"

    @dataclass(frozen=True)
    class Options(Float32.Options):
        """path: what is quantized, as in the module; none is float32."""

        lr: str = str(LR)
        momentum: float = MOMENTUM
        path: Literal["none", "w", "bn", "a", "gw", "e1", "e2-flag8", "e2-16", "e2-8"] = "none"

    def __init__(self, /, **options: Any) -> None:
        super().__init__(**options)
        paper = Wageubn()
        formats: dict[str, dict[str, Format]] = {
            "none": {},
            "w": {"W": paper.formats["W"]},
            "bn": {"x2": Direct(BITS)},
            "a": {"x4": paper.formats["x4"]},
            "gw": {"gW": Constant(paper.k.k_gc, 1 << paper.k.k_gw - 1)},
            "e1": {"e0": paper.formats["e0"]},
            "e2-flag8": {"e3": paper.formats["e3"]},
            "e2-16": {"e3": Wageubn(e2="16").formats["e3"]},
            "e2-8": {"e3": Shift(BITS)},
        }
        self._formats = formats[self.options.path]
        self._read: dict[tuple[str, str], np.ndarray] = {}  # (layer, path) -> what batch norm read

    def streams(self, layers: Sequence[LayerLike]) -> list[str]:
        """CQ rounds stochastically: one stream a weight."""
        return super().streams(layers) + [f"{layer.name}/gW" for layer in layers]

    def _rounded(self, layer: LayerLike, path: str, value: Any, rounding: str = "ties_even") -> np.ndarray:
        """The value on a quantized path; a path of an edge, or of float32, as it is."""
        format = self._formats.get(path)
        if format is None or layer.edge:
            value = to_float32(value)
            self.passes(layer, path, value)
            return value
        return to_float32(self.store(layer, path, value, format, rounding))

    def weight(self, layer: LayerLike, parameter: Parameter) -> Any:
        """W as the forward pass reads it."""
        if layer.normalizes:
            self._read[layer.name, parameter.symbol] = parameter.value
        return self._rounded(layer, parameter.symbol, parameter.value)

    def save(self, layer: LayerLike, path: str, value: Any) -> Any:
        """The value itself; of batch norm it is noted too."""
        if path == "x1" and layer.normalizes:
            self._read[layer.name, path] = value
        return value

    def activation(self, layer: LayerLike, path: str, value: Any) -> Any:
        """x2 and x4; in training batch norm shows mu, the variance and x3."""
        if not (layer.normalizes and self.training and "x2" in self._formats):
            return self._rounded(layer, path, value)
        if path == "x3":
            value = self._scaled(layer)
        self._read[layer.name, path] = value
        return self.passes(layer, path, value)

    def _scaled(self, layer: LayerLike) -> np.ndarray:
        """x3 = x2*gamma + beta of the rounded x2, each operation rounded, as at inference."""
        x, mean, variance = (self._read[layer.name, path] for path in ("x1", "mu", "var"))
        one, zero = np.ones_like(mean), np.zeros_like(mean)
        x2 = float32_rows.normalize(x, mean, reciprocal_root(variance), one, zero)
        x2 = self._read[layer.name, "x2"] = self._rounded(layer, "x2", x2)
        return x2 * self._read[layer.name, "gamma"] + self._read[layer.name, "beta"]

    def error(self, layer: LayerLike, path: str, value: Any) -> Any:
        """e0 and e3."""
        if path == "e1" and layer.normalizes:
            self._read[layer.name, path] = value
        return self._rounded(layer, path, value)

    def gradient(self, layer: LayerLike, parameter: Parameter, value: Any) -> Any:
        """gW; of gamma sum(e1 * x2) of the rounded x2."""
        if parameter.symbol == "gamma" and "x2" in self._formats:
            e1, x2 = self._read[layer.name, "e1"], self._read[layer.name, "x2"]
            zero = np.zeros(parameter.shape, np.float32)
            value = float32_rows.error_sums(e1, x2, zero, zero + np.float32(1))[1]
        return self._rounded(layer, f"g{parameter.symbol}", value, "stochastic")
