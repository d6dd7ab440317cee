"""AdaPT: fixed point <WL,FL> a layer, which an information measure moves while training (Kummer et al. 2023).

    SR(x; <WL,FL>)   stochastic rounding to FixedPoint(WL, FL), on Wq, bq, gammaq, betaq, x0, x1, x3, x4  3.1
    g = SR(gW) / ||SR(gW)||_2                                                                            (3.4)
    G <- G + g; every lb steps D = n/||G||_2, PushDown, PushUp, lb, r            `adapt_switch`   (3.1)-(3.6)
    g + l1 sign(W) + l2 W to the optimizer of the float32 master W                `float_master`

<WL,FL> of a weight layer holds for the layers defined after it too, up to the next one. Products of
integers are exact; the way back is float32, as is batch norm inside.

State, beside that of `float_master`: of every layer 'precision' [WL, FL]; of weight layers 'window'
[lb, r, n] and W's slot 'G', with normalize=off also 'norms'; of the net 'method/strategy' and 'losses'.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, sqrt
from typing import Any, ClassVar

from intnet.spec import float_batch_norm as float_norm
from intnet.spec.digest import Floats
from intnet.spec.float32 import add32, to_float32
from intnet.spec.float64 import sum64
from intnet.spec.formats import FixedPoint
from intnet.spec.methods import adapt_switch as switch
from intnet.spec.methods import float_master
from intnet.spec.methods.float_master import FloatMaster, floats
from intnet.spec.methods.step import FLOAT32, Schedule, State, key, of_layer, store, value_of, whole
from intnet.spec.models import WEIGHTED, Layer, Net, Parameter, layers_of
from intnet.spec.tensor import Fixed, Tensor
from intnet.spec.values import Value, joined, to_float

STORED = ("x0", "x1", "x3", "x4")
COPIES = {"Wq": "W", "bq": "b", "gammaq": "gamma", "betaq": "beta"}
RULES = {  # as golden packs print them
    "gWn": "the binary32 nearest to c / norm, a quotient of binary64, c the code of gWq; norm is the binary64"
    " root of the sum of all c^2, 1 where that is 0",
    "G": "G.old + g in binary32, g itself where there is no G.old; g is gWn, with normalize=off the"
    " value of gWq. A switch, which is where n + 1 = lb, reads this G; behind it G is +0",
    "window": "[lb, r, n + 1], with switch=off as it was; behind a switch [lb', r', 0]. D = (n + 1) / N,"
    " N the root of the sum of G^2 in binary64, in chunks of 1024 elements in C order, each"
    " summed from 0 on, then the chunks' sums; with normalize=off the sum of the binary32 norms"
    " of the window's g takes the place of n + 1; D is infinite where N = 0. lb' = ceil(gamma *"
    " lb_new + (1 - gamma) * lb), lb_new = ceil(U / D) limited to L..U, U for an infinite D, [L,"
    " U] the option lookback; r' = r + 1 where lb' = U, r - 1 where lb' = L, limited to the"
    " option resolution",
    "precision": "moves in a switch, with that of the layers behind up to the next with a weight. Q counts"
    " W, ahead of its update, in r' equal bins over min W..max W, P(WL, FL) the values SR(W;"
    " <WL,FL>), rounded by the top of push_down.words; end bins take what is outside. (WL, FL)"
    " holds where WL > 0 and the sum of P log2(P / Q) over P > 0, over the number of elements,"
    " is at most eps; it is infinite where such a Q is 0. f = the FL found by halving min(4,"
    " FL)..FL at WL, downwards where the middle, rounded down, holds; w = the WL found so in"
    " min(f, WL)..WL at f; where all W are equal w = min(4, WL), f = min(4, FL). a = (ln D -"
    " 1)^2, s1 = max(ceil(1 / a), 1), s2 = max(min(ceil(32 a), 32) - f, 1), both 1 where a <= 0"
    " or D is infinite; s = the least, the mean (rounded up) or the greatest of them, by"
    " strategy. FL = min(f + s, 32 - buff), WL = max(min(FL + buff, 32), w). With"
    " reading=program s1 = s2 = 1 unless ln D > 1, and s2 is 0 at least; with reading=printed"
    " a = (ln D)^2 - 1 and ceil(32 (ln D)^2) - 1 stands for ceil(32 a); with buffer=printed"
    " FL = min(f, 32 - buff)",
}
GRADIENTS = {f"g{symbol}q": f"g{symbol}" for symbol in COPIES.values()}

__all__ = ["Settings", "Step", "behind", "first"]


# -- settings --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Settings(float_master.Settings):
    """eps: bits of KL that PushDown may lose; buff: bits in front of the point; start: the first <WL,FL>;
    lookback, resolution: their bounds; gamma: momentum of the lookback; reading: of (3.6); buffer: 'raised'
    or 'printed'; normalize: 'off' leaves (3.4) out, D is (3.3); l1, l2: penalties;
    penalty: 'on' has WL/32 (share of non-zeros) in the loss that the strategy sees; switch: 'off' leaves a
    layer at its first <WL,FL>. start and switch may be a weight layer's own, `of_layer`
    """

    lr: Schedule[float] = ((0, 0.02),)
    eps: float = 0.1
    buff: int = 4
    start: tuple[int, int] = (8, 4)
    lookback: tuple[int, int] = (25, 100)
    resolution: tuple[int, int] = (50, 150)
    gamma: Fraction = Fraction(33, 100)
    reading: str = "graded"
    buffer: str = "raised"
    normalize: str = "on"
    l1: float = 1e-8
    l2: float = 0.01
    init: str = "tnvs"
    penalty: str = "off"
    switch: str = "on"

    READ: ClassVar[dict[str, Callable[[Any], Any]]] = float_master.Settings.READ | {
        "buff": int,
        "start": lambda text: _two(text, ","),
        "lookback": lambda text: _two(text, "-"),
        "resolution": lambda text: _two(text, "-"),
        "gamma": lambda text: Fraction(str(text)),
        "reading": str,
        "buffer": str,
        "normalize": str,
        "penalty": str,
        "switch": str,
    }


def _two(text: str, between: str) -> tuple[int, int]:
    low, high = text.strip("<>").split(between)
    return int(low), int(high)


# -- first values ----------------------------------------------------------------------------------


def first(parameters: Sequence[Parameter], settings: Settings, seed: int, net: Net) -> State:
    """Truncated normals for weights; <8,4> and the lower bounds, unless options say otherwise, everywhere."""
    state = float_master.first(parameters, settings, seed)
    ahead = {follower: name for name, followers in behind(net).items() for follower in followers}
    for layer in layers_of(net):
        state[f"{layer.name}.precision"] = whole(*of_layer(settings, ahead[layer.name]).start)
        if layer.kind in WEIGHTED:
            state[f"{layer.name}.window"] = whole(settings.lookback[0], settings.resolution[0], 0)
    return state | {"method/strategy": whole(0), "method/losses": floats()}


def behind(net: Net) -> dict[str, list[str]]:
    """Weight layer -> it and the layers defined after it, up to the next one."""
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

    shows_masters = True
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
        running = self.running(layer)
        if running is None:
            return None
        gamma, beta = (self.weight(layer, symbol).values for symbol in ("gamma", "beta"))
        return float_norm.folded(gamma, beta, *running, self.numbers(f"{layer.name}.precision")[1])

    def gradient(self, layer: Layer, symbol: str, value: Value) -> None:
        """SR(g), that of weights then divided by the root of its sum of squares (3.4); zero stays zero."""
        g, name = self.stored(layer, f"g{symbol}", value), f"{layer.name}/{symbol}"
        q = self.stored(layer, f"g{symbol}q", g)
        if symbol != "W" or self.settings.normalize == "off":
            self.gradients[name] = to_float(q)
            return
        unit = Tensor(q.shape, unit_length(q))
        self.gradients[name] = self.note(layer, f"g{symbol}n", q, unit, FLOAT32)

    # -- the loss ----------------------------------------------------------------------------------

    def see_loss(self, loss: Fraction) -> None:
        """The history of losses, and the strategy by it."""
        seen = self.penalized(loss)
        if self.settings.rop is not None:
            self.count_loss(seen)
        kept = self.settings.lookback[1]
        losses = [*value_of(self.state["method/losses"]).values, seen][-kept:]
        lookbacks = [self.numbers(f"{layer.name}.window")[0] for layer in self.weighted]
        strategy = switch.STRATEGIES[self.numbers("method/strategy")[0]]
        moved = switch.next_strategy(strategy, losses, lookbacks)
        self.state |= {
            "method/losses": floats(*losses),
            "method/strategy": whole(switch.STRATEGIES.index(moved)),
        }

    def width_penalty(self, layer: Layer) -> float:
        """With `penalty` WL/32 (share of non-zeros)."""
        if self.settings.penalty == "off":
            return 0.0
        size = len(self.parameter(layer.name, "W").values)
        return float(self.numbers(f"{layer.name}.precision")[0] / 32 * self.nonzero[layer.name] / size)

    # -- switch and update -------------------------------------------------------------------------

    def update_all(self) -> None:
        """The switch of every weight layer, then the updates."""
        for layer in self.weighted:
            if f"{layer.name}/W" in self.gradients:
                self.gather(layer)
        super().update_all()

    def gather(self, layer: Layer) -> None:
        """G <- G + g, n <- n + 1; where the lookback is full, D = n/||G||_2 and the switch.

        With switch=off none of it: the layer's <WL,FL> stays, and so does its lookback.
        """
        if of_layer(self.settings, layer.name).switch == "off":
            return
        name, g = layer.name, self.gradients[f"{layer.name}/W"]
        slot = key(name, "W", "G")
        total: Any = joined(value_of(self.state[slot]), g) if slot in self.state else g
        norms = self.norms(name, g)
        lb, r, n = self.numbers(f"{name}.window")
        self.state[slot], self.state[f"{name}.window"] = store(total), whole(lb, r, n + 1)
        if n + 1 < lb:
            return
        length = sqrt(sum64([v * v for v in total.values]))
        diversity = (n + 1 if norms is None else norms) / length if length else inf
        o = self.settings
        lb = switch.next_lookback(lb, diversity, o.lookback, o.gamma)
        r = switch.next_resolution(r, lb, o.lookback, o.resolution)
        w = self.parameter(name, "W").values
        drawn, form = self.words(f"{name}/push_down", len(w)), self.numbers(f"{name}.precision")
        least = switch.push_down(w, (form[0], form[1]), r, o.eps, drawn)
        strategy = switch.STRATEGIES[self.numbers("method/strategy")[0]]
        s = switch.chosen(*switch.suggestions(diversity, least[1], o.reading), strategy)
        moved = whole(*switch.push_up(least, s, o.buff, o.buffer))
        for follower in behind(self.net)[name]:
            self.state[f"{follower}.precision"] = moved
        self.state[f"{name}.window"] = whole(lb, r, 0)
        self.state[slot] = Floats("float32", g.shape, [Fraction(0)] * len(g.values))

    def norms(self, name: str, g: Tensor) -> float | None:
        """With normalize=off: the sum of ||g||_2 of the window, of (3.3); float32 where it goes on."""
        if self.settings.normalize == "on":
            return None
        slot, (lb, _, n) = key(name, "W", "norms"), self.numbers(f"{name}.window")
        norm = to_float32(Fraction(sqrt(sum64([v * v for v in g.values]))))
        old = self.state.pop(slot, None)
        total = norm if old is None else add32(value_of(old).values[0], norm)
        if n + 1 < lb:
            self.state[slot] = floats(total)
        return float(total)

    def penalties(self) -> tuple[float, float]:
        """l1 and l2, which join the gradient after its normalisation."""
        return self.settings.l1, self.settings.l2


def unit_length(q: Fixed) -> list[Fraction]:
    """q / ||q||_2 in float32: the codes over the float64 root of their squares' sum, as exponents cancel."""
    squares = sum(code * code for code in q.codes)
    norm = sqrt(float(squares)) if squares else 1.0
    return [to_float32(Fraction(code / norm)) for code in q.codes]
