"""The trail of a rounding, for whole tensors: floor, remainder, up, and the value before saturation.

    scaled = value / 2**grid = floor + f,  0 <= f < 1        value the exact source of the rounding
    presat = floor + up                                      then limits, and for Flag-Q a shift

`remainder` is an unsigned word of 33 bits: the first 32 bits of f, then a sticky bit that says whether any
bit after them is set. That decides every mode: f = 1/2 is 0x80000000 with sticky 0, and a random word of B
bits rounds up iff it is below the first B bits. Flag-Q has two grids; `coarse` says on which one
an element is.

Whole tensors, so these are arrays; their definition is `spec.rounding.decision` on the grid of
`spec.formats`, of codecs `spec.buckets.affine_way`. `inspect/explain.py` tells it of one element,
`packs/by_spec/trails.py` of all of a pack.
"""

from typing import NamedTuple

import numpy as np

from intnet.errors import FormatError
from intnet.exact.blocks.block_float import BlockTensor, expand
from intnet.exact.blocks.buckets import Packed
from intnet.exact.blocks.mx_blocks import Along
from intnet.exact.expressions import Expression
from intnet.exact.sources import FloatExact
from intnet.inspect import as_spec
from intnet.numbers.formats import FixedPoint, Flag, Format, Levels
from intnet.numbers.qtensor import QTensor
from intnet.numbers.rounding import TO_NEG, TO_POS, Rounding, how

FRACTION_BITS = 32
REMAINDER_BITS = FRACTION_BITS + 1
HALF = 1 << FRACTION_BITS  # the remainder of a tie: its first bit, and no other


class Trail(NamedTuple):
    """int64 arrays of the source's shape.

    coarse: of Flag-Q, whether the coarse grid holds; lift: log2 of the coarse grid in codes
    limit:  of block float, +- that of presat of each element where they differ
    exponent: of small floats in MX blocks, log2 of the step of each element's grid over its block's scale
    """

    floor: np.ndarray
    remainder: np.ndarray
    up: np.ndarray
    presat: np.ndarray
    coarse: np.ndarray | None = None
    lift: int = 0
    limit: np.ndarray | None = None
    exponent: np.ndarray | None = None


def trail(
    source: Expression, format: Format, rounding: str, words: np.ndarray | None = None, word_bits: int = 32
) -> Trail:
    """The trail of `quantize(source, format, rounding=..., words=..., word_bits=...)`.

    ContainerError where an element needs more than 30 bits on its grid.
    """
    rounded = how(rounding, words, word_bits)
    if isinstance(format, Flag):
        return _flag(source, format, rounded)
    if isinstance(format, Levels):
        raise FormatError(f"{format} has no grid, on which a trail could stand")
    return _on_grid(source, grid(source, format), rounded)


def grid(source: Expression, format: Format) -> int:
    """log2 of the step that `format` rounds this source to, by its definition; of Flag-Q the fine one."""
    form = as_spec.format_of(format)
    return as_spec.log2(form.step(as_spec.grid(form, source)))


def limits(format: Format) -> tuple[int | None, int | None, str]:
    """(least, greatest, overflow) of presat, by the format's definition; of Flag-Q on the coarse grid.

    Of `Levels` the least and the greatest level.
    """
    of_one = as_spec.format_of(format).way(1, 0)  # where R = 1, so 1 is on the coarse grid
    if of_one.levels is not None:
        return min(of_one.levels.values()), max(of_one.levels.values()), "saturate"
    return of_one.limits or (None, None, "")


def _on_grid(source: Expression, step: int, rounding: Rounding) -> Trail:
    """Three roundings, of which two 32 bits below the grid."""
    below = source.round_to(step - FRACTION_BITS, Rounding(TO_NEG))[0].astype(np.int64)
    sticky = source.round_to(step - FRACTION_BITS, Rounding(TO_POS))[0] != below
    presat = source.round_to(step, rounding)[0].astype(np.int64)
    floor = below >> FRACTION_BITS
    below &= (1 << FRACTION_BITS) - 1
    return Trail(floor, below << 1 | sticky, presat - floor, presat)


