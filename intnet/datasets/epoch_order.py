"""The order in which an epoch goes through the training images."""

import numpy as np

from intnet.datasets.dataset import is_int
from intnet.errors import ConfigError
from intnet.numbers import rng


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
