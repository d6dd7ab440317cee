"""Batch norm's running statistics, re-estimated ahead of evaluation by the parameters as they stand.

    with reestimated(model, method, batches):
        ...                 inference reads the new statistics; after it the model is as it was

A running statistic follows training by 1/8 a step, and each layer's inputs move with the layers ahead of it:
where parameters move fast it lags behind them. Here all batches pass through the same parameters, in
inference (to nearest, no dropout), by their own statistics, and the plain mean of these over the batches
stands for the running ones. No parameter moves. Defined by `spec/inference.py: reestimated`.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from intnet.autograd import Tensor
from intnet.errors import ConfigError
from intnet.layers import BatchNorm2d
from intnet.methods.method import Method
from intnet.methods.trace import Recorder
from intnet.models.model import Model
from intnet.numbers.qtensor import QTensor


def norms_of(model: Model) -> list[BatchNorm2d]:
    """The batch norms of a model."""
    return [layer for layer in model.all_layers() if isinstance(layer, BatchNorm2d)]


@contextmanager
def batch_statistics(method: Method) -> Iterator[None]:
    """Inside the block inference reads the batch's own statistics, as with `statistics=batch`."""
    before, method.running_statistics = method.running_statistics, False
    try:
        yield
    finally:
        method.running_statistics = before


@contextmanager
def reestimated(model: Model, method: Method, batches: Iterable[QTensor]) -> Iterator[None]:
    """Inside the block every batch norm has the statistics of `batches`, one or more of images as codes.

    ConfigError where there are no running statistics to re-estimate.
    """
    norms = norms_of(model)
    if not norms:
        raise ConfigError(f"model {model.kind!r} has no batch norm, so no running statistics to re-estimate")
    if not method.running_statistics:
        raise ConfigError(
            "statistics=batch: inference reads the test batch's own statistics, so there are no running ones "
            "to re-estimate"
        )
    found = _statistics(model, method, norms, batches)
    before = [dict(norm.buffers) for norm in norms]
    try:
        for norm in norms:
            norm.reestimate(found[norm.name])
        yield
    finally:
        for norm, buffers in zip(norms, before, strict=True):
            norm.buffers = buffers


def _statistics(
    model: Model, method: Method, norms: list[BatchNorm2d], batches: Iterable[QTensor]
) -> dict[str, list[tuple[object, object]]]:
    """Batch norm -> (mu, sigma of integers or else variance) of every batch, as stored in its pass."""
    found: dict[str, list[tuple[object, object]]] = {norm.name: [] for norm in norms}
    with batch_statistics(method):
        for images in batches:
            seen = Recorder("*/mu", "*/sigma", "*/var")
            with method.within(training=False, observers=[seen], saturated={}):
                model(Tensor(images), method)
            for name, own in found.items():
                width = "sigma" if f"{name}/sigma" in seen.events else "var"
                own.append((seen[f"{name}/mu"], seen[f"{name}/{width}"]))
    return found
