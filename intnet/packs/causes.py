"""Root causes: every port again from what the device itself had made ahead of it, by the definition.

    result = trace(read("packs/block"), check_dut(read("packs/block"), "dut"))

The definition walks the layers of a pack (`by_spec`), but from every path the *device's* words go on. So a
port that is as it has to be, given the device's own operands, follows from others (`PortResult.follows`
names those with faults of their own); what is left is a fault of the port itself, and is diagnosed against
what its operands ask for. Sums of products are tried in other orders and with other accumulators
(`sums.py`).

Ports that were not compared, of block float or packed, and words that are no number go on as the definition
makes them, and a fault behind them is told with them (`PortResult.assumes`). Elements in MX blocks are judged
on the device's own scales. A fault of a value that the definition does not store shows where it enters the
next port.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import eq
from typing import Any

import numpy as np

from intnet.numbers.microscaling import NAN
from intnet.packs import mx, sums
from intnet.packs.by_spec import ports as expected
from intnet.packs.by_spec.layers import LayerStep, Replay
from intnet.packs.by_spec.plain import Plain, flag_code, flag_word
from intnet.packs.check import WRONG, PortResult, Result, as_array, compare
from intnet.packs.mistakes import FLOATS
from intnet.packs.pack import Pack
from intnet.packs.ports import OF_LAYERS, Json, step_prefix
from intnet.spec.formats import Direct
from intnet.spec.methods.step import Seen, rounded
from intnet.spec.mx_blocks import Along
from intnet.spec.tensor import Fixed, Tensor
from intnet.spec.wires import cut

LAST = (1 << 62, 2)  # of what is made at no sure time
NOT_FINITE = 0x7F800000  # exponent of a float32 that is no number
_NAME = re.compile(r"[A-Za-z]\w*")


def worth_it(result: Result) -> bool:
    """Of layers: whether more than one port is wrong, a sum of float32, or one that no mistake of an element
    explains.
    """
    wrong = [port for port in result.ports if port.wrong and port.got is not None]
    floats = any(port.port.encoding == "float32" for port in wrong)
    told = any(one.whole and not one.lone for port in wrong for one in port.verdicts)
    return result.pack.manifest["generator"].get("kind") in OF_LAYERS and (
        len(wrong) > 1 or (bool(wrong) and (floats or not told))
    )


def trace(pack: Pack, result: Result) -> Result:
    """The result with causes: ports with faults of their own first, as the step makes them, then the rest.

    Where the definition cannot go on with the device's words, `untraced` says why.
    """
    try:
        device = _Device(pack, result.ports)
        made = list(Replay(device, device.change).steps())
        wanted: dict[str, Any] = {}
        for step in made:
            wanted |= _wanted(device, step)
    except WRONG as error:  # a device's words may be beyond float32, divide by 0, or be of no such grid
        return replace(result, untraced=f"on the device's own operands the definition ends in {error!r}")
    graph = Reads(device, made)
    wrong = {one.port.name: one for one in result.ports if one.wrong and one.got is not None}
    told = {
        name: _own(pack, one, wanted, not wrong.keys().isdisjoint(graph.of(name)))
        for name, one in wrong.items()
    }
    faults = {name for name, (one, _) in told.items() if one.own != 0}
    unread = {port.name for port in pack.ports.values() if port.direction == "out"} - device.compared
    for name, (one, want) in told.items():
        roots = graph.behind(name, faults, device.compared - set(told)) if _inherits(pack, one, want) else ()
        known = one.own or roots  # else nothing is known that it could follow from
        assumes = [other for other in graph.of(name) if other in unread] if one.own else ()
        told[name] = (replace(one, follows=roots, own=one.own if known else None, assumes=assumes), want)
    for step in made:
        _sums(device, step, told)
    ports = [told[one.port.name][0] if one.port.name in told else one for one in result.ports]
    order = {name: k for k, name in enumerate(graph.order)}
    ports.sort(key=lambda one: (one.status == "pass", one.own == 0, order.get(one.port.name, len(order))))
    return replace(result, ports=ports)


class _Device(Plain):
    """A pack whose expected ports have a device's words, as far as they were compared and are numbers."""

    def __init__(self, pack: Pack, results: Sequence[PortResult]) -> None:
        super().__init__(pack)
        self.compared: set[str] = set()
        self.aliases: Json = self.manifest["about"]["aliases"]
        for one in results:
            if one.problem or (one.got is not None and _lost(one)):
                continue
            self.compared.add(one.port.name)
            if one.got is not None:
                self._codes[one.port.name] = one.got.tolist()

    def change(self, name: str, out: Any) -> Any:
        """The device's words in the place of what the definition stores."""
        name = self.aliases.get(name, name)
        if name not in self.compared:
            return out
        if isinstance(out, Fixed):
            port, codes = self.port(name), self.raw(name)
            told = [_in_words(port, made) for made in _readings(port, out)]  # more bits may go on inside
            if codes in told:
                return out
            as_made = _likest(told, codes) is told[0]
            return out._replace(codes=codes, exponent=out.exponent if as_made else port["exponent"])
        floats = self.port(name)["encoding"] == "float32" or mx.MX in self.port(name)["rounding"]
        return self.value(name) if isinstance(out, Tensor) and floats else out

    def scales(self, name: str, given: Tensor, form: Along) -> list[int]:
        """The device's, on which its elements are right or wrong."""
        name += mx.SCALE
        return self.codes(name) if name in self.compared else super().scales(name, given, form)

    def raw(self, name: str) -> list[int]:
        """Codes, of stored words those that they stand for."""
        port, codes = self.port(name), self.codes(name)
        return [flag_code(word, port["bits"] - 1) for word in codes] if port["encoding"] == "flag" else codes


