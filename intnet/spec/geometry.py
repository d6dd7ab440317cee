"""Which pairs of elements a convolution multiplies, in the contract's order; `ops` and `floats` sum them.

Activations are NHWC, weights (Cout, Cin/groups, kh, kw). Index -1 stands for a zero: padding, or a
position that the stride skips. Such a term keeps its place in the order.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

Pair = int | Sequence[int]
Terms = list[tuple[int, int]]
Dot = Callable[[list[Any], list[Any]], Any]


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
    """The sizes of the convolution of an NHWC input shape with an OIHW weight shape."""
    n, h, width, c = x
    o, cg, kh, kw = w
    if c != cg * groups or o % groups:
        raise ValueError(f"{c} channels and weight {tuple(w)} do not fit {groups} groups")
    (sh, sw), (top, bottom, left, right) = both(stride), pads(padding)
    oh, ow = (h + top + bottom - kh) // sh + 1, (width + left + right - kw) // sw + 1
    return ConvShape(n, h, width, c, o, cg, kh, kw, sh, sw, top, left, oh, ow, groups)


def forward_terms(g: ConvShape) -> Iterator[Terms]:
    """(input, weight) pairs of every output element; order: kernel row, kernel column, input channel."""
    for n in range(g.n):
        for y in range(g.oh):
            for x in range(g.ow):
                for o in range(g.o):
                    first = o // (g.o // g.groups) * g.cg
                    yield [
                        (g.x(n, y * g.sh + i - g.top, x * g.sw + j - g.left, first + c), g.wt(o, c, i, j))
                        for i in range(g.kh)
                        for j in range(g.kw)
                        for c in range(g.cg)
                    ]


def input_terms(g: ConvShape) -> Iterator[Terms]:
    """(error, weight) pairs of every input element; order: kernel row, kernel column, output channel."""
    og = g.o // g.groups
    for n in range(g.n):
        for y in range(g.h):
            for x in range(g.w):
                for c in range(g.c):
                    group, inner = c // g.cg, c % g.cg
                    terms: Terms = []
                    for i in range(g.kh):
                        for j in range(g.kw):
                            oy, ry = divmod(y + g.top - i, g.sh)
                            ox, rx = divmod(x + g.left - j, g.sw)
                            hit = ry == 0 and rx == 0 and 0 <= oy < g.oh and 0 <= ox < g.ow
                            for o in range(group * og, (group + 1) * og):
                                terms.append((g.e(n, oy, ox, o) if hit else -1, g.wt(o, inner, i, j)))
                    yield terms


def weight_terms(g: ConvShape) -> Iterator[Terms]:
    """(input, error) pairs of every weight; order: batch, output row, output column."""
    for o in range(g.o):
        first = o // (g.o // g.groups) * g.cg
        for c in range(g.cg):
            for i in range(g.kh):
                for j in range(g.kw):
                    yield [
                        (g.x(n, y * g.sh + i - g.top, x * g.sw + j - g.left, first + c), g.e(n, y, x, o))
                        for n in range(g.n)
                        for y in range(g.oh)
                        for x in range(g.ow)
                    ]


def contract(all_terms: Iterable[Terms], a: Sequence[Any], b: Sequence[Any], dot: Dot) -> list[Any]:
    """`dot` over the pairs of each result element; index -1 of `a` reads zero."""
    return [
        dot([a[p] if p >= 0 else 0 for p, _ in terms], [b[q] for _, q in terms]) for terms in all_terms
    ]


def windows(h: int, w: int, kernel: Pair, stride: Pair, padding: Pair) -> list[list[tuple[int, int]]]:
    """The in-image positions (row, column) of every pooling window, each in row-major order."""
    (kh, kw), (sh, sw), (top, bottom, left, right) = both(kernel), both(stride), pads(padding)
    out = []
    for oy in range((h + top + bottom - kh) // sh + 1):
        for ox in range((w + left + right - kw) // sw + 1):
            inside = [
                (y, x)
                for y in range(oy * sh - top, oy * sh - top + kh)
                for x in range(ox * sw - left, ox * sw - left + kw)
                if 0 <= y < h and 0 <= x < w
            ]
            out.append(inside)
    return out
