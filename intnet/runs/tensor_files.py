"""Files of named float tensors, as PyTorch users keep state dicts: .npz and .safetensors, read and written.

    with opened("resnet50.safetensors") as found:   # name -> Stored: type and shape, no numbers yet
        found["fc.weight"].read()                   # (float32, how many were rounded to it)
    save("out.npz", {"fc.weight": array})

    .npz           of `numpy.savez` or `savez_compressed`; nothing in it is ever unpickled
    .safetensors   a length (8 bytes, little-endian), a JSON header of so many bytes, little-endian buffers

Types: F16, BF16, F32, F64. Headers are checked before anything is read by them, and a tensor takes memory
only when it is read. Every failure is a DataError that says what is wrong with which file. What of a file
fits a model: `runs/state_dicts.py`.
"""

import json
import math
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

from intnet.errors import DataError
from intnet.runs import files, records
from intnet.runs.archive import PathLike, check_ends, write_npz

NPZ, SAFETENSORS = SUFFIXES = (".npz", ".safetensors")
MOST_HEADER = 100_000_000  # bytes: the limit of safetensors' own reader
METADATA = "__metadata__"  # of a .safetensors header: texts, no tensor
BFLOAT16 = "BF16"
TYPES = {"F16": np.float16, BFLOAT16: np.uint16, "F32": np.float32, "F64": np.float64}
_ENTRY = {"dtype": str, "shape": [int], "data_offsets": [int]}


@dataclass(frozen=True)
class Stored:
    """A tensor in a file.

    dtype: 'F32', or as the file calls a type that cannot be read; raw: its numbers as they are stored
    """

    dtype: str
    shape: tuple[int, ...]
    raw: Callable[[], np.ndarray]

    def readable(self) -> bool:
        """Whether it has a float type."""
        return self.dtype in TYPES

    def read(self) -> tuple[np.ndarray, int]:
        """(float32, how many were rounded): of F64 alone, infinite where that is beyond float32."""
        values = self.raw()
        if self.dtype == BFLOAT16:
            return (values.astype(np.uint32) << np.uint32(16)).view(np.float32), 0
        with np.errstate(over="ignore"):
            floats = np.asarray(values, np.float32, order="C")
        return floats, int(np.count_nonzero((floats != values) & ~np.isnan(values)))


# -- reading -----------------------------------------------------------------------------------


@contextmanager
def opened(path: PathLike) -> Iterator[dict[str, Stored]]:
    """The tensors of a file by name, readable as long as it is open."""
    path = Path(path)
    suffix = suffix_of(path)
    try:
        stream = open(path, "rb")  # noqa: SIM115 (closed below; only opening it fails like this)
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file: check the path") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
    with stream:
        yield _read_header(path, stream) if suffix == SAFETENSORS else _members(path, stream)


def suffix_of(path: PathLike) -> str:
    """The kind of a file to read by its name; DataError for another one."""
    return _suffix(
        path,
        "convert it first, in Python: safetensors.torch.save_file(model.state_dict(), 'model.safetensors')",
    )


def check_writable(path: PathLike) -> None:
    """DataError where a name does not say one of the kinds that are written."""
    _suffix(
        path, f"these two are written; name it {Path(path).stem or 'model'}{SAFETENSORS}, or {NPZ} for NumPy"
    )


def _suffix(path: PathLike, advice: str) -> str:
    suffix = Path(path).suffix
    if suffix not in SUFFIXES:
        raise DataError(f"{path}: neither {NPZ} nor {SAFETENSORS}: {advice}")
    return suffix


def _read_header(path: Path, stream: BinaryIO) -> dict[str, Stored]:
    """Of a .safetensors file: every entry's type, shape and place agree, and the buffers fill the file."""
    size = os.fstat(stream.fileno()).st_size
    head = stream.read(8)
    length = int.from_bytes(head, "little")
    if len(head) < 8 or length > min(size - 8, MOST_HEADER):
        raise DataError(f"{path}: truncated or no .safetensors file: its header does not fit {size:,} bytes")
    try:
        entries = records.parse(stream.read(length))
        if not isinstance(entries, dict):
            raise ValueError("it is no JSON object")
        entries.pop(METADATA, None)
        records.check(entries, {str: _ENTRY}, "header")
        found = {name: _entry(stream, name, entry, 8 + length) for name, entry in entries.items()}
        _check_filled([entry["data_offsets"] for entry in entries.values()], size - 8 - length)
    except ValueError as error:
        raise DataError(f"{path}: damaged .safetensors header: {error}") from None
    return found