def _readings(port: Json, made: Fixed) -> list[Sequence[int]]:
    """Codes as a device may give them: of the exponent that R(x) of its own operands asks for, or the port's.

    They differ where a fault ahead moved R(x); a sum can be told at the exponent of its port all the same.
    """
    found: list[Sequence[int]] = [made.codes]
    gap = made.exponent - port["exponent"] if isinstance(port["exponent"], int) else 0
    if gap > 0 and port["encoding"] == "integer":
        found.append([code << gap for code in made.codes])
    if gap < 0 and port["encoding"] == "integer" and not any(code % (1 << -gap) for code in made.codes):
        found.append([code >> -gap for code in made.codes])
    return found


def _on_its_grid(port: Json, seen: Seen) -> list[Sequence[int]]:
    """m1 and m2 as rounded on the grid of the page's table, where a fault ahead moved that of e2."""
    moved = isinstance(port["exponent"], int) and port["exponent"] != seen.stored.exponent
    if not (moved and isinstance(seen.format, Direct) and seen.mode):
        return []
    fixed = replace(seen.format, lsb=port["exponent"])
    return [rounded(seen.given, fixed, seen.words, seen.mode).codes]


def _likest(readings: Sequence[list[int]], given: Sequence[int]) -> list[int]:
    """The first of those that most of what a device gave agrees with."""
    return readings[int(np.argmax([sum(map(eq, codes, given)) for codes in readings]))]


def _in_words(port: Json, codes: Sequence[int]) -> list[int]:
    """Integers as a file of the port's width has them."""
    if port["encoding"] != "integer":
        return list(codes)
    return [cut(code, port["bits"], port["signed"]) for code in codes]


def _lost(one: PortResult) -> bool:
    """Whether there are words that are no number, on which nothing can be computed."""
    assert one.got is not None
    if one.port.encoding == "e8m0":
        return bool(np.any(one.got == NAN))
    if one.port.encoding == "minifloat":
        return not np.all(np.isfinite(mx.numbers(one.got, mx.along_of(one.port.rounding[mx.MX]))))
    return one.port.encoding == "float32" and bool(np.any(one.got & NOT_FINITE == NOT_FINITE))


