"""EMNIST's six splits: files in NIST's format, transposed images, letters from 1."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from intnet import datasets
from intnet.errors import DataError
from tests.support.plain_bytes import idx

CLASSES = {"balanced": 47, "byclass": 62, "bymerge": 47, "digits": 10, "letters": 26, "mnist": 10}


def write(folder: Path, split: str, labels: list[int], zipped: bool = True) -> Path:
    """Image i has byte (i + 3 j) % 256 at place j of the file; the labels are those of both parts."""
    folder.mkdir(parents=True, exist_ok=True)
    n = len(labels)
    pixels = [(i + 3 * j) % 256 for i in range(n) for j in range(784)]
    for part in ("train", "test"):
        for kind, content in (
            ("images-idx3", idx(pixels, n, 28, 28)),
            ("labels-idx1", idx(labels, n)),
        ):
            name = f"emnist-{split}-{part}-{kind}-ubyte"
            (folder / (name + ".gz" * zipped)).write_bytes(gzip.compress(content) if zipped else content)
    return folder


@pytest.mark.parametrize("split", CLASSES)
def test_splits(split: str, tmp_path: Path) -> None:
    name, first = "emnist" if split == "balanced" else f"emnist-{split}", split == "letters"
    labels = [first, CLASSES[split] - 1 + first, 3]
    write(tmp_path / "emnist", split, labels, zipped=split != "digits")
    d = datasets.load(name, tmp_path)
    assert (d.name, d.classes, d.exponent, d.image_shape) == (name, CLASSES[split], -8, (28, 28, 1))
    assert d.train_labels.tolist() == d.test_labels.tolist() == [0, CLASSES[split] - 1, 3 - first]
    assert d.train_labels.dtype == np.int64
    for i in range(3):  # the file holds an image column by column
        for row, column in ((0, 0), (0, 27), (5, 2), (27, 27)):
            assert d.train_images[i, row, column, 0] == (i + 3 * (column * 28 + row)) % 256
    assert d.train_images.flags.c_contiguous
    assert datasets.available(name, tmp_path)
    assert not any(
        datasets.available(f"emnist-{other}", tmp_path) for other in ("bymerge", "byclass") if other != split
    )


@pytest.mark.parametrize(
    ("split", "labels", "message"),
    [
        ("letters", [1, 0, 27], "label 0 at index 1 is outside 1..26 (2 such labels)"),
        ("balanced", [47, 1], "label 47 at index 0 is outside 0..46 (1 such labels)"),
    ],
)
def test_labels_out_of_range(split: str, labels: list[int], message: str, tmp_path: Path) -> None:
    write(tmp_path, split, labels)
    with pytest.raises(DataError) as caught:
        datasets.load("emnist" if split == "balanced" else f"emnist-{split}", tmp_path)
    where = tmp_path / f"emnist-{split}-train-labels-idx1-ubyte.gz"
    assert str(caught.value) == f"{where}: {message}"


def test_missing(tmp_path: Path) -> None:
    write(tmp_path, "letters", [1])
    with pytest.raises(DataError) as caught:
        datasets.load("emnist", tmp_path)
    message = str(caught.value)
    assert "emnist-balanced-train-images-idx3-ubyte, emnist-balanced-train-labels" in message
    assert f"{tmp_path} (has none of them)" in message and "NIST's gzip.zip" in message
