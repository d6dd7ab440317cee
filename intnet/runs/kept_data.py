"""Data of arrays at hand, which no name finds again: kept as data.npz in the run's folder, up to a size."""

from pathlib import Path

import numpy as np

from intnet import datasets
from intnet.datasets import Dataset, arrays
from intnet.errors import ConfigError
from intnet.runs import archive, files

DATA = "data.npz"
LARGEST = 1 << 28  # bytes of arrays


def content(folder: Path, data: Dataset) -> dict[str, np.ndarray]:
    """What data.npz is to hold, nothing where a name finds the data; ConfigError where it is too large."""
    if not data.in_memory and datasets.findable(data.name):
        return {}
    made = arrays.content(data)
    size = sum(array.nbytes for array in made.values())
    if size > LARGEST:
        raise ConfigError(
            f"{folder}: the data are {size:,} bytes, and a run folder keeps up to {LARGEST:,} of arrays: "
            "numpy.savez('mine.npz', X=X, y=y) once, then train on datasets.load('arrays:mine.npz')"
        )
    return made


def write(folder: Path, made: dict[str, np.ndarray]) -> None:
    """Write data.npz where it has something to hold."""
    if made:
        files.replace(folder / DATA, lambda stream: archive.write_npz(stream, made))


def read(folder: Path, name: str) -> Dataset | None:
    """The data of data.npz, None where `name` finds them; ConfigError where neither does."""
    if (folder / DATA).exists():
        return arrays.read(folder / DATA, name, in_memory=True)
    if not datasets.findable(name):
        raise ConfigError(
            f"{folder} was trained on arrays at hand, {name!r}, and its {DATA} is gone: put it back, or "
            "test on other data: intnet eval RUN --data D, intnet.load(RUN, data=a Dataset)"
        )
    return None
