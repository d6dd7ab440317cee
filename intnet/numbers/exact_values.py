"""What codes stand for, exactly: fractions, digits, and how values compare.

    fractions(codes, exponent)            array of Fraction: codes * 2**exponent
    digits(codes, bits, 4)                array of strings: two's complement of `bits` bits; 1: binary
    cast(values, np.float32)              the same numbers in another type, or an error
    compare(lt, codes, exponent, values)  elementwise, as bools, by a comparison of module `operator`
    numbers(value)                        an array, a number or lists as a plain array, each number exact
    plain(values)                         of a type of package ml_dtypes the same numbers in NumPy's

`exponent` is an int, or an int array that broadcasts against the codes.
"""

import gc
from collections.abc import Callable
from fractions import Fraction
from itertools import repeat
from typing import Any

import numpy as np

from intnet.errors import FormatError, NumberError, ShapeError
from intnet.numbers.widths import FAR

# of package ml_dtypes, whose arrays NumPy knows by these names: floats within float32, and integers
_ML_FLOATS = (
    "bfloat16", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz",
    "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn",
)  # fmt: skip
_ML_INTEGERS = ("int1", "int2", "int4", "uint1", "uint2", "uint4")

_MANY = 1 << 16  # at most so many values are made once and looked up: all of 16 bits
_OF_BYTES = {of: np.array([f"{byte:{form}}" for byte in range(256)]) for of, form in ((4, "02x"), (1, "08b"))}


def fractions(codes: np.ndarray, exponent: Any) -> np.ndarray:
    """The values as an object array of codes' shape. Where codes are narrow, equal values are one object."""
    if np.ndim(exponent) == 0:
        return _at_one(codes.reshape(-1), int(exponent)).reshape(codes.shape)
    out = np.empty(codes.shape, object)
    exponents = np.broadcast_to(exponent, codes.shape)
    for one in np.unique(exponents).tolist():
        where = exponents == one
        out[where] = _at_one(codes[where], one)
    return out


def _at_one(codes: np.ndarray, exponent: int) -> np.ndarray:
    """`fractions` of flat codes at one exponent."""
    codes = codes.astype(np.int64)
    least, most = (int(codes.min()), int(codes.max())) if codes.size else (0, -1)
    if most - least < min(_MANY, codes.size):
        return _reduced(np.arange(most - least + 1) + least, exponent)[codes - least]
    return _reduced(codes, exponent)


def _reduced(codes: np.ndarray, exponent: int) -> np.ndarray:
    """Of int64 codes, each its own object: lowest terms of 2^down are found by the zeros at a code's end."""
    up, down = max(exponent, 0), max(-exponent, 0)
    possible = min(down, 63)
    zeros = np.bitwise_count((codes & -codes).view(np.uint64) - np.uint64(1))  # 64 of a code of 0
    shift = np.where(codes == 0, possible + 1, np.minimum(zeros, possible))
    numerators = (codes >> np.minimum(shift, 63)).tolist()
    if up:
        numerators = [code << up for code in numerators]
    denominators = np.array([*(1 << down - k for k in range(possible + 1)), 1], object)[shift].tolist()
    return np.fromiter(_of_terms(numerators, denominators), object, len(codes))


def _of_terms(numerators: list[int], denominators: list[int]) -> list[Fraction]:
    """Fractions of lowest terms by their two slots, several times faster than `Fraction(a, b)`, which looks
    for a common divisor; nor is garbage looked for while many are made, which would take as long again."""
    collects = gc.isenabled()
    gc.disable()
    try:
        made: list[Any] = list(map(object.__new__, repeat(Fraction, len(numerators))))
    finally:
        if collects:
            gc.enable()
    for one, numerator, denominator in zip(made, numerators, denominators, strict=True):
        one._numerator, one._denominator = numerator, denominator
    return made


