"""Units that sum products over the beats of a vector: `first` starts one, `last` gives its result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from intnet.spec.units.steps import given, shifted
from intnet.spec.wires import Circuit, Wire, span

Parameters = Mapping[str, Any]
LOWEST = -256  # log2 of the least bit that a product of two blocks can have
LEAST, MANTISSA, INFINITY = -149, 24, 0x7F800000  # of binary32


def tree(values: list[Wire]) -> Wire:
    """Their sum."""
    total = values[0]
    for value in values[1:]:
        total = total + value
    return total


def accumulated(c: Circuit, name: str, value: Wire, p: Parameters) -> Wire:
    """A sum in ACC bits: exact (the vectors' sums fit it), or wrapping or saturating at each step."""
    if p["SUMS"] == "wrap":
        return c.cut(name, value, p["ACC"])
    if p["SUMS"] == "exact":
        return c.wire(name, value, p["ACC"])
    low, high = span(p["ACC"])
    over, under = c.wire(f"{name}.over", value > high), c.wire(f"{name}.under", value < low)
    return c.wire(name, c.select(over, high, c.select(under, low, value)))


def mac_requant(c: Circuit, p: Parameters) -> None:
    """acc = bias + sum of (x - ZX) * (w - ZW) over a vector's beats and lanes; q = limit(round(acc / 2^S) +
    ZQ).

    XS, WS, QS: 1 where x, w, q are signed; ZX, ZW, ZQ: zero points; MODE: how S bits are rounded away;
    OVERFLOW: what q does beyond its range; SUMS: what the accumulator of ACC bits does beyond its.
    """
    first, last = c.read("first", 1, False), c.read("last", 1, False)
    xs = c.lanes("x", p["LANES"], p["A"], bool(p["XS"]))
    ws = c.lanes("w", p["LANES"], p["B"], bool(p["WS"]))
    bias, total = c.read("bias", p["ACC"]), c.register("sum", p["ACC"])
    products = [
        c.wire(f"product[{i}]", (x - p["ZX"]) * (w - p["ZW"]))
        for i, (x, w) in enumerate(zip(xs, ws, strict=True))
    ]
    beat = c.wire("beat", tree(products))
    after = accumulated(c, "after", c.select(first, 0, total) + beat, p)
    c.keep(total, after)
    acc = accumulated(c, "acc", after + c.select(last, bias, 0), p)
    rounded = shifted(c, acc, p["S"], p["MODE"])
    given(c, rounded, p["ZQ"], p)


def block_dot(c: Circuit, p: Parameters) -> None:
    """y = float32(sum over blocks of 2^(xe + we) * sum of xm * wm), the sum exact, rounded once, ties to
    even.

    The accumulator has a bit for every place that a product can reach, and GUARD bits for 2^GUARD / BLOCK
    blocks.
    """
    first, _ = c.read("first", 1, False), c.read("last", 1, False)
    xm, wm = (c.lanes(name, p["BLOCK"], p["M"]) for name in ("xm", "wm"))
    xe, we = c.read("xe", 8), c.read("we", 8)
    bits = 511 + 2 * p["M"] + p["GUARD"]
    total = c.register("sum", bits)
    dot = c.wire("dot", tree([a * b for a, b in zip(xm, wm, strict=True)]))
    place = c.wire("place", xe + we - LOWEST)
    after = c.wire("after", c.select(first, 0, total) + (dot << place), bits)
    c.keep(total, after)
    minus = c.wire("sign", after < 0)
    size = c.wire("size", c.select(minus, -after, after), bits, False)
    top = c.length(size)
    least = LEAST - LOWEST
    lsb = c.wire("lsb", c.select(top < least + MANTISSA, least, top - MANTISSA))  # the bit that float32 keeps
    lsb.low = least
    y, overflow = float32(c, size, minus, lsb, lsb - least)
    lost = f"lost[{c.wires['lost'].bits - 1}] = 1"
    for name in (lost, "lost: one bit narrower"):
        c.never[name] = "only the least sum has so many bits, and its lower ones are 0"
    c.never["lsb: one bit narrower"] = (
        "without its top bit the floor is so wide that the result is infinite as well"
    )
    c.give("y", (minus << 31) + y)
    c.give("overflow", overflow)


def float32(c: Circuit, size: Wire, minus: Wire, lsb: Wire, steps: Wire) -> tuple[Wire, Wire]:
    """The word, without its sign, of a magnitude of which float32 keeps what is above 2^lsb, and whether it
    is infinite.

    steps: how far lsb is from the least subnormal's bit; the leading bit at lsb + 23, or lower where it is 0
    """
    floor = c.wire("floor", size >> lsb, MANTISSA, False)
    lost = c.wire("lost", size & ((1 << lsb) - 1))
    half = (1 << lsb) >> 1
    tie, odd = lost.equals(half), floor & 1
    up = c.wire("up", (lost > half) | (tie & odd))
    presat = c.wire("presat", floor + up)
    pattern = c.wire("pattern", (steps << MANTISSA - 1) + presat)
    overflow = c.wire("infinite", pattern >= INFINITY)
    kept = c.select(overflow, INFINITY, pattern)
    for sign, of_sign in (("positive", minus.equals(0)), ("negative", minus)):
        for code, parity in (("odd", odd), ("even", odd.equals(0))):
            c.seen(f"tie above an {code} floor, {sign}", c.all([tie, parity, of_sign]))
        c.seen(f"subnormal, {sign}", c.all([pattern < 1 << MANTISSA - 1, pattern.differs(0), of_sign]))
        c.seen(f"underflow, {sign}", c.all([pattern.equals(0), size.differs(0), of_sign]))
        c.seen(f"infinity, {sign}", overflow & of_sign)
    return kept, overflow
