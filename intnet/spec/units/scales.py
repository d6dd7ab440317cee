"""Units that bring a word from one scale to another: a shift, a multiply-add, TFLite's requantization."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from intnet.spec.units.quantizers import both_ways, held
from intnet.spec.units.steps import given, shifted
from intnet.spec.wires import Circuit, Wire

Parameters = Mapping[str, Any]


def shift(c: Circuit, p: Parameters) -> None:
    """q = limit(round(x / 2^S) + ZQ): a static shift, S >= 0, with every mode and limit."""
    given(c, shifted(c, c.read("x", p["W"], bool(p["XS"])), p["S"], p["MODE"]), p["ZQ"], p)


def shift_by(c: Circuit, p: Parameters) -> None:
    """q = limit(round(x / 2^n) + ZQ), n a signed port: right where n > 0, left by -n below; every n is legal.

    Beyond OUT + 1 bits left every x but 0 is beyond the range; beyond W + 1 bits right only the sign is left.
    So OVERFLOW wrap, which would keep low bits of any left shift, keeps those of a shift by OUT + 1: zeros.
    """
    x, n = c.read("x", p["W"], bool(p["XS"])), c.read("n", p["NB"])
    left, right = both_ways(c, c.wire("d", n), p["OUT"] + 1, p["W"] + 1)
    y = c.wire("y", x << left)
    c.every("left", left)
    c.every("right", right)
    given(c, shifted(c, y, right, p["MODE"]), p["ZQ"], p)


def scale_add(c: Circuit, p: Parameters) -> None:
    """q = limit(round((x * scale + offset) / 2^S) + ZQ): batch norm at inference, by channel."""
    x, scale = c.read("x", p["W"], bool(p["XS"])), c.read("scale", p["B"])
    offset = c.read("offset", p["OB"])
    product = c.wire("product", x * scale)
    given(c, shifted(c, c.wire("acc", product + offset), p["S"], p["MODE"]), p["ZQ"], p)


def requantize(c: Circuit, p: Parameters) -> None:
    """q = limit(zero_point + acc * multiplier * 2^-(31 + n)), multiplier of 31 bits, n a signed port.

    TWICE=0: one rounding of acc * multiplier / 2^(31 + n), ties by MODE: TFLite's single rounding with
    ties_pos. TWICE=1: gemmlowp's two. First acc * 2^left (wrapped never: it must fit), then
    SaturatingRoundingDoublingHighMul, (a * b + nudge) / 2^31 truncated toward zero, nudge = 2^30 or 1 - 2^30
    by the product's sign; then RoundingDivideByPOT, ties away from zero.
    """
    acc, multiplier = c.read("acc", p["W"]), c.read("multiplier", 31, False)
    n, zero = c.read("n", 6), c.read("zero_point", p["OUT"], bool(p["QS"]))
    left, right = both_ways(c, n, p["LEFT"], p["RIGHT"])
    scaled = c.wire("scaled", acc << left)
    c.every("left", left)
    c.every("right", right)
    product = c.wire("product", scaled * multiplier)
    if p["TWICE"]:
        high = c.wire("high", _toward_zero(c, product))
        rounded = shifted(c, high, right, "ties_away")
    else:
        rounded = shifted(c, product, held(c.wire("amount", right + 31), 31 + p["RIGHT"]), p["MODE"])
    given(c, rounded, zero, p)


def _toward_zero(c: Circuit, product: Wire) -> Wire:
    """(product + nudge) / 2^31, truncated toward zero: to nearest, ties of either sign up."""
    nudged = c.wire("nudged", product + c.select(product < 0, 1 - (1 << 30), 1 << 30))
    return c.select(nudged < 0, -(-nudged >> 31), nudged >> 31)
