"""One whole MuPPET step of a small net, its block float and its policy; `nets` walks the net.

A tensor X of word length WL has codes in [LB, UB] = [-2^(WL-1), 2^(WL-1) - 1] at 2^-s, where s is
floor(log2(min((UB + 1/2)/max X, (LB - 1/2)/min X))); a maximum <= 0 or a minimum >= 0 does not bind.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

from intnet.spec import nets
from intnet.spec.float32 import add32, to_float32
from intnet.spec.formats import Quantized
from intnet.spec.methods.adapt import WEIGHTED, layers_of, sum64
from intnet.spec.methods.adapt_switch import DIGITS, decimal
from intnet.spec.methods.float_rules import FloatRules
from intnet.spec.rounding import HALF, overflow, round_fraction
from intnet.spec.tensor import Fixed, Tensor, power
from intnet.spec.words import words

LEVELS: tuple[int | None, ...] = (8, 12, 14, 16, None)  # None is float32
STORED, ERRORS, NORMS = ("x0", "x1", "x3", "x4"), ("e0", "e3"), ("gamma", "beta")


def scale(xs: Sequence[Fraction], wl: int) -> int:
    """s of a tensor; zeros alone have that of a maximum of 1."""
    ub, lb = 2 ** (wl - 1) - 1, -(2 ** (wl - 1))
    ratios = [(ub + HALF) / max(xs)] if max(xs) > 0 else []
    ratios += [(lb - HALF) / min(xs)] if min(xs) < 0 else []
    least = min(ratios, default=ub + HALF)
    s = 0
    while power(s + 1) <= least:
        s += 1
    while power(s) > least:
        s -= 1
    return s


def block(
    xs: Sequence[Fraction],
    wl: int,
    drawn: Sequence[int] | None = None,
    mode: str = "stochastic",
    bits: int = 32,
) -> Quantized:
    """The codes at 2^-s, saturated; `drawn` are words of `bits` bits."""
    s = scale(xs, wl)
    pairs = zip(xs, drawn or [None] * len(xs), strict=True)
    free = [round_fraction(x * power(s), mode, r, bits) for x, r in pairs]
    codes = [overflow(code, -(2 ** (wl - 1)), 2 ** (wl - 1) - 1, "saturate") for code in free]
    return Quantized(codes, -s, sum(a != b for a, b in zip(codes, free, strict=True)))


# -- the policy ----------------------------------------------------------------------------------


def diversity(kept: Sequence[Sequence[Sequence[Fraction]]]) -> Fraction:
    """Mean over layers of (sum of ||g||^2) / ||sum of g||^2, of each layer's kept gradients, all exact."""
    ratios = []
    for gradients in kept:
        squares = sum(v * v for g in gradients for v in g)
        total = sum(sum(parts) ** 2 for parts in zip(*gradients, strict=True))
        ratios.append(Fraction(squares, 1) / total if total else Fraction(1))
        assert total or not squares, "gradients that cancel have no diversity"
    return sum(ratios, Fraction(0)) / len(ratios)


def threshold(epoch: int) -> Decimal:
    """1 + 1.5 exp(-epoch/10)."""
    return 1 + DIGITS.multiply(Decimal("1.5"), DIGITS.exp(decimal(Fraction(-epoch, 10))))


def violates(earlier: Sequence[float], d: float, epoch: int) -> bool:
    """p = max S / D above the threshold, S with D itself."""
    greatest = max([*map(Fraction, earlier), Fraction(d)])
    return decimal(greatest / Fraction(d)) > threshold(epoch)


