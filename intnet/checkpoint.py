"""Checkpoints: a state (named QTensors and float32 arrays) and its description in one checked file.

    save("run/checkpoint.npz", run.state(), {"step": run.step})
    state, meta = load("run/checkpoint.npz")

The file is an uncompressed .npz that `numpy.load` reads without pickle:

    meta.json       uint8, UTF-8 JSON: format, version, meta, tensors, state_sha256, sha256
    state/NAME      the codes of a QTensor (an integer type) or a float32 array
    exponent/NAME   the exponents of a QTensor that has an array of them

`tensors` gives type, shape, exponent and bound of every state tensor, so that a loaded one is what
was saved; `state_sha256` is `state.digest`; `sha256` covers every array and the JSON without that
field. Equal states give equal bytes: nothing in the file depends on when or where it was written.
Nothing of a file is believed before its hashes hold: every failure is a CheckpointError.
"""

import hashlib
import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

from intnet import files
from intnet.errors import CheckpointError
from intnet.qtensor import CODE_TYPES, QTensor, max_abs
from intnet.state import State, digest

FORMAT, VERSION = "intnet checkpoint", 1
META = "meta.json"
ADVICE = "use another checkpoint, or train again"

Arrays = dict[str, np.ndarray]


# -- saving ------------------------------------------------------------------------------------


def save(path: str | os.PathLike[str], state: State, meta: dict[str, Any]) -> None:
    """Write `state` and `meta` (what JSON can hold) to `path`; a killed write leaves the old file."""
    arrays, tensors = _pack(state)
    description = {
        "format": FORMAT,
        "version": VERSION,
        "meta": meta,
        "tensors": tensors,
        "state_sha256": digest(state),
    }
    description["sha256"] = _sha256(arrays, description)
    text = np.frombuffer(_json(description), np.uint8)
    files.replace(Path(path), lambda stream: _write(stream, {META: text, **arrays}))


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
        elif codes.dtype != np.float32:
            raise CheckpointError(f"{name}: a state holds QTensors and float32 arrays, not {codes.dtype}")
        arrays[f"state/{name}"] = codes
        tensors[name] = entry
    return arrays, tensors


def _write(stream: BinaryIO, arrays: Arrays) -> None:
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            member = zipfile.ZipInfo(f"{name}.npy")  # dated 1980: the bytes do not depend on the time
            with archive.open(member, "w", force_zip64=True) as entry:
                npy.write_array(entry, np.asarray(_little(array), order="C"), allow_pickle=False)


def _little(array: np.ndarray) -> np.ndarray:
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def _json(description: dict[str, Any]) -> bytes:
    return json.dumps(description, sort_keys=True, ensure_ascii=False).encode()


def _sha256(arrays: Arrays, description: dict[str, Any]) -> str:
    """Over 'name type shape' and bytes of every array in order of names, then the JSON."""
    sha = hashlib.sha256()
    for name in sorted(arrays):
        array = _little(arrays[name])
        sha.update(f"{name} {array.dtype.str} {list(array.shape)}\n".encode())
        sha.update(array.tobytes())
    sha.update(_json(description))
    return sha.hexdigest()


# -- loading -----------------------------------------------------------------------------------


def load(path: str | os.PathLike[str]) -> tuple[State, dict[str, Any]]:
    """(state, meta) as they were saved; CheckpointError names the file, what is wrong and what to do."""
    path = Path(path)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise CheckpointError(f"{path}: there is no such checkpoint: check the path") from None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror or error})") from error
    if not content:
        raise CheckpointError(f"{path}: the file is empty: {ADVICE}")
    arrays, description = _read(path, content)
    sha256 = description.pop("sha256", None)
    if sha256 != _sha256(arrays, description):
        raise CheckpointError(f"{path}: altered: its SHA-256 is not the one it was saved with: {ADVICE}")
    state = {name: _unpack(path, name, entry, arrays) for name, entry in description["tensors"].items()}
    exponents = [entry for entry in description["tensors"].values() if entry.get("exponent") == "array"]
    if len(arrays) != len(state) + len(exponents):
        raise CheckpointError(f"{path}: holds arrays that belong to no tensor of its list: {ADVICE}")
    if digest(state) != description["state_sha256"]:
        raise CheckpointError(f"{path}: the digest of its state is not the one it names: {ADVICE}")
    return state, description["meta"]


def _read(path: Path, content: bytes) -> tuple[Arrays, dict[str, Any]]:
    """All arrays but meta.json, and meta.json, of one of our files of our version."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            # Stored entries are as long as they say: no small file unpacks to a huge one.
            packed = any(item.compress_type != zipfile.ZIP_STORED for item in archive.infolist())
            names = archive.namelist()
            if f"{META}.npy" not in names or packed:
                raise CheckpointError(f"{path}: not a checkpoint of intnet but another .npz or zip file")
            arrays = {name.removesuffix(".npy"): _array(archive.read(name)) for name in names}
        description = json.loads(arrays.pop(META).tobytes())
        kind, version = description["format"], description["version"]
    except CheckpointError:
        raise
    # What the standard readers raise on damaged bytes is no closed list.
    except Exception as error:
        raise CheckpointError(
            f"{path}: truncated, damaged or not a checkpoint ({type(error).__name__}: {error}): {ADVICE}"
        ) from error
    if kind != FORMAT:
        raise CheckpointError(f"{path}: not a checkpoint of intnet: its format is {kind!r}")
    if version != VERSION:
        raise CheckpointError(
            f"{path}: a checkpoint of version {version}, this intnet reads version {VERSION}: "
            "use the intnet that wrote it"
        )
    return arrays, description


def _array(content: bytes) -> np.ndarray:
    """The array of one .npy entry; the header cannot make it larger than the entry is."""
    stream = io.BytesIO(content)
    if npy.read_magic(stream) != (1, 0):
        raise ValueError("an array of another .npy version")
    shape, fortran, dtype = npy.read_array_header_1_0(stream)
    if fortran or dtype.kind not in "iuf":
        raise ValueError(f"an array of {dtype}" + " in Fortran order" * fortran)
    return np.frombuffer(content, dtype, offset=stream.tell()).reshape(shape)


def _unpack(path: Path, name: str, entry: dict[str, Any], arrays: Arrays) -> Any:
    """The QTensor or float32 array `name`, writable and in native byte order."""
    array = arrays.get(f"state/{name}")
    if array is None or array.dtype.name != entry["dtype"] or list(array.shape) != entry["shape"]:
        have = "missing" if array is None else f"{array.dtype.name} {list(array.shape)}"
        expected = f"{entry['dtype']} {entry['shape']}"
        raise CheckpointError(f"{path}: {name} should be {expected}, it is {have}: {ADVICE}")
    array = array.astype(array.dtype.newbyteorder("="))
    if "exponent" not in entry:
        if array.dtype != np.float32:
            raise CheckpointError(f"{path}: {name} is {array.dtype} without an exponent: {ADVICE}")
        return array
    if array.dtype not in CODE_TYPES or entry["bound"] < max_abs(array):
        raise CheckpointError(f"{path}: {name}: its {array.dtype} codes do not fit their bound: {ADVICE}")
    exponent = arrays[f"exponent/{name}"] if entry["exponent"] == "array" else entry["exponent"]
    return QTensor(array, exponent, bound=entry["bound"])
