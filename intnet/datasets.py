"""Data sets: checked files in, uint8 images with an exact exponent out, and the order of the images.

`load(name)` finds and checks one of `LOADERS`; `from_arrays` does the same for arrays of the user's.
`idx.py` reads the file format; `order` is the permutation an epoch trains in.
Read next: `Dataset` (what a data set is), then `LOADERS` at the end (what there is, where to add one).

Images are uint8 (N, H, W, C) and mean `byte * 2**exponent` exactly: no mean is taken off and nothing
is divided by 255, so no rounding happens before the first layer. Labels are int64 (N,).
"""

import difflib
import importlib.resources
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from intnet import rng
from intnet.errors import ConfigError, DataError
from intnet.idx import read_idx, read_with_digest, sizes_text

DEBIAN_FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")  # of the package dataset-fashion-mnist


@dataclass(frozen=True, eq=False)  # arrays do not compare to one truth value
class Dataset:
    """Training and test images of one data set; every field was checked when it was made.

    train_images, test_images: uint8 (N, H, W, C), value = byte * 2**exponent.
    train_labels, test_labels: int64 (N,), each in 0..classes-1.
    """

    name: str
    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray
    exponent: int
    classes: int

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
        if not _is_int(n) or not 1 <= n <= available:
            raise ConfigError(f"{self.name}: cannot take the first {n!r} of {available} training images")
        return replace(self, train_images=self.train_images[:n], train_labels=self.train_labels[:n])


# ---- checks, for files and for arrays of the user's ----


def _is_int(value: object) -> bool:
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
    if not _is_int(classes) or classes < 1:
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


def _assemble(name: str, arrays: list[np.ndarray], where: list[str], classes: int, exponent: int) -> Dataset:
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
    if not _is_int(exponent):
        raise ConfigError(f"{name}: exponent {exponent!r} is not an integer (value = byte * 2**exponent)")
    arrays = [train_images, train_labels, test_images, test_labels]
    where = [f"{name} {part}" for part in ("train_images", "train_labels", "test_images", "test_labels")]
    return _assemble(name, arrays, where, classes, int(exponent))


# ---- sets of four IDX files ----

_PARTS = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
_PUBLISHED = (60_000, 60_000, 10_000, 10_000)  # images or labels in the published file of each part


@dataclass(frozen=True)
class _IdxSet:
    """A data set of the four files of MNIST's layout: 28x28 images, value = byte/256."""

    name: str
    classes: int
    sha256: tuple[str, str, str, str]  # of the published files, uncompressed, in the order of _PARTS
    subsets: bool  # also take files with another number of images than the published ones?
    advice: str  # how to get the files
    system_folders: tuple[Path, ...] = ()


def _places(name: str, data_dir: Path | None, system: tuple[Path, ...]) -> list[Path]:
    """The folders to look in, first to last.

    A given data_dir is the only one: other data than asked for would be worse than an error. In each place
    the sub-folder comes first, because mnist and fashion-mnist have the same file names.
    """
    if data_dir is not None:
        roots = [data_dir]
    else:
        # XDG asks to ignore a relative $XDG_CACHE_HOME.
        cache = os.environ.get("XDG_CACHE_HOME", "")
        cache = cache if os.path.isabs(cache) else os.path.expanduser("~/.cache")
        own = os.environ.get("INTNET_DATA", "")
        roots = ([Path(os.path.expanduser(own))] if own else []) + [Path(cache) / "intnet"]
    places = [folder for root in roots for folder in (root / name, root)]
    return places if data_dir is not None else [*places, *system]


def _find(idx_set: _IdxSet, data_dir: Path | None) -> list[Path]:
    """The paths of the four files, in the order of _PARTS, of the first folder that has all of them.

    DataError when there is none: which files, where they were looked for, how to get them.
    """
    looked = []
    for folder in _places(idx_set.name, data_dir, idx_set.system_folders):
        candidates = [(folder / part, folder / f"{part}.gz") for part in _PARTS]
        found = [next((path for path in pair if os.path.isfile(path)), None) for pair in candidates]
        paths = [path for path in found if path is not None]
        if len(paths) == len(_PARTS):
            return paths
        lacking = [part for part, path in zip(_PARTS, found, strict=True) if path is None]
        if not folder.is_dir():
            looked.append(f"{folder} (no such folder)")
        else:
            looked.append(f"{folder} ({'has none of them' if not paths else 'lacks ' + ', '.join(lacking)})")
    only = " (only there, because this data folder was given)" if data_dir is not None else ""
    raise DataError(
        f"{idx_set.name}: data files not found. Needed, in one folder, each plain or with .gz: "
        f"{', '.join(_PARTS)}. Looked in: {'; '.join(looked)}{only}. {idx_set.advice}"
    )


