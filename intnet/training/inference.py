"""Inference after training: the logits, class and probabilities of images, and how many are right.

`statistics=batch`, and formats that scale by the greatest value of a tensor, read what a batch shares: the
definition has batches of 256 images in order, which is what all of this takes unless told.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from intnet import ops
from intnet.autograd import Tensor
from intnet.datasets import Ahead, Dataset
from intnet.datasets.dataset import Images, is_int
from intnet.errors import ConfigError
from intnet.machine.ranks import current
from intnet.methods.method import Method
from intnet.models.model import Model
from intnet.numbers import shares
from intnet.numbers.qtensor import QTensor
from intnet.numbers.shares import Share
from intnet.ops.loss import float_logits
from intnet.show.tables import Shown, Table, facts

EVALUATION_BATCH = 256
_BOUNDS = {"uint8": 255, "int16": (1 << 15) - 1, "int32": 1 << 23}  # of codes, by their container


@dataclass(frozen=True, repr=False, eq=False)
class Scores(Shown):
    """Of tested images: loss, the mean cross-entropy (NaN where a logit is none), and places of the classes.

    places: int64, how many of the `classes` stand ahead of each image's own (`ranks`)
    """

    loss: float
    places: np.ndarray
    classes: int

    @property
    def images(self) -> int:
        """How many."""
        return len(self.places)

    @property
    def accuracy(self) -> float:
        """The share that is classified right."""
        return self.top(1)

    @property
    def top5(self) -> float:
        """The share whose class is among the five greatest logits."""
        return self.top(5)

    def top(self, k: int) -> float:
        """The share whose class is among the k greatest logits; ConfigError where k is no such number."""
        if not is_int(k) or k < 1:
            raise ConfigError(f"top({k!r}): the number of greatest logits, a whole number of at least 1")
        return int(np.count_nonzero(self.places < k)) / self.images

    def summary(self) -> Table:
        """All of it."""
        return facts("", self._told().items())

    def __repr__(self) -> str:
        *told, (_, images) = self._told().items()
        return f"Scores({', '.join(f'{what} {value}' for what, value in told)}, {images} images)"

    def _told(self) -> dict[str, str]:
        """Top-5 of more than 5 classes."""
        top5 = {"top-5": f"{self.top5:.2%}"} if self.classes > 5 else {}
        told = {"accuracy": f"{self.accuracy:.2%}", **top5, "loss": f"{self.loss:.4f}"}
        return told | {"images": f"{self.images:,}"}


def evaluate(
    model: Model,
    method: Method,
    data: Dataset,
    on_batch: Callable[[int], None] | None = None,
    batch_size: int = EVALUATION_BATCH,
) -> Scores:
    """Scores of the test images; ConfigError where there are none."""
    if not len(data.test_labels):
        raise ConfigError(
            f"data set {data.name!r} has no test part: give it one (X_test and y_test, or a share, test=0.2) "
            "or test other images: run.evaluate(X, y), intnet eval RUN --data D"
        )
    images, labels = data.test_images, data.test_labels
    return scores(all_logits(model, method, images, data.exponent, batch_size, on_batch), labels)


def scores(logits: np.ndarray, labels: np.ndarray) -> Scores:
    """Of float32 logits; the loss is that of all images as one batch.

    Defined by `spec/loss.py: cross_entropy`, `spec/inference.py: ranks`.
    """
    loss = float("nan")
    if np.all(np.isfinite(logits)):
        loss = float(ops.softmax_cross_entropy(Tensor(logits), labels=labels).value)
    return Scores(loss, ranks(logits, labels), logits.shape[1])


def all_logits(
    model: Model,
    method: Method,
    images: Images,
    exponent: int,
    batch_size: int = EVALUATION_BATCH,
    on_batch: Callable[[int], None] | None = None,
) -> np.ndarray:
    """float32 (N, classes), batch after batch; on_batch is told the images of each."""

    def each() -> Iterator[np.ndarray]:
        parts = -(-len(images) // batch_size)
        ahead = Ahead(lambda k: images[of_batch(k)[1]], end=parts)
        for k in range(parts):
            share, _ = of_batch(k)
            with shares.sharing(share):
                logits = shares.joined(logits_of(model, method, ahead(k), exponent))
            yield logits
            if on_batch is not None:
                on_batch(len(logits))

    def of_batch(k: int) -> tuple[Share | None, slice]:
        first, last = k * batch_size, min((k + 1) * batch_size, len(images))
        world = current()
        if world is None:
            return None, slice(first, last)
        share = Share(world, last - first)
        return share, slice(first + share.first, first + share.last)

    if not is_int(batch_size) or batch_size < 1:
        raise ConfigError(f"batch_size={batch_size!r}: a whole number of at least 1")
    return np.concatenate(list(each()))


def evaluation_batch(data: Dataset, k: int, size: int = EVALUATION_BATCH) -> tuple[np.ndarray, np.ndarray]:
    """(images, labels) of the test batch k, from 0. Defined by `spec/inference.py: batch`."""
    part = slice(k * size, (k + 1) * size)
    return data.test_images[part], data.test_labels[part]


def logits_of(model: Model, method: Method, images: np.ndarray, exponent: int) -> np.ndarray:
    """float32 (images, classes). Defined by `spec/inference.py: logits`."""
    with method.within(training=False):
        return float_logits(model(Tensor(as_codes(images, exponent)), method).value)


def classified(model: Model, method: Method, images: np.ndarray, exponent: int) -> np.ndarray:
    """The class of each image: the first of its greatest logits.

    Defined by `spec/inference.py: classes`.
    """
    found: np.ndarray = logits_of(model, method, images, exponent).argmax(axis=1)
    return found


def ranks(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """int64: how many classes stand ahead of each image's own: of greater logits, of equal ones by number.

    Defined by `spec/inference.py: ranks`.
    """
    own = logits[np.arange(len(labels)), labels][:, None]
    lower = np.arange(logits.shape[1]) < labels[:, None]
    ahead = ~(logits <= own) | ((logits == own) & lower)  # a logit that is no number stands ahead
    found: np.ndarray = np.count_nonzero(ahead, axis=1)
    return found


def as_codes(images: np.ndarray, exponent: int) -> QTensor:
    """Images of a data set as an exact QTensor: value = code * 2**exponent, bound by their container."""
    codes = images.astype(np.int16) if images.dtype == np.uint8 else images
    return QTensor(codes, exponent, bound=_BOUNDS[images.dtype.name])
