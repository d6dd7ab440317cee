"""MX blocks along an axis of a float32 tensor: what the products of training with MX formats read.

    Along(MXFP6_E3M2, axis=0)                    a format, as plain data: 32 elements along the axis
    quantize_along(x, along, how("ties_even"))   InBlocks: float32 values, the scales' words

The values are exact: whatever a product then makes of them is what it makes of elements and scales. Tensors
of elements themselves, of any block: `numbers/microscaling.py`. Loops: `mx_loops.py`.

Defined by `spec/mx_blocks.py: quantize_along`, `spec/mx_blocks.py: blocks`.
"""

from dataclasses import dataclass
from math import frexp, prod

import numpy as np

from intnet.errors import FormatError, NumberError, ShapeError
from intnet.exact.blocks import mx_loops
from intnet.exact.blocks.mx_loops import SIZE, TILE
from intnet.exact.microscaling import greatest
from intnet.machine.buffers import empty
from intnet.numbers.microscaling import BIAS, Microscaling
from intnet.numbers.qtensor import QTensor, Status, container
from intnet.numbers.rounding import OWN, STOCHASTIC, Rounding
from intnet.numbers.small_floats import Float

PIECE = 2048  # elements of one task, of blocks along memory
_NONE = (1, 1, 0), (0,)  # shapes of no words


