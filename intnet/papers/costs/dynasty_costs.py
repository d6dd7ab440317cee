"""What training with a map of bit widths costs on a bit-serial array: the model behind DYNASTY's figures.

DYNASTY (block-wise dynamic-precision training), sections 4, 5.2.2, 5.3 and table 2. The array multiplies
bit by bit, so a product takes as long as its dynamic operand is wide, and a block of 0 bits is skipped. Per
stage, over the blocks i of the dynamic operand, T_i the multiply-adds that read block i, b_i its width:

    time = sum_i T_i b_i / 8          in multiply-adds at 8 bits; 8 bits everywhere: sum_i T_i

    stage      operands                        dynamic
    forward    weights, activations            activations (or weights: `forward="weight"`)
    backward   activation gradients, weights   weights; the first layer has no such product
    update     activation gradients, act.      activations

The network's input is of 8 bits: nothing is known of its sensitivity. The module that finds the widths runs
beside the array and takes no time. Table 2: the array takes 297 mW and 16 mm2, the module 10.3 mW (at 4 bits,
ImageNet) and 0.219 mm2. Times and energies are relative to those of 8 bits everywhere without the module.

What the published figures imply. At equal epochs 6, 4, 3, 2 bits take 75, 50, 37.5, 25 % of the time. To 74
% on CIFAR-100 they are said to take 58.3, 38.9, 29.2, 19.6 %: 7/9 of these (58.33, 38.89, 29.17, 19.44), so
every width reaches it in 7/9 of the baseline's epochs; only 2 bits are 0.16 points off, their 19.6 being
1/5.1.

The energies said to be saved, 40.0, 59.5, 69.2, 78.8 %, leave 60.0, 40.5, 30.8, 21.2 %: time and 1.7, 1.6,
1.6, 1.6 points more. So the module's energy hardly depends on the width; its power is 2.9, 4.1, 5.5, 8.2 %
of the array's (the paper: at most 7.9 %). It goes with the work and not with the time: the same for every
step, about 2.1 % of an 8-bit step's. That is `energy_by_step`; with the 1.73 % that table 2's power at 4
bits says, 40.3, 59.8, 69.5, 79.2 % are saved, up to 0.4 points more than published, and on ImageNet 23.3
and 45.7 % for the published 23.2 and 45.7. Table 2's powers, taken as constant (`energy`), save 39.6, 59.8,
69.8, 79.9 %: up to 1.1 points off.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from intnet.errors import ConfigError
from intnet.papers.costs.adapt_costs import iso_step

STATIC_BITS = 8
START_BITS = 4  # of every block, in the first epoch

ARRAY_MILLIWATTS, MODULE_MILLIWATTS, MODULE_AT_BITS = 297.0, 10.3, 4
ARRAY_MM2, MODULE_MM2 = 16.0, 0.219
AREA_OVERHEAD = MODULE_MM2 / ARRAY_MM2
# the module's energy in a step over the array's in a step at 8 bits: its power, for half as long at 4 bits
MODULE_STEP = MODULE_MILLIWATTS / ARRAY_MILLIWATTS * MODULE_AT_BITS / STATIC_BITS

STAGES = ("forward", "backward", "update")
FORWARDS = ("activation", "weight")


@dataclass(frozen=True)
class Width:
    """The map of one operand of one layer, condensed.

    macs: sum of T, multiply-adds of one product of a full batch; bits: mean width, weighted by T
    skipped: share of T in blocks of 0 bits; blocks: how many; mean: their mean width, unweighted
    """

    macs: int
    bits: float
    skipped: float
    blocks: int
    mean: float

    def __post_init__(self) -> None:
        if min(self.macs, self.blocks) < 1:
            raise ConfigError(f"{self.macs} multiply-adds, {self.blocks} blocks: both are at least 1")
        for what, value, limit in (
            ("mac_bits", self.bits, STATIC_BITS),
            ("mean", self.mean, STATIC_BITS),
            ("skipped", self.skipped, 1),
        ):
            if not 0 <= value <= limit:
                raise ConfigError(f"{what} = {value}: not within 0..{limit}")

    def at(self, bits: float) -> "Width":
        """The same blocks, all of one width."""
        return Width(self.macs, bits, float(bits == 0), self.blocks, bits)


@dataclass(frozen=True)
class LayerMaps:
    """A weight layer's maps; activations are None where they are the network's input, of 8 bits."""

    name: str
    weights: Width
    activations: Width | None

    def at(self, bits: float) -> "LayerMaps":
        """The same layer with all dynamic blocks of one width."""
        activations = None if self.activations is None else self.activations.at(bits)
        return LayerMaps(self.name, self.weights.at(bits), activations)


@dataclass(frozen=True)
class History:
    """The maps in force, epoch by epoch; shares: of each epoch that was done, 1 but for the last.

    forward: the operand that is dynamic in the forward stage
    """

    epochs: tuple[tuple[LayerMaps, ...], ...]
    shares: tuple[float, ...]
    forward: str = "activation"

    def __post_init__(self) -> None:
        if not self.epochs or len(self.epochs) != len(self.shares) or not all(self.epochs):
            raise ConfigError("costs need at least one epoch, the share of each that was done, and a layer")
        if not all(0 < share <= 1 for share in self.shares):
            raise ConfigError(f"shares {self.shares}: each epoch is done in part (above 0) or whole (1)")
        if self.forward not in FORWARDS:
            raise ConfigError(f"forward={self.forward!r}: use one of {', '.join(FORWARDS)}")

    @property
    def length(self) -> float:
        """Epochs done."""
        return sum(self.shares)


def of_length(layers: tuple[LayerMaps, ...], length: float, forward: str) -> History:
    """The same map for so many epochs, of which the last may be begun only."""
    whole = int(length)
    shares = (1.0,) * whole + ((length - whole,) if length > whole else ())
    return History((layers,) * len(shares), shares, forward)


# -- time --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """Products, in multiply-adds at 8 bits: how long they take, how long at 8 bits, how many are skipped."""

    time: float
    full: float
    skipped: float


def work(parts: Iterable[Work], shares: Iterable[float] | None = None) -> Work:
    """The sum, each part so many times (once)."""
    parts = list(parts)
    factors = [1.0] * len(parts) if shares is None else list(shares)
    pairs = list(zip(parts, factors, strict=True))
    return Work(
        sum(part.time * k for part, k in pairs),
        sum(part.full * k for part, k in pairs),
        sum(part.skipped * k for part, k in pairs),
    )


def product(width: Width) -> Work:
    """One product whose dynamic operand has this map: sum T b / 8."""
    return Work(width.macs * width.bits / STATIC_BITS, width.macs, width.macs * width.skipped)


def stages(layers: Iterable[LayerMaps], forward: str = "activation") -> dict[str, Work]:
    """A step's three stages over all layers, by name."""
    found: dict[str, list[Work]] = {name: [] for name in STAGES}
    for layer in layers:
        activations = layer.activations
        if activations is None:
            activations = layer.weights.at(STATIC_BITS)
        else:
            found["backward"].append(product(layer.weights))
        found["forward"].append(product(activations if forward == "activation" else layer.weights))
        found["update"].append(product(activations))
    return {name: work(parts) for name, parts in found.items()}


