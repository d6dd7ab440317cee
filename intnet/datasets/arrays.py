"""A data set of arrays at hand: bytes or numbers, tables or images, with or without a test part.

    data = from_arrays(X, y)                        data = from_arrays(X, y, X_test, y_test)
    data = from_arrays(X, y, test=0.2, seed=1)      data = load("mine.npz", None)     # arrays:mine.npz

uint8 are bytes: value = byte * 2**exponent, exactly. All else are numbers, rounded once, to the nearest
multiple of 2**exponent, ties to even: the exponent is chosen by the greatest |x| of X, which gets a code of
16 bits, and `Dataset.rounded` says what that changed. What lies beyond it in the test part, or in what is
classified later, keeps its value, in codes of up to 24 bits: nothing is clipped.

A file has X and y, and may have X_test, y_test, classes and exponent, as `numpy.savez` writes them.
"""

import zipfile
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from intnet.datasets import places
from intnet.datasets.dataset import (
    CODE,
    Dataset,
    Rounded,
    as_array,
    check_alike,
    check_images,
    check_labels,
    is_int,
    labels_of,
    narrowest,
)
from intnet.errors import ConfigError, DataError
from intnet.numbers import rng
from intnet.numbers.exact_values import plain

PREFIX = "arrays:"
TABLES = (".csv", ".tsv", ".txt")
OF_A_TABLE = (
    "a table becomes arrays by numpy: t = numpy.genfromtxt({name!r}, delimiter=',', skip_header=1); "
    "numpy.savez('mine.npz', X=t[:, :-1], y=t[:, -1].astype(int)), the last column the class, from 0 on; "
    "then --data arrays:mine.npz"
)
BYTES_EXPONENT = -8  # of bytes, unless told: 0..255 are 0..255/256
WIDEST = 1 << 23  # |code| of images: float32 holds them
EXPONENTS = range(-100, 101)
REQUIRED, OPTIONAL = ("X", "y"), ("X_test", "y_test", "classes", "exponent")
_MOST = 1 << 16  # classes that labels may ask for by themselves: more is what identifiers look like
# of a damaged file, or one that is encrypted
UNREADABLE = (
    OSError, ValueError, EOFError, RuntimeError, KeyError, zipfile.BadZipFile, zlib.error
)  # fmt: skip
_PART = 1 << 20  # numbers that are rounded at a time


# ---- making one ----


def from_arrays(
    X: Any,
    y: Any,
    X_test: Any = None,
    y_test: Any = None,
    classes: int | None = None,
    exponent: int | None = None,
    name: str = "arrays",
    test: float | None = None,
    seed: int = 1,
) -> Dataset:
    """A Dataset of arrays: X (N, F), (N, H, W) or (N, H, W, C), y (N,) integers from 0.

    X: uint8 are bytes, value = byte * 2**exponent (-8 unless told); other integers and floats are numbers,
    rounded to multiples of 2**exponent (chosen by the greatest of them unless told)
    X_test, y_test: the test part; or test: its share of X, drawn by the seed; or neither
    classes: their number, unless told one more than the greatest label
    DataError or ConfigError says what is wrong.
    """
    if (X_test is None) != (y_test is None) or (test is not None and X_test is not None):
        raise ConfigError(
            f"{name}: a test part has both X_test and y_test; or from_arrays draws a share: test=0.2"
        )
    if exponent is not None and not (is_int(exponent) and exponent in EXPONENTS):
        raise ConfigError(
            f"{name}: exponent {exponent!r} is not an integer from -100 to 100 (value = code * 2**exponent)"
        )
    where = [f"{name} {part}" for part in ("X", "y", "X_test", "y_test")]
    given, labels = as_images(X, where[0]), as_array(y, where[1])
    told = {where[1]: labels} if y_test is None else {where[1]: labels, where[3]: as_array(y_test, where[3])}
    count = _classes(told) if classes is None else classes
    labels = labels_of(given, labels, count, where[0], where[1])
    if X_test is not None:
        tested, test_labels = as_images(X_test, where[2]), as_array(y_test, where[3])
        test_labels = labels_of(tested, test_labels, count, where[2], where[3])
        if (tested.dtype == np.uint8) != (given.dtype == np.uint8):
            raise DataError(f"{where[0]} is {given.dtype}, {where[2]} {tested.dtype}: both bytes, or neither")
        check_alike(given, tested, where[0], where[2])
    else:
        chosen = np.zeros(len(given), bool) if test is None else split_members(seed, len(given), test)
        given, tested, labels, test_labels = given[~chosen], given[chosen], labels[~chosen], labels[chosen]
    rounded = None
    if given.dtype == np.uint8:
        exponent = BYTES_EXPONENT if exponent is None else int(exponent)
    else:
        exponent = exponent_for(given, where[0]) if exponent is None else int(exponent)
        given, own = rounded_to(given, exponent, where[0])
        tested, others = rounded_to(tested, exponent, where[2])
        rounded = own + others
    parts = np.array(given, order="C"), labels, np.array(tested, order="C"), test_labels  # nobody else's
    return Dataset(name, *parts, exponent, int(count), in_memory=True, rounded=rounded)


