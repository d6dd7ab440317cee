"""Exact expressions: values not yet rounded. A quantizer rounds one of them, once (rule R1).

`Exact` is a sum of at most two integer tensors with a coefficient a channel, over a denominator a
channel; `FloatExact` is a float32 tensor over an integer, `Root` a vector of square roots (both in
`exact_sources.py`).
`exact(x)` turns a QTensor or a float32 array into an expression. Every expression offers

    round_to(exponent, mode, ...) -> codes, Status     the correctly rounded codes in units 2**exponent
    log2_max()                                         n of R(x) = 2**n, decided in exact arithmetic

so (x1 - mu)/(sigma + eps), a mean, a join of two branches or a pooled float error are each one
rational, never rounded on the way. The loops are in `exact_loops.py`; bounds decide the container.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from intnet import exact_loops as loops
from intnet import wide
from intnet.errors import ContainerError, FormatError, NumberError, ShapeError
from intnet.exact_sources import (
    NO_WORDS,
    UNLIMITED,
    Codes,
    FloatExact,
    Root,
    fraction_to_float32,
    log2_round,
    narrow,
    status_of,
)
from intnet.qtensor import INT64_BOUND, QTensor, max_abs
from intnet.rounding import STOCHASTIC, TIES_EVEN, TO_NEG

_ROW = 1024  # elements a row where all channels share one coefficient

Term = tuple[QTensor, np.ndarray | int]


class Exact:
    """value = (sum of coef * codes over the terms + offset) / den * 2**exponent, channels last.

    terms:  one or two (QTensor, coefficient); a coefficient, `offset` and `den` are ints or int64[C]
    relu:   negative values read as zero
    shifts: a power of two a term on top of its coefficient, where branches of far exponents meet
    The terms' own exponents do not count: coefficients refer to codes. den is positive.
    """

    def __init__(
        self,
        terms: Sequence[Term],
        exponent: int,
        offset: np.ndarray | int = 0,
        den: np.ndarray | int = 1,
        relu: bool = False,
        shifts: Sequence[int] = (),
    ) -> None:
        self.terms = tuple(terms)
        self.shifts = tuple(shifts) or (0,) * len(self.terms)
        self.exponent = exponent
        self.offset = offset
        self.den = den
        self.relu = relu
        shapes = {term.shape for term, _ in self.terms}
        if len(shapes) != 1:
            raise ShapeError(f"cannot combine tensors of shapes {sorted(shapes)}")

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value."""
        return self.terms[0][0].shape

    def bound(self) -> int:
        """A proven bound on |numerator|: from the terms' bounds, beyond int64 from their actual maxima."""
        parts = [(max_abs(np.asarray(c)), t, s) for (t, c), s in zip(self.terms, self.shifts, strict=True)]
        total = max_abs(np.asarray(self.offset))
        bound = total + sum((top * term.bound) << shift for top, term, shift in parts)
        if bound < INT64_BOUND:
            return bound
        return total + sum((top * min(term.bound, max_abs(term.codes))) << s for top, term, s in parts)

    def bits(self) -> int:
        """Bits of the container that the numerator is proven to fit, sign included."""
        return self.bound().bit_length() + 1

    def rectified(self) -> "Exact":
        """max(value, 0)."""
        return Exact(self.terms, self.exponent, self.offset, self.den, relu=True, shifts=self.shifts)

    def moved(self, move: Callable[[np.ndarray], np.ndarray]) -> "Exact":
        """The same quotient of moved codes: `move` reshapes, drops or scatters elements of int64 arrays.

        A denominator must be the same for every channel: positions lose their channel on the way.
        """
        parts = [coef for _, coef in self.terms] + [self.den]
        if np.any(np.asarray(self.offset)) or any(np.any(np.asarray(p) != np.ravel(p)[0]) for p in parts):
            return Exact([(QTensor(move(self.to_qtensor().codes.astype(np.int64)), 0), 1)], self.exponent)
        first = [int(np.ravel(part)[0]) for part in parts]
        codes = [move(term.codes.astype(np.int64)) for term, _ in self.terms]
        terms = [(QTensor(c, 0), coef) for c, coef in zip(codes, first, strict=False)]
        return Exact(terms, self.exponent, den=first[-1], relu=self.relu, shifts=self.shifts)

    def _vectors(self) -> tuple[int, list[np.ndarray]]:
        """Channels a row and int64 vectors cu, cv, offset, den of that length."""
        coefs = [c if s == 0 or t.bound else 0 for (t, c), s in zip(self.terms, self.shifts, strict=True)]
        parts = [*coefs, *[0] * (2 - len(self.terms)), self.offset, self.den]
        per_channel = any(isinstance(part, np.ndarray) and part.ndim for part in parts)
        channels = self.shape[-1] if per_channel else _ROW
        try:
            spread = [np.broadcast_to(np.asarray(part, np.int64), channels) for part in parts]
        except OverflowError:
            raise ContainerError("a coefficient, offset or denominator is beyond int64") from None
        return channels, [np.ascontiguousarray(vector) for vector in spread]

    def _flat(self) -> tuple[np.ndarray, np.ndarray]:
        """The codes of both terms, flat, in one common type (the loops know two)."""
        codes = [term.codes for term, _ in self.terms]
        dtype = np.int64 if any(c.dtype == np.int64 for c in codes) else np.int32
        flat = [np.ascontiguousarray(c).reshape(-1).astype(dtype, copy=False) for c in codes]
        return flat[0], flat[-1]

    def _scale(self, exponent: int, den_bits: int, fine: int, mode: int) -> tuple[int, int, int]:
        """(up, down, drop): numerator * 2**up, denominator * 2**down, numerator's bits to gather."""
        shift = self.exponent - exponent
        room = 61 - den_bits - fine
        if shift >= 0 and (fine == 0 or room >= 0):
            return shift, 0, 0
        down = min(-shift, room)
        drop = -shift - down
        if room < 2 or (drop and mode == STOCHASTIC and room < 34):
            raise ContainerError(f"a denominator of {den_bits} bits leaves no room to round exactly")
        return 0, down, min(drop, 124)

    def round_to(
        self,
        exponent: int,
        mode: int,
        lo: int = -UNLIMITED,
        hi: int = UNLIMITED,
        words: np.ndarray = NO_WORDS,
        bits: int = 32,
        fine: int = 0,
        where: str = "",
    ) -> Codes:
        """Codes of value / 2**exponent, rounded by `mode`, clipped to [lo, hi]; counts in Status.

        words: uint32 a element where mode is stochastic, of which the top `bits` are used
        fine:  > 0 for the two grids of Flag (see `exact_loops.round_flag`)
        ContainerError where neither int64 nor two limbs are proven to hold the numerator.
        """
        _, (cu, cv, offset, den) = self._vectors()
        up, down, drop = self._scale(exponent, int(den.max()).bit_length(), fine, mode)
        bound = self.bound() << up
        # round_flag multiplies a code back by its denominator: one step beyond the numerator
        den = den << down
        low, high = max(lo, -UNLIMITED), min(hi, UNLIMITED)
        if bound < INT64_BOUND:
            u, v = self._flat()
            result = min(bound // int(den.min()) + 1, max(-low, high)) << fine
            out = np.empty(u.shape, np.int32 if result < 1 << 31 else np.int64)
            counts = np.zeros((loops.blocks_for(u.size), 4), np.int64)
            numerator = (u, cu << up, v, cv << up, offset << up, den)
            if mode == TIES_EVEN and not drop and bound // int(den.min()) < 1 << 48:
                loops.round_rows_quick(*numerator, self.relu, fine, low, high, out, counts)
            else:
                drop = min(drop, 62)
                random = (mode, words, bits)
                loops.round_rows(*numerator, drop, self.relu, fine, *random, low, high, out, counts)
        else:
            self._check_limbs(bound, where)
            num_hi, num_lo = self._limbs(cu, cv, offset, where)
            out = np.empty(num_hi.shape, np.int64)
            counts = np.zeros((1, 4), np.int64)
            loops.round_limbs(num_hi, num_lo, den, up, drop, fine, mode, words, bits, low, high, out, counts)
            if counts[0, loops.MISFIT]:
                raise ContainerError(f"{where or 'expression'}: a rounded code is beyond 62 bits")
        return narrow(out, counts, self.shape), status_of(counts, out.size)

    def _check_limbs(self, bound: int, where: str) -> None:
        if bound >= wide.LIMBS_MAX:
            raise ContainerError(
                f"{where or 'expression'}: a numerator of up to {bound.bit_length() + 1} bits is beyond "
                "every container (two limbs hold 127): an operand is too wide, or two branches too far apart"
            )

    def _limbs(
        self, cu: np.ndarray, cv: np.ndarray, offset: np.ndarray, where: str = ""
    ) -> tuple[np.ndarray, np.ndarray]:
        self._check_limbs(self.bound(), where)
        u, v = self._flat()
        num_hi, num_lo = np.empty(u.shape, np.int64), np.empty(u.shape, np.uint64)
        loops.limb_rows(u, cu, self.shifts[0], v, cv, self.shifts[-1], offset, self.relu, num_hi, num_lo)
        return num_hi, num_lo

    def max(self) -> Fraction:
        """max |value|, exact."""
        if self.terms[0][0].size == 0:
            raise NumberError("an empty tensor has no maximum")
        channels, (cu, cv, offset, den) = self._vectors()
        if self.bound() < INT64_BOUND:
            u, v = self._flat()
            peaks = np.zeros((loops.blocks_for(u.size), channels), np.int64)
            loops.peak_rows(u, cu, v, cv, offset, self.relu, peaks)
            tops = [int(p) for p in peaks.max(axis=0)]
        else:
            num_hi, num_lo = self._limbs(cu, cv, offset)
            top_hi, top_lo = np.zeros(channels, np.int64), np.zeros(channels, np.uint64)
            loops.limb_peaks(num_hi, num_lo, top_hi, top_lo)
            tops = [(int(hi) << 64) + int(lo) for hi, lo in zip(top_hi, top_lo, strict=True)]
        if np.all(den == den[0]):
            top = Fraction(max(tops), int(den[0]))
        else:
            top = max(Fraction(p, int(d)) for p, d in zip(tops, den, strict=True))
        return top * Fraction(2) ** self.exponent

    def log2_max(self) -> int:
        """n of R(x) = 2**n; R(0) := 1."""
        top = self.max()
        return log2_round(top) if top else 0

    def positive(self) -> np.ndarray:
        """bool array: value > 0."""
        _, (cu, cv, offset, _) = self._vectors()
        if self.bound() >= INT64_BOUND:
            num_hi, num_lo = self._limbs(cu, cv, offset)
            return ((num_hi > 0) | ((num_hi == 0) & (num_lo > 0))).reshape(self.shape)
        u, v = self._flat()
        out = np.empty(u.shape, np.bool_)
        loops.positive_rows(u, cu, v, cv, offset, out)
        return out.reshape(self.shape)

    def to_qtensor(self, where: str = "") -> QTensor:
        """The value as codes at the expression's own exponent; only where no denominator is left."""
        if np.any(np.asarray(self.den) != 1):
            raise NumberError("a quotient has no exact codes; quantize it")
        codes, _ = self.round_to(self.exponent, TO_NEG, where=where)
        return QTensor(codes, self.exponent, bound=max_abs(codes))

    def to_float32(self) -> np.ndarray:
        """float32 array, each value correctly rounded once (ties to even)."""
        _, (cu, cv, offset, den) = self._vectors()
        if self.bound() >= INT64_BOUND or int(den.max()) >= 1 << 35 or self.exponent < -90:
            flat = [fraction_to_float32(value) for value in self.fractions().reshape(-1)]
            return np.array(flat, np.float32).reshape(self.shape)
        u, v = self._flat()
        mantissas, shifts = np.empty(u.shape, np.int64), np.empty(u.shape, np.int64)
        loops.sticky_quotients(u, cu, v, cv, offset, den, self.relu, mantissas, shifts)
        # a mantissa has at least 27 bits with all that was lost in the lowest: the cast rounds once
        with np.errstate(over="ignore"):
            values = np.ldexp(mantissas.astype(np.float32), self.exponent - shifts).reshape(self.shape)
        if not np.all(np.isfinite(values)):
            raise NumberError("a value is beyond float32's range")
        return values

    def fractions(self) -> np.ndarray:
        """Array of Fractions: the exact values (slow; for inspection)."""
        channels, (cu, cv, offset, den) = self._vectors()
        u, v = self._flat()
        out = np.empty(u.size, object)
        scale = Fraction(2) ** self.exponent
        for i in range(u.size):
            c = i % channels
            left, right = int(cu[c]) * int(u[i]), int(cv[c]) * int(v[i])
            num = (left << self.shifts[0]) + (right << self.shifts[-1]) + int(offset[c])
            out[i] = Fraction(max(num, 0) if self.relu else num, int(den[c])) * scale
        return out.reshape(self.shape)


Expression = Exact | FloatExact | Root


def exact(value: QTensor | np.ndarray | Expression, where: str = "") -> Expression:
    """The expression that a QTensor, a float array or an expression is."""
    if isinstance(value, QTensor):
        if isinstance(value.exponent, np.ndarray):
            raise FormatError(f"{where or 'tensor'}: an exponent array has no single expression")
        return Exact([(value, 1)], value.exponent)
    if isinstance(value, np.ndarray):
        if value.dtype != np.float32:
            raise FormatError(f"{where or 'tensor'}: float32 expected, not {value.dtype}")
        return FloatExact(value, where=where)
    return value


def add(a: QTensor | np.ndarray | Expression, b: QTensor | np.ndarray | Expression) -> Exact | np.ndarray:
    """The exact sum of two integer values (exponents aligned), or the float32 sum of two arrays."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a + b
    left, right = exact(a), exact(b)
    if not (isinstance(left, Exact) and isinstance(right, Exact)):
        raise FormatError("a float branch and an integer branch cannot be joined exactly; quantize one first")
    if left.relu or right.relu or np.any(np.asarray(left.den) != right.den):
        raise FormatError("only sums without ReLU and over one denominator are joined exactly")
    if len(left.terms) + len(right.terms) > 2:
        left = _single(left)
    if len(left.terms) + len(right.terms) > 2:
        right = _single(right)
    exponent = min(left.exponent, right.exponent)
    terms: list[Term] = []
    shifts: list[int] = []
    offset: np.ndarray | int = 0
    for part in (left, right):
        gap = part.exponent - exponent
        for (term, coef), shift in zip(part.terms, part.shifts, strict=True):
            near = max_abs(np.asarray(coef)) << gap < INT64_BOUND
            terms.append((term, times_power(coef, gap) if near else coef))
            shifts.append(shift if near else shift + gap)
        if np.any(np.asarray(part.offset)):
            offset = offset + times_power(part.offset, gap)
    return Exact(terms, exponent, offset, left.den, shifts=shifts)


def _single(value: Exact) -> Exact:
    """The same value as one term: its codes."""
    codes = value.to_qtensor()
    return Exact([(codes, 1)], int(codes.exponent))


def times_power(coef: Any, bits: int) -> Any:
    """coef * 2**bits as int or int64 array; ContainerError beyond 62 bits."""
    if max_abs(np.asarray(coef)) << bits >= INT64_BOUND:
        raise ContainerError(f"a coefficient shifted by {bits} bits is beyond every container")
    return (coef.astype(np.int64) if isinstance(coef, np.ndarray) else int(coef)) << bits
