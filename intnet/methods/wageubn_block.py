"""What WAGEUBN's first=block asks of a run: a first block that can be float32, with its refusals.

The block is what Fig. 1 calls a layer: `Layer.first_block`, a weight layer, batch norm and an activation.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from intnet.errors import ConfigError
from intnet.methods.method import LayerLike


def check_edges(edges: str) -> None:
    """ConfigError where the first weight layer is to be integers."""
    if edges != "float32":
        raise ConfigError(
            f"wageubn: first=block has the first block in float32, edges={edges} its weight layer in "
            "integers: take one of them"
        )


def check_model(layers: Sequence[Any]) -> None:
    """ConfigError where a model has no first block, or one whose derivative reads stored integers."""
    block = [layer for layer in layers if layer.first_block]
    if not block:
        raise ConfigError(
            "wageubn: first=block: after this model's first weight layer, and its batch norm if it has one, "
            "no activation is defined next; use first=layer"
        )
    if block[-1].derivative == "x4":
        raise ConfigError(
            f"wageubn: first=block: {block[-1].name} ({type(block[-1]).__name__}) has its derivative from "
            "x4, which is stored in integers: a first block ends with ReLU or SiLU; use first=layer"
        )


def floats(layer: LayerLike, value: Any) -> np.ndarray:
    """What a layer of the block reads or makes; ConfigError where it is not float32."""
    if not isinstance(value, np.ndarray):
        raise ConfigError(
            f"wageubn: first=block: {layer.name} reads integers: it belongs to the first block as layers are "
            "defined, but runs elsewhere; define layers in the order in which they run, one for every use"
        )
    return value
