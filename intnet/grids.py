"""Where a format rounds one value, and which way: the step, the limits, what set them, the decision.

    grid(format, source, value) -> Grid      one grid for the tensor, or two (the flag format)
    in_block(event, index) -> Grid           block float: the grid of the block that an element is in
    decide(mode, floor, part, ...)           up or not, and why

Apart from the kernels, in Python integers and Fractions: for `explain.py`. `mantissa_bits` is the other
way round, a whole tensor's widths by the library's own exponents, for choosing what to explain.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from intnet.block_float import WIDTHS, blocks_of, expand
from intnet.block_loops import LEAST, SIDE
from intnet.errors import FormatError
from intnet.exact import Expression
from intnet.exact_sources import FloatExact, floor_log2, log2_round
from intnet.formats import BlockFloat, Constant, Direct, FixedPoint, Flag, Format, Scaled, Shift
from intnet.rounding import NEAREST, mode_code
from intnet.trace import Event

HALF = Fraction(1, 2)
Index = tuple[int, ...]


class Disagreement(RuntimeError):
    """The exact arithmetic of an explanation and the library's kernels do not agree: a bug in intnet."""


@dataclass(frozen=True)
class Block:
    """The block of an element in block float.

    index:    of the block, as in an array of exponents; elements: that it has
    greatest: their largest magnitude, that of element `at`
    exponent: e, the smallest with greatest < 2**e; -128 where that is less, and all are 0 then
    bits:     b of the mantissas
    """

    index: Index
    elements: int
    greatest: Fraction
    at: Index
    exponent: int
    bits: int


@dataclass(frozen=True)
class Grid:
    """Where a format rounds: log2 of the step, R(x), the limits, what happens beyond them, the lift.

    emptied: why all of a block becomes 0, else ''
    """

    exponent: int
    log2_r: int | None = None
    low: int | None = None
    high: int | None = None
    overflow: str = ""
    lift: int = 0
    block: Block | None = None
    emptied: str = ""


def comma(numbers: Index) -> str:
    """'0,3,1'."""
    return ",".join(map(str, numbers))


# -- one grid a tensor -------------------------------------------------------------------------


def _log2_r(source: Expression) -> int:
    """log2 of R(x); of a float tensor from its exact maximum."""
    if isinstance(source, FloatExact):
        top = max((abs(Fraction(float(v))) for v in (source.values.min(), source.values.max())), default=0)
        return log2_round(Fraction(top) / source.den) if top else 0
    return source.log2_max()


def _fixed(format: FixedPoint, source: Expression, value: Fraction | None) -> Grid:
    return Grid(format.exponent, None, format.lo, format.hi, format.overflow)


def _direct(format: Direct, source: Expression, value: Fraction | None) -> Grid:
    return Grid(format.exponent)


def _shift(format: Shift, source: Expression, value: Fraction | None) -> Grid:
    n = _log2_r(source)
    return Grid(n - (format.k - 1), n, -format.hi, format.hi, "saturate")


def _flag(format: Flag, source: Expression, value: Fraction | None) -> Grid:
    """The coarse grid Sc where |x| >= Sc, else the fine one, on which nothing can saturate."""
    n, fine = _log2_r(source), format.fine
    if value is None:
        raise FormatError("a square root is not rounded to the flag format")
    if abs(value) >= Fraction(2) ** (n - fine):
        return Grid(n - fine, n, -(format.hi >> fine), format.hi >> fine, "saturate", fine)
    return Grid(n - 2 * fine, n, -(1 << fine), 1 << fine, "saturate")


def _constant(format: Constant, source: Expression, value: Fraction | None) -> Grid:
    n = _log2_r(source)
    return Grid(n - (format.dr.bit_length() - 1), n, -format.hi, format.hi, "saturate")


def _scaled(format: Scaled, source: Expression, value: Fraction | None) -> Grid:
    """2**-s, s the greatest at which the tensor's maximum and minimum come within half a step of a limit."""
    if isinstance(source, FloatExact):
        ends = [Fraction(float(v)) / source.den for v in (source.values.max(), source.values.min())]
    else:
        ends = list(source.extremes())  # type: ignore[union-attr]
    limits = (format.hi + HALF, format.lo - HALF)
    bounds = [limit / end for limit, end in zip(limits, ends, strict=True) if limit * end > 0]
    return Grid(-floor_log2(min(bounds, default=limits[0])), None, format.lo, format.hi, "saturate")


