"""Numbers as sign, magnitude and exponent, and their one rounding: what small floats and blocks are made by.

    value = (-1)**negative * size * 2**exponent          size uint64; rounded are those below 2**62

Floats come by the fields of their patterns, so nothing is rounded on the way. `rounded` drops bits of a
magnitude and decides on those dropped, in integers; no container is left: of what is shifted up, the low 64
bits are kept.

Defined by `spec/rounding.py: decision`.
"""

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from intnet.errors import FormatError, NumberError
from intnet.exact.expressions import Exact, exact
from intnet.exact.sources import FloatExact, by_rule
from intnet.numbers.exact_values import numbers
from intnet.numbers.formats import FixedPoint
from intnet.numbers.qtensor import QTensor, Status
from intnet.numbers.rounding import (
    OWN,
    STOCHASTIC,
    TIES_AWAY,
    TIES_EVEN,
    TIES_POS,
    TO_NEG,
    TO_POS,
    TO_ZERO,
    Rounding,
)

_HIDDEN = np.uint64(1 << 52)
ONE = np.uint64(1)
FAR = 1 << 40  # exponents that no format comes near
TIES_ZERO, TIES_NEG = OWN + 1, OWN + 2  # ap_fixed has these two beside `MODES`


class Parts(NamedTuple):
    """Arrays of one shape; where `special` is not 0 the value is an infinity (1) or a NaN (2)."""

    negative: np.ndarray
    size: np.ndarray
    exponent: np.ndarray
    special: np.ndarray

    def flat(self, part: slice) -> "Parts":
        """Some of the elements, in C order."""
        return Parts(*(each.reshape(-1)[part] for each in self))


def parts(x: Any, where: str = "") -> Parts:
    """Of a QTensor (any exponents), an array, a number, lists, or what becomes float64 exactly.

    FormatError for what is none of these; NumberError for what is no number times a power of two.
    """
    if isinstance(x, QTensor):
        return _of_codes(x)
    if not isinstance(x, np.ndarray) and hasattr(x, "to_float64"):
        return _of_floats(x.to_float64())
    if not hasattr(x, "round_to"):
        x = numbers(x, where)
        if x.dtype in _FLOATS:
            with np.errstate(invalid="ignore"):  # a signalling NaN is one too
                return _of_floats(x.astype(np.float64))
        if x.dtype.kind in "biu":
            return _of_integers(x)
    found = exact(x, where)
    if isinstance(found, FloatExact) and found.den == 1 and isinstance(found.values, np.ndarray):
        return _of_floats(found.values.astype(np.float64))
    if isinstance(found, Exact) and not np.any(np.asarray(found.den) != 1):
        return _of_codes(found.to_qtensor(where))
    raise FormatError(
        f"{where or 'quantize'}: a quotient or a root is no number times a power of two, of which words are "
        "made here; its to_float32() rounds once, to float32"
    )


_FLOATS = (np.float16, np.float32, np.float64)


def _of_floats(x: np.ndarray) -> Parts:
    """By the fields of float64."""
    bits = np.ascontiguousarray(x).view(np.uint64).reshape(x.shape)
    mantissa, field = bits & (_HIDDEN - ONE), (bits >> np.uint64(52)).astype(np.int64) & 0x7FF
    special = np.where(field == 0x7FF, np.where(mantissa == 0, 1, 2), 0).astype(np.int8)
    size = np.where(field > 0, mantissa | _HIDDEN, mantissa)
    return Parts(bits >> np.uint64(63) != 0, size, np.maximum(field, 1) - 1075, special)


def _of_integers(x: np.ndarray) -> Parts:
    """Of integers, of which uint64 has 64 bits."""
    whole = x.astype(np.uint64) if x.dtype.kind == "u" else np.abs(x.astype(np.int64)).view(np.uint64)
    return Parts(x < 0, whole, np.zeros(x.shape, np.int64), np.zeros(x.shape, np.int8))


def _of_codes(q: QTensor) -> Parts:
    """By code and exponent; of one beyond 2^40 every format here makes what it makes of 2^40."""
    codes = q.codes.astype(np.int64)
    far = isinstance(q.exponent, int) and abs(q.exponent) > FAR
    near = np.clip(q.exponent, -FAR, FAR) if not far else FAR if q.exponent > 0 else -FAR
    exponent = np.broadcast_to(near, codes.shape).astype(np.int64)
    return Parts(codes < 0, np.abs(codes).view(np.uint64), exponent, np.zeros(codes.shape, np.int8))


def _fractions(x: Parts) -> np.ndarray:
    """Of finite values, as objects."""
    flat = zip(*(each.reshape(-1).tolist() for each in x[:3]), strict=True)
    found = [Fraction(-size if negative else size) * Fraction(2) ** e for negative, size, e in flat]
    return np.fromiter(found, object, len(found)).reshape(x.size.shape)


