"""The quantizers on lists of Fractions: one exact value, one rounding, then the clip; read `wageubn` next.

Every quantizer returns `Quantized(codes, exponent, saturated)`; `saturated` counts the elements whose
rounded code the clip changed.
"""
from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from intnet.spec.rounding import overflow, round_fraction
from intnet.spec.tensor import power


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
    k: int = 8,
) -> Quantized:
    """The flag format of k + 1 bits: codes at exponent log2(Sc) - (k-1) with Sc = R(x) / 2^(k-1).

    With top = 2^(k-1), which is 128 for the 9 bits of the paper: |x / Sc| >= 1 has code
    top * clip(round(x / Sc), -top + 1, top - 1); below: round(top * x / Sc), which may reach +-top.
    """
    top = 2 ** (k - 1)
    log_sc = exponent_of(xs) - (k - 1)
    codes, saturated = [], 0
    for ratio in (Fraction(x) / power(log_sc) for x in xs):
        if abs(ratio) < 1:
            codes.append(round_fraction(top * ratio, mode))
            continue
        whole = round_fraction(ratio, mode)
        kept = overflow(whole, 1 - top, top - 1, "saturate")
        saturated += kept != whole
        codes.append(top * kept)
    return Quantized(codes, log_sc - (k - 1), saturated)


def flag_encode(code: int, k: int = 8) -> tuple[int, int, int]:
    """The stored (flag, sign, magnitude of k - 1 bits) of one flag code; +-2^(k-1) is flag 1, magnitude 1."""
    sign, size, top = int(code < 0), abs(code), 2 ** (k - 1)
    if size < top:
        return 0, sign, size
    if size % top or size // top >= top:
        raise ValueError(f"{code} is no code of the flag format")
    return 1, sign, size // top


def flag_decode(stored: tuple[int, int, int], k: int = 8) -> int:
    """The code of stored (flag, sign, magnitude)."""
    is_coarse, sign, size = stored
    return (-1 if sign else 1) * size * (2 ** (k - 1) if is_coarse else 1)
