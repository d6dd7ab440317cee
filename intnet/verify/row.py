"""What a verification is asked, and says: `Options`, a `Task` and its `Row`, an element's `Difference`."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from intnet.spec.tensor import place_of
from intnet.verify.floats import fractions

EQUAL, DIFFERS, UNSPECIFIED = "equal", "differs", "not specified"
PARTS = range(4)  # results of one operation at most: sums stand ahead of what is made of them
STEP = 2 * len(PARTS)  # from one operation's place in the order of rows to the next


class NotSpecified(Exception):
    """What no spec function says; the text says what."""


@dataclass(frozen=True)
class Options:
    """elements: of each path, None: all; seed: of the draw."""

    elements: int | None = 200
    seed: int = 0


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

    @property
    def name(self) -> str:
        """'layer/path'."""
        return f"{self.layer}/{self.path}"

    def differs(self, why: str) -> None:
        """What no element tells: a tensor that is missing, an operation that is another."""
        self.state, self.differing, self.why = DIFFERS, self.differing + 1, why

    def not_specified(self, why: object) -> None:
        """What no spec says; a difference that was found before it stays one."""
        if self.state != DIFFERS:
            self.state, self.why = UNSPECIFIED, str(why)

    def compare(
        self, flat: np.ndarray, shape: tuple[int, ...], expected: list[Any], stored: list[Any],
        trail: Callable[[int], list[str]] = lambda first: [],
    ) -> None:  # fmt: skip
        """Note the first of these elements that differs, with its trail, and how many do."""
        wrong = [k for k, (a, b) in enumerate(zip(expected, stored, strict=True)) if a != b]
        if not wrong:
            return
        self.state, self.differing = DIFFERS, self.differing + len(wrong)
        if self.difference is None:
            k = wrong[0]
            told = written(Fraction(expected[k])), written(Fraction(stored[k]))
            self.difference = Difference([*place_of(int(flat[k]), shape)], *told, trail(k))

    def compare_all(self, shape: tuple[int, ...], expected: list[Any], stored: list[Any]) -> None:
        """`compare` of a whole tensor, which counts as verified."""
        self.elements, self.checked = self.elements + len(expected), self.checked + len(expected)
        self.compare(np.arange(len(expected)), shape, expected, stored)

    def compare_floats(
        self, shape: tuple[int, ...], expected: np.ndarray, stored: np.ndarray, few: int = 1
    ) -> None:
        """`compare` of the first few numbers that differ in two whole arrays; all that do are counted."""
        wrong = np.flatnonzero((stored != expected).reshape(-1))
        made, given = (fractions(one.reshape(-1)[wrong[:few]]) for one in (expected, stored))
        self.compare(wrong[:few], shape, made, given)
        self.differing += len(wrong[few:])

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, told: dict[str, Any]) -> "Row":
        """The inverse; TypeError or KeyError for anything else."""
        given = told["difference"]
        return cls(**{**told, "difference": None if given is None else Difference(**given)})


@dataclass
class Task:
    """One check. row: as it begins; cost: about how many elements it goes through; check: fills the row."""

    row: Row
    cost: int
    check: Callable[[Row], None]

    def make(self) -> Row:
        """The row, filled."""
        row = deepcopy(self.row)
        try:
            self.check(row)
        except NotSpecified as why:
            row.not_specified(why)
        return row
