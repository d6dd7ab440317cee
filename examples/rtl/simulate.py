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
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=TIMEOUT)
    if done.returncode:
        raise RuntimeError(f"{command[0]} gave {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def icarus(unit: Unit, folder: Path, mutant: int = 0) -> list[str]:
    """Compile `unit`, or one of its mutants; the command that runs it."""
    bench = _bench(unit, folder)
    program = folder / f"{unit.label}_{mutant}.vvp"
    define = [f"-DMUT={mutant}"] if mutant else []
    _run(["iverilog", "-g2012", "-I", HERE, *define, "-o", program, bench, unit.source])
    return ["vvp", "-n", str(program)]


def verilator(units: Sequence[Unit], folder: Path) -> list[str]:
    """Compile all units into one program, since the simulator's own library takes most of the time."""
    benches = [_bench(unit, folder) for unit in units]
    top = folder / "all_units.sv"
    body = "".join(f"  tb_{unit.label} {unit.label} ();\n" for unit in units)
    top.write_text(f"`timescale 1ns / 1ps\nmodule all_units;\n{body}endmodule\n")
    _run([
        "verilator", "--binary", "--timing", "-Wall", f"-I{HERE}", "-CFLAGS", "-O0", "-j", "2",
        "--output-split", "4000", "--top-module", "all_units", "--Mdir", folder / "verilated",
        "-o", "all_units", top, *benches, *sorted({unit.source for unit in units}),
    ])  # fmt: skip
    return [str(folder / "verilated" / "all_units")]


def _bench(unit: Unit, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    bench = folder / f"tb_{unit.label}.sv"
    bench.write_text(testbench(unit))
    return bench


def run(command: Sequence[str], plusargs: Sequence[str]) -> tuple[bool, str]:
    """Whether the testbench passed, and what it printed."""
    text = _run([*command, *plusargs])
    return any(line.startswith("PASS n=") for line in text.splitlines()), text