def as_images(X: Any, where: str) -> np.ndarray:
    """X as (N, H, W, C), of uint8, or of numbers that float64 holds; DataError naming `where`."""
    array = plain(as_array(X, where))
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise DataError(
            f"{where} is of {array.dtype}, not of numbers: bytes (uint8), integers, or floats of up to 64 "
            "bits; give texts and categories numbers first"
        )
    if array.ndim == 2:
        array = array[:, np.newaxis, np.newaxis, :]
    elif array.ndim == 3:
        array = array[..., np.newaxis]
    if array.ndim != 4:
        alone = ": one example alone is X[np.newaxis]" if array.ndim == 1 else ""
        raise DataError(
            f"{where} is of shape {array.shape}; expected (N, F), (N, H, W) or (N, H, W, C){alone}"
        )
    if _channels_first(array):
        raise DataError(
            f"{where} is of shape {array.shape}, which looks like (N, C, H, W); images are (N, H, W, C), "
            "X.transpose(0, 2, 3, 1)"
        )
    if array.dtype == np.uint8:
        return check_images(array, where)
    if array.size == 0:
        raise DataError(f"{where}: no images (shape {array.shape})")
    if array.dtype.kind in "iu" and max(int(array.max()), -int(array.min())) > 1 << 53:
        raise DataError(f"{where} has integers beyond 2^53: scale it")
    return array


def _channels_first(images: np.ndarray) -> bool:
    """Whether these must be (N, C, H, W): as (N, H, W, C) a square's side would be the number of channels."""
    _, c, h, w = images.shape
    return c in (1, 3) and h == w > 4


def _classes(parts: dict[str, np.ndarray]) -> int:
    """One more than the greatest label of all parts, which go by where they stand."""
    for where, labels in parts.items():
        if labels.dtype.kind not in "iu" or labels.size == 0:
            check_labels(labels, 1, where)
    where = max(parts, key=lambda where: parts[where].max())
    count = max(1, int(parts[where].max()) + 1)
    if count > _MOST:
        raise DataError(
            f"{where}: by its greatest label there would be {count:,} classes; labels are numbered from 0 by "
            "classes, y = np.unique(y, return_inverse=True); where so many are meant, give classes="
        )
    return count


def split_members(seed: int, n: int, share: float) -> np.ndarray:
    """bool[n]: which examples are the test part. Defined by `spec/data.py: split_members`."""
    if not is_int(seed):
        raise ConfigError(f"seed={seed!r}: a whole number")
    if (
        not isinstance(share, float | np.floating)
        or not 0 < share < 1
        or not 1 <= round(float(share) * n) < n
    ):
        raise ConfigError(
            f"test={share!r}: a share of {n:,} examples, as 0.2, that leaves some of either part"
        )
    halves = rng.words(seed, step=0, stream=rng.stream("data/test"), n=2 * n, alone=True).astype(np.uint64)
    keys = halves[0::2] << np.uint64(32) | halves[1::2]
    chosen = np.zeros(n, bool)
    chosen[np.argsort(keys, kind="stable")[: round(float(share) * n)]] = True
    return chosen


