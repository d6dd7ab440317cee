"""Checked files of arrays: named arrays and a JSON description in one .npz, under one SHA-256.

    save(path, KIND, {"codes": array}, {"made": "by me"})
    arrays, description = load(path, KIND)

The file is an uncompressed .npz that `numpy.load` reads without pickle; `meta.json` (uint8, UTF-8 JSON) has
the description with `format`, `version`, `definition` (`definition.py`) and `sha256`, which covers all arrays
and the JSON without that field. Equal contents give equal bytes: nothing depends on when or where it was
written. Nothing of a file is believed before its hash holds: every failure is a CheckpointError. Used by
`runs/checkpoint.py` and `runs/fixed_model.py`.
"""

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

from intnet.errors import CheckpointError
from intnet.runs import definition, files

META = "meta.json"
_LAST, _LAST_BYTES = b"PK\5\6", 18  # how a zip file's last record begins, what follows but for its comment

Arrays = dict[str, np.ndarray]
PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class Kind:
    """What a file is: its name in errors, its `format` and `version`, and what to do about a bad one."""

    name: str
    format: str
    version: int
    advice: str


# -- saving ------------------------------------------------------------------------------------


def save(path: PathLike, kind: Kind, arrays: Arrays, description: dict[str, Any]) -> None:
    """Write `arrays` and `description` (what JSON can hold) to `path`; a killed write leaves the old file."""
    head = {"format": kind.format, "version": kind.version, "definition": definition.VERSION}
    description = head | description
    description["sha256"] = _sha256(arrays, description)
    text = np.frombuffer(_json(description), np.uint8)
    little = {name: _little(array) for name, array in ({META: text} | arrays).items()}
    files.replace(Path(path), lambda stream: write_npz(stream, little))


def write_npz(stream: BinaryIO, arrays: Mapping[str, np.ndarray]) -> None:
    """An uncompressed .npz of little-endian arrays: equal arrays give equal bytes."""
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            member = zipfile.ZipInfo(f"{name}.npy")  # dated 1980: the bytes do not depend on the time
            with archive.open(member, "w", force_zip64=True) as entry:
                npy.write_array(entry, np.asarray(array, order="C"), allow_pickle=False)


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


def load(path: PathLike, kind: Kind) -> tuple[Arrays, dict[str, Any]]:
    """(arrays, description) as they were saved; CheckpointError names the file, what is wrong, what to do."""
    path = Path(path)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise CheckpointError(f"{path}: there is no such {kind.name}: check the path") from None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror or error})") from error
    if not content:
        raise CheckpointError(f"{path}: the file is empty: {kind.advice}")
    arrays, description = _read(path, kind, content)
    sha256 = description.pop("sha256", None)
    if sha256 != _sha256(arrays, description):
        raise CheckpointError(f"{path}: altered: its SHA-256 is not the one it was saved with: {kind.advice}")
    return arrays, description


def told(path: PathLike) -> dict[str, Any]:
    """What a file says of itself, not checked; nothing of one that is none of ours."""
    try:
        with zipfile.ZipFile(path) as archive:
            return dict(json.loads(_array(archive.read(f"{META}.npy")).tobytes()))
    except Exception:  # what the standard readers raise on damaged bytes is no closed list
        return {}


def _read(path: Path, kind: Kind, content: bytes) -> tuple[Arrays, dict[str, Any]]:
    """All arrays but meta.json, and meta.json, of one of our files of our version."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            check_ends(io.BytesIO(content), archive)
            # Stored entries are as long as they say: no small file unpacks to a huge one.
            packed = any(item.compress_type != zipfile.ZIP_STORED for item in archive.infolist())
            names = archive.namelist()
            if f"{META}.npy" not in names or packed:
                raise CheckpointError(f"{path}: not a {kind.name} of intnet but another .npz or zip file")
            arrays = {name.removesuffix(".npy"): _array(archive.read(name)) for name in names}
        description = json.loads(arrays.pop(META).tobytes())
        found, version = description["format"], description["version"]
    except CheckpointError:
        raise
    # What the standard readers raise on damaged bytes is no closed list.
    except Exception as error:
        raise CheckpointError(
            f"{path}: truncated, damaged or not a {kind.name} ({type(error).__name__}: {error}): "
            f"{kind.advice}"
        ) from error
    if found != kind.format:
        raise CheckpointError(f"{path}: not a {kind.name} of intnet: its format is {found!r}")
    if version != kind.version:
        raise CheckpointError(
            f"{path}: a {kind.name} of version {version}, this intnet reads version {kind.version}: "
            "use the intnet that wrote it"
        )
    if other := definition.difference(description.get("definition")):
        raise CheckpointError(f"{path}: a {kind.name} {other}")
    return arrays, description


def check_ends(stream: IO[bytes], archive: zipfile.ZipFile) -> None:
    """ValueError where the file has bytes ahead of its first entry, or after its end: readers skip them."""
    if min((item.header_offset for item in archive.infolist()), default=0) > 0:
        raise ValueError("bytes ahead of its first array")
    stream.seek(-len(_LAST) - _LAST_BYTES - len(archive.comment), os.SEEK_END)
    if stream.read(len(_LAST)) != _LAST:
        raise ValueError("bytes after its end")


def _array(content: bytes) -> np.ndarray:
    """The array of one .npy entry; the header cannot make it larger than the entry is."""
    stream = io.BytesIO(content)
    if npy.read_magic(stream) != (1, 0):
        raise ValueError("an array of another .npy version")
    shape, fortran, dtype = npy.read_array_header_1_0(stream)
    if fortran or dtype.kind not in "iuf":
        raise ValueError(f"an array of {dtype}" + " in Fortran order" * fortran)
    return np.frombuffer(content, dtype, offset=stream.tell()).reshape(shape)
