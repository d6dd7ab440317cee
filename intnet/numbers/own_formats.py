"""Formats of one's own: the plain rule of one, from which all that quantizes, measures and explains works.

    @formats.register("fitted")
    @dataclass(frozen=True)
    class Fitted(OwnFormat):
        k: int

        def grid_of(self, least, greatest):      # from the exact extremes of a tensor: log2 of code 1's value
            ...
        def limits(self):                        # least and greatest code, and what happens beyond
            return -7, 7, "saturate"

An `OwnFormat` has equidistant codes: rounded by the same loops as intnet's own. `Levels` has any codes:
rounded an element at a time on fractions, tens of microseconds each. A rule is what the definition's formats
are (`spec.formats.Format`), and serves as definition and as format at once.
"""

from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import ClassVar

import numpy as np

from intnet.errors import FormatError
from intnet.numbers.widths import check_exponent
from intnet.spec.formats import Exact, Format, Limits, Way, extremes
from intnet.spec.rounding import Mode, decision

__all__ = ["Levels", "OwnFormat"]


class OwnFormat(Format):
    """value = code * 2^e, e = `grid_of` of the tensor's extremes, codes within `limits`.

    `grid_of(least, greatest)` gets 0 for the least where no value is below 0, and for the greatest where none
    is above: least <= 0 <= greatest.

    RULE: it in words, as the page of a pack prints it
    """

    RULE: ClassVar[str] = ""

    def grid(self, xs: Sequence[Exact]) -> int:
        """`grid_of` of these values, or of their extremes; FormatError where that is no whole number."""
        least, greatest = extremes(xs)
        found = self.grid_of(min(least, Fraction(0)), max(greatest, Fraction(0)))
        if isinstance(found, bool) or not isinstance(found, int | np.integer):
            raise FormatError(f"{self}: grid_of gives {found!r}: a whole number is needed, as int(..) makes")
        check_exponent(int(found), f"{self}: grid_of")
        return int(found)

    def exponent(self, grid: int) -> int:
        """e, the grid itself."""
        return grid

    @property
    def bits(self) -> int:
        """Nominal stored bits of an element: those that hold every code within the limits."""
        limits = self.limits()
        if limits is None:
            raise FormatError(f"{self} has no limits: give its class a property `bits`")
        low, high, _ = limits
        return max(high, -low - 1, 0).bit_length() + (low < 0)


class Levels(OwnFormat):
    """Codes that are not equidistant: those of `levels()`, ascending whole numbers, 0 among them.

    A value between two neighbours is rounded by where it lies between them, in parts of their distance: up
    or down as the mode says of floor + f, where floor counts levels from 0. A tie is the middle of two
    levels, the even one of them has an even number, and stochastic rounding has no bias. Beyond the last one
    it saturates. What is stored is the number of a level; a tensor's `codes`, and a pack's words, are the
    levels.

    ROUNDING: the same as the page of a pack prints it
    """

    ROUNDING: ClassVar[str] = (
        "A code is one of the port's levels. Let s be the value in steps of the grid, a and b the two"
        " neighbours with a <= s < b, outside the levels the two that are nearest, n the number of a, counted"
        " from 0 at level 0. The mode rounds n + (s - a) / (b - a); the number is limited to those that there"
        " are, and its level is the word."
    )

    def levels(self) -> tuple[int, ...]:
        """In units of 2^e."""
        raise NotImplementedError(f"{type(self).__name__} defines no levels")

    @cached_property
    def table(self) -> tuple[tuple[int, ...], int]:
        """(levels, place of 0); FormatError where they are not ascending, or 0 is none."""
        found = tuple(self.levels())
        whole = all(isinstance(level, int | np.integer) and not isinstance(level, bool) for level in found)
        if not whole or len(found) < 2 or 0 not in found or any(a >= b for a, b in pairwise(found)):
            raise FormatError(f"{self}: levels are ascending whole numbers, two at least, and 0 among them")
        if max(-found[0], found[-1]) >= 1 << 62:
            raise FormatError(f"{self}: levels from {found[0]} to {found[-1]}: they stay below 2^62")
        return found, found.index(0)

    def limits(self) -> Limits:
        """Of numbers of levels."""
        found, zero = self.table
        return -zero, len(found) - 1 - zero, "saturate"

    def way(
        self, x: Exact, grid: int, mode: Mode = "ties_even", word: int | None = None, bits: int = 32
    ) -> Way:
        """By the number of the level below, and the part of the distance to the next one."""
        found, zero = self.table
        step = self.step(grid)
        scaled = Fraction(x) / step
        below = min(max(bisect_right(found, scaled) - 1, 0), len(found) - 2)
        part = (scaled - found[below]) / (found[below + 1] - found[below])
        made = decision(below - zero + part, mode, word, bits)
        return Way(step, made, self.limits(), levels=dict(enumerate(found, -zero)))

    def root_way(self, square: Exact, grid: int, mode: Mode = "ties_even") -> Way:
        """Refused: where a root lies between two levels is no fraction."""
        raise FormatError(f"{self}: a square root is rounded to equidistant codes only")

    def numbers(self, codes: np.ndarray) -> np.ndarray:
        """int64 numbers of the levels that are `codes`, as they are stored."""
        found, zero = self.table
        return np.searchsorted(np.array(found, np.int64), codes) - zero
