"""One whole training step under method `saved` of a small net: float32, but gradients read what was packed.

`nets` walks the net; here are the packing (`buckets`), the words that it draws, squeeze and excitation, and
SGD. Forward is float32's. On the way back a~ stands for the input of products, of batch norm (whose mean and
root are those of the forward pass), of a scaled image, and of SiLU where it is packed; ReLU's is exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from fractions import Fraction
from math import prod
from typing import Any, NamedTuple

from intnet.spec import buckets, nets
from intnet.spec import float32 as floats
from intnet.spec import words as random
from intnet.spec.curves import curve_bounds, decided
from intnet.spec.methods import optimizers
from intnet.spec.methods.adapt import WEIGHTED, layers_of
from intnet.spec.methods.float_rules import FloatRules
from intnet.spec.nets import Layer
from intnet.spec.tensor import Fixed, Tensor


@dataclass(frozen=True)
class Codec:
    """kind: of `buckets`; bits: None: float32; share: of buckets with `mix` bits; bucket: None: one."""

    kind: str = "affine-stochastic"
    bits: int | None = 4
    mix: int | None = None
    share: float = 0.0
    bucket: int | None = 512
    norm: str = "max"


@dataclass(frozen=True)
class Settings:
    """Of one step. silu: its input is packed; late: the tape holds float32, rounded when it is read."""

    seed: int
    step: int
    lr: float
    codec: Codec = Codec()
    layers: Mapping[str, Codec] = field(default_factory=dict)  # of those that have their own
    momentum: float = 0.9
    weight_decay: float = 0.0
    silu: bool = False
    late: bool = False


@dataclass
class State:
    """Values and SGD's slots by 'layer/symbol', running statistics by layer."""

    values: dict[str, Tensor]
    slots: dict[str, optimizers.Slots] = field(default_factory=dict)
    running: dict[str, tuple[list[Fraction], list[Fraction]]] = field(default_factory=dict)


class Packed(NamedTuple):
    """A tensor on the tape: its buckets and bytes, nominal bits of each bucket, a~."""

    shape: tuple[int, ...]
    saved: buckets.Saved
    widths: list[int]
    values: Tensor
    kind: str

    @property
    def nbytes(self) -> int:
        """Codes, float32 scales, of affine codecs zero points."""
        return len(self.saved.packed) + len(self.widths) * (4 if self.kind == "levels" else 8)

    @property
    def codes(self) -> list[int]:
        """As counts of steps, of levels with their sign."""
        pairs = zip(self.widths, self.saved.buckets, strict=True)
        return [c - (2**b if self.kind == "levels" else 0) for b, bucket in pairs for c in bucket.codes]


