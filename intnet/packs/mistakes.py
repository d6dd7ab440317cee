"""Mistakes that devices make, as variants of a result: of one stage of a rounding, of two, of any word.

    for name, variant in singles(words): variant(words)      the elements that a device with the mistake gives

A rounding has three stages, each with its mistakes: the value that comes (`VALUES`: shifted, from an
accumulator that is too narrow), the decision whether to go up (`MODES`: another tie rule, truncation;
`DRAWN`: a random word compared wrongly), the limits (`LIMITS`: left out, one code too wide). `pairs` are
mistakes of two stages at once. Of any port: bits stuck or inverted, sums that wrap or saturate too early.
They start from the trail (`inspect/trail.py`). A mistake more is a line in one of the tables; those that
move whole words are in `places.py`.
"""

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from intnet.exact.blocks.mx_blocks import Along
from intnet.inspect.trail import FRACTION_BITS, HALF
from intnet.numbers.formats import Flag
from intnet.packs import mx
from intnet.packs.lines import wrapped
from intnet.packs.ports import Port
from intnet.spec.float32 import LEAST

INFINITY = 0x7F800000  # a pattern of binary32
GUARD = 4  # bits kept below the grid, at most, by a device that drops the others
FLOATS = ("float32", "minifloat")  # encodings with a sign in front
AHEAD = "ahead of the rounding"  # where a sum is too narrow, as far as words can tell


@dataclass(frozen=True)
class Words:
    """One port's elements, flat: what was wanted, what came, and the trail where there is one.

    way: floor, remainder, up, presat, and coarse, limit, words where the rounding has them; of a float
        floor is that of the magnitude, beside sign, exponent (of the fraction's last bit), special (no sum)
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
    def along(self) -> Along:
        """The format of elements, or of scales, in MX blocks."""
        return mx.along_of(self.port.rounding.get(mx.MX) or self.port.rounding[mx.SCALED])

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
        if self.port.encoding == "minifloat":  # of the element's binade
            most = np.floor(np.ldexp(self.along.greatest, -self.way["exponent"])).astype(np.int64)
            return -most, most
        if "limit" in self.way:
            return -self.way["limit"], self.way["limit"]
        return self.port.rounding.get("low"), self.port.rounding.get("high")

    def clipped(self, presat: np.ndarray) -> np.ndarray:
        """After the limits."""
        low, high = self.limits()
        if low is None or high is None:
            return presat
        if self.port.rounding.get("overflow") == "wrap":
            return (presat - low) % (high - low + 1) + low
        kept = np.clip(presat, low, high)
        return np.where(self.way["coarse"] != 0, kept, presat) if "coarse" in self.way else kept

    def stored(self, kept: np.ndarray) -> np.ndarray:
        """The port's elements for results in steps of the grid."""
        if self.port.encoding == "float32":
            pattern = (self.way["exponent"] - LEAST << 23) + kept
            rounded = np.minimum(pattern, INFINITY) | self.way["sign"] << 31
            return np.where(self.way.get("special", 0), self.want, rounded)
        if self.port.encoding == "minifloat":
            along, negative = self.along, self.want >> self.port.bits - 1 != 0
            codes = kept << self.way["exponent"] - (along.least - along.digits)
            return mx.words_of(codes, negative, along) & (1 << self.port.bits) - 1
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
    "ties_zero": _nearest(lambda floor: floor < 0),
    "ties_odd": _nearest(lambda floor: floor & 1 == 0),
    "to_neg": lambda floor, remainder, words, bits: np.zeros(floor.shape, np.bool_),
    "to_pos": lambda floor, remainder, words, bits: remainder != 0,
    "to_zero": lambda floor, remainder, words, bits: (floor < 0) & (remainder != 0),
    "stochastic": _stochastic,
}


MIRRORED = {"ties_pos": "ties_neg", "ties_neg": "ties_pos", "to_neg": "to_pos", "to_pos": "to_neg"}


# -- the stages of a rounding --------------------------------------------------------------------

