"""IDX files, the format of MNIST and its kin: checked on the way in, plain or gzip'd.

Format: 00 00, element type (08 = unsigned byte), number of dimensions d, d sizes as big-endian uint32,
then the elements in C order and nothing after them.
"""

import gzip
import hashlib
import os
import zlib
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from intnet.errors import DataError

_CHUNK = 1 << 20


def read_idx(path: str | os.PathLike[str], sha256: str | None = None) -> np.ndarray:
    """The uint8 array of an IDX file of unsigned bytes, plain or gzip'd (told by content, not by name).

    Format: 00 00, element type (08 = unsigned byte), number of dimensions d, d sizes as big-endian uint32,
    then the elements in C order and nothing after them. `sha256`, when given, is that of the whole
    uncompressed content. DataError names the file and what is wrong with it.

    Defined by `spec/data.py: parse_idx`.
    """
    array, digest = read_with_digest(Path(path))
    if sha256 is not None and digest != sha256.lower():
        raise DataError(
            f"{path}: SHA-256 of the content is {digest}, expected {sha256.lower()}: the file is damaged "
            "or a different one"
        )
    return array


def read_with_digest(path: Path) -> tuple[np.ndarray, str]:
    """(array, SHA-256 of the uncompressed content) of an IDX file."""
    try:
        with ExitStack() as stack:
            stream: BinaryIO = stack.enter_context(open(path, "rb"))
            zipped = stream.read(2) == b"\x1f\x8b"
            stream.seek(0)
            if zipped:
                stream = cast(BinaryIO, stack.enter_context(gzip.GzipFile(fileobj=stream)))
            return _parse_idx(stream, str(path))
    except EOFError as error:
        raise DataError(f"{path}: the gzip data end early: the file is truncated, get it again") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path}: damaged gzip data ({error}): get the file again") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error


def _parse_idx(stream: BinaryIO, where: str) -> tuple[np.ndarray, str]:
    magic = _take(stream, 4)
    if len(magic) == 0:
        raise DataError(f"{where}: the file is empty")
    if len(magic) < 4 or magic[:2] != b"\0\0":
        raise DataError(f"{where}: not an IDX file: it begins with {magic.hex(' ')}, not with 00 00")
    if magic[2] != 0x08:
        raise DataError(f"{where}: IDX element type {magic[2]:02x}; only 08 (unsigned bytes) is read")
    if not 1 <= magic[3] <= 4:
        raise DataError(f"{where}: an IDX array of {magic[3]} dimensions; expected 1 to 4")
    sizes = _take(stream, 4 * magic[3])
    if len(sizes) < 4 * magic[3]:
        raise DataError(f"{where}: the file ends within its header")
    shape = tuple(int.from_bytes(sizes[i : i + 4], "big") for i in range(0, len(sizes), 4))
    expected = 1
    for size in shape:  # in Python's integers: a damaged header can ask for more than 2**64 bytes
        expected *= size
    if expected == 0:
        raise DataError(f"{where}: holds no data: the header says {sizes_text(shape)}")
    data = _take(stream, expected)
    if len(data) < expected:
        raise DataError(
            f"{where}: too short: {sizes_text(shape)} in the header means {expected} bytes of data, "
            f"the file has {len(data)}"
        )
    # Reading past the last element also makes gzip verify its check sum.
    if stream.read(1):
        raise DataError(f"{where}: too long: there are bytes after the {sizes_text(shape)} of the header")
    digest = hashlib.sha256(magic + sizes)
    digest.update(data)
    return np.frombuffer(data, np.uint8).reshape(shape), digest.hexdigest()


def _take(stream: BinaryIO, n: int) -> bytearray:
    """The next n bytes, fewer at the end of the stream; never allocates what a false header asks for."""
    data = bytearray()
    while len(data) < n and (chunk := stream.read(min(_CHUNK, n - len(data)))):
        data += chunk
    return data


def sizes_text(shape: tuple[int, ...]) -> str:
    """A shape as 28x28."""
    return "x".join(map(str, shape))
