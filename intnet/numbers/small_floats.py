"""Small floats as plain data, and tensors of their words: bf16, fp16, FP8, FP6, FP4, and of e and m bits.

    Float(e, m, specials, overflow)     a format; `FLOATS` has those with a name
    FloatTensor(words, format)          what `quantize(x, E4M3)` makes: words, as memory holds them

A word may be a NaN, an infinity or a zero with a sign, which the codes of a QTensor are not; so this is a
type of its own. What is finite becomes a QTensor with an exponent an element by `to_qtensor`. Rounding is in
`exact/small_floats.py`.

Defined by `spec/small_floats.py: Float`, `spec/small_floats.py: decode`.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from intnet.errors import FormatError, NumberError
from intnet.numbers import exact_values
from intnet.numbers.qtensor import QTensor, Status, container, max_abs
from intnet.show.tables import Shown, Table, facts

SPECIALS = ("ieee", "nan", "none")
OVERFLOWS = ("saturate", "infinity", "nan", "error")


@dataclass(frozen=True)
class Float:
    """A sign, `e` bits of exponent, `m` of mantissa, with subnormals; bias 2^(e-1) - 1.

    specials:  ieee | nan | none: infinities and NaNs at the greatest exponent; one NaN a sign, and no
               infinity; neither
    overflow:  what becomes of values beyond the greatest finite one, and of infinities: saturate | infinity |
               nan | error

    Defined by `spec/small_floats.py: Float`.
    """

    e: int
    m: int
    specials: str = "ieee"
    overflow: str = "saturate"

    def __post_init__(self) -> None:
        for bits, most, what in ((self.e, 8, "e"), (self.m, 23, "m")):
            least = 2 if what == "e" else 1
            if isinstance(bits, bool) or not isinstance(bits, int) or not least <= bits <= most:
                raise FormatError(f"Float {what} = {bits!r}: a whole number from {least} to {most}")
        if self.specials not in SPECIALS:
            raise FormatError(f"Float specials = {self.specials!r}: use one of {', '.join(SPECIALS)}")
        lacks = {"ieee": (), "nan": ("infinity",), "none": ("infinity", "nan")}[self.specials]
        if self.overflow not in OVERFLOWS or self.overflow in lacks:
            able = [name for name in OVERFLOWS if name not in lacks]
            raise FormatError(f"Float overflow = {self.overflow!r}: {self} has {', '.join(able)}")

    @property
    def bits(self) -> int:
        """Of a word."""
        return 1 + self.e + self.m

    @property
    def least(self) -> int:
        """The exponent of the least normal number."""
        return 2 - (1 << (self.e - 1))

    @property
    def greatest(self) -> int:
        """The word of the greatest finite number."""
        if self.specials == "ieee":
            return (((1 << self.e) - 1) << self.m) - 1
        return (1 << (self.e + self.m)) - 1 - (self.specials == "nan")

    @property
    def nan(self) -> int:
        """The word of the NaN that is written: quiet, without a sign. FormatError where there is none."""
        if self.specials == "none":
            raise FormatError(f"{self} has no NaN")
        return self.greatest + 1 + ((1 << (self.m - 1)) if self.specials == "ieee" else 0)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of its words."""
        return np.dtype(np.uint8 if self.bits <= 8 else np.uint16 if self.bits <= 16 else np.uint32)

    def to(self, overflow: str) -> "Float":
        """The same with another policy of overflow."""
        return replace(self, overflow=overflow)

    def __str__(self) -> str:
        name = _NAMES.get((self.e, self.m, self.specials), f"E{self.e}M{self.m} {self.specials}")
        return name if self.overflow == _USUAL.get(name, "saturate") else f"{name} {self.overflow}"


_NAMES = {
    (8, 23, "ieee"): "FP32",
    (8, 7, "ieee"): "BF16",
    (5, 10, "ieee"): "FP16",
    (4, 3, "nan"): "E4M3",
    (5, 2, "ieee"): "E5M2",
    (3, 2, "none"): "E3M2",
    (2, 3, "none"): "E2M3",
    (2, 1, "none"): "E2M1",
}
_USUAL = {"FP32": "infinity", "BF16": "infinity", "FP16": "infinity"}
FLOATS = {name: Float(*key, _USUAL.get(name, "saturate")) for key, name in _NAMES.items()}
FP32, BF16, FP16, E4M3, E5M2, E3M2, E2M3, E2M1 = FLOATS.values()

