"""AdaPT: fixed point <WL,FL> a layer, which an information measure moves down and up while training.

Kummer et al., "Adaptive Precision Training (AdaPT)", with its first version where that says more. One step:

    forward   W^ = SR(W; <WL,FL>); x0 and x1 = W^ x0 + b^ in <WL,FL>; sums of integers, exact
    backward  float32; g = SR(dL/dW; <WL,FL>), then g / ||g||_2                           Eq. 3.4
    switch    G <- G + g; every lb steps D = n/||G||_2, PushDown, PushUp, lb, r           `adapt_switch.py`
    update    g + l1*sign(W) + l2*W to the optimizer of the float32 master W              `float_master.py`

<WL,FL> of a weight layer holds for the batch norm and the activation after it too. Each layer keeps it in
its buffer `precision` = [WL, FL]; a weight layer also `window` = [lb, r, n], and its W the slot G.

Defined by `spec/methods/adapt.py: Step`, `spec/methods/adapt.py: first`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, isfinite, sqrt
from time import perf_counter
from typing import Any, ClassVar, Literal

import numpy as np

from intnet.errors import ConfigError
from intnet.exact.expressions import Exact, exact
from intnet.exact.quantize import quantize
from intnet.methods import adapt_switch as switch
from intnet.methods import symbols
from intnet.methods.float_master import FloatMaster
from intnet.methods.method import LayerLike, Parameter, Update, to_float32, whole
from intnet.methods.options import of_layer, takes
from intnet.methods.rounded_copies import NORMS, RoundedCopies
from intnet.numbers.formats import MAX_BITS, FixedPoint, Scaled
from intnet.numbers.fp32 import check_finite
from intnet.numbers.qtensor import QTensor
from intnet.ops.kernels.norms import code_squares, divided, sum_of_squares
from intnet.ops.norm import reciprocal_root


class Adapt(RoundedCopies):
    """Fixed point `<WL,FL>` a layer, which an information measure moves (Kummer et al.).

    What is rounded where, the module says; keys are the fields of `Options`.
    """

    name = "adapt"
    SYMBOLS = symbols.ADAPT
    STREAMS = ("push_down",)
    fixed_model = True
    BY_LAYER = ("start", "switch")
    LATER = ("switch",)
    STATE: ClassVar[dict[str, str]] = FloatMaster.STATE | {
        "precision": "[WL, FL]",
        "window": "[lb, r, n]: lookback, resolution, gradients in G",
        "G": "sum of the normalised gradients since the last switch",
        "strategy": "of PushUp: 0 min, 1 mean, 2 max",
        "losses": "of the last steps, as many as a lookback may reach",
        "norms": "with normalize=off: the sum of the norms of the gradients in G",
    }

    DEVIATIONS: ClassVar[dict[str, str]] = {
        "eps": "PushDown may lose 0.1 bits; as printed, eps=0, one changed count is a loss, which keeps most "
        "layers above 20 bits; the first version stops below an epsilon that it does not tell",
        "(3.6)": "'log^2 D - 1' is read as (ln D - 1)^2, at every D: word lengths follow it by degrees. The "
        "authors' program has that square where D is above e only, else s = 1, and 0 as the least s2: "
        "reading=program. The first version asks for suggestions where log D is above 0 alone. "
        "reading=printed takes (ln D)^2 - 1, under which s2 is 32 - FL_min from D = 2.76 on and s1 is 1 from "
        "D = 4.12 on, so that all layers follow the strategy; that s = 1 where it is not above 0, and that "
        "s2 is rounded up, is intnet's: print has s2 for every D. The first version's s1 has no square",
        "buffer bits": "printed with FL_min; here, as in the authors' program, with the FL that s raised: "
        "under buffer=printed no s ever counts, and layers stay at <8,4>",
        "(3.1)": "an empirical distribution function in print; here, as in the program, a histogram of r "
        "equal bins over [min W, max W]",
        "switch": "of a layer after lb of its own gradients, counted from its last switch, as in the first "
        "version's Algorithm 2; print later says every batch i with i mod lb = 0. lb and r move then too; in "
        "Algorithm 2 with every batch",
        "PushDown": "looks no further down than FL = 4",
        "KL": "KL(P||Q) of the rounded weights from the weights, as (3.2) has it; Algorithm 3 of the first "
        "version has its arguments the other way round, which is infinite wherever a bin loses all",
        "PushUp": "by (3.6), not by the first version's Algorithm 4, which raises bits while the diversity "
        "at <WL,FL> is at least that at <WL_min,FL_min>",
        "buff": "4 of every network; printed are 4 of AlexNet on CIFAR-10 and 8 of both on CIFAR-100, none "
        "of ResNet-20 on CIFAR-10",
        "average loss": "over as many of the last losses, this step's among them, as the lookbacks' mean "
        "rounded down, or all there are; printed is 1/|L| of their sum. So the strategy moves from the first "
        "step on; the program waits for more losses than that mean, and leaves this step's out",
        "start": "lb and r at their lower bounds, the strategy at min, as the program's configurations have "
        "it; no paper says. TNVS's s is 1; the first version chose it empirically, the configurations have "
        "0.5 (init_scale)",
        "(3.3), (3.5)": "D of the n gradients in G; printed sums run from j - lb to j, lb + 1 gradients",
        "order": "a gradient is rounded, then normalised, as in the program; print does not say",
        "backward pass": "float32, as in the first version; the later one speaks of fixed point there too",
        "other parameters": "the paper speaks of weights: gradients of biases, gamma and beta are quantized "
        "as those of weights are, but not normalised, and only weights drive the switch",
        "regularisation": "the gradients of the penalties join after the normalisation, as weight decay "
        "does, so that their share does not depend on the size of the loss's gradient; they shrink biases, "
        "gamma and beta too, while the loss that the strategy sees counts weights alone",
        "accumulation": "each batch's gradient is quantized, normalised and counted in G; an update takes "
        "the mean of `accs` of them",
        "diversity": "a window without any gradient other than zero has no D: lb_new is its upper bound, and "
        "s = 1; the first version goes on with log D = 1",
        "x4": "<WL,FL> of an activation, as of batch norm, is that of the weight layer defined before it; "
        "pooled means stay exact until the next layer's x0",
        "tanh": "sigmoid and silu too: computed in float32 from the layer's codes, then rounded to <WL,FL>; "
        "the derivative of silu stays float32",
        "inference": "integers only: weights keep their rounded words, activations round to nearest, and "
        "batch norm is one scale and one offset of 32 bits a channel",
        "WL of PushUp": "min(max(WL_min, FL_min) + 1, 32), with the raised FL in the program, is not "
        "computed: the buffer bits set WL anew in the same step",
    }

    @dataclass(frozen=True, kw_only=True)
    class Options(FloatMaster.Options):
        """eps: bits of KL that PushDown may lose, 0 in the paper. buff: bits in front of the point.

        start: <WL,FL> of every layer at first; switch: off leaves it so. Both take a pattern of weight
        layers, start@fc=16,8, and hold for the layers after. lookback, resolution: their bounds; both start
        at the lower one. gamma: momentum of the lookback. reading: of 'log^2 D - 1' in (3.6), graded
        (ln D - 1)^2, program: the same for D above e alone, or printed (ln D)^2 - 1. buffer: raised counts
        the bits of PushUp, printed does not. normalize: off leaves (3.4) out, and D is (3.3). penalty: on
        adds WL/32 * (share of non-zeros) to the loss that the strategy sees (first version). l1, l2:
        penalties, after clip; weight_decay: of adamw.
        """

        lr: str = "0.02"
        eps: float = 0.1
        buff: int = 4
        start: str = "8,4"
        lookback: str = "25-100"
        resolution: str = "50-150"
        gamma: float = 0.33
        reading: switch.Reading = "graded"
        buffer: switch.Buffer = "raised"
        normalize: Literal["on", "off"] = "on"
        l1: float = 1e-8
        l2: float = 0.01
        init: Literal["normal", "tnvs", "uniform"] = "tnvs"
        penalty: Literal["off", "on"] = "off"
        switch: Literal["on", "off"] = "on"

    @takes(Options)
    def __init__(self, /, **options: Any) -> None:
        super().__init__(**options)
        o = self.options
        if not (o.eps >= 0 and o.l2 >= 0):
            raise ConfigError("adapt: eps and l2 are at least 0")
        if o.weight_decay and o.optimizer == "sgd":
            raise ConfigError("adapt: weight_decay is decoupled, of optimizer=adamw; use l2 with sgd")
        if not 1 <= o.buff < MAX_BITS:
            raise ConfigError(f"adapt: buff={o.buff}: the bits in front of the point are 1 to {MAX_BITS - 1}")
        if not 0 <= o.gamma <= 1:
            raise ConfigError(f"adapt: gamma={o.gamma:g}: the share of the new lookback is from 0 to 1")
        first_precision(o.start)
        self._rule = switch.Rule(
            numbers(o.lookback, "-", "lookback", "25-100"),
            numbers(o.resolution, "-", "resolution", "50-150"),
            Fraction(str(o.gamma)),
            o.reading,
            o.buffer,
            o.buff,
        )
        self.fixed_model = self.running_statistics  # it folds them into integers
        self._behind: dict[str, list[Any]] = {}  # weight layer -> the layers of its precision

    # -- starting ---------------------------------------------------------------------------

    def start(self, layers: Sequence[Any], seed: int) -> None:
        """`start` everywhere, every lookback and resolution at its lower bound.

        Defined by `spec/methods/adapt.py: first`.
        """
        super().start(layers, seed)
        for layer in self._weighted:
            for follower in self._behind[layer.name]:
                follower.buffers["precision"] = whole(*first_precision(self._of(layer).start))
            layer.buffers["window"] = whole(self._rule.lookback[0], self._rule.resolution[0], 0)
        self.state |= {"strategy": whole(0), "losses": np.zeros(0, np.float32)}

    def follow(self, layers: Sequence[Any]) -> None:
        """Note which layers take their precision from which weight layer: the one defined before them."""
        super().follow(layers)
        self._behind, current = {layer.name: [] for layer in self._weighted}, self._weighted[0]
        for layer in layers:
            current = layer if layer.takes_weight else current
            self._behind[current.name].append(layer)

    def keys_of(self, layer: LayerLike) -> Sequence[str]:
        """Only weight layers have a precision of their own."""
        return self.BY_LAYER if layer.takes_weight else ()

    def _of(self, layer: LayerLike) -> Options:
        return of_layer(self.options, self.overrides, layer.name)

    def buffers_set_elsewhere(self, layer: LayerLike) -> Sequence[str]:
        """The precision, of which the weight layer ahead decides."""
        return () if layer.takes_weight else ("precision",)

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
        if self.options.normalize == "off":
            return to_float32(q)
        squares = code_squares(q.codes)
        norm = sqrt(squares) if squares else 1.0  # of the codes: the exponent cancels
        return self.passes(layer, f"{path}n", divided(q.codes, norm))

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
        loss = self.penalized(loss)
        if self.options.rop is not None:
            self.count_loss(loss)
        losses = np.append(self.state["losses"], np.float32(loss))[-self._rule.lookback[1] :]
        self.state["losses"] = losses
        lookbacks = [int(layer.buffers["window"].codes[0]) for layer in self._weighted]
        seen = losses[-(sum(lookbacks) // len(lookbacks)) :].tolist()
        current = switch.STRATEGIES[self.number("strategy")]
        moved = switch.next_strategy(current, seen)
        self.state["strategy"] = whole(switch.STRATEGIES.index(moved))
        self.overhead = perf_counter() - started

    def width_penalty(self, layer: Any) -> float:
        """With `penalty`: WL/32 * (share of non-zeros).

        Defined by `spec/methods/adapt.py: Step.width_penalty`.
        """
        if self.options.penalty == "off":
            return 0.0
        used = self._used[layer.name]
        return used["WL"] / 32 * used["nonzero"] / layer.weight.value.size

    def update_all(self, updates: Sequence[Update]) -> None:
        """The switch of every weight layer, then the updates."""
        with self.timed():
            for layer, parameter, gradient in updates:
                if parameter.symbol == "W":
                    self._gather(layer, parameter, gradient)
        super().update_all(updates)

    def _gather(self, layer: Any, parameter: Parameter, gradient: np.ndarray) -> None:
        """G <- G + g; the switch when the lookback is full.

        Defined by `spec/methods/adapt.py: Step.gather`.
        """
        if self._of(layer).switch == "off":
            return
        slots, (lb, r, n) = parameter.slots, layer.buffers["window"].codes.tolist()
        slots["G"] = slots["G"] + gradient if "G" in slots else gradient
        if self.options.normalize == "off":
            norm = np.array([sqrt(sum_of_squares(gradient))]).astype(np.float32)
            slots["norms"] = slots["norms"] + norm if "norms" in slots else norm
        layer.buffers["window"] = whole(lb, r, n + 1)
        if n + 1 >= lb:
            self._switch(layer, parameter)

    def _switch(self, layer: Any, parameter: Parameter) -> None:
        """lb, r, PushDown and PushUp of one layer; G starts anew."""
        lb, r, n = layer.buffers["window"].codes.tolist()
        wl, fl = layer.buffers["precision"].codes.tolist()
        norms = float(parameter.slots.pop("norms")[0]) if self.options.normalize == "off" else n
        length = sqrt(sum_of_squares(parameter.slots["G"]))
        diversity = norms / length if length else inf
        lb = switch.next_lookback(lb, diversity, self._rule)
        r = switch.next_resolution(r, lb, self._rule)
        words = self.words(f"{layer.name}/push_down", parameter.value.size)
        wl_min, fl_min = switch.push_down(parameter.value, wl, fl, r, self.options.eps, words)
        strategy = switch.STRATEGIES[self.number("strategy")]
        s = switch.suggestions(diversity, fl_min, self._rule.reading)
        wl, fl = switch.push_up(wl_min, fl_min, switch.chosen(s, strategy), self._rule)
        for follower in self._behind[layer.name]:
            follower.buffers["precision"] = whole(wl, fl)
        layer.buffers["window"] = whole(lb, r, 0)
        parameter.slots["G"] = np.zeros(parameter.shape, np.float32)
        kl = switch.loss_of(parameter.value, wl_min, fl_min, r, words)
        self.moves[layer.name] = {
            **{"WL": wl, "FL": fl, "WL_min": wl_min, "FL_min": fl_min, "KL": kl if isfinite(kl) else None},
            **{"D": diversity if length else None, "s1": min(s[0], MAX_BITS), "s2": s[1]},
            **{"strategy": strategy, "lb": lb, "r": r},
        }

    # -- update -----------------------------------------------------------------------------

    def penalties(self) -> tuple[float, float]:
        """l1 and l2."""
        return self.options.l1, self.options.l2


def first_precision(text: str) -> tuple[int, int]:
    """<WL,FL> of option start; ConfigError for one that there is not."""
    wl, fl = numbers(text, ",", "start", "8,4")
    if not 0 <= fl < wl <= MAX_BITS:
        raise ConfigError(f"adapt: start={text}: WL,FL with 0 <= FL < WL <= {MAX_BITS}")
    return wl, fl


def numbers(text: str, between: str, key: str, example: str) -> tuple[int, int]:
    """Two whole numbers; ConfigError, naming the key, unless they are, and with '-' between them bounds."""
    parts = text.strip("<>").split(between)
    if len(parts) != 2 or not all(part.isascii() and part.isdecimal() for part in parts):
        raise ConfigError(f"adapt: {key}={text!r} is not two whole numbers, as in {example}")
    low, high = int(parts[0]), int(parts[1])
    if between == "-" and not 1 <= low <= high:
        raise ConfigError(f"adapt: {key}={text}: the first is at least 1 and at most the second")
    return low, high