# ---- numbers ----


def exponent_for(numbers: np.ndarray, where: str) -> int:
    """The exponent by which the greatest |x| has a code of 16 bits; 0 where all are 0.

    DataError names the first NaN or infinity. Defined by `spec/data.py: number_exponent`.
    """
    check_finite(numbers, where)
    greatest = max(float(numbers.max()), -float(numbers.min()))
    if greatest == 0:
        return 0
    exponent = int(np.frexp(greatest)[1]) - 15
    exponent += int(np.rint(np.ldexp(greatest, -exponent)) > CODE)
    if exponent not in EXPONENTS:
        raise DataError(f"{where}: its greatest number is {greatest!r}: scale it nearer to 1")
    return exponent


def check_finite(numbers: np.ndarray, where: str) -> None:
    """DataError naming the first NaN or infinity."""
    if not np.all(np.isfinite(numbers)):
        index = tuple(int(i) for i in np.argwhere(~np.isfinite(numbers))[0])
        raise DataError(
            f"{where}: NaN or infinity at index {index} of (N, H, W, C): fill it, or leave it out"
        )


def rounded_to(numbers: np.ndarray, exponent: int, where: str) -> tuple[np.ndarray, Rounded]:
    """(codes, int16 or where they need it int32; what rounding changed). DataError beyond 24 bits.

    Defined by `spec/data.py: number_code`.
    """
    check_finite(numbers, where)
    flat, codes = np.ascontiguousarray(numbers).reshape(-1), np.empty(numbers.size, np.int32)
    changed, vanished, greatest = 0, 0, 0.0
    for start in range(0, flat.size, _PART):
        values = flat[start : start + _PART].astype(np.float64)
        made = np.rint(np.ldexp(values, -exponent))
        if np.any(np.abs(made) > WIDEST):
            k = start + int(np.argmax(np.abs(made) > WIDEST))
            index = tuple(int(i) for i in np.unravel_index(k, numbers.shape))
            raise DataError(
                f"{where}: {flat[k]} at index {index} of (N, H, W, C) needs more than 24 bits in steps of "
                f"2^{exponent}: scale it as the training part was"
            )
        errors = np.abs(values - np.ldexp(made, exponent))
        changed += int(np.count_nonzero(errors))
        vanished += int(np.count_nonzero(errors[made == 0]))
        greatest = max(greatest, float(errors.max(initial=0)))
        codes[start : start + _PART] = made.astype(np.int32)
    return narrowest(codes.reshape(numbers.shape)), Rounded(changed, flat.size, greatest, vanished)


def codes_like(data: Dataset, X: Any, where: str = "X") -> np.ndarray:
    """Images as the data set's are, of arrays that came later; DataError where they are of another kind.

    A part of the data set's own arrays, as `data.test_images[:8]`, is taken as the codes that it holds.
    """
    array = as_images(X, where)
    if data.of_bytes:
        integers = array.dtype.kind in "iu" and int(array.min()) >= 0 and int(array.max()) <= 255
        if not integers:
            raise DataError(
                f"{where} is of {array.dtype}, from {array.min()} to {array.max()}; the run was trained on "
                f"bytes (byte * 2^{data.exponent}): give integers from 0 to 255, as np.uint8"
            )
        made = array.astype(np.uint8)
    else:
        if array.dtype == np.uint8:
            raise DataError(
                f"{where} is of bytes; the run was trained on numbers: give these, scaled as they were"
            )
        own = _own(data, array)
        if own is None:
            raise DataError(
                f"{where} is of {array.dtype}, as the codes of the run's data set are, but no part of it: of "
                f"codes give their numbers, X * 2.0**{data.exponent}, or a slice of data.test_images; of "
                "whole numbers X.astype(float)"
            )
        made = array if own else rounded_to(array, data.exponent, where)[0]
    if made.shape[1:] != data.image_shape:
        raise DataError(f"{where}: images (H, W, C) of {made.shape[1:]}; the run's are of {data.image_shape}")
    return made