_DTYPES = {
    (8, 23, "ieee"): "float32",
    (8, 7, "ieee"): "bfloat16",
    (5, 10, "ieee"): "float16",
    (4, 3, "nan"): "float8_e4m3fn",
    (4, 3, "ieee"): "float8_e4m3",
    (3, 4, "ieee"): "float8_e3m4",
    (5, 2, "ieee"): "float8_e5m2",
    (3, 2, "none"): "float6_e3m2fn",
    (2, 3, "none"): "float6_e2m3fn",
    (2, 1, "none"): "float4_e2m1fn",
}


class FloatTensor(Shown):
    """words (uint8, uint16 or uint32, each below 2^bits) of a `Float`, and a quantizer's counts or None.

    Defined by `spec/small_floats.py: decode`.
    """

    __slots__ = ("format", "status", "words")

    def __init__(self, words: np.ndarray, format: Float, status: Status | None = None) -> None:
        if words.dtype != format.dtype:
            raise FormatError(f"words of {format} are {format.dtype}, not {words.dtype}")
        if words.size and int(words.max()) >> format.bits:
            at = tuple(int(i) for i in np.argwhere(words >> format.bits)[0])
            raise FormatError(
                f"word {int(words[at]):#x} at {at} has more than the {format.bits} bits of {format}"
            )
        self.words, self.format, self.status = words, format, status

    @classmethod
    def from_words(cls, words: Any, format: Float) -> "FloatTensor":
        """Of whole numbers, which are the words as they are."""
        array = exact_values.numbers(words)
        if array.dtype.kind not in "iu" or (
            array.size and not 0 <= int(array.min()) <= int(array.max()) < 2**32
        ):
            raise FormatError(f"words of {format} are whole numbers of {format.bits} bits")
        found = cls(array.astype(np.uint32), FP32)  # to be looked at before it is made narrow
        if array.size and int(array.max()) >> format.bits:
            raise FormatError(f"word {int(array.max()):#x} has more than the {format.bits} bits of {format}")
        return cls(found.words.astype(format.dtype), format)

    @classmethod
    def from_array(cls, array: np.ndarray) -> "FloatTensor":
        """Of an array of package ml_dtypes, float16 or float32: its words as they are, any NaN's too."""
        if not isinstance(array, np.ndarray):
            raise FormatError(f"an array has words, {type(array).__name__} has none: quantize(x, format)")
        if not array.dtype.isnative or type(array) not in (np.ndarray, np.memmap):
            array = exact_values.bare(array)
        key = next((key for key, dtype in _DTYPES.items() if dtype == array.dtype.name), None)
        if key is None:
            raise FormatError(f"no format has the words of {array.dtype}; quantize(x, format) rounds to one")
        format = FLOATS[_NAMES[key]] if key in _NAMES else Float(*key)
        return cls(np.ascontiguousarray(array).view(format.dtype).reshape(array.shape), format)

    def to_array(self) -> np.ndarray:
        """The same words as an array of package ml_dtypes, of float16 or float32; FormatError for others."""
        name = _DTYPES.get((self.format.e, self.format.m, self.format.specials))
        if name is None:
            raise FormatError(f"ml_dtypes has no type of the words of {self.format}; to_float32() is exact")
        try:
            dtype = np.dtype(name)  # ml_dtypes adds its types to NumPy's when it is imported
        except TypeError:
            raise FormatError(f"{name} is of package ml_dtypes: install and import it") from None
        return np.ascontiguousarray(self.words).view(dtype).reshape(self.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the words."""
        return self.words.shape

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.words.size

    def raw(self) -> np.ndarray:
        """The words: a read-only view."""
        view = self.words.view()
        view.flags.writeable = False
        return view

    def hex(self) -> np.ndarray:
        """Array of strings: each word in lower-case hex digits, no prefix."""
        return exact_values.digits(self.words, self.format.bits, 4)

    def bin(self) -> np.ndarray:
        """Array of strings: each word in binary digits."""
        return exact_values.digits(self.words, self.format.bits, 1)

    def _fields(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(negative, significand, exponent): a finite value is +-significand * 2**exponent."""
        e, m = self.format.e, self.format.m
        n = self.words.astype(np.int64) & ((1 << (e + m)) - 1)
        block = n >> m
        significand = (n & ((1 << m) - 1)) + np.where(block > 0, 1 << m, 0)
        return self.words >> (e + m) != 0, significand, np.maximum(block, 1) - 1 + self.format.least - m

    def finite(self) -> np.ndarray:
        """bool array: neither NaN nor infinity."""
        return (
            self.words & self.format.dtype.type((1 << (self.format.bits - 1)) - 1)
        ) <= self.format.greatest

    def to_float64(self) -> np.ndarray:
        """float64 array: exact, NaN, infinities and signs of zeros with it."""
        negative, significand, exponent = self._fields()
        values = np.ldexp(significand.astype(np.float64), exponent.astype(np.intc))
        n = self.words & self.format.dtype.type((1 << (self.format.bits - 1)) - 1)
        beyond = np.where((n == self.format.greatest + 1) & (self.format.specials == "ieee"), np.inf, np.nan)
        return np.asarray(np.copysign(np.where(self.finite(), values, beyond), np.where(negative, -1.0, 1.0)))

    def to_float32(self) -> np.ndarray:
        """float32 array, exact too; NumberError for a finite value beyond it, which two formats have.

        Of 8 bits of exponent, all of them for numbers: `Float(8, m, "none")` and "nan".
        """
        with np.errstate(over="ignore"):
            values = self.to_float64().astype(np.float32)
        if not np.array_equal(np.isfinite(values), self.finite()):
            raise NumberError(f"a value of {self.format} is beyond float32; to_float64() is exact")
        return values

    def to_qtensor(self) -> QTensor:
        """Significands with an exponent an element; NumberError for a NaN or an infinity. -0 becomes 0."""
        if not np.all(self.finite()):
            at = tuple(int(i) for i in np.argwhere(~self.finite())[0])
            raise NumberError(f"{self.to_float64()[at]} at {at} has no code")
        negative, significand, exponent = self._fields()
        codes = np.where(negative, -significand, significand)
        return QTensor(codes.astype(container(max_abs(codes))), exponent, bound=(2 << self.format.m) - 1)

    def fractions(self) -> np.ndarray:
        """Array of `fractions.Fraction`: the exact values; NumberError for a NaN or an infinity."""
        return self.to_qtensor().fractions()

    def reshape(self, *shape: int) -> "FloatTensor":
        """The same elements in C order."""
        return FloatTensor(self.words.reshape(*shape), self.format, self.status)

    def __getitem__(self, index: Any) -> "FloatTensor":
        return FloatTensor(np.asarray(self.words[index]), self.format)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return exact_values.cast(self.to_float64(), dtype, copy)

    def __dlpack__(self, **how: Any) -> Any:
        return exact_values.exported(self.raw(), how)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.raw().__dlpack_device__()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        from intnet.numbers import numpy_functions  # which imports this module

        return numpy_functions.computed(ufunc, method, inputs, kwargs)

    def __bool__(self) -> bool:
        return exact_values.truth(self.to_float64() != 0)

    def __eq__(self, other: object) -> Any:
        """Elementwise by value, as floats compare: a NaN equals nothing, -0 equals 0."""
        return exact_values.equal(self.to_float64(), other)

    def __ne__(self, other: object) -> Any:
        same = self.__eq__(other)
        return same if same is NotImplemented else ~same

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        from intnet.numbers import numpy_functions  # which imports this module

        return numpy_functions.of_words(function, args, kwargs)

    __hash__ = None  # type: ignore[assignment]

    def summary(self) -> Table:
        """What it is, and what a quantizer did to it."""
        pairs: dict[str, Any] = {
            "shape": "x".join(map(str, self.shape)) or "scalar",
            "format": f"{self.format}: 1 + {self.format.e} + {self.format.m} bits",
            "not finite": f"{int((~self.finite()).sum()):,} of {self.size:,}",
        }
        if self.status is not None:
            pairs["beyond"] = (
                f"{self.status.saturated:,} of {self.status.elements:,}, which {self.format.overflow}"
            )
            pairs["rounded"] = f"{self.status.inexact:,} of {self.status.elements:,}"
        return facts("", pairs.items())

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.shape)) or "scalar"
        values = " ".join(f"{value:g}" for value in self[...].to_float64().flat[:6])
        words = " ".join(self.reshape(-1)[:6].hex())
        more = " ..." if self.size > 6 else ""
        return f"FloatTensor({self.format} {shape}, words [{words}{more}], values [{values}{more}])"
