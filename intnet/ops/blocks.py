"""Products of tensors in blocks of 4x4: the exact sum of all products, rounded once to float32.

Every value is a multiple of 2**low and below 2**high, so every product is one of 2**(low + low') and a sum
of K of them stays below K * 2**(high + high'). Where that is at most 2**53 times the unit, float64 holds
every sum on the way exactly, in any order: the quick road, which leaves out blocks of zeros
(`kernels/block_products.py`). Else one operand is cut into two bands of exponents that each go this road, and
their two sums are rounded as one. Where that will not do either, `bilinear.py: block_product` adds
integers of any length.

    forward        x (batch, Cin) by w (Cout, Cin)
    input grad     e (batch, Cout) by w              weight grad    e by x

Defined by `spec/block_float.py: exact`, `spec/block_float.py: rounded`, `spec/products.py: forward`,
`spec/products.py: input_error`, `spec/products.py: weight_gradient`.
"""

from collections.abc import Callable
from functools import partial
from math import frexp, ldexp

import numpy as np

from intnet.blocks.block_float import BlockTensor
from intnet.errors import NumberError
from intnet.machine.buffers import empty
from intnet.numbers import shares
from intnet.ops.bilinear import Kernel, block_product
from intnet.ops.kernels import int_conv
from intnet.ops.kernels.block_products import block_sums, correlate_blocks
from intnet.ops.kernels.windows import Pair, Window, backward_windows, forward_windows

_DIGITS = 53  # of a float64
_FLOAT32 = 127  # float32 holds all below 2**127, and a little more
_MARGIN = 1 + 2.0**-20  # for the rounding of a sum of magnitudes

Loops = Callable[[BlockTensor, BlockTensor, type], np.ndarray]  # the sums in float64 or in float32


def _fits(a: BlockTensor, b: BlockTensor, total: float) -> bool:
    """Whether sums are exact in float64 where the magnitudes of a in one sum add up to at most `total`."""
    (low, _), (other, high) = a.extent, b.extent
    return total * _MARGIN <= ldexp(1.0, _DIGITS + low + other - high)


def _total(a: BlockTensor, terms: int) -> float:
    """A bound on the sum of `terms` magnitudes of a."""
    return ldexp(float(terms), a.extent[1])


def _product(
    a: BlockTensor, b: BlockTensor, terms: int, loops: Loops | None, kernel: Kernel, where: str,
    totals: bool = False,
) -> np.ndarray:  # fmt: skip
    """float32 of the bilinear form of a and b that sums `terms` products an element.

    loops: the quick road, if there is one; kernel: of `block_product`; totals: each channel of a is summed
    over all else, so that its real sum of magnitudes is a bound. NumberError beyond float32's range.
    """
    if totals and shares.now() is not None:
        return _over_ranks(a, b, terms, loops, kernel, where)
    if loops is None:
        return block_product(a.to_qtensor(), b.to_qtensor(), terms, kernel, where)
    total = _total(a, terms)
    if totals and not _fits(a, b, total):
        total = float(np.abs(a.values).reshape(-1, a.shape[-1]).sum(axis=0, dtype=np.float64).max())
    if _fits(a, b, total):
        if frexp(total)[1] + b.extent[1] <= _FLOAT32:
            return loops(a, b, np.float32)
        return _checked(loops(a, b, np.float64), where)
    low, cut = a.extent[0], _cut(a, b, terms)
    lower, upper = a.select(low - 1, cut), a.select(cut + 1, _FLOAT32)
    if _fits(lower, b, _total(lower, terms)) and _fits(upper, b, total):
        return _checked(_odd_sum(loops(upper, b, np.float64), loops(lower, b, np.float64)), where)
    return block_product(a.to_qtensor(), b.to_qtensor(), terms, kernel, where)


