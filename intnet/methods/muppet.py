"""MuPPET: block float of one word length for the whole net, which a policy moves up between epochs.

Rajagopal et al., "Multi-Precision Policy Enforced Training", as the first version of AdaPT describes it
(Kummer et al., sec. 2.2). WL is 8, 12, 14, 16, then float32; BF(x) is x in WL bits, stochastically rounded
to the tensor's own scale 2^-s. One step:

    forward   Wq = BF(W), x1 = BF(Wq * x0 (+ bq)), x4 = BF(relu(x3))         sums of integers, exact
    backward  e0 = BF(e4 of the next layer), e3 = BF(dL/dx1), e4 = Wq^T e3, gWq = BF(e3 x0^T)
    update    gWq to the optimizer of the float32 master W                   `float_master.py`
    policy    every `resolution` epochs: diversity, violations, WL           `diversity`, `violates`

Batch norm computes in float32 between quantized tensors. In float32, the last level, nothing is quantized.

Defined by `spec/methods/muppet.py: Step`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np

from intnet.errors import ConfigError, NumberError
from intnet.exact.expressions import Exact, exact
from intnet.methods import symbols
from intnet.methods.float_master import FloatMaster
from intnet.methods.method import LayerLike, Parameter, Update, of_batch, to_float32, whole
from intnet.methods.options import takes
from intnet.methods.rounded_copies import NORMS, RoundedCopies
from intnet.numbers import shares
from intnet.numbers.formats import Scaled
from intnet.numbers.fp32 import check_finite
from intnet.numbers.qtensor import QTensor
from intnet.ops.kernels.norms import sum_of_squares

LEVELS = (8, 12, 14, 16, None)  # word lengths; None is float32
ALPHA, BETA, LAMBDA = map(Decimal, ("1", "1.5", "0.1"))  # p's threshold: alpha + beta exp(-lambda epoch)
DIGITS = Context(prec=50)
ERRORS = ("e0", "e3")  # gradients at an activation's and at a weight layer's output
GREATEST = float(np.finfo(np.float32).max)


class Muppet(RoundedCopies):
    """Block float of 8 to 16 bits, then float32, which a policy moves up (Rajagopal et al.).

    What is rounded where, the module says; keys are the fields of `Options`.
    """

    name = "muppet"
    exact_gradients = True
    SYMBOLS = symbols.MUPPET
    STREAMS = ERRORS
    STATE: ClassVar[dict[str, str]] = FloatMaster.STATE | {
        "level": "place of WL in 8, 12, 14, 16, float32, from 0",
        "switched": "the first epoch at this level",
        "epochs": "whose last gradients are kept",
        "violations": "since the last switch",
        "diversities": "since the last switch",
        "sum": "of the last gradients of the epochs kept",
        "squares": "sum of their squared norms",
    }

    DEVIATIONS: ClassVar[dict[str, str]] = {
        "scale": "s follows every tensor in every step (the description: whenever the precision switches), "
        "and codes saturate; the released code does not clamp and reaches +128 at 8 bits",
        "kept codes": "what a ReLU, a pool or a join makes of block float stays as it is where its codes "
        "still have WL bits",
        "tanh": "sigmoid and silu too: computed in float32 from the layer's codes, then rounded to block "
        "float; the derivative of silu stays float32",
        "zeros": "a tensor of zeros takes the scale of a maximum of 1",
        "errors, gradients": "the description quantizes the copies of the forward pass alone; e0, e3 and gWq "
        "are rounded as in the released program, which rounds all gradients",
        "levels, rates": "8, 12, 14, 16 bits, lr 0.1, weight_decay 1e-4, threshold, patience and epochs of "
        "each rate in float32 are the released program's; the decay is of the master, there of the rounded "
        "copy",
        "windows": "D is of the gradients of the `resolution` epochs since the last D, as in the released "
        "program; described are sums from j - r to j, r + 1 of them, in every epoch",
        "inference": "the described result is a float32 network; here it is that of the level at which "
        "training ended: activations to nearest, weights by random words",
        "batch norm": "float32, its gamma, beta and their gradients too; its input, its output, the error at "
        "the activation after it and at the layer ahead of it are block float; the released program rounds "
        "gamma, beta and their gradients as well",
        "parameters": "of the diversity are the weights of layers; the released code takes the mean over all "
        "parameters: diversity=all",
        "diversity": "a layer whose kept gradients are all zero counts as 1; the first diversity after a "
        "switch has none to compare with, so it is no violation",
    }

    @dataclass(frozen=True, kw_only=True)
    class Options(FloatMaster.Options):
        """resolution: epochs a diversity. patience: violations until WL moves on. diversity: whose gradients.

        From float32 on lr stays for float_epochs epochs, then is a tenth of it, and so on down to lr_floor.
        """

        lr: str = "0.1"
        weight_decay: float = 1e-4
        resolution: int = 3
        patience: int = 2
        diversity: Literal["weights", "all"] = "weights"
        float_epochs: int = 15
        lr_floor: float = 0.001

    @takes(Options)
    def __init__(self, /, **options: Any) -> None:
        super().__init__(**options)
        o = self.options
        if not o.lr_floor > 0:
            raise ConfigError("muppet: lr_floor is above 0")
        if min(o.resolution, o.patience, o.float_epochs) < 1:
            raise ConfigError("muppet: resolution, patience and float_epochs are at least 1")
        self._latest: list[Update] = []  # parameters of the diversity and their gradients of this step

    # -- starting ---------------------------------------------------------------------------

    def start(self, layers: Sequence[Any], seed: int) -> None:
        """8 bits."""
        super().start(layers, seed)
        self.state |= {
            "level": whole(0),
            "switched": whole(0),
            "epochs": whole(0),
            "violations": whole(0),
            "diversities": np.zeros(0, np.float32),
        }

    @property
    def wl(self) -> int | None:
        """The word length, None for float32."""
        return LEVELS[self.number("level")]

    # -- forward and backward ---------------------------------------------------------------

    def rounded(self, layer: LayerLike, path: str, value: Any, stream: str = "") -> Any:
        """BF(value, WL); what is already of WL bits as it is; float32 at that level.

        An activation, which has no stream of its own, rounds to nearest at inference.

        Defined by `spec/methods/muppet.py: Step.format_of`.
        """
        if self.wl is None:
            return self.passes(layer, path, to_float32(value, f"{layer.name}/{path}"))
        format = Scaled(self.wl)
        source = exact(value, f"{layer.name}/{path}")
        if isinstance(source, Exact) and np.all(source.den == 1):
            fits = _near(source, -format.lo)
            kept = source.to_qtensor() if fits and isinstance(value, Exact) else value
            fits = fits and (kept.bound <= format.hi or kept.codes.max() <= format.hi)
            if shares.everywhere(fits) if of_batch(path) else fits:
                result = QTensor(kept.codes, int(kept.exponent), format, kept.bound)
                return self.passes(layer, path, result, source if isinstance(value, Exact) else None)
        rounding = "stochastic" if self.training or stream else "ties_even"
        return self.store(layer, path, source, format, rounding, stream)

    def weight(self, layer: LayerLike, parameter: Parameter) -> Any:
        """Wq and bq; gamma and beta of batch norm as they are."""
        path = f"{parameter.symbol}q"
        value = check_finite(parameter.value, f"{layer.name}/{parameter.symbol}")
        if parameter.symbol in NORMS:
            return self.passes(layer, path, value)
        q = self.rounded(layer, path, value, stream=parameter.symbol)
        if parameter.symbol == "W" and self.training:
            words = q.codes if isinstance(q, QTensor) else q
            scale = -int(q.exponent) if isinstance(q, QTensor) else 0
            used = {"WL": self.wl or 32, "FL": scale, "nonzero": int(np.count_nonzero(words))}
            self._used[layer.name] = used
        return q

    def error(self, layer: LayerLike, path: str, value: Any) -> Any:
        """e0 and e3 in block float, e1 of batch norm in float32, the rest as it is."""
        if path in ERRORS:
            return self.rounded(layer, path, value, stream=path)
        if self.wl is None or (path == "e1" and layer.normalizes):
            value = to_float32(value, f"{layer.name}/{path}")
        return self.passes(layer, path, value)

    def gradient(self, layer: LayerLike, parameter: Parameter, value: Any) -> np.ndarray:
        """gWq and gbq in block float, then float32 for the update.

        Defined by `spec/methods/muppet.py: Step.gradient`.
        """
        path = f"g{parameter.symbol}"
        value = self.passes(layer, path, value)
        if parameter.symbol in NORMS or self.wl is None:
            return check_finite(to_float32(value), f"{layer.name}/{path}")
        return to_float32(self.rounded(layer, f"{path}q", value, stream=path))

    # -- update and policy ------------------------------------------------------------------

    def epoch_rate(self) -> float:
        """lr of this epoch; from float32 on by tenths. Defined by `spec/methods/muppet.py: learning_rate`."""
        switched = self.number("switched")
        if self.wl is not None:
            return self.lr.at(self.epoch)
        first, tenths = self.lr.at(switched), (self.epoch - switched) // self.options.float_epochs
        return max(float(Fraction(first) / 10**tenths), min(self.options.lr_floor, first))

    def update_all(self, updates: Sequence[Update]) -> None:
        """As ever; gradients of the diversity are kept until it is known whether the epoch ends."""
        self.overhead, every = 0.0, self.options.diversity == "all"
        self._latest = [update for update in updates if every or update[1].symbol == "W"]
        super().update_all(updates)

    def end_of_epoch(self) -> None:
        """Keep the last gradients; every `resolution` epochs, the diversity and the policy.

        Defined by `spec/methods/muppet.py: Step.end_of_epoch`.
        """
        with self.timed():
            self._see_epoch()
        super().end_of_epoch()

    def _see_epoch(self) -> None:
        if self.wl is None:
            return
        for layer, parameter, gradient in self._latest:
            _keep(parameter.slots, gradient, f"{layer.name}/g{parameter.symbol}")
        kept = self.number("epochs") + 1
        if kept == self.options.resolution:
            self._police()
        self.state["epochs"] = whole(kept % self.options.resolution)

    def _police(self) -> None:
        """One diversity more; a violation; after `patience` of them the next word length.

        Defined by `spec/methods/muppet.py: Step.police`.
        """
        slots = [parameter.slots for _, parameter, _ in self._latest]
        d = min(
            diversity([(float(s.pop("squares")[0]), sum_of_squares(s.pop("sum"))) for s in slots]), GREATEST
        )
        seen = self.state["diversities"]
        violated = violates(seen.tolist(), d, self.epoch)
        found = self.number("violations") + violated
        moves = found == self.options.patience
        self.state["diversities"] = np.append(seen, np.float32(d)) if not moves else seen[:0]
        self.state["violations"] = whole(0 if moves else found)
        if moves:
            self.state["level"] = whole(self.number("level") + 1)
            self.state["switched"] = whole(self.epoch + 1)
        self.moves["net"] = {
            **{
                "WL": self.wl or 32,
                "D": d,
                "p": max([*seen.tolist(), d]) / d,
                "threshold": float(threshold(self.epoch)),
            },
            **{"violated": violated, "violations": found},
        }


def _near(source: Exact, limit: int) -> bool:
    """Whether all codes are within +-limit: of their values, whatever bound was proven of them."""
    return source.bound() <= limit or source.max() <= limit * Fraction(2) ** source.exponent


def _keep(slots: dict[str, Any], gradient: np.ndarray, where: str) -> None:
    """Add a gradient to `sum`, its squared norm to `squares`.

    Defined by `spec/methods/muppet.py: Step._keep`.
    """
    with np.errstate(over="ignore"):
        squares = np.array([sum_of_squares(gradient)], np.float64).astype(np.float32)
        squares = slots["squares"] + squares if "squares" in slots else squares
        total = slots["sum"] + gradient if "sum" in slots else gradient
    if not np.isfinite(squares[0]):  # before a sum is not: its squares are less than these
        raise NumberError(f"{where}: the squared norm of the gradients kept is beyond float32: lower lr")
    slots["sum"], slots["squares"] = total, squares


def diversity(kept: Sequence[tuple[float, float]]) -> float:
    """The mean over parameters of (sum of ||g||^2) / ||sum of g||^2, given as pairs.

    Where every float32 sum of squares is 0 it is 1, that of gradients of zero.

    Defined by `spec/methods/muppet.py: Step.police`.
    """
    ratios = [squares / total if total else (1.0 if squares == 0 else np.inf) for squares, total in kept]
    return float(sum(ratios)) / len(ratios) or 1.0


def violates(diversities: Sequence[float], d: float, epoch: int) -> bool:
    """p = max S / d > alpha + beta exp(-lambda epoch), S the earlier diversities since the last switch.

    Decided with 50 digits.

    Defined by `spec/methods/muppet.py: violates`.
    """
    if not diversities:
        return False
    return Decimal(max(diversities)) > DIGITS.multiply(Decimal(d), threshold(epoch))


def threshold(epoch: int) -> Decimal:
    """alpha + beta exp(-lambda epoch), with 50 digits. Defined by `spec/methods/muppet.py: threshold`."""
    return DIGITS.fma(BETA, DIGITS.exp(DIGITS.multiply(-LAMBDA, Decimal(epoch))), ALPHA)
