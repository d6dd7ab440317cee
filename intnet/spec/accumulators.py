"""Sums of products that are not exact: narrow integers, floats rounded at each step, windows of accelerators.

Terms are numbered k = 0, 1, ..; products a_k * b_k are exact. The orders of a sum:

    ascending   acc = 0, then acc = step(acc + product) for each k: a fused multiply-add
    chunks      so in chunks of 1024 terms, each from 0; then their sums so, from 0
    tree        leaves step(product); 2i with 2i + 1 as step(sum), an odd last one as it is, until one is left

`step` of an integer is its overflow in so many bits; of a float it is its one rounding. A window takes
`group` terms at a time: with the accumulator they are aligned to the greatest exponent among them, E (of a
product the sum of its operands' exponents, subnormals with the least normal one), each cut towards zero to a
multiple of 2^(E - m - guard), summed exactly, and rounded to the accumulator's format of m bits of mantissa.

These are intnet's contracts. The window is what measurements of accelerators find: Fasi, Higham, Mikaitis,
Pranesh, "Numerical behavior of NVIDIA tensor cores", PeerJ Computer Science 7, 2021.

>>> narrow([100, 27, 1, -3], [1, 1, 1, 1], 8, "saturate"), narrow([100, 27, 1, -3], [1, 1, 1, 1], 8, "wrap")
(124, 125)
>>> fp32, terms = Float(8, 23), [Fraction(2**24), Fraction(1), Fraction(1)]
>>> str(once(terms, [1, 1, 1], fp32)), str(stepped(terms, [1, 1, 1], fp32))
('16777218', '16777216')
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TypeVar

from intnet.spec.rounding import Mode, overflow
from intnet.spec.small_floats import Float, decode, encode
from intnet.spec.tensor import log2_floor, power

CHUNK = 1024
ORDERS = ("ascending", "chunks", "tree")
T = TypeVar("T", int, Fraction)


def in_order(terms: Sequence[T], zero: T, step: Callable[[T], T], order: str) -> T:
    """The sum of terms, each partial sum by `step`."""
    if order == "chunks":
        parts = [terms[k : k + CHUNK] for k in range(0, len(terms), CHUNK)]
        return in_order([in_order(part, zero, step, "ascending") for part in parts], zero, step, "ascending")
    if order == "ascending":
        acc = zero
        for term in terms:
            acc = step(acc + term)
        return acc
    if order != "tree":
        raise ValueError(f"unknown order {order!r}; choose one of {', '.join(ORDERS)}")
    row = [step(term) for term in terms]
    while len(row) > 1:
        pairs = [step(row[i] + row[i + 1]) for i in range(0, len(row) - 1, 2)]
        row = pairs + row[len(row) - len(row) % 2 :]
    return row[0] if row else zero


def narrow(a: Sequence[int], b: Sequence[int], bits: int, policy: str, order: str = "ascending") -> int:
    """The sum of products in two's complement of `bits` bits; `policy` is a name of `rounding.OVERFLOWS`."""
    edge = 2 ** (bits - 1)
    terms = [x * y for x, y in zip(a, b, strict=True)]
    return in_order(terms, 0, lambda n: overflow(n, -edge, edge - 1, policy), order)


def in_format(x: Fraction, format: Float, mode: Mode = "ties_even") -> Fraction:
    """x rounded to a small float; OverflowError where that is no finite number. Zero has no sign here."""
    found = decode(encode(x, format, mode).word, format)
    if found in ("inf", "-inf", "nan"):
        raise OverflowError(f"a sum is beyond {format}")
    return Fraction(found)


def once(a: Sequence[Fraction], b: Sequence[Fraction], format: Float, mode: Mode = "ties_even") -> Fraction:
    """The exact sum of products, rounded once."""
    return in_format(sum((Fraction(x) * y for x, y in zip(a, b, strict=True)), Fraction(0)), format, mode)


def stepped(
    a: Sequence[Fraction],
    b: Sequence[Fraction],
    format: Float,
    mode: Mode = "ties_even",
    order: str = "ascending",
) -> Fraction:
    """The sum of products, rounded to `format` at each step."""
    terms = [Fraction(x) * y for x, y in zip(a, b, strict=True)]
    return in_order(terms, Fraction(0), lambda x: in_format(x, format, mode), order)


def exponent_of(x: Fraction, format: Float | None) -> int:
    """floor(log2 |x|), of a subnormal of a format its least normal exponent; x is not 0."""
    found = log2_floor(abs(x))
    return found if format is None else max(found, format.least)


def windowed(
    a: Sequence[Fraction],
    b: Sequence[Fraction],
    operands: tuple[Float | None, Float | None],
    format: Float,
    group: int,
    guard: int,
    mode: Mode = "ties_even",
) -> Fraction:
    """The sum of products in windows; operands: their formats, None of what has no subnormals."""
    acc = Fraction(0)
    for k in range(0, len(a), group):
        addends = [] if acc == 0 else [(acc, exponent_of(acc, format))]
        for x, y in zip(a[k : k + group], b[k : k + group], strict=True):
            if x and y:
                addends.append((Fraction(x) * y, exponent_of(x, operands[0]) + exponent_of(y, operands[1])))
        if addends:
            unit = power(max(e for _, e in addends) - format.m - guard)
            acc = in_format(sum(int(x / unit) for x, _ in addends) * unit, format, mode)
    return acc
