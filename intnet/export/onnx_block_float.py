"""Block float by the image as nodes of ONNX: `program.Scaled` and `program.Norm` for `onnx_graph.Graph`.

As `block_float.py` has them, whose tables they read: extremes by ReduceMax, the step by how many limits they
are beyond (Greater, ReduceSum), powers of two by Gather. Exponents are int64 (N,), integers int64; batch norm
is float32, an operation a node; its codes are Round of float64, ties to even, where powers of two are exact.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import DTypeLike

from intnet.export import block_float
from intnet.export import program as p
from intnet.export.onnx_graph import Graph
from intnet.export.values import Value


def scaled(
    g: Graph, op: p.Scaled, read: Sequence[Value], names: Sequence[str], exponents: Sequence[str]
) -> tuple[str, str]:
    """(codes, their exponent); exponents: of what it reads."""
    total, exponent, rank = names[0], exponents[0], len(read[0].shape)
    if len(op.terms(*read)) == 2:
        terms, es = list(names), list(exponents)
        live = [g.node("Greater", [_greatest(g, g.node("Abs", [x]), rank), g.constant([0])]) for x in terms]
        if op.b is not None:
            terms.append(g.channel(op.b, read[0]))
            es.append(g.constant([op.exponent]))
            live.append(g.constant([np.any(op.b)], np.bool_))
        *raises, exponent = _meeting(g, op.rooms(*read), live, es)
        total = g.node("Add", [_raised(g, x, by, rank) for x, by in zip(terms, raises, strict=True)])
    if op.rectified:
        total = g.node("Max", [total, g.constant([0])])
    step, some = _step(g, op, total, rank, np.int64)
    num, den = (_each(g, _power(g, by), rank) for by in (g.node("Neg", [step]), step))
    den = g.node("Mul", [den, g.constant([op.den])])
    codes = g.divided(g.node("Mul", [total, num]), den)
    return _ends(g, op.wl, codes, some, g.node("Add", [exponent, step]))


def norm(g: Graph, op: p.Norm, read: Value, x: str, exponent: str) -> tuple[str, str]:
    """(codes, their exponent)."""
    rank = len(read.shape)
    real = g.node("Mul", [g.cast(x, np.float64), _each(g, float_power(g, exponent), rank)])
    made = g.cast(normed(g, op, read, g.cast(real, np.float32)), np.float64)
    step, some = _step(g, op, made, rank, np.float64)
    per = _each(g, float_power(g, g.node("Neg", [step])), rank)
    codes = g.cast(g.node("Round", [g.node("Mul", [made, per])]), np.int64)
    return _ends(g, op.wl, codes, some, step)


def normed(g: Graph, op: p.Norm, read: Value, x: str) -> str:
    """((x - mean) r) gamma + beta of float32."""
    for kind, constant in zip(("Sub", "Mul", "Mul", "Add"), op.constants.values(), strict=True):
        x = g.node(kind, [x, g.channel(constant, read, np.float32)])
    return x


def _ends(g: Graph, wl: int, codes: str, some: str, exponent: str) -> tuple[str, str]:
    half = 1 << wl - 1
    codes = g.node("Clip", [codes, g.constant(-half), g.constant(half - 1)])
    return codes, g.node("Where", [some, exponent, g.constant([2 - wl])])


def _greatest(g: Graph, x: str, rank: int) -> str:
    """(N,): of every image."""
    return g.node("ReduceMax", [x], axes=list(range(1, rank + 1)), keepdims=0)


def _step(g: Graph, op: p.Scaled | p.Norm, x: str, rank: int, kind: DTypeLike) -> tuple[str, str]:
    """(exponent of a step, whether an element is not 0), of every image."""
    table, top, low = block_float.limits(op), _greatest(g, x, rank), _greatest(g, g.node("Neg", [x]), rank)
    counts = []
    for extreme, limits in ((top, table.above), (low, table.below)):
        column = g.node("Reshape", [extreme, g.constant([-1, 1])])
        beyond = g.cast(g.node("Greater", [column, g.constant(limits, kind)]), np.int64)
        counts.append(g.node("ReduceSum", [beyond, g.constant([1])], keepdims=0))
    step = g.node("Gather", [g.constant(table.exponents), g.node("Max", counts)])
    some = g.node("Greater", [g.node("Max", [top, low]), g.constant([0], kind)])
    return step, some


def _each(g: Graph, v: str, rank: int) -> str:
    """(N,) against the elements of an image or a row."""
    return g.node("Reshape", [v, g.constant([-1, *[1] * rank])])


def _power(g: Graph, e: str) -> str:
    """2^e, of e below 0 1."""
    most = block_float.INT - 1
    held = g.node("Clip", [e, g.constant(0), g.constant(most)])
    return g.node("Gather", [g.constant([1 << k for k in range(most + 1)]), held])


def float_power(g: Graph, e: str) -> str:
    """2^e as float64; far below what float32 knows, 0 or as good as that."""
    first, last = block_float.EXPONENTS[0], block_float.EXPONENTS[-1]
    held = g.node("Clip", [e, g.constant(first), g.constant(last)])
    powers = g.constant(np.ldexp(1.0, np.array(block_float.EXPONENTS)), np.float64)
    return g.node("Gather", [powers, g.node("Sub", [held, g.constant([first])])])


def _raised(g: Graph, x: str, by: str, rank: int) -> str:
    """x 2^by; of by < 0 its floor, made odd where that is not exact."""
    down = _each(g, _power(g, g.node("Neg", [by])), rank)
    up = g.node("Mul", [x, _each(g, _power(g, by), rank)])
    rest = g.node("Mod", [up, down])
    floor = g.node("Div", [g.node("Sub", [up, rest]), down])
    even = g.node("Equal", [g.node("Mod", [floor, g.constant([2])]), g.constant([0])])
    cut = g.node("Greater", [rest, g.constant([0])])
    return g.node("Add", [floor, g.cast(g.node("And", [cut, even]), np.int64)])


def _meeting(g: Graph, rooms: Sequence[int], live: Sequence[str], e: Sequence[str]) -> tuple[str, str, str]:
    """As `block_float.meeting`."""
    apart = g.node("Where", [g.node("And", list(live)), g.node("Sub", [e[0], e[1]]), g.constant([0])])
    up = g.node("Clip", [apart, g.constant(-rooms[1]), g.constant(rooms[0])])
    x = g.node("Where", [g.node("Greater", [apart, g.constant([0])]), up, g.node("Sub", [apart, up])])
    y = g.node("Sub", [x, apart])
    found = [g.node("Sub", [one, by]) for one, by in zip(e, (x, y), strict=True)]
    return x, y, g.node("Where", [live[0], *found])
