"""Arrays at hand: what a value of them is, judged in fractions; parts, files, and what is refused."""

from __future__ import annotations

import re
import zipfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from intnet import datasets, spec
from intnet.datasets import Augment, Batches, Dataset, arrays
from intnet.datasets.dataset import Images
from intnet.errors import ConfigError, DataError
from intnet.runs import archive, files
from intnet.runs.identity import data_sha256


def plain(images: Images) -> np.ndarray:
    assert isinstance(images, np.ndarray)
    return images


def some(n: int, *shape: int) -> np.ndarray:
    return np.arange(n * int(np.prod(shape)), dtype=np.uint8).reshape(n, *shape)


def labels(n: int) -> np.ndarray:
    return np.arange(n) % 2


def nearest(x: Fraction, exponent: int) -> int:
    """The code of x, of two neighbours: the nearer one, of a tie the even one."""
    scaled = x / Fraction(2) ** exponent
    below = scaled.numerator // scaled.denominator
    rest = scaled - below
    return below + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and below % 2 == 1))


# ---- values ----


def test_bytes_are_kept_exactly() -> None:
    d = datasets.from_arrays(
        some(3, 4, 5), [2, 0, 1], some(2, 4, 5, 1), np.array([1, 1], np.uint8), 3, -3, "mine"
    )
    assert (d.name, d.exponent, d.classes, d.image_shape) == ("mine", -3, 3, (4, 5, 1))
    assert (
        plain(d.train_images).tolist() == some(3, 4, 5, 1).tolist()
        and plain(d.train_images).dtype == np.uint8
    )
    assert d.train_labels.dtype == np.int64 and d.train_labels.tolist() == [2, 0, 1]
    assert d.of_bytes and d.in_memory and d.rounded is None
    whole = datasets.from_arrays(some(3, 2, 2), labels(3))
    assert (whole.exponent, whole.classes, len(whole.test_labels)) == (-8, 2, 0)


NUMBERS = (
    st.floats(-1e9, 1e9, allow_subnormal=True)
    | st.floats(-2, 2, width=32)
    | st.integers(-70000, 70000).map(float)
)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(arrays_of.arrays(np.float64, (4, 3), elements=NUMBERS))
def test_numbers_are_rounded_once_to_nearest(X: np.ndarray) -> None:
    greatest = max(abs(Fraction(float(x))) for x in X.flat)
    if 0 < greatest < Fraction(2) ** -80:
        return  # refused
    d = datasets.from_arrays(X, labels(4))
    codes = plain(d.train_images)
    assert codes.shape == (4, 1, 1, 3) and codes.dtype == np.int16
    exact = [Fraction(float(x)) for x in X.flat]
    assert codes.reshape(-1).tolist() == [nearest(x, d.exponent) for x in exact]
    if greatest:  # one step finer, the greatest would need more than 16 bits
        assert nearest(greatest, d.exponent) <= 32767 < nearest(greatest, d.exponent - 1)
        assert d.exponent == spec.data.number_exponent(greatest)
        assert codes.reshape(-1).tolist() == [spec.data.number_code(x, d.exponent) for x in exact]
    changes = [abs(x - int(c) * Fraction(2) ** d.exponent) for x, c in zip(exact, codes.flat, strict=True)]
    assert d.rounded is not None
    assert (d.rounded.changed, d.rounded.elements) == (sum(c != 0 for c in changes), 12)
    assert Fraction(d.rounded.greatest) == max(changes)
    assert d.rounded.vanished == sum(x != 0 and c == 0 for x, c in zip(exact, codes.flat, strict=True))


@pytest.mark.parametrize("k", [-30, 0, 7])
def test_the_corners_of_the_exponent(k: int) -> None:
    """Just below, at and above 32767.5 steps, where the code would need a 17th bit."""
    for x, more in (
        (32767.0, 0),
        (np.nextafter(32767.5, 0), 0),
        (32767.5, 1),
        (32768.0, 1),
        (65534.0, 1),
        (65535.0, 2),
    ):
        X = np.array([[np.ldexp(x, k), 0]])
        assert datasets.from_arrays(-X, [0]).exponent == k + more, x
    ties = np.ldexp(np.array([[0.5, 1.5, 2.5, -0.5, -1.5, 20000]]), k)
    assert plain(datasets.from_arrays(ties, [0]).train_images).reshape(-1).tolist() == [0, 2, 2, 0, -2, 20000]


