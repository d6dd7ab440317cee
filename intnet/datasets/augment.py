"""Augmentation: random crops and mirror images, every choice a function of (seed, step, place in the batch).

`Augment.parse("crop=4,flip")` reads what a user writes; calling it alters a batch. Words come from the
counter generator (`numbers/rng.py`); image i of a batch has those of its place i, whoever reads the batch,
and when.

crop=P: P zeros around each side, then a cut of the old size at (y, x), each one of 0..2P (He et al.,
Deep residual learning, 2016, section 4.2). y comes from words 4i, 4i + 1 of the stream "data/crop" as a
64-bit number u, high half first: y = floor(u * (2P + 1) / 2^64); x from words 4i + 2, 4i + 3. That is not
quite uniform: no count of words is, as 2P + 1 is odd; the shares of two offsets differ by 2^-64 at most.
Drawing again until it is would make an image's words depend on how often that happened.

flip: left and right are swapped where the top bit of word i of the stream "data/flip" is set; after the crop.

Defined by `spec/data.py: augmented`, `spec/data.py: placed`, `spec/data.py: offset`.
"""

from dataclasses import dataclass

import numpy as np

from intnet.errors import ConfigError
from intnet.numbers import rng

EXAMPLE = "crop=4,flip"


@dataclass(frozen=True)
class Augment:
    """What happens to a batch: crop: zeros around an image (0: no crop); flip: swap sides of some?"""

    crop: int = 0
    flip: bool = False

    @classmethod
    def parse(cls, text: str | None) -> "Augment":
        """'crop=4,flip', 'flip', 'crop=4', None for nothing; ConfigError for anything else."""
        found: dict[str, int] = {}
        for part in [] if text is None else text.split(","):
            key, _, value = part.strip().partition("=")
            number = int(value) if value.isascii() and value.isdecimal() and len(value) < 10 else 0
            if key in found or (part.strip() != "flip" and (key != "crop" or number < 1)):
                raise ConfigError(f"--augment {text}: {part!r}: write crop=P, flip, or both: {EXAMPLE}")
            found[key] = number
        return cls(found.get("crop", 0), "flip" in found)

    def __str__(self) -> str:
        """As `parse` reads it; '' where nothing happens."""
        return ",".join([f"crop={self.crop}"] * bool(self.crop) + ["flip"] * self.flip)

    def check(self, height: int, width: int) -> None:
        """ConfigError where a crop could miss the image."""
        if self.crop >= min(height, width):
            raise ConfigError(f"crop={self.crop}: an image of {width}x{height} pixels would be cut off whole")

    def __call__(self, images: np.ndarray, seed: int, step: int, first: int = 0) -> np.ndarray:
        """(n, H, W, C), the images of step `step` (from 0) in places `first` .., altered; a new array.

        Defined by `spec/data.py: augmented`.
        """
        out = self._cropped(images, seed, step, first) if self.crop else images.copy()
        if self.flip:
            words = rng.words(seed, step, rng.stream("data/flip"), len(images), first, alone=True)
            mirrored = words >> np.uint32(31) == 1
            out[mirrored] = out[mirrored, :, ::-1]
        return out

    def _cropped(self, images: np.ndarray, seed: int, step: int, first: int) -> np.ndarray:
        n, height, width, channels = images.shape
        pad = self.crop
        padded = np.zeros((n, height + 2 * pad, width + 2 * pad, channels), images.dtype)
        padded[:, pad : pad + height, pad : pad + width] = images
        out = np.empty_like(images)
        for i, (y, x) in enumerate(offsets(pad, n, seed, step, first).tolist()):
            out[i] = padded[i, y : y + height, x : x + width]
        return out


def offsets(pad: int, n: int, seed: int, step: int, first: int = 0) -> np.ndarray:
    """int64 (n, 2): where each image of a step, from place `first` on, is cut, (y, x) in 0..2 pad.

    Defined by `spec/data.py: offset`.
    """
    found = rng.words(seed, step, rng.stream("data/crop"), 4 * n, 4 * first, alone=True)
    halves = found.astype(np.uint64).reshape(n, 2, 2)
    many, low = np.uint64(2 * pad + 1), halves[:, :, 1]
    # the upper 64 bits of a product of 64 by 31 bits, by halves: no sum here reaches 2^64
    return ((halves[:, :, 0] * many + (low * many >> np.uint64(32))) >> np.uint64(32)).astype(np.int64)
