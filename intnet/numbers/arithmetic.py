"""Arithmetic of QTensors: + - * @ and unary -, exact, in codes as wide as the ranges of the operands ask for.

    a + b, a - b    at the lower of the two exponents        a * b, a @ b    at their sum

The codes that an operand can have are those of its format where it is `FixedPoint`, else those within the
tensor's bound. They settle the result's bound and container, and, of two in fixed point, its format: the
narrowest that holds every result of such operands. So none of these hangs on the codes that are there; they
are looked at only where the bound would pass 62 bits. A number (int, float, Fraction) is an operand where it
is a whole number times a power of two. Nothing is rounded; what would have to be is refused.

Defined by `spec/arithmetic.py: plus`, `spec/arithmetic.py: negative`, `spec/arithmetic.py: times`,
`spec/arithmetic.py: number`, `spec/arithmetic.py: format_of`.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from intnet.errors import ContainerError, IntnetError, NumberError, ShapeError
from intnet.numbers import exact_values
from intnet.numbers.formats import MAX_BITS, FixedPoint
from intnet.numbers.qtensor import CODE_TYPES, INT64_BOUND, QTensor

_COUNTED = 1 << 16  # a shift that takes any code but 0 beyond a container; no more bits are counted
_EXACT = 1 << 53  # whole numbers below it are float64's, and so are their sums in any order

Exponent = int | np.ndarray


class _Operand(NamedTuple):
    """Codes in int64, which are from low to high; `fixed` where that is not said by a bound alone."""

    codes: np.ndarray
    exponent: Exponent
    low: int
    high: int
    fixed: bool

    def seen(self) -> "_Operand":
        """The same, from the least to the greatest code that is there."""
        codes = self.codes
        return self._replace(low=int(codes.min(initial=0)), high=int(codes.max(initial=0)), fixed=False)

    def range_at(self, gap: Exponent) -> tuple[int, int]:
        """Low and high once codes are shifted up by `gap`, by no more than puts any beyond a container."""
        gaps = [min(max(int(edge(gap)), 0), _COUNTED) for edge in (np.min, np.max)] if np.size(gap) else [0]
        return min(self.low << g for g in gaps), max(self.high << g for g in gaps)

    def codes_at(self, gap: Exponent) -> np.ndarray:
        """Codes shifted up by `gap`: where a result is made at all, what is shifted beyond 62 is 0."""
        return self.codes << np.clip(gap, 0, 62)


class _Result(NamedTuple):
    """All codes that it can have are from low to high; `codes` computes those that it has."""

    low: int
    high: int
    exponent: Exponent
    codes: Callable[[], Any]


def plus(a: Any, b: Any) -> Any:
    """a + b."""
    return _made("+", _sum, a, b)


def minus(a: Any, b: Any) -> Any:
    """a - b."""
    return _made("-", _difference, a, b)


def times(a: Any, b: Any) -> Any:
    """a * b, element by element."""
    return _made("*", _product, a, b)


def matmul(a: Any, b: Any) -> Any:
    """a @ b, of shapes as NumPy takes them."""
    return _made("@", _matrix_product, a, b)


def over(a: Any, b: Any) -> Any:
    """a / b has no exact codes as a rule. NumberError."""
    raise NumberError(
        "a quotient is no code as a rule: of q/3 quantize(Exact([(q, 1)], q.exponent, den=3), format) makes "
        "one, rounded once (intnet.exact.expressions.Exact); q/4 is q * 2.0**-2; what is divided by q, in "
        "q.fractions()"
    )


def _made(sign: str, rule: Callable[[_Operand, _Operand], _Result], a: Any, b: Any) -> Any:
    """The result of a rule; NotImplemented for what is no operand at all."""
    x, y = _operand(sign, a), _operand(sign, b)
    if x is None or y is None:
        return NotImplemented
    try:
        fixed, found = x.fixed and y.fixed, rule(x, y)
    except ValueError as error:  # exponents, or codes of a matrix product, that do not broadcast
        if isinstance(error, IntnetError):
            raise
        raise _apart(sign, x, y) from None
    if not _fits(found):
        fixed, found = False, rule(x.seen(), y.seen())
    if not _fits(found):
        bits = max(-found.low, found.high).bit_length() + 1
        raise ContainerError(
            f"{sign}: codes of {bits} bits, and at most 63 are kept: quantize an operand to fewer bits, "
            "or go on with q.fractions(), which have no bound"
        )
    try:
        codes = np.asarray(found.codes())
    except ValueError:
        raise _apart(sign, x, y) from None
    ends = ((kind, np.iinfo(kind)) for kind in CODE_TYPES)
    dtype = next(kind for kind, end in ends if end.min <= found.low and found.high <= end.max)
    format = _format_of(found) if fixed else None
    return QTensor(codes.astype(dtype), found.exponent, format, max(-found.low, found.high))


def _apart(sign: str, x: _Operand, y: _Operand) -> ShapeError:
    return ShapeError(f"{sign}: shapes {x.codes.shape} and {y.codes.shape} do not go together")


def _fits(found: _Result) -> bool:
    return max(-found.low, found.high) < INT64_BOUND


def _format_of(found: _Result) -> FixedPoint | None:
    """The narrowest format with all these codes. Defined by `spec/arithmetic.py: format_of`."""
    signed = found.low < 0
    bits = max(1, signed + max(max(found.high, 0).bit_length(), (~found.low).bit_length() if signed else 0))
    return FixedPoint(bits, -int(found.exponent), signed) if bits <= MAX_BITS else None


# -- rules -----------------------------------------------------------------------------------------


def _aligned(x: _Operand, y: _Operand) -> tuple[Exponent, Exponent, Exponent]:
    """The exponent of a sum, and how far each side's codes are shifted. Of a 0 alone it does not count."""
    told = [side.exponent for side in (x, y) if (side.low, side.high) != (0, 0)]
    exponent = np.minimum(x.exponent, y.exponent) if len(told) != 1 else told[0]
    exponent = exponent if np.ndim(exponent) else int(exponent)
    return exponent, x.exponent - exponent, y.exponent - exponent


