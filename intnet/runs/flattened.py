"""Which layers read a flattened image, told by one pass of the model on an image of zeros."""

from typing import Any

import numpy as np

from intnet.autograd import Node, Op, Tensor, Watcher, watched
from intnet.methods.method import Method
from intnet.models.model import Model
from intnet.training.inference import as_codes
from intnet.training.reestimate import batch_statistics

Sides = tuple[int, int, int]


def flattened(model: Model, method: Method) -> dict[str, Sides]:
    """Linear layers and batch norms that count places and channels of an image: name -> its (H, W, C).

    The model is started; nothing of it or of the method changes but what the last pass left.
    """
    seen = _Flattened()
    image = as_codes(np.zeros((1, *model.image_shape), np.uint8), 0)
    inference = method.within(training=False, observers=(), saturated={})
    with watched(seen), inference, batch_statistics(method):  # statistics that it has ahead of any step
        model(Tensor(image), method)
    return seen.layers


class _Flattened(Watcher):
    """Follows what was flattened through operations on single elements, as far as linear layers."""

    def __init__(self) -> None:
        self.layers: dict[str, Sides] = {}
        self._sides: dict[int, Sides] = {}  # by identity of a value
        self._kept: list[Any] = []  # a value that is gone could leave its identity to another

    def ends(
        self, op: Op, operands: tuple[Any, ...], attributes: dict[str, Any], value: Any, node: Node | None
    ) -> None:
        """An operation ran."""
        self._kept.append(value)
        if op.name == "flatten" and len(operands[0].shape) == 4:
            self._sides[id(value)] = operands[0].shape[1:]
            return
        read = next((self._sides[id(x)] for x in operands if id(x) in self._sides), None)
        if read is None:
            return
        if "where" in attributes:
            self.layers[attributes["where"]] = read
        if op.name != "linear":
            self._sides[id(value)] = read
