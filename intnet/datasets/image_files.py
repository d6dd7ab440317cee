"""Images in files, PNG or JPEG: looked at once, decoded whenever they are indexed.

`look` reads every file once: it must be an image that intnet takes, and its SHA-256 is kept. `FileImages` is
what a data set has in place of an array: `images[index]` reads and decodes, and refuses a file that is no
longer the one that was looked at. So a run's identity is that of the bytes it really reads, and only a
batch of a large set is in memory at a time.

Every decoder makes the same pixels of a PNG. Of a JPEG, and where images are scaled, they depend on the
decoder: `FileImages.decoder` names it then, and a run goes on only under the same one. Pillow decodes (the
extra `images`); a picture's pixels are taken as stored: no EXIF rotation, no colour profile, no gamma.
"""

import hashlib
import io
import multiprocessing
import os
import stat
import struct
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from intnet.errors import ConfigError, DataError

SUFFIXES = (".png", ".jpg", ".jpeg")
LARGEST_FILE = 1 << 28  # bytes
LARGEST_IMAGE = 1 << 26  # pixels: what a small file can ask a decoder for has no other end

_FORMATS = ("PNG", "JPEG")
_MAGIC = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff")  # what their files begin with
_CHANNELS = {"1": 1, "L": 1, "P": 3, "RGB": 3}  # of Pillow's modes that have 8 bits or fewer a channel
_SHOWN = 500  # files between two changes of the line on a terminal


def pillow() -> Any:
    """Pillow's `Image`; ConfigError where it is not installed."""
    try:
        from PIL import Image
    except ImportError:
        raise ConfigError(
            "image files are decoded by Pillow, which is not here: pip install pillow"
        ) from None
    return Image


def decoder() -> str:
    """What pixels of a JPEG and of a scaled image depend on: 'Pillow 11.3.0, libjpeg-turbo 3.1.1'."""
    import PIL
    from PIL import features

    turbo = features.version_feature("libjpeg_turbo")
    jpeg = f"libjpeg-turbo {turbo}" if turbo else f"libjpeg {features.version_codec('jpg')}"
    return f"Pillow {PIL.__version__}, {jpeg}"


@dataclass(frozen=True)
class Looked:
    """What files were when they were looked at; one entry a file.

    digests: uint8 (n, 32), SHA-256; sizes: int64 (n, 2), height and width; lossy: is a JPEG among them?
    """

    paths: Sequence[str]
    digests: np.ndarray
    sizes: np.ndarray
    channels: int
    lossy: bool


class FileImages:
    """uint8 images (N, H, W, C) that lie in files, decoded when they are indexed, by any thread.

    side: cut out the middle square of each and scale it to this; None: all files have one shape already
    """

    def __init__(self, looked: Looked, channels: int, side: int | None = None) -> None:
        self._paths, self.digests, self._side = looked.paths, looked.digests, side
        height, width = looked.sizes[0] if side is None else (side, side)
        self.shape = (len(looked.paths), int(height), int(width), channels)
        scaled = side is not None and bool((looked.sizes != side).any())
        self.decoder = decoder() if scaled or looked.lossy else ""

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: slice | np.ndarray) -> np.ndarray:
        """uint8 (n, H, W, C) of a slice or of an array of indices; DataError names a file that is bad."""
        chosen = np.arange(len(self))[index]
        out = np.empty((len(chosen), *self.shape[1:]), np.uint8)
        for k, i in enumerate(chosen.tolist()):
            out[k] = self._decoded(i)
        return out

    def first(self, n: int) -> "FileImages":
        """The first n images."""
        part = object.__new__(FileImages)
        part.__dict__ |= self.__dict__
        part._paths, part.digests, part.shape = self._paths[:n], self.digests[:n], (n, *self.shape[1:])
        return part

    def _decoded(self, i: int) -> np.ndarray:
        path = self._paths[i]
        content = _content(path)
        if hashlib.sha256(content).digest() != self.digests[i].tobytes():
            raise DataError(f"{path}: the file is not what it was when the data set was loaded")
        mode = "L" if self.shape[3] == 1 else "RGB"
        try:
            with pillow().open(io.BytesIO(content), formats=_FORMATS) as image:
                pixels = np.asarray(_scaled(image.convert(mode), self._side))
        except Exception as error:  # of whatever kind: a decoder that meets damage raises many
            raise _damaged(path, error) from error
        return pixels.reshape(self.shape[1:])


