"""saved: float32 training whose tape holds activations in 1 to 32 bits.

"Mix-Precision Stochastic Quantization of Activations during Backpropagation" (Li, thesis, Heidelberg 2025).
Forward and update are method `float32`'s; what the way back reads: `packing`. The state is `float_master`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from intnet.spec.methods import float_master
from intnet.spec.methods.float32 import PlainStep, first
from intnet.spec.methods.packing import Codec, Packed, Packing, pack

__all__ = ["Codec", "Packed", "Settings", "Step", "first", "pack"]


@dataclass(frozen=True)
class Settings(float_master.Settings):
    """The optimizer's, and `packing`."""

    packing: Packing | None = field(default_factory=lambda: Packing(own=True))

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Settings:
        """From the options of a run by name."""
        ours = {one.name for one in fields(Packing)}
        tape = {name: value for name, value in options.items() if name.partition("@")[0] in ours}
        rest = {name: value for name, value in options.items() if name not in tape}
        made: Settings = super().from_options(rest | {"packing": Packing.of(tape, own=True)})
        return made


class Step(PlainStep):
    """The rules of the method for one step."""
