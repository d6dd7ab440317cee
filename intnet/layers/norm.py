"""Batch norm, with its running statistics."""

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from intnet import ops
from intnet.autograd import Tensor
from intnet.errors import ContainerError, ShapeError
from intnet.exact.expressions import Exact
from intnet.layers.base import Layer
from intnet.methods.method import Method, Parameter
from intnet.numbers.qtensor import INT64_BOUND, QTensor
from intnet.numbers.rounding import Rounding
from intnet.ops import norm


class BatchNorm2d(Layer):
    """Batch norm over all axes but the last (so it serves linear layers too); weight gamma, bias beta.

    Running statistics, integer: r <- r + (x - r) * 2^-3, rounded ties_even at exponent -31, of mu_q
    and sigma_q^2; float32: the same rule in float32.
    """

    normalizes = True
    SHIFT = 3
    EXPONENT = -31

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.weight = Parameter("weight", "gamma", (num_features,), "ones")
        self.bias = Parameter("bias", "beta", (num_features,), "zeros")
        self.parameters = [self.weight, self.bias]
        self.num_features = num_features

    def forward(self, x: Tensor, method: Method) -> Tensor:
        """x3 = gammaq * x2 + betaq."""
        gamma, beta = self.read(self.weight, method), self.read(self.bias, method)
        inference = not method.training and method.running_statistics
        folded = method.fold(self) if inference else None
        if folded is not None:
            return self.on_path(norm.scale_shift(x, *folded, where=self.name), method, "x3", None)
        if isinstance(x.value, np.ndarray) != isinstance(gamma.value, np.ndarray):
            x = self.on_path(x, method, "x1", None)  # the layer before is of the other kind
        seen: dict[str, Any] = {}

        def act(path: str, value: Any) -> Any:
            seen[path] = method.activation(self, path, value)
            return seen[path]

        def err(path: str, value: Any) -> Any:
            return method.error(self, path, value)

        if inference:
            y = norm.normalize(x, gamma, beta, *self.running_statistics(), act=act, where=self.name)
            return self.on_path(y, method, "x3", None)
        keep = self.keeper(method, "x1")
        if method.ranged:
            y = ops.range_norm(x, gamma, beta, act=act, keep=keep, where=self.name)
        else:
            y = ops.batch_norm(x, gamma, beta, act=act, err=err, keep=keep, where=self.name)
        if method.training:
            self._follow(seen["mu"], seen["sigma" if "sigma" in seen else "var"])
        return self.on_path(y, method, "x3", "e1")

    def _follow(self, mu: Any, width: Any) -> None:
        """Move the running statistics one step. Defined by `spec/float_batch_norm.py: running_update`."""
        if isinstance(mu, np.ndarray):
            rate = np.float32(2.0**-self.SHIFT)
            for key, start, x in (("running_mean", 0, mu), ("running_var", 1, width)):
                r = self.buffers.get(key, np.full(self.num_features, start, np.float32))
                self.buffers[key] = r + (x - r) * rate
            return
        for key, start, x in (("running_mean", 0, mu), ("running_var", 1, self._squared(width))):
            r = self.buffers.get(
                key, QTensor(np.full(self.num_features, start << 31, np.int64), self.EXPONENT)
            )
            self.buffers[key] = self._moved(r, x)

    def _squared(self, width: QTensor) -> QTensor:
        """sigma_q^2, exact."""
        if width.bound**2 >= INT64_BOUND:
            raise ContainerError(f"{self.name}/running_var: sigma_q has codes up to {width.bound}")
        return QTensor(width.codes.astype(np.int64) ** 2, 2 * int(width.exponent), bound=width.bound**2)

    def _moved(self, r: QTensor, x: QTensor) -> QTensor:
        """r + (x - r) * 2^-SHIFT = ((2^SHIFT - 1) * r + x) / 2^SHIFT, rounded once.

        Defined by `spec/batch_norm.py: running_update`.
        """
        wide = QTensor(x.codes.astype(np.int64), int(x.exponent), bound=x.bound)
        exponent = min(self.EXPONENT, int(x.exponent))
        mixed = Exact(
            [
                (r, ((1 << self.SHIFT) - 1) << (self.EXPONENT - exponent)),
                (wide, 1 << (int(x.exponent) - exponent)),
            ],
            exponent,
            den=1 << self.SHIFT,
        )
        codes, status = mixed.round_to(self.EXPONENT, Rounding(where=f"{self.name}/running"))
        return QTensor(codes.astype(np.int64), self.EXPONENT, bound=status.peak)

    def reestimate(self, seen: Sequence[tuple[Any, Any]]) -> None:
        """Running statistics anew: the plain means over batches of `seen`, (mu, sigma or variance) of each.

        float32: added in order of the batches, one rounding each, then divided by their number; integers: the
        exact mean of mu_q and of sigma_q^2, rounded once, ties_even, at exponent -31.

        Defined by `spec/float_batch_norm.py: reestimated`, `spec/batch_norm.py: reestimated`.
        """
        means, widths = [mu for mu, _ in seen], [width for _, width in seen]
        if isinstance(means[0], np.ndarray):
            self.buffers["running_mean"], self.buffers["running_var"] = (
                _float_mean(means),
                _float_mean(widths),
            )
            return
        self.buffers["running_mean"] = self._mean(means)
        self.buffers["running_var"] = self._mean([self._squared(width) for width in widths])

    def _mean(self, values: list[QTensor]) -> QTensor:
        """Of one statistic over batches, rounded once to the exponent of running statistics."""
        exponent = min(self.EXPONENT, *(int(x.exponent) for x in values))
        bound = sum(x.bound << (int(x.exponent) - exponent) for x in values)
        if bound >= INT64_BOUND:
            raise ContainerError(
                f"{self.name}/running: {len(values)} batches add up beyond int64; take fewer"
            )
        total = sum(x.codes.astype(np.int64) << (int(x.exponent) - exponent) for x in values)
        exact = Exact([(QTensor(np.asarray(total), exponent, bound=bound), 1)], exponent, den=len(values))
        codes, status = exact.round_to(self.EXPONENT, Rounding(where=f"{self.name}/running"))
        return QTensor(codes.astype(np.int64), self.EXPONENT, bound=status.peak)

    def running_statistics(self) -> tuple[Any, Any]:
        """(mean, variance) that inference reads; ShapeError before the first step."""
        if "running_mean" not in self.buffers:
            raise ShapeError(f"{self.name}: no running statistics yet; train a step first")
        return self.buffers["running_mean"], self.buffers["running_var"]


def _float_mean(values: list[np.ndarray]) -> np.ndarray:
    """Sum in order, each addition rounded to float32, over how many there are."""
    return np.asarray(reduce(add, values) / np.float32(len(values)))
