"""Build and run a unit under its testbench in Icarus Verilog or Verilator. Next: `kill_table`."""
from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from examples.rtl.testbench import testbench
from examples.rtl.units import HERE, Unit

TIMEOUT = 300  # seconds a simulator may take
TOOLS = {"icarus": ("iverilog", "vvp"), "verilator": ("verilator", "g++", "make")}


def missing(simulator: str) -> str:
    """Why `simulator` cannot run here; '' where it can."""
    absent = [tool for tool in TOOLS[simulator] if shutil.which(tool) is None]
    return f"{simulator} needs {', '.join(absent)} on the path (Debian: iverilog verilator)" if absent else ""


def version(simulator: str) -> str:
    """The simulator's own first line."""
    argument = {"icarus": "-V", "verilator": "--version"}[simulator]
    return _run([TOOLS[simulator][0], argument]).splitlines()[0]


def _run(command: Sequence[str | Path]) -> str:
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, timeout=TIMEOUT, errors="replace"
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} gave {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def build(simulator: str, unit: Unit, folder: Path, mutant: int = 0) -> list[str]:
    """Compile `unit`, or one of its mutants; the command that runs it."""
    folder.mkdir(parents=True, exist_ok=True)
    bench = folder / f"tb_{unit.label}.sv"
    bench.write_text(testbench(unit))
    define = [f"-DMUT={mutant}"] if mutant else []
    program = folder / f"{unit.label}_{simulator}_{mutant}"
    if simulator == "icarus":
        _run(["iverilog", "-g2012", "-I", HERE, *define, "-o", program, "-s", "tb", bench, unit.source])
        return ["vvp", "-n", str(program)]
    work = folder / f"{program.name}.dir"
    _run([
        "verilator", "--binary", "--timing", "-Wall", "-Wno-DECLFILENAME", f"-I{HERE}", *define, "-O3",
        "-CFLAGS", "-O0", "--top-module", "tb", "--Mdir", work, "-o", "tb", bench, unit.source,
    ])  # fmt: skip
    return [str(work / "tb")]


def run(command: Sequence[str], plusargs: Sequence[str]) -> tuple[bool, str]:
    """Whether the testbench passed, and what it printed."""
    text = _run([*command, *plusargs])
    return any(line.startswith("PASS n=") for line in text.splitlines()), text
