"""Data sets of four IDX files (`idx.py` reads one): mnist and fashion-mnist.

A set is an `_IdxSet`; `find` says where its files are, `load` reads and checks them.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from intnet.datasets.dataset import Dataset, assemble
from intnet.datasets.places import places
from intnet.errors import DataError
from intnet.idx import read_with_digest, sizes_text

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
    """A data set of the four files of MNIST's layout: 28x28 images, value = byte/256."""

    name: str
    classes: int
    sha256: tuple[str, str, str, str]  # of the published files, uncompressed, in the order of _PARTS
    subsets: bool  # also take files with another number of images than the published ones?
    advice: str  # how to get the files
    system_folders: tuple[Path, ...] = ()


def find(idx_set: _IdxSet, data_dir: Path | None) -> list[Path]:
    """The paths of the four files, in the order of _PARTS, of the first folder that has all of them.

    DataError when there is none: which files, where they were looked for, how to get them.
    """
    looked = []
    for folder in places(idx_set.name, data_dir, idx_set.system_folders):
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
        if digest != idx_set.sha256[i] and (whole or not idx_set.subsets):
            raise DataError(
                f"{path}: SHA-256 of the content is {digest}, but that of the published "
                f"{idx_set.name} file is {idx_set.sha256[i]}: a damaged file, or one of another data "
                f"set. {idx_set.advice}"
            )
        arrays.append(array)
    return assemble(idx_set.name, arrays, [str(path) for path in paths], idx_set.classes, exponent=-8)


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

IDX_SETS: dict[str, _IdxSet] = {"fashion-mnist": FASHION_MNIST, "mnist": MNIST}
