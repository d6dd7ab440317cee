"""Where a tensor is above 0, a bit an element: what ReLU's gradient reads. Loops: `sign_loops.py`."""

from math import prod
from typing import Any

import numpy as np

from intnet.autograd import Kept
from intnet.errors import FormatError, ShapeError
from intnet.exact.blocks import sign_loops
from intnet.machine.buffers import empty
from intnet.machine.instructions import SIXTEEN


class Signs(Kept):
    """Where a tensor is above 0, one bit an element: exact, and all that ReLU's gradient reads.

    Defined by `spec/methods/packing.py: Packing.save`.
    """

    def __init__(self, x: np.ndarray) -> None:
        self.shape = x.shape
        flat = np.ascontiguousarray(x).reshape(-1)
        self.words = empty((-(-flat.size // 64),), np.uint64)
        self.words[-1:] = 0
        sign_loops.positive(flat, self._sixteens())

    def _sixteens(self) -> np.ndarray:
        """The words in which there are elements, as the loops see them."""
        return self.words.view(np.uint16)[: -(-prod(self.shape) // SIXTEEN)]

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return int(self.words.nbytes)

    def load(self) -> Any:
        """uint8 of the tensor's shape: 1 where it is above 0."""
        bits = np.unpackbits(self.words.view(np.uint8), count=prod(self.shape), bitorder="little")
        return bits.reshape(self.shape)

    def times(self, e: np.ndarray) -> np.ndarray:
        """e * 1 where the tensor is above 0, e * 0 elsewhere; float32 of one shape.

        Defined by `spec/elementwise.py: relu_grad_at`.
        """
        if e.dtype != np.float32:
            raise FormatError(f"e must be float32, got {e.dtype}; convert with .astype(np.float32)")
        if e.shape != self.shape:
            raise ShapeError(f"an error of shape {e.shape} does not meet signs of shape {self.shape}")
        out = empty((e.size,), np.float32)
        sign_loops.times(np.ascontiguousarray(e).reshape(-1), self._sixteens(), out)
        return out.reshape(self.shape)
