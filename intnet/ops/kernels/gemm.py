"""Integer matrix products: c[M, N] = a[M, K] . b[N, K], exact, in the container the bound asks for.

`plan` is the one place where operand and accumulator types are chosen, for GEMM and convolution
alike (`conv.py`). The inner product is `dot.py`.
"""

from dataclasses import dataclass

import numpy as np

from intnet._jit import pjit, prange
from intnet.errors import ContainerError
from intnet.ops.kernels.dot import dot_tile
from intnet.qtensor import INT64_BOUND, QTensor

_INT16 = (1 << 15) - 1
_INT32 = (1 << 31) - 1


@dataclass(frozen=True)
class Plan:
    """How an exact sum of `terms` products runs: operand type, result type, terms an int32 sum holds."""

    operand: np.dtype
    result: np.dtype
    chunk: int
    bound: int


def plan(a: QTensor, b: QTensor, terms: int, where: str = "") -> Plan:
    """The containers of a sum of `terms` products of a and b; ContainerError beyond int64 (rule R5)."""
    bound = a.bound * b.bound * terms
    if bound >= INT64_BOUND:
        raise ContainerError(
            f"{where or 'product'}: {terms} products of codes up to {a.bound} and {b.bound} need "
            f"{bound.bit_length() + 1} bits"
        )
    result = np.dtype(np.int32 if bound <= _INT32 else np.int64)
    if max(a.bound, b.bound) <= _INT16:
        chunk = _INT32 // max(1, a.bound * b.bound)
        if chunk >= 32:
            return Plan(np.dtype(np.int16), result, min(chunk, max(1, terms)), bound)
    return Plan(np.dtype(np.int64), result, max(1, terms), bound)


def split(q: QTensor) -> tuple[QTensor, QTensor]:
    """(high, low) with q = high * 2**16 + low in codes, 0 <= low < 2**16: for two-limb sums."""
    codes = q.codes.astype(np.int64)
    return QTensor(codes >> 16, 0, bound=(q.bound >> 16) + 1), QTensor(codes & 0xFFFF, 0, bound=0xFFFF)


@pjit
def _gemm(a: np.ndarray, b: np.ndarray, chunk: int, out: np.ndarray) -> None:
    rows, columns = a.shape[0], b.shape[0]
    # cut the longer side, so that a weight gradient of few rows still uses every thread
    if rows >= columns:
        parts = min(64, rows)
        for t in prange(parts):
            dot_tile(a[rows * t // parts : rows * (t + 1) // parts], b, chunk,
                     out[rows * t // parts : rows * (t + 1) // parts])  # fmt: skip
    else:
        parts = min(64, columns)
        for t in prange(parts):
            lo, hi = columns * t // parts, columns * (t + 1) // parts
            block = np.zeros((rows, hi - lo), out.dtype)
            dot_tile(a, b[lo:hi], chunk, block)
            out[:, lo:hi] = block


def gemm(a: np.ndarray, b: np.ndarray, how: Plan) -> np.ndarray:
    """c[M, N] = a[M, K] . b[N, K] of codes, exact, in `how.result`."""
    out = np.zeros((a.shape[0], b.shape[0]), how.result)
    a, b = (np.ascontiguousarray(x).astype(how.operand, copy=False) for x in (a, b))
    _gemm(a, b, how.chunk, out)
    return out
