"""Bugs that a designer could have made, one a number: what -DMUT=n builds. Next: `simulate`, `kill_table`.

`intnet.packs.units` has the units as data and their vectors; here is the hardware that they judge.
"""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).resolve().parent
MUTANT = re.compile(r"// MUT (\d+): (.+)")

# Mutants that no input can tell from the unit, each with the proof.
EQUIVALENT: dict[tuple[str, int], str] = {
    # m^2 = 2^(2p+1) has no integer solution: the exponent of 2 in a square is even.
    ("r_exponent", 8): "m^2 is never 2^(2p+1): a square holds an even power of 2",
}


def source(unit: str) -> Path:
    """The SystemVerilog file of a unit."""
    return HERE / f"{unit}.sv"


def mutants(unit: str) -> dict[int, str]:
    """What -DMUT=n builds, as the comments in the source say."""
    return {int(n): text for n, text in MUTANT.findall(source(unit).read_text())}


def proven(unit: str) -> list[int]:
    """The mutants of a unit that are equal to it."""
    return [n for name, n in EQUIVALENT if name == unit]
