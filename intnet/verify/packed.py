"""Tensors that the tape holds in packed buckets: whole buckets by `spec.buckets`, to their bytes and back."""

from fractions import Fraction
from typing import Any

import numpy as np

from intnet.blocks.buckets import Packed
from intnet.spec import buckets, words
from intnet.spec.float32 import ONE
from intnet.verify import draw
from intnet.verify.events import Options, Place, compare
from intnet.verify.judge import Judge
from intnet.verify.row import DIFFERS, Difference, Row
from intnet.verify.values import NotSpecified, Values, decoded, units

DRAWN = 10  # buckets of a tensor, besides the first and the last


def check(values: Values, judge: Judge, place: Place, options: Options) -> Row:
    """One event: the drawn buckets' widths, scales, zero points, codes as bytes, values read again."""
    event = place.event
    result: Packed = event.result
    row = Row(
        event.layer,
        event.path,
        judge.equation(event.path),
        ["buckets.saved_bucket", "words.words"],
        result.elements,
    )
    try:
        codec = judge.format_of(event.layer, event.path)
        if codec is None or not hasattr(codec, "bucket"):
            raise NotSpecified(f"a packed tensor where the format is {codec}")
        source = place.what.operands[0] if hasattr(place.what, "operands") else place.what.call.operands[0]  # type: ignore[union-attr]
        _Tensor(judge, place, codec, source, row).check(options)
    except NotSpecified as why:
        row.state, row.why = "not specified", str(why)
    return row


class _Tensor:
    """One packed tensor, by the definition's codec."""

    def __init__(self, judge: Judge, place: Place, codec: Any, source: np.ndarray, row: Row) -> None:
        self.judge, self.codec, self.row = judge, codec, row
        self.event, self.packed = place.event, place.event.result
        self.name = f"{place.event.layer}/{place.event.path.removesuffix('s')}"
        self.source, self.size = source.reshape(-1), codec.bucket or source.size
        self.count = -(-self.source.size // self.size)
        self.read = decoded(self.packed).reshape(-1)

    def check(self, options: Options) -> None:
        """The buckets that are drawn, or all."""
        chosen = draw.drawn(
            f"{options.seed}/{self.event.step}/{self.name}", self.count, options.elements and DRAWN
        )
        widths = self._widths()
        at = np.concatenate([[0], np.cumsum([self._words(k, b) for k, b in enumerate(widths)])])
        for k in np.union1d(chosen, [0, self.count - 1]).tolist():
            self._bucket(k, widths[k], int(at[k]))

    def _widths(self) -> list[int]:
        """Nominal bits of every bucket: those of a mix by a word each."""
        codec = self.codec
        if codec.mix is None:
            return [codec.bits] * self.count
        drawn = words.words(self.judge.seed, self.event.step, f"{self.event.layer}/mix", self.count)
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
        if codec.kind != "affine":
            drawn = words.words(self.judge.seed, self.event.step, self.name, n, first)
            self.row.words += n
        image = int(np.prod(self.packed.shape[1:]))
        made = buckets.saved_bucket(units(part), codec.kind, b, drawn, codec.norm, first, image)
        bucket = made.buckets[0]
        self.row.checked += n
        shape = self.packed.shape
        flat = np.arange(first, first + n)
        again = [Fraction(v, ONE) for v in made.values]
        stored = [Fraction(*v.as_integer_ratio()) for v in self.read[first : first + n].tolist()]
        compare(self.row, flat, shape, again, stored)
        numbers = [(bucket.scale, self.packed.scales[k])]
        if codec.kind != "levels":
            numbers.append((bucket.zero, self.packed.zeros[k]))
        for expected, held in numbers:
            compare(self.row, flat[:1], shape, [Fraction(expected, ONE)], [Fraction(float(held))])
        held_bytes = self.packed.words.view(np.uint8)[8 * start : 8 * start + len(made.packed)].tobytes()
        if held_bytes != made.packed and self.row.state != DIFFERS:
            self.row.state, self.row.differing = DIFFERS, self.row.differing + 1
            index = [int(i) for i in np.unravel_index(first, shape)]
            self.row.difference = Difference(
                index, made.packed.hex()[:64], held_bytes.hex()[:64], [f"bytes of bucket {k}"]
            )
