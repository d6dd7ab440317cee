"""Data sets: checked files in, uint8 images with an exact exponent out, and the order of the images.

`load(name)` finds and checks one of `LOADERS`; `from_arrays` does the same for arrays of the user's;
`order` is the permutation an epoch trains in. Read next: `dataset.py` (what a data set is), then the file of
the set: `digits.py`, `idx_sets.py`; `places.py` says where files are looked for. A new set is a module with a
`load`, and a line in `LOADERS`.

Images are uint8 (N, H, W, C) and mean `byte * 2**exponent` exactly: no mean is taken off and nothing
is divided by 255, so no rounding happens before the first layer. Labels are int64 (N,).
"""

import difflib
import os
from collections.abc import Callable
from pathlib import Path

from intnet.datasets import digits, idx_sets
from intnet.datasets.dataset import Dataset, check_images, check_labels, from_arrays
from intnet.datasets.digits import DIGITS_SHA256
from intnet.datasets.epoch_order import order
from intnet.datasets.idx_sets import DEBIAN_FASHION_MNIST, FASHION_MNIST, IDX_SETS, MNIST
from intnet.errors import ConfigError, DataError

__all__ = [
    "DEBIAN_FASHION_MNIST",
    "DIGITS_SHA256",
    "LOADERS",
    "Dataset",
    "available",
    "check_images",
    "check_labels",
    "from_arrays",
    "load",
    "order",
]

LOADERS: dict[str, Callable[[Path | None], Dataset]] = {
    "digits": digits.load,
    "fashion-mnist": lambda data_dir: idx_sets.load(FASHION_MNIST, data_dir),
    "mnist": lambda data_dir: idx_sets.load(MNIST, data_dir),
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
        return idx_set is None or bool(idx_sets.find(idx_set, _folder(data_dir)))
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
