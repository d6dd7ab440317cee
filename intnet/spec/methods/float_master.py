"""What methods with float32 masters share: SGD and AdamW, clipping, rates that rise and fall by the step.

A step takes the gradient g of a parameter W as the method's paper leaves it:

    clip     g <- g clip/||g||_2   where ||g||_2 > clip, of each parameter by itself
    sgd      Acc <- momentum Acc + (g + weight_decay W)               W <- W - lr Acc
    adamw    m <- beta1 m + (1 - beta1) g,  v <- beta2 v + (1 - beta2) g^2,  t = number of the update, from 1
             W <- W - lr ((m/(1 - beta1^t)) / (sqrt(v/(1 - beta2^t)) + adam_eps) + weight_decay W)

adamw is Algorithm 2 of Loshchilov and Hutter 2019, "Decoupled weight decay regularization". With accs above 1
g is the mean of so many steps' gradients; l1 sign(W) joins as weight_decay W does. lr = lr(epoch) * plateau *
factor; on a plateau of the epochs' mean losses, penalties counted, `rop` reduces it. Tensors are lists
of Fractions that are float32; what a step computes once is in float64, Python's floats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from intnet.spec.digest import Floats
from intnet.spec.float32 import add32, bits_of, fma32, mul32, sqrt32, to_float32, units
from intnet.spec.float64 import root64, sum64
from intnet.spec.initial import first_value
from intnet.spec.methods.packing import Packing, split
from intnet.spec.methods.step import (
    FLOAT32,
    Overrides,
    Schedule,
    State,
    Step,
    at,
    by_layer,
    in_float32,
    key,
    optional,
    schedule,
    store,
    value_of,
    whole,
)
from intnet.spec.models import Layer, Net, Parameter
from intnet.spec.tensor import Tensor
from intnet.spec.values import Curve, Expression, Value, joined, to_float

GREATEST = 2**128 - Fraction(2**104)  # the greatest float32
BITS = 300  # after the point of the cosine's integers
Slots = dict[str, list[Fraction]]  # 'Acc', or 'm' and 'v'


@dataclass(frozen=True)
class Settings:
    """The options as numbers; lr: (first epoch, rate), warmup, cosine and one_cycle in epochs; rop: patience.

    init, init_scale: kind of the first weights, s of their variance s/fan_in
    """

    lr: Schedule[float] = ((0, 0.05),)
    warmup: Fraction = Fraction(0)
    cosine: Fraction | None = None
    one_cycle: Fraction | None = None
    optimizer: str = "sgd"
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
    init: str = "normal"
    init_scale: float = 1.0
    statistics: str = "running"
    packing: Packing | None = None
    overrides: Overrides = ()

    READ: ClassVar[dict[str, Callable[[Any], Any]]] = {
        "lr": lambda text: schedule(text, float),
        "warmup": lambda text: Fraction(str(text)),
        "cosine": lambda text: optional(text, Fraction),
        "one_cycle": lambda text: optional(text, Fraction),
        "clip": lambda text: optional(text, float),
        "optimizer": str,
        "accs": int,
        "rop": lambda text: optional(text, int),
        "init": str,
        "statistics": str,
        "packing": lambda packing: packing,
    }

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Any:
        """From the options of a run by name, numbers or texts; those that READ has not are float64."""
        own, tape = split(options)
        read = {name: cls.READ.get(name.partition("@")[0], float)(value) for name, value in own.items()}
        plain, overrides = by_layer(read)
        return cls(**plain, overrides=overrides, **tape)


# -- rates -----------------------------------------------------------------------------------------


def _arctan(inverse: int) -> int:
    """arctan(1/inverse) in units of 2^-BITS."""
    term = total = (1 << BITS) // inverse
    k = 1
    while term:
        term //= -(inverse**2)
        k += 2
        total += term // k
    return total


PI = 4 * (4 * _arctan(5) - _arctan(239))  # Machin's formula


def half_wave(u: Fraction) -> Fraction:
    """(1 + cos(pi u))/2 = cos(pi u/2)^2 within 2^-250: a series for a small angle, doubled sixteen times."""
    angle = PI * u.numerator // (u.denominator << 17)
    term = cosine = 1 << BITS
    for k in range(2, 60, 2):
        term = -((term * angle >> BITS) * angle >> BITS) // (k * (k - 1))
        cosine += term
    for _ in range(16):
        cosine = (cosine * cosine >> (BITS - 1)) - (1 << BITS)
    return Fraction(cosine, 1 << BITS) ** 2


def factor(s: Settings, step: int, steps_per_epoch: int) -> float:
    """The rise of the first steps, (step + 1)/w; then half waves: SGDR (5) with eta_min = 0, T_i = cosine."""
    if step < s.warmup * steps_per_epoch:
        return float(min(Fraction(1), (step + 1) / (s.warmup * steps_per_epoch)))
    if s.cosine is None:
        return 1.0
    behind = step - s.warmup * steps_per_epoch
    while behind >= s.cosine * steps_per_epoch:
        behind -= s.cosine * steps_per_epoch
    return float(half_wave(behind / (s.cosine * steps_per_epoch)))


def one_cycle(cycle: Fraction, step: int, steps_per_epoch: int) -> float:
    """OneCycleLR, two phases, pct_start 0.3, div_factor 25, final_div_factor 10^4: between two rates a and b
    that are the ends of a phase, b + (a - b) (1 + cos(pi u))/2."""
    low, least, last = Fraction(1, 25), Fraction(1, 250_000), cycle * steps_per_epoch - 1
    top = Fraction(3, 10) * (last + 1) - 1
    a, b, u = (
        (low, Fraction(1), step / top) if step < top else (Fraction(1), least, (step - top) / (last - top))
    )
    return float(b + (a - b) * half_wave(min(u, Fraction(1))))


def scaling(s: Settings, step: int, steps_per_epoch: int) -> float:
    """By one_cycle, or by warmup and cosine."""
    if s.one_cycle is not None:
        return one_cycle(s.one_cycle, step, steps_per_epoch)
    return factor(s, step, steps_per_epoch)


def plateau(
    seen: tuple[float, float, int], loss: float, patience: int, factor: float, threshold: float
) -> tuple[float, float, int]:
    """(scale, best loss, epochs since) after an epoch of mean loss `loss`: PyTorch's
    ReduceLROnPlateau(mode='min', threshold_mode='rel', cooldown=0, min_lr=0, eps=0)."""
    scale, best, bad = seen
    if loss < best * (1 - threshold):
        return scale, loss, 0
    return (scale, best, bad + 1) if bad < patience else (scale * factor, best, 0)


# -- updates ---------------------------------------------------------------------------------------


def to_power(base: float, n: int) -> float:
    """base^n in float64: the squares base^(2^k) of n's bits, multiplied from the lowest up."""
    square, result = base, 1.0
    for bit in reversed(f"{n:b}"):
        if bit == "1":
            result = result * square
        square = square * square
    return result


