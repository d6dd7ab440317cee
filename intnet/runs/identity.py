"""The identity of a run: all that decides a bit of it, as JSON values, which its folder keeps and compares.

`identity` makes it, `data_sha256` is its part of the data; `check_same_data` says why a run that was made
again from an identity is not that run. What a key must hold: IDENTITY, of every run, and OF_SOME.
"""

import hashlib
from types import NoneType
from typing import Any

import numpy as np

from intnet import plugins
from intnet.datasets import Dataset, FileImages
from intnet.errors import DataError
from intnet.runs import state_dicts
from intnet.training.train import Run

IDENTITY = {  # shapes (`runs/records.py`) of what `identity` gives
    "method": str,
    "options": {str: (str, float, bool, NoneType)},
    "model": str,
    "image_shape": [int],
    "classes": int,
    "data": str,
    "limit": int,
    "data_sha256": str,
    "batch_size": int,
    "seed": int,
}
OF_SOME = {  # what only some runs have: a run without a key is what it was before there was the key
    "augment": str,  # `datasets.Augment`
    "image_size": int,  # of `datasets.load`
    "decoder": str,  # `Dataset.decoder`
    "weights": state_dicts.GIVEN,  # what `state_dicts.load` tells
    "plugins": plugins.SHAPE,  # what `plugins.used` tells
}


def identity(run: Run, sha256: str | None = None) -> dict[str, Any]:
    """All that decides a bit of the run, as JSON values; `limit` is the number of training images.

    sha256: `data_sha256` of the run's data, where it is known already
    """
    data, own = run.data, run.plugins
    if own is None:
        own = plugins.used({"method": run.method.name, "model": run.model.kind, "data set": data.name})
    some = {
        "augment": str(run.augment),
        "image_size": data.image_size,
        "decoder": data.decoder,
        "weights": run.weights,
        "plugins": own,
    }
    return {
        "method": run.method.name,
        "options": run.method.settings(),
        "model": run.model.kind,
        "image_shape": list(run.model.image_shape),
        "classes": run.model.classes,
        "data": run.data.name,
        "limit": len(run.data.train_labels),
        "data_sha256": sha256 or data_sha256(run.data),
        "batch_size": run.batch_size,
        "seed": run.seed,
    } | {key: value for key, value in some.items() if value}


def data_sha256(data: Dataset) -> str:
    """Hex SHA-256 over the images and labels of both parts, their shapes, the exponent and the classes.

    Images in files count by the SHA-256 of each file; `Dataset.decoder` is what else their pixels depend on.
    """
    sha = hashlib.sha256(f"{data.exponent} {data.classes}\n".encode())
    for array in (data.train_images, data.train_labels, data.test_images, data.test_labels):
        kind, content = (
            ("files", array.digests) if isinstance(array, FileImages) else (array.dtype.name, array)
        )
        sha.update(f"{kind} {list(array.shape)}\n".encode())
        sha.update(np.ascontiguousarray(content).data)
    return sha.hexdigest()


def check_same_data(own: dict[str, Any], run: Run, trained: str) -> None:
    """DataError unless `run`, made from the identity `own`, reads the same data; trained: what did before."""
    again = identity(run)
    if again.get("decoder") != own.get("decoder"):
        raise DataError(
            f"{trained} had its images from {own.get('decoder')}, here they are from {again.get('decoder')}, "
            "whose pixels may differ: install that version, or train anew"
        )
    # a key that came later has the default that leaves runs as they were
    if again | {"options": own["options"]} != own:
        raise DataError(
            f"data set {own['data']!r} is not the one that {trained} was trained on: its files changed"
        )
