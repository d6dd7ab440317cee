"""One whole AdaPT step of a small net: every tensor by name, and all that lives on to the next step.

Weights and activations are SR(x; <WL,FL>) of the weight layer defined before them, products exact, the
way back float32; each gradient is rounded so too, that of weights then made of length 1. The switch of
every weight layer whose lookback is full (`adapt_switch`), and SGD with momentum on float32 weights, follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf

from intnet.spec import formats as qz
from intnet.spec import nets
from intnet.spec.float32 import CHUNK, add32, fma32, to_float32
from intnet.spec.methods import adapt_switch as switch
from intnet.spec.methods.float_rules import FloatRules
from intnet.spec.rounding import round_sqrt
from intnet.spec.tensor import Fixed, Tensor, power
from intnet.spec.words import words

WEIGHTED = ("linear", "conv")
STORED = ("x0", "x1", "x3", "x4")


@dataclass(frozen=True)
class Settings:
    """The options as numbers; `lr` is this epoch's, `ends` says that the step is its epoch's last."""

    seed: int
    step: int
    lr: float
    eps: float = 0.0
    buff: int = 4
    momentum: float = 0.9
    l1: float = 0.0
    l2: float = 0.0
    accs: int = 1
    rop: int | None = None
    rop_factor: float = 0.1
    rop_threshold: float = 1e-4
    penalty: bool = False
    ends: bool = False


@dataclass
class State:
    """Values by 'layer/symbol' (W, b, gamma, beta), the layers' precision and windows, and the rest."""

    values: dict[str, Tensor]
    precision: dict[str, tuple[int, int]]
    windows: dict[str, tuple[int, int, int]]  # lb, r, n
    acc: dict[str, Tensor] = field(default_factory=dict)
    sums: dict[str, Tensor] = field(default_factory=dict)
    gathered: dict[str, Tensor] = field(default_factory=dict)
    running: dict[str, tuple[list[Fraction], list[Fraction]]] = field(default_factory=dict)
    strategy: str = "min"
    losses: list[Fraction] = field(default_factory=list)
    epoch: tuple[Fraction, int] = (Fraction(0), 0)
    plateau: tuple[Fraction, Fraction, int] = (Fraction(1), 2**128 - Fraction(2**104), 0)
    batches: int = 0


def root64(x: Fraction) -> Fraction:
    """The float64 root of a float64 x > 0."""
    exponent = 0
    while x >= power(2 * (exponent + 53)):
        exponent += 1
    while x < power(2 * (exponent + 52)):
        exponent -= 1
    return round_sqrt(x / power(2 * exponent)) * power(exponent)


def sum64(values: Sequence[Fraction]) -> float:
    """Sum in float64, ascending in chunks of 1024; chunk sums added in order. Each term is a float64."""
    total = 0.0
    for start in range(0, len(values), CHUNK):
        part = 0.0
        for v in values[start : start + CHUNK]:
            part += float(v)
        total += part
    return total


def layers_of(net: nets.Net) -> list[nets.Layer]:
    """All layers in order of definition; a shortcut's after the branch's, before what follows the join."""
    out: list[nets.Layer] = []
    for item in net:
        out += [item] if isinstance(item, nets.Layer) else [*item.main, *item.shortcut]
    return out


