"""FloatMaster: what methods with float32 masters share. Their optimizers, and the levers that steady them.

A step takes the gradient g of a parameter W as the method's paper leaves it, all finite:

    clip     g <- g * clip/||g||_2   where ||g||_2 > clip, of each parameter by itself
    sgd      Acc <- momentum*Acc + (g + weight_decay*W)               W <- W - lr*Acc
    adamw    m <- beta1*m + (1 - beta1)*g,  v <- beta2*v + (1 - beta2)*g^2,  t = number of the update, from 1
             W <- W - lr*((m/(1 - beta1^t)) / (sqrt(v/(1 - beta2^t)) + adam_eps) + weight_decay*W)

With `accs` above 1 the update takes the mean of so many steps' gradients. l1*sign(W) joins as weight_decay*W
does. With `rop` lr shrinks where the mean loss of an epoch, penalties counted, has stopped falling.

adamw is Algorithm 2 of Loshchilov and Hutter 2019, "Decoupled weight decay regularization"; their lambda is
lr*weight_decay here, as in most programs. lr = lr(epoch) * plateau * factor, where `rop` makes the one and
warmup and cosine, in epochs, the other, or one_cycle does (`schedules`; momentum stays as it is). Label
smoothing is the loss's (`ops/loss.py`).

Numbers of a step are float64, one operation a rounding: beta^t by squaring (`power`), the scale
clip/||g||_2, rate = lr/(1 - beta1^t), root = 1/sqrt(1 - beta2^t) and decay = lr*weight_decay. Each is rounded
to float32 where it meets tensors, in the order of `ops/kernels/descent.py`.

Defined by `spec/methods/float_master.py: FloatMaster`, `spec/methods/float_master.py: clipping`,
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
from intnet.methods.method import LayerLike, Method, Parameter, Update, whole
from intnet.methods.options import takes
from intnet.numbers import fp32
from intnet.numbers.fp32 import check_finite
from intnet.ops.kernels import descent
from intnet.ops.kernels.norms import sum_of_magnitudes, sum_of_squares

SLOTS = {"sgd": ("Acc",), "adamw": ("m", "v")}  # of a parameter
TAIL = 178_809_188  # P(z < -sqrt 3) * 2^32, to nearest: the words of a normal beyond the truncation


class FloatMaster(Method):
    """Base of the methods that train a float32 master; see the module.

    shows_masters: observers see a parameter's new value too, where a copy of it is what a pass reads
    """

    shows_masters = False
    STATE: ClassVar[dict[str, str]] = {
        "m": "of adamw: running mean of the gradients",
        "v": "of adamw: running mean of their squares",
        "waiting": "gradients that wait for an update: their sum of a parameter, how many of the net",
        "epoch": "[sum of losses, steps] of the epoch under way",
        "plateau": "[factor of lr, best loss of an epoch, epochs since]",
    }

    @dataclass(frozen=True, kw_only=True)
    class Options:
        """lr: learning rate by epoch, '0.05,0.005@30'. warmup: epochs in which it rises from 0, step by step.

        cosine: epochs in which it falls to 0 after the warmup, along half a cosine, then again from the top.
        one_cycle: epochs in which it rises from lr/25 to lr and falls to lr/250000, as PyTorch's OneCycleLR.
        optimizer: sgd has momentum, weight_decay is its L2 factor; adamw has beta1, beta2, adam_eps, and
        weight_decay decoupled. clip: greatest L2 norm of a parameter's gradient, before any weight decay.
        label_smoothing: share of a target that is spread over all classes. l1: factor of the L1 penalty.
        accs: steps whose gradients make one update. rop: epochs without a lower loss before lr shrinks by
        rop_factor, or off; rop_threshold: the share by which a loss must be lower to count.
        init, init_scale: first weights, of variance s/fan_in: normal, tnvs (that, cut at +-sqrt 3
        deviations) or uniform. statistics: batch norm at inference by running ones, or by the batch's own.
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
        l1: float = 0.0
        accs: int = 1
        rop: int | None = None
        rop_factor: float = 0.1
        rop_threshold: float = 1e-4
        init: Literal["normal", "tnvs", "uniform"] = "normal"
        init_scale: float = 1.0
        statistics: Literal["running", "batch"] = "running"

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
        self._weighted: list[Any] = []
        self.running_statistics = o.statistics == "running"

    # -- starting ---------------------------------------------------------------------------

    def start(self, layers: Sequence[Any], seed: int) -> None:
        """No gradient waits, no loss was seen. Defined by `spec/methods/float_master.py: first_state`."""
        super().start(layers, seed)
        self.state = {}
        if self.options.accs > 1:
            self.state["waiting"] = whole(0)
        if self.options.rop is not None:
            self.state["epoch"] = np.zeros(2, np.float32)
            self.state["plateau"] = np.array([1, schedules.GREATEST, 0], np.float32)

    def follow(self, layers: Sequence[Any]) -> None:
        """The weight layers, of which penalties and diversities speak."""
        self._weighted = [layer for layer in layers if layer.takes_weight]

    def first_weights(self, words: np.ndarray, fan_in: int) -> np.ndarray:
        """float32 of uint32 words, of variance s/fan_in. Defined by `spec/initial.py: scaled`."""
        return scaled_weights(words, fan_in, self.options.init, self.options.init_scale)

    # -- the loss of an epoch ---------------------------------------------------------------

    def penalized(self, loss: float) -> float:
        """The loss with l1*||W||_1 + l2/2*||W||_2^2 of all weights; NumberError beyond float32.

        Defined by `spec/methods/float_master.py: FloatMaster.penalized`.
        """
        l1, l2 = self.penalties()
        added = 0.0
        for layer in self._weighted:
            w = layer.weight.value
            if l1:
                added += l1 * sum_of_magnitudes(w)
            if l2:
                added += l2 / 2 * sum_of_squares(w)
            added += self.width_penalty(layer)
        loss += added
        if not abs(loss) <= schedules.GREATEST:
            raise NumberError(
                f"{self.name}: the loss with its penalties is {loss:g}, beyond float32: "
                "lower lr, l1 or the L2 factor"
            )
        return loss

    def width_penalty(self, layer: LayerLike) -> float:
        """What a method adds of a layer's word length to the loss; its gradient is zero."""
        return 0.0

    def see_loss(self, loss: float) -> None:
        """With `rop`: the loss and its penalties, into the sum of the epoch."""
        if self.options.rop is not None:
            self.count_loss(self.penalized(loss))

    def count_loss(self, loss: float) -> None:
        """One more loss of the epoch."""
        total, steps = self.state["epoch"]
        self.state["epoch"] = np.array([total + np.float32(loss), steps + 1], np.float32)

    def end_of_epoch(self) -> None:
        """Reduce the learning rate where the mean loss of an epoch has not fallen for `rop` epochs.

        Defined by `spec/methods/float_master.py: FloatMaster.end_of_epoch`.
        """
        super().end_of_epoch()
        if self.options.rop is None:
            return
        total, steps = self.state["epoch"].tolist()
        self.state["epoch"] = np.zeros(2, np.float32)
        if steps:
            o, state = self.options, self.state["plateau"].tolist()
            now = schedules.reduce_on_plateau(state, total / steps, o.rop, o.rop_factor, o.rop_threshold)
            self.state["plateau"] = np.array(now, np.float32)

    # -- the learning rate ------------------------------------------------------------------

    def epoch_rate(self) -> float:
        """The learning rate of this epoch, ahead of what plateaus, warmup and cosine make of it."""
        return self.lr.at(self.epoch)

    def rate(self) -> float:
        """The learning rate of this step. Defined by `spec/methods/float_master.py: FloatMaster.rate`."""
        rate = self.epoch_rate()
        if self.options.rop is not None:
            rate *= float(self.state["plateau"][0])
        if self._one_cycle is not None:
            rate *= schedules.one_cycle(self.step, self.steps_per_epoch, self._one_cycle)
        elif self.moves_within_epochs:
            rate *= schedules.factor(self.step, self.steps_per_epoch, self._warmup, self._cosine)
        return rate

    # -- the update -------------------------------------------------------------------------

    def penalties(self) -> tuple[float, float]:
        """(l1, l2): l1*sign(W) and l2*W join the clipped gradient.

        Defined by `spec/methods/float_master.py: FloatMaster.penalties`.
        """
        return self.options.l1, self.options.weight_decay if self.options.optimizer == "sgd" else 0.0

    def updates_done(self) -> int:
        """How often each parameter was updated before this step: once in `accs` steps."""
        return self.step // self.options.accs

    def update_all(self, updates: Sequence[Update]) -> None:
        """Every parameter's, and the batch counted that it was made of."""
        super().update_all(updates)
        if self.options.accs > 1:
            self.state["waiting"] = whole((self.number("waiting") + 1) % self.options.accs)

    def update(self, layer: LayerLike, parameter: Parameter, gradient: Any) -> None:
        """`descend` by the gradient, or by the mean of `accs` of them; NumberError where one is not finite.

        Defined by `spec/methods/float_master.py: FloatMaster.update`.
        """
        gradient = check_finite(gradient, f"{layer.name}/g{parameter.symbol}")
        accs, slots = self.options.accs, parameter.slots
        if accs > 1:
            slots["waiting"] = slots["waiting"] + gradient if "waiting" in slots else gradient
            if self.number("waiting") + 1 < accs:
                return
            gradient = slots.pop("waiting") / np.float32(accs)
        self.descend(layer, parameter, gradient)

    def descend(self, layer: LayerLike, parameter: Parameter, gradient: np.ndarray) -> None:
        """The module's step of one parameter.

        Defined by `spec/methods/float_master.py: FloatMaster.descend`.
        """
        o, path = self.options, f"g{parameter.symbol}"
        scale = self._clipping(gradient)
        if self.observers and o.clip is not None:
            self.passes(layer, f"{path}c", np.float32(scale) * gradient)
        if o.optimizer == "sgd":
            sgd_momentum(parameter, gradient, o.momentum, self.rate(), scale, self.penalties())
        else:
            self._adamw(layer, parameter, gradient, scale)
        for slot in SLOTS[o.optimizer]:
            self.passes(layer, f"{slot}{parameter.symbol}", parameter.slots[slot])
        if self.shows_masters:
            self.passes(layer, parameter.symbol, parameter.value)

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


