"""What training in moving word lengths costs: the performance model of AdaPT, for it, MuPPET and float32.

Kummer et al., "Adaptive Precision Training", first version, section 4.1.2. Per layer l and training step i,
WL the layer's word length, sp the share of its weights that are not zero, ops the multiply-adds of one image,
lb lookback, r resolution, accs the steps that one gradient is accumulated over:

    ops_pd   = 2 log2(32 - 8) r 3 prod(dims)                         push down, a bound                    (6)
    ops_pu   = (lb + 1) prod(dims) + 1                               push up, a bound                      (7)
    train    = sum_i sum_l ops (sp WL + 32/accs)                     quantized forward, float32 backward   (8)
    overhead = sum_i sum_l 32 (sp ops_pd + ops_pu) / (accs lb)       the precision switch                  (9)
    SU       = bs' cost' / (bs cost)                                 cost = train + overhead; ' is float32
    SZ       = sum_l sp WL of the final model / sum_l 32
    MEM      = (mean over i of sum_l (sp WL + 32)) / sum_l 32

Float32 has sp = 1, WL = 32 and no overhead; a method without lookback (MuPPET) has no overhead either.
The peer-reviewed version's MEM counts quantized tensors twice of AdaPT, four times of MuPPET (`COPIES`).
Inference leaves out backward and overhead. The paper defines SZ and MEM the other way up (float32's over the
method's), but its tables list them as here. Both ignore how large a layer is; `bits` counts really.

ops is of one image and the overhead of one step, yet SU multiplies both by bs: as printed, a network with
large linear layers pays 32 (sp ops_pd + ops_pu) for every image. Here the overhead counts once a step,
cost = train + overhead/bs, as a machine would pay it; the figures named `per_image` are as printed.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from intnet.autograd import Tensor
from intnet.errors import ConfigError
from intnet.methods.adapt import Adapt
from intnet.methods.float32 import Float32
from intnet.methods.muppet import Muppet
from intnet.methods.trace import Recorder
from intnet.models.model import Model
from intnet.numbers.qtensor import QTensor

FLOAT_BITS = 32
COPIES = {Adapt: 2, Muppet: 4}  # k of the peer-reviewed version's MEM, 1 + k mean(sp WL)/32
SHORTEST = 8  # the word length that the search of push down starts from


@dataclass(frozen=True)
class LayerSize:
    """A weight layer: its name, the dimensions of its weight tensor, the multiply-adds of one image."""

    name: str
    dims: tuple[int, ...]
    madds: int

    @property
    def weights(self) -> int:
        """prod(dims)."""
        return math.prod(self.dims)


@dataclass(frozen=True)
class History:
    """What every layer was at every step: int64[steps, layers] each, in the order of `layers`.

    Where blocks of a layer differ in width, its widths and errors are their means, float64.

    widths: WL, 1..32; fractions: FL, None for float32; nonzero: weights that are not zero
    errors: the word length of the backward pass, 1..32; None: float32, which AdaPT's model counts for all
    lookback, resolution: both or neither; without them the method has no overhead
    final: WL and nonzero, int64[layers] each, of the model that the last update leaves, which no step has
    read; None: they are those of the last step
    """

    layers: tuple[LayerSize, ...]
    widths: np.ndarray
    nonzero: np.ndarray
    fractions: np.ndarray | None = None
    lookback: np.ndarray | None = None
    resolution: np.ndarray | None = None
    batch_size: int = 1
    accs: int = 1
    final: tuple[np.ndarray, np.ndarray] | None = None
    errors: np.ndarray | None = None

    def __post_init__(self) -> None:
        shape = (self.steps, len(self.layers))
        arrays = (self.widths, self.nonzero, self.fractions, self.lookback, self.resolution, self.errors)
        if 0 in shape or any(array is not None and array.shape != shape for array in arrays):
            raise ConfigError(f"costs need at least one step and layer, and arrays (steps, layers) = {shape}")
        if min(self.batch_size, self.accs) < 1:
            raise ConfigError(f"batch size {self.batch_size}, accs {self.accs}: both are at least 1")
        if (self.lookback is None) != (self.resolution is None):
            raise ConfigError("lookback and resolution come together")
        within("WL", self.widths, 1, FLOAT_BITS)
        within("nonzero", self.nonzero, 0, self.weights)
        if self.errors is not None:
            within("errors", self.errors, 1, FLOAT_BITS)
        if self.lookback is not None and self.resolution is not None:
            within("lb", self.lookback, 1, np.inf)
            within("r", self.resolution, 1, np.inf)

    @property
    def steps(self) -> int:
        """Training steps."""
        return len(self.widths)

    @property
    def weights(self) -> np.ndarray:
        """Of each layer: int64[layers]."""
        return np.array([layer.weights for layer in self.layers])

    @property
    def madds(self) -> np.ndarray:
        """Of each layer and one image: float64[layers]."""
        return np.array([layer.madds for layer in self.layers], np.float64)


def within(what: str, values: np.ndarray, low: int, high: float | np.ndarray) -> None:
    """ConfigError where a value of [steps, layers] is not within low..high."""
    wrong = (values < low) | (values > high)
    if wrong.any():
        step, layer = map(int, np.argwhere(wrong)[0])
        limit = np.broadcast_to(high, values.shape)[step, layer]
        found = f"{what} = {values[step, layer]} in step {step + 1}, layer {layer + 1}"
        raise ConfigError(f"{found}: not within {low}..{limit:.0f}")


# -- making one --------------------------------------------------------------------------------


def image_through(model: Model, path: str) -> Recorder:
    """What one image is on a path 'layer/path' of the model, in shape; its parameters become zeros."""
    for _, _, parameter in model.all_parameters():
        parameter.value = np.zeros(parameter.shape, np.float32)
    method, recorder = Float32(), Recorder(path)
    with method.within(observers=[recorder]):
        model(Tensor(QTensor(np.zeros((1, *model.image_shape), np.int16), 0, bound=255)), method)
    return recorder


def layer_sizes(model: Model) -> tuple[LayerSize, ...]:
    """The weight layers of a model that is not used otherwise: its parameters become zeros.

    A convolution applies every weight once at each position of its output, a linear layer once.
    """
    recorder = image_through(model, "*/x1")
    sizes = []
    for layer in model.all_layers():
        if layer.takes_weight:
            dims = next(p.shape for p in layer.parameters if p.symbol == "W")
            positions = math.prod(recorder[f"{layer.name}/x1"].shape[1:-1])
            sizes.append(LayerSize(layer.name, dims, positions * math.prod(dims)))
    return tuple(sizes)


def float32(layers: Sequence[LayerSize], steps: int, batch_size: int = 1, accs: int = 1) -> History:
    """The baseline: dense, 32 bits, no overhead."""
    return dense(layers, [(steps, FLOAT_BITS)], batch_size, accs)


def dense(
    layers: Sequence[LayerSize],
    schedule: Iterable[tuple[int, int | np.ndarray]],
    batch_size: int = 1,
    accs: int = 1,
    switch: tuple[int, int] | None = None,
) -> History:
    """(steps, WL) one after another, of all layers or of each; no zero weight.

    switch: lookback and resolution of all; None: no overhead
    """
    told = np.concatenate([np.broadcast_to(width, (steps, np.size(width))) for steps, width in schedule])
    widths = np.broadcast_to(told, (len(told), len(layers)))
    weights = np.array([layer.weights for layer in layers], np.int64)
    lookback, resolution = (np.full(widths.shape, of) for of in switch) if switch else (None, None)
    return History(
        tuple(layers),
        widths,
        np.broadcast_to(weights, widths.shape),
        lookback=lookback,
        resolution=resolution,
        batch_size=batch_size,
        accs=accs,
    )


# -- the model ---------------------------------------------------------------------------------


def shares(history: History) -> np.ndarray:
    """sp: float64[steps, layers]."""
    return history.nonzero / history.weights


def training(history: History) -> np.ndarray:
    """Equation (8) without its sum over steps: float64[steps]; of `errors`, these instead of its 32."""
    backward = FLOAT_BITS if history.errors is None else history.errors
    return (shares(history) * history.widths + backward / history.accs) @ history.madds


def overhead(history: History) -> np.ndarray:
    """Equation (9) without its sum over steps: float64[steps]."""
    lookback, resolution = history.lookback, history.resolution
    if lookback is None or resolution is None:
        return np.zeros(history.steps)
    down = 2 * math.log2(FLOAT_BITS - SHORTEST) * resolution * 3 * history.weights
    up = (lookback + 1) * history.weights + 1
    return (FLOAT_BITS * (shares(history) * down + up) / (history.accs * lookback)).sum(axis=1)


def relative(history: History) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each step's cost over that of a float32 step of the same batch: float64[steps], three times.

    Training alone, with the overhead once a step, with the overhead as printed.
    """
    base = training(float32(history.layers, 1, history.batch_size, history.accs))[0]
    own, extra = training(history), overhead(history)
    return own / base, (own + extra / history.batch_size) / base, (own + extra) / base


