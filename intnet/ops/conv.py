"""conv2d with stride, padding and groups.

    y[n, oy, ox, o] = sum over ky, kx, c of x[n, oy*sh + ky - ph, ox*sw + kx - pw, c] * w[o, c, ky, kx]

x (N, H, W, Cin), w (Cout, Cin/groups, kh, kw) as in PyTorch, y (N, Ho, Wo, Cout). Integers: exact
sums, exponents add. float32: the defined sequence of `kernels/float32.py`.
"""

from typing import Any

from intnet.autograd import Op, Saved
from intnet.errors import ShapeError
from intnet.ops.kernels import conv as integer
from intnet.ops.kernels import float32
from intnet.ops.linear import exact_product, operands

Pair = tuple[int, int]


def _check(x: Any, w: Any, stride: Pair, padding: Pair, groups: int, where: str) -> None:
    name = where or "conv2d"
    if len(x.shape) != 4 or len(w.shape) != 4:
        raise ShapeError(f"{name}: input {x.shape} is not (N, H, W, C) or weights {w.shape} not (Cout, Cin, kh, kw)")
    if w.shape[0] % groups or x.shape[3] != w.shape[1] * groups:
        raise ShapeError(
            f"{name}: the input has {x.shape[3]} channels, the weights {w.shape} with {groups} group(s) "
            f"take {w.shape[1] * groups}"
        )
    for axis in (0, 1):
        if integer.output_size(x.shape[1 + axis], w.shape[2 + axis], stride[axis], padding[axis]) < 1:
            raise ShapeError(f"{name}: the kernel {w.shape[2:]} does not fit the input {x.shape[1:3]}, padding {padding}")


def _conv2d(
    saved: Saved, x: Any, w: Any, *, stride: Pair = (1, 1), padding: Pair = (0, 0), groups: int = 1, where: str = ""
) -> Any:
    is_integer = operands(x, w, f"{where or 'conv2d'}: conv2d")
    _check(x, w, stride, padding, groups, where)
    saved.x, saved.w, saved.window, saved.where = x, w, (stride, padding, groups), where
    if is_integer:
        terms = w.shape[1] * w.shape[2] * w.shape[3]
        return exact_product(x, w, terms, lambda a, b, how: integer.forward(a, b, *saved.window, how), where)
    return float32.conv2d(x, w, *saved.window)


def _conv2d_vjp(saved: Saved, e: Any) -> tuple[Any, Any]:
    x, w, window, where = saved.x, saved.w, saved.window, saved.where
    size, kernel = x.shape[1:3], w.shape[2:]
    dx = dw = None
    if operands(e, w, f"{where or 'conv2d'}: gradient"):
        if saved.needs[0]:
            terms = w.shape[0] // window[2] * kernel[0] * kernel[1]
            dx = exact_product(e, w, terms, lambda a, b, how: integer.input_grad(a, b, size, *window, how), where)
        if saved.needs[1]:
            terms = e.shape[0] * e.shape[1] * e.shape[2]
            dw = exact_product(e, x, terms, lambda a, b, how: integer.weight_grad(a, b, kernel, *window, how), where)
    else:
        if saved.needs[0]:
            dx = float32.conv2d_input_grad(e, w, size, *window)
        if saved.needs[1]:
            dw = float32.conv2d_weight_grad(e, x, kernel, *window)
    return dx, dw


conv2d = Op("conv2d", _conv2d, _conv2d_vjp)
