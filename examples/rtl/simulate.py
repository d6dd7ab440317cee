"""Build a unit under its pack's testbench, in Icarus Verilog or Verilator, and run it. Next: `kill_table`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from examples.rtl import stream
from examples.rtl.mutants import HERE, source
from intnet.packs.hdl.stream import streams

TIMEOUT = 300  # seconds a simulator may take
TOOLS = {"icarus": ("iverilog", "vvp"), "verilator": ("verilator", "g++", "make")}


def missing(simulator: str) -> str:
    """Why `simulator` cannot run here; '' where it can."""
    absent = [tool for tool in TOOLS[simulator] if shutil.which(tool) is None]
    return f"{simulator} needs {', '.join(absent)} on the path (Debian: iverilog verilator)" if absent else ""


def version(simulator: str) -> str:
    """The simulator's own first line."""
    argument = {"icarus": "-V", "verilator": "--version"}[simulator]
    return command([TOOLS[simulator][0], argument]).splitlines()[0].removesuffix(" ()")


def command(words: Sequence[str | Path]) -> str:
    """What a command prints; RuntimeError where it fails."""
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, check=False, timeout=TIMEOUT
    )
    if done.returncode:
        raise RuntimeError(f"{words[0]} gave {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def bench(pack: Path) -> Path:
    """The testbench in a pack."""
    return next((pack / "hdl").glob("tb_*.sv"))


def circuit(pack: Path, unit: str, folder: Path) -> Path:
    """The file of a unit: its own, or with the latency and the signals that the pack asks for."""
    about = json.loads((pack / "PACK.json").read_text())["about"]["unit"]
    if not streams(about):
        return source(unit)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{unit}.sv"
    path.write_text(stream.wrapped(about))
    return path


def icarus(pack: Path, unit: str, folder: Path, mutant: int = 0) -> list[str]:
    """Compile a unit, or one of its mutants, under the testbench of `pack`; the command that runs it."""
    top, program = bench(pack), folder / f"{pack.name}_{mutant}.vvp"
    define = [f"-DMUT={mutant}"] if mutant else []
    own = [circuit(pack, unit, folder)] if unit else []
    folders: list[str | Path] = ["-I", pack / "hdl", "-I", HERE]
    command(["iverilog", "-g2012", *folders, *define, "-s", top.stem, "-o", program, top, *own])
    return ["vvp", "-n", str(program), f"+pack={pack}"]


def _built(words: Sequence[str | Path], flags: Sequence[str], folder: Path, library: Path | None) -> None:
    """Verilate and compile in `folder`, without what `library` holds of the simulator's own library.

    library: where its objects are kept for the next program; they are of no circuit, but of one OPT_GLOBAL
    """
    folder.mkdir(parents=True, exist_ok=True)
    for part in library.glob("*.o") if library else ():
        shutil.copy(part, folder)
    old = [f"--old-file={part.name}" for part in folder.glob("verilated*.o")]
    command([*words, "-MAKEFLAGS", " ".join([*flags, "OPT_GLOBAL=-Og", *old]), "--Mdir", folder])
    if library:
        library.mkdir(parents=True, exist_ok=True)
        for part in folder.glob("verilated*.o"):
            if not (library / part.name).exists():  # whole at once: another process may look for it
                shutil.copy(part, library / f"{part.name}.{os.getpid()}")
                (library / f"{part.name}.{os.getpid()}").replace(library / part.name)


def verilator(packs: Sequence[tuple[Path, str]], folder: Path, library: Path | None = None) -> list[str]:
    """Compile the testbenches of many packs into one program: the simulator's own library takes most of the
    time. A warning under -Wall is an error. The C++ is one file, for all of it includes the same headers, and
    -Og halves the time of Verilator's own -Os; programs of -O0 run eight times as long.

    library: a folder in which programs share the simulator's own library
    """
    benches = [bench(pack) for pack, _ in packs]
    folder.mkdir(parents=True, exist_ok=True)
    top = folder / "all_packs.sv"
    body = "".join(f"  {path.stem} {path.stem}_run ();\n" for path in benches)
    top.write_text(f"`timescale 1ns / 1ps\nmodule all_packs;\n{body}endmodule\n")
    words: list[str | Path] = [
        "verilator", "--binary", "--timing", "-Wall", "--relative-includes", f"-I{HERE}",
        "--top-module", "all_packs", "-o", "all_packs", top,
        *benches, *sorted({circuit(pack, unit, folder) for pack, unit in packs if unit}),
    ]  # fmt: skip
    _built(words, ["VM_PARALLEL_BUILDS=0", "OPT_FAST=-Og"], folder / "verilated", library)
    return [str(folder / "verilated" / "all_packs")]


def random_words(
    model: Path, unit: str, folder: Path, beats: int, mutant: int = 0, library: Path | None = None
) -> tuple[bool, str]:
    """A unit, or a mutant of it, against its C model by DPI-C, in Verilator: whether all random words agree.

    model: the folder that `intnet golden unit NAME --c` writes
    folder: where it is built; what stands there of the simulator's own library is not compiled again
    library: a folder in which programs share it
    """
    define = [f"-DMUT={mutant}"] if mutant else []
    top, built = f"{unit}_random_tb", folder / "verilated"
    words: list[str | Path] = [
        "verilator", "--binary", "--timing", "-Wno-fatal", "-Wno-WIDTH", *define, f"-I{HERE}", f"-I{model}",
        "-CFLAGS", f"-I{model}", "--top-module", top, model / f"{top}.sv", source(unit),
        model / f"{unit}_model.c", model / f"{unit}_dpi.c",
    ]  # fmt: skip
    _built(words, ["OPT_FAST=-O1"], built, library)
    return run([str(built / f"V{top}"), f"+beats={beats}"])


def chosen(program: Sequence[str], pack: Path) -> list[str]:
    """The command that runs the testbench of `pack` in a program of many."""
    return [*program, f"+tb={bench(pack).stem}", f"+pack={pack}"]


def run(words: Sequence[str]) -> tuple[bool, str]:
    """Whether the testbench passed, and what it printed."""
    text = command(words)
    return any(line.startswith("PASS n=") for line in text.splitlines()), text