def narrowed(x: Parts) -> Parts:
    """Beyond 2**62 a magnitude keeps 62 bits, and whether there was more: fewer are rounded to."""
    wide = x.size >> np.uint64(62) != 0
    if not wide.any():
        return x
    sticky = (x.size >> np.uint64(2)) | (x.size & np.uint64(3) != 0)
    return x._replace(
        size=np.where(wide, sticky, x.size), exponent=np.where(wide, x.exponent + 2, x.exponent)
    )


def bit_length(size: np.ndarray) -> np.ndarray:
    """int64 number of bits of each uint64, 0 of 0."""
    length, rest = np.zeros(size.shape, np.int64), size
    for step in (32, 16, 8, 4, 2, 1):
        high = rest >> np.uint64(step) != 0
        rest = np.where(high, rest >> np.uint64(step), rest)
        length += np.where(high, step, 0)
    return length + (size != 0)


def rounded(
    negative: np.ndarray, size: np.ndarray, drop: np.ndarray, rounding: Rounding, words: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(magnitude of the rounded value / 2**drop, low 64 bits; whether anything was rounded off).

    words: uint64 random words of `rounding.bits` bits, where it is stochastic

    Defined by `spec/rounding.py: decision`.
    """
    down, up = np.clip(drop, 0, 63).astype(np.uint64), np.clip(-drop, 0, 63).astype(np.uint64)
    q = np.where(drop < -63, np.uint64(0), size << up) >> down  # of 62 bits none is left at 63
    rest = size & ((ONE << down) - ONE)
    some, mode = rest != 0, rounding.mode
    if mode in (TO_NEG, TO_POS, TO_ZERO):
        away = some & {TO_NEG: negative, TO_POS: ~negative, TO_ZERO: np.False_}[mode]
    elif mode == STOCHASTIC:
        away = some & _drawn(negative, rest, drop, rounding.bits, words)
    else:
        half = (ONE << down) >> ONE
        tie = some & (rest == half)
        away = rest > half
        if mode == TIES_EVEN:
            away |= tie & (q & ONE != 0)
        elif mode in (TIES_AWAY, TIES_POS, TIES_NEG):
            away |= tie & {TIES_AWAY: np.True_, TIES_POS: ~negative, TIES_NEG: negative}[mode]
        elif mode != TIES_ZERO:
            raise FormatError(
                f"{rounding.where or 'quantize'}: a rule of one's own rounds to equidistant codes only"
            )
    return q + away, some


def _drawn(
    negative: np.ndarray, rest: np.ndarray, drop: np.ndarray, bits: int, words: np.ndarray
) -> np.ndarray:
    """Away from zero: up of a positive value; not up of a negative one, of fraction 1 - rest."""
    deep, shallow = (
        np.clip(drop - bits, 0, 63).astype(np.uint64),
        np.clip(bits - drop, 0, 63).astype(np.uint64),
    )
    floor = np.where(drop >= bits, rest >> deep, rest << shallow)
    ceil = np.where(drop >= bits, (rest + ((ONE << deep) - ONE)) >> deep, floor)
    return np.where(negative, words >= np.uint64(1 << bits) - ceil, words < floor)


def check_numbers(x: Parts, where: str, why: str, infinities: bool = True, nans: bool = True) -> None:
    """NumberError at the first infinity or NaN, of those that are refused."""
    bad = (x.special == 1) & infinities | (x.special == 2) & nans
    if bad.any():
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        raise NumberError(
            f"{where or 'quantize'}: {'an infinity' if x.special[at] == 1 else 'a NaN'} at {at}: {why}"
        )


def fixed_codes(x: Parts, format: FixedPoint, rounding: Rounding) -> tuple[np.ndarray, Status]:
    """int64 codes of `x`, which is finite, in a format that saturates.

    Defined by `spec/formats.py: FixedPoint`.
    """
    if rounding.rule is not None:
        codes, status = by_rule(_fractions(x), format.exponent, rounding.within(format.lo, format.hi))
        return codes.astype(np.int64), status
    x = narrowed(x)
    drop = format.exponent - x.exponent
    drawn = rounding.words.reshape(x.size.shape) if rounding.mode == STOCHASTIC else rounding.words
    kept, some = rounded(
        x.negative, x.size, drop, rounding, (drawn >> np.uint32(32 - rounding.bits)).astype(np.uint64)
    )
    far = (x.size != 0) & (bit_length(x.size) - drop > 62)  # beyond what `kept` counts
    codes = np.where(far, 1 << 62, kept.astype(np.int64) & ((1 << 62) - 1)) * np.where(x.negative, -1, 1)
    within = np.clip(codes, format.lo, format.hi)
    return within, Status(int((within != codes).sum()), int(some.sum()), codes.size)
