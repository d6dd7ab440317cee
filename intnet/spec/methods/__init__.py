"""One paper a module, each with the same rooms: `step` lists them, `METHODS` the papers."""

from types import ModuleType

from intnet.spec.methods import (
    adapt,
    adapt_switch,
    banner,
    dynasty,
    dynasty_map,
    float32,
    float_master,
    muppet,
    mx,
    saved,
    step,
    wageubn,
)

METHODS: dict[str, ModuleType] = {
    "float32": float32,
    "wageubn": wageubn,
    "adapt": adapt,
    "muppet": muppet,
    "dynasty": dynasty,
    "saved": saved,
    "banner": banner,
    "mx": mx,
}

__all__ = [
    "METHODS",
    "adapt",
    "adapt_switch",
    "banner",
    "dynasty",
    "dynasty_map",
    "float32",
    "float_master",
    "muppet",
    "mx",
    "saved",
    "step",
    "wageubn",
]
