"""The library's quantizers against the oracle's: one comparison, and the sweeps that use it.

`compare` quantizes one tensor both ways and raises AssertionError at the first difference, in codes,
exponent or counts. The sweeps below run it over whole input sets; `test_quantize` expects them to
pass, `test_seeded_faults` to fail once a fault is put into the library.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from intnet.exact import quantize as library
from intnet.numbers import rng
from intnet.numbers.formats import Constant, Direct, FixedPoint, Flag, Format, Scaled, Shift
from intnet.numbers.qtensor import QTensor
from intnet.spec import formats as quantizers
from intnet.spec import overflow, power, round_fraction
from intnet.spec.rounding import MODES
from tests.support import cases

DETERMINISTIC = MODES[:-1]
F = Fraction


class Expected(NamedTuple):
    """What the oracle says: codes, exponent, elements clipped, elements that rounding changed."""

    codes: list[int]
    exponent: int
    saturated: int
    inexact: int


def limits(fmt: FixedPoint) -> tuple[int, int]:
    """(lo, hi) of a fixed-point word, by the definition of its width."""
    return (-(2 ** (fmt.wl - 1)), 2 ** (fmt.wl - 1) - 1) if fmt.signed else (0, 2**fmt.wl - 1)


def expected_fixed(
    xs: Sequence[F], fmt: FixedPoint, mode: str, words: Sequence[int] | None, bits: int
) -> Expected:
    """Round, then overflow; nothing counts as saturated under wrap."""
    lo, hi = limits(fmt)
    unit = power(-fmt.fl)
    drawn: Sequence[int | None] = words or [None] * len(xs)
    rounded = [round_fraction(x / unit, mode, r, bits) for x, r in zip(xs, drawn, strict=True)]
    how = "saturate" if not fmt.signed and fmt.overflow == "saturate_symmetric" else fmt.overflow
    codes = [overflow(code, lo, hi, how) for code in rounded]
    clipped = sum(a != b for a, b in zip(codes, rounded, strict=True))
    return Expected(codes, -fmt.fl, clipped if how.startswith("saturate") else 0, off_grid(xs, unit))


def off_grid(xs: Sequence[F], unit: F) -> int:
    """How many values are no multiple of `unit`."""
    n, d = unit.numerator, unit.denominator
    return sum(x.numerator * d % (x.denominator * n) != 0 for x in xs)


def expected(
    xs: Sequence[F], fmt: Format, mode: str, words: Sequence[int] | None = None, bits: int = 32
) -> Expected:
    """The oracle's answer for any format."""
    if isinstance(fmt, FixedPoint):
        return expected_fixed(xs, fmt, mode, words, bits)
    if isinstance(fmt, Direct):
        q = quantizers.quantize(xs, quantizers.Direct(fmt.k, lsb=fmt.lsb), mode, words, bits)
        return Expected(*q, off_grid(xs, power(q.exponent)))
    if isinstance(fmt, Shift):
        q = quantizers.quantize(xs, quantizers.Shift(fmt.k), mode, words, bits)
        return Expected(*q, off_grid(xs, power(q.exponent)))
    if isinstance(fmt, Flag):
        q = quantizers.quantize(xs, quantizers.Flag(fmt.k), mode)
        fine, coarse = power(q.exponent), power(q.exponent + fmt.k - 1)
        changed = sum(off_grid([x], coarse if abs(x) >= coarse else fine) for x in xs)
        return Expected(*q, changed)
    if isinstance(fmt, Scaled):
        q = quantizers.quantize(xs, quantizers.Scaled(fmt.wl), mode, words, bits)
        return Expected(*q, off_grid(xs, power(q.exponent)))
    assert isinstance(fmt, Constant)
    q = quantizers.quantize(xs, quantizers.Constant(fmt.k, fmt.dr), mode, words, bits)
    return Expected(*q, off_grid(xs, power(quantizers.exponent_of(xs)) / fmt.dr))


def compare(
    x: Any,
    xs: Sequence[F],
    fmt: Format,
    mode: str = "ties_even",
    words: Sequence[int] | None = None,
    bits: int = 32,
) -> QTensor:
    """Assert that the library's `x` in `fmt` is the oracle's `xs` in `fmt`; `words` are `bits`-bit words."""
    want = expected(xs, fmt, mode, words, bits)
    # the bits below the top ones must not matter: they are set
    drawn = None if words is None else np.array([((w + 1) << (32 - bits)) - 1 for w in words], np.uint32)
    got = library.quantize(x, fmt, rounding=mode, words=drawn, word_bits=bits)
    codes = [int(c) for c in got.codes.reshape(-1)]
    for i, (mine, right) in enumerate(zip(codes, want.codes, strict=True)):
        assert mine == right, f"{fmt} {mode}: {xs[i]} has code {mine}, the oracle says {right}"
    assert got.exponent == want.exponent, f"{fmt} {mode}: exponent {got.exponent}, not {want.exponent}"
    assert got.status is not None
    counts = (got.status.saturated, got.status.inexact, got.status.elements)
    assert counts == (want.saturated, want.inexact, len(xs)), f"{fmt} {mode}: counts {counts}, not {want[2:]}"
    assert got.bound >= max(map(abs, codes), default=0), f"{fmt} {mode}: a code passes the bound {got.bound}"
    return got