@pytest.mark.parametrize(
    "dtype", [np.float16, np.float32, np.float64, np.int8, np.int32, np.int64, np.uint16, bool]
)
def test_every_kind_of_number_is_its_value(dtype: Any) -> None:
    X = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype) * (1 if dtype is bool else dtype(100))
    d = datasets.from_arrays(X, [0, 1])
    values = np.ldexp(plain(d.train_images).astype(np.float64), d.exponent)
    assert values.reshape(X.shape).tolist() == X.astype(float).tolist()
    assert d.rounded is not None and d.rounded.changed == 0


def test_what_is_greater_than_the_training_part_keeps_its_value() -> None:
    """In wider codes, of up to 24 bits; beyond them it is refused, with its place."""
    X, widest = np.array([[1.0, -0.5]]), 2.0**23 * 2**-14
    d = datasets.from_arrays(X, [0], [[2.5, widest]], [1])
    assert d.exponent == -14 and plain(d.train_images).dtype == np.int16
    assert plain(d.test_images).dtype == np.int32
    assert plain(d.test_images).reshape(-1).tolist() == [5 * 2**13, 2**23]
    assert arrays.codes_like(d, [[-3.0, 0]]).reshape(-1).tolist() == [-3 * 2**14, 0]
    with pytest.raises(DataError, match=re.escape("X: 513.0 at index (0, 0, 0, 1) of (N, H, W, C)")):
        arrays.codes_like(d, [[0, 513.0]])


def test_an_exponent_of_ones_own() -> None:
    d = datasets.from_arrays(np.array([[0.3, 1.0]]), [0], exponent=-4)
    assert plain(d.train_images).reshape(-1).tolist() == [5, 16] and d.exponent == -4
    assert str(d.rounded) == "1 of 2 numbers, by 0.013 at most"
    d = datasets.from_arrays(np.array([[0.3, 1e9], [-0.2, 5.0]]), [0, 2])
    assert d.remarks() == [
        f"rounded to steps of 2^{d.exponent}: 4 of 4 numbers, by 1.4e+04 at most; 3 became 0",
        "class 1 has no image to train on",
    ]
    assert datasets.load("digits").remarks() == []


