"""Folders of images for tests: PNG and JPEG files written by Pillow, of pixels that a test can recompute."""

import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image


def pixels(i: int, height: int = 8, width: int = 8, channels: int = 1) -> np.ndarray:
    """uint8 (height, width, channels): bytes of image i."""
    places = np.arange(height * width * channels).reshape(height, width, channels)
    return ((37 * i + 11 * places) % 256).astype(np.uint8)


def encoded(array: np.ndarray, kind: str = "PNG", **options: Any) -> bytes:
    """A file's content."""
    stream = io.BytesIO()
    Image.fromarray(array[..., 0] if array.shape[-1] == 1 else array).save(stream, kind, **options)
    return stream.getvalue()


def put(path: Path, content: bytes) -> Path:
    """A whole file at once: a reader ahead of the training may open it at any moment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    new.write_bytes(content)
    new.replace(path)
    return path


def folder(root: Path, train: int = 6, test: int = 2, classes: str = "ab", channels: int = 1) -> Path:
    """train/CLASS/N.png with `train` images a class, test/CLASS/N.png; class c's image n is `number`."""
    for part, many in (("train", train), ("test", test)):
        for c, name in enumerate(classes):
            for n in range(many):
                image = pixels(number(part, c, n), channels=channels)
                put(root / part / name / f"{n:03}.png", encoded(image))
    return root


def number(part: str, label: int, n: int) -> int:
    """Of the image n of a class, other than all others'."""
    return 1000 * (part == "test") + 100 * label + n
