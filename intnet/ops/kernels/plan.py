"""How an exact integer sum of products runs: the one place where operand and accumulator types are chosen.

Matrix products and convolutions alike (`int_conv.py`) take the smallest container that the operands' bounds
prove to hold every sum on the way.
"""

from dataclasses import dataclass

import numpy as np

from intnet.errors import ContainerError
from intnet.machine import words
from intnet.numbers.qtensor import INT64_BOUND, QTensor
from intnet.ops.kernels.tiles import DOUBLES, FOURS, LONG, PAIRS, SINGLES, Arithmetic

_INT8 = (1 << 7) - 1
_INT16 = (1 << 15) - 1
_INT32 = (1 << 31) - 1
_FLOAT64 = 1 << 53
_LEAST_CHUNK = 32  # terms that an int32 sum must hold for int16 operands to be worth while


@dataclass(frozen=True)
class Plan:
    """How an exact sum of `terms` products runs.

    arithmetic: of the operands and of sums; result: type of the result; bound: on the result
    chunk: terms that a sum holds; right: bound on the codes of b
    """

    arithmetic: Arithmetic
    result: np.dtype
    chunk: int
    bound: int
    right: int

    @property
    def words(self) -> int:
        """`chunk` in words: at least one, for an int16 sum holds many terms."""
        return max(1, self.chunk // self.arithmetic.per_word)

    def operand(self, codes: np.ndarray) -> np.ndarray:
        """Codes in a type that the loops read: the operand's own, or a smaller one of int8 and int16."""
        element = self.arithmetic.codes
        kept = codes.dtype.itemsize < element.itemsize and codes.dtype.itemsize <= 2
        return np.ascontiguousarray(codes, dtype=codes.dtype if kept else element)


def plan(a: QTensor, b: QTensor, terms: int, where: str = "") -> Plan:
    """The containers of a sum of `terms` products of a and b; ContainerError beyond int64 (rule R5).

    A chunk is as long for int8 in fours as for int16 in pairs: it must hold the sum itself, not what the sum
    passes through on the way (`machine/words.py`).
    """
    bound = a.bound * b.bound * terms
    if bound >= INT64_BOUND:
        raise ContainerError(
            f"{where or 'product'}: {terms} products of codes up to {a.bound} and {b.bound} need "
            f"{bound.bit_length() + 1} bits"
        )
    result = np.dtype(np.int32 if bound <= _INT32 else np.int64)
    widest = max(a.bound, b.bound)
    if widest <= _INT16:
        chunk = _INT32 // max(1, a.bound * b.bound)
        if chunk >= _LEAST_CHUNK:
            eight = words.FOURS and all(q.codes.dtype == np.int8 or q.bound <= _INT8 for q in (a, b))
            return Plan(FOURS if eight else PAIRS, result, min(chunk, max(1, terms)), bound, b.bound)
    if bound <= _FLOAT64:  # every sum on the way is an integer that float64 holds
        return Plan(DOUBLES, result, max(1, terms), bound, b.bound)
    return Plan(SINGLES if widest <= _INT32 else LONG, result, max(1, terms), bound, b.bound)


def split(q: QTensor) -> tuple[QTensor, QTensor]:
    """(high, low) with q = high * 2**16 + low in codes, 0 <= low < 2**16: for two-limb sums."""
    codes = q.codes.astype(np.int64)
    return QTensor(codes >> 16, 0, bound=(q.bound >> 16) + 1), QTensor(codes & 0xFFFF, 0, bound=0xFFFF)
