"""Random words: Philox4x32-10, and a Galois LFSR for hardware that has one.

A word is a pure function of (seed, step, stream name, element index), so any thread count, any
resume and any subset of the elements draws the same words (Salmon et al., "Parallel random
numbers: as easy as 1, 2, 3", SC 2011).

    key     = (seed low 32 bits, seed high 32 bits)
    counter = (i//4 low, i//4 high, stream, step);   element i takes output word i % 4
    stream  = first 4 bytes (big-endian) of SHA-256 of the name "layer/path"

A B-bit word is the top B bits of the 32-bit word. No bit of a run is drawn from anywhere else:
initialisation, shuffling and dropout use their own stream names.

Defined by `spec/words.py: philox4x32`, `spec/words.py: stream`, `spec/words.py: word`, `spec/words.py: lfsr`.
"""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from intnet.errors import ConfigError
from intnet.machine.buffers import empty
from intnet.machine.instructions import wide_vectors
from intnet.machine.jit import inlined, njit, pjit, prange, rule

_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_MASK = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)

_PART = 1 << 13  # words that a thread draws at a time
_SHARED = 1 << 16  # words from which on other threads are worth waking: 35 us of one

Word = Any  # a uint64 scalar of a kernel

LFSR_MASK = 0x80200003  # x^32 + x^22 + x^2 + x + 1, right-shifting Galois form


@inlined
def philox(c0: Word, c1: Word, c2: Word, c3: Word, k0: Word, k1: Word) -> tuple[Word, Word, Word, Word]:
    """Philox4x32-10: four uint32 counters and two uint32 keys (as uint64) to four uint32 words.

    Defined by `spec/words.py: philox4x32`.
    """
    for _ in range(10):
        p0, p1 = _M0 * c0, _M1 * c2
        c0, c1, c2, c3 = (p1 >> _32) ^ c1 ^ k0, p1 & _MASK, (p0 >> _32) ^ c3 ^ k1, p0 & _MASK
        k0, k1 = (k0 + _W0) & _MASK, (k1 + _W1) & _MASK
    return c0, c1, c2, c3


