"""Which pairs of elements a convolution multiplies, and which ones a window pools, in the contract's order.

`CONV` and `LINEAR` are the equations of the three products, x1 = w * x0, e4 = w^T e3 and gW = e3 x0^T, and
`BORDERS` what they read outside. Sums run over their indices in the order written, the last one fastest: to
exact sums that is nothing, of float32 it is intnet's contract. Activations are (N, H, W, C), weights (Cout,
Cin/groups, kh, kw), both flat lists in C order.

The terms of one element are *runs*: pairs of ranges of flat indices. None in place of a first range stands
for as many zeros: padding, or a position that the stride skips. Such terms keep their place in the order.

>>> g = conv_shape((1, 1, 3, 1), (1, 1, 1, 2), padding=(0, 1))      # 0 a b c 0 by a kernel of p q
>>> gathered(["a", "b", "c"], ["p", "q"], forward_runs(g, 0, 0, 0, 0))
([0, 'a'], ['p', 'q'])
>>> weight_runs(g, 0, 0, 0, 0)
[(None, range(0, 1)), (range(0, 3), range(1, 4))]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from intnet.spec.tensor import places

# As golden packs print them; x, w and e stand for the ports that a method multiplies.
CONV = {
    "x1": "sum over (i, j, c) of {x}[n, y*sh + i - top, x*sw + j - left, g*cg + c] * {w}[o, c, i, j]",
    "e4": "sum over (i, j, o) of {e}[n, (y + top - i) / sh, (x + left - j) / sw, g*og + o] *"
    " {w}[g*og + o, k, i, j]",
    "gW": "sum over (n, y, x) of {x}[n, y*sh + i - top, x*sw + j - left, g*cg + c] * {e}[n, y, x, o]",
    "gb": "sum over (n, y, x) of {e}[n, y, x, o]",
}
LINEAR = {
    "x1": "sum over c of {x}[n, c] * {w}[o, c]",
    "e4": "sum over o of {e}[n, o] * {w}[o, c]",
    "gW": "sum over n of {x}[n, c] * {e}[n, o]",
    "gb": "sum over n of {e}[n, o]",
}
INDEXED = {  # the element that each of them is
    "conv": {"x1": "[n, y, x, o]", "e4": "[n, y, x, g*cg + k]", "gW": "[o, c, i, j]", "gb": "[o]"},
    "linear": {"x1": "[n, o]", "e4": "[n, c]", "gW": "[o, c]", "gb": "[o]"},
}
BORDERS = (
    "n is the image, y and x a row and a column, o a channel of the output, i and j a row and a column of the"
    " kernel, c one of the cg = Cin / groups channels that a weight has. g is the group: o // og of an output"
    " channel, og = Cout / groups; in e4 k < cg and o < og count inside the group. A term that reads outside"
    " the image is 0, and in e4 one whose quotient is no whole number or no place of e3."
)

Pair = int | Sequence[int]
Run = tuple[range | None, range]
Terms = list[tuple[int, int]]


class ConvShape(NamedTuple):
    """All sizes of one convolution."""

    n: int
    h: int
    w: int
    c: int
    o: int
    cg: int
    kh: int
    kw: int
    sh: int
    sw: int
    top: int
    left: int
    oh: int
    ow: int
    groups: int

    def x(self, n: int, y: int, x: int, c: int) -> int:
        """The flat index of an input element, -1 outside the image."""
        if not (0 <= y < self.h and 0 <= x < self.w):
            return -1
        return ((n * self.h + y) * self.w + x) * self.c + c

    def e(self, n: int, y: int, x: int, o: int) -> int:
        """The flat index of an output element."""
        return ((n * self.oh + y) * self.ow + x) * self.o + o

    def wt(self, o: int, c: int, i: int, j: int) -> int:
        """The flat index of a weight."""
        return ((o * self.cg + c) * self.kh + i) * self.kw + j


def pads(padding: Pair) -> tuple[int, int, int, int]:
    """(top, bottom, left, right) of an int, of (vertical, horizontal), or of all four."""
    if isinstance(padding, int):
        return padding, padding, padding, padding
    if len(padding) == 2:
        return padding[0], padding[0], padding[1], padding[1]
    top, bottom, left, right = padding
    return top, bottom, left, right


def both(pair: Pair) -> tuple[int, int]:
    """(vertical, horizontal) of an int or of a pair."""
    return (pair, pair) if isinstance(pair, int) else (pair[0], pair[1])


def conv_shape(
    x: Sequence[int], w: Sequence[int], stride: Pair = 1, padding: Pair = 0, groups: int = 1
) -> ConvShape:
    """The sizes of the convolution of an NHWC input shape with an OIHW weight shape.

    (N, C) are images of one pixel, (O, C) kernels of one tap: a linear layer.
    """
    n, h, width, c = x if len(x) == 4 else (x[0], 1, 1, x[1])
    o, cg, kh, kw = w if len(w) == 4 else (*w, 1, 1)
    if c != cg * groups or o % groups:
        raise ValueError(f"{c} channels and weight {tuple(w)} do not fit {groups} groups")
    (sh, sw), (top, bottom, left, right) = both(stride), pads(padding)
    oh, ow = (h + top + bottom - kh) // sh + 1, (width + left + right - kw) // sw + 1
    return ConvShape(n, h, width, c, o, cg, kh, kw, sh, sw, top, left, oh, ow, groups)


# -- the terms of one element ----------------------------------------------------------------------


def forward_runs(g: ConvShape, n: int, y: int, x: int, o: int) -> list[Run]:
    """(input, weight) of output element (n, y, x, o): kernel row, kernel column, input channel."""
    first = o // (g.o // g.groups) * g.cg
    runs: list[Run] = []
    for i in range(g.kh):
        for j in range(g.kw):
            at = g.x(n, y * g.sh + i - g.top, x * g.sw + j - g.left, first)
            weights = g.wt(o, 0, i, j)
            taps = g.kh * g.kw
            runs.append((None if at < 0 else range(at, at + g.cg), _every(taps, weights, g.cg)))
    return runs


def input_runs(g: ConvShape, n: int, y: int, x: int, c: int) -> list[Run]:
    """(error, weight) of input element (n, y, x, c): kernel row, kernel column, output channel.

    A tap that no output reads here, for padding or because the stride skips it, is a run of zeros.
    """
    og = g.o // g.groups
    group, inner = divmod(c, g.cg)
    runs: list[Run] = []
    for i in range(g.kh):
        for j in range(g.kw):
            oy, ry = divmod(y + g.top - i, g.sh)
            ox, rx = divmod(x + g.left - j, g.sw)
            hit = ry == 0 and rx == 0 and 0 <= oy < g.oh and 0 <= ox < g.ow
            at = g.e(n, oy, ox, group * og)
            weights = _every(g.cg * g.kh * g.kw, g.wt(group * og, inner, i, j), og)
            runs.append((range(at, at + og) if hit else None, weights))
    return runs


def weight_runs(g: ConvShape, o: int, c: int, i: int, j: int) -> list[Run]:
    """(input, error) of weight (o, c, i, j): image, output row, output column.

    Of a row, the columns that read padding on the left or on the right are runs of zeros.
    """
    channel = o // (g.o // g.groups) * g.cg + c
    if g.kh == g.kw == g.sh == g.sw == 1 and (g.oh, g.ow) == (g.h, g.w):  # every position, as it lies
        count = g.n * g.h * g.w
        return [(_every(g.c, channel, count), _every(g.o, o, count))]
    first = min(max(-((j - g.left) // g.sw), 0), g.ow)  # the first column with x * sw + j - left >= 0
    past = min(max((g.w - 1 + g.left - j) // g.sw + 1, first), g.ow)
    runs: list[Run] = []
    for n in range(g.n):
        for y in range(g.oh):
            row, e = y * g.sh + i - g.top, g.e(n, y, 0, o)
            errors = range(e, e + g.ow * g.o, g.o)
            if not 0 <= row < g.h or first == past:
                runs.append((None, errors))
                continue
            inputs = _every(g.sw * g.c, g.x(n, row, first * g.sw + j - g.left, channel), past - first)
            parts = (None, errors[:first]), (inputs, errors[first:past]), (None, errors[past:])
            runs += [run for run in parts if run[1]]
    return runs


def _every(step: int, first: int, count: int) -> range:
    return range(first, first + step * count, step)


def gathered(a: Sequence[Any], b: Sequence[Any], runs: Sequence[Run]) -> tuple[list[Any], list[Any]]:
    """The terms of `runs` out of two flat lists: two lists of one length, zeros where a run has None."""
    left: list[Any] = []
    right: list[Any] = []
    for p, q in runs:
        left += [0] * len(q) if p is None else a[p.start : p.stop : p.step]
        right += b[q.start : q.stop : q.step]
    return left, right


# -- the terms of every element --------------------------------------------------------------------


def forward_terms(g: ConvShape) -> Iterator[Terms]:
    """(input, weight) pairs of every output element, in C order."""
    return (_pairs(forward_runs(g, *place)) for place in places((g.n, g.oh, g.ow, g.o)))


def _pairs(runs: Sequence[Run]) -> Terms:
    return [pair for p, q in runs for pair in zip([-1] * len(q) if p is None else p, q, strict=True)]
