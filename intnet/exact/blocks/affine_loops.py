"""Loops of affine codes: q - z of packed codes, their float32 values, and two halves of 16 bits.

What the numbers mean: `affine.py`.
"""

import numpy as np

from intnet.machine.jit import pjit, prange

PIECE = 1 << 13  # elements that a thread takes together
HALF = 8  # bits of the lower half


@pjit
def centred(team: int, q: np.ndarray, zero: int, out: np.ndarray) -> None:
    """out = q - zero, flat, which its type holds.

    Defined by `spec/methods/banner.py: steps`.
    """
    for piece in prange(team, (q.size + PIECE - 1) // PIECE):
        there = slice(piece * PIECE, piece * PIECE + PIECE)
        source, target = q[there], out[there]
        for i in range(source.size):
            target[i] = np.int32(np.int32(source[i]) - np.int32(zero))


@pjit
def scaled(team: int, codes: np.ndarray, scale: np.float32, out: np.ndarray) -> None:
    """out = codes, each as a float32, times scale: two roundings.

    Defined by `spec/values.py: Affine.real`.
    """
    for piece in prange(team, (codes.size + PIECE - 1) // PIECE):
        there = slice(piece * PIECE, piece * PIECE + PIECE)
        source, target = codes[there], out[there]
        for i in range(source.size):
            target[i] = np.float32(source[i]) * scale


@pjit
def halved(team: int, codes: np.ndarray, high: np.ndarray, low: np.ndarray) -> None:
    """codes = high * 2**HALF + low, low from 0 on; int16 both."""
    for piece in prange(team, (codes.size + PIECE - 1) // PIECE):
        there = slice(piece * PIECE, piece * PIECE + PIECE)
        source, upper, lower = codes[there], high[there], low[there]
        for i in range(source.size):
            upper[i] = source[i] >> HALF
            lower[i] = source[i] & ((1 << HALF) - 1)
