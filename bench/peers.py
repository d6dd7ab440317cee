"""The libraries that intnet stands beside: PyTorch, qtorch, ONNX Runtime, all optional (the extra `bench`).

`torch` is the module, or None where it is not installed. `python -m bench` imports this file before
anything of intnet, and that order is what makes one process fair to both: intnet asks OpenMP for
threads that wait asleep (OMP_WAIT_POLICY=passive in `intnet/machine/jit.py`), which would slow a PyTorch
step by a quarter; a PyTorch that is loaded first has read its own, default policy by then. Measured
in one process with this order, and with the pauses of `timing.py`, each is as fast as alone.
"""

import os
import sys
from pathlib import Path
from typing import Any

import numba

try:
    import torch
except ImportError:
    torch = None

__all__ = ["MISSING", "onnx_runtime", "qtorch", "torch"]

MISSING: list[str] = []  # one line a peer that is not here: what to do, or why

if torch is None:
    MISSING.append("torch is not installed: its columns are left out; pip install -e '.[bench]'")
else:
    assert "intnet.machine.jit" not in sys.modules, "bench.peers is imported after intnet: see its docstring"
    torch.set_num_threads(numba.config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]  # numba sets it from a table


def qtorch() -> Any:
    """`qtorch.quant`, or None where it is not installed or its C++ extension does not build."""
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # finds pip's ninja
    try:
        from qtorch import quant
    except Exception as error:  # a compiler fails in many ways
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:100]
        MISSING.append(f"qtorch is not here ({reason}): its columns are left out")
        return None
    return quant


def onnx_runtime() -> bool:
    """Whether ONNX Runtime and the tools of its networks are here."""
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
    except ImportError:
        MISSING.append("onnx or onnxruntime is not installed: their rows are left out")
        return False
    return True