def pack(settings: Settings, codec: Codec, layer: str, path: str, x: Tensor) -> Packed:
    """x in codes: element i by word i of 'layer/path', bucket k by word k of 'layer/mix'."""
    n = len(x.values)
    assert codec.bits is not None
    size = codec.bucket or n
    count = -(-n // size)
    widths = [codec.bits] * count
    if codec.mix is not None:
        chosen = random.words(settings.seed, settings.step, f"{layer}/mix", count)
        limit = Fraction(codec.share) * 2**32
        widths = [codec.mix if word < limit // 1 else codec.bits for word in chosen]
    drawn = None
    if codec.kind != "affine":
        drawn = random.words(settings.seed, settings.step, f"{layer}/{path}", n)
    units = [int(v * floats.ONE) for v in x.values]
    made = buckets.save(units, codec.kind, widths, size, drawn, codec.norm, prod(x.shape[1:]))
    again = Tensor(x.shape, [Fraction(v, floats.ONE) for v in made.values])
    return Packed(x.shape, made, widths, again, codec.kind)


# -- a step ----------------------------------------------------------------------------------------


@dataclass
class Step(FloatRules):
    """The rules of the method for `Walk`, and what it left."""

    settings: Settings
    state: State
    tensors: dict[str, Any] = field(default_factory=dict)
    gradients: dict[str, Tensor] = field(default_factory=dict)
    held: dict[str, tuple[int, int]] = field(default_factory=dict)  # elements, bytes
    saturated: dict[str, int] = field(default_factory=dict)

    def save(self, layer: str, path: str, x: Tensor) -> Tensor:
        """a~, which the tape holds."""
        n, settings = len(x.values), self.settings
        codec = settings.layers.get(layer, settings.codec)
        self.held[f"{layer}/{path}"] = n, 4 * n
        if codec.bits is None or path == "x4" or (path == "x3" and not settings.silu):
            return x
        if path == "mask":
            if not settings.late:
                self.held[f"{layer}/{path}"] = n, 8 * -(-n // 64)
            return x
        packed = self.tensors[f"{layer}/{path}s"] = pack(settings, codec, layer, path, x)
        clipped = sum(bucket.clipped for bucket in packed.saved.buckets)
        if clipped:
            self.saturated[f"{layer}/{path}s"] = clipped
        flags = 0 if codec.mix is None else -(-len(packed.widths) // 8)
        if not settings.late:
            self.held[f"{layer}/{path}"] = n, packed.nbytes + flags
        return packed.values

    # -- hooks of the float32 layers -----------------------------------------------------------

    def weight(self, layer: str, symbol: str) -> nets.Value:
        """As it is."""
        value = self.tensors[f"{layer}/{symbol}"] = self.state.values[f"{layer}/{symbol}"]
        return value

    def update(self, name: str) -> None:
        """SGD with momentum."""
        settings, state, g = self.settings, self.state, self.gradients[name]
        options = optimizers.Settings(momentum=settings.momentum, l2=settings.weight_decay)
        slots = state.slots.setdefault(name, optimizers.Slots())
        w = state.values[name].values
        new = optimizers.update(options, settings.lr, w, g.values, slots, Fraction(1))
        state.values[name] = Tensor(g.shape, new)
        layer, symbol = name.split("/")
        self.tensors[f"{layer}/Acc{symbol}"] = Tensor(g.shape, slots.first)


class Walk(nets.Walk):
    """`nets.Walk` whose layers keep a~ in place of what they read; kinds 'silu' and 'excite' besides."""

    rules: Step

    def _linear(self, layer: Layer, x: nets.Value) -> nets.Value:
        y = super()._linear(layer, x)
        x0, w = self.kept[layer.name]
        self.kept[layer.name] = self.rules.save(layer.name, "x0", x0), w
        return y

    _conv = _linear

    def _norm(self, layer: Layer, x: nets.Value) -> nets.Value:
        y = super()._norm(layer, x)
        x1, normed, gamma = self.kept[layer.name]
        self.kept[layer.name] = self.rules.save(layer.name, "x1", x1), normed, gamma
        return y

    def _relu(self, layer: Layer, x: nets.Value) -> nets.Value:
        self.rules.save(layer.name, "mask", nets.to_float(x))
        return super()._relu(layer, x)

    def _silu(self, layer: Layer, x: nets.Value) -> nets.Value:
        given = nets.to_float(x)
        self.kept[layer.name] = self.rules.save(layer.name, "x3", given)
        y = Tensor(given.shape, [_curve("silu", v) for v in given.values])
        return self.rules.activation(layer, "x4", y)

    def _silu_back(self, layer: Layer, e: nets.Value) -> nets.Value:
        """e0 times the derivative at x3s, rounded once."""
        e0 = nets.to_float(self.rules.error(layer, "e0", e))
        pairs = zip(self.kept[layer.name].values, e0.values, strict=True)
        return self.rules.error(layer, "e1q", Tensor(e0.shape, [_curve("slope", v, f) for v, f in pairs]))

    def _sigmoid(self, layer: Layer, x: nets.Value) -> nets.Value:
        given = nets.to_float(x)
        y = Tensor(given.shape, [_curve("sigmoid", v) for v in given.values])
        self.kept[layer.name] = self.rules.save(layer.name, "x4", y)
        return self.rules.activation(layer, "x4", y)

    def _sigmoid_back(self, layer: Layer, e: nets.Value) -> nets.Value:
        """e0 (y (1 - y))."""
        e0, y = nets.to_float(self.rules.error(layer, "e0", e)), self.kept[layer.name]
        slopes = [floats.mul32(v, floats.add32(1, -v)) for v in y.values]
        back = [floats.mul32(a, d) for a, d in zip(e0.values, slopes, strict=True)]
        return self.rules.error(layer, "e1", Tensor(e0.shape, back))

    def _excite(self, layer: Layer, x: nets.Value) -> nets.Value:
        """x (N, H, W, C) times the factors (N, C) that its means make."""
        given = nets.to_float(x)
        s = nets.to_float(self.forward(_squeezed(layer.name), given))
        kept = self.rules.save(f"{layer.name}.scale", "x0", given)
        self.kept[layer.name] = kept, s
        return self.rules.activation(Layer("scale", f"{layer.name}.scale"), "x4", _scaled(given, s))

    def _excite_back(self, layer: Layer, e: nets.Value) -> nets.Value:
        """e0 s, and by the factors e0 x0s summed over positions."""
        name, (x, s) = layer.name, self.kept[layer.name]
        e0 = nets.to_float(self.rules.error(Layer("scale", f"{name}.scale"), "e0", e))
        n, h, w, c = x.shape
        size = h * w * c
        places = [slice(i * size + k, (i + 1) * size, c) for i in range(n) for k in range(c)]
        ds = Tensor((n, c), [floats.dot32(e0.values[at], x.values[at]) for at in places])
        means = self.backward(_squeezed(name), ds)
        means = self.rules.error(Layer("mean", f"{name}.avgpool"), "e0", means)
        return nets.joined(_scaled(e0, s), means)


def _curve(name: str, x: Fraction, factor: Fraction = Fraction(1)) -> Fraction:
    """float32 of factor * curve(x)."""

    def bounds(precision: int) -> tuple[Fraction, Fraction]:
        low, high = sorted(factor * end for end in curve_bounds(name, x, precision))
        return low, high

    return Fraction(decided(bounds, floats.to_float32))


def _scaled(x: Tensor, s: Tensor) -> Tensor:
    """Every channel of an image by its factor."""
    c, size = x.shape[-1], prod(x.shape[1:])
    factors = [s.values[i // size * c + i % c] for i in range(len(x.values))]
    return Tensor(x.shape, [floats.mul32(v, f) for v, f in zip(x.values, factors, strict=True)])


def _squeezed(name: str) -> nets.Net:
    """What makes the factors of a channel."""
    return (
        Layer("mean", f"{name}.avgpool"),
        Layer("linear", f"{name}.fc1", bias=True),
        Layer("silu", f"{name}.activation"),
        Layer("linear", f"{name}.fc2", bias=True),
        Layer("sigmoid", f"{name}.scale_activation"),
    )


def step(net: nets.Net, state: State, images: Fixed, error: Tensor, settings: Settings) -> Step:
    """One training step; `error` (N, classes) is (p - y) / N of the logits."""
    run = Step(settings, deepcopy(state))
    walk = Walk(run, next(layer.name for layer in layers_of(net) if layer.kind in WEIGHTED))
    walk.forward(net, images)
    walk.backward(net, error)
    for name in run.gradients:
        run.update(name)
    return run