def digits(codes: np.ndarray, bits: int, of: int) -> np.ndarray:
    """Each code's low `bits` bits (1 to 64) as lower-case digits of `of` bits each, an array of NumPy's
    strings, read-only: NumPy would cut a longer one that is put into it.

    of: 4, or 1 for binary
    """
    words = codes.reshape(-1, 1).astype(np.int64).view(np.uint64) & np.uint64((1 << bits) - 1)
    stored = words.astype(">u8").view(np.uint8)[:, 8 - -(-bits // 8) :]
    characters = _OF_BYTES[of][stored].view(np.uint32)  # each has 32 bits; zeros that no word has lead
    count = -(-bits // of)
    texts = np.ascontiguousarray(characters[:, characters.shape[1] - count :]).view(f"U{count}")
    texts.flags.writeable = False
    return texts.reshape(codes.shape)


def numbers(value: Any, where: str = "") -> np.ndarray:
    """An array, a number or nested lists of numbers as an array, of this machine's byte order.

    FormatError where NumPy would round: of [0.5, 2**53 + 1] it makes float64, which has not the second; and
    for a masked array. ShapeError for lists that are no tensor.
    """
    if hasattr(value, "__array__"):
        return bare(value, where)
    array, given, exact = _listed(value, where)
    if not exact.all():
        lost = given[np.unravel_index(np.argmin(exact), array.shape)]
        raise FormatError(
            f"{where or 'tensor'}: {lost} is no {array.dtype}, which the other numbers make of it"
        )
    return array


def comparable(value: Any) -> np.ndarray:
    """The same, but of lists that no type holds the numbers as they are, as objects."""
    if hasattr(value, "__array__"):
        return bare(value)
    array, given, exact = _listed(value, "")
    return array if exact.all() else given


def _listed(value: Any, where: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What NumPy makes of a number or of lists, the numbers as they are, and where both are the same."""
    if isinstance(value, list | tuple) and any(hasattr(one, "codes") for one in value):
        raise FormatError(
            f"{where or 'tensor'}: a list of tensors: np.stack or np.concatenate makes one of them"
        )
    try:
        array, given = np.asarray(value), np.array(value, object)
    except ValueError:
        raise ShapeError(f"{where or 'tensor'}: lists of a tensor have one length at each depth") from None
    if array.dtype.kind not in "biuf":
        return array, given, np.ones(array.shape, np.bool_)
    return array, given, np.asarray((array.astype(object) == given) | np.isnan(array), np.bool_)


def bare(array: Any, where: str = "") -> np.ndarray:
    """What has `__array__` as an ndarray, no class of its own, in this machine's byte order.

    NumPy computes np.matrix by other rules, and leaves out what a mask hides: FormatError for a masked array.
    """
    if isinstance(array, np.ma.MaskedArray):
        raise FormatError(
            f"{where or 'tensor'}: a masked array; nothing here knows masks: .filled(0) or .compressed() "
            "says what is meant"
        )
    found = np.asarray(array)
    return plain(found if found.dtype.isnative else found.astype(found.dtype.newbyteorder("=")))


def plain(values: np.ndarray) -> np.ndarray:
    """An array of package ml_dtypes as float32 or int8, which hold all its numbers; any other as it is."""
    if values.dtype.name in _ML_FLOATS:
        with np.errstate(invalid="ignore"):  # a signalling NaN is one too
            return values.astype(np.float32)
    return values.astype(np.int8) if values.dtype.name in _ML_INTEGERS else values


def cast(values: np.ndarray, dtype: Any, copy: bool | None) -> np.ndarray:
    """float64 `values` in another type, or as they are for None; NumberError where that is not exact.

    copy: as NumPy asks `__array__`; ValueError for False: values are made of codes, in an array of their own
    """
    if copy is False:
        raise ValueError("no array of values without a copy: a tensor holds codes, which q.raw() shows")
    if dtype is None:
        return values
    with np.errstate(over="ignore", invalid="ignore"):
        made = values.astype(dtype)
    if not np.array_equal(made.real.astype(np.float64), values, equal_nan=True):
        raise NumberError(f"not every value is exactly a {np.dtype(dtype)}; round it by a quantizer")
    return made


def exported(view: np.ndarray, how: dict[str, Any]) -> Any:
    """A read-only array by DLPack; BufferError for a reader that cannot be told that it is."""
    try:
        return view.__dlpack__(**how)
    except BufferError as error:
        raise BufferError(
            f"{error}: what reads this knows no read-only arrays; give it a copy, of q.raw()"
        ) from None


def truth(nonzero: np.ndarray) -> bool:
    """Of a tensor of one element whether it is not 0; ShapeError for others, which have no single truth."""
    if nonzero.size != 1:
        raise ShapeError(f"{nonzero.size:,} elements have no single truth: np.any(q), np.all(q) or q.size")
    return bool(nonzero.reshape(-1)[0])


def equal(values: np.ndarray, other: Any) -> Any:
    """float64 `values` == other, elementwise and exactly; NotImplemented for what is no number."""
    if hasattr(other, "codes"):  # a QTensor's may have more bits than float64
        return other == values
    found = other.to_float64() if hasattr(other, "to_float64") else comparable(other)
    if found.dtype == object and all(isinstance(one, int | float | Fraction) for one in found.flat):
        return np.asarray(values.astype(object) == found, np.bool_)  # Python compares these exactly
    if found.dtype.kind not in "biuf" or found.dtype.itemsize > 8:
        return NotImplemented
    if found.dtype.kind in "iu":  # beyond 2**53 a float64 may be another integer
        same = found.astype(np.float64).astype(object) == found.astype(object)
        return (values == found.astype(np.float64)) & same.astype(np.bool_)
    return values == found


def near(exponent: Any, what: str) -> Any:
    """An exponent, or an array of them in int64, which holds sums of two; NumberError for farther ones."""
    if not isinstance(exponent, np.ndarray):
        return exponent
    wide = exponent.astype(np.int64, copy=False)
    if wide.size and max(-int(wide.min()), int(wide.max())) >= FAR:
        raise NumberError(f"{what}: an exponent array reaches beyond 2^{FAR.bit_length() - 1}")
    return wide


def compare(
    operate: Callable[[Any, Any], Any], codes: np.ndarray, exponent: Any, values: np.ndarray, shift: Any = 0
) -> np.ndarray:
    """operate(codes * 2**exponent, values * 2**shift), elementwise, both broadcast; False for a NaN.

    Values beyond int64 and Fractions come as objects, with shift 0; other exponents are within FAR.
    NumberError for what is no number, or has more bits than float64.
    """
    if values.dtype in (np.dtype(object), np.dtype(np.uint64)):
        return np.asarray(operate(fractions(codes, exponent), values.astype(object)), np.bool_)
    if values.dtype.kind not in "biuf" or values.dtype.itemsize > 8:
        raise NumberError(
            f"a QTensor is compared with integers, Fractions and floats of 16 to 64 bits, not {values.dtype}"
        )
    finite = np.isfinite(values)
    exponent, shift = near(exponent, "comparison"), near(shift, "comparison")
    sign, power, size = _signed(codes, exponent)
    other, its_power, its_size = _signed(np.where(finite, values, 0), shift)
    # of one sign: the greater power of two, and of one power the greater magnitude
    larger = (power > its_power) | ((power == its_power) & (size > its_size))
    smaller = (power < its_power) | ((power == its_power) & (size < its_size))
    apart = (larger.astype(np.int8) - smaller) * sign
    apart = np.where(sign == other, apart, sign - other)
    apart = np.where(finite, apart, np.where(values > 0, -1, 1))
    return np.asarray(operate(apart, 0) & ~np.isnan(values))


def _signed(values: np.ndarray, exponent: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(sign, power, magnitude): values * 2**exponent = sign * magnitude * 2**power.

    A magnitude is from 2**63 to below 2**64; of 0 the sign alone counts. At most int64 and finite float64.
    """
    if values.dtype.kind == "f":
        mantissa, powers = np.frexp(values.astype(np.float64))
        values, exponent = np.ldexp(mantissa, 53).astype(np.int64), exponent + powers.astype(np.int64) - 53
    whole = values.astype(np.int64)
    size = np.abs(whole).view(np.uint64)  # of -2**63 too: abs wraps to the pattern of 2**63
    power = np.zeros(size.shape, np.int64)
    for step in (32, 16, 8, 4, 2, 1):
        small = size < np.uint64(1 << (64 - step))
        size = np.where(small, size << np.uint64(step), size)
        power = np.where(small, power - step, power)
    return np.sign(whole), np.where(whole == 0, 0, power + exponent), size
