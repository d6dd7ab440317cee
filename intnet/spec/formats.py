"""Number formats: what a whole tensor decides (its grid), and what one element does on that grid.

Which stands on which path says `Step.format_of` of a method: of `spec.methods.wageubn`, `adapt`, `muppet`.

    (6)   Q(x, k)   = round(x * 2^(k-1)) / 2^(k-1)                                    Direct
    (7)   CQ(x)     = clip(Sr(dr * x / R(x)), -dr + 1, dr - 1) / 2^(kGC-1)            Constant
    (8)   SQ(x, k)  = R(x) * clip(Q(x / R(x), k), -1 + d, 1 - d), d = 2^-(k-1)        Shift
          R(x)      = 2^round(log2(max|x|))
    (17)  Flag-QE2  : two grids, Sc = R(x) / 2^(k-1) and Sc / 2^(k-1)                 Flag
          <WL,FL>   : WL bits with the sign, FL of them after the point              FixedPoint
          BF(x, WL) = clip(round(x * 2^s), LB, UB) * 2^-s                             Scaled

Numbers in brackets are equations of WAGEUBN (Yang et al. 2020); <WL,FL> is AdaPT's (Kummer et al. 2023, SR of
sec. 3.1), BF is MuPPET's (Rajagopal et al. 2020) as AdaPT's first version retells it in its sec. 2.2.

A format is data; its RULE tells it in words, as golden packs print it. `grid` is the one number that it takes
from a tensor; `code` rounds the exact value of one element once and limits the code, so any element can be
computed again from its value and the grid alone:

>>> shift = Shift(8)
>>> grid = shift.grid([Fraction(3), Fraction(-1, 100)])      # log2 R: 3 lies above sqrt(2) * 2
>>> grid, shift.exponent(grid), shift.code(Fraction(3), grid)
(2, -5, (96, False))
>>> quantize([Fraction(3), Fraction(-1, 100)], shift)
Quantized(codes=[96, 0], exponent=-5, saturated=0)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, NamedTuple

from intnet.spec.rounding import HALF, Decision, Mode, decision, overflow, root_decision
from intnet.spec.tensor import log2_floor, power

Exact = Fraction | int
Limits = tuple[int, int, str]  # least and greatest code, and a name of `rounding.OVERFLOWS`
RULE_R = (
    "R(x) = 2^n, n = round(log2 max abs(x)) over the whole tensor: 2^(2n-1) <= max^2 < 2^(2n+1); R(0) = 1."
)


class Quantized(NamedTuple):
    """value = code * 2^exponent; `saturated` counts the codes that the range changed."""

    codes: list[int]
    exponent: int
    saturated: int


class Way(NamedTuple):
    """How one element became its code: rounded in units of `step`, then limited.

    limits: of the rounded integer; lift: codes a step, more than 1 on the flag format's coarse grid
    levels: of codes that are not equidistant, the code that each integer numbers
    """

    step: Fraction
    decision: Decision
    limits: Limits | None
    lift: int = 1
    levels: Mapping[int, int] | None = None

    @property
    def kept(self) -> int:
        """The rounded integer within the range: the second step, after rounding."""
        return self.decision.rounded if self.limits is None else overflow(self.decision.rounded, *self.limits)

    @property
    def saturated(self) -> bool:
        """Whether the range changed it."""
        return self.kept != self.decision.rounded

    @property
    def code(self) -> int:
        """What is stored."""
        return self.kept * self.lift if self.levels is None else self.levels[self.kept]


# -- what a tensor decides -------------------------------------------------------------------------


def log2_R(largest: Exact) -> int:
    """round(log2(largest)) of R(x), (7), (8), (17): the n with 2^(2n-1) <= largest^2 < 2^(2n+1).

    There is no tie, as sqrt(2) is irrational. An all-zero tensor has R = 1, n = 0.

    >>> log2_R(741455), log2_R(741456)      # both neighbours of sqrt(2) * 2^19
    (19, 20)
    """
    if largest < 0:
        raise ValueError(f"a largest magnitude is not negative, got {largest}")
    if largest == 0:
        return 0
    return (log2_floor(Fraction(largest) ** 2) + 1) // 2


def exponent_of(xs: Sequence[Exact]) -> int:
    """log2 of R over a whole list; ValueError where it is empty."""
    least, greatest = extremes(xs)
    return log2_R(max(-Fraction(least), Fraction(greatest)))


def extremes(xs: Sequence[Exact]) -> tuple[Fraction, Fraction]:
    """(least, greatest) of a list; ValueError where it is empty."""
    if not xs:
        raise ValueError("the largest magnitude of an empty tensor")
    return Fraction(min(xs)), Fraction(max(xs))


# -- formats ---------------------------------------------------------------------------------------


def check_bits(bits: int, least: int = 1) -> None:
    """ValueError where a width is no whole number of bits, or of fewer than the format needs."""
    if not isinstance(bits, int) or bits < least:
        raise ValueError(f"a width is a whole number of bits, {least} or more, got {bits!r}")


class Format:
    """What all formats share. `grid` is an integer; what it means, the format says."""

    def grid_of(self, least: Exact, greatest: Exact) -> int:
        """The grid of a tensor with these extremes."""
        raise NotImplementedError(f"{type(self).__name__} defines no grid_of")

    def grid(self, xs: Sequence[Exact]) -> int:
        """The grid that a tensor decides; ValueError for an empty one where it matters."""
        return self.grid_of(*extremes(xs))

    def step(self, grid: int) -> Fraction:
        """What x is divided by before it is rounded: what code 1 stands for, where a format says no other."""
        return power(self.exponent(grid))

    def exponent(self, grid: int) -> int:
        """log2 of what code 1 stands for."""
        raise NotImplementedError(f"{type(self).__name__} defines no exponent")

    def limits(self) -> Limits | None:
        """The range of codes, whatever is rounded ahead of it; None where nothing limits them."""
        raise NotImplementedError(f"{type(self).__name__} defines no limits")

    def limited(self, code: int) -> tuple[int, bool]:
        """(code, whether the range changed it): the second step, after rounding."""
        limits = self.limits()
        kept = code if limits is None else overflow(code, *limits)
        return kept, kept != code

    def way(
        self, x: Exact, grid: int, mode: Mode = "ties_even", word: int | None = None, bits: int = 32
    ) -> Way:
        """How one exact value is rounded; `word` is the element's random word, cut to `bits` bits."""
        step = self.step(grid)
        return Way(step, decision(Fraction(x) / step, mode, word, bits), self.limits())

    def root_way(self, square: Exact, grid: int, mode: Mode = "ties_even") -> Way:
        """How the root of an exact `square` is rounded, which is irrational as a rule."""
        step = self.step(grid)
        return Way(step, root_decision(Fraction(square) / step**2, mode), self.limits())

    def code(
        self, x: Exact, grid: int, mode: Mode = "ties_even", word: int | None = None, bits: int = 32
    ) -> tuple[int, bool]:
        """(code, saturated) of one exact value; see `way`."""
        way = self.way(x, grid, mode, word, bits)
        return way.code, way.saturated

    def root_code(self, square: Exact, grid: int, mode: Mode = "ties_even") -> tuple[int, bool]:
        """(code, saturated) of a root; see `root_way`."""
        way = self.root_way(square, grid, mode)
        return way.code, way.saturated


