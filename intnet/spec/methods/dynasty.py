"""DYNASTY: block float whose bit-width map follows how sensitive the loss is to each block.

"DYNASTY: block-wise dynamic-precision training". Weight layers multiply blocks of 4x4 (`block_float`): of
each product one operand has 8 bits, the other b bits, block by block; sums are rounded once to float32.

    forward   x1 = Wq * x0      W in 8 bits, A = x0 in b
    backward  e4 = Wb^T e3      E = e3 in 8 bits, W in b
    update    gW = e3 x0^T      E in 8 bits, A in b

The rest is method `float32`'s. Each full batch adds S (1) of every block; each epoch ends with a new map
(`dynasty_map`: (3a), (3b), (4), Algorithm 1).

State, beside that of `float_master`: of W (slots) and of a layer's input (buffers) 'b', 'b_new' float32 and
'S' float64, one number a block; 'method/lambda' float64 of the weights and of the activations,
'method/batches', 'method/images' of a full batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

from intnet.spec import block_float
from intnet.spec.block_float import Blocks, Index, quantize
from intnet.spec.digest import Floats
from intnet.spec.float32 import to_float32
from intnet.spec.methods import dynasty_map, float_master
from intnet.spec.methods.dynasty_map import Map, in_use, sensitivity, zero_blocks
from intnet.spec.methods.float32 import PlainStep
from intnet.spec.methods.step import FLOAT32, State, of_layer, optional, value_of, whole
from intnet.spec.models import WEIGHTED, Layer, Net, Parameter
from intnet.spec.tensor import Tensor, places
from intnet.spec.values import Copies, Expression, Value, to_float

FIRST, STATIC = 4, 8  # bits of the first epoch, and of the operand that no map speaks of
KINDS = ("W", "A")

__all__ = ["BlockFloat", "Settings", "Step", "axes_of", "first"]


class BlockFloat(NamedTuple):
    """Blocks of so many bits, or by the map of 'W' or of 'A', along these axes; `Step.blocks` applies it."""

    bits: int | str
    axes: tuple[int, int]


@dataclass(frozen=True)
class Settings(float_master.Settings):
    """bits, weight_bits: alpha, mean widths; map: 'dynamic' or 'uniform'; gamma: of (4).

    forward_dynamic: the operand of b bits in the forward product, 'activation' or 'weight'; lambdas: 'two',
    or 'one' of both operands; mean: of b over 'blocks' as in Algorithm 1 or over 'work' as in (2b); tuning:
    'off' takes the estimate of lambda alone. map, and bits and weight_bits where it is 'uniform', may be a
    weight layer's own, `of_layer`: what has a uniform map has no part in the others'
    """

    bits: float = 4.0
    weight_bits: float | None = None
    map: str = "dynamic"
    forward_dynamic: str = "activation"
    gamma: float = 0.5
    lambdas: str = "two"
    mean: str = "blocks"
    tuning: str = "on"

    READ: ClassVar[dict[str, Callable[[Any], Any]]] = float_master.Settings.READ | {
        "weight_bits": lambda text: optional(text, float),
        "map": str,
        "forward_dynamic": str,
        "lambdas": str,
        "mean": str,
        "tuning": str,
    }

    def alpha(self, kind: str) -> float:
        """Target of the weights' map ('W') or of the activations' ('A')."""
        return self.weight_bits if kind == "W" and self.weight_bits is not None else self.bits


def axes_of(shape: Sequence[int], weight: bool = False) -> tuple[int, int]:
    """Blocks: (Cout, Cin) of weights, (batch, channels) of activations and errors."""
    return (0, 1) if weight or len(shape) == 2 else (0, 3)


def first(parameters: Sequence[Parameter], settings: Settings, seed: int, net: Net) -> State:
    """No map yet: every block has 4 bits."""
    state = float_master.first(parameters, settings, seed)
    names = {"method/batches": whole(0), "method/images": whole(0)}
    return state | {"method/lambda": Floats("float64", (0,), [])} | names


# -- tables of numbers, one a block ----------------------------------------------------------------


def table(stored: Any) -> Map:
    """A stored array as a mapping from blocks."""
    return dict(zip(places(stored.shape), stored.values, strict=True))


def array(kept: Mapping[Index, Any], dtype: str) -> Floats:
    """A mapping from blocks, in C order, as an array to store."""
    shape = tuple(i + 1 for i in max(kept))
    return Floats(dtype, shape, [kept[block] for block in places(shape)])


# -- a step ----------------------------------------------------------------------------------------


class Step(PlainStep):
    """The rules of the method for one step."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.images = 0  # of this step
        self.shapes: dict[str, tuple[int, ...]] = {}  # of x0
        self.dynamic: dict[
            str, tuple[Blocks, list[Index]]
        ] = {}  # 'layer/W' -> its blocks, those that are zero
        self.found: dict[str, Map] = {}  # S of this step
        self.entries: dict[str, dict[str, Any]] = {}  # of a new map: what it was made of, by kind

    def format_of(self, layer: Layer, path: str) -> Any:
        """Blocks of W, A and E of weight layers, else float32."""
        weight_dynamic = self.settings.forward_dynamic == "weight"
        four = (0, 3) if layer.kind == "conv" else (0, 1)
        forms = {
            "Wb": BlockFloat("W", (0, 1)),
            "Wq": BlockFloat(STATIC, (0, 1)),
            "e3": BlockFloat(STATIC, four),
        }
        forms["x0"] = BlockFloat(STATIC if weight_dynamic or layer.name == self.first else "A", four)
        forms["x0b"] = BlockFloat("A", four)
        return forms.get(path, FLOAT32) if layer.kind in WEIGHTED else FLOAT32

    def blocks(self, layer: Layer, path: str, x: Tensor) -> Blocks:
        """A tensor in the block float of its path."""
        form = self.format_of(layer, path)
        bits = (
            form.bits if isinstance(form.bits, int) else self.bits(layer.name, form.bits, x.shape, form.axes)
        )
        q = quantize(x, bits, form.axes)
        if q.saturated:
            self.saturated[f"{layer.name}/{path}"] = q.saturated
        self.note(layer, path, x, q, form, "ties_even")
        return q

    def kept(self, layer: str, kind: str, slot: str) -> str:
        """The name in the state of a table of W or of the layer's input."""
        return f"{layer}.weight.{slot}" if kind == "W" else f"{layer}.{slot}"

    def bits(self, layer: str, kind: str, shape: Sequence[int], axes: tuple[int, int]) -> Map:
        """The widths of a tensor's blocks; those of batches that a map does not reach begin again."""
        found = block_float.blocks(shape, axes)
        stored = self.state.get(self.kept(layer, kind, "b"))
        if stored is None:
            own = of_layer(self.settings, layer)
            return dict.fromkeys(found, int(own.alpha(kind)) if own.map == "uniform" else FIRST)
        b, period = table(stored), stored.shape[0]
        return {block: in_use(b[(block[0] % period, *block[1:])]) for block in found}

    # -- hooks -------------------------------------------------------------------------------------

    def weight(self, layer: Layer, symbol: str) -> Any:
        """Wq for the forward product and Wb for the backward one; b, gamma, beta as they are."""
        if symbol != "W":
            return super().weight(layer, symbol)
        w = self.parameter(layer.name, "W")
        wb = self.blocks(layer, "Wb", w)
        self.dynamic[f"{layer.name}/W"] = wb, zero_blocks(w, wb.axes)
        if self.settings.forward_dynamic == "weight":
            return wb
        return Copies(self.blocks(layer, "Wq", w), wb)

    def activation(self, layer: Layer, path: str, value: Expression) -> Any:
        """x0 in blocks, all else in float32."""
        if path != "x0":
            return super().activation(layer, path, value)
        assert not isinstance(value, Copies)
        a, name = to_float(value), layer.name  # type: ignore[arg-type]
        self.images, self.shapes[name] = a.shape[0], a.shape
        if not value_of(self.state["method/images"]).codes[0]:
            self.state["method/images"] = whole(self.images)
        x0 = self.blocks(layer, "x0", a)
        if name == self.first:
            return x0
        dynamic = x0 if self.settings.forward_dynamic == "activation" else self.blocks(layer, "x0b", a)
        self.dynamic[f"{name}/A"] = dynamic, zero_blocks(a, dynamic.axes)
        return Copies(x0, dynamic)

    def error(self, layer: Layer, path: str, value: Value) -> Any:
        """e3 in 8 bits; e4 as it is, and its squares in the sensitivity of x0."""
        if path == "e3":
            return self.blocks(layer, path, to_float(value))
        if path == "e4":
            self._add(layer.name, "A", to_float(value))
        return self.stored(layer, path, value)

    def gradient(self, layer: Layer, symbol: str, value: Value) -> None:
        """As it is; squares of a weight's gradient in its sensitivity."""
        if symbol == "W":
            self._add(layer.name, "W", to_float(value))
        super().gradient(layer, symbol, value)

    # -- sensitivity and map -----------------------------------------------------------------------

    def full(self) -> bool:
        """Whether the step's batch counts: as large as the first one, and there is a map to make."""
        return self.moves() and self.images == value_of(self.state["method/images"]).codes[0]

    def counts(self, layer: str) -> bool:
        """Whether it counts in the layer's sums."""
        return self.full() and of_layer(self.settings, layer).map == "dynamic"

    def moves(self) -> bool:
        """Whether a layer has a map that moves."""
        return any(of_layer(self.settings, layer.name).map == "dynamic" for layer in self.weighted)

    def _add(self, layer: str, kind: str, g: Tensor) -> None:
        """S <- S + this batch's (1)."""
        found = self.found[f"{layer}/{kind}"] = sensitivity(g, *self.dynamic[f"{layer}/{kind}"])
        if not self.counts(layer):
            return
        b, b_new, s = (self.kept(layer, kind, slot) for slot in ("b", "b_new", "S"))
        if s not in self.state:
            widths = array(dict.fromkeys(found, Fraction(FIRST)), "float32")
            self.state |= {b: widths, b_new: widths, s: array(dict.fromkeys(found, 0.0), "float64")}
        old = table(self.state[s])
        self.state[s] = array({block: old[block] + v for block, v in found.items()}, "float64")

    def end_of_step(self) -> None:
        """Count a full batch."""
        if self.full():
            self.state["method/batches"] = whole(value_of(self.state["method/batches"]).codes[0] + 1)

    def end_of_epoch(self) -> None:
        """New maps of the weights and of the activations, each kind with its lambda; S begins again."""
        super().end_of_epoch()
        batches = value_of(self.state["method/batches"]).codes[0]
        if not self.moves() or not batches:
            return
        last = value_of(self.state["method/lambda"]).values
        found = [self._relative(kind, batches) for kind in KINDS]
        if self.settings.lambdas == "one":
            both = [[*weights, *activations] for weights, activations in zip(*found, strict=True)]
            lams = [self._lambda(both[0], both[1], last[0] if last else None, KINDS[1])] * 2
        else:
            lams = [
                self._lambda(rs, work, last[i] if last else None, kind)
                for i, (kind, (rs, work)) in enumerate(zip(KINDS, found, strict=True))
            ]
        for kind, lam in zip(KINDS, lams, strict=True):
            self._new_map(kind, batches, lam)
        self.state["method/lambda"] = Floats("float64", (2,), lams)
        self.state["method/batches"] = whole(0)

    def _lambda(self, rs: Sequence[float], work: Sequence[int], last: float | None, kind: str) -> float:
        """The next lambda of blocks with these r and T, from the last one."""
        alpha, weights = self.settings.alpha(kind), work if self.settings.mean == "work" else None
        if not rs:
            return 0.0
        if last is None or self.settings.tuning == "off":
            last = dynasty_map.first_lambda(rs, alpha, weights)
        return last if self.settings.tuning == "off" else dynasty_map.tune(rs, last, alpha, weights)

    def _tables(self, kind: str) -> tuple[dict[str, Map], dict[str, Map]]:
        """S and T by layer, of those that have a sensitivity."""
        names = [x.name for x in self.weighted if self.kept(x.name, kind, "S") in self.state]
        work = {name: self.work(name)[KINDS.index(kind)] for name in names}
        return {name: table(self.state[self.kept(name, kind, "S")]) for name in names}, work

    def _relative(self, kind: str, batches: int) -> tuple[list[float], list[int]]:
        """r and T of the blocks that a product reads, of all layers."""
        sums, work = self._tables(kind)
        read = [(s, work[name][block]) for name, own in sums.items() for block, s in own.items()]
        read = [(s, t) for s, t in read if t]
        return [dynasty_map.relative(s, batches, t) for s, t in read], [t for _, t in read]

    def _new_map(self, kind: str, batches: int, lam: float) -> None:
        """The next widths of all blocks that a product reads; those that none reads get 0 bits."""
        sums, work = self._tables(kind)
        if not sums:
            return
        self.entries[kind] = {
            "lambda": lam,
            "S": sums,
            "T": work,
            "batches": batches,
            "before": dict(self.state),
        }
        for name, own in sums.items():
            uses = work[name]
            rs = {b: dynasty_map.relative(s, batches, uses[b]) if uses[b] else None for b, s in own.items()}
            self._store_map(name, kind, lam, rs)

    def _store_map(self, name: str, kind: str, lam: float, rs: Mapping[Index, float | None]) -> None:
        b, b_new, s = (self.kept(name, kind, slot) for slot in ("b", "b_new", "S"))
        old, new, now = table(self.state[b]), {}, {}
        for block, r in rs.items():
            new[block] = now[block] = Fraction(0)
            if r is not None:
                new[block] = to_float32(Fraction(dynasty_map.width(r, lam)))
                now[block] = dynasty_map.smoothed(old[block], new[block], self.settings.gamma)
        zeros = array(dict.fromkeys(rs, 0.0), "float64")
        self.state |= {b: array(now, "float32"), b_new: array(new, "float32"), s: zeros}

    def work(self, name: str) -> tuple[Map, Map]:
        """T of W's blocks and of x0's, for a full batch."""
        images = value_of(self.state["method/images"]).codes[0]
        w = self.parameter(name, "W").shape
        return dynasty_map.work(self.layers[name], (images, *self.shapes[name][1:]), w)
