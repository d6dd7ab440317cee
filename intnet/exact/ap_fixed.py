"""ap_fixed: one rounding by the type's own mode, then its overflow on the bits of two's complement.

A rounded value is kept in its low 64 bits, beyond which no overflow of up to 32 bits looks; whether it did
overflow, its length says.

Defined by `spec/ap_fixed.py: code`.
"""

import numpy as np

from intnet.errors import ContainerError
from intnet.exact.parts import TIES_NEG, TIES_ZERO, Parts, bit_length, check_numbers, rounded
from intnet.numbers.ap_fixed import ApFixed
from intnet.numbers.qtensor import QTensor, Status, container
from intnet.numbers.rounding import TIES_AWAY, TIES_EVEN, TIES_POS, TO_NEG, TO_ZERO, Rounding

MODES = {
    "AP_RND": TIES_POS,
    "AP_RND_ZERO": TIES_ZERO,
    "AP_RND_MIN_INF": TIES_NEG,
    "AP_RND_INF": TIES_AWAY,
    "AP_RND_CONV": TIES_EVEN,
    "AP_TRN": TO_NEG,
    "AP_TRN_ZERO": TO_ZERO,
}


def quantize(x: Parts, format: ApFixed, rounding: Rounding) -> QTensor:
    """`x` in ap_fixed, by the type's own rounding mode.

    Defined by `spec/ap_fixed.py: code`.
    """
    check_numbers(x, rounding.where, f"{format} has no code for it")
    if (x.size >> np.uint64(62) != 0).any():
        raise ContainerError(f"{rounding.where or 'quantize'}: {format} is made of codes of at most 62 bits")
    drop = format.exponent - x.exponent
    kept, some = rounded(x.negative, x.size, drop, Rounding(MODES[format.q]), np.zeros(0, np.uint64))
    n = np.where(x.negative, ~kept + np.uint64(1), kept).view(np.int64)  # low 64 bits of two's complement
    far = (x.size != 0) & (bit_length(x.size) - drop > 62)
    over = far | (n < format.lo) | (n > format.hi)
    codes = np.where(over, _limited(n, x.negative, format), n)
    bound = max(-format.lo, format.hi)
    status = Status(int(over.sum()), int(some.sum()), n.size)
    return QTensor(
        codes.astype(container(max(-format.lo - 1, format.hi))), format.exponent, format, bound, status
    )


def _limited(n: np.ndarray, negative: np.ndarray, format: ApFixed) -> np.ndarray:
    """Codes of what overflowed, from its low bits and its sign. Defined by `spec/ap_fixed.py: limited`."""
    w, all_ones = format.w, (1 << format.w) - 1
    if format.o == "AP_SAT_ZERO":
        return np.zeros_like(n)
    if format.o.startswith("AP_SAT"):
        return np.where(negative, format.lo, format.hi)
    v = n & all_ones
    if format.o == "AP_WRAP_SM":
        place = w - max(format.n, 1)
        bit = n >> place & 1
        turn = bit == negative if format.n > 1 else bit != (negative if format.n else n >> w & 1)
        v = np.where(turn, all_ones - v, v)
    if format.n > 1 or (format.n and format.o == "AP_WRAP"):
        rest = 1 << (w - format.n)
        top, ones = 1 << (w - 1), (1 << w) - rest
        v = v % rest + (np.where(negative, top, ones - top) if format.signed else ones)
    return v - ((v >> (w - 1) & 1) << w) if format.signed else v
