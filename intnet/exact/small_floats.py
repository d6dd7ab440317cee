"""The one rounding to a small float: words of a `Float` from exact values.

A value has its leading bit at 2**lead; m bits after it are kept, fewer below the least normal number. What
is kept, plus 2**m for every binade above that one, is the word without its sign: a carry walks on into the
exponent as it does in hardware. Overflow is a second step.

Defined by `spec/small_floats.py: encode`.
"""

from fractions import Fraction
from typing import Any

import numpy as np

from intnet.errors import NumberError
from intnet.exact.parts import FAR, Parts, bit_length, check_numbers, narrowed, rounded
from intnet.numbers.qtensor import Status
from intnet.numbers.rounding import STOCHASTIC, TO_NEG, TO_POS, TO_ZERO, Rounding
from intnet.numbers.small_floats import Float, FloatTensor
from intnet.spec import small_floats as spec

_PART = 1 << 15  # elements at a time: their arrays stay in a cache


def quantize(x: Parts, format: Float, rounding: Rounding) -> FloatTensor:
    """`x` in small floats. NumberError for a NaN where the format has none, and for what is beyond 'error'.

    Defined by `spec/small_floats.py: encode`.
    """
    if format.specials == "none":
        check_numbers(x, rounding.where, f"{format} has no word for it", infinities=False)
    if format.overflow == "error":
        check_numbers(
            x, rounding.where, f"the overflow of {format} is 'error'", nans=format.specials == "none"
        )
    words, saturated, inexact = encode(x, format, rounding)
    return FloatTensor(words.reshape(x.size.shape), format, Status(saturated, inexact, words.size))


def encode(x: Parts, format: Float, rounding: Rounding) -> tuple[np.ndarray, int, int]:
    """(flat words, how many overflowed, how many were rounded).

    Defined by `spec/small_floats.py: encode`.
    """
    x, words = narrowed(x), np.empty(x.size.size, format.dtype)
    saturated = inexact = 0
    for first in range(0, words.size, _PART):
        part = slice(first, first + _PART)
        values = x.flat(part)
        drawn = rounding.words[part] if rounding.mode == STOCHASTIC else rounding.words
        if rounding.rule is None:
            made, over, some = _encode(values, format, rounding, drawn >> np.uint32(32 - rounding.bits))
        else:
            made, over, some = _by_rule(values, format, rounding)
        if format.overflow == "error" and over.any():
            raise NumberError(
                f"{rounding.where or 'quantize'}: element {first + int(np.argmax(over))} in C order is "
                f"beyond {format}, and its overflow is 'error'"
            )
        words[part] = made
        saturated += int(over.sum())
        inexact += int(some.sum())
    return words, saturated, inexact


def _encode(
    x: Parts, format: Float, rounding: Rounding, drawn: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(words, whether each overflowed, whether each was rounded)."""
    lead = np.maximum(x.exponent + bit_length(x.size) - 1, format.least)
    kept, some = rounded(x.negative, x.size, lead - format.m - x.exponent, rounding, drawn.astype(np.uint64))
    number = kept.astype(np.int64) + (np.minimum(lead - format.least, FAR >> format.m) << format.m)
    finite = x.special == 0
    number = np.where((x.size == 0) & finite, 0, number)
    over = (number > format.greatest) & finite
    some &= finite
    sign = np.where(x.negative, 1 << (format.bits - 1), 0)
    towards: Any = {TO_ZERO: np.True_, TO_NEG: ~x.negative, TO_POS: x.negative}.get(rounding.mode, np.False_)
    beyond = _beyond(format, sign)
    words = np.where(over, np.where(towards, sign + format.greatest, beyond), sign + number)
    if not finite.all():
        words = np.where(x.special == 1, beyond, words)
        words = np.where(x.special == 2, format.nan if format.specials != "none" else 0, words)
        over |= (x.special == 1) & (format.overflow != "infinity")
    return words, over, some


def _beyond(format: Float, sign: np.ndarray) -> Any:
    """The words of what overflowed away from zero. Defined by `spec/small_floats.py: beyond`."""
    if format.overflow == "nan":
        return format.nan
    return sign + format.greatest + (format.overflow == "infinity")


def _by_rule(x: Parts, format: Float, rounding: Rounding) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same by a rule of a user's own, an element at a time, by the definition."""
    rule, defined = rounding.rule, spec.Float(format.e, format.m, format.specials, format.overflow)
    assert rule is not None
    made = []
    for negative, size, exponent, special in zip(*(each.tolist() for each in x), strict=True):
        value: spec.Value = Fraction(-size if negative else size) * Fraction(2) ** exponent
        if special or (negative and size == 0):
            value = ("-" if negative and special != 2 else "") + ("0", "inf", "nan")[special]
        try:
            made.append(spec.encode(value, defined, rule))
        except OverflowError:  # the caller says where
            made.append(spec.Made(0, True, True))
    words, over, some = (np.array(column) for column in zip(*made, strict=True))
    return words, over, some
