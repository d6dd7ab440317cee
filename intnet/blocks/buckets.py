"""Bucketed codecs: float32 tensors in b bits an element, a scale a bucket, packed ("saved activations").

    Codec("affine", bits=4)                     a format, as plain data
    packed = encode(x, codec, draw, ...)        rounding and packing; a `Kept` for the tape
    packed.load()                               float32 again, a~

The thesis "Mix-Precision Stochastic Quantization of Activations during Backpropagation" (Li, 2025); a
bucket is 64 to 512 contiguous elements (C order), or the whole tensor. float32 throughout, an IEEE
rounding an operation:

    affine              s = (max - min)/(2^b - 1)    z = round(-min/s)    u = a/s + z           sec. 4.2.2
                        q = clip(round(u), 0, 2^b - 1)    a~ = s*(q - z)        round: ties to even
    affine-stochastic   q = clip(floor(u) + [r < frac(u)], 0, 2^b - 1)                          sec. 5.3.1
    levels              L = 2^b, scale = max|a| or sqrt(sum a^2), at least 1e-8                  listing 5.1
                        ax = min(|a|/scale, 1 - 1e-8), u = ax*L
                        q = (floor(u) + [r < frac(u)])/L * scale * sign(a)

r < f stands for word < floor(f * 2^32), a random word of 32 bits (`numbers/rng.py`). 1 - 1e-8 is 1 in
float32, so `levels` has L + 1 magnitudes and a sign. A constant bucket (s = 0) is stored as its value.

Widths may be mixed (sec. 5.7): some buckets, `promoted`, take codec.mix bits. Codes of a bucket start with
a 64-bit word, lie in order and as `numbers/bitpack.py` says; behind them float32 scales, zero points
(affine), and a bit a bucket where widths are mixed. Read next: `blocks/bucket_loops.py`.

Defined by `spec/buckets.py: save`, `spec/buckets.py: affine_way`, `spec/buckets.py: level_way`.
"""

from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np

from intnet.autograd import Kept
from intnet.blocks import bucket_loops
from intnet.errors import FormatError, NumberError
from intnet.machine.buffers import empty
from intnet.numbers import bitpack, rng
from intnet.numbers.batch_sums import GROUP
from intnet.numbers.formats import check_bits

KINDS = {
    "affine": bucket_loops.AFFINE,
    "affine-stochastic": bucket_loops.STOCHASTIC,
    "levels": bucket_loops.LEVELS,
}
SHORT = {"affine": "affine", "affine-stochastic": "stoch", "levels": "levels"}
BUCKETS = (64, 128, 256, 512)
TENSOR = "tensor"
LONGEST = {"affine": 32, "affine-stochastic": 32, "levels": 30}  # bits; of levels 2^(b+1) + 1 codes fit 32


