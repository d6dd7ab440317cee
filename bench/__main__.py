"""Run benchmarks by name (default: all but `ranks` and `kills`): a table a question, JSON in bench/results/.

A benchmark is a module with QUESTION, `rows()`, a list of flat dicts, and `targets(rows)`, what the
rows say against the targets (`summary.py`). Timings are medians after a warm-up, and what is compared
ran in turns in one process (`timing.py`); compare numbers of one run only, machines differ.
"""

import argparse
import importlib
import json
import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numba
from rich.console import Console
from rich.table import Table

from bench import peers
from bench.summary import Row, markdown, show

NAMES = (
    "startup", "gemm", "conv", "quantizers", "step", "inference", "exported", "adapt", "dynasty", "saved",
    "trace", "packs", "threads", "memory", "models", "larger", "machines",
)  # fmt: skip
BY_NAME = ("ranks", "kills")  # only where asked for: they take long and need mpirun
LOAD = os.getloadavg()[0]  # of the last minute
RESULTS = Path(__file__).parent / "results"
WIDTH = 130  # characters, where no terminal says
# what products use of a processor
SETS = ("avx2", "avx512f", "avx512vnni", "avxvnni", "amx-int8", "neon", "dotprod", "i8mm")
BUSY = 0.5  # load from which on others take cores, and threads that wait spinning (PyTorch's) suffer most


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    facts: dict[str, Any] = {
        "cpu": numba.config.CPU_NAME or llvm.get_host_cpu_name(),  # type: ignore[attr-defined]  # numba sets it from a table
        "instruction sets": [name for name in SETS if llvm.get_host_cpu_features().get(name)],
        "threads": numba.config.NUMBA_NUM_THREADS,  # type: ignore[attr-defined]  # numba sets it from a table
        "python": platform.python_version(),
        "load at start": LOAD,
    }
    for name in ("numpy", "numba", "torch", "qtorch", "onnxruntime"):
        try:
            facts[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            facts[name] = None
    return facts


def show_table(console: Console, rows: list[Row], title: str) -> None:
    """`rows` on the terminal; a row may lack a column."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    table = Table(title=title)
    for name in columns:
        number = all(isinstance(row.get(name), float | int | None) for row in rows)
        table.add_column(name, justify="right" if number else "left", no_wrap=not number)
    for row in rows:
        table.add_row(*(show(row.get(name)) for name in columns))
    console.print(table)


def run(name: str, console: Console) -> list[Row]:
    """Run one benchmark, write its JSON, show its table; its targets."""
    module = importlib.import_module(f"bench.{name}")
    known = len(peers.MISSING)
    rows = module.rows()
    for line in peers.MISSING[known:]:
        console.print(line, markup=False)
    targets = module.targets(rows)
    RESULTS.mkdir(exist_ok=True)
    result = {"question": module.QUESTION, "machine": machine(), "missing": peers.MISSING, "rows": rows}
    (RESULTS / f"{name}.json").write_text(json.dumps(result | {"targets": targets}, indent=1) + "\n")
    show_table(console, rows, module.QUESTION)
    return targets


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*NAMES, *BY_NAME, []], help="which")
    parser.add_argument("--markdown", action="store_true", help="print the last runs' targets, run nothing")
    options = parser.parse_args()
    names = options.names or NAMES
    if options.markdown:
        files = [file for name in names if (file := RESULTS / f"{name}.json").exists()]
        print(markdown(row for file in files for row in json.loads(file.read_text())["targets"]))
        return
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    for line in peers.MISSING:
        console.print(line, markup=False)
    if LOAD > BUSY:
        console.print(f"load {LOAD:.1f} in the last minute: if others still run, do not rely on this run")
    targets = [row for name in names for row in run(name, console)]
    show_table(console, targets, "targets")


if __name__ == "__main__":
    main()
