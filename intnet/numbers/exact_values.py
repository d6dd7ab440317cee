"""What codes stand for, exactly: fractions, digits, and how values compare.

    fractions(codes, exponent)            array of Fraction: codes * 2**exponent
    digits(codes, bits, 4)                array of str: two's complement of `bits` bits in hex; 1 for binary
    cast(values, np.float32)              the same numbers in another type, or an error
    compare(lt, codes, exponent, values)  elementwise, as bools, by a comparison of module `operator`

`exponent` is an int, or an int array that broadcasts against the codes.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from intnet.errors import NumberError

_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
_MANY = 1 << 16  # at most so many words are made once and looked up: all of 16 bits


def fractions(codes: np.ndarray, exponent: Any) -> np.ndarray:
    """The values as an object array of codes' shape. Equal values are one object: codes repeat."""
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
    distinct, places = _distinct(codes)
    up, den = 1 << max(exponent, 0), 1 << max(-exponent, 0)
    made = np.empty(len(distinct), object)
    made[:] = [Fraction(code * up, den) for code in distinct.tolist()]
    return made[places]


def _distinct(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Integers among which all flat codes are, and the place of each."""
    least, most = (int(codes.min()), int(codes.max())) if codes.size else (0, -1)
    if most - least < min(_MANY, codes.size):
        return np.arange(least, most + 1), codes.astype(np.int64) - least
    distinct, places = np.unique(codes, return_inverse=True)
    return distinct, places.reshape(-1)


def digits(codes: np.ndarray, bits: int, of: int) -> np.ndarray:
    """Each code's low `bits` bits (1 to 64) as lower-case digits of `of` bits each, in an object array."""
    words = codes.astype(np.int64).view(np.uint64) & np.uint64((1 << bits) - 1)
    if 1 << bits <= min(_MANY, words.size):
        return _digits(np.arange(1 << bits, dtype=np.uint64), bits, of)[words]
    return _digits(words, bits, of)


def _digits(words: np.ndarray, bits: int, of: int) -> np.ndarray:
    count = -(-bits // of)
    text = np.empty((*words.shape, count), np.uint8)
    for place in range(count):
        part = words >> np.uint64(of * (count - 1 - place))
        text[..., place] = _DIGITS[part & np.uint64((1 << of) - 1)]
    return text.view(f"S{count}")[..., 0].astype(str).astype(object)


def cast(values: np.ndarray, dtype: Any) -> np.ndarray:
    """float64 `values` in another type, or as they are for None; NumberError where that is not exact."""
    if dtype is None:
        return values
    with np.errstate(over="ignore", invalid="ignore"):
        made = values.astype(dtype)
    if not np.array_equal(made.astype(np.float64), values, equal_nan=True):
        raise NumberError(f"not every value is exactly a {np.dtype(dtype)}; round it by a quantizer")
    return made


def equal(values: np.ndarray, other: Any) -> Any:
    """float64 `values` == other, elementwise and exactly; NotImplemented for what is no number."""
    found = other.to_float64() if hasattr(other, "to_float64") else np.asarray(other)
    if found.dtype.kind not in "biuf" or found.dtype.itemsize > 8:
        return NotImplemented
    if found.dtype.kind in "iu":  # beyond 2**53 a float64 may be another integer
        same = found.astype(np.float64).astype(object) == found.astype(object)
        return (values == found.astype(np.float64)) & same.astype(np.bool_)
    return values == found


def compare(
    operate: Callable[[Any, Any], Any], codes: np.ndarray, exponent: Any, values: np.ndarray, shift: Any = 0
) -> np.ndarray:
    """operate(codes * 2**exponent, values * 2**shift), elementwise, both broadcast; False for a NaN.

    Values beyond int64 and Fractions come as objects, with shift 0.
    NumberError for what is no number, or has more bits than float64.
    """
    if values.dtype in (np.dtype(object), np.dtype(np.uint64)):
        return np.asarray(operate(fractions(codes, exponent), values.astype(object)), np.bool_)
    if values.dtype.kind not in "biuf" or values.dtype.itemsize > 8:
        raise NumberError(
            f"a QTensor is compared with integers, Fractions and floats of 16 to 64 bits, not {values.dtype}"
        )
    finite = np.isfinite(values)
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
