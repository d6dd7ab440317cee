"""Memory for large results, used again: `empty` stands in for `np.empty`.

A training step makes the same tensors every time. Memory fresh from the system costs more than the
pass that fills it (each page is a fault, and is zeroed), so a block stays here when its array dies:

    x = empty((128, 28, 28, 16), np.int8)       like np.empty; of LEAST bytes or more at a multiple of 64

The block goes back when the last view of the array is gone, never earlier: an array that lives, in
whatever hands, shares its memory with no other. Blocks are kept by size; beyond KEPT bytes idle ones
are let go when a new one is needed.
"""

import math
from collections import deque
from typing import Any, NamedTuple

import numpy as np

__all__ = ["LEAST", "empty"]

LEAST = 1 << 16  # bytes; below, the system's allocator keeps its own memory
KEPT = 1 << 28  # bytes of idle blocks
ALIGNMENT = 64  # a cache line, and the widest vector register


class Block(NamedTuple):
    """Memory, and the first aligned address in it."""

    memory: np.ndarray
    start: int


# Idle blocks by size, the last one used at the right end. A deque's append and pop are atomic, so a
# block may come back in any thread and at any moment, also while another one is being taken.
_idle: dict[int, deque[Block]] = {}


class _Loan:
    """What an array says its memory belongs to; dies with the last view, and then the block is idle."""

    __slots__ = ("__array_interface__", "block", "shelf")

    def __init__(self, block: Block, shelf: "deque[Block]", shape: tuple[int, ...], kind: str) -> None:
        self.block, self.shelf = block, shelf
        data = (block.start, False)
        self.__array_interface__ = {"data": data, "shape": shape, "typestr": kind, "version": 3}

    def __del__(self) -> None:
        self.shelf.append(self.block)


def _room(size: int) -> int:
    """`size` rounded up to 4, 5, 6 or 7 times a power of two: pages that nobody touches cost nothing."""
    step = 1 << (size.bit_length() - 3)
    return -(-size // step) * step


def _let_go() -> None:
    """Drop idle blocks, of the sizes first that were asked for first, until at most KEPT bytes are left."""
    over = sum(room * len(shelf) for room, shelf in list(_idle.items())) - KEPT
    for room, shelf in list(_idle.items()):
        while over > 0:
            try:
                shelf.popleft()
            except IndexError:  # empty, or another thread took the last one
                break
            over -= room


def empty(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """A C-contiguous array of numbers of undefined values; its memory is used again once no view is left."""
    kind = np.dtype(dtype)
    size = math.prod(shape) * kind.itemsize
    if size < LEAST:
        return np.empty(shape, kind)
    room = _room(size)
    shelf = _idle.get(room)
    if shelf is None:
        shelf = _idle.setdefault(room, deque())
    try:
        block = shelf.pop()
    except IndexError:
        _let_go()
        memory = np.empty(room + ALIGNMENT, np.uint8)
        at = memory.ctypes.data
        block = Block(memory, at + -at % ALIGNMENT)
    return np.asarray(_Loan(block, shelf, shape, kind.str))
