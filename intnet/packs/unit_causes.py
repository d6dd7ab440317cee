"""Causes in a unit: its circuit with one thing wrong, on the words of the pack, beside what a device gave.

    result = trace(read("packs/shift"), check_dut(read("packs/shift"), "dut"))

The circuit is the unit's definition; that of a unit of one's own stands in PACK.json. What is tried are the
mistakes of its stages (`circuits/stages.py`) and every generated fault (`circuits/faults.py`), on some of the
vectors first, the best on all. So a cause is named by the wire that is at fault, and every out port is made
again from it: a flag that fits what the device itself rounded or limited follows from that. Ranked as in
`diagnosis.py`: words explained less words contradicted, those of right ports too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from intnet.errors import PackError
from intnet.packs.check import WRONG, PortResult, Result
from intnet.packs.circuits import written
from intnet.packs.circuits.fast import columns, needed
from intnet.packs.circuits.faults import Fault, changed, faults
from intnet.packs.circuits.stages import stages
from intnet.packs.diagnosis import SHOWN, Verdict
from intnet.packs.mistakes import AHEAD
from intnet.packs.pack import MANIFEST, Pack
from intnet.packs.places import LATENCY
from intnet.packs.units.drafts import OWN
from intnet.packs.units.signals import Columns
from intnet.packs.units.words import reads_of
from intnet.spec import units as definition
from intnet.spec.wires import Circuit, cut

FIRST, THEN = (64, 3), (512, 6)  # beats of a part, parts that are tried: of all mistakes, of the likely ones
LIKELY, FINALISTS = 80, 12  # how many of these, and how many are tried on all vectors

Reads = Mapping[str, Sequence[int]]


def worth_it(result: Result) -> bool:
    """Whether a unit with a known circuit gives wrong words, and no one mistake explains all ports."""
    manifest = result.pack.manifest
    known = manifest["generator"].get("kind") == "unit" or "circuit" in manifest["about"]
    wrong = [one for one in result.ports if one.wrong and one.got is not None]
    named = [{verdict.name for verdict in _found(one)} for one in wrong]
    return known and "unit" in manifest["about"] and bool(wrong) and not set.intersection(*named)


def trace(pack: Pack, result: Result) -> Result:
    """The result with causes by wires; PackError where PACK.json's circuit is none."""
    try:
        ports = _judged(Bench.of(pack, _circuit(pack), result.ports), result.ports)
    except WRONG as error:
        raise PackError(f"{pack.folder}: {MANIFEST} has no circuit that its ports fit ({error})") from None
    return replace(result, ports=ports)


def _circuit(pack: Pack) -> Circuit:
    about = pack.manifest["about"]
    if pack.manifest["generator"]["kind"] == OWN:
        return written.of_json(about["circuit"])
    return definition.circuit(about["unit"]["name"], about["unit"]["parameters"])


# -- what is tried, and on what -------------------------------------------------------------------


@dataclass(frozen=True)
class Seen:
    """What a mistake gives of every port: wrong elements explained, and right ones contradicted."""

    fault: Fault
    explained: Mapping[str, int]
    contradicted: Mapping[str, int]

    @property
    def score(self) -> int:
        """Explained less contradicted."""
        return sum(self.explained.values()) - sum(self.contradicted.values())


