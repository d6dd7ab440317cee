"""MuPPET: block float of one word length for the whole net, which a policy moves up between epochs.

Rajagopal et al. 2020, "Multi-Precision Policy Enforced Training", as the first version of AdaPT describes it
(Kummer et al., sec. 2.2). BF(x, WL) is `formats.Scaled`: a scale by the tensor's extremes, stochastic.

    Wq, bq, x0, x1, x3, x4   BF(., WL) on the way forward, WL = 8, 12, 14, 16, then float32
    e0, e3, gWq, gbq         BF(., WL) on the way back
    W <- W - lr Acc          float32 masters (`float_master`)
    D = mean over weights of (sum ||g||^2) / ||sum g||^2             `diversity`, every `resolution` epochs;
                                                                    with diversity=all over all parameters
    p = max S / D > 1 + 1.5 exp(-epoch/10)                          `violates`: `patience` of these move WL

State, beside that of `float_master`: slots 'sum' and 'squares' of the gradients kept; 'method/level' (of
LEVELS), 'switched', 'epochs', 'violations', 'diversities'.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar

from intnet.spec.digest import Floats
from intnet.spec.float32 import add32, to_float32
from intnet.spec.float64 import sum64
from intnet.spec.formats import Scaled
from intnet.spec.methods import float_master
from intnet.spec.methods.adapt_switch import DIGITS, decimal
from intnet.spec.methods.float_master import FloatMaster
from intnet.spec.methods.step import FLOAT32, Schedule, State, at, key, store, symbols_of, value_of, whole
from intnet.spec.models import WEIGHTED, Layer, Net, Parameter
from intnet.spec.tensor import Tensor
from intnet.spec.values import Value, joined, to_float

LEVELS: tuple[int | None, ...] = (8, 12, 14, 16, None)  # None is float32
FORWARD, ERRORS = ("x0", "x1", "x3", "x4"), ("e0", "e3")
WORDS = {"Wq": "W", "bq": "b", "gWq": "gW", "gbq": "gb"}  # stored under one name, rounded by another's words
NORMS = ("gamma", "beta")
GREATEST = float(2**128 - Fraction(2**104))

__all__ = ["Settings", "Step", "diversity", "first", "learning_rate", "threshold", "violates"]


# -- settings --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Settings(float_master.Settings):
    """resolution: epochs a diversity, of 'weights' or of 'all'; patience: violations until WL moves on.

    In float32 lr stays for float_epochs epochs, then is a tenth of it, and so on down to lr_floor.
    """

    lr: Schedule[float] = ((0, 0.1),)
    weight_decay: float = 1e-4
    resolution: int = 3
    patience: int = 2
    diversity: str = "weights"
    float_epochs: int = 15
    lr_floor: float = 0.001

    READ: ClassVar[dict[str, Callable[[Any], Any]]] = float_master.Settings.READ | {
        "resolution": int,
        "patience": int,
        "diversity": str,
        "float_epochs": int,
    }


# -- the policy ------------------------------------------------------------------------------------


def diversity(kept: Sequence[Sequence[Sequence[Fraction]]]) -> Fraction:
    """D of each parameter's kept gradients, all exact; `Step.police` has the same of float32 sums."""
    ratios = []
    for gradients in kept:
        squares = sum(v * v for g in gradients for v in g)
        total = sum(sum(parts) ** 2 for parts in zip(*gradients, strict=True))
        ratios.append(Fraction(squares, 1) / total if total else Fraction(1))
        assert total or not squares, "gradients that cancel have no diversity"
    return sum(ratios, Fraction(0)) / len(ratios)


def threshold(epoch: int) -> Decimal:
    """1 + 1.5 exp(-epoch/10), with 50 digits."""
    return 1 + DIGITS.multiply(Decimal("1.5"), DIGITS.exp(decimal(Fraction(-epoch, 10))))


def violates(earlier: Sequence[float], d: float, epoch: int) -> bool:
    """p = max S / D above the threshold, S with D itself."""
    greatest = max([*map(Fraction, earlier), Fraction(d)])
    return decimal(greatest / Fraction(d)) > threshold(epoch)


