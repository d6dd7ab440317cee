"""Block float in blocks of 4x4: one exponent of 8 bits for 16 values, mantissas of 0 to 8 bits.

    value = code * 2**(e - b + 1)        e the smallest integer with max|x| < 2**e over the block
    code  = round(x / 2**(e - b + 1)), ties to even, limited to +-(2**(b-1) - 1)

b, the mantissa's bits with its sign, may differ from block to block; b = 0 makes a block of zeros. Which axes
are blocked depends on the tensor: weights (Cout, Cin, kh, kw) and their gradients (0, 1), linear's too;
activations and errors (N, H, W, C) (0, 3), (N, C) (0, 1). What is left at an edge is a smaller block, as
if zeros filled it up. Source: DYNASTY, section 3.1.

    blocks = quantize_blocks(x, bits, axes)     BlockTensor: codes, and e and b of every block
    blocks.values, blocks.pack()                float32; bytes as a memory holds them

Loops: `block_loops.py`. Products: `ops/blocks.py`; where they need bands of exponents:
`bands.py`.

Defined by `spec/block_float.py: quantize`, `spec/block_float.py: exponent`, `spec/block_float.py: code_at`.
"""

from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from intnet.errors import FormatError, NumberError, ShapeError
from intnet.exact.blocks import block_loops
from intnet.exact.blocks.block_loops import GREATEST, LEAST, SIDE
from intnet.machine.buffers import empty
from intnet.numbers import bitpack
from intnet.numbers.formats import BlockFloat
from intnet.numbers.qtensor import QTensor, Status, max_abs

WIDTHS = (0, 2, 4, 6, 8)  # of mantissas

Axes = tuple[int, int]


