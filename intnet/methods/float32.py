"""float32: no quantization; SGD with momentum. The baseline that every method stands beside.

    Acc <- fma(momentum, Acc, g)        W <- fma(-lr, Acc, W)        float32, one rounding each

Matrix products and sums follow the fixed sequence of `ops/kernels/float32.py`, so this baseline has
the same bits on every machine too.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from intnet import fp32, schedules
from intnet.errors import ConfigError
from intnet.methods import symbols
from intnet.methods.method import LayerLike, Method, Parameter, check_finite


class Float32(Method):
    """Plain float32 training."""

    name = "float32"
    SYMBOLS = symbols.FLOAT32

    @dataclass(frozen=True)
    class Options:
        """lr: learning rate by epoch, '0.05,0.005@30'; momentum; weight_decay: L2 factor."""

        lr: str = "0.05"
        momentum: float = 0.9
        weight_decay: float = 0.0

    def __init__(self, /, **options: Any) -> None:
        super().__init__(**options)
        self.lr = schedules.rates(self.options.lr, f"{self.name}: lr")
        if not (0 <= self.options.momentum < 1 and self.options.weight_decay >= 0):
            raise ConfigError(f"{self.name}: momentum is from 0 to below 1, weight_decay at least 0")

    def update(self, layer: LayerLike, parameter: Parameter, gradient: Any) -> None:
        """SGD with momentum; weight decay is added to the gradient first."""
        gradient = check_finite(gradient, f"{layer.name}/g{parameter.symbol}")
        if self.options.weight_decay:
            decay = np.float32(self.options.weight_decay)
            gradient = fp32.fma(decay, parameter.value, gradient)
        sgd_momentum(parameter, gradient, self.options.momentum, self.lr.at(self.epoch))
        self.passes(layer, f"Acc{parameter.symbol}", parameter.slots["Acc"])


def sgd_momentum(parameter: Parameter, gradient: np.ndarray, momentum: float, lr: float) -> None:
    """The float32 update above, in place of parameter.value and its slot 'Acc'."""
    acc = parameter.slots.get("Acc", np.zeros(parameter.shape, np.float32))
    acc = fp32.fma(np.float32(momentum), acc, gradient)
    parameter.slots["Acc"] = acc
    parameter.value = fp32.fma(np.float32(-lr), acc, parameter.value)
