"""Checkpoints: a state (named QTensors and arrays of floats) and its description in one checked file.

    save("run/checkpoint.npz", run.state(), {"step": run.step})
    state, meta = load("run/checkpoint.npz")

The file (`runs/archive.py`) holds, beside its description:

    state/NAME      the codes of a QTensor (an integer type) or an array of floats
    exponent/NAME   the exponents of a QTensor that has an array of them

The description's `tensors` gives type, shape, exponent and bound of every state tensor, so that a loaded one
is what was saved; `state_sha256` is `state.digest`; `meta` is the caller's. When a run saves one:
`run_folder.py: RunFolder.train`.
"""

from pathlib import Path
from typing import Any

import numpy as np

from intnet.errors import CheckpointError
from intnet.numbers.qtensor import CODE_TYPES, QTensor, max_abs
from intnet.runs import archive
from intnet.runs.archive import Arrays, PathLike
from intnet.training.state import FLOATS, State, digest

ADVICE = "use another checkpoint, or train again"
KIND = archive.Kind("checkpoint", "intnet checkpoint", 1, ADVICE)


def save(path: PathLike, state: State, meta: dict[str, Any]) -> None:
    """Write `state` and `meta` (what JSON can hold) to `path`; a killed write leaves the old file."""
    arrays, tensors = _pack(state)
    archive.save(path, KIND, arrays, {"meta": meta, "tensors": tensors, "state_sha256": digest(state)})


def _pack(state: State) -> tuple[Arrays, dict[str, Any]]:
    """(arrays of the file, entry of `tensors`) of every tensor of the state."""
    arrays: Arrays = {}
    tensors = {}
    for name in sorted(state):
        value = state[name]
        codes = value.codes if isinstance(value, QTensor) else value
        entry: dict[str, Any] = {"dtype": codes.dtype.name, "shape": list(codes.shape)}
        if isinstance(value, QTensor):
            several = isinstance(value.exponent, np.ndarray)
            entry |= {"exponent": "array" if several else value.exponent, "bound": int(value.bound)}
            if several:
                arrays[f"exponent/{name}"] = value.exponent  # type: ignore[assignment]
        elif codes.dtype not in FLOATS:
            raise CheckpointError(f"{name}: a state holds QTensors, float32 and float64, not {codes.dtype}")
        arrays[f"state/{name}"] = codes
        tensors[name] = entry
    return arrays, tensors


def load(path: PathLike) -> tuple[State, dict[str, Any]]:
    """(state, meta) as they were saved; CheckpointError names the file, what is wrong and what to do."""
    path = Path(path)
    arrays, description = archive.load(path, KIND)
    state = {name: _unpack(path, name, entry, arrays) for name, entry in description["tensors"].items()}
    exponents = [entry for entry in description["tensors"].values() if entry.get("exponent") == "array"]
    if len(arrays) != len(state) + len(exponents):
        raise CheckpointError(f"{path}: holds arrays that belong to no tensor of its list: {ADVICE}")
    if digest(state) != description["state_sha256"]:
        raise CheckpointError(f"{path}: the digest of its state is not the one it names: {ADVICE}")
    return state, description["meta"]


def _unpack(path: Path, name: str, entry: dict[str, Any], arrays: Arrays) -> Any:
    """The QTensor or array of floats `name`, writable and in native byte order."""
    array = arrays.get(f"state/{name}")
    if array is None or array.dtype.name != entry["dtype"] or list(array.shape) != entry["shape"]:
        have = "missing" if array is None else f"{array.dtype.name} {list(array.shape)}"
        expected = f"{entry['dtype']} {entry['shape']}"
        raise CheckpointError(f"{path}: {name} should be {expected}, it is {have}: {ADVICE}")
    array = array.astype(array.dtype.newbyteorder("="))
    if "exponent" not in entry:
        if array.dtype not in FLOATS:
            raise CheckpointError(f"{path}: {name} is {array.dtype} without an exponent: {ADVICE}")
        return array
    if array.dtype not in CODE_TYPES or entry["bound"] < max_abs(array):
        raise CheckpointError(f"{path}: {name}: its {array.dtype} codes do not fit their bound: {ADVICE}")
    exponent = arrays[f"exponent/{name}"] if entry["exponent"] == "array" else entry["exponent"]
    return QTensor(array, exponent, bound=entry["bound"])
