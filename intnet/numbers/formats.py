"""Number formats as plain data: what codes a data path may hold, and what they mean.

A format never computes. `value = code * 2**exponent`; the exponent is the format's own (fixed
point, direct) or is set by the extremes of the tensor (shift, flag, scaled), or of a block of it (block
float), when it is quantized. `exact/quantize.py` applies formats, `exact/blocks/block_float.py` the last of
them; `numbers/qtensor.py` holds the result.

    FixedPoint(wl, fl)   <WL,FL>: wl bits with the sign, exponent -fl, range by `overflow`
    Direct(k)            Q(., k) of WAGEUBN Eq. 6: exponent -(k-1), resolution fixed, range not
    Shift(k)             SQ of Eq. 8: k bits, exponent from R(x), symmetric range
    Flag(k)              Flag-QE2 of Eq. 17: two resolutions a factor 2**(k-1) apart, k+1 bits stored
    Constant(k, dr)      CQ of Eq. 7: k = kGC bits, codes within +-(dr-1), magnitude normalised away
    Scaled(wl)           MuPPET's block float: wl bits, a power-of-two scale from the tensor's extremes
    BlockFloat(b)        DYNASTY's: mantissas of up to b bits, an exponent for each block of 4x4

A format of one's own is an `OwnFormat` or `Levels` (`numbers/own_formats.py`), given a name by `register`.
"""

import re
from dataclasses import dataclass, is_dataclass
from typing import Any

from intnet.errors import FormatError
from intnet.numbers.ap_fixed import ApFixed
from intnet.numbers.own_formats import Levels, OwnFormat
from intnet.numbers.widths import MAX_BITS, check_bits, check_exponent, check_signed
from intnet.plugins import Registry

__all__ = [
    "BF", "BFP", "CQ", "FORMATS", "MAX_BITS", "OVERFLOWS", "SQ", "BlockFloat", "Constant", "Direct",
    "FixedPoint", "Flag", "FlagQ", "Format", "Levels", "OwnFormat", "Q", "Scaled", "Shift", "check_bits",
    "check_exponent", "kind_of", "register",
]  # fmt: skip

OVERFLOWS = ("saturate", "saturate_symmetric", "wrap", "error")


@dataclass(frozen=True)
class FixedPoint:
    """<WL,FL>: `wl` bits in all (with the sign, if any), `fl` of them after the point.

    signed:   range [-2^(wl-1), 2^(wl-1)-1] * 2^-fl, else [0, 2^wl - 1] * 2^-fl
    overflow: saturate | saturate_symmetric (drops the most negative code) | wrap | error

    Defined by `spec/formats.py: FixedPoint`.
    """

    wl: int
    fl: int
    signed: bool = True
    overflow: str = "saturate"

    def __post_init__(self) -> None:
        check_bits(self.wl, "FixedPoint wl")
        check_signed(self.signed, "FixedPoint")
        check_exponent(self.fl, "FixedPoint fl")
        if self.overflow not in OVERFLOWS:
            raise FormatError(f"unknown overflow {self.overflow!r}; use one of {', '.join(OVERFLOWS)}")

    @classmethod
    def from_q(cls, text: str) -> "FixedPoint":
        """From Q notation 'Qm.n': m integer bits WITHOUT the sign, n fraction bits; wl = 1 + m + n."""
        match = re.fullmatch(r"Q(\d+)\.(\d+)", text)
        if match is None:
            raise FormatError(f"{text!r} is not Q notation; write for example 'Q3.4' (8 bits, sign apart)")
        m, n = int(match[1]), int(match[2])
        return cls(1 + m + n, n)

    @classmethod
    def from_ap_fixed(cls, w: int, i: int) -> "FixedPoint":
        """From ap_fixed<W, I> of HLS tools: I counts the sign; fl = W - I."""
        return cls(w, w - i)

    @property
    def bits(self) -> int:
        """Nominal stored bits of an element."""
        return self.wl

    @property
    def exponent(self) -> int:
        """log2 of the value of code 1."""
        return -self.fl

    @property
    def lo(self) -> int:
        """The smallest code."""
        if not self.signed:
            return 0
        return -(1 << (self.wl - 1)) + (self.overflow == "saturate_symmetric")

    @property
    def hi(self) -> int:
        """The largest code."""
        return (1 << (self.wl - self.signed)) - 1

    def __str__(self) -> str:
        return f"<{self.wl},{self.fl}>" + ("" if self.signed else " unsigned")


