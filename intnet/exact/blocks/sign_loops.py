"""Loops of signs: one bit an element, whether it is above 0, in words of sixteen; see `signs.py`."""

import numpy as np

from intnet.machine.instructions import SIXTEEN, above_zero, times_bits
from intnet.machine.jit import pjit, prange

ZERO, ONE = np.float32(0), np.float32(1)


@pjit
def positive(team: int, x: np.ndarray, out: np.ndarray) -> None:
    """uint16 words: bit k of word i is x[16 i + k] > 0."""
    whole = x.size // SIXTEEN
    for i in prange(team, out.size):
        if i < whole:
            out[i] = above_zero(x, i * SIXTEEN)
        else:
            word = np.uint16(0)
            for k in range(x.size - i * SIXTEEN):
                word |= np.uint16(x[i * SIXTEEN + k] > ZERO) << np.uint16(k)
            out[i] = word


@pjit
def times(team: int, e: np.ndarray, words: np.ndarray, out: np.ndarray) -> None:
    """e * 1 where the bit is 1, else e * 0.

    Defined by `spec/elementwise.py: relu_grad_at`.
    """
    whole = e.size // SIXTEEN
    for i in prange(team, words.size):
        if i < whole:
            times_bits(e, i * SIXTEEN, words[i], out)
        else:
            for k in range(e.size - i * SIXTEEN):
                bit = (words[i] >> np.uint16(k)) & np.uint16(1)
                out[i * SIXTEEN + k] = e[i * SIXTEEN + k] * (ONE if bit else ZERO)
