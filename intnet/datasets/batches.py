"""The order of an epoch, the batches of a run as a function of the step's number, and reading ahead.

    batches = Batches(data, batch_size=64, seed=1)
    ahead = Ahead(batches)
    images, labels = ahead(0)           # what batches(0) gives; batches 1, 2, ... are read meanwhile

`Ahead` works for any function of a number, and only calls it earlier, on other threads: the number of
threads, and what they are faster at, can change no result.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from typing import Generic, TypeVar

import numpy as np

from intnet.datasets.augment import Augment
from intnet.datasets.dataset import Dataset, is_int
from intnet.errors import ConfigError
from intnet.machine import ranks
from intnet.numbers import rng
from intnet.numbers.shares import Share

READERS = 2  # threads of a stream
DEPTH = 4  # results that are kept ahead: the memory that a stream may take

T = TypeVar("T")


def order(seed: int, epoch: int, n: int) -> np.ndarray:
    """int64[n]: the permutation of the n training images in which one epoch goes through them.

    Image i has the 64-bit key (word 2i, word 2i+1), high half first, of the stream "data/order" at step
    `epoch`; the permutation sorts by key, equal keys in order of i. It depends on nothing else.
    ConfigError for n < 1 and for a seed or an epoch that the generator does not take.

    Defined by `spec/data.py: order`.
    """
    if not is_int(n) or n < 1:
        raise ConfigError(f"an order of {n!r} images: there must be at least 1")
    found = rng.words(seed, step=epoch, stream=rng.stream("data/order"), n=2 * n, alone=True)
    halves = found.astype(np.uint64)
    keys = halves[0::2] << np.uint64(32) | halves[1::2]
    return np.argsort(keys, kind="stable").astype(np.int64)


class Batches:
    """(images (n, H, W, C), int64 labels (n,)) of step s from 0; the last one of an epoch may be short.

    Any thread may call it. Among ranks: this one's images. per_epoch: steps of an epoch

    Defined by `spec/data.py: batch`, `spec/data.py: members`.
    """

    def __init__(self, data: Dataset, batch_size: int, seed: int, augment: Augment) -> None:
        images = len(data.train_labels)
        if not 1 <= batch_size <= images:
            raise ConfigError(
                f"batch size {batch_size}: the data set has {images} training images: give a number from 1 "
                f"to {images}"
            )
        if not isinstance(augment, Augment):
            raise ConfigError(f"augment={augment!r}: make one, as datasets.Augment(crop=4, flip=True)")
        augment.check(*data.image_shape[:2])
        self.data, self.batch_size, self.seed, self.augment = data, batch_size, seed, augment
        self.per_epoch, self._world = -(-images // batch_size), ranks.current()
        # two: while an epoch ends, the next one's first batches are read
        self._order = lru_cache(maxsize=2)(lambda epoch: order(seed, epoch, images))

    def share(self, step: int, watched: bool = False) -> Share | None:
        """The images of a step that this rank has; None where it is alone. watched: as `Share` has it."""
        if self._world is None:
            return None
        first = step % self.per_epoch * self.batch_size
        return Share(self._world, min(self.batch_size, len(self.data.train_labels) - first), watched)

    def __call__(self, step: int) -> tuple[np.ndarray, np.ndarray]:
        """The batch of a step; DataError where a file of it is bad."""
        epoch, position = divmod(step, self.per_epoch)
        index = self._order(epoch)[position * self.batch_size : (position + 1) * self.batch_size]
        own = self.share(step)
        index = index if own is None else index[own.own]
        images = self.data.train_images[index]
        if self.augment != Augment():
            images = self.augment(images, self.seed, step, 0 if own is None else own.first)
        return images, self.data.train_labels[index]


class Ahead(Generic[T]):
    """make(k), asked for in any order, with the next ones made in the background.

    An error of make(k) is raised where k is asked for, not before. Threads begin at the first call and end
    with the object. end: make is not called from this number on
    """

    def __init__(self, make: Callable[[int], T], end: int | None = None) -> None:
        self._make, self._end = make, end
        self._pool: ThreadPoolExecutor | None = None
        self._coming: dict[int, Future[T]] = {}

    def __call__(self, k: int) -> T:
        """make(k), as soon as it is there."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(READERS, "intnet-reader")
        last = k + DEPTH if self._end is None else min(k + DEPTH, self._end - 1)
        for gone in [j for j in self._coming if not k <= j <= last]:  # after a jump: of a resumed run
            self._coming.pop(gone).cancel()
        for j in range(k, last + 1):
            if j not in self._coming:
                self._coming[j] = self._pool.submit(self._make, j)
        return self._coming.pop(k).result()
