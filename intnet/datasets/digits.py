"""The digits that come with intnet: 1,797 images of 8x8 of the UCI Optical Recognition set."""

import importlib.resources
from pathlib import Path

import numpy as np

from intnet.datasets.dataset import Dataset, assemble
from intnet.datasets.idx import read_idx

DIGITS_SHA256 = {
    "digits-images-idx3-ubyte.gz": "359cd13f0f514122884198b78a131df597421cbf5e93a76678fa96fc548f0d96",
    "digits-labels-idx1-ubyte.gz": "ce71631c1f31ce56fa54f31d1d498fafacff59b001e6c30c4a5e29508aa277ad",
}


def load(data_dir: Path | None) -> Dataset:
    """The embedded 8x8 digits, 0..16 as 0..1. data_dir plays no part: the files come with intnet.

    The fixed split: image i is a test image when i % 5 == 4 (359 images), else a training image (1,438).

    Defined by `spec/data.py: digits`.
    """
    del data_dir
    try:
        folder = importlib.resources.files("intnet.data")
    except ModuleNotFoundError:
        # A checkout that is not installed: there the package is the folder data/ beside intnet/.
        folder = Path(__file__).parents[2] / "data"
    arrays = []
    for file, sha256 in DIGITS_SHA256.items():
        with importlib.resources.as_file(folder.joinpath(file)) as path:
            arrays.append(read_idx(path, sha256))
    images, labels = arrays
    test = np.arange(len(images)) % 5 == 4
    parts = [images[~test], labels[~test], images[test], labels[test]]
    return assemble("digits", parts, ["digits (embedded)"] * 4, classes=10, exponent=-4)
