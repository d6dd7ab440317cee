"""Execute the notebooks of this folder and write their outputs into them.

    python -m examples.execute [NOTEBOOK ...]        `make notebooks`; all of them where none is named

What is written depends on the code alone: no times, no paths, no counts of this machine. So a notebook can
be executed again and its text compared with what is on file (`tests/test_notebooks.py`).
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

HERE = Path(__file__).resolve().parent
NOTEBOOKS = sorted(HERE.glob("*.ipynb"))
TIMEOUT = 600  # seconds that a cell may take
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def executed(path: Path, environment: dict[str, str] | None = None) -> Any:
    """The notebook with new outputs, run by this interpreter in its own folder; CellExecutionError where a
    cell fails. `environment` has variables to set over this process's.
    """
    notebook = nbformat.read(path, 4)
    client = NotebookClient(
        notebook,
        timeout=TIMEOUT,
        resources={"metadata": {"path": str(path.parent)}},
        record_timing=False,
        coalesce_streams=True,
    )
    with tempfile.TemporaryDirectory() as own:
        client.km = AsyncKernelManager(
            kernel_name="python3",
            kernel_spec_manager=KernelSpecManager(kernel_dirs=[]),  # none but that of this interpreter
            transport="ipc",  # files of its own folder, no network
            connection_file=f"{own}/kernel.json",
        )
        client.execute(env=_environment(own) | (environment or {}))
    return settled(notebook)


def _environment(own: str) -> dict[str, str]:
    """This process's variables; the kernel finds intnet where this one does and draws into the page."""
    given = {key: value for key, value in os.environ.items() if key != "MPLBACKEND"}
    roots = [str(HERE.parent), *filter(None, [given.get("PYTHONPATH")])]
    return given | {"PYTHONPATH": os.pathsep.join(roots), "IPYTHONDIR": own}  # nobody's settings, no history


def settled(notebook: Any) -> Any:
    """Without what differs from one execution to the next."""
    notebook.metadata = nbformat.from_dict(METADATA)
    for k, cell in enumerate(notebook.cells):
        cell.id, cell.metadata = f"cell-{k:02d}", nbformat.from_dict({})
    return notebook


def text(notebook: Any) -> str:
    """The file of a notebook."""
    return str(nbformat.writes(notebook, version=4)) + "\n"


def texts(notebook: Any) -> list[tuple[str, list[str]]]:
    """(source, what it prints) of every code cell; of a picture only that it is one."""
    return [(c.source, [_text(o) for o in c.outputs]) for c in notebook.cells if c.cell_type == "code"]


def _text(output: Any) -> str:
    if output.output_type == "stream":
        return f"{output.name}: {output.text}"
    data = dict(sorted(output.get("data", {}).items()))
    picture = any(kind.startswith("image/") for kind in data)
    return "a picture" if picture else f"{output.output_type}: {data}"


def main(arguments: list[str]) -> int:
    """Execute in place."""
    for path in [Path(argument).resolve() for argument in arguments] or NOTEBOOKS:
        notebook = executed(path)
        nbformat.validate(notebook)
        path.write_text(text(notebook))
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
