"""Crops and mirror images, one pixel at a time, from the words of the counter generator.

Image i of step s: y and x are the 64-bit fractions of words 4i..4i+3 of "data/crop", times 2P + 1, rounded
down; it is mirrored where word i of "data/flip" is 2^31 or more.
"""
from fractions import Fraction

from intnet.spec.words import words

Image = list[list[list[int]]]  # [row][column][channel]


def offset(high: int, low: int, pad: int) -> int:
    """The place 0..2 pad that a 64-bit word stands for."""
    return int(Fraction(high * 2**32 + low, 2**64) * (2 * pad + 1))


def augmented(images: list[Image], seed: int, step: int, pad: int, flip: bool) -> list[Image]:
    """The images of one step, each in its place of the batch."""
    n = len(images)
    crop, side = words(seed, step, "data/crop", 4 * n), words(seed, step, "data/flip", n)
    out = []
    for i, image in enumerate(images):
        height, width, channels = len(image), len(image[0]), len(image[0][0])
        y, x = offset(*crop[4 * i : 4 * i + 2], pad), offset(*crop[4 * i + 2 : 4 * i + 4], pad)
        mirrored = flip and side[i] >= 2**31
        rows = []
        for r in range(height):
            row = []
            for c in range(width):
                source_r, source_c = r + y - pad, (width - 1 - c if mirrored else c) + x - pad
                inside = 0 <= source_r < height and 0 <= source_c < width
                row.append(image[source_r][source_c] if inside else [0] * channels)
            rows.append(row)
        out.append(rows)
    return out