def blocks_shape(shape: tuple[int, ...], axes: Axes) -> tuple[int, ...]:
    """How many blocks a tensor of `shape` has: ceil(size / 4) along `axes`, `size` along all others.

    Defined by `spec/block_float.py: blocks`.
    """
    return tuple(-(-size // SIDE) if axis in axes else size for axis, size in enumerate(shape))


def expand(each: np.ndarray, shape: tuple[int, ...], axes: Axes) -> np.ndarray:
    """One number an element, int16 of `shape`, from one a block; ShapeError where they do not fit."""
    blocks = blocks_shape(shape, axes)
    if each.shape != blocks:
        raise ShapeError(f"exponents {each.shape} where {shape}, blocked over axes {axes}, has {blocks}")
    out = each.astype(np.int16)
    for axis in axes:
        out = np.repeat(out, SIDE, axis).take(range(shape[axis]), axis)
    return out


@dataclass(frozen=True, eq=False)
class BlockTensor:
    """A tensor in block float.

    codes: int8, C-contiguous; exponents: e, int8 a block; bits: b, uint8 a block
    filled: uint8 a block, 0 where it was all 0 (or below 2**-129)
    saturated: values that the mantissa's range limited

    Defined by `spec/block_float.py: Blocks`.
    """

    codes: np.ndarray
    exponents: np.ndarray
    bits: np.ndarray
    filled: np.ndarray
    axes: Axes
    saturated: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the codes."""
        return self.codes.shape

    @property
    def size(self) -> int:
        """Number of codes."""
        return self.codes.size

    @property
    def nbytes(self) -> int:
        """Of all arrays, as memory holds them here."""
        return self.codes.nbytes + self.exponents.nbytes + self.bits.nbytes + self.filled.nbytes

    @property
    def values(self) -> np.ndarray:
        """float32, exact: every value of at most 8 bits is one.

        Defined by `spec/block_float.py: real`.
        """
        view, lines = _blocks_view(self.shape, self.axes), _view(self.shape, self.axes)
        out = empty(lines, np.float32)
        of_blocks = self.exponents.reshape(view), self.bits.reshape(view)
        block_loops.values(self.codes.reshape(lines), view[3], *of_blocks, out)
        return out.reshape(self.shape)

    @property
    def live(self) -> np.ndarray:
        """uint8 a block: 1 where it has values other than 0."""
        return self.filled * (self.bits > 0)

    def steps(self) -> np.ndarray:
        """int16 a block: the exponent e - b + 1 of its codes; of b = 0 that of b = 1, where all are 0."""
        return self.exponents.astype(np.int16) - np.maximum(self.bits, 1) + 1

    @cached_property
    def extent(self) -> tuple[int, int]:
        """(low, high): all values are multiples of 2**low and below 2**high; (0, 0) for zeros alone."""
        of_blocks = (each.reshape(-1) for each in (self.exponents, self.bits, self.filled))
        low, high = block_loops.extent(*of_blocks)
        return (low, high) if low <= high else (0, 0)

    def to_qtensor(self, source: np.ndarray | None = None) -> QTensor:
        """int8 codes with an exponent a value; its status counts what is not as in `source` (float32)."""
        exponents = expand(self.steps(), self.shape, self.axes)
        inexact = 0 if source is None else int(np.count_nonzero(self.values != source))
        status = Status(self.saturated, inexact, self.size)
        format = BlockFloat(int(self.bits.max(initial=0)), self.axes[1])
        return QTensor(self.codes, exponents, format, max_abs(self.codes), status)

    def limbs(self, low: int, bits: int, count: int) -> list[QTensor]:
        """The values, integers of `bits` bits and a sign in units of 2**low, as a sum of int16, lowest first.

        low and bits hold all of `extent`; a limb has ceil(bits / count) bits, 15 at most alone, else 14.
        """
        size = -(-bits // count)
        view, lines = _blocks_view(self.shape, self.axes), _view(self.shape, self.axes)
        out = empty((count, *lines), np.int16)
        of_blocks = (each.reshape(view) for each in (self.exponents, self.bits, self.filled))
        block_loops.cut_limbs(self.codes.reshape(lines), view[3], *of_blocks, low, size, bits, out)
        lower, top = (1 << size) - 1, 1 << (bits - (count - 1) * size)
        bounds = [lower] * (count - 1) + [top if count > 1 else top - 1]
        return [
            QTensor(codes.reshape(self.shape), low + k * size, bound=bound)
            for k, (codes, bound) in enumerate(zip(out, bounds, strict=True))
        ]

    def add_sensitivities(self, g: np.ndarray, sums: np.ndarray) -> None:
        """sums (float64 a block) += 2**(2e)/16 times the block's sum of g*g; g: float32 of this shape (1).

        Defined by `spec/methods/dynasty_map.py: sensitivity`.
        """
        view = _blocks_view(self.shape, self.axes)
        block_loops.add_sensitivities(
            np.ascontiguousarray(g).reshape(_view(self.shape, self.axes)), view[3],
            self.exponents.reshape(view), self.filled.reshape(view), sums.reshape(view),
        )  # fmt: skip

    @property
    def mean_bits(self) -> float:
        """b of the blocks, weighted by their elements."""
        return int(expand(self.bits, self.shape, self.axes).sum(dtype=np.int64)) / max(self.size, 1)

    # -- bytes --------------------------------------------------------------------------------

    @property
    def packed_bytes(self) -> int:
        """Bytes of `pack`: 1 + 2b for each block of b > 0 bits."""
        return int(np.count_nonzero(self.bits)) + 2 * int(self.bits.sum(dtype=np.int64))

    def pack(self) -> np.ndarray:
        """uint8: block after block, C order. b = 0: nothing. Else e, a byte, and 16 mantissas of b bits.

        Two's complement; row by row, the first mantissa in the lowest bits; 0 beyond an edge. The bits
        themselves, the map, are kept elsewhere.

        Defined by `spec/block_float.py: pack`.
        """
        codes = _by_block(self.codes, self.axes)
        bits, exponents = self.bits.reshape(-1), self.exponents.reshape(-1).view(np.uint8)
        starts = _starts(bits)
        out = np.zeros(starts[-1], np.uint8)
        for width in WIDTHS[1:]:
            at = np.flatnonzero(bits == width)
            out[starts[at]] = exponents[at]
            words = bitpack.pack(codes[at], width).reshape(-1, 2 * width)
            out[starts[at][:, None] + 1 + np.arange(2 * width)] = words
        return out


def blocks_of(q: QTensor, source: np.ndarray) -> BlockTensor:
    """The blocks of `q`, which is float32 `source` in block float: e again from it, b from the exponents."""
    assert isinstance(q.format, BlockFloat) and isinstance(q.exponent, np.ndarray)
    axes = (0, q.format.axis)
    first = tuple(slice(None, None, SIDE if axis in axes else 1) for axis in range(len(q.shape)))
    bits = quantize_blocks(source, 0, axes).exponents - q.exponent[first] + 1
    return quantize_blocks(source, np.where(bits == 1, 0, bits).astype(np.uint8), axes)


def unpack(data: np.ndarray, shape: tuple[int, ...], axes: Axes, bits: np.ndarray) -> BlockTensor:
    """The tensor of `shape` whose `pack` is `data` (uint8), under the map `bits` (uint8 a block).

    ShapeError where the lengths do not fit.

    Defined by `spec/block_float.py: unpack`.
    """
    blocks = blocks_shape(shape, axes)
    _check_bits(bits, blocks, "unpack")
    starts = _starts(bits.reshape(-1))
    if data.dtype != np.uint8 or data.shape != (starts[-1],):
        raise ShapeError(f"blocks {blocks} of these bits are {starts[-1]} bytes, not {data.shape}")
    codes = np.zeros((prod(blocks), SIDE * SIDE), np.int8)
    exponents = np.full(prod(blocks), LEAST, np.int8)
    for width in WIDTHS[1:]:
        at = np.flatnonzero(bits.reshape(-1) == width)
        exponents[at] = data[starts[at]].view(np.int8)
        words = data[starts[at][:, None] + 1 + np.arange(2 * width)].reshape(-1)
        codes[at] = bitpack.unpack(words, width, 16 * at.size).reshape(-1, 16)
    filled = np.asarray(codes.any(axis=1), np.uint8).reshape(blocks)
    whole = np.ascontiguousarray(_from_blocks(codes, shape, axes))
    return BlockTensor(whole, exponents.reshape(blocks), bits, filled, axes)


def _starts(bits: np.ndarray) -> np.ndarray:
    """Byte where each block begins, and how many there are in all."""
    sizes = (bits > 0) + 2 * bits.astype(np.int64)
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])


def _split(shape: tuple[int, ...], axes: Axes) -> list[int]:
    """Shape with each blocked axis as (blocks, 4)."""
    return [n for axis, size in enumerate(shape) for n in ((-(-size // 4), 4) if axis in axes else (size,))]


def _order(shape: tuple[int, ...], axes: Axes) -> list[int]:
    """Axes of `_split` with the two of length 4 last."""
    inside = [axis + 1 + sum(other < axis for other in axes) for axis in axes]
    return [axis for axis in range(len(shape) + 2) if axis not in inside] + inside


def _by_block(codes: np.ndarray, axes: Axes) -> np.ndarray:
    """[blocks, 16], filled up with zeros."""
    gaps = [(0, -size % SIDE if axis in axes else 0) for axis, size in enumerate(codes.shape)]
    split = np.pad(codes, gaps).reshape(_split(codes.shape, axes))
    return split.transpose(_order(codes.shape, axes)).reshape(-1, SIDE * SIDE)


def _from_blocks(codes: np.ndarray, shape: tuple[int, ...], axes: Axes) -> np.ndarray:
    """The inverse of `_by_block`."""
    order = _order(shape, axes)
    split = codes.reshape([_split(shape, axes)[axis] for axis in order]).transpose(np.argsort(order))
    whole = split.reshape(
        [-(-size // SIDE) * SIDE if axis in axes else size for axis, size in enumerate(shape)]
    )
    return whole[tuple(slice(size) for size in shape)]


# -- rounding ----------------------------------------------------------------------------------


def _view(shape: tuple[int, ...], axes: Axes) -> tuple[int, int, int]:
    """(A, M, B*S) of `block_loops.py`."""
    first, second = axes
    if first != 0 or not 0 < second < len(shape):
        raise ShapeError(f"blocks over axes {axes} of {shape}: the first axis and one other")
    a, middle, b, inner = shape[0], shape[1:second], shape[second], prod(shape[second + 1 :])
    if inner == 1 and b % SIDE == 0 and len(middle) > 1:  # blocks do not end at the ends of these lines
        return a, middle[0], prod(middle[1:]) * b
    return a, prod(middle), b * inner


def _blocks_view(shape: tuple[int, ...], axes: Axes) -> tuple[int, int, int, int]:
    """(A, M, B, S) of arrays of blocks."""
    a, middle, line = _view(shape, axes)
    inner = prod(shape[axes[1] + 1 :])
    return -(-a // SIDE), middle, -(-line // (inner or 1) // SIDE), inner


def _check_bits(bits: np.ndarray, blocks: tuple[int, ...], where: str) -> None:
    if bits.dtype != np.uint8 or bits.shape != blocks:
        raise ShapeError(f"{where}: bits {bits.shape} of {bits.dtype}; there are {blocks} blocks, uint8 each")
    if bits.size and (int(bits.max()) > WIDTHS[-1] or (bits & 1).any()):
        raise FormatError(
            f"{where}: mantissas of {bits.max()} bits; use one of {', '.join(map(str, WIDTHS))}"
        )


def quantize_blocks(x: np.ndarray, bits: int | np.ndarray, axes: Axes, where: str = "") -> BlockTensor:
    """float32 `x` in block float. bits: one b for all blocks, or uint8 of `blocks_shape`.

    NumberError, naming the first such value, for one of 2**127 or more, NaN or infinite.

    Defined by `spec/block_float.py: quantize`.
    """
    name, shape, blocks = where or "block float", x.shape, blocks_shape(x.shape, axes)
    if x.dtype != np.float32:
        raise FormatError(f"{name}: block float is made of float32, not {x.dtype}")
    if isinstance(bits, int) and bits not in WIDTHS:
        raise FormatError(f"{name}: mantissas of {bits} bits; use one of {', '.join(map(str, WIDTHS))}")
    widths = np.full(blocks, bits, np.uint8) if isinstance(bits, int) else bits
    _check_bits(widths, blocks, name)
    view = _blocks_view(shape, axes)
    x = np.ascontiguousarray(x).reshape(_view(shape, axes))
    codes, exponents, filled = empty(x.shape, np.int8), np.empty(view, np.int8), np.empty(view, np.uint8)
    saturated, beyond = np.zeros((2, view[0] * view[1]), np.int64)
    block_loops.quantize(
        x, x.view(np.int32), view[3], widths.reshape(view), codes, exponents, filled, saturated, beyond
    )
    if beyond.any():
        x = x.reshape(shape)
        index = tuple(int(i) for i in np.argwhere(~(np.abs(x) < np.float32(2.0**GREATEST)))[0])
        raise NumberError(f"{name}: {x[index]} at {index}: block float holds numbers below 2^{GREATEST}")
    codes, exponents, filled = codes.reshape(shape), exponents.reshape(blocks), filled.reshape(blocks)
    return BlockTensor(codes, exponents, widths, filled, axes, int(saturated.sum()))
