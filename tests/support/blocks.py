"""Block tensors by the library and by the oracle, from the same float32 numbers, and where they differ.

Used by `test_block_tensor`, `test_block_products`, `test_dynasty_step` and `test_seeded_faults_blocks`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

from intnet import spec as oracle
from intnet.errors import NumberError
from intnet.exact.blocks.block_float import BlockTensor, quantize_blocks
from intnet.ops import conv2d, linear
from intnet.spec import block_float
from intnet.spec.tensor import places
from tests.support.opcheck import run, tensor, values

MATRIX, IMAGE, WEIGHT = (0, 1), (0, 3), (0, 1)  # axes of 4x4 blocks
WIDTHS = (0, 2, 4, 6, 8)

Axes = tuple[int, int]
Bits = int | np.ndarray
Maker = Callable[[tuple[int, ...]], int]


def counts(shape: Sequence[int], axes: Axes) -> tuple[int, ...]:
    """How many blocks there are along each axis."""
    return tuple(-(-size // 4) if axis in axes else size for axis, size in enumerate(shape))


def table(per_block: np.ndarray) -> dict[tuple[int, ...], Any]:
    """An array of the blocks' shape by block."""
    return {place: per_block[place].item() for place in np.ndindex(*per_block.shape)}


def expected(x: np.ndarray, bits: Bits, axes: Axes) -> block_float.Blocks:
    """The oracle's blocks of a float32 array."""
    return block_float.quantize(tensor(x), bits if isinstance(bits, int) else table(bits), axes)


def differences(got: BlockTensor, want: block_float.Blocks) -> list[str]:
    """The names of all parts of a block tensor that are not the oracle's."""
    blocks = counts(want.shape, want.axes)
    units = {block: e - max(want.bits[block], 1) + 1 for block, e in want.exponents.items()}
    each = [units[block_float.block_of(place, want.axes)] for place in places(want.shape)]
    q = got.to_qtensor()
    same = {
        "shape": got.shape == want.shape and tuple(got.axes) == want.axes,
        "values": got.values.dtype == np.float32 and values(got.values) == want.real().values,
        "exponents": _holds(got.exponents, np.int8, blocks, list(want.exponents.values())),
        "bits": _holds(got.bits, np.uint8, blocks, list(want.bits.values())),
        "saturated": got.saturated == want.saturated,
        "codes": q.codes.dtype == np.int8 and q.codes.reshape(-1).tolist() == want.codes,
        "units": np.broadcast_to(np.asarray(q.exponent), q.shape).reshape(-1).tolist() == each,
        "number of bytes": got.packed_bytes == sum(1 + 2 * b for b in want.bits.values() if b),
    }
    bad = [name for name, equal in same.items() if not equal]
    return bad or ["bytes"] * (got.pack().tobytes() != block_float.pack(want))


def _holds(array: np.ndarray, dtype: Any, shape: tuple[int, ...], want: list[int]) -> bool:
    return array.dtype == dtype and array.shape == shape and array.reshape(-1).tolist() == want


# -- operands of products --------------------------------------------------------------------------


class Pair(NamedTuple):
    """One operand, as the library and as the oracle see it."""

    q: BlockTensor
    exact: oracle.Tensor


def pair(x: np.ndarray, bits: Bits, axes: Axes) -> Pair:
    """Both worlds' blocks of the same numbers."""
    return Pair(quantize_blocks(x, bits, axes), expected(x, bits, axes).real())


def numbers(seed: int, shape: tuple[int, ...], axes: Axes, exponent: Maker, zeros: float = 0.1) -> np.ndarray:
    """float32 whose blocks reach up to 2^exponent of their index; some blocks, and some numbers, are zero."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, shape)
    x[rng.random(shape) < 0.1] = 0
    scale = np.array([exponent(block) for block in block_float.blocks(shape, axes)])
    scale = scale.reshape(counts(shape, axes))
    lost = rng.random(scale.shape) < zeros
    for place in np.ndindex(*shape):
        block = block_float.block_of(place, axes)
        x[place] = 0 if lost[block] else np.ldexp(x[place], int(scale[block]))
    return x.astype(np.float32)


def widths(seed: int, shape: tuple[int, ...], axes: Axes, choices: Sequence[int] = WIDTHS) -> np.ndarray:
    """A random map."""
    rng = np.random.default_rng(seed)
    return rng.choice(np.array(choices, np.uint8), counts(shape, axes))


def uniform(seed: int, low: int, high: int) -> Maker:
    """Random exponents."""
    rng = np.random.default_rng(seed)
    return lambda block: int(rng.integers(low, high + 1))


def agrees(got: Any, want: oracle.Tensor) -> None:
    """`got` is `want` rounded once; what is exactly zero is +0."""
    assert got.dtype == np.float32 and got.shape == want.shape
    assert values(got) == block_float.rounded(want).values
    zero = np.array([not value for value in want.values], np.bool_).reshape(want.shape)
    assert not np.any(np.signbit(got[zero]))


Want = Callable[[], oracle.Tensor]


def check(op: Any, x: Pair, w: Pair, e: Pair, wants: Sequence[Want], **how: Any) -> None:
    """Forward and both gradients; NumberError just where the oracle overflows."""
    try:
        results = [want() for want in wants]
        for result in results:
            block_float.rounded(result)
    except OverflowError:
        with pytest.raises(NumberError, match=r"layer: .* beyond float32's range"):
            run(op, x.q, w.q, error=e.q, where="layer", **how)
        return
    got, gradients = run(op, x.q, w.q, error=e.q, where="layer", **how)
    for value, want in zip((got, *gradients), results, strict=True):
        agrees(value, want)


def check_linear(x: Pair, w: Pair, e: Pair) -> None:
    """`linear` of x (N, Cin), w (Cout, Cin), with e (N, Cout) on the way back."""
    exact, ops = block_float.exact, oracle.convolution
    wants: list[Want] = [
        lambda: exact(ops.conv2d, x.exact, w.exact),
        lambda: exact(ops.conv2d_input_grad, e.exact, w.exact, x.exact.shape),
        lambda: exact(ops.conv2d_weight_grad, e.exact, x.exact, w.exact.shape),
    ]
    check(linear, x, w, e, wants)


def check_conv(x: Pair, w: Pair, e: Pair, stride: Any = 1, padding: Any = 0, groups: int = 1) -> None:
    """`conv2d` of x (N, H, W, Cin), w (Cout, Cin, kh, kw), with e of the output's shape on the way back."""
    exact, ops = block_float.exact, oracle.convolution
    how = (stride, padding, groups)
    wants: list[Want] = [
        lambda: exact(ops.conv2d, x.exact, w.exact, *how),
        lambda: exact(ops.conv2d_input_grad, e.exact, w.exact, x.q.shape, *how),
        lambda: exact(ops.conv2d_weight_grad, e.exact, x.exact, w.q.shape, *how),
    ]
    pairs = [(v, v) if isinstance(v, int) else v for v in (stride, padding)]
    check(conv2d, x, w, e, wants, stride=pairs[0], padding=pairs[1], groups=groups)