def _sum(x: _Operand, y: _Operand) -> _Result:
    exponent, left, right = _aligned(x, y)
    (low, high), (lower, higher) = x.range_at(left), y.range_at(right)
    return _Result(low + lower, high + higher, exponent, lambda: x.codes_at(left) + y.codes_at(right))


def _difference(x: _Operand, y: _Operand) -> _Result:
    exponent, left, right = _aligned(x, y)
    (low, high), (lower, higher) = x.range_at(left), y.range_at(right)
    return _Result(low - higher, high - lower, exponent, lambda: x.codes_at(left) - y.codes_at(right))


def _product(x: _Operand, y: _Operand) -> _Result:
    edges = [a * b for a in (x.low, x.high) for b in (y.low, y.high)]
    return _Result(min(edges), max(edges), x.exponent + y.exponent, lambda: x.codes * y.codes)


def _matrix_product(x: _Operand, y: _Operand) -> _Result:
    if isinstance(x.exponent, np.ndarray) or isinstance(y.exponent, np.ndarray):
        raise NumberError("@: every operand has one exponent; q.fractions() is exact with any")
    if not x.codes.ndim or not y.codes.ndim:
        raise ShapeError("@: a number is no matrix: q * number")
    one, terms = _product(x, y), x.codes.shape[-1]
    most = terms * max(-one.low, one.high)

    def codes() -> np.ndarray:
        if most >= _EXACT:
            return np.matmul(x.codes, y.codes)
        return np.matmul(x.codes.astype(np.float64), y.codes.astype(np.float64)).astype(np.int64)

    return _Result(terms * one.low, terms * one.high, one.exponent, codes)


# -- operands --------------------------------------------------------------------------------------


def _operand(sign: str, value: Any) -> _Operand | None:
    """A QTensor, or a number; None for what Python may ask another type about."""
    if isinstance(value, QTensor):
        codes, kind = value.codes.astype(np.int64), value.format
        if (
            isinstance(kind, FixedPoint)
            and isinstance(value.exponent, int)
            and value.exponent == kind.exponent
        ):
            return _Operand(codes, value.exponent, kind.lo, kind.hi, True)
        exponent = exact_values.near(value.exponent, sign)
        return _Operand(codes, exponent, -value.bound, value.bound, False)
    if isinstance(value, np.ndarray | list | tuple):
        raise NumberError(
            f"{sign}: a QTensor goes with QTensors and numbers: of an array QTensor.from_float(x, exponent) "
            "makes one exactly, quantize(x, format) by rounding"
        )
    if not isinstance(value, int | float | Fraction | np.integer | np.floating):
        return None
    odd, power = _odd(sign, value)
    if abs(odd) >= INT64_BOUND:
        raise ContainerError(f"{sign}: {value} has more than 62 bits; q.fractions() has no bound")
    return _Operand(np.array(odd, np.int64), power, odd, odd, True)


def _odd(sign: str, value: Any) -> tuple[int, int]:
    """(odd, power) of a number that is odd * 2**power, or 0. Defined by `spec/arithmetic.py: number`."""
    try:
        num, den = (int(value), 1) if isinstance(value, np.integer) else value.as_integer_ratio()
    except (ValueError, OverflowError):
        raise NumberError(f"{sign}: {value} has no code") from None
    if den & (den - 1):
        raise NumberError(
            f"{sign}: {value} is no whole number times a power of two: "
            f"quantize(Exact([(q, {num})], q.exponent, den={den}), format) rounds q * {value} once "
            "(intnet.exact.expressions.Exact)"
        )
    zeros = (num & -num).bit_length() - 1 if num else 0
    return num >> zeros, zeros + 1 - den.bit_length() if num else 0