@njit
def fill(out: np.ndarray, block: Word, above: Word, seed: Word) -> None:
    """The words of counters whose lower halves are block, block + 1, ... and whose upper half is `above`.

    A loop of vectors: a counter a lane, of 64 bits for the products. LLVM makes it one because `out` is
    flat (rows of a length that it does not know may overlap), and makes every product one instruction
    because it sees here that all six numbers have 32 bits.

    Defined by `spec/words.py: words`.
    """
    wide_vectors()
    for j in range(out.shape[0] // 4):
        count = block + np.uint64(j)
        w0, w1, w2, w3 = philox(
            count & _MASK, count >> _32, above & _MASK, above >> _32, seed & _MASK, seed >> _32
        )
        out[4 * j], out[4 * j + 1], out[4 * j + 2], out[4 * j + 3] = w0, w1, w2, w3


@rule
def draw_part(room: np.ndarray, first: int, n: int, above: Word, seed: Word) -> int:
    """The words of elements first .. first + n - 1 in `room`, of n + 6 at least: from which index on.

    Defined by `spec/words.py: words`.
    """
    ahead = first % 4
    fill(room[: (ahead + n + 3) // 4 * 4], np.uint64(first // 4), above, seed)
    return ahead


@pjit
def _fill_parts(team: int, out: np.ndarray, block: Word, above: Word, seed: Word) -> None:
    """`fill`, a part at a time, on all threads."""
    for p in prange(team, (out.shape[0] + _PART - 1) // _PART):
        at = p * _PART
        fill(out[at : at + _PART], block + np.uint64(at // 4), above, seed)


def check_counter(seed: int, step: int, stream: int) -> None:
    """ConfigError unless seed has 64 bits, step and stream 32: what is above would meet another counter."""
    for what, value, bits in (("seed", seed, 64), ("step", step, 32), ("stream", stream, 32)):
        if not isinstance(value, int | np.integer) or isinstance(value, bool):
            raise ConfigError(f"{what} {value!r} is no whole number")
        if not 0 <= value < 1 << bits:
            raise ConfigError(f"{what} {value} is outside 0..2^{bits}-1")


def words(seed: int, step: int, stream: int, n: int, start: int = 0, alone: bool = False) -> np.ndarray:
    """uint32[n]: the words of elements start..start+n-1 of one stream at one step.

    seed has 64 bits, step and stream 32, an element's index 66; ConfigError outside that.
    alone: draw on the calling thread only, as one beside the main thread must: of two threads that hand out
    work at once, not every threading layer of Numba lets the process live

    Defined by `spec/words.py: words`.
    """
    check_counter(seed, step, stream)
    if n < 0 or not 0 <= start < 4 << 64 or start + n > 4 << 64:
        raise ConfigError(f"elements {start}..{start + n - 1} are outside 0..2^66-1")
    block, skipped = divmod(start, 4)
    out = empty(((skipped + n + 3) // 4 * 4,), np.uint32)
    loop = fill if alone or out.size < _SHARED else _fill_parts
    loop(out, np.uint64(block), np.uint64(step) << _32 | np.uint64(stream), np.uint64(seed))
    return out[skipped : skipped + n]


class Draw(NamedTuple):
    """Where the words of a tensor's elements come from, for what draws them itself; see `words`.

    start: the number of the first element.
    """

    seed: int
    step: int
    stream: int
    start: int = 0

    def words(self, n: int) -> np.ndarray:
        """uint32[n], all at once."""
        return words(self.seed, self.step, self.stream, n, self.start)

    def counters(self, where: str = "") -> tuple[np.uint64, np.uint64]:
        """(above, seed) as `fill` takes them; ConfigError, naming `where`, where they are no counter's."""
        check_counter(self.seed, self.step, self.stream)
        if not 0 <= self.start < 1 << 63:
            raise ConfigError(f"{where}: words from element {self.start} on: 0..2^63-1 have them")
        return np.uint64(self.step) << _32 | np.uint64(self.stream), np.uint64(self.seed)


def stream(name: str) -> int:
    """The 32-bit stream of a name such as 'layer1.0.conv1/gW'. Defined by `spec/words.py: stream`."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")


def check_streams(names: Iterable[str]) -> None:
    """ConfigError when two different names share a stream: their words would be the same."""
    seen: dict[int, str] = {}
    for name in names:
        other = seen.setdefault(stream(name), name)
        if other != name:
            raise ConfigError(
                f"the random streams of {other!r} and {name!r} collide ({stream(name):08x}): rename one"
            )


def lfsr_states(seed: int) -> Iterator[int]:
    """The 32-bit states after `seed` (not 0) of the Galois LFSR, one a step.

    Defined by `spec/words.py: lfsr_states`.
    """
    if not 0 < seed < 1 << 32:
        raise ConfigError(f"an LFSR seed is a non-zero 32-bit number, not {seed}")
    state = seed
    while True:
        state = (state >> 1) ^ (LFSR_MASK if state & 1 else 0)
        yield state


@njit
def _lfsr_fill(state: int, out: np.ndarray) -> None:
    for i in range(out.shape[0]):
        for _ in range(16):
            state = (state >> 1) ^ (LFSR_MASK if state & 1 else 0)
        out[i] = state & 0xFFFF


def lfsr_words(seed: int, n: int) -> np.ndarray:
    """uint16[n]: n draws of 16 steps each, the low 16 bits of the state after them.

    For a quantizer they stand at the top of 32 bits: words = draws.astype(np.uint32) << 16, word_bits = 16.

    Defined by `spec/words.py: lfsr`.
    """
    next(lfsr_states(seed))  # checks the seed
    if n < 0:
        raise ConfigError(f"{n} draws: a whole number from 0 on")
    out = np.empty(n, np.uint16)
    _lfsr_fill(seed, out)
    return out
