"""What vectors reach of a circuit: every bit both ways, every value and condition that its definition names.

    measure(circuit, reads, columns) -> Coverage        complete where `missing` is empty

    bits      each bit of each in port, wire and register's next value is 0 once and 1 once
    bins      ties above odd and even floors of either sign, words beside their threshold, limits just met
              (`Circuit.seen`), and every value of an amount or a choice (`Circuit.every`)
    narrower  a wire of one bit less (where it wraps, of one more too) changes a result

A bit that no vector can reach is named by the definition with its reason (`Circuit.never`); it is not
counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_, or_
from typing import Any, NamedTuple

from intnet.packs.circuits.faults import changed, faults, survivors
from intnet.spec.wires import Circuit, Wire

TOLD = 40  # missing ones that a pack names


class Coverage(NamedTuple):
    """(reached, of) for bits, bins and wires that are seen to be wide enough; what is missing."""

    bits: tuple[int, int]
    bins: tuple[int, int]
    narrower: tuple[int, int]
    missing: list[str]

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return not self.missing

    def json(self) -> dict[str, Any]:
        """As PACK.json has it."""
        out: dict[str, Any] = {"complete": self.complete}
        for name in ("bits", "bins", "narrower"):
            reached, of = getattr(self, name)
            out[name] = {"reached": reached, "of": of}
        return out | {"missing": self.missing[:TOLD], "missing_more": max(0, len(self.missing) - TOLD)}


def _bits(name: str, wire: Wire, column: Sequence[int]) -> dict[str, bool]:
    """Bin -> reached, of one wire."""
    ones, zeros = reduce(or_, column, 0), ~reduce(and_, column, -1)
    bins = {}
    for bit in range(wire.bits):
        bins[f"{name}[{bit}] = 0"] = bool(zeros >> bit & 1)
        bins[f"{name}[{bit}] = 1"] = bool(ones >> bit & 1)
    return bins


def measure(
    circuit: Circuit, reads: Mapping[str, Sequence[int]], columns: Mapping[str, Sequence[int]]
) -> Coverage:
    """The coverage of vectors: `reads` of in ports, `columns` of wires and bins beat by beat."""
    bits: dict[str, bool] = {}
    for name, wire in circuit.reads.items():
        bits |= _bits(name, wire, reads[name])
    for name, wire in circuit.wires.items():
        bits |= _bits(name, wire, columns[name])
    bits = {name: hit for name, hit in bits.items() if name not in circuit.never}
    bins = {name: any(columns[bin_name(name)]) for name in circuit.bins}
    for name, (_, values) in circuit.each.items():
        seen = set(columns[bin_name(name)])
        bins |= {f"{name} = {value}": value in seen for value in values}
    bins = {name: hit for name, hit in bins.items() if name not in circuit.never}
    widths = [one for one in faults(circuit) if one.name.endswith(("one bit narrower", "one bit wider"))]
    wide = {one.name: changed(circuit, one) for one in widths if one.name not in circuit.never}
    left = survivors(circuit, reads, wide)
    missing = [name for name, hit in (bits | bins).items() if not hit] + left
    counts = [(sum(part.values()), len(part)) for part in (bits, bins)]
    return Coverage(counts[0], counts[1], (len(wide) - len(left), len(wide)), missing)


def bin_name(name: str) -> str:
    """Of the column of a bin."""
    return f"bin {name}"


def outputs(circuit: Circuit) -> dict[str, Wire]:
    """All that `fast.columns` has to give for `measure`."""
    bins = {bin_name(name): wire for name, wire in circuit.bins.items()}
    bins |= {bin_name(name): wire for name, (wire, _) in circuit.each.items()}
    return circuit.wires | circuit.gives | bins
