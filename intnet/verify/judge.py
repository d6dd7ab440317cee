"""What the definition says of a run's method: the format and the random stream of every path, its updates.

The methods of `spec.methods` are asked by the names of layers and paths; a method of a user's own names its
definition by the attribute `spec`: a module or object with `Settings` and `Step`, as those have.
"""

import importlib
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from intnet.layers import Conv2d, Layer, Linear
from intnet.methods import METHODS, Method
from intnet.numbers.qtensor import QTensor
from intnet.spec.digest import Exponents, Floats, Words
from intnet.spec.methods.step import FLOAT32, Now
from intnet.spec.nets import Layer as SpecLayer
from intnet.training.train import Run
from intnet.verify.values import Decayed, NotSpecified, fractions

__all__ = ["FLOAT32", "Judge", "Lazy", "as_stored"]

KINDS = {
    "Linear": "linear", "Conv2d": "conv", "BatchNorm2d": "norm", "ReLU": "relu", "Tanh": "tanh",
    "Sigmoid": "sigmoid", "SiLU": "silu", "MaxPool2d": "max_pool", "AvgPool2d": "avg_pool",
    "GlobalAvgPool": "mean", "Squeeze": "mean", "Flatten": "flatten", "Dropout": "dropout", "Join": "join",
    "Scale": "scale", "AdaptiveAvgPool2d": "avg_pool",
}  # fmt: skip


class Lazy(Sequence[Any]):
    """An array as the sequence of exact numbers that the definition reads; none is made before it is read."""

    def __init__(self, array: np.ndarray) -> None:
        self.flat = array.reshape(-1)

    def _made(self, part: np.ndarray) -> list[Any]:
        return fractions(part) if part.dtype == np.float32 else part.tolist()

    def __len__(self) -> int:
        return len(self.flat)

    def __getitem__(self, index: Any) -> Any:
        return self._made(self.flat[index]) if isinstance(index, slice) else self._made(self.flat[[index]])[0]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._made(self.flat))


def as_stored(value: Any) -> Words | Floats:
    """A tensor of a run's state as the definition stores it."""
    if isinstance(value, QTensor):
        exponent: Any = value.exponent
        if isinstance(exponent, np.ndarray):
            exponent = Exponents(exponent.shape, exponent.reshape(-1).tolist())
        return Words(value.codes.dtype.name, value.shape, Lazy(value.codes), exponent)
    return Floats(value.dtype.name, value.shape, Lazy(value))


def described(layer: Layer) -> SpecLayer:
    """A layer as the definition's nets have it."""
    kind = next((KINDS[cls.__name__] for cls in type(layer).__mro__ if cls.__name__ in KINDS), "")
    if not kind:
        kind = "linear" if layer.takes_weight else "norm" if layer.normalizes else "join"
    if isinstance(layer, Conv2d):
        outputs, _, *kernel = layer.weight.shape
        bias = layer.bias is not None
        window = layer.stride, layer.padding, layer.groups
        return SpecLayer(kind, layer.name, outputs, (kernel[0], kernel[1]), bias, *window)
    if isinstance(layer, Linear):
        return SpecLayer(kind, layer.name, layer.weight.shape[0], bias=layer.bias is not None)
    return SpecLayer(kind, layer.name)


class Judge:
    """The definition of one step of a run's method, or of inference behind it.

    before: the run's state ahead of the step, by the names of a checkpoint
    exponents: 'layer/path' -> exponent of codes, where a format depends on one
    """

    def __init__(
        self,
        run: Run,
        before: Mapping[str, Any],
        step: int,
        exponents: Mapping[str, Any],
        inference: bool = False,
    ) -> None:
        method = run.method
        self.seed, self.symbols = run.seed, method.SYMBOLS
        self.layers = {layer.name: described(layer) for layer in run.model.all_layers()}
        self.net = tuple(self.layers.values())
        self.now = Now(run.seed, step, run.steps_per_epoch, inference)
        self.before = dict(before)
        self.module = definition_of(method)
        self.settings: Any = None
        if self.module is not None:
            self.settings = self.module.Settings.from_options(method.settings())
        self.exponents = exponents
        self.state = {name: as_stored(value) for name, value in before.items()}
        self.rules = self.fresh(self.state)

    def fresh(self, state: Mapping[str, Words | Floats]) -> Any:
        """The definition's step on a state; None without a definition."""
        if self.module is None:
            return None
        made = self.module.Step(self.net, self.settings, dict(state), self.now)
        made.tensors.update(self.exponents)
        return made

    def equation(self, path: str) -> str:
        """As the method's paper writes a path."""
        found = self.symbols.get(path)
        return found.formula if found else ""

    def decayed(self, gradient: Any, w: Any) -> Any:
        """A weight's gradient as its rounding takes it: WAGEUBN's weight decay joins it there."""
        s = getattr(self.settings, "weight_decay", None)
        return Decayed(gradient, w, s) if isinstance(s, int) else gradient

    def _layer(self, name: str) -> SpecLayer:
        if self.rules is None:
            raise NotSpecified("the method names no spec")
        return self.layers[name]

    def format_of(self, layer: str, path: str, value: Any = None) -> Any:
        """The definition's format of a path; FLOAT32, or None: as it comes.

        value: what comes; WAGEUBN's batch norm takes an e1 that is no codes yet as an e0 (`Step.error`)
        """
        found = self.rules.format_of(self._layer(layer), path) if self._layer(layer) else None
        if found is None and path == "e1" and self.layers[layer].kind == "norm":
            known = value is None or isinstance(value, QTensor | np.ndarray)
            return None if known else self.rules.format_of(self._layer(layer), "e0")
        return found

    def stream_of(self, layer: str, path: str) -> str | None:
        """The stream of a path that is rounded at random."""
        found: str | None = self.rules.stream_of(self._layer(layer), path)
        return found


def definition_of(method: Method) -> Any:
    """The spec module of a method; None where it names none."""
    own = getattr(method, "spec", None)
    if own is not None:
        return own
    if METHODS.get(method.name) is type(method):
        return importlib.import_module(f"intnet.spec.methods.{method.name}")
    return None


def exact_numbers(values: Sequence[Any]) -> list[Fraction]:
    """Of stored numbers, floats too."""
    return [v if isinstance(v, Fraction) else Fraction(v) for v in values]
