"""Arrays whose last element lies at the end of memory: what reads on behind it ends the process."""

from __future__ import annotations

import ctypes
import math
import mmap
import sys
from typing import Any

import numpy as np

PAGE = mmap.PAGESIZE


def fenced(shape: tuple[int, ...], kind: Any) -> np.ndarray:
    """An array of any bytes that a page follows which nobody may touch; on Linux, else one like any other."""
    dtype = np.dtype(kind)
    if not sys.platform.startswith("linux"):
        return np.empty(shape, dtype)
    size = math.prod(shape) * dtype.itemsize
    pages = -(-size // PAGE)
    memory = mmap.mmap(-1, (pages + 1) * PAGE)
    fence = ctypes.addressof(ctypes.c_char.from_buffer(memory)) + pages * PAGE
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(fence), PAGE, 0) == 0
    whole = np.frombuffer(memory, np.uint8)[pages * PAGE - size : pages * PAGE]
    whole[:] = 0xA5
    return whole.view(dtype).reshape(shape)
