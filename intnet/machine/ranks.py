"""Ranks: processes that train one model together, each on images of its own, on one machine or on many.

    with joined(world):         from here on runs share their batches out (`numbers/shares.py`)
        run.train(...)

A `World` is what joins them: all that it must do is `gather`, everything else here is made of it. Without one
a process is alone and nothing below is called. Over MPI: `machine/mpi.py`.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np


class World:
    """`size` processes, of which this one is `rank`; every call is made by all of them, in one order.

    sent: bytes that this rank gave others to read, by what they were, as ('sums', int16); each once, however
    many read it; calls: how often it gave any
    """

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        self.sent, self.calls = Counter[tuple[str, np.dtype]](), 0

    def _gather(self, flat: np.ndarray, lengths: Sequence[int]) -> list[np.ndarray]:
        raise NotImplementedError("a world defines _gather")

    def _count(self, what: str, array: np.ndarray, kept: int = 0) -> None:
        """kept: bytes of it that are for this rank itself."""
        self.sent[what, array.dtype] += array.nbytes - kept
        self.calls += 1

    def gather(self, flat: np.ndarray, lengths: Sequence[int], what: str = "parts") -> list[np.ndarray]:
        """The vectors of all ranks, which have these lengths and one type; what: its name in `sent`."""
        assert flat.shape == (lengths[self.rank],)
        self._count(what, flat)
        return self._gather(flat, lengths)

    def exchange(
        self, parts: Sequence[np.ndarray], lengths: Sequence[int], what: str = "parts"
    ) -> list[np.ndarray]:
        """What every rank has for this one, of these lengths; parts: what this has for each, of one type."""
        self._count(what, np.concatenate(parts), parts[self.rank].nbytes)
        return self._exchange(parts, lengths)

    def _exchange(self, parts: Sequence[np.ndarray], lengths: Sequence[int]) -> list[np.ndarray]:
        table = self._gather(np.array([part.size for part in parts]), [self.size] * self.size)
        sizes = [own.tolist() for own in table]
        found = self._gather(np.concatenate(parts), [sum(own) for own in sizes])
        mine = [
            part[sum(own[: self.rank]) :][: own[self.rank]] for part, own in zip(found, sizes, strict=True)
        ]
        assert [part.size for part in mine] == list(lengths)
        return mine

    def total(self, array: np.ndarray, what: str = "sums") -> np.ndarray:
        """The sum over ranks of integers of one shape and type, which must hold it."""
        assert array.dtype.kind == "i"  # exact in any order; float32 has `shares.folded`
        parts = self.gather(array.reshape(-1), [array.size] * self.size, what)
        return np.sum(parts, axis=0, dtype=array.dtype).reshape(array.shape)

    def begin_total(self, array: np.ndarray, what: str = "sums") -> Callable[[], np.ndarray]:
        """`total`, which whoever calls the result waits for; a world that can goes on meanwhile."""
        found = self.total(array, what)
        return lambda: found

    def greatest(self, array: np.ndarray, what: str = "maxima") -> np.ndarray:
        """The greatest over ranks, element by element."""
        parts = self.gather(array.reshape(-1), [array.size] * self.size, what)
        return np.asarray(np.max(parts, axis=0)).reshape(array.shape)

    def messages(self, own: bytes) -> list[bytes]:
        """What every rank has to say."""
        lengths = [int(n) for (n,) in self.gather(np.array([len(own)]), [1] * self.size, "messages")]
        return [part.tobytes() for part in self.gather(np.frombuffer(own, np.uint8), lengths, "messages")]


_world: World | None = None


def current() -> World | None:
    """The world that this process is in, None where it is alone."""
    return _world


@contextmanager
def joined(world: World | None) -> Iterator[None]:
    """Inside the block this process is a rank of `world`."""
    global _world  # noqa: PLW0603 (one a process, as the process itself is one)
    before, _world = _world, world
    try:
        yield
    finally:
        _world = before
