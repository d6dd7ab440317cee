"""a*u + b*v of two integer tensors, exact, in one pass: the two lines of a weight update.

Weights are few next to activations, so the loop is serial.
"""

import numpy as np

from intnet.errors import ContainerError
from intnet.machine.instructions import wide_vectors
from intnet.machine.jit import njit
from intnet.numbers.qtensor import INT64_BOUND, QTensor


@njit
def _combine(a: int, u: np.ndarray, b: int, v: np.ndarray, out: np.ndarray) -> np.int64:
    """Fills `out`; max |out|. All arrays are of one type, which holds every product too."""
    wide_vectors()
    code = out.dtype.type
    x, y = code(a), code(b)
    low, high = code(0), code(0)
    for i in range(out.shape[0]):
        total = code(code(x * u[i]) + code(y * v[i]))
        low, high = min(low, total), max(high, total)
        out[i] = total
    return max(np.int64(high), -np.int64(low))


def combine(a: int, u: QTensor, b: int, v: QTensor, exponent: int, where: str = "") -> QTensor:
    """Codes a*u + b*v at `exponent`; ContainerError where no bound proves that they fit.

    Defined by `spec/methods/wageubn.py: accumulate`, `spec/methods/wageubn.py: descend`.
    """
    bound = max(abs(a) * u.bound + abs(b) * v.bound, u.bound, v.bound, abs(a), abs(b))
    if bound >= INT64_BOUND:
        raise ContainerError(f"{where or 'a sum'} needs {bound.bit_length() + 1} bits")
    dtype = np.int32 if bound < 1 << 31 else np.int64
    left, right = (q.codes.reshape(-1).astype(dtype, copy=False) for q in (u, v))
    out = np.empty(u.size, dtype)
    peak = _combine(a, left, b, right, out)
    return QTensor(out.reshape(u.shape), exponent, bound=int(peak))