_GRIDS: dict[type, Callable[[Any, Expression, Fraction | None], Grid]] = {
    FixedPoint: _fixed,
    Direct: _direct,
    Shift: _shift,
    Flag: _flag,
    Constant: _constant,
    Scaled: _scaled,
}


def grid(format: Format, source: Expression, value: Fraction | None) -> Grid:
    """Where `format` rounds this exact value (None: a root) of a tensor."""
    if type(format) not in _GRIDS:
        raise FormatError(f"where the format {format} rounds is not told here")
    return _GRIDS[type(format)](format, source, value)


# -- one grid a block --------------------------------------------------------------------------


def in_block(event: Event, index: Index) -> Grid:
    """The grid of the block of element `index`: e from the values given, b from the event's exponent.

    Disagreement where no b of block float makes that exponent of this e.
    """
    format, result = event.format, event.result
    assert isinstance(format, BlockFloat)
    blocked = (0, format.axis)
    first = [i - i % SIDE if axis in blocked else i for axis, i in enumerate(index)]
    sizes = [SIDE if axis in blocked else 1 for axis in range(len(index))]
    ranges = [range(a, min(a + n, end)) for a, n, end in zip(first, sizes, result.shape, strict=True)]
    values = {at: abs(Fraction(float(event.source[at]))) for at in product(*ranges)}
    at = max(values, key=lambda one: values[one])
    greatest = values[at]
    e = floor_log2(greatest) + 1 if greatest else LEAST
    below, exponent = e < LEAST, int(result.exponent[index])
    e = max(e, LEAST)
    bits = e - exponent + 1
    bits = 0 if bits == 1 else bits  # a block without bits has the exponent of one bit
    if bits not in WIDTHS or bits > format.b or {int(result.exponent[one]) for one in values} != {exponent}:
        raise Disagreement(
            f"{event.layer}/{event.path} {comma(index)}: its block has e = {e}, which no mantissa of up to "
            f"{format.b} bits brings to the stored exponent {exponent}"
        )
    of = tuple(i // n for i, n in zip(index, sizes, strict=True))
    block = Block(of, len(values), greatest, at, e, bits)
    why = "" if bits else "b = 0: a block of zeros"
    if below:
        why = f"the whole block is below 2^{LEAST - 1}: a block of zeros"
    high = (1 << bits - 1) - 1 if bits else 0
    return Grid(exponent, None, -high, high, "saturate", block=block, emptied=why)


def mantissa_bits(event: Event) -> np.ndarray:
    """b of the block that each element of a block float event is in: int16 of its shape."""
    assert isinstance(event.format, BlockFloat)
    blocks = blocks_of(event.result, event.source)
    return expand(blocks.bits, blocks.shape, blocks.axes)


# -- which way --------------------------------------------------------------------------------


def decide(
    mode: str, floor: int, part: Fraction, word: int | None = None, threshold: int | None = None
) -> tuple[bool, str]:
    """(whether floor + part goes up, why); 0 <= part < 1, the value is negative iff floor < 0."""
    if part == 0:
        return False, "on the grid: nothing to round"
    if mode == "stochastic":
        assert word is not None and threshold is not None
        up, why = word < threshold, f"random word {word} {'<' if word < threshold else '>='} {threshold}"
    elif mode in ("to_neg", "to_pos"):
        up, why = mode == "to_pos", "always down" if mode == "to_neg" else "always up"
    elif mode == "to_zero":
        up, why = floor < 0, f"towards zero, {_sign(floor)}"
    elif mode_code(mode) not in NEAREST:
        raise FormatError(f"how {mode!r} decides is not told here")
    elif part != HALF:
        up, why = part > HALF, f"nearest, remainder {'above' if part > HALF else 'below'} 1/2"
    else:
        up, why = _tie(mode, floor)
    return up, f"{why}: {'up' if up else 'down'} to {floor + up}"


def _tie(mode: str, floor: int) -> tuple[bool, str]:
    if mode == "ties_even":
        return floor % 2 == 1, f"tie to even, floor {floor} is {'odd' if floor % 2 else 'even'}"
    if mode == "ties_away":
        return floor >= 0, f"tie away from zero, {_sign(floor)}"
    if mode == "ties_pos":
        return True, "tie towards +infinity"
    raise FormatError(f"where a tie of {mode!r} goes is not told here")


def _sign(floor: int) -> str:
    return "negative" if floor < 0 else "positive"
