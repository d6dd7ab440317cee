"""One paper a module: how each method stores every number, and its whole training step."""

from intnet.spec.methods import (
    adapt,
    adapt_switch,
    dynasty,
    dynasty_map,
    float_rules,
    muppet,
    optimizers,
    saved,
    wageubn,
    wageubn_fixed16,
    wageubn_layers,
)

__all__ = [
    "adapt",
    "adapt_switch",
    "dynasty",
    "dynasty_map",
    "float_rules",
    "muppet",
    "optimizers",
    "saved",
    "wageubn",
    "wageubn_fixed16",
    "wageubn_layers",
]