def test_a_table_is_told_how_it_becomes_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the words of the message."""
    file = tmp_path / "d.csv"
    file.write_text("a,b,class\n0.5,1.5,0\n0.25,1,1\n")
    with pytest.raises(ConfigError, match="a table becomes arrays by numpy") as caught:
        datasets.load(str(file))
    with pytest.raises(DataError, match="a table becomes arrays by numpy"):
        datasets.load(f"arrays:{file}")
    made, saved = re.findall(r"t = (numpy.*?\)); (numpy.*?\)\)), the last", str(caught.value))[0]
    monkeypatch.chdir(tmp_path)
    exec(f"import numpy\nt = {made}\n{saved}")
    assert plain(datasets.load("arrays:mine.npz").train_images).shape == (2, 1, 1, 2)


def test_arrays_of_objects_are_told_by_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "o.npz", X=some(2, 2), y=np.array([0, None]))
    with pytest.raises(DataError, match=r"y holds Python objects: write y.astype\(float\), of labels"):
        datasets.load(f"arrays:{tmp_path / 'o.npz'}")


def test_a_share_of_another_float() -> None:
    assert len(datasets.from_arrays(some(10, 2), [0, 1] * 5, test=np.float32(0.2)).test_labels) == 2


def test_a_crop_pads_numbers_with_zeros() -> None:
    """And keeps their container."""
    X = np.full((2, 3, 3), -1.5)
    batch = Batches(datasets.from_arrays(X, [0, 1]), 2, 1, Augment.parse("crop=2,flip"))
    images, _ = batch(0)
    assert images.dtype == np.int16 and set(images.reshape(-1).tolist()) == {0, -24576}


# ---- parts ----


@pytest.mark.parametrize("share", [float("nan"), float("inf"), -0.5, 0.0, 1.0])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(ConfigError, match="leaves some of either part"):
        datasets.from_arrays(np.arange(8)[:, None], np.zeros(8, int), test=share)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 60), st.floats(0.05, 0.95), st.integers(0, 2**32))
def test_a_share_is_drawn_as_the_definition_says(n: int, share: float, seed: int) -> None:
    if not 1 <= round(share * n) < n:
        with pytest.raises(ConfigError, match="leaves some of either part"):
            datasets.from_arrays(np.arange(n)[:, None], np.zeros(n, int), test=share, seed=seed)
        return
    d = datasets.from_arrays(np.arange(n)[:, None] * 1.0, np.zeros(n, int), test=share, seed=seed)
    tested = np.ldexp(plain(d.test_images).astype(float), d.exponent).reshape(-1)
    members = spec.data.split_members(seed, n, share)
    assert tested.tolist() == members and len(d.train_labels) == n - len(members)
    trained = np.ldexp(plain(d.train_images).astype(float), d.exponent).reshape(-1)
    assert sorted([*tested, *trained]) == list(range(n)) and trained.tolist() == sorted(trained)


# ---- what is refused ----

GOOD: dict[str, Any] = {"X": some(3, 4, 5, 2), "y": np.array([2, 0, 1]), "classes": 3}
GOOD |= {"X_test": some(2, 4, 5, 2), "y_test": np.array([1, 2])}
NAN = np.array([[1.0, 2], [3, np.nan], [4, 5]])

BAD: list[tuple[dict[str, Any], str]] = [
    ({"X": some(3, 4, 5, 2) / 16}, "arrays X is float64, arrays X_test uint8: both bytes, or neither"),
    ({"X": some(3, 40)}, "images of (1, 1, 40) (H, W, C) in arrays X but of (4, 5, 2) in arrays X_test"),
    ({"X": some(120)}, "arrays X is of shape (120,); expected (N, F), (N, H, W) or (N, H, W, C): one exam"),
    ({"X": some(1, 3, 4, 5, 2)}, "arrays X is of shape (1, 3, 4, 5, 2); expected"),
    ({"X": some(0, 4, 5, 2)}, "arrays X: no images (shape (0, 4, 5, 2))"),
    ({"X_test": some(2, 4, 0, 2)}, "arrays X_test: no images (shape (2, 4, 0, 2))"),
    ({"X": some(2, 4, 5, 2)}, "2 images in arrays X but 3 labels in arrays y"),
    ({"X": np.array([["a", "b"]])}, "arrays X is of <U1, not of numbers"),
    ({"X": np.array([[None, 1]])}, "arrays X is of object, not of numbers"),
    ({"X": np.ones((3, 2), complex)}, "arrays X is of complex128, not of numbers"),
    ({"y": np.array([0, -1, 3])}, "label -1 at index 1 is outside 0..2 (2 such labels)"),
    ({"y_test": np.array([0, 2**63], np.uint64)}, "label 9223372036854775808 at index 1 is outside"),
    ({"y_test": np.array([0.0, 1.0])}, "arrays y_test: labels are float64, not integers"),
    ({"y_test": np.array([True, False])}, "arrays y_test: labels are bool, not integers"),
    ({"y": np.array(["a", "b", "a"])}, "arrays y: labels are <U1, not integers; they are numbered by"),
    ({"y_test": np.array([], np.int64)}, "arrays y_test: no labels"),
    ({"y": np.eye(3, dtype=np.int64)}, "labels of shape (3, 3); expected (N,), one class number an image"),
    ({"y": [[0], [1, 0], [1]]}, "arrays y is no array, rows of one length each: "),
    ({"X_test": [[1, 2], [3]]}, "arrays X_test is no array, rows of one length each: "),
    ({"y": np.ma.masked_equal([0, 1, 1], 0)}, "arrays y has masked elements: fill them, as by .filled(0)"),
    ({"X": np.ma.masked_equal(some(3, 4, 5, 2), 7)}, "arrays X has masked elements: fill them"),
    ({"X": some(3, 3, 5, 5)}, "arrays X is of shape (3, 3, 5, 5), which looks like (N, C, H, W); images are"),
    ({"X": some(3, 1, 6, 6) / 2}, "arrays X is of shape (3, 1, 6, 6), which looks like (N, C, H, W); images"),
    ({"classes": 0}, "the number of classes is 0, not an integer of at least 1"),
    ({"classes": 2.5}, "the number of classes is 2.5, not an integer"),
    ({"exponent": -1.5}, "arrays: exponent -1.5 is not an integer"),
    ({"exponent": 101}, "arrays: exponent 101 is not an integer from -100 to 100"),
    ({"y_test": None}, "arrays: a test part has both X_test and y_test; or from_arrays draws a share"),
    ({"test": 0.5}, "arrays: a test part has both X_test and y_test; or from_arrays draws a share"),
]  # fmt: skip


def test_what_is_meant_is_taken() -> None:
    """Classes by number where so many are meant; masks of nothing; sides as few as channels are."""
    assert datasets.from_arrays(some(2, 2), [0, 1 << 16], classes=1 << 17).classes == 1 << 17
    with pytest.raises(DataError, match="y: by its greatest label there would be 65,537 classes; labels are"):
        datasets.from_arrays(some(2, 2), [0, 1 << 16])
    assert len(datasets.from_arrays(np.ma.masked_equal(some(2, 2), 9), [0, 1]).train_labels) == 2
    for shape in ((3, 4, 4), (3, 5, 6), (2, 5, 5), (5, 5, 3)):
        assert datasets.from_arrays(some(2, *shape), [0, 1]).image_shape == shape


@pytest.mark.parametrize("seed", [1.5, None, "1", True])
def test_a_seed_of_the_test_part_is_a_whole_number(seed: Any) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"seed={seed!r}: a whole number")):
        datasets.from_arrays(some(4, 2), [0, 1, 0, 1], test=0.5, seed=seed)


@pytest.mark.parametrize(("change", "message"), BAD, ids=[row[1] for row in BAD])
def test_bad_arrays(change: dict[str, Any], message: str) -> None:
    settings_of = {"classes", "exponent", "test"} & set(change) or change.get("y_test", 0) is None
    assert len(datasets.from_arrays(**GOOD).train_images) == 3
    with pytest.raises(ConfigError if settings_of else DataError) as caught:
        datasets.from_arrays(**GOOD | change)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (NAN, "arrays X: NaN or infinity at index (1, 0, 0, 1) of (N, H, W, C)"),
        (NAN * np.inf, "arrays X: NaN or infinity at index (0, 0, 0, 0)"),
        (np.full((3, 1), 1e300), "arrays X: its greatest number is 1e+300: scale it nearer to 1"),
        (np.full((3, 1), 1e-300), "arrays X: its greatest number is 1e-300: scale it nearer to 1"),
        (np.full((3, 1), 2**60), "arrays X has integers beyond 2^53"),
    ],
)
def test_bad_numbers(X: np.ndarray, message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        datasets.from_arrays(X, [0, 1, 0])


def test_what_is_classified_is_of_the_kind_that_was_trained_on() -> None:
    of_bytes, of_numbers = (
        datasets.from_arrays(some(2, 3), [0, 1]),
        datasets.from_arrays(some(2, 3) / 7, [0, 1]),
    )
    assert arrays.codes_like(of_bytes, [[0, 7, 255]]).tolist() == [[[[0, 7, 255]]]]
    for X, message in (
        ([[0.5, 1, 2]], "trained on bytes"),
        ([[0, 1, 256]], "from 0 to 256; .* integers from 0 to 255"),
        ([[-1, 0, 0]], "0 to"),
    ):
        with pytest.raises(DataError, match=message):
            arrays.codes_like(of_bytes, X)
    with pytest.raises(DataError, match="X is of bytes; the run was trained on numbers"):
        arrays.codes_like(of_numbers, some(2, 3))
    with pytest.raises(
        DataError, match=re.escape("images (H, W, C) of (1, 1, 4); the run's are of (1, 1, 3)")
    ):
        arrays.codes_like(of_numbers, [[1.0, 2, 3, 4]])


def test_parts_of_the_data_set_itself_are_codes() -> None:
    """A slice is known by its memory; a copy could be either, in steps of more or less than 1."""
    halves = datasets.from_arrays(some(4, 3) / 2, [0, 1, 0, 1], test=0.5)
    wholes = datasets.from_arrays(some(4, 3).astype(np.int64) * 2, [0, 1, 0, 1], exponent=1)
    for part in (halves.test_images, halves.test_images[:1], halves.train_images[::-1]):
        assert np.array_equal(arrays.codes_like(halves, part), part)
    with pytest.raises(DataError, match=re.escape("of codes give their numbers, X * 2.0**")):
        arrays.codes_like(halves, halves.test_images[[0]])
    numbers = halves.test_images[[1, 0]] * 2.0**halves.exponent
    assert np.array_equal(arrays.codes_like(halves, numbers), halves.test_images[[1, 0]])
    copy = wholes.train_images.copy()
    for either in (copy, copy * 2):
        with pytest.raises(DataError, match=r"of whole numbers X.astype\(float\)"):
            arrays.codes_like(wholes, either)
    assert np.array_equal(arrays.codes_like(wholes, copy * 2.0), copy)
    plain_ones = datasets.from_arrays(some(4, 3).astype(np.int64), [0, 1, 0, 1], exponent=0)
    assert np.array_equal(
        arrays.codes_like(plain_ones, plain_ones.train_images.copy()), plain_ones.train_images
    )


def test_a_copy_of_whole_numbers_codes_is_no_numbers() -> None:
    """In steps of 2^-4 every code is a multiple of 16; numbers that are not all, or all 0, are numbers."""
    small = datasets.from_arrays(np.arange(12).reshape(4, 3), [0, 1, 0, 1], test=0.5, exponent=-4)
    with pytest.raises(DataError, match="as the codes of the run's data set are, but no part of it"):
        arrays.codes_like(small, small.test_images.copy())
    numbers = np.arange(12, dtype=np.int16).reshape(4, 3)
    assert arrays.codes_like(small, numbers).reshape(4, 3).tolist() == (numbers * 16).tolist()
    assert not arrays.codes_like(small, numbers * 0).any()


# ---- files ----


def written(path: Path, **content: Any) -> Path:
    np.savez(path, **content)
    return path


@pytest.mark.parametrize("X", [some(6, 3), some(6, 3) / 7, np.array([[1.0, 2], [3, 4]] * 3)])
@pytest.mark.parametrize("tested", [True, False])
def test_a_data_set_is_read_as_it_was_written(tmp_path: Path, X: np.ndarray, tested: bool) -> None:
    """Every code and the digest, whatever the container of the test part."""
    test: tuple[Any, ...] = (X[:2] if X.dtype == np.uint8 else X[:2] * 40, [1, 0]) if tested else ()
    d = datasets.from_arrays(X, labels(6), *test, classes=4, name="mine")
    path = tmp_path / "data.npz"
    files.replace(path, lambda stream: archive.write_npz(stream, arrays.content(d)))
    again = arrays.read(path, "mine", in_memory=True)
    assert data_sha256(again) == data_sha256(d)
    assert (again.name, again.exponent, again.classes, again.in_memory) == ("mine", d.exponent, 4, True)
    for mine, theirs in ((d.train_images, again.train_images), (d.test_images, again.test_images)):
        assert plain(mine).dtype == plain(theirs).dtype and plain(mine).tolist() == plain(theirs).tolist()


def test_a_file_has_a_name_that_load_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "mine.npz", X=some(4, 3), y=labels(4), classes=3)
    there = datasets.load("arrays:mine.npz", tmp_path)
    assert (there.name, there.classes, there.in_memory) == ("arrays:mine.npz", 3, False)
    monkeypatch.chdir(tmp_path)
    assert datasets.load("arrays:mine.npz").name == f"arrays:{path}"
    assert datasets.available("arrays:mine.npz") and not datasets.available("arrays:other.npz")
    with pytest.raises(ConfigError, match=r"for a file of arrays write arrays:mine\.npz"):
        datasets.load("mine.npz")
    with pytest.raises(ConfigError, match="arrays: of which file"):
        datasets.load("arrays:")


def test_bad_files(tmp_path: Path) -> None:
    good = {"X": some(4, 3), "y": labels(4)}
    cases = {
        "missing": (None, "no such file; numpy.savez('missing', X=X, y=y) writes one"),
        "text": (b"X, y\n1, 2\n", "not arrays as numpy.savez writes them"),
        "empty": (b"", "not arrays as numpy.savez writes them"),
    }
    for name, (content, message) in cases.items():
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=re.escape(message)):
            datasets.load(f"arrays:{name}", tmp_path)
    np.save(tmp_path / "one.npy", some(4, 3))
    written(tmp_path / "no_y.npz", X=some(4, 3))
    written(tmp_path / "odd.npz", **good, x_test=1)
    written(tmp_path / "object.npz", X=np.array([[{}]], object), y=[0])
    for name, message in {
        "one.npy": "one array alone",
        "no_y.npz": "has no y: it has X, y, may have X_test",
        "odd.npz": "has 'x_test': it has X, y",
        "object.npz": "X holds Python objects",
    }.items():
        with pytest.raises(DataError, match=re.escape(message)):
            datasets.load(f"arrays:{name}", tmp_path)
    np.savez_compressed(tmp_path / "packed.npz", **good)
    packed = bytearray((tmp_path / "packed.npz").read_bytes())
    packed[44:60] = b"\xff" * 16  # of X's deflated bytes, after the name
    (tmp_path / "bits.npz").write_bytes(packed)
    header = b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (1000000, 100000000)}"
    with zipfile.ZipFile(tmp_path / "huge.npz", "w") as archived:
        archived.writestr("X.npy", header.ljust(127) + b"\n")
    for name, message in {
        "bits.npz": "not arrays as numpy.savez writes them",
        "huge.npz": "more than there is memory for",
    }.items():
        with pytest.raises(DataError, match=message):
            datasets.load(f"arrays:{name}", tmp_path)
    whole = (tmp_path / "no_y.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="not arrays as"):
        datasets.load("arrays:cut.npz", tmp_path)


def test_what_a_data_set_tells() -> None:
    d: Dataset = datasets.from_arrays(some(6, 3) / 7, labels(6), test=1 / 3)
    assert repr(d) == "Dataset('arrays': 4 images to train on, 2 to test, 1x1x3, 2 classes)"
    told = repr(d.summary())
    assert "code * 2^-13" in told and "of 18 numbers, by" in told
    assert "<td" in d._repr_html_() and "byte * 2^-4" in repr(datasets.load("digits").summary())


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([1, 2, 3, 1, 2, 3], "; class 0 has no image to train on"),  # counted from 1
        ([0, 1, 2, 0, 1, 2], ""),
        ([1, 3, 3, 1, 1, 1], "; classes 0, 2 have no image to train on"),
        ([0, 7, 7, 7, 0, 0], "; classes 1, 2, 3, 4, .. (6 in all) have no image to train on"),
    ],
)
def test_a_class_without_an_image_is_named(given: list[int], told: str) -> None:
    d = datasets.from_arrays(some(6, 3), np.array(given))
    assert (
        repr(d)
        == f"Dataset('arrays': 6 images to train on, 0 to test, 1x1x3, {max(given) + 1} classes{told})"
    )
    (line,) = [line for line in repr(d.summary()).split("\n") if line.startswith("classes")]
    assert line.endswith(f"images to train on{told}")


@pytest.mark.parametrize(
    "fault", [np.trunc, np.floor, lambda x: np.floor(x + 0.5), lambda x: np.ceil(x - 0.5)]
)
def test_a_seeded_fault_of_rounding_is_seen(monkeypatch: pytest.MonkeyPatch, fault: Any) -> None:
    """By the comparison that the tests above make."""
    values = [Fraction(k, 4) for k in range(-9, 10)] + [Fraction(20000)]
    X = np.array([[float(v) for v in values]])
    wanted = [nearest(v, 0) for v in values]
    assert plain(datasets.from_arrays(X, [0], exponent=0).train_images).reshape(-1).tolist() == wanted
    monkeypatch.setattr(np, "rint", fault)
    assert plain(datasets.from_arrays(X, [0], exponent=0).train_images).reshape(-1).tolist() != wanted