Variant = Callable[[Words], np.ndarray]
Value = Callable[[Words], tuple[np.ndarray, np.ndarray]]  # floor and remainder of what came
Decision = Callable[[Words, np.ndarray, np.ndarray], np.ndarray]  # of them: whether to go up
Limit = Callable[[Words, np.ndarray, Any], np.ndarray]  # of floor and up: what is left


def right_value(w: Words) -> tuple[np.ndarray, np.ndarray]:
    """As the trail has it."""
    return w.way["floor"], w.way["remainder"]


def right_decision(w: Words, floor: np.ndarray, remainder: np.ndarray) -> np.ndarray:
    """By the port's mode."""
    return w.decided(w.mode, floor, remainder)


def right_limit(w: Words, floor: np.ndarray, up: Any) -> np.ndarray:
    """By the port's limits."""
    return w.clipped(floor + up)


def made(
    w: Words, value: Value = right_value, decision: Decision = right_decision, limit: Limit = right_limit
) -> np.ndarray:
    """The port's elements by these stages."""
    floor, remainder = value(w)
    return w.stored(limit(w, floor, decision(w, floor, remainder)))


def _halved(w: Words) -> tuple[np.ndarray, np.ndarray]:
    """One bit too far right: what falls off sticks."""
    floor, remainder = right_value(w)
    return floor >> 1, (floor & 1) << FRACTION_BITS | remainder >> 2 << 1 | (remainder & 3 != 0)


def _doubled(w: Words) -> tuple[np.ndarray, np.ndarray]:
    """One bit too far left."""
    floor, remainder = right_value(w)
    return floor << 1 | remainder >> FRACTION_BITS, (remainder & HALF - 2) << 1 | remainder & 1


def _kept_below(bits: int, of_magnitude: bool = False) -> Value:
    """So many bits below the grid are kept, no sticky bit; of a magnitude the cut is towards 0."""

    def value(w: Words) -> tuple[np.ndarray, np.ndarray]:
        floor, remainder = right_value(w)
        gap = FRACTION_BITS + 1 - bits
        cut = remainder >> gap
        if of_magnitude:
            cut = cut + ((floor < 0) & (cut << gap != remainder))
        return floor + (cut >> bits), (cut & (1 << bits) - 1) << gap

    return value


def _accumulated(keep: Callable[[np.ndarray, int], np.ndarray], bits: int) -> Value:
    """An accumulator with so many bits from the grid up."""
    return lambda w: (keep(w.way["floor"], bits), w.way["remainder"])


VALUES: dict[str, Value] = {
    "shift by one, too far right": _halved,
    "shift by one, too far left": _doubled,
}


def _by_mode(name: str) -> Decision:
    return lambda w, floor, remainder: w.decided(name, floor, remainder)


def _drawn(up: Callable[[np.ndarray, np.ndarray, int], np.ndarray]) -> Decision:
    """By remainder, random word and the word's bits that do not count."""
    return lambda w, floor, remainder: up(remainder, w.way["words"], FRACTION_BITS - w.word_bits)


MODES = {
    "tie up (towards +infinity)": "ties_pos",
    "tie away from zero": "ties_away",
    "tie to even": "ties_even",
    "tie down (towards -infinity), as a constant of half less one": "ties_neg",
    "tie towards zero": "ties_zero",
    "tie to odd": "ties_odd",
    "truncation (floor)": "to_neg",
    "truncation towards zero": "to_zero",
    "rounded up always (ceiling)": "to_pos",
}
DRAWN: dict[str, Decision] = {
    "random word <= fraction in place of <": _drawn(
        lambda remainder, words, gap: words >> gap <= remainder >> 1 + gap
    ),
    "random word complemented": _drawn(
        lambda remainder, words, gap: (words ^ 0xFFFFFFFF) >> gap < remainder >> 1 + gap
    ),
}


def _clips(low_by: int) -> Limit:
    """Limits wider by so many codes below."""

    def limit(w: Words, floor: np.ndarray, up: Any) -> np.ndarray:
        low, high = w.limits()
        return np.clip(floor + up, low - low_by, high)

    return limit


