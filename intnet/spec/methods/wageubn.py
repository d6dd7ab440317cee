"""WAGEUBN: 8-bit integers on every data path (Yang et al. 2020). Its quantizers are those of `spec.formats`.

    (6)   Q(x, k)         Direct(k)        (10)  Wq = clip(Q(W, kW), -1 + d, 1 - d)
    (7)   CQ(x)           Constant         (13)  mu, sigma: Q(., 16), gammaq, betaq: Q(., 8), x2: Q(., 16)
    (8)   SQ(x, k)        Shift(k)         (14)  x4 = Q(relu(x3), 8)
    (17)  Flag-QE2        Flag(8)          (15)  e0 = SQ(., 8)     (16), (17)  e3 = SQ(., 16) or Flag-QE2
                                           (18)  gWq = CQ(gW), ggammaq, gbetaq = Q(., 15)
    (20)  Acc = Mom Accq + gq     (21)  Accq = Q(Acc, 13)     (23)  W <- W - lr Acc

Widths are those of sec. IV-A unless options say otherwise. By (22), kGC = kMom + kAcc - 1, the two terms of
Acc lie on one grid, 2^-14; by (24), kWU = kGC + klr - 1, so does the update on that of W, 2^-23: neither is
ever rounded. Batch norm between the stored values: `batch_norm`. Which format stands where: `Step.format_of`.

The first and the last weight layer are float32 (sec. IV-A). With first=block so is the whole first layer of
Fig. 1, its batch norm and activation too: x4 of it is float32, then Q(., 8); the error that comes to it is
rounded once to float32, and after that nothing is.

State: 'layer.weight' codes at 1 - kWU and 'layer.weight.Accq' at 1 - kAcc, of float32 layers float32 and
'Acc'; of batch norm 'running_mean' and 'running_var', int64 at -31, of float32 float32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, ClassVar

from intnet.spec.batch_norm import GUARD_BITS, running_update
from intnet.spec.digest import Words
from intnet.spec.float32 import fma32
from intnet.spec.formats import Constant, Direct, FixedPoint, Flag, Format, Shift
from intnet.spec.initial import first_value
from intnet.spec.methods.packing import Packing, split
from intnet.spec.methods.step import (
    FLOAT32,
    Now,
    Overrides,
    Schedule,
    Seen,
    State,
    at,
    by_layer,
    in_float32,
    key,
    of_layer,
    optional,
    rounded,
    schedule,
    store,
    value_of,
)
from intnet.spec.methods.step import Step as AnyStep
from intnet.spec.methods.wageubn_modes import MODE_OF, Modes
from intnet.spec.models import WEIGHTED, Layer, Net, Parameter, layers_of
from intnet.spec.rounding import Mode
from intnet.spec.tensor import Fixed, Tensor, power
from intnet.spec.values import Curve, Expression, Value

EDGE_BITS = 16
INTEGER_BITS = {"mu": 4, "sigma": 4, "x2": 3, "dx4": 1, "gammaq": 1, "betaq": 1, "bq": 1}  # under `saturate`
RUNNING = -31


# -- settings --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Widths:
    """Of sec. IV-A, and the code of Mom. kGC = kGgamma = kGbeta and kWU follow by (22) and (24)."""

    k_w: int = 8
    k_a: int = 8
    k_e1: int = 8
    k_gamma: int = 8
    k_beta: int = 8
    k_bn: int = 16
    k_mu: int = 16
    k_sigma: int = 16
    k_acc: int = 13
    k_mom: int = 3
    k_lr: int = 10
    mom: int = 3

    @property
    def k_gc(self) -> int:
        """(22)."""
        return self.k_mom + self.k_acc - 1

    @property
    def k_wu(self) -> int:
        """(24)."""
        return self.k_gc + self.k_lr - 1

    @property
    def memory(self) -> FixedPoint:
        """Of weights: +-(1 - 2^(1 - kWU))."""
        return FixedPoint(self.k_wu, self.k_wu - 1, overflow="saturate_symmetric")


PAPER = Widths()


@dataclass(frozen=True)
class Settings(Widths, Modes):
    """e2: 'flag8', or a width of SQ; edges: 'float32' or 'fixed16'; first: 'layer' or 'block', of the first
    block, in float32; lr: codes, dr: of CQ, by epoch.

    saturate: integer bits of activations, None: no range (6); weight_decay: s of 2^-s, None: none, as the
    paper; statistics: of inference; k_e2: None, or the width of e3 in place of that in e2.
    label_smoothing: none. overrides: of layers, `of_layer`
    """

    e2: str = "flag8"
    edges: str = "float32"
    first: str = "layer"
    saturate: int | None = None
    lr: Schedule[int] = ((0, 26),)
    dr: Schedule[int] = ((0, 128),)
    weight_decay: int | None = None
    statistics: str = "running"
    label_smoothing: float = 0.0
    k_e2: int | None = None
    packing: Packing | None = None
    overrides: Overrides = ()

    READ: ClassVar[dict[str, Callable[[Any], Any]]] = {
        **dict.fromkeys((width.name for width in fields(Widths)), int),
        **dict.fromkeys(MODE_OF.values(), lambda mode: mode),
        "lr": lambda text: schedule(text, int),
        "dr": lambda text: schedule(text, int),
        "k_e2": lambda text: optional(text, int),
        "saturate": lambda text: optional(text, int),
        "weight_decay": lambda text: optional(text, int),
    }

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Settings:
        """From the options of a run by name, numbers or texts."""
        own, tape = split(options)
        read = {name: cls.READ.get(name.partition("@")[0], str)(value) for name, value in own.items()}
        plain, overrides = by_layer(read)
        return cls(**plain, overrides=overrides, **tape)

    @property
    def of_e3(self) -> Format:
        """(16), (17)."""
        k = int(self.e2.removeprefix("flag")) if self.k_e2 is None else self.k_e2
        return Flag(k) if self.e2.startswith("flag") else Shift(k)


# -- what is float32 -------------------------------------------------------------------------------


def first_block(net: Net) -> list[Layer]:
    """The first layer of Fig. 1: the first weight layer, the batch norm after it, where one is, and the
    activation after them, which the integers read."""
    layers = layers_of(net)
    start = [layer.kind in WEIGHTED for layer in layers].index(True)
    block = layers[start : start + 2]
    if block[-1].kind == "norm":
        block = layers[start : start + 3]
    if block[-1].kind not in ("relu", "silu"):
        raise ValueError(f"{block[-1].name} ends no first block: relu or silu does")
    return block


# -- the update ------------------------------------------------------------------------------------


def accumulate(accq: Sequence[int], gq: Sequence[int], mom: int = PAPER.mom) -> list[int]:
    """(20) Acc = Mom Accq + gq: codes at 1 - kAcc and 1 - kGC to codes at 1 - kGC, which (22) makes whole.

    >>> accumulate([-8], [5])
    [-19]
    """
    return [mom * a + g for a, g in zip(accq, gq, strict=True)]


def descend(w: Sequence[int], acc: Sequence[int], lr: int) -> list[int]:
    """(23) W - lr Acc: codes at 1 - kWU, 1 - kGC and lr at 1 - kLR, which (24) makes whole; not limited yet.

    >>> descend([100], [-19], 26)
    [594]
    """
    return [code - lr * a for code, a in zip(w, acc, strict=True)]


def update32(
    w: Sequence[Fraction], acc: Sequence[Fraction], g: Sequence[Fraction], lr: int, k: Widths = PAPER
) -> tuple[list[Fraction], list[Fraction]]:
    """(Acc, W) of a float32 layer: Acc = fma(Mom, Acc, g), W = fma(-lr, Acc, W)."""
    rate = lr * power(1 - k.k_lr)
    new_acc = [fma32(k.mom * power(1 - k.k_mom), a, v) for a, v in zip(acc, g, strict=True)]
    return new_acc, [fma32(-rate, a, v) for a, v in zip(new_acc, w, strict=True)]


def rules32(s: Settings, epoch: int) -> list[str]:
    """`update32` with its numbers, as golden packs print it: p is the parameter, g its gradient."""
    return [
        f"Acc = fma({s.mom} * 2^{1 - s.k_mom}, Acc.old, g)",
        f"p = fma(-{at(s.lr, epoch)} * 2^{1 - s.k_lr}, Acc, p.old)",
    ]


def acc_path(name: str, symbol: str) -> str:
    """'Acc' of W, 'Acc_gamma' of the others."""
    return name if symbol == "W" else f"{name}_{symbol}"


# -- first values ----------------------------------------------------------------------------------


def first(parameters: Sequence[Parameter], settings: Settings, seed: int, net: Net = ()) -> State:
    """(9) W = clip(Q(W, kWU), -1 + d, 1 - d) of N(0, 1/sqrt(fan_in)); gamma = 1 and beta = 0 on its grid."""
    state: State = {}
    weighted = [p.layer for p in parameters if p.symbol == "W"]
    floating = [weighted[0], weighted[-1]] if settings.edges == "float32" else []
    floating += [layer.name for layer in first_block(net)] if settings.first == "block" else []
    for p in parameters:
        value = first_value(seed, *p)
        if p.layer in floating:
            state[key(p.layer, p.symbol)] = store(value)
            continue
        k = of_layer(settings, p.layer)
        q = rounded(value, k.memory if p.symbol == "W" else Direct(k.k_wu))
        state[key(p.layer, p.symbol)] = store(Fixed(p.shape, q.codes, q.exponent))
        zeros = Fixed(p.shape, [0] * len(q.codes), 1 - k.k_acc)
        state[key(p.layer, p.symbol, "Accq")] = store(zeros)
    return state


# -- a step ----------------------------------------------------------------------------------------


class Step(AnyStep):
    """The rules of the method for one step."""

    exact_gradients = True

    def __init__(
        self, net: Net, settings: Any, state: State, now: Now, seen: Callable[[Seen], None] | None = None
    ) -> None:
        super().__init__(net, settings, state, now, seen)
        block = first_block(net) if settings.first == "block" else []
        self.block = [layer.name for layer in block]

    def in_block(self, layer: Layer) -> bool:
        """Whether the layer is of a first block in float32."""
        return layer.name in self.block

    def floating(self, layer: Layer) -> bool:
        """Whether the layer is float32: the first or last weight layer (sec. IV-A), or of the first block."""
        return self.in_block(layer) or (self.edge(layer) != "" and self.settings.edges == "float32")

    def of(self, layer: Layer) -> Settings:
        """The options as they hold for a layer."""
        return of_layer(self.settings, layer.name)

    def _direct(self, layer: Layer, path: str, k: int) -> Format:
        """(6), or with `saturate` a fixed-point format of the same width and a range."""
        saturate = self.of(layer).saturate
        if saturate is None:
            return Direct(k)
        integer = saturate if path in ("x4", "x0") else INTEGER_BITS.get(path, 0)
        return FixedPoint(k, k - 1 - integer, overflow="saturate_symmetric")

    def format_of(self, layer: Layer, path: str) -> Any:
        """The whole method: which quantizer stands on which path."""
        symbol, k = path.partition("_")[2] or "W", self.of(layer)
        if self.in_block(layer):
            return self._direct(layer, path, k.k_a) if path == "x4" else FLOAT32
        if self.edge(layer) and path in ("Wq", "bq", "x0", "x1", "e3"):
            return self._of_edge(layer, path)
        if self.floating(layer):
            return None
        formats: dict[str, Callable[[], Any]] = {
            "Wq": lambda: FixedPoint(k.k_w, k.k_w - 1, overflow="saturate_symmetric"),  # (10)
            "gammaq": lambda: self._direct(layer, path, k.k_gamma),  # (13)
            "betaq": lambda: self._direct(layer, path, k.k_beta),
            "bq": lambda: self._direct(layer, path, k.k_beta),
            "mu": lambda: self._direct(layer, path, k.k_mu),
            "sigma": lambda: self._direct(layer, path, k.k_sigma),
            "x2": lambda: self._direct(layer, path, k.k_bn),
            "x0": lambda: self._direct(layer, path, k.k_a) if layer.kind in WEIGHTED else None,
            "x1": lambda: (
                Direct(k.k_w + k.k_a - 1) if layer.kind == "norm" else None
            ),  # after a float32 layer
            "x4": lambda: self._direct(layer, path, k.k_a),  # (14)
            "dx4": lambda: self._direct(layer, path, k.k_a),
            "e0": lambda: Shift(k.k_e1),  # (15)
            "e1q": lambda: Shift(k.k_e1),
            "m1": lambda: self._below_e2(layer),
            "m2": lambda: self._below_e2(layer),
            "e3": lambda: self.of(layer).of_e3,  # (17), (16)
            "gWq": lambda: Constant(k.k_gc, at(self.of(layer).dr, self.now.epoch)),  # (18), (7)
            "ggammaq": lambda: self._direct(layer, "ggamma", k.k_gc),
            "gbetaq": lambda: self._direct(layer, "gbeta", k.k_gc),
            "gbq": lambda: self._direct(layer, "gb", k.k_gc),
            acc_path("Accq", symbol): lambda: self._direct(layer, "Accq", k.k_acc),  # (21)
            "W": lambda: k.memory,
            "gamma": lambda: Direct(k.k_wu),
            "beta": lambda: Direct(k.k_wu),
            "b": lambda: Direct(k.k_wu),
        }
        return formats[path]() if path in formats else None

    def _of_edge(self, layer: Layer, path: str) -> Any:
        """x0, x1, e3 and the forward copies of the first and last layer."""
        if self.settings.edges == "float32":
            if path == "x1":
                k = self.of(layer)
                return Direct(k.k_w + k.k_a - 1) if self.edge(layer) == "first" else None
            return FLOAT32
        if path in ("Wq", "bq"):
            return FixedPoint(EDGE_BITS, EDGE_BITS - 1, overflow="saturate_symmetric")
        return {"x0": Direct(EDGE_BITS), "x1": None, "e3": Shift(EDGE_BITS)}[path]

    def _below_e2(self, layer: Layer) -> Format:
        """16 bits below the LSB of e2, whose exponent the step knows by then."""
        k = self.of(layer)
        width = k.k_e1 + k.k_gamma - 1 + GUARD_BITS  # e2's nominal bits and those below; a name, no range
        return Direct(min(width, 32), lsb=self.tensors[f"{layer.name}/e2"].exponent - GUARD_BITS)

    def stream_of(self, layer: Layer, path: str) -> str | None:
        """Of what rounds stochastically: in the paper CQ alone, by the words of 'layer/gW'."""
        if self._mode(layer, path) != "stochastic":
            return None
        return f"{layer.name}/{'gW' if path == 'gWq' else path}"

    def mode_of(self, layer: Layer, path: str) -> Mode:
        """As the options say."""
        return self._mode(layer, path)

    def _mode(self, layer: Layer, path: str) -> Mode:
        return self.of(layer).mode(path, self.now.inference)

    # -- hooks -------------------------------------------------------------------------------------

    def activation(self, layer: Layer, path: str, value: Expression) -> Any:
        """As `format_of` says; silu of a float32 block is computed in float32 first."""
        curved = self.in_block(layer) and isinstance(value, Curve)
        return self.stored(layer, path, in_float32(value) if curved else value)

    def error(self, layer: Layer, path: str, value: Value) -> Any:
        """As `format_of` says; e1 of a batch norm that no activation follows comes as e0 would."""
        if path == "e1" and not isinstance(value, Fixed) and not self.in_block(layer):
            return self.stored(layer, path, value, Shift(self.of(layer).k_e1))
        return self.stored(layer, path, value)

    def gradient(self, layer: Layer, symbol: str, value: Value) -> None:
        """(18); with weight decay 2^-s W joins gW, exactly, of float32 by one fma."""
        path, s = f"g{symbol}", self.of(layer).weight_decay
        if s is not None and symbol == "W":
            value = _decayed(value, self.parameter(layer.name, "W"), s)
        g = self.stored(layer, path, value)
        if not self.floating(layer):
            g = self.stored(layer, f"{path}q", g)
        self.gradients[f"{layer.name}/{symbol}"] = g

    def statistics(self, layer: Layer, mean: list[Fraction], variance: list[Fraction]) -> None:
        """r <- r + (x - r) 2^-3 of mu and of sigma^2, at exponent -31; from 0 and 1; or in float32."""
        if self.in_block(layer):
            super().statistics(layer, mean, variance)
            return
        for name, start, new in (("running_mean", 0, mean), ("running_var", 2**-RUNNING, variance)):
            own = f"{layer.name}.{name}"
            codes = value_of(self.state[own]).codes if own in self.state else [start] * len(new)
            moved = [running_update(r, x) for r, x in zip(codes, new, strict=True)]
            self.state[own] = Words("int64", (len(new),), moved, RUNNING)

    def update(self, layer: Layer, symbol: str, gradient: Any) -> None:
        """(20), (21), (23) with the learning rate of the epoch."""
        lr, name = at(self.of(layer).lr, self.now.epoch), layer.name
        if self.floating(layer):
            self._update32(layer, symbol, gradient, lr)
            return
        w, accq = self.parameter(name, symbol), self.parameter(name, symbol, "Accq")
        k = self.of(layer)
        grids = 1 - k.k_wu, 1 - k.k_acc, 1 - k.k_gc
        assert (w.exponent, accq.exponent, gradient.exponent) == grids, name
        acc = Fixed(w.shape, accumulate(accq.codes, gradient.codes, k.mom), 1 - k.k_gc)
        acc = self.stored(layer, acc_path("Acc", symbol), acc)
        new_accq = self.stored(layer, acc_path("Accq", symbol), acc)
        moved = Fixed(w.shape, descend(w.codes, acc.codes, lr), 1 - k.k_wu)
        self.state[key(name, symbol, "Accq")] = store(new_accq)
        self.state[key(name, symbol)] = store(self.stored(layer, symbol, moved))

    def _update32(self, layer: Layer, symbol: str, gradient: Tensor, lr: int) -> None:
        name, shape = layer.name, gradient.shape
        kept = key(name, symbol, "Acc") in self.state
        old = self.parameter(name, symbol, "Acc").values if kept else [Fraction(0)] * len(gradient.values)
        acc, w = update32(self.parameter(name, symbol).values, old, gradient.values, lr, self.of(layer))
        for slot, path, values in (("Acc", acc_path("Acc", symbol), acc), ("", symbol, w)):
            value = self.stored(layer, path, Tensor(shape, values))
            self.state[key(name, symbol, slot)] = store(value)


def _decayed(g: Value, w: Any, s: int) -> Value:
    """gW + 2^-s W."""
    if isinstance(g, Fixed):
        low = min(g.exponent, w.exponent - s)
        up, side = 2 ** (g.exponent - low), 2 ** (w.exponent - s - low)
        return Fixed(g.shape, [a * up + b * side for a, b in zip(g.codes, w.codes, strict=True)], low)
    assert isinstance(g, Tensor)
    return Tensor(g.shape, [fma32(power(-s), b, a) for a, b in zip(g.values, w.values, strict=True)])
