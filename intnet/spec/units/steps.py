"""Steps that units share: a shift whose lost bits round, limits, the signs of a tie."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from intnet.spec.wires import Circuit, Value, Wire, span

MODES = ("ties_even", "ties_away", "ties_pos", "to_neg", "to_pos", "to_zero")  # of `spec.rounding`
OVERFLOWS = ("saturate", "saturate_symmetric", "wrap")


def shifted(c: Circuit, y: Wire, right: Value, mode: str, lost_bits: int = 0) -> Wire:
    """round(y / 2^right), right >= 0, as `spec.rounding` has it: floor, the bits lost below it, up or not.

    lost_bits: of what is lost, where fewer hold it than the greatest amount has
    """
    amount = c.value(right)
    floor = c.wire("floor", y >> amount)
    lost = c.wire("lost", y & ((1 << amount) - 1), lost_bits, False)
    half = (1 << amount) >> 1
    tie, at_half = lost.equals(half), lost >= half
    if amount.low == 0:  # nothing is lost of a shift by 0, and its half is 0 too
        cut = amount.differs(0)
        tie, at_half = tie & cut, at_half & cut
    odd, negative = floor & 1, y < 0
    if mode == "ties_even":
        goes_up = (lost > half) | (tie & odd)
    elif mode == "ties_away":
        goes_up = (lost > half) | (tie & (y >= 0))
    elif mode == "ties_pos":
        goes_up = at_half
    elif mode == "to_neg":
        goes_up = c.value(0)
    elif mode == "to_pos":
        goes_up = lost.differs(0)
    elif mode == "to_zero":
        goes_up = lost.differs(0) & negative
    else:
        raise ValueError(f"unknown rounding mode {mode!r}; choose one of {', '.join(MODES)}")
    up = c.wire("up", goes_up)
    if amount.high:
        for sign, of_sign in (("positive", y >= 0), ("negative", negative)):
            if sign == "positive" or y.low < 0:
                for code, parity in (("odd", odd), ("even", odd.equals(0))):
                    c.seen(f"tie above an {code} floor, {sign}", c.all([tie, parity, of_sign]))
    return c.wire("presat", floor + up)


def limited(
    c: Circuit, value: Wire, low: Value, high: Value, bits: int, overflow: str = "saturate"
) -> tuple[Wire, Wire]:
    """(q, saturated): a value brought within low .. high of `bits` bits, and whether that changed it.

    overflow: 'wrap' keeps the low bits instead; `saturate_symmetric` has low = -high already
    """
    over, under = c.wire("over", value > high), c.wire("under", value < low)
    signed = c.value(low).low < 0
    if overflow == "wrap":
        kept = c.cut("kept", value, bits, signed)
    else:
        kept = c.wire("kept", c.select(over, high, c.select(under, low, value)), bits, signed)
    edge = value.equals(high)
    if value.high >= c.value(high).high:
        c.seen("the greatest code, not limited", edge)
    return kept, over | under


def given(c: Circuit, rounded: Wire, zero: Value, p: Mapping[str, Any]) -> None:
    """The out ports q, the zero point added and then limited to OUT bits, and saturated."""
    placed = rounded if isinstance(zero, int) and zero == 0 else c.wire("placed", rounded + zero)
    low, high = ends(p["OUT"], p["OVERFLOW"], bool(p["QS"]))
    q, saturated = limited(c, placed, low, high, p["OUT"], p["OVERFLOW"])
    c.give("q", q)
    c.give("saturated", saturated)


def ends(bits: int, overflow: str, signed: bool = True) -> tuple[int, int]:
    """Least and greatest code of an out port."""
    low, high = span(bits, signed)
    return (-high if overflow == "saturate_symmetric" and signed else low), high
