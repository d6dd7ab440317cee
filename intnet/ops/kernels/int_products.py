"""Exact products of integers: convolutions, matrix products and their gradients, and how each runs.

Activations x and errors e are (N, H, W, C), weights (Cout, Cin/groups, kh, kw). `plan` chooses types of
operands and sums, here alone: the smallest containers that the operands' bounds prove to hold every sum on
the way. The loops are those of `tiles.py` and `position_sums.py`, and of `depthwise.py` where every channel
is a group.

    y[n, oy, ox, o]  = sum over ky, kx, c of  x[n, oy*sh + ky - ph, ox*sw + kx - pw, c] * w[o, c, ky, kx]
"""

from collections.abc import Callable
from dataclasses import dataclass

import numba
import numpy as np

from intnet.errors import ContainerError
from intnet.exact.expressions import Exact
from intnet.machine import words
from intnet.machine.buffers import empty
from intnet.machine.tile import LANES, vectors_of
from intnet.numbers.qtensor import INT64_BOUND, QTensor
from intnet.ops.kernels import depthwise
from intnet.ops.kernels.position_sums import collect, position_sums
from intnet.ops.kernels.tiles import (
    DOUBLES,
    FOURS,
    LONG,
    PAIRS,
    SINGLES,
    Arithmetic,
    correlate_windows,
    multiply,
)
from intnet.ops.kernels.windows import (
    Pair,
    Window,
    backward_windows,
    columns_of,
    even_limits,
    forward_windows,
    unit_tables,
)

_INT8 = (1 << 7) - 1
_INT16 = (1 << 15) - 1
_INT32 = (1 << 31) - 1
_FLOAT64 = 1 << 53
_LEAST_CHUNK = 32  # terms that an int32 sum must hold for int16 operands to be worth while
_PART_WORDS = 1 << 21  # of weight gradients that shares of a batch may hold
_SHARES = 4


