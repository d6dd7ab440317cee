"""conv2d with stride, padding and groups.

    y[n, oy, ox, o] = sum over ky, kx, c of x[n, oy*sh + ky - ph, ox*sw + kx - pw, c] * w[o, c, ky, kx]

x (N, H, W, Cin), w (Cout, Cin/groups, kh, kw) as in PyTorch, y (N, Ho, Wo, Cout). Integers: exact
sums, exponents add (`bilinear.py`), of affine codes times their scales. Block float: the exact sum, rounded
once to float32 (`blocks.py`). `accumulator=Narrow(..)` has a forward sum of integers in so many bits
(`narrow.py`); gradients are those of the exact sum.
float32: the defined sequence of `kernels/float_products.py`, in a backward pass also where only the error is
one.

Defined by `spec/products.py: forward`, `spec/products.py: input_error`, `spec/products.py: weight_gradient`,
`spec/convolution.py: conv2d`, `spec/convolution.py: conv32`.
"""

from functools import partial
from typing import Any

from intnet.autograd import Keep, Op, Saved, as_it_is, loaded
from intnet.errors import ShapeError
from intnet.numbers import shares
from intnet.numbers.accumulators import Narrow
from intnet.ops import narrow
from intnet.ops.bilinear import FLOATS, bifurcated, copies, float_operands, operands, over_batch
from intnet.ops.blocks import PRODUCTS
from intnet.ops.kernels import float_products as float32
from intnet.ops.kernels import int_products
from intnet.ops.kernels.windows import Pair, forward_windows


def _check(x: Any, w: Any, stride: Pair, padding: Pair, groups: int, where: str) -> None:
    name = where or "conv2d"
    if len(x.shape) != 4 or len(w.shape) != 4:
        raise ShapeError(f"{name}: needs (N, H, W, C) and (Cout, Cin, kh, kw), got {x.shape} and {w.shape}")
    if groups < 1 or w.shape[0] % groups or x.shape[3] != w.shape[1] * groups:
        raise ShapeError(
            f"{name}: the input has {x.shape[3]} channels, the weights {w.shape} with {groups} group(s) "
            f"take {w.shape[1] * groups}"
        )
    grid = forward_windows(x.shape[1:3], w.shape[2:], stride, padding).grid
    if grid.rows < 1 or grid.cols < 1:
        raise ShapeError(
            f"{name}: kernel {w.shape[2:]} does not fit the input {x.shape[1:3]} with padding {padding}"
        )


def _conv2d(
    saved: Saved,
    x: Any,
    w: Any,
    *,
    stride: Pair = (1, 1),
    padding: Pair = (0, 0),
    groups: int = 1,
    keep: Keep = as_it_is,
    accumulator: Narrow | None = None,
    where: str = "",
) -> Any:
    (x, read), (w, saved.w) = copies(x), copies(w)
    kind = operands(x, w, f"{where or 'conv2d'}: conv2d")
    _check(x, w, stride, padding, groups, where)
    saved.window, saved.hw, saved.where = (stride, padding, groups), x.shape[1:3], where
    if saved.needs[1]:
        saved.x = keep(read)
    if accumulator is not None:
        return narrow.conv2d(x, w, saved.window, accumulator, where)
    if kind == FLOATS:
        return float32.conv2d(x, w, *saved.window)
    terms = w.shape[1] * w.shape[2] * w.shape[3]
    return PRODUCTS[kind](x, w, terms, partial(int_products.forward, window=saved.window), where)


def _conv2d_vjp(saved: Saved, error: Any) -> tuple[Any, Any]:
    (e, e_weight), window, where = bifurcated(error), saved.window, saved.where
    (w,) = float_operands(e, saved.w)
    kind, kernel = operands(e, w, f"{where or 'conv2d'}: gradient"), w.shape[2:]
    dx: Any = None
    dw: Any = None
    if saved.needs[0] and kind == FLOATS:
        dx = float32.conv2d_input_grad(e, w, saved.hw, *window)
    elif saved.needs[0]:
        input_grad = partial(int_products.input_grad, window=window, input_hw=saved.hw)
        dx = PRODUCTS[kind](e, w, w.shape[0] // window[2] * kernel[0] * kernel[1], input_grad, where)
    if saved.needs[1]:
        (x,) = float_operands(e, loaded(saved.x))
        if kind == FLOATS:
            dw = shares.folded(lambda e, x: float32.conv2d_weight_grad(e, x, kernel, *window), e_weight, x)
        else:
            weight_grad = partial(int_products.weight_grad, window=window, kernel=kernel)
            dw = over_batch(kind, e_weight, x, e.size // e.shape[3], weight_grad, where)
    return dx, dw


conv2d = Op("conv2d", _conv2d, _conv2d_vjp)
