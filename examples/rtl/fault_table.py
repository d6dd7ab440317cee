"""Every small fault of every unit: killed by its packs, equal to it by proof, or neither.

    python examples/rtl/fault_table.py            some minutes; writes fault_table.json

Faults are made from each unit's definition (`intnet.packs.circuits.faults`): each wire one bit narrower, each
shift off by one, each comparison, number and choice another, and each other rounding mode, limit and
accumulator that the unit can be set to. They are run in Python on the vectors of the packs L1 and L2; what
these cannot show a solver compares with the unit, for every input. Bugs that a designer could have made
stand in the units themselves: `mutants`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from examples.rtl import prove
from examples.rtl.mutants import HERE
from intnet.packs.circuits import faults
from intnet.packs.units import drafts, words
from intnet.packs.units.listing import UNITS
from intnet.packs.units.signals import Choice, joined
from intnet.spec import units as definition
from intnet.spec.wires import Circuit, Wire

RESULT = HERE / "fault_table.json"
LEVELS = ("L1", "L2")
DEPTHS = (1, 2)  # wires behind a fault up to which a proof is tried, ahead of one of the whole
Row = dict[str, Any]
Reads = Mapping[str, Sequence[int]]


def others(name: str) -> dict[str, Circuit]:
    """The unit with each other name of each choice."""
    unit = UNITS[name]
    out = {}
    for key, setting in unit.parameters.items():
        for choice in setting.names if isinstance(setting, Choice) else ():
            parameters = unit.defaults | {key: choice}
            if choice != setting.default and not unit.wrong(parameters):
                out[f"{key}={choice}"] = definition.circuit(name, parameters)
    return out


def circuits(name: str) -> dict[str, Circuit]:
    """Every fault of a unit, as a circuit."""
    right = definition.circuit(name, UNITS[name].defaults)
    return {fault.name: faults.changed(right, fault) for fault in faults.faults(right)} | others(name)


def vectors(name: str, level: str) -> Reads:
    """The beats of a pack."""
    parameters = UNITS[name].defaults
    return words.run(name, parameters, joined(drafts.STIMULI[name][level](parameters))).reads


def missed(name: str, level: str, made: Mapping[str, Circuit]) -> list[str]:
    """The faults that a level's vectors do not show."""
    right = definition.circuit(name, UNITS[name].defaults)
    return faults.survivors(right, vectors(name, level), made)


def neighbourhood(circuit: Circuit, fault: faults.Fault, depth: int) -> tuple[Circuit, faults.Fault]:
    """The circuit from the wires ahead of a fault, which may be anything here, to the `depth`-th wire behind
    it.

    What it gives is all that the fault can change of what later parts read. So a fault that changes nothing
    here changes nothing; one that does may still be equal to the circuit.
    """
    nodes, new, made = faults.needed(circuit, circuit.gives.values()), Circuit(), dict[int, Wire]()
    touched = {fault.place}
    for node in nodes:
        if any(arg.place in touched for arg in node.args):
            touched.add(node.place)
        named = node.name and node.kind in ("wire", "cut")
        if node.kind == "register" or (named and node.place not in touched):  # any state may be ahead
            name = node.name.replace("[", "_").replace("]", "")
            made[node.place] = ahead = new.read(f"ahead_{name}", node.bits, node.signed)
            ahead.low, ahead.high = node.range
        else:
            made[node.place] = faults.again(new, node, [made[arg.place] for arg in node.args])
        depth -= bool(named and node.place in touched)
        if depth == 0:
            break
    later = {arg.place for one in nodes if one.place > node.place for arg in one.args}
    later |= {wire.place for wire in circuit.gives.values()}
    later |= {after.place for _, after in circuit.registers.values()}
    for place in sorted(touched & later & made.keys()):
        new.give(f"behind{place}", made[place])
    return new, faults.Fault(fault.name, made[fault.place].place, fault.change)


def decided_equal(name: str, label: str, other: Circuit) -> bool:
    """Whether a proof says that a fault changes nothing: near it, or else at all.

    What cannot be decided in time is not.
    """
    right = definition.circuit(name, UNITS[name].defaults)
    fault = next((one for one in faults.faults(right) if one.name == label), None)
    if fault:
        for depth in DEPTHS:
            near, moved = neighbourhood(right, fault, depth)
            if prove.same("near", near, faults.changed(near, moved)).equal:
                return True
    try:
        return prove.same(name, right, other).equal
    except prove.Undecided:
        return False


def measure(name: str) -> Row:
    """A unit's row."""
    made = circuits(name)
    left = {level: missed(name, level, made) for level in LEVELS}
    both = [label for label in left["L1"] if label in left["L2"]]
    equal = [label for label in both if decided_equal(name, label, made[label])]
    return {
        "unit": name,
        "faults": len(made),
        "killed": {level: len(made) - len(labels) for level, labels in left.items()}
        | {"L1+L2": len(made) - len(both)},
        "equal": equal,
        "survived": [label for label in both if label not in equal],
    }


def table(rows: Sequence[Row]) -> str:
    """As Markdown."""
    lines = [
        "| unit | faults | L1 | L2 | L1+L2 | equal by proof | survived |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    counts = [
        [row["faults"], *row["killed"].values(), len(row["equal"]), len(row["survived"])] for row in rows
    ]
    for row, count in zip(rows, counts, strict=True):
        lines.append(f"| `{row['unit']}` | " + " | ".join(map(str, count)) + " |")
    totals = [sum(column) for column in zip(*counts, strict=True)]
    return "\n".join([*lines, "| all | " + " | ".join(map(str, totals)) + " |"])


def main() -> None:
    """Print the table, and write it where it is of all units."""
    if reason := prove.missing():
        sys.exit(reason)
    rows, names = [], sys.argv[1:] or list(UNITS)
    for name in names:
        begin = time.perf_counter()
        rows.append(measure(name))
        print(f"{name}: {time.perf_counter() - begin:.0f} s, survived {rows[-1]['survived']}", flush=True)
    print(table(rows))
    if not sys.argv[1:]:
        RESULT.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
