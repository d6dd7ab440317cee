"""What the tape holds for the backward pass: every tensor that a node saved, once, in bytes.

    measured = measure(loss)        between the forward and the backward pass (`Run.train`: last_tape)

    held      bytes of the arrays as they are: codes in the container that they fit, floats in float32
    packed    the same values in the bits that their formats name: codes of a format in its bits, or in those
              that the widest code needs where a format sets no range and it needs more; exact codes in those
              of their proven bound, block float and bucket codecs with their metadata, masks and the signs
              that ReLU reads in a bit an element, floats in float32, those too that a method has rounded to
              a format and hands on as float32 (`mx`, what is no product of `banner`)

A tensor that several nodes saved counts once. Copies of parameters (`PARAMETERS`) do not count: they are as
large as the model, whatever the batch.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from intnet.autograd import Kept, Tensor, reachable
from intnet.exact.blocks.affine import AffineTensor
from intnet.exact.blocks.block_float import BlockTensor
from intnet.exact.blocks.buckets import Packed
from intnet.exact.blocks.signs import Signs
from intnet.exact.expressions import Exact
from intnet.exact.sources import FloatExact
from intnet.methods.packing import Alike, Unrounded
from intnet.numbers.qtensor import QTensor

PARAMETERS = ("w", "gamma", "s")  # what operations save of a weight layer, a batch norm, a scale
FLOAT_BITS = 32
KB, MB = 1 << 10, 1 << 20  # bytes, as the thesis on saved activations counts: for all that a person reads


@dataclass(frozen=True)
class Tape:
    """Bytes; see the module."""

    held: int
    packed: int


def unit(most: int) -> tuple[int, str]:
    """(bytes, name) of the unit for sizes that stand side by side, of which the greatest is `most`."""
    return (MB, "MB") if most >= MB else (KB, "kB")


def measure(loss: Tensor) -> Tape:
    """What the nodes hold that a loss depends on."""
    assert loss.node is not None
    arrays: dict[int, int] = {}  # place in memory -> bytes
    bits: dict[int, int] = {}
    for node in reachable(loss.node):
        saved = {} if node.saved is None else vars(node.saved)
        for name, value in saved.items():
            if name in PARAMETERS:
                continue
            for part in _parts(value):
                for array in part.arrays:
                    at = array.__array_interface__["data"][0]
                    arrays[at] = max(arrays.get(at, 0), array.nbytes)
                at = part.arrays[0].__array_interface__["data"][0]
                bits[at] = max(bits.get(at, 0), part.bits)
    return Tape(sum(arrays.values()), sum(-(-count // 8) for count in bits.values()))


@dataclass(frozen=True)
class _Held:
    """Arrays that belong together, the first one known by its place; packed, they take so many bits."""

    arrays: list[np.ndarray]
    bits: int


def _parts(value: Any) -> Iterator[_Held]:
    """The tensors in a saved value; numbers, shapes and functions have none."""
    if isinstance(value, np.ndarray):
        yield _Held([value], value.size * (1 if value.dtype == bool else 8 * value.itemsize))
    elif isinstance(value, QTensor):
        yield _of_codes(value)
    elif isinstance(value, BlockTensor):
        arrays = [value.codes, value.exponents, value.bits, value.filled]
        yield _Held(arrays, 8 * value.packed_bytes)
    elif isinstance(value, AffineTensor):
        yield _Held([value.codes.codes], value.packed_bits)
    elif isinstance(value, Exact):
        yield from _of_expression(value)
    elif isinstance(value, FloatExact):
        yield from _parts(value.values)
    elif isinstance(value, Alike):
        yield from _parts(value.packed)
    elif isinstance(value, Unrounded):
        yield from _parts(value.value)
    elif isinstance(value, Kept):
        yield _of_kept(value)
    elif isinstance(value, tuple | list):
        for entry in value:
            yield from _parts(entry)


def _of_codes(q: QTensor) -> _Held:
    bits = q.bound.bit_length() + 1 if q.format is None else q.stored_bits()
    exponents = [q.exponent] if isinstance(q.exponent, np.ndarray) else []
    return _Held([q.codes, *exponents], q.codes.size * bits + sum(8 * each.nbytes for each in exponents))


def _of_expression(value: Exact) -> Iterator[_Held]:
    """A rectified one is held for the signs that its gradient reads, and holds the terms it came from."""
    terms = [term for term, _ in value.terms]
    if value.relu:
        signs = value.positive()
        yield _Held([signs], signs.size)
    yield from (_Held([term.codes], 0) if value.relu else _of_codes(term) for term in terms)


def _of_kept(kept: Kept) -> _Held:
    if isinstance(kept, Packed):
        arrays = [kept.words, kept.scales, kept.zeros, *([] if kept.flags is None else [kept.flags])]
    elif isinstance(kept, Signs):
        arrays = [kept.words]
    else:
        arrays = [array for array in vars(kept).values() if isinstance(array, np.ndarray)]
    return _Held(arrays, 8 * sum(array.nbytes for array in arrays))