def _over_ranks(
    a: BlockTensor, b: BlockTensor, terms: int, loops: Loops | None, kernel: Kernel, where: str
) -> np.ndarray:
    """`_product` over the images of all ranks, whose sums are integers that meet; all take the same road."""
    if loops is not None:
        sums = _met(a, b, loops)
        if sums is not None:
            return _checked(sums, where)
        low, _, other, high = _extents(a, b)
        cut = _DIGITS - 1 + low + other - high - shares.rows(terms).bit_length()
        lower = _met(a.select(low - 1, cut), b, loops)
        upper = None if lower is None else _met(a.select(cut + 1, _FLOAT32), b, loops)
        if lower is not None and upper is not None:
            return _checked(_odd_sum(upper, lower), where)
    return block_product(a.to_qtensor(), b.to_qtensor(), terms, kernel, where, of_batch=True)


def _extents(a: BlockTensor, b: BlockTensor) -> tuple[int, int, int, int]:
    """Extents of both that hold on all ranks."""
    ends = np.array([-a.extent[0], a.extent[1], -b.extent[0], b.extent[1]])
    low, top, other, high = shares.greatest(ends).tolist()
    return -low, top, -other, high


def _met(a: BlockTensor, b: BlockTensor, loops: Loops) -> np.ndarray | None:
    """The sums over all ranks in float64, None where it may not hold them."""
    low, _, other, high = _extents(a, b)
    own = float(np.abs(a.values).reshape(-1, a.shape[-1]).sum(axis=0, dtype=np.float64).max())
    total = shares.sum_of(own)
    if total * _MARGIN > ldexp(1.0, _DIGITS + low + other - high):
        return None
    codes = np.ldexp(loops(a, b, np.float64), -(low + other)).astype(np.int64)
    return np.ldexp(shares.totals(codes).astype(np.float64), low + other)


def _cut(a: BlockTensor, b: BlockTensor, terms: int) -> int:
    """The greatest exponent of a's blocks that, with all below, go the quick road."""
    (low, _), (other, high) = a.extent, b.extent
    return _DIGITS - 1 + low + other - high - terms.bit_length()


