"""What a data set is: checked images of codes with an exact exponent, and labels, of training and of testing.

Read `Dataset` first; `assemble` makes one for the modules that read files, `arrays.py` of arrays at hand.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from intnet.datasets.image_files import FileImages
from intnet.errors import ConfigError, DataError
from intnet.show.tables import Shown, Table, facts

Images = np.ndarray | FileImages

CODE = (1 << 15) - 1  # greatest |code| of the images that a set is made of


@dataclass(frozen=True)
class Rounded:
    """What it changed that numbers became codes: how many of how many, the greatest |change|, new zeros."""

    changed: int
    elements: int
    greatest: float
    vanished: int

    def __add__(self, other: "Rounded") -> "Rounded":
        counts = self.changed + other.changed, self.elements + other.elements
        return Rounded(*counts, max(self.greatest, other.greatest), self.vanished + other.vanished)

    def __str__(self) -> str:
        if not self.changed:
            return f"none of {self.elements:,} numbers"
        lost = f"; {self.vanished:,} became 0" * bool(self.vanished)
        return f"{self.changed:,} of {self.elements:,} numbers, by {self.greatest:.2g} at most{lost}"


def narrowest(codes: np.ndarray) -> np.ndarray:
    """Codes as int16, or where they need it int32."""
    narrow = codes.size == 0 or max(int(codes.max()), -int(codes.min())) <= CODE
    return codes.astype(np.int16 if narrow else np.int32)


@dataclass(frozen=True, eq=False, repr=False)  # arrays do not compare to one truth value
class Dataset(Shown):
    """Training and test images of one data set; every field was checked when it was made.

    train_images, test_images: (N, H, W, C), value = code * 2**exponent: an array of bytes (uint8) or of codes
    of numbers (int16, or int32 of up to 24 bits), or a `FileImages`, which reads from files what it is
    indexed with. A test part may have no images.
    train_labels, test_labels: int64 (N,), each in 0..classes-1.
    image_size: what the images of a folder were scaled to, if asked for.
    in_memory: made of arrays at hand, so that `load` cannot find it by its name.
    rounded: of numbers, what their rounding changed when the set was made.
    """

    name: str
    train_images: Images
    train_labels: np.ndarray
    test_images: Images
    test_labels: np.ndarray
    exponent: int
    classes: int
    image_size: int | None = None
    in_memory: bool = False
    rounded: Rounded | None = None

    @property
    def of_bytes(self) -> bool:
        """Whether its codes are bytes."""
        return isinstance(self.train_images, FileImages) or self.train_images.dtype == np.uint8

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(H, W, C) of one image."""
        h, w, c = self.train_images.shape[1:]
        return h, w, c

    def first(self, n: int) -> "Dataset":
        """The same data set with its first n training images only; the test part stays whole.

        ConfigError when n is not in 1..the number of training images.
        """
        available = len(self.train_images)
        if not is_int(n) or not 1 <= n <= available:
            raise ConfigError(f"{self.name}: cannot take the first {n!r} of {available} training images")
        images = self.train_images
        part = images.first(n) if isinstance(images, FileImages) else images[:n]
        if self.in_memory and isinstance(part, np.ndarray) and part.dtype == np.int32:
            part = narrowest(part)  # as a run's folder gives them back
        return replace(self, train_images=part, train_labels=self.train_labels[:n])

    @property
    def decoder(self) -> str:
        """What the pixels depend on beside the files: see `image_files.py`; '' where on nothing."""
        parts = (self.train_images, self.test_images)
        return next((part.decoder for part in parts if isinstance(part, FileImages) and part.decoder), "")

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.image_shape))
        return (
            f"Dataset({self.name!r}: {len(self.train_labels):,} images to train on, "
            f"{len(self.test_labels):,} to test, {shape}, {self.classes} classes{self._empty()})"
        )

    def _empty(self) -> str:
        """Of which classes no image is trained on, as labels that begin at 1 leave class 0; '' if of none."""
        found = np.flatnonzero(np.bincount(self.train_labels, minlength=self.classes) == 0).tolist()
        if len(found) < 2:
            return f"; class {found[0]} has no image to train on" if found else ""
        names = ", ".join(map(str, found[:4])) + (f", .. ({len(found):,} in all)" if len(found) > 4 else "")
        return f"; classes {names} have no image to train on"

    def remarks(self) -> list[str]:
        """What a training should say of it: numbers that were rounded, classes without an image."""
        changed = self.rounded is not None and self.rounded.changed
        rounding = f"rounded to steps of 2^{self.exponent}: {self.rounded}"
        return [rounding] * bool(changed) + [self._empty().removeprefix("; ")] * bool(self._empty())

    def summary(self) -> Table:
        """What it is, and what a value of it is."""
        labels = np.bincount(self.train_labels, minlength=self.classes)
        code = "byte" if self.of_bytes else "code"
        pairs = {
            "to train on": f"{len(self.train_labels):,} images",
            "to test on": f"{len(self.test_labels):,} images",
            "image (H, W, C)": str(self.image_shape),
            "classes": f"{self.classes}, of {labels.min():,} to {labels.max():,} images to train on"
            + self._empty(),
            "value": f"{code} * 2^{self.exponent}",
        }
        if self.rounded is not None:
            pairs["rounded"] = str(self.rounded)
        return facts(f"data set {self.name!r}", pairs.items())