@dataclass(frozen=True)
class FixedPoint(Format):
    """<WL,FL>: codes in [-2^(WL-1), 2^(WL-1) - 1], or [0, 2^WL - 1] unsigned, at exponent -FL; no grid (0).

    overflow: a name of `rounding.OVERFLOWS`; 'saturate_symmetric' does without the most negative code
    """

    RULE: ClassVar[str] = "`<wl,fl>`: grid 2^-fl, wl bits with the sign, limits as the port says."

    wl: int
    fl: int
    signed: bool = True
    overflow: str = "saturate"

    def __post_init__(self) -> None:
        check_bits(self.wl)

    def grid_of(self, least: Exact, greatest: Exact) -> int:
        """0."""
        return 0

    def grid(self, xs: Sequence[Exact]) -> int:
        """0."""
        return 0

    def exponent(self, grid: int) -> int:
        """-FL."""
        return -self.fl

    def limits(self) -> Limits:
        """Two's complement of WL bits."""
        if not self.signed:
            return 0, 2**self.wl - 1, "saturate" if self.overflow == "saturate_symmetric" else self.overflow
        edge = 2 ** (self.wl - 1) - 1
        return -edge - (self.overflow != "saturate_symmetric"), edge, self.overflow


@dataclass(frozen=True)
class Direct(Format):
    """Q(x, k) of (6): resolution 2^-(k-1), no range. No grid (0).

    lsb: log2 of the resolution, where it is not -(k-1)
    """

    RULE: ClassVar[str] = (
        "`Q(.,k)`: grid 2^-(k-1), of m1 and m2 16 bits below that of e2; no limits: codes may need more than"
        " k bits."
    )

    k: int
    lsb: int | None = None

    def __post_init__(self) -> None:
        check_bits(self.k)

    def grid_of(self, least: Exact, greatest: Exact) -> int:
        """0."""
        return 0

    def grid(self, xs: Sequence[Exact]) -> int:
        """0."""
        return 0

    def exponent(self, grid: int) -> int:
        """-(k-1)."""
        return 1 - self.k if self.lsb is None else self.lsb

    def limits(self) -> None:
        """None."""


