"""Exact integer sums over rows, one a channel: for batch norm, biases and their gradients.

A matrix is (rows, C). Each block of rows sums into its own line, so threads never change a bit.
Products are summed in int32 or int64 over as many rows as their bound allows, and such a sum is then kept
as two int64 sums (its bits from 32 up, and its low 32 bits): with products below 2**62 and fewer than
2**31 rows neither can wrap.

Defined by `spec/batch_norm.py: moments_of`.
"""

import numpy as np

from intnet.errors import ContainerError
from intnet.exact.loops import blocks_for
from intnet.exact.stages import greater
from intnet.machine.instructions import wide_vectors
from intnet.machine.jit import njit, pjit, prange
from intnet.numbers import shares
from intnet.numbers.qtensor import INT64_BOUND, QTensor
from intnet.ops.kernels.int_products import split

INT32_BOUND = 1 << 31
_WIDE = 128  # columns from which on the inner loops are long enough
_MOST_ROWS, _FEW_ROWS = 1 << 16, 4  # of one sum of products: at most; at least, to be worth while
_TOPS = 3  # the kind of line that holds maxima, not sums
_MOST_BLOCKS = 32  # as many threads can share the work


@pjit
def _sums(team: int, u: np.ndarray, out: np.ndarray) -> None:
    rows, blocks = u.shape[0], out.shape[0]
    for b in prange(team, blocks):
        wide_vectors()
        line = out[b]
        for r in range(rows * b // blocks, rows * (b + 1) // blocks):
            row = u[r]
            for c in range(row.shape[0]):
                line[c] += np.int64(row[c])


@pjit
def _products(
    team: int, u: np.ndarray, v: np.ndarray, share: int, lane: np.ndarray, sums: np.ndarray,
    high: np.ndarray, low: np.ndarray, tops: np.ndarray,
) -> None:  # fmt: skip
    """Sums of u, of u * v (in the type of `lane` over `share` rows, then in two parts), max |u|.

    Zero-filled outputs.
    """
    rows, blocks, number = u.shape[0], sums.shape[0], lane.dtype.type
    for b in prange(team, blocks):
        wide_vectors()
        columns, end = sums.shape[1], rows * (b + 1) // blocks
        total, dots = np.empty(columns, lane.dtype), np.empty(columns, lane.dtype)
        most = np.zeros(columns, lane.dtype)
        for first in range(rows * b // blocks, end, share):
            total[:] = 0
            dots[:] = 0
            for r in range(first, min(first + share, end)):
                x, y = u[r], v[r]
                for c in range(columns):
                    code = number(x[c])
                    total[c] = number(total[c] + code)
                    most[c] = greater(most[c], greater(code, number(-code)))
                    dots[c] = number(dots[c] + number(code * number(y[c])))
            for c in range(columns):
                dot = np.int64(dots[c])
                sums[b, c] += total[c]
                high[b, c] += dot >> 32
                low[b, c] += dot & 0xFFFFFFFF
        for c in range(columns):
            tops[b, c] = most[c]


@njit
def _fold(lines: np.ndarray, totals: np.ndarray) -> None:
    """totals[kind] += every line of lines[kind]; of the fourth kind the maximum."""
    for kind in range(lines.shape[0]):
        total = totals[kind]
        for k in range(lines.shape[1]):
            line = lines[kind, k]
            for c in range(line.shape[0]):
                total[c] = total[c] + line[c] if kind != _TOPS else max(total[c], line[c])


def _matrix(q: QTensor) -> np.ndarray:
    """The codes as rows of whole pixels, several to a row where they are narrow; int16 widened.

    Each pair of types is a compiled loop, so there are three: int8, int32, int64.
    """
    codes = np.ascontiguousarray(q.codes)
    if codes.dtype == np.int16:
        codes = codes.astype(np.int32)
    channels = q.shape[-1]
    rows = codes.size // max(channels, 1)
    pixels = 1
    while channels * pixels < _WIDE and rows and rows % (2 * pixels) == 0:
        pixels *= 2
    return codes.reshape(rows // pixels, channels * pixels)


def _lines(u: np.ndarray, kinds: int) -> np.ndarray:
    """Zeros int64[kinds, blocks, columns]."""
    return np.zeros((kinds, min(_MOST_BLOCKS, blocks_for(u.size)), u.shape[1]), np.int64)


def _by_channel(lines: np.ndarray, channels: int) -> np.ndarray:
    """int64[kinds, channels]: of blocks and a row's pixels sums over the batch, maxima of what is here."""
    totals = np.zeros((len(lines), channels), np.int64)
    _fold(lines.reshape(len(lines), -1, channels), totals)
    totals[:_TOPS] = shares.totals(totals[:_TOPS])
    return totals


def _sum_bound(q: QTensor) -> int:
    return q.bound * shares.rows(q.size // max(q.shape[-1], 1))


def _check_sum(q: QTensor, where: str) -> None:
    if _sum_bound(q) >= INT64_BOUND:
        rows = shares.rows(q.size // q.shape[-1])
        raise ContainerError(f"{where or 'sum'}: {rows} codes up to {q.bound} do not fit int64")


def column_sums(q: QTensor, where: str = "") -> QTensor:
    """Sum over all axes but the last, as QTensor[C] at the same exponent.

    Defined by `spec/products.py: bias_gradient`, `spec/batch_norm.py: beta_grad`.
    """
    _check_sum(q, where)
    u = _matrix(q)
    lines = _lines(u, 1)
    _sums(u, lines[0])
    return QTensor(_by_channel(lines, q.shape[-1])[0], int(q.exponent), bound=_sum_bound(q))


def _lane(bound: int) -> tuple[int, np.ndarray]:
    """(rows, type) of a sum of products up to `bound` that does not wrap: int32 where it holds some rows.

    Twice as many of them are in a vector, and AVX2 has no product and no maximum of int64.
    """
    narrow, wide = ((limit - 1) // max(bound, 1) for limit in (INT32_BOUND, INT64_BOUND))
    lane = np.empty(0, np.int32 if narrow >= _FEW_ROWS else np.int64)
    return min(_MOST_ROWS, narrow if lane.itemsize == 4 else wide), lane


def column_products(
    a: QTensor, b: QTensor, where_sum: str = "", where_dot: str = ""
) -> tuple[QTensor, list[int], np.ndarray]:
    """Over all axes but the last: the sum of a, a QTensor[C]; the sum of a * b in codes, exact Python
    ints; of what is here max |a| in codes, int64[C].

    Defined by `spec/batch_norm.py: moments_of`, `spec/batch_norm.py: gamma_grad`.
    """  # fmt: skip
    _check_sum(a, where_sum)
    if a.bound * b.bound >= INT64_BOUND:
        tops = np.abs(a.codes.reshape(-1, a.shape[-1]).astype(np.int64)).max(axis=0, initial=0)
        return column_sums(a, where_sum), _split_dots(a, b, where_dot), tops
    u, v = _matrix(a), _matrix(b)
    share, lane = _lane(a.bound * max(b.bound, 1))
    lines = _lines(u, 4)
    _products(u, v, share, lane, *lines)
    sums, *parts, tops = _by_channel(lines, a.shape[-1])
    dots = [(top << 32) + rest for top, rest in zip(*(part.tolist() for part in parts), strict=True)]
    return QTensor(sums, int(a.exponent), bound=_sum_bound(a)), dots, tops


def _split_dots(a: QTensor, b: QTensor, where: str) -> list[int]:
    """Sums of products beyond int64: the wider operand in two halves of 16 bits."""
    if a.bound < b.bound:
        a, b = b, a
    high, low = split(a)
    if max(high.bound, low.bound) * b.bound >= INT64_BOUND:
        raise ContainerError(
            f"{where or 'sum'}: products of codes up to {a.bound} and {b.bound} pass two limbs; "
            "use narrower operands"
        )
    tops, rests = (column_products(half, b)[1] for half in (high, low))
    return [(top << 16) + rest for top, rest in zip(tops, rests, strict=True)]
