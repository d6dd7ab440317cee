"""Where random vectors come from: Philox words (`numbers/rng.py`), so that every Python draws the same.

Source(8).below(100), .within(-5, 5), .bits(12), .one_of(values), .some_of(values, 3)
"""

from collections.abc import Sequence
from typing import TypeVar

from intnet.numbers import rng

T = TypeVar("T")
_AT_ONCE = 1024  # words drawn
_SPARE = 64  # bits above a span, which make the remainder as good as uniform


class Source:
    """The numbers of one seed, in order."""

    def __init__(self, seed: int) -> None:
        self.seed, self._drawn, self._left = seed, 0, list[int]()

    def bits(self, count: int) -> int:
        """A number of so many bits."""
        value = 0
        for place in range(0, count, 32):
            if not self._left:
                words = rng.words(self.seed, 0, rng.stream("units/vectors"), _AT_ONCE, self._drawn)
                self._left, self._drawn = words.tolist()[::-1], self._drawn + _AT_ONCE
            value |= self._left.pop() << place
        return value & ((1 << count) - 1)

    def below(self, span: int) -> int:
        """0 .. span - 1."""
        return self.bits(span.bit_length() + _SPARE) % span

    def within(self, low: int, high: int) -> int:
        """low .. high, both included."""
        return low + self.below(high - low + 1)

    def one_of(self, values: Sequence[T]) -> T:
        """One of them."""
        return values[self.below(len(values))]

    def some_of(self, values: Sequence[T], count: int) -> list[T]:
        """`count` of them, none twice, in the order drawn."""
        left = list(values)
        return [left.pop(self.below(len(left))) for _ in range(count)]
