"""FloatMaster: what methods with float32 masters share. Their optimizers, and the levers that steady them.

A step takes the gradient g of a parameter W as the method's paper leaves it, all finite:

    clip     g <- g * clip/||g||_2   where ||g||_2 > clip, of each parameter by itself
    sgd      Acc <- momentum*Acc + (g + weight_decay*W)               W <- W - lr*Acc
    adamw    m <- beta1*m + (1 - beta1)*g,  v <- beta2*v + (1 - beta2)*g^2,  t = number of the update, from 1
             W <- W - lr*((m/(1 - beta1^t)) / (sqrt(v/(1 - beta2^t)) + adam_eps) + weight_decay*W)

adamw is Algorithm 2 of Loshchilov and Hutter 2019, "Decoupled weight decay regularization"; their lambda is
lr*weight_decay here, as in most programs. lr = lr(epoch) * factor, where warmup and cosine, in epochs, make
the factor (`schedules.factor`), or one_cycle does (`schedules.one_cycle`; momentum stays as it is). Label
smoothing is the loss's (`ops/loss.py`).

Numbers of a step are float64, one operation a rounding: beta^t by squaring (`power`), the scale
clip/||g||_2, rate = lr/(1 - beta1^t), root = 1/sqrt(1 - beta2^t) and decay = lr*weight_decay. Each is rounded
to float32 where it meets tensors, in the order of `ops/kernels/descent.py`.

Defined by `spec/methods/float_master.py: update`, `spec/methods/float_master.py: clipping`,
`spec/methods/float_master.py: sgd`, `spec/methods/float_master.py: adamw`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import Any, ClassVar, Literal

import numpy as np

from intnet.errors import ConfigError, NumberError
from intnet.methods import schedules, symbols
from intnet.methods.method import LayerLike, Method, Parameter, check_finite
from intnet.methods.options import takes
from intnet.ops.kernels import descent
from intnet.ops.kernels.histograms import sum_of_squares

SLOTS = {"sgd": ("Acc",), "adamw": ("m", "v")}  # of a parameter
LEAST = 2.0**-149


class FloatMaster(Method):
    """Base of the methods that train a float32 master; see the module."""

    STATE: ClassVar[dict[str, str]] = {
        "m": "of adamw: running mean of the gradients",
        "v": "of adamw: running mean of their squares",
    }

    @dataclass(frozen=True, kw_only=True)
    class Options:
        """lr: learning rate by epoch, '0.05,0.005@30'. warmup: epochs in which it rises from 0, step by step.

        cosine: epochs in which it falls to 0 behind the warmup, along half a cosine, then again from the top.
        one_cycle: epochs in which it rises from lr/25 to lr and falls to lr/250000, as PyTorch's OneCycleLR.
        optimizer: sgd has momentum, weight_decay is its L2 factor; adamw has beta1, beta2, adam_eps, and
        weight_decay decoupled. clip: greatest L2 norm of a parameter's gradient, before any weight decay.
        label_smoothing: share of a target that is spread over all classes.
        """

        lr: str = "0.05"
        warmup: float = 0.0
        cosine: float | None = None
        one_cycle: float | None = None
        optimizer: Literal["sgd", "adamw"] = "sgd"
        momentum: float = 0.9
        weight_decay: float = 0.0
        beta1: float = 0.9
        beta2: float = 0.999
        adam_eps: float = 1e-8
        clip: float | None = None
        label_smoothing: float = 0.0

    @takes(Options)
    def __init__(self, /, **options: Any) -> None:
        super().__init__(**options)
        o = self.options
        self.lr = schedules.rates(o.lr, f"{self.name}: lr")
        check_options(self.name, o)
        self.label_smoothing = o.label_smoothing
        # as written: 0.1 epochs of 10 steps are one step
        self._warmup = Fraction(str(o.warmup))
        self._cosine = None if o.cosine is None else Fraction(str(o.cosine))
        self._one_cycle = None if o.one_cycle is None else Fraction(str(o.one_cycle))
        self.moves_within_epochs = o.warmup > 0 or o.cosine is not None or o.one_cycle is not None
        if o.optimizer == "adamw":
            self.SYMBOLS = symbols.with_adamw(self.SYMBOLS)
        if o.clip is not None:
            self.SYMBOLS = {**self.SYMBOLS, **symbols.CLIPPED}

    # -- the learning rate ------------------------------------------------------------------

    def epoch_rate(self) -> float:
        """The learning rate of this epoch, which warmup and cosine scale from step to step."""
        return self.lr.at(self.epoch)

    def rate(self) -> float:
        """The learning rate of this step. Defined by `spec/methods/float_master.py: rate`."""
        if not self.moves_within_epochs:
            return self.epoch_rate()
        place = self.step, self.steps_per_epoch
        if self._one_cycle is not None:
            return self.epoch_rate() * schedules.one_cycle(*place, self._one_cycle)
        return self.epoch_rate() * schedules.factor(*place, self._warmup, self._cosine)

    # -- the update -------------------------------------------------------------------------

    def penalties(self) -> tuple[float, float]:
        """(l1, l2): l1*sign(W) and l2*W join the clipped gradient.

        Defined by `spec/methods/float_master.py: FloatMaster.penalties`.
        """
        return 0.0, self.options.weight_decay if self.options.optimizer == "sgd" else 0.0

    def updates_done(self) -> int:
        """How often each parameter was updated before this step."""
        return self.step

    def update(self, layer: LayerLike, parameter: Parameter, gradient: Any) -> None:
        """The module's step of one parameter; NumberError for a gradient that is not finite.

        Defined by `spec/methods/float_master.py: update`.
        """
        o, path = self.options, f"g{parameter.symbol}"
        gradient = check_finite(gradient, f"{layer.name}/{path}")
        scale = self._clipping(gradient)
        if self.observers and o.clip is not None:
            self.passes(layer, f"{path}c", np.float32(scale) * gradient)
        if o.optimizer == "sgd":
            sgd_momentum(parameter, gradient, o.momentum, self.rate(), scale, self.penalties())
        else:
            self._adamw(layer, parameter, gradient, scale)
        for slot in SLOTS[o.optimizer]:
            self.passes(layer, f"{slot}{parameter.symbol}", parameter.slots[slot])

    def _clipping(self, gradient: np.ndarray) -> float:
        """The factor of a gradient: 1, or clip/||g||_2 of one that is longer than clip.

        Defined by `spec/methods/float_master.py: clipping`.
        """
        if self.options.clip is None:
            return 1.0
        norm = sqrt(sum_of_squares(gradient))
        return self.options.clip / norm if norm > self.options.clip else 1.0

    def _adamw(self, layer: LayerLike, parameter: Parameter, gradient: np.ndarray, scale: float) -> None:
        o, slots, lr, t = self.options, parameter.slots, self.rate(), self.updates_done() + 1
        parameter.value, (slots["m"], slots["v"]), beyond = descent.adamw(
            parameter.value,
            gradient,
            (slots["m"], slots["v"]) if "m" in slots else None,
            (o.beta1, o.beta2),
            1 / sqrt(1 - power(o.beta2, t)),
            o.adam_eps,
            lr / (1 - power(o.beta1, t)),
            lr * o.weight_decay,
            scale,
            self.penalties(),
        )
        if beyond:
            raise NumberError(
                f"{layer.name}/{parameter.symbol}: {beyond} squared gradients are beyond float32: set clip"
            )


def sgd_momentum(
    parameter: Parameter,
    gradient: np.ndarray,
    momentum: float,
    lr: float,
    scale: float = 1.0,
    penalties: tuple[float, float] = (0.0, 0.0),
) -> None:
    """sgd of the module, in place of parameter.value and its slot 'Acc'; all numbers as given.

    Defined by `spec/methods/float_master.py: sgd`.
    """
    parameter.value, parameter.slots["Acc"] = descent.sgd(
        parameter.value, gradient, parameter.slots.get("Acc"), momentum, lr, scale, penalties
    )


def power(base: float, n: int) -> float:
    """base^n in float64 by squaring, from the lowest bit of n on; a library's power has bits of its own.

    Defined by `spec/methods/float_master.py: to_power`.
    """
    result = 1.0
    while n:
        if n & 1:
            result *= base
        base *= base
        n >>= 1
    return result


def check_options(owner: str, o: FloatMaster.Options) -> None:
    """ConfigError naming the first key whose value is out of its range."""
    below_one = "from 0 to below 1"
    rules: Sequence[tuple[str, bool, str]] = (
        ("warmup", o.warmup >= 0, "at least 0 epochs"),
        ("cosine", o.cosine is None or o.cosine > 0, "above 0 epochs, or off"),
        ("one_cycle", o.one_cycle is None or o.one_cycle > 0, "above 0 epochs, or off"),
        ("momentum", 0 <= o.momentum < 1, below_one),
        ("weight_decay", o.weight_decay >= 0, "at least 0"),
        ("beta1", 0 <= o.beta1 < 1, below_one),
        ("beta2", 0 <= o.beta2 < 1, below_one),
        ("adam_eps", o.adam_eps >= LEAST, "at least 2^-149, the least float32"),
        ("clip", o.clip is None or o.clip > 0, "above 0, or off"),
        ("label_smoothing", 0 <= o.label_smoothing < 1, below_one),
    )
    for key, holds, range_ in rules:
        if not holds:
            raise ConfigError(f"{owner}: {key}={getattr(o, key):g}: {key} is {range_}")
    if o.one_cycle is not None and (o.warmup or o.cosine is not None):
        raise ConfigError(
            f"{owner}: one_cycle={o.one_cycle:g} rises and falls by itself: no warmup, no cosine"
        )
