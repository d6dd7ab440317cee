"""What a data set is: checked uint8 images with an exact exponent, and labels, of training and of testing.

Read `Dataset` first, then `from_arrays`, which makes one of arrays at hand; `assemble` is the same for the
modules that read files.
"""

from dataclasses import dataclass, replace

import numpy as np

from intnet.datasets.image_files import FileImages
from intnet.errors import ConfigError, DataError

Images = np.ndarray | FileImages


@dataclass(frozen=True, eq=False)  # arrays do not compare to one truth value
class Dataset:
    """Training and test images of one data set; every field was checked when it was made.

    train_images, test_images: uint8 (N, H, W, C), value = byte * 2**exponent: an array, or a `FileImages`,
    which reads from files what it is indexed with.
    train_labels, test_labels: int64 (N,), each in 0..classes-1.
    image_size: what the images of a folder were scaled to, if asked for.
    """

    name: str
    train_images: Images
    train_labels: np.ndarray
    test_images: Images
    test_labels: np.ndarray
    exponent: int
    classes: int
    image_size: int | None = None

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
        return replace(self, train_images=part, train_labels=self.train_labels[:n])

    @property
    def decoder(self) -> str:
        """What the pixels depend on beside the files: see `image_files.py`; '' where on nothing."""
        parts = (self.train_images, self.test_images)
        return next((part.decoder for part in parts if isinstance(part, FileImages) and part.decoder), "")


# ---- checks, for files and for arrays of the user's ----


def is_int(value: object) -> bool:
    """Whether it is a whole number, Python's or NumPy's; a bool is none."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


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


def check_labels(labels: np.ndarray, classes: int, where: str) -> np.ndarray:
    """`labels` as int64 (N,), when they are integers in 0..classes-1 and not empty.

    Otherwise DataError naming `where` and the first bad index; ConfigError for a bad `classes`.
    """
    if not is_int(classes) or classes < 1:
        raise ConfigError(f"{where}: the number of classes is {classes!r}, not an integer of at least 1")
    array = np.asarray(labels)
    if array.ndim != 1:
        raise DataError(f"{where}: labels of shape {array.shape}; expected (N,), one class number an image")
    if array.size == 0:
        raise DataError(f"{where}: no labels")
    if array.dtype.kind not in "iu":
        raise DataError(f"{where}: labels are {array.dtype}, not integers")
    bad = np.flatnonzero((array < 0) | (array >= classes))
    if bad.size:
        i = int(bad[0])
        raise DataError(
            f"{where}: label {array[i]} at index {i} is outside 0..{classes - 1} ({bad.size} such labels)"
        )
    return array.astype(np.int64)


def _check_part(
    images: np.ndarray, labels: np.ndarray, classes: int, where_images: str, where_labels: str
) -> tuple[np.ndarray, np.ndarray]:
    """Checked (images, labels) of the training or of the test part; (N, H, W) gets a channel axis."""
    images = np.asarray(images)
    images = check_images(images[..., np.newaxis] if images.ndim == 3 else images, where_images)
    labels = check_labels(labels, classes, where_labels)
    if len(images) != len(labels):
        raise DataError(f"{len(images)} images in {where_images} but {len(labels)} labels in {where_labels}")
    return images, labels


def assemble(name: str, arrays: list[np.ndarray], where: list[str], classes: int, exponent: int) -> Dataset:
    """A Dataset of [train images, train labels, test images, test labels], each named by `where`."""
    train_images, train_labels = _check_part(arrays[0], arrays[1], classes, where[0], where[1])
    test_images, test_labels = _check_part(arrays[2], arrays[3], classes, where[2], where[3])
    if train_images.shape[1:] != test_images.shape[1:]:
        raise DataError(
            f"images of {train_images.shape[1:]} (H, W, C) in {where[0]} but of {test_images.shape[1:]} "
            f"in {where[2]}"
        )
    return Dataset(name, train_images, train_labels, test_images, test_labels, exponent, int(classes))


def from_arrays(
    train_images: np.ndarray,
    train_labels: np.ndarray,
    test_images: np.ndarray,
    test_labels: np.ndarray,
    classes: int,
    exponent: int = -8,
    name: str = "arrays",
) -> Dataset:
    """A Dataset of arrays at hand: images uint8 (N, H, W, C) or (N, H, W), labels integers (N,).

    value = byte * 2**exponent; the default makes 0..255 into 0..255/256. Image arrays already in C order
    are kept, not copied. DataError or ConfigError says which argument is wrong.
    """
    if not is_int(exponent):
        raise ConfigError(f"{name}: exponent {exponent!r} is not an integer (value = byte * 2**exponent)")
    arrays = [train_images, train_labels, test_images, test_labels]
    where = [f"{name} {part}" for part in ("train_images", "train_labels", "test_images", "test_labels")]
    return assemble(name, arrays, where, classes, int(exponent))