@dataclass(frozen=True)
class Direct:
    """Q(x, k) = round(x * 2^(k-1)) / 2^(k-1): the resolution is fixed, the range is not (Eq. 6).

    lsb: log2 of the resolution where it is not -(k-1)

    Defined by `spec/formats.py: Direct`.
    """

    k: int
    lsb: int | None = None

    def __post_init__(self) -> None:
        check_bits(self.k, "Direct k")
        if self.lsb is not None:
            check_exponent(self.lsb, "Direct lsb")

    @property
    def bits(self) -> int:
        """Nominal bits; the codes may need more, and reports say how many they did need."""
        return self.k

    @property
    def exponent(self) -> int:
        """log2 of the value of code 1."""
        return -(self.k - 1) if self.lsb is None else self.lsb

    def __str__(self) -> str:
        return f"Q(.,{self.k})"


@dataclass(frozen=True)
class Shift:
    """SQ(x, k) = R(x) * clip(Q(x/R(x), k), -1+d, 1-d), d = 2^-(k-1) (Eq. 8).

    Defined by `spec/formats.py: Shift`.
    """

    k: int

    def __post_init__(self) -> None:
        check_bits(self.k, "Shift k")

    @property
    def bits(self) -> int:
        """Nominal stored bits of an element."""
        return self.k

    @property
    def hi(self) -> int:
        """The largest code magnitude; the most negative code is not used."""
        return (1 << (self.k - 1)) - 1

    def __str__(self) -> str:
        return f"SQ(.,{self.k})"


@dataclass(frozen=True)
class Flag:
    """Flag-QE2 (Eq. 17): Sc = R(x)/2^(k-1); |x| >= Sc on the grid Sc, below it on the grid Sc/2^(k-1).

    One code at exponent log2(Sc) - (k-1) holds both. A stored word has k + 1 bits: flag, sign, and
    k - 1 bits of magnitude.

    Defined by `spec/formats.py: Flag`.
    """

    k: int

    def __post_init__(self) -> None:
        check_bits(self.k, "Flag k")
        if self.k < 2:
            raise FormatError("Flag k = 1 has no magnitude bits; use 2 or more")

    @property
    def bits(self) -> int:
        """Stored bits of an element: flag, sign, magnitude."""
        return self.k + 1

    @property
    def fine(self) -> int:
        """log2 of the step between the two grids."""
        return self.k - 1

    @property
    def hi(self) -> int:
        """The largest code magnitude (on the fine grid)."""
        return ((1 << self.fine) - 1) << self.fine

    def __str__(self) -> str:
        return f"Flag-Q({self.k}+1)"


@dataclass(frozen=True)
class Constant:
    """CQ (Eq. 7): clip(Sr(dr * x / R(x)), -dr+1, dr-1) / 2^(k-1), Sr stochastic, dr a power of two.

    Defined by `spec/formats.py: Constant`.
    """

    k: int
    dr: int

    def __post_init__(self) -> None:
        check_bits(self.k, "Constant k")
        check_exponent(self.dr, "Constant dr")
        if self.dr < 1 or self.dr & (self.dr - 1):
            raise FormatError(f"dr = {self.dr} is not a power of two: Eq. 7 takes 2^(k-1), 2^(k-2), ..., 1")

    @property
    def bits(self) -> int:
        """Nominal stored bits of an element: codes lie within +-(dr-1)."""
        return max(1, self.dr.bit_length())

    @property
    def exponent(self) -> int:
        """log2 of the value of code 1."""
        return -(self.k - 1)

    @property
    def hi(self) -> int:
        """The largest code magnitude."""
        return self.dr - 1

    def __str__(self) -> str:
        return f"CQ(dr={self.dr})"


