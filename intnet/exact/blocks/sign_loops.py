"""Loops of signs: one bit an element, whether it is above 0; see `buckets.py: Signs`."""

import numpy as np

from intnet.machine.jit import pjit, prange
from intnet.numbers.bitpack import PART, pack_bytes, unpack_bytes

_ZERO = np.float32(0)


@pjit
def positive(team: int, x: np.ndarray, out: np.ndarray) -> None:
    """Codes of one bit, x > 0, packed."""
    for task in prange(team, (x.size + PART - 1) // PART):
        first, n = task * PART, min(PART, x.size - task * PART)
        small = np.zeros(PART, np.uint8)
        for i in range(n):
            small[i] = x[first + i] > _ZERO
        pack_bytes(small, n, 1, out, task * (PART // 64))


@pjit
def spread(team: int, words: np.ndarray, out: np.ndarray) -> None:
    """uint8 codes of one bit."""
    for task in prange(team, (out.size + PART - 1) // PART):
        first, n = task * PART, min(PART, out.size - task * PART)
        small = np.empty(PART, np.uint8)
        unpack_bytes(words, task * (PART // 64), n, 1, small)
        out[first : first + n] = small[:n]
