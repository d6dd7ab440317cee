"""Tensors that the tape holds in packed buckets: whole buckets by `spec.buckets`, to their bytes and back."""

from fractions import Fraction
from typing import Any

import numpy as np

from intnet.spec import buckets, words
from intnet.spec.float32 import ONE
from intnet.spec.tensor import place_of
from intnet.verify.events import Place
from intnet.verify.floats import fractions, units
from intnet.verify.row import DIFFERS, Difference, NotSpecified, Row
from intnet.verify.values import Values, decoded

DRAWN = 10  # buckets of a tensor, besides the first and the last


def check(values: Values, place: Place, row: Row) -> None:
    """One event: the drawn buckets' widths, scales, zero points, codes as bytes, values read again."""
    event = place.event
    row.specs = ["buckets.saved_bucket", "words.words"]
    codec = values.judge.format_of(event.layer, event.path)
    if codec is None or not hasattr(codec, "bucket"):
        raise NotSpecified(f"a packed tensor where the format is {codec}")
    _Tensor(values, place, codec, row).check()


class _Tensor:
    """One packed tensor, by the definition's codec."""

    def __init__(self, values: Values, place: Place, codec: Any, row: Row) -> None:
        self.values, self.codec, self.row, self.seed = values, codec, row, values.judge.seed
        self.event, self.packed = place.event, place.event.result
        stream = values.judge.stream_of(place.event.layer, place.event.path)
        self.name = stream or f"{place.event.layer}/{place.event.path.removesuffix('s')}"
        operand = place.what.call.operands[0]  # words and blocks are packed as float32
        source = operand if isinstance(operand, np.ndarray) else place.event.source
        self.source = source.reshape(-1)
        self.size = codec.bucket or self.source.size
        self.count = -(-self.source.size // self.size)
        self.read = decoded(self.packed).reshape(-1)

    def check(self) -> None:
        """The buckets that are drawn, or all."""
        chosen = self.values.drawn(f"{self.event.step}/{self.name}", self.count, few=DRAWN)
        widths = self._widths()
        at = np.concatenate([[0], np.cumsum([self._words(k, b) for k, b in enumerate(widths)])])
        for k in np.union1d(chosen, [0, self.count - 1]).tolist():
            self._bucket(k, widths[k], int(at[k]))

    def _widths(self) -> list[int]:
        """Nominal bits of every bucket: those of a mix by a word each."""
        codec = self.codec
        if codec.mix is None:
            return [codec.bits] * self.count
        drawn = words.words(self.seed, self.event.step, f"{self.event.layer}/mix", self.count)
        self.row.words += self.count
        return [codec.mix if buckets.promoted(word, codec.share)[1] else codec.bits for word in drawn]

    def _words(self, k: int, b: int) -> int:
        """64-bit words that a bucket takes."""
        n = min(self.size, self.source.size - k * self.size)
        return buckets.words_of(self.codec.kind, n, b)

    def _bucket(self, k: int, b: int, start: int) -> None:
        part = self.source[k * self.size : (k + 1) * self.size]
        first, n, codec = k * self.size, len(part), self.codec
        drawn = None
        if codec.kind in buckets.BY_WORDS:
            drawn = words.words(self.seed, self.event.step, self.name, n, first)
            self.row.words += n
        image = int(np.prod(self.packed.shape[1:]))
        made = buckets.saved_bucket(units(part), codec.kind, b, drawn, codec.norm, first, image)
        bucket = made.buckets[0]
        self.row.checked += n
        shape = self.packed.shape
        flat = np.arange(first, first + n)
        self.row.compare(flat, shape, [Fraction(v, ONE) for v in made.values], fractions(self.read[flat]))
        numbers = [(bucket.scale, self.packed.scales[k])]
        if self.packed.zeros.size:
            numbers.append((bucket.zero, self.packed.zeros[k]))
        for expected, stored in numbers:
            self.row.compare(flat[:1], shape, [Fraction(expected, ONE)], [Fraction(float(stored))])
        held = self.packed.words.view(np.uint8)[8 * start : 8 * start + len(made.packed)].tobytes()
        if held != made.packed and self.row.state != DIFFERS:
            self.row.state, self.row.differing = DIFFERS, self.row.differing + 1
            told = made.packed.hex()[:64], held.hex()[:64]
            self.row.difference = Difference([*place_of(first, shape)], *told, [f"bytes of bucket {k}"])
