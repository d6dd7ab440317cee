"""WAGEUBN's quantizers as circuits; as numbers: `spec.formats`. R's exponent comes in beside each word.

    quantize_q      (6)   Q(x, k): a static shift
    quantize_sq     (8)   SQ(x, K): a shift by n both ways, clipped
    quantize_cq     (7)   CQ(x): stochastic, a random word beside each
    quantize_flag   (17)  Flag-Q(x): two grids
    r_exponent      (7), (8), (17)  n of R(x) = 2^n, over a vector

A code x stands at exponent EX; n = log2 R(x).
"""

from __future__ import annotations

from collections.abc import Mapping

from intnet.spec.units.steps import limited, shifted
from intnet.spec.wires import Circuit, Wire, width

Parameters = Mapping[str, int]
FINE = 7  # bits of a magnitude of Flag-Q, k = 8
WORD = 32  # bits of a random word


def quantize_q(c: Circuit, p: Parameters) -> None:
    """Eq. (6): q = round(x / 2^S), ties to even; the range is not limited. S <= 0 adds zeros."""
    x = c.read("x", p["W"])
    c.give("q", shifted(c, x, p["S"], "ties_even") if p["S"] > 0 else c.wire("presat", x << -p["S"]))


def both_ways(c: Circuit, d: Wire, most_left: int, most_right: int) -> tuple[Wire, Wire]:
    """(left, right): |d| as the amount of one of them, held at its most; 0 as that of the other.

    Further than that changes nothing: the caller says why.
    """
    left = c.wire(
        "left", c.select(d >= 0, 0, c.select(-d > most_left, most_left, -d)), most_left.bit_length(), False
    )
    right = c.wire(
        "right", c.select(d <= 0, 0, c.select(d > most_right, most_right, d)), most_right.bit_length(), False
    )
    return held(left, most_left), held(right, most_right)


def held(amount: Wire, most: int) -> Wire:
    """An amount that `select` has kept within 0..most."""
    amount.low, amount.high = max(amount.low, 0), min(amount.high, most)
    return amount


def quantize_sq(c: Circuit, p: Parameters) -> None:
    """Eq. (8): q = clip(round(x * 2^(EX + K-1 - n)), -(2^(K-1)-1), 2^(K-1)-1), ties to even.

    Beyond K bits left every x but 0 saturates; beyond W bits right every x rounds to 0.
    """
    x, n = c.read("x", p["W"]), c.read("n", p["NB"])
    d = c.wire("d", n - (p["EX"] + p["K"] - 1))
    left, right = both_ways(c, d, p["K"], p["W"] + 1)
    y = c.wire("y", x << left)
    rounded = shifted(c, y, right, "ties_even")
    top = (1 << p["K"] - 1) - 1
    q, saturated = limited(c, rounded, -top, top, p["K"])
    c.every("left", left)
    c.every("right", right)
    c.give("q", q)
    c.give("saturated", saturated)


def quantize_cq(c: Circuit, p: Parameters) -> None:
    """Eq. (7): q = clip(Sr(dr * x / R), -(dr-1), dr-1), dr = 2^log_dr; up iff word < floor(fraction * 2^32).

    Beyond DB bits left every x but 0 saturates; W + 32 bits right leave nothing but the sign.
    """
    x, n = c.read("x", p["W"]), c.read("n", p["NB"])
    log_dr, word = c.read("log_dr", 3, False), c.read("word", WORD, False)
    d = c.wire("d", n - p["EX"] - log_dr)
    left, right = both_ways(c, d, p["DB"], p["W"] + WORD)
    y = c.wire("y", x << left)
    floor = c.wire("floor", y >> right)
    fraction = c.wire("fraction", ((y << WORD) >> right) & ((1 << WORD) - 1))
    up = c.wire("up", word < fraction)
    c.seen("word = fraction", word.equals(fraction) & fraction.differs(0))
    c.seen("word = fraction - 1", (word + 1).equals(fraction))
    c.seen("fraction 0, word 0", fraction.equals(0) & word.equals(0))
    rounded = c.wire("presat", floor + up)
    limit = c.wire("limit", (1 << log_dr) - 1)
    q, saturated = limited(c, rounded, -limit, limit, p["DB"])
    c.every("left", left)
    c.every("right", right)
    c.every("log_dr", log_dr)
    c.give("q", q)
    c.give("saturated", saturated)


