"""Bucketed codecs: float32 tensors in b bits an element, a scale a bucket, packed ("saved activations").

    Codec("affine", bits=4)                     a format, as plain data
    packed = encode(x, codec, draw, ...)        rounding and packing; a `Kept` for the tape
    packed.load()                               float32 again, a~

The thesis "Mix-Precision Stochastic Quantization of Activations during Backpropagation" (Li, 2025); a
bucket is so many contiguous elements (C order; 64 to 512 in the thesis), or the whole tensor. float32
throughout, an IEEE rounding an operation:

    affine              s = (max - min)/(2^b - 1)    z = round(-min/s)    u = a/s + z           sec. 4.2.2
                        q = clip(round(u), 0, 2^b - 1)    a~ = s*(q - z)        round: ties to even
    affine-stochastic   q = clip(floor(u) + [r < frac(u)], 0, 2^b - 1)                          sec. 5.3.1
    levels              L = 2^b, scale = max|a| or sqrt(sum a^2), at least 1e-8                  listing 5.1
                        ax = min(|a|/scale, 1 - 1e-8), u = ax*L
                        q = (floor(u) + [r < frac(u)])/L * scale * sign(a)
    counted             levels, where b is L itself: any number of levels
    symmetric           T = the 99.999th percentile of |a|, at least 1e-10    s = T/2^(b-1)     listing 4.1
                        q = clip(round(a/s), -2^(b-1), 2^(b-1) - 1)           a~ = s*q          one bucket

r < f stands for word < floor(f * 2^32), a random word of 32 bits (`numbers/rng.py`). 1 - 1e-8 is 1 in
float32, so `levels` has L + 1 magnitudes and a sign. A constant bucket (s = 0) is stored as its value.

Widths may be mixed (sec. 5.7): some buckets, `promoted`, take codec.mix bits. Codes of a bucket start with
a 64-bit word, lie in order and as `numbers/bitpack.py` says; after them float32 scales, zero points
(affine), and a bit a bucket where widths are mixed. Codes with a sign are packed from 0 on: levels as L + m,
symmetric ones as 2^(b-1) + q. Read next: `bucket_loops.py`.

Defined by `spec/buckets.py: save`, `spec/buckets.py: affine_way`, `spec/buckets.py: level_way`,
`spec/buckets.py: symmetric_way`.
"""

from dataclasses import dataclass
from math import floor, log2, prod
from typing import NamedTuple

import numpy as np

from intnet.autograd import Kept
from intnet.errors import FormatError, NumberError
from intnet.exact.blocks import bucket_loops
from intnet.machine.buffers import empty
from intnet.numbers import bitpack, shares
from intnet.numbers.batch_sums import GROUP
from intnet.numbers.formats import MAX_BITS, check_bits
from intnet.numbers.rng import Draw

KINDS = {
    "affine": bucket_loops.AFFINE,
    "affine-stochastic": bucket_loops.STOCHASTIC,
    "levels": bucket_loops.LEVELS,
    "counted": bucket_loops.LEVELS,
    "symmetric": bucket_loops.SYMMETRIC,
}
SHORT = {"affine-stochastic": "stoch", "counted": "levels", "symmetric": "symm"}
AFFINE = ("affine", "affine-stochastic")  # these have a zero point, and codes without a sign
BY_WORDS = ("affine-stochastic", "levels", "counted")  # these round by random words
TENSOR = "tensor"
MOST_LEVELS = 1 << 24  # of those counted: float32 holds each number up to it
PERCENTILE = 99.999  # of |a|, what symmetric codes reach to
LEAST_REACH = np.float32(1e-10)