def learning_rate(
    values: Schedule[float], epoch: int, switched: int | None, stay: int, floor: float
) -> float:
    """The epoch's of the schedule; from the switch to float32 on that of the switch, a tenth of it after
    every `stay` epochs, down to `floor`."""
    if switched is None:
        return at(values, epoch)
    rate = at(values, switched)
    return max(float(Fraction(rate) / 10 ** ((epoch - switched) // stay)), min(floor, rate))


# -- first values ----------------------------------------------------------------------------------


def first(parameters: Sequence[Parameter], settings: Settings, seed: int, net: Net) -> State:
    """8 bits."""
    names = ("level", "switched", "epochs", "violations")
    state = float_master.first(parameters, settings, seed) | {f"method/{name}": whole(0) for name in names}
    return state | {"method/diversities": Floats("float32", (0,), [])}


# -- a step ----------------------------------------------------------------------------------------


class Step(FloatMaster):
    """The rules of the method for one step."""

    shows_masters = True
    exact_gradients = True

    def number(self, name: str) -> int:
        """A whole number of the net's state."""
        return int(value_of(self.state[f"method/{name}"]).codes[0])

    @property
    def wl(self) -> int | None:
        """The word length, None for float32."""
        return LEVELS[self.number("level")]

    def format_of(self, layer: Layer, path: str) -> Any:
        """BF(., WL) where a value is stored; batch norm inside is float32, the other errors are exact."""
        if self.wl is None:
            return FLOAT32
        stored = path in FORWARD and (path != "x1" or layer.kind in WEIGHTED)
        if stored or path in ERRORS or path in WORDS:
            return Scaled(self.wl)
        return None if path in ("e1", "e1q", "e4", "gW", "gb") and layer.kind != "norm" else FLOAT32

    def stream_of(self, layer: Layer, path: str) -> str | None:
        """Each stored path has words of its own: 'layer/W' those of Wq, 'layer/gW' those of gWq."""
        nearest = self.now.inference and path in FORWARD
        stored = isinstance(self.format_of(layer, path), Scaled) and not nearest
        return f"{layer.name}/{WORDS.get(path, path)}" if stored else None

    def gradient(self, layer: Layer, symbol: str, value: Value) -> None:
        """gWq and gbq, then float32 for the update."""
        g = self.stored(layer, f"g{symbol}", value)
        if symbol not in NORMS and self.wl is not None:
            g = self.stored(layer, f"g{symbol}q", g)
        self.gradients[f"{layer.name}/{symbol}"] = to_float(g)

    # -- update and policy -------------------------------------------------------------------------

    def epoch_rate(self) -> float:
        """lr of the epoch by the level."""
        o, since = self.settings, self.number("switched") if self.wl is None else None
        return learning_rate(o.lr, self.now.epoch, since, o.float_epochs, o.lr_floor)

    def end_of_epoch(self) -> None:
        """Keep the last gradients; every `resolution` epochs the policy."""
        super().end_of_epoch()
        if self.wl is None:
            return
        for layer, symbol in self.judged():
            self._keep(key(layer, symbol), self.gradients[f"{layer}/{symbol}"])
        kept = self.number("epochs") + 1
        if kept == self.settings.resolution:
            self.police()
        self.state["method/epochs"] = whole(kept % self.settings.resolution)

    def judged(self) -> list[tuple[str, str]]:
        """(layer, symbol) of the parameters that the diversity speaks of."""
        every = [(layer.name, symbol) for layer in self.layers.values() for symbol in symbols_of(layer)]
        return [one for one in every if self.settings.diversity == "all" or one[1] == "W"]

    def _keep(self, name: str, g: Tensor) -> None:
        """sum <- sum + g, squares <- squares + ||g||^2, in float32."""
        total, squares = f"{name}.sum", f"{name}.squares"
        now = to_float32(Fraction(sum64([v * v for v in g.values])))
        before = value_of(self.state[squares]).values[0] if squares in self.state else Fraction(0)
        self.state[total] = store(joined(value_of(self.state[total]), g) if total in self.state else g)
        self.state[squares] = Floats("float32", (1,), [add32(before, now)])

    def police(self) -> None:
        """One diversity more, in float64; a violation; after `patience` of them the next word length."""
        o, ratios = self.settings, []
        for name in (key(*one) for one in self.judged()):
            kept = value_of(self.state.pop(f"{name}.sum")).values
            squares = float(value_of(self.state.pop(f"{name}.squares")).values[0])
            total = sum64([v * v for v in kept])
            ratios.append(squares / total if total else 1.0 if squares == 0 else float("inf"))
        d = min(float(sum(ratios)) / len(ratios), GREATEST) or 1.0  # 0: all squares are below float32
        seen = value_of(self.state["method/diversities"]).values
        found = self.number("violations") + (
            violates([float(v) for v in seen], d, self.now.epoch) if seen else 0
        )
        if found == o.patience:
            self.state["method/level"] = whole(self.number("level") + 1)
            self.state["method/switched"] = whole(self.now.epoch + 1)
            found, seen = 0, []
        else:
            seen = [*seen, to_float32(Fraction(d))]
        self.state["method/violations"] = whole(found)
        self.state["method/diversities"] = Floats("float32", (len(seen),), seen)