def _own(data: Dataset, array: np.ndarray) -> bool | None:
    """Whether an array is a part of the data set's images, and so of codes, not of numbers; None where that
    cannot be told: of the codes' type, unless those all are multiples of 2^-exponent and these are not."""
    images = [part for part in (data.train_images, data.test_images) if isinstance(part, np.ndarray)]
    if any(np.may_share_memory(array, part) for part in images):
        return True
    if data.exponent == 0 or not any(array.dtype == part.dtype for part in images):
        return False
    below = (1 << max(-data.exponent, 0)) - 1
    whole = data.exponent < 0 and not any(np.any(part & below) for part in images)
    return False if whole and (np.any(array & below) or not np.any(array)) else None


# ---- files ----


def load(path: str, data_dir: Path | None) -> Dataset:
    """The set 'arrays:PATH'; its name keeps a PATH that is relative to data_dir, else the whole path."""
    file = places.below(path, data_dir)
    if not str(file).isprintable():  # reports, packs and their code hold the name
        raise DataError(f"{PREFIX}{path!a}: a path with unprintable characters: name the file anew")
    return read(file, f"{PREFIX}{path if data_dir is not None else file}", in_memory=False)


def read(file: Path, name: str, in_memory: bool) -> Dataset:
    """The data set of a file of arrays, made of them as `from_arrays` does; no pickle is read."""
    try:
        with open(file, "rb") as stream:  # NumPy leaves one that it opens itself open, where it is damaged
            if stream.read(2) not in (b"PK", b"\x93N"):  # of other files NumPy says how to read pickles
                told = f": {OF_A_TABLE.format(name=file.name)}" if file.suffix in TABLES else ""
                raise ValueError(f"neither .npz nor .npy{told}")
            stream.seek(0)
            found = np.load(stream, allow_pickle=False)
            if isinstance(found, np.ndarray):
                raise ValueError("one array alone, not several by name")
            arrays: dict[str, Any] = {key: _plain(found, key) for key in found.files}
    except FileNotFoundError:
        raise DataError(f"{file}: no such file; numpy.savez({file.name!r}, X=X, y=y) writes one") from None
    except MemoryError:
        raise DataError(f"{file}: what its headers say is more than there is memory for") from None
    except UNREADABLE as error:
        raise DataError(f"{file}: not arrays as numpy.savez writes them ({error})") from None
    odd = [key for key in arrays if key not in (*REQUIRED, *OPTIONAL)]
    missing = [key for key in REQUIRED if key not in arrays]
    if odd or missing:
        what = f"has no {missing[0]}" if missing else f"has {odd[0]!r}"
        raise DataError(f"{file} {what}: it has {', '.join(REQUIRED)}, may have {', '.join(OPTIONAL)}")
    return replace(_made(arrays, name), in_memory=in_memory)


def _plain(found: Any, key: str) -> np.ndarray:
    """An array of the file; ValueError for one of objects, with what to do."""
    try:
        array: np.ndarray = found[key]
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        raise ValueError(
            f"{key} holds Python objects: write {key}.astype(float), of labels .astype(int)"
        ) from None
    return array


def again(data: Dataset) -> Dataset:
    """What `read` makes of a file of the data set's `content`."""
    return _made(content(data), data.name)


def _made(arrays: dict[str, Any], name: str) -> Dataset:
    """Of a file's arrays, two of which may be numbers."""
    for key in ("classes", "exponent"):
        if key in arrays and arrays[key].size == 1 and arrays[key].dtype.kind in "iu":
            arrays[key] = arrays[key].item()
    return from_arrays(**arrays, name=name)


def content(data: Dataset) -> dict[str, np.ndarray]:
    """What `read` makes the data set of again: bytes as they are, numbers as float32, which holds them."""

    def values(images: np.ndarray) -> np.ndarray:
        return images if data.of_bytes else np.ldexp(images.astype(np.float32), data.exponent)

    assert isinstance(data.train_images, np.ndarray) and isinstance(data.test_images, np.ndarray)
    arrays = {"X": values(data.train_images), "y": data.train_labels}
    if len(data.test_labels):
        arrays |= {"X_test": values(data.test_images), "y_test": data.test_labels}
    return arrays | {"classes": np.array(data.classes), "exponent": np.array(data.exponent)}
