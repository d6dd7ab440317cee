"""Pools over (N, H, W, C): maximum, mean, means of adaptive windows and of a whole image.

    max       y = the maximum of the window; the first position in row-major order wins a tie
    avg       y = sum of the window / (kh kw), padding counts as zeros
    adaptive  window i of n: rows floor(i H/n) .. ceil((i+1) H/n) - 1; y = sum / its number of positions
    global    y = sum over positions / (H W)

    max       dx = sum of e over the windows that the position won
    the rest  dx = sum of e / size over the windows that hold the position

Exact sums give exact quotients, which a quantizer rounds where they are stored. float32: plain additions in
row-major order without chunks (`float32.chain32`), then one division; on the way back one division of every
error, then plain additions, windows in row-major order. That order is intnet's contract; the adaptive
windows are PyTorch's.

An element rule takes a flat list and `Windows`: what positions each window holds and how many it counts.

>>> how = windows_of((1, 2, 2, 1), kernel=2, stride=2)
>>> avg_at([1, 2, 3, 5], how, (0, 0, 0, 0)), max_at([1, 2, 5, 5], how, (0, 0, 0, 0))
(Fraction(11, 4), 2)
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from intnet.spec.float32 import chain32, div32
from intnet.spec.geometry import Pair, both, pads
from intnet.spec.tensor import Place, Tensor, index_of, places

# As golden packs print them: (exactly, in binary32). v is what the layer reads, e the error at its output,
# e0 where that is stored.
_WINDOW = "v[n, y*sh + i - top, x*sw + j - left, c] over (i, j), i < kh, j < kw, inside the image"
_WON = "sum of e[n, y, x, c] over the windows (y, x) that the place won"
_PART = (
    "v[n, r, q, c] over (r, q), floor(y*H/oh) <= r < ceil((y + 1)*H/oh),"
    " floor(x*W/ow) <= q < ceil((x + 1)*W/ow)"
)
_SHARE = "e0[n, y, x, c] / (how many window (y, x) has) over the windows (y, x) that hold the place"
_CHAIN = ", a chain from +0: one addition a term"
RULES = {
    "max_pool": {
        "x4[n, y, x, c]": (f"the greatest {_WINDOW}; of equal ones the first wins",) * 2,
        "handed[n, r, q, c]": (_WON, _WON + _CHAIN),
    },
    "avg_pool": {
        "x4[n, y, x, c]": (
            f"sum of {_WINDOW}, / (kh * kw)",
            f"sum of {_WINDOW}{_CHAIN}; then / (kh * kw)",
        ),
        "handed[n, r, q, c]": (
            "sum of e0[n, y, x, c] / (kh * kw) over the windows (y, x) that hold the place",
            f"sum of e0[n, y, x, c] / (kh * kw) over the windows (y, x) that hold the place{_CHAIN}",
        ),
    },
    "adaptive_pool": {
        "x4[n, y, x, c]": (f"sum of {_PART}, / how many", f"sum of {_PART}{_CHAIN}; then / how many"),
        "handed[n, r, q, c]": (f"sum of {_SHARE}", f"sum of {_SHARE}{_CHAIN}"),
    },
    "mean": {
        "x4[n, c]": (
            "sum of v[n, y, x, c] over (y, x), / (H * W), one quotient, not rounded: stored where it is read",
            f"sum of v[n, y, x, c] over (y, x){_CHAIN}; then / (H * W)",
        ),
        "handed[n, y, x, c]": ("e[n, c] / (H * W), one quotient, not rounded", "e[n, c] / (H * W)"),
    },
}


class Windows(NamedTuple):
    """Rows and columns of every window, in-image positions only.

    full: positions that every window counts; None: as many as it has
    """

    shape: tuple[int, ...]  # of the input
    rows: list[range]
    columns: list[range]
    full: int | None

    @property
    def output(self) -> tuple[int, int, int, int]:
        """(N, rows of windows, columns of windows, C)."""
        return self.shape[0], len(self.rows), len(self.columns), self.shape[3]

    def members(self, place: Place) -> list[int]:
        """The flat input indices of output element (n, y, x, c), in row-major order."""
        n, y, x, c = place
        across = self.columns[x]
        return [index_of((n, row, column, c), self.shape) for row in self.rows[y] for column in across]

    def size(self, y: int, x: int) -> int:
        """What the sum of a window is divided by."""
        return self.full or len(self.rows[y]) * len(self.columns[x])

    def readers(self, place: Place) -> list[Place]:
        """The output elements whose windows hold input element (n, row, column, c), in row-major order."""
        n, row, column, c = place
        across = [x for x, columns in enumerate(self.columns) if column in columns]
        return [(n, y, x, c) for y, rows in enumerate(self.rows) if row in rows for x in across]


def _spans(size: int, kernel: int, stride: int, before: int, after: int) -> list[range]:
    """The in-image part of every window along one axis."""
    firsts = [i * stride - before for i in range((size + before + after - kernel) // stride + 1)]
    return [range(max(first, 0), min(first + kernel, size)) for first in firsts]


def windows_of(shape: Sequence[int], kernel: Pair, stride: Pair, padding: Pair = 0) -> Windows:
    """Windows of one size; padding counts as zeros."""
    (kh, kw), (sh, sw), (top, bottom, left, right) = both(kernel), both(stride), pads(padding)
    rows, columns = _spans(shape[1], kh, sh, top, bottom), _spans(shape[2], kw, sw, left, right)
    return Windows(tuple(shape), rows, columns, kh * kw)


def adaptive_windows(shape: Sequence[int], output: Pair) -> Windows:
    """As many windows as are asked for, whatever the image's size; they may overlap. One: the whole image."""

    def spans(size: int, count: int) -> list[range]:
        return [range(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]

    oh, ow = both(output)
    return Windows(tuple(shape), spans(shape[1], oh), spans(shape[2], ow), None)


# -- one element -----------------------------------------------------------------------------------


def max_at(x: Sequence[Any], windows: Windows, place: Place) -> int:
    """The flat index of the input that wins: the first of the greatest."""
    return max(windows.members(place), key=lambda i: x[i])  # of equal ones `max` keeps the first


def max_grad_at(e: Sequence[Any], x: Sequence[Any], windows: Windows, place: Place) -> list[Any]:
    """The errors that come back to an input element, in order; exact ones are added, float32 by `chain32`."""
    own = index_of(place, windows.shape)
    won = [reader for reader in windows.readers(place) if max_at(x, windows, reader) == own]
    return [e[index_of(reader, windows.output)] for reader in won]


def avg_at(x: Sequence[Any], windows: Windows, place: Place) -> Fraction:
    """The exact mean of one window."""
    return Fraction(sum(x[i] for i in windows.members(place))) / windows.size(place[1], place[2])


def avg32_at(x: Sequence[Any], windows: Windows, place: Place) -> Fraction:
    """The float32 mean of one window."""
    return div32(chain32([x[i] for i in windows.members(place)]), windows.size(place[1], place[2]))


def avg_grad_at(e: Sequence[Any], windows: Windows, place: Place) -> Fraction:
    """dx of an input element, exact: the sum of e / size over the windows that hold it."""
    output = windows.output
    parts = [Fraction(e[index_of(at, output)]) / windows.size(at[1], at[2]) for at in windows.readers(place)]
    return sum(parts, Fraction(0))


def avg32_grad_at(e: Sequence[Any], windows: Windows, place: Place) -> Fraction:
    """dx of an input element in float32: divisions first, then plain additions."""
    output, readers = windows.output, windows.readers(place)
    return chain32([div32(e[index_of(at, output)], windows.size(at[1], at[2])) for at in readers])


# -- whole tensors ---------------------------------------------------------------------------------


def max_pool(x: Tensor, kernel: Pair, stride: Pair, padding: Pair = 0) -> tuple[Tensor, list[int]]:
    """The maxima, and the flat input index that won each."""
    windows = windows_of(x.shape, kernel, stride, padding)
    winners = [max_at(x.values, windows, place) for place in places(windows.output)]
    return Tensor(windows.output, [x.values[i] for i in winners]), winners


def _won(e: Tensor, winners: Sequence[int], x_shape: Sequence[int]) -> list[list[Any]]:
    """The errors that come back to each input element, in order of their windows."""
    back: list[list[Any]] = [[] for _ in places(x_shape)]
    for v, index in zip(e.values, winners, strict=True):
        back[index].append(v)
    return back


def max_pool_grad(e: Tensor, winners: Sequence[int], x_shape: Sequence[int]) -> Tensor:
    """Every error goes to the element that won; overlapping windows add exactly."""
    return Tensor(tuple(x_shape), [sum(parts) for parts in _won(e, winners, x_shape)])


def max_pool32_grad(e: Tensor, winners: Sequence[int], x_shape: Sequence[int]) -> Tensor:
    """`max_pool_grad` of float32: plain additions."""
    return Tensor(tuple(x_shape), [chain32(parts) for parts in _won(e, winners, x_shape)])


def pooled(x: Tensor, windows: Windows) -> Tensor:
    """The exact mean of each window."""
    return Tensor(windows.output, [avg_at(x.values, windows, place) for place in places(windows.output)])


def pooled32(x: Tensor, windows: Windows) -> Tensor:
    """The float32 mean of each window."""
    return Tensor(windows.output, [avg32_at(x.values, windows, place) for place in places(windows.output)])


def pooled_grad(e: Tensor, windows: Windows) -> Tensor:
    """The gradient of means, exact."""
    return Tensor(windows.shape, [avg_grad_at(e.values, windows, place) for place in places(windows.shape)])


def pooled32_grad(e: Tensor, windows: Windows) -> Tensor:
    """The gradient of means in float32."""
    shape = windows.shape
    return Tensor(shape, [avg32_grad_at(e.values, windows, place) for place in places(shape)])
