"""Small floats: bf16, fp16, FP8 E4M3 and E5M2, FP6 E3M2 and E2M3, FP4 E2M1, and any other of e and m bits.

A word is a sign, e bits of exponent and m of mantissa. The words without their sign are numbered n = 0, 1, ..
and stand for ascending values, which go on for ever if no word ended them:

    v(n) = n * 2^(L - m)                                 n < 2^m: zero and the subnormals
    v(n) = (2^m + n mod 2^m) * 2^(n div 2^m - 1 + L - m) else         L = 1 - bias, bias = 2^(e-1) - 1

With v(-n) = -v(n), x lies between two neighbours, v(n) <= x < v(n + 1), and is rounded as n + f is, where f
is the part of their distance that it has behind it. So a tie is their middle, the even one has an even word.
What is then beyond the greatest finite number has overflowed: a second step, by a policy with a name.

    specials 'ieee'   the greatest exponent is infinity, and NaN: bf16, fp16, E5M2
             'nan'    the greatest word of each sign is a NaN, there is no infinity: E4M3
             'none'   every word is a number: E3M2, E2M3, E2M1

Sources: IEEE 754-2019, 3.4 and 4.3; OCP 8-bit floating point specification, revision 1.0, 5; OCP microscaling
formats, version 1.0, 5.3. What they leave open (words of NaN, rounding 'error', 'stochastic') is intnet's.

>>> e4m3 = Float(4, 3, "nan")
>>> decode(0x7E, e4m3), decode(0x01, e4m3), decode(0xFF, e4m3)
(Fraction(448, 1), Fraction(1, 512), 'nan')
>>> encode(Fraction(3, 10), e4m3), encode(Fraction(-1000), e4m3)
(Made(word=42, saturated=False, inexact=True), Made(word=254, saturated=True, inexact=True))
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from intnet.spec.rounding import Mode, decision
from intnet.spec.tensor import log2_floor, power

SPECIALS = ("ieee", "nan", "none")
OVERFLOWS = {  # what becomes of a finite value beyond the greatest finite number, and of an infinity
    "saturate": "the greatest finite number of its sign",
    "infinity": "infinity; where a finite value is rounded towards zero, the greatest finite number",
    "nan": "NaN; where a finite value is rounded towards zero, the greatest finite number",
    "error": "refused",
}
Value = Fraction | int | str  # a number, or 'inf', '-inf', 'nan', '-0'


@dataclass(frozen=True)
class Float:
    """1 + e + m bits; `overflow` is a name of `OVERFLOWS`."""

    e: int
    m: int
    specials: str = "ieee"
    overflow: str = "saturate"

    @property
    def bits(self) -> int:
        """Of a word."""
        return 1 + self.e + self.m

    @property
    def least(self) -> int:
        """L, the exponent of the least normal number."""
        return 2 - 2 ** (self.e - 1)

    @property
    def greatest(self) -> int:
        """The number of the greatest finite value."""
        if self.specials == "ieee":
            return (2**self.e - 1) * 2**self.m - 1
        return 2 ** (self.e + self.m) - 1 - (self.specials == "nan")

    @property
    def infinity(self) -> int:
        """The number of infinity, where there is one."""
        return self.greatest + 1

    @property
    def nan(self) -> int:
        """The number of the NaN that is written: quiet, without a sign. ValueError where there is none."""
        if self.specials == "none":
            raise ValueError(f"{self} has no NaN")
        return self.infinity + 2 ** (self.m - 1) if self.specials == "ieee" else self.greatest + 1


class Made(NamedTuple):
    """A word; whether the range changed it (overflow); whether rounding did."""

    word: int
    saturated: bool
    inexact: bool


@lru_cache(maxsize=4096)
def value(n: int, format: Float) -> Fraction:
    """v(n), for every integer n."""
    if n < 0:
        return -value(-n, format)
    block, place = divmod(n, 2**format.m)
    if block == 0:
        return place * power(format.least - format.m)
    return (2**format.m + place) * power(block - 1 + format.least - format.m)


def number_of(x: Fraction, format: Float) -> Fraction:
    """n + f of x: v(n) <= x < v(n + 1), f the part of their distance behind it."""
    if x < 0:
        return -number_of(-x, format)
    lead = log2_floor(x) if x >= power(format.least) else format.least
    return (lead - format.least) * 2**format.m + x / power(lead - format.m)


def decode(word: int, format: Float) -> Value:
    """What a word stands for."""
    sign, n = divmod(word, 2 ** (format.bits - 1))
    if n <= format.greatest:
        return "-0" if sign and n == 0 else value(-n if sign else n, format)
    if format.specials == "ieee" and n == format.infinity:
        return "-inf" if sign else "inf"
    return "nan"


def beyond(format: Float, sign: int, towards_zero: bool) -> int:
    """The word of what overflowed; `sign` is the word of its zero."""
    if format.overflow == "error":
        raise OverflowError(f"a value is beyond {format}")
    if format.overflow == "saturate" or towards_zero:
        return sign + format.greatest
    return format.nan if format.overflow == "nan" else sign + format.infinity


def encode(
    x: Value, format: Float, mode: Mode = "ties_even", word: int | None = None, bits: int = 32
) -> Made:
    """The word of x: rounded as if no number were the greatest, then its overflow.

    Zero keeps the sign of what was rounded to it. `word` is the random word, cut to `bits` bits. ValueError
    for a NaN where there is none, OverflowError where the policy is 'error'.
    """
    if isinstance(x, str):
        return _encode_named(x, format)
    sign = 2 ** (format.bits - 1) if x < 0 else 0
    made = decision(number_of(Fraction(x), format), mode, word, bits)
    inexact = made.fraction != 0
    if abs(made.rounded) <= format.greatest:
        return Made(sign + abs(made.rounded), False, inexact)
    towards_zero = mode in ("to_zero", "to_pos" if x < 0 else "to_neg")
    return Made(beyond(format, sign, towards_zero), True, inexact)


def _encode_named(x: str, format: Float) -> Made:
    """The word of what a Fraction cannot be: '-0', an infinity, a NaN."""
    if x == "nan":
        return Made(format.nan, False, False)
    sign = 2 ** (format.bits - 1) if x.startswith("-") else 0
    if x == "-0":
        return Made(sign, False, False)
    return Made(beyond(format, sign, False), format.overflow != "infinity", False)
