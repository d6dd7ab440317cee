"""The order in which a port's elements stand in its file, as text: which axis counts fastest, which is cut.

    N,H,W,C         an axis after another, the last one fastest: '' says that of the port's own axes
    N,C,H,W         the same elements, W fastest
    N,C/16,H,W,C%16 blocks of 16 channels: C/16 counts blocks, C%16 within one

A place in the file is a cell: it holds an element, or, after the channels of a last block, none.
"""

import re
from math import prod

import numpy as np

from intnet.errors import PackError

Dimension = tuple[int, int, int]  # an axis, what its index is multiplied by, how many there are


def dimensions(axes: str, shape: tuple[int, ...], order: str) -> list[Dimension]:
    """The file's own dimensions, the last one fastest; PackError for an order that leaves out or repeats."""
    if not order:
        return [(axis, 1, size) for axis, size in enumerate(shape)]
    names = axes.split(",")
    parts: dict[str, list[tuple[str, int]]] = {name: [] for name in names}
    found: list[Dimension] = []
    for text in order.split(","):
        name, cut, size = _part(text, names)
        if name not in names:
            raise PackError(f"order {order!r}: {text!r} is none of the axes {axes}, nor a block of one")
        parts[name].append((cut, size))
        axis = names.index(name)
        if cut == "/":
            found.append((axis, size, -(-shape[axis] // size)))
        else:
            found.append((axis, 1, size if cut else shape[axis]))
    for name, mine in parts.items():
        cuts, sizes = {cut for cut, _ in mine}, {size for _, size in mine}
        if (len(mine), cuts, len(sizes)) not in ((1, {""}, 1), (2, {"/", "%"}, 1)):
            raise PackError(f"order {order!r} does not have the axis {name} once, or both its parts once")
    return found


def _part(text: str, names: list[str]) -> tuple[str, str, int]:
    """('C', '/', 16) of 'C/16', ('C', '', 1) of the axis 'C'."""
    found = re.fullmatch(r"(.+)([/%])([1-9][0-9]{0,5})", text)
    if text in names or not found:  # an axis of blocks is called C/4
        return text, "", 1
    return found[1], found[2], int(found[3])


def file_shape(axes: str, shape: tuple[int, ...], order: str) -> tuple[int, ...]:
    """How many there are along each of the file's dimensions."""
    return tuple(count for _, _, count in dimensions(axes, shape, order))


def cells(axes: str, shape: tuple[int, ...], order: str) -> np.ndarray:
    """int64 of every cell, in the file's order: the element in C order, or -1 where there is none."""
    found = dimensions(axes, shape, order)
    extents = [count for _, _, count in found]
    flat, inside = np.zeros(extents, np.int64), np.ones(extents, np.bool_)
    for axis, size in enumerate(shape):
        index = np.zeros((1,) * len(found), np.int64)
        for k, (of, factor, count) in enumerate(found):
            if of == axis:
                index = index + factor * np.arange(count).reshape(-1, *(1,) * (len(found) - k - 1))
        flat += index * prod(shape[axis + 1 :])
        inside &= index < size
    return np.where(inside, flat, -1).reshape(-1)
