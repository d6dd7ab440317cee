"""saved: float32 training whose tape holds activations in 1 to 32 bits.

"Mix-Precision Stochastic Quantization of Activations during Backpropagation" (Li, thesis, Heidelberg 2025).
The forward pass and the update are method `float32`'s; what operations save for their gradients is packed,
and the backward pass reads a~: `packing.py`, which any other method takes by options 'saved.bits' and so on.

Defined by `spec/methods/saved.py: Step`.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from intnet.errors import ConfigError
from intnet.methods import packing, symbols
from intnet.methods.float32 import Float32
from intnet.methods.options import takes
from intnet.methods.packing import BY_LAYER, PREFIX, Packing


class Saved(Float32):
    """float32, but for the activations on the tape, in 1 to 32 bits (Li 2025).

    What is rounded where, `packing` says; keys are the fields of `Options`.
    """

    name = "saved"
    SYMBOLS = symbols.SAVED
    BY_LAYER = BY_LAYER
    DEVIATIONS: ClassVar[dict[str, str]] = {
        "buckets": "contiguous elements as they lie in memory: (N, H, W, C) here, (N, C, H, W) in the thesis",
        "first layer": "its input, the images, is packed as every layer's is",
        "batch norm": "mean and 1/sqrt(variance + eps) are of the values before rounding",
        "constant buckets": "are stored as their value; so is one whose s underflows, as its least",
        "levels": "needs b + 2 bits a code, for 2^(b+1) + 1 of them (base_levels=4 has 9); 1 - 1e-8 is 1 "
        "in float32",
        "deterministic": "4.2.2 has an affine formula, listings 4.1-4.4 Brevitas's QuantIdentity: affine "
        "and symmetric",
        "stochastic": "5.3.1 has an affine formula, listing 5.1 levels: affine-stochastic, levels",
        "symmetric": "T is the percentile of each batch: the listings make a new QuantIdentity at every "
        "backward pass, so that each use is its first step; the scale that Brevitas learns after 300 never "
        "comes about",
        "straight-through": "no gradient passes the quantizer: what was packed is read by gradients only",
        "affine layer": "listing 4.4's is no layer of these networks: scale and offset stand in batch norm, "
        "whose gradients read what was packed",
        "mixing": "of levels in the thesis; here of any codec. The share of 2/4 is listing 5.6's 0.5; the "
        "class of listing 5.2 has 0.3 of the same pair as its default",
        "other operations": "max pooling and dropout hold exact positions and masks, as in method float32",
    }

    @dataclass(frozen=True, kw_only=True)
    class Options(packing.Options, Float32.Options):
        """Those of float32, and of `packing.Options`.

        bits: 1 to 32; 2/4 mixes two widths by bucket, the wider one last; off leaves float32 on the tape.
        codec: how codes are made. levels: of codec=levels, L in place of 2^bits. bucket: elements that share
        a scale. norm: what the scale of levels is. mix_prob: share of the wider codes, by epoch. storage:
        save packs at once, on_backward keeps float32 and rounds when it is read. All but silu take a layer
        pattern: bits@layer2.*=4. silu: whether SiLU's input is packed too. Others take these as saved.bits ..
        """

    @takes(Options)
    def __init__(self, /, **options: Any) -> None:
        super().__init__(**options)
        if self.packing is not None:
            raise ConfigError(f"saved: its options have no {PREFIX!r} ahead, as in bits=4")
        self.packing = Packing(self, self.options, self.overrides, "")
