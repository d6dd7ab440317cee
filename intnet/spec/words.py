"""Random words: Philox4x32-10 with the counter rule, and the Galois LFSR; read `rounding` for their use.

Philox4x32-10 is that of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011),
sec. 3.4, with the constants of Random123. The counter rule is intnet's own contract:

    key      the seed's low and high 32 bits
    counter  (i // 4 low, i // 4 high, stream, step): element i in C order takes word i % 4 of the four
    stream   the first 4 bytes of SHA-256 of 'layer/path', big-endian
    B bits   the top B bits of the 32

A word depends on (seed, step, name, index) and on nothing else: any thread count, any resumed run and any
subset of elements gives the same.

>>> words(seed=7, step=3, name="conv1/gW", n=5)[4] == word(7, 3, "conv1/gW", 4)
True
"""

import hashlib
from collections.abc import Iterator, Sequence
from functools import lru_cache

MASK32 = 2**32 - 1
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)  # golden ratio and sqrt(3) - 1, the key's increments
ROUNDS = 10
LFSR_MASK = 0x80200003  # x^32 + x^22 + x^2 + x + 1
LFSR_STEPS = 16


def philox4x32(counter4: Sequence[int], key2: Sequence[int]) -> tuple[int, int, int, int]:
    """Ten rounds of Philox4x32 (Salmon et al. 2011): four counter words and two key words to four words.

    >>> ["%08x" % v for v in philox4x32((0, 0, 0, 0), (0, 0))]      # Random123's known answer
    ['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']
    """
    c0, c1, c2, c3 = counter4
    k0, k1 = key2
    for _ in range(ROUNDS):
        left = MULTIPLIERS[0] * c0
        right = MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (right >> 32) ^ c1 ^ k0, right & MASK32, (left >> 32) ^ c3 ^ k1, left & MASK32
        k0 = (k0 + WEYL[0]) & MASK32
        k1 = (k1 + WEYL[1]) & MASK32
    return c0, c1, c2, c3


@lru_cache(maxsize=4096)
def stream(name: str) -> int:
    """The stream of a data path 'layer/path': the first 4 bytes of its SHA-256, read big-endian."""
    return int(hashlib.sha256(name.encode("utf-8")).hexdigest()[:8], 16)


@lru_cache(maxsize=256)
def _four(seed: int, step: int, name: str, block: int) -> tuple[int, int, int, int]:
    """The words of elements 4 block .. 4 block + 3; ValueError for what is no key or no counter."""
    if not (0 <= seed < 2**64 and 0 <= step <= MASK32 and 0 <= block < 2**64):
        raise ValueError(
            f"seed 0..2^64 - 1, step 0..2^32 - 1, element from 0 to 2^66 - 1: got {seed}, {step},"
            f" one of elements {4 * block} to {4 * block + 3}"
        )
    counter = (block & MASK32, (block >> 32) & MASK32, stream(name), step)
    return philox4x32(counter, (seed & MASK32, (seed >> 32) & MASK32))


def word(seed: int, step: int, name: str, i: int, bits: int = 32) -> int:
    """The word of `bits` bits, 1 to 32, of element i of path `name`: the counter rule."""
    if not 1 <= bits <= 32:
        raise ValueError(f"a word has 1..32 bits, got {bits}")
    return _four(seed, step, name, i // 4)[i % 4] // 2 ** (32 - bits)


def words(seed: int, step: int, name: str, n: int, start: int = 0, bits: int = 32) -> list[int]:
    """`word` of elements start .. start + n - 1."""
    return [word(seed, step, name, i, bits) for i in range(start, start + n)]


def seeded(seed: int, n: int, bits: int = 32) -> list[int]:
    """The words of a tensor that is quantized with a seed alone: step 0 of the stream 'quantize'."""
    return words(seed, 0, "quantize", n, bits=bits)


def lfsr_states(seed: int) -> Iterator[int]:
    """The 32-bit states after 1, 2, 3, ... steps from state `seed`; a 1 that leaves enters by the mask."""
    if not 1 <= seed <= MASK32:
        raise ValueError(f"the LFSR's state is 1..2^32 - 1, got {seed}")
    state = seed
    while True:
        odd = state % 2
        state //= 2
        if odd:
            state ^= LFSR_MASK
        yield state


def lfsr(seed: int) -> Iterator[int]:
    """The 16-bit draws from state `seed`: 16 steps, then the low 16 bits."""
    for count, state in enumerate(lfsr_states(seed), start=1):
        if count % LFSR_STEPS == 0:
            yield state % 2**16
