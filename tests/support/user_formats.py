"""Formats and a mode as a user would write them, registered while a test runs: import `registered` too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import pytest

from intnet import formats, rounding


@dataclass(frozen=True)
class Steps(formats.OwnFormat):
    """Multiples of the greatest power of two e with top <= 2^e * 2^k, limited to +-(2^k - 3)."""

    k: int

    def grid_of(self, least: Fraction | int, greatest: Fraction | int) -> int:
        top, e = max(-least, greatest), -200
        while top > Fraction(2) ** (e + self.k):
            e += 1
        return e

    def limits(self) -> tuple[int, int, str]:
        return 3 - 2**self.k, 2**self.k - 3, "saturate"


@dataclass(frozen=True)
class Some(formats.Levels):
    """-20 -6 0 1 3 4 9, in quarters."""

    def grid_of(self, least: Fraction | int, greatest: Fraction | int) -> int:
        return -2

    def levels(self) -> tuple[int, ...]:
        return -20, -6, 0, 1, 3, 4, 9


def thirds(floor: int, fraction: Fraction) -> bool:
    """f >= 1/3 where floor is even, f > 3/4 where it is odd"""
    return fraction >= Fraction(1, 3) if floor % 2 == 0 else fraction > Fraction(3, 4)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    formats.register("steps")(Steps)
    formats.register("some")(Some)
    rounding.register("thirds")(thirds)
    yield
    for registry, names in ((formats.FORMATS, ("steps", "some")), (rounding.MODES, ("thirds",))):
        for name in names:
            del registry[name], registry.origins[name]