@dataclass
class Step(FloatRules):
    """The rules of AdaPT for `nets.Walk`, and what it left: `tensors` by 'layer/path'."""

    net: nets.Net
    state: State
    settings: Settings
    tensors: dict[str, nets.Value] = field(default_factory=dict)
    gradients: dict[str, Tensor] = field(default_factory=dict)
    nonzero: dict[str, int] = field(default_factory=dict)

    def rounded(self, layer: str, path: str, value: nets.Value, stream: str) -> Fixed:
        """SR(value; <WL,FL>) by this step's words of 'layer/stream'."""
        exact = nets.exact(value)
        drawn = words(self.settings.seed, self.settings.step, f"{layer}/{stream}", len(exact))
        q = qz.fixed(exact, *self.state.precision[layer], mode="stochastic", words=drawn)
        out = Fixed(value.shape, q.codes, q.exponent)
        self.tensors[f"{layer}/{path}"] = out
        return out

    def weight(self, layer: str, symbol: str) -> nets.Value:
        """Every parameter rounded; gamma and beta are read as float32."""
        q = self.rounded(layer, f"{symbol}q", self.state.values[f"{layer}/{symbol}"], symbol)
        if symbol == "W":
            self.nonzero[layer] = sum(code != 0 for code in q.codes)
        return nets.to_float(q) if symbol in ("gamma", "beta") else q

    def activation(self, layer: nets.Layer, path: str, value: nets.Value) -> nets.Value:
        """Rounded where it is stored; batch norm's input is float32."""
        if path in STORED and (path != "x1" or layer.kind in WEIGHTED):
            return self.rounded(layer.name, path, value, path)
        out = self.tensors[f"{layer.name}/{path}"] = nets.to_float(value)
        return out

    def error(self, layer: nets.Layer, path: str, value: nets.Value) -> nets.Value:
        """float32."""
        out = self.tensors[f"{layer.name}/{path}"] = nets.to_float(value)
        return out

    def gradient(self, layer: str, symbol: str, value: nets.Value) -> None:
        """Rounded; that of weights then divided by the root of its sum of squares."""
        self.tensors[f"{layer}/g{symbol}"] = value
        q = self.rounded(layer, f"g{symbol}q", value, f"g{symbol}")
        if symbol != "W":
            self.gradients[f"{layer}/{symbol}"] = nets.to_float(q)
            return
        squares = sum(code * code for code in q.codes)
        norm = root64(Fraction(float(squares))) if squares else Fraction(1)
        unit = [to_float32(Fraction(float(code / norm))) for code in q.codes]
        self.tensors[f"{layer}/g{symbol}n"] = self.gradients[f"{layer}/{symbol}"] = Tensor(q.shape, unit)

    # -- the loss -----------------------------------------------------------------------------

    def see_loss(self, loss: float) -> None:
        """History, strategy, and the epoch's sum."""
        s = self.state
        seen = to_float32(Fraction(loss + self._penalties()))
        s.losses = [*s.losses, seen][-100:]
        s.epoch = add32(s.epoch[0], seen), s.epoch[1] + 1
        s.strategy = switch.next_strategy(s.strategy, s.losses, [lb for lb, _, _ in s.windows.values()])

    def _penalties(self) -> float:
        o, total = self.settings, 0.0
        for layer in self.state.windows:
            w = self.state.values[f"{layer}/W"].values
            if o.l1:
                total += o.l1 * sum64([abs(v) for v in w])
            if o.l2:
                total += o.l2 / 2 * sum64([v * v for v in w])
            if o.penalty:
                total += self.state.precision[layer][0] / 32 * self.nonzero[layer] / len(w)
        return total

    # -- switch and update --------------------------------------------------------------------

    def gather(self, layer: str) -> None:
        """G and n of one weight layer; the switch where the lookback is full."""
        s = self.state
        g, old = self.gradients[f"{layer}/W"], s.gathered.get(layer)
        s.gathered[layer] = g if old is None else nets.joined(old, g)
        lb, r, n = s.windows[layer]
        s.windows[layer] = lb, r, n + 1
        if n + 1 < lb:
            return
        length = Fraction(sum64([v * v for v in s.gathered[layer].values]))
        d = (n + 1) / float(root64(length)) if length else inf
        lb = switch.next_lookback(lb, d)
        r = switch.next_resolution(r, lb)
        w = s.values[f"{layer}/W"]
        drawn = words(self.settings.seed, self.settings.step, f"{layer}/push_down", len(w.values))
        least = switch.push_down(w.values, s.precision[layer], r, self.settings.eps, drawn)
        form = switch.push_up(least, d, s.strategy, self.settings.buff)
        for name in behind(self.net)[layer]:
            s.precision[name] = form
        s.windows[layer] = lb, r, 0
        s.gathered[layer] = Tensor(w.shape, [Fraction(0)] * len(w.values))

    def update(self, name: str) -> None:
        """Acc = momentum Acc + (g + l1 sign W + l2 W); W = W - lr Acc."""
        o, s = self.settings, self.state
        g = self.gradients[name].values
        if o.accs > 1:
            before = s.sums.pop(name, None)
            total = Tensor(self.gradients[name].shape, g)
            total = total if before is None else nets.joined(before, total)
            if s.batches + 1 < o.accs:
                s.sums[name] = total
                return
            g = [to_float32(v / o.accs) for v in total.values]
        w = s.values[name]
        if o.l1:
            l1 = to_float32(Fraction(o.l1))
            g = [fma32(l1, (v > 0) - (v < 0), a) for v, a in zip(w.values, g, strict=True)]
        if o.l2:
            l2 = to_float32(Fraction(o.l2))
            g = [fma32(l2, v, a) for v, a in zip(w.values, g, strict=True)]
        rate = to_float32(Fraction(o.lr * float(s.plateau[0])))
        momentum = to_float32(Fraction(o.momentum))
        old = s.acc[name].values if name in s.acc else [Fraction(0)] * len(g)
        acc = [fma32(momentum, a, v) for a, v in zip(old, g, strict=True)]
        s.acc[name] = Tensor(w.shape, acc)
        s.values[name] = Tensor(w.shape, [fma32(-rate, a, v) for a, v in zip(acc, w.values, strict=True)])
        layer, symbol = name.split("/")
        self.tensors[f"{layer}/Acc{symbol}"], self.tensors[name] = s.acc[name], s.values[name]

    def end(self) -> None:
        """Count the batch; at the end of an epoch look whether its mean loss fell."""
        s, o = self.state, self.settings
        s.batches = (s.batches + 1) % o.accs
        if not o.ends:
            return
        total, steps = s.epoch
        s.epoch = Fraction(0), 0
        if o.rop is not None:
            rule = switch.Plateau(o.rop, o.rop_factor, o.rop_threshold)
            rule.scale, rule.best, rule.bad = float(s.plateau[0]), float(s.plateau[1]), s.plateau[2]
            rule.step(float(total) / steps)
            s.plateau = to_float32(Fraction(rule.scale)), to_float32(Fraction(rule.best)), rule.bad


def behind(net: nets.Net) -> dict[str, list[str]]:
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


def step(net: nets.Net, state: State, images: Fixed, error: Tensor, loss: float, settings: Settings) -> Step:
    """One training step; `error` (N, classes) is (p - y) / N of the logits, `loss` their mean loss."""
    run = Step(net, deepcopy(state), settings)
    weighted = list(behind(net))
    walk = nets.Walk(run, weighted[0])
    walk.forward(net, images)
    run.see_loss(loss)
    walk.backward(net, error)
    for layer in weighted:
        run.gather(layer)
    for name in run.gradients:
        run.update(name)
    run.end()
    return run