def clipping(g: Sequence[Fraction], clip: float | None) -> Fraction:
    """The float32 that scales a gradient: min(1, clip/||g||_2), the norm in float64."""
    if clip is None:
        return Fraction(1)
    square = Fraction(sum64([v * v for v in g]))
    norm = float(root64(square)) if square else 0.0
    return to_float32(Fraction(clip / norm)) if norm > clip else Fraction(1)


def with_penalties(
    w: Sequence[Fraction], g: Sequence[Fraction], scale: Fraction, penalties: tuple[float, float]
) -> list[Fraction]:
    """g' = scale g, + l1 sign(W) where l1 is not 0, + l2 W where l2 is not 0: one rounding each."""
    l1, l2 = (to_float32(Fraction(p)) for p in penalties)
    out = list(g) if scale == 1 else [mul32(scale, v) for v in g]
    if l1:
        out = [fma32(l1, (v > 0) - (v < 0), a) for v, a in zip(w, out, strict=True)]
    return [fma32(l2, v, a) for v, a in zip(w, out, strict=True)] if l2 else out


def rules(s: Settings, lr: float, t: int, penalties: tuple[float, float], waiting: int = 0) -> list[str]:
    """The step with its numbers, as golden packs print it: of p, its gradient g, so many `waiting` ahead."""
    if waiting + 1 < s.accs:
        return [
            f"waiting of p = {'waiting.old of p + ' * (waiting > 0)}g",
            "p and what else is kept of it stay",
        ]
    l1, l2 = map(_number, penalties)
    parts = {
        f"g = (waiting.old of p + g) / {s.accs}, the sum and the quotient rounded": s.accs > 1,
        f"g = s * g, s the binary32 nearest to min(1, {s.clip} / ||g||_2), the norm in binary64": s.clip,
        f"g = fma({l1}, sign(p.old), g), the sign -1, 0 or 1": penalties[0],
        f"g = fma({l2}, p.old, g)": penalties[1],
    }
    made = [text for text, asked in parts.items() if asked]
    if s.optimizer == "sgd":
        acc = f"Accp = fma({_number(s.momentum)}, Acc.old of p, g)"
        return [*made, acc, f"p = fma(-{_number(lr)}, Accp, p.old)"]
    lost = [1 - to_power(beta, t) for beta in (s.beta1, s.beta2)]
    step = f"mp / fma({_number(1 / float(root64(Fraction(lost[1]))))}, sqrt(vp), {_number(s.adam_eps)})"
    return [
        *made,
        f"mp = fma({_number(s.beta1)}, m.old of p, {_number(1 - s.beta1)} * g)",
        f"vp = fma({_number(s.beta2)}, v.old of p, ({_number(1 - s.beta2)} * g) * g)",
        f"p = fma(-{_number(lr / lost[0])}, {step}, fma(-{_number(lr * s.weight_decay)}, p.old, p.old))",
    ]