@dataclass(frozen=True)
class Shift(Format):
    """SQ(x, k) of (8): codes within +-(2^(k-1) - 1) at exponent n - (k-1). Grid: n = log2 R(x)."""

    RULE: ClassVar[str] = "`SQ(.,k)`: grid R(x) / 2^(k-1), limits +-(2^(k-1) - 1)."

    k: int

    def __post_init__(self) -> None:
        check_bits(self.k)

    def grid_of(self, least: Exact, greatest: Exact) -> int:
        """log2 R(x)."""
        return log2_R(max(-Fraction(least), Fraction(greatest)))

    def exponent(self, grid: int) -> int:
        """n - (k-1)."""
        return grid + 1 - self.k

    def limits(self) -> Limits:
        """-1 + d .. 1 - d, in codes."""
        edge = 2 ** (self.k - 1) - 1
        return -edge, edge, "saturate"


@dataclass(frozen=True)
class Constant(Format):
    """CQ(x) of (7): codes within +-(dr - 1) at exponent -(kGC-1); R(x) itself is given up.

    Grid: n = log2 R(x). Its rounding Sr is stochastic: mode 'stochastic' and a word an element.
    """

    RULE: ClassVar[str] = (
        "`CQ(dr)`: scaled = dr * x / R(x), limits +-(dr - 1). The code stands at the port's exponent, which"
        " does not depend on R(x): the magnitude of x is given up on purpose."
    )

    k: int = 15
    dr: int = 128

    def __post_init__(self) -> None:
        check_bits(self.k)
        if self.dr < 1 or self.dr & (self.dr - 1):
            raise ValueError(f"dr is a power of two, got {self.dr!r}")

    def grid_of(self, least: Exact, greatest: Exact) -> int:
        """log2 R(x)."""
        return log2_R(max(-Fraction(least), Fraction(greatest)))

    def step(self, grid: int) -> Fraction:
        """R(x) / dr."""
        return power(grid) / self.dr

    def exponent(self, grid: int) -> int:
        """-(kGC-1), whatever the tensor."""
        return 1 - self.k

    def limits(self) -> Limits:
        """-dr + 1 .. dr - 1."""
        return 1 - self.dr, self.dr - 1, "saturate"


@dataclass(frozen=True)
class Scaled(Format):
    """BF(x, WL) of MuPPET: codes in [LB, UB] = [-2^(WL-1), 2^(WL-1) - 1] at exponent -s.

    Grid: s = floor(log2(min((UB + 1/2) / max x, (LB - 1/2) / min x))). A maximum <= 0 or a minimum >= 0 does
    not bind; zeros alone have the s of a maximum of 1.
    """

    RULE: ClassVar[str] = (
        "`BF(wl)`: grid 2^-s, limits LB..UB = -2^(wl-1)..2^(wl-1) - 1. s is the greatest whole number with"
        " max * 2^s <= UB + 1/2 and min * 2^s >= LB - 1/2, max and min of the whole tensor; a max <= 0 or a"
        " min >= 0 sets no bound, and of zeros s = wl - 2."
    )

    wl: int

    def __post_init__(self) -> None:
        check_bits(self.wl)

    def grid_of(self, least: Exact, greatest: Exact) -> int:
        """s: the greatest with max x * 2^s <= UB + 1/2 and min x * 2^s >= LB - 1/2."""
        lb, ub, _ = self.limits()
        ratios = [(ub + HALF) / Fraction(greatest)] if greatest > 0 else []
        ratios += [(lb - HALF) / Fraction(least)] if least < 0 else []
        return log2_floor(min(ratios, default=ub + HALF))

    def exponent(self, grid: int) -> int:
        """-s."""
        return -grid

    def limits(self) -> Limits:
        """LB .. UB."""
        return -(2 ** (self.wl - 1)), 2 ** (self.wl - 1) - 1, "saturate"


