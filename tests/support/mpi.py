"""`mpirun` of this environment, where it has one: `needs_mpi` skips and says what is missing."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import PYTHON, ROOT

MPIRUN = shutil.which("mpirun", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")

needs_mpi = pytest.mark.skipif(
    MPIRUN is None or importlib.util.find_spec("mpi4py") is None,
    reason="needs mpirun and mpi4py: pip install 'intnet[mpi]'",
)
# more ranks than cores, as any user, on any of the cores
SETTINGS = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}


def command(ranks: int, *arguments: str, each: list[dict[str, str]] | None = None) -> list[str]:
    """`mpirun -n ranks intnet ..`; each: variables of every rank, one dictionary a rank."""
    assert MPIRUN is not None
    own = [*PYTHON, "-m", "intnet", *arguments]
    line = [MPIRUN, "--bind-to", "none"]
    if each is None:
        return [*line, "-n", str(ranks), *own]
    for k, variables in enumerate(each):
        given = [f"{name}={value}" for name, value in variables.items()]
        line += [*([":"] if k else []), "-n", "1", "env", *given, *own]
    return line


def settings(threads: int = 1) -> dict[str, str]:
    """The environment of `mpirun`."""
    return {**os.environ, **SETTINGS, "NUMBA_NUM_THREADS": str(threads), "PYTHONPATH": str(ROOT)}


def mpirun(ranks: int, *arguments: str, threads: int = 1, **how: Any) -> subprocess.CompletedProcess[str]:
    """Run it to its end."""
    line = command(ranks, *arguments, **how)
    return subprocess.run(line, env=settings(threads), capture_output=True, text=True, check=False)