@dataclass(frozen=True)
class Scaled:
    """Block float of MuPPET: codes of `wl` bits in [LB, UB] = [-2^(wl-1), 2^(wl-1) - 1], value = code * 2^-s.

    s = floor(log2(min((UB + 1/2)/max x, (LB - 1/2)/min x))); a maximum <= 0 or a minimum >= 0 does not bind.

    Defined by `spec/formats.py: Scaled`.
    """

    wl: int

    def __post_init__(self) -> None:
        check_bits(self.wl, "Scaled wl")

    @property
    def bits(self) -> int:
        """Nominal stored bits of an element."""
        return self.wl

    @property
    def lo(self) -> int:
        """LB, the smallest code."""
        return -(1 << (self.wl - 1))

    @property
    def hi(self) -> int:
        """UB, the largest code."""
        return (1 << (self.wl - 1)) - 1

    def __str__(self) -> str:
        return f"BF({self.wl})"


@dataclass(frozen=True)
class BlockFloat:
    """DYNASTY's: mantissas of up to `b` bits with their sign, one exponent a block of 4x4.

    Rounded by `exact/blocks/block_float.py`.

    b: of the widest block, 0 where all are zeros; within +-(2^(b-1) - 1)
    axis: blocks are 4 along the first axis and along this one

    Defined by `spec/block_float.py: quantize`.
    """

    b: int
    axis: int = 1

    def __post_init__(self) -> None:
        if self.b:
            check_bits(self.b, "BlockFloat b")

    @property
    def bits(self) -> int:
        """Nominal stored bits of a mantissa."""
        return self.b

    @property
    def hi(self) -> int:
        """The largest code magnitude."""
        return (1 << max(self.b - 1, 0)) - 1

    def __str__(self) -> str:
        return f"BFP({self.b})"


# As the papers write them.
Q, SQ, FlagQ, CQ, BF, BFP = Direct, Shift, Flag, Constant, Scaled, BlockFloat

Format = FixedPoint | Direct | Shift | Flag | Constant | Scaled | BlockFloat | OwnFormat | ApFixed


def _check(name: str, cls: Any) -> None:
    """FormatError for what is no format of a user's own: data that cannot change, with a rule."""
    if not (isinstance(cls, type) and issubclass(cls, OwnFormat)):
        raise FormatError(f"format {name!r}: register a class that derives from OwnFormat or Levels")
    if not is_dataclass(cls) or not cls.__dataclass_params__.frozen:
        raise FormatError(f"format {name!r}: put @dataclass(frozen=True) between register and the class")


_KNOWN: dict[str, type] = {
    cls.__name__: cls for cls in (FixedPoint, Direct, Shift, Flag, Constant, Scaled, BlockFloat)
}
FORMATS = Registry("format", _KNOWN, _check)
register = FORMATS.register


def kind_of(format: Format) -> str:
    """The name of its class in `FORMATS`; FormatError for one that is not registered."""
    for name, cls in FORMATS.items():
        if cls is type(format):
            return name
    if isinstance(format, ApFixed):
        raise FormatError(f"{format} is for tensors by themselves: methods and packs take FixedPoint")
    if isinstance(format, type) or not hasattr(type(format), "__dataclass_fields__"):
        raise FormatError(
            f"{format!r} is no format: FixedPoint(8, 6) is one, of 8 bits, 6 of them of the fraction"
        )
    raise FormatError(
        f"{format!r} is no format that intnet knows: put @formats.register('NAME') before its class, which "
        "derives from OwnFormat or Levels"
    )