def _number(value: float) -> str:
    """A float32 by its bits."""
    return f"0x{bits_of(units(to_float32(Fraction(value)))):08x} ({value:g})"


def moments(s: Settings, g: Sequence[Fraction], slots: Slots) -> Slots:
    """sgd: Acc = fma(momentum, Acc, g); adamw: m = fma(beta1, m, (1 - beta1) g), v = fma(beta2, v,
    ((1 - beta2) g) g); of 0 at the start."""
    old = {slot: slots.get(slot) or [Fraction(0)] * len(g) for slot in ("Acc", "m", "v")}
    if s.optimizer != "adamw":
        by = to_float32(Fraction(s.momentum))
        return {"Acc": [fma32(by, a, v) for a, v in zip(old["Acc"], g, strict=True)]}
    b1, b2 = (to_float32(Fraction(beta)) for beta in (s.beta1, s.beta2))
    r1, r2 = (to_float32(Fraction(1 - beta)) for beta in (s.beta1, s.beta2))
    return {
        "m": [fma32(b1, m, mul32(r1, x)) for m, x in zip(old["m"], g, strict=True)],
        "v": [fma32(b2, v, mul32(mul32(r2, x), x)) for v, x in zip(old["v"], g, strict=True)],
    }


def sgd(s: Settings, lr: float, w: Sequence[Fraction], slots: Slots, t: int) -> list[Fraction]:
    """W = fma(-lr, Acc, W), Acc of `moments`."""
    rate32 = to_float32(Fraction(lr))
    return [fma32(-rate32, a, v) for a, v in zip(slots["Acc"], w, strict=True)]


def adamw(s: Settings, lr: float, w: Sequence[Fraction], slots: Slots, t: int) -> list[Fraction]:
    """W = fma(-rate, m / fma(root, sqrt(v), eps), fma(-decay, W, W)), m and v of `moments`."""
    lost = [1 - to_power(beta, t) for beta in (s.beta1, s.beta2)]
    root = to_float32(Fraction(1 / float(root64(Fraction(lost[1])))))
    eps, rate32 = to_float32(Fraction(s.adam_eps)), to_float32(Fraction(lr / lost[0]))
    decay = to_float32(Fraction(lr * s.weight_decay))
    out = []
    for value, m, v in zip(w, slots["m"], slots["v"], strict=True):
        step = to_float32(m / fma32(root, sqrt32(v), eps))
        out.append(fma32(-rate32, step, fma32(-decay, value, value)))
    return out


MOVES = {"sgd": sgd, "adamw": adamw}

# -- a step ----------------------------------------------------------------------------------------


def first(parameters: Sequence[Parameter], settings: Settings, seed: int, net: Net = ()) -> State:
    """Random weights, else ones or zeros; and what is counted."""
    s = settings
    start: State = {
        key(p.layer, p.symbol): store(first_value(seed, *p, kind=s.init, scale=s.init_scale))
        for p in parameters
    }
    return start | first_state(s)


def first_state(s: Settings) -> State:
    """No gradient waits, no loss was seen."""
    state: State = {"method/waiting": whole(0)} if s.accs > 1 else {}
    return (
        state
        if s.rop is None
        else state | {"method/epoch": floats(0, 0), "method/plateau": floats(1, GREATEST, 0)}
    )


def floats(*numbers: Fraction | int) -> Floats:
    """A vector of float32."""
    return Floats("float32", (len(numbers),), [Fraction(v) for v in numbers])


