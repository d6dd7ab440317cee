"""The quantizers on lists of Fractions: one exact value, one rounding, then the clip; read `wageubn` next.

Every quantizer returns `Quantized(codes, exponent, saturated)`; `saturated` counts the elements whose
rounded code the clip changed.
"""
from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from tests.oracle.rounding import overflow, round_fraction
from tests.oracle.tensor import power


class Quantized(NamedTuple):
    """value = code * 2^exponent."""

    codes: list[int]
    exponent: int
    saturated: int


def log2_R(largest: Fraction | int) -> int:
    """round(log2(largest)): the n with 2^(2n-1) <= largest^2 < 2^(2n+1); 0 for an all-zero tensor."""
    if largest < 0:
        raise ValueError(f"a largest magnitude is not negative, got {largest}")
    if largest == 0:
        return 0
    square = Fraction(largest) ** 2
    n = 0
    while square >= power(2 * n + 1):
        n += 1
    while square < power(2 * n - 1):
        n -= 1
    return n


def exponent_of(xs: Sequence[Fraction | int]) -> int:
    """log2 of R over the whole list; ValueError where it is empty."""
    if not xs:
        raise ValueError("the largest magnitude of an empty tensor")
    return log2_R(max(abs(Fraction(x)) for x in xs))


def _round_all(
    xs: Sequence[Fraction | int], unit: Fraction, mode: str, words: Sequence[int] | None, bits: int
) -> list[int]:
    """x / unit of every element, rounded; `words` holds one B-bit word an element."""
    if words is None:
        return [round_fraction(x / unit, mode) for x in xs]
    return [round_fraction(x / unit, mode, r, bits) for x, r in zip(xs, words, strict=True)]


def _clip(codes: list[int], exponent: int, lo: int, hi: int, how: str = "saturate") -> Quantized:
    clipped = [overflow(code, lo, hi, how) for code in codes]
    changed = sum(a != b for a, b in zip(codes, clipped, strict=True))
    return Quantized(clipped, exponent, changed)


def fixed(
    xs: Sequence[Fraction | int],
    wl: int,
    fl: int,
    mode: str = "ties_even",
    how: str = "saturate",
    words: Sequence[int] | None = None,
    bits: int = 32,
) -> Quantized:
    """Fixed point <WL, FL>, WL counting the sign: codes in [-2^(WL-1), 2^(WL-1) - 1] at exponent -FL."""
    codes = _round_all(xs, power(-fl), mode, words, bits)
    return _clip(codes, -fl, -(2 ** (wl - 1)), 2 ** (wl - 1) - 1, how)


def direct(
    xs: Sequence[Fraction | int],
    k: int,
    mode: str = "ties_even",
    words: Sequence[int] | None = None,
    bits: int = 32,
    clip: bool = False,
) -> Quantized:
    """Q(x, k): resolution 2^-(k-1), no range limit. `clip` is the weights' clip to +-(1 - 2^-(k-1))."""
    codes = _round_all(xs, power(1 - k), mode, words, bits)
    if not clip:
        return Quantized(codes, 1 - k, 0)
    edge = 2 ** (k - 1) - 1
    return _clip(codes, 1 - k, -edge, edge)


def shift(
    xs: Sequence[Fraction | int],
    k: int,
    mode: str = "ties_even",
    words: Sequence[int] | None = None,
    bits: int = 32,
) -> Quantized:
    """SQ(x, k) = R(x) * clip(Q(x / R(x), k), -1 + d, 1 - d) with d = 2^-(k-1)."""
    n = exponent_of(xs)
    codes = _round_all(xs, power(n + 1 - k), mode, words, bits)
    edge = 2 ** (k - 1) - 1
    return _clip(codes, n + 1 - k, -edge, edge)


def constant(
    xs: Sequence[Fraction | int],
    words: Sequence[int] | None,
    dr: int = 128,
    k_gc: int = 15,
    mode: str = "stochastic",
    bits: int = 32,
) -> Quantized:
    """CQ(x) = clip(Sr(dr * x / R(x)), -dr + 1, dr - 1) / 2^(kGC-1), one B-bit word an element."""
    n = exponent_of(xs)
    codes = _round_all([dr * Fraction(x) for x in xs], power(n), mode, words, bits)
    return _clip(codes, 1 - k_gc, 1 - dr, dr - 1)


def flag(
    xs: Sequence[Fraction | int],
    mode: str = "ties_even",
    words: Sequence[int] | None = None,
    bits: int = 32,
) -> Quantized:
    """The 9-bit flag format: codes at exponent log2(Sc) - 7 with Sc = R(x) / 2^7.

    |x / Sc| >= 1: 128 * clip(round(x / Sc), -127, 127); below: round(128 * x / Sc), which may reach +-128.
    """
    log_sc = exponent_of(xs) - 7
    ratios = [Fraction(x) / power(log_sc) for x in xs]
    coarse = _round_all(ratios, Fraction(1), mode, words, bits)
    fine = _round_all(ratios, Fraction(1, 128), mode, words, bits)
    codes, saturated = [], 0
    for ratio, whole, part in zip(ratios, coarse, fine, strict=True):
        if abs(ratio) < 1:
            codes.append(part)
            continue
        kept = overflow(whole, -127, 127, "saturate")
        saturated += kept != whole
        codes.append(128 * kept)
    return Quantized(codes, log_sc - 7, saturated)


def flag_encode(code: int) -> tuple[int, int, int]:
    """The stored 9 bits (flag, sign, 7-bit magnitude) of one flag code; +-128 is flag 1, magnitude 1."""
    sign, size = int(code < 0), abs(code)
    if size < 128:
        return 0, sign, size
    if size % 128 or size // 128 > 127:
        raise ValueError(f"{code} is no code of the flag format")
    return 1, sign, size // 128


def flag_decode(stored: tuple[int, int, int]) -> int:
    """The code of stored (flag, sign, magnitude)."""
    is_coarse, sign, size = stored
    return (-1 if sign else 1) * size * (128 if is_coarse else 1)