def by_stage(history: History) -> list[dict[str, Work]]:
    """`stages` of every epoch, as if it were whole."""
    return [stages(layers, history.forward) for layers in history.epochs]


def times(history: History) -> list[float]:
    """Time of each epoch over the same part of it at 8 bits."""
    return [ratio(work(epoch.values())) for epoch in by_stage(history)]


def ratio(done: Work) -> float:
    """Time over that at 8 bits; 1 where there is nothing to do."""
    return done.time / done.full if done.full else 1.0


def skipped(done: Work) -> float:
    """Share of multiply-adds that are skipped."""
    return done.skipped / done.full if done.full else 0.0


def uniform_time(bits: float, epochs: float = 1.0) -> float:
    """Time with one width everywhere, input included, and `epochs` times as many epochs: linear in both."""
    return bits / STATIC_BITS * epochs


# -- energy ------------------------------------------------------------------------------------


def energy(time: float) -> float:
    """Table 2's two powers times time, over the array's at 8 bits alone."""
    return time * (ARRAY_MILLIWATTS + MODULE_MILLIWATTS) / ARRAY_MILLIWATTS


def energy_by_step(time: float, epochs: float = 1.0) -> float:
    """The array's energy, and the module's of `epochs` times as many steps, the same at any width."""
    return time + MODULE_STEP * epochs


