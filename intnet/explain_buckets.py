"""One element's way through a bucketed codec (`bucket_codec.py`), from its float32 to packed bits and back.

    way(event, index) -> Way        for `explain.py`; its rounding decision is `grids.decide`

Read `Bucket` for what is told, `way` for the order, then the arithmetic of the two kinds of codes. All in
Python integers and Fractions, apart from the kernels: each float32 operation is an exact rational that is
rounded once, and both are kept. Codes are read from the packed words bit by bit. Scale, zero point, code and
a~ must be those that the library stored; where one is not, `Disagreement` is raised.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor, isqrt, ldexp, prod
from typing import Any

import numpy as np

from intnet.batch_sums import GROUP
from intnet.bucket_codec import Codec, Packed
from intnet.errors import FormatError
from intnet.exact_sources import floor_log2
from intnet.fp32 import CHUNK
from intnet.grids import Disagreement, Index, comma, decide
from intnet.trace import Event

WORD = 64  # bits of a packed word
RANDOM = 32  # bits of a random word
TINY = Fraction(float(np.float32(1e-8)))  # at least, the scale of a bucket of levels
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


def nearest(value: Fraction) -> Fraction:
    """The float32 next to a rational, ties to even; FormatError beyond its range."""
    if not value:
        return ZERO
    unit = Fraction(2) ** max(floor_log2(abs(value)) - 23, -149)
    rounded = round(value / unit) * unit  # Python rounds a Fraction to even
    if abs(rounded) >= 2**128:
        raise FormatError(f"{float(value):g} is beyond float32")
    return rounded


def _operation(name: str, formula: str, exact: Fraction) -> Operation:
    return Operation(name, formula, exact, nearest(exact))


def _root(value: Fraction) -> Fraction:
    """A rational on the side of every float32, and of every half between two, where the root lies."""
    shift = Fraction(4) ** 200
    low = isqrt(floor(value * shift))
    inside = Fraction(low) ** 2 != value * shift
    return (Fraction(low) + Fraction(int(inside), 2)) / Fraction(2) ** 200


def _norm(x: np.ndarray, first: int, image: int) -> tuple[Operation, Operation]:
    """Sum of squares of elements first .. of a tensor with `image` elements an image; and its root.

    The order is that of `batch_sums.py`. In integers, which count units of 2^-298: Fractions would take
    minutes for a whole tensor.
    """
    exact, size, sums = 0, GROUP * image, []
    for start in range(-first, x.size, size):
        total, inside = 0, x[max(start, 0) : max(start + size, 0)]
        for at in range(0, inside.size, CHUNK):
            part = 0
            for value in inside[at : at + CHUNK].tolist():
                square = int(ldexp(value, 149)) ** 2
                exact, part = exact + square, _nearest_units(square + part)
            total = _nearest_units(total + part)
        sums.append(total)
    while len(sums) > 1:
        sums = [_nearest_units(sum(sums[i : i + 2])) for i in range(0, len(sums), 2)]
    (total,) = sums
    whole, rounded = (Fraction(n) / Fraction(2) ** 298 for n in (exact, total))
    of = f"a^2 over {x.size:,}, one rounding each, in groups of {GROUP} images and chunks of {CHUNK:,}"
    return Operation("sum", of, whole, rounded), _operation("norm", "sqrt(sum)", _root(rounded))


def _nearest_units(n: int) -> int:
    """`nearest` of n >= 0 units of 2^-298."""
    drop = max(n.bit_length() - 24, 149)
    low, half = n >> drop, 1 << drop - 1
    rest = n - (low << drop)
    return low + (rest > half or (rest == half and low % 2 == 1)) << drop


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
    scaling, scale, zero = (_level_scale if codec.kind == "levels" else _affine_scale)(
        codec, bits, least, greatest, x, first, prod(packed.shape[1:])
    )
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


def _affine_scale(codec: Codec, bits: int, least: Fraction, greatest: Fraction, *_: Any) -> Scaling:
    """s = (max - min)/(2^b - 1) and z = round(-min/s), ties to even; a bucket whose s is 0 is constant."""
    span = _operation("max - min", "max - min", greatest - least)
    steps = _operation("2^b - 1", f"2^{bits} - 1", Fraction(2**bits - 1))
    s = _operation("s", "(max - min)/(2^b - 1)", span.value / steps.value)
    made = [span, *([steps] if steps.exact != steps.value else []), s]
    if not s.value:
        return made, ZERO, least
    start = _operation("-min/s", "-min/s", -least / s.value)
    whole = Fraction(round(start.value))
    zero = Operation("z", "round(-min/s), ties to even", whole, whole)
    return [*made, start, zero], s.value, zero.value


def _constant(bucket: Bucket) -> Way:
    """s is 0: nothing is rounded, the code is 0 and a~ the least value."""
    assert bucket.zero is not None
    rule = "a constant bucket (s = 0): its value is stored in the place of z, every code is 0"
    return Way(bucket, None, 0, None, None, None, False, rule, 0, 2**bucket.bits - 1, 0, 0, bucket.zero)


def _affine(bucket: Bucket, a: Fraction, word: int | None) -> Way:
    """u = a/s + z, q = clip(round(u)) or clip(floor(u) + [word < frac(u)]), a~ = s*(q - z)."""
    assert bucket.zero is not None
    s, z, high = bucket.scale, bucket.zero, 2**bucket.bits - 1
    quotient = _operation("a/s", "a/s", a / s)
    u = _operation("u", "a/s + z", quotient.value + z)
    before, whole = [quotient, u], floor(u.value)
    threshold = None
    if word is None:
        fraction = u.value - whole
        up, rule = decide("ties_even", whole, fraction)
    else:
        part, threshold, up, rule = _drawn(u.value, whole, word)
        fraction = part.value
        before.append(part)
    rounded = whole + up
    q = min(max(rounded, 0), high)
    number = _operation("q as float32", "q", Fraction(q))
    steps = _operation("q - z", "q - z", number.value - z)
    value = _operation("a~", "s*(q - z)", s * steps.value)
    after = (*([number] if number.exact != number.value else []), steps, value)
    bound = s / 2 if word is None else s
    told = replace(bucket, before=tuple(before), after=after, bound=bound)
    return Way(told, u.value, whole, fraction, word, threshold, up, rule, rounded, high, q, q, value.value)


def _drawn(u: Fraction, whole: int, word: int) -> tuple[Operation, int, bool, str]:
    """(u - floor(u), which may round up to 1, threshold, whether up, why)."""
    part = _operation("fraction", "u - floor(u)", u - whole)
    threshold = floor(part.value * 2**RANDOM)
    return part, threshold, *decide("stochastic", whole, part.value, word, threshold)


# -- levels ------------------------------------------------------------------------------------


def _level_scale(
    codec: Codec, bits: int, least: Fraction, greatest: Fraction, x: np.ndarray, first: int, image: int
) -> Scaling:
    """max|a| or the norm of the bucket, at least 1e-8."""
    if codec.norm == "l2":
        made = list(_norm(x, first, image))
    else:
        top = max(-least, greatest)
        made = [Operation("max|a|", "the greater of -min and max", top, top)]
    scale = max(made[-1].value, TINY)
    return [*made, Operation("scale", f"max({made[-1].name}, 1e-8)", scale, scale)], scale, None


def _level(bucket: Bucket, a: Fraction, word: int | None) -> Way:
    """ax = min(|a|/scale, 1), u = ax*L, m = floor(u) + [word < frac(u)], a~ = m/L * scale * sign(a)."""
    assert word is not None
    levels = 2**bucket.bits
    ratio = _operation("|a|/scale", "|a|/scale", abs(a) / bucket.scale)
    ax = min(ratio.value, Fraction(1))  # float32 has no 1 - 1e-8
    limited = Operation("ax", "min(|a|/scale, 1)", ax, ax)
    u = _operation("u", f"ax*L, L = 2^b = {levels:,}", limited.value * levels)
    whole = floor(u.value)
    part, threshold, up, rule = _drawn(u.value, whole, word)
    m = whole + up
    number = _operation("m as float32", "m", Fraction(m))
    ratio_back = _operation("m/L", "m/L", number.value / levels)
    size = _operation("|a~|", "m/L * scale", ratio_back.value * bucket.scale)
    signed = -size.value if a < 0 else size.value
    value = Operation("a~", "sign(a) * |a~|", signed, signed)
    after = (*([number] if number.exact != number.value else []), ratio_back, size, value)
    told = replace(bucket, before=(ratio, limited, u, part), after=after, bound=bucket.scale / levels)
    return Way(
        told, u.value, whole, part.value, word, threshold, up, rule, m, levels, m, -m if a < 0 else m, signed
    )
