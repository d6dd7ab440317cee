"""What moves or drops elements, and a stack of layers: Flatten, Dropout, Sequential."""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from intnet import ops
from intnet.autograd import Tensor
from intnet.errors import ShapeError
from intnet.layers.base import Layer
from intnet.methods.method import Method


class Flatten(Layer):
    """(N, H, W, C) -> (N, H*W*C) in C order."""

    stores = False

    def forward(self, x: Tensor, method: Method) -> Tensor:
        """The same elements."""
        return ops.flatten(x)


class Dropout(Layer):
    """Drops elements with probability p while training; the rest grows by 1/(1-p), then QA."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.keep = 1 - Fraction(str(p))
        if not 0 < self.keep <= 1:
            raise ShapeError(f"Dropout: p = {p} is not in [0, 1)")

    def forward(self, x: Tensor, method: Method) -> Tensor:
        """x4, with this step's mask."""
        if not method.training:
            return x
        words = method.words(f"{self.name}/mask", int(np.prod(x.value.shape)))
        return self.on_path(ops.dropout(x, words=words, keep=self.keep), method, "x4", "e0")


class Sequential(Layer):
    """Layers one after another, named 0, 1, 2, ... as in PyTorch."""

    def __init__(self, *layers: Layer) -> None:
        super().__init__()
        self.layers = list(layers)

    def children(self) -> Iterator[tuple[str, Layer]]:
        """(index, layer)."""
        yield from ((str(i), layer) for i, layer in enumerate(self.layers))

    def forward(self, x: Tensor, method: Method) -> Tensor:
        """The last layer's output."""
        for layer in self.layers:
            x = layer(x, method)
        return x
