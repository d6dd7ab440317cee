"""Mistakes of places: words of the right numbers, a lane, a vector or many beside where they belong."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from intnet.packs import lines
from intnet.packs.mistakes import Variant, Words

LATENCY = "(latency)"


def _moved(w: Words, move: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
    """The elements of other rows of lanes, made from those wanted and those given."""
    return lines.held(w.port, move(lines.rows(w.port, w.want), lines.rows(w.port, w.got)))


def _late(w: Words, words: int = 1) -> np.ndarray:
    """The vectors so many before; the first ones may be anything."""
    return _moved(w, lambda want, got: np.concatenate([got[:words], want[:-words]]))


def _early(w: Words, words: int = 1) -> np.ndarray:
    return _moved(w, lambda want, got: np.concatenate([want[words:], got[-words:]]))


PLACES: dict[str, Variant] = {
    "lanes reversed": lambda w: _moved(w, lambda want, got: want[:, ::-1]),
    f"one vector late {LATENCY}": _late,
    f"one vector early {LATENCY}": _early,
}
FARTHEST = 64  # vectors that a latency is looked for


def latencies(w: Words) -> Iterator[tuple[str, Variant]]:
    """A right unit some vectors late, or early, of which at least half is left to judge."""
    for words in range(2, min(FARTHEST, w.want.size // w.port.lanes // 2) + 1):
        yield f"{words} vectors late {LATENCY}", partial(_late, words=words)
        yield f"{words} vectors early {LATENCY}", partial(_early, words=words)
