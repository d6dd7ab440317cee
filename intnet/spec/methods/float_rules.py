"""What methods with a float32 master have in common, for `nets.Walk`: a step's rules derive from it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from intnet.spec import float_batch_norm as float_norm
from intnet.spec import nets
from intnet.spec.float32 import fma32, to_float32
from intnet.spec.tensor import Tensor


class FloatRules:
    """float32 everywhere; a method overrides what it rounds.

    settings: has momentum and weight_decay; state: has values, acc and running
    """

    settings: Any
    state: Any
    tensors: dict[str, Any]
    gradients: dict[str, Tensor]

    def activation(self, layer: nets.Layer, path: str, value: nets.Value) -> nets.Value:
        """float32."""
        out = self.tensors[f"{layer.name}/{path}"] = nets.to_float(value)
        return out

    def error(self, layer: nets.Layer, path: str, value: nets.Value) -> nets.Value:
        """float32."""
        self.tensors[f"{layer.name}/{path}"] = value
        return value

    def gradient(self, layer: str, symbol: str, value: nets.Value) -> None:
        """float32."""
        self.tensors[f"{layer}/g{symbol}"] = value
        self.gradients[f"{layer}/{symbol}"] = nets.to_float(value)

    def statistics(self, layer: str, mean: list[Fraction], variance: list[Fraction]) -> None:
        """The running ones, from 0 and 1."""
        n = len(mean)
        self.tensors[f"{layer}/mu"] = Tensor((n,), mean)
        self.tensors[f"{layer}/sigma"] = Tensor((n,), variance)
        old = self.state.running.get(layer, ([Fraction(0)] * n, [Fraction(1)] * n))
        self.state.running[layer] = (float_norm.running(old[0], mean), float_norm.running(old[1], variance))

    def descend(self, name: str, rate: Fraction) -> None:
        """Acc = momentum Acc + (g + decay W); W = W - rate Acc."""
        state, g, w = self.state, self.gradients[name].values, self.state.values[name]
        if self.settings.weight_decay:
            decay = to_float32(Fraction(self.settings.weight_decay))
            g = [fma32(decay, v, a) for v, a in zip(w.values, g, strict=True)]
        momentum = to_float32(Fraction(self.settings.momentum))
        old = state.acc[name].values if name in state.acc else [Fraction(0)] * len(g)
        acc = [fma32(momentum, a, v) for a, v in zip(old, g, strict=True)]
        state.acc[name] = Tensor(w.shape, acc)
        state.values[name] = Tensor(w.shape, [fma32(-rate, a, v) for a, v in zip(acc, w.values, strict=True)])
        layer, symbol = name.split("/")
        self.tensors[f"{layer}/Acc{symbol}"] = state.acc[name]