PARTS = (*STAGES, "module")


def parts(history: History, epochs: int | None = None, module: bool = True) -> dict[str, float]:
    """Energy of the first so many epochs, or of all, over that of the array for one epoch at 8 bits.

    The array's by stage, and the module's, the same in every step; module: whether there is one
    """
    found = dict.fromkeys(PARTS, 0.0)
    for stage, share in list(zip(by_stage(history), history.shares, strict=True))[:epochs]:
        full = work(stage.values()).full
        for name in STAGES:
            found[name] += share * stage[name].time / full
        found["module"] += share * MODULE_STEP * module
    return found


# -- the figures -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Curve:
    """What is known of a baseline: its length in epochs, its test accuracy after each whole one."""

    length: float
    tested: Sequence[float]


def iso(history: History, tested: Sequence[float], accuracy: float | None, baseline: Curve) -> dict[str, Any]:
    """Training up to the first epoch that reaches an accuracy, `epochs` of them; None: none does.

    tested: this run's accuracy after each whole epoch
    time, energy, energy_by_step: over those of 8 bits for the baseline's whole length
    equal: time over that of 8 bits for just as many epochs
    baseline_epochs: the baseline's first that reaches it; reached: time over that of 8 bits up to there
    """
    epochs, theirs = (iso_step(enumerate(of, start=1), accuracy) for of in (tested, baseline.tested))
    keys = ("epochs", "time", "energy", "energy_by_step", "equal", "baseline_epochs", "reached")
    found: dict[str, Any] = dict.fromkeys(keys) | {"baseline_epochs": theirs}
    if epochs is not None:
        spent = sum(times(history)[:epochs])
        time = spent / baseline.length
        steps = epochs / baseline.length
        found |= {"epochs": epochs, "time": time, "energy": energy(time), "equal": spent / epochs}
        found |= {"energy_by_step": energy_by_step(time, steps), "reached": theirs and spent / theirs}
    return found


def summary(history: History) -> dict[str, Any]:
    """All figures of a run against 8 bits everywhere for as many epochs.

    time: in all, and by stage; energy: by table 2's powers; energy_array: without the module;
    energy_by_step: with the module's energy the same in every step; skipped: share of multiply-adds
    weights, activations: mean width of their blocks over training; *_mac_bits: weighted by T
    """
    epochs, shares = by_stage(history), history.shares
    parts = {name: work([epoch[name] for epoch in epochs], shares) for name in STAGES}
    whole = work(parts.values())
    time = ratio(whole)
    weights = [[layer.weights for layer in layers] for layers in history.epochs]
    activations = [[x.activations for x in layers if x.activations is not None] for layers in history.epochs]
    means = [_means(maps, shares) for maps in (weights, activations)]
    return {
        "time": time,
        "by_stage": {name: ratio(part) for name, part in parts.items()},
        "energy": energy(time),
        "energy_array": time,
        "energy_by_step": energy_by_step(time),
        "area_mm2": ARRAY_MM2 + MODULE_MM2,
        "area_overhead": AREA_OVERHEAD,
        "skipped": skipped(whole),
        "weights": means[0][0],
        "activations": means[1][0],
        "weights_mac_bits": means[0][1],
        "activations_mac_bits": means[1][1],
    }


def _means(epochs: Sequence[Sequence[Width]], shares: Sequence[float]) -> list[float | None]:
    """Mean width over epochs: of blocks, and weighted by T; None where there is no map."""
    if not all(epochs):
        return [None, None]
    pairs = list(zip(epochs, shares, strict=True))
    return [sum(rule(maps) * share for maps, share in pairs) / sum(shares) for rule in (mean, mac_mean)]


def mean(maps: Sequence[Width]) -> float:
    """Mean width of the blocks of all layers."""
    return sum(width.mean * width.blocks for width in maps) / sum(width.blocks for width in maps)


def mac_mean(maps: Sequence[Width]) -> float:
    """Mean width of all layers, weighted by T."""
    return sum(width.bits * width.macs for width in maps) / sum(width.macs for width in maps)