def _scaled(image: Any, side: int | None) -> Any:
    """The largest centred square, scaled to `side`: the shorter side comes to it, the rest is cut off.

    Cut before it is scaled: no pixel outside counts, and a long thin image asks for no more memory.
    """
    if side is None or image.size == (side, side):
        return image
    width, height = image.size
    short = min(width, height)
    left, top = (width - short) // 2, (height - short) // 2
    resample = pillow().Resampling.BILINEAR
    return image.crop((left, top, left + short, top + short)).resize((side, side), resample)


def look(paths: Sequence[str]) -> Looked:
    """Read every file once; DataError names the first that is not an image that intnet takes."""
    library = pillow()
    digests, sizes = np.empty((len(paths), 32), np.uint8), np.empty((len(paths), 2), np.int64)
    channels, lossy = 1, False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's own of large or odd images; what counts is checked here
        for i, path in enumerate(paths):
            content = _content(path)
            digests[i] = np.frombuffer(hashlib.sha256(content).digest(), np.uint8)
            sizes[i], mode, jpeg = _header(library, path, content)
            channels, lossy = max(channels, _CHANNELS[mode]), lossy or jpeg
            _show(i + 1, len(paths))
    return Looked(paths, digests, sizes, channels, lossy)


def _content(path: str) -> bytes:
    """The bytes of a file; a pipe or device in its place is not waited for."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with open(handle, "rb") as stream:
            about = os.fstat(handle)
            if not stat.S_ISREG(about.st_mode):
                raise DataError(f"{path}: not a file")
            if about.st_size > LARGEST_FILE:
                raise DataError(
                    f"{path}: {about.st_size:,} bytes; an image file has at most {LARGEST_FILE:,}"
                )
            content = stream.read()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
    if not content:
        raise DataError(f"{path}: the file is empty")
    return content


def _header(library: Any, path: str, content: bytes) -> tuple[tuple[int, int], str, bool]:
    """((height, width), Pillow's mode, is it a JPEG?), when it is an image whose every pixel counts."""
    try:
        with library.open(io.BytesIO(content), formats=_FORMATS) as image:
            (width, height), mode, png = image.size, image.mode, image.format == "PNG"
            alpha = "transparency" in image.info or mode in ("LA", "PA", "RGBA")
            frames = getattr(image, "n_frames", 1) if png else 1
            if png:
                image.verify()  # check sums of its parts
    except library.UnidentifiedImageError as error:
        if content.startswith(_MAGIC):
            raise _damaged(path, ValueError("its header is cut or wrong")) from error
        begin = content[:8].hex(" ")
        raise DataError(
            f"{path}: not a PNG or JPEG, whatever its name says: it begins with {begin}"
        ) from None
    except library.DecompressionBombError:
        raise DataError(f"{path}: it has more than {LARGEST_IMAGE:,} pixels") from None
    except Exception as error:  # as in `_decoded`
        raise _damaged(path, error) from error
    if width * height > LARGEST_IMAGE:
        raise DataError(f"{path}: {width}x{height}: it has more than {LARGEST_IMAGE:,} pixels")
    # the depth in a PNG's header: Pillow drops the lower byte of 16 bits a channel without a word
    deep = png and len(content) > struct.calcsize(">8xI4sII") and content[24] == 16
    if alpha or deep or frames > 1 or mode not in _CHANNELS:
        what = "transparency" if alpha else "16 bits a channel" if deep else f"mode {mode}"
        what = "several frames" if frames > 1 else what
        raise DataError(f"{path}: an image with {what}: convert it to RGB or gray of 8 bits a channel")
    return (height, width), mode, not png


def _damaged(path: str, error: Exception) -> DataError:
    return DataError(f"{path}: damaged, it cannot be decoded ({error or type(error).__name__})")


def _show(done: int, total: int) -> None:
    """A line on a terminal that goes when all is read; never of a sweep's process, whose parent draws."""
    if total < 2 * _SHOWN or (done % _SHOWN and done < total):
        return
    if sys.stderr.isatty() and multiprocessing.parent_process() is None:
        end = "\r\x1b[K" if done == total else ""
        sys.stderr.write(f"\rreading image files: {done:,} of {total:,}{end}")
        sys.stderr.flush()
