"""AdaPT: fixed point <WL,FL> a layer, which an information measure moves down and up while training.

Kummer et al., "Adaptive Precision Training (AdaPT)", with its first version where that says more. One step:

    forward   W^ = SR(W; <WL,FL>); x0 and x1 = W^ x0 + b^ in <WL,FL>; sums of integers, exact
    backward  float32; g = SR(dL/dW; <WL,FL>), then g / ||g||_2                           Eq. 3.4
    switch    G <- G + g; every lb steps D = n/||G||_2, PushDown, PushUp, lb, r           `adapt_switch.py`
    update    g + l1*sign(W) + l2*W to the optimizer of the float32 master W              `float_master.py`

<WL,FL> of a weight layer holds for the batch norm and the activation behind it too. Each layer keeps it in
its buffer `precision` = [WL, FL]; a weight layer also `window` = [lb, r, n], and its W the slot G.

Defined by `spec/methods/adapt.py: Step`, `spec/methods/adapt.py: first`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt
from time import perf_counter
from typing import Any, ClassVar, Literal

import numpy as np

from intnet.errors import ConfigError, NumberError
from intnet.exact.expressions import Exact, exact
from intnet.exact.quantize import quantize
from intnet.methods import adapt_switch as switch
from intnet.methods import symbols
from intnet.methods.float_master import FloatMaster
from intnet.methods.method import LayerLike, Parameter, Update, check_finite, to_float32, whole
from intnet.methods.options import takes
from intnet.methods.rounded_copies import NORMS, RoundedCopies
from intnet.numbers import fp32
from intnet.numbers.formats import MAX_BITS, FixedPoint, Scaled
from intnet.numbers.qtensor import QTensor
from intnet.ops.kernels.histograms import code_squares, sum_of_magnitudes, sum_of_squares
from intnet.ops.norm import reciprocal_root

START = (8, 4)  # <WL,FL> of every layer at first
LOOKBACK, RESOLUTION = (25, 100), (50, 150)  # their bounds; both start at the lower one
GREATEST = float(np.finfo(np.float32).max)
TAIL = 178_809_188  # P(z < -sqrt 3) * 2^32, to nearest: the words of a normal beyond the truncation


class Adapt(RoundedCopies):
    """Fixed point `<WL,FL>` a layer, which an information measure moves (Kummer et al.).

    What is rounded where, the module says; keys are the fields of `Options`.
    """

    name = "adapt"
    SYMBOLS = symbols.ADAPT
    STREAMS = ("push_down",)
    fixed_model = True
    STATE: ClassVar[dict[str, str]] = FloatMaster.STATE | {
        "precision": "[WL, FL]",
        "window": "[lb, r, n]: lookback, resolution, gradients in G",
        "G": "sum of the normalised gradients since the last switch",
        "strategy": "of PushUp: 0 min, 1 mean, 2 max",
        "losses": "of the last steps, as many as a lookback may reach",
        "epoch": "[sum of losses, steps] of the epoch under way",
        "plateau": "[factor of lr, best loss of an epoch, epochs since]",
        "batches": "gradients that wait for an update",
        "sum": "of the gradients that wait for an update",
    }

    DEVIATIONS: ClassVar[dict[str, str]] = {
        "eps": "PushDown may lose 0.1 bits; as printed, eps=0, one changed count is a loss, which keeps most "
        "layers above 20 bits",
        "other parameters": "the paper speaks of weights: gradients of biases, gamma and beta are quantized "
        "as those of weights are, but not normalised, and only weights drive the switch",
        "regularisation": "the gradients of the penalties join behind the normalisation, as weight decay "
        "does, so that their share does not depend on the size of the loss's gradient; they shrink biases, "
        "gamma and beta too, while the loss that the strategy sees counts weights alone",
        "accumulation": "each batch's gradient is quantized, normalised and counted in G; an update takes "
        "the mean of `accs` of them",
        "diversity": "a window without any gradient other than zero sets lb to its upper bound and s = 1, as "
        "in the first version",
        "x4": "<WL,FL> of an activation, as of batch norm, is that of the weight layer defined before it; "
        "pooled means stay exact until the next layer's x0",
        "tanh": "sigmoid and silu too: computed in float32 from the layer's codes, then rounded to <WL,FL>; "
        "the derivative of silu stays float32",
        "inference": "integers only: weights keep their rounded words, activations round to nearest, and "
        "batch norm is one scale and one offset of 32 bits a channel",
        "WL of PushUp": "max(WL_min, FL) + 1 is not computed: the buffer bits set WL anew in the same step",
    }

    @dataclass(frozen=True, kw_only=True)
    class Options(FloatMaster.Options):
        """eps: bits of KL that PushDown may lose, 0 in the paper. buff: bits in front of the point.

        rop: epochs without a lower loss before lr shrinks by rop_factor, or off. l1, l2: penalties, behind
        clip; weight_decay is for adamw. accs: batches an update. init: s of the start's variance s/n.
        penalty: on adds WL/32 * (share of non-zeros) to the loss that the strategy sees (first version).
        """

        lr: str = "0.02"
        eps: float = 0.1
        buff: Literal[4, 8] = 4
        l1: float = 1e-8
        l2: float = 0.01
        accs: int = 1
        rop: int | None = None
        rop_factor: float = 0.1
        rop_threshold: float = 1e-4
        init: float = 1.0
        penalty: Literal["off", "on"] = "off"

    @takes(Options)
    def __init__(self, /, **options: Any) -> None:
        super().__init__(**options)
        o = self.options
        if not (o.eps >= 0 and o.l1 >= 0 and o.l2 >= 0 and o.init > 0):
            raise ConfigError("adapt: eps, l1 and l2 are at least 0, init is above 0")
        if o.weight_decay and o.optimizer == "sgd":
            raise ConfigError("adapt: weight_decay is decoupled, of optimizer=adamw; use l2 with sgd")
        if o.accs < 1 or (o.rop is not None and o.rop < 0):
            raise ConfigError("adapt: accs is at least 1, rop at least 0 epochs")
        if not (0 < o.rop_factor < 1 and 0 <= o.rop_threshold < 1):
            raise ConfigError("adapt: rop_factor is between 0 and 1, rop_threshold from 0 to below 1")
        self._weighted: list[Any] = []
        self._behind: dict[str, list[Any]] = {}  # weight layer -> the layers of its precision

    # -- starting ---------------------------------------------------------------------------

    def start(self, layers: Sequence[Any], seed: int) -> None:
        """<8,4> everywhere, every lookback and resolution at its lower bound.

        Defined by `spec/methods/adapt.py: first`.
        """
        super().start(layers, seed)
        for layer in layers:
            layer.buffers["precision"] = whole(*START)
        for layer in self._weighted:
            layer.buffers["window"] = whole(LOOKBACK[0], RESOLUTION[0], 0)
        self.state = {
            "strategy": whole(0),
            "losses": np.zeros(0, np.float32),
            "epoch": np.zeros(2, np.float32),
            "plateau": np.array([1, np.finfo(np.float32).max, 0], np.float32),
            "batches": whole(0),
        }

    def follow(self, layers: Sequence[Any]) -> None:
        """Note which layers take their precision from which weight layer: the one defined before them."""
        self._weighted = [layer for layer in layers if layer.takes_weight]
        self._behind, current = {layer.name: [] for layer in self._weighted}, self._weighted[0]
        for layer in layers:
            current = layer if layer.takes_weight else current
            self._behind[current.name].append(layer)

    def buffers_set_elsewhere(self, layer: LayerLike) -> Sequence[str]:
        """The precision, of which the weight layer ahead decides."""
        return () if layer.takes_weight else ("precision",)

    def first_weights(self, words: np.ndarray, fan_in: int) -> np.ndarray:
        """TNVS: N(0, sqrt(s/n)) truncated at +-sqrt(3 s/n), the inverse distribution of words within.

        Defined by `spec/methods/adapt.py: first_weight`.
        """
        span = np.uint64((1 << 32) - 2 * TAIL)
        inside = np.uint64(TAIL) + ((words.astype(np.uint64) * span) >> np.uint64(32))
        deviation = np.sqrt(np.float64(self.options.init) / np.float64(fan_in))
        with np.errstate(over="ignore"):  # the first step names an infinite weight
            return (fp32.normal(inside.astype(np.uint32)) * deviation).astype(np.float32)

    # -- forward and backward ---------------------------------------------------------------

    def format(self, layer: LayerLike) -> FixedPoint:
        """<WL,FL> of a layer."""
        wl, fl = layer.buffers["precision"].codes.tolist()
        return FixedPoint(wl, fl)

    def rounded(self, layer: LayerLike, path: str, value: Any, stream: str = "") -> QTensor:
        """SR(value; <WL,FL>); to nearest where nothing is lost, which takes no words.

        An activation, which has no stream of its own, rounds to nearest at inference too.

        Defined by `spec/methods/adapt.py: Step.format_of`.
        """
        format = self.format(layer)
        if isinstance(value, QTensor) and value.format == format:
            self.passes(layer, path, value)
            return value
        source = exact(value, f"{layer.name}/{path}")
        kept = isinstance(source, Exact) and source.exponent >= format.exponent and np.all(source.den == 1)
        rounding = "stochastic" if (self.training or stream) and not kept else "ties_even"
        q = self.store(layer, path, source, format, rounding, stream)
        peak = q.bound if q.status is None or q.status.peak is None else q.status.peak
        return QTensor(q.codes, q.exponent, format, peak, q.status)

    def weight(self, layer: LayerLike, parameter: Parameter) -> Any:
        """W^, b^ as integers; gamma^ and beta^ as float32."""
        value = check_finite(parameter.value, f"{layer.name}/{parameter.symbol}")
        q = self.rounded(layer, f"{parameter.symbol}q", value, stream=parameter.symbol)
        if parameter.symbol == "W" and self.training:
            self._note(layer, q)
        return to_float32(q) if parameter.symbol in NORMS else q

    def _note(self, layer: LayerLike, q: QTensor) -> None:
        (wl, fl), (lb, r, _) = (layer.buffers[key].codes.tolist() for key in ("precision", "window"))
        self._used[layer.name] = {"WL": wl, "FL": fl, "nonzero": int(np.count_nonzero(q.codes))}
        self._used[layer.name] |= {"lb": lb, "r": r}

    def error(self, layer: LayerLike, path: str, value: Any) -> Any:
        """float32; quantizers pass it on as it is (straight-through estimators)."""
        return self.passes(layer, path, to_float32(value, f"{layer.name}/{path}"))

    def gradient(self, layer: LayerLike, parameter: Parameter, value: Any) -> Any:
        """SR to <WL,FL>; that of weights then of length 1 (3.4); in float32. A zero gradient stays zero.

        Defined by `spec/methods/adapt.py: Step.gradient`, `spec/methods/adapt.py: unit_length`.
        """
        path = f"g{parameter.symbol}"
        where = f"{layer.name}/{path}"
        value = self.passes(layer, path, check_finite(value, where))
        q = self.rounded(layer, f"{path}q", value, stream=path)
        if parameter.symbol != "W":
            return to_float32(q)
        squares = code_squares(q.codes)
        norm = sqrt(squares) if squares else 1.0  # of the codes: the exponent cancels
        return self.passes(layer, f"{path}n", (q.codes / norm).astype(np.float32))

    def fold(self, layer: Any) -> tuple[QTensor, QTensor]:
        """Scale gamma^*r and offset beta^ - mean*gamma^*r in words of 32 bits; r = 1/sqrt(variance + 10^-5).

        The offset is no finer than the scale: what x1 multiplies decides how much of it counts. Nor does
        the scale tell more, times x1, than a unit of the offset: so their sum fits 64 bits.
        """
        mean, variance = layer.running_statistics()
        gamma, beta = self.weight(layer, layer.weight), self.weight(layer, layer.bias)
        slope = gamma * reciprocal_root(variance)
        scale = quantize(slope, Scaled(MAX_BITS), where=f"{layer.name}/scale")
        where = f"{layer.name}/offset"
        offset = quantize(beta - mean * slope, Scaled(MAX_BITS), where=where)
        if int(offset.exponent) < int(scale.exponent):
            fl = -int(scale.exponent)
            offset = quantize(beta - mean * slope, FixedPoint(MAX_BITS, fl), where=where)
        finest = MAX_BITS - 2 - self.format(layer).fl - int(offset.exponent)
        if -int(scale.exponent) > finest:
            scale = quantize(slope, FixedPoint(MAX_BITS, finest), where=f"{layer.name}/scale")
        return scale, offset

    # -- the precision switch ---------------------------------------------------------------

    def see_loss(self, loss: float) -> None:
        """Take the loss into the history, and move the strategy by it."""
        started = perf_counter()
        loss += self._penalties()
        if not abs(loss) <= GREATEST:
            raise NumberError(
                f"adapt: the loss with its penalties is {loss:g}, beyond float32: lower lr or l2"
            )
        losses = np.append(self.state["losses"], np.float32(loss))[-LOOKBACK[1] :]
        self.state["losses"] = losses
        total, steps = self.state["epoch"]
        self.state["epoch"] = np.array([total + np.float32(loss), steps + 1], np.float32)
        lookbacks = [int(layer.buffers["window"].codes[0]) for layer in self._weighted]
        seen = losses[-(sum(lookbacks) // len(lookbacks)) :].tolist()
        current = switch.STRATEGIES[self.number("strategy")]
        moved = switch.next_strategy(current, seen)
        self.state["strategy"] = whole(switch.STRATEGIES.index(moved))
        self.overhead = perf_counter() - started

    def _penalties(self) -> float:
        """l1*||W||_1 + l2/2*||W||_2^2 of all weights, and with `penalty` WL/32 * (share of non-zeros).

        Defined by `spec/methods/adapt.py: Step.penalty`.
        """
        o, total = self.options, 0.0
        for layer in self._weighted:
            w = layer.weight.value
            if o.l1:
                total += o.l1 * sum_of_magnitudes(w)
            if o.l2:
                total += o.l2 / 2 * sum_of_squares(w)
            if o.penalty == "on":
                used = self._used[layer.name]
                total += used["WL"] / 32 * used["nonzero"] / w.size
        return total

    def update_all(self, updates: Sequence[Update]) -> None:
        """The switch of every weight layer, then the updates."""
        with self.timed():
            for layer, parameter, gradient in updates:
                if parameter.symbol == "W":
                    self._gather(layer, parameter, gradient)
        super().update_all(updates)
        batches = self.number("batches") + 1
        self.state["batches"] = whole(batches % self.options.accs)

    def _gather(self, layer: Any, parameter: Parameter, gradient: np.ndarray) -> None:
        """G <- G + g; the switch when the lookback is full.

        Defined by `spec/methods/adapt.py: Step.gather`.
        """
        g = parameter.slots.get("G")
        parameter.slots["G"] = gradient if g is None else g + gradient
        lb, r, n = layer.buffers["window"].codes.tolist()
        layer.buffers["window"] = whole(lb, r, n + 1)
        if n + 1 >= lb:
            self._switch(layer, parameter)

    def _switch(self, layer: Any, parameter: Parameter) -> None:
        """lb, r, PushDown and PushUp of one layer; G starts anew."""
        lb, r, n = layer.buffers["window"].codes.tolist()
        wl, fl = layer.buffers["precision"].codes.tolist()
        length = sqrt(sum_of_squares(parameter.slots["G"]))
        diversity = n / length if length else inf
        lb = switch.next_lookback(lb, diversity, *LOOKBACK)
        r = switch.next_resolution(r, lb, LOOKBACK, RESOLUTION)
        words = self.words(f"{layer.name}/push_down", parameter.value.size)
        least = switch.push_down(parameter.value, wl, fl, r, self.options.eps, words)
        strategy = switch.STRATEGIES[self.number("strategy")]
        precision = whole(*switch.push_up(*least, diversity, strategy, self.options.buff))
        for follower in self._behind[layer.name]:
            follower.buffers["precision"] = precision
        layer.buffers["window"] = whole(lb, r, 0)
        parameter.slots["G"] = np.zeros(parameter.shape, np.float32)

    # -- update -----------------------------------------------------------------------------

    def epoch_rate(self) -> float:
        """lr of this epoch, as far as plateaus of the loss have reduced it."""
        return super().epoch_rate() * float(self.state["plateau"][0])

    def penalties(self) -> tuple[float, float]:
        """l1 and l2."""
        return self.options.l1, self.options.l2

    def updates_done(self) -> int:
        """One in `accs` steps."""
        return self.step // self.options.accs

    def update(self, layer: LayerLike, parameter: Parameter, gradient: np.ndarray) -> None:
        """The master's step by the mean of `accs` gradients.

        Defined by `spec/methods/adapt.py: Step.update`.
        """
        o, slots = self.options, parameter.slots
        if o.accs > 1:
            slots["sum"] = slots["sum"] + gradient if "sum" in slots else gradient
            if self.number("batches") + 1 < o.accs:
                return
            gradient = slots.pop("sum") / np.float32(o.accs)
        super().update(layer, parameter, gradient)

    def end_of_epoch(self) -> None:
        """Reduce the learning rate where the mean loss of an epoch has not fallen for `rop` epochs.

        Defined by `spec/methods/adapt.py: Step.end_of_epoch`.
        """
        super().end_of_epoch()
        total, steps = self.state["epoch"].tolist()
        self.state["epoch"] = np.zeros(2, np.float32)
        if self.options.rop is not None and steps:
            now = reduce_on_plateau(self.state["plateau"].tolist(), total / steps, self.options)
            self.state["plateau"] = np.array(now, np.float32)


def reduce_on_plateau(state: list[float], loss: float, o: Adapt.Options) -> tuple[float, float, float]:
    """(factor of lr, best loss, epochs since) after an epoch of mean loss `loss`; as PyTorch's scheduler.

    An epoch is better whose loss is below best * (1 - rop_threshold); after more than `rop` others in a
    row lr shrinks by rop_factor.

    Defined by `spec/methods/adapt_switch.py: Plateau`.
    """
    factor, best, waited = state
    if loss < best * (1 - o.rop_threshold):
        return factor, loss, 0
    if o.rop is not None and waited + 1 > o.rop:
        return factor * o.rop_factor, best, 0
    return factor, best, waited + 1
