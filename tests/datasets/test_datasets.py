"""Data sets: the embedded digits, IDX files in the real format, and every error.

The files are written by `idx` of `tests/support/plain_bytes.py`, not by the code under test.
"""

import dataclasses
import gzip
import hashlib
import re
from pathlib import Path

import numpy as np
import pytest

from intnet import datasets
from intnet.datasets.idx import IDX_SETS, MNIST
from intnet.errors import ConfigError, DataError
from tests.support.plain_bytes import idx

DATA = Path(__file__).parents[2] / "data"
TRAIN_IMAGES, TRAIN_LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
TEST_IMAGES, TEST_LABELS = "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"


def small_mnist(folder: Path, train: int = 5, test: int = 3, zipped: bool = False) -> Path:
    """Four files in MNIST's format, with few images: pixel j of image i is (i + 3 j) % 256."""
    folder.mkdir(parents=True, exist_ok=True)
    for images, labels, n in ((TRAIN_IMAGES, TRAIN_LABELS, train), (TEST_IMAGES, TEST_LABELS, test)):
        pixels = [(i + 3 * j) % 256 for i in range(n) for j in range(784)]
        for file, content in (
            (images, idx(pixels, n, 28, 28)),
            (labels, idx([i % 10 for i in range(n)], n)),
        ):
            (folder / (file + ".gz" * zipped)).write_bytes(gzip.compress(content) if zipped else content)
    return folder