@dataclass(frozen=True)
class Bench:
    """A circuit, what enters it beat by beat, and of every out port what is wanted and what came.

    begins: beats at which a vector begins; ends: those that give a result
    """

    circuit: Circuit
    reads: Reads
    begins: np.ndarray
    ends: np.ndarray
    want: Columns
    got: Columns
    bits: Mapping[str, int]

    @classmethod
    def of(cls, pack: Pack, circuit: Circuit, results: Sequence[PortResult]) -> Bench:
        """All words of a pack and of a device."""
        given = [port.name for port in pack.ports.values() if port.direction in ("in", "rnd")]
        reads = reads_of(circuit, {name: pack.codes(name) for name in given})
        count = len(next(iter(reads.values())))
        begins = reads.get("first", [not circuit.registers or k == 0 for k in range(count)])
        ends = reads.get("last", [1] * count)
        judged = [one for one in results if not one.problem]
        want = {one.port.name: pack.codes(one.port.name).reshape(-1) for one in judged}
        got = {one.port.name: want[one.port.name] if one.got is None else one.got for one in judged}
        bits = {one.port.name: one.port.bits for one in judged}
        return cls(circuit, reads, np.flatnonzero(begins), np.flatnonzero(ends), want, got, bits)

    def wrong(self, name: str) -> np.ndarray:
        """Which elements of a port."""
        found: np.ndarray = self.want[name] != self.got[name]
        return found

    def part(self, beats: int, parts: int) -> Bench:
        """The vectors around most of what is wrong, the first ones, and some that are right."""
        count = len(next(iter(self.reads.values())))
        cuts = [int(self.begins[0])]
        for beat in self.begins.tolist():
            cuts += [beat] * (beat >= cuts[-1] + beats)
        bad = np.zeros(count, np.int64)
        for name in self.got:
            bad[self.ends[self.wrong(name)]] = 1
        sums = np.add.reduceat(bad, cuts)
        order = np.argsort(-sums, kind="stable").tolist()
        chosen = sorted({*order[:parts], order[-1], 0})
        keep = np.zeros(count, np.bool_)
        for k in chosen:
            keep[cuts[k] : cuts[k + 1] if k + 1 < len(cuts) else count] = True
        place, inside = np.cumsum(keep) - 1, keep[self.ends]
        return replace(
            self,
            reads={name: np.array(column, object)[keep].tolist() for name, column in self.reads.items()},
            begins=place[self.begins[keep[self.begins]]],
            ends=place[self.ends[inside]],
            want={name: words[inside] for name, words in self.want.items()},
            got={name: words[inside] for name, words in self.got.items()},
        )

    def given(self, circuit: Circuit) -> Columns:
        """The elements of every port by a circuit, as its file has them."""
        made = columns(circuit, self.reads, {name: circuit.gives[name] for name in self.got})
        found = {}
        for name, column in made.items():
            signed, bits, ends = self.circuit.gives[name].signed, self.bits[name], self.ends.tolist()
            found[name] = np.array([cut(column[i], bits, signed) for i in ends], np.int64)
        return found

    def seen(self, fault: Fault) -> Seen:
        """What the circuit with a fault gives of what came."""
        made, explained, contradicted = self.given(changed(self.circuit, fault)), {}, {}
        for name, got in self.got.items():
            same, wrong = made[name] == got, self.wrong(name)
            explained[name] = int(np.count_nonzero(same & wrong))
            contradicted[name] = int(np.count_nonzero(~same & ~wrong))
        return Seen(fault, explained, contradicted)

    def candidates(self) -> Iterator[Fault]:
        """All mistakes of the circuit; of widths those that its values here ask for."""
        nodes = {str(node.place): node for node in needed(self.circuit, self.circuit.gives.values())}
        values = columns(self.circuit, self.reads, nodes)
        yield from stages(self.circuit, {int(place): column for place, column in values.items()})
        yield from (one for one in faults(self.circuit) if not one.name.endswith("one bit narrower"))

    def best(self) -> list[Seen]:
        """The mistakes that explain more than they contradict, best first."""
        first, then = self.part(*FIRST), self.part(*THEN)
        tried = _ranked(map(first.seen, then.candidates()))[:LIKELY]
        tried = _ranked(then.seen(one.fault) for one in tried)[:FINALISTS]
        return _ranked(self.seen(one.fault) for one in tried)


def _ranked(seen: Iterable[Seen]) -> list[Seen]:
    """Those that explain more than they contradict; of equal ones the first stands first."""
    return sorted((one for one in seen if one.score > 0), key=lambda one: -one.score)


# -- what is told --------------------------------------------------------------------------------


def _judged(bench: Bench, ports: Sequence[PortResult]) -> list[PortResult]:
    """Every wrong port with its causes; one that fits the cause of another follows from that."""
    best, told = bench.best(), {one.port.name: one for one in ports}
    wrong = [name for name in bench.got if bench.wrong(name).any()]
    cause = next(((one, name) for one in best for name in wrong if _verdict(bench, one, name).whole), None)
    for name in wrong:
        told[name] = _merged(told[name], [_verdict(bench, one, name) for one in best])
    if cause is None or len(wrong) == 1:
        return list(told.values())
    one, main = cause
    told[main] = replace(told[main], own=told[main].wrong)
    made = changed(bench.circuit, one.fault)
    behind = replace(bench, circuit=made, want=bench.given(made))
    left = [name for name in wrong if behind.wrong(name).any()]
    others = behind.best() if left else []
    for name in wrong:
        if name == main:
            continue
        own, bare = int(np.count_nonzero(behind.wrong(name))), replace(told[name], verdicts=())
        if own:
            told[name] = _merged(bare, [_verdict(behind, one, name) for one in others])
        told[name] = replace(
            told[name], own=own, follows=(main,) if own < told[name].wrong or not own else ()
        )
    return list(told.values())


def _verdict(bench: Bench, one: Seen, name: str) -> Verdict:
    """Of one port; what it contradicts counts in every port that is right."""
    right = [other for other in bench.got if other == name or not bench.wrong(other).any()]
    against = sum(one.contradicted[other] for other in right)
    return Verdict(one.fault.name, one.explained[name], int(np.count_nonzero(bench.wrong(name))), against)


def _found(port: PortResult) -> list[Verdict]:
    """The mistakes of arithmetic that explain every word of a port, by its words alone.

    Places inside the unit they do not know; and of words in order another rounding looks like another time.
    """
    guessed = (AHEAD, LATENCY)
    sure = [one for one in port.verdicts if one.whole and not one.lone]
    return [one for one in sure if not any(text in one.name for text in guessed)]


def _merged(port: PortResult, by_wires: Sequence[Verdict]) -> PortResult:
    """A mistake found by words stands; else those by wires that explain all; else the closest of both.

    Lone bits stand ahead of either.
    """
    lone = [one for one in port.verdicts if one.lone]
    whole = _found(port) or [one for one in by_wires if one.whole][:SHOWN]
    if whole:
        whole = lone + whole
    else:
        near = [*port.verdicts, *(one for one in by_wires if one.explained > one.contradicted)]
        whole = sorted(near, key=lambda one: (not one.whole, one.contradicted - one.explained))[:SHOWN]
    return replace(port, verdicts=whole)
