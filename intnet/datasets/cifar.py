"""cifar10 and cifar100 in their binary version, unpacked or straight from the .tar.gz.

A file is records of the label (cifar100: the coarse one, then the fine one, which is used) and 3,072 bytes:
the red, green and blue plane of 32x32 pixels (Krizhevsky, Learning multiple layers of features from tiny
images, 2009). value = byte/256.

Fewer records than the published ones are welcome, as in a set of one's own; an archive of the published
number must be the published one.
"""

import gzip
import hashlib
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from intnet.datasets import places
from intnet.datasets.dataset import Dataset, assemble
from intnet.errors import DataError

PIXELS = 3 * 32 * 32


@dataclass(frozen=True)
class _Cifar:
    """A set: its files, the classes of each label byte of a record (the last one is used), its archive.

    most: records of the largest published file of each name
    """

    name: str
    train: tuple[str, ...]
    test: str
    labels: tuple[int, ...]
    most: dict[str, int]
    folder: str
    archive: str
    md5: str

    @property
    def files(self) -> tuple[str, ...]:
        return (*self.train, self.test)

    @property
    def record(self) -> int:
        """Bytes of an image with its labels."""
        return len(self.labels) + PIXELS


_BATCHES = tuple(f"data_batch_{i}.bin" for i in range(1, 6))

CIFAR10 = _Cifar(
    name="cifar10",
    train=_BATCHES,
    test="test_batch.bin",
    labels=(10,),
    most=dict.fromkeys((*_BATCHES, "test_batch.bin"), 10_000),
    folder="cifar-10-batches-bin",
    archive="cifar-10-binary.tar.gz",
    md5="c32a1d4ab5d03f1284b67883e8d87530",
)
CIFAR100 = _Cifar(
    name="cifar100",
    train=("train.bin",),
    test="test.bin",
    labels=(20, 100),
    most={"train.bin": 50_000, "test.bin": 10_000},
    folder="cifar-100-binary",
    archive="cifar-100-binary.tar.gz",
    md5="03b5dce01913d631647c71ecec9e9cb8",
)


def find(cifar: _Cifar, data_dir: Path | None) -> list[Path]:
    """The files of the set, or its archive alone; DataError where neither is found."""
    return places.find(
        cifar.name,
        cifar.name,
        data_dir,
        ways=[[(file,) for file in cifar.files], [(cifar.archive,)]],
        needed=f": {', '.join(cifar.files)}; or {cifar.archive}",
        advice=f"To get them: place {cifar.archive} (the binary version, not the one for Python or Matlab), "
        "or what it unpacks to, in a folder that --data-dir or $INTNET_DATA names.",
        inside=(cifar.folder,),
    )


def load(cifar: _Cifar, data_dir: Path | None) -> Dataset:
    """The set, every record checked; DataError says what is missing or wrong."""
    paths = find(cifar, data_dir)
    if len(paths) == 1:
        parts = [
            _records(cifar, f"{paths[0]}: {file}", file, data) for file, data in _unpack(cifar, paths[0])
        ]
        _check_archive(cifar, paths[0], [len(labels) for _, labels in parts])
    else:
        parts = [_records(cifar, str(path), path.name, _read(cifar, path)) for path in paths]
    images = np.concatenate([images for images, _ in parts[:-1]])
    labels = np.concatenate([labels for _, labels in parts[:-1]])
    where = [f"{cifar.name}'s training files"] * 2 + [cifar.test] * 2
    return assemble(cifar.name, [images, labels, *parts[-1]], where, cifar.labels[-1], exponent=-8)


def _records(cifar: _Cifar, where: str, file: str, data: bytes) -> tuple[np.ndarray, np.ndarray]:
    """(uint8 (n, 32, 32, 3), labels) of a file's content."""
    size, most = cifar.record, cifar.most[file]
    if not data:
        raise DataError(f"{where}: the file is empty")
    if len(data) % size:
        raise DataError(
            f"{where}: {len(data):,} bytes, no whole number of records of {size:,}: the file is cut, or of "
            f"another data set; the published one has {most * size:,}"
        )
    if len(data) > most * size:
        raise DataError(f"{where}: {len(data) // size:,} records where {cifar.name} has {most:,}")
    records = np.frombuffer(data, np.uint8).reshape(-1, size)
    for column, classes in enumerate(cifar.labels):
        bad = np.flatnonzero(records[:, column] >= classes)
        if bad.size:
            raise DataError(
                f"{where}: label {records[bad[0], column]} of record {bad[0]} is outside 0..{classes - 1} "
                f"({bad.size} such labels): not a file of {cifar.name}, or damaged"
            )
    planes = records[:, len(cifar.labels) :].reshape(-1, 3, 32, 32)
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), records[:, len(cifar.labels) - 1]


def _read(cifar: _Cifar, path: Path) -> bytes:
    """A file's content, no more of it than can be right."""
    try:
        with open(path, "rb") as stream:
            return stream.read((cifar.most[path.name] + 1) * cifar.record)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error


# -- the archive -------------------------------------------------------------------------------


def _unpack(cifar: _Cifar, path: Path) -> Iterator[tuple[str, bytes]]:
    """(file, content) of the set's files, in their order; nothing is written to the disk."""
    found: dict[str, bytes] = {}
    names = {f"{cifar.folder}/{file}": file for file in cifar.files}
    try:
        with gzip.open(path) as unzipped, tarfile.open(fileobj=unzipped, mode="r|") as archive:
            for member in archive:
                file = names.get(member.name.removeprefix("./"))
                if file is None:  # the archive's page and names of classes
                    continue
                stream = archive.extractfile(member) if member.isreg() else None
                if stream is None or file in found:
                    raise DataError(
                        f"{path}: {member.name} is {'there twice' if stream else 'no plain file'}"
                    )
                found[file] = stream.read((cifar.most[file] + 1) * cifar.record)
            while unzipped.read(1 << 20):  # gzip tells at its end whether all of it was right
                pass
    except DataError:
        raise
    except (tarfile.TarError, EOFError, zlib.error, OSError, ValueError) as error:  # that: of odd numbers
        what = getattr(error, "strerror", None) or error
        raise DataError(f"{path}: cannot be unpacked ({what}): get the archive again") from error
    lacking = [file for file in cifar.files if file not in found]
    if lacking:
        raise DataError(f"{path}: has no {cifar.folder}/{lacking[0]}: not the binary version, or cut")
    return ((file, found[file]) for file in cifar.files)


def _check_archive(cifar: _Cifar, path: Path, counts: list[int]) -> None:
    """DataError where an archive of the published numbers is not the published one."""
    if counts != [cifar.most[file] for file in cifar.files]:
        return
    with open(path, "rb") as stream:
        digest = hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if digest != cifar.md5:
        raise DataError(
            f"{path}: its MD5 is {digest}, that of the published archive {cifar.md5}: damaged, or packed "
            "anew (then unpack it: the files are taken too)"
        )
