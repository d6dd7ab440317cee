"""A whole tensor as integers in steps of one float32: what products of affine codes multiply.

    value = scale * code, code = q - z of the affine codec (`buckets.py`), one bucket

The integers are exact, so their sums of products are too; a~ is the value rounded to float32.

Defined by `spec/values.py: Affine`, `spec/methods/banner.py: steps`.
"""

from dataclasses import dataclass

import numpy as np

from intnet.exact.blocks import affine_loops
from intnet.exact.blocks.affine_loops import HALF
from intnet.exact.blocks.buckets import Packed
from intnet.machine.buffers import empty
from intnet.numbers.qtensor import QTensor, container

EXACT = 1 << 24  # up to which float32 has every integer
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
        return scaled(self.codes.codes, self.scale)

    @property
    def packed_bits(self) -> int:
        """Of all codes, the scale and the zero point."""
        return self.size * self.bits + 64

    def halves(self) -> tuple[QTensor, QTensor]:
        """(high, low) of 16-bit codes, int16: code = high * 2**HALF + low."""
        codes = np.ascontiguousarray(self.codes.codes).reshape(-1)
        high, low = (empty(codes.shape, np.int16) for _ in range(2))
        affine_loops.halved(codes, high, low)
        top, lower = (self.codes.bound >> HALF) + 1, (1 << HALF) - 1
        upper = QTensor(high.reshape(self.shape), HALF, bound=top)
        return upper, QTensor(low.reshape(self.shape), 0, bound=lower)


def scaled(codes: np.ndarray, scale: np.float32) -> np.ndarray:
    """float32: every integer rounded, times scale, rounded.

    Defined by `spec/values.py: Affine.real`.
    """
    codes, out = np.ascontiguousarray(codes), empty(codes.shape, np.float32)
    affine_loops.scaled(codes.reshape(-1), scale, out.reshape(-1))
    return out


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
    if bound > EXACT:  # a zero point so far off rounds q - z
        codes = (q.astype(np.float32) - zero).astype(container(bound))
    else:
        codes = empty(q.shape, container(bound))
        affine_loops.centred(q.reshape(-1), int(zero), codes.reshape(-1))
    return AffineTensor(QTensor(codes, 0, bound=bound), scale, bits)