def quantize_flag(c: Circuit, p: Parameters) -> None:
    """Eq. (17), Sc = R / 2^7: where |x| >= Sc, Sc * clip(round(x / Sc), -127, 127); below, Sc/2^7 * round(2^7
    x/Sc).

    q is {flag, sign, magnitude of 7 bits}. Nearest, ties to even, is symmetrical: it is done on |x|. A fine
    value that rounds to Sc itself is flag 1, magnitude 1. Beyond 8 bits left every x but 0 is coarse and
    saturates.
    """
    x, n = c.read("x", p["W"]), c.read("n", p["NB"])
    top = (1 << FINE) - 1
    sign = c.wire("sign", x < 0)
    size = c.wire("size", c.select(sign, -x, x), p["W"], False)
    log_sc = c.wire("log_sc", n - (p["EX"] + FINE))  # in units of x
    reach = c.wire("reach", c.select(log_sc < 0, 0, c.select(log_sc > p["W"], p["W"], log_sc)))
    coarse = c.wire("coarse", c.select(log_sc < 0, size.differs(0), (size >> held(reach, p["W"])).differs(0)))
    most = max(log_sc.high - FINE, p["W"] - 1)  # what is coarse has a bit at Sc or above it
    d = c.wire("d", c.select(coarse, log_sc, log_sc - FINE), width(log_sc.low - FINE, most))
    left, right = both_ways(c, d, FINE + 1, p["W"] + 1)
    y = c.wire("y", size << left)
    rounded = shifted(c, y, right, "ties_even", p["W"])
    c.never["lost: one bit narrower"] = "only |x| = 2^(W-1) has the top bit, and neither it nor 0 rounds up"
    carry = c.wire("carry", coarse.equals(0) & rounded.equals(top + 1))
    over = c.wire("over", coarse & (rounded > top))
    flag = coarse | carry
    magnitude = c.wire("magnitude", c.select(carry, 1, c.select(over, top, rounded)) & top)
    minus = c.wire("minus", sign & magnitude.differs(0))
    for name, of_sign in (("positive", x >= 0), ("negative", sign)):
        c.seen(f"|x| = Sc, {name}", size.equals(1 << held(reach, p["W"])) & (log_sc >= 0) & of_sign)
        c.seen(f"|x| = Sc - 1, {name}", (size + 1).equals(1 << reach) & (log_sc >= 0) & of_sign)
    c.every("left", left)
    c.every("right", right)
    c.every("magnitude", magnitude)
    c.give("q", (flag << FINE + 1) + (minus << FINE) + magnitude)
    c.give("saturated", over)


def r_exponent(c: Circuit, p: Parameters) -> None:
    """n = EX + the p with 2^(2p-1) <= m^2 < 2^(2p+1), m the greatest |x| of a vector; n = 0 where m = 0 (R =
    1).
    """
    first, last = c.read("first", 1, False), c.read("last", 1, False)
    x, seen = c.read("x", p["W"]), c.register("seen", p["W"], False)
    size = c.wire("size", c.select(x < 0, -x, x), p["W"], False)
    held_ = c.select(first, 0, seen)
    top = c.wire("max", c.select(size > held_, size, held_))
    c.keep(seen, top)
    length = c.length(top)
    place = c.wire("place", c.select(top.equals(0), 0, length - 1), max(1, (p["W"] - 1).bit_length()), False)
    square = c.wire("square", top * top, 2 * p["W"] - 1, False)  # top <= 2^(W-1)
    c.never["square: one bit narrower"] = "only 2^(2W-2) has the top bit, and neither it nor 0 rounds up"
    c.never["square[1] = 1"] = "a square is 0 or 1 modulo 4"
    up = c.wire("up", square >= (1 << place * 2 + 1))
    n = c.wire("exponent", place + up + p["EX"])
    c.every("place", held(place, p["W"] - 1))
    c.seen("the last beat is the greatest", last & first.equals(0) & (size > held_))
    c.seen("the first beat is the greatest", last & first.equals(0) & (size < held_))
    c.give("n", c.wire("n", c.select(top.equals(0), 0, n), p["NB"]))