def learning_rate(
    schedule: Sequence[tuple[int, float]], epoch: int, switched: int | None, stay: int, floor: float
) -> Fraction:
    """The last of `schedule` (first epoch, rate) that has begun; from the switch to float32 on that of the
    switch, a tenth of it after every `stay` epochs, down to `floor`.
    """
    now = epoch if switched is None else switched
    rate = Fraction([value for first, value in schedule if first <= now][-1])
    if switched is not None:
        rate = max(rate / 10 ** ((epoch - switched) // stay), min(Fraction(floor), rate))
    return to_float32(rate)


# -- a step --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Settings:
    """The options as numbers, `lr` a schedule; `ends` says that the step is its epoch's last."""

    seed: int
    step: int
    epoch: int
    lr: tuple[tuple[int, float], ...]
    momentum: float = 0.9
    weight_decay: float = 0.0
    resolution: int = 3
    patience: int = 2
    float_epochs: int = 15
    lr_floor: float = 0.001
    ends: bool = False


@dataclass
class State:
    """Values by 'layer/symbol'; of each weight layer the kept gradients' sum and squares; the policy's."""

    values: dict[str, Tensor]
    acc: dict[str, Tensor] = field(default_factory=dict)
    sums: dict[str, Tensor] = field(default_factory=dict)
    squares: dict[str, Fraction] = field(default_factory=dict)
    running: dict[str, tuple[list[Fraction], list[Fraction]]] = field(default_factory=dict)
    level: int = 0
    switched: int = 0
    epochs: int = 0
    violations: int = 0
    diversities: list[Fraction] = field(default_factory=list)


@dataclass
class Step(FloatRules):
    """The rules of MuPPET for `nets.Walk`, and what it left."""

    weights: list[str]  # 'layer/W' in order of definition
    state: State
    settings: Settings
    tensors: dict[str, nets.Value] = field(default_factory=dict)
    gradients: dict[str, Tensor] = field(default_factory=dict)

    @property
    def wl(self) -> int | None:
        """Word length of this step."""
        return LEVELS[self.state.level]

    def rounded(self, layer: str, path: str, value: nets.Value, stream: str) -> nets.Value:
        """BF(value, WL) by this step's words of 'layer/stream', float32 at the last level."""
        if self.wl is None:
            out: nets.Value = nets.to_float(value)
        else:
            exact = nets.exact(value)
            drawn = words(self.settings.seed, self.settings.step, f"{layer}/{stream}", len(exact))
            q = block(exact, self.wl, drawn)
            out = Fixed(value.shape, q.codes, q.exponent)
        self.tensors[f"{layer}/{path}"] = out
        return out

    def weight(self, layer: str, symbol: str) -> nets.Value:
        """Weights and biases rounded, gamma and beta as they are."""
        value = self.state.values[f"{layer}/{symbol}"]
        if symbol in NORMS:
            self.tensors[f"{layer}/{symbol}q"] = value
            return value
        return self.rounded(layer, f"{symbol}q", value, symbol)

    def activation(self, layer: nets.Layer, path: str, value: nets.Value) -> nets.Value:
        """Rounded where it is stored; batch norm's input is float32."""
        if path in STORED and (path != "x1" or layer.kind in WEIGHTED):
            return self.rounded(layer.name, path, value, path)
        out = self.tensors[f"{layer.name}/{path}"] = nets.to_float(value)
        return out

    def error(self, layer: nets.Layer, path: str, value: nets.Value) -> nets.Value:
        """e0 and e3 rounded; batch norm's e1 float32."""
        if path in ERRORS:
            return self.rounded(layer.name, path, value, path)
        floating = self.wl is None or layer.kind == "norm"
        out = self.tensors[f"{layer.name}/{path}"] = nets.to_float(value) if floating else value
        return out

    def gradient(self, layer: str, symbol: str, value: nets.Value) -> None:
        """Those of weights and biases rounded, then float32."""
        self.tensors[f"{layer}/g{symbol}"] = value
        if symbol not in NORMS and self.wl is not None:
            value = self.rounded(layer, f"g{symbol}q", value, f"g{symbol}")
        self.gradients[f"{layer}/{symbol}"] = nets.to_float(value)

    def update(self, name: str) -> None:
        """SGD with momentum, by the schedule of the level."""
        o = self.settings
        since = self.state.switched if self.wl is None else None
        self.descend(name, learning_rate(o.lr, o.epoch, since, o.float_epochs, o.lr_floor))
        self.tensors[name] = self.state.values[name]

    def end_of_epoch(self) -> None:
        """Keep the weights' gradients; every `resolution` epochs a diversity, and the policy."""
        o, s = self.settings, self.state
        if self.wl is None:
            return
        for name in self.weights:
            g, old = self.gradients[name], s.sums.get(name)
            s.sums[name] = g if old is None else nets.joined(old, g)
            squares = to_float32(Fraction(sum64([v * v for v in g.values])))
            s.squares[name] = add32(s.squares.get(name, Fraction(0)), squares)
        s.epochs += 1
        if s.epochs == o.resolution:
            s.epochs = 0
            self._police()

    def _police(self) -> None:
        o, s = self.settings, self.state
        ratios = []
        for name in self.weights:
            total = sum64([v * v for v in s.sums.pop(name).values])
            squares = float(s.squares.pop(name))
            ratios.append(squares / total if total else 1.0)
        d = sum(ratios) / len(ratios)
        s.violations += violates([float(v) for v in s.diversities], d, o.epoch) if s.diversities else 0
        s.diversities = [*s.diversities, to_float32(Fraction(d))]
        if s.violations == o.patience:
            s.level, s.switched, s.violations, s.diversities = s.level + 1, o.epoch + 1, 0, []


def step(net: nets.Net, state: State, images: Fixed, error: Tensor, settings: Settings) -> Step:
    """One training step; `error` (N, classes) is (p - y) / N of the logits."""
    weighted = [layer.name for layer in layers_of(net) if layer.kind in WEIGHTED]
    run = Step([f"{name}/W" for name in weighted], deepcopy(state), settings)
    walk = nets.Walk(run, weighted[0])
    walk.forward(net, images)
    walk.backward(net, error)
    for name in run.gradients:
        run.update(name)
    if settings.ends:
        run.end_of_epoch()
    return run
