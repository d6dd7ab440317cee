"""A folder of images by class: `folder:PATH`, with PATH/train/CLASS/*.png and PATH/test/CLASS/*.jpg.

The images to test on are in test/ or, where there is none, in val/. Classes are the names of train's folders
in their order as texts. The images go round the classes: the first file of each class by name, then the
second of each, ..., so that the first n of them (`--limit`) are of all classes.

Nothing is left out in silence: what is neither an image nor hidden is an error. Only hidden files and what
file managers leave (JUNK) are passed over.
"""

import os
from collections.abc import Callable, Sequence
from itertools import zip_longest
from pathlib import Path

import numpy as np

from intnet.datasets import places
from intnet.datasets.dataset import Dataset
from intnet.datasets.image_files import SUFFIXES, FileImages, look, pillow
from intnet.errors import DataError

PREFIX = "folder:"
JUNK = ("thumbs.db", "desktop.ini")

Listed = Sequence[tuple[str, int]]  # (path, label) of every image of a part


def load(path: str, data_dir: Path | None, side: int | None = None) -> Dataset:
    """The images below a folder; side: scale the middle square of each to it.

    The set's name keeps a PATH that is relative to data_dir, so that both can move; else the whole path.
    DataError names the file or folder that is wrong.
    """
    pillow()  # told before anything is read
    folder = places.below(path, data_dir)
    if not str(folder).isprintable():  # reports, packs and their code hold the name
        raise DataError(f"{PREFIX}{path!a}: a path with unprintable characters: name the folder anew")
    if not folder.is_dir():
        raise DataError(f"{PREFIX}{path}: there is no folder {folder}")
    train, test = folder / "train", folder / ("test" if (folder / "test").is_dir() else "val")
    for part in (train, test):
        if not part.is_dir():
            raise DataError(
                f"{folder}: it has no {part.name}/: a folder of images has train/CLASS/ and test/CLASS/ "
                "(or val/CLASS/)"
            )
    classes = [entry.name for entry in _folders(train)]
    if not classes:
        raise DataError(f"{train}: no folders of classes")
    name = f"{PREFIX}{path if data_dir is not None else folder}"
    listed = _by_class(train, classes), _by_class(test, classes)
    return dataset(name, listed[0], listed[1], len(classes), side)


def dataset(
    name: str,
    train: Listed,
    test: Listed,
    classes: int,
    side: int | None = None,
    shape: tuple[int, int, int] | None = None,
) -> Dataset:
    """A Dataset of image files; shape: (H, W, C) that they must have, where a set says so."""
    looked = [look([path for path, _ in part]) for part in (train, test)]
    channels = max(part.channels for part in looked)
    height, width = looked[0].sizes[0] if shape is None else shape[:2]
    for part in looked:
        odd = np.flatnonzero((part.sizes != (height, width)).any(axis=1))
        if odd.size and side is None:
            here = "{1}x{0}".format(*part.sizes[odd[0]])
            advice = f"those of {name} have {width}x{height}"
            if shape is None:
                advice = (
                    f"{looked[0].paths[0]} has {width}x{height}; --image-size S scales the middle square "
                )
                advice += "of each to S pixels"
            raise DataError(f"{part.paths[odd[0]]}: an image of {here} pixels, but {advice}")
    images = [FileImages(part, shape[2] if shape else channels, side) for part in looked]
    labels = [np.array([label for _, label in part], np.int64) for part in (train, test)]
    return Dataset(name, images[0], labels[0], images[1], labels[1], -8, classes, side)


def rounds(by_class: Sequence[Sequence[str]]) -> list[tuple[str, int]]:
    """(path, label) of all files: the first of each class, then the second of each, ..."""
    return [
        (path, label) for one in zip_longest(*by_class) for label, path in enumerate(one) if path is not None
    ]


def files(folder: Path, allowed: Callable[[str], bool]) -> list[str]:
    """Paths of the images right below a folder, by name; DataError where there is anything else."""
    found = []
    for entry in entries(folder):
        if not allowed(entry.name):
            what = "a folder" if os.path.isdir(entry.path) else "not an image by its name"
            raise DataError(f"{entry.path}: {what}; here are only {', '.join(SUFFIXES)}: move it elsewhere")
        if not os.path.isfile(entry.path):
            raise DataError(f"{entry.path}: not a file, but a folder, a pipe, or a link that leads nowhere")
        found.append(entry.path)
    if not found:
        raise DataError(f"{folder}: no images")
    return found


def is_image(name: str) -> bool:
    """Whether a file's name ends as an image's does, in letters of either case."""
    return name.lower().endswith(SUFFIXES)


def entries(folder: Path) -> list[os.DirEntry[str]]:
    """What is in a folder, by name, without hidden files and junk; DataError where it cannot be read."""
    try:
        with os.scandir(folder) as found:
            kept = [entry for entry in found if entry.name[0] != "." and entry.name.lower() not in JUNK]
    except OSError as error:
        raise DataError(f"{folder}: cannot be read ({error.strerror or error})") from error
    return sorted(kept, key=lambda entry: entry.name)


def _folders(part: Path) -> list[os.DirEntry[str]]:
    found = entries(part)
    for entry in found:
        if not os.path.isdir(entry.path):
            raise DataError(f"{entry.path}: not a folder; {part} holds a folder for each class, nothing else")
    return found


def _by_class(part: Path, classes: list[str]) -> Listed:
    """The images of a part; every folder in it must be of a class, not every class need be there."""
    numbers = {name: label for label, name in enumerate(classes)}
    by_class: list[list[str]] = [[] for _ in classes]
    for entry in _folders(part):
        if entry.name not in numbers:
            raise DataError(f"{entry.path}: a class that train/ does not have")
        by_class[numbers[entry.name]] = files(Path(entry.path), is_image)
    if not any(by_class):
        raise DataError(f"{part}: no folders of classes")
    return rounds(by_class)
