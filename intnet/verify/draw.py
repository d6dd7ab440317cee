"""Which elements of a path are verified: drawn by a seed, and those that decide."""

import random
from typing import Any

import numpy as np

from intnet.numbers.qtensor import QTensor

FEW = 8  # of each kind that decides


def drawn(name: str, elements: int, count: int | None) -> np.ndarray:
    """Sorted flat indices, `count` of them (None, or no more than that: all), by a name and nothing else."""
    if count is None or elements <= count:
        return np.arange(elements)
    return np.array(sorted(random.Random(name).sample(range(elements), count)), np.int64)


def telling(result: Any, limits: tuple[int, int] | None) -> np.ndarray:
    """Flat indices of the greatest and the least number of a stored tensor, of zeros, of codes at a limit."""
    numbers = (result.codes if isinstance(result, QTensor) else result).reshape(-1)
    if numbers.size == 0:
        return np.zeros(0, np.int64)
    found = [np.array([numbers.argmax(), numbers.argmin()])]
    found.append(np.flatnonzero(numbers == 0)[:FEW])
    for limit in limits or ():
        found.append(np.flatnonzero(numbers == limit)[:FEW])
    return np.unique(np.concatenate(found))


def close(scaled: np.ndarray, words: np.ndarray | None) -> np.ndarray:
    """Flat indices of values nearest to what decides a rounding: a half, or the fraction that a word means.

    scaled: float64, in steps of the grid. Ties are among them, where there are any.
    """
    flat = scaled.reshape(-1)
    fraction = flat - np.floor(flat)
    border = np.full(1, 0.5) if words is None else words.reshape(-1).astype(np.float64) / 2.0**32
    far = np.abs(fraction - border)
    if words is not None:
        far = np.where(fraction == 0, 1.0, far)  # what is on the grid takes no decision
    count = min(FEW, far.size)
    return np.argpartition(far, count - 1)[:count] if count else np.zeros(0, np.int64)
