"""One whole DYNASTY step of a small net, after which come new maps; `nets` walks the net.

Weight layers multiply blocks (`block_float`), the rest is float32. Of every block of a weight W and of an
input A there is a width b: forward W in 8 bits by A in b, backward E by W in b, update E by A in b.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from math import prod
from typing import Any

from intnet.spec import block_float, nets
from intnet.spec import operations as ops
from intnet.spec.block_float import Blocks, Index, quantize
from intnet.spec.float32 import add32, batch_sum32, to_float32
from intnet.spec.methods import dynasty_map
from intnet.spec.methods.adapt import WEIGHTED, layers_of
from intnet.spec.methods.dynasty_map import (
    Entry,
    Map,
    decimal,
    first_lambda,
    in_use,
    relative,
    sensitivity,
    smoothed,
    tune,
    width,
    work,
    zero_blocks,
)
from intnet.spec.methods.float_rules import FloatRules
from intnet.spec.tensor import Fixed, Tensor

FIRST = 4  # bits of the first epoch
STATIC = 8


def product(op: Any, a: Tensor, b: Tensor, *more: object) -> Tensor:
    """The exact sums, each rounded once to float32."""
    return block_float.rounded(block_float.exact(op, a, b, *more))


def axes_of(shape: Sequence[int], weight: bool = False) -> tuple[int, int]:
    """Blocks: (Cout, Cin) of weights, (batch, channels) of activations and errors."""
    return (0, 1) if weight or len(shape) == 2 else (0, 3)


# -- a step ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Settings:
    """The options as numbers; `batch` is a full one's size; `ends` says that the step is its epoch's last."""

    lr: float
    batch: int
    momentum: float = 0.9
    weight_decay: float = 0.0
    bits: float = 4.0
    weight_bits: float | None = None
    gamma: float = 0.5
    forward_dynamic: str = "activation"
    map: str = "dynamic"
    ends: bool = False

    def alpha(self, name: str) -> Decimal:
        """Target of the weights' map or of the activations'."""
        own = self.weight_bits if name.endswith("/W") else None
        return decimal(self.bits if own is None else own)


@dataclass
class State:
    """Values by 'layer/symbol'; by 'layer/W' and 'layer/A', with blocks as keys: b, b_new and sums of S."""

    values: dict[str, Tensor]
    acc: dict[str, Tensor] = field(default_factory=dict)
    running: dict[str, tuple[list[Fraction], list[Fraction]]] = field(default_factory=dict)
    smoothed: dict[str, Map] = field(default_factory=dict)
    new: dict[str, Map] = field(default_factory=dict)
    sums: dict[str, Map] = field(default_factory=dict)
    batches: int = 0
    lambdas: dict[str, Decimal] = field(default_factory=dict)  # of 'W' and 'A'


@dataclass
class Step(FloatRules):
    """The rules of DYNASTY for `Walk`, and what it left."""

    settings: Settings
    state: State
    first: str
    last_batch: int = 0
    tensors: dict[str, Any] = field(default_factory=dict)
    gradients: dict[str, Tensor] = field(default_factory=dict)
    found: dict[str, Map] = field(default_factory=dict)  # S of this step
    work: dict[str, Map] = field(default_factory=dict)  # T of every map
    saturated: dict[str, int] = field(default_factory=dict)
    map: dict[str, Any] = field(default_factory=dict)  # what is told of a new one

    def note(self, layer: str, path: str, q: Blocks) -> Blocks:
        """`q` as a path's value."""
        self.tensors[f"{layer}/{path}"] = q
        if q.saturated:
            self.saturated[f"{layer}/{path}"] = q.saturated
        return q

    def bits(self, name: str, shape: Sequence[int], axes: tuple[int, int]) -> Map:
        """The widths of a tensor's blocks; those of batches that a map does not reach begin again."""
        kept = self.state.smoothed.get(name)
        if kept is None:
            uniform = self.settings.map == "uniform"
            first = int(self.settings.alpha(name)) if uniform else FIRST
            return dict.fromkeys(block_float.blocks(shape, axes), first)
        period = max(block[0] for block in kept) + 1
        return {
            block: in_use(Fraction(kept[(block[0] % period, *block[1:])]))
            for block in block_float.blocks(shape, axes)
        }

    # -- hooks of the float32 layers -----------------------------------------------------------

    def weight(self, layer: str, symbol: str) -> nets.Value:
        """Biases, gamma and beta as they are."""
        value = self.tensors[f"{layer}/{symbol}"] = self.state.values[f"{layer}/{symbol}"]
        return value

    # -- behind the way back -------------------------------------------------------------------

    def update(self, name: str) -> None:
        """SGD with momentum."""
        self.descend(name, to_float32(Fraction(self.settings.lr)))

    def gather(self) -> None:
        """The sensitivities of a full batch are added to the epoch's."""
        if self.last_batch != self.settings.batch or self.settings.map == "uniform":
            return
        self.state.batches += 1
        for name, found in self.found.items():
            if name not in self.state.sums:
                self.state.smoothed[name] = dict.fromkeys(found, Fraction(FIRST))
                self.state.new[name] = dict.fromkeys(found, Fraction(FIRST))
            old = self.state.sums.get(name) or dict.fromkeys(found, 0.0)
            self.state.sums[name] = {block: old[block] + s for block, s in found.items()}

    def end_of_epoch(self) -> None:
        """New maps of the weights and of the activations, each kind with its lambda."""
        s = self.state
        layers: dict[str, Any] = {name.removesuffix("/W"): {} for name in s.sums if name.endswith("/W")}
        self.map["layers"] = layers
        for kind, told in (("W", "weights"), ("A", "activations")):
            alpha = self.settings.alpha(f"/{kind}")
            names = [name for name in s.sums if name.endswith(f"/{kind}")]
            s.lambdas[kind] = self._lambda(names, s.lambdas.get(kind), alpha)
            entries = [e for name in names for e in self._new_map(name, s.lambdas[kind])]
            self.map[told] = dynasty_map.summary(entries, s.lambdas[kind], alpha)
            for name in names:
                layer = name.split("/")[0]
                layers[layer][told] = dynasty_map.layer_record([e for e in entries if e.layer == layer])
        s.batches = 0

    def _r(self, name: str, block: Index) -> Decimal | None:
        return relative(Fraction(self.state.sums[name][block]) / self.state.batches, self.work[name][block])

    def _lambda(self, names: Sequence[str], last: Decimal | None, alpha: Decimal) -> Decimal:
        read = [(name, block) for name in names for block, t in self.work[name].items() if t]
        rs = [self._r(name, block) for name, block in read]
        return tune(rs, first_lambda(rs, alpha) if last is None else last, alpha)

    def _new_map(self, name: str, lam: Decimal) -> list[Entry]:
        """The next widths of a tensor's blocks; S begins again; what no product reads has no entry."""
        s, gamma, entries = self.state, self.settings.gamma, []
        for block, total in s.sums[name].items():
            if not self.work[name][block]:
                s.new[name][block] = s.smoothed[name][block] = Fraction(0)
                continue
            r, last, last_new = self._r(name, block), s.smoothed[name][block], s.new[name][block]
            new = s.new[name][block] = to_float32(Fraction(width(r, lam)))
            b = to_float32(Fraction(smoothed(decimal(last), decimal(new), gamma)))
            s.smoothed[name][block] = b
            mean = Fraction(total) / s.batches
            layer, t = name.partition("/")[0], self.work[name][block]
            entries.append(Entry(layer, mean, t, r, last, last_new, b, new))
        s.sums[name] = dict.fromkeys(s.sums[name], 0.0)
        return entries


