"""Which mutants each level's vectors kill; `python examples/rtl/kill_table.py` measures and writes it.

Every unit's mutants are built with -DMUT=n and run in Icarus Verilog under the testbenches of its packs L0 to
L3, and on as many uniform random vectors as each has. A mutant is killed where the testbench does not say
PASS. kill_table.json has all that is missed; detection.json of intnet/packs/units what a pack says of itself:
only a pack whose words are those measured here says it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from examples.rtl import simulate, uniform
from examples.rtl.mutants import EQUIVALENT, HERE, mutants, proven
from intnet.packs import pack, units
from intnet.packs.ports import Draft
from intnet.packs.units.drafts import DETECTION, digest_of

RESULT = HERE / "kill_table.json"
MEASURED = HERE.parents[1] / "intnet" / "packs" / "units" / DETECTION
LEVELS = ("L0", "L1", "L2", "L3")
WITH_MUTANTS = [name for name in units.UNITS if mutants(name)]
BOTH = "L1+L2"  # the vectors that must kill everything
Row = dict[str, Any]


def beats_of(draft: Draft) -> int:
    """Words of its first in port."""
    return draft.ports[0][0].words


def drafts(name: str) -> dict[str, Draft]:
    """Level, and 'uniform LEVEL' of as many beats -> draft."""
    out = {level: units.draft(name, level, {}) for level in LEVELS}
    sizes = {level: beats_of(draft) for level, draft in out.items()} | {BOTH: 0}
    sizes[BOTH] = sizes["L1"] + sizes["L2"]
    return out | {f"uniform {level}": uniform.draft(name, beats) for level, beats in sizes.items()}


def missed(name: str, packs: dict[str, Path], folder: Path) -> dict[str, list[int]]:
    """The mutants that each pack does not kill."""

    def passes(mutant: int) -> dict[str, bool]:
        return {k: simulate.run(simulate.icarus(path, name, folder, mutant))[0] for k, path in packs.items()}

    numbers = [0, *mutants(name)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        passed = dict(zip(numbers, pool.map(passes, numbers), strict=True))
    assert all(passed[0].values()), f"{name} fails without a mutant: {passed[0]}"
    out = {key: [n for n in numbers[1:] if passed[n][key]] for key in packs}
    return out | {BOTH: [n for n in out["L1"] if n in out["L2"]]}


def measure(name: str, folder: Path) -> tuple[Row, dict[str, Row]]:
    """The unit's row of the table, and what its packs say of themselves."""
    made = drafts(name)
    packs = {key: pack.write(draft, folder / f"{name}-{i}") for i, (key, draft) in enumerate(made.items())}
    texts, left = mutants(name), missed(name, packs, folder)
    killed = {key: len(texts) - len(numbers) for key, numbers in left.items()}
    real = {key: {str(n): texts[n] for n in ns if n not in proven(name)} for key, ns in left.items()}
    row = {
        "unit": name,
        "beats": {level: beats_of(made[level]) for level in LEVELS},
        "mutants": len(texts),
        "equivalent": {str(n): EQUIVALENT[name, n] for n in proven(name)},
        "killed": killed,
        "missed": {key: real[key] for key in (*LEVELS, BOTH, f"uniform {BOTH}")},
    }
    says = {
        made[level].name: {
            "mutants": len(texts),
            "equivalent": len(row["equivalent"]),
            "killed": killed[level],
            "uniform_killed": killed[f"uniform {level}"],
            "sha256": digest_of(made[level].ports),
        }
        for level in LEVELS
    }
    return row, says


def table(rows: Sequence[Row]) -> str:
    """The rows and their total as a Markdown table."""
    columns = [*LEVELS[:3], BOTH, LEVELS[3], f"uniform {BOTH}"]
    heads = ["unit", "mutants", "equal by proof", *columns[:5], "uniform"]
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "---:|" * (len(heads) - 1)]
    counts = [
        [row["mutants"], len(row["equivalent"]), *(row["killed"][key] for key in columns)] for row in rows
    ]
    for row, count in zip(rows, counts, strict=True):
        lines.append(f"| `{row['unit']}` | " + " | ".join(map(str, count)) + " |")
    totals = [sum(column) for column in zip(*counts, strict=True)]
    return "\n".join([*lines, "| all | " + " | ".join(map(str, totals)) + " |"])


def main() -> None:
    """Print the table and write it as JSON."""
    parser = argparse.ArgumentParser(prog="python examples/rtl/kill_table.py", description=__doc__)
    parser.add_argument("units", nargs="*", help="which (default: all, and only then files are written)")
    names = parser.parse_args().units
    if reason := simulate.missing("icarus"):
        sys.exit(reason)
    begin, rows, packs = time.perf_counter(), [], {}
    with tempfile.TemporaryDirectory() as folder:
        for name in names or WITH_MUTANTS:
            row, says = measure(name, Path(folder))
            rows.append(row)
            packs |= says
    print(table(rows))
    simulator = simulate.version("icarus")
    print(f"{simulator}, {time.perf_counter() - begin:.0f} s")
    if not names:
        RESULT.write_text(json.dumps({"simulator": simulator, "seed": 1, "units": rows}, indent=1) + "\n")
        MEASURED.write_text(json.dumps({"simulator": simulator, "packs": packs}, indent=1) + "\n")
    if left := {row["unit"]: row["missed"][BOTH] for row in rows if row["missed"][BOTH]}:
        sys.exit(f"directed and corner vectors miss {left}")


if __name__ == "__main__":
    main()
