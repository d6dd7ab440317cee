"""What the definition says of a run's method: the format and the random stream of every path, its updates.

The methods of `spec.methods` are asked by the names of layers and paths; a method of a user's own names its
definition by the attribute `spec`: a module or object with `Settings` and `Step`, as those have.
"""

import types
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from intnet.inspect import as_spec
from intnet.layers import Layer
from intnet.methods.symbols import symbol_of
from intnet.numbers.qtensor import QTensor
from intnet.spec.digest import Exponents, Floats, Words
from intnet.spec.methods.step import FLOAT32, Now, value_of
from intnet.spec.models import Layer as SpecLayer
from intnet.spec.rounding import Mode
from intnet.spec.tensor import Fixed
from intnet.verify.floats import fractions
from intnet.verify.record import Record
from intnet.verify.row import NotSpecified
from intnet.verify.taken import Taken

__all__ = ["FLOAT32", "Judge", "Lazy", "as_stored"]


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
    """A layer as the definition's nets have it; one of a user's own by its base class, or by what it does."""
    kind = next((as_spec.KINDS[cls] for cls in type(layer).__mro__ if cls in as_spec.KINDS), "")
    return as_spec.layer_of(
        layer, kind or ("linear" if layer.takes_weight else "norm" if layer.normalizes else "join")
    )


def exponents(record: Record) -> dict[str, Any]:
    """'layer/e2' -> what has its exponent: the sum of those of e1's and of gammaq's codes."""
    held = {event.name: event.result for event in record.events}
    out: dict[str, Any] = {}
    for event in record.events:
        parts = [held[at] for path in ("e1", "gammaq") if (at := f"{event.layer}/{path}") in held]
        if event.path == "e2" and len(parts) == 2:  # else `wiring.py` says what was not stored
            exponent = sum(part.exponent for part in parts)
            out[f"{event.layer}/e2"] = types.SimpleNamespace(exponent=exponent)
    return out


class Judge:
    """The definition of one step of a run's method, or of inference after it."""

    def __init__(self, taken: Taken) -> None:
        run, method = taken.run, taken.run.method
        self.seed, self.symbols = run.seed, method.SYMBOLS
        self.layers = {layer.name: described(layer) for layer in run.model.all_layers()}
        self.net = tuple(self.layers.values())
        self.now = Now(run.seed, taken.step, run.steps_per_epoch, taken.inference is not None)
        self.before = dict(taken.before)
        self.module = as_spec.definition_of(type(method))
        self.settings: Any = None
        if self.module is not None:
            self.settings = as_spec.settings_of(self.module, method.name, method.settings())
        self.exponents = exponents(taken.record)
        self.seen = {event.name for event in taken.record.events}
        self.state = {name: as_stored(value) for name, value in self.before.items()}

    @cached_property
    def rules(self) -> Any:
        """The definition's step on the state ahead of it; NotSpecified where the method names none."""
        return self.fresh(self.state)

    def fresh(self, state: Mapping[str, Words | Floats]) -> Any:
        """The definition's step on another state; NotSpecified of a net that the definition does not take."""
        if self.module is None:
            raise NotSpecified("the method names no spec")
        try:
            made = self.module.Step(self.net, self.settings, dict(state), self.now)
        except ValueError as error:
            raise NotSpecified(str(error)) from None
        made.tensors.update(self.exponents)
        return made

    def equation(self, layer: str, path: str) -> str:
        """As the method's paper writes a path."""
        return symbol_of(self.symbols, layer, path, self.seen).formula

    def format_of(self, layer: str, path: str, value: Any = None) -> Any:
        """The definition's format of a path; FLOAT32, or None: as it comes.

        value: what comes; WAGEUBN's batch norm takes an e1 that is no codes yet as an e0 (`Step.error`)
        """
        tape = self._packed(path)
        if tape is not None:
            return tape.format_of(self.layers[layer], path, self.now.epoch)
        found = self.rules.format_of(self.layers[layer], path)
        if found is None and path == "e1" and self.layers[layer].kind == "norm":
            known = value is None or isinstance(value, QTensor | np.ndarray)
            return None if known else self.rules.format_of(self.layers[layer], "e0")
        return found

    def stream_of(self, layer: str, path: str) -> str | None:
        """The stream of a path that is rounded at random."""
        tape = self._packed(path)
        of = self.layers[layer]
        found: str | None = (
            self.rules.stream_of(of, path) if tape is None else tape.stream_of(of, path, self.now.epoch)
        )
        return found

    def mode_of(self, layer: str, path: str) -> Mode:
        """What a path that has no stream is rounded by."""
        found: Mode = "ties_even" if self._packed(path) else self.rules.mode_of(self.layers[layer], path)
        return found

    def _packed(self, path: str) -> Any:
        """The definition's `Packing` of x0s, x1s or x3s; None of other paths."""
        return getattr(self.settings, "packing", None) if path in ("x0s", "x1s", "x3s") else None


def numbers(stored: Any) -> list[Fraction]:
    """The exact values of a tensor of the definition's, or of its state."""
    value = value_of(stored) if isinstance(stored, Words | Floats) else stored
    return [Fraction(v) for v in (value.real() if isinstance(value, Fixed) else value).values]
