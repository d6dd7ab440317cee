"""Every small mistake that a circuit could have: the circuit again with one node changed.

    faults(circuit) -> [Fault("after: one bit narrower", ...), ...]
    changed(circuit, fault) -> the circuit with it
    survivors(circuit, reads, circuits) -> those that no word of the out ports shows

    a wire        one bit narrower: the bit above is lost; where it wraps on purpose, one bit wider too
    a shift       its amount one more, one less
    a comparison  < in place of <=, and the other way; equal always or never
    a number      one more, one less
    a choice      always the one, always the other: a register that `first` does not clear is one

They come from the arithmetic and from no list of known bugs. A fault that vectors cannot show is equal to the
unit, or the vectors are not complete: `examples/rtl/prove.py` decides which. In a circuit with a fault no
wire is promised to hold its value: it holds all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from intnet.packs.circuits.fast import columns, needed
from intnet.spec.wires import Circuit, Wire, span

BLOCK = 4096  # beats a fault is run on at once, by whole vectors
Change = Callable[
    [Circuit, Wire, list[Wire]], Wire
]  # new circuit, old node, its new arguments -> what it gives


class Fault(NamedTuple):
    """A mistake: its name, the node that it changes, and what it gives instead.

    beside: places of nodes ahead of it whose values it reads too, after its own arguments
    """

    name: str
    place: int
    change: Change
    beside: tuple[int, ...] = ()


def lowest(c: Circuit, value: Wire, bits: int, signed: bool) -> Wire:
    """The low bits of a value."""
    return Wire(c, "cut", (bits, signed), (value,), span(bits, signed))


def plain(c: Circuit, node: Wire, args: list[Wire]) -> Wire:
    """What a node gives; what a wire is given, also one that wraps."""
    return args[0] if node.kind in ("wire", "cut") else c.op(node.at, *args)


def wrapping(bits: int, signed: bool) -> Change:
    """A node of so many bits."""
    return lambda c, node, args: lowest(c, plain(c, node, args), bits, signed)


def _amount(by: int) -> Change:
    return lambda c, node, args: c.op(node.at, args[0], _not_below_0(c, args[1] + by))


def _op(op: str) -> Change:
    return lambda c, node, args: c.op(op, *args)


def _number(value: int) -> Change:
    return lambda c, node, args: c.value(value)


def argument(index: int) -> Change:
    """One of what a node is made of, in its place."""
    return lambda c, node, args: args[index]


def faults(circuit: Circuit) -> list[Fault]:
    """All of a circuit, each name once."""
    found: dict[str, Fault] = {}
    names, counts = titles(circuit), dict[str, int]()
    for node in needed(circuit, circuit.gives.values()):
        for what, change in _of(node):
            name = f"{names[node.place]}: {what}"
            counts[name] = counts.get(name, 0) + 1
            name += f" ({counts[name]})" if counts[name] > 1 else ""
            found[name] = Fault(name, node.place, change)
    return list(found.values())


def titles(circuit: Circuit) -> dict[int, str]:
    """For every node the wire or port that it leads to first: where a reader finds it."""
    titles: dict[int, str] = {}
    for name, wire in [*circuit.wires.items(), *circuit.gives.items()]:
        stack = [wire]
        while stack:
            node = stack.pop()
            if node.place not in titles:
                titles[node.place] = name
                stack += node.args
    return titles | {wire.place: wire.name for wire in circuit.reads.values()}


def _of(node: Wire) -> Iterator[tuple[str, Change]]:
    """The faults of one node."""
    if node.kind == "wire" and node.bits > 1:
        yield "one bit narrower", wrapping(node.bits - 1, node.signed)
    if node.kind == "cut":
        bits, signed = node.at
        yield "one bit narrower", wrapping(bits - 1, signed)
        yield "one bit wider", wrapping(bits + 1, signed)
    if node.kind == "op" and node.at in ("<<", ">>"):
        yield f"{node.at} by one more", _amount(1)
        yield f"{node.at} by one less", _amount(-1)
    if node.kind == "op" and node.at in ("<", "<="):
        other = {"<": "<=", "<=": "<"}[node.at]
        yield f"{other} in place of {node.at}", _op(other)
    if node.kind == "op" and node.at in ("==", "!="):
        yield f"never {node.at}", _number(0)
        yield f"always {node.at}", _number(1)
    if node.kind == "select":
        yield "always the first choice", argument(1)
        yield "always the second choice", argument(2)
    if node.kind == "number" and node.at:
        yield f"{node.at} + 1", _number(node.at + 1)
        yield f"{node.at} - 1", _number(node.at - 1)


def _not_below_0(c: Circuit, amount: Wire) -> Wire:
    """An amount, 0 where a fault makes it negative."""
    if amount.low >= 0:
        return amount
    held = c.select(amount < 0, 0, amount)
    held.low = 0
    return held


def changed(circuit: Circuit, fault: Fault) -> Circuit:
    """The circuit with a fault."""
    new, made, touched = Circuit(), dict[int, Wire](), {fault.place}
    for node in needed(circuit, circuit.gives.values()):
        args = [made[arg.place] for arg in node.args]
        if any(arg.place in touched for arg in node.args):
            touched.add(node.place)
        if node.place == fault.place:
            value = fault.change(new, node, args + [made[place] for place in fault.beside])
        else:
            value = again(new, node, args)
        if node.name and node.kind in ("wire", "cut"):
            keeps = node.place not in touched and node.kind == "wire"
            value = Wire(new, "wire", None, (value,), node.range if keeps else value.range, node.name)
            new.wires[node.name] = value
        made[node.place] = value
    for name, wire in circuit.gives.items():
        new.give(name, made[wire.place])
    for name, (before, after) in circuit.registers.items():
        register = (
            made[before.place] if before.place in made else new.register(name, before.bits, before.signed)
        )
        new.registers[name] = register, made[after.place]
    for name, wire in circuit.reads.items():  # those that no result depends on
        if name not in new.reads:
            new.read(name, wire.bits, wire.signed)
    return new


def again(new: Circuit, node: Wire, args: list[Wire]) -> Wire:
    """A node as it was, of its new arguments."""
    if node.kind == "number":
        return new.value(node.at)
    if node.kind in ("read", "register"):
        make = new.read if node.kind == "read" else new.register
        return make(node.name, node.bits, node.signed)
    if node.kind == "select":
        return new.select(*args)
    if node.kind == "cut":
        return Wire(new, "cut", node.at, (args[0],), node.range)
    if node.kind == "wire":
        return args[0]
    if node.at in ("<<", ">>"):
        args[1] = _not_below_0(new, args[1])
    return new.op(node.at, *args)


def _blocks(reads: Mapping[str, Sequence[int]]) -> Iterator[Mapping[str, Sequence[int]]]:
    """Columns in parts of some thousand beats, none of which cuts a vector."""
    count = len(next(iter(reads.values())))
    starts = reads.get("first")
    at = 0
    while at < count:
        stop = min(at + BLOCK, count)
        while starts is not None and stop < count and not starts[stop]:
            stop += 1
        yield {name: column[at:stop] for name, column in reads.items()}
        at = stop


def survivors(
    circuit: Circuit, reads: Mapping[str, Sequence[int]], among: Mapping[str, Circuit]
) -> list[str]:
    """The names of those circuits that give every result right, in the bits that the ports have."""
    left, masks = dict(among), [(1 << wire.bits) - 1 for wire in circuit.gives.values()]
    for block in _blocks(reads):
        right = _results(circuit, block, masks)
        left = {name: other for name, other in left.items() if _results(other, block, masks) == right}
    return list(left)


def _results(circuit: Circuit, reads: Mapping[str, Sequence[int]], masks: Sequence[int]) -> list[list[int]]:
    """The out ports' words: of vectors those of last beats."""
    made = columns(circuit, {name: reads[name] for name in circuit.reads}, circuit.gives)
    last = reads.get("last", [1] * len(next(iter(reads.values()))))
    return [
        [value & mask for value, end in zip(column, last, strict=True) if end]
        for column, mask in zip(made.values(), masks, strict=True)
    ]
