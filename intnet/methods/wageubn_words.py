"""Words of WAGEUBN's parameters: many small tensors as one vector, and the type in which they are stored."""

import math
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from intnet.errors import ContainerError
from intnet.numbers.qtensor import QTensor, container, max_abs


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


def as_memory(q: QTensor, where: str) -> QTensor:
    """The same tensor in int32, the type of every stored parameter word."""
    peak = (q.status and q.status.peak) or max_abs(q.codes)
    if container(peak, where).itemsize > 4:
        raise ContainerError(
            f"{where}: a stored word of {peak.bit_length() + 1} bits passes 32: training diverged"
        )
    return QTensor(q.codes.astype(np.int32), int(q.exponent), q.format, peak, q.status)
