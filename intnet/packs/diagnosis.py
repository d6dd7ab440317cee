"""The diagnosis bank: known-wrong variants of a result, and which one gives just what a device gave.

    diagnose(Words(port, want, got, way)) -> [Verdict, ...]      `whole`: it explains every word

A variant is a device with one mistake. Those of any port move words or bits: lanes reversed, one vector late,
a bit stuck, a sum that wraps or saturates too early, a shift by one. Those of a rounded port start from the
trail (`trail.py`): another tie rule, truncation, limits left out or one code too wide, a random word compared
wrongly. One that explains every word, right and wrong ones, is the finding; otherwise the closest are named
with their shares. `ROUNDING`, `BITS` and `PLACES` list them, in the order in which they are named.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from intnet.inspect.trail import FRACTION_BITS, HALF
from intnet.numbers.formats import Flag
from intnet.packs import lines
from intnet.packs.ports import Port

LEAST_FLOAT, INFINITY = -149, 0x7F800000  # of binary32: log2 of the least number, a pattern
FEW = 4  # elements whose bits are told one by one
SHOWN = 3  # verdicts that do not explain everything


@dataclass(frozen=True)
class Verdict:
    """A variant, how many of the wrong elements it gives, and whether it gives all others too."""

    name: str
    explained: int
    wrong: int
    whole: bool

    def __str__(self) -> str:
        if self.whole:
            return f"{self.name}: explains every word"
        return f"{self.name}: explains {self.explained:,} of {self.wrong:,} wrong elements"


@dataclass(frozen=True)
class Words:
    """One port's elements, flat: what was wanted, what came, and the trail where there is one.

    way: floor, remainder, up, presat, and coarse, limit, words where the rounding has them; of a float
        floor is that of the magnitude, beside sign and exponent (of the fraction's last bit)
    """

    port: Port
    want: np.ndarray
    got: np.ndarray
    way: Mapping[str, np.ndarray]

    @property
    def mode(self) -> str:
        """The rounding mode."""
        return str(self.port.rounding.get("mode", ""))

    @property
    def traced(self) -> bool:
        """Whether it was rounded, and how can be replayed."""
        signed_float = self.port.encoding != "float32" or "sign" in self.way
        return "floor" in self.way and self.mode in UP and signed_float

    @property
    def word_bits(self) -> int:
        """Bits of a random word that count."""
        return int(self.port.rounding.get("word_bits", FRACTION_BITS))

    def taken(self, index: np.ndarray) -> "Words":
        """Some of the elements."""
        way = {name: part[index] for name, part in self.way.items()}
        return Words(self.port, self.want[index], self.got[index], way)

    def limits(self) -> tuple[Any, Any]:
        """(least, greatest) of presat: numbers, arrays where they change from word to word, or None."""
        if "limit" in self.way:
            return -self.way["limit"], self.way["limit"]
        return self.port.rounding.get("low"), self.port.rounding.get("high")

    def clipped(self, presat: np.ndarray) -> np.ndarray:
        """After the limits."""
        low, high = self.limits()
        if low is None or high is None:
            return presat
        kept = np.clip(presat, low, high)
        return np.where(self.way["coarse"] != 0, kept, presat) if "coarse" in self.way else kept

    def stored(self, kept: np.ndarray) -> np.ndarray:
        """The port's elements for results in steps of the grid."""
        if self.port.encoding == "float32":
            pattern = (self.way["exponent"] - LEAST_FLOAT << 23) + kept
            return np.minimum(pattern, INFINITY) | self.way["sign"] << 31
        format = self.port.format
        if self.port.encoding != "flag" or not isinstance(format, Flag):
            return wrapped(kept, self.port.bits, self.port.signed)
        fine = format.fine
        size = np.abs(kept)
        flag = (self.way["coarse"] != 0) | (size >= 1 << fine)
        size = np.where(flag & (self.way["coarse"] == 0), size >> fine, size) & ((1 << fine) - 1)
        minus = (kept < 0) & (flag | (size != 0))
        return (flag.astype(np.int64) << fine + 1) | (minus.astype(np.int64) << fine) | size

    def decided(self, mode: str, floor: np.ndarray, remainder: np.ndarray) -> np.ndarray:
        """Whether `mode` goes up; the magnitude of a negative float goes the other way."""
        up = UP[mode](floor, remainder, self.way.get("words"), self.word_bits)
        if "sign" not in self.way:
            return up
        mirrored = UP[MIRRORED.get(mode, mode)](floor, remainder, None, 0)
        return np.where(self.way["sign"] != 0, mirrored, up)

    def rounded(self, up: np.ndarray) -> np.ndarray:
        """The port's elements for another decision whether to go up."""
        return self.stored(self.clipped(self.way["floor"] + up))


def wrapped(codes: np.ndarray, bits: int, signed: bool = True) -> np.ndarray:
    """The low bits of codes, as a device of `bits` bits keeps them."""
    low = codes & ((1 << bits) - 1) if bits < 64 else codes
    return low - ((low >> bits - 1 & 1) << bits) if signed and bits < 64 else low


# -- variants of any port ----------------------------------------------------------------------

Variant = Callable[[Words], np.ndarray]


def _moved(w: Words, move: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
    """The elements of other rows of lanes, made from those wanted and those given."""
    return lines.held(w.port, move(lines.rows(w.port, w.want), lines.rows(w.port, w.got)))


def _late(w: Words) -> np.ndarray:
    """The vector before; the first one may be anything."""
    return _moved(w, lambda want, got: np.concatenate([got[:1], want[:-1]]))


def _early(w: Words) -> np.ndarray:
    return _moved(w, lambda want, got: np.concatenate([want[1:], got[-1:]]))


def _bit(change: Callable[[np.ndarray, int], np.ndarray], bit: int) -> Variant:
    return lambda w: wrapped(change(w.want, 1 << bit), w.port.bits, w.port.signed)


def _narrow(keep: Callable[[np.ndarray, int], np.ndarray], bits: int, w: Words) -> np.ndarray:
    return keep(w.want, bits)


def _saturated(codes: np.ndarray, bits: int) -> np.ndarray:
    half = 1 << bits - 1
    return np.clip(codes, -half, half - 1)


def _right(w: Words) -> np.ndarray:
    """One bit too far right; rounded as the port is, where it is."""
    if not w.traced:
        return w.want >> 1
    floor, remainder = w.way["floor"], w.way["remainder"]
    fraction = (
        (floor & 1) << FRACTION_BITS | remainder >> 2 << 1 | (remainder & 3 != 0)
    )  # what falls off sticks
    return _rounded(w, floor >> 1, fraction)


def _left(w: Words) -> np.ndarray:
    """One bit too far left."""
    if not w.traced:
        return wrapped(w.want << 1, w.port.bits, w.port.signed)
    floor, remainder = w.way["floor"], w.way["remainder"]
    fraction = (remainder & HALF - 2) << 1 | remainder & 1
    return _rounded(w, floor << 1 | remainder >> FRACTION_BITS, fraction)


def _rounded(w: Words, floor: np.ndarray, remainder: np.ndarray) -> np.ndarray:
    """The port's own rounding of another value."""
    return w.stored(w.clipped(floor + w.decided(w.mode, floor, remainder)))


# -- variants of a rounding --------------------------------------------------------------------

Decide = Callable[[np.ndarray, np.ndarray, Any, int], np.ndarray]


def _nearest(tie: Callable[[np.ndarray], Any]) -> Decide:
    def decide(floor: np.ndarray, remainder: np.ndarray, words: Any, bits: int) -> np.ndarray:
        return (remainder > HALF) | ((remainder == HALF) & tie(floor))

    return decide


def _stochastic(floor: np.ndarray, remainder: np.ndarray, words: Any, bits: int) -> np.ndarray:
    gap = FRACTION_BITS - bits
    return words >> gap < remainder >> 1 + gap


UP: dict[str, Decide] = {
    "ties_even": _nearest(lambda floor: floor & 1 == 1),
    "ties_away": _nearest(lambda floor: floor >= 0),
    "ties_pos": _nearest(lambda floor: True),
    "ties_neg": _nearest(lambda floor: False),
    "to_neg": lambda floor, remainder, words, bits: np.zeros(floor.shape, np.bool_),
    "to_pos": lambda floor, remainder, words, bits: remainder != 0,
    "to_zero": lambda floor, remainder, words, bits: (floor < 0) & (remainder != 0),
    "stochastic": _stochastic,
}


MIRRORED = {"ties_pos": "ties_neg", "to_neg": "to_pos", "to_pos": "to_neg"}


def _mode(name: str) -> Callable[[Words], np.ndarray]:
    """Another rounding mode; the same one is no variant."""

    def variant(w: Words) -> np.ndarray:
        if name == w.mode:
            return w.want
        return w.rounded(w.decided(name, w.way["floor"], w.way["remainder"]))

    return variant


def _drawn(up: Callable[[np.ndarray, np.ndarray, int], np.ndarray]) -> Variant:
    """Another decision by remainder, random word and the word's bits that do not count; else no variant."""

    def variant(w: Words) -> np.ndarray:
        if "words" not in w.way:
            return w.want
        return w.rounded(up(w.way["remainder"], w.way["words"], FRACTION_BITS - w.word_bits))

    return variant


def _limited(limit: Callable[[Words, Any, Any], np.ndarray]) -> Variant:
    """Other limits, from the least and the greatest that it has; without limits no variant."""

    def variant(w: Words) -> np.ndarray:
        low, high = w.limits()
        return w.want if low is None or high is None else w.stored(limit(w, low, high))

    return variant


def _decided_first(w: Words, low: Any, high: Any) -> np.ndarray:
    """Whether to limit is decided on the floor, and what passes goes up after that."""
    floor = w.way["floor"]
    return np.where(floor > high, high, np.where(floor < low, low, w.way["presat"]))


def _within(w: Words, low: Any, high: Any) -> np.ndarray:
    """Wraps within the limits' own bits, where the port has more of them."""
    codes = w.way["presat"]
    if isinstance(high, int) and high.bit_length() + 1 == w.port.bits:
        return w.clipped(codes)
    span = 2 * (np.asarray(high).astype(np.int64) + 1)
    return (codes + span // 2) % span - span // 2


ROUNDING: dict[str, Variant] = {
    "tie up (towards +infinity)": _mode("ties_pos"),
    "tie away from zero": _mode("ties_away"),
    "tie to even": _mode("ties_even"),
    "truncation (floor)": _mode("to_neg"),
    "truncation towards zero": _mode("to_zero"),
    "rounded up always (ceiling)": _mode("to_pos"),
    "no saturation (wraps)": lambda w: w.stored(w.way["presat"]),
    "no saturation (wraps within the limits' own bits)": _limited(_within),
    "no saturation above (wraps)": _limited(lambda w, low, high: np.maximum(w.way["presat"], low)),
    "no saturation below (wraps)": _limited(lambda w, low, high: np.minimum(w.way["presat"], high)),
    "limits one code too wide below": _limited(lambda w, low, high: np.clip(w.way["presat"], low - 1, high)),
    "limits before rounding": _limited(lambda w, low, high: np.clip(w.way["floor"], low, high) + w.way["up"]),
    "saturation decided before rounding": _limited(_decided_first),
    "the rounding's carry is dropped": lambda w: w.stored(w.clipped(w.way["floor"] ^ w.way["up"])),
    "random word <= fraction in place of <": _drawn(
        lambda remainder, words, gap: words >> gap <= remainder >> 1 + gap
    ),
    "random word complemented": _drawn(
        lambda remainder, words, gap: (words ^ 0xFFFFFFFF) >> gap < remainder >> 1 + gap
    ),
}
BITS: dict[str, Variant] = {
    "shift by one, too far right": _right,
    "shift by one, too far left": _left,
    "negated": lambda w: wrapped(-w.want, w.port.bits, w.port.signed),
}
PLACES: dict[str, Variant] = {
    "lanes reversed": lambda w: _moved(w, lambda want, got: want[:, ::-1]),
    "one vector late (latency)": _late,
    "one vector early (latency)": _early,
}


def _elementwise(w: Words) -> Iterator[tuple[str, Variant]]:
    """Every mistake of one element alone that this port could have."""
    if w.traced:
        yield from ROUNDING.items()
    if w.port.bits > 1:
        yield from BITS.items()
    for bit in range(min(w.port.bits, 63)):  # of 64 the last is no mask of an int64
        yield f"bit {bit} stuck at 0", _bit(lambda codes, mask: codes & ~mask, bit)
        yield f"bit {bit} stuck at 1", _bit(lambda codes, mask: codes | mask, bit)
        yield f"bit {bit} inverted", _bit(lambda codes, mask: codes ^ mask, bit)
    if w.port.encoding == "integer" and w.port.signed:
        for bits in range(w.port.bits - 1, 1, -1):
            yield f"wraps at {bits} bits", partial(_narrow, wrapped, bits)
            yield f"saturates at {bits} bits", partial(_narrow, _saturated, bits)


def diagnose(w: Words) -> list[Verdict]:
    """Lone bits and the variants that give every word; where there is none, the closest with their shares."""
    wrong = np.flatnonzero(w.got != w.want)
    found = []
    few = w.taken(wrong)
    for name, make in _elementwise(w):
        explained = int(np.count_nonzero(make(few) == few.got))
        whole = explained == wrong.size and bool(np.array_equal(make(w), w.got))
        found.append(Verdict(name, explained, wrong.size, whole))
    row = lines.places(w.port, wrong)[0] // w.port.row_words
    inner = (row > 0) & (row < w.port.words // w.port.row_words - 1)  # judged by any of PLACES
    for name, place in PLACES.items() if inner.any() else ():
        codes = place(w)
        explained = int(np.count_nonzero(codes[wrong] == w.got[wrong]))
        found.append(Verdict(name, explained, wrong.size, bool(np.array_equal(codes, w.got))))
    whole_ones = [verdict for verdict in found if verdict.whole]
    near = sorted((one for one in found if one.explained), key=lambda verdict: -verdict.explained)
    return _lone_bits(w, wrong) + whole_ones or near[:SHOWN]


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
    return [Verdict(name, wrong.size, wrong.size, True)]


def misplaced(want: np.ndarray, got: np.ndarray) -> int | None:
    """Where a file of the wrong length begins to lack words, or to have too many; None where more is wrong.

    want, got: a row a word
    """
    short, long = sorted((want, got), key=len)
    same = (short == long[: len(short)]).all(axis=1)
    first = len(short) if same.all() else int(np.argmin(same))
    return first if np.array_equal(short[first:], long[first + len(long) - len(short) :]) else None
