"""The product of two blocks of microscaling formats as a unit: elements are exact, their sum is rounded once.

An element is a significand and the place it stands at, in units of its format's least bit:

    a = significand * 2^place * 2^unit(format)          of MXINT8 the significand is its code, the place 0

Source: OCP microscaling formats (MX), version 1.0, 6.1, Dot(A, B) = X(A) X(B) sum of P_i(A) P_i(B). It leaves
open how a sum is kept and rounded: here no bit of it is lost before its one rounding. What elements stand for
says `spec.microscaling`, and what float32 is made of a sum `spec.small_floats`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from intnet.spec.formats import FixedPoint
from intnet.spec.microscaling import ELEMENTS, GREATEST, NAN, Element
from intnet.spec.small_floats import Float, value
from intnet.spec.tensor import power
from intnet.spec.units.quantizers import held
from intnet.spec.units.sums import INFINITY, LEAST, MANTISSA, float32, tree
from intnet.spec.wires import Circuit, Range, Wire, span, width

QUIET_NAN = 0x7FC00000  # of binary32

Parameters = Mapping[str, Any]


class Lane(NamedTuple):
    """An element: its significand and place, and whether it is a NaN or an infinity, where its format has
    these."""

    significand: Wire
    place: Wire
    nan: list[Wire]
    infinite: list[Wire]


def bits(element: Element) -> int:
    """Of an element's word."""
    return element.bits if isinstance(element, Float) else element.wl


def signed(element: Element) -> bool:
    """Whether its words are signed codes."""
    return isinstance(element, FixedPoint)


def unit(element: Element) -> int:
    """log2 of its least bit."""
    return element.least - element.m if isinstance(element, Float) else -element.fl


def reach(element: Element) -> Range:
    """Its least and greatest finite value, in units of 2^unit."""
    if isinstance(element, FixedPoint):
        return span(element.wl)
    most = int(value(element.greatest, element) / power(unit(element)))
    return -most, most


def sums(p: Parameters) -> Range:
    """The least and greatest sum of K products, in units of 2^(unit(A) + unit(B))."""
    a, b = reach(ELEMENTS[p["A"]]), reach(ELEMENTS[p["B"]])
    products = [x * y for x in a for y in b]
    return p["K"] * min(products), p["K"] * max(products)


def edge(p: Parameters) -> int:
    """The place of float32's least bit in a sum that was moved up by MANTISSA bits, of scales of 0."""
    return LEAST + MANTISSA - unit(ELEMENTS[p["A"]]) - unit(ELEMENTS[p["B"]]) + 2 * GREATEST


def lane(c: Circuit, name: str, i: int, word: Wire, element: Element) -> Lane:
    """What a word stands for: a NaN and an infinity as if they were numbers, for no sum of these is kept."""
    if isinstance(element, FixedPoint):
        return Lane(word, c.value(0), [], [])
    field = c.wire(f"{name}.field[{i}]", (word >> element.m) & (1 << element.e) - 1)
    fraction = word & (1 << element.m) - 1
    normal = field.differs(0)
    size = fraction + (normal << element.m)
    minus = (word >> element.e + element.m).differs(0)
    significand = c.wire(f"{name}.significand[{i}]", c.select(minus, -size, size))
    place = c.wire(f"{name}.place[{i}]", field - normal)
    place.low, place.high = 0, field.high - 1
    nan, infinite = [], []
    if element.specials == "nan":
        nan.append((word & (1 << element.bits - 1) - 1).equals(element.greatest + 1))
    if element.specials == "ieee":
        infinite.append(field.equals((1 << element.e) - 1))  # a NaN, too: that is infinities of both signs
        nan.append(infinite[0] & fraction.differs(0))
    return Lane(significand, place, nan, infinite)


