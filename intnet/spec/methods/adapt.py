"""AdaPT: fixed point <WL,FL> a layer, which an information measure moves while training (Kummer et al. 2023).

    SR(x; <WL,FL>)   stochastic rounding to FixedPoint(WL, FL), on Wq, bq, gammaq, betaq, x0, x1, x3, x4  3.1
    g = SR(gW) / ||SR(gW)||_2                                                                            (3.4)
    G <- G + g; every lb steps D = n/||G||_2, PushDown, PushUp, lb, r            `adapt_switch`   (3.1)-(3.6)
    g + l1 sign(W) + l2 W to the optimizer of the float32 master W                `float_master`

<WL,FL> of a weight layer holds for the layers defined behind it too, up to the next one. Products of
integers are exact; the way back is float32, as is batch norm inside.

State, beside that of `float_master`: of every layer 'precision' [WL, FL]; of weight layers 'window'
[lb, r, n] and W's slot 'G'; with accs > 1 the slot 'sum'; of the net 'method/strategy', 'losses', 'epoch'
[sum, steps], 'plateau' [factor of lr, best, epochs since], 'batches'.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, sqrt
from typing import Any, ClassVar

from intnet.spec import float_batch_norm as float_norm
from intnet.spec import words as random
from intnet.spec.digest import Floats
from intnet.spec.elementary import normal64
from intnet.spec.float32 import add32, to_float32
from intnet.spec.float64 import sum64
from intnet.spec.formats import FixedPoint
from intnet.spec.methods import adapt_switch as switch
from intnet.spec.methods import float_master
from intnet.spec.methods.float_master import FloatMaster, update
from intnet.spec.methods.step import FLOAT32, Schedule, State, at, key, optional, store, value_of, whole
from intnet.spec.models import Parameter
from intnet.spec.nets import WEIGHTED, Layer, Net, layers_of
from intnet.spec.tensor import Fixed, Tensor
from intnet.spec.values import Value, joined, to_float

STORED = ("x0", "x1", "x3", "x4")
COPIES = {"Wq": "W", "bq": "b", "gammaq": "gamma", "betaq": "beta"}
GRADIENTS = {f"g{symbol}q": f"g{symbol}" for symbol in COPIES.values()}
START, WINDOW = (8, 4), (25, 50, 0)  # <WL,FL> and lb, r, n of every layer at first
GREATEST = 2**128 - Fraction(2**104)  # the greatest float32
TAIL = 178_809_188  # P(z < -sqrt 3) 2^32, to nearest

__all__ = ["Settings", "Step", "behind", "first", "first_weight", "update"]


# -- settings --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Settings(float_master.Settings):
    """eps: bits of KL that PushDown may lose; buff: bits in front of the point; l1, l2: penalties; accs:
    batches an update; rop: patience of the plateau, in epochs; init: s of the first weights' variance s/n;
    penalty: 'on' has WL/32 (share of non-zeros) in the loss that the strategy sees.
    """

    lr: Schedule[float] = ((0, 0.02),)
    eps: float = 0.1
    buff: int = 4
    l1: float = 1e-8
    l2: float = 0.01
    accs: int = 1
    rop: int | None = None
    rop_factor: float = 0.1
    rop_threshold: float = 1e-4
    init: float = 1.0
    penalty: str = "off"

    READ: ClassVar[dict[str, Callable[[Any], Any]]] = float_master.Settings.READ | {
        "buff": int,
        "accs": int,
        "rop": lambda text: optional(text, int),
        "penalty": str,
    }


# -- first values ----------------------------------------------------------------------------------


def first_weight(word: int, fan_in: int, init: float = 1.0) -> Fraction:
    """TNVS: N(0, sqrt(s/n)) truncated at +-sqrt(3 s/n), by the inverse distribution of the words within."""
    inside = TAIL + (word * (2**32 - 2 * TAIL) >> 32)
    return to_float32(Fraction(normal64(inside) * sqrt(init / float(fan_in))))


def first(parameters: Sequence[Parameter], settings: Settings, seed: int, net: Net) -> State:
    """Truncated normals for weights; <8,4>, lb = 25, r = 50 everywhere."""
    state = float_master.first(parameters, settings, seed)
    for p in parameters:
        if p.start == "normal":
            drawn = random.words(
                seed, 0, f"{p.layer}/init_{p.symbol}", len(value_of(state[key(*p[:2])]).values)
            )
            state[key(p.layer, p.symbol)] = Floats(
                "float32", p.shape, [first_weight(word, p.fan_in, settings.init) for word in drawn]
            )
    for layer in layers_of(net):
        state[f"{layer.name}.precision"] = whole(*START)
        if layer.kind in WEIGHTED:
            state[f"{layer.name}.window"] = whole(*WINDOW)
    return state | {
        "method/strategy": whole(0),
        "method/losses": _floats(),
        "method/epoch": _floats(0, 0),
        "method/plateau": _floats(1, GREATEST, 0),
        "method/batches": whole(0),
    }


def _floats(*numbers: Fraction | int) -> Floats:
    return Floats("float32", (len(numbers),), [Fraction(v) for v in numbers])


def behind(net: Net) -> dict[str, list[str]]:
    """Weight layer -> it and the layers defined behind it, up to the next one."""
    layers = layers_of(net)
    current = next(layer.name for layer in layers if layer.kind in WEIGHTED)
    out: dict[str, list[str]] = {current: []}
    for layer in layers:
        if layer.kind in WEIGHTED:
            out.setdefault(layer.name, [])
            current = layer.name
        out[current].append(layer.name)
    return out


# -- a step ----------------------------------------------------------------------------------------


class Step(FloatMaster):
    """The rules of the method for one step."""

    nonzero: dict[str, int]

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.nonzero = {}  # weight layer -> words of Wq that are not 0

    def numbers(self, name: str) -> list[Any]:
        """Whole numbers of the state."""
        return value_of(self.state[name]).codes

    def format_of(self, layer: Layer, path: str) -> Any:
        """<WL,FL> of the layer where a value is stored; float32 inside batch norm and on the way back."""
        stored = path in STORED and (path != "x1" or layer.kind in WEIGHTED)
        if stored or path in COPIES or path in GRADIENTS:
            return FixedPoint(*self.numbers(f"{layer.name}.precision"))
        return FLOAT32

    def stream_of(self, layer: Layer, path: str) -> str | None:
        """Each stored path has words of its own: 'layer/W' those of Wq, 'layer/gW' those of gWq."""
        if self.format_of(layer, path) == FLOAT32 or (self.now.inference and path in STORED):
            return None
        return f"{layer.name}/{COPIES.get(path, GRADIENTS.get(path, path))}"

    def weight(self, layer: Layer, symbol: str) -> Any:
        """Wq, bq as integers; gammaq, betaq as float32."""
        q = super().weight(layer, symbol)
        if symbol == "W":
            self.nonzero[layer.name] = sum(code != 0 for code in q.codes)
        return q if symbol in ("W", "b") else to_float(q)

    def folded(self, layer: Layer) -> tuple[Fixed, Fixed] | None:
        """Of gamma^ and beta^ and the running statistics, for words of the layer's FL."""
        gamma, beta = (self.weight(layer, symbol).values for symbol in ("gamma", "beta"))
        running = self.running(layer)
        assert running is not None
        return float_norm.folded(gamma, beta, *running, self.numbers(f"{layer.name}.precision")[1])

    def gradient(self, layer: Layer, symbol: str, value: Value) -> None:
        """SR(g), that of weights then divided by the root of its sum of squares (3.4); zero stays zero."""
        g, name = self.stored(layer, f"g{symbol}", value), f"{layer.name}/{symbol}"
        q = self.stored(layer, f"g{symbol}q", g)
        if symbol != "W":
            self.gradients[name] = to_float(q)
            return
        unit = Tensor(q.shape, unit_length(q))
        self.gradients[name] = self.note(layer, f"g{symbol}n", q, unit, FLOAT32)

    # -- the loss ----------------------------------------------------------------------------------

    def see_loss(self, loss: Fraction) -> None:
        """The history of losses, the strategy by it, and the epoch's sum."""
        seen = to_float32(Fraction(float(loss) + self.penalty()))
        losses = [*value_of(self.state["method/losses"]).values, seen][-100:]
        total, steps = value_of(self.state["method/epoch"]).values
        lookbacks = [self.numbers(f"{layer.name}.window")[0] for layer in self.weighted]
        strategy = switch.STRATEGIES[self.numbers("method/strategy")[0]]
        moved = switch.next_strategy(strategy, losses, lookbacks)
        self.state |= {
            "method/losses": _floats(*losses),
            "method/epoch": _floats(add32(total, seen), steps + 1),
            "method/strategy": whole(switch.STRATEGIES.index(moved)),
        }

    def penalty(self) -> float:
        """l1 ||W||_1 + l2/2 ||W||_2^2 of all weights, in float64, and with `penalty` WL/32 (non-zeros)."""
        o, total = self.settings, 0.0
        for layer in self.weighted:
            w = self.parameter(layer.name, "W").values
            if o.l1:
                total += o.l1 * sum64([abs(v) for v in w])
            if o.l2:
                total += o.l2 / 2 * sum64([v * v for v in w])
            if o.penalty == "on":
                total += self.numbers(f"{layer.name}.precision")[0] / 32 * self.nonzero[layer.name] / len(w)
        return total

    # -- switch and update -------------------------------------------------------------------------

    def update_all(self) -> None:
        """The switch of every weight layer, then the updates; count the batch."""
        for layer in self.weighted:
            if f"{layer.name}/W" in self.gradients:
                self.gather(layer)
        super().update_all()
        self.state["method/batches"] = whole((self.numbers("method/batches")[0] + 1) % self.settings.accs)

    def gather(self, layer: Layer) -> None:
        """G <- G + g, n <- n + 1; where the lookback is full, D = n/||G||_2 and the switch."""
        name, g = layer.name, self.gradients[f"{layer.name}/W"]
        slot = key(name, "W", "G")
        total: Any = joined(value_of(self.state[slot]), g) if slot in self.state else g
        lb, r, n = self.numbers(f"{name}.window")
        self.state[slot], self.state[f"{name}.window"] = store(total), whole(lb, r, n + 1)
        if n + 1 < lb:
            return
        length = sqrt(sum64([v * v for v in total.values]))
        diversity = (n + 1) / length if length else inf
        lb = switch.next_lookback(lb, diversity)
        r = switch.next_resolution(r, lb)
        w = self.parameter(name, "W").values
        drawn, form = self.words(f"{name}/push_down", len(w)), self.numbers(f"{name}.precision")
        least = switch.push_down(w, (form[0], form[1]), r, self.settings.eps, drawn)
        strategy = switch.STRATEGIES[self.numbers("method/strategy")[0]]
        moved = whole(*switch.push_up(least, diversity, strategy, self.settings.buff))
        for follower in behind(self.net)[name]:
            self.state[f"{follower}.precision"] = moved
        self.state[f"{name}.window"] = whole(lb, r, 0)
        self.state[slot] = Floats("float32", g.shape, [Fraction(0)] * len(g.values))

    def epoch_rate(self) -> float:
        """lr of the epoch, as far as plateaus of the loss have reduced it."""
        return at(self.settings.lr, self.now.epoch) * float(value_of(self.state["method/plateau"]).values[0])

    def penalties(self) -> tuple[float, float]:
        """l1 and l2, which join the gradient behind its normalisation."""
        return self.settings.l1, self.settings.l2

    def updates_done(self) -> int:
        """One in `accs` steps."""
        return self.now.step // self.settings.accs

    def update(self, layer: Layer, symbol: str, gradient: Tensor) -> None:
        """The master's step by the mean of `accs` gradients."""
        accs, slot = self.settings.accs, key(layer.name, symbol, "sum")
        if accs > 1:
            before = self.state.pop(slot, None)
            total: Any = gradient if before is None else joined(value_of(before), gradient)
            if self.numbers("method/batches")[0] + 1 < accs:
                self.state[slot] = store(total)
                return
            gradient = Tensor(total.shape, [to_float32(v / accs) for v in total.values])
        super().update(layer, symbol, gradient)
        self.stored(layer, symbol, self.parameter(layer.name, symbol))

    def end_of_epoch(self) -> None:
        """Reduce the learning rate where the mean loss of an epoch has not fallen for `rop` epochs."""
        o, (total, steps) = self.settings, value_of(self.state["method/epoch"]).values
        self.state["method/epoch"] = _floats(0, 0)
        if o.rop is not None:
            rule = switch.Plateau(o.rop, o.rop_factor, o.rop_threshold)
            scale, best, bad = value_of(self.state["method/plateau"]).values
            rule.scale, rule.best, rule.bad = float(scale), float(best), int(bad)
            rule.step(float(total) / int(steps))
            after = (to_float32(Fraction(v)) for v in (rule.scale, rule.best, rule.bad))
            self.state["method/plateau"] = _floats(*after)


def unit_length(q: Fixed) -> list[Fraction]:
    """q / ||q||_2 in float32: the codes over the float64 root of their squares' sum, as exponents cancel."""
    squares = sum(code * code for code in q.codes)
    norm = sqrt(float(squares)) if squares else 1.0
    return [to_float32(Fraction(code / norm)) for code in q.codes]