def _entry(stream: BinaryIO, name: str, entry: dict[str, Any], start: int) -> Stored:
    shape, (kind, offsets) = tuple(entry["shape"]), (entry["dtype"], entry["data_offsets"])
    _check_text(name, kind)
    if len(offsets) != 2 or not 0 <= offsets[0] <= offsets[1] or min(shape, default=0) < 0:
        raise ValueError(f"{name} has shape {list(shape)} and data_offsets {offsets}")
    elements = math.prod(shape)
    if kind in TYPES and elements * np.dtype(TYPES[kind]).itemsize != offsets[1] - offsets[0]:
        raise ValueError(f"{name}: {kind} {list(shape)} does not take {offsets[1] - offsets[0]:,} bytes")

    def raw() -> np.ndarray:
        stream.seek(start + offsets[0])
        content = stream.read(offsets[1] - offsets[0])
        return np.frombuffer(content, np.dtype(TYPES[kind]).newbyteorder("<")).reshape(shape)

    return Stored(kind, shape, raw)


def _check_text(*texts: str) -> None:
    """ValueError for a text that a terminal would not show as it is: these are printed, and stored."""
    for text in texts:
        if not text.isprintable():
            raise ValueError(f"a name or type with unprintable characters: {ascii(text)[:80]}")


def _check_filled(offsets: list[list[int]], size: int) -> None:
    """ValueError unless the buffers lie one behind another, from the first to the last byte."""
    at = 0
    for begin, end in sorted(offsets):
        if begin != at:
            raise ValueError(f"a buffer begins at byte {begin:,} where {at:,} is expected")
        at = end
    if at != size:
        raise ValueError(f"its buffers take {at:,} bytes, the file has {size:,} for them (truncated?)")


def _members(path: Path, stream: IO[bytes]) -> dict[str, Stored]:
    """The arrays of a .npz file; of each only the header is read."""
    try:
        archive = zipfile.ZipFile(stream)
        check_ends(stream, archive)
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise DataError(f"{path}: truncated or no .npz file ({error})") from None
    found: dict[str, Stored] = {}
    for name in archive.namelist():
        with _named(path, "a member"):
            _check_text(name)
        if not name.endswith(".npy"):
            raise DataError(f"{path}: holds {name}, which is no array: write it with numpy.savez")
        key = name.removesuffix(".npy")
        if key in found:
            raise DataError(f"{path}: holds {key} twice")
        with _named(path, key), archive.open(name) as entry:
            shape, dtype = _npy_header(entry)
        kind = f"F{8 * dtype.itemsize}" if dtype.kind == "f" else dtype.name
        found[key] = Stored(kind, shape, _reader(path, archive, name))
    return found


@contextmanager
def _named(path: Path, name: str) -> Iterator[None]:
    """A DataError that names the array for whatever the standard readers raise on damaged bytes."""
    try:
        yield
    except Exception as error:
        raise DataError(f"{path}: {name} is damaged ({type(error).__name__}: {error})") from None


def _npy_header(entry: IO[bytes]) -> tuple[tuple[int, ...], np.dtype]:
    version = npy.read_magic(entry)
    read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(version)
    if read is None:
        raise ValueError(f"an array of .npy version {version}")
    shape, _, dtype = read(entry)
    return shape, dtype


def _reader(path: Path, archive: zipfile.ZipFile, name: str) -> Callable[[], np.ndarray]:
    def raw() -> np.ndarray:
        with _named(path, name.removesuffix(".npy")), archive.open(name) as entry:
            values: np.ndarray = npy.read_array(entry, allow_pickle=False)
            if entry.read(1):  # to its end, where the checksum is compared
                raise ValueError("bytes after the array")
            return values

    return raw


# -- writing -----------------------------------------------------------------------------------


def save(path: PathLike, tensors: Mapping[str, np.ndarray]) -> None:
    """Write float32 arrays by name, as the file's suffix says; a killed write leaves the old file."""
    path = Path(path)
    check_writable(path)
    write = _write_safetensors if Path(path).suffix == SAFETENSORS else write_npz
    little = {name: np.asarray(array, "<f4", order="C") for name, array in tensors.items()}
    files.replace(path, lambda stream: write(stream, little))


def _write_safetensors(stream: BinaryIO, tensors: Mapping[str, np.ndarray]) -> None:
    header, at = {}, 0
    for name, array in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # so that the buffers are aligned
    stream.write(len(text).to_bytes(8, "little") + text)
    for array in tensors.values():
        stream.write(array.data)