def _decided_first(w: Words, floor: np.ndarray, up: Any) -> np.ndarray:
    """Whether to limit is decided on the floor, and what passes goes up after that."""
    low, high = w.limits()
    return np.where(floor > high, high, np.where(floor < low, low, floor + up))


def _within(w: Words, floor: np.ndarray, up: Any) -> np.ndarray:
    """Wraps within the limits' own bits, where the port has more of them."""
    high = w.limits()[1]
    if isinstance(high, int) and high.bit_length() + 1 == w.port.bits:
        return w.clipped(floor + up)
    span = 2 * (np.asarray(high).astype(np.int64) + 1)
    return (floor + up + span // 2) % span - span // 2


LIMITS: dict[str, Limit] = {  # where there are some
    "no saturation (wraps)": lambda w, floor, up: floor + up,
    "no saturation (wraps within the limits' own bits)": _within,
    "no saturation above (wraps)": lambda w, floor, up: np.maximum(floor + up, w.limits()[0]),
    "no saturation below (wraps)": lambda w, floor, up: np.minimum(floor + up, w.limits()[1]),
    "limits one code too wide below": _clips(1),
    "limits before rounding": lambda w, floor, up: np.clip(floor, *w.limits()) + up,
    "saturation decided before rounding": _decided_first,
    "the rounding's carry is dropped": lambda w, floor, up: w.clipped(floor ^ up),
}


def _decisions(w: Words) -> dict[str, Decision]:
    """Those of this port; its own mode is none."""
    found = {name: _by_mode(mode) for name, mode in MODES.items() if mode != w.mode}
    return found | (DRAWN if "words" in w.way else {})


def _limits(w: Words) -> dict[str, Limit]:
    low, high = w.limits()
    if low is None or high is None:
        return {name: LIMITS[name] for name in ("no saturation (wraps)", "the rounding's carry is dropped")}
    if w.port.rounding.get("overflow") == "wrap":
        return {"saturates where it has to wrap": _clips(0)}
    return LIMITS


def stages(w: Words) -> Iterator[tuple[str, Variant]]:
    """One stage that is wrong."""
    yield from ((name, partial(made, decision=one)) for name, one in _decisions(w).items())
    yield from ((name, partial(made, limit=one)) for name, one in _limits(w).items())
    yield from ((name, partial(made, value=one)) for name, one in VALUES.items())


def pairs(w: Words) -> Iterator[tuple[str, Variant]]:
    """Two stages that are wrong, each in one way."""
    if not w.traced:
        return
    decisions, limits, values = _decisions(w), _limits(w), VALUES | dict(widths(w))
    for (a, one), (b, other) in product(decisions.items(), limits.items()):
        yield f"{a}, and {b}", partial(made, decision=one, limit=other)
    for (a, come), (b, one) in product(values.items(), decisions.items()):
        yield f"{a}, and {b}", partial(made, value=come, decision=one)
    for (a, come), (b, other) in product(values.items(), limits.items()):
        yield f"{a}, and {b}", partial(made, value=come, limit=other)


def widths(w: Words) -> Iterator[tuple[str, Value]]:
    """Accumulators ahead of the rounding that are too narrow, above the grid or below."""
    most = int(np.abs(w.way["floor"]).max(initial=0)).bit_length() + 1
    for bits in range(most - 1, 1, -1):
        for does, keep in (("wraps", wrapped), ("saturates", saturated)):
            yield f"the sum {does} {AHEAD}, {bits} bits from the grid up", _accumulated(keep, bits)
    for bits in range(1, GUARD + 1):
        kept = f"{bits} bit{'s' * (bits > 1)} kept below the grid"
        yield f"{kept}, no sticky bit", _kept_below(bits)
        if w.port.signed and "sign" not in w.way:
            yield f"{kept} of the magnitude, no sticky bit", _kept_below(bits, of_magnitude=True)


# -- of any port ---------------------------------------------------------------------------------


def saturated(codes: np.ndarray, bits: int) -> np.ndarray:
    """Limited to so many bits."""
    half = 1 << bits - 1
    return np.clip(codes, -half, half - 1)


def _of_want(change: Callable[[np.ndarray], np.ndarray]) -> Variant:
    """The low bits of what was wanted, changed."""
    return lambda w: wrapped(change(w.want), w.port.bits, w.port.signed)


def _off_by_one(w: Words) -> Iterator[tuple[str, Variant]]:
    """Of an exponent, a count, the exponent in a binary32."""
    if w.port.encoding == "float32":
        yield "an exponent one too large: twice the value", partial(_times, factor=np.float32(2))
        yield "an exponent one too small: half the value", partial(_times, factor=np.float32(0.5))
    elif w.port.encoding == "integer":
        yield "one too large", _of_want(lambda codes: codes + 1)
        yield "one too small", _of_want(lambda codes: codes - 1)


def _times(w: Words, factor: np.float32) -> np.ndarray:
    """Of patterns of binary32; NaNs stay."""
    values = w.want.astype(np.uint32).view(np.float32)
    with np.errstate(over="ignore", under="ignore"):
        made = (values * factor).view(np.uint32).astype(np.int64)
    return np.where(np.isnan(values), w.want, made)


def _negated(w: Words) -> np.ndarray:
    if w.port.encoding in FLOATS:
        return w.want ^ 1 << w.port.bits - 1
    if w.port.encoding == "flag" and isinstance(w.port.format, Flag):
        sign = 1 << w.port.format.fine  # of magnitude 0 there is no other
        return np.where(w.want & sign - 1, w.want ^ sign, w.want)
    return wrapped(-w.want, w.port.bits, w.port.signed)


def _turned(group: int, w: Words) -> np.ndarray:
    """Groups of so many bits in the other order."""
    turned, bits = np.zeros_like(w.want), w.port.bits
    for at in range(0, bits, group):
        turned |= (w.want >> at & (1 << group) - 1) << bits - group - at
    return wrapped(turned, bits, w.port.signed)


def singles(w: Words) -> Iterator[tuple[str, Variant]]:
    """Every mistake of one element alone that this port could have."""
    if w.traced:
        yield from stages(w)
    if w.port.bits > 1:
        if not w.traced:
            yield "shift by one, too far right", _of_want(lambda codes: codes >> 1)
            yield "shift by one, too far left", _of_want(lambda codes: codes << 1)
            yield from _off_by_one(w)
        yield "negated", _negated
        yield "bits in the other order", partial(_turned, 1)
    if w.port.bits > 8 and w.port.bits % 8 == 0:
        yield "bytes in the other order", partial(_turned, 8)
    for bit in range(min(w.port.bits, 63)):  # of 64 the last is no mask of an int64
        yield f"bit {bit} stuck at 0", _of_want(partial(operator.and_, ~(1 << bit)))
        yield f"bit {bit} stuck at 1", _of_want(partial(operator.or_, 1 << bit))
        yield f"bit {bit} inverted", _of_want(partial(operator.xor, 1 << bit))
    if w.port.encoding == "integer" and w.port.signed:
        for bits in range(w.port.bits - 1, 1, -1):
            yield f"wraps at {bits} bits", _of_want(partial(wrapped, bits=bits))
            yield f"saturates at {bits} bits", _of_want(partial(saturated, bits=bits))


def rarer(w: Words, all_of_it: Words) -> Iterator[tuple[str, Variant]]:
    """One word for all; accumulators that are too narrow; a clip at the ends of what came."""
    stuck = all_of_it.got[:1]
    if all_of_it.got.size > 1 and np.all(all_of_it.got == stuck):
        yield f"stuck at {int(stuck[0]):,}", lambda w: np.broadcast_to(stuck, w.want.shape)
        return
    if w.traced:
        yield from ((name, partial(made, value=one)) for name, one in widths(w))
    if w.port.encoding != "integer":
        return
    low, high = int(all_of_it.got.min()), int(all_of_it.got.max())
    above, below = high < int(all_of_it.want.max()), low > int(all_of_it.want.min())
    ends = (low if below else None, high if above else None)
    if above or below:
        told = [f"above at {high:,}"] * above + [f"below at {low:,}"] * below
        yield f"a clip {' and '.join(told)}", lambda w: np.clip(w.want, *ends)
