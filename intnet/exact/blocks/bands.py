"""Codes with exponents of their own: how they become plain integers for an exact sum.

    value = code * 2**exponent        code a signed integer, the exponent any array that broadcasts

`Banded` aligns such a QTensor: codes << (exponent - low) at the least exponent low that a non-zero code
has are an ordinary QTensor, exactly the same values, and an exact integer product of two of them is
the exact product. Where the exponents lie too far apart for that, `bands` cuts them into bands, each
aligned for itself; the tensor is the sum of its bands. `ops/blocks.py` multiplies, adds and rounds.
"""

from typing import NamedTuple

import numpy as np

from intnet.errors import ContainerError, NumberError
from intnet.exact.loops import blocks_for
from intnet.machine.jit import pjit, prange
from intnet.numbers.qtensor import INT64_BOUND, QTensor, container

FARTHEST = 300  # of an exponent from 0: a signed byte, and room for a mantissa's bits


class Band(NamedTuple):
    """The codes of all exponents from `low` to `high`; aligned at `low` they are within +-`bound`."""

    low: int
    high: int
    bound: int


@pjit
def _survey(team: int, codes: np.ndarray, exponents: np.ndarray, least: int, peaks: np.ndarray) -> None:
    """peaks[block, e - least] = max |code| of exponent e, of each share of the codes."""
    n, blocks = codes.shape[0], peaks.shape[0]
    for b in prange(team, blocks):
        line = peaks[b]
        for i in range(n * b // blocks, n * (b + 1) // blocks):
            k = np.int64(exponents[i]) - least
            line[k] = max(line[k], abs(np.int64(codes[i])))


@pjit
def _align(team: int, codes: np.ndarray, exponents: np.ndarray, low: int, high: int, out: np.ndarray) -> None:
    """out = codes << (exponent - low) where the exponent is one of low .. high, else 0."""
    for i in prange(team, codes.shape[0]):
        e = np.int64(exponents[i])
        inside = low <= e <= high
        out[i] = np.int64(codes[i]) << (e - low) if inside else np.int64(0)


class Banded:
    """A QTensor ready to be aligned; its exponent an array that broadcasts, or one int.

    peaks: max |code| of every exponent that a non-zero code has, in ascending order of exponents;
    of a plain QTensor its bound. NumberError for an exponent beyond +-300, ContainerError for codes
    of more than 62 bits.
    """

    def __init__(self, q: QTensor, where: str = "") -> None:
        self.q = q
        each = np.asarray(q.exponent)
        least, greatest = int(np.min(each, initial=0)), int(np.max(each, initial=0))
        if max(-least, greatest) > FARTHEST:
            raise NumberError(f"{where or 'operand'}: an exponent is beyond +-{FARTHEST}")
        if q.bound >= INT64_BOUND:
            raise ContainerError(f"{where or 'operand'}: codes up to {q.bound} are beyond 62 bits")
        if isinstance(q.exponent, int):
            self.peaks = {q.exponent: q.bound} if q.bound else {}
            return
        each = np.broadcast_to(each.astype(np.int16, copy=False), q.shape)
        self._exponents = np.ascontiguousarray(each).reshape(-1)
        # each type is a compiled loop: one for mantissas of 8 bits, one for all others
        kind = np.int8 if q.codes.dtype == np.int8 else np.int64
        self._codes = np.ascontiguousarray(q.codes, kind).reshape(-1)
        tops = np.zeros((blocks_for(q.size), greatest - least + 1), np.int64)
        _survey(self._codes, self._exponents, least, tops)
        self.peaks = {least + k: top for k, top in enumerate(tops.max(axis=0).tolist()) if top}

    def bands(self, width: int = 2 * FARTHEST) -> list[Band]:
        """The fewest bands of exponents at most `width` apart, ascending; one band of zeros for none."""
        found: list[Band] = []
        for exponent, peak in self.peaks.items():
            low, _, bound = found[-1] if found else (exponent, 0, 0)
            if not found or exponent - low > width:
                found.append(Band(exponent, exponent, peak))
            else:
                found[-1] = Band(low, exponent, max(bound, peak << (exponent - low)))
        return found or [Band(0, 0, 0)]

    def aligned(self, band: Band) -> QTensor:
        """The codes of a band at its lowest exponent, all others 0, in the smallest container."""
        if isinstance(self.q.exponent, int):
            return self.q
        out = np.empty(self.q.size, container(band.bound))
        _align(self._codes, self._exponents, band.low, band.high, out)
        return QTensor(out.reshape(self.q.shape), band.low, bound=band.bound)


def matching_bands(a: Banded, b: Banded, terms: int) -> tuple[list[Band], list[Band]]:
    """Bands of a and of b, any two of which have sums of `terms` products within int64: the fewest pairs.

    One band each where that will do. Where single exponents pass int64 already, they are the bands.
    """
    whole, terms = (a.bands(), b.bands()), max(1, terms)
    if max(1, whole[0][0].bound) * max(1, whole[1][0].bound) * terms < INT64_BOUND:
        return whole
    top = max(a.peaks.values(), default=1) * max(b.peaks.values(), default=1) * terms  # of one exponent each
    room = max(0, ((INT64_BOUND - 1) // top).bit_length() - 1)
    pairs = [(a.bands(width), b.bands(room - width)) for width in range(room + 1)]
    return min(pairs, key=lambda pair: len(pair[0]) * len(pair[1]))
