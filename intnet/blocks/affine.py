"""A whole tensor as integers in steps of one float32: what products of affine codes multiply.

    value = scale * code, code = q - z of the affine codec (`blocks/buckets.py`), one bucket

The integers are exact, so their sums of products are too; a~ is the value rounded to float32.

Defined by `spec/values.py: Affine`, `spec/methods/banner.py: steps`.
"""

from dataclasses import dataclass

import numpy as np

from intnet.blocks.buckets import Packed
from intnet.numbers.qtensor import QTensor, container

VIEWS = {8: np.uint8, 16: np.uint16}  # packed codes of these widths lie as the machine's own integers


@dataclass(frozen=True, eq=False)
class AffineTensor:
    """codes: integers, exponent 0; scale: of one; bits: of a packed code."""

    codes: QTensor
    scale: np.float32
    bits: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the codes."""
        return self.codes.shape

    @property
    def size(self) -> int:
        """Elements."""
        return int(self.codes.codes.size)

    @property
    def values(self) -> np.ndarray:
        """float32: a~."""
        return self.codes.codes.astype(np.float32) * self.scale

    @property
    def packed_bits(self) -> int:
        """Of all codes, the scale and the zero point."""
        return self.size * self.bits + 64


def steps(packed: Packed) -> AffineTensor:
    """One bucket of 8 or 16 bits; a constant one is 1 in steps of its value.

    Defined by `spec/methods/banner.py: steps`.
    """
    bits, (scale,), (zero,) = packed.codec.bits, packed.scales, packed.zeros
    if scale == 0:
        return AffineTensor(QTensor(np.ones(packed.shape, np.int16), 0), zero, bits)
    q = packed.words.view(VIEWS[bits])[: packed.elements].reshape(packed.shape)
    ends = np.abs(np.array([0, (1 << bits) - 1], np.float32) - zero)
    bound = int(ends.max())
    codes = (q.astype(np.float32) - zero).astype(container(bound))  # exact, but for a z beyond 2^24
    return AffineTensor(QTensor(codes, 0, bound=bound), scale, bits)
