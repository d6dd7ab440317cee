"""Random words through the models of a unit: its C, its fast circuit, its definition run plainly, its RTL.

    python examples/rtl/random_words.py                           a million words of every unit
    python examples/rtl/random_words.py shift requantize --words 10000000 --plain 100000 --rtl 10000000

--words N   beats through the C model (`intnet golden unit NAME --c`, compiled here) and through the circuit
            that gives the words of packs (`intnet.packs.circuits.fast`)
--plain N   the first of these through `intnet.spec.wires.run` too, node by node
--rtl N     other words through `examples/rtl/NAME.sv` and the C model, by DPI-C in Verilator

Every out port must be the same at every beat that gives a result. Vectors have 1 to 8 beats; one in which a
sum does not fit the bits that the unit has for it is left out, for there the definition says nothing. Words
are uniform, and a quarter of them short, as limits and ties lie near 0. It ends with status 1 where words
differ. Needs gcc or clang as `cc`; Verilator for --rtl.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from examples.rtl import simulate
from intnet.packs.circuits import fast
from intnet.packs.units import models
from intnet.packs.units.listing import UNITS
from intnet.spec import units as definition
from intnet.spec.wires import Circuit, run

CHUNK = 100_000  # beats that are compared at a time
LONGEST = 8  # beats of a vector
DRIVER = """#include "{name}_model.h"
void drive(int64_t count, const struct {name}_in *in, struct {name}_out *out) {{
  {name}_reset(0);
  for (int64_t k = 0; k < count; k++) {name}_beat(0, &in[k], &out[k]);
}}
"""


class Found(NamedTuple):
    """How many results were compared, how many differ, and the first one that does."""

    results: int
    wrong: int
    first: str


def drawn(circuit: Circuit, beats: int, source: np.random.Generator) -> dict[str, np.ndarray]:
    """A column of words for each in port; marks of whole vectors."""
    columns = {}
    for port, wire in circuit.reads.items():
        words = source.integers(wire.low, wire.high, beats, np.int64, endpoint=True)
        short = source.integers(0, 4, beats) == 0
        columns[port] = np.where(short, words >> source.integers(0, wire.bits, beats), words)
    if "last" in columns:
        last = np.zeros(beats, np.int64)
        last[np.cumsum(source.integers(1, LONGEST, beats, endpoint=True)).clip(max=beats) - 1] = 1
        last[-1] = 1
        columns |= {"last": last, "first": np.concatenate([[1], last[:-1]])}
    return columns


def compiled(name: str, folder: Path) -> Any:
    """The C model in this process: `drive(beats, in, out)`."""
    driver, library = folder / "driver.c", folder / "model.so"
    driver.write_text(DRIVER.format(name=name))
    sources = [folder / f"{name}_model.c", driver]
    simulate.command(["cc", "-std=c99", "-O2", "-shared", "-fPIC", "-o", library, *sources])
    return ctypes.CDLL(str(library)).drive


def judged(columns: dict[str, np.ndarray], holds: np.ndarray) -> np.ndarray:
    """The beats that give a result of a vector whose sums fit."""
    if "last" not in columns:
        return np.flatnonzero(holds)
    ends = np.flatnonzero(columns["last"])
    starts = np.concatenate([[0], ends[:-1] + 1])
    return ends[np.minimum.reduceat(holds, starts) == 1]


def compare(name: str, drive: Any, beats: int, plain: int, seed: int) -> Found:
    """Beats through the C model and the fast circuit, the first ones through the plain one."""
    circuit = definition.circuit(name, UNITS[name].defaults)
    columns = drawn(circuit, beats, np.random.default_rng(seed))
    given = np.stack([columns[port] for port in circuit.reads], axis=1)
    told = np.zeros((beats, len(circuit.gives) + 1), np.int64)
    pointer = ctypes.c_void_p
    drive(ctypes.c_int64(beats), pointer(given.ctypes.data), pointer(told.ctypes.data))
    at = judged(columns, told[:, -1])
    lists = {port: column.tolist() for port, column in columns.items()}
    made = {"fast": fast.columns(circuit, lists, circuit.gives)}
    if plain:
        inside = at[at < plain]
        rows = run(circuit, [dict(zip(lists, beat, strict=True)) for beat in
                             zip(*(words[:plain] for words in lists.values()), strict=True)])  # fmt: skip
        made["plain"] = {port: [row[port] for row in rows] for port in circuit.gives}
    wrong, first = 0, ""
    for how, outs in made.items():
        places = inside if how == "plain" else at
        for k, port in enumerate(circuit.gives):
            odd = places[np.array(outs[port], np.int64)[places] != told[places, k]]
            wrong += odd.size
            if odd.size and not first:
                beat = {p: int(column[odd[0]]) for p, column in columns.items()}
                first = f"{port} is {told[odd[0], k]} in C, {outs[port][odd[0]]} {how}: {beat}"
    return Found(at.size, wrong, first)


def unit(name: str, beats: int, plain: int, folder: Path) -> Found:
    """All words of a unit, by chunks; what is compared plainly comes first."""
    drive = compiled(name, folder)
    results = 0
    for chunk, done in enumerate(range(0, beats, CHUNK)):
        size = min(CHUNK, beats - done)
        found = compare(name, drive, size, max(0, min(size, plain - done)), chunk)
        results += found.results
        if found.wrong:
            return found._replace(results=results)
    return Found(results, 0, "")


def main() -> int:
    """The command; its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("units", nargs="*", metavar="UNIT", default=list(UNITS), help="default: all")
    parser.add_argument("--words", type=int, default=1_000_000)
    parser.add_argument("--plain", type=int, default=1_000)
    parser.add_argument("--rtl", type=int, default=0)
    given = parser.parse_args()
    if odd := [name for name in given.units if name not in UNITS]:
        parser.error(f"no unit {odd[0]!r}; there are {', '.join(UNITS)}")
    bad = 0
    for name in given.units:
        with tempfile.TemporaryDirectory() as work:
            folder, begin = models.write(name, {}, Path(work) / "model"), time.perf_counter()
            found = unit(name, given.words, given.plain, folder)
            seconds = time.perf_counter() - begin
            said = found.first or "equal"
            print(
                f"{name}: {given.words:,} beats, {found.results:,} results: {said} ({seconds:.0f} s)",
                flush=True,
            )
            bad += found.wrong
            if given.rtl:
                begin = time.perf_counter()
                passed, text = simulate.random_words(folder, name, Path(work) / "rtl", given.rtl)
                last = next(line for line in text.splitlines() if line.startswith(("PASS", "FAIL")))
                print(
                    f"{name}: {given.rtl:,} beats in Verilator: {last} ({time.perf_counter() - begin:.0f} s)",
                    flush=True,
                )
                bad += not passed
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