def _wanted(device: _Device, made: LayerStep) -> dict[str, Any]:
    """Port -> what it has to be given the device's operands, and its trail."""
    found: dict[str, Any] = dict(expected.expected(device, made))
    for path, seen in made.seen.items():
        name = made.prefix + path
        if name in found and isinstance(seen.stored, Fixed):
            port = device.port(name)
            readings = [*_readings(port, seen.stored), *_on_its_grid(port, seen)]
            best = _likest([_in_words(port, codes) for codes in readings], device.raw(name))
            flag = port["encoding"] == "flag"
            found[name] = [flag_word(code, port["bits"] - 1) for code in best] if flag else best
    for name, codes in found.items():
        if device.port(name)["direction"] == "out" and None not in codes:
            found[name] = _in_words(device.port(name), codes)
    return found


# -- whose fault it is -----------------------------------------------------------------------------


def _own(
    pack: Pack, one: PortResult, wanted: Mapping[str, Any], moved: bool
) -> tuple[PortResult, np.ndarray]:
    """(how many elements are its own fault, these with their diagnosis, what it had to be).

    moved: whether what it reads is wrong, so that an element in MX blocks may be a zero of the other sign
    """
    name, got = one.port.name, one.got
    assert got is not None
    if name not in wanted:
        return one, pack.codes(name).reshape(-1)
    want = as_array(wanted[name])
    if one.port.encoding in FLOATS:  # the definition's zeros have no sign
        golden, size = pack.codes(name).reshape(-1), (1 << one.port.bits - 1) - 1
        free = (golden & size != 0) | (moved and one.port.encoding == "minifloat")
        want = np.where((want == 0) & (got & size == 0), np.where(free, got, golden), want)
    own = compare(pack, one.port, want, got, wanted)
    mismatches = own.mismatches or one.mismatches
    return replace(one, own=own.wrong, verdicts=own.verdicts, mismatches=mismatches), want


def _inherits(pack: Pack, one: PortResult, want: np.ndarray) -> bool:
    """Whether elements that the pack has otherwise are as the device's operands ask for."""
    assert one.got is not None
    return bool(np.any((one.got == want) & (one.got != pack.codes(one.port.name).reshape(-1))))


