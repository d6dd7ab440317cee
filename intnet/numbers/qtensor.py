"""QTensor: integer codes, an exponent, a format. The one type of every quantized tensor.

    value = codes * 2**exponent        exact, always

`exponent` is one int, or an int array that broadcasts against the codes (per channel, per block).
A QTensor converts exactly to Fractions and to float64, and refuses where float64 would not be
exact. It is made by `quantize.quantize`, `QTensor.from_float` or `QTensor.from_bits`. Its operators compute
and compare exact values (`arithmetic.py`); expressions that are rounded once are in `exact/expressions.py`,
a net's products in `ops/`, what NumPy's own functions answer in `numpy_functions.py`.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from intnet.errors import ContainerError, FormatError, NumberError, ShapeError
from intnet.numbers import exact_values
from intnet.numbers.formats import FixedPoint, Flag, Format, Levels
from intnet.numbers.widths import FAR, check_exponent
from intnet.show.tables import Shown, Table, facts

CODE_TYPES: tuple[np.dtype[Any], ...] = tuple(np.dtype(t) for t in (np.int8, np.int16, np.int32, np.int64))
_BEYOND = 1 << 12  # powers of two either way that no float has, and no code of 64 bits brings back
INT64_BOUND = 1 << 62  # proven bounds stay below this, so that kernels may double and negate


@dataclass(slots=True)
class Status:
    """What a quantizer did: elements clipped, elements changed by rounding, elements in all.

    peak: the greatest |code| that it made, or None where it did not look
    """

    saturated: int
    inexact: int
    elements: int
    peak: int | None = field(default=None, compare=False, repr=False)


def container(bound: int, where: str = "") -> np.dtype:
    """The smallest code type that holds +-bound; ContainerError beyond int64."""
    for dtype in CODE_TYPES:
        if bound < 1 << (8 * dtype.itemsize - 1):
            return dtype
    raise ContainerError(
        f"{where + ': ' if where else ''}codes up to {bound} need {bound.bit_length() + 1} bits; "
        "the widest code container has 64"
    )


def max_abs(codes: np.ndarray | int) -> int:
    """max |code| as a Python int, also where a code is the most negative one; 0 for no elements."""
    if not isinstance(codes, np.ndarray):
        return abs(int(codes))
    if codes.size == 0:
        return 0
    return max(int(codes.max()), -int(codes.min()))


def _operator(name: str, swapped: bool = False) -> Callable[["QTensor", Any], Any]:
    """A method that answers by `arithmetic.py`, which imports this module."""

    def operate(self: "QTensor", other: Any) -> Any:
        from intnet.numbers import arithmetic

        return getattr(arithmetic, name)(*((other, self) if swapped else (self, other)))

    return operate


def _check_within(codes: np.ndarray, exponent: int | np.ndarray, format: FixedPoint) -> None:
    """FormatError where codes at an exponent are not those of a fixed-point format."""
    if np.any(exponent != format.exponent):
        raise FormatError(f"{format} has the exponent {format.exponent}, not {exponent}; quantize the values")
    if codes.size and not format.lo <= int(codes.min()) <= int(codes.max()) <= format.hi:
        told = f"codes {int(codes.min())}..{int(codes.max())}"
        raise FormatError(f"{told} are not within {format.lo}..{format.hi} of {format}; quantize the values")


def _exponent(given: Any) -> int:
    """As an int; FormatError for what is none, or too far."""
    if not hasattr(given, "__index__"):
        raise FormatError(f"the exponent of a QTensor is an int or an integer array, not {given!r}")
    exponent = operator.index(given)
    if not -FAR < exponent < FAR:
        check_exponent(exponent, "the exponent of a QTensor")
    return exponent


class QTensor(Shown):
    """codes (int8/16/32/64 array), exponent (int or broadcasting int array), format (or None).

    bound:  a proven bound on |codes|. Where none is given, it is the actual maximum of a copy of the codes,
            and codes outside of a FixedPoint, or another exponent, are a FormatError. Every operation rests
            on it: `codes` are for reading
    status: counts of the quantizer that made it, or None
    """

    __slots__ = ("bound", "codes", "exponent", "format", "status")

    def __init__(
        self,
        codes: np.ndarray,
        exponent: int | np.ndarray,
        format: Format | None = None,
        bound: int | None = None,
        status: Status | None = None,
    ) -> None:
        if type(codes) not in (np.ndarray, np.memmap):
            codes = exact_values.bare(codes)
        if codes.dtype not in CODE_TYPES:
            raise FormatError(f"codes are int8, int16, int32 or int64, not {codes.dtype}")
        if isinstance(exponent, np.ndarray):
            if exponent.dtype.kind != "i":
                raise FormatError(f"an exponent array holds signed integers, not {exponent.dtype}")
            trailing = codes.shape[codes.ndim - exponent.ndim :]
            fits = exponent.ndim <= codes.ndim and all(
                mine in (1, size) for mine, size in zip(exponent.shape, trailing, strict=True)
            )
            if not fits:
                raise ShapeError(f"exponents {exponent.shape} do not broadcast to codes {codes.shape}")
        else:
            exponent = _exponent(exponent)
        if bound is None:
            codes = np.array(codes, order="K")
            exponent = exponent.copy() if isinstance(exponent, np.ndarray) else exponent
        self.codes = codes
        self.exponent = exponent
        self.format = format
        self.bound = max_abs(codes) if bound is None else bound
        self.status = status
        if bound is None and isinstance(format, FixedPoint):
            _check_within(codes, exponent, format)

    # -- making one -------------------------------------------------------------------------

    @classmethod
    def from_float(cls, values: Any, exponent: int, format: Format | None = None) -> "QTensor":
        """Exactly `values` (float array) at one exponent; NumberError where that is not possible.

        FormatError for values outside of `format`, and for a list of which NumPy makes other numbers.
        """
        array = exact_values.numbers(values)
        wide = array.dtype.kind in "iu" and max_abs(array) > 1 << 53
        if wide or not np.can_cast(array.dtype, np.float64):
            raise NumberError(f"from_float takes what float64 holds exactly, not such {array.dtype}")
        floats = array.astype(np.float64)
        if not np.all(np.isfinite(floats)):
            raise NumberError("a NaN or infinity has no code")
        exponent = _exponent(exponent)
        near = max(-_BEYOND, min(exponent, _BEYOND))
        with np.errstate(over="ignore"):
            scaled = np.ldexp(floats, -near)
        small = np.abs(scaled) < 2.0**62
        back = np.ldexp(np.where(small, scaled, 0), near)  # differs where float64 underflowed
        if not np.all(small & (scaled == np.rint(scaled)) & (back == floats)):
            raise NumberError(f"not every value is a multiple of 2^{exponent} within 62 bits; quantize it")
        codes = scaled.astype(np.int64)
        return cls(codes.astype(container(max_abs(codes))), exponent, format)

    @classmethod
    def from_bits(cls, bits: Any, format: FixedPoint, base: int = 16) -> "QTensor":
        """From bit patterns: strings of digits in `base` (16 or 2; '0x' or '0b' may lead), or unsigned ints.

        In base 16 '0b11' is 0xb11, for `hex()` writes such digits. Two's complement of `format.wl`
        bits where the format is signed. FormatError for a pattern that is wider.
        """
        if base not in (2, 16):
            raise FormatError(f"bit patterns are read in base 16 or 2, not {base}")
        if not isinstance(format, FixedPoint):
            raise FormatError(f"patterns are words of a FixedPoint, as FixedPoint(8, 6), not of {format!r}")
        array = np.asarray(bits, dtype=object)
        codes = np.empty(array.shape, np.int64)
        for index, text in np.ndenumerate(array):
            word = _parse_word(text, base)
            if not 0 <= word < 1 << format.wl:
                raise FormatError(f"pattern {text!r} at {index} does not fit {format.wl} bits")
            negative = format.signed and word >> (format.wl - 1)
            codes[index] = word - (1 << format.wl) if negative else word
            if codes[index] < format.lo:  # of saturate_symmetric, whose range lacks the least pattern
                raise FormatError(
                    f"pattern {text!r} at {index} is {codes[index]}, below {format.lo} of {format}"
                )
        return cls(codes.astype(container(max_abs(codes))), format.exponent, format)

    # -- reading it -------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the codes."""
        return self.codes.shape

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.codes.size

    @property
    def width(self) -> int:
        """Bits that the codes really need: two's complement, sign included."""
        if self.codes.size == 0:
            return 1
        hi, lo = int(self.codes.max()), int(self.codes.min())
        return 1 + max(hi.bit_length() if hi > 0 else 0, (~lo).bit_length() if lo < 0 else 0)

    def raw(self) -> np.ndarray:
        """The integer codes: a read-only view, since bounds and formats speak of them as they are."""
        view = self.codes.view()
        view.flags.writeable = False
        return view

    def word_bits(self) -> int:
        """Bits of the words that `hex` and `bin` show: the format's, or more where the codes need more.

        A code of Flag or of `Levels` is wider than its stored word.
        """
        return self.width if isinstance(self.format, Flag | Levels) else self.stored_bits()

    def stored_bits(self) -> int:
        """Bits that memory needs for a code: the format's, or more where it sets no range and codes grew."""
        if isinstance(self.format, FixedPoint | Flag | Levels):
            return self.format.bits
        return self.width if self.format is None else max(self.format.bits, self.width)

    def hex(self) -> np.ndarray:
        """Array of strings: each code in two's complement, lower-case hex digits, no prefix."""
        return exact_values.digits(self.codes, self.word_bits(), 4)

    def bin(self) -> np.ndarray:
        """Array of strings: each code in two's complement, binary digits."""
        return exact_values.digits(self.codes, self.word_bits(), 1)

    def fractions(self) -> np.ndarray:
        """Array of `fractions.Fraction`: the exact values."""
        return exact_values.fractions(self.codes, self.exponent)

    def to_float64(self) -> np.ndarray:
        """float64 array, exact; NumberError where some value is not a float64."""
        floats, exponent = self.codes.astype(np.float64), self._exponents()
        with np.errstate(over="ignore"):
            values = np.asarray(np.ldexp(floats, exponent))
            exact = np.isfinite(values) & (np.ldexp(values, -exponent) == floats)
        if self.bound > 1 << 53:
            below = floats < 2.0**63  # 2^63 itself is no code, and no int64 to compare with
            exact &= below & (np.where(below, floats, 0).astype(np.int64) == self.codes)
        if not np.all(exact):
            raise NumberError("not every value is exactly a float64; use .fractions() or .to_float32()")
        return values

    def _exponents(self) -> np.ndarray:
        """As `np.ldexp` takes them: of one beyond a float's range it makes what it makes of _BEYOND."""
        wide = np.asarray(self.exponent).astype(np.int64, copy=False)
        return np.clip(wide, -_BEYOND, _BEYOND).astype(np.intc)

    def to_float32(self) -> np.ndarray:
        """float32 array, each value correctly rounded (ties to even); NumberError on overflow."""
        exponent = self._exponents()
        with np.errstate(over="ignore"):
            if self.bound <= 1 << 53:  # exact in float64, rounded once by the cast
                values = np.asarray(np.ldexp(self.codes.astype(np.float64), exponent).astype(np.float32))
            elif np.min(exponent) >= -126:  # no subnormal result: the cast rounds, the scaling is exact
                values = np.asarray(np.ldexp(self.codes.astype(np.float32), exponent))
            else:
                raise NumberError(f"{self.width}-bit codes at exponent {self.exponent} near float32's floor")
        if not np.all(np.isfinite(values)):
            raise NumberError("a value is beyond float32's range")
        return values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return exact_values.cast(self.to_float64(), dtype, copy)

    def __dlpack__(self, **how: Any) -> Any:
        return exact_values.exported(self.raw(), how)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.raw().__dlpack_device__()

    # -- computing and comparing ---------------------------------------------------------------

    __add__, __radd__ = _operator("plus"), _operator("plus")
    __sub__, __rsub__ = _operator("minus"), _operator("minus", swapped=True)
    __mul__, __rmul__ = _operator("times"), _operator("times")
    __matmul__, __rmatmul__ = _operator("matmul"), _operator("matmul", swapped=True)
    __truediv__, __rtruediv__ = _operator("over"), _operator("over")
    __floordiv__, __rfloordiv__ = __truediv__, __rtruediv__

    def __neg__(self) -> "QTensor":
        return 0 - self

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        from intnet.numbers import numpy_functions  # which imports this module

        return numpy_functions.computed(ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        from intnet.numbers import numpy_functions  # which imports this module

        return numpy_functions.answer(function, args, kwargs)

    def __eq__(self, other: object) -> Any:
        """Elementwise, by exact value whatever the formats: an array of bools, as of NumPy's arrays.

        `other`: a QTensor, an array or a number. So a QTensor is no key of a dict, and no single truth.
        """
        return self._compared(operator.eq, other)

    def __ne__(self, other: object) -> Any:
        same = self.__eq__(other)
        return same if same is NotImplemented else ~same

    def __lt__(self, other: object) -> Any:
        return self._compared(operator.lt, other)

    def __le__(self, other: object) -> Any:
        return self._compared(operator.le, other)

    def __gt__(self, other: object) -> Any:
        return self._compared(operator.gt, other)

    def __ge__(self, other: object) -> Any:
        return self._compared(operator.ge, other)

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        return exact_values.truth(self.codes != 0)

    def _compared(self, operate: Callable[[Any, Any], Any], other: object) -> Any:
        if isinstance(other, QTensor):
            values, exponent = other.codes, other.exponent
        else:
            values, exponent = exact_values.comparable(other), 0
        if values.dtype.kind in "USV":  # strings
            return NotImplemented
        try:
            np.broadcast_shapes(self.shape, values.shape)
        except ValueError:
            raise ShapeError(f"shapes {self.shape} and {values.shape} cannot be compared") from None
        return exact_values.compare(operate, self.codes, self.exponent, values, exponent)

    def __getitem__(self, index: Any) -> "QTensor":
        codes = np.asarray(self.codes[index])
        exponent = self.exponent
        if isinstance(exponent, np.ndarray):
            exponent = np.asarray(np.broadcast_to(exponent, self.shape)[index])
        return QTensor(codes, exponent, self.format, max_abs(codes))

    def reshape(self, *shape: int) -> "QTensor":
        """The same elements in C order; only for one exponent."""
        if isinstance(self.exponent, np.ndarray):
            raise ShapeError("a QTensor with an exponent array cannot be reshaped")
        return QTensor(self.codes.reshape(*shape), self.exponent, self.format, self.bound, self.status)

    def summary(self) -> Table:
        """What it is, what its codes need, what a quantizer did to it."""
        exponent = np.asarray(self.exponent)
        span = (
            f"{exponent.min()}..{exponent.max()}, {exponent.size:,} of them"
            if exponent.ndim
            else str(exponent)
        )
        pairs = {
            "shape": "x".join(map(str, self.shape)) or "scalar",
            "format": "none: exact" if self.format is None else str(self.format),
            "value": f"code * 2^exponent, exponent {span}",
            "codes": f"{self.codes.min()}..{self.codes.max()}" if self.size else "none",
            "bits": f"{self.width} used, {self.stored_bits()} stored, {self.codes.dtype} here",
            "bound": f"|code| <= {self.bound:,}",
        }
        if self.status is not None:
            pairs["saturated"] = f"{self.status.saturated:,} of {self.status.elements:,}"
            pairs["rounded"] = f"{self.status.inexact:,} of {self.status.elements:,}"
        return facts("", pairs.items())

    def __repr__(self) -> str:
        kind = "" if self.format is None else f"{self.format} "
        exponent = "per block" if isinstance(self.exponent, np.ndarray) else f"2^{self.exponent}"
        head = f"QTensor({kind}{'x'.join(map(str, self.shape)) or 'scalar'}, {self.codes.dtype} * {exponent}"
        codes = " ".join(str(int(code)) for code in self.codes.flat[:6]) + (" ..." if self.size > 6 else "")
        return f"{head}, {self.width} bits used, codes [{codes}])"


def _parse_word(text: Any, base: int) -> int:
    try:
        return int(text, base) if isinstance(text, str) else operator.index(text)
    except (TypeError, ValueError):
        raise FormatError(f"{text!r} is no bit pattern in base {base}") from None
