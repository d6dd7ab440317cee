"""Data sets: checked files in, uint8 images with an exact exponent out, and the batches of a run.

`load(name)` finds and checks one of `LOADERS`, a folder of images or a file of arrays; `from_arrays` takes
arrays at hand, of bytes or of numbers. Read in this order:

    dataset.py       what a data set is           image_files.py   images that are decoded when indexed
    places.py        where files are looked for   augment.py       random crops and mirror images
    batches.py       the batch of a step, and reading ahead

and one file a kind of set: digits.py, idx.py, cifar.py, tiny_imagenet.py, folder.py, arrays.py. A new set
is a module with `find` and `load`, and a line in `FINDERS` and `LOADERS`; `register` adds one's own, a
function of the folder that is looked in (None: none was given) that gives a `Dataset`.

Images are uint8 (N, H, W, C) and mean `byte * 2**exponent` exactly: no mean is taken off and nothing
is divided by 255, so no rounding happens before the first layer; numbers of arrays are rounded once, to such
codes of 16 bits. Labels are int64 (N,).
"""

import dataclasses
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from intnet.datasets import arrays, cifar, digits, folder, idx, places, tiny_imagenet
from intnet.datasets.arrays import from_arrays
from intnet.datasets.augment import Augment
from intnet.datasets.batches import Ahead, Batches, order
from intnet.datasets.dataset import Dataset, check_images, check_labels
from intnet.datasets.digits import DIGITS_SHA256
from intnet.datasets.idx import DEBIAN_FASHION_MNIST
from intnet.datasets.image_files import FileImages
from intnet.errors import ConfigError, DataError
from intnet.plugins import Registry

__all__ = [
    "DEBIAN_FASHION_MNIST",
    "DIGITS_SHA256",
    "FINDERS",
    "LOADERS",
    "Ahead",
    "Augment",
    "Batches",
    "Dataset",
    "FileImages",
    "available",
    "check_images",
    "check_labels",
    "findable",
    "from_arrays",
    "load",
    "order",
    "register",
]

# A DataError of theirs says that the files are not there; digits has none to look for.
FINDERS: dict[str, Callable[[Path | None], object]] = {
    **{name: partial(idx.find, one) for name, one in idx.IDX_SETS.items()},
    "cifar10": partial(cifar.find, cifar.CIFAR10),
    "cifar100": partial(cifar.find, cifar.CIFAR100),
    "tiny-imagenet": tiny_imagenet.find,
}


_KNOWN: dict[str, Callable[[Path | None], Dataset]] = {
    "digits": digits.load,
    **{name: partial(idx.load, one) for name, one in idx.IDX_SETS.items()},
    "cifar10": partial(cifar.load, cifar.CIFAR10),
    "cifar100": partial(cifar.load, cifar.CIFAR100),
    "tiny-imagenet": tiny_imagenet.load,
}
LOADERS = Registry(
    "data set", _KNOWN, lambda name, load: None, [f"{folder.PREFIX}PATH", f"{arrays.PREFIX}FILE.npz"]
)
register = LOADERS.register


def load(name: str, data_dir: str | os.PathLike[str] | None = None, image_size: int | None = None) -> Dataset:
    """The data set `name`, one of LOADERS, 'folder:PATH' or 'arrays:FILE.npz', with every file checked.

    Files are looked for in data_dir and nowhere else when it is given; otherwise in $INTNET_DATA, the user's
    cache (`machine/folders.py: user_cache`), and where the system's packages put them. In each of the
    first ones a sub-folder of the set's name comes before the folder itself. `digits` needs no files. PATH or
    FILE is relative to data_dir, if one is given. image_size: of a folder's images, which are scaled to it.
    ConfigError: no such data set. DataError: files missing, damaged, or of something else.
    """
    if image_size is not None and not 1 <= image_size <= 4096:
        raise ConfigError(f"image size {image_size}: give 1 to 4096 pixels")
    if str(name).startswith(folder.PREFIX):
        return folder.load(_path(name), _folder(data_dir), image_size)
    loader = partial(arrays.load, _path(name)) if name.startswith(arrays.PREFIX) else _known(name)
    if image_size is not None:
        raise ConfigError(f"image size {image_size}: only the images of folder:PATH have sizes of their own")
    loaded = loader(_folder(data_dir))
    if not isinstance(loaded, Dataset):
        raise ConfigError(
            f"data set {name!r}: its function gives {type(loaded).__name__}: a Dataset is wanted, as "
            "datasets.from_arrays(X, y, X_test, y_test) makes one"
        )
    return dataclasses.replace(loaded, name=name) if name in LOADERS.origins else loaded


def available(name: str, data_dir: str | os.PathLike[str] | None = None) -> bool:
    """Whether the files of the data set `name` are where `load` looks for them.

    Of their content no more is read than tells two sets of the same names apart.
    """
    if str(name).startswith(folder.PREFIX):
        return places.below(_path(name), _folder(data_dir)).is_dir()
    if str(name).startswith(arrays.PREFIX):
        return places.below(_path(name), _folder(data_dir)).is_file()
    _known(name)
    try:
        return name not in FINDERS or bool(FINDERS[name](_folder(data_dir)))
    except DataError:
        return False


def findable(name: str) -> bool:
    """Whether `load` knows where to look for a set of this name; one made of arrays at hand has none."""
    return name in LOADERS or name.startswith((folder.PREFIX, arrays.PREFIX))


def _known(name: str) -> Callable[[Path | None], Dataset]:
    if name not in LOADERS and os.path.isdir(name):
        raise ConfigError(f"unknown data set {name!r}; for a folder of images write {folder.PREFIX}{name}")
    if name not in LOADERS and os.path.isfile(name) and name.endswith(arrays.TABLES):
        raise ConfigError(
            f"unknown data set {name!r}; {arrays.OF_A_TABLE.format(name=os.path.basename(name))}"
        )
    if name not in LOADERS and os.path.isfile(name):
        raise ConfigError(f"unknown data set {name!r}; for a file of arrays write {arrays.PREFIX}{name}")
    return LOADERS.find(name)


def _path(name: str) -> str:
    kind, _, path = name.partition(":")
    if not path and kind == "folder":
        raise ConfigError("folder: of which images? write folder:PATH, with PATH/train/CLASS/*.png in it")
    if not path:
        raise ConfigError("arrays: of which file? write arrays:FILE.npz, with X and y in it")
    return path


def _folder(data_dir: str | os.PathLike[str] | None) -> Path | None:
    return None if data_dir is None else Path(os.path.expanduser(data_dir))
