"""States of the library and of the definition, tensor by tensor: dtype, shape, exponent, every number."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from intnet.numbers.qtensor import QTensor
from intnet.spec.digest import Floats, Words
from intnet.training.state import parts


def stored(value: Any) -> Words | Floats:
    """A QTensor or an array of floats as the definition's."""
    array, exponent = parts(value)
    numbers = array.reshape(-1).tolist()
    if isinstance(value, QTensor):
        assert isinstance(exponent, int)
        return Words(array.dtype.name, array.shape, numbers, int(exponent))
    if array.dtype.name == "float32":
        numbers = [Fraction(v) for v in numbers]
    return Floats(array.dtype.name, array.shape, numbers)


def state_of(run: Any) -> dict[str, Words | Floats]:
    """The state of a run of the library as the definition's."""
    return {name: stored(value) for name, value in run.state().items()}


def state_differences(got: dict[str, Words | Floats], want: dict[str, Words | Floats]) -> list[str]:
    """The names of all that differ, or that one world lacks."""
    return [f"state {name}" for name in sorted(got.keys() | want.keys()) if got.get(name) != want.get(name)]