def scaled_weights(words: np.ndarray, fan_in: int, kind: str, scale: float) -> np.ndarray:
    """float32 first weights of variance s/n of uint32 words; s = scale, n = fan_in.

    normal    z sqrt(s)/sqrt(n)            z of N(0, 1) by the inverse distribution
    tnvs      z sqrt(s/n)                  the words within +-sqrt 3 only: N(0, s/n) cut at +-sqrt(3 s/n)
    uniform   u sqrt(3 s/n)                u = (2 word + 1 - 2^32)/2^32

    Defined by `spec/initial.py: scaled`.
    """
    n, s = np.float64(fan_in), np.float64(scale)
    if kind == "normal":
        drawn, deviation = fp32.normal(words), np.sqrt(s) / np.sqrt(n)
    elif kind == "tnvs":
        span = np.uint64((1 << 32) - 2 * TAIL)
        inside = np.uint64(TAIL) + ((words.astype(np.uint64) * span) >> np.uint64(32))
        drawn, deviation = fp32.normal(inside.astype(np.uint32)), np.sqrt(s / n)
    else:
        drawn, deviation = (2.0 * words + (1 - 2.0**32)) / 2.0**32, np.sqrt(3 * s / n)
    with np.errstate(over="ignore"):  # the first step names an infinite weight
        return (drawn * deviation).astype(np.float32)


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
        ("adam_eps", o.adam_eps >= schedules.LEAST, "at least 2^-149, the least float32"),
        ("clip", o.clip is None or o.clip > 0, "above 0, or off"),
        ("label_smoothing", 0 <= o.label_smoothing < 1, below_one),
        ("l1", o.l1 >= 0, "at least 0"),
        ("accs", o.accs >= 1, "at least 1"),
        ("rop", o.rop is None or o.rop >= 0, "at least 0 epochs, or off"),
        ("rop_factor", 0 < o.rop_factor < 1, "between 0 and 1"),
        ("rop_threshold", 0 <= o.rop_threshold < 1, below_one),
        ("init_scale", o.init_scale > 0, "above 0"),
    )
    for key, holds, range_ in rules:
        if not holds:
            raise ConfigError(f"{owner}: {key}={getattr(o, key):g}: {key} is {range_}")
    if o.one_cycle is not None and (o.warmup or o.cosine is not None):
        raise ConfigError(
            f"{owner}: one_cycle={o.one_cycle:g} rises and falls by itself: no warmup, no cosine"
        )