def _load_idx_set(idx_set: _IdxSet, data_dir: Path | None) -> Dataset:
    paths = _find(idx_set, data_dir)
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
        if digest != idx_set.sha256[i] and (whole or not idx_set.subsets):
            raise DataError(
                f"{path}: SHA-256 of the content is {digest}, but that of the published "
                f"{idx_set.name} file is {idx_set.sha256[i]}: a damaged file, or one of another data "
                f"set. {idx_set.advice}"
            )
        arrays.append(array)
    return _assemble(idx_set.name, arrays, [str(path) for path in paths], idx_set.classes, exponent=-8)


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
    system_folders=(DEBIAN_FASHION_MNIST,),
)

# Smaller files in MNIST's format are welcome under this name (a subset, a set of one's own): their
# number is what their headers say. Files of the published numbers must be the published ones, which
# also catches Fashion-MNIST's, of the same names and sizes.
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
)


# ---- the embedded digits ----

DIGITS_SHA256 = {
    "digits-images-idx3-ubyte.gz": "359cd13f0f514122884198b78a131df597421cbf5e93a76678fa96fc548f0d96",
    "digits-labels-idx1-ubyte.gz": "ce71631c1f31ce56fa54f31d1d498fafacff59b001e6c30c4a5e29508aa277ad",
}


def _load_digits(data_dir: Path | None) -> Dataset:
    """The embedded 8x8 digits, 0..16 as 0..1. data_dir plays no part: the files come with intnet.

    The fixed split: image i is a test image when i % 5 == 4 (359 images), else a training image (1,438).
    """
    del data_dir
    try:
        folder = importlib.resources.files("intnet.data")
    except ModuleNotFoundError:
        # A checkout that is not installed: there the package is the folder data/ beside intnet/.
        folder = Path(__file__).parent.parent / "data"
    arrays = []
    for file, sha256 in DIGITS_SHA256.items():
        with importlib.resources.as_file(folder.joinpath(file)) as path:
            arrays.append(read_idx(path, sha256))
    images, labels = arrays
    test = np.arange(len(images)) % 5 == 4
    parts = [images[~test], labels[~test], images[test], labels[test]]
    return _assemble("digits", parts, ["digits (embedded)"] * 4, classes=10, exponent=-4)


# ---- the registry ----

IDX_SETS: dict[str, _IdxSet] = {"fashion-mnist": FASHION_MNIST, "mnist": MNIST}

LOADERS: dict[str, Callable[[Path | None], Dataset]] = {
    "digits": _load_digits,
    "fashion-mnist": lambda data_dir: _load_idx_set(FASHION_MNIST, data_dir),
    "mnist": lambda data_dir: _load_idx_set(MNIST, data_dir),
}


def load(name: str, data_dir: str | os.PathLike[str] | None = None) -> Dataset:
    """The data set `name`, one of LOADERS, with every file checked.

    Files are looked for in data_dir and nowhere else when it is given; otherwise in $INTNET_DATA, the user's
    cache ($XDG_CACHE_HOME or ~/.cache)/intnet, and where the system's packages put them. In each of the
    first ones a sub-folder of the set's name comes before the folder itself. `digits` needs no files.
    ConfigError: no such data set. DataError: files missing, damaged, or of something else.
    """
    return _known(name)(_folder(data_dir))


def available(name: str, data_dir: str | os.PathLike[str] | None = None) -> bool:
    """Whether the files of the data set `name` are where `load` looks for them; their content is not read."""
    _known(name)
    idx_set = IDX_SETS.get(name)
    try:
        return idx_set is None or bool(_find(idx_set, _folder(data_dir)))
    except DataError:
        return False


def _known(name: str) -> Callable[[Path | None], Dataset]:
    if name not in LOADERS:
        close = difflib.get_close_matches(str(name), LOADERS, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ConfigError(f"unknown data set {name!r}; known: {', '.join(LOADERS)}{hint}")
    return LOADERS[name]


def _folder(data_dir: str | os.PathLike[str] | None) -> Path | None:
    return None if data_dir is None else Path(os.path.expanduser(data_dir))


# ---- the order of the images ----


def order(seed: int, epoch: int, n: int) -> np.ndarray:
    """int64[n]: the permutation of the n training images in which one epoch goes through them.

    Image i has the 64-bit key (word 2i, word 2i+1), high half first, of the stream "data/order" at step
    `epoch`; the permutation sorts by key, equal keys in order of i. It depends on nothing else.
    ConfigError for n < 1 and for a seed or an epoch that the generator does not take.
    """
    if not _is_int(n) or n < 1:
        raise ConfigError(f"an order of {n!r} images: there must be at least 1")
    halves = rng.words(seed, step=epoch, stream=rng.stream("data/order"), n=2 * n).astype(np.uint64)
    keys = halves[0::2] << np.uint64(32) | halves[1::2]
    return np.argsort(keys, kind="stable").astype(np.int64)