def mx_dot(c: Circuit, p: Parameters) -> None:
    """y = float32(2^(sa + sb - 254) * sum of a * b over a block), the sum exact, rounded once, ties to even.

    A block comes in beats of LANES elements, K at most, its scales with the last. A scale of 255, a NaN, an
    infinity times 0 and infinities of both signs make a NaN; else infinities make one of their sign.
    """
    first, _ = c.read("first", 1, False), c.read("last", 1, False)
    lanes = [
        [
            lane(c, name, i, word, element)
            for i, word in enumerate(c.lanes(name, p["LANES"], bits(element), signed(element)))
        ]
        for name, element in (("a", ELEMENTS[p["A"]]), ("b", ELEMENTS[p["B"]]))
    ]
    sa, sb = c.read("sa", 8, False), c.read("sb", 8, False)
    products = [
        c.wire(f"product[{i}]", (a.significand * b.significand) << (a.place + b.place))
        for i, (a, b) in enumerate(zip(*lanes, strict=True))
    ]
    plus, minus = infinities(c, first, lanes, products)
    low, high = sums(p)
    total, dot = c.register("sum", width(low, high)), c.wire("dot", tree(products))
    after = c.select(first, 0, total) + dot
    special = plus | minus
    after = c.wire("after", c.select(special, 0, after), width(low, high))
    c.keep(total, after)
    scales, bad = c.wire("scales", sa + sb), c.wire("scale.nan", sa.equals(NAN) | sb.equals(NAN))
    sign, number, infinite = rounded(c, after, scales, p)
    y = c.select(plus, INFINITY, c.select(minus, 1 << 31 | INFINITY, (sign << 31) + number))
    bad_or_both = bad | (plus & minus)
    c.wire("special", special | bad)
    c.give("y", c.select(bad_or_both, QUIET_NAN, y))
    c.give("overflow", infinite & bad.equals(0))


def infinities(
    c: Circuit, first: Wire, lanes: Sequence[Sequence[Lane]], products: Sequence[Wire]
) -> tuple[Wire, Wire]:
    """Whether a block had an infinity so far, of either sign: two registers. A NaN is one of both.

    An infinity times 0 is a NaN: as a number its product is 0, and counts as both.
    """
    terms: tuple[list[Wire], list[Wire]] = [], []
    for a, b, product in zip(*lanes, products, strict=True):
        for special in (*a.infinite, *b.infinite):
            terms[0].append(special & (product >= 0))
            terms[1].append(special & (product <= 0))
        for side in terms:
            side += [*a.nan, *b.nan]
    if not terms[0]:
        return c.value(0), c.value(0)
    return kept(c, "plus", first, terms[0]), kept(c, "minus", first, terms[1])


def kept(c: Circuit, name: str, first: Wire, terms: Sequence[Wire]) -> Wire:
    """Whether any of a block's beats so far had one of these."""
    before, beat = c.register(name, 1, False), terms[0]
    for one in terms[1:]:
        beat = beat | one
    after = c.wire(f"after.{name}", c.select(first, 0, before) | beat)
    c.keep(before, after)
    return after


def rounded(c: Circuit, dot: Wire, scales: Wire, p: Parameters) -> tuple[Wire, Wire, Wire]:
    """(sign, word without it, whether it is infinite) of a whole sum.

    The places of its leading bit and of the least subnormal say which bits float32 keeps. It is moved up by
    MANTISSA bits, so that these lie above bit 0; where they lie above all of it all is lost.
    """
    low, high = sums(p)
    greatest = max(-low, high)
    sign = c.wire("sign", dot < 0)
    size = c.wire("size", c.select(sign, -dot, dot), greatest.bit_length(), False)
    top = c.length(size)
    lowest = c.wire("edge", edge(p) - scales)
    lsb = c.wire("lsb", c.select(top > lowest, top, lowest))
    lsb.low = 0
    most = size.bits + MANTISSA + 1
    right = held(c.wire("right", c.select(lsb > most, most, lsb)), most)
    steps = c.wire("steps", c.select(size.equals(0), 0, lsb - lowest))
    steps.low, steps.high = 0, top.high - lowest.low
    c.every("right", right)
    unreached(c, size.bits, greatest, p)
    return sign, *float32(c, size << MANTISSA, sign, right, steps)


def unreached(c: Circuit, wide: int, greatest: int, p: Parameters) -> None:
    """What no block reaches: of a magnitude of `wide` bits, `greatest` at most."""
    if p["K"] < 2 * p["LANES"]:
        c.never |= {f"{name}[0] = 0": "a block is one beat" for name in ("first", "last")}
    for bit in range(MANTISSA):
        c.never[f"lost[{bit}] = 1"] = "the sum was moved up by so many bits, which are 0"
    if wide <= MANTISSA:
        for name in (f"presat[{MANTISSA}] = 1", "presat: one bit narrower"):
            c.never[name] = "a sum of so few bits is rounded as a subnormal only, and has fewer then"
    if greatest == 1 << wide - 1:
        c.never["lost: one bit narrower"] = "only the greatest sum has so many bits, and its lower ones are 0"
    if any(getattr(ELEMENTS[p[k]], "specials", "") == "ieee" for k in ("A", "B")):
        for name in ("dot", *(f"product[{i}]" for i in range(p["LANES"]))):
            c.never[f"{name}: one bit narrower"] = (
                "only infinities and NaNs reach so far, and their sums are 0"
            )
