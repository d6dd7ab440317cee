"""The diagnosis: which known mistake gives just what a device gave, ranked by what it explains.

    diagnose(Words(port, want, got, way)) -> [Verdict, ...]      `whole`: it explains every word

A mistake (`mistakes.py`, `mx_mistakes.py`, `places.py`) is tried on every element, right and wrong ones. One
that explains every word is the finding; single ones are tried first, then rarer ones, then pairs. Where there
is none the closest are named, by the wrong elements that they explain less the right ones that they
contradict. Where a few elements have one wrong bit each, that is told first: a fault of words, if nothing in
the arithmetic gives them. So mistakes of one stage that do are told as well.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from intnet.packs import lines
from intnet.packs.mistakes import Variant, Words, pairs, rarer, singles
from intnet.packs.mx_mistakes import in_mx
from intnet.packs.places import PLACES, Delay, latencies, orders

FEW = 4  # elements whose bits are told one by one
WIDE = 8  # bits of a word that is known by what it holds
SHOWN = 3  # verdicts that do not explain everything


@dataclass(frozen=True)
class Verdict:
    """A mistake, how many of the wrong elements it gives, and how many of the right ones it does not.

    whole: it gives every element
    lone: it is bits of a few words, whatever the arithmetic
    """

    name: str
    explained: int
    wrong: int
    contradicted: int = 0
    lone: bool = False

    @classmethod
    def of(cls, name: str, same: np.ndarray, wrong: np.ndarray, free: np.ndarray | None = None) -> "Verdict":
        """same: of every element whether the mistake gives what came; wrong: which ones are wrong.

        free: elements of which it says nothing: none of them is explained, and if it gives all others, they
        are no matter.
        """
        against = int(np.count_nonzero(~same)) - int(np.count_nonzero(~same[wrong]))
        told = same[wrong] if free is None else (same & ~free)[wrong]
        explained = int(np.count_nonzero(told))
        return cls(name, wrong.size if explained and same.all() else explained, wrong.size, against)

    @property
    def whole(self) -> bool:
        """Whether it gives all elements."""
        return self.explained == self.wrong and not self.contradicted

    def __str__(self) -> str:
        if self.whole:
            return f"{self.name}: explains every word"
        against = f", contradicts {self.contradicted:,} right ones" if self.contradicted else ""
        return f"{self.name}: explains {self.explained:,} of {self.wrong:,} wrong elements{against}"


def diagnose(w: Words) -> list[Verdict]:
    """Lone bits and the mistakes that give every word; where there is none, the closest with their shares."""
    wrong = np.flatnonzero(w.got != w.want)
    lone = _lone_bits(w, wrong)
    near: list[Verdict] = []
    few = w.taken(wrong)
    row = lines.places(w.port, wrong)[0] // w.port.row_words
    inner = wrong[(row > 0) & (row < w.port.words // w.port.row_words - 1)]  # judged by any of PLACES
    banks = [
        lambda: (
            _tried(w, wrong, chain(in_mx(w), singles(w)), few)
            + (_tried(w, wrong, PLACES.items()) if inner.size else [])
        ),
        lambda: (
            _tried(w, wrong, rarer(few, w), few)
            + (
                [one for one in _tried(w, wrong, chain(latencies(w), orders(w))) if one.whole]
                or _exchanged(w, wrong)
            )
        ),
        # of so many pairs one fits a few bits by chance
        lambda: [] if lone else _tried(w, wrong, pairs(few), few),
    ]
    for bank in banks:
        found = bank()
        whole = [verdict for verdict in found if verdict.whole]
        if whole:
            return lone + whole
        near += found
    return lone or ranked(near)


def ranked(found: Sequence[Verdict]) -> list[Verdict]:
    """Those that give every word; where there is none, the closest that explain more than they contradict."""
    near = sorted(found, key=lambda one: one.contradicted - one.explained)
    whole = [one for one in found if one.whole]
    return whole or [one for one in near if one.explained > one.contradicted][:SHOWN]


def _tried(
    w: Words, wrong: np.ndarray, bank: Iterable[tuple[str, Variant]], few: Words | None = None
) -> list[Verdict]:
    """Those of a bank that explain anything; few: the wrong elements alone, tried first where each is made
    from nothing but itself.
    """
    found = []
    for name, make in bank:
        if few is None or np.any(make(few) == few.got):
            free = make.free(w) if isinstance(make, Delay) else None
            found.append(Verdict.of(name, make(w) == w.got, wrong, free))
    return [one for one in found if one.explained]


def _lone_bits(w: Words, wrong: np.ndarray) -> list[Verdict]:
    """A few elements with one bit each: faults of words and not of the arithmetic."""
    if wrong.size > FEW:
        return []
    changed = [int(bits) & ((1 << w.port.bits) - 1) for bits in w.got[wrong] ^ w.want[wrong]]
    if any(bits & (bits - 1) for bits in changed):
        return []
    bits = ", ".join(str(bits.bit_length() - 1) for bits in changed)
    name = f"bit {bits} of one element inverted"
    if wrong.size > 1:
        name = f"one bit inverted in each of {wrong.size} elements (bits {bits})"
    return [Verdict(name, wrong.size, wrong.size, lone=True)]


def _exchanged(w: Words, wrong: np.ndarray) -> list[Verdict]:
    """Right words that stand in one another's places; of few bits that is chance."""
    row_of = lines.places(w.port, wrong)[0] // w.port.row_words
    rows = np.unique(row_of)
    want, got = (lines.rows(w.port, codes)[rows] for codes in (w.want, w.got))
    if w.port.lanes * w.port.bits < WIDE or want.sum() != got.sum():
        return []
    if not np.array_equal(want[np.lexsort(want.T)], got[np.lexsort(got.T)]):
        return []
    at = [f"{row * w.port.row_words:,}" for row in rows]
    name = (
        f"words {at[0]} and {at[1]} exchanged" if len(at) == 2 else f"{len(at):,} right words in other places"
    )
    return [Verdict(name, wrong.size, wrong.size)]


def misplaced(want: np.ndarray, got: np.ndarray) -> int | None:
    """Where a file of the wrong length begins to lack words, or to have too many; None where more is wrong.

    want, got: a row a word
    """
    short, long = sorted((want, got), key=len)
    same = (short == long[: len(short)]).all(axis=1)
    first = len(short) if same.all() else int(np.argmin(same))
    return first if np.array_equal(short[first:], long[first + len(long) - len(short) :]) else None
