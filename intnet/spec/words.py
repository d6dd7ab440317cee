"""Random words: Philox4x32-10 with the counter rule, and the Galois LFSR; read `rounding` for their use.

A word depends on (seed, step, name, index) and on nothing else.
"""
import hashlib
from collections.abc import Iterator, Sequence
from fractions import Fraction

MASK32 = 2**32 - 1
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)  # golden ratio and sqrt(3) - 1, the key's increments
ROUNDS = 10
LFSR_MASK = 0x80200003  # x^32 + x^22 + x^2 + x + 1
LFSR_STEPS = 16


def philox4x32(counter4: Sequence[int], key2: Sequence[int]) -> tuple[int, int, int, int]:
    """Ten rounds of Philox4x32 (Salmon et al. 2011): four counter words and two key words to four words."""
    c0, c1, c2, c3 = counter4
    k0, k1 = key2
    for _ in range(ROUNDS):
        left = MULTIPLIERS[0] * c0
        right = MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (right >> 32) ^ c1 ^ k0, right & MASK32, (left >> 32) ^ c3 ^ k1, left & MASK32
        k0 = (k0 + WEYL[0]) & MASK32
        k1 = (k1 + WEYL[1]) & MASK32
    return c0, c1, c2, c3


def stream(name: str) -> int:
    """The stream of a data path 'layer/path': the first 4 bytes of its SHA-256, read big-endian."""
    return int(hashlib.sha256(name.encode("utf-8")).hexdigest()[:8], 16)


def words(seed: int, step: int, name: str, n: int, start: int = 0, bits: int = 32) -> list[int]:
    """Words of elements start .. start + n - 1 (C order) of path `name`; a B-bit word is the top B bits."""
    key = (seed & MASK32, (seed >> 32) & MASK32)
    out = []
    for i in range(start, start + n):
        block = i // 4
        four = philox4x32((block & MASK32, (block >> 32) & MASK32, stream(name), step), key)
        out.append(four[i % 4] // 2 ** (32 - bits))
    return out


def lfsr_states(seed: int) -> Iterator[int]:
    """The 32-bit states after 1, 2, 3, ... steps from state `seed`."""
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


def normal_u(word: int) -> Fraction:
    """The inverse normal distribution's argument for a 32-bit word: (word + 1/2) / 2^32, never 0 or 1."""
    return (word + Fraction(1, 2)) / 2**32
