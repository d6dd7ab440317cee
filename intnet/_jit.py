"""The Numba options of every kernel, set once.

`njit` compiles one scalar rule or one single-threaded loop, `pjit` a loop over `prange`.
Compiled code is cached on disk, so a second process starts at once. `fastmath` stays off: it
would let the compiler reorder sums, and results must be the same bits on every machine.
With NUMBA_DISABLE_JIT=1 both decorators return the Python function, and the bits stay the same.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import numba
import numpy as np
from numba import prange

__all__ = ["njit", "pjit", "prange"]

_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}


def njit(function: Callable[..., Any]) -> Any:
    """Compile a scalar rule or a serial loop."""
    return numba.njit(**_OPTIONS)(function)


_THREADS: int = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
SMALL = 1 << 14  # elements of the largest operand below which handing out work costs more than it saves


def pjit(function: Callable[..., Any]) -> Any:
    """Compile a loop whose `prange` iterations run on all threads; on one where operands are small.

    The result is called from Python only; `dispatcher` on it is Numba's own object.
    """
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        return function
    compiled = numba.njit(parallel=True, **_OPTIONS)(function)

    @wraps(function)
    def call(*args: Any) -> Any:
        work = max(arg.size for arg in args if isinstance(arg, np.ndarray))
        numba.set_num_threads(1 if work < SMALL else _THREADS)
        return compiled(*args)

    call.dispatcher = compiled  # type: ignore[attr-defined]
    return call
