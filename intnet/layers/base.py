"""What every layer is: children, parameters, buffers, and a method's hooks on its data paths."""

import re
from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import numpy as np

from intnet import ops
from intnet.autograd import Keep, Tensor, leaf
from intnet.errors import ConfigError, IntnetError, ShapeError
from intnet.methods.method import Method, Parameter
from intnet.show.tables import Column, Shown, Table, numbers

Pair = tuple[int, int]


def pair(value: int | Pair, what: str = "size", least: int = 1) -> Pair:
    """(v, v) for one number; ShapeError unless both are whole numbers of at least `least`."""
    both = tuple(value) if isinstance(value, tuple | list) else (value, value)
    if len(both) != 2 or not all(isinstance(v, int) and v >= least for v in both):
        raise ShapeError(f"{what} = {value!r}: give a whole number of at least {least}, or two")
    return both[0], both[1]


def _holds(value: Any) -> bool:
    """Whether it is a layer, or has one in it."""
    if isinstance(value, dict):
        value = tuple(value.values())
    return isinstance(value, Layer) or (isinstance(value, tuple | list) and any(map(_holds, value)))


class Layer(Shown):
    """Base: named children in the order of their definition, parameters, buffers.

    `name` is the dotted path from the model (set by `Model`); `edge` is 'first' or 'last' for the outer
    weight layers, else ''; `first_block`: of the first weight layer, of the batch norm after it, where one
    is, and of the activation after them; `buffers` are tensors that are state but not trained.
    """

    takes_weight = False  # a matrix product with its parameters
    normalizes = False  # by statistics of the batch
    stores = True  # it has data paths of its own, on which a method puts values
    derivative = ""  # of an activation: what it is made from, 'mask', 'x3' or 'x4'

    def __init__(self) -> None:
        self.name = ""
        self.edge = ""
        self.first_block = False
        self.parameters: list[Parameter] = []
        self.buffers: dict[str, Any] = {}
        self.reads = 0  # reads of its parameters in one pass of the model
        self.calls = 0  # in one pass of the model
        self.output_shape: tuple[int, ...] = ()  # of the last pass

    def children(self) -> Iterator[tuple[str, "Layer"]]:
        """(attribute, layer) in order of definition; a list of layers counts its items."""
        for attribute, value in vars(self).items():
            if isinstance(value, Layer):
                yield attribute, value
            elif isinstance(value, list) and value and all(isinstance(item, Layer) for item in value):
                yield from ((f"{attribute}.{i}", item) for i, item in enumerate(value))

    def check_children(self, name: str) -> None:
        """ConfigError for layers that stand where `children` does not look."""
        for attribute, value in vars(self).items():
            if attribute.startswith("_") or not isinstance(value, tuple | list | dict):
                continue
            if any(map(_holds, value.values() if isinstance(value, dict) else value)) and not (
                isinstance(value, list) and all(isinstance(item, Layer) for item in value)
            ):
                raise ConfigError(
                    f"{type(self).__name__} {name}: layers in the {type(value).__name__} {attribute} would "
                    "have no names: give each as an attribute, or all in a list of layers alone"
                )

    def walk(self, name: str = "") -> Iterator[tuple[str, "Layer"]]:
        """(dotted name, layer) of this layer and all below it, depth first."""
        yield name, self
        for attribute, child in self.children():
            yield from child.walk(f"{name}.{attribute}" if name else attribute)

    def __call__(self, x: Tensor, method: Method, *others: Tensor) -> Tensor:
        """`forward`, whose errors name this layer; others: what it reads beside x (`layers/joints.py`)."""
        try:
            y = self.forward(x, method, *others)
        except IntnetError as error:
            told = str(error)
            if re.search(rf"(^|\s){re.escape(self.name)}\b", told):  # by an operation, or by a layer in it
                raise
            raise type(error)(f"{self.name}: {told}") from error
        self.calls += 1
        self.output_shape = y.value.shape
        return y

    def forward(self, x: Tensor, method: Method) -> Tensor:
        """The layer's output under a method."""
        raise NotImplementedError(f"{type(self).__name__} defines no forward")

    def __repr__(self) -> str:
        """'Conv2d(conv1: weight 16x1x3x3)', of a layer with others in it their number."""
        own = ", ".join(f"{p.name} {'x'.join(map(str, p.shape))}" for p in self.parameters)
        inside = sum(1 for _ in self.walk()) - 1
        told = own or (f"{inside} layers" if inside else "")
        name = f"{self.name}: " if self.name and told else self.name
        return f"{type(self).__name__}({name}{told})"

    def summary(self) -> Table:
        """Each layer that has no others in it: kind, shape of an output of the last pass, parameters."""
        rows: list[tuple[str, str, str | None, int]] = []
        for name, layer in self.walk(self.name):
            if not any(layer.children()):
                shape = "x".join(map(str, layer.output_shape[1:])) or None
                count = sum(prod(p.shape) for p in layer.parameters)
                rows.append((name or "-", type(layer).__name__, shape, count))
        rows.append(("all", "", "", sum(row[-1] for row in rows)))
        columns = [Column(name, right=False) for name in ("layer", "kind", "output")]
        return Table(repr(self), [*columns, *numbers("parameters", spec=",")], rows)

    def read(self, parameter: Parameter, method: Method) -> Tensor:
        """The forward copy of a parameter; its gradient goes through the method on the way back."""
        self.reads += parameter is self.parameters[0]
        value = parameter.value
        source = leaf(value, of=parameter) if method.training else Tensor(value)

        def forward(_: Any) -> Any:
            made = method.weight(self, parameter)
            if made is parameter.value:  # of a folded batch norm there is none
                return made
            return self._checked(method, "weight", parameter.name, parameter.shape, made)

        def backward(g: Any) -> Any:
            made = method.gradient(self, parameter, g)
            return self._checked(method, "gradient", parameter.name, parameter.shape, made)

        return ops.cast(source, forward=forward, backward=backward)

    def keeper(self, method: Method, path: str) -> Keep:
        """What the tape holds of this layer's value on `path`, by the method."""
        return lambda value: method.save(self, path, value)

    def on_path(self, x: Tensor, method: Method, path: str | None, back: str | None) -> Tensor:
        """x with the method's activation hook on `path` and its error hook on `back`."""

        def hooked(name: str, path: str | None) -> Callable[[Any], Any]:
            if path is None:
                return lambda value: value
            hook = getattr(method, name)
            return lambda value: self._checked(method, name, path, value.shape, hook(self, path, value))

        return ops.cast(x, forward=hooked("activation", path), backward=hooked("error", back))

    def _checked(self, method: Method, hook: str, path: str, shape: tuple[int, ...], made: Any) -> Any:
        """What a hook made; ShapeError where it is nothing, of another shape or of another type than float32.

        What has no shape is the method's own: two copies for two products.
        """
        found = None if made is None else getattr(made, "shape", shape)
        plain = not isinstance(made, np.ndarray | np.generic | float | int)
        if found == shape and (plain or getattr(made, "dtype", None) == np.float32):
            return made
        kind = made.dtype if isinstance(made, np.ndarray) else type(made).__name__
        told = "nothing" if made is None else f"{kind} of shape {found}"
        raise ShapeError(
            f"method {method.name!r}: {hook} of {self.name}, {path}, returned {told}: it was given shape "
            f"{shape}, and hands on codes or float32 of the same"
        )
