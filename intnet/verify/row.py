"""What a verification says of a path of a layer: `Row`; and of an element that differs: `Difference`."""

from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import Any

EQUAL, DIFFERS, UNSPECIFIED = "equal", "differs", "not specified"


def written(value: Fraction) -> str:
    """An exact number, and about what it is."""
    whole = value.denominator == 1 and abs(value.numerator) < 10**9
    return (
        str(value)
        if whole
        else f"{float(value)!r} = {value}"
        if value.denominator < 10**12
        else repr(float(value))
    )


@dataclass
class Difference:
    """The first element that is not what the definition says; trail: how it says so, line by line."""

    index: list[int]
    expected: str
    stored: str
    trail: list[str] = field(default_factory=list)


@dataclass
class Row:
    """One check of one path.

    equation:   as the method's paper writes it
    specs:      the spec functions that it was held to
    elements:   of the path; checked: of them, recomputed
    chained:    of those, long float32 sums that `verify.chains` made in the definition's order
    definition: of those chained, made again by the definition's own integers
    words:      random words drawn again
    sums:       sums over a whole batch or channel made in full
    state:      EQUAL, DIFFERS or UNSPECIFIED; why: of the last, what is not specified
    """

    layer: str
    path: str
    equation: str
    specs: list[str]
    elements: int = 0
    checked: int = 0
    chained: int = 0
    definition: int = 0
    words: int = 0
    sums: int = 0
    state: str = EQUAL
    why: str = ""
    differing: int = 0
    difference: Difference | None = None
    order: int = 0

    def differs(self, why: str) -> None:
        """What no element tells: a tensor that is missing, an operation that is another."""
        self.state, self.differing, self.why = DIFFERS, self.differing + 1, why

    def not_specified(self, why: object) -> None:
        """What no spec says; a difference that was found before it stays one."""
        if self.state != DIFFERS:
            self.state, self.why = UNSPECIFIED, str(why)

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, told: dict[str, Any]) -> "Row":
        """The inverse; TypeError or KeyError for anything else."""
        given = told["difference"]
        return cls(**{**told, "difference": None if given is None else Difference(**given)})
