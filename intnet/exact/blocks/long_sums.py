"""Sums of integers whose exponents lie far apart: exact at any distance, then one rounding to float32.

A sum is held in digits of 30 bits, each in an int64 with room for carries:

    value = (sum of digit[k] * 2**(30 k)) * 2**least        digits of either sign until they are read

It is the last resort of `ops/blocks.py` where no bound proves that int64 holds a sum of products, so it
is plain: a pass over all digits for what is added, one for the rounding.
"""

import numpy as np

from intnet.errors import NumberError
from intnet.exact.loops import nearest_float32
from intnet.machine.jit import pjit, prange
from intnet.numbers import shares

_BITS = 30
_MASK = (1 << _BITS) - 1


@pjit
def _add(team: int, codes: np.ndarray, shift: int, digits: np.ndarray) -> None:
    """digits[i] += codes[i] * 2**shift; |codes| < 2**62, whose sign goes to the fourth digit."""
    first, inner = shift // _BITS, shift % _BITS
    for i in prange(team, codes.shape[0]):
        line, rest = digits[i], np.int64(codes[i])
        for k in range(first, first + 3):
            part = (rest & _MASK) << inner
            line[k] += part & _MASK
            line[k + 1] += part >> _BITS
            rest = rest >> _BITS
        line[first + 3] += rest << inner


@pjit
def _round(team: int, digits: np.ndarray, units: np.ndarray, out: np.ndarray) -> None:
    """out[i] = the value of digits[i] in float32, rounded once; units[k] is what digit k counts.

    The digits become those of the magnitude. The two at its top hold 31 bits or more; all below them
    only say whether the value is more than those two, which their last bit remembers.
    """
    n = digits.shape[1]
    for i in prange(team, digits.shape[0]):
        line, carry = digits[i], np.int64(0)
        for k in range(n):
            total = line[k] + carry
            line[k] = total & _MASK
            carry = total >> _BITS
        negative = carry < 0
        if negative:  # two's complement: -x = ~x + 1
            carry = np.int64(1)
            for k in range(n):
                total = (line[k] ^ _MASK) + carry
                line[k] = total & _MASK
                carry = total >> _BITS
        top = n - 1
        while top > 1 and line[top] == 0:
            top -= 1
        num = (line[top] << _BITS) | line[top - 1]
        for k in range(top - 1):
            num |= np.int64(line[k] != 0)
        out[i] = nearest_float32(-num if negative else num, units[top - 1])


class LongSum:
    """A tensor of exact sums of codes at exponents from `least` to `greatest`; zero at first.

    At most 2**28 additions of codes below 2**62; exponents within +-700, where float64 is normal.
    """

    def __init__(self, shape: tuple[int, ...], least: int, greatest: int) -> None:
        self.shape, self.least, self.greatest = shape, least, greatest
        count = (greatest - least) // _BITS + 4
        self._digits = np.zeros((int(np.prod(shape)), count), np.int64)

    def add(self, codes: np.ndarray, exponent: int) -> None:
        """Add codes * 2**exponent, element by element."""
        assert self.least <= exponent <= self.greatest and codes.shape == self.shape
        _add(np.ascontiguousarray(codes).reshape(-1), exponent - self.least, self._digits)

    def meet(self) -> None:
        """Become the sum over all ranks, which have sums of the same exponents."""
        self._digits = shares.totals(self._digits)

    def to_float32(self, where: str = "") -> np.ndarray:
        """float32 array, each sum correctly rounded once (ties to even); it may be read once.

        NumberError where one is beyond float32's range.
        """
        count = self._digits.shape[1]
        units = np.ldexp(1.0, self.least + _BITS * np.arange(count))
        out = np.empty(len(self._digits), np.float32)
        with np.errstate(over="ignore"):
            _round(self._digits, units, out)
        if not np.all(np.isfinite(out)):
            raise NumberError(f"{where or 'sum'}: a value is beyond float32's range")
        return out.reshape(self.shape)