@dataclass(frozen=True)
class Codec:
    """How a tensor is cut, scaled, rounded and packed.

    kind: of KINDS; bits: b; mix: b of promoted buckets, or None; bucket: elements, or 'tensor'
    norm: 'max' or 'l2', the scale of levels

    Defined by `spec/methods/saved.py: Codec`.
    """

    kind: str = "affine-stochastic"
    bits: int = 4
    mix: int | None = None
    bucket: int | str = 512
    norm: str = "max"

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise FormatError(f"codec {self.kind!r}: use one of {', '.join(KINDS)}")
        for bits in self.widths:
            check_bits(bits, f"codec {self.kind}: bits")
            if bits > LONGEST[self.kind]:
                raise FormatError(
                    f"codec {self.kind}: {bits} bits; its 2^(b+1) + 1 codes fit 32 bits to b = 30"
                )
        if self.bucket not in (*BUCKETS, TENSOR):
            raise FormatError(f"bucket {self.bucket!r}: use one of {', '.join(map(str, BUCKETS))}, {TENSOR}")
        if self.norm not in ("max", "l2"):
            raise FormatError(f"norm {self.norm!r}: use max or l2")

    @property
    def widths(self) -> tuple[int, ...]:
        """b, and that of promoted buckets."""
        return (self.bits,) if self.mix is None else (self.bits, self.mix)

    def __str__(self) -> str:
        """As reports write it: 'affine 2/4 bits, buckets of 512'."""
        cut = "one bucket" if self.bucket == TENSOR else f"buckets of {self.bucket}"
        norm = ", scaled by their norm" if self.kind == "levels" and self.norm == "l2" else ""
        return f"{self.kind} {'/'.join(map(str, self.widths))} bits, {cut}{norm}"

    @property
    def short(self) -> str:
        """As tables of a terminal write it: 'stoch 2/4b /512'."""
        kind = SHORT[self.kind] + ("-l2" if self.kind == "levels" and self.norm == "l2" else "")
        return f"{kind} {'/'.join(map(str, self.widths))}b /{self.bucket}"

    def distinct(self, bits: int) -> int:
        """Codes that there are."""
        return 2 ** (bits + 1) + 1 if self.kind == "levels" else 2**bits

    def code_width(self, bits: int) -> int:
        """Bits that a packed code takes. Defined by `spec/buckets.py: width_of`."""
        return bucket_loops.code_width(KINDS[self.kind], bits)

    @property
    def bucket_bytes(self) -> int:
        """Metadata of a bucket: its scale, of affine ones its zero point; not the bit of a mix."""
        return 4 if self.kind == "levels" else 8

    def buckets(self, elements: int) -> int:
        """How many a tensor has."""
        return -(-elements // self.size(elements))

    def size(self, elements: int) -> int:
        """Elements of a bucket, as the loops count: a multiple of 64."""
        return max(64, -(-elements // 64) * 64) if isinstance(self.bucket, str) else self.bucket

    def packed_bytes(self, elements: int, share: float = 0.0) -> float:
        """Bytes of codes and metadata of a tensor, `share` of its buckets promoted.

        The memory model M = b/8 * N + metadata (sec. 4.1.1); short of the last bucket's filling bits.
        """
        width: float = self.code_width(self.bits)
        if self.mix is not None:
            width += share * (self.code_width(self.mix) - width)
        metadata = self.bucket_bytes + (0.125 if self.mix is not None else 0)
        return elements * width / 8 + self.buckets(elements) * metadata


class Draw(NamedTuple):
    """Where the random words of a tensor's elements come from; see `rng.words`."""

    seed: int
    step: int
    stream: int


class Mix(NamedTuple):
    """How buckets were promoted: words, uint32, one a bucket; below floor(probability * 2^32) is promoted."""

    words: np.ndarray
    probability: float


class Packed(Kept):
    """A tensor in packed codes. clipped: codes that were limited to 0 .. 2^b - 1."""

    def __init__(
        self, codec: Codec, shape: tuple[int, ...], words: np.ndarray, scales: np.ndarray, zeros: np.ndarray,
        promoted: np.ndarray | None, clipped: int,
    ) -> None:  # fmt: skip
        self.codec, self.shape, self.words, self.clipped = codec, shape, words, clipped
        self.scales, self.zeros = scales, zeros
        self.flags = None if promoted is None else np.packbits(promoted, bitorder="little")

    @property
    def elements(self) -> int:
        """Of the tensor."""
        return int(np.prod(self.shape))

    @property
    def nbytes(self) -> int:
        """Bytes held: codes and metadata."""
        flags = 0 if self.flags is None else self.flags.nbytes
        return self.words.nbytes + self.scales.nbytes + self.zeros.nbytes + flags

    @property
    def widths(self) -> np.ndarray:
        """uint8: nominal bits of every bucket."""
        promoted = None
        if self.flags is not None:
            promoted = np.unpackbits(self.flags, count=self.scales.size, bitorder="little")
        return _widths(self.codec, self.scales.size, promoted)

    def load(self) -> np.ndarray:
        """float32 of the tensor's shape: a~.

        Defined by `spec/buckets.py: affine_values`, `spec/buckets.py: level_values`.
        """
        out = empty((self.elements,), np.float32)
        if out.size:
            bucket, kind = self.codec.size(out.size), KINDS[self.codec.kind]
            widths = self.widths
            starts = _starts(self.codec, out.size, widths)[0]
            bucket_loops.decode(self.words, bucket, kind, widths, starts, self.scales, self.zeros, out)
        return out.reshape(self.shape)

    def codes(self) -> np.ndarray:
        """int64 of the tensor's shape: q, of levels with its sign."""
        if not self.elements:
            return np.zeros(self.shape, np.int64)
        widths, size = self.widths, self.codec.size(self.elements)
        starts, _ = _starts(self.codec, self.elements, widths)
        out, data = np.empty(self.elements, np.int64), self.words.view(np.uint8)
        for k, bits in enumerate(widths.tolist()):
            n, width = min(size, self.elements - k * size), self.codec.code_width(bits)
            part = data[8 * starts[k] :][: bitpack.packed_bytes(n, width)]
            codes = bitpack.unpack(part, width, n, signed=False).astype(np.int64)
            out[k * size : k * size + n] = codes - (1 << bits if self.codec.kind == "levels" else 0)
        return out.reshape(self.shape)


def _widths(codec: Codec, buckets: int, promoted: np.ndarray | None) -> np.ndarray:
    if promoted is None:
        return np.full(buckets, codec.bits, np.uint8)
    return np.where(promoted, np.uint8(codec.mix or 0), np.uint8(codec.bits))


def _starts(codec: Codec, elements: int, widths: np.ndarray) -> tuple[np.ndarray, int]:
    """(first word of every bucket, words in all)."""
    size, taken = codec.size(elements), widths.astype(np.int64)
    if codec.kind == "levels":
        taken += codec.code_width(0)
    taken *= size // 64
    last = elements - (widths.size - 1) * size
    taken[-1] = bitpack.packed_words(last, codec.code_width(int(widths[-1])))
    ends = np.cumsum(taken)
    return ends - taken, int(ends[-1])


def encode(
    x: np.ndarray,
    codec: Codec,
    draw: Draw | None = None,
    promoted: np.ndarray | None = None,
    where: str = "",
) -> Packed:
    """x packed. draw: its random words, where the codec rounds by them; promoted: bool a bucket, of a mix.

    NumberError, naming `where`, for a NaN or infinity, and for a bucket whose range, norm, or value of a code
    float32 does not hold; FormatError for anything but float32, and where `draw` or `promoted` is missing or
    does not fit. ConfigError for a draw that `rng.words` does not take.

    Defined by `spec/buckets.py: save`.
    """
    where = where or "encode"
    if x.dtype != np.float32:
        raise FormatError(f"{where} takes float32, got {x.dtype}")
    flat = np.ascontiguousarray(x).reshape(-1)
    buckets = codec.buckets(flat.size)
    if (promoted is None) != (codec.mix is None) or (promoted is not None and promoted.shape != (buckets,)):
        raise FormatError(f"{where}: a choice for each of {buckets} buckets goes with a mix, or none")
    scales = np.zeros(buckets, np.float32)
    zeros = np.zeros(0 if codec.kind == "levels" else buckets, np.float32)
    if not flat.size:
        return Packed(codec, x.shape, np.zeros(0, np.uint64), scales, zeros, promoted, 0)
    widths = _widths(codec, buckets, promoted)
    starts, size = _starts(codec, flat.size, widths)
    kind, whole = KINDS[codec.kind], codec.bucket == TENSOR
    of_group = GROUP * prod(x.shape[1:]) if codec.norm == "l2" else 0
    if draw is None and kind != bucket_loops.AFFINE:
        raise FormatError(f"{where}: codec {codec.kind} rounds by random words: give a draw")
    seed, step, stream = draw or Draw(0, 0, 0)
    rng.check_counter(seed, step, stream)
    above = np.uint64(step) << np.uint64(32) | np.uint64(stream)
    words, tasks = empty((size,), np.uint64), -(-flat.size // bitpack.PART)
    found, clipped = np.zeros(tasks, np.int64), np.zeros(tasks, np.int64)
    words[-4:] = 0  # seven codes of 32 bits are four words that a short bucket does not fill
    if whole:
        found[0], _ = bucket_loops.measure(flat, kind, int(widths[0]), 0, of_group, scales, zeros, 0)
    if not found[0]:
        bucket_loops.encode(
            flat, codec.size(flat.size), kind, of_group, widths, starts, whole, above, np.uint64(seed),
            scales, zeros, words, found, clipped,
        )  # fmt: skip
    if found.any():
        raise _not_stored(x, codec, found, where)
    return Packed(codec, x.shape, words, scales, zeros, promoted, int(clipped.sum()))


def _not_stored(x: np.ndarray, codec: Codec, found: np.ndarray, where: str) -> NumberError:
    wrong = ~np.isfinite(x)
    if wrong.any():
        index = tuple(int(i) for i in np.argwhere(wrong)[0])
        return NumberError(f"{where}: NaN or infinity at index {index}")
    what = "norm" if codec.kind == "levels" else "range"
    first = int(np.flatnonzero(found)[0]) * bitpack.PART
    return NumberError(
        f"{where}: float32 does not hold the {what} of a bucket (at or behind element {first}): "
        "values this large come from training that diverges"
    )


def promotions(n: int, probability: float, draw: Draw) -> np.ndarray:
    """bool[n]: the buckets that take the wider codes, each with `probability`: word < floor(p * 2^32).

    Defined by `spec/methods/saved.py: pack`.
    """
    words = rng.words(draw.seed, draw.step, draw.stream, n)
    return words < np.uint64(int(probability * 2**32))


class Signs(Kept):
    """Where a tensor is above 0, one bit an element: exact, and all that ReLU's gradient reads.

    Defined by `spec/methods/saved.py: Step.save`.
    """

    def __init__(self, x: np.ndarray) -> None:
        self.shape = x.shape
        flat = np.ascontiguousarray(x).reshape(-1)
        self.words = empty((-(-flat.size // 64),), np.uint64)
        self.words[-1:] = 0
        bucket_loops.positive(flat, self.words)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return int(self.words.nbytes)

    def load(self) -> Any:
        """uint8 of the tensor's shape: 1 where it is above 0."""
        out = empty((int(np.prod(self.shape)),), np.uint8)
        bucket_loops.spread(self.words, out)
        return out.reshape(self.shape)