@dataclass(frozen=True)
class Flag(Format):
    """Flag-QE2 of (17): k + 1 bits stored, codes at exponent log2(Sc) - (k-1) with Sc = R(x) / 2^(k-1).

    With top = 2^(k-1), which is 128 for the 9 bits of the paper: |x / Sc| >= 1 has code
    top * clip(round(x / Sc), -top + 1, top - 1); below: round(top * x / Sc), which may reach +-top.
    Grid: n = log2 R(x).
    """

    RULE: ClassVar[str] = (
        "`Flag-Q(k+1)`: Sc = R(x) / 2^(k-1). Where abs(x) >= Sc the grid is Sc (`coarse` is 1), limits"
        " +-(2^(k-1) - 1), and the stored word has flag 1. Below, the grid is Sc / 2^(k-1), the port's"
        " `grid`, without limits, and flag 0; where that rounds to +-2^(k-1) the word is flag 1, magnitude 1."
        " The magnitude counts steps of the word's own grid; zero has sign 0."
    )

    k: int = 8

    def __post_init__(self) -> None:
        check_bits(self.k, 2)  # one bit has no magnitude

    def grid_of(self, least: Exact, greatest: Exact) -> int:
        """log2 R(x)."""
        return log2_R(max(-Fraction(least), Fraction(greatest)))

    def exponent(self, grid: int) -> int:
        """n - 2(k-1), of the finer grid."""
        return grid - 2 * (self.k - 1)

    def limits(self) -> Limits:
        """The greatest code of the coarse grid."""
        top = 2 ** (self.k - 1)
        return -top * (top - 1), top * (top - 1), "saturate"

    def way(
        self, x: Exact, grid: int, mode: Mode = "ties_even", word: int | None = None, bits: int = 32
    ) -> Way:
        """|x / Sc| decides the grid before anything is rounded; on the fine one nothing can saturate."""
        top, fine = 2 ** (self.k - 1), self.step(grid)
        if abs(x) < fine * top:
            return Way(fine, decision(Fraction(x) / fine, mode, word, bits), (-top, top, "saturate"))
        coarse = decision(Fraction(x) / (fine * top), mode, word, bits)
        return Way(fine * top, coarse, (1 - top, top - 1, "saturate"), top)


def quantize(
    xs: Sequence[Exact],
    format: Format,
    mode: Mode = "ties_even",
    words: Sequence[int] | None = None,
    bits: int = 32,
) -> Quantized:
    """A whole tensor: its grid, then `format.code` of every element; `words` holds one B-bit word each."""
    grid = format.grid(xs)
    drawn = [None] * len(xs) if words is None else words
    made = [format.code(x, grid, mode, word, bits) for x, word in zip(xs, drawn, strict=True)]
    return Quantized([code for code, _ in made], format.exponent(grid), sum(limited for _, limited in made))


# -- stored words of the flag format ---------------------------------------------------------------


def flag_encode(code: int, k: int = 8) -> tuple[int, int, int]:
    """The stored (flag, sign, magnitude of k - 1 bits) of one flag code; +-2^(k-1) is flag 1, magnitude 1.

    WAGEUBN, figure 4.
    """
    sign, size, top = int(code < 0), abs(code), 2 ** (k - 1)
    if size < top:
        return 0, sign, size
    if size % top or size // top >= top:
        raise ValueError(f"{code} is no code of the flag format")
    return 1, sign, size // top


def flag_decode(stored: tuple[int, int, int], k: int = 8) -> int:
    """The code of stored (flag, sign, magnitude)."""
    is_coarse, sign, size = stored
    return (-1 if sign else 1) * size * (2 ** (k - 1) if is_coarse else 1)
