"""Ports of a path in block float: what stands beside the codes, and how they came to be.

    L/x0           codes; value = code * 2**(e - b + 1)
    L/x0.e         e of the blocks: a result too
    L/x0.bits      b of the blocks, the map in use: an input; none where all blocks have the same b

`limit` joins the trail (`trail.py`) where it is not one number for all: +-(2**(b-1) - 1) by b.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from intnet.blocks.block_float import BlockTensor
from intnet.inspect.trail import block_limits
from intnet.packs import ports

BITS = 4  # of a width

STATE = ("b", "b_new", "S")  # what a method keeps of every block
_OF = {"W": "W", "": "x0"}


def state_name(symbol: str, slot: str) -> str:
    """'S_W', 'S_x0': what is kept of the blocks of a weight, of activations."""
    return f"{slot}_{_OF[symbol]}"


def block_axes(axes: Mapping[int, str], second: int | None = None) -> dict[int, str]:
    """Names of the dimensions of arrays of blocks: 'N/4,H,W,C/4'; `second` blocked axis, None: the last."""
    named = {}
    for count, text in axes.items():
        names = text.split(",")
        for axis in {0, count - 1 if second is None else second}:
            if axis < count:
                names[axis] += "/4"
        named[count] = ",".join(names)
    return named


def beside(
    name: str, blocks: BlockTensor, axes: str, direction: str
) -> tuple[list[ports.Filled], dict[str, Any]]:
    """(the ports of e and b, the fields of `rounding` that name them).

    e judges nothing where all blocks have the same: it is `in` then.
    """
    count = len(blocks.shape)
    named = block_axes({count: axes}, blocks.axes[1])[count]
    e, bits = blocks.exponents.astype(np.int64), blocks.bits.astype(np.int64)
    alike = not np.any(e != e.flat[0])
    meaning = "e of each block: the smallest with max abs(x) < 2^e, at least -128"
    made = [ports.whole_number(f"{name}.e", "in" if alike else direction, e, named, 8, meaning=meaning)]
    if not np.any(bits != bits.flat[0]):
        return made, {"bits": int(bits.flat[0])}
    fields = {"signed": False, "meaning": "b of each block: the map in use"}
    made.append(ports.whole_number(f"{name}.bits", "in", bits, named, BITS, **fields))
    return made, {"bits": f"{name}.bits"}


def limits_of(name: str, source: np.ndarray, blocks: BlockTensor) -> dict[str, Any]:
    """The limits for `rounding`: numbers, or the port of one an element."""
    high = block_limits(source, blocks)
    if np.any(high != high.flat[0]):
        return {"low": None, "high": None, "limit": f"{name}.limit"}
    return {"low": -int(high.flat[0]), "high": int(high.flat[0])}