def tensor(codes: Sequence[int], exponent: int, dtype: Any = np.int64) -> tuple[QTensor, list[F]]:
    """The same values for both sides."""
    unit = power(exponent)
    return QTensor(np.array(codes, dtype), exponent), [c * unit for c in codes]


def floats(values: Sequence[float]) -> tuple[np.ndarray, list[F]]:
    """The same float32 values for both sides."""
    array = np.array(values, np.float32)
    return array, [F(float(v)) for v in array]


def edge_words(xs: Sequence[F], unit: F, bits: int) -> tuple[list[F], list[int]]:
    """Every value with the words beside its threshold F = floor(f * 2^bits), and the two extremes."""
    values, words = [], []
    for x in xs:
        scaled = x / unit
        threshold = (scaled - scaled.__floor__()) * 2**bits
        near = {threshold.__floor__() + d for d in (-1, 0, 1)} | {0, 2**bits - 1}
        for word in sorted(w for w in near if 0 <= w < 2**bits):
            values.append(x)
            words.append(word)
    return values, words


def signed_codes(bits: int) -> range:
    """Every code of a signed word."""
    return range(-(2 ** (bits - 1)), 2 ** (bits - 1))


# -- sweeps ----------------------------------------------------------------------------------


def assert_codes(bits: int, exponent: int, formats: Sequence[Format], mode: str) -> None:
    """Every code of `bits` bits through every format, one mode."""
    x, xs = tensor(signed_codes(bits), exponent, np.int16 if bits <= 16 else np.int64)
    for fmt in formats:
        compare(x, xs, fmt, mode)


def assert_pairs(bits: int, formats: Sequence[Format], mode: str) -> None:
    """Every pair (x, max) of `bits`-bit codes: a tensor for each maximum, with every x below it."""
    for top in signed_codes(bits):
        codes = [c for c in signed_codes(bits) if abs(c) <= abs(top)]
        x, xs = tensor([top, *codes], -3, np.int16)
        for fmt in formats:
            compare(x, xs, fmt, mode)


def assert_words(bits: int, fmt: Format, word_bits: int) -> None:
    """Every code of `bits` bits at exponent -bits, stochastic, with words on both sides of its threshold.

    Each code also with a tail of 37 bits, so that the last of 32 random bits decides.
    """
    tails = (F(0), F(2**37 // 3, 2**37))
    values = [(c + tail) * power(-bits) for c in signed_codes(bits) for tail in tails]
    unit = power(-fmt.fl) if isinstance(fmt, FixedPoint) else power(expected(values, fmt, "to_neg").exponent)
    if isinstance(fmt, Constant):
        unit = power(quantizers.exponent_of(values)) / fmt.dr
    xs, words = edge_words(values, unit, word_bits)
    x = QTensor(np.array([int(v * 2 ** (bits + 37)) for v in xs], np.int64), -bits - 37)
    compare(x, xs, fmt, "stochastic", words, word_bits)


def assert_random(seed: int, n: int, formats: Sequence[Format], mode: str, bits: int = 31) -> None:
    """Codes of random length at a random exponent, with random words where they are needed."""
    source = random.Random(seed)
    for fmt in formats:
        x, xs = tensor(cases.random_magnitudes(source.getrandbits(32), n, bits), source.randrange(-40, 3))
        words = [source.getrandbits(32) for _ in xs] if mode == "stochastic" else None
        compare(x, xs, fmt, mode, words)


def assert_sqrt2(last: int) -> None:
    """R at both neighbours of sqrt(2) * 2^n for every n: as the only element, and as the greatest of some."""
    for n in range(last + 1):
        for top in cases.sqrt2_neighbours(n):
            for fmt in (Shift(8), Flag(8)):
                x, xs = tensor([top, -top, top // 3, 1, 0], -5)
                compare(x, xs, fmt)


def sample_digest() -> str:
    """SHA-256 over codes of every format, mode and container; the same without compilation."""
    sha = hashlib.sha256()
    formats: list[Format] = [
        FixedPoint(8, 4),
        FixedPoint(6, 3, overflow="wrap"),
        Direct(8),
        Shift(8),
        Constant(15, 128),
        Flag(8),
    ]
    sources: list[Any] = [
        QTensor(np.array(cases.corners(16)[::20], np.int16), -9),
        QTensor(np.array(cases.corners(62)[::40], np.int64), -58),
        QTensor(np.array(cases.corners(64)[::60], np.int64), -60),  # in two limbs
        np.array([float(v) for v in cases.random_float32(5, 20)], np.float32),
    ]
    for x in sources:
        words = rng.words(1, 2, 3, x.size, start=5)
        for fmt in formats:
            for mode in MODES:
                if mode != "stochastic" or not isinstance(fmt, Flag):
                    q = library.quantize(x, fmt, rounding=mode, words=words)
                    sha.update(f"{fmt} {mode} {q.codes.tolist()} {q.exponent} {q.status}".encode())
    return sha.hexdigest()