@pytest.fixture(autouse=True)
def no_data_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("INTNET_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "no-cache"))


# ---- the embedded digits ----


def test_digits_counts_types_and_range() -> None:
    d = datasets.load("digits")
    assert (d.name, d.classes, d.exponent, d.image_shape) == ("digits", 10, -4, (8, 8, 1))
    assert d.train_images.shape == (1438, 8, 8, 1) and d.test_images.shape == (359, 8, 8, 1)
    assert d.train_labels.shape == (1438,) and d.test_labels.shape == (359,)
    assert d.train_images.dtype == d.test_images.dtype == np.uint8
    assert d.train_labels.dtype == d.test_labels.dtype == np.int64
    assert d.train_images.min() == 0 and d.train_images.max() == 16 == d.test_images.max()
    # The counts that UCI publishes for the set's test file, digit by digit.
    both = np.bincount(d.train_labels) + np.bincount(d.test_labels)
    assert both.tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert np.bincount(d.test_labels).tolist() == [27, 21, 34, 52, 34, 28, 31, 43, 47, 42]


def test_digits_first_image_is_the_published_one() -> None:
    # The first line of optdigits.tes.
    expected = [
        [0, 0, 5, 13, 9, 1, 0, 0],
        [0, 0, 13, 15, 10, 15, 5, 0],
        [0, 3, 15, 2, 0, 11, 8, 0],
        [0, 4, 12, 0, 0, 8, 8, 0],
        [0, 5, 8, 0, 0, 9, 8, 0],
        [0, 4, 11, 0, 1, 12, 7, 0],
        [0, 2, 14, 5, 10, 12, 0, 0],
        [0, 0, 6, 13, 10, 0, 0, 0],
    ]
    d = datasets.load("digits")
    assert d.train_images[0, :, :, 0].tolist() == expected and d.train_labels[0] == 0


def test_digits_split_is_disjoint_complete_and_every_fifth() -> None:
    d = datasets.load("digits")
    content = gzip.decompress((DATA / "digits-images-idx3-ubyte.gz").read_bytes())[16:]
    labels = gzip.decompress((DATA / "digits-labels-idx1-ubyte.gz").read_bytes())[8:]
    train, test = 0, 0
    for i in range(1797):
        if i % 5 == 4:
            image, label, test = d.test_images[test], d.test_labels[test], test + 1
        else:
            image, label, train = d.train_images[train], d.train_labels[train], train + 1
        assert image.tobytes() == content[64 * i : 64 * i + 64] and label == labels[i]
    assert (train, test) == (1438, 359)


def test_digits_files_have_the_hashes_of_the_readme_and_no_time_stamp() -> None:
    readme = (DATA / "README.md").read_text()
    for file, digest in datasets.DIGITS_SHA256.items():
        packed = (DATA / file).read_bytes()
        assert hashlib.sha256(packed).hexdigest() + "  " + file + "\n" in readme
        assert hashlib.sha256(gzip.decompress(packed)).hexdigest() == digest
        assert digest + "  " + file.removesuffix(".gz") + "\n" in readme
        assert packed[4:8] == bytes(4)  # gzip's MTIME


def test_altered_digits_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(datasets.DIGITS_SHA256, "digits-labels-idx1-ubyte.gz", "00" * 32)
    with pytest.raises(DataError, match=r"digits-labels-idx1-ubyte\.gz: SHA-256 of the content is ce71631c"):
        datasets.load("digits")


# ---- Dataset ----


def test_first_keeps_the_test_part() -> None:
    d = datasets.load("digits")
    few = d.first(7)
    assert few.train_images.tolist() == d.train_images[:7].tolist()
    assert few.train_labels.tolist() == d.train_labels[:7].tolist()
    assert len(few.test_images) == 359 and (few.name, few.exponent, few.classes) == ("digits", -4, 10)
    assert len(d.first(1438).train_images) == 1438 == len(d.train_images)


@pytest.mark.parametrize("n", [0, -1, 1439, 2.0, True])
def test_first_out_of_range(n: int) -> None:
    with pytest.raises(ConfigError, match=f"digits: cannot take the first {n} of 1438 training images"):
        datasets.load("digits").first(n)


# ---- mnist: small files in its format, and where they are looked for ----


@pytest.mark.parametrize("zipped", [False, True])
def test_mnist_files(zipped: bool, tmp_path: Path) -> None:
    d = datasets.load("mnist", small_mnist(tmp_path / "d", zipped=zipped))
    assert (d.name, d.classes, d.exponent, d.image_shape) == ("mnist", 10, -8, (28, 28, 1))
    assert d.train_images.shape == (5, 28, 28, 1) and d.test_images.shape == (3, 28, 28, 1)
    assert d.train_labels.tolist() == [0, 1, 2, 3, 4] and d.test_labels.tolist() == [0, 1, 2]
    assert d.train_images[4, 2, 5, 0] == (4 + 3 * (2 * 28 + 5)) % 256


def test_search_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each place added is before those already there; the number of images tells which one was read."""
    cache, own, given = tmp_path / "cache", tmp_path / "own", tmp_path / "given"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setenv("INTNET_DATA", str(own))
    steps = (cache / "intnet", cache / "intnet" / "mnist", own, own / "mnist")
    for count, folder in enumerate(steps, start=1):
        small_mnist(folder, train=count)
        assert len(datasets.load("mnist").train_images) == count
    small_mnist(given, train=8)
    assert len(datasets.load("mnist", given).train_images) == 8
    small_mnist(given / "mnist", train=9)
    assert len(datasets.load("mnist", str(given)).train_images) == 9


def test_home_cache_and_tilde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    small_mnist(tmp_path / ".cache" / "intnet", train=2)
    for value in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", value)
        assert len(datasets.load("mnist").train_images) == 2
    small_mnist(tmp_path / "mine", train=3)
    assert len(datasets.load("mnist", "~/mine").train_images) == 3
    monkeypatch.setenv("INTNET_DATA", "~/mine")
    assert len(datasets.load("mnist").train_images) == 3


def test_files_of_two_folders_are_not_mixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("INTNET_DATA", str(small_mnist(tmp_path / "own", train=4)))
    (tmp_path / "own" / TEST_LABELS).unlink()
    small_mnist(tmp_path / "cache" / "intnet", train=2)
    assert len(datasets.load("mnist").train_images) == 2


def test_missing_mnist_says_what_where_and_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = small_mnist(tmp_path / "own")
    (own / TRAIN_LABELS).unlink()
    monkeypatch.setenv("INTNET_DATA", str(own))
    (tmp_path / "no-cache" / "intnet").mkdir(parents=True)
    with pytest.raises(DataError) as caught:
        datasets.load("mnist")
    message = str(caught.value)
    assert message.startswith(
        "mnist: data files not found. Needed, in one folder, each plain or with .gz: "
        f"{TRAIN_IMAGES}, {TRAIN_LABELS}, {TEST_IMAGES}, {TEST_LABELS}. Looked in: "
    )
    assert f"{own}/mnist (no such folder); {own} (lacks {TRAIN_LABELS}); " in message
    assert f"{tmp_path}/no-cache/intnet (has none of them). " in message
    assert "place MNIST's four files in a folder that --data-dir or $INTNET_DATA names" in message
    assert "\n" not in message


def test_a_given_folder_is_the_only_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTNET_DATA", str(small_mnist(tmp_path / "own")))
    assert len(datasets.load("mnist").train_images) == 5
    for name in ("mnist", "fashion-mnist"):
        with pytest.raises(DataError) as caught:
            datasets.load(name, tmp_path / "given")
        given = tmp_path / "given"
        assert (
            f"Looked in: {given}/{name} (no such folder); {given} (no such folder) (only there, because this "
            "data folder was given)." in str(caught.value)
        )


def damage(folder: Path, file: str, content: bytes) -> Path:
    small_mnist(folder)
    (folder / file).write_bytes(content)
    return folder


BAD_SETS = {
    "labels-as-images": (
        TRAIN_IMAGES,
        idx([0] * 5, 5),
        "magic 00000801, expected 00000803: an array of 1 dimensions where images have 3",
    ),
    "images-as-labels": (
        TEST_LABELS,
        idx([0] * 12, 3, 2, 2),
        "magic 00000803, expected 00000801: an array of 3 dimensions where labels have 1",
    ),
    "other-size": (TEST_IMAGES, idx([0] * 12, 3, 2, 2), "images of 2x2, those of mnist are 28x28"),
    "label-range": (TRAIN_LABELS, idx([0, 9, 10, 255, 1], 5), "label 10 at index 2 is outside 0..9 (2 such"),
    "cut": (TRAIN_LABELS, idx([0, 1, 2], 5), "too short: 5 in the header means 5 bytes"),
    "no-test": (TEST_IMAGES, idx([], 0, 28, 28), "holds no data: the header says 0x28x28"),
}


@pytest.mark.parametrize("name", BAD_SETS)
def test_bad_mnist_files(name: str, tmp_path: Path) -> None:
    file, content, message = BAD_SETS[name]
    folder = damage(tmp_path / "d", file, content)
    with pytest.raises(DataError) as caught:
        datasets.load("mnist", folder)
    assert f"{folder / file}: {message}" in str(caught.value)


def test_images_and_labels_of_different_number(tmp_path: Path) -> None:
    folder = damage(tmp_path, TRAIN_LABELS, idx([1] * 4, 4))
    with pytest.raises(DataError) as caught:
        datasets.load("mnist", folder)
    assert str(caught.value) == f"5 images in {folder / TRAIN_IMAGES} but 4 labels in {folder / TRAIN_LABELS}"


def test_mnist_of_the_published_number_must_be_the_published_one(tmp_path: Path) -> None:
    small_mnist(tmp_path, train=60_000 // 1000)
    assert len(datasets.load("mnist", tmp_path).train_images) == 60
    (tmp_path / TEST_LABELS).write_bytes(idx([1] * 10_000, 10_000))
    with pytest.raises(DataError) as caught:
        datasets.load("mnist", tmp_path)
    assert f"{tmp_path / TEST_LABELS}: SHA-256 of the content is " in str(caught.value)
    assert "but that of the published mnist file is ff7bcfd416de3373" in str(caught.value)


# ---- fashion-mnist ----


@pytest.mark.slow
def test_the_real_fashion_mnist_loads_or_says_how_to_get_it() -> None:
    if datasets.DEBIAN_FASHION_MNIST.is_dir():
        d = datasets.load("fashion-mnist")
        assert d.train_images.shape == (60_000, 28, 28, 1) and d.test_images.shape == (10_000, 28, 28, 1)
        assert (d.exponent, d.classes, d.image_shape) == (-8, 10, (28, 28, 1))
        assert np.bincount(d.train_labels).tolist() == [6000] * 10
        assert np.bincount(d.test_labels).tolist() == [1000] * 10
        assert d.train_labels[:5].tolist() == [9, 0, 0, 3, 0]
        assert d.test_labels[:5].tolist() == [9, 2, 1, 1, 6]
        with pytest.raises(DataError, match=r"mnist: data files not found.* \(has those of fashion-mnist\)"):
            datasets.load("mnist", datasets.DEBIAN_FASHION_MNIST)
    else:
        with pytest.raises(DataError, match=r"/usr/share/datasets/fashion-mnist \(no such folder\)"):
            datasets.load("fashion-mnist")


def test_missing_fashion_mnist_names_the_debian_package(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        datasets.load("fashion-mnist", tmp_path)
    assert "has none of them" in str(caught.value)
    assert "apt-get install dataset-fashion-mnist" in str(caught.value)


def test_other_files_are_not_fashion_mnist(tmp_path: Path) -> None:
    folder = small_mnist(tmp_path, zipped=True)
    with pytest.raises(DataError) as caught:
        datasets.load("fashion-mnist", folder)
    assert f"{folder / TRAIN_IMAGES}.gz: SHA-256 of the content is " in str(caught.value)
    assert "but that of the published fashion-mnist file is c59f468a2f672dc8" in str(caught.value)
    assert "apt-get install dataset-fashion-mnist" in str(caught.value)


def test_files_of_another_set_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MNIST and Fashion-MNIST have the same names: what lies ahead may be the other's."""
    own = small_mnist(tmp_path / "own")
    published = tuple(
        hashlib.sha256((own / file).read_bytes()).hexdigest()
        for file in (TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS)
    )
    monkeypatch.setitem(IDX_SETS, "mnist", dataclasses.replace(MNIST, sha256=published))
    assert not datasets.available("fashion-mnist", own)
    with pytest.raises(DataError, match=rf"{re.escape(str(own))} \(has those of mnist\)"):
        datasets.load("fashion-mnist", own)
    assert datasets.available("mnist", own)


# ---- names ----


EMNIST = "emnist, emnist-byclass, emnist-bymerge, emnist-digits, emnist-letters, emnist-mnist"
KNOWN = f"digits, fashion-mnist, mnist, {EMNIST}, cifar10, cifar100, tiny-imagenet"


def test_unknown_name() -> None:
    with pytest.raises(ConfigError) as caught:
        datasets.load("fashion_mnist")
    assert str(caught.value) == (
        f"unknown data set 'fashion_mnist'; did you mean 'fashion-mnist'? there are {KNOWN}, folder:PATH, "
        "arrays:FILE.npz; one of your own: give its file with --import FILE"
    )
    with pytest.raises(ConfigError) as caught:
        datasets.load("xyzzy")
    assert str(caught.value) == (
        f"unknown data set 'xyzzy'; there are {KNOWN}, folder:PATH, arrays:FILE.npz; one of your own: give "
        "its file with --import FILE"
    )


# ---- checks ----


def some(n: int, *shape: int) -> np.ndarray:
    return np.arange(n * int(np.prod(shape)), dtype=np.uint8).reshape(n, *shape)


def test_checks_for_training() -> None:
    assert datasets.check_images(some(2, 3, 3, 1), "x").tolist() == some(2, 3, 3, 1).tolist()
    assert datasets.check_labels(np.array([255, 0], np.uint8), 1000, "x").tolist() == [255, 0]
    with pytest.raises(DataError, match=r"here: images of shape \(2, 3, 3\); expected \(N, H, W, C\)"):
        datasets.check_images(some(2, 3, 3), "here")
    with pytest.raises(DataError, match=r"here: label 7 at index 0 is outside 0\.\.6 \(1 such labels\)"):
        datasets.check_labels(np.array([7]), 7, "here")
