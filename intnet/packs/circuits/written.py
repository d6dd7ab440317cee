"""A circuit as JSON, for packs of units that only their makers have.

    to_json(circuit) -> {"nodes": [["read", "x", 12, true], ["number", "4"], ["op", ">>", 0, 1], ..],
                         "gives": {"q": 7}, "registers": {"sum": [2, 9]}}
    of_json(json) -> the circuit; ValueError where it is none

Numbers are text, as they may pass 64 bits. Nothing of a file is believed: ranges are made anew, operations
are of a list, names are words, and no wire has more than `MOST_BITS`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from intnet.spec.wires import OPS, Circuit, Wire, width

MOST_NODES, MOST_BITS = 1 << 14, 1 << 10
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*(\[[0-9]+\])?")
_NUMBER = re.compile(r"-?[0-9]{1,320}")


def to_json(circuit: Circuit) -> dict[str, Any]:
    """All nodes in order, the out ports and what the registers keep."""
    return {
        "nodes": [_node(node) for node in circuit.nodes],
        "gives": {name: wire.place for name, wire in circuit.gives.items()},
        "registers": {name: [a.place, b.place] for name, (a, b) in circuit.registers.items()},
    }


def _node(node: Wire) -> list[Any]:
    places = [arg.place for arg in node.args]
    if node.kind == "number":
        return ["number", str(node.at)]
    if node.kind in ("read", "register"):
        return [node.kind, node.name, node.bits, node.signed]
    if node.kind == "op":
        return ["op", node.at, *places]
    if node.kind == "cut":
        return ["cut", node.name, *places, *node.at]
    if node.kind == "wire":
        return ["wire", node.name, *places, str(node.low), str(node.high)]
    return [node.kind, *places]


def of_json(json: Mapping[str, Any]) -> Circuit:
    """The circuit of `to_json`."""
    try:
        return _read(json)
    except (KeyError, TypeError, AttributeError, IndexError, OverflowError) as error:
        raise ValueError(f"no circuit ({error!r})") from None


def _read(json: Mapping[str, Any]) -> Circuit:
    c = Circuit()
    if len(json["nodes"]) > MOST_NODES:
        raise ValueError(f"a circuit of {len(json['nodes']):,} nodes: {MOST_NODES:,} are the most")
    for kind, *rest in json["nodes"]:
        before = len(c.nodes)
        node = _made(c, kind, rest)
        if len(c.nodes) != before + 1 or node.bits > MOST_BITS:
            raise ValueError(f"{[kind, *rest]!r} is no node of a circuit")
    for name, place in json["gives"].items():
        c.give(_name(name), _wire(c, place))
    for name, (before, after) in json["registers"].items():
        if _wire(c, before).kind != "register" or _wire(c, before).name != name:
            raise ValueError(f"{name} is no register")
        c.keep(_wire(c, before), _wire(c, after))
    return c


def _made(c: Circuit, kind: str, rest: Sequence[Any]) -> Wire:
    if kind == "number":
        return c.value(_number(rest[0]))
    if kind in ("read", "register"):
        name, bits, signed = rest
        return (c.read if kind == "read" else c.register)(_name(name), _bits(bits), signed is True)
    if kind == "op":
        at, a, b = rest
        one, two = _wire(c, a), _wire(c, b)
        negative = at in ("<<", ">>") and two.low < 0
        if at not in OPS or negative or (at == "<<" and width(*one.range) + two.high > MOST_BITS):
            raise ValueError(f"{at!r} of {one!r} and {two!r} is no operation")
        return Wire(c, "op", at, (one, two), OPS[at].range(one.range, two.range))
    if kind == "select":
        choice, a, b = (_wire(c, place) for place in rest)
        return c.select(choice, a, b)
    name, place, *more = rest
    if kind == "cut":
        return c.cut(_name(name), _wire(c, place), _bits(more[0]), more[1] is True)
    low, high = (_number(text) for text in more)
    inner = _wire(c, place)
    if kind != "wire" or not inner.low <= low <= high <= inner.high:
        raise ValueError(f"{[kind, *rest]!r} is no node of a circuit")
    made = c.wire(_name(name), inner)
    made.low, made.high = low, high
    return made


def _wire(c: Circuit, place: Any) -> Wire:
    if type(place) is not int or not 0 <= place < len(c.nodes):
        raise ValueError(f"there is no node {place!r}")
    return c.nodes[place]


def _name(text: Any) -> str:
    if not isinstance(text, str) or not _NAME.fullmatch(text):
        raise ValueError(f"{text!r} is no name")
    return text


def _number(text: Any) -> int:
    if not isinstance(text, str) or not _NUMBER.fullmatch(text):
        raise ValueError(f"{text!r} is no number")
    return int(text)


def _bits(bits: Any) -> int:
    if type(bits) is not int or not 1 <= bits <= MOST_BITS:
        raise ValueError(f"a wire of {bits!r} bits")
    return bits
