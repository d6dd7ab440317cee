"""`check PACK --by spec`: a pack again by the definition, port by port.

    result = recompute(read("packs/fc2"))       a `check.Result` of kind 'spec'

Everything but what entered is computed anew, by `intnet.spec` in plain Python integers: results, trails,
random words, state, and what PACK.json says entered each rounding. Inputs are operands. What the definition
does not have is in `Result.unknown`, by name with the reason. The other texts of PACK.json and CONTRACT.md
are what the plain check is for.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

import numpy as np

from intnet.packs.by_spec import ports, tiles, units
from intnet.packs.by_spec.layers import Replay
from intnet.packs.by_spec.plain import Plain
from intnet.packs.check import PortResult, Result, as_array, compare, first_step, runnable
from intnet.packs.pack import MANIFEST, Pack
from intnet.packs.ports import OF_LAYERS

GIVEN = "in"  # the direction of operands
OnPort = Callable[[str], None]


def recompute(pack: Pack, on_port: OnPort = lambda name: None) -> Result:
    """Every port of the pack that is no input; `on_port` is told of each one after it.

    PackError where PACK.json does not say how it was made.
    """
    kinds: dict[str, Callable[[Plain, _Judge], None]] = {**dict.fromkeys(OF_LAYERS, _layers), "unit": _unit}
    begun, plain = time.perf_counter(), Plain(pack)
    judge = _Judge(plain, on_port)
    cannot = f"{MANIFEST} cannot be run by the definition"
    with runnable(pack, kinds, "the definition has", cannot) as run:
        run(plain, judge)
        judge.problems += _chain(plain)
    return judge.result(time.perf_counter() - begun)


class _Judge:
    """Collects what became of each port."""

    def __init__(self, plain: Plain, on_port: OnPort) -> None:
        self.plain, self.pack, self.on_port = plain, plain.pack, on_port
        self.ports: dict[str, PortResult] = {}
        self.unknown: dict[str, str] = {}
        self.problems: list[str] = []

    def see(self, found: Mapping[str, Sequence[int | None]]) -> None:
        """The definition's integers of some ports; a trail that explains one is in the same lot."""
        for name, codes in found.items():
            port, want = self.pack.ports[name], as_array(codes)
            got = np.array(self.plain.words(name), np.int64)
            if want.size != got.size:
                self.problems.append(f"{name} has {got.size:,} elements, by the definition {want.size:,}")
                continue
            self._keep(name, compare(self.pack, port, want, got, found))

    def enter(self, names: Sequence[str]) -> None:
        """Ports of the trail whose words entered a rounding just as the definition has it."""
        for name in names:
            if name not in self.ports and self.pack.ports[name].direction == "trail":
                self._keep(name, PortResult(self.pack.ports[name], self.pack.codes(name).size))

    def _keep(self, name: str, result: PortResult) -> None:
        self.ports[name] = result
        if self.pack.ports[name].direction != GIVEN:
            self.on_port(name)

    def result(self, seconds: float) -> Result:
        """In PACK.json's order; what is left is not recomputed."""
        for name, port in self.pack.ports.items():
            if name not in self.ports and port.direction != GIVEN:
                self.unknown.setdefault(name, "the definition stores no such value in this step")
        results = [self.ports[name] for name in self.pack.ports if name in self.ports]
        return Result(
            self.pack, "spec", results, self.problems, first_step(self.pack, results), self.unknown, seconds
        )


# -- units, layers -------------------------------------------------------------------------------


def _unit(plain: Plain, judge: _Judge) -> None:
    found = units.expected(plain)
    judge.see({name: _flat(words) for name, words in found.items() if name in plain.ports})
    judge.problems += ports.of_unit(plain, found)
    for name, port in plain.ports.items():
        if port["direction"] == "rnd" and name not in found:
            judge.unknown[name] = "chosen around the thresholds of the results: taken as it is"


def _flat(words: Sequence[Any]) -> list[int]:
    return [lane for word in words for lane in (word if isinstance(word, list) else [word])]


def _layers(plain: Plain, judge: _Judge) -> None:
    for made in Replay(plain).steps():
        if made.unknown:
            mine = [name for name, port in plain.ports.items() if name.startswith(made.prefix)]
            judge.unknown |= {name: made.unknown for name in mine if plain.port(name)["direction"] != GIVEN}
            continue
        judge.see(dict(ports.expected(plain, made)))
        for path, seen in made.seen.items():
            problems, entered = ports.of_path(plain, made.prefix + path, seen)
            judge.problems += problems
            judge.enter(entered)
        for problem, entered in ports.of_inside(plain, made):
            judge.problems += [problem] * bool(problem)
            judge.enter(entered)
        judge.problems += ports.of_aliases(plain, made)
    for name, codes in tiles.expected(plain):
        judge.see({name: codes})


def _chain(plain: Plain) -> Iterator[str]:
    """Digests of a chain that are not those of the files."""
    outs = [port for port in plain.manifest["ports"] if port["direction"] == "out"]
    for link in plain.manifest["about"].get("chain", ()):
        digest, mine = sha256(), outs
        if "first" not in link:
            start = f"step{link['step']}/" if plain.manifest["generator"]["steps"] > 1 else ""
            named = [port for port in outs if port["name"].startswith(start)]
            mine = sorted(named, key=lambda port: str(port["file"]))
        for port in mine:
            lines = (plain.pack.folder / port["file"]).read_bytes().splitlines(keepends=True)
            each = len(lines) // port["shape"][0] if "first" in link else 1  # words a result
            first, last = link.get("first", 0), link.get("last", len(lines))
            digest.update(b"".join(lines[first * each : (last + 1) * each]))
        if digest.hexdigest() != link["sha256"]:
            yield f"the digest of step {link['step']} is not that of its expected words"
