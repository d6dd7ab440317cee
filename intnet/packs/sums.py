"""Sums of products as devices get them wrong: in another order, without fused multiply-adds, in narrow sums.

    diagnose("x1", operands, window, want, got) -> [Verdict, ...]

The terms of every wrong element come from the definition (`spec.geometry`), the device's own operands from
the walk; each way of adding is tried on the wrong elements, and one that gives them all on all others.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from intnet.packs.diagnosis import Verdict, ranked
from intnet.spec import convolution as conv
from intnet.spec import float32 as floats
from intnet.spec.geometry import ConvShape, conv_shape
from intnet.spec.tensor import Fixed, Tensor, places

Add = Callable[[Sequence[int], Sequence[int]], int]
FEW = 24  # wrong elements that decide which ways are tried on all
LEAST_BITS = 8  # of an accumulator


def diagnose(
    path: str, held: Mapping[str, Any], window: Mapping[str, Any], want: np.ndarray, got: np.ndarray
) -> list[Verdict]:
    """The ways of adding that give every element, else the closest; none where operands are missing.

    path: 'x1', 'e4' or 'gW'; held: what the layer stored by path; want, got: flat elements
    """
    found = _operands(path, held, window)
    if found is None:
        return []
    a, b, g, shape, element = found
    floating = isinstance(held["x0"], Tensor) and isinstance(_weight(held), Tensor)
    wrong = np.flatnonzero(want != got)
    at = list(places(shape))
    made = []
    for name, add in _ways(path, g, want, floating).items():
        give = partial(_elements, a, b, g, element, add, floating)
        few = wrong[:FEW]
        if np.any(give([at[i] for i in few]) == got[few]):
            made.append(Verdict.of(name, give(at) == got, wrong))
    return ranked(made)


def _weight(held: Mapping[str, Any]) -> Any:
    return held.get("Wq", held.get("W"))


def _operands(path: str, held: Mapping[str, Any], window: Mapping[str, Any]) -> Any:
    """(the first factor, the second, sizes, the result's shape, the rule of an element), flat and whole."""
    x0, w, e3 = held.get("x0"), _weight(held), held.get("e3")
    wide = held.get("e3w", e3), held.get("x0b", x0)  # of `mx`, which rounds an operand for each product
    pairs: dict[str, tuple[Any, Any]] = {"x1": (x0, w), "e4": (e3, held.get("Wb", w)), "gW": wide}
    first, second = pairs[path]
    if not all(isinstance(one, Fixed | Tensor) for one in (first, second, x0, w)):
        return None
    assert x0 is not None and w is not None
    g = conv_shape(x0.shape, w.shape, window["stride"], window["padding"], window.get("groups", 1))
    shapes = {"x1": (g.n, g.oh, g.ow, g.o), "e4": (g.n, g.h, g.w, g.c), "gW": (g.o, g.cg, g.kh, g.kw)}
    rules = {
        "x1": conv.conv2d_at, "e4": conv.conv2d_input_grad_at, "gW": conv.conv2d_weight_grad_at,
    }  # fmt: skip
    return _whole(first), _whole(second), g, shapes[path], rules[path]


def _whole(value: Fixed | Tensor) -> list[int]:
    """Codes, or float32 in units."""
    return list(value.codes) if isinstance(value, Fixed) else floats.all_units(value.values)


def _elements(
    a: list[int], b: list[int], g: ConvShape, element: Any, add: Add, floating: bool, at: Sequence[Any]
) -> np.ndarray:
    """The words that a way of adding gives."""
    made = [element(a, b, g, place, add) for place in at]
    return np.array([floats.bits_of(v) for v in made] if floating else made, np.int64)


# -- ways of adding ------------------------------------------------------------------------------


def _ways(path: str, g: ConvShape, want: np.ndarray, floating: bool) -> dict[str, Add]:
    """By name."""
    if floating:
        return _float_ways(path, g)
    most = int(np.abs(want).max(initial=0)).bit_length()
    return {
        f"the accumulator saturates at {bits} bits": partial(_saturating, bits)
        for bits in range(most + 1, LEAST_BITS - 1, -1)
    }


def _saturating(bits: int, a: Sequence[int], b: Sequence[int]) -> int:
    """Limited after every product."""
    half, total = 1 << bits - 1, 0
    for p, q in zip(a, b, strict=True):
        total = max(-half, min(half - 1, total + p * q))
    return total


def _float_ways(path: str, g: ConvShape) -> dict[str, Add]:
    """Orders, and roundings on the way."""
    whole: Add = conv.batch_dot(g) if path == "gW" else floats.dot_units
    ways: dict[str, Add] = {
        "a float sum whose products are rounded (no fused multiply-add)": _products_rounded(path, g),
        "a float sum in the opposite order": lambda a, b: whole(a[::-1], b[::-1]),
        "a float sum without chunks of 1024 terms": _plain_chain,
        "a float sum in pairs, a tree": lambda a, b: floats.tree_units(list(map(floats.mul_units, a, b))),
        "a float sum that is exact, rounded once": _once,
    }
    if path == "gW":
        ways["a float sum without groups of 16 images"] = floats.dot_units
    inner = {"x1": g.cg, "e4": g.o // g.groups}.get(path)
    if inner is not None:
        ways["a float sum in another order: the channel first, then row and column of the kernel"] = (
            lambda a, b: whole(_turned(a, inner), _turned(b, inner))
        )
    else:
        ways["a float sum in another order: row and column first, then the image"] = lambda a, b: (
            floats.dot_units(_turned(a, g.oh * g.ow), _turned(b, g.oh * g.ow))
        )
    return ways


def _turned(terms: Sequence[int], inner: int) -> list[int]:
    """Terms whose fastest index, of `inner`, becomes the slowest."""
    return [term for k in range(inner) for term in terms[k::inner]]


def _products_rounded(path: str, g: ConvShape) -> Add:
    """Every product is a float32 ahead of its addition."""

    def add(a: Sequence[int], b: Sequence[int]) -> int:
        terms = list(map(floats.mul_units, a, b))
        if path == "gW":
            return floats.batch_sum_units(terms, g.oh * g.ow)
        return floats.sum_units(terms)

    return add


def _plain_chain(a: Sequence[int], b: Sequence[int]) -> int:
    """Fused multiply-adds from the first term to the last."""
    total = 0
    for p, q in zip(a, b, strict=True):
        total = floats.fma_units(p, q, total)
    return total


def _once(a: Sequence[int], b: Sequence[int]) -> int:
    return floats.nearest_units(conv.exact_dot(a, b), floats.ONE)
