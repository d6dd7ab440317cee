"""The Numba options of every kernel, set once.

`njit` compiles one scalar rule or one single-threaded loop, `pjit` a loop over `prange`.
Compiled code is cached on disk, so a second process starts at once. `fastmath` stays off: it
would let the compiler reorder sums, and results must be the same bits on every machine.
With NUMBA_DISABLE_JIT=1 both decorators return the Python function, and the bits stay the same.
"""

from collections.abc import Callable
from typing import Any

import numba
from numba import prange

__all__ = ["njit", "pjit", "prange"]

_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}


def njit(function: Callable[..., Any]) -> Any:
    """Compile a scalar rule or a serial loop."""
    return numba.njit(**_OPTIONS)(function)


def pjit(function: Callable[..., Any]) -> Any:
    """Compile a loop whose `prange` iterations run on all threads."""
    return numba.njit(parallel=True, **_OPTIONS)(function)
