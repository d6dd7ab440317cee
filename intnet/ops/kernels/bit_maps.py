"""Loops over the blocks of a bit-width map, in float64: sensitivities, and sums in one order everywhere.

A sum runs in chunks of CHUNK blocks; the chunk sums are then added in ascending order. What the numbers mean:
`methods/dynasty_map.py`.
"""

from collections.abc import Callable

import numpy as np

from intnet.machine.jit import pjit, prange
from intnet.numbers.fp32 import log64

CHUNK = 4096  # blocks whose sum is one term of the total
_HALF_LOG2_E = float.fromhex("0x1.71547652b82fep-1")  # 1/(2 ln 2)


@pjit
def half_log2(team: int, sums: np.ndarray, uses: np.ndarray, batches: int, out: np.ndarray) -> None:
    """out = 1/2 log2(sums / (batches * uses)), -inf where a sum is 0. All flat and of one length.

    Defined by `spec/methods/dynasty_map.py: relative`.
    """
    for i in prange(team, sums.size):
        if sums[i] > 0.0:
            out[i] = log64(sums[i] / (np.float64(batches) * np.float64(uses[i]))) * _HALF_LOG2_E
        else:
            out[i] = -np.inf


@pjit
def _clipped(team: int, r: np.ndarray, shift: float, top: float, parts: np.ndarray) -> None:
    for chunk in prange(team, parts.size):
        for i in range(chunk * CHUNK, min((chunk + 1) * CHUNK, r.size)):
            parts[chunk] += min(max(r[i] - shift, 0.0), top)


@pjit
def _finite(team: int, r: np.ndarray, parts: np.ndarray) -> None:
    for chunk in prange(team, parts.size):
        for i in range(chunk * CHUNK, min((chunk + 1) * CHUNK, r.size)):
            parts[chunk] += r[i] if r[i] > -np.inf else 0.0


@pjit
def _noise(team: int, sums: np.ndarray, bits: np.ndarray, parts: np.ndarray) -> None:
    for chunk in prange(team, parts.size):
        for i in range(chunk * CHUNK, min((chunk + 1) * CHUNK, sums.size)):
            parts[chunk] += sums[i] / np.float64(np.int64(1) << (2 * np.int64(bits[i])))


def _total(loop: Callable[..., None], size: int, *args: object) -> float:
    parts = np.zeros(-(-size // CHUNK))
    loop(*args, parts)
    total = 0.0
    for part in parts.tolist():
        total += part
    return total


def clipped_sum(r: np.ndarray, shift: float, top: float) -> float:
    """Sum of r - shift, each limited to 0 .. top. Defined by `spec/methods/dynasty_map.py: mean_width`."""
    return _total(_clipped, r.size, r, shift, top)


def finite_sum(r: np.ndarray) -> float:
    """Sum of all that are not -inf. Defined by `spec/methods/dynasty_map.py: first_lambda`."""
    return _total(_finite, r.size, r)


def noise_sum(sums: np.ndarray, bits: np.ndarray) -> float:
    """Sum of sums / 2**(2 bits)."""
    return _total(_noise, sums.size, sums, bits)
