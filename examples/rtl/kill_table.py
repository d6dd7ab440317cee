"""Which mutants each set of vectors kills; `python examples/rtl/kill_table.py [unit ...]` prints it.

Every unit's mutants are built with -DMUT=n and run in Icarus Verilog on the directed and corner vectors and
on as many uniform random ones. A mutant is killed where the testbench does not say PASS.
"""
from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from examples.rtl import simulate, vectors
from examples.rtl.testbench import write_vectors
from examples.rtl.units import EQUIVALENT, HERE, MAIN, Unit

RESULT = HERE / "kill_table.json"
Row = dict[str, Any]


def kills(unit: Unit, folder: Path) -> Row:
    """The unit's row: mutants, and those that directed and corner vectors, and uniform ones, kill."""
    directed = vectors.directed(unit)
    beats = len(directed[unit.inputs[0].name])
    sets = {"directed": directed, "uniform": vectors.uniform(unit, beats)}
    places = {name: folder / unit.label / name for name in sets}
    plusargs = {name: write_vectors(places[name], unit, columns) for name, columns in sets.items()}

    def passes(mutant: int) -> dict[str, bool]:
        command = simulate.icarus(unit, folder, mutant)
        return {name: simulate.run(command, arguments)[0] for name, arguments in plusargs.items()}

    mutants = unit.mutants()
    with ThreadPoolExecutor(2) as pool:
        passed = dict(zip([0, *mutants], pool.map(passes, [0, *mutants]), strict=True))
    assert all(passed[0].values()), f"{unit.label} fails without a mutant"
    missed = {name: [n for n in mutants if passed[n][name]] for name in sets}
    proven = [n for n in mutants if (unit.name, n) in EQUIVALENT]
    return {
        "unit": unit.name,
        "parameters": unit.parameters,
        "beats": beats,
        "mutants": len(mutants),
        "equivalent": {str(n): EQUIVALENT[unit.name, n] for n in proven},
        "killed directed": len(mutants) - len(missed["directed"]),
        "killed uniform": len(mutants) - len(missed["uniform"]),
        "missed directed": {str(n): mutants[n] for n in missed["directed"] if n not in proven},
        "missed uniform": {str(n): mutants[n] for n in missed["uniform"] if n not in proven},
    }


def table(rows: list[Row]) -> str:
    """The rows and their total as a Markdown table."""
    lines = [
        "| unit | beats | mutants | equivalent | directed + corner | uniform | uniform misses |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    totals = [0] * 4
    for row in rows:
        counts = [row["mutants"], len(row["equivalent"]), row["killed directed"], row["killed uniform"]]
        totals = [a + b for a, b in zip(totals, counts, strict=True)]
        cells = [row["unit"], row["beats"], *counts, "; ".join(row["missed uniform"].values())]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    lines.append(f"| total | | {' | '.join(map(str, totals))} | |")
    return "\n".join(lines)


def main() -> None:
    """Print the table and write it as JSON."""
    parser = argparse.ArgumentParser(prog="python examples/rtl/kill_table.py", description=__doc__)
    parser.add_argument("units", nargs="*", help="which (default: all, and only then the JSON is written)")
    names = parser.parse_args().units
    if reason := simulate.missing("icarus"):
        sys.exit(reason)
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        rows = [kills(unit, Path(folder)) for unit in MAIN if not names or unit.name in names]
    print(table(rows))
    print(f"{simulate.version('icarus')}, {time.perf_counter() - begin:.0f} s")
    missed = {row["unit"]: row["missed directed"] for row in rows if row["missed directed"]}
    if not names:
        result = {"simulator": simulate.version("icarus"), "seed": 1, "units": rows}
        RESULT.write_text(json.dumps(result, indent=1) + "\n")
    if missed:
        sys.exit(f"directed and corner vectors miss {missed}")


if __name__ == "__main__":
    main()