@dataclass(frozen=True)
class Codec:
    """How a tensor is cut, scaled, rounded and packed.

    kind: of KINDS; bits: b, of counted ones L; mix: that of promoted buckets, or None
    bucket: elements, at least 1, or 'tensor'; norm: 'max' or 'l2', the scale of levels

    Defined by `spec/methods/packing.py: Codec`.
    """

    kind: str = "affine-stochastic"
    bits: int = 4
    mix: int | None = None
    bucket: int | str = 512
    norm: str = "max"

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise FormatError(f"codec {self.kind!r}: use one of {', '.join(KINDS)}")
        for grade in self.widths:
            if self.kind != "counted":
                check_bits(grade, f"codec {self.kind}: bits")
            elif not 1 <= grade <= MOST_LEVELS:
                raise FormatError(f"{grade} levels: there are from 1 to 2^24")
        whole = isinstance(self.bucket, int) and not isinstance(self.bucket, bool) and self.bucket >= 1
        if not whole and self.bucket != TENSOR:
            raise FormatError(f"bucket {self.bucket!r}: use a whole number from 1 on, or {TENSOR}")
        if self.kind == "symmetric" and self.bucket != TENSOR:
            raise FormatError(
                f"codec symmetric has one scale a tensor: bucket is {TENSOR}, not {self.bucket}"
            )
        if self.norm not in ("max", "l2"):
            raise FormatError(f"norm {self.norm!r}: use max or l2")

    @property
    def widths(self) -> tuple[int, ...]:
        """b (of counted ones L), and that of promoted buckets."""
        return (self.bits,) if self.mix is None else (self.bits, self.mix)

    def __str__(self) -> str:
        """As reports write it: 'affine 2/4 bits, buckets of 512'."""
        cut = "one bucket" if self.bucket == TENSOR else f"buckets of {self.bucket}"
        norm = ", scaled by their norm" if self.by_norm else ""
        grades = "/".join(map(str, self.widths))
        name = f"{grades} levels" if self.kind == "counted" else f"{self.kind} {grades} bits"
        return f"{name}, {cut}{norm}"

    @property
    def short(self) -> str:
        """As tables of a terminal write it: 'stoch 2/4b /512'."""
        kind = SHORT.get(self.kind, self.kind) + ("-l2" if self.by_norm else "")
        return f"{kind} {'/'.join(map(str, self.widths))}{'b' * (self.kind != 'counted')} /{self.bucket}"

    @property
    def by_norm(self) -> bool:
        """Whether the scale is a norm of the bucket."""
        return KINDS[self.kind] == bucket_loops.LEVELS and self.norm == "l2"

    @property
    def has_zero(self) -> bool:
        """Whether a bucket has a zero point; codes without one have a sign."""
        return self.kind in AFFINE

    def grade(self, bits: int) -> int:
        """What the loops count by: bits, of levels L."""
        return 1 << bits if self.kind == "levels" else bits

    def offset(self, bits: int) -> int:
        """The packed code of 0 where codes have a sign. Defined by `spec/buckets.py: offset_of`."""
        if self.has_zero:
            return 0
        return 1 << (bits - 1) if self.kind == "symmetric" else self.grade(bits)

    def nominal(self, bits: int) -> float:
        """Bits as a paper counts them: of L levels log2 L."""
        return log2(bits) if self.kind == "counted" else bits

    def distinct(self, bits: int) -> int:
        """Codes that there are."""
        return 2 * self.grade(bits) + 1 if KINDS[self.kind] == bucket_loops.LEVELS else 2**bits

    def code_width(self, bits: int) -> int:
        """Bits that a packed code takes. Defined by `spec/buckets.py: width_of`."""
        return bucket_loops.code_width(KINDS[self.kind], self.grade(bits))

    @property
    def bucket_bytes(self) -> int:
        """Metadata of a bucket: its scale, of affine ones its zero point; not the bit of a mix."""
        return 8 if self.has_zero else 4

    def buckets(self, elements: int) -> int:
        """How many a tensor has."""
        return -(-elements // self.size(elements))

    def size(self, elements: int) -> int:
        """Elements of a bucket."""
        return max(1, elements) if isinstance(self.bucket, str) else self.bucket

    def packed_bytes(self, elements: int, share: float = 0.0) -> float:
        """Bytes of codes and metadata of a tensor, `share` of its buckets promoted.

        The memory model M = b/8 * N + metadata (sec. 4.1.1); short of the last bucket's filling bits.
        """
        width: float = self.code_width(self.bits)
        if self.mix is not None:
            width += share * (self.code_width(self.mix) - width)
        metadata = self.bucket_bytes + (0.125 if self.mix is not None else 0)
        return elements * width / 8 + self.buckets(elements) * metadata


class Mix(NamedTuple):
    """How buckets were promoted: words, uint32, one a bucket; below floor(probability * 2^32) is promoted."""

    words: np.ndarray
    probability: float


class Packed(Kept):
    """A tensor in packed codes. clipped: codes that were limited to the 2^b that there are."""

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
        """Nominal bits of every bucket, of counted levels L; uint8, or int64 of these."""
        promoted = None
        if self.flags is not None:
            promoted = np.unpackbits(self.flags, count=self.scales.size, bitorder="little")
        return _widths(self.codec, self.scales.size, promoted)

    def load(self) -> np.ndarray:
        """float32 of the tensor's shape: a~.

        Defined by `spec/buckets.py: affine_values`, `spec/buckets.py: level_values`,
        `spec/buckets.py: symmetric_values`.
        """
        out, codec = empty((self.elements,), np.float32), self.codec
        if out.size:
            bucket, grades = codec.size(out.size), _grades(codec, self.widths)
            starts, _ = _starts(codec, out.size, grades)
            bucket_loops.decode(
                self.words, bucket, KINDS[codec.kind], grades, starts, self.scales, self.zeros,
                _tasks(bucket, out.size), out,
            )  # fmt: skip
        return out.reshape(self.shape)

    def codes(self) -> np.ndarray:
        """int64 of the tensor's shape: q, with its sign where codes have one."""
        if not self.elements:
            return np.zeros(self.shape, np.int64)
        widths, size = self.widths, self.codec.size(self.elements)
        starts, _ = _starts(self.codec, self.elements, _grades(self.codec, widths))
        out, data = np.empty(self.elements, np.int64), self.words.view(np.uint8)
        for k, bits in enumerate(widths.tolist()):
            n, width = min(size, self.elements - k * size), self.codec.code_width(bits)
            part = data[8 * starts[k] :][: bitpack.packed_bytes(n, width)]
            codes = _unpacked(part, width, n)
            out[k * size : k * size + n] = codes - self.codec.offset(bits)
        return out.reshape(self.shape)


def _unpacked(data: np.ndarray, width: int, n: int) -> np.ndarray:
    """int64[n]: unsigned codes; those of 31 and 32 bits of levels are wider than `bitpack.unpack` takes."""
    if width <= MAX_BITS:
        return bitpack.unpack(data, width, n, signed=False).astype(np.int64)
    bits = np.unpackbits(data, count=n * width, bitorder="little").reshape(n, width)
    return bits @ (1 << np.arange(width, dtype=np.int64))


def _widths(codec: Codec, buckets: int, promoted: np.ndarray | None) -> np.ndarray:
    kind = np.int64 if codec.kind == "counted" else np.uint8
    if promoted is None:
        return np.full(buckets, codec.bits, kind)
    return np.where(promoted, kind(codec.mix or 0), kind(codec.bits))


def _grades(codec: Codec, widths: np.ndarray) -> np.ndarray:
    """int64: what the loops count by, of every bucket; see `Codec.grade`."""
    return np.int64(1) << widths.astype(np.int64) if codec.kind == "levels" else widths.astype(np.int64)


def _starts(codec: Codec, elements: int, grades: np.ndarray) -> tuple[np.ndarray, int]:
    """(first word of every bucket, words in all)."""
    size, kind = codec.size(elements), KINDS[codec.kind]
    taken = np.empty(grades.size, np.int64)
    for grade in {codec.grade(bits) for bits in codec.widths}:
        taken[grades == grade] = bitpack.packed_words(size, bucket_loops.code_width(kind, grade))
    last = elements - (grades.size - 1) * size
    taken[-1] = bitpack.packed_words(last, bucket_loops.code_width(kind, int(grades[-1])))
    ends = np.cumsum(taken)
    return ends - taken, int(ends[-1])


def _tasks(bucket: int, elements: int) -> int:
    """How many parts `bucket_loops.reach` cuts a tensor into."""
    part = bitpack.PART
    if bucket <= part:
        return -(-elements // (part // bucket * bucket))
    whole, rest = divmod(elements, bucket)
    return whole * -(-bucket // part) + -(-rest // part)


def reach_of(x: np.ndarray, of_batch: bool = False) -> np.float32:
    """T of symmetric codes: the k-th smallest |x|, k = floor(0.01 * PERCENTILE * n + 0.5), at least 1e-10.

    k is made in float64, from left to right, as Brevitas does. Defined by `spec/buckets.py: reach_of`.
    """
    n = shares.rows(x.size) if of_batch else x.size
    k, magnitudes = floor(0.01 * PERCENTILE * n + 0.5), np.abs(x)
    if n != x.size:  # the greatest of all ranks are among the greatest of each
        magnitudes = shares.largest(magnitudes, n - k + 1)
        k = 1
    return max(np.partition(magnitudes, k - 1)[k - 1], LEAST_REACH)


def encode(
    x: np.ndarray,
    codec: Codec,
    draw: Draw | None = None,
    promoted: np.ndarray | None = None,
    where: str = "",
    of_batch: bool = False,
    per_image: int | None = None,
) -> Packed:
    """x packed. draw: its random words, where the codec rounds by them; promoted: bool a bucket, of a mix.

    NumberError, naming `where`, for a NaN or infinity, and for a bucket whose range, norm, or value of a code
    float32 does not hold; FormatError for anything but float32, and where `draw` or `promoted` is missing or
    does not fit. ConfigError for a draw that `rng.words` does not take. of_batch: x is a part of a batch, of
    which a single bucket is measured over all ranks (`numbers/shares.py`); per_image: elements an image has,
    where x is flat.

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
    zeros = np.zeros(buckets if codec.has_zero else 0, np.float32)
    if not flat.size:
        return Packed(codec, x.shape, np.zeros(0, np.uint64), scales, zeros, promoted, 0)
    grades = _grades(codec, _widths(codec, buckets, promoted))
    starts, size = _starts(codec, flat.size, grades)
    kind, bucket = KINDS[codec.kind], codec.size(flat.size)
    of_group = GROUP * (per_image or prod(x.shape[1:])) if codec.norm == "l2" else 0
    if draw is None and codec.kind in BY_WORDS:
        raise FormatError(f"{where}: codec {codec.kind} rounds by random words: give a draw")
    draw = draw or Draw(0, 0, 0)
    above, seed = draw.counters(where)
    found, clipped = np.zeros((2, _tasks(bucket, flat.size)), np.int64)
    words = empty((size,), np.uint64)
    words[-4:] = 0  # seven codes of 32 bits are four words that a short bucket does not fill
    if bucket % 64:
        words[:] = 0  # nor one of any other size its last word
    measured = bucket > bitpack.PART or codec.bucket == TENSOR  # a task sees a piece only
    if measured:
        _measure(x, codec, flat, grades, of_group, scales, zeros, where, of_batch)
    bucket_loops.encode(
        flat, bucket, kind, of_group, draw.start, grades, starts, measured, above, seed, scales, zeros,
        words, found, clipped,
    )  # fmt: skip
    if found.any():
        task = int(np.flatnonzero(found)[0])
        raise _not_stored(x, codec, bucket_loops.reach(task, bucket, flat.size)[0], where)
    return Packed(codec, x.shape, words, scales, zeros, promoted, int(clipped.sum()))


def _measure(
    x: np.ndarray, codec: Codec, flat: np.ndarray, grades: np.ndarray, of_group: int, scales: np.ndarray,
    zeros: np.ndarray, where: str, of_batch: bool,
) -> None:  # fmt: skip
    """Scales and zero points of all buckets, of `flat`, which is x."""
    if codec.kind == "symmetric":
        if not np.isfinite(flat).all():
            raise _not_stored(x, codec, 0, where)
        scales[0] = reach_of(flat, of_batch) / np.float32(1 << (int(grades[0]) - 1))
        return
    size, kind = codec.size(flat.size), KINDS[codec.kind]
    for k, grade in enumerate(grades.tolist()):
        piece = flat[k * size : (k + 1) * size]
        if of_batch and shares.now() is not None and codec.bucket == TENSOR:
            piece, of_group = _standing_for(x, of_group, where, codec), 0
        if bucket_loops.measure(piece, kind, grade, k * size, of_group, scales, zeros, k)[0]:
            raise _not_stored(x, codec, k * size, where)


def _standing_for(x: np.ndarray, of_group: int, where: str, codec: Codec) -> np.ndarray:
    """What has the same measure as the whole batch, of which x is here: its extremes, or its norm."""
    if not np.isfinite(x).all():
        raise _not_stored(x, codec, 0, where)
    if not of_group:
        high, low = shares.greatest(np.array([x.max(), -x.min()]))
        return np.array([-low, high])

    def squares(part: np.ndarray) -> np.ndarray:
        return np.array([bucket_loops.sum_of_squares(part.reshape(-1), 0, of_group)], np.float32)

    with np.errstate(over="ignore"):
        found: np.ndarray = np.sqrt(shares.folded(squares, x))
    return found


def _not_stored(x: np.ndarray, codec: Codec, first: int, where: str) -> NumberError:
    wrong = ~np.isfinite(x)
    if wrong.any():
        index = tuple(int(i) for i in np.argwhere(wrong)[0])
        return NumberError(f"{where}: NaN or infinity at index {index}")
    what = "range" if codec.has_zero else "norm"
    return NumberError(
        f"{where}: float32 does not hold the {what} of a bucket (at or after element {first}): "
        "values this large come from training that diverges"
    )


def promotions(n: int, probability: float, draw: Draw) -> np.ndarray:
    """bool[n]: the buckets that take the wider codes, each with `probability`: word < floor(p * 2^32).

    Defined by `spec/methods/packing.py: pack`.
    """
    words = draw.words(n)
    return words < np.uint64(int(probability * 2**32))