class Walk(nets.Walk):
    """`nets.Walk` whose weight layers multiply blocks."""

    rules: Step

    def _linear(self, layer: nets.Layer, x: nets.Value) -> nets.Value:
        rules, name = self.rules, layer.name
        a, w = nets.to_float(x), rules.state.values[f"{name}/W"]
        across = axes_of(a.shape), axes_of(w.shape, True)
        swapped = rules.settings.forward_dynamic == "weight"
        a_bits: Any = rules.bits(f"{name}/A", a.shape, across[0]) if name != rules.first else STATIC
        dynamic = quantize(a, a_bits, across[0])
        narrow = quantize(w, rules.bits(f"{name}/W", w.shape, across[1]), across[1])
        x0 = quantize(a, STATIC, across[0]) if swapped else dynamic
        wq = narrow if swapped else quantize(w, STATIC, across[1])
        self.kept[name] = a, w, dynamic, narrow
        rules.note(name, "x0", x0)
        rules.note(name, "Wb", narrow)
        if not swapped:
            rules.note(name, "Wq", wq)
        elif name != rules.first:
            rules.note(name, "x0b", dynamic)
        if layer.kind == "linear":
            y = product(ops.linear, x0.real(), wq.real())
        else:
            y = product(ops.conv2d, x0.real(), wq.real(), layer.stride, layer.padding)
        if layer.bias:
            b = nets.elements(rules.weight(name, "b"))
            y = Tensor(y.shape, [add32(v, b[i % len(b)]) for i, v in enumerate(y.values)])
        return rules.activation(layer, "x1", y)

    _conv = _linear

    def _linear_back(self, layer: nets.Layer, e: nets.Value) -> nets.Value:
        rules, name = self.rules, layer.name
        error = nets.to_float(e)
        e3 = rules.note(name, "e3", quantize(error, STATIC, axes_of(error.shape)))
        a, w, dynamic, narrow = self.kept[name]
        linear, window = layer.kind == "linear", (layer.stride, layer.padding)
        seen, c = e3.real(), error.shape[-1]
        if layer.bias:
            per_image = prod(seen.shape[1:-1])
            sums = Tensor((c,), [batch_sum32(seen.values[k::c], per_image) for k in range(c)])
            rules.gradient(name, "b", sums)
        if linear:
            g = product(ops.linear_weight_grad, seen, dynamic.real())
        else:
            g = product(ops.conv2d_weight_grad, seen, dynamic.real(), w.shape, *window)
        rules.gradient(name, "W", g)
        t = work(layer, (rules.settings.batch, *a.shape[1:]), w.shape)
        rules.work[f"{name}/W"] = t[0]
        rules.found[f"{name}/W"] = sensitivity(g, narrow, zero_blocks(w, narrow.axes))
        if name == self.first:
            self.kept["images"] = True
            return error
        if linear:
            e4 = product(ops.linear_input_grad, seen, narrow.real())
        else:
            e4 = product(ops.conv2d_input_grad, seen, narrow.real(), a.shape, *window)
        rules.work[f"{name}/A"] = t[1]
        rules.found[f"{name}/A"] = sensitivity(e4, dynamic, zero_blocks(a, dynamic.axes))
        return rules.error(layer, "e4", e4)

    _conv_back = _linear_back


def step(net: nets.Net, state: State, images: Fixed, error: Tensor, settings: Settings) -> Step:
    """One training step; `error` (N, classes) is (p - y) / N of the logits."""
    weighted = [layer.name for layer in layers_of(net) if layer.kind in WEIGHTED]
    run = Step(settings, deepcopy(state), weighted[0], images.shape[0])
    walk = Walk(run, weighted[0])
    walk.forward(net, images)
    walk.backward(net, error)
    for name in run.gradients:
        run.update(name)
    run.gather()
    if settings.ends and settings.map == "dynamic":
        run.end_of_epoch()
    return run


def bits_of(kept: Mapping[Index, Fraction]) -> Map:
    """The widths in use of smoothed ones."""
    return {block: in_use(Fraction(b)) for block, b in kept.items()}