class Reads:
    """Which ports each port is made from: by the names in its formula, in its layer and the next ones.

    order: the ports as a step makes them: forward, back, and after that what is updated
    """

    def __init__(self, plain: Plain, made: Sequence[LayerStep]) -> None:
        self.plain, self.aliases = plain, plain.manifest["about"]["aliases"]
        self.near: dict[str, list[str]] = {}
        self.old: dict[str, Json] = {}
        for step in plain.manifest["about"]["replay"]:
            start = step_prefix(step["step"], plain.manifest["generator"])
            entries = {one["layer"]: one for one in step["layers"]}
            for one in step["layers"]:
                layers = [
                    name
                    for way in ("sources", "factor_sources", "errors")
                    for name in self._beside(start, entries, one, way)
                ]
                self.near[f"{start}{one['layer']}/"] = [f"{start}{layer}/" for layer in layers]
                old = {key.rpartition(":")[2] or key: json["tensor"] for key, json in one["before"].items()}
                self.old[f"{start}{one['layer']}/"] = old
        self.prefixes = {step.prefix: step for step in made}
        places = sorted(self._places(made))
        self.order = [name for _, name in places]
        # (step; 0 forward, 1 back, 2 after that), where it is sure
        self.when = {name: at[:2] for at, name in places if at[1] < 2 or _updated(name.rpartition("/")[2])}

    def _beside(self, start: str, entries: Json, one: Json, way: str) -> list[str]:
        """The layers that a layer reads, or whose errors it gets; of those that store nothing, theirs too."""
        found = []
        for _, layer in one.get(way, ()):
            paths = self._paths(f"{start}{layer}/")
            found.append(layer)
            if not any(path[0] == "e" for path in paths) if way == "errors" else not paths:
                found += self._beside(start, entries, entries[layer], way)
        return found

    def _places(self, made: Sequence[LayerStep]) -> list[tuple[tuple[int, ...], str]]:
        """(when it is made, port) of every expected port."""
        found: list[tuple[tuple[int, ...], str]] = []
        for at, step in enumerate(made):
            for k, path in enumerate(self._paths(step.prefix)):
                back = (
                    path in ("m1", "m2")
                    or path[0] == "e"
                    or (path[0] == "g" and not path.startswith("gamma"))
                )
                late = path not in step.seen or _updated(path)
                part = 2 if late else int(back)
                found.append(((step.now.step, part, -at if part == 1 else at, k), step.prefix + path))
        return found

    def _paths(self, prefix: str) -> list[str]:
        """The expected paths of a layer in PACK.json's order."""
        names = [name for name, port in self.plain.ports.items() if port["direction"] == "out"]
        return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]

    def of(self, name: str) -> list[str]:
        """The expected ports that a port reads."""
        prefix = next((prefix for prefix in self.prefixes if name.startswith(prefix)), "")
        port = self.plain.port(name)
        found = []
        for word in dict.fromkeys(_NAME.findall(port["meaning"])):
            found += [other for other in self._named(prefix, name, word) if other not in found]
        source = port["rounding"].get("source") or {}
        for term in source.get("terms", ()):
            found.append(term["port"])
        if "tensor" in source:
            found.append(source["tensor"])
        if mx.MX in port["rounding"]:
            found.append(port["exponent"])
        if "after the step" in port["meaning"]:  # of float32, whose slots are no paths
            found += [prefix + path for path in self._paths(prefix) if path[:1] == "g" and path[:2] != "ga"]
        unnamed = any(other.startswith(f"{name}.") for other in found)  # of which only parts have ports
        if port["encoding"] == "e8m0":
            unnamed = self.plain.port(source["tensor"])["direction"] == "trail"
        known = any(other in self.plain.ports for other in found) and not unnamed
        if not known or port["meaning"].startswith("dL"):
            found += [near + path for near in self.near.get(prefix, ()) for path in self._paths(near)]
        return [other for other in found if other != name]

    def _named(self, prefix: str, name: str, word: str) -> list[str]:
        """The port that a name in a formula means: made before in the layer, or by a layer next to it."""
        place = {path: k for k, path in enumerate(self._paths(prefix))}
        own, old = name.removeprefix(prefix), self.old.get(prefix, {})
        constant = own not in place and word in old  # what all elements have alike at this step, ahead of it
        if word in place and place[word] < place.get(own, len(place)) and not constant:
            return [prefix + word]
        if self.plain.ports.get(prefix + word, {}).get("direction") == "trail":
            return [prefix + word]
        if prefix + word in self.aliases:
            return [self.aliases[prefix + word]]
        if word in old:
            return [old[word]]
        found = [near + word for near in self.near.get(prefix, ())]
        return [self.aliases.get(other, other) for other in found]

    def behind(self, name: str, faults: set[str], right: set[str]) -> tuple[str, ...]:
        """The ports with faults of their own from which this one follows, over what was not found right."""
        seen, waiting, roots = {name}, [(name, self.when.get(name, LAST))], set()
        while waiting:
            reader, when = waiting.pop()
            for other in self.of(reader):
                if other in seen or other in right or other not in self.plain.ports:
                    continue
                made = self.when.get(other, when)
                if made > when:
                    continue
                seen.add(other)
                waiting.append((other, made))
                roots |= {other} & faults
        return tuple(one for one in self.order if one in roots)


def _updated(path: str) -> bool:
    """Whether a path is what a step leaves."""
    return path[:3] == "Acc" or path in ("W", "b", "gamma", "beta")


# -- sums ------------------------------------------------------------------------------------------


def _sums(device: _Device, made: LayerStep, told: dict[str, tuple[PortResult, np.ndarray]]) -> None:
    """Sums of products that no mistake of single words explains: by other orders and accumulators."""
    window = next(
        one["window"]
        for one in device.manifest["about"]["replay"][-1]["layers"]
        if one["layer"] == made.layer
    )
    held = {path: device.change(made.prefix + path, seen.stored) for path, seen in made.seen.items()}
    for path in ("x1", "e4", "gW"):
        name = made.prefix + path
        if name not in told or not told[name][0].own:
            continue
        one, want = told[name]
        lone = [verdict for verdict in one.verdicts if verdict.lone]
        if any(verdict.whole for verdict in one.verdicts if verdict not in lone):
            continue
        assert one.got is not None
        found = sums.diagnose(path, held, window, want, one.got)
        if found:
            told[name] = (replace(one, verdicts=[*lone, *found]), want)
