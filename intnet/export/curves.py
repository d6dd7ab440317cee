"""tanh, sigmoid and SiLU as staircases: where a method's own rounding of the curve changes from code to code.

Of a few codes each is asked for. Of many, tanh and sigmoid are halved for each code that they reach, where
the exact curve is rounded: it rises, and so does what rounds it to nearest. SiLU falls and rises, and of a
sequence of float32 nobody has proven that it rises: both are refused there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from intnet.errors import ConfigError
from intnet.numbers.qtensor import QTensor
from intnet.ops.curves import Curve, Sigmoid, Silu, Tanh

KINDS: dict[str, type[Curve]] = {"tanh": Tanh, "sigmoid": Sigmoid, "silu": Silu}
RISING = Tanh, Sigmoid  # exact, until they are rounded
FEW = 1 << 20
MOST_STEPS = 1 << 17

At = Callable[[np.ndarray], np.ndarray]  # codes of the curve at int64 codes


def staircase(lo: int, hi: int, at: At, rises: bool, where: str) -> tuple[np.ndarray, np.ndarray]:
    """(steps, codes) of `program.Curve`, for operands lo..hi; ConfigError where there are too many."""
    if hi - lo < FEW:
        every = at(np.arange(lo, hi + 1))
        steps = lo + 1 + np.flatnonzero(np.diff(every))
        return steps, every[np.append(lo, steps) - lo]
    first, last = at(np.array([lo, hi])).tolist()
    if not rises or last - first > MOST_STEPS:
        raise ConfigError(
            f"{where}: a curve of {hi - lo + 1:,} codes, too many for a table: bound the activations ahead "
            "of it, of wageubn by training with --set saturate=0, 1, .."
        )
    reached = np.arange(first + 1, last + 1)  # the least operand of each, within below..above
    below, above = np.full(len(reached), lo), np.full(len(reached), hi)
    while np.any(above - below > 1):
        middle = below + (above - below) // 2
        there = at(middle) >= reached
        below, above = np.where(there, below, middle), np.where(there, middle, above)
    steps = np.unique(above)
    return steps, at(np.append(lo, steps))


def rounded(kind: str, quantize: Callable[[Any], Any], exponent: int) -> Callable[[np.ndarray], Any]:
    """What a method makes of the curve at codes of an exponent."""
    return lambda codes: quantize(KINDS[kind](QTensor(codes, exponent)))