@dataclass(frozen=True)
class Plan:
    """How an exact sum of `terms` products runs.

    arithmetic: of the operands and of sums; result: type of the result; bound: on the result
    chunk: terms that a sum holds; right: bound on the codes of b
    """

    arithmetic: Arithmetic
    result: np.dtype
    chunk: int
    bound: int
    right: int

    @property
    def words(self) -> int:
        """`chunk` in words: at least one, for an int16 sum holds many terms."""
        return max(1, self.chunk // self.arithmetic.per_word)

    def operand(self, codes: np.ndarray) -> np.ndarray:
        """Codes in a type that the loops read: the operand's own, or a smaller one of int8 and int16."""
        element = self.arithmetic.codes
        kept = codes.dtype.itemsize < element.itemsize and codes.dtype.itemsize <= 2
        return np.ascontiguousarray(codes, dtype=codes.dtype if kept else element)


def plan(a: QTensor, b: QTensor, terms: int, where: str = "") -> Plan:
    """The containers of a sum of `terms` products of a and b; ContainerError beyond int64 (rule R5).

    A chunk is as long for int8 in fours as for int16 in pairs: it must hold the sum itself, not what the sum
    passes through on the way (`machine/words.py`).
    """
    bound = a.bound * b.bound * terms
    if bound >= INT64_BOUND:
        raise ContainerError(
            f"{where or 'product'}: {terms} products of codes up to {a.bound} and {b.bound} need "
            f"{bound.bit_length() + 1} bits"
        )
    result = np.dtype(np.int32 if bound <= _INT32 else np.int64)
    widest = max(a.bound, b.bound)
    if widest <= _INT16:
        chunk = _INT32 // max(1, a.bound * b.bound)
        if chunk >= _LEAST_CHUNK:
            eight = words.FOURS and all(q.codes.dtype == np.int8 or q.bound <= _INT8 for q in (a, b))
            return Plan(FOURS if eight else PAIRS, result, min(chunk, max(1, terms)), bound, b.bound)
    if bound <= _FLOAT64:  # every sum on the way is an integer that float64 holds
        return Plan(DOUBLES, result, max(1, terms), bound, b.bound)
    return Plan(SINGLES if widest <= _INT32 else LONG, result, max(1, terms), bound, b.bound)


def split(q: QTensor) -> tuple[QTensor, QTensor]:
    """(high, low) with q = high * 2**16 + low in codes, 0 <= low < 2**16: for two-limb sums."""
    codes = q.codes.astype(np.int64)
    return QTensor(codes >> 16, 0, bound=(q.bound >> 16) + 1), QTensor(codes & 0xFFFF, 0, bound=0xFFFF)


Kernel = Callable[[np.ndarray, np.ndarray, Plan], np.ndarray]


def exact_product(a: QTensor, b: QTensor, terms: int, kernel: Kernel, where: str = "") -> QTensor | Exact:
    """The exact bilinear form of a and b that sums `terms` products an element.

    kernel(codes of a, codes of b, plan), one of those below, computes it. Beyond int64 `a` is split into two
    halves of 16 bits and the result is the two-limb expression high * 2**16 + low; ContainerError
    where even the halves do not fit.

    Defined by `spec/convolution.py: exact_dot`.
    """
    exponent = int(a.exponent) + int(b.exponent)
    if a.bound * b.bound * terms < INT64_BOUND:
        how = plan(a, b, terms, where)
        return QTensor(kernel(a.codes, b.codes, how), exponent, bound=how.bound)
    try:
        halves = []
        for half in split(a):
            how = plan(half, b, terms, where)
            halves.append(QTensor(kernel(half.codes, b.codes, how), exponent, bound=how.bound))
    except ContainerError:
        bits = (a.bound * b.bound * terms).bit_length() + 1
        raise ContainerError(
            f"{where or 'product'}: {terms} products of codes up to {a.bound} and {b.bound} need {bits} "
            "bits: beyond every container, two limbs too; use narrower operands"
        ) from None
    return Exact([(halves[0], 1 << 16), (halves[1], 1)], exponent)


def _limits(how: Plan, taps: int, depth: int) -> tuple[int, ...]:
    """Where chunks end, in words of `taps` pixels of `depth` elements."""
    return even_limits(taps * -(-depth // how.arithmetic.per_word), how.words)


def forward(x: np.ndarray, w: np.ndarray, how: Plan, window: Window) -> np.ndarray:
    """Codes of the convolution, (N, Ho, Wo, Cout) in `how.result`.

    Defined by `spec/convolution.py: conv2d`.
    """
    (stride, padding, groups), (cout, cin, kh, kw) = window, w.shape
    if groups > 1 and depthwise.fits(x.shape[3], cout, groups, (kh, kw)):
        return depthwise.forward(x, w, stride, padding, how.result)
    windows = forward_windows((x.shape[1], x.shape[2]), (kh, kw), stride, padding)
    out = empty((x.shape[0], windows.grid.rows, windows.grid.cols, cout), how.result)
    by_tap = w.reshape(groups, cout // groups, cin, kh * kw).transpose(0, 1, 3, 2)
    limits = _limits(how, len(windows.taps), cin)
    correlate_windows(out, how.operand(x), by_tap, windows, how.arithmetic, limits)
    return out


def input_grad(e: np.ndarray, w: np.ndarray, how: Plan, window: Window, input_hw: Pair) -> np.ndarray:
    """Codes of the gradient of the input, (N, H, W, Cin) in `how.result`.

    Defined by `spec/convolution.py: conv2d_input_grad`.
    """
    (stride, padding, groups), (cout, cin, kh, kw) = window, w.shape
    if groups > 1 and depthwise.fits(cin * groups, cout, groups, (kh, kw)):
        return depthwise.input_grad(e, w, input_hw, stride, padding, how.result)
    out = empty((e.shape[0], *input_hw, groups * cin), how.result)
    if stride[0] > kh or stride[1] > kw:  # some pixels met no window
        out[...] = 0
    by_tap = w.reshape(groups, cout // groups, cin, kh * kw).transpose(0, 2, 3, 1)
    e = how.operand(e)
    for windows in backward_windows(input_hw, (kh, kw), stride, padding):
        limits = _limits(how, len(windows.taps), cout // groups)
        # from the last tap to the first they lie side by side in memory
        correlate_windows(out, e, by_tap, windows.from_the_last(), how.arithmetic, limits)
    return out


def weight_grad(e: np.ndarray, x: np.ndarray, how: Plan, window: Window, kernel: Pair) -> np.ndarray:
    """Codes of the gradient of the weights, (Cout, Cin/groups, kh, kw) in `how.result`.

    Defined by `spec/convolution.py: conv2d_weight_grad`.
    """
    (stride, padding, groups), batch, cout = window, e.shape[0], e.shape[3]
    if groups > 1 and depthwise.fits(x.shape[3], cout, groups, kernel):
        return depthwise.weight_grad(e, x, kernel, stride, padding, how.result)
    depth, width = x.shape[3] // groups, cout // groups
    out = np.zeros((cout, depth, *kernel), how.result)
    if not (out.size and e.size):
        return out
    arithmetic, windows = how.arithmetic, forward_windows((x.shape[1], x.shape[2]), kernel, stride, padding)
    per_word, vectors = arithmetic.per_word, vectors_of(arithmetic.sum.dtype)
    longest = min(how.words, windows.grid.cols)  # moves with bounds from step to step; the tables do not
    block, pieces = unit_tables(windows, -(-batch // per_word), depth, longest)
    starts, source = columns_of(block, windows, vectors)
    size, units = starts.size * LANES, -(-batch // (block.images * per_word))
    parts = max(1, min(units, _SHARES, _PART_WORDS // (size * cout)))
    splits = min(starts.size // vectors, -(-2 * numba.get_num_threads() // parts))
    flat = empty((parts * size * cout,), how.result)
    kind = arithmetic.codes
    position_sums(
        flat, np.ascontiguousarray(e, kind), np.ascontiguousarray(x, kind), starts, stride[1] * depth, pieces,
        block, groups, width, vectors, parts, splits, max(1, how.right), per_word, arithmetic.word,
        arithmetic.sum,
    )  # fmt: skip
    collect(out.reshape(-1), flat, size, source, parts, parts, 1)
    return out


def gemm(a: np.ndarray, b: np.ndarray, how: Plan) -> np.ndarray:
    """c[M, N] = a[M, K] . b[N, K] of codes, exact, in `how.result`: M images of one pixel.

    Defined by `spec/convolution.py: exact_dot`.
    """
    out = empty((a.shape[0], b.shape[0]), how.result)
    multiply(how.operand(a), b, how.arithmetic, how.words, out)
    return out


def gemm_nn(a: np.ndarray, b: np.ndarray, how: Plan) -> np.ndarray:
    """c[M, N] = a[M, K] . b[K, N]. Defined by `spec/convolution.py: conv2d_input_grad`."""
    return gemm(a, b.T, how)


def gemm_tn(a: np.ndarray, b: np.ndarray, how: Plan) -> np.ndarray:
    """c[M, N] = a[K, M] . b[K, N]. Defined by `spec/convolution.py: conv2d_weight_grad`."""
    return gemm(a.T, b.T, how)
