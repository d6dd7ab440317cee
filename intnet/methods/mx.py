"""mx: training in OCP's MX formats, forward and backward.

Rouhani et al. 2023, "Microscaling Data Formats for Deep Learning"; its formats are OCP's, version 1.0 of the
specification. Both operands of every product are in MX blocks along the axis that it sums over
(`exact/blocks/mx_blocks.py`), so what two products read is rounded twice, each time from float32:

    forward   x1 = Wq * x0 (+ b)     Wq, x0 in blocks along the input channels at each place of the kernel
    backward  e4 = Wb^T e3           Wb, e3 along the output channels
    update    gW = e3w x0b^T         e3w, x0b along the batch, 32 images at each pixel and channel

The values of the elements are float32, and so is a product of two of them: sums are those of method
`float32`, in its order, as is all else, the update of the float32 master with it.

Defined by `spec/methods/mx.py: Step`.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from intnet.errors import ConfigError
from intnet.exact.blocks.mx_blocks import Along, InBlocks, quantize_along
from intnet.exact.blocks.mx_loops import SIZE
from intnet.methods import symbols
from intnet.methods.float32 import Float32
from intnet.methods.method import LayerLike, Parameter, of_batch, to_float32
from intnet.methods.options import of_layer, takes
from intnet.methods.packing import PREFIX
from intnet.methods.trace import Event
from intnet.numbers import rng, rounding, shares
from intnet.numbers.microscaling import MXS, SCALES, Microscaling
from intnet.ops.products import Bifurcated, Copies

OF_ALL = "format"  # the option that the others stand for
ROLES = ("w", "x", "e", "g")


class Rounded(NamedTuple):
    """How an operand is rounded. Defined by `spec/methods/mx.py: Rounded`."""

    mx: Microscaling
    mode: str

    @classmethod
    def of(cls, text: str, where: str) -> "Rounded | None":
        """Of 'MXFP4/ceil/stochastic', whose last parts may be left out; None of 'off'."""
        if text == "off":
            return None
        name, scale, mode, *more = (*text.split("/"), *("floor", "ties_even")[text.count("/") :])
        parts = ((name, MXS, "format"), (scale, SCALES, "scale"), (mode, rounding.MODES, "rounding"))
        for given, known, what in parts:
            if given not in known:
                raise ConfigError(f"{where}={text}: unknown {what} {given!r}; use one of {', '.join(known)}")
        if more or callable(rounding.mode(mode)):
            raise ConfigError(
                f"{where}={text}: FORMAT/SCALE/ROUNDING, the rounding one of intnet's own modes"
            )
        return cls(replace(MXS[name], scale=scale), mode)


class Mx(Float32):
    """MX formats in every product of forward and backward pass (Rouhani et al.).

    What is rounded where, the module says; keys are the fields of `Options`.
    """

    name = "mx"
    reads_copies = shows_masters = True
    SYMBOLS = symbols.MX
    BY_LAYER = (OF_ALL, *ROLES)
    DEVIATIONS: ClassVar[dict[str, str]] = {
        "elementwise operations": "are float32; the released code rounds what goes in and out of each "
        "operation to bfloat16 where asked (bfloat=16)",
        "sums": "are float32 in intnet's order; the paper leaves the order open",
        "bias": "added in float32 to the product; its gradient sums e3w, what the weight's gradient reads; "
        "the released code sums the error ahead of its rounding",
        "groups": "a block of channels ends where a group of the convolution ends, so that a sum has one "
        "scale for each block; the released code's blocks of activations run on",
        "rounding": "to nearest, ties to even; the released code's default has ties away from zero: "
        "format=MXFP6_E3M2/floor/ties_away",
        "first and last layer": "are in the same format as all; format@fc3=off leaves one in float32",
        "scales": "what becomes of zeros and of NaN the OCP leaves open: a block of zeros has the least "
        "scale; one of a NaN or an infinity is an error, and one whose greatest element is beyond float32",
        "stochastic": "rounding draws words in training alone; inference is to nearest",
    }

    @dataclass(frozen=True, kw_only=True)
    class Options(Float32.Options):
        """format: of what products read, FORMAT/SCALE/ROUNDING; the last two may be left out.

        FORMAT: MXFP8_E4M3, MXFP8_E5M2, MXFP6_E3M2, MXFP6_E2M3, MXFP4 or MXINT8, or off: float32. SCALE: of a
        block, floor (OCP's), ceil, round or fit. ROUNDING: ties_even or another mode, as stochastic.
        w: of weights, x: of activations in the forward product, e: of errors in that of e4, g: of both in
        that of the weights' gradient: as format has it, or its own. Each takes a layer pattern: w@fc3=off.
        """

        format: str = "MXFP6_E3M2"
        w: str = OF_ALL
        x: str = OF_ALL
        e: str = OF_ALL
        g: str = OF_ALL

    @takes(Options)
    def __init__(self, /, **options: Any) -> None:
        super().__init__(**options)
        if self.packing is not None:
            raise ConfigError(f"mx: what gW reads is in MX blocks already: {PREFIX}bits goes with others")
        given = {role: getattr(self.options, role) for role in (OF_ALL, *ROLES)} | self.overrides
        for key, text in given.items():
            if text != OF_ALL or key.partition("@")[0] == OF_ALL:
                Rounded.of(text, f"mx: {key}")
        self._rounded: dict[tuple[str, str], Rounded | None] = {}  # by layer and role

    def rounded(self, layer: LayerLike, role: str) -> Rounded | None:
        """How a layer's operands of a role are rounded; None: not at all.

        Defined by `spec/methods/mx.py: Settings.rounded`.
        """
        at = layer.name, role
        if at not in self._rounded:
            own = of_layer(self.options, self.overrides, layer.name)
            text = getattr(own, role)
            self._rounded[at] = Rounded.of(own.format if text == OF_ALL else text, f"mx: {role}")
        return self._rounded[at]

    def keys_of(self, layer: LayerLike) -> tuple[str, ...]:
        """Only layers with a product have blocks."""
        return self.BY_LAYER if layer.takes_weight else ()

    def streams(self, layers: Any) -> list[str]:
        """Beside the others one of every copy that products read."""
        return super().streams(layers) + [f"{layer.name}/{path}" for layer in layers for path in COPIES]

    def _copy(self, layer: LayerLike, path: str, value: np.ndarray) -> np.ndarray:
        """One copy of an operand as its path is rounded, in float32.

        Defined by `spec/methods/mx.py: Step.copy`.
        """
        role, axis, grouped = COPIES[path]
        form, name = self.rounded(layer, role), f"{layer.name}/{path}"
        if form is None:
            return self.passes(layer, path, value)
        along = Along(form.mx, axis, getattr(layer, "groups", 1) if grouped else 1)
        mode = "ties_even" if form.mode == "stochastic" and not self.training else form.mode
        made, first = self._in_blocks(along, mode, name, value)
        own = slice(first, first + len(value))
        values = made.values[own]
        limited = int((made.limited[own] if axis == 0 else made.limited).sum())
        self.count(name, limited)
        if self.observers:
            words = self.words(name, value.size) if mode == "stochastic" else None
            codes = made.to_qtensor(value, limited, own)
            self.emit(
                Event(layer.name, path, self.step, value, codes, along, mode, words, mean_bits=along.bits)
            )
        return values

    def _in_blocks(self, along: Along, mode: str, name: str, value: np.ndarray) -> tuple[InBlocks, int]:
        """A tensor in blocks, of a batch from the first image that shares one; the place of its own first."""
        whole, ahead, of_images = value, 0, along.axis == 0 and of_batch(name.rpartition("/")[2])
        if of_images:
            per_image = value[0].size
            whole, ahead = shares.bordered(value, SIZE * per_image)
            whole, first = whole.reshape(-1, *value.shape[1:]), ahead // per_image
        words = rounding.NO_WORDS
        if mode == "stochastic":
            seed, step, stream, start = self.draw(name, value.size)
            words = rng.words(seed, step, stream, whole.size, start - ahead)
        made = quantize_along(whole, along, rounding.how(mode, words, where=name))
        return made, first if of_images else 0

    def weight(self, layer: LayerLike, parameter: Parameter) -> Any:
        """Wq, and Wb where an e4 is asked for; b, gamma, beta as they are.

        Defined by `spec/methods/mx.py: Step.weight`.
        """
        if parameter.symbol != "W":
            return super().weight(layer, parameter)
        forward = self._copy(layer, "Wq", parameter.value)
        if not self.training or layer.edge == "first":
            return forward
        return Copies(forward, self._copy(layer, "Wb", parameter.value))

    def activation(self, layer: LayerLike, path: str, value: Any) -> Any:
        """x0 and x0b of a product, all else in float32.

        Defined by `spec/methods/mx.py: Step.activation`.
        """
        if path != "x0" or not layer.takes_weight:
            return super().activation(layer, path, value)
        value = to_float32(value, f"{layer.name}/{path}")
        forward = self._copy(layer, path, value)
        return Copies(forward, self._copy(layer, "x0b", value)) if self.training else forward

    def error(self, layer: LayerLike, path: str, value: Any) -> Any:
        """e3, where an e4 is asked for, and e3w; all else in float32.

        Defined by `spec/methods/mx.py: Step.error`.
        """
        if path != "e3":
            return super().error(layer, path, value)
        wide = self._copy(layer, "e3w", value)
        return Bifurcated(wide if layer.edge == "first" else self._copy(layer, path, value), wide)


# Of each copy the option, the axis of its blocks, and whether a convolution's groups part that.
COPIES = {
    "Wq": ("w", 1, False),
    "x0": ("x", -1, True),
    "Wb": ("w", 0, True),
    "e3": ("e", -1, True),
    "x0b": ("g", 0, False),
    "e3w": ("g", 0, False),
}
