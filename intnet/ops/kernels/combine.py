"""a*u + b*v of two integer tensors, exact, in one pass: the two lines of a weight update.

Weights are few next to activations, so the loop is serial.
"""

import numpy as np

from intnet._jit import njit
from intnet.errors import ContainerError
from intnet.qtensor import INT64_BOUND, QTensor


@njit
def _combine(a: int, u: np.ndarray, b: int, v: np.ndarray, out: np.ndarray) -> np.int64:
    """Fills `out`; max |out|."""
    low, high = np.int64(0), np.int64(0)
    for i in range(out.shape[0]):
        total = a * np.int64(u[i]) + b * np.int64(v[i])
        low, high = min(low, total), max(high, total)
        out[i] = total
    return max(high, -low)


def _flat(q: QTensor) -> np.ndarray:
    """The codes in the one type that the loop is compiled for."""
    return q.codes.reshape(-1).astype(np.int64)


def combine(a: int, u: QTensor, b: int, v: QTensor, exponent: int, where: str = "") -> QTensor:
    """Codes a*u + b*v at `exponent`, int64; ContainerError where no bound proves that they fit."""
    bound = abs(a) * u.bound + abs(b) * v.bound
    if bound >= INT64_BOUND:
        raise ContainerError(f"{where or 'a sum'} needs {bound.bit_length() + 1} bits")
    out = np.empty(u.size, np.int64)
    peak = _combine(a, _flat(u), b, _flat(v), out)
    return QTensor(out.reshape(u.shape), exponent, bound=int(peak))