class FloatMaster(Step):
    """float32 everywhere; a method says what it rounds. The update is the module's.

    shows_masters: a parameter's new value is stored on its path, where a copy of it is what a pass reads
    """

    shows_masters = False

    def format_of(self, layer: Layer, path: str) -> Any:
        """float32."""
        return FLOAT32

    def activation(self, layer: Layer, path: str, value: Expression) -> Any:
        """In the format of its path; tanh, sigmoid and silu are computed in float32 first."""
        return self.stored(layer, path, in_float32(value) if isinstance(value, Curve) else value)

    def gradient(self, layer: Layer, symbol: str, value: Value) -> None:
        """float32."""
        self.gradients[f"{layer.name}/{symbol}"] = to_float(self.stored(layer, f"g{symbol}", value))

    # -- the update --------------------------------------------------------------------------------

    def rate(self) -> float:
        """The learning rate of this step."""
        rate = self.epoch_rate()
        if self.settings.rop is not None:
            rate *= float(value_of(self.state["method/plateau"]).values[0])
        return rate * scaling(self.settings, self.now.step, self.now.steps_per_epoch)

    def epoch_rate(self) -> float:
        """Of this epoch, ahead of plateaus, warmup and cosine."""
        return at(self.settings.lr, self.now.epoch)

    def penalties(self) -> tuple[float, float]:
        """(l1, l2)."""
        return self.settings.l1, self.settings.weight_decay if self.settings.optimizer == "sgd" else 0.0

    def penalized(self, loss: Fraction) -> Fraction:
        """The loss with l1 ||W||_1 + l2/2 ||W||_2^2 of all weights, added in float64, as a float32."""
        (l1, l2), added = self.penalties(), 0.0
        for layer in self.weighted:
            w = self.parameter(layer.name, "W").values
            if l1:
                added += l1 * sum64([abs(v) for v in w])
            if l2:
                added += l2 / 2 * sum64([v * v for v in w])
            added += self.width_penalty(layer)
        return to_float32(Fraction(float(loss) + added))

    def width_penalty(self, layer: Layer) -> float:
        """What the method adds for a layer's word length."""
        return 0.0

    def see_loss(self, loss: Fraction) -> None:
        """With rop: one more loss of the epoch."""
        if self.settings.rop is not None:
            self.count_loss(self.penalized(loss))

    def count_loss(self, loss: Fraction) -> None:
        """[sum of losses, steps] of the epoch, the sum in float32."""
        total, steps = value_of(self.state["method/epoch"]).values
        self.state["method/epoch"] = floats(add32(total, loss), steps + 1)

    def end_of_epoch(self) -> None:
        """Reduce the learning rate where the mean loss of an epoch has not fallen for `rop` epochs."""
        s = self.settings
        if s.rop is None:
            return
        total, steps = value_of(self.state["method/epoch"]).values
        scale, best, bad = value_of(self.state["method/plateau"]).values
        seen, mean = (float(scale), float(best), int(bad)), float(total) / int(steps)
        after = plateau(seen, mean, s.rop, s.rop_factor, s.rop_threshold)
        kept = floats(*(to_float32(Fraction(v)) for v in after))
        self.state |= {"method/epoch": floats(0, 0), "method/plateau": kept}

    def updates_done(self) -> int:
        """How often each parameter was updated before this step: once in `accs` steps."""
        return self.now.step // self.settings.accs

    def update_all(self) -> None:
        """`update` of each, and the batch counted."""
        super().update_all()
        if self.settings.accs > 1:
            waiting = value_of(self.state["method/waiting"]).codes[0] + 1
            self.state["method/waiting"] = whole(waiting % self.settings.accs)

    def update(self, layer: Layer, symbol: str, gradient: Tensor) -> None:
        """`descend` by the gradient, or by the mean of `accs` of them, added up in the slot 'waiting'."""
        accs, slot = self.settings.accs, key(layer.name, symbol, "waiting")
        if accs > 1:
            before = self.state.pop(slot, None)
            total: Any = gradient if before is None else joined(value_of(before), gradient)
            if value_of(self.state["method/waiting"]).codes[0] + 1 < accs:
                self.state[slot] = store(total)
                return
            gradient = Tensor(total.shape, [to_float32(v / accs) for v in total.values])
        self.descend(layer, symbol, gradient)

    def descend(self, layer: Layer, symbol: str, gradient: Tensor) -> None:
        """The module's step of one parameter."""
        s, name, shape, g = self.settings, layer.name, gradient.shape, gradient.values
        scale = clipping(g, s.clip)
        if s.clip is not None:
            self.note(layer, f"g{symbol}c", gradient, Tensor(shape, [mul32(scale, v) for v in g]), FLOAT32)
        names = [slot for slot in ("Acc", "m", "v") if key(name, symbol, slot) in self.state]
        old = {slot: self.parameter(name, symbol, slot).values for slot in names}
        w, t = self.parameter(name, symbol).values, self.updates_done() + 1
        slots = moments(s, with_penalties(w, g, scale, self.penalties()), old)
        for slot, values in slots.items():
            self.state[key(name, symbol, slot)] = Floats("float32", shape, values)
            value = Tensor(shape, values)
            slots[slot] = self.note(layer, f"{slot}{symbol}", value, value, FLOAT32).values
        new = MOVES[s.optimizer](s, self.rate(), w, slots, t)
        self.state[key(name, symbol)] = Floats("float32", shape, new)
        if self.shows_masters:
            self.stored(layer, symbol, self.parameter(name, symbol))