def memory(history: History) -> np.ndarray:
    """MEM of each step: float64[steps]."""
    floats = FLOAT_BITS * len(history.layers)
    return ((shares(history) * history.widths).sum(axis=1) + floats) / floats


def sparsity(history: History) -> np.ndarray:
    """Share of all weights that are zero: float64[steps]."""
    return 1 - history.nonzero.sum(axis=1) / history.weights.sum()


def final_model(history: History) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(WL, nonzero, sp) by layer of the model that training leaves."""
    widths, nonzero = history.final or (history.widths[-1], history.nonzero[-1])
    return widths, nonzero, nonzero / history.weights


def iso_step(tested: Iterable[tuple[int, float]], accuracy: float | None) -> int | None:
    """The first tested step that reaches the accuracy; None where none does. tested: (step, accuracy)."""
    if accuracy is None:
        return None
    return next((step for step, reached in tested if reached >= accuracy), None)


def summary(history: History, baseline: History, iso: int | None = None) -> dict[str, Any]:
    """All figures of a run against a float32 one; `iso` is the step at which it reached its accuracy.

    A speedup is float32's cost over the method's, None where there is none.

    speedup: the overhead counted once a step; per_image: as printed, for every image of it
    iso_speedup: training ends where it reaches float32's final accuracy, at step `iso_step`
    size, memory: SZ and MEM; overhead_share: of the whole cost
    bits: sum WL * weights of the final model; nonzero_bits: of its non-zero weights; float32_bits: 32 each
    """
    own, extra = training(history), overhead(history)
    base = baseline.batch_size * float(training(baseline).sum())
    floats = FLOAT_BITS * len(history.layers)

    def costs(overheads: float, steps: int | None = None) -> float:
        """bs * cost, each step's overhead counted so many times an image."""
        return history.batch_size * float(own[:steps].sum() + overheads * extra[:steps].sum())

    once = 1 / history.batch_size
    last, nonzero, density = final_model(history)
    weights, madds = history.weights, history.madds
    forward = float((density * last) @ madds)
    return {
        "speedup_per_image": base / costs(1),
        "speedup": base / costs(once),
        "speedup_without_overhead": base / costs(0),
        "iso_step": iso,
        "iso_speedup_per_image": base / costs(1, iso) if iso else None,
        "iso_speedup": base / costs(once, iso) if iso else None,
        "size": float((density * last).sum()) / floats,
        "memory": float(memory(history).mean()),
        "inference_speedup": float(madds.sum()) * FLOAT_BITS / forward if forward else None,
        "sparsity_final": float(1 - nonzero.sum() / weights.sum()),
        "sparsity_mean": float(sparsity(history).mean()),
        "overhead_share_per_image": 1 - costs(0) / costs(1),
        "overhead_share": 1 - costs(0) / costs(once),
        "bits": int((last * weights).sum()),
        "nonzero_bits": int((last * nonzero).sum()),
        "float32_bits": FLOAT_BITS * int(weights.sum()),
    }


