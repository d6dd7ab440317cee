"""Data sets of four IDX files, plain or gzip'd: mnist, fashion-mnist and the six splits of emnist.

`read_idx` reads and checks one file; a set is an `_IdxSet`, which `find` looks for and `load` reads.
"""

import gzip
import hashlib
import os
import zlib
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from intnet.datasets import places
from intnet.datasets.dataset import Dataset, assemble
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


# -- the sets ----------------------------------------------------------------------------------

DEBIAN_FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")  # of the package dataset-fashion-mnist

_PARTS = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
_PUBLISHED = (60_000, 60_000, 10_000, 10_000)  # images or labels in the published file of each part


@dataclass(frozen=True)
class _IdxSet:
    """A data set of four files in the order of _PARTS: 28x28 images, value = byte/256.

    sha256: of the published files, uncompressed; () where intnet knows none
    subsets: also take files with another number of images than the published ones?
    first_label: what the files call class 0
    """

    name: str
    classes: int
    sha256: tuple[str, ...]
    subsets: bool
    advice: str
    folder: str
    parts: tuple[str, ...] = _PARTS
    system_folders: tuple[Path, ...] = ()
    transposed: bool = False
    first_label: int = 0


def find(idx_set: _IdxSet, data_dir: Path | None) -> list[Path]:
    """The paths of the four files; DataError where no folder has them all."""
    return places.find(
        idx_set.name,
        idx_set.folder,
        data_dir,
        ways=[[(part, f"{part}.gz") for part in idx_set.parts]],
        needed=f", each plain or with .gz: {', '.join(idx_set.parts)}",
        advice=idx_set.advice,
        owner=partial(_owner, idx_set),
        system=idx_set.system_folders,
    )


def _owner(idx_set: _IdxSet, paths: Sequence[Path]) -> str:
    """The other set of the same names, '' for none, whose published test labels these files have."""
    others = [one for one in IDX_SETS.values() if one.parts == idx_set.parts and one.name != idx_set.name]
    try:
        digest = read_with_digest(paths[-1])[1]
    except DataError:  # `load` will say so
        return ""
    return next((one.name for one in others if digest in one.sha256[-1:]), "")


def load(idx_set: _IdxSet, data_dir: Path | None) -> Dataset:
    """The set, its four files checked; DataError says what is missing or wrong."""
    paths = find(idx_set, data_dir)
    arrays = []
    for i, path in enumerate(paths):
        array, digest = read_with_digest(path)
        ndim = (3, 1)[i % 2]
        if array.ndim != ndim:
            raise DataError(
                f"{path}: magic {0x800 + array.ndim:08x}, expected {0x800 + ndim:08x}: an array of "
                f"{array.ndim} dimensions where {('images', 'labels')[i % 2]} have {ndim}"
            )
        if ndim == 3 and array.shape[1:] != (28, 28):
            size = sizes_text(array.shape[1:])
            raise DataError(f"{path}: images of {size}, those of {idx_set.name} are 28x28")
        whole = len(array) == _PUBLISHED[i]
        if idx_set.sha256 and digest != idx_set.sha256[i] and (whole or not idx_set.subsets):
            raise DataError(
                f"{path}: SHA-256 of the content is {digest}, but that of the published "
                f"{idx_set.name} file is {idx_set.sha256[i]}: a damaged file, or one of another data "
                f"set. {idx_set.advice}"
            )
        if ndim == 1:
            array = _from_zero(array, idx_set, path)
        arrays.append(array.transpose(0, 2, 1) if ndim == 3 and idx_set.transposed else array)
    return assemble(idx_set.name, arrays, [str(path) for path in paths], idx_set.classes, exponent=-8)


def _from_zero(labels: np.ndarray, idx_set: _IdxSet, path: Path) -> np.ndarray:
    """Labels of a file whose classes begin with another number than 0, as 0..classes-1."""
    first = idx_set.first_label
    bad = np.flatnonzero((labels < first) | (labels >= first + idx_set.classes))
    if first and bad.size:
        i = int(bad[0])
        raise DataError(
            f"{path}: label {labels[i]} at index {i} is outside {first}..{first + idx_set.classes - 1} "
            f"({bad.size} such labels)"
        )
    return labels - np.uint8(first)


FASHION_MNIST = _IdxSet(
    name="fashion-mnist",
    classes=10,
    sha256=(
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
    subsets=False,
    advice="To get them: Debian's package dataset-fashion-mnist (apt-get install dataset-fashion-mnist), "
    "or place the four files in a folder that --data-dir or $INTNET_DATA names.",
    folder="fashion-mnist",
    system_folders=(DEBIAN_FASHION_MNIST,),
)

# Smaller files in MNIST's format are welcome under this name (a subset, a set of one's own): their
# number is what their headers say. Files of the published numbers must be the published ones.
MNIST = _IdxSet(
    name="mnist",
    classes=10,
    sha256=(
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
    subsets=True,
    advice="To get them: place MNIST's four files in a folder that --data-dir or $INTNET_DATA names, "
    "or in the cache folder.",
    folder="mnist",
)


def _emnist(split: str, classes: int) -> _IdxSet:
    """A split of EMNIST (Cohen et al., 2017) in the files of NIST's gzip distribution.

    They hold each image transposed (pixels column by column), so that it is transposed here; letters are
    numbered from 1, and from 0 here. Their digests are not known to intnet.
    """
    return _IdxSet(
        name="emnist" if split == "balanced" else f"emnist-{split}",
        classes=classes,
        sha256=(),
        subsets=True,
        advice="To get them: unpack NIST's gzip.zip of EMNIST, and place the four files in a folder that "
        "--data-dir or $INTNET_DATA names.",
        folder="emnist",
        parts=tuple(
            f"emnist-{split}-{part}-{kind}"
            for part in ("train", "test")
            for kind in ("images-idx3-ubyte", "labels-idx1-ubyte")
        ),
        transposed=True,
        first_label=1 if split == "letters" else 0,
    )


_EMNIST = {"balanced": 47, "byclass": 62, "bymerge": 47, "digits": 10, "letters": 26, "mnist": 10}

IDX_SETS: dict[str, _IdxSet] = {
    made.name: made for made in (FASHION_MNIST, MNIST, *(_emnist(*one) for one in _EMNIST.items()))
}
