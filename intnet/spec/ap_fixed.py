"""ap_fixed<W,I,Q,O,N> and ap_ufixed of HLS tools: W bits, W - I of them after the point, Q rounds, O limits.

    code = O(n),  n = Q(x * 2^(W - I)),  value = code * 2^-(W - I)

n = floor + f is rounded first, its range comes second. Where n is no code of W bits it overflows, and with v,
the low W bits of n, with s its sign, and with its bits of two's complement counted from 0:

    AP_WRAP, N = 0       v
    AP_WRAP, N > 0       v, the top N bits saturated: s, then N - 1 times not s; without a sign N ones
    AP_WRAP_SM, N = 0    v where bits W and W - 1 of n are equal; else v inverted, with bit W of n as its sign
    AP_WRAP_SM, N = 1    v where bit W - 1 is s; else v inverted
    AP_WRAP_SM, N > 1    v where bit W - N is not s, else v inverted; then the top N bits as of AP_WRAP
    AP_SAT, AP_SAT_SYM   the greatest or the least code; the latter without the least one of two's complement
    AP_SAT_ZERO          0

To AP_SAT_SYM -2^(W-1) itself is beyond; N is for the two that wrap. AP_WRAP_SM needs a sign, AP_SAT_SYM with
one needs W > 1. Sources: Vitis HLS user guide UG1399, "Arbitrary precision fixed-point data types", whose
names these are; IEEE 1666-2011, 7.10.9 (their origin, SystemC); where these are silent, `ap_fixed_base.h`.

>>> code(Fraction(5, 2), ApFixed(4, 4, "AP_RND_ZERO")), code(Fraction(9), ApFixed(4, 4, o="AP_SAT_ZERO"))
((2, False), (0, True))
>>> [code(Fraction(n), ApFixed(3, 3, o="AP_WRAP_SM"))[0] for n in range(9)]      # 3 and 4 mirror
[0, 1, 2, 3, 3, 2, 1, 0, -1]
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from intnet.spec.rounding import HALF, Mode, round_fraction
from intnet.spec.tensor import power


def ties_zero(floor: int, f: Fraction) -> bool:
    """f > 1/2, or f = 1/2 and floor < 0."""
    return f > HALF or (f == HALF and floor < 0)


def ties_neg(floor: int, f: Fraction) -> bool:
    """f > 1/2."""
    return f > HALF


ROUNDINGS: dict[str, Mode] = {
    "AP_RND": "ties_pos",
    "AP_RND_ZERO": ties_zero,
    "AP_RND_MIN_INF": ties_neg,
    "AP_RND_INF": "ties_away",
    "AP_RND_CONV": "ties_even",
    "AP_TRN": "to_neg",
    "AP_TRN_ZERO": "to_zero",
}
OVERFLOWS = ("AP_SAT", "AP_SAT_ZERO", "AP_SAT_SYM", "AP_WRAP", "AP_WRAP_SM")


@dataclass(frozen=True)
class ApFixed:
    """ap_fixed<w, i, q, o, n>; without `signed` ap_ufixed."""

    w: int
    i: int
    q: str = "AP_TRN"
    o: str = "AP_WRAP"
    n: int = 0
    signed: bool = True

    def limits(self) -> tuple[int, int]:
        """The least and the greatest code that do not overflow."""
        if not self.signed:
            return 0, 2**self.w - 1
        edge = 2 ** (self.w - 1) - 1
        return -edge - (self.o != "AP_SAT_SYM"), edge


def bit(n: int, place: int) -> int:
    """Of two's complement, without end."""
    return n >> place & 1


def code(x: Fraction | int, format: ApFixed) -> tuple[int, bool]:
    """(code, whether it overflowed) of an exact value."""
    n = round_fraction(Fraction(x) * power(format.w - format.i), ROUNDINGS[format.q])
    low, high = format.limits()
    if low <= n <= high:
        return n, False
    return limited(n, format), True


def limited(n: int, format: ApFixed) -> int:
    """The code of an n beyond the limits."""
    low, high = format.limits()
    if format.o == "AP_SAT_ZERO":
        return 0
    if format.o.startswith("AP_SAT"):
        return low if n < 0 else high
    v = wrapped(n, format) if format.o == "AP_WRAP" else mirrored(n, format)
    return v - 2**format.w if format.signed and bit(v, format.w - 1) else v


def wrapped(n: int, format: ApFixed) -> int:
    """AP_WRAP: W bits, the top N of them saturated."""
    v = n % 2**format.w
    return topped(v, n, format) if format.n else v


def topped(v: int, n: int, format: ApFixed) -> int:
    """v with its top N bits saturated: the sign of n, then its opposite; without a sign ones."""
    rest = 2 ** (format.w - format.n)
    ones = 2**format.w - rest
    if not format.signed:
        return v % rest + ones
    return v % rest + (2 ** (format.w - 1) if n < 0 else ones - 2 ** (format.w - 1))


def mirrored(n: int, format: ApFixed) -> int:
    """AP_WRAP_SM with a sign: v, or v inverted, so that values run back where they meet an end."""
    w, sign, v = format.w, int(n < 0), n % 2**format.w
    inverted = 2**w - 1 - v
    if format.n == 0:
        return v if bit(n, w) == bit(n, w - 1) else inverted
    if format.n == 1:
        return v if bit(n, w - 1) == sign else inverted
    return topped(inverted if bit(n, w - format.n) == sign else v, n, format)