# -- layer by layer ----------------------------------------------------------------------------


def rows(history: History) -> list[dict[str, Any]]:
    """Of each layer its word length (WL) and sparsity over all steps, and how often WL rose and fell.

    fraction, lookback, resolution: the last step's, None without
    """
    zero, moves = 1 - shares(history), np.diff(history.widths, axis=0)
    density, widths = final_model(history)[2], history.widths
    last = {"fraction": history.fractions, "lookback": history.lookback, "resolution": history.resolution}
    found = []
    for k, size in enumerate(history.layers):
        ends = {key: None if of is None else int(of[-1, k]) for key, of in last.items()}
        found.append(
            {
                "layer": size.name,
                "madds": size.madds,
                "weights": size.weights,
                "first": int(widths[0, k]),
                "least": int(widths[:, k].min()),
                "mean": float(widths[:, k].mean()),
                "most": int(widths[:, k].max()),
                "last": int(widths[-1, k]),
                "fraction": ends["fraction"],
                "sparsity_mean": float(zero[:, k].mean()),
                "sparsity_final": float(1 - density[k]),
                "rises": int((moves[:, k] > 0).sum()),
                "falls": int((moves[:, k] < 0).sum()),
                "lookback": ends["lookback"],
                "resolution": ends["resolution"],
            }
        )
    return found


def changes(history: History) -> list[list[tuple[int, int, int | None]]]:
    """(step from 1, WL, FL) of each layer at its first step and wherever one of them moved."""
    found = []
    for k in range(len(history.layers)):
        width = history.widths[:, k]
        fraction = None if history.fractions is None else history.fractions[:, k]
        moved = np.diff(width) != 0
        if fraction is not None:
            moved |= np.diff(fraction) != 0
        at = [0, *(np.flatnonzero(moved) + 1).tolist()]
        found.append([(i + 1, int(width[i]), None if fraction is None else int(fraction[i])) for i in at])
    return found
