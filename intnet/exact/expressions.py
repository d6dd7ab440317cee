"""Exact expressions: values not yet rounded. A quantizer rounds one of them, once (rule R1).

`Exact` is a sum of at most two integer tensors with a coefficient a channel, over a denominator a
channel; `FloatExact` is a float32 tensor over an integer, `Root` a vector of square roots (both in
`exact/sources.py`).
`exact(x)` turns a QTensor or a float32 array into an expression. Every expression offers

    round_to(exponent, rounding) -> codes, Status      the correctly rounded codes in units 2**exponent
    log2_max()                                         n of R(x) = 2**n, decided in exact arithmetic

so (x1 - mu)/(sigma + eps), a mean, a join of two branches or a pooled float error are each one
rational, never rounded on the way. Bounds decide the container: most values take the quick lane
(`exact/lane.py`), the others int64 or two limbs (`exact/loops.py`).
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from intnet.errors import ContainerError, FormatError, NumberError, ShapeError
from intnet.exact import lane as lanes
from intnet.exact import loops, stages
from intnet.exact.lane import Lane
from intnet.exact.sources import (
    Codes,
    FloatExact,
    Root,
    beyond_float32,
    by_rule,
    finished,
    fraction_to_float32,
    log2_round,
)
from intnet.machine.buffers import empty
from intnet.machine.jit import SMALL
from intnet.numbers import wide
from intnet.numbers.exact_values import numbers
from intnet.numbers.qtensor import INT64_BOUND, QTensor, max_abs
from intnet.numbers.rounding import STOCHASTIC, TIES_EVEN, UNLIMITED, Rounding
from intnet.numbers.widths import check_exponent

_ROW = 1024  # elements a row where all channels share one coefficient

Term = tuple[QTensor, np.ndarray | int]


class Exact:
    """value = (sum of coef * codes over the terms + offset) / den * 2**exponent, channels last.

    terms:  one or two (QTensor, coefficient); a coefficient, `offset` and `den` are ints or int64[C]
    relu:   negative values read as zero
    shifts: a power of two a term on top of its coefficient, where branches of far exponents meet
    tops:   int64[C], max |code| of the first of two terms by channel, where it is known: it settles most
            maxima without reading the codes
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
        tops: np.ndarray | None = None,
    ) -> None:
        self.terms = tuple(terms)
        self.shifts = tuple(shifts) or (0,) * len(self.terms)
        self.exponent = int(exponent) if isinstance(exponent, np.integer) else exponent
        self.offset, self.den, self.relu, self.tops = offset, den, relu, tops
        self._top = np.inf  # max |numerator|, once `max` has seen it, and not what a ReLU left of it
        self._signs = lanes.NO_SIGNS  # value > 0, once a rectified value has been rounded
        self._check()
        shapes = {term.shape for term, _ in self.terms}
        if len(shapes) != 1:
            raise ShapeError(f"cannot combine tensors of shapes {sorted(shapes)}")

    def _check(self) -> None:
        """FormatError for what the class does not say it takes: nothing is left out or cut to an integer."""
        check_exponent(self.exponent, "the exponent of an exact expression")
        if len(self.terms) not in (1, 2):
            raise FormatError(
                f"an exact expression has one or two terms, not {len(self.terms)}: add two first"
            )
        for part in (self.offset, self.den, *(coef for _, coef in self.terms)):
            kind = "i" if isinstance(part, int) else getattr(part, "dtype", np.dtype(object)).kind
            if kind not in "iu":
                what = "a coefficient, offset or denominator is an int or an array of them"
                raise FormatError(f"{what}, not {part!r}")
        if not (self.den > 0 if isinstance(self.den, int) else np.all(self.den > 0)):
            raise FormatError(f"the denominator of an exact expression is positive, not {self.den}")

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value."""
        return self.terms[0][0].shape

    def bound(self) -> int:
        """A proven bound on |numerator|: from the terms' bounds, beyond int64 from their actual maxima."""
        shifts = (min(shift, 1 << 16) for shift in self.shifts)  # no container has so many bits
        parts = [(max_abs(c), t, s) for (t, c), s in zip(self.terms, shifts, strict=True)]
        total = max_abs(self.offset)
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
        if max_abs(self.offset) or any(np.any(np.asarray(p) != np.ravel(p)[0]) for p in parts):
            return Exact([(QTensor(move(self.to_qtensor().codes.astype(np.int64)), 0), 1)], self.exponent)
        first = [int(np.ravel(part)[0]) for part in parts]
        codes = [move(term.codes.astype(np.int64)) for term, _ in self.terms]
        terms = [(QTensor(c, 0), coef) for c, coef in zip(codes, first, strict=False)]
        return Exact(terms, self.exponent, den=first[-1], relu=self.relu, shifts=self.shifts)

    @cached_property
    def _vectors(self) -> np.ndarray:
        """int64[4, C]: offset, cu, cv, den of every channel; C = 1 where all channels are alike."""
        parts = [self.offset, 0, 0, self.den]
        for k, (term, coef) in enumerate(self.terms):
            parts[1 + k] = coef if self.shifts[k] == 0 or term.bound else 0
        by_channel = any([isinstance(part, np.ndarray) and part.ndim for part in parts])
        vectors = np.empty((4, self.shape[-1] if by_channel else 1), np.int64)
        try:
            vectors[0], vectors[1], vectors[2], vectors[3] = parts
        except OverflowError:
            raise ContainerError("a coefficient, offset or denominator is beyond int64") from None
        return vectors

    def _lane(self, vectors: np.ndarray, shift: int | None, most: int) -> Lane | None:
        """The quick lane of the value in units of 2**(exponent - shift), where there is one.

        shift:  None where nothing is rounded
        most:   bits that a lane of int32 may round off; 0 where such a lane will not do
        """
        if any(self.shifts) and any(s and t.bound for (t, _), s in zip(self.terms, self.shifts, strict=True)):
            return None
        codes, tops = [t.codes for t, _ in self.terms], [float(t.bound) for t, _ in self.terms]
        lane = lanes.prepare_narrow(vectors, codes, tops, shift, self.relu, self._top, most) if most else None
        lane = lane or lanes.prepare(vectors, codes, tops, shift or 0, self.relu)
        if lane is None:  # the bounds that were proven may be far above the codes
            tops = [float(max_abs(c)) for c in codes]
            lane = lanes.prepare(vectors, codes, tops, shift or 0, self.relu)
        return lane

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

    def round_to(self, exponent: int, rounding: Rounding, fine: int = 0) -> Codes:
        """Codes of value / 2**exponent, rounded and limited; counts in Status.

        fine: > 0 for the two grids of Flag (see `loops.round_flag`)
        ContainerError where neither int64 nor two limbs are proven to hold the numerator.

        Defined by `spec/rounding.py: round_fraction`.
        """
        if rounding.rule is not None:
            return by_rule(self.fractions(), exponent, rounding, fine)
        mode, where, bits = rounding.mode, rounding.where, rounding.bits
        rounding = rounding.within(max(rounding.low, -UNLIMITED), min(rounding.high, UNLIMITED))
        low, high, vectors = rounding.low, rounding.high, self._vectors
        rounded = self._round_few(vectors, exponent, rounding, fine)
        rounded = rounded or self._round_lane(vectors, exponent, rounding, fine)
        if rounded is not None:
            return rounded[0].reshape(self.shape), rounded[1]
        words = rounding.drawn(self.terms[0][0].size)
        offset, cu, cv, den = _rows(vectors)
        up, down, drop = self._scale(exponent, int(den.max()).bit_length(), fine, mode)
        bound = self.bound()
        self._check_limbs(bound, up, where)
        up, bound = (up, bound << up) if bound else (0, 0)
        # round_flag multiplies a code back by its denominator: one step beyond the numerator
        den = den << down
        if bound < INT64_BOUND:
            u, v = self._flat()
            result = min(bound // int(den.min()) + 1, max(-low, high)) << fine
            out = np.empty(u.shape, np.int32 if result < 1 << 31 else np.int64)
            counts = np.zeros((loops.blocks_for(u.size), 4), np.int64)
            numerator = (u, cu << up, v, cv << up, offset << up, den, min(drop, 62), self.relu)
            loops.round_rows(*numerator, fine, mode, words, bits, low, high, out, counts)
        else:
            num_hi, num_lo = self._limbs(offset, cu, cv, where)
            out = np.empty(num_hi.shape, np.int64)
            counts = np.zeros((1, 4), np.int64)
            loops.round_limbs(num_hi, num_lo, den, up, drop, fine, mode, words, bits, low, high, out, counts)
            if counts[0, loops.MISFIT]:
                raise ContainerError(f"{where or 'expression'}: a rounded code is beyond 62 bits")
        return finished(out, counts, self.shape, low, high)

    def _round_few(self, vectors: np.ndarray, exponent: int, rounding: Rounding, fine: int) -> Codes | None:
        """`round_to` of a small tensor, flat, by one kernel call; None where another way has to be taken."""
        elements = self.terms[0][0].size
        if elements >= SMALL or any(self.shifts):
            return None
        codes, tops = [t.codes for t, _ in self.terms], [float(t.bound) for t, _ in self.terms]
        signs = np.empty(elements, np.bool_) if self.relu else lanes.NO_SIGNS
        shift = self.exponent - exponent
        rounded = lanes.round_few(vectors, codes, tops, shift, rounding, fine, self.relu, signs)
        self._signs = self._signs if rounded is None else signs
        return rounded

    def _round_lane(self, vectors: np.ndarray, exponent: int, rounding: Rounding, fine: int) -> Codes | None:
        """`round_to` by the quick lane, flat; None where there is none."""
        most = {TIES_EVEN: 30, STOCHASTIC: rounding.bits}.get(rounding.mode, 0)
        lane = self._lane(vectors, self.exponent - exponent, 0 if fine else most)
        if lane is None or not lanes.rounds(lane, rounding):
            return None
        signs = empty((lane.elements,), np.bool_) if self.relu else lanes.NO_SIGNS
        rounded = lanes.round_codes(lane, rounding, fine, signs)
        assert rounded is not None  # integers are finite
        self._signs = signs
        return rounded

    def _check_limbs(self, bound: int, up: int, where: str) -> None:
        if bound and (bits := bound.bit_length() + up) >= wide.LIMBS_MAX.bit_length():
            raise ContainerError(
                f"{where or 'expression'}: a numerator of up to {bits + 1} bits is beyond "
                "every container (two limbs hold 127): an operand is too wide, or two branches too far apart"
            )

    def _limbs(
        self, offset: np.ndarray, cu: np.ndarray, cv: np.ndarray, where: str = ""
    ) -> tuple[np.ndarray, np.ndarray]:
        self._check_limbs(self.bound(), 0, where)
        u, v = self._flat()
        num_hi, num_lo = np.empty(u.shape, np.int64), np.empty(u.shape, np.uint64)
        loops.limb_rows(u, cu, self.shifts[0], v, cv, self.shifts[-1], offset, self.relu, num_hi, num_lo)
        return num_hi, num_lo

    def max(self) -> Fraction:
        """max |value|, exact."""
        return self._greatest * Fraction(2) ** self.exponent

    def extremes(self) -> tuple[Fraction, Fraction]:
        """(max, min), exact, where they are above and below 0, else 0: the tops of what a ReLU leaves."""
        terms = [(term, -coef) for term, coef in self.terms]
        opposite = Exact(terms, self.exponent, -self.offset, self.den, relu=True, shifts=self.shifts)
        return self.rectified().max(), Fraction(0) if self.relu else -opposite.max()

    def log2_max(self) -> int:
        """n of R(x) = 2**n; R(0) := 1. Defined by `spec/formats.py: log2_R`."""
        n = self._log2_by_tops()
        if n is None:
            top = self._greatest
            n = log2_round(top) if top else -self.exponent
        return n + self.exponent

    def _log2_by_tops(self) -> int | None:
        """log2 of R(numerator / denominator) where two bounds on the maximum agree, else None."""
        if self.tops is None or self.relu or any(self.shifts):
            return None
        least, most = stages.maximum_between(self._vectors, self.tops, float(self.terms[1][0].bound))
        if not least > 0:
            return None
        n = log2_round(Fraction(least))
        return n if n == log2_round(Fraction(most)) else None

    @cached_property
    def _greatest(self) -> Fraction:
        """max |numerator / denominator|, exact."""
        if self.terms[0][0].size == 0:
            raise NumberError("an empty tensor has no maximum")
        vectors = self._vectors
        lane = self._lane(vectors, None, most=30)
        if lane is not None:
            tops = lanes.peaks(lane)
            if not self.relu:  # which hides the greatest negative numerators
                self._top = float(tops.max())
        else:
            hi, lo = self._limbs(*_rows(vectors)[:3])
            top_hi, top_lo = np.zeros(vectors.shape[1], np.int64), np.zeros(vectors.shape[1], np.uint64)
            loops.limb_peaks(hi, lo, top_hi, top_lo)
            tops = (top_hi.astype(object) << 64) + top_lo
        ratios = tops.astype(np.float64) / vectors[3]
        near = np.flatnonzero(ratios >= ratios.max() * (1 - 2.0**-50))  # only these may be the greatest
        return max(Fraction(int(tops[c]), int(vectors[3, c])) for c in near)

    def positive(self) -> np.ndarray:
        """bool array: value > 0. A rectified value that was rounded has it at hand."""
        if self._signs.size:
            return self._signs.reshape(self.shape)
        vectors = self._vectors
        lane = self._lane(vectors, None, most=30)
        if lane is not None:
            return lanes.positive(lane).reshape(self.shape)
        hi, lo = self._limbs(*_rows(vectors)[:3])
        return ((hi > 0) | ((hi == 0) & (lo > 0))).reshape(self.shape)

    def to_qtensor(self, where: str = "") -> QTensor:
        """The value as codes at the expression's own exponent; only where no denominator is left."""
        if np.any(np.asarray(self.den) != 1):
            raise NumberError("a quotient has no exact codes; quantize it")
        codes, status = self.round_to(self.exponent, Rounding(where=where))
        return QTensor(codes, self.exponent, bound=status.peak)

    def to_float32(self, where: str = "") -> np.ndarray:
        """float32 array, each value correctly rounded once (ties to even).

        NumberError, naming `where`, for a value beyond float32's range.

        Defined by `spec/float32.py: to_float32`.
        """
        vectors = self._vectors
        lane = self._lane(vectors, None, most=0)
        if abs(self.exponent) > lanes.FAR or (lane is None and np.any(vectors[3] != 1)):
            flat = [fraction_to_float32(value, where) for value in self.fractions().reshape(-1)]
            return np.array(flat, np.float32).reshape(self.shape)
        values = self._wide_to_float32(vectors) if lane is None else lanes.to_float32(lane, self.exponent)
        if values is None:
            raise beyond_float32(where)
        return values.reshape(self.shape)

    def _wide_to_float32(self, vectors: np.ndarray) -> np.ndarray | None:
        """Flat `to_float32` of numerators beyond 51 bits; None where a value is beyond float32."""
        (offset, cu, cv, _), scale = _rows(vectors), 2.0**self.exponent
        out = empty((self.terms[0][0].size,), np.float32)
        with np.errstate(over="ignore"):
            if self.bound() < INT64_BOUND and not any(self.shifts):
                u, v = self._flat()
                loops.float_rows(u, cu, v, cv, offset, self.relu, scale, loops.blocks_for(u.size), out)
            else:
                loops.float_limbs(*self._limbs(offset, cu, cv), scale, out)
        return out if np.all(np.isfinite(out)) else None

    def fractions(self) -> np.ndarray:
        """Array of Fractions: the exact values (slow; for inspection)."""
        offset, cu, cv, den = self._vectors
        u, v = self._flat()
        out = np.empty(u.size, object)
        scale = Fraction(2) ** self.exponent
        for i in range(u.size):
            c = i % den.size
            left, right = int(cu[c]) * int(u[i]), int(cv[c]) * int(v[i])
            num = (left << self.shifts[0]) + (right << self.shifts[-1]) + int(offset[c])
            out[i] = Fraction(max(num, 0) if self.relu else num, int(den[c])) * scale
        return out.reshape(self.shape)


def _rows(vectors: np.ndarray) -> np.ndarray:
    """`vectors` for the loops, whose rows are as long as they are: not of a single element."""
    return vectors if vectors.shape[1] > 1 else np.repeat(vectors, _ROW, axis=1)


Expression = Exact | FloatExact | Root


def exact(value: "QTensor | ArrayLike | Expression", where: str = "") -> Expression:
    """The expression that a QTensor, an expression, an array, a number or nested lists of numbers are.

    Integers are those of int64. float16, float32, float64 and the numbers of package ml_dtypes are what they
    are, never rounded to each other.
    FormatError for other types, and for what these do not hold.
    """
    if isinstance(value, QTensor):
        if isinstance(value.exponent, np.ndarray):
            raise FormatError(f"{where or 'tensor'}: an exponent array has no single expression")
        return Exact([(value, 1)], value.exponent)
    if type(value) in (np.ndarray, np.memmap) and value.dtype == np.float32:  # type: ignore[union-attr]
        return FloatExact(value, where=where)  # type: ignore[arg-type]
    return cast(Expression, value) if hasattr(value, "round_to") else _of_numbers(value, where)


def _of_numbers(value: ArrayLike, where: str) -> Expression:
    """The expression that an array of another type, a number or lists are."""
    array = numbers(value, where)
    if array.dtype.kind in "bi" or (array.dtype.kind == "u" and max_abs(array) < 1 << 63):
        return Exact([(QTensor(array.astype(np.int64), 0), 1)], 0)
    if array.dtype not in (np.float16, np.float32, np.float64):
        raise FormatError(
            f"{where or 'tensor'}: numbers are int64's integers, float16, float32, float64, not {array.dtype}"
        )
    with np.errstate(over="ignore"):
        narrow = array.astype(np.float32)
    # float32 has the quick loops; what is not finite is found there
    return FloatExact(narrow if np.array_equal(narrow, array, equal_nan=True) else array, where=where)


def add(a: QTensor | np.ndarray | Expression, b: QTensor | np.ndarray | Expression) -> Exact | np.ndarray:
    """The exact sum of two integer values (exponents aligned), or the float32 sum of two arrays."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a + b
    left, right = exact(a), exact(b)
    if not (isinstance(left, Exact) and isinstance(right, Exact)):
        raise FormatError("a float branch and an integer branch cannot be joined exactly: quantize one first")
    if left.relu or right.relu or np.any(np.asarray(left.den) != right.den):
        raise FormatError("only sums without ReLU and over one denominator are joined exactly")
    if len(left.terms) + len(right.terms) > 2:
        left = Exact([(left.to_qtensor(), 1)], left.exponent)
    if len(left.terms) + len(right.terms) > 2:
        right = Exact([(right.to_qtensor(), 1)], right.exponent)
    exponent = min(left.exponent, right.exponent)
    terms: list[Term] = []
    shifts: list[int] = []
    offset: np.ndarray | int = 0
    for part in (left, right):
        gap = part.exponent - exponent
        for (term, coef), shift in zip(part.terms, part.shifts, strict=True):
            near = gap < 63 and max_abs(coef) << gap < INT64_BOUND
            terms.append((term, times_power(coef, gap) if near else coef))
            shifts.append(shift if near else shift + gap)
        if max_abs(part.offset):
            offset = offset + times_power(part.offset, gap)
    return Exact(terms, exponent, offset, left.den, shifts=shifts)


def times_power(coef: Any, bits: int, where: str = "") -> Any:
    """coef * 2**bits as int or int64 array; ContainerError, naming `where`, beyond 62 bits."""
    if max_abs(coef) << bits >= INT64_BOUND:
        raise ContainerError(f"{where or 'sum'}: a term shifted by {bits} bits is beyond every container")
    return (coef.astype(np.int64) if isinstance(coef, np.ndarray) else int(coef)) << bits
