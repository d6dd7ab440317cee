"""Tensors of one exponent as one vector: many small parameters in one pass of a kernel, and apart again."""

import math
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from intnet.numbers.qtensor import QTensor


def joined(parts: Sequence[QTensor]) -> QTensor:
    """Tensors of one exponent, flat, one behind the other."""
    exponent = int(parts[0].exponent)
    assert all(int(part.exponent) == exponent for part in parts), "tensors of one grid"
    codes = np.concatenate([part.codes.reshape(-1) for part in parts])
    return QTensor(codes, exponent, bound=max(part.bound for part in parts))


def split(q: QTensor, shapes: Sequence[tuple[int, ...]], bound: int | None = None) -> list[QTensor]:
    """A flat tensor as one of each shape; their bound, or where it is None their own maxima."""
    sizes = [math.prod(shape) for shape in shapes]
    starts = [0, *accumulate(sizes)]
    peaks = np.maximum.reduceat(np.abs(q.codes), starts[:-1]).tolist()
    if bound is not None:
        peaks = [bound] * len(sizes)
    return [
        QTensor(q.codes[start : start + size].reshape(shape), int(q.exponent), q.format, peak)
        for start, size, shape, peak in zip(starts, sizes, shapes, peaks, strict=False)
    ]