@dataclass(frozen=True)
class Along:
    """MX blocks of 32 along `axis`, which falls into `groups`, of which no block has two.

    mx: the element, and how scales are made

    Defined by `spec/mx_blocks.py: Along`.
    """

    mx: Microscaling
    axis: int
    groups: int = 1

    @property
    def bits(self) -> int:
        """Of an element, its share of the scale left out."""
        return self.mx.bits

    @property
    def digits(self) -> int:
        """m: bits after the leading one. Defined by `spec/microscaling.py: digits`."""
        element = self.mx.element
        return element.m if isinstance(element, Float) else element.wl - 2

    @property
    def least(self) -> int:
        """L, the exponent of the least normal element. Defined by `spec/mx_blocks.py: InBlock`."""
        element = self.mx.element
        return element.least if isinstance(element, Float) else element.wl - 2 - element.fl

    @property
    def greatest(self) -> float:
        """g, the greatest element. Defined by `spec/microscaling.py: greatest`."""
        return greatest(self.mx.element)

    def lifts(self) -> int:
        """Of 23 bits: fractions of t above this lift a block's k above floor(log2 t) - E, by rule.

        Defined by `spec/microscaling.py: scale_of`.
        """
        most = 1 << 23
        by_rule = {
            "floor": most,
            "ceil": 0,
            "round": most - (most >> (self.digits + 1)) - 1,
            "fit": int((2 * frexp(self.greatest)[0] - 1) * most),
        }
        return by_rule[self.mx.scale]

    def number(self, code: int) -> int:
        """Which element a code in least steps is, counted from 0, as its word without the sign has it.

        Defined by `spec/small_floats.py: number_of`.
        """
        above = max(code.bit_length() - 1 - self.digits, 0) if isinstance(self.mx.element, Float) else 0
        return (above << self.digits) + (code >> above)

    def own_steps(self, scaled: np.ndarray) -> np.ndarray:
        """int64: log2 of the step that each is rounded in; both in least steps of the element's block.

        Defined by `spec/mx_blocks.py: InBlock.way`.
        """
        above = np.frexp(scaled)[1].astype(np.int64) - 1 - self.digits
        return np.clip(above, 0, frexp(self.greatest)[1] - 1 - self.least)

    def view(self, shape: tuple[int, ...]) -> tuple[int, int, int]:
        """(A, n, B) of `mx_loops.py`; ShapeError where the axis does not fall into the groups."""
        axis = self.axis % len(shape)
        if shape[axis] % self.groups:
            raise ShapeError(f"axis {axis} of {shape} does not fall into {self.groups} groups")
        return prod(shape[:axis]) * self.groups, shape[axis] // self.groups, prod(shape[axis + 1 :])

    def packed_bits(self, shape: tuple[int, ...]) -> int:
        """Of a tensor's elements, and of a scale of 8 bits a block."""
        a, n, b = self.view(shape)
        return a * b * (n * self.bits + 8 * -(-n // SIZE))

    def __str__(self) -> str:
        name = str(self.mx).removeprefix("MX(").removesuffix(")")
        groups = f" of {self.groups} groups" if self.groups > 1 else ""
        return f"MX({name}, axis {self.axis}{groups})"


@dataclass(frozen=True, eq=False)
class InBlocks:
    """A tensor in MX blocks.

    values: float32, exact; scales: uint8[A, blocks, B], words of E8M0; limited: int64[n], how many elements
    saturated at each place along the axis (of blocks along memory all at place 0)

    Defined by `spec/mx_blocks.py: Quantized`.
    """

    values: np.ndarray
    scales: np.ndarray
    limited: np.ndarray
    along: Along

    def to_qtensor(self, source: np.ndarray, saturated: int, own: slice = slice(None)) -> QTensor:
        """Codes in each block's least steps, with an exponent an element; source: what was rounded.

        own: the part along the first axis that is asked for, which `source` and `saturated` are of

        Defined by `spec/mx_blocks.py: InBlock`.
        """
        n = self.along.view(self.values.shape)[1]
        k = np.repeat(self.scales.astype(np.int32) - BIAS, SIZE, axis=1)[:, :n]
        each = np.ascontiguousarray(k).reshape(self.values.shape)[own]
        exponents, values = each + (self.along.least - self.along.digits), self.values[own]
        bound = int(np.ldexp(self.along.greatest, self.along.digits - self.along.least))
        codes = np.ldexp(values.astype(np.float64), -exponents).astype(container(bound))
        inexact = int(np.count_nonzero(values != source))
        return QTensor(codes, exponents, bound=bound, status=Status(saturated, inexact, codes.size))


def quantize_along(x: np.ndarray, along: Along, rounding: Rounding) -> InBlocks:
    """float32 `x` in blocks; rounding.words: uint32, one an element, where it is stochastic.

    NumberError, naming the place, for a NaN, an infinity and a block that would have values beyond float32;
    FormatError for anything but float32, and for a rounding mode of a user's own.

    Defined by `spec/mx_blocks.py: quantize_along`.
    """
    name = rounding.where or "MX blocks"
    if x.dtype != np.float32:
        raise FormatError(f"{name}: MX blocks are made of float32, not {x.dtype}")
    if rounding.mode == OWN:
        raise FormatError(f"{name}: MX blocks along an axis take the rounding modes that intnet has itself")
    drawn = rounding.words if rounding.mode == STOCHASTIC else rounding.words[:0]
    if rounding.mode == STOCHASTIC and drawn.size != x.size:
        raise FormatError(f"{name}: {drawn.size} random words for {x.size} elements")
    a, n, b = along.view(x.shape)
    shape, count = (a * n,) if b == 1 else (a, n, b), -(-n // SIZE)
    given, words = (
        np.ascontiguousarray(x).reshape(shape),
        drawn.reshape(shape if drawn.size else _NONE[b == 1]),
    )
    out, scales = empty(shape, np.float32), np.empty((a, count, b), np.uint8)
    element = (along.least + 127, along.digits, frexp(along.greatest)[1] - 1, along.lifts(), n)
    rest = (given, given.view(np.int32), words, element, np.float32(along.greatest), rounding.mode)
    if b == 1:
        rows = max(1, PIECE // max(1, n))
        limited, beyond = np.zeros((2, -(-a // rows)), np.int64)
        mx_loops.along_memory(*rest, rows, out, scales.reshape(-1), limited, beyond)
    else:
        tiles = -(-b // TILE)
        limited, beyond = np.zeros((a, tiles, n), np.int64), np.zeros(a * tiles * count, np.int64)
        mx_loops.along_columns(*rest, out, scales, limited, beyond)
        limited = limited.sum(axis=(0, 1))
    if beyond.any():
        raise _refused(x, along, name)
    return InBlocks(out.reshape(x.shape), scales, limited, along)


def _refused(x: np.ndarray, along: Along, name: str) -> NumberError:
    wrong = ~np.isfinite(x)
    if wrong.any():
        return NumberError(f"{name}: NaN or infinity at index {tuple(int(i) for i in np.argwhere(wrong)[0])}")
    at = tuple(int(i) for i in np.unravel_index(int(np.argmax(np.abs(x))), x.shape))
    return NumberError(
        f"{name}: {x[at]:g} at {at}: the greatest element of its block, {along}, would be beyond float32"
    )