def _odd_sum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a + b in float64, rounded to odd: rounded again, to float32, it is a + b rounded once.

    TwoSum gives the sum's error; where there is one, the last bit of the sum becomes 1.
    """
    total = a + b
    part = total - a
    error = (a - (total - part)) + (b - part)
    bits = total.view(np.int64)
    outward = (error > 0) == (total > 0)
    return np.where((error != 0) & (bits & 1 == 0), bits + np.where(outward, 1, -1), bits).view(np.float64)


def _checked(sums: np.ndarray, where: str) -> np.ndarray:
    """float32 of float64; NumberError where one is beyond its range."""
    with np.errstate(over="ignore"):
        out = sums.astype(np.float32)
    if not np.all(np.isfinite(out)):
        index = tuple(int(i) for i in np.argwhere(~np.isfinite(out))[0])
        raise NumberError(f"{where or 'product'}: {sums[index]} at {index} is beyond float32's range")
    return out


# -- convolution -------------------------------------------------------------------------------


def _by_tap(w: np.ndarray, order: tuple[int, int, int]) -> np.ndarray:
    """Weights (Cout, Cin, kh, kw), or their blocks, as [.., tap, ..]; order: of (Cout, Cin, tap)."""
    return w.reshape(*w.shape[:2], -1).transpose(order)


def conv2d(x: BlockTensor, w: BlockTensor, window: Window, where: str = "") -> np.ndarray:
    """float32 (N, Ho, Wo, Cout) of x (N, H, W, Cin) and w (Cout, Cin/groups, kh, kw).

    Defined by `spec/convolution.py: conv2d`.
    """
    stride, padding, groups = window
    windows = forward_windows((x.shape[1], x.shape[2]), (w.shape[2], w.shape[3]), stride, padding)

    def loops(x: BlockTensor, w: BlockTensor, kind: type) -> np.ndarray:
        out = empty((x.shape[0], windows.grid.rows, windows.grid.cols, w.shape[0]), kind)
        correlate_blocks(
            out, x.values, x.live, _by_tap(w.values, (0, 2, 1)), _by_tap(w.live, (0, 2, 1)), windows
        )
        return out

    kernel = partial(int_conv.forward, window=window)
    return _product(x, w, w.shape[1] * w.shape[2] * w.shape[3], loops if groups == 1 else None, kernel, where)


def conv2d_input_grad(
    e: BlockTensor, w: BlockTensor, input_hw: Pair, window: Window, where: str = ""
) -> np.ndarray:
    """float32 (N, H, W, Cin) of e (N, Ho, Wo, Cout). Defined by `spec/convolution.py: conv2d_input_grad`."""
    stride, padding, groups = window
    kernel_hw = (w.shape[2], w.shape[3])

    def loops(e: BlockTensor, w: BlockTensor, kind: type) -> np.ndarray:
        out = empty((e.shape[0], *input_hw, w.shape[1]), kind)
        if stride[0] > kernel_hw[0] or stride[1] > kernel_hw[1]:  # some pixels met no window
            out[...] = 0
        values, live = _by_tap(w.values, (1, 2, 0)), _by_tap(w.live, (1, 2, 0))
        for windows in backward_windows(input_hw, kernel_hw, stride, padding):
            correlate_blocks(out, e.values, e.live, values, live, windows.from_the_last())
        return out

    kernel = partial(int_conv.input_grad, window=window, input_hw=input_hw)
    terms = w.shape[0] // groups * kernel_hw[0] * kernel_hw[1]
    return _product(e, w, terms, loops if groups == 1 else None, kernel, where)


def conv2d_weight_grad(
    e: BlockTensor, x: BlockTensor, kernel_hw: Pair, window: Window, where: str = ""
) -> np.ndarray:
    """float32 (Cout, Cin/groups, kh, kw) of e (N, Ho, Wo, Cout) and x (N, H, W, Cin).

    Defined by `spec/convolution.py: conv2d_weight_grad`.
    """
    stride, padding, groups = window
    windows = forward_windows((x.shape[1], x.shape[2]), kernel_hw, stride, padding)

    def loops(e: BlockTensor, x: BlockTensor, kind: type) -> np.ndarray:
        sums = block_sums(e.values, x.values, e.live, x.live, windows)
        return sums.reshape(*sums.shape[:2], *kernel_hw).astype(kind, copy=False)

    kernel = partial(int_conv.weight_grad, window=window, kernel=kernel_hw)
    terms = e.size // e.shape[3]
    return _product(e, x, terms, loops if groups == 1 else None, kernel, where, totals=True)


# -- linear: images of one pixel ---------------------------------------------------------------

_POINT: Window = ((1, 1), (0, 0), 1)


def _as_images(x: BlockTensor) -> BlockTensor:
    """(N, C) as (N, 1, 1, C)."""
    return x.as_shape((x.shape[0], 1, 1, x.shape[1]), (0, 3))


def _as_kernel(w: BlockTensor) -> BlockTensor:
    """(Cout, Cin) as (Cout, Cin, 1, 1)."""
    return w.as_shape((*w.shape, 1, 1), (0, 1))


def linear(x: BlockTensor, w: BlockTensor, where: str = "") -> np.ndarray:
    """float32 (N, Cout) of x (N, Cin) and w (Cout, Cin). Defined by `spec/convolution.py: linear`."""
    return conv2d(_as_images(x), _as_kernel(w), _POINT, where)[:, 0, 0, :]


def linear_input_grad(e: BlockTensor, w: BlockTensor, where: str = "") -> np.ndarray:
    """float32 (N, Cin) of e (N, Cout). Defined by `spec/convolution.py: linear_input_grad`."""
    return conv2d_input_grad(_as_images(e), _as_kernel(w), (1, 1), _POINT, where)[:, 0, 0, :]


def linear_weight_grad(e: BlockTensor, x: BlockTensor, where: str = "") -> np.ndarray:
    """float32 (Cout, Cin) of e (N, Cout) and x (N, Cin).

    Defined by `spec/convolution.py: linear_weight_grad`.
    """
    return conv2d_weight_grad(_as_images(e), _as_images(x), (1, 1), _POINT, where)[:, :, 0, 0]
