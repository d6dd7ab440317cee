"""ap_fixed and ap_ufixed of HLS tools as plain data, by the tools' own names.

    ApFixed(8, 4, "AP_RND", "AP_SAT")        ap_fixed<8, 4, AP_RND, AP_SAT>
    ApFixed.parse("ap_ufixed<8,4,AP_TRN,AP_WRAP,2>")

The type has its rounding in it, so `quantize(x, ApFixed(..))` takes no other. Rounding and range are in
`exact/ap_fixed.py`.

Defined by `spec/ap_fixed.py: ApFixed`.
"""

import re
from dataclasses import dataclass

from intnet.errors import FormatError
from intnet.numbers.widths import check_bits, check_exponent, check_signed

ROUNDINGS = ("AP_RND", "AP_RND_ZERO", "AP_RND_MIN_INF", "AP_RND_INF", "AP_RND_CONV", "AP_TRN", "AP_TRN_ZERO")
OVERFLOWS = ("AP_SAT", "AP_SAT_ZERO", "AP_SAT_SYM", "AP_WRAP", "AP_WRAP_SM")


@dataclass(frozen=True)
class ApFixed:
    """`w` bits with the sign, if any, of which `i` stand ahead of the point; the defaults are the tools'.

    q: rounding: AP_RND | AP_RND_ZERO | AP_RND_MIN_INF | AP_RND_INF | AP_RND_CONV | AP_TRN | AP_TRN_ZERO
    o: overflow: AP_SAT | AP_SAT_ZERO | AP_SAT_SYM | AP_WRAP | AP_WRAP_SM
    n: bits that AP_WRAP and AP_WRAP_SM saturate

    Defined by `spec/ap_fixed.py: ApFixed`.
    """

    w: int
    i: int
    q: str = "AP_TRN"
    o: str = "AP_WRAP"
    n: int = 0
    signed: bool = True

    def __post_init__(self) -> None:
        check_bits(self.w, "ApFixed w")
        check_exponent(self.i, "ApFixed i")
        check_signed(self.signed, "ApFixed")
        for name, known in ((self.q, ROUNDINGS), (self.o, OVERFLOWS)):
            if name not in known:
                raise FormatError(f"ApFixed has no mode {name!r}; use one of {', '.join(known)}")
        if isinstance(self.n, bool) or not isinstance(self.n, int) or not 0 <= self.n <= self.w:
            raise FormatError(f"ApFixed n = {self.n!r}: of {self.w} bits 0 to {self.w} are saturated")
        if self.n and not self.o.startswith("AP_WRAP"):
            raise FormatError(f"ApFixed n = {self.n}: {self.o} wraps no bits; leave n out")
        if self.o == "AP_WRAP_SM" and not self.signed:
            raise FormatError(
                "ApFixed: AP_WRAP_SM mirrors at a sign, which ap_ufixed has not (nor have the tools)"
            )
        if self.o == "AP_SAT_SYM" and self.signed and self.w == 1:
            raise FormatError("ApFixed: one bit with a sign has no symmetric range; use AP_SAT")

    @classmethod
    def parse(cls, text: str) -> "ApFixed":
        """From the type as C++ writes it; FormatError for what is none."""
        pattern = r"ap_(u?)fixed<(\d+),(-?\d+)(?:,(\w+))?(?:,(\w+))?(?:,(\d+))?>"
        found = re.fullmatch(pattern, text.replace(" ", ""))
        if found is None:
            raise FormatError(f"{text!r} is no type such as 'ap_fixed<8, 4, AP_RND, AP_SAT>'")
        unsigned, w, i, q, o, n = found.groups()
        return cls(int(w), int(i), q or cls.q, o or cls.o, int(n or 0), not unsigned)

    @property
    def bits(self) -> int:
        """Stored bits of an element."""
        return self.w

    @property
    def exponent(self) -> int:
        """log2 of the value of code 1."""
        return self.i - self.w

    @property
    def lo(self) -> int:
        """The least code that does not overflow."""
        if not self.signed:
            return 0
        return -(1 << (self.w - 1)) + (self.o == "AP_SAT_SYM")

    @property
    def hi(self) -> int:
        """The greatest code."""
        return (1 << (self.w - self.signed)) - 1

    def __str__(self) -> str:
        more = f",{self.n}" if self.n else ""
        return f"ap_{'' if self.signed else 'u'}fixed<{self.w},{self.i},{self.q},{self.o}{more}>"
