"""Mistakes of places: words of the right numbers, a lane, a vector or many beside where they belong."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from math import prod

import numpy as np

from intnet.packs import lines
from intnet.packs.mistakes import Variant, Words

LATENCY = "(latency)"


def _moved(w: Words, move: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """The elements of other rows of lanes, made from those wanted."""
    return lines.held(w.port, move(lines.rows(w.port, w.want)))


@dataclass(frozen=True)
class Delay:
    """A right unit so many vectors late, or early where `words` is below 0."""

    words: int

    def __str__(self) -> str:
        count = abs(self.words)
        vectors = "one vector" if count == 1 else f"{count} vectors"
        return f"{vectors} {'late' if self.words > 0 else 'early'} {LATENCY}"

    def free(self, w: Words) -> np.ndarray:
        """Of every element whether anything may stand there: ahead of the first result or behind the last."""
        ends = slice(None, self.words) if self.words > 0 else slice(self.words, None)

        def marked(want: np.ndarray) -> np.ndarray:
            mask = np.zeros_like(want)
            mask[ends] = 1
            return mask

        return _moved(w, marked) != 0

    def __call__(self, w: Words) -> np.ndarray:
        """What it gives; where anything may stand, what came."""
        given = _moved(w, lambda want: np.roll(want, self.words, axis=0))
        return np.where(self.free(w), w.got, given)


PLACES: dict[str, Variant] = {
    "lanes reversed": lambda w: _moved(w, lambda want: want[:, ::-1]),
    **{str(delay): delay for delay in map(Delay, (1, -1))},
}
FARTHEST = 64  # vectors that a latency is looked for
MOST_AXES = 4  # 24 orders of them


def latencies(w: Words) -> Iterator[tuple[str, Variant]]:
    """A right unit some vectors late, or early, of which at least half is left to judge."""
    for words in range(2, min(FARTHEST, w.want.size // w.port.lanes // 2) + 1):
        yield from ((str(delay), delay) for delay in map(Delay, (words, -words)))


def orders(w: Words) -> Iterator[tuple[str, Variant]]:
    """Right elements written along other axes first, or one axis backwards: of a file in C order."""
    shape, names = w.port.shape, w.port.axes.split(",")
    if w.port.order or len(names) != len(shape) or len(shape) > MOST_AXES or w.want.size != prod(shape):
        return
    for axes in permutations(range(len(shape))):
        if axes != tuple(range(len(shape))):
            yield f"axes in the order {','.join(names[axis] for axis in axes)}", partial(_turned, axes)
    for axis, name in enumerate(names):
        if shape[axis] > 1:
            yield f"axis {name} backwards", partial(_backwards, axis)


def _turned(axes: tuple[int, ...], w: Words) -> np.ndarray:
    return w.want.reshape(w.port.shape).transpose(axes).reshape(-1)


def _backwards(axis: int, w: Words) -> np.ndarray:
    return np.flip(w.want.reshape(w.port.shape), axis).reshape(-1)