def _flag(source: Expression, format: Flag, rounding: Rounding) -> Trail:
    """The coarse grid Sc where |x| >= Sc, else the fine one, where nothing can saturate."""
    fine, step = format.fine, grid(source, format)
    on_coarse, on_fine = (_on_grid(source, g, rounding) for g in (step + fine, step))
    floor, remainder = on_coarse[:2]
    coarse = (floor >= 1) | (floor < -1) | ((floor == -1) & (remainder == 0))
    pairs = zip(on_coarse[:4], on_fine[:4], strict=True)
    floor, remainder, up, presat = (np.where(coarse, *both) for both in pairs)
    return Trail(floor, remainder, up, presat, coarse, fine)


def block_trail(source: np.ndarray, blocks: BlockTensor) -> Trail:
    """The trail of float32 `source` in the block float of `blocks`."""
    steps = expand(blocks.steps(), blocks.shape, blocks.axes)
    below = np.ldexp(source.astype(np.float64), FRACTION_BITS - steps)  # exact: 24 bits of a code below 2**8
    floor = np.floor(below).astype(np.int64)
    presat = np.rint(np.ldexp(source.astype(np.float64), -steps)).astype(np.int64)
    fraction = floor & (1 << FRACTION_BITS) - 1
    remainder, floor = fraction << 1 | (np.floor(below) != below), floor >> FRACTION_BITS
    high = block_limits(source, blocks)
    alike = high.size and (high == high.flat[0]).all()
    limit = None if alike else expand(high, blocks.shape, blocks.axes)
    return Trail(floor, remainder, presat - floor, presat, limit=limit)


def mx_trail(source: np.ndarray, q: QTensor, along: Along, rounding: str, words: np.ndarray | None) -> Trail:
    """The trail of float32 `source` in the MX blocks of `q`, each element on the grid of its binade.

    Defined by `spec/mx_blocks.py: InBlock.way`.
    """
    scaled = np.ldexp(source.astype(np.float64), -q.exponent)  # exact
    own = along.own_steps(scaled)
    scaled = np.ldexp(scaled, -own)
    tiny = np.copysign(2.0**-FRACTION_BITS / 4, scaled)  # what is less still rounds alike, in float32 too
    scaled = np.where((scaled != 0) & (np.abs(scaled) < np.abs(tiny)), tiny, scaled).astype(np.float32)
    way = _on_grid(FloatExact(scaled), 0, how(rounding, words))
    fixed = isinstance(along.mx.element, FixedPoint)
    return way._replace(exponent=None if fixed else own + (along.least - along.digits))


def bucket_trail(source: np.ndarray, packed: Packed, words: np.ndarray | None) -> Trail:
    """The trail of float32 `source` in affine buckets: scaled is u = a/s + z, in float32; 0 where s is 0.

    A fraction u - floor(u) that float32 rounds to 1 goes up whatever the word: it counts as the next floor.
    """
    assert packed.codec.has_zero
    flat = source.reshape(-1)
    size = packed.codec.size(flat.size)
    s, z = (np.repeat(part, size)[: flat.size] for part in (packed.scales, packed.zeros))
    varied = s != 0
    u = np.where(varied, flat / np.where(varied, s, np.float32(1)) + z, np.float32(0))
    floor = np.floor(u)
    part = u - floor
    floor, part = np.where(part == 1, floor + 1, floor), np.where(part == 1, np.float32(0), part)
    whole = np.where(varied, floor, 0).astype(np.int64)
    bits = np.ldexp(part.astype(np.float64), FRACTION_BITS)  # exact: a float32
    first = np.floor(bits).astype(np.int64)
    up = words.reshape(-1) < first if words is not None else np.rint(u) != floor
    found = (whole, first << 1 | (bits != first), up.astype(np.int64), whole + up)
    floors, remainders, ups, presat = (one.reshape(source.shape) for one in found)
    return Trail(floors, remainders, ups, presat)


def block_limits(source: np.ndarray, blocks: BlockTensor) -> np.ndarray:
    """int64 a block: the greatest code of its b bits, 0 where what is too small for e = -128 becomes 0."""
    high = (1 << np.maximum(blocks.bits.astype(np.int64) - 1, 0)) - 1
    lost = (expand(blocks.filled, blocks.shape, blocks.axes) == 0) & (source != 0)
    return high * blocks.filled if lost.any() else high
