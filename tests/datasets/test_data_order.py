"""The order in which an epoch goes through the training images: `intnet.datasets.order`."""

import numpy as np
import pytest

from intnet import datasets
from intnet.errors import ConfigError
from intnet.numbers import rng


def test_order_sorts_the_keys_of_two_words() -> None:
    for seed, epoch, n in ((0, 0, 1), (1, 0, 2), (2**64 - 1, 2**32 - 1, 1000), (7, 3, 1438)):
        words = [int(w) for w in rng.words(seed, epoch, rng.stream("data/order"), 2 * n)]
        keys = [words[2 * i] << 32 | words[2 * i + 1] for i in range(n)]
        expected = sorted(range(n), key=keys.__getitem__)
        result = datasets.order(seed, epoch, n)
        assert result.dtype == np.int64 and result.tolist() == expected


def test_order_is_a_permutation_that_depends_on_seed_and_epoch() -> None:
    orders = {(s, e): datasets.order(s, e, 100).tolist() for s in range(4) for e in range(4)}
    assert all(sorted(order) == list(range(100)) for order in orders.values())
    assert len({tuple(order) for order in orders.values()}) == 16
    assert datasets.order(2, 3, 100).tolist() == orders[2, 3]


def test_order_breaks_ties_by_index_and_uses_both_words(monkeypatch: pytest.MonkeyPatch) -> None:
    words = [5, 1, 5, 0, 2**32 - 1, 0, 5, 1, 0, 2**32 - 1]
    monkeypatch.setattr(rng, "words", lambda *args, **named: np.array(words, np.uint32))
    assert datasets.order(0, 0, 5).tolist() == [4, 1, 0, 3, 2]


@pytest.mark.parametrize("n", [0, -3, 1.5])
def test_order_of_no_images(n: int) -> None:
    with pytest.raises(ConfigError, match="there must be at least 1"):
        datasets.order(0, 0, n)


def test_order_passes_on_what_the_generator_refuses() -> None:
    with pytest.raises(ConfigError, match="seed -1 is outside"):
        datasets.order(-1, 0, 4)
    with pytest.raises(ConfigError, match="step -1 is outside"):
        datasets.order(0, -1, 4)
