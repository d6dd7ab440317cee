"""Rounding: an exact quotient becomes an integer; the rule for one number, as kernels call it.

Defined by `spec/rounding.py: round_fraction`. Saturation is a second, separate step (`numbers/formats.py`,
`exact/quantize.py`). With x = num/den exact and f = x - floor(x):

    ties_even   nearest, a tie to the even integer (default)        HLS name RND_CONV
    ties_away   nearest, a tie away from zero                       RND_INF
    ties_pos    nearest, a tie to +infinity                         RND
    to_neg      floor                                               TRN
    to_pos      ceiling
    to_zero     truncation                                          TRN_ZERO
    stochastic  up iff word < floor(f * 2**bits), word has `bits` bits; STOCH

Randomness is an argument (`word`), so rounding is a pure function. Read on in `exact/expressions.py`, which
applies the rule to whole tensors. Loops of vectors have no room for `round_up` and its division: those of
`exact/stages.py` (of `rows.py` and `lane.py` there), `exact/parts.py`, three `*_loops.py` of `exact/blocks`
and `ops/kernels/curves.py` decide in ways of their own, say why each is the same, and are held to the
definition by tests of every mode.

A mode of a user's own is a function, `rule(floor, f)`: whether floor + f goes up, 0 < f < 1 a Fraction. Its
docstring says when. It is run an element at a time, on fractions: tens of microseconds each.

    @rounding.register("ties_neg")
    def ties_neg(floor, f):
        'f > 1/2'
        return f > Fraction(1, 2)
"""

from collections.abc import Callable
from fractions import Fraction
from functools import wraps
from typing import Any, NamedTuple

import numpy as np

from intnet.errors import FormatError
from intnet.machine.jit import njit, rule
from intnet.numbers.rng import Draw
from intnet.numbers.wide import umul_le
from intnet.plugins import Registry

TIES_EVEN, TIES_AWAY, TIES_POS, TO_NEG, TO_POS, TO_ZERO, STOCHASTIC, OWN = range(8)

Rule = Callable[[int, Fraction], bool]


def _check(name: str, rule: Any) -> None:
    if name in HLS_ALIASES:
        raise FormatError(f"rounding mode {name!r} is an HLS name, of {HLS_ALIASES[name]}: take another")
    if not callable(rule) or not rule.__doc__:
        raise FormatError(
            f"rounding mode {name!r}: register a function of (floor, fraction), whose docstring says when it "
            "goes up"
        )


_KNOWN: dict[str, int | Rule] = {
    "ties_even": TIES_EVEN,
    "ties_away": TIES_AWAY,
    "ties_pos": TIES_POS,
    "to_neg": TO_NEG,
    "to_pos": TO_POS,
    "to_zero": TO_ZERO,
    "stochastic": STOCHASTIC,
}
MODES = Registry("rounding mode", _KNOWN, _check)
register = MODES.register

NEAREST = (TIES_EVEN, TIES_AWAY, TIES_POS)  # these differ in ties alone

HLS_ALIASES: dict[str, str] = {
    "RND_CONV": "ties_even",
    "RND_INF": "ties_away",
    "RND": "ties_pos",
    "TRN": "to_neg",
    "TRN_ZERO": "to_zero",
    "STOCH": "stochastic",
}

NO_WORDS = np.zeros(0, np.uint32)
UNLIMITED = 1 << 62  # a range to +-this limits nothing


class Rounding(NamedTuple):
    """How a tensor is rounded.

    mode:      a code of MODES
    low, high: then codes are limited to these
    words:     uint32 an element where mode is STOCHASTIC, of which the top `bits` are used
    where:     'layer/path' for error messages
    rule:      of mode OWN, what decides
    of_batch:  the tensor is a part of a batch (`numbers/shares.py`), whose maxima are those of all parts
    draw:      in the place of words: where from
    """

    mode: int = TIES_EVEN
    low: int = -UNLIMITED
    high: int = UNLIMITED
    words: np.ndarray = NO_WORDS
    bits: int = 32
    where: str = ""
    rule: Rule | None = None
    of_batch: bool = False
    draw: Draw | None = None

    def within(self, low: int, high: int) -> "Rounding":
        """The same, limited to low..high."""
        return Rounding(self.mode, low, high, *self[3:])

    def drawn(self, n: int) -> np.ndarray:
        """The words of n elements, all at once."""
        return self.words if self.draw is None else self.draw.words(n)


def mode_code(name: str) -> int:
    """The code of a rounding mode given by name or HLS alias, OWN of a user's; FormatError for any other."""
    found = mode(name)
    return found if isinstance(found, int) else OWN


def mode(name: str) -> int | Rule:
    """The kernel code of a mode given by name or HLS alias, or a user's rule; FormatError for others."""
    found = MODES.get(HLS_ALIASES.get(name, name))
    if found is None:
        hint = " ('nearest' does not say where a tie goes)" if name == "nearest" else ""
        raise FormatError(
            f"unknown rounding mode {name!r}{hint}; use one of {', '.join(MODES)} "
            f"or the HLS names {', '.join(HLS_ALIASES)}"
        )
    return found


def how(
    name: str, words: np.ndarray | Draw | None = None, bits: int = 32, where: str = "", of_batch: bool = False
) -> Rounding:
    """A rounding by the name of its mode; words in C order."""
    found, draw = mode(name), words if isinstance(words, Draw) else None
    drawn = words.reshape(-1) if isinstance(words, np.ndarray) else NO_WORDS
    if isinstance(found, int):
        return Rounding(found, -UNLIMITED, UNLIMITED, drawn, bits, where, None, of_batch, draw)
    return Rounding(OWN, where=where, rule=checked(found), of_batch=of_batch)


def checked(rule: Rule) -> Rule:
    """A user's rule, with a FormatError where it does not say. What is on the grid stays."""

    @wraps(rule)
    def decides(floor: int, fraction: Fraction) -> bool:
        up = rule(floor, fraction) if fraction else False
        if not isinstance(up, bool | np.bool_):
            name = getattr(rule, "__name__", repr(rule))
            raise FormatError(f"rounding rule {name} of {floor}, {fraction} gives {up!r}: True or False")
        return bool(up)

    return decides


@njit
def round_up(mode: int, floor: int, rem: int, den: int, word: int, bits: int) -> bool:
    """Whether floor + rem/den (0 <= rem < den) goes up to floor + 1.

    `floor` < 0 says that the value is negative (floor + f < 0 exactly when floor < 0). The
    comparisons are written so that no intermediate exceeds den: 2*rem is never formed.

    Defined by `spec/rounding.py: decision`.
    """
    rest = den - rem
    if rem == 0:
        up = False
    elif mode == TIES_EVEN:
        up = rem > rest or (rem == rest and (floor & 1) == 1)
    elif mode == STOCHASTIC:
        # word < floor(rem * 2^bits / den)  <=>  (word + 1) * den <= rem * 2^bits
        up = umul_le(word + 1, den, rem, 1 << bits)
    elif mode == TIES_AWAY:
        up = rem > rest or (rem == rest and floor >= 0)
    elif mode == TIES_POS:
        up = rem >= rest
    elif mode == TO_ZERO:
        up = floor < 0
    else:
        up = mode == TO_POS  # TO_NEG never
    return up


@rule
def round_quotient(num: int, den: int, mode: int, word: int, bits: int) -> int:
    """num/den (den > 0, both within +-2**62) rounded to an integer.

    Defined by `spec/rounding.py: round_fraction`.
    """
    floor = num // den
    if round_up(mode, floor, num - floor * den, den, word, bits):
        return floor + 1
    return floor
