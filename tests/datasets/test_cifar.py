"""CIFAR-10 and CIFAR-100 in their binary version: files and archives written here, and every broken one."""

import gzip
import io
import tarfile
from pathlib import Path

import numpy as np
import pytest

from intnet import datasets
from intnet.datasets import cifar
from intnet.errors import DataError

FILES = {
    "cifar10": [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"],
    "cifar100": ["train.bin", "test.bin"],
}
FOLDERS = {"cifar10": "cifar-10-batches-bin", "cifar100": "cifar-100-binary"}


def record(name: str, i: int) -> bytes:
    """Label i % 10 (cifar100: coarse i % 20, fine 99 - i); plane p: byte (i + 50 p + row - column) % 256."""
    labels = [i % 10] if name == "cifar10" else [i % 20, 99 - i]
    planes = [(i + 50 * p + r - c) % 256 for p in range(3) for r in range(32) for c in range(32)]
    return bytes(labels + planes)


def contents(name: str) -> dict[str, bytes]:
    """Two records a file, numbered on."""
    return {file: record(name, 2 * k) + record(name, 2 * k + 1) for k, file in enumerate(FILES[name])}


def write(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for file, content in files.items():
        (folder / file).write_bytes(content)
    return folder


def archive(path: Path, members: list[tuple[str, bytes | None]]) -> Path:
    """A .tar.gz; None: a link in place of a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            if content is None:
                info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
            info.size = len(content or b"")
            tar.addfile(info, io.BytesIO(content or b""))
    return path


def packed(folder: Path, name: str, files: dict[str, bytes | None] | None = None) -> Path:
    given = [(f"{FOLDERS[name]}/{file}", content) for file, content in (files or contents(name)).items()]
    page: tuple[str, bytes | None] = (f"{FOLDERS[name]}/readme.html", b"<html>")
    return archive(folder / f"{FOLDERS[name].replace('batches-bin', 'binary')}.tar.gz", [page, *given])


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("where", ["", "sub", "as unpacked", "both", "archive", "archive in sub"])
def test_files(name: str, where: str, tmp_path: Path) -> None:
    if where.startswith("archive"):
        packed(tmp_path / (name if where != "archive" else ""), name)
    else:
        paths = {"sub": name, "as unpacked": FOLDERS[name], "both": f"{name}/{FOLDERS[name]}"}
        write(tmp_path / paths.get(where, ""), contents(name))
    d = datasets.load(name, tmp_path)
    n = 2 * (len(FILES[name]) - 1)
    assert (d.name, d.exponent, d.image_shape) == (name, -8, (32, 32, 3))
    assert d.train_images.shape == (n, 32, 32, 3) and d.test_images.shape == (2, 32, 32, 3)
    assert d.classes == (10 if name == "cifar10" else 100)
    fine = [i % 10 if name == "cifar10" else 99 - i for i in range(n + 2)]
    assert d.train_labels.tolist() + d.test_labels.tolist() == fine and d.train_labels.dtype == np.int64
    for i, row, column, p in ((0, 0, 0, 0), (1, 3, 30, 1), (n - 1, 31, 0, 2)):
        assert d.train_images[i, row, column, p] == (i + 50 * p + row - column) % 256
    assert d.test_images[1, 2, 1, 2] == (n + 1 + 100 + 1) % 256
    assert datasets.available(name, tmp_path) and d.train_images.flags.c_contiguous


TEN, HUNDRED = record("cifar10", 0), record("cifar100", 0)
BAD = {
    "cut": ("cifar10", "data_batch_3.bin", TEN[:-1], "3,072 bytes, no whole number of records of 3,073"),
    "empty": ("cifar10", "test_batch.bin", b"", "the file is empty"),
    "label": ("cifar10", "data_batch_1.bin", TEN + b"\x0a" + TEN[1:], "label 10 of record 1 is outside 0..9"),
    "coarse": ("cifar100", "train.bin", b"\x14" + HUNDRED[1:], "label 20 of record 0 is outside 0..19"),
    "fine": ("cifar100", "test.bin", b"\0\x64" + HUNDRED[2:], "label 100 of record 0 is outside 0..99"),
    "of cifar10": ("cifar100", "train.bin", TEN, "3,073 bytes, no whole number of records of 3,074"),
    "too many": (
        "cifar10",
        "data_batch_2.bin",
        bytes(3073 * 10_001),
        "10,001 records where cifar10 has 10,000",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("packs", [False, True])
def test_bad_records(case: str, packs: bool, tmp_path: Path) -> None:
    name, file, content, message = BAD[case]
    files = contents(name) | {file: content}
    where = packed(tmp_path, name, dict(files)) if packs else write(tmp_path, files) / file
    with pytest.raises(DataError) as caught:
        datasets.load(name, tmp_path)
    assert str(caught.value).startswith(f"{where}: {file}: {message}" if packs else f"{where}: {message}")


def test_bad_archives(tmp_path: Path) -> None:
    def message() -> str:
        with pytest.raises(DataError) as caught:
            datasets.load("cifar10", tmp_path)
        return str(caught.value)

    path, good = packed(tmp_path, "cifar10"), contents("cifar10")
    whole = path.read_bytes()
    for cut in (0, 5, 200, len(whole) - 9, len(whole) - 1):
        path.write_bytes(whole[:cut])
        assert f"{path}: " in message() and "get the archive again" in message()
    path.write_bytes(whole[:-8] + b"abcd" + whole[-4:])
    assert "CRC check failed" in message()
    path.write_bytes(gzip.decompress(whole))
    assert "Not a gzipped file" in message()
    path.write_bytes(gzip.compress(b"no tar" * 500))
    assert "cannot be unpacked" in message()
    packed(tmp_path, "cifar10", {file: good[file] for file in FILES["cifar10"][:-1]})
    assert message() == f"{path}: has no cifar-10-batches-bin/test_batch.bin: not the binary version, or cut"
    packed(tmp_path, "cifar10", good | {"data_batch_2.bin": None})
    assert message() == f"{path}: cifar-10-batches-bin/data_batch_2.bin is no plain file"
    twice = [(f"cifar-10-batches-bin/{file}", good[file]) for file in (*FILES["cifar10"], "data_batch_1.bin")]
    archive(path, list(twice))
    assert message() == f"{path}: cifar-10-batches-bin/data_batch_1.bin is there twice"
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(info := tarfile.TarInfo("x"))
        info.pax_headers = {"GNU.sparse.size": "many"}
        tar.addfile(info)
    assert "cannot be unpacked (invalid literal for int()" in message()
    archive(path, [(f"../{file}", content) for file, content in good.items()])
    assert "has no cifar-10-batches-bin/data_batch_1.bin" in message()
    assert not list(tmp_path.parent.glob("*.bin"))


def test_an_archive_of_the_published_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for file in FILES["cifar10"]:
        monkeypatch.setitem(cifar.CIFAR10.most, file, 2)
    path = packed(tmp_path, "cifar10")
    with pytest.raises(
        DataError, match=r"that of the published archive c32a1d4ab5d03f1284b67883e8d87530: damaged"
    ):
        datasets.load("cifar10", tmp_path)
    path.unlink()
    write(tmp_path, contents("cifar10"))
    assert len(datasets.load("cifar10", tmp_path).train_labels) == 10


def test_missing(tmp_path: Path) -> None:
    write(tmp_path, {"data_batch_1.bin": TEN})
    with pytest.raises(DataError) as caught:
        datasets.load("cifar10", tmp_path)
    message = str(caught.value)
    assert "Needed, in one folder: data_batch_1.bin, data_batch_2.bin" in message
    assert "test_batch.bin; or cifar-10-binary.tar.gz. Looked in: " in message
    assert f"{tmp_path} (lacks data_batch_2.bin, data_batch_3.bin" in message
    assert "the binary version, not the one for Python or Matlab" in message
    assert not datasets.available("cifar10", tmp_path)
