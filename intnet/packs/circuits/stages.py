"""Mistakes that designers make at the stages of a unit, as changes of its circuit: roundings, adders, limits.

    stages(circuit, values) -> [Fault("placed wraps at 8 bits", ...), ...]

    a rounding     wherever y >> n is kept or kept and one more: every other mode, ties treated otherwise, a
                   constant that is not half, the nudge of a sign without its division
    an adder       each sum, difference, product, left shift and named wire: wraps or saturates in fewer bits
    a limit        wraps where it has to saturate, and the other way
    an operand     read without its sign, or with one

`faults.py` has what is left: shifts, comparisons, choices and numbers that are one off. A stage is named by
the wire that it is, or leads to first. `values` are those of every node on some vectors: a rounding is
recognised by what it does, an adder is narrowed only as far as its values ask for more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from intnet.packs.circuits.fast import needed
from intnet.packs.circuits.faults import Change, Fault, argument, lowest, plain, titles, wrapping
from intnet.spec.wires import Circuit, Wire, span, width

WIDTHS = 64  # of an adder that are tried
ARITHMETIC = ("+", "-", "*", "<<")
OTHER = {"<": "<=", "<=": "<", "==": "!=", "!=": "=="}
Values = Mapping[int, Sequence[int]]  # of a node by its place
Up = Callable[[Circuit, Wire, Wire, Wire, Wire, Wire], Wire]  # y, floor, lost, 2 lost, 2^n -> goes up


def _at_half(of_tie: Callable[[Circuit, Wire, Wire], Wire]) -> Up:
    """Up above half, and at half by the sign of y or the parity of the floor."""

    def up(c: Circuit, y: Wire, floor: Wire, lost: Wire, twice: Wire, unit: Wire) -> Wire:
        return (twice > unit) | (twice.equals(unit) & of_tie(c, y, floor))

    return up


UPS: dict[str, Up] = {
    "tie to even": _at_half(lambda c, y, floor: floor & 1),
    "tie away from zero": _at_half(lambda c, y, floor: y >= 0),
    "tie up (towards +infinity)": _at_half(lambda c, y, floor: c.value(1)),
    "tie down (towards -infinity), as a constant of half less one": _at_half(lambda c, y, floor: c.value(0)),
    "tie towards zero": _at_half(lambda c, y, floor: y < 0),
    "tie to odd": _at_half(lambda c, y, floor: (floor & 1).equals(0)),
    "truncation (floor)": lambda c, y, floor, lost, twice, unit: c.value(0),
    "truncation towards zero": lambda c, y, floor, lost, twice, unit: lost.differs(0) & (y < 0),
    "rounded up always (ceiling)": lambda c, y, floor, lost, twice, unit: lost.differs(0),
    "a rounding constant of half and one": lambda c, y, floor, lost, twice, unit: (
        (twice >= unit - 2) & unit.differs(1)
    ),
    "the sign's nudge (half, or 1 - half below 0), then a shift in place of a division": (
        lambda c, y, floor, lost, twice, unit: c.select(y < 0, (twice >= unit - 2) - 1, twice >= unit)
    ),
}


def stages(circuit: Circuit, values: Values) -> Iterator[Fault]:
    """All of them, roundings first."""
    names, nodes = titles(circuit), needed(circuit, circuit.gives.values())
    yield from _roundings(nodes, names, values)
    for node in nodes:
        yield from _limits(node, names[node.place])
        yield from _flags(node, names)
        if node.kind == "read" and node.bits > 1:
            yield Fault(f"{node.name} read as {'un' * node.signed}signed", node.place, _other_sign)
    for node in nodes:
        inside = bool(node.args) and any(one.kind == "wire" and one.args[0] is node for one in nodes)
        if (node.kind == "wire" or (node.kind == "op" and node.at in ARITHMETIC)) and not inside:
            yield from _narrow(node, names[node.place], values[node.place])


# -- roundings -------------------------------------------------------------------------------------


def _roundings(nodes: Sequence[Wire], names: Mapping[int, str], values: Values) -> Iterator[Fault]:
    """Every decision otherwise, wherever a shift to the right is rounded."""
    seen = set()
    for shift in nodes:
        if shift.kind != "op" or shift.at != ">>" or not shift.args[1].high:
            continue
        amount = shift.args[1]
        for y in _sources(shift.args[0], amount):
            place = _rounded(nodes, shift, y, values)
            if place is not None and place not in seen:
                seen.add(place)
                yield from (
                    _decided(f"{names[place]}: {name}", place, y, amount, up) for name, up in UPS.items()
                )


def _sources(y: Wire, amount: Wire) -> Iterator[Wire]:
    """What is shifted; where a number below 2^n was added to it ahead of that, what stood there before."""
    most = 1 << amount.low
    inner = _unnamed(y)
    if inner.kind == "op" and inner.at == "+":
        for one, other in (inner.args, inner.args[::-1]):
            if other.kind in ("number", "select") and -most < other.low <= other.high < most:
                yield one
    yield y


def _rounded(nodes: Sequence[Wire], shift: Wire, y: Wire, values: Values) -> int | None:
    """The last node made of the shift that is y / 2^n rounded; None where it is a floor always."""
    floors = [v >> n for v, n in zip(values[y.place], values[shift.args[1].place], strict=True)]
    behind, found = {shift.place}, None
    for node in nodes:
        if any(arg.place in behind for arg in node.args):
            behind.add(node.place)
        if node.place in behind and node.bits > 1:
            ups = {v - floor for v, floor in zip(values[node.place], floors, strict=True)}
            if ups <= {0, 1}:
                found = node.place if ups != {0} else found
    return found


def _decided(name: str, place: int, y: Wire, amount: Wire, up: Up) -> Fault:
    def change(c: Circuit, node: Wire, args: list[Wire]) -> Wire:
        source, n = args[-2:]
        floor, unit = source >> n, c.value(1) << n
        lost = source - (floor << n)
        return floor + up(c, source, floor, lost, lost << 1, unit)

    return Fault(name, place, change, (y.place, amount.place))


# -- limits and adders -----------------------------------------------------------------------------


def _limits(node: Wire, name: str) -> Iterator[Fault]:
    """Of what saturates, and of what wraps."""
    if node.kind == "cut":
        bits, signed = node.at
        yield Fault(f"{name} saturates where it has to wrap", node.place, _saturating(bits, signed))
    if node.kind == "select" and node.args[2].kind == "select":
        (_, high, inner), low = node.args, node.args[2].args[1]
        if high.kind == low.kind == "number" and low.at < high.at:
            bits, signed, of = width(low.at, high.at), low.at < 0, inner.args[2].place

            def wraps(c: Circuit, node: Wire, args: list[Wire]) -> Wire:
                return lowest(c, args[-1], bits, signed)

            yield Fault(f"{name} wraps where it has to saturate", node.place, wraps, (of,))


def _flags(node: Wire, names: Mapping[int, str]) -> Iterator[Fault]:
    """Of two conditions that are joined: one left out, both with the other comparison."""
    if node.kind != "op" or node.at not in ("|", "&") or node.high != 1:
        return
    name, inner = names[node.place], [_unnamed(arg) for arg in node.args]
    for k in (0, 1):
        yield Fault(f"{name}: without {names[node.args[k].place]}", node.place, argument(1 - k))
    if all(one.kind == "op" and one.at in OTHER for one in inner) and inner[0].at == inner[1].at:
        at, beside = node.at, tuple(arg.place for one in inner for arg in one.args)

        def both(c: Circuit, node: Wire, args: list[Wire]) -> Wire:
            ops = [OTHER[one.at] for one in inner]
            return c.op(at, c.op(ops[0], *args[2:4]), c.op(ops[1], *args[4:6]))

        yield Fault(
            f"{name}: {OTHER[inner[0].at]} in place of {inner[0].at}, twice", node.place, both, beside
        )


def _unnamed(node: Wire) -> Wire:
    """What a wire is a name of."""
    while node.kind == "wire":
        node = node.args[0]
    return node


def _saturating(bits: int, signed: bool) -> Change:
    low, high = span(bits, signed)

    def change(c: Circuit, node: Wire, args: list[Wire]) -> Wire:
        value = plain(c, node, args)
        return c.select(value > high, high, c.select(value < low, low, value))

    return change


def _other_sign(c: Circuit, node: Wire, args: list[Wire]) -> Wire:
    """An operand's bits, the highest of them counted the other way."""
    return lowest(c, c.read(node.name, node.bits, node.signed), node.bits, not node.signed)


def _narrow(node: Wire, name: str, values: Sequence[int]) -> Iterator[Fault]:
    """In every number of bits that does not hold its values, of a very wide one in the nearest."""
    where = name if node.kind == "wire" else f"a {node.at} of {name}"
    top = width(min(values), max(values)) - 1
    for bits in range(top, max(1, top - WIDTHS), -1):
        yield Fault(f"{where} wraps at {bits} bits", node.place, wrapping(bits, node.signed))
        yield Fault(f"{where} saturates at {bits} bits", node.place, _saturating(bits, node.signed))
