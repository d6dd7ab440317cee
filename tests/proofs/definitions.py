"""Definitions on terms: `intnet.spec.rounding` itself, of fractions whose parts are terms."""

from __future__ import annotations

from typing import Any

from intnet.spec import rounding as spec
from tests.proofs.machine import Bit, Whole, all_of, fresh, power_of_two, require, whole
from tests.proofs.rules import on_terms


class Ratio:
    """A fraction num / den, den > 0, not reduced: what `fractions.Fraction` is to the definition."""

    def __init__(self, value: Any, den: Any = 1) -> None:
        self.numerator: Any = value.numerator if isinstance(value, Ratio) else Whole(whole(value))
        self.denominator: Any = value.denominator if isinstance(value, Ratio) else Whole(whole(den))
        require(self.denominator > 0)

    def as_integer_ratio(self) -> tuple[Any, Any]:
        """(num, den)."""
        return self.numerator, self.denominator

    def __eq__(self, other: Any) -> Bit:  # type: ignore[override]
        other = Ratio(other.numerator, other.denominator)
        return self.numerator * other.denominator == other.numerator * self.denominator

    __hash__ = None  # type: ignore[assignment]


_round = on_terms(spec.round_fraction, Fraction=Ratio)


def rounded(num: Any, den: Any, mode: str, word: Any = 0, bits: Any = 32) -> Whole:
    """`intnet.spec.rounding.round_fraction` of num / den."""
    got = _round(Ratio(num, den), mode, Whole(whole(word)), Whole(whole(bits)))
    return got if isinstance(got, Whole) else Whole(got)


__all__ = ["Ratio", "all_of", "fresh", "power_of_two", "rounded"]
