"""Every small mistake that a circuit could have: each a change of one node.

    faults(circuit) -> [Fault("after: one bit narrower", ...), ...]
    survivors(circuit, reads, faults) -> those that no word of the out ports shows

    a wire        one bit narrower: the bit above is lost; where it wraps on purpose, one bit wider
    a shift       its amount one more, one less
    a comparison  < in place of <=, and the other way; equal always or never
    a number      one more, one less
    a choice      always the one, always the other
    a register    not cleared by `first` (the choice between 0 and it: a choice)

They come from the arithmetic and from no list of known bugs. A fault that vectors cannot show is equal to the
unit, or the vectors are not complete: `examples/rtl/prove.py` decides which.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from intnet.packs.circuits.fast import Changed, Expression, columns, needed, wrapped
from intnet.spec.wires import Circuit, Wire

BLOCK = 4096  # beats a fault is run on at once, by whole vectors


class Fault(NamedTuple):
    """A mistake: its name, the node that it changes, and what stands there instead."""

    name: str
    place: int
    change: Expression

    @property
    def changed(self) -> Changed:
        """As `fast.columns` takes it."""
        return {self.place: self.change}


def _fixed(text: str) -> Expression:
    """An expression of the node's right one and of its arguments: args[0] is the right one."""
    return lambda args: text.format(*args)


def _narrower(wire: Wire, bits: int, signed: bool) -> Expression:
    return lambda args: wrapped(args[0], bits, signed)


def _wider(bits: int, signed: bool) -> Expression:
    return lambda args: wrapped(args[1], bits + 1, signed)


def faults(circuit: Circuit) -> list[Fault]:
    """All of a circuit, each name once."""
    found: dict[str, Fault] = {}
    names = _titles(circuit)
    for node in needed(circuit, circuit.gives.values()):
        for what, change in _of(node):
            name = f"{names[node.place]}: {what}"
            count = sum(one.startswith(name) for one in found)
            name += f" ({count + 1})" if count else ""
            found[name] = Fault(name, node.place, change)
    return list(found.values())


def _titles(circuit: Circuit) -> dict[int, str]:
    """For every node the wire or port that it leads to first: where a reader finds it."""
    titles: dict[int, str] = {}
    ends = [*circuit.wires.items(), *circuit.gives.items()]
    for name, wire in ends:
        stack = [wire]
        while stack:
            node = stack.pop()
            if node.place not in titles:
                titles[node.place] = name
                stack += node.args
    return titles | {wire.place: wire.name for wire in circuit.reads.values()}


def _of(node: Wire) -> Iterator[tuple[str, Expression]]:
    """The faults of one node."""
    if node.kind == "wire" and node.bits > 1:
        yield "one bit narrower", _narrower(node, node.bits - 1, node.signed)
    if node.kind == "cut":
        bits, signed = node.at
        yield "one bit narrower", _narrower(node, bits - 1, signed)
        yield "one bit wider", _wider(bits, signed)
    if node.kind == "op" and node.at in ("<<", ">>"):
        yield f"{node.at} by one more", _fixed(f"{{1}} {node.at} {{2}} + 1")
        yield f"{node.at} by one less", _fixed(f"{{1}} {node.at} max(0, {{2}} - 1)")
    if node.kind == "op" and node.at in ("<", "<="):
        other = {"<": "<=", "<=": "<"}[node.at]
        yield f"{other} in place of {node.at}", _fixed(f"{{1}} {other} {{2}}")
    if node.kind == "op" and node.at in ("==", "!="):
        yield f"never {node.at}", _fixed("0")
        yield f"always {node.at}", _fixed("1")
    if node.kind == "select":
        yield "always the first choice", _fixed("{2}")
        yield "always the second choice", _fixed("{3}")
    if node.kind == "number" and node.at:
        yield f"{node.at} + 1", _fixed(f"({node.at + 1})")
        yield f"{node.at} - 1", _fixed(f"({node.at - 1})")


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


def results(made: Mapping[str, list[int]], reads: Mapping[str, Sequence[int]]) -> list[list[int]]:
    """The out ports' words: of vectors those of last beats."""
    last = reads.get("last")
    if last is None:
        return list(made.values())
    return [[v for v, end in zip(column, last, strict=True) if end] for column in made.values()]


def survivors(
    circuit: Circuit, reads: Mapping[str, Sequence[int]], among: Sequence[Fault]
) -> list[Fault]:
    """The faults of `among` with which every result of these vectors is right."""
    left = list(among)
    for block in _blocks(reads):
        right = results(columns(circuit, block, circuit.gives), block)
        left = [one for one in left if same(circuit, block, one, right)]
    return left


def same(circuit: Circuit, reads: Mapping[str, Sequence[int]], fault: Fault, right: list[list[int]]) -> bool:
    """Whether a fault gives the right results; one that cannot go on is seen."""
    bits = {name: (1 << wire.bits) - 1 for name, wire in circuit.gives.items()}
    try:
        made = columns(circuit, reads, circuit.gives, fault.changed)
    except (ValueError, OverflowError, MemoryError):
        return False
    wrong = results(made, reads)
    return all(
        all((a ^ b) & mask == 0 for a, b in zip(one, two, strict=True))
        for one, two, mask in zip(wrong, right, bits.values(), strict=True)
    )
