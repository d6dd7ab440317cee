"""Convolutions, linear layers and their gradients: exact sums, and float32 sums in the contract's order.

    conv2d   y = w * x      conv2d_input_grad   dx = w^T e      conv2d_weight_grad   dw = e x^T

In WAGEUBN's symbols x1 = Wq x0 (2), e4 = Wq^T e3 (3) and gW = e3 x0^T (4), exact; a float32 method has the
same products rounded. A linear layer is a convolution of images of one pixel by a kernel of one: every
function takes x as (N, C), w as (O, C) and e as (N, O) too. `geometry` has the equations with all indices and
the order of their terms. An element rule (`..._at`) makes one element out of flat lists by a `dot`:
`exact_dot` of integers or Fractions; `float32.dot_units` of float32 in units; the weight gradient sums over
the batch, so its float32 rule is `float32.batch_dot_units` of g.oh * g.ow terms an image. Whole tensors are
comprehensions over the element rules: `conv2d` is exact, `conv32` float32.

>>> y = conv2d(Tensor((1, 2, 2, 1), [1, 2, 3, 4]), Tensor((1, 1, 2, 2), [1, 0, 0, -1]))
>>> y.values                                # 1 * 1 + 4 * -1
[-3]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import mul
from typing import Any

from intnet.spec.float32 import (
    batch_dot_units,
    dot_units,
    tensor_units,
    tensor_values,
)
from intnet.spec.geometry import (
    ConvShape,
    Pair,
    conv_shape,
    forward_runs,
    gathered,
    input_runs,
    weight_runs,
)
from intnet.spec.tensor import Place, Tensor, places

Dot = Callable[[Sequence[Any], Sequence[Any]], Any]


def exact_dot(a: Sequence[Any], b: Sequence[Any]) -> Any:
    """The exact sum of products."""
    if len(a) != len(b):
        raise ValueError(f"{len(a)} numbers do not meet {len(b)}")
    return sum(map(mul, a, b))


def tiled_dot(tile: int) -> Dot:
    """A dot product as an accumulator holds it that takes `tile` products at a time: sums after each tile.

    >>> tiled_dot(2)([1, 1, 1], [5, 6, 7])
    [11, 18]
    """

    def dot(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
        ends = [*range(tile, len(a), tile), len(a)]
        return [exact_dot(a[:end], b[:end]) for end in ends]

    return dot


def batch_dot(g: ConvShape) -> Dot:
    """The float32 `dot` of a weight gradient, in units: groups of images, then the tree."""
    return partial(batch_dot_units, per_image=g.oh * g.ow)


# -- one element -----------------------------------------------------------------------------------


def conv2d_at(x: Sequence[Any], w: Sequence[Any], g: ConvShape, place: Place, dot: Dot = exact_dot) -> Any:
    """Output element (n, y, x, o) of input x and weight w."""
    return dot(*gathered(x, w, forward_runs(g, *place)))


def conv2d_input_grad_at(
    e: Sequence[Any], w: Sequence[Any], g: ConvShape, place: Place, dot: Dot = exact_dot
) -> Any:
    """Element (n, y, x, c) of the input's gradient, of error e and weight w."""
    return dot(*gathered(e, w, input_runs(g, *place)))


def conv2d_weight_grad_at(
    e: Sequence[Any], x: Sequence[Any], g: ConvShape, place: Place, dot: Dot = exact_dot
) -> Any:
    """Element (o, c, i, j) of the weight's gradient, of error e and input x; float32: dot=batch_dot(g)."""
    return dot(*gathered(x, e, weight_runs(g, *place)))


# -- whole tensors, exact --------------------------------------------------------------------------


def conv2d(
    x: Tensor, w: Tensor, stride: Pair = 1, padding: Pair = 0, groups: int = 1, dot: Dot = exact_dot
) -> Tensor:
    """x (N, H, W, C), w (O, C/groups, kh, kw) to (N, OH, OW, O); of x (N, C) to (N, O)."""
    g = conv_shape(x.shape, w.shape, stride, padding, groups)
    shape = (g.n, g.oh, g.ow, g.o)
    y = [conv2d_at(x.values, w.values, g, place, dot) for place in places(shape)]
    return Tensor(shape if len(x.shape) == 4 else (g.n, g.o), y)


def conv2d_input_grad(
    e: Tensor, w: Tensor, x_shape: Sequence[int], stride: Pair = 1, padding: Pair = 0, groups: int = 1,
    dot: Dot = exact_dot,
) -> Tensor:  # fmt: skip
    """e (N, OH, OW, O) to the gradient of the input, of shape `x_shape`."""
    g = conv_shape(x_shape, w.shape, stride, padding, groups)
    at = places((g.n, g.h, g.w, g.c))
    return Tensor(tuple(x_shape), [conv2d_input_grad_at(e.values, w.values, g, place, dot) for place in at])


def conv2d_weight_grad(
    e: Tensor, x: Tensor, w_shape: Sequence[int], stride: Pair = 1, padding: Pair = 0, groups: int = 1,
    dot: Dot | None = exact_dot,
) -> Tensor:  # fmt: skip
    """e (N, OH, OW, O), x (N, H, W, C) to the gradient of the weight, of shape `w_shape`.

    dot: None is `batch_dot` of the sizes
    """
    g = conv_shape(x.shape, w_shape, stride, padding, groups)
    at, by = places((g.o, g.cg, g.kh, g.kw)), dot or batch_dot(g)
    return Tensor(tuple(w_shape), [conv2d_weight_grad_at(e.values, x.values, g, place, by) for place in at])


# -- whole tensors, float32 ------------------------------------------------------------------------


def conv32(x: Tensor, w: Tensor, stride: Pair = 1, padding: Pair = 0, groups: int = 1) -> Tensor:
    """`conv2d` of float32: fused multiply-adds over (row, column, channel)."""
    return tensor_values(conv2d(tensor_units(x), tensor_units(w), stride, padding, groups, dot_units))


def conv32_input_grad(
    e: Tensor, w: Tensor, x_shape: Sequence[int], stride: Pair = 1, padding: Pair = 0, groups: int = 1
) -> Tensor:
    """`conv2d_input_grad` of float32, over (row, column, output channel)."""
    how = stride, padding, groups, dot_units
    return tensor_values(conv2d_input_grad(tensor_units(e), tensor_units(w), x_shape, *how))


def conv32_weight_grad(
    e: Tensor, x: Tensor, w_shape: Sequence[int], stride: Pair = 1, padding: Pair = 0, groups: int = 1
) -> Tensor:
    """`conv2d_weight_grad` of float32, over (image, row, column): sums over the batch."""
    how = stride, padding, groups, None
    return tensor_values(conv2d_weight_grad(tensor_units(e), tensor_units(x), w_shape, *how))
