"""One element's way through a bucketed codec (`exact/blocks/buckets.py`), float32 to packed bits and back.

    way(event, index) -> Rounding, code, a~        for `inspect/explain.py`

All arithmetic is `spec.buckets`'s, which keeps of each float32 operation what it rounded; here it gets names
and formulas. Codes are read from the packed words bit by bit. Scale, zero point, code and a~ must be those
that the library stored; where one is not, `Disagreement` is raised.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod

import numpy as np

from intnet.errors import FormatError
from intnet.exact.blocks.buckets import Codec, Packed
from intnet.inspect.explain_blocks import Block, Shared
from intnet.inspect.explain_rules import Disagreement, Index, comma, rule
from intnet.methods.trace import Event
from intnet.spec import buckets as spec
from intnet.spec.float32 import CHUNK, ONE, Rounded, quotient
from intnet.spec.rounding import Decision

WORD = 64  # bits of a packed word
ZERO = Fraction(0)


@dataclass(frozen=True)
class Operation:
    """One float32 operation: its exact result (None: a root), and the float32 that it was rounded to."""

    name: str
    formula: str
    exact: Fraction | None
    value: Fraction


@dataclass(frozen=True)
class Place:
    """Where a code is packed: bits bit .. bit + width - 1 of 64-bit word `word`, on into the next.

    stored: the unsigned integer there
    """

    word: int
    bit: int
    width: int
    stored: int


@dataclass(frozen=True)
class Promotion:
    """How a bucket of a mix got its width: promoted iff word < threshold = floor(probability * 2^32)."""

    word: int
    threshold: int
    probability: float
    promoted: bool


@dataclass(frozen=True)
class Bucket:
    """The bucket of an element, and each float32 operation on its way.

    number:          of `of` buckets; it has elements first .. last of the tensor read flat
    bits:            nominal b, of counted levels L; promotion: None where widths are not mixed
    least, greatest: of its values
    scaling:         operations that make scale and zero point; zero is None where codes have a sign, and
                     for a constant bucket its value (scale is 0 then)
    before, after:   operations from the value to the fraction, and from the code to a~
    error:           a~ - a; bound: |error| stays below it, but for float32's own rounding: s/2, s, scale/L
    """

    codec: str
    kind: str
    number: int
    of: int
    first: int
    last: int
    element: int
    bits: int
    promotion: Promotion | None
    least: Fraction
    greatest: Fraction
    scaling: tuple[Operation, ...]
    scale: Fraction
    zero: Fraction | None
    before: tuple[Operation, ...]
    after: tuple[Operation, ...]
    place: Place
    error: Fraction
    bound: Fraction

    @property
    def levels(self) -> int:
        """L, of codes in levels."""
        return spec.levels_of(self.kind, self.bits)


@dataclass(frozen=True)
class Rounding:
    """How an exact value became an integer.

    grid:      log2 of the step that is rounded to; scaled = value / 2**grid = floor + remainder
               None of a codec, where scaled is u, a float32, and remainder u - floor in float32
    log2_r:    log2 of R(x), where the tensor's maximum sets the grid
    word:      the random word, of `word_bits` bits; it rounds up iff it is below `threshold`
    rounded:   the integer before saturation, in units of the grid; `kept` the one after it
    low, high: the limits, None where the format has none
    lift:      code = kept * 2**lift (the coarse grid of the flag format)
    level:     of a format with levels the code that `kept` numbers; there floor is a number of a level too,
               and remainder the part of the distance to the next one
    block:     of block float, whose block sets the grid; where it keeps no bits nothing is rounded
    bucket:    of a codec; where it is constant nothing is rounded
    shared:    of MX blocks, whose scale sets the grid, with the binade of the value
    """

    mode: str
    grid: int | None = None
    log2_r: int | None = None
    scaled: Fraction | None = None
    scaled_square: Fraction | None = None
    floor: int = 0
    remainder: Fraction | None = None
    tie: bool = False
    word: int | None = None
    word_bits: int | None = None
    threshold: int | None = None
    up: bool = False
    rule: str = ""
    rounded: int = 0
    low: int | None = None
    high: int | None = None
    overflow: str = ""
    kept: int = 0
    saturated: bool = False
    lift: int = 0
    level: int | None = None
    block: Block | None = None
    bucket: Bucket | None = None
    shared: Shared | None = None

    @classmethod
    def of(cls, mode: str, made: Decision, word: int | None) -> "Rounding":
        """What the definition decided, and why."""
        return cls(
            mode, floor=made.floor, remainder=made.fraction, tie=made.tie, word=word,
            threshold=made.threshold, up=made.up, rule=rule(mode, made, word), rounded=made.rounded,
        )  # fmt: skip


Told = tuple[Rounding, int, Fraction]  # the rounding of an element, its code, a~


# -- the way -----------------------------------------------------------------------------------


def way(event: Event, index: Index) -> Told:
    """The way of element `index` of a packed tensor; Disagreement where the library stored another."""
    codec, packed = event.format, event.result
    assert isinstance(codec, Codec) and isinstance(packed, Packed)
    where = f"{event.name} {comma(index)}"
    if codec.kind in spec.BY_WORDS and event.words is None:
        raise FormatError(f"{where}: its event has no random words")
    flat = int(np.ravel_multi_index(index, packed.shape)) if index else 0
    bucket = _bucket(event, codec, packed, flat, where)
    _same(f"{where}: the scale of bucket {bucket.number}", bucket.scale, packed.scales[bucket.number])
    if bucket.zero is not None:
        _same(f"{where}: the zero point of bucket {bucket.number}", bucket.zero, packed.zeros[bucket.number])
    a = Fraction(float(event.source.reshape(-1)[flat]))
    word = None if event.words is None else int(event.words.reshape(-1)[flat])
    if not bucket.scale:
        rounding, code, value = _constant(bucket)
    else:
        rounding, code, value = WAYS[codec.kind](bucket, a, word)
    offset = spec.offset_of(codec.kind, bucket.bits)
    if code + offset != bucket.place.stored:
        raise Disagreement(
            f"{where}: exact arithmetic reaches code {code + offset}, packed is {bucket.place.stored}"
        )
    _same(f"{where}: a~", value, packed.load()[index])
    assert rounding.bucket is not None
    told = replace(rounding.bucket, error=value - a)
    return replace(rounding, mode=event.rounding or "", overflow="saturate", bucket=told), code, value


def _same(what: str, mine: Fraction, stored: np.float32) -> None:
    if mine != Fraction(float(stored)):
        raise Disagreement(f"{what} comes to {float(mine)!r}, stored is {float(stored)!r}")


def _bucket(event: Event, codec: Codec, packed: Packed, flat: int, where: str) -> Bucket:
    """All that does not depend on which of its elements is asked for, and the place of this one."""
    elements = prod(packed.shape)
    size = elements if isinstance(codec.bucket, str) else codec.bucket
    k, of = flat // size, -(-elements // size)
    first, last = k * size, min((k + 1) * size, elements) - 1
    x = event.source.reshape(-1)[first : last + 1]
    if not np.isfinite(x).all():
        raise FormatError(f"{where}: its bucket has NaN or infinity, which have no exact value")
    widths, promotion = packed.widths.tolist(), None
    bits = int(widths[k])
    if event.mix is not None:
        word, share = int(event.mix.words[k]), event.mix.probability
        threshold, up = spec.promoted(word, share)
        promotion = Promotion(word, threshold, share, up)
        if up != (bits == codec.mix):
            raise Disagreement(f"{where}: word {word} and threshold {threshold} do not give the stored width")
    units = [_units(Fraction(value)) for value in x.tolist()]
    scaling, scale, zero = _scaling(codec, units, bits, first, prod(packed.shape[1:]))
    ahead = sum(spec.words_of(codec.kind, size, int(b)) for b in widths[:k])
    return Bucket(
        str(codec), codec.kind, k, of, first, last, flat - first, bits, promotion,
        _real(min(units)), _real(max(units)), scaling, scale, zero, (), (),
        _place(packed, WORD * ahead, flat - first, spec.width_of(codec.kind, bits)), ZERO, ZERO,
    )  # fmt: skip


def _place(packed: Packed, start: int, at: int, width: int) -> Place:
    """Code `at` of the bucket that begins with bit `start`."""
    word, bit = divmod(start + at * width, WORD)
    both = int(packed.words[word]) >> bit
    if bit + width > WORD:
        both |= int(packed.words[word + 1]) << WORD - bit
    return Place(word, bit, width, both & (1 << width) - 1)


# -- names and formulas ------------------------------------------------------------------------


def _units(value: Fraction) -> int:
    """A float32 in units of 2^-149, as `spec.buckets` counts."""
    return int(value * ONE)


def _real(units: int) -> Fraction:
    return Fraction(units, ONE)


def _told(name: str, formula: str, made: Rounded) -> Operation:
    return Operation(name, formula, made.exact, made.value)


def _inexact(name: str, formula: str, made: Rounded) -> tuple[Operation, ...]:
    """An integer as a float32, which is worth a line only where it is none."""
    return () if made.exact == made.value else (_told(name, formula, made),)


def _scaling(
    codec: Codec, units: list[int], b: int, first: int, image: int
) -> tuple[tuple[Operation, ...], Fraction, Fraction | None]:
    """(operations, scale, zero point; None where codes have a sign)."""
    if codec.kind in spec.LEVELS:
        return _level_scaling(codec, units, first, image)
    if codec.kind == "symmetric":
        reach = spec.reach_of(units)
        s = quotient(reach, 2 ** (b - 1) * ONE)
        top = Operation("T", "the 99.999th percentile of |a|, at least 1e-10", _real(reach), _real(reach))
        return (top, _told("s", "T/2^(b-1)", s)), s.value, None
    made = spec.scaling(min(units), max(units), b)
    told = (_told("max - min", "max - min", made.span), *_inexact("2^b - 1", f"2^{b} - 1", made.steps))
    told += (_told("s", "(max - min)/(2^b - 1)", made.s),)
    z = _real(made.z)
    if made.start is not None:
        told += (_told("-min/s", "-min/s", made.start), Operation("z", "round(-min/s), ties to even", z, z))
    return told, made.s.value, z


def _level_scaling(
    codec: Codec, units: list[int], first: int, image: int
) -> tuple[tuple[Operation, ...], Fraction, None]:
    """max|a|, or the norm of the bucket by fused multiply-adds, at least 1e-8."""
    scale = _real(spec.level_scale(units, codec.norm, first, image))
    if codec.norm != "l2":
        top = _real(max(map(abs, units)))
        told = (Operation("max|a|", "the greater of -min and max", top, top),)
        return (*told, Operation("scale", "max(max|a|, 1e-8)", scale, scale)), scale, None
    exact = sum((_real(value) ** 2 for value in units), ZERO)
    of = f"a^2 over {len(units):,}, one rounding each, in chunks of {CHUNK:,}"
    total = Operation("sum", of, exact, _real(spec.sum_of_squares(units, first, image)))
    return (total, Operation("scale", "max(sqrt(sum), 1e-8)", None, scale)), scale, None


def _constant(bucket: Bucket) -> Told:
    """s is 0: nothing is rounded, the code is 0 and a~ the least value."""
    assert bucket.zero is not None
    why = "a constant bucket (s = 0): its value is stored in the place of z, every code is 0"
    return Rounding("", rule=why, low=0, high=2**bucket.bits - 1, bucket=bucket), 0, bucket.zero


def _affine(bucket: Bucket, a: Fraction, word: int | None) -> Told:
    """u = a/s + z, q = clip(round(u)) or clip(floor(u) + [word < frac(u)]), a~ = s*(q - z)."""
    assert bucket.zero is not None
    s, z = _units(bucket.scale), _units(bucket.zero)
    found = spec.affine_way(_units(a), s, z, bucket.bits, word)
    back = spec.affine_back(found.kept, s, z)
    before = (_told("a/s", "a/s", found.ratio), _told("u", "a/s + z", found.u))
    after = (*_inexact("q as float32", "q", back.number), _told("q - z", "q - z", back.share))
    after += (_told("a~", "s*(q - z)", back.value),)
    bound = bucket.scale / (2 if word is None else 1)
    told = replace(bucket, before=before, after=after, bound=bound)
    return _way(told, found, word, 2**bucket.bits - 1, found.kept, back.value.value)


def _level(bucket: Bucket, a: Fraction, word: int | None) -> Told:
    """ax = min(|a|/scale, 1), u = ax*L, m = floor(u) + [word < frac(u)], a~ = m/L * scale * sign(a)."""
    assert word is not None
    levels, scale = bucket.levels, _units(bucket.scale)
    found = spec.level_way(_units(a), scale, levels, word)
    back = spec.level_back(found.kept, scale, levels)
    meaning = "2^b" if bucket.kind == "levels" else "b"
    ax = found.u.exact / levels  # float32 has no 1 - 1e-8
    signed = -back.value.value if a < 0 else back.value.value
    before = (
        _told("|a|/scale", "|a|/scale", found.ratio),
        Operation("ax", "min(|a|/scale, 1)", ax, ax),
        _told("u", f"ax*L, L = {meaning} = {levels:,}", found.u),
    )
    after = (
        *_inexact("m as float32", "m", back.number),
        _told("m/L", "m/L", back.share),
        _told("|a~|", "m/L * scale", back.value),
        Operation("a~", "sign(a) * |a~|", signed, signed),
    )
    told = replace(bucket, before=before, after=after, bound=bucket.scale / levels)
    return _way(told, found, word, levels, -found.kept if a < 0 else found.kept, signed)


def _symmetric(bucket: Bucket, a: Fraction, word: int | None) -> Told:
    """q = clip(round(a/s)), a~ = s*q."""
    s, half = _units(bucket.scale), 2 ** (bucket.bits - 1)
    found = spec.symmetric_way(_units(a), s, bucket.bits)
    back = spec.symmetric_back(found.kept, s)
    before = (_told("a/s", "a/s, a within -2T..2T", found.ratio),)
    after = (*_inexact("q as float32", "q", back.number), _told("a~", "s*q", back.value))
    told = replace(bucket, before=before, after=after, bound=bucket.scale / 2)
    return _way(told, found, word, half - 1, found.kept, back.value.value, -half)


WAYS = {
    "affine": _affine,
    "affine-stochastic": _affine,
    "levels": _level,
    "counted": _level,
    "symmetric": _symmetric,
}


def _way(
    bucket: Bucket, found: spec.Way, word: int | None, high: int, code: int, value: Fraction, low: int = 0
) -> Told:
    """What the definition decided; by a random word, the fraction is one more operation."""
    if word is not None:
        bucket = replace(bucket, before=(*bucket.before, _told("fraction", "u - floor(u)", found.part)))
    made = Rounding.of("ties_even" if word is None else "stochastic", found.decision, word)
    told = replace(
        made, scaled=found.u.value, word_bits=None if word is None else 32, low=low, high=high,
        kept=found.kept, saturated=found.kept != made.rounded, bucket=bucket,
    )  # fmt: skip
    return told, code, value
