"""What codes stand for, exactly: fractions, digits, and which values are equal.

    fractions(codes, exponent)            array of Fraction: codes * 2**exponent
    digits(codes, bits, 4)                array of str: two's complement of `bits` bits in hex; 1 for binary
    equal(codes, exponent, values)        elementwise, as bools
    odd, power = odd_parts(values)        values = odd * 2**power, a dyadic number's one form (0: 0 * 2**0)

`exponent` is an int, or an int array that broadcasts against the codes.
"""

from fractions import Fraction
from typing import Any

import numpy as np

from intnet.errors import NumberError

_MANTISSA = 53  # bits of a float64's
_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)


def fractions(codes: np.ndarray, exponent: Any) -> np.ndarray:
    """The values as an object array of codes' shape. Equal values are one object: codes repeat."""
    out = np.empty(codes.shape, object)
    exponents = np.broadcast_to(np.asarray(exponent), codes.shape)
    for one in np.unique(exponents).tolist():
        where = exponents == one
        distinct, places = np.unique(codes[where], return_inverse=True)
        if one >= 0:
            values = [Fraction(code << one) for code in distinct.tolist()]
        else:
            values = [Fraction(code, 1 << -one) for code in distinct.tolist()]
        made = np.empty(len(values), object)
        made[:] = values
        out[where] = made[places.reshape(-1)]
    return out


def digits(codes: np.ndarray, bits: int, of: int) -> np.ndarray:
    """Each code's low `bits` bits (1 to 64) as lower-case digits of `of` bits each, in an object array."""
    count = -(-bits // of)
    words = codes.astype(np.int64).view(np.uint64) & np.uint64((1 << bits) - 1)
    text = np.empty((*codes.shape, count), np.uint8)
    for place in range(count):
        part = words >> np.uint64(of * (count - 1 - place))
        text[..., place] = _DIGITS[part & np.uint64((1 << of) - 1)]
    return text.view(f"S{count}")[..., 0].astype(str).astype(object)


def odd_parts(values: np.ndarray, exponent: Any = 0) -> tuple[np.ndarray, np.ndarray]:
    """(odd, power), int64: values * 2**exponent = odd * 2**power. Takes int64 and finite float64 at most."""
    if values.dtype.kind == "f":
        scaled, power = np.frexp(values.astype(np.float64))
        whole, exponent = (
            np.ldexp(scaled, _MANTISSA).astype(np.int64),
            exponent + power.astype(np.int64) - _MANTISSA,
        )
    else:
        whole = values.astype(np.int64)
    lowest = (whole & -whole).view(np.uint64).astype(np.float64)  # a power of two, or 0
    zeros = np.maximum(np.frexp(lowest)[1].astype(np.int64) - 1, 0)
    return whole >> zeros, np.where(whole == 0, 0, zeros + exponent)


def equal(codes: np.ndarray, exponent: Any, values: np.ndarray, shift: Any = 0) -> np.ndarray:
    """Whether codes * 2**exponent is values * 2**shift, elementwise, both broadcast.

    A NaN and an infinity equal nothing. Values beyond int64 and Fractions come as objects, with shift 0.
    NumberError for what is no number, or has more bits than float64.
    """
    if values.dtype in (np.dtype(object), np.dtype(np.uint64)):
        return np.asarray(fractions(codes, exponent) == values.astype(object), np.bool_)
    if values.dtype.kind not in "biuf" or values.dtype.itemsize > 8:
        raise NumberError(
            f"a QTensor is compared with integers, Fractions and floats of 16 to 64 bits, not {values.dtype}"
        )
    finite = np.isfinite(values)
    mine, theirs = odd_parts(codes, exponent), odd_parts(np.where(finite, values, 0), shift)
    return np.asarray(finite & (mine[0] == theirs[0]) & (mine[1] == theirs[1]))