# ---- checks, for files and for arrays of the user's ----


def is_int(value: object) -> bool:
    """Whether it is a whole number, Python's or NumPy's; a bool is none."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def as_array(values: Any, where: str) -> np.ndarray:
    """np.asarray of what a user gives; DataError where rows differ in length, or elements are masked."""
    if np.ma.is_masked(values):
        raise DataError(f"{where} has masked elements: fill them, as by .filled(0), or leave them out")
    try:
        return np.asarray(values)
    except ValueError as error:
        raise DataError(f"{where} is no array, rows of one length each: {error}") from None


def check_images(images: np.ndarray, where: str) -> np.ndarray:
    """`images` in C order, when they are uint8 (N, H, W, C) and not empty; else DataError naming `where`."""
    array = np.asarray(images)
    if array.dtype != np.uint8:
        raise DataError(
            f"{where}: images are {array.dtype}, not uint8; give the bytes and the exponent that makes "
            "them values (byte * 2**exponent), not scaled numbers"
        )
    if array.ndim != 4:
        raise DataError(f"{where}: images of shape {array.shape}; expected (N, H, W, C), channels last")
    if array.size == 0:
        raise DataError(f"{where}: no images (shape {array.shape})")
    return np.ascontiguousarray(array)


def check_labels(labels: Any, classes: int, where: str) -> np.ndarray:
    """`labels` as int64 (N,), when they are integers in 0..classes-1 and not empty.

    Otherwise DataError naming `where` and the first bad index; ConfigError for a bad `classes`.
    """
    if not is_int(classes) or classes < 1:
        raise ConfigError(f"{where}: the number of classes is {classes!r}, not an integer of at least 1")
    array = as_array(labels, where)
    if array.ndim != 1:
        hot = "; of one-hot rows it is y.argmax(axis=1)" if array.ndim == 2 else ""
        raise DataError(
            f"{where}: labels of shape {array.shape}; expected (N,), one class number an image{hot}"
        )
    if array.size == 0:
        raise DataError(f"{where}: no labels")
    if array.dtype.kind not in "iu":
        raise DataError(
            f"{where}: labels are {array.dtype}, not integers; they are numbered by "
            "classes, y = np.unique(y, return_inverse=True)"
        )
    bad = np.flatnonzero((array < 0) | (array >= classes))
    if bad.size:
        i = int(bad[0])
        raise DataError(
            f"{where}: label {array[i]} at index {i} is outside 0..{classes - 1} ({bad.size} such labels)"
        )
    return array.astype(np.int64)


def labels_of(
    images: np.ndarray, labels: np.ndarray, classes: int, where_images: str, where_labels: str
) -> np.ndarray:
    """`check_labels`, and one an image."""
    labels = check_labels(labels, classes, where_labels)
    if len(images) != len(labels):
        raise DataError(f"{len(images)} images in {where_images} but {len(labels)} labels in {where_labels}")
    return labels


def check_alike(images: np.ndarray, others: np.ndarray, where: str, where_others: str) -> None:
    """DataError unless the images of both parts are as large."""
    if images.shape[1:] != others.shape[1:]:
        raise DataError(
            f"images of {images.shape[1:]} (H, W, C) in {where} but of {others.shape[1:]} in {where_others}"
        )


def assemble(name: str, arrays: list[np.ndarray], where: list[str], classes: int, exponent: int) -> Dataset:
    """A Dataset of [train images, train labels, test images, test labels], each named by `where`.

    Images of (N, H, W) get a channel axis.
    """
    parts: list[np.ndarray] = []
    for k in (0, 2):
        images = np.asarray(arrays[k])
        images = check_images(images[..., np.newaxis] if images.ndim == 3 else images, where[k])
        parts += [images, labels_of(images, arrays[k + 1], classes, where[k], where[k + 1])]
    check_alike(parts[0], parts[2], where[0], where[2])
    return Dataset(name, parts[0], parts[1], parts[2], parts[3], exponent, int(classes))
