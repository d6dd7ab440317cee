"""A program as one checked file, model.npz: packed words, and nothing else that a device would need.

    bytes_ = save("run/model.npz", program)
    program = load("run/model.npz")

`words/PLACE/NAME` are the codes of a tensor in two's complement, each as wide as the widest needs
(`bitpack.py`; codes beyond 32 bits as int64), or float32 as it is, of 0 bits. The description has the
operations with all that is no tensor. A file is believed once its hash holds; then every shape and interval
is derived anew, as of a program that was just traced.
"""

import dataclasses
from types import NoneType
from typing import Any

import numpy as np

from intnet.errors import CheckpointError, IntnetError
from intnet.export.program import OPS, Program
from intnet.export.values import Op, bits_of
from intnet.numbers import bitpack
from intnet.runs import archive, records
from intnet.runs.archive import Arrays, PathLike

KIND = archive.Kind(
    "integer model", "intnet integer program", 1, "write it again: intnet export RUN --to npz"
)
WIDEST = 32  # bits of a packed word
FLOATS = ("norm", "plus")  # operations that have constants in float32
PAIRS = ("stride", "padding", "kernel", "shifts", "reads", "shape")  # tuples, which JSON has as lists

_TENSOR = {"shape": [int], "bits": int}
_ABOUT = {
    "model": str, "data": str, "classes": int, "steps": int, "state_sha256": str,
    "batch_norm": (str, NoneType),
}  # fmt: skip
_FIELD = (str, int, bool, NoneType, [int])
_DESCRIPTION = {"about": _ABOUT, "ops": [{"kind": str, "fields": {str: _FIELD}, "tensors": {str: _TENSOR}}]}


def save(path: PathLike, program: Program) -> int:
    """Write the file; the bytes of its words."""
    arrays: Arrays = {}
    ops = []
    for place, op in enumerate(program.ops):
        fields = {f.name: getattr(op, f.name) for f in dataclasses.fields(op)}
        tensors = {name: v for name, v in fields.items() if isinstance(v, np.ndarray)}
        told = {}
        for name, codes in tensors.items():
            arrays[f"words/{place}/{name}"], bits = _packed(codes)
            told[name] = {"shape": list(codes.shape), "bits": bits}
        kind = next(kind for kind, cls in OPS.items() if cls is type(op))
        ops.append(
            {"kind": kind, "fields": {k: v for k, v in fields.items() if k not in tensors}, "tensors": told}
        )
    archive.save(path, KIND, arrays, {"about": program.about, "ops": ops})
    return _bytes(arrays)


def load(path: PathLike) -> tuple[Program, int]:
    """The program of a file, and the bytes of its words; CheckpointError says what is wrong, what to do."""
    arrays, description = archive.load(path, KIND)
    try:
        records.check(description, _DESCRIPTION, "its description")
        ops = [_op(place, told, arrays) for place, told in enumerate(description["ops"])]
        program = Program(tuple(ops), description["about"])
        if len(arrays) != sum(len(told["tensors"]) for told in description["ops"]):
            raise ValueError("arrays that belong to no operation")
    except (ValueError, KeyError, TypeError, AttributeError, IntnetError) as error:
        raise CheckpointError(f"{path}: not a model of this intnet ({error}): {KIND.advice}") from None
    return program, _bytes(arrays)


def _op(place: int, told: dict[str, Any], arrays: Arrays) -> Op:
    fields: dict[str, Any] = {k: tuple(v) if k in PAIRS else v for k, v in told["fields"].items()}
    if told["kind"] not in FLOATS and any(tensor["bits"] == 0 for tensor in told["tensors"].values()):
        raise ValueError(f"float32 in operation {place}, of kind {told['kind']}")
    for name, tensor in told["tensors"].items():
        fields[name] = _unpacked(arrays[f"words/{place}/{name}"], tensor)
    return OPS[told["kind"]](**fields)


def _packed(codes: np.ndarray) -> tuple[np.ndarray, int]:
    if codes.dtype == np.float32:
        return codes.reshape(-1), 0
    bits = bits_of(codes)
    return (bitpack.pack(codes, bits), bits) if bits <= WIDEST else (codes.reshape(-1).astype(np.int64), 64)


def _unpacked(words: np.ndarray, tensor: dict[str, Any]) -> np.ndarray:
    shape = tuple(tensor["shape"])
    if tensor["bits"] == 0:
        if words.dtype != np.float32:
            raise ValueError(f"words of {words.dtype}, not of float32")
        return words.reshape(shape)
    if tensor["bits"] <= WIDEST:
        words = bitpack.unpack(words, tensor["bits"], int(np.prod(shape)))
    elif words.dtype != np.int64:
        raise ValueError(f"words of {words.dtype}, not of int64")
    return words.astype(np.int64).reshape(shape)


def _bytes(arrays: Arrays) -> int:
    return sum(array.nbytes for array in arrays.values())
