"""Run benchmarks by name (default: all): a table a question on the terminal, JSON in bench/results/.

A benchmark is a module with QUESTION and `rows()`, a list of flat dicts. Timings are medians after a
warm-up; compare numbers of one run only, machines differ.
"""

import argparse
import importlib
import json
import platform
from pathlib import Path

import numba
from rich.console import Console
from rich.table import Table

NAMES = ("startup", "gemm", "step")
RESULTS = Path(__file__).parent / "results"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*NAMES, []], help="which (default: all)")
    console = Console()
    for name in parser.parse_args().names or NAMES:
        module = importlib.import_module(f"bench.{name}")
        rows = module.rows()
        cpu = numba.config.CPU_NAME or platform.processor()
        machine = {"cpu": cpu, "threads": numba.config.NUMBA_NUM_THREADS}
        RESULTS.mkdir(exist_ok=True)
        result = {"question": module.QUESTION, "machine": machine, "rows": rows}
        (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
        table = Table(*rows[0], title=module.QUESTION)
        for row in rows:
            table.add_row(*(f"{v:.3g}" if isinstance(v, float) else str(v) for v in row.values()))
        console.print(table)


main()
