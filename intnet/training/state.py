"""State of a training run as named tensors, and its digest.

A state is what `Run.state` gives: every parameter, optimizer word, running statistic and what the method
remembers, as QTensors or arrays of floats. The digest is SHA-256 over all of them, so two runs agree
exactly when their digests do.
"""

import hashlib
from typing import Any

import numpy as np

from intnet.errors import ConfigError, NumberError, ShapeError
from intnet.methods.method import Method
from intnet.models.model import Model
from intnet.numbers.qtensor import QTensor

State = dict[str, Any]
FLOATS = (np.float32, np.float64)
METHOD_STATE = "method/"  # leads the names of `Method.state` in a run's state


def digest(state: State) -> str:
    """Hex SHA-256 over all tensors in order of their names.

    Of each: the line 'name dtype shape exponent' in UTF-8, a newline, and the little-endian bytes of
    its codes or floats in C order. The exponent of a float tensor is written '-', an array of exponents
    as 'shape:e,e,...'.

    Defined by `spec/digest.py: digest`.
    """
    sha = hashlib.sha256()
    for name in sorted(state):
        array, exponent = parts(state[name])
        sha.update(f"{name} {array.dtype.name} {_by(array.shape)} {_exponent(exponent)}\n".encode())
        sha.update(np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False)).tobytes())
    return sha.hexdigest()


def parts(value: Any) -> tuple[np.ndarray, int | np.ndarray | None]:
    """(codes, exponent) of a QTensor, (array, None) of an array of floats."""
    if isinstance(value, QTensor):
        return value.codes, value.exponent
    return value, None


def _by(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def _exponent(exponent: int | np.ndarray | None) -> str:
    if isinstance(exponent, np.ndarray):
        return f"{_by(exponent.shape)}:{','.join(str(int(e)) for e in exponent.flat)}"
    return "-" if exponent is None else str(exponent)


def check_state(state: State) -> None:
    """NumberError naming the first tensor that no checkpoint holds: a NaN, an infinity, another type."""
    for name, value in state.items():
        floats = isinstance(value, np.ndarray) and value.dtype in FLOATS
        if not floats and not isinstance(value, QTensor):
            told = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
            if isinstance(value, np.generic | int | float):
                told += ", a number, no array (np.asarray(..) makes one)"
            raise NumberError(f"{name} is {told}: a state holds QTensors and arrays of float32 or float64")
        if floats and not np.all(np.isfinite(value)):
            index = tuple(int(i) for i in np.argwhere(~np.isfinite(value))[0])
            raise NumberError(
                f"{name} holds a NaN or infinity at index {index}, which no state can go on from"
            )


def check_left(model: Model, method: Method, step: int) -> None:
    """What a step leaves, by a method of a user's own too: it was counted; the first one, so that no hours
    are lost, left parameters of their shapes and a state that files hold.

    ConfigError, ShapeError, NumberError.
    """
    if method.step != step + 1:
        raise ConfigError(
            f"method {method.name!r}: step {step + 1} was not counted: its end_of_step calls "
            "super().end_of_step()"
        )
    if step:
        return
    for name, _, parameter in model.all_parameters():
        if (found := getattr(parameter.value, "shape", None)) != parameter.shape:
            raise ShapeError(f"{name} is of shape {found} after its update, before it {parameter.shape}")
        if getattr(parameter.value, "dtype", np.float32) != np.float32:
            raise NumberError(f"{name} is {parameter.value.dtype} after its update, not float32")
    check_state(model.state_dict() | {f"{METHOD_STATE}{name}": value for name, value in method.state.items()})
