"""What a step trains on: the digits, the order of an epoch, batches, crops and mirror images.

    value     byte * 2^exponent; of the digits 0..16 as 0..1, exponent -4
    numbers   of arrays of numbers: code * 2^exponent, code the nearest to x / 2^exponent, ties to even; the
              exponent is the least by which the greatest |x| of the training part has a code of 16 bits;
              what is beyond it, in the test part or later, has codes of up to 24
    split     image i of the digits is a test image where i % 5 == 4 (359 of 1,797), else a training image;
              of arrays, on demand, the first round(share n) of an order with keys of the stream "data/test"
    order     image i has the 64-bit key (word 2i, word 2i + 1), high half first, of the stream "data/order"
              at step `epoch`; an epoch goes through the images by ascending key, equal keys by i
    batch     step s, from 0, of p = ceil(n / B) steps an epoch: epoch s // p, B images of its order from
              B (s % p) on; the last batch of an epoch may be short
    crop=P    P zeros around an image, then a cut of the old size at (y, x), each in 0..2P (He et al. 2016,
              sec. 4.2): y = floor(u (2P + 1) / 2^64), u the 64 bits of words 4i, 4i + 1 of "data/crop"; x of
              the next two
    flip      mirrored, after the crop, where the top bit of word i of "data/flip" is set

i is the image's place in its batch, words those of the step. All of it is intnet's own contract; the digits
are the UCI Optical Recognition of Handwritten Digits (Alpaydin and Kaynak 1998), in IDX files as MNIST's.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Sequence
from fractions import Fraction
from importlib import resources
from math import prod
from pathlib import Path
from typing import NamedTuple

from intnet.spec.tensor import Fixed
from intnet.spec.words import words

Image = list[list[list[int]]]  # [row][column][channel]
DIGITS = "digits-images-idx3-ubyte.gz", "digits-labels-idx1-ubyte.gz"


class Idx(NamedTuple):
    """An array of unsigned bytes."""

    shape: tuple[int, ...]
    data: bytes


class Dataset(NamedTuple):
    """Images one after another, bytes or codes, each (H, W, C) in C order, and labels."""

    train_images: Sequence[Sequence[int]]
    train_labels: list[int]
    test_images: Sequence[Sequence[int]]
    test_labels: list[int]
    shape: tuple[int, int, int]
    exponent: int
    classes: int

    def first(self, n: int) -> Dataset:
        """The same with its first n training images only."""
        return self._replace(train_images=self.train_images[:n], train_labels=self.train_labels[:n])


# -- files -----------------------------------------------------------------------------------------


def parse_idx(content: bytes) -> Idx:
    """00 00, 08 (unsigned bytes), number of dimensions, big-endian sizes, the bytes in C order.

    >>> parse_idx(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]))
    Idx(shape=(2,), data=b'\\x07\\t')
    """
    zeros, kind, dimensions = struct.unpack_from(">HBB", content)
    shape = struct.unpack_from(f">{dimensions}I", content, 4)
    data = content[4 + 4 * dimensions :]
    if zeros or kind != 8 or len(data) != prod(shape):
        raise ValueError(f"not an IDX file of unsigned bytes: {content[:4].hex(' ')}, {len(data)} of data")
    return Idx(shape, data)


def _embedded(name: str) -> Idx:
    """A file that comes with intnet: of the package intnet.data, in a checkout the folder data/."""
    try:
        content = resources.files("intnet.data").joinpath(name).read_bytes()
    except ModuleNotFoundError:
        content = (Path(__file__).parents[2] / "data" / name).read_bytes()
    return parse_idx(gzip.decompress(content))


def images_of(array: Idx) -> list[bytes]:
    """The images of an array (N, H, W) or (N, H, W, C)."""
    size = prod(array.shape[1:])
    return [array.data[k : k + size] for k in range(0, len(array.data), size)]


def digits() -> Dataset:
    """The 1,797 digits of 8x8 that come with intnet."""
    images, labels = map(_embedded, DIGITS)
    n, h, w = images.shape
    every = images_of(images)
    train, test = [i for i in range(n) if i % 5 != 4], [i for i in range(n) if i % 5 == 4]
    return Dataset(
        [every[i] for i in train], [labels.data[i] for i in train],
        [every[i] for i in test], [labels.data[i] for i in test], (h, w, 1), -4, 10,
    )  # fmt: skip


# -- arrays of numbers -----------------------------------------------------------------------------


def number_code(x: Fraction, exponent: int) -> int:
    """The code of a number.

    >>> [number_code(Fraction(k, 4), -1) for k in (-3, -1, 1, 3)]
    [-2, 0, 0, 2]
    """
    return round(x / Fraction(2) ** exponent)  # Python's, of a Fraction: the nearest, ties to even


def number_exponent(greatest: Fraction) -> int:
    """The least exponent by which the greatest |x|, above 0, has a code of at most 2^15 - 1.

    >>> [number_exponent(Fraction(x)) for x in (32767, 32768, 1)]
    [0, 1, -14]
    """
    exponent = 0
    while number_code(greatest, exponent - 1) < 2**15:
        exponent -= 1
    while number_code(greatest, exponent) >= 2**15:
        exponent += 1
    return exponent


def split_members(seed: int, n: int, share: float) -> list[int]:
    """Which of n examples are the test part, ascending; round(share n), of float64, ties to even."""
    drawn = words(seed, 0, "data/test", 2 * n)
    return sorted(sorted(range(n), key=lambda i: (drawn[2 * i], drawn[2 * i + 1], i))[: round(share * n)])


# -- order and batches -----------------------------------------------------------------------------


def order(seed: int, epoch: int, n: int) -> list[int]:
    """The permutation of n training images in which an epoch goes through them."""
    drawn = words(seed, epoch, "data/order", 2 * n)
    return sorted(range(n), key=lambda i: (drawn[2 * i], drawn[2 * i + 1], i))


def steps_per_epoch(n: int, batch_size: int) -> int:
    """ceil(n / B)."""
    return -(-n // batch_size)


def members(seed: int, step: int, n: int, batch_size: int) -> list[int]:
    """The training images of a step, from 0, in their places."""
    epoch, position = divmod(step, steps_per_epoch(n, batch_size))
    return order(seed, epoch, n)[position * batch_size : (position + 1) * batch_size]


def batch(
    data: Dataset, seed: int, step: int, batch_size: int, crop: int = 0, flip: bool = False
) -> tuple[Fixed, list[int]]:
    """(images (n, H, W, C) as codes, labels) of a step, from 0."""
    index = members(seed, step, len(data.train_labels), batch_size)
    images = [list(data.train_images[i]) for i in index]
    if crop or flip:
        given = [nested(pixels, data.shape) for pixels in images]
        images = [flat(image) for image in augmented(given, seed, step, crop, flip)]
    codes = [v for image in images for v in image]
    return Fixed((len(index), *data.shape), codes, data.exponent), [data.train_labels[i] for i in index]


# -- augmentation ----------------------------------------------------------------------------------


def nested(pixels: Sequence[int], shape: tuple[int, int, int]) -> Image:
    """Pixels (H, W, C) in C order as lists."""
    h, w, c = shape
    return [[list(pixels[(r * w + x) * c : (r * w + x + 1) * c]) for x in range(w)] for r in range(h)]


def flat(image: Image) -> list[int]:
    """The other way."""
    return [v for row in image for pixel in row for v in pixel]


def offset(high: int, low: int, pad: int) -> int:
    """The place 0..2 pad that a 64-bit number of two words stands for: floor(u (2 pad + 1) / 2^64).

    >>> [offset(high, 0, 1) for high in (0, 2**31, 2**32 - 1)]
    [0, 1, 2]
    """
    return int(Fraction(high * 2**32 + low, 2**64) * (2 * pad + 1))


def placed(image: Image, y: int, x: int, pad: int, mirrored: bool) -> Image:
    """The cut at (y, x) of an image with `pad` zeros around it, then mirrored."""
    height, width, channels = len(image), len(image[0]), len(image[0][0])
    rows = []
    for r in range(height):
        row = []
        for c in range(width):
            source_r, source_c = r + y - pad, (width - 1 - c if mirrored else c) + x - pad
            inside = 0 <= source_r < height and 0 <= source_c < width
            row.append(image[source_r][source_c] if inside else [0] * channels)
        rows.append(row)
    return rows


def augmented(images: Sequence[Image], seed: int, step: int, pad: int, flip: bool) -> list[Image]:
    """The images of one step, each in its place of the batch."""
    n = len(images)
    crop, side = words(seed, step, "data/crop", 4 * n), words(seed, step, "data/flip", n)
    out = []
    for i, image in enumerate(images):
        high_y, low_y, high_x, low_x = crop[4 * i : 4 * i + 4]
        y, x = offset(high_y, low_y, pad), offset(high_x, low_x, pad)
        out.append(placed(image, y, x, pad, flip and side[i] >= 2**31))
    return out
