"""One element's way through a bucketed codec (`blocks/buckets.py`), from its float32 to packed bits and back.

    way(event, index) -> Way        for `inspect/explain.py`

Read `Bucket` for what is told, `way` for the order, then the two kinds of codes. Every rounded number and the
decision come from `spec.buckets`; beside each float32 operation stands the exact rational that it rounded.
Codes are read from the packed words bit by bit. Scale, zero point, code and a~ must be those that the library
stored; where one is not, `Disagreement` is raised.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor, isqrt, prod

import numpy as np

from intnet.blocks.buckets import Codec, Packed
from intnet.errors import FormatError
from intnet.inspect.explain_rules import Disagreement, Index, comma, rule
from intnet.spec import buckets as spec
from intnet.spec.float32 import CHUNK, ONE, sqrt_units, to_float32
from intnet.spec.rounding import Decision
from intnet.trace import Event

WORD = 64  # bits of a packed word
RANDOM = 32  # bits of a random word
ZERO = Fraction(0)


@dataclass(frozen=True)
class Operation:
    """One float32 operation: its exact result, and the float32 that it was rounded to."""

    name: str
    formula: str
    exact: Fraction
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
    bits:            nominal b; promotion: None where widths are not mixed
    least, greatest: of its values
    scaling:         operations that make scale and zero point; zero is None for levels, and for a constant
                     bucket its value (scale is 0 then)
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


@dataclass(frozen=True)
class Way:
    """What `explain.Rounding` says of it too; scaled is None in a constant bucket.

    rounded: floor + up; code: what reads as the code, of levels with its sign; value: a~
    """

    bucket: Bucket
    scaled: Fraction | None
    floor: int
    fraction: Fraction | None
    word: int | None
    threshold: int | None
    up: bool
    rule: str
    rounded: int
    high: int
    kept: int
    code: int
    value: Fraction


# -- float32 -----------------------------------------------------------------------------------


def _units(value: Fraction) -> int:
    """A float32 in units of 2^-149, as `spec.buckets` counts."""
    return int(value * ONE)


def _real(units: int) -> Fraction:
    return Fraction(units, ONE)


def _operation(name: str, formula: str, exact: Fraction) -> Operation:
    return Operation(name, formula, exact, to_float32(exact))


def _root(value: Fraction) -> Fraction:
    """A rational on the side of every float32, and of every half between two, where the root lies."""
    shift = Fraction(4) ** 200
    low = isqrt(floor(value * shift))
    inside = Fraction(low) ** 2 != value * shift
    return (Fraction(low) + Fraction(int(inside), 2)) / Fraction(2) ** 200


def _norm(x: np.ndarray, first: int, image: int) -> tuple[Operation, Operation]:
    """Sum of squares, fma by fma in chunks of CHUNK, group by group of images; and its root."""
    units = [_units(Fraction(value)) for value in x.tolist()]
    total = spec.sum_of_squares(units, first, image)
    exact = Fraction(sum(value**2 for value in units), ONE**2)
    of = f"a^2 over {x.size:,}, one rounding each, in chunks of {CHUNK:,}"
    norm = Operation("norm", "sqrt(sum)", _root(_real(total)), _real(sqrt_units(total)))
    return Operation("sum", of, exact, _real(total)), norm


# -- the way -----------------------------------------------------------------------------------


def way(event: Event, index: Index) -> Way:
    """The way of element `index` of a packed tensor; Disagreement where the library stored another."""
    codec, packed = event.format, event.result
    assert isinstance(codec, Codec) and isinstance(packed, Packed)
    where = f"{event.layer}/{event.path} {comma(index)}"
    if codec.kind != "affine" and event.words is None:
        raise FormatError(f"{where}: its event has no random words")
    flat = int(np.ravel_multi_index(index, packed.shape)) if index else 0
    bucket = _bucket(event, codec, packed, flat, where)
    _same(f"{where}: the scale of bucket {bucket.number}", bucket.scale, packed.scales[bucket.number])
    if bucket.zero is not None:
        _same(f"{where}: the zero point of bucket {bucket.number}", bucket.zero, packed.zeros[bucket.number])
    a = Fraction(float(event.source.reshape(-1)[flat]))
    word = None if event.words is None else int(event.words.reshape(-1)[flat])
    if codec.kind == "levels":
        found = _level(bucket, a, word)
    elif not bucket.scale:
        found = _constant(bucket)
    else:
        found = _affine(bucket, a, word)
    offset = 1 << bucket.bits if codec.kind == "levels" else 0
    if found.code + offset != bucket.place.stored:
        raise Disagreement(
            f"{where}: exact arithmetic reaches code {found.code + offset}, packed is {bucket.place.stored}"
        )
    _same(f"{where}: a~", found.value, packed.load()[index])
    return replace(found, bucket=replace(found.bucket, error=found.value - a))


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
    least, greatest = Fraction(float(x.min())), Fraction(float(x.max()))
    promoted = _promoted(packed, of)
    bits = codec.mix if codec.mix is not None and promoted[k] else codec.bits
    promotion = None
    if event.mix is not None:
        word, threshold = int(event.mix.words[k]), floor(Fraction(event.mix.probability) * 2**RANDOM)
        promotion = Promotion(word, threshold, event.mix.probability, word < threshold)
        if promotion.promoted != promoted[k]:
            raise Disagreement(f"{where}: word {word} and threshold {threshold} do not give the stored width")
    if codec.kind != "levels":
        scaling, scale, zero = _affine_scale(bits, least, greatest)
    elif codec.norm == "l2":
        scaling, scale, zero = _level_scale(_norm(x, first, prod(packed.shape[1:])))
    else:
        top = max(-least, greatest)
        scaling, scale, zero = _level_scale([Operation("max|a|", "the greater of -min and max", top, top)])
    place = _place(codec, packed, promoted[:k], flat - first, bits, size)
    return Bucket(
        str(codec), codec.kind, k, of, first, last, flat - first, bits, promotion, least, greatest,
        tuple(scaling), scale, zero, (), (), place, ZERO, ZERO,
    )  # fmt: skip


def _promoted(packed: Packed, buckets: int) -> list[bool]:
    """Bit k % 8 of byte k // 8 of the flags."""
    if packed.flags is None:
        return [False] * buckets
    flags = packed.flags.tolist()
    return [bool(flags[k // 8] >> k % 8 & 1) for k in range(buckets)]


def _place(codec: Codec, packed: Packed, ahead: Sequence[bool], at: int, bits: int, size: int) -> Place:
    """Buckets begin with a word; in one, code i takes bits i*width .. of the words, lowest bit first."""
    extra = 2 if codec.kind == "levels" else 0
    widths = [(codec.mix if up and codec.mix is not None else codec.bits) + extra for up in ahead]
    width = bits + extra
    word, bit = divmod(at * width, WORD)
    word += sum(size * w // WORD for w in widths)
    both = int(packed.words[word]) >> bit
    if bit + width > WORD:
        both |= int(packed.words[word + 1]) << WORD - bit
    return Place(word, bit, width, both & (1 << width) - 1)


# -- affine codes ------------------------------------------------------------------------------

Scaling = tuple[list[Operation], Fraction, Fraction | None]


def _affine_scale(bits: int, least: Fraction, greatest: Fraction) -> Scaling:
    """s = (max - min)/(2^b - 1) and z = round(-min/s), ties to even; a bucket whose s is 0 is constant."""
    span = _operation("max - min", "max - min", greatest - least)
    steps = _operation("2^b - 1", f"2^{bits} - 1", Fraction(2**bits - 1))
    s, z = map(_real, spec.step_and_zero([_units(least), _units(greatest)], bits))
    made = [span, *([steps] if steps.exact != steps.value else [])]
    made.append(Operation("s", "(max - min)/(2^b - 1)", span.value / steps.value, s))
    if not s:
        return made, ZERO, least
    start = _operation("-min/s", "-min/s", -least / s)
    return [*made, start, Operation("z", "round(-min/s), ties to even", z, z)], s, z


def _constant(bucket: Bucket) -> Way:
    """s is 0: nothing is rounded, the code is 0 and a~ the least value."""
    assert bucket.zero is not None
    why = "a constant bucket (s = 0): its value is stored in the place of z, every code is 0"
    return Way(bucket, None, 0, None, None, None, False, why, 0, 2**bucket.bits - 1, 0, 0, bucket.zero)


def _affine(bucket: Bucket, a: Fraction, word: int | None) -> Way:
    """u = a/s + z, q = clip(round(u)) or clip(floor(u) + [word < frac(u)]), a~ = s*(q - z)."""
    assert bucket.zero is not None
    s, z, q_most = bucket.scale, bucket.zero, 2**bucket.bits - 1
    found = spec.affine_way(_units(a), _units(s), _units(z), bucket.bits, word)
    ratio, u, q = _real(found.ratio), _real(found.u), found.kept
    before = [Operation("a/s", "a/s", a / s, ratio), Operation("u", "a/s + z", ratio + z, u)]
    if word is not None:
        before.append(_part(u, found.decision))
    number = _operation("q as float32", "q", Fraction(q))
    steps = _operation("q - z", "q - z", number.value - z)
    value = Operation("a~", "s*(q - z)", s * steps.value, _real(spec.affine_value(q, _units(s), _units(z))))
    after = (*([number] if number.exact != number.value else []), steps, value)
    bound = s / 2 if word is None else s
    told = replace(bucket, before=tuple(before), after=after, bound=bound)
    return _way(told, u, found, word, q_most, q, value.value)


def _part(u: Fraction, made: Decision) -> Operation:
    """u - floor(u), which may round up to 1."""
    return Operation("fraction", "u - floor(u)", u - made.floor, made.fraction)


def _way(
    bucket: Bucket, u: Fraction, found: spec.Way, word: int | None, high: int, code: int, value: Fraction
) -> Way:
    made = found.decision
    why = rule("ties_even" if word is None else "stochastic", made, word)
    return Way(
        bucket, u, made.floor, made.fraction, word, made.threshold, made.up, why, made.rounded, high,
        found.kept, code, value,
    )  # fmt: skip


# -- levels ------------------------------------------------------------------------------------


def _level_scale(made: Sequence[Operation]) -> Scaling:
    """What `made` ends in, max|a| or the norm of the bucket, at least 1e-8."""
    scale = _real(spec.level_scale([_units(made[-1].value)]))
    return [*made, Operation("scale", f"max({made[-1].name}, 1e-8)", scale, scale)], scale, None


def _level(bucket: Bucket, a: Fraction, word: int | None) -> Way:
    """ax = min(|a|/scale, 1), u = ax*L, m = floor(u) + [word < frac(u)], a~ = m/L * scale * sign(a)."""
    assert word is not None
    levels, scale = 2**bucket.bits, bucket.scale
    found = spec.level_way(_units(a), _units(scale), bucket.bits, word)
    ratio, u, m = _real(found.ratio), _real(found.u), found.kept
    ax = u / levels  # float32 has no 1 - 1e-8
    before = (
        Operation("|a|/scale", "|a|/scale", abs(a) / scale, ratio),
        Operation("ax", "min(|a|/scale, 1)", ax, ax),
        Operation("u", f"ax*L, L = 2^b = {levels:,}", ax * levels, u),
        _part(u, found.decision),
    )
    number = _operation("m as float32", "m", Fraction(m))
    back = _operation("m/L", "m/L", number.value / levels)
    size = Operation(
        "|a~|", "m/L * scale", back.value * scale, _real(spec.level_value(m, _units(scale), bucket.bits))
    )
    signed = -size.value if a < 0 else size.value
    value = Operation("a~", "sign(a) * |a~|", signed, signed)
    after = (*([number] if number.exact != number.value else []), back, size, value)
    told = replace(bucket, before=before, after=after, bound=scale / levels)
    return _way(told, u, found, word, levels, -m if a < 0 else m, signed)
