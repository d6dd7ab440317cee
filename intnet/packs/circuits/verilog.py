"""A circuit as combinational SystemVerilog: the definition in a form that a prover reads.

    module NAME_spec(in ports, state_REGISTER .. -> out ports, next_REGISTER .., holds)

One signed wire a node, as wide as its range needs and one bit more where it cannot be negative; a statement
is one operation, so no rule about the width of an expression decides anything. `holds` is 1 where every wire
holds what the definition promises of it: where it is 0 the definition says nothing.
"""

from __future__ import annotations

from intnet.packs.circuits.c_model import c_name
from intnet.packs.circuits.fast import needed
from intnet.spec.wires import Circuit, Wire, span

SHIFTS = {"<<": "<<<", ">>": ">>>"}


def bits(node: Wire) -> int:
    """Of a node's wire, its sign included."""
    return node.bits + (not node.signed)


def number(value: int, width: int) -> str:
    """A signed constant: in hexadecimal, of so many bits."""
    return f"{width}'sh{value & (1 << width) - 1:x}"


def ports_of(circuit: Circuit) -> dict[str, list[Wire]]:
    """The in ports as they stand in the module: lanes side by side, lane 0 lowest."""
    ports: dict[str, list[Wire]] = {}
    for name, wire in circuit.reads.items():
        ports.setdefault(name.partition("[")[0], []).append(wire)
    return ports


def inputs(circuit: Circuit) -> list[str]:
    """Their declarations."""
    ports = ports_of(circuit).items()
    return [f"input wire [{sum(w.bits for w in wires) - 1}:0] {name}" for name, wires in ports]


def _part(wire: Wire) -> str:
    """The bits of a lane."""
    name, _, lane = wire.name.partition("[")
    at = int(lane.rstrip("]")) if lane else 0
    return f"{name}[{at * wire.bits}+:{wire.bits}]"


def _signed(part: str, signed: bool) -> str:
    """Plain bits as a signed value."""
    return f"$signed({part})" if signed else f"$signed({{1'b0, {part}}})"


def _value(node: Wire) -> str:
    """The expression of a node, of its own wire's width."""
    args = [f"v{arg.place}" for arg in node.args]
    if node.kind in ("read", "register"):
        part = _part(node) if node.kind == "read" else f"state_{c_name(node.name)}"
        return _signed(part, node.signed)
    if node.kind == "cut":
        return _signed(f"low{node.place}", node.at[1])
    if node.kind == "number":
        return number(node.at, bits(node))
    if node.kind == "select":
        return f"{args[0]} != 0 ? {args[1]} : {args[2]}"
    return args[0] if node.kind == "wire" else _operation(node, *args)


def _operation(node: Wire, a: str, b: str) -> str:
    if node.at in ("<", "<=", "==", "!="):
        return f"({a} {node.at} {b}) ? {number(1, 2)} : {number(0, 2)}"
    return f"{a} {SHIFTS.get(node.at, node.at)} {b}"


def _length(node: Wire) -> list[str]:
    """Bits of |a|: the place of its leading one, found by halves, and one more, or 0 where there is none."""
    a, width, place = node.args[0], bits(node.args[0]), node.place
    rest = f"size{place}"
    lines, digits = [f"wire [{width - 1}:0] {rest} = v{a.place} < 0 ? -v{a.place} : v{a.place};"], []
    for k in reversed(range((width - 1).bit_length())):  # what is left has 2^(k + 1) bits
        half, digit, part = 1 << k, f"high{place}_{k}", f"size{place}_{k}"
        lines.append(f"wire {digit} = {rest} >> {half} != 0;")
        lines.append(f"wire [{half - 1}:0] {part} = {digit} ? {rest} >> {half} : {rest};")
        rest = part
        digits.append(digit)
    found = f"{{{', '.join(digits)}}} + {rest}" if digits else rest
    return [*lines, f"wire signed [{bits(node) - 1}:0] v{place} = {found};"]


def _statements(node: Wire) -> list[str]:
    if node.kind == "op" and node.at == "length":
        return _length(node)
    lines = []
    if node.kind == "cut":
        lines.append(f"wire [{node.at[0] - 1}:0] low{node.place} = v{node.args[0].place};")
    what = f"  // {node.name}" if node.name else ""
    return [*lines, f"wire signed [{bits(node) - 1}:0] v{node.place} = {_value(node)};{what}"]


def _promises(nodes: list[Wire]) -> list[str]:
    """Where a wire is narrower than what it is given, that it is the same; that a port keeps to its range."""
    narrow = [node for node in nodes if node.kind == "wire" and node.range != node.args[0].range]
    told = [f"v{node.place} == v{node.args[0].place}" for node in narrow]
    for node in nodes:
        if node.kind == "read" and node.range != span(node.bits, node.signed):
            low, high = (number(limit, bits(node)) for limit in node.range)
            told.append(f"v{node.place} >= {low} && v{node.place} <= {high}")
    return told


def text(name: str, circuit: Circuit, like: Circuit | None = None) -> str:
    """The module NAME_spec; its out ports are as wide as those of `like`, else as its own."""
    nodes, head = needed(circuit, circuit.gives.values()), inputs(circuit)
    for register, (before, _) in circuit.registers.items():
        head.append(f"input wire [{before.bits - 1}:0] state_{c_name(register)}")
        head.append(f"output wire [{before.bits - 1}:0] next_{c_name(register)}")
    for port, wire in (like or circuit).gives.items():
        head.append(f"output wire [{wire.bits - 1}:0] {c_name(port)}")
    head.append("output wire holds")
    lines = [line for node in nodes for line in _statements(node)]
    lines += [f"assign {c_name(port)} = v{wire.place};" for port, wire in circuit.gives.items()]
    for register, (_, after) in circuit.registers.items():
        lines.append(f"assign next_{c_name(register)} = v{after.place};")
    promises = " && ".join(_promises(nodes)) or "1'b1"
    lines.append(f"assign holds = {promises};")
    return f"module {name}_spec(\n  " + ",\n  ".join(head) + "\n);\n  " + "\n  ".join(lines) + "\nendmodule\n"
